"""How the pages of the repository become pages of the site: MkDocs calls the `on_…` functions.

Pages beside docs/ are taken along: those of the examples and benchmarks, the changes, and a page of all codes. A link
to another file of the repository is one to a copy of it. What GitHub and Python-Markdown read in different ways is
written in the way of the latter.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import ConfigurationError
from mkdocs.structure.files import File, Files
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

ROOT = Path(__file__).parents[2]
EXPLANATIONS = ROOT / "dlang/explain"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^( *```\w+)[^\n`]*$", re.MULTILINE)
_REFUSED = re.compile(
    r"^```dlang (refused|stops)(?: (E\d{4}))?\n.*?^```\n(?:\n*```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL
)
_CODE = re.compile(r"`[^`\n]*`")


def on_config(config: Any) -> Any:
    """Refuses to make a site without colours."""
    try:
        get_lexer_by_name("dlang")
    except ClassNotFound:
        raise ConfigurationError("programs have no colours unless dlang is installed: pip install -e .") from None
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are not in docs/, and the files to which pages link."""
    for source, page in outside().items():
        files.append(File.generated(config, page, content=source.read_text(encoding="utf-8")))
    files.append(File.generated(config, "errors.md", content=errors()))
    pages = [ROOT / "docs" / f.src_uri for f in files.documentation_pages() if f.abs_src_path]
    for source in [*pages, *outside()]:
        for target in targets(source):
            uri = copied(target)
            if target.is_file() and uri is not None and uri not in files.src_uris:
                files.append(File.generated(config, uri, abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A page as Python-Markdown wants it."""
    uri = page.file.src_uri
    source = next((s for s, p in outside().items() if p == uri), ROOT / "docs" / uri)
    errors = posixpath.relpath("errors.md", posixpath.dirname(uri) or ".")
    return plain(noted(_LINK.sub(lambda m: relinked(m, source, uri), markdown), errors))


# ---- pages -----------------------------------------------------------------------------------------------------------
def outside() -> dict[Path, str]:
    """The pages that are not in docs/, and their places on the site."""
    found = {ROOT / "CHANGELOG.md": "changelog.md", ROOT / "CONTRIBUTING.md": "contributing.md"}
    found[ROOT / "benchmarks/README.md"] = "benchmarks.md"
    found[ROOT / "examples/README.md"] = "examples/index.md"
    for readme in sorted((ROOT / "examples").glob("*/README.md")):
        found[readme] = f"examples/{readme.parent.name}.md"
    return found


def errors() -> str:
    """A page of all codes: what each means, and how to mend it."""
    parts = ["# Errors\n\nWhat each code means; `dlc explain E0301` shows the same.\n"]
    for file in sorted(EXPLANATIONS.glob("E*.md")):
        title, _, rest = file.read_text(encoding="utf-8").partition("\n")
        parts.append(f"## {title.removeprefix('# ')} {{ #{file.stem.lower()} }}\n{rest}")
    return "\n".join(parts)


# ---- links -----------------------------------------------------------------------------------------------------------
def targets(source: Path) -> Iterator[Path]:
    """The files of the repository to which a page links."""
    for link in _LINK.finditer(source.read_text(encoding="utf-8")):
        yield (source.parent / link[1]).resolve()


def copied(target: Path) -> str | None:
    """Where on the site a file is that is no page; None for pages, and for what is not in the repository."""
    own = target in outside() or target == ROOT / "README.md" or target.is_relative_to(ROOT / "docs")
    if own or not target.is_relative_to(ROOT):
        return None
    return f"files/{target.relative_to(ROOT).as_posix()}"


def relinked(link: re.Match[str], source: Path, page: str) -> str:
    """A link of a page, as one from its place on the site."""
    target = (source.parent / link[1]).resolve()
    known = outside()
    if target == ROOT / "README.md":
        there = "index.md"
    elif target.is_dir() and target / "README.md" in known:
        there = known[target / "README.md"]
    elif target in known:
        there = known[target]
    elif target.is_relative_to(ROOT / "docs"):
        there = target.relative_to(ROOT / "docs").as_posix()
    else:
        there = copied(target) or link[1]
    return posixpath.relpath(there, posixpath.dirname(page) or ".") + (link[2] or "")


# ---- Markdown --------------------------------------------------------------------------------------------------------
def noted(markdown: str, errors: str) -> str:
    """Behind a program that is refused, or that stops, and its message, a line that says so.

    errors: the page of all codes.
    """

    def with_note(block: re.Match[str]) -> str:
        kind, code = block[1], block[2]
        what = {"refused": "This is refused", "stops": "This stops"}[kind]
        note = f"{what}: [{code}]({errors}#{code.lower()})" if code else f"{what}."
        return f"{block[0]}\n{note}\n{{ .refused }}\n"

    return _REFUSED.sub(with_note, markdown)


def plain(markdown: str) -> str:
    """Fences without what tests read behind the language, and tables whose code needs no escapes."""
    lines = []
    for line in _FENCE.sub(r"\1", markdown).splitlines():
        if line.startswith("|"):
            line = _CODE.sub(lambda code: code[0].replace("\\|", "|"), line)
        lines.append(line)
    return "\n".join(lines) + "\n"
