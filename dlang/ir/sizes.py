"""Which i64 variables are polynomials of others: the sizes of one array may be written in several ways."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from dlang.ir.anf import Atom, Check, Let, Prim, Size, SizeOf, Var, poly
from dlang.ir.types import I64
from dlang.polynomials import TooManyTerms


def defined_sizes(lets: Iterable[Let]) -> dict[Var, Size]:
    """The i64 variables that lets define as polynomials of others."""
    known: dict[Var, Size] = {}
    for let in lets:
        learn(let, known)
    return known


def learn(let: Let, known: dict[Var, Size]) -> None:
    """Notes what a let defines as a polynomial, in what is not known; a certified number equals its subject."""

    def of(atom: Atom) -> Size:
        return poly(atom).substitute(known.get)

    match let.op:
        case SizeOf(size):
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
        case Check(subjects=subjects):
            known.update((v, of(s)) for v, s in zip(let.vars, subjects, strict=True) if v.type == I64)
        case _:
            pass
