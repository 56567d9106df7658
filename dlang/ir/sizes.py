"""Finds i64 variables that are polynomials of others: the sizes of one array may be written in several ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from dlang.ir.anf import Array, Assert, Atom, Block, IndexExpr, Let, Prim, Size, Type, Var, poly
from dlang.ir.traverse import free_vars
from dlang.ir.types import I64, type_of
from dlang.polynomials import TooManyTerms


def defined_sizes(lets: Iterable[Let]) -> dict[Var, Size]:
    """The i64 variables that lets define as polynomials of others."""
    known: dict[Var, Size] = {}
    for let in lets:
        learn(let, known)
    return known


def opened(type: Type, known: Mapping[Var, Size]) -> Type:
    """The type over variables that stand for themselves. known: which others stand for polynomials."""
    return type_of(type.dtype, [s.substitute(known.get) for s in type.shape]) if isinstance(type, Array) else type


def learn(let: Let, known: dict[Var, Size]) -> None:
    """Notes what a let defines as a polynomial, in what is not known; a certified number equals the guarded one."""

    def of(atom: Atom) -> Size:
        return poly(atom).substitute(known.get)

    match let.op:
        case IndexExpr(size):
            known[let.vars[0]] = size.substitute(known.get)
        case Prim("add", (x, y)) if let.vars[0].type == I64:
            known[let.vars[0]] = of(x) + of(y)
        case Prim("sub", (x, y)) if let.vars[0].type == I64:
            known[let.vars[0]] = of(x) - of(y)
        case Prim("mul", (x, y)) if let.vars[0].type == I64:
            with suppress(TooManyTerms):
                known[let.vars[0]] = of(x) * of(y)
        case Prim("neg", (x,)) if let.vars[0].type == I64:
            known[let.vars[0]] = -of(x)
        case Assert(guarded=guarded):
            known.update((v, of(s)) for v, s in zip(let.vars, guarded, strict=True) if v.type == I64)
        case _:
            pass


def with_sizes(block: Block, defined: Mapping[Var, Size]) -> Block:
    """A block that first computes those of some sizes that it mentions."""
    lets = [Let((v,), IndexExpr(defined[v])) for v in free_vars(block) if v in defined]
    return Block((*lets, *block.lets), block.results)
