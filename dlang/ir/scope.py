"""Defines for the verifier the scope at a point of a program, and the equality of types there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.errors import IRError
from dlang.ir.sizes import opened
from dlang.ir.substitution import Renaming, Replacement
from dlang.ir.traverse import block_mentions
from dlang.ir.types import I64

_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(anf.DTYPES, (int,)),
    **dict.fromkeys(anf.FLOATS, (int, float)),
    "bool": (bool,),
    "str": (str,),
}


def is_literal(lit: anf.Lit) -> bool:
    """Tells whether a literal has a value of its dtype; null is one of any datatype."""
    if anf.is_handle(lit.dtype):
        return lit.value == 0
    kinds = _KINDS.get(lit.dtype, ())
    return isinstance(lit.value, kinds) and isinstance(lit.value, bool) == (bool in kinds)


@dataclass(slots=True)
class Scope:
    """bound: every variable so far; visible: those in scope; entered: these in order. known: the i64 variables that are
    polynomials of others. leans: how often the answer was yes for what is known here, and not for the question alone.

    Its methods raise IRError where something is not as it should be.
    """

    datatypes: Mapping[str, anf.Datatype]
    visible: set[anf.Var] = field(default_factory=set)
    bound: set[anf.Var] = field(default_factory=set)
    entered: list[anf.Var] = field(default_factory=list)
    known: dict[anf.Var, anf.Size] = field(default_factory=dict)
    leans: int = 0

    def mark(self) -> int:
        """Returns a mark for `leave`."""
        return len(self.entered)

    def leave(self, mark: int) -> None:
        """Takes out of scope what was bound since a mark."""
        self.visible.difference_update(self.entered[mark:])
        del self.entered[mark:]

    def bind(self, vars: Sequence[anf.Var]) -> None:
        """Variables that are in scope from here on."""
        for var in vars:
            if var in self.bound:
                raise IRError(f"{var} is bound twice")
            self.type(var.type)
            self.bound.add(var)
            self.visible.add(var)
            self.entered.append(var)

    def enter(self, block: anf.Block) -> bool:
        """Brings what a block binds into scope, if it may stand here: what it mentions from outside is in scope, and
        nothing that it binds is bound elsewhere."""
        used, binds = block_mentions(block)
        inside = set(binds)
        if not self.bound.isdisjoint(inside) or not self.visible.issuperset(set(used) - inside):
            return False
        self.bound |= inside
        for let in block.lets:
            self.visible.update(let.vars)
            self.entered += let.vars
        return True

    def type(self, type: anf.Type) -> None:
        """A type that is one, of sizes in scope."""
        if not isinstance(type, anf.Token) and type.dtype not in anf.DTYPES:
            if type.dtype not in self.datatypes:
                raise IRError(f"{type.dtype} is no dtype")
            self.leans += 1
        if isinstance(type, anf.Array):
            if not type.shape:
                raise IRError("an array type has no axes")
            self.sizes(type.shape)

    def atom(self, atom: anf.Atom) -> None:
        """A variable in scope, or a literal of its dtype."""
        if isinstance(atom, anf.Var):
            if atom not in self.visible:
                raise IRError(f"{atom} is not in scope")
            return
        if atom.dtype in self.datatypes:
            self.leans += 1
            if atom.value != 0:
                raise IRError(f"{atom!r} is a literal of a datatype and not null")
            return
        if not is_literal(atom):
            raise IRError(f"{atom!r} is no literal of its dtype")

    def sizes(self, sizes: Sequence[anf.Size]) -> None:
        """Polynomials of i64 variables in scope."""
        visible = self.visible
        for size in sizes:
            for monomial in size.terms:
                for var in monomial:
                    if var not in visible:
                        raise IRError(f"{var} is not in scope")
                    if var.type != I64:
                        raise IRError(f"{var} in the polynomial {size} is not an i64")

    # ---- equality ----------------------------------------------------------------------------------------------------
    def normal(self, type: anf.Type) -> anf.Type:
        """The type with sizes opened: a variable that stands for a polynomial of others is replaced by it."""
        return opened(type, self.known)

    def opened(self, size: anf.Size) -> anf.Size:
        """The size over variables that stand for themselves."""
        return size.substitute(self.known.get)

    def same_size(self, a: anf.Size, b: anf.Size) -> bool:
        if a == b:
            return True
        self.leans += 1
        return self.opened(a) == self.opened(b)

    def same(self, a: anf.Type, b: anf.Type) -> bool:
        if a == b:
            return True
        self.leans += 1
        return self.normal(a) == self.normal(b)

    def match(
        self, formals: Sequence[anf.Var], actuals: Sequence[anf.Atom], mapping: Mapping[anf.Var, Replacement], what: str
    ) -> dict[anf.Var, Replacement]:
        """Checks that `actuals` are of the types of `formals`, where a later type may mention an earlier one."""
        if len(formals) != len(actuals):
            raise IRError(f"{what}: {len(actuals)} for {len(formals)}")
        renaming = Renaming(mapping)
        for formal, actual in zip(formals, actuals, strict=True):
            wanted = renaming.type(formal.type)
            if not self.same(wanted, actual.type):
                raise IRError(f"{what}: {actual!r} has the type {show(actual.type)}, not {show(wanted)}")
            renaming.env[formal] = actual
        return renaming.env


def show(type: anf.Type) -> str:
    """A type for a message."""
    match type:
        case anf.Token():
            return "token"
        case anf.Array(dtype, shape):
            return f"{dtype}{list(shape)}"
        case _:
            return type.dtype
