"""Loops of a function under `checkpoint`: taken apart into segments, of which the states at their starts are saved.

    for i in 0..n { s = B(i, s) }     becomes     for j in 0..⌈n/m⌉ { for i in j·m..min((j+1)·m, n) { s = B(i, s) } }

with m about √n. The adjoint of the outer loop saves s at the start of each segment; for each, last first, it runs the
segment again, which now saves what its adjoint needs, and then that backwards. So the body runs once more than it would
have, and the memory is that of √n states and of √n trips (Griewank: Achieving logarithmic growth of temporal and
spatial complexity in reverse automatic differentiation, 1992; with two levels).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ad.scope import Scope, carry
from dlang.ir.anf import Array, Block, Comp, For, Let, Lit, Op, Size, SizeOf, Update, Var, While, fresh, poly
from dlang.ir.traverse import Renaming
from dlang.ir.types import I64


def has_segments(op: For | While, scope: Scope) -> bool:
    """Whether a loop is to be taken apart.

    One that changes elements of an array in its state is not: as a rule saving these takes less than saving its states.
    """
    if not scope.segments or scope.sink is not None:
        return False
    arrays = {p for p in op.params if isinstance(p.type, Array)}
    return not any(a in arrays for let in op.body.lets for a in _changed(let.op))


def _changed(op: Op) -> list[Var]:
    """The arrays of which an operation changes elements."""
    match op:
        case Update(array=array):
            return [array]
        case Comp():
            return [d.into for d in op.destinations if d.into is not None]
        case _:
            return []


def segmented(let: Let, op: For, scope: Scope) -> tuple[list[Let], Let]:
    """The lets that decide how long a segment is, and the loop over the segments."""
    b = scope.b
    with b.scope() as before:
        trips = b.prim("maximum", b.size(op.high - op.low), Lit(0, "i64"), name="trips")
        root = b.cast("i64", b.prim("sqrt", b.cast("f64", trips)))
        length = b.add(root, Lit(1, "i64"), name="length")
        count = b.prim("floordiv", b.size(poly(trips) + poly(length) - 1), length, name="segments")
    assert isinstance(count, Var) and isinstance(length, Var)
    scope.known.facts.size(count)
    outer = Renaming({}, fresh=True)
    j = fresh("segment", I64)
    params = tuple([outer.bind(p) for p in op.params])
    inner = Renaming({}, fresh=True)
    ends = tuple([inner.bind(p) for p in op.params])
    with b.scope() as lets:
        low = b.one(SizeOf(op.low + poly(j) * poly(length)), "low")
        high = b.prim("minimum", b.size(poly(low) + poly(length)), b.size(op.high), name="high")
        b.emit_as(ends, replace(op, low=poly(low), high=poly(high), init=params))
    carry(scope.active, outer)
    carry(scope.active, inner)
    whole = For(j, poly(0), poly(count), params, op.init, Block(tuple(lets), ends))
    return before, Let(let.vars, whole, let.span)


def run_again(lets: Sequence[Let], scope: Scope, low: Size, high: Size) -> list[Let]:
    """Emits the adjoint of a segment: the segment once more, and that backwards. Its first run saves nothing."""
    b = scope.b
    renaming = Renaming({}, fresh=True)
    copies = [renaming.let(let) for let in lets]
    carry(scope.active, renaming)
    for old, new in renaming.env.items():
        if old in scope.bars and isinstance(new, Var):
            scope.bars[new] = scope.bars.pop(old)
    for let in copies:
        if isinstance(let.op, For):
            for end in (*let.op.low.atoms(), *let.op.high.atoms()):
                scope.known.facts.between(end, (low,), (high + 1,))
    with b.scope() as back:
        forward = scope.walk(copies, scope)
    for let in (*forward, *back):
        b.append(let)
    return list(lets)
