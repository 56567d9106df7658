"""Parts of elements of arrays of structures: only the array of that part is read."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.ir import anf
from tests.specialize.support import lowered, ops

TEXT = """
struct Inner<n> { u: f64, v: f64[n] }
struct Outer<n> { a: f64, b: Inner<n>, c: (i64, f64) }

fn made(x: f64[n]) -> Outer<2>[n] = [Outer(v, Inner(2.0 * v, [v, -v]), (i, 3.0 * v)) for (i, v) in enumerate(x)]
fn parts(x: f64[n], k: i64) -> (f64, f64, f64, f64[2], i64, f64) {
  let o = made(x)
  (o[k].a, o[k].b.u, o[k].b.v[1], o[k].b.v, o[k].c.0, o[k].c.1)
}
fn slices(x: f64[n]) -> (f64, f64, f64[?]) {
  let o = made(x)
  (o[1..][1].a, o[[0, 0]][1].b.v[1], [p.b.u + o[i].c.1 for (i, p) in enumerate(o)])
}
fn total(x: f64[n], k: i64) -> f64 = made(x)[k].b.u * made(x)[0].c.1
"""


def test_a_part_of_an_element_is_an_element_of_the_part() -> None:
    m = dlang.compile(TEXT)
    x = np.array([1.0, 2.0, 5.0])
    a, u, last, v, i, w = m.parts(x, 2)
    assert (a, u, last, list(v), i, w) == (5.0, 10.0, -5.0, [5.0, -5.0], 2, 15.0)
    tail, gathered, each = m.slices(x)
    assert (tail, gathered, list(each)) == (5.0, -1.0, [5.0, 10.0, 25.0])
    np.testing.assert_allclose(dlang.grad(m.total)(x, 2), [30.0, 0.0, 6.0])
    with pytest.raises(DlangError, match="E08"):
        m.parts(x, 3)


def test_nothing_is_read_of_other_parts() -> None:
    made = lowered("fn f(x: (f64, f64, (f64, i64))[n]) -> f64 = x[0].0 + x[1].2.0")
    assert sum(isinstance(op, anf.Read) for op in ops(made.program)) == 2
