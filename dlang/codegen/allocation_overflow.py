"""Sizes that are no i64.

Sizes are polynomials of i64 values, and LLVM computes them as i64, so the bound of `sum(x for i < n * n)` may wrap to a
small one. Where it can, it is estimated as a float before it is used. The sizes of arrays can't: they were counted when
the array was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Assert, Compute, Convert
from dlang.diagnostics import Span
from dlang.inequalities import LARGEST, SUM
from dlang.ir.anf import Atom, Comp, For, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.types import BOOL

F64 = Scalar("f64")


def bounds_of(op: Comp | For) -> Iterator[Size]:
    """The bounds that are known where a loop begins."""
    if isinstance(op, For):
        yield from (op.low, op.high)
        return
    axes = [axis.var for axis in op.axes]
    for axis in op.axes:
        yield from (bound for bound in (*axis.lows, *axis.highs) if not bound.mentions(axes))


def check_sizes(s: Scheduler, sizes: Iterable[Size], span: Span | None) -> None:
    """Ends the run where a size is too large for an i64, as the memory for an array of that size would be."""
    for size in dict.fromkeys(sizes):
        if _may_wrap(s, size):
            _check(s, size, span or s.span)


def _may_wrap(s: Scheduler, size: Size) -> bool:
    """Tells whether a size may wrap: it is neither that of an array nor a sum of variables, which no run can exceed."""
    factors = {m: abs(float(c)) for m, c in size.terms.items()}
    if factors.pop((), 0.0) >= SUM:
        return True
    products = [(m, c) for m, c in factors.items() if len(m) > 1 or c > 1]
    if not products:
        return False
    known = s.memory.sizes
    return size not in known and any(len(m) > 1 or c * LARGEST > SUM or poly(m[0]) not in known for m, c in products)


def _check(s: Scheduler, size: Size, span: Span | None) -> None:
    total: Atom = Lit(float(size.terms.get((), 0)), "f64")
    for monomial, c in size.terms.items():
        if monomial:
            term: Atom = Lit(float(c), "f64")
            for var in monomial:
                factor = fresh(var.name, F64)
                s.out.append(Convert(factor, var))
                term = _computed(s, "mul", term, factor)
            total = _computed(s, "add", total, term)
    estimate, fine = _computed(s, "abs", total), fresh("fine", BOOL)
    s.out.append(Compute(fine, "lt", (estimate, Lit(float(SUM), "f64"))))
    s.out.append(Assert(fine, "E0806", ("the memory is exhausted",), (), span))


def _computed(s: Scheduler, name: str, *args: Atom) -> Var:
    out = fresh("size", F64)
    s.out.append(Compute(out, name, args))
    return out
