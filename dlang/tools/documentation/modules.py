"""Documents modules: their public names, with kinds, signatures, words and places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlang.diagnostics import DlangError, Source, error
from dlang.driver import check, errors_of, read_source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.tools.assistance.signatures import as_written, flat, inferred
from dlang.tools.files import programs, programs_of
from dlang.typecheck.printing import show
from dlang.typecheck.program import Checked
from dlang.typecheck.scope import FnEntry

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
    found: dict[str, Module] = {}
    problems: DlangError = DlangError([])
    programs(paths)
    for path in paths:
        for file in programs_of(path):
            name = _name(Path(file), Path(path))
            if name in found and Path(found[name].source.path).resolve() != Path(file).resolve():
                both = f"`{found[name].source.path}` and `{file}`"
                help = ("give the folder that both are in: then their names say where they are",)
                raise error("E0974", f"two modules are called `{name}`: {both}", None, help=help)
            try:
                found[name] = _module(name, read_source(file))
            except DlangError as e:
                problems.diagnostics += e.diagnostics
    if problems.diagnostics:
        raise problems
    return [found[name] for name in sorted(found)]


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
    found = [e for item in tree.items if (e := _entry(item, source, checked)) and not e.name.startswith("_")]
    parts = {number: m[1] for number, line in enumerate(source.text.split("\n"), 1) if (m := _PART.fullmatch(line))}
    entries = [replace(e, part=parts.get(max((n for n in parts if n < e.line), default=0), "")) for e in found]
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
        case s.Enum(name=name, doc=doc, constructors=made):
            names = dict.fromkeys([name, *(c.name for c in made)])
            return Entry(name, "enum", item.span.text, doc, tuple(names), line)
        case s.Alias(name=name):
            return Entry(name, "type", item.span.text, "", (name,), line)
        case _:
            return None


def _known(name: str, checked: Checked) -> FnEntry | None:
    found = checked.program.value(checked.table, name)
    return found if isinstance(found, FnEntry) else None


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
