"""Functions whose types were not written out: what ranks and dtypes do not settle is in their scheme as constraints.

A call from Python settles them: the checker infers a function that has the ranks and dtypes of the arguments and calls
the one that is meant. Its scheme has no constraints any more, and says which sizes must be equal.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from dlang.diagnostics import DlangError, Note, Source, error
from dlang.ir.anf import Scalar
from dlang.python.arguments import Given, mono_text
from dlang.python.callables import Passed, unwritten
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoTuple
from dlang.typecheck import types as ty
from dlang.typecheck.core import FnDecl
from dlang.typecheck.program import Checked, check_function
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.types import DataDecl, TypeVar


@dataclass
class Settled:
    """The functions that calls from Python have settled, by what they call and with which types."""

    checked: Checked
    _made: dict[tuple[object, ...], FnDecl] = field(default_factory=dict)

    def at(
        self,
        decl: FnDecl,
        expression: str,
        names: Sequence[str],
        args: Sequence[Given],
        by_name: bool,
        functions: Mapping[str, Passed] | None = None,
    ) -> FnDecl:
        """A function of parameters `names` that calls `expression`, a form or a name, with them.

        functions: arguments that are functions; one of Python has its number as a parameter, others have none.
        """
        structs: dict[str, DataDecl] = {}
        values: dict[str, FnEntry] = {}
        params: list[str] = []
        passed: list[str] = []
        for n, given in zip(names, args, strict=True):
            function = functions.get(n) if functions else None
            value = n
            if function is None:
                params.append(f"{n}: {_type(given.mono, structs)}")
            else:
                value = self._unused(n, names)
                values[value] = function.entry
                if function.arity is not None:
                    params.append(f"{n}: i64")
                    own = [self._unused(f"x{k}", names) for k in range(function.arity)]
                    value = f"|{', '.join(own)}| {value}({', '.join([n, *own])})"
            passed.append(f"{n} = {value}" if by_name else value)
        name = self._unused(decl.name.partition("(")[0], (*names, *values))
        text = f"fn {name}({', '.join(params)}) = {expression}({', '.join(passed)})"
        key = (text, *[entry.decl for entry in values.values()])
        if key not in self._made:
            source = Source("<call from Python>", text)
            made, found = check_function(self.checked, source, tuple(structs.values()), values)
            if made is None or made.constraints or made.body is None:
                raise _refused(decl, args, [d.message for d in found])
            made.kind, made.body = "call", unwritten(made.body)
            self._made[key] = made
        return self._made[key]

    def _unused(self, name: str, taken: Container[str]) -> str:
        name += "'"
        while name in self.checked.table.functions or name in taken:
            name += "'"
        return name


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
