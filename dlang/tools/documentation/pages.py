"""The pages: one for each module, one for its source, and the first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from dlang.tools.documentation import prose
from dlang.tools.documentation.links import Links, address
from dlang.tools.documentation.modules import Entry, Module

_SECTIONS = {"Types": ("struct", "enum", "type"), "Functions": ("function",), "Constants": ("constant",)}


@dataclass(frozen=True, slots=True)
class Site:
    title: str
    modules: Sequence[Module]
    links: Links
    prose: prose.Prose

    def first(self) -> str:
        """The page with all modules."""
        rows = "".join(
            f'<li><a href="modules/{address(m.name)}"><code>{escape(m.name)}</code></a> '
            f"{self.prose.inline(m.summary, lambda _: None)}</li>\n"
            for m in self.modules
        )
        main = f'<h1>{escape(self.title)}</h1>\n<ul class="modules">\n{rows}</ul>\n'
        return self._page(self.title, main, "", None)

    def module(self, m: Module) -> str:
        """The page of a module."""
        source = f'<a class="source" href="../source/{address(m.name)}">source</a>'
        parts = [f'<h1><span class="kind">module</span> {escape(m.name)} {source}</h1>', self._words(m.doc, m)]
        for title, kinds in _SECTIONS.items():
            entries = [e for e in m.entries if e.kind in kinds]
            if entries:
                parts.append(f'<h2 id="{title.lower()}-of-the-module">{title}</h2>')
            part = ""
            for e in entries:
                if e.part != part:
                    part = e.part
                    parts.append(f'<p class="part">{escape(part)}</p>')
                parts.append(self._entry(e, m))
        return self._page(f"{m.name} · {self.title}", "\n".join(parts), "../", m)

    def source(self, m: Module) -> str:
        """The page with the text of a module; its lines are `#L1`, `#L2`, …"""
        names = {name: f"../modules/{found}" for name in _names(m) if (found := self._from_source(name, m))}
        rows = "".join(
            f'<span class="line" id="L{number}"><a class="number" href="#L{number}">{number}</a>{line}\n</span>'
            for number, line in enumerate(prose.lines(m.source.text, names.get), 1)
        )
        module = f'<a class="source" href="../modules/{address(m.name)}">documentation</a>'
        head = f'<h1><span class="kind">source of</span> {escape(m.name)} {module}</h1>'
        main = f'{head}\n<pre class="listing">{rows}</pre>'
        return self._page(f"{m.name}, source · {self.title}", main, "../", m, contents=False)

    def index(self) -> str:
        """Returns the search index, as JSON to load from a file: names, modules, kinds, addresses, words."""
        rows = [
            [name, m.name, e.kind if name == e.name else "constructor", f"{address(m.name)}#{quote(e.name)}", e.summary]
            for m in self.modules
            for e in m.entries
            for name in e.names
        ]
        modules = [[m.name, "", "module", address(m.name), m.summary] for m in self.modules]
        return f"const SEARCH_INDEX = {json.dumps(modules + rows, ensure_ascii=False, separators=(',', ':'))};\n"

    # ---- parts of pages ----------------------------------------------------------------------------------------------
    def _entry(self, e: Entry, m: Module) -> str:
        id, line = escape(e.name), f"../source/{address(m.name)}#L{e.line}"
        signature = prose.code(e.code, lambda name: None if name == e.name else self.links.type(name, m))
        return (
            f'<section class="entry" id="{id}">\n'
            f'<h3><span class="kind">{e.kind}</span> <a href="#{quote(e.name)}">{id}</a> '
            f'<a class="source" href="{line}">source</a></h3>\n'
            f'<pre class="signature"><code>{signature}</code></pre>\n'
            f"{self._words(e.doc, m)}</section>"
        )

    def _words(self, doc: str, m: Module) -> str:
        return self.prose.html(doc, lambda name: self.links.find(name, m)) if doc.strip() else ""

    def _from_source(self, name: str, m: Module) -> str | None:
        found = self.links.type(name, m)
        return address(m.name) + found if found is not None and found.startswith("#") else found

    def _page(self, title: str, main: str, root: str, here: Module | None, contents: bool = True) -> str:
        """A whole page. root: the way from it to the first page. here: the module that it is about, of which `contents`
        lists the names."""
        modules = "".join(
            f'<li><a href="{root}modules/{address(m.name)}"{" aria-current=page" if m is here else ""}>'
            f"{escape(m.name)}</a></li>\n"
            for m in self.modules
        )
        listed = ""
        if here is not None and contents:
            listed = "\n".join(['<nav class="contents" aria-label="in this module">', *_contents(here), "</nav>\n"])
        return _PAGE.format(
            title=escape(title), root=root, site=escape(self.title), modules=modules, main=main, contents=listed
        )


def _contents(m: Module) -> Iterable[str]:
    """The names of a module in order, as links of its page."""
    for title, kinds in _SECTIONS.items():
        names = sorted((e.name for e in m.entries if e.kind in kinds), key=str.lower)
        if names:
            yield f"<h3>{title}</h3>\n<ul>"
            yield from (f'<li><a href="#{quote(n)}">{escape(n)}</a></li>' for n in names)
            yield "</ul>"


def _names(m: Module) -> set[str]:
    """The words of a text that may be names of types."""
    return set(re.findall(r"\b[A-Z]\w*", m.source.text))


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{root}style.css">
<script>try {{ document.documentElement.dataset.theme = localStorage.getItem("theme") || ""; }} catch {{}}</script>
</head>
<body data-root="{root}">
<header>
<a class="home" href="{root}index.html">{site}</a>
<form role="search"><input type="search" placeholder="Search  ( / )" aria-label="Search" autocomplete="off"></form>
<button type="button" class="theme" title="light or dark" aria-label="light or dark"></button>
</header>
<ol class="results" hidden></ol>
<div class="columns">
<nav class="modules" aria-label="modules">
<h3>Modules</h3>
<ul>
{modules}</ul>
</nav>
<main>
{main}
</main>
{contents}</div>
<script src="{root}search_index.js"></script>
<script src="{root}page.js"></script>
</body>
</html>
"""
