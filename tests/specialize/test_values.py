"""Structures are flattened, sizes are values, indices are proven or checked."""

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.ir import anf
from tests.specialize.support import lowered, ops


def test_a_struct_is_its_leaves():
    made = lowered(
        """
        struct Point { x: f64, y: f64 }
        fn f(p: Point, k: f64) -> Point = k * p - Point(x = 1.0, y = 0.0)
        """
    )
    assert made.run(3.0, 4.0, 2.0) == [5.0, 8.0]


def test_an_array_of_structs_is_an_array_for_each_leaf():
    made = lowered(
        """
        struct P { at: f64[3], mass: f64 }
        fn f(m: f64[n]) -> f64 {
          let ps = [P(at = [v, 2.0 * v, 0.0], mass = v) for v in m]
          sum(p.mass * sum(p.at) for p in ps) + ps[1].at[1]
        }
        """
    )
    assert made.run(2, np.array([1.0, 3.0])) == [3.0 + 27.0 + 6.0]


def test_zip_and_tuples_of_arrays():
    made = lowered("fn f(x: f64[n], y: f64[n]) -> f64 = sum(a * b for (a, b) in zip(x, y))")
    assert made.run(3, np.arange(3.0), np.arange(3.0)) == [5.0]


def test_what_is_not_a_float_is_left_as_it_is():
    made = lowered(
        """
        struct S { w: f64, n: i64 }
        fn f(s: S) -> S = s - 0.5 * s
        """
    )
    assert made.run(4.0, 7) == [2.0, 7]


def test_an_axis_of_the_literal_size_1_stretches():
    made = lowered("fn f(x: f64[n, 1], y: f64[m]) -> f64[n, m] = x + y")
    (z,) = made.run(2, 3, np.array([[10.0], [20.0]]), np.arange(3.0))
    assert z.tolist() == [[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]]


def test_indices_that_are_proven_have_no_check():
    made = lowered(
        """
        fn f(x: f64[n], m: f64[n, n]) -> f64 =
          sum(x[i + 1] - x[i] for i < n - 1) + sum(m[i, n - 1 - i] for i) + sum(x[2 * i] for i < n // 2)
        """
    )
    reads = [op for op in ops(made.program) if isinstance(op, anf.Assert) and op.code == "E0801"]
    assert not reads
    x = np.arange(5.0)
    assert made.run(5, x, np.ones((5, 5))) == [4.0 + 5.0 + 2.0]


def test_an_index_that_is_not_proven_is_checked_and_names_the_values():
    made = lowered("fn f(x: f64[n], i: i64) -> f64 = x[i]")
    assert made.run(3, np.arange(3.0), 2) == [2.0]
    for i in (3, -1):
        with pytest.raises(RunError, match=f"index {i} is out of range for axis 0 of size 3"):
            made.run(3, np.arange(3.0), i)


def test_a_slice_out_of_range_is_refused():
    made = lowered("fn f(x: f64[n], a: i64, b: i64) -> f64 = sum(x[a..b])")
    assert made.run(5, np.arange(5.0), 1, 3) == [3.0]
    for a, b in ((-1, 2), (3, 2), (0, 6)):
        with pytest.raises(RunError, match="slice"):
            made.run(5, np.arange(5.0), a, b)


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("fn f(a: i64, b: i64) -> i64 = a // b", (1, 0), "division by zero"),
        ("fn f(a: i64, b: i64) -> i64 = a % b", (1, 0), "remainder by zero"),
        ("fn f(a: i64, b: i64) -> i64 = a ** b", (2, -1), "negative power"),
        ("fn f(n: i64, x: i64) -> f64 = sum(zeros(n))", (-1, 0), "is negative: -1"),
        ("fn f(a: i64, b: i64) -> f64 = max([f64(i) for i < a])", (0, 0), "`max` of nothing"),
        ('fn f(a: i64, b: i64) -> i64 { assert a < b, "a is {a}"; a }', (3, 2), "a is 3"),
        ('fn f(a: i64, b: i64) -> i64 = if a > b { fail("no {b}") } else { a }', (3, 2), "no 2"),
    ],
)
def test_what_a_run_refuses(text, args, message):
    made = lowered(text, bindings={})
    with pytest.raises(RunError, match=message):
        made.run(*args)


def test_sizes_that_are_known_only_when_it_runs_come_with_the_array():
    made = lowered(
        """
        fn positive(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]
        fn f(x: f64[n]) -> f64 {
          let kept: f64[k] = positive(x)
          if k == 0 { 0.0 } else { sum(kept) / f64(k) }
        }
        """
    )
    assert made.run(3, np.array([1.0, -5.0, 3.0])) == [2.0]
    assert made.run(1, np.array([-1.0])) == [0.0]


def test_branches_of_different_sizes_join():
    made = lowered("fn f(x: f64[n], c: bool) -> f64[?] = if c { [v for v in x if v > 0.0] } else { x }")
    x = np.array([1.0, -1.0])
    assert made.run(2, x, True)[0].tolist() == [1.0]
    assert made.run(2, x, False)[0].tolist() == [1.0, -1.0]


def test_a_comprehension_of_rows_made_by_loops_runs_each_once():
    made = lowered(
        """
        fn sums(x: f64[n]) -> f64[n] { var out = x; for i in 1..n { out[i] += out[i - 1] }; out }
        fn f(m: f64[n, k]) -> f64[n, k] = [sums(row) for row in m]
        """
    )
    (z,) = made.run(2, 3, np.ones((2, 3)))
    assert z.tolist() == [[1.0, 2.0, 3.0]] * 2


def test_an_axis_that_has_ended_proves_nothing():
    made = lowered("fn f(x: f64[n]) -> f64 { let s = sum(x); s + x[0] }")
    with pytest.raises(RunError, match="index 0 is out of range"):
        made.run(0, np.zeros(0))


def test_what_a_branch_checked_proves_nothing_outside():
    made = lowered(
        "fn f(x: f64[n], k: i64) -> f64 { let s = if k > 0 { sum(zeros(k)) } else { 0.0 }; s + sum(x[k..]) }"
    )
    with pytest.raises(RunError, match="slice -1"):
        made.run(2, np.ones(2), -1)


def test_generic_code_keeps_the_dtype_of_each_float():
    made = lowered(
        """
        struct S { w: f32[2], b: f64 }
        fn halved<p: Vector>(x: p) -> p { let k = 0.5; map_floats(|v| k * v, x) }
        fn f(s: S) -> S = halved(s)
        """
    )
    w, b = made.run(np.array([1.0, 2.0], np.float32), 3.0)
    assert w.dtype == np.float32 and w.tolist() == [0.5, 1.0] and b == 1.5
