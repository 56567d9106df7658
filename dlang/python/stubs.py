"""Stubs of modules: what `import model` gives, for checkers of types and for editors.

A function is an object of a class of its own, so that it is known to have `bind`, `profile` and the rest of what
functions of the language have; a struct is a frozen dataclass, and so is each variant of an enum.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from dlang.python.hints import hint, name_of, variants_of
from dlang.python.module import datatypes
from dlang.python.overloads import Signature, signatures
from dlang.python.settling import Settled
from dlang.specialize.structs import field_names, is_none
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked, function_text
from dlang.typecheck.types import DataDecl, Type, TypeCon, Variant, resolve

HEAD = """\
# mypy: disable-error-code="overload-overlap"
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, overload, type_check_only

import numpy as np
from numpy.typing import NDArray

from dlang.python.function import Function
"""


def stub(checked: Checked) -> str:
    """The text of the `.pyi` of a module without mistakes."""
    module = checked.module
    settled = Settled(checked)
    parts = [HEAD]
    for decl in datatypes(module):
        if not (decl.module == module.name and decl.name.startswith("_")):
            parts.append("\n".join(_datatype(decl)))
    for name, fn in module.functions.items():
        if name.startswith("_"):
            continue
        if not is_name(name):
            parts.append(f"# `{name}` is no name of Python: getattr(module, {name!r})")
        elif fn.kind == "const":
            assert fn.result is not None
            parts.append(f"{name}: {hint(fn.result)}")
        else:
            parts.append("\n".join(_function(fn, settled)))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


# ---- structs and enums -----------------------------------------------------------------------------------------------
def _datatype(decl: DataDecl) -> Iterator[str]:
    if decl.is_struct:
        yield from _class(decl.name, decl.variants[0], decl.doc)
        return
    for variant in decl.variants:
        if not is_none(variant):
            yield from _class(variant.name, variant, decl.doc)
            yield ""
    yield f"{name_of(decl)}: TypeAlias = {variants_of(decl)}"


def _class(name: str, variant: Variant, doc: str) -> Iterator[str]:
    yield "@dataclass(frozen=True, eq=False)"
    yield f"class {name}:"
    yield from _doc(doc, "    ")
    fields = [f"    {n}: {_field(t)}" for n, (_, t) in zip(field_names(variant), variant.fields, strict=True)]
    yield from fields or ["    ..."]


def _field(t: Type) -> str:
    scalar = resolve(t)
    return hint(t, given=isinstance(scalar, TypeCon))


# ---- functions -------------------------------------------------------------------------------------------------------
def _function(fn: FnDecl, settled: Settled) -> Iterator[str]:
    ways = signatures(fn, settled)
    own = "_self" if any(p.local.name == "self" for p in fn.params) else "self"
    yield "@type_check_only"
    yield f"class _{fn.name}(Function):"
    yield from _doc(f"{function_text(fn)}\n\n{fn.doc}".strip(), "    ")
    for way in ways:
        if len(ways) > 1:
            yield "    @overload"
        yield f"    def __call__({', '.join([own, *_parameters(fn, way)])}) -> {way.result}: ..."
    yield ""
    yield f"{fn.name}: _{fn.name}"


def _parameters(fn: FnDecl, way: Signature) -> Iterator[str]:
    names = [p.local.name for p in fn.params]
    for k, (name, param, written) in enumerate(zip(names, fn.params, way.params, strict=True)):
        yield f"{name if is_name(name) else f'_{k}'}: {written}{' = ...' if param.has_default else ''}"
        if not is_name(name) and all(map(is_name, names[k + 1 :])):
            yield "/"  # what comes before cannot be given by name
    if "random" in fn.effects and "seed" not in names:
        yield from ["*", "seed: int = ..."]


def _doc(text: str, indent: str) -> Iterator[str]:
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
    yield from ((indent + line).rstrip() for line in lines)
