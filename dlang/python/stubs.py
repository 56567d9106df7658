"""Stubs of modules: what `import model` gives, for checkers of types and for editors.

A function is an object of a class of its own, so that it is known to have `bind`, `profile` and the rest of what
functions of the language have; a struct is a frozen dataclass, and so is each variant of an enum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlang.python.documentation import is_name, parameter_names
from dlang.python.hints import Hints, name_of, variants_of
from dlang.python.module import datatypes
from dlang.python.overloads import VECTORS, signatures, vectors_of
from dlang.python.settling import Settled
from dlang.specialize.structs import field_names, is_none
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked, function_text
from dlang.typecheck.types import DataDecl, TypeCon, Variant, resolve

IMPORTS = {
    "collections.abc": ("Callable",),
    "dataclasses": ("dataclass",),
    "typing": ("Any", "TypeAlias", "overload", "type_check_only"),
    "numpy.typing": ("NDArray",),
    "dlang.python.function": ("Function",),
}


def stub(checked: Checked) -> str:
    """The text of the `.pyi` of a module without mistakes."""
    module = checked.module
    types = [d for d in datatypes(module) if not (d.module == module.name and d.name.startswith("_"))]
    taken = {v.name for d in types for v in d.variants} | {d.name for d in types} | module.functions.keys()
    writer = _Writer(Hints(taken), Settled(checked))
    parts = ["\n".join(writer.head(module.functions.values()))]
    parts += ["\n".join(datatype(writer.hints, decl)) for decl in types]
    for name, fn in module.functions.items():
        if not name.startswith("_"):
            parts.append("\n".join(writer.declaration(fn)))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Writer:
    hints: Hints
    settled: Settled

    def head(self, functions: Collection[FnDecl]) -> Iterator[str]:
        yield '# mypy: disable-error-code="overload-overlap"'
        yield from imports(self.hints, IMPORTS)
        if count := max((len(vectors_of(fn)) for fn in functions), default=0):
            yield f"from typing import {self.hints.imported('TypeVar')}"
            for name in map(self.hints.word, VECTORS[:count]):
                yield f'{name} = {self.hints.word("TypeVar")}("{name}")'

    # ---- functions and constants -------------------------------------------------------------------------------------
    def declaration(self, fn: FnDecl) -> Iterator[str]:
        if not is_name(fn.name):
            yield f"# `{fn.name}` is no name of Python: getattr(module, {fn.name!r})"
        elif fn.kind == "const":
            assert fn.result is not None
            yield f"{fn.name}: {self.hints.of(fn.result)}"
        else:
            yield from self.function(fn)

    def function(self, fn: FnDecl) -> Iterator[str]:
        ways = signatures(fn, self.settled, self.hints)
        yield f"@{self.hints.word('type_check_only')}"
        yield f"class _{fn.name}({self.hints.word('Function')}):"
        yield from docstring(f"{function_text(fn)}\n\n{fn.doc}".strip())
        for way in ways:
            if len(ways) > 1:
                yield f"    @{self.hints.word('overload')}"
            defaults = [p.has_default for p in fn.params]
            own = "_self" if any(p.local.name == "self" for p in fn.params) else "self"
            inner = ", ".join([own, *parameters(self.hints, fn, way.params, defaults)])
            yield f"    def __call__({inner}) -> {way.result}: ..."
        yield ""
        yield f"{fn.name}: _{fn.name}"


# ---- what stubs of built functions have too --------------------------------------------------------------------------
def imports(hints: Hints, wanted: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """NumPy, names of modules, and what is Python's own where the module has something of that name."""
    yield f"import numpy as {hints.word('np')}"
    for module, names in wanted.items():
        yield f"from {module} import {', '.join(map(hints.imported, names))}"
    if own := [name for name in ("bool", "float", "int", "list", "str", "tuple") if name in hints.taken]:
        yield f"from builtins import {', '.join(map(hints.imported, own))}"


def datatype(hints: Hints, decl: DataDecl) -> Iterator[str]:
    """The dataclass of a struct, or those of an enum's variants."""
    if decl.is_struct:
        yield from _dataclass(hints, decl.name, decl.variants[0], decl.doc)
        return
    for variant in decl.variants:
        if not is_none(variant):
            yield from _dataclass(hints, variant.name, variant, decl.doc)
            yield ""
    yield f"{name_of(decl)}: {hints.word('TypeAlias')} = {variants_of(decl)}"


def _dataclass(hints: Hints, name: str, variant: Variant, doc: str) -> Iterator[str]:
    yield f"@{hints.word('dataclass')}(frozen=True, eq=False)"
    yield f"class {name}:"
    yield from docstring(doc)
    for own, (_, t) in zip(field_names(variant), variant.fields, strict=True):
        yield f"    {own}: {hints.of(t, given=isinstance(resolve(t), TypeCon))}"
    if not variant.fields:
        yield "    ..."


def parameters(hints: Hints, fn: FnDecl, types: Sequence[str], defaults: Sequence[bool]) -> Iterator[str]:
    """The parameters of a function. defaults: which of them have one."""
    names, unnamed = parameter_names(fn)
    for k, (name, written, default) in enumerate(zip(names, types, defaults, strict=True)):
        yield f"{name}: {written}{' = ...' if default else ''}"
        if k == unnamed - 1:
            yield "/"  # what comes before cannot be given by name
    if "random" in fn.effects and "seed" not in names:
        yield from ["*", f"seed: {hints.word('int')} = ..."]


def docstring(text: str) -> Iterator[str]:
    """A docstring, at the beginning of a class."""
    if not text:
        return
    lines = text.replace("\\", "\\\\").replace('"""', "'''").splitlines()
    if lines[-1].endswith('"'):
        lines[-1] += " "
    lines[0] = f'"""{lines[0]}'
    if len(lines) == 1:
        lines[0] += '"""'
    else:
        lines.append('"""')
    yield from (f"    {line}".rstrip() for line in lines)
