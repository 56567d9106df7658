"""Resolves names, and describes their meanings: signatures and documentation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from dlang.diagnostics import Source
from dlang.lazy_modules import lazy_module
from dlang.ops.functions import SCHEMES
from dlang.tools import assistance
from dlang.tools.assistance import Signature, inferred, of_builtin
from dlang.typecheck.printing import Names
from dlang.typecheck.program import Checked, scheme_text
from dlang.typecheck.scope import BuiltinEntry, FnEntry, ModuleEntry, ModuleTable, TypeEntry
from dlang.typecheck.types import DataDecl, RowVar, Variant

if TYPE_CHECKING:
    from dlang.grammar import parser
    from dlang.tools.repl.session import Session
else:
    parser = lazy_module("dlang.grammar.parser")

_COLUMNS = 78  # of lines that are not as in the source
Meaning = FnEntry | BuiltinEntry | ModuleTable | DataDecl


def meaning(checked: Checked, path: str) -> Meaning | None:
    """Returns the meaning of `f`, `nn.relu`, `nn` or `Point` in a module; None if it has none."""
    table = checked.table
    *modules, name = path.split(".")
    for module in modules:
        inner = module_of(table, module)
        if inner is None:
            return None
        table = inner
    of_module = table is checked.table
    entry = checked.program.value(table, name) if of_module else table.entries.get(name)
    match entry:
        case FnEntry() | BuiltinEntry():
            return entry
        case ModuleEntry(table=inner):
            return inner
    t: TypeEntry | None = checked.program.type_entry(table, name) if of_module else table.types.get(name)
    if isinstance(t, DataDecl):
        return t
    constructor = checked.program.constructor(table, name) if of_module else table.constructors.get(name)
    return constructor[0] if constructor is not None else None


def module_of(table: ModuleTable, name: str) -> ModuleTable | None:
    """A module that a module imports by a name."""
    entry = table.entries.get(name)
    return entry.table if isinstance(entry, ModuleEntry) else None


def library_module(session: Session, name: str) -> Checked | None:
    """A scope in which a module of the standard library is imported; None if there is none of the name."""
    return _importing(session, name) if session.checked.program.is_standard(name) else None


def imported_module(session: Session, path: tuple[str, ...]) -> ModuleTable | None:
    """The module that an import would find."""
    checked = _importing(session, ".".join(path))
    return module_of(checked.table, path[-1]) if path else None


def _importing(session: Session, name: str) -> Checked:
    return session.workspace.check(Source(f"{session.folder}<import {name}>", f"import {name}\n"))


def signature(name: str, entry: FnEntry | BuiltinEntry, checked: Checked) -> Signature:
    """The signature of a function; of one whose type no signature can say, what comes near."""
    if isinstance(entry, FnEntry):
        return inferred(name, entry)
    return replace(of_builtin(entry.name), name=name)


def signature_of(path: str, checked: Checked) -> Signature | None:
    """The signature of a function or a constructor; None if the name stands for something else."""
    entry = meaning(checked, path)
    match entry:
        case FnEntry() | BuiltinEntry():
            return signature(path, entry, checked)
        case DataDecl(variants=variants):
            for v in variants:
                if v.name == path.rpartition(".")[2]:
                    return _of_constructor(path, entry, v)
    return None


def _of_constructor(path: str, decl: DataDecl, v: Variant) -> Signature:
    names = Names(scheme=True).prepare(*(t for _, t in v.fields))
    parameters = tuple(f"{name}: {names(t)}" if name else names(t) for name, t in v.fields)
    return Signature(path, parameters, tuple(name for name, _ in v.fields), decl.name)


def type_of_name(name: str, checked: Checked) -> str | None:
    """The type of a function, for all sizes that it takes; None if the name is that of something else."""
    named = meaning(checked, name)
    if isinstance(named, FnEntry) and named.decl.kind != "const":
        return scheme_text(named.decl) if not named.builtin else str(signature("", named, checked))
    if isinstance(named, BuiltinEntry) and named.name in SCHEMES:
        return str(signature("", named, checked))
    return None


# ---- documentation ---------------------------------------------------------------------------------------------------
def documentation(path: str, named: Meaning, checked: Checked) -> str:
    """The signature or declaration of what a name stands for, and what its source says of it."""
    name = path.rpartition(".")[2]
    match named:
        case FnEntry(decl=decl) if decl.kind == "const":
            return _page(f"const {name}: {signature(name, named, checked).result}", decl.doc)
        case FnEntry(decl=decl):
            return _page(f"fn {signature(name, named, checked)}", decl.doc)
        case BuiltinEntry():
            return _page(f"fn {signature(name, named, checked)}", assistance.words(name))
        case DataDecl():
            return _page(_datatype(named), named.doc)
        case ModuleTable():
            names = sorted(n for n in {*named.functions, *named.entries, *named.types} if not n.startswith("_"))
            return _page(f"module {name}", _module_doc(named), fill(", ".join(names), _COLUMNS))


def _datatype(decl: DataDecl) -> str:
    """A struct or an enum as it is declared."""
    names = Names(scheme=True).prepare(*(t for v in decl.variants for _, t in v.fields))

    def fields(v: Variant) -> str:
        return ", ".join(f"{name}: {names(t)}" if name else names(t) for name, t in v.fields)

    parameters = [("..", p) if isinstance(p, RowVar) else ("", p) for p in decl.params]
    head = decl.name + (f"<{', '.join(dots + names.of(p) for dots, p in parameters)}>" if parameters else "")
    if decl.is_struct:
        return f"struct {head} {{ {fields(decl.variants[0])} }}"
    return f"enum {head} {{ {', '.join(f'{v.name}({fields(v)})' if v.fields else v.name for v in decl.variants)} }}"


def _page(*parts: str) -> str:
    return "\n\n".join(p for part in parts if (p := part.strip()))


def _module_doc(table: ModuleTable) -> str:
    try:
        text = Path(table.path).read_text(encoding="utf-8")
    except OSError:
        return ""
    return parser.parse(Source(table.path, text))[0].doc
