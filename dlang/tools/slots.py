"""The types and the sizes at which a function is tried out, where its own types leave them open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dlang.diagnostics import error
from dlang.driver import Request
from dlang.dump_ir import open_variable
from dlang.ir import anf
from dlang.specialize.types import MonoArray
from dlang.typecheck import core, types as ty

if TYPE_CHECKING:
    from dlang.specialize.types import Bindings


@dataclass(frozen=True, slots=True)
class Slot:
    """A size that is to be chosen: the variable that it is, or of which the type that it stands for has it."""

    variable: ty.Var
    name: str
    text: str  # how the choice is said


Default = TypeVar("Default", int, None)


def sizes_given(given: Sequence[str], default: Default) -> tuple[int | Default, dict[str, int]]:
    """`5` and `n=5` from the command line: the size of all, or else a default, and of one variable."""
    named = {}
    size: int | Default = default
    for text in given:
        name, _, value = text.rpartition("=")
        if not value.isdecimal():
            raise error("E0957", f"`--size {text}`: expected a number, or a name and a number as in `n=5`", None)
        if name:
            named[name] = int(value)
        else:
            size = int(value)
    return size, named


def refuse_unknown(sizes: Iterable[str], known: Collection[str], what: str) -> None:
    """Raises E0957 for a size that nothing has. what: the functions that are looked at, as in "is checked"."""
    for name in sizes:
        if name not in known:
            help = (f"there are {', '.join(f'`{n}`' for n in sorted(known))}",) if known else ()
            raise error("E0957", f"`--size {name}=…`: no function that {what} has a size `{name}`", None, help=help)


def requested(decl: core.FnDecl) -> tuple[Request, list[Slot]]:
    """A function at types: what is open is f64, or a vector of them; and the sizes that are to be chosen."""
    if decl.constraints and (name := open_variable(decl)) is not None:
        help = ("name a function that uses it",)
        raise error(
            "E0956", f"`{decl.name}` has no derivative of its own: a use of it decides `{name}`", decl.span, help=help
        )
    bindings: Bindings = {}
    slots = []
    for v in decl.variables:
        name = v.name or "_"
        match v:
            case ty.TypeVar() if "Vector" in v.classes:
                bindings[v] = MonoArray(anf.Scalar("f64"), (anf.poly(0),))
                slots.append(Slot(v, name, f"{name} = f64[{{}}]"))
            case ty.TypeVar():
                bindings[v] = anf.Scalar("i64" if v.classes & {"Int", "Bits"} else "f64")
            case ty.RowVar():
                bindings[v] = (anf.poly(0),)
                slots.append(Slot(v, name, f"..{name} = {{}}"))
            case ty.SizeVar() if v not in decl.opened:
                bindings[v] = anf.poly(0)
                slots.append(Slot(v, name, f"{name} = {{}}"))
    return Request(decl, bindings), slots
