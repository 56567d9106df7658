"""`make tables`: writes the pages that list what is in the language, from the tables of the compiler and `stdlib/`.

python -m tools.tables           writes docs/library.md, and tables of docs/language.md and docs/semantics.md
python -m tools.tables --check   writes nothing, and exits with 1 if one is stale

A table follows `<!-- elementwise -->`, `<!-- functions -->` and `<!-- prelude -->`: the functions that are a primitive,
the others that the compiler knows, and what `stdlib/prelude.dl` has; in the semantics `<!-- monoids -->`, and
`<!-- operations -->` of libraries.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from dlang.diagnostics import Source
from dlang.grammar import syntax
from dlang.grammar.parser import parse
from dlang.ops.functions import FUNCTIONS
from dlang.ops.linear_algebra import OPERATIONS, Value
from dlang.ops.monoids import MONOIDS, identity
from dlang.ops.primitives import BOOL, WORDS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/library.md"
REFERENCE, SEMANTICS = ROOT / "docs/language.md", ROOT / "docs/semantics.md"
MODULES = sorted((ROOT / "stdlib").glob("*.dl"))
HEAD = """\
# The standard library

The functions and types of every module, with the words of its source: `make tables` writes this page from
`stdlib/*.dl`. A module is imported by its name, `import nn`, and its functions are called `nn.relu`; the prelude needs
no import, and what the compiler itself knows of it is in [language.md](language.md#the-prelude).
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *map(_section, MODULES)])


def _section(path: Path) -> str:
    module = _module(path)
    entries = [f"- `{head}`" + (f"\\\n  {words}" if words else "") for head, words in _entries(path)]
    return "\n".join([f"## `{path.stem}`\n", module.doc.strip() + "\n", *entries]) + "\n"


def _module(path: Path) -> syntax.Module:
    module, problems = parse(Source(path.name, path.read_text(encoding="utf-8")))
    assert not problems, problems
    return module


def _entries(path: Path) -> list[tuple[str, str]]:
    """The head of each declaration of a module, and the first paragraph of what is said of it."""
    return [entry for item in _module(path).items if (entry := _entry(item))]


def _entry(item: syntax.Item) -> tuple[str, str] | None:
    text = item.span.source.text
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
    return shown, " ".join(item.doc.strip().split("\n\n")[0].split())


# ---- the tables of the reference -------------------------------------------------------------------------------------
def elementwise() -> str:
    """The functions that are a primitive."""
    return table((name, w.signature, w.about) for name, w in WORDS.items())


def functions() -> str:
    """The other functions that the compiler knows."""
    effects = {f.name: f" ! {f.effect}" if f.effect and f.scheme else "" for f in FUNCTIONS.values()}
    return table((f.name, f.type + effects[f.name], f.about) for f in FUNCTIONS.values())


def prelude() -> str:
    """The table of the functions and types that are written in the language itself and need no import."""
    rows = []
    for head, words in _entries(ROOT / "stdlib/prelude.dl"):
        declared = re.fullmatch(r"(?:enum )?(\w+)(.*)", head)
        assert declared is not None, f"a declaration without a name: {head}"
        name, type = declared.groups()
        rows.append((name, type.strip(), words))
    return table(rows)


def table(rows: Iterable[tuple[str, str, str]]) -> str:
    """Rows of a name, its type and what it gives."""
    return markdown(("name", "type", "gives"), [(f"`{name}`", f"`{type}`", about) for name, type, about in rows])


# ---- the tables of the semantics -------------------------------------------------------------------------------------
def monoids() -> str:
    """The monoids, with what they are of nothing."""
    first = {"max": "the position of the first largest", "min": "the position of the first smallest"}
    units = {"zero": "0", "one": "1", "least": "the least", "greatest": "the greatest"}
    rows = []
    for m in MONOIDS.values():
        combined = f"`{m.combine}`" if m.combine else first[m.extremum] if m.stays else "the value itself"
        unit = str(identity(m.name, "bool")).lower() if m.domain == BOOL else units[m.unit]
        rows.append((f"`{m.name}`", f"`{m.domain}`", combined, unit, m.derivative or "none"))
    return markdown(("monoid", "values", "combined by", "of nothing", "derivative"), rows)


def operations() -> str:
    """The table of the operations of libraries, with the types of arguments and results."""

    def shown(values: Iterable[Value]) -> str:
        return ", ".join(f"{v.name}: {v.dtype}" + (f"[{', '.join(v.shape)}]" if v.shape else "") for v in values)

    rows = [
        (f"`{o.name}`", f"`({shown(o.arguments)}{', …' if o.several else ''}) -> ({shown(o.results)})`", o.about)
        for o in OPERATIONS.values()
    ]
    return markdown(("operation", "type", "gives"), rows)


# ---- pages -----------------------------------------------------------------------------------------------------------
def markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join([c.replace("|", r"\|") for c in cells]) + " |\n" for cells in lines)


TABLES: dict[Path, dict[str, Callable[[], str]]] = {
    REFERENCE: {"elementwise": elementwise, "functions": functions, "prelude": prelude},
    SEMANTICS: {"monoids": monoids, "operations": operations},
}


def with_tables(path: Path) -> str:
    """The text of a page with its tables as they are."""
    text = path.read_text(encoding="utf-8")
    for name, made in TABLES[path].items():
        before, mark, after = text.partition(f"<!-- {name} -->\n\n")
        assert mark, name
        text = before + mark + made() + "\n" + re.sub(r"\A(?:\|.*\n)*\n*", "", after)
    return text


def fresh() -> dict[Path, str]:
    """The texts that the pages should hold."""
    return {PAGE: page(), **{path: with_tables(path) for path in TABLES}}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a page is stale")
    options = parser.parse_args()
    stale = {path: text for path, text in fresh().items() if path.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        if options.check:
            print(f"{path.relative_to(ROOT)} is stale: make tables")
        else:
            path.write_text(text, encoding="utf-8")
    return int(bool(stale) and options.check)


if __name__ == "__main__":
    sys.exit(main())
