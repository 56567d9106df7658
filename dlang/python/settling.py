"""Functions whose types were not written out: what ranks and dtypes do not settle is in their scheme as constraints.

A call from Python settles them: the checker infers a function that has the ranks and dtypes of the arguments and calls
the one that is meant. Its scheme has no constraints any more, and says which sizes must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.diagnostics import DlangError, Note, Source, error
from dlang.ir.anf import Scalar
from dlang.python.arguments import Given, mono_text
from dlang.specialize.values import Mono, MonoArray, MonoData, MonoTuple
from dlang.typecheck import types as ty
from dlang.typecheck.core import FnDecl
from dlang.typecheck.program import Checked, check_function
from dlang.typecheck.types import DataDecl, TypeVar


@dataclass
class Settled:
    """The functions that calls from Python have settled, by what they call and with which types."""

    checked: Checked
    _made: dict[str, FnDecl] = field(default_factory=dict)

    def at(self, decl: FnDecl, expression: str, names: Sequence[str], args: Sequence[Given], by_name: bool) -> FnDecl:
        """A function of parameters `names` that calls `expression`, a form or a name, with them."""
        structs: dict[str, DataDecl] = {}
        params = ", ".join(f"{n}: {_type(g.mono, structs)}" for n, g in zip(names, args, strict=True))
        passed = ", ".join(f"{n} = {n}" if by_name else n for n in names)
        name = decl.name.partition("(")[0] + "'"
        while name in self.checked.table.functions or name in names:
            name += "'"
        text = f"fn {name}({params}) = {expression}({passed})"
        if text not in self._made:
            made, found = check_function(self.checked, Source("<call from Python>", text), tuple(structs.values()))
            if made is None or made.constraints:
                raise _refused(decl, args, [d.message for d in found])
            self._made[text] = made
        return self._made[text]


def _refused(decl: FnDecl, args: Sequence[Given], reasons: Sequence[str]) -> DlangError:
    given = ", ".join(mono_text(g.mono) for g in args)
    notes = tuple(Note(r) for r in reasons)
    help = () if reasons else ("annotate its parameters",)
    return error("E0964", f"`{decl.name}` cannot be called with ({given})", decl.span, notes=notes, help=help)


# ---- types as text ---------------------------------------------------------------------------------------------------
def _type(mono: Mono, structs: dict[str, DataDecl]) -> str:
    """A type with its dtypes and ranks; its sizes are left to inference."""
    match mono:
        case Scalar(dtype):
            return dtype
        case MonoArray(element, shape):
            return f"{_type(element, structs)}[{', '.join('_' for _ in shape)}]"
        case MonoTuple(items):
            return f"({', '.join(_type(i, structs) for i in items)})"
        case MonoData(decl, fields):
            structs[decl.name] = decl
            found: dict[TypeVar, Mono] = {}
            for (_, declared), actual in zip(decl.variants[0].fields, fields, strict=True):
                _bind(declared, actual, found)
            arguments = []
            for p in decl.params:
                arguments.append(_type(found[p], structs) if isinstance(p, TypeVar) and p in found else "_")
            return decl.name + (f"<{', '.join(arguments)}>" if arguments else "")
        case _:
            raise AssertionError("no function comes from Python")


def _bind(declared: ty.Type, actual: Mono, found: dict[TypeVar, Mono]) -> None:
    """What the type parameters of a struct stand for in a value of it."""
    match ty.resolve(declared), actual:
        case TypeVar() as v, _:
            found.setdefault(v, actual)
        case ty.TypeArray(element, shape), MonoArray(inner, dims):
            own = len(ty.resolve_shape(shape).pre)
            _bind(element, MonoArray(inner, dims[own:]) if len(dims) > own else inner, found)
        case ty.TypeTuple(items), MonoTuple(parts):
            for item, part in zip(items, parts, strict=True):
                _bind(item, part, found)
        case ty.TypeData(decl, args), MonoData(_, parts):
            nested: dict[TypeVar, Mono] = {}
            for (_, t), part in zip(decl.variants[0].fields, parts, strict=True):
                _bind(t, part, nested)
            for p, a in zip(decl.params, args, strict=True):
                if isinstance(p, TypeVar) and p in nested and not isinstance(a, ty.Size | ty.Shape):
                    _bind(a, nested[p], found)
