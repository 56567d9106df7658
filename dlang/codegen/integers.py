"""Estimates integers that are computed from sizes, as polynomials, where a guess will not do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from dlang.codegen.loops import Compute
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, poly
from dlang.polynomials import Poly

MOST_TERMS, MOST_FACTORS = 12, 6  # of a polynomial; of what would have more nothing is known


def note(stmt: Compute, estimates: dict[Var, Size], parameters: Collection[Var]) -> None:
    """Adds about how large an integer is, if that is known; rather too large than too small.

    A variable of which nothing is known stands for itself in what is computed from it.
    """
    if stmt.var.type == Scalar("i64") and len(stmt.args) == 2:
        a, b = [_size(arg, estimates) for arg in stmt.args]
        found = _result(stmt.name, a, b, parameters)
        if stmt.name == "floordiv" and found is None:
            found = _blocks(a, b, estimates, parameters)
        if found is not None and len(found.terms) <= MOST_TERMS and all(len(m) <= MOST_FACTORS for m in found.terms):
            estimates[stmt.var] = found


def agreed(results: Sequence[object], arms: Sequence[Sequence[object]], estimates: dict[Var, Size]) -> None:
    """Adds what the arms of a branch give, where that is about the same."""
    for result, *given in zip(results, *arms, strict=True):
        if isinstance(result, Var) and result.type == Scalar("i64"):
            sizes = [_size(a, estimates) for a in given if isinstance(a, Var | Lit)]
            apart = [(s - sizes[0]).constant for s in sizes]
            if len(sizes) == len(arms) and all(c is not None for c in apart):
                more: Size = Poly({(): max(c for c in apart if c is not None)})
                estimates[result] = sizes[0] + more


def _size(arg: Atom, estimates: dict[Var, Size]) -> Size:
    if isinstance(arg, Lit):
        return Poly({(): int(arg.value)})
    return estimates.get(arg, poly(arg))


def _result(name: str, a: Size, b: Size, parameters: Collection[Var]) -> Size | None:
    first, second = a.constant, b.constant
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul" if len(a.terms) * len(b.terms) <= MOST_TERMS:
            return a * b
        case "minimum":
            if first is not None and second is not None:
                return a if first <= second else b
            return b if second is not None or not set(a.atoms()) <= set(parameters) else a
        case "maximum":
            if first is not None and second is not None:
                return a if first >= second else b
            return a if second is not None else b if first is not None else a + b
        case "floordiv" if second is not None and second > 0:
            return Poly({m: Fraction(c) / second for m, c in a.terms.items()})
    return None


def _blocks(a: Size, b: Size, estimates: dict[Var, Size], parameters: Collection[Var]) -> Size | None:
    """How many blocks of a length cover what is known: if that isn't known too, as if it were one of all the length."""
    covered, length = a - b + 1, b.atom
    if length is not None and length not in parameters and not covered.mentions((length,)):
        estimates[length] = covered
        return Poly({(): 1})
    left = (b - covered).constant
    return Poly({(): 1}) if left is not None and left >= 0 else None
