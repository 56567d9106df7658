"""What names stand for, and what is said of it: signatures and documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.diagnostics import Source
from dlang.tools.language_server import builtin_words
from dlang.tools.repl.inputs import split
from dlang.typecheck.builtins import SIGNATURES
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.printing import Names
from dlang.typecheck.program import Checked, scheme_text
from dlang.typecheck.scope import BuiltinEntry, FnEntry, ModuleEntry, ModuleTable, TypeEntry
from dlang.typecheck.state import Scheme
from dlang.typecheck.types import DataDecl, RowVar, TypeVar, Variant

if TYPE_CHECKING:
    from dlang.tools.repl.session import Session

Meaning = FnEntry | BuiltinEntry | ModuleTable | DataDecl


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as a person reads it. parameters: as texts, `w: f64[k]`; names: of those that can be given by name."""

    name: str
    parameters: tuple[str, ...]
    names: tuple[str | None, ...]
    result: str = ""
    bounds: str = ""

    def __str__(self) -> str:
        result = f" -> {self.result}" if self.result else ""
        return f"{self.name}{self.bounds}({', '.join(self.parameters)}){result}"


def meaning(checked: Checked, path: str) -> Meaning | None:
    """What `f`, `nn.relu`, `nn` or `Point` stands for in a module; None if nothing."""
    table = checked.table
    *modules, name = path.split(".")
    for module in modules:
        inner = module_of(checked, table, module)
        if inner is None:
            return None
        table = inner
    own = table is checked.table
    found = checked.program.value(table, name) if own else table.entries.get(name)
    match found:
        case FnEntry() | BuiltinEntry():
            return found
        case ModuleEntry(table=inner):
            return inner
    t: TypeEntry | None = checked.program.type_entry(table, name) if own else table.types.get(name)
    if isinstance(t, DataDecl):
        return t
    constructor = checked.program.constructor(table, name) if own else table.constructors.get(name)
    return constructor[0] if constructor is not None else None


def module_of(checked: Checked, table: ModuleTable, name: str) -> ModuleTable | None:
    """A module that a module imports by a name."""
    found = table.entries.get(name)
    return found.table if isinstance(found, ModuleEntry) else None


def library_module(session: Session, name: str) -> Checked | None:
    """A scope in which a module of the standard library is imported; None if there is none of the name."""
    checked = session.checked
    if not checked.program.is_standard(name):
        return None
    return session.workspace.check(Source(f"{session.folder}<import {name}>", f"import {name}\n"))


def signature(name: str, entry: FnEntry | BuiltinEntry, checked: Checked) -> Signature:
    """The signature of a function; of one whose type no signature can say, what comes near."""
    if isinstance(entry, FnEntry):
        return _signature(name, entry.scheme, entry.names, entry.decl.effects, entry.decl)
    return _taken_apart(name, builtin_words.signature(entry.name) or "(x)")


def _taken_apart(name: str, written: str) -> Signature:
    """A signature that is a text: `<a: Num>(x: a[n]) -> a`."""
    opening = written.index("(")
    depth, closing = 0, opening
    for closing, letter in enumerate(written):
        depth += (letter == "(") - (letter == ")")
        if closing > opening and depth == 0:
            break
    parameters = tuple(p.strip() for p in split(written[opening + 1 : closing], ","))
    names = tuple(n if (n := re.split(r"[: ]", p)[0]).isidentifier() else None for p in parameters)
    return Signature(name, parameters, names, written[closing + 1 :].removeprefix(" -> "), written[:opening])


def signature_of(path: str, checked: Checked) -> Signature | None:
    """The signature of a function or a constructor; None if the name stands for something else."""
    found = meaning(checked, path)
    match found:
        case FnEntry() | BuiltinEntry():
            return signature(path, found, checked)
        case DataDecl(variants=variants):
            for v in variants:
                if v.name == path.rpartition(".")[2]:
                    return _of_constructor(path, found, v)
    return None


def _of_constructor(path: str, decl: DataDecl, v: Variant) -> Signature:
    names = Names(scheme=True).prepare(*(t for _, t in v.fields))
    parameters = tuple(f"{name}: {names(t)}" if name else names(t) for name, t in v.fields)
    return Signature(path, parameters, tuple(name for name, _ in v.fields), decl.name)


def type_of_name(name: str, checked: Checked) -> str | None:
    """The type of a function, for all sizes that it takes; None if the name is that of something else."""
    found = meaning(checked, name)
    if isinstance(found, FnEntry) and found.decl.kind != "const":
        return scheme_text(found.decl) if not found.builtin else str(signature("", found, checked))
    if isinstance(found, BuiltinEntry) and found.name in SIGNATURES:
        return str(signature("", found, checked))
    return None


def _signature(
    name: str, scheme: Scheme, names: tuple[str | None, ...], effects: frozenset[str], decl: FnDecl | None
) -> Signature:
    from dlang.typecheck.refinements import written
    from dlang.typecheck.schemes import scheme_names
    from dlang.typecheck.terms import variables

    words = scheme_names(scheme)
    parameters = []
    for k, p in enumerate(scheme.params):
        size = scheme.size_of(k)
        asked = scheme.asked[k] if k < len(scheme.asked) else None
        called = names[k] if k < len(names) and names[k] else "_"
        shown = f"{called}: {'size' if size is not None else written(p, asked, words)}"
        if decl is not None and k < len(decl.params) and decl.params[k].has_default:
            shown += " = …"
        parameters.append(shown)
    inside = variables(*scheme.params, scheme.result)
    bounds = [
        f"{words(v)}: {' + '.join(sorted(v.classes))}"
        for v in scheme.variables
        if isinstance(v, TypeVar) and v.classes and v in inside
    ]
    result = written(scheme.result, scheme.promised, words) + (f" ! {' + '.join(sorted(effects))}" if effects else "")
    return Signature(name, tuple(parameters), names, result, f"<{', '.join(bounds)}>" if bounds else "")


# ---- documentation ---------------------------------------------------------------------------------------------------
def documentation(path: str, found: Meaning, checked: Checked) -> str:
    """The signature or declaration of what a name stands for, and what its source says of it."""
    name = path.rpartition(".")[2]
    match found:
        case FnEntry(decl=decl) if decl.kind == "const":
            return _page(f"const {name}: {signature(name, found, checked).result}", decl.doc)
        case FnEntry(decl=decl):
            return _page(f"fn {signature(name, found, checked)}", decl.doc)
        case BuiltinEntry():
            return _page(f"fn {signature(name, found, checked)}", builtin_words.words(name))
        case DataDecl():
            return _page(_datatype(found), found.doc)
        case ModuleTable():
            names = sorted(n for n in {*found.functions, *found.entries, *found.types} if not n.startswith("_"))
            return _page(f"module {name}", _module_doc(found), ", ".join(names))


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
    from dlang.grammar.parser import parse

    try:
        text = Path(table.path).read_text(encoding="utf-8")
    except OSError:
        return ""
    return parse(Source(table.path, text))[0].doc
