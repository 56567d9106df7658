"""Loops of a function under `checkpoint`: taken apart into segments, of which the states at their starts are saved.

    for i in 0..n { s = B(i, s) }     becomes     for j in 0..⌈n/m⌉ { for i in j·m..min((j+1)·m, n) { s = B(i, s) } }

with m about √n. The adjoint of the outer loop saves s at the start of each segment; for each, last first, it runs the
segment again, which now saves what its adjoint needs, and then that backwards. So the body runs once more than it would
have, and the memory is that of √n states and of √n iterations (Griewank: Achieving logarithmic growth of temporal and
spatial complexity in reverse automatic differentiation, 1992; with two levels). A loop in the body is taken apart, too,
and runs once more again.

A loop that changes elements of arrays saves numbers in each iteration, and arrays at the start of each segment: with k
elements in these m is about √(n k), so that both take as much, and a loop of fewer iterations than elements is one
segment. A loop that begins with an array which a loop around it changes, or reads one, is taken apart only where it is
known to have as many iterations as there are elements: the array would be saved each time that it runs, though it may
look at a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ad.activity import next_state
from dlang.ad.fleeting import fleeting
from dlang.ad.scope import Scope, carry
from dlang.ir.anf import Block, For, IndexExpr, Let, Lit, Size, Var, While, fresh, poly
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import free_vars
from dlang.ir.types import I64, array_type, product

FEW = 32  # a literal number of iterations up to which a loop stays whole


def has_segments(op: For | While, scope: Scope) -> bool:
    """Tells whether to strip-mine a loop."""
    if not scope.segments or scope.sink is not None:
        return False
    elements: Size = poly(0)
    for v in free_vars(op):
        if v in scope.fleeting:
            elements = elements + product(array_type(v).shape)
    if isinstance(op, For):
        iterations = op.high - op.low
        if op.index in scope.parts or (iterations.constant is not None and iterations.constant <= FEW):
            return False
        return not elements.terms or scope.known.at_least_zero(iterations - elements)
    return not elements.terms


def _changed(op: For) -> Size:
    """How many elements the arrays of the state have of which the loop changes elements."""
    cheap = fleeting(op.body, op.params)
    elements: Size = poly(0)
    for p, after in zip(op.params, next_state(op), strict=True):
        if after is not p and after in cheap:
            elements = elements + product(array_type(p).shape)
    return elements


def segmented(let: Let, op: For, scope: Scope) -> tuple[list[Let], Let]:
    """The lets that decide how long a segment is, and the loop over the segments."""
    b = scope.b
    with b.scope() as before:
        iterations = b.prim("maximum", b.size(op.high - op.low), Lit(0, "i64"), name="iterations")
        changed = _changed(op)
        states = b.prim("maximum", b.size(changed), Lit(1, "i64")) if changed.terms else Lit(1, "i64")
        points = b.prim("mul", b.cast("f64", iterations), b.cast("f64", states))
        root = b.cast("i64", b.prim("sqrt", points))
        length = b.add(root, Lit(1, "i64"), name="length")
        count = b.prim("floordiv", b.size(poly(iterations) + poly(length) - 1), length, name="segments")
    assert isinstance(count, Var) and isinstance(length, Var)
    scope.known.facts.size(count)
    outer = Renaming({}, renew=True)
    j = fresh("segment", I64)
    params = tuple([outer.bind(p) for p in op.params])
    inner = Renaming({}, renew=True)
    ends = tuple([inner.bind(p) for p in op.params])
    with b.scope() as lets:
        low = b.one(IndexExpr(op.low + poly(j) * poly(length)), "low")
        high = b.prim("minimum", b.size(poly(low) + poly(length)), b.size(op.high), name="high")
        b.emit_as(ends, replace(op, low=poly(low), high=poly(high), init=params))
    carry(scope.active, outer)
    carry(scope.active, inner)
    whole = For(j, poly(0), poly(count), params, op.init, Block(tuple(lets), ends))
    return before, Let(let.vars, whole, let.span)


def run_again(lets: Sequence[Let], scope: Scope, low: Size, high: Size) -> list[Let]:
    """Emits the adjoint of a segment: the segment once more, and that backwards. Its first run saves nothing."""
    b = scope.b
    renaming = Renaming({}, renew=True)
    copies = [renaming.let(let) for let in lets]
    carry(scope.active, renaming)
    for old, new in renaming.env.items():
        if old in scope.bars and isinstance(new, Var):
            scope.bars[new] = scope.bars.pop(old)
    scope.parts |= {let.op.index for let in copies if isinstance(let.op, For)}
    for let in copies:
        if isinstance(let.op, For):
            for end in (*let.op.low.atoms(), *let.op.high.atoms()):
                scope.known.facts.between(end, (low,), (high + 1,))
    with b.scope() as back:
        forward = scope.walk(copies)
    for let in (*forward, *back):
        b.append(let)
    return list(lets)
