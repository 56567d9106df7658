"""Gradients of recurrences at many points in numbers that all points share."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Comp, For, Scalar
from dlang.ir.traverse import walk
from dlang.pipeline import PASSES, optimise
from tests.ad.four_ways import four_ways
from tests.specialize.support import lowered

X = np.array([0.31, -0.72, 1.13, 0.54, -0.25])
C = np.array([0.4, -0.3, 0.8])

# name: the text of `at`, the value of a point x; it may use the numbers c: f64[k], and the number i of the point.
POINTS: dict[str, str] = {
    "a polynomial": "{ var y = 0.0; for j < k { y = y * x + c[k - 1 - j] }; y }",
    "two parts of a state, of which one is the same at all points": (
        "{ var (y, w) = (x, 1.0); for j < k { y = 0.5 * y + w * sin(y); w = w * c[j] }; y * w }"
    ),
    "what is computed before and behind": (
        "{ let e = exp(x); var y = e; for j < k { y = y * c[j] + 0.1 * e * x }; tanh(y) * e + x }"
    ),
    "a loop behind a loop": (
        "{ var y = x; for j < k { y = y * c[j] + 1.0 }; var z = y; for j < 2 * k { z = 0.5 * z * y + c[j // 2] }; z }"
    ),
    "a loop in a loop": (
        "{ var y = x; for j < k { var z = y; for l < k { z = 0.5 * z * c[l] + x }; y = 0.3 * y + z * c[j] }; y }"
    ),
    "a counter that chooses the element": (
        "{ var (y, t) = (x, 1); for j < k { y = 0.5 * y * y + c[t]; t = (t + 2) % k }; y }"
    ),
    "a counter that differs between points": (
        "{ var (y, t) = (x, i); for j < k { y = 0.5 * y * y + c[t % k]; t += 2 }; y }"
    ),
    "a counter that is checked at no point, too": (
        "{ var (y, t) = (x, 1); for j < k { y = 0.5 * y * y + c[t]; t = (3 + t - i64(c[t] > 9.0)) % k }; y }"
    ),
    "branches": "{ var y = x; for j < k { if y > 0.2 { y = y * c[j] } else { y = y + c[k - 1 - j] ** 2 } }; y }",
    "no iterations": "{ var y = x; for j in k..k - 1 { y = y * c[j] }; y * c[0] }",
    "as many iterations as the number of the point": "{ var y = x; for j < i { y = y * c[j % k] + 0.5 }; y }",
}
SUMS = {
    "a sum": "sum(at(c, x[i], i) ** 2 for i)",
    "two axes": "sum(at(c, x[i] * x[j], i) for i, j)",
    "an array": "{ let y = [at(c, x[i], i) for i]; sum(y * reverse(y)) + max(y) }",
}


def written(point: str, total: str) -> str:
    at = f"fn at(c: f64[k], x: f64, i: i64) -> f64 = {POINTS[point]}\n"
    return at + f"fn f(c: f64[k], x: f64[n]) -> f64 = {SUMS[total]}"


@pytest.mark.parametrize("point", POINTS)
def test_the_gradient_of_a_recurrence_at_many_points(point: str) -> None:
    total = list(SUMS)[list(POINTS).index(point) % len(SUMS)]
    assert any(np.any(e) for e in four_ways(written(point, total), [3, 5, C, X]))


OTHER = (  # of which some have no loop, or one whose iterations differ in number, or may fail at no point
    "a loop in a loop",
    "a counter that is checked at no point, too",
    "no iterations",
    "as many iterations as the number of the point",
)


@pytest.mark.parametrize("point", [p for p in POINTS if p not in OTHER])
def test_it_is_loops_around_comprehensions(point: str) -> None:
    text = written(point, "a sum") + "\nfn main(c: f64[k], x: f64[n]) -> f64[k] = grad(f)(c, x)"
    made = lowered(text, "main")
    passes = [p for p in PASSES if p.name != "point_loops"]  # which puts loops back where no iteration needs all points
    program = optimise(made.program, [made.entry.name], verify=True, passes=passes)
    loops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, For)]
    around = [loop for loop in loops if any(isinstance(let.op, Comp) for let in loop.body.lets)]
    others = [loop for loop in loops if loop not in around]  # forward, if nothing is saved
    assert around and all(isinstance(p.type, Scalar) for loop in others for p in loop.params)
    assert not any(isinstance(let.op, For) for loop in loops for let in walk(loop.body))


@pytest.mark.parametrize("n", [0, 2])
def test_a_check_of_what_all_points_share_is_done_where_there_is_a_point(n: int) -> None:
    text = """
fn at(c: f64[k], x: f64, to: i64[m]) -> f64 { var (y, t) = (x, 0)
for j < k { y = y * c[j] + 1.0
t = to[t] }
y * f64(t) }
fn f(c: f64[k], x: f64[n], to: i64[m]) -> f64 = sum(at(c, v, to) for v in x)
fn main(c: f64[k], x: f64[n], to: i64[m]) -> f64[k] = grad(f)(c, x, to)"""
    made = lowered(text, "main")
    program = optimise(made.program, [made.entry.name], verify=True)
    values = [3, n, 2, C, X[:n], np.array([1, 7])]
    if n:
        with pytest.raises(RunError, match="index 7 is out of range"):
            Interpreter(program).run(made.entry.name, values)
    else:
        Interpreter(program).run(made.entry.name, values)


OWN_ARRAYS = {
    "with numbers of its own": "w = [{ var a = [0.5, w[i]]; for j < 3 { a[j % 2] += 0.5 }; a[0] * a[1] * c[0] } for i]",
    "and add to them": "w = [{ var a = [0.5, w[i]]; for j < 3 { a[j % 2] += x[i] * a[1] }; a[0] * a[1] * c[0] } for i]",
    "along two axes": (
        "let m = [{ var a = [0.5, w[i]]; for j < 3 { a[j % 2] += 0.5 }; sin(a[0] * a[1]) * c[l] } for i < n, l < k]; "
        "w = [sum(m[i]) for i]"
    ),
}


@pytest.mark.parametrize("name", OWN_ARRAYS)
def test_points_in_a_loop_read_elements_of_arrays_of_their_own(name: str) -> None:
    text = f"fn f(c: f64[k], x: f64[n]) -> f64 {{ var w = x; for t < 2 {{ {OWN_ARRAYS[name]} }}; sum(w * x) }}"
    assert all(np.any(e) for e in four_ways(text, [3, 5, C, X]))
