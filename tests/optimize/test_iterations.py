"""Iterations of a loop as rows: what each of them sees, and what they add up, at once."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir import anf
from dlang.ir.axes import Location
from dlang.ir.builder import Builder, axis
from dlang.ir.comprehension_queries import sizes_named
from dlang.ir.types import array_type
from dlang.optimize.iterations import Iteration, Rows
from tests.ir.interpreting import I64, RNG, matrix, run

N, M = 5, 3
BACKWARDS = pytest.mark.parametrize("reversed", [False, True])


def loop(b: Builder, x: anf.Var, low: int = 0) -> anf.For:
    """A loop that computes a row y of each row of x, and adds up y ⊗ (the row of x that is as far from the end)."""
    n, m = array_type(x).shape
    number, total = anf.fresh("t", I64), anf.fresh("s", anf.Array("f64", (m, m)))
    with b.scope() as lets:
        last = b.size(n - 1 - number, "last")
        (y,) = b.comp([m], lambda j: b.prim("tanh", b.read(x, [number, j])))
        i, j = axis(m), axis(m, name="j")
        keep = anf.Reduce((m, m), (anf.poly(i.var), anf.poly(j.var)), "sum", total)
        (added,) = b.comp([i, j], lambda i, j: b.mul(b.read(y, [i]), b.read(x, [last, j])), [keep])
    start = b.full((m, m), anf.Lit(0.0, "f64"))
    return anf.For(number, anf.poly(low), n, (total,), (start,), anf.Block(tuple(lets), (added,)))


def test_what_depends_on_the_iteration() -> None:
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    op = loop(b, matrix(b, "x", n, m))
    one = Iteration.of(op)
    last, y, added = (let.vars[0] for let in op.body.lets)
    assert one.computed == {*op.params, last, y, added}
    assert one.opened(anf.poly(last)) == anf.poly(n) - 1 - op.index
    assert (one.is_known(anf.poly(last)), one.is_fixed(anf.poly(last)), one.names(anf.poly(last))) == (
        True,
        False,
        True,
    )
    assert one.is_fixed(anf.poly(m)) and one.is_fixed(anf.poly(last) + op.index) and not one.names(anf.poly(m))
    assert not one.is_known(anf.poly(y))
    assert one.slope([anf.poly(m), anf.poly(op.index) * 2]) == 2
    assert one.slope([anf.poly(last), anf.poly(m)]) == -1
    assert one.slope([anf.poly(m)]) == one.slope([anf.poly(op.index), anf.poly(last)]) == 0


@BACKWARDS
def test_an_iteration_has_one_row(reversed: bool) -> None:
    t, r = anf.fresh("t", I64), anf.fresh("r", I64)
    first, count = anf.poly(anf.fresh("first", I64)), anf.poly(anf.fresh("count", I64))
    rows = Rows(Iteration(t, frozenset(), {}), first, count, reversed)
    assert rows.row.substitute({t: rows.iteration(r)}.get) == anf.poly(r)
    assert rows.iteration(r).substitute({r: first * 0}.get) == (first + count - 1 if reversed else first)


@BACKWARDS
def test_the_view_of_what_iterations_see(reversed: bool) -> None:
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    x = matrix(b, "x", n, m)
    op = loop(b, x)
    j = anf.fresh("j", I64)
    seen = anf.View(x, (j,), (anf.poly(m),), (anf.poly(n) - 1 - op.index, anf.poly(j)))
    rows = Rows(Iteration.of(op), anf.ONE, anf.poly(n) - 2, reversed)
    value = RNG.normal(size=(N, M))
    expected = value[::-1][1 : N - 1]
    made = run(b, [N, M, value], b.copy(b.one(rows.parts(seen))))[0]
    np.testing.assert_array_equal(made, expected[::-1] if reversed else expected)


@BACKWARDS
def test_what_a_loop_adds_up_is_added_up_at_once(reversed: bool) -> None:
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    x = matrix(b, "x", n, m)
    op = loop(b, x, low=2)
    (slow,) = b.emit(op)
    _, made, added = op.body.lets
    assert isinstance(added.op, anf.Comp) and sizes_named(op.body)
    rows = Rows(Iteration.of(op), op.low, op.high - op.low, reversed)
    t, j = axis(rows.count), axis(m, name="j")
    keep = anf.Reduce((rows.count, anf.poly(m)), (anf.poly(t.var), anf.poly(j.var)))
    (ys,) = b.comp([t, j], lambda t, j: b.prim("tanh", b.read(x, [rows.iteration(t), j])), [keep])
    plain = anf.Reduce(added.op.destinations[0].shape, added.op.destinations[0].index, "sum")
    sums = anf.Comp(added.op.axes, added.op.body, (plain,))
    fast = b.one(rows.at_once(sums, {made.vars[0]: Location(ys, (rows.row,))}))
    expected, result = run(b, [N, M, RNG.normal(size=(N, M))], slow, fast)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
