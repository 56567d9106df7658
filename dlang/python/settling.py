"""Functions whose types were not written out: what ranks and dtypes do not settle is in their scheme as constraints.

A call from Python settles them: the checker infers a function that has the ranks and dtypes of the arguments and calls
the one that is meant. Its scheme has no constraints any more, and says which sizes must be equal.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Note, Source, error
from dlang.ir.terms import Scalar
from dlang.lazy_modules import lazy_module
from dlang.python.arguments import mono_text
from dlang.python.callables import Passed
from dlang.specialize.types import Mono, MonoArray, MonoName, MonoTuple
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked, check_function
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.terms import size_of_param
from dlang.typecheck.types import DataDecl

if TYPE_CHECKING:
    from dlang.typecheck import calling
else:
    calling = lazy_module("dlang.typecheck.calling")


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
        args: Sequence[Mono],
        by_name: bool,
        functions: Mapping[str, Passed] | None = None,
    ) -> FnDecl:
        """A function of parameters `names` that calls `expression`, a form or a name, with them.

        functions: arguments that are functions; one of Python has its number as a parameter, others have none.
        """
        structs: dict[str, DataDecl] = {}
        values: dict[str, FnEntry] = {}
        sizes = {p.local.name for p in decl.params if size_of_param(p.local) is not None}
        params: list[str] = []
        passed: list[str] = []
        for n, mono in zip(names, args, strict=True):
            function = functions.get(n) if functions else None
            value = n
            if function is None:
                params.append(f"{n}: {'size' if n in sizes else type_text(mono, structs)}")
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
            made, found = check_function(self.checked, source, structs, values, trusted=True)
            if made is None or made.constraints or made.body is None:
                raise _refused(decl, args, [d.message for d in found])
            made.kind, made.body = "call", calling.unwritten(made.body, decl.span)
            self._made[key] = made
        return self._made[key]

    def _unused(self, name: str, taken: Container[str]) -> str:
        name += "'"
        while name in self.checked.table.functions or name in taken:
            name += "'"
        return name


def _refused(decl: FnDecl, args: Sequence[Mono], reasons: Sequence[str]) -> DlangError:
    given = ", ".join(map(mono_text, args))
    notes = tuple(Note(r) for r in reasons)
    help = () if reasons else ("annotate its parameters",)
    return error("E0964", f"`{decl.name}` cannot be called with ({given})", decl.span, notes=notes, help=help)


# ---- types as text ---------------------------------------------------------------------------------------------------
def type_text(mono: Mono, structs: dict[str, DataDecl]) -> str:
    """A type with its dtypes and ranks; its sizes are left to inference."""
    match mono:
        case Scalar(dtype):
            return dtype
        case MonoArray(element, shape):
            return f"{type_text(element, structs)}[{', '.join('_' for _ in shape)}]"
        case MonoTuple(items):
            return f"({', '.join(type_text(i, structs) for i in items)})"
        case MonoName(decl, args):
            structs[decl.name] = decl
            inner = [type_text(a, structs) if isinstance(a, Mono) and a != MonoTuple(()) else "_" for a in args]
            return decl.name + (f"<{', '.join(inner)}>" if inner else "")
        case _:
            raise AssertionError("no function comes from Python")
