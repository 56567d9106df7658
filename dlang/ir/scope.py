"""What is in scope at a point of a program, and when two types there are the same: for the verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlang.ir.anf import (
    DTYPES,
    FLOATS,
    Array,
    Atom,
    Datatype,
    Size,
    Token,
    Type,
    Var,
)
from dlang.ir.errors import IRError
from dlang.ir.substitution import Renaming, Replacement
from dlang.ir.types import I64


@dataclass(slots=True)
class Scope:
    """bound: every variable so far; visible: those in scope. known: the i64 variables that are polynomials of others.

    Its methods raise IRError where something is not as it should be.
    """

    datatypes: Mapping[str, Datatype]
    visible: set[Var] = field(default_factory=set)
    bound: set[Var] = field(default_factory=set)
    known: dict[Var, Size] = field(default_factory=dict)

    def bind(self, vars: Sequence[Var]) -> None:
        for var in vars:
            if var in self.bound:
                raise IRError(f"{var} is bound twice")
            self.type(var.type)
            self.bound.add(var)
            self.visible.add(var)

    def type(self, type: Type) -> None:
        if not isinstance(type, Token) and type.dtype not in DTYPES and type.dtype not in self.datatypes:
            raise IRError(f"{type.dtype} is no dtype")
        if isinstance(type, Array):
            if not type.shape:
                raise IRError("an array type has no axes")
            self.sizes(type.shape)

    def atom(self, atom: Atom) -> None:
        if isinstance(atom, Var):
            if atom not in self.visible:
                raise IRError(f"{atom} is not in scope")
            return
        kinds: tuple[type, ...] = {"bool": (bool,), "str": (str,)}.get(
            atom.dtype, (int, float) if atom.dtype in FLOATS else (int,)
        )
        boolean = isinstance(atom.value, bool)
        if atom.dtype in self.datatypes:
            if atom.value != 0:
                raise IRError(f"{atom!r} is a literal of a datatype and not null")
            return
        if atom.dtype not in DTYPES or not isinstance(atom.value, kinds) or boolean != (bool in kinds):
            raise IRError(f"{atom!r} is no literal of its dtype")

    def sizes(self, sizes: Sequence[Size]) -> None:
        for size in sizes:
            for var in size.atoms():
                self.atom(var)
                if var.type != I64:
                    raise IRError(f"{var} in the polynomial {size} is not an i64")

    # ---- equality ----------------------------------------------------------------------------------------------------
    def normal(self, type: Type) -> Type:
        """The type with sizes opened: a variable that stands for a polynomial of others is replaced by it."""
        if not isinstance(type, Array):
            return type
        return Array(type.dtype, tuple([s.substitute(self.known.get) for s in type.shape]))

    def same_size(self, a: Size, b: Size) -> bool:
        return a == b or a.substitute(self.known.get) == b.substitute(self.known.get)

    def same(self, a: Type, b: Type) -> bool:
        return a == b or self.normal(a) == self.normal(b)

    def match(
        self, formals: Sequence[Var], actuals: Sequence[Atom], mapping: Mapping[Var, Replacement], what: str
    ) -> dict[Var, Replacement]:
        """Checks that `actuals` can stand for `formals`, where a later type may mention an earlier one."""
        if len(formals) != len(actuals):
            raise IRError(f"{what}: {len(actuals)} for {len(formals)}")
        renaming = Renaming(mapping)
        for formal, actual in zip(formals, actuals, strict=True):
            self.atom(actual)
            wanted = renaming.type(formal.type)
            if not self.same(wanted, actual.type):
                raise IRError(f"{what}: {actual!r} has the type {show(actual.type)}, not {show(wanted)}")
            renaming.env[formal] = actual
        return renaming.env


def show(type: Type) -> str:
    """A type for a message."""
    match type:
        case Token():
            return "token"
        case Array(dtype, shape):
            return f"{dtype}{list(shape)}"
        case _:
            return type.dtype
