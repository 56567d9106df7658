"""`dlc doc`: pages of HTML about modules, from their `##` lines and inferred signatures: one for each module, one for
its source, and the first. They need no network; `documentation/` has their style and script.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dlang.diagnostics import DlangError, Source, error, shown
from dlang.drafts import write as write_file
from dlang.driver import check, errors_of, read_source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.tools.arguments import Parser, add_json, add_paths, programs, programs_of, writing
from dlang.tools.assistance import as_written, flat, inferred
from dlang.tools.report import report
from dlang.typecheck.printing import show
from dlang.typecheck.program import Checked
from dlang.typecheck.scope import FnEntry


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("-o", "--output", metavar="DIR", default="doc", help="where the pages go; doc if not given")
    parser.add_argument("--title", metavar="TEXT", help="of the first page; the name of the folder if not given")
    add_paths(parser)


def main(args: argparse.Namespace) -> int:
    try:
        first = make(args.paths, args.title, Path(args.output))
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    if not args.json:
        print(shown(str(first)))
    return 0


def make(paths: Sequence[str], title: str | None, folder: Path) -> Path:
    """Writes the pages, and gives the first."""
    modules = documented(paths)
    write(modules, title or Path(paths[0]).resolve().stem, folder)
    return folder / "index.html"


# ---- what is documented ----------------------------------------------------------------------------------------------
_PART = re.compile(r"# ?-{2,} *(\S.*?) *-{2,}")
_WIDEST = 96  # characters of a signature on one line


@dataclass(frozen=True, slots=True)
class Entry:
    """kind: function, struct, enum, type or constant. code: its signature or declaration. doc: Markdown. names: it, and
    the constructors of an enum. line: where it begins, counted from 1. part: the last line above such as
    `# ---- losses ----`."""

    name: str
    kind: str
    code: str
    doc: str
    names: tuple[str, ...]
    line: int
    part: str = ""

    @property
    def summary(self) -> str:
        """The first paragraph of its words."""
        return summary(self.doc)


@dataclass(frozen=True, slots=True)
class Module:
    """A file. imports: what it takes from other modules by name, and from which. aliases: its names of modules, and
    their paths."""

    name: str
    source: Source
    doc: str
    entries: tuple[Entry, ...]
    imports: dict[str, str]
    aliases: dict[str, str]

    @property
    def summary(self) -> str:
        return summary(self.doc)


def documented(paths: Sequence[str]) -> list[Module]:
    """The modules of files and folders, by name.

    Raises `DlangError`: with what is wrong in the programs; E0973 where there are none; E0974 for two of one name.
    """
    modules: dict[str, Module] = {}
    problems: DlangError = DlangError([])
    programs(paths)
    for path in paths:
        for file in programs_of(path):
            name = _name(Path(file), Path(path))
            if name in modules and Path(modules[name].source.path).resolve() != Path(file).resolve():
                both = f"`{modules[name].source.path}` and `{file}`"
                help = ("give the folder that both are in: then their names say where they are",)
                raise error("E0974", f"two modules are called `{name}`: {both}", None, help=help)
            try:
                modules[name] = _module(name, read_source(file))
            except DlangError as e:
                problems.diagnostics += e.diagnostics
    if problems.diagnostics:
        raise problems
    return [modules[name] for name in sorted(modules)]


def summary(doc: str) -> str:
    return " ".join(doc.strip().split("\n\n")[0].split())


def _name(file: Path, given: Path) -> str:
    """Returns the name by which a module is imported from the folder that was given, or from its own."""
    inside = file.relative_to(given) if given.is_dir() else Path(file.name)
    return ".".join(inside.with_suffix("").parts)


def _module(name: str, source: Source) -> Module:
    checked = check(source)
    if errors := errors_of(checked):
        raise DlangError(errors)
    tree, _ = parse(source)
    public = [e for item in tree.items if (e := _entry(item, source, checked)) and not e.name.startswith("_")]
    parts = {number: m[1] for number, line in enumerate(source.text.split("\n"), 1) if (m := _PART.fullmatch(line))}
    entries = [replace(e, part=parts.get(max((n for n in parts if n < e.line), default=0), "")) for e in public]
    taken = [item for item in tree.items if isinstance(item, s.Import)]
    imports = {n.name: ".".join(i.path) for i in taken for n in i.names or ()}
    aliases = {i.alias or i.path[-1]: ".".join(i.path) for i in taken if i.names is None}
    return Module(name, source, tree.doc, tuple(entries), imports, aliases)


def _entry(item: s.Item, source: Source, checked: Checked) -> Entry | None:
    line = source.position(item.span.first)[0]
    match item:
        case s.Fn(name=name, doc=doc) | s.Extern(name=name, doc=doc):
            return Entry(name, "function", _signature(item, checked), doc, (name,), line)
        case s.Const(name=name, doc=doc):
            return Entry(name, "constant", _constant(item, checked), doc, (name,), line)
        case s.Struct(name=name, doc=doc):
            return Entry(name, "struct", item.span.text, doc, (name,), line)
        case s.Enum(name=name, doc=doc, constructors=constructors):
            names = dict.fromkeys([name, *(c.name for c in constructors)])
            return Entry(name, "enum", item.span.text, doc, tuple(names), line)
        case s.Alias(name=name):
            return Entry(name, "type", item.span.text, "", (name,), line)
        case _:
            return None


def _known(name: str, checked: Checked) -> FnEntry | None:
    entry = checked.program.value(checked.table, name)
    return entry if isinstance(entry, FnEntry) else None


def _signature(item: s.Fn | s.Extern, checked: Checked) -> str:
    entry = _known(item.name, checked)
    signature = inferred(item.name, entry, item) if entry is not None else as_written(item.name, item)
    line = f"fn {signature}"
    if len(line) <= _WIDEST or not signature.parameters:
        return line
    head, end = f"fn {signature.name}{signature.bounds}(", f"){signature.result and f' -> {signature.result}'}"
    return "\n".join([head, *_filled(signature.parameters), end])


def _filled(parameters: Sequence[str]) -> Iterator[str]:
    """Lines with as many of them as fit."""
    line = ""
    for parameter in parameters:
        if line and len(line) + len(parameter) + 4 > _WIDEST:
            yield line + ","
            line = ""
        line = f"{line}, {parameter}" if line else f"  {parameter}"
    yield line


def _constant(item: s.Const, checked: Checked) -> str:
    entry = _known(item.name, checked)
    written = flat(item.type.span.text) if item.type is not None else ""
    value = flat(item.value.span.text)
    type_ = entry.decl.result if entry is not None else None
    code = f"const {item.name}: {show(type_) if type_ is not None else written}"
    return f"{code} = {value}" if len(code) + len(value) < _WIDEST else code


Find = Callable[[str], str | None]  # the address of a name


def html_of_code(text: str, find: Find | None = None) -> str:
    """A program in colours; names of types that `find` knows are links."""
    return "".join(_coloured(kind, value, find) for kind, value in _lexer().get_tokens(text)).rstrip("\n")


def html_of_lines(text: str, find: Find | None = None) -> list[str]:
    """The lines of a program in colours. No token spans lines."""
    return html_of_code(text, find).split("\n")


def _coloured(kind: Any, value: str, find: Find | None) -> str:
    from pygments.token import STANDARD_TYPES, Name, Whitespace

    if kind in Whitespace:
        return escape(value)
    shown = escape(value)
    target = find(value) if find is not None and kind in Name and value[:1].isupper() else None
    if target is not None:
        shown = f'<a href="{escape(target)}">{shown}</a>'
    style = STANDARD_TYPES.get(kind, "")
    return f'<span class="{style}">{shown}</span>' if style else shown


@cache
def _lexer() -> Any:
    """E0975 without Pygments."""
    try:
        from dlang.tools.highlighting.pygments_lexer import DlangLexer
    except ImportError as e:
        raise _missing("Pygments", e) from None
    return DlangLexer(ensurenl=False, stripnl=False)


class Prose:
    """Markdown → HTML. Names in `html_of_code` that `find` knows are links; raw HTML is shown as it is written.

    Raises E0975 without markdown-it.
    """

    def __init__(self) -> None:
        try:
            from markdown_it import MarkdownIt
        except ImportError as e:
            raise _missing("markdown-it-py", e) from None
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self._markdown.add_render_rule("code_inline", _code_inline)
        self._markdown.add_render_rule("fence", _fence)
        self._markdown.add_render_rule("code_block", _fence)

    def html(self, text: str, find: Find) -> str:
        return str(self._markdown.render(text, {"find": find}))

    def inline(self, text: str, find: Find) -> str:
        """Renders one paragraph, without its tags."""
        return str(self._markdown.renderInline(text, {"find": find}))


def _code_inline(_: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    content = tokens[index].content
    target = env["find"](content)
    shown = f"<code>{escape(content)}</code>"
    return shown if target is None else f'<a href="{escape(target)}">{shown}</a>'


def _fence(_: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    """A block of code; one that names another language is not coloured."""
    content, language = tokens[index].content.rstrip("\n"), tokens[index].info.split()[:1]
    shown = html_of_code(content) if language == ["dlang"] else escape(content)
    return f"<pre><code>{shown}</code></pre>\n"


def _missing(what: str, e: ImportError) -> Exception:
    help = ("install it: pip install 'dlang[docs]'",)
    return error("E0975", f"`dlc doc` needs {what}, which can't be loaded: {e}", None, help=help)


# ---- names -----------------------------------------------------------------------------------------------------------
# Links names to the pages of the modules that declare them.


@dataclass(frozen=True, slots=True)
class Links:
    """places: for each module its public names, and the names of the entries that they belong to."""

    places: dict[str, dict[str, str]]

    def find(self, name: str, asking: Module) -> str | None:
        """The address of a name as a module sees it, `relu`, `nn.relu`, `nn` or a type of another; from a page beside
        that of the module. None if it leads nowhere."""
        if name in self.places.get(asking.name, {}):
            return self._address(asking.name, name, asking)
        module, dot, last = name.rpartition(".")
        if not dot:
            module = asking.imports.get(name, "prelude")
        owner = self._module(module, asking)
        if owner is not None and last in self.places[owner]:
            return self._address(owner, last, asking)
        whole = self._module(name, asking)
        return None if whole is None else address(whole)

    def type(self, name: str, asking: Module) -> str | None:
        """The address of a type. One that is mentioned without a module may be of any that has it alone."""
        page = self.find(name, asking)
        if page is not None:
            return page
        owners = [module for module, names in self.places.items() if name in names]
        return self._address(owners[0], name, asking) if len(owners) == 1 else None

    def _module(self, path: str, current: Module) -> str | None:
        """The module that another one calls so; it is found in that one's folder first."""
        path = current.aliases.get(path, path)
        folder = current.name.rpartition(".")[0]
        return next((m for m in ([f"{folder}.{path}"] if folder else []) + [path] if m in self.places), None)

    def _address(self, module: str, name: str, current: Module) -> str:
        entry = f"#{quote(self.places[module][name])}"
        return entry if module == current.name else address(module) + entry


def links(modules: list[Module]) -> Links:
    return Links({m.name: {name: e.name for e in m.entries for name in e.names} for m in modules})


def address(module: str) -> str:
    """The page of a module, from the page of another."""
    return f"{quote(module)}.html"


# ---- pages -----------------------------------------------------------------------------------------------------------

_SECTIONS = {"Types": ("struct", "enum", "type"), "Functions": ("function",), "Constants": ("constant",)}


@dataclass(frozen=True, slots=True)
class Site:
    title: str
    modules: Sequence[Module]
    links: Links
    prose: Prose

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
        names = {name: f"../modules/{page}" for name in _names(m) if (page := self._from_source(name, m))}
        rows = "".join(
            f'<span class="line" id="L{number}"><a class="number" href="#L{number}">{number}</a>{line}\n</span>'
            for number, line in enumerate(html_of_lines(m.source.text, names.get), 1)
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
        signature = html_of_code(e.code, lambda name: None if name == e.name else self.links.type(name, m))
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
        page = self.links.type(name, m)
        return address(m.name) + page if page is not None and page.startswith("#") else page

    def _page(self, title: str, main: str, root: str, current: Module | None, contents: bool = True) -> str:
        """A whole page. root: the way from it to the first page. current: the module that it is about, whose names
        `contents` lists."""
        modules = "".join(
            f'<li><a href="{root}modules/{address(m.name)}"{" aria-current=page" if m is current else ""}>'
            f"{escape(m.name)}</a></li>\n"
            for m in self.modules
        )
        listed = ""
        if current is not None and contents:
            listed = "\n".join(['<nav class="contents" aria-label="in this module">', *_contents(current), "</nav>\n"])
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


# ---- files -----------------------------------------------------------------------------------------------------------
# The files of a site.

ASSETS = Path(__file__).parent / "documentation"


def write(modules: Sequence[Module], title: str, folder: Path) -> int:
    """Writes the pages into a folder, which is made, and gives how many files there are. E0822 if that fails."""
    files = dict(_files(Site(title, modules, links(list(modules)), Prose())))
    with writing(folder):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text)
    return len(files)


def _files(site: Site) -> Iterator[tuple[str, str]]:
    for asset in ("style.css", "page.js"):
        yield asset, (ASSETS / asset).read_text(encoding="utf-8")
    yield "search_index.js", site.index()
    yield "index.html", site.first()
    for m in site.modules:
        yield f"modules/{m.name}.html", site.module(m)
        yield f"source/{m.name}.html", site.source(m)
