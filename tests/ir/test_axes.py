"""Code that moves along an axis computes what it did, for all points of the axis, for one, or for some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from dlang.ir import anf
from dlang.ir.axes import Location, Relocation, at_point, part, stacked
from dlang.ir.builder import Builder, axis, f64
from tests.ir.interpreting import I64, RNG, run

N, M, K = 4, 3, 2
SHAPE = (anf.poly(N), anf.poly(M))
X = RNG.normal(size=(N, M))


def maps(draw: st.DrawFn) -> tuple[anf.Comp, anf.Var]:
    """A comprehension over i and j, all of whose reads of a matrix are in row i, and the matrix."""
    b = Builder()
    x = anf.fresh("x", anf.Array("f64", SHAPE))
    i, j = axis(N), axis(M, name="j")
    across = [anf.poly(j.var), anf.poly(M - 1) - j.var, anf.ZERO]
    with b.scope() as lets:
        known: list[anf.Atom] = [f64(0.5), b.cast("f64", i.var), b.cast("f64", b.size(anf.poly(i.var) * 2 + j.var))]
        for _ in range(draw(st.integers(1, 5))):
            known.append(b.read(x, [i.var, draw(st.sampled_from(across))]))
            first, second = draw(st.sampled_from(known)), draw(st.sampled_from(known))
            known.append(b.prim(draw(st.sampled_from(["add", "mul", "sub", "maximum"])), first, second))
        known.append(b.reduce([M], lambda k: b.mul(b.read(x, [i.var, k]), known[-1])))
    keep = anf.Reduce(SHAPE, (anf.poly(i.var), anf.poly(j.var)))
    return anf.Comp((i, j), anf.Block(tuple(lets), (draw(st.sampled_from(known[-3:])),)), (keep,)), x


comprehensions = st.composite(maps)()
few = settings(deadline=None, max_examples=25)


def whole(comp: anf.Comp, x: anf.Var, value: Any) -> Any:
    """The results of a comprehension for a matrix."""
    b = Builder()
    b.params.append(x)
    return run(b, [value], b.one(comp))[0]


def copied(
    comp: anf.Comp, env: Mapping[anf.Var, anf.Size], there: Mapping[anf.Var, Location]
) -> tuple[anf.Block, tuple[anf.Size, ...]]:
    """The body of a comprehension where its arrays are somewhere else, and the index of its result."""
    code = Relocation(env, there, renew=True)
    body = code.block(comp.body)
    return anf.Block((*code.numbers, *body.lets), body.results), tuple(map(code.size, comp.destinations[0].index))


@few
@given(comprehensions)
def test_of_all_rows_of_an_array(drawn: tuple[anf.Comp, anf.Var]) -> None:
    comp, x = drawn
    b = Builder()
    xs = b.param("xs", anf.Array("f64", (anf.poly(K), *SHAPE)))
    t = axis(K, name="t")
    many = anf.Comp((t, *comp.axes), comp.body, (stacked(comp.destinations[0], (anf.poly(K),), (anf.poly(t.var),)),))
    out = b.one(Relocation({}, {x: Location(xs, (anf.poly(t.var),))}, renew=True).op(many))
    values = RNG.normal(size=(K, N, M))
    np.testing.assert_array_equal(run(b, [values], out)[0], [whole(comp, x, v) for v in values])


@few
@given(comprehensions, st.integers(0, N - 1))
def test_at_a_point(drawn: tuple[anf.Comp, anf.Var], point: int) -> None:
    comp, x = drawn
    b = Builder()
    b.params.append(x)
    at = anf.poly(b.param("at", I64))
    row = b.one(at_point(x, (at,)))
    body, index = copied(comp, {comp.axes[0].var: at + 0}, {x: Location(row, axis=0)})
    out = b.one(anf.Comp(comp.axes[1:], body, (anf.Reduce(SHAPE[1:], index[1:]),)))
    np.testing.assert_array_equal(run(b, [X, point], out)[0], whole(comp, x, X)[point])


@few
@given(comprehensions, st.integers(0, N - 2), st.integers(0, 2))
def test_for_a_part(drawn: tuple[anf.Comp, anf.Var], first: int, some: int) -> None:
    comp, x = drawn
    b = Builder()
    b.params.append(x)
    start, count = anf.poly(b.param("start", I64)), anf.poly(b.param("count", I64))
    rows = b.one(part(x, count, start))
    i, j = comp.axes
    here = axis(count)
    body, index = copied(comp, {i.var: start + here.var}, {x: Location(rows, axis=0, start=start)})
    keep = anf.Reduce((count, SHAPE[1]), (index[0] - start, index[1]))
    out = b.one(anf.Comp((here, j), body, (keep,)))
    np.testing.assert_array_equal(run(b, [X, first, some], out)[0], whole(comp, x, X)[first : first + some])


@few
@given(comprehensions)
def test_a_further_axis_stands_anywhere(drawn: tuple[anf.Comp, anf.Var]) -> None:
    comp, x = drawn
    b = Builder()
    xs = b.param("xs", anf.Array("f64", (*SHAPE, anf.poly(K))))
    body, index = copied(comp, {}, {x: Location(xs, (anf.ONE,), at=2)})
    out = b.one(anf.Comp(comp.axes, body, (anf.Reduce(SHAPE, index),)))
    values = RNG.normal(size=(N, M, K))
    np.testing.assert_array_equal(run(b, [values], out)[0], whole(comp, x, values[:, :, 1]))


def test_an_only_element_is_not_read() -> None:
    b = Builder()
    x, y = anf.fresh("x", anf.Array("f64", (anf.ONE,))), b.param("y", anf.Scalar("f64"))
    with b.scope() as lets:
        total = b.add(b.read(x, [0]), b.read(x, [0]))
    body = Relocation({}, {x: Location(y, axis=0)}).block(anf.Block(tuple(lets), (total,)))
    assert [let.op for let in body.lets] == [anf.Prim("add", (y, y))]


@few
@given(st.integers(0, 2), st.integers(0, 1))
def test_views_of_points_and_parts(at: int, first: int) -> None:
    b = Builder()
    x = b.param("x", anf.Array("f64", (anf.poly(2), anf.poly(3), anf.poly(4))))
    views = [at_point(x, (anf.poly(first),), at), part(x, anf.ONE, anf.poly(first), at)]
    out = [b.copy(b.one(view)) for view in views]
    value = RNG.normal(size=(2, 3, 4))
    point, some = run(b, [value], *out)
    np.testing.assert_array_equal(point, value.take(first, axis=at))
    np.testing.assert_array_equal(some, value.take([first], axis=at))
