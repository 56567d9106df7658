"""Stubs of modules: what `import model` gives, for checkers of types and for editors.

A function is an object of a class of its own, so that it is known to have `bind`, `profile` and the rest of what
functions of the language have; a struct is a frozen dataclass, and so is each variant of an enum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dlang.python.documentation import is_name, parameter_names
from dlang.python.hints import Hints, name_of, variants_of
from dlang.python.module import datatypes
from dlang.python.overloads import VECTORS, Signature, signatures, vectors_of
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
    parts = ["\n".join(writer.head(module.functions.values())), *("\n".join(writer.datatype(decl)) for decl in types)]
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
        yield f"import numpy as {self.hints.word('np')}"
        for module, names in IMPORTS.items():
            yield f"from {module} import {', '.join(map(self.hints.imported, names))}"
        if count := max((len(vectors_of(fn)) for fn in functions), default=0):
            yield f"from typing import {self.hints.imported('TypeVar')}"
            for name in map(self.hints.word, VECTORS[:count]):
                yield f'{name} = {self.hints.word("TypeVar")}("{name}")'
        if own := [name for name in ("bool", "float", "int", "list", "str", "tuple") if name in self.hints.taken]:
            yield f"from builtins import {', '.join(map(self.hints.imported, own))}"

    # ---- structs and enums -------------------------------------------------------------------------------------------
    def datatype(self, decl: DataDecl) -> Iterator[str]:
        if decl.is_struct:
            yield from self.dataclass(decl.name, decl.variants[0], decl.doc)
            return
        for variant in decl.variants:
            if not is_none(variant):
                yield from self.dataclass(variant.name, variant, decl.doc)
                yield ""
        yield f"{name_of(decl)}: {self.hints.word('TypeAlias')} = {variants_of(decl)}"

    def dataclass(self, name: str, variant: Variant, doc: str) -> Iterator[str]:
        yield f"@{self.hints.word('dataclass')}(frozen=True, eq=False)"
        yield f"class {name}:"
        yield from _doc(doc)
        for own, (_, t) in zip(field_names(variant), variant.fields, strict=True):
            yield f"    {own}: {self.hints.of(t, given=isinstance(resolve(t), TypeCon))}"
        if not variant.fields:
            yield "    ..."

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
        yield from _doc(f"{function_text(fn)}\n\n{fn.doc}".strip())
        for way in ways:
            if len(ways) > 1:
                yield f"    @{self.hints.word('overload')}"
            yield f"    def __call__({', '.join(self.parameters(fn, way))}) -> {way.result}: ..."
        yield ""
        yield f"{fn.name}: _{fn.name}"

    def parameters(self, fn: FnDecl, way: Signature) -> Iterator[str]:
        names, unnamed = parameter_names(fn)
        yield "_self" if "self" in names else "self"
        for k, (name, param, written) in enumerate(zip(names, fn.params, way.params, strict=True)):
            yield f"{name}: {written}{' = ...' if param.has_default else ''}"
            if k == unnamed - 1:
                yield "/"  # what comes before cannot be given by name
        if "random" in fn.effects and "seed" not in names:
            yield from ["*", f"seed: {self.hints.word('int')} = ..."]


def _doc(text: str) -> Iterator[str]:
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
