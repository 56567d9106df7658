"""The files of a site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dlang.drafts import write as write_file
from dlang.tools.documentation.links import links
from dlang.tools.documentation.modules import Module
from dlang.tools.documentation.pages import Site
from dlang.tools.documentation.prose import Prose
from dlang.tools.files import writing

ASSETS = Path(__file__).parent / "assets"


def write(modules: Sequence[Module], title: str, folder: Path) -> int:
    """Writes the pages into a folder, which is made, and gives how many files there are. E0822 if that fails."""
    made = dict(_files(Site(title, modules, links(list(modules)), Prose())))
    with writing(folder):
        for name, text in made.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text)
    return len(made)


def _files(site: Site) -> Iterator[tuple[str, str]]:
    for asset in ("style.css", "page.js"):
        yield asset, (ASSETS / asset).read_text(encoding="utf-8")
    yield "search_index.js", site.index()
    yield "index.html", site.first()
    for m in site.modules:
        yield f"modules/{m.name}.html", site.module(m)
        yield f"source/{m.name}.html", site.source(m)
