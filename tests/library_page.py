"""Writes `docs/library.md` from the `##` lines in `stdlib/`: `python -m tests.library_page`."""

from __future__ import annotations

from pathlib import Path

from dlang.diagnostics import Source
from dlang.grammar import syntax
from dlang.grammar.parser import parse

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/library.md"
MODULES = sorted((ROOT / "stdlib").glob("*.dl"))
HEAD = """\
# The standard library

The functions and types of every module, with the words of its source; `python -m tests.library_page` writes this page
from `stdlib/*.dl`. A module is imported by its name, `import nn`, and its functions are called `nn.relu`; the prelude
needs no import, and what the compiler itself knows of it is in [language.md](language.md#the-prelude).
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *map(_section, MODULES)])


def _section(path: Path) -> str:
    source = Source(path.name, path.read_text(encoding="utf-8"))
    module, problems = parse(source)
    assert not problems, problems
    entries = [entry for item in module.items if (entry := _entry(source.text, item))]
    return "\n".join([f"## `{path.stem}`\n", module.doc.strip() + "\n", *entries]) + "\n"


def _entry(text: str, item: syntax.Item) -> str | None:
    match item:
        case syntax.Fn(name=name, body=body):
            head = text[item.span.start : body.span.start].rstrip().removesuffix("=")
        case syntax.Extern(name=name) | syntax.Struct(name=name) | syntax.Enum(name=name):
            head = text[item.span.start : item.span.end]
        case syntax.Const(name=name):
            head = f"const {name}"
        case _:
            return None
    if name.startswith("_"):
        return None
    shown = " ".join(head[head.index("fn ") + 3 :].split() if "fn " in head else head.split())
    shown = shown.replace("( ", "(").replace(" )", ")")  # of a head that is written in several lines
    words = " ".join(item.doc.strip().split("\n\n")[0].split())
    return f"- `{shown}`" + (f"\\\n  {words}" if words else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
