"""Sharing: what depends on some of the axes around it runs once for each of their points, however it is spelt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program
from dlang.pipeline import optimise
from tests.specialize.support import lowered

HEAD = """
struct Pair { a: f64, b: f64 }
fn doubled(r: f64[d]) -> f64[d] = cumsum(r) * 2.0
fn carried(r: f64[d]) -> f64[d] {
  var q = r
  for j < d { q[j] = sin(q[j]) + (if j > 0 { r[j - 1] } else { 0.0 }) }
  q
}
fn iterated(s: f64, d: size) -> f64 {
  var t = s
  for k < d { t = sin(t) }
  t
}
fn root(a: f64) -> f64 = sqrt(1.0 + sqrt(2.0 + sqrt(3.0 + sqrt(4.0 + a))))
fn slow(a: f64) -> f64 = root(root(root(a)))
fn chosen(r: f64[d], k: i64) -> f64 {
  assert k >= 0 and k < d
  cumsum(r)[k]
}
"""
ROWS = {
    "a running sum": "[cumsum(x[i]) for i]",
    "along an axis": "cumsum(x, axis = 1)",
    "along the other axis": "cumsum(x, axis = 0)",
    "of a running sum": "[cumsum(cumsum(row)) for row in x]",
    "joined": "[concat([0.0], x[i][1..]) for i]",
    "padded": "[concat(zeros(1), concat(x[i][..d - 2], zeros(1))) for i]",
    "rolled": "[concat(x[i][1..], x[i][..1]) for i]",
    "turned": "[reverse(cumsum(reverse(x[i]))) for i]",
    "gathered": "[x[i][p] for i]",
    "updated": "[{ var r = x[i]\n r[0] = 0.0\n r } for i]",
    "normalised": "[cumsum(exp(x[i])) / sum(exp(x[i])) for i]",
    "in where": "[where(x[i] > 0.5, cumsum(x[i]), x[i]) for i]",
    "in an arm": "[if x[i, 0] > 0.5 { cumsum(x[i]) } else { x[i] } for i]",
    "in a match": "[match (if x[i, 0] > 0.5 { Some(cumsum(x[i])) } else { None }) { Some(c) => c, None => x[i] }"
    " for i]",
    "by a function": "[doubled(row) for row in x]",
    "by a lambda": "{ let g = |r: f64[d]| cumsum(r) + x[0, 0]\n [g(row) for row in x] }",
    "sorted": "[sort(x[i]) for i]",
    "filtered": "[x[i] * sum(cumsum([v for v in x[i] if v > 0.2])) for i]",
    "in pairs": "{ let q = [(cumsum(row), sort(row)) for row in x]\n [q[i].0 + q[i].1 for i] }",
    "in structures": "{ let q = [[Pair(a = v, b = 2.0 * v) for v in cumsum(row)] for row in x]\n"
    " [[q[i, j].a * q[i, j].b for j < d] for i < n] }",
    "by functions in an array": "{ let fs = [|r: f64[d]| cumsum(r) * x[i, 0] for i]\n [fs[i](x[i]) for i] }",
    "a column at a time": "[[cumsum([x[k, j] for k < n])[i] for j < d] for i < n]",
    "at each point": "[cumsum(x[i])[j] for i, j]",
    "in the inner of two": "[[doubled(x[i])[k] * sort(x[i])[k] for k < d] for i]",
    "captured": "[{ let g = |j: i64| cumsum(x[i])[j]\n g(p[j]) } for i, j]",
    "sorted at each point": "[x[i, argsort(x[i])[j]] for i, j]",
    "of one row": "[cumsum(x[0])[j] + x[i, j] for i, j]",
    "a loop at each point": "[iterated(x[i, 0], d) * x[i, j] for i, j]",
    "one loop": "[iterated(x[0, 0], d) * x[i, j] for i, j]",
    "a branch at each point": "[(if x[i, 0] > 0.5 { exp(x[i, 0]) } else { 1.0 }) * x[i, j] for i, j]",
    "an arm at each point": "[(if x[i, 0] > 0.5 { cumsum(x[i]) } else { x[i] })[j] for i, j]",
    "with a check": "[chosen(x[i], p[0]) * x[i, j] for i, j]",
    "with one check": "[chosen(x[0], p[0]) * x[i, j] for i, j]",
    "in a sum": "[x[i] * sum(cumsum(x[k])[j] * x[i, j] for k < i, j) for i]",
    "in a largest": "[x[i] - max(cumsum(x[i])[j] for j) for i]",
    "in the sums of others": "{ let q = [sum(cumsum(x[j])[i] * x[i, j] for j < n) for i < n]\n [x[i] * q[i] for i] }",
    "in the largest of others": "{ let q = [max(sort(x[0])[j] * x[i, j] for j) for i < n]\n [x[i] * q[i] for i] }",
    "in loops of others": "{ let q = [{ var t = 0.0\n for j < d { t += sort(x[i])[j] * sort(x[0])[j] }\n t } for i < n]"
    "\n [x[i] * q[i] for i] }",
    "of what is filled": "{ let a = atan([1.0 for i < n])\n [x[i] * f64(len([1 for k < d if 1.0 > a[i]])) for i] }",
    "of one point": "{ let c = sum(x)\n let w = [{ let s = ([c for k < 1])[..t]\n sum(s[argsort(s)]) } for t < 1]"
    "\n [x[i] * w[0] for i] }",
    "in a loop": "{ var y = x\n for t < 3 { y = [cumsum(row) * 0.1 for row in y] }\n y }",
    "the same in a loop": "{ var y = x\n for t < d { y[0, t] = sort(x[1])[t] + carried(x[1])[t] }\n y }",
}
ROWS_OF_LOOPS = {
    "changed in place": "[carried(row) for row in x]",
    "changed in place at each point": "[carried(x[i])[j] for i, j]",
}
ARMS = {
    "under a condition of all axes": "[if x[i, j] > 0.5 { x[i, j] * slow(x[i, 0]) } else { 0.0 } for i, j]",
    "in both arms": "[if x[i, j] > 0.5 { x[i, j] * slow(x[i, 0]) } else { slow(2.0 * x[i, 0]) } for i, j]",
    "in an arm of an arm": "[if x[i, j] > 0.2 { if x[i, j] < 0.8 { slow(x[i, 0]) } else { 1 } } else { 0 } for i, j]",
    "of the inner axis": "[if x[i, j] > 0.2 { slow(x[0, j]) * x[i, j] } else { 0.0 } for i, j]",
    "of no axis": "[if x[i, j] > 0.2 { slow(x[0, 0]) * x[i, j] } else { 0.0 } for i, j]",
    "of what a branch chooses": "[slow(if x[i, 0] > 0.5 { x[i, 0] } else { 1.0 }) * x[i, j] for i, j]",
    "under a condition that depends on no more": "[if x[i, 0] > 0.1 { slow(x[i, 0]) * x[i, j] } else { 0.0 } for i, j]",
    "in terms of a sum": "[sum(if x[i, k] > 0.2 { slow(x[i, 0]) } else { 0.0 } for k) * x[i, j] for i, j]",
}
SLOPES = """
fn slopes(x: f64[n, d], v: f64[n, d], p: i64[d]) -> (f64[n, d], f64[n, d]) =
  (grad(|x| sum(f(x, p) ** 2))(x), jvp(|x| f(x, p), x, v).1)
"""


@cache
def compiled(body: str, name: str = "f") -> tuple[Program, Program, str, int]:
    """The program as specialised and as optimised, its entry, and how many sizes that gives first."""
    text = f"{HEAD}fn f(x: f64[n, d], p: i64[d]) -> f64[n, d] = {body}\n{SLOPES}"
    made = lowered(text, name)
    return made.program, optimise(made.program, [made.entry.name], verify=True), made.entry.name, len(made.entry.extra)


def run(p: Program, entry: str, args: Sequence[Any]) -> tuple[list[Any], int]:
    """The results, and the operations but for copies: before ownership is decided, none are made."""
    interpreter = Interpreter(p)
    results = interpreter.run(entry, list(args))
    return results, interpreter.operations - interpreter.counts["Copy"]


def arguments(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n * d)
    return rng.random((n, d)), rng.random((n, d)), rng.permutation(d)


@pytest.mark.parametrize("body", [*ROWS.values(), *ROWS_OF_LOOPS.values()], ids=[*ROWS, *ROWS_OF_LOOPS])
def test_rows_cost_what_their_elements_cost(body: str) -> None:
    written, optimised, entry, extra = compiled(body)
    costs = []
    for d in (12, 24):
        x, _, p = arguments(4, d)
        expected, before = run(written, entry, [4, d, x, p])
        found, after = run(optimised, entry, [4, d, x, p])
        np.testing.assert_allclose(found[extra], expected[extra], rtol=1e-12)
        assert after <= 1.1 * before
        costs.append(after)
    assert costs[1] <= 2.4 * costs[0]


@pytest.mark.parametrize("body", ROWS.values(), ids=ROWS)
def test_derivatives_of_rows_cost_what_their_elements_cost(body: str) -> None:
    _, optimised, entry, extra = compiled(body, "slopes")
    value, _, own, before = compiled(body)
    costs = []
    for d in (12, 24):
        x, v, p = arguments(4, d)
        results, cost = run(optimised, entry, [4, d, x, v, p])
        gradient, tangent = results[extra:]
        y = run(value, own, [4, d, x, p])[0][before]
        np.testing.assert_allclose(np.sum(gradient * v), np.sum(2 * y * tangent), rtol=1e-9)
        costs.append(cost)
    assert costs[1] <= 2.4 * costs[0]


@pytest.mark.parametrize("body", ARMS.values(), ids=ARMS)
def test_numbers_in_arms_are_computed_once_for_the_axes_that_they_depend_on(body: str) -> None:
    written, optimised, entry, extra = compiled(body)
    x, _, p = arguments(12, 24)
    expected, before = run(written, entry, [12, 24, x, p])
    found, after = run(optimised, entry, [12, 24, x, p])
    np.testing.assert_allclose(found[extra], expected[extra], rtol=1e-12)
    assert after <= 0.6 * before


@pytest.mark.parametrize("body", ARMS.values(), ids=ARMS)
def test_derivatives_of_numbers_in_arms(body: str) -> None:
    _, optimised, entry, extra = compiled(body, "slopes")
    value, _, own, before = compiled(body)
    x, v, p = arguments(3, 4)
    results, _ = run(optimised, entry, [3, 4, x, v, p])
    y = run(value, own, [3, 4, x, p])[0][before]
    np.testing.assert_allclose(np.sum(results[extra] * v), np.sum(2 * y * results[extra + 1]), rtol=1e-9)


def test_a_number_of_an_arm_is_computed_under_a_condition_that_depends_on_no_more() -> None:
    text = """
    fn f(d: f64[n], x: f64[n, m]) -> f64 = sum(if d[i] > 0.0 { x[i, j] / sqrt(d[i]) } else { x[i, j] } for i, j)
    fn slopes(d: f64[n], x: f64[n, m]) -> (f64[n], f64[n, n]) = (grad(|d| f(d, x))(d), hessian(|d| f(d, x))(d))
    """
    module = dlang.compile(text)
    d, x = np.array([0.0, 4.0, -1.0]), np.ones((3, 5))
    assert module.f(d, x) == 5 + 2.5 + 5
    gradient, hessian = module.slopes(d, x)
    np.testing.assert_allclose(gradient, [0.0, -0.5 * 5 / 8, 0.0], rtol=1e-14)
    np.testing.assert_allclose(hessian, np.diag([0.0, 0.75 * 5 / 32, 0.0]), rtol=1e-14)


def test_a_number_of_an_arm_that_may_be_infinite_has_no_say_where_the_arm_does_not_run() -> None:
    text = """
    fn f(d: f64[n], k: bool[n, m]) -> f64 = sum(if k[i, j] { log(d[i]) / d[i] } else { d[i] } for i, j)
    fn slopes(d: f64[n], k: bool[n, m]) -> (f64[n], f64[n, n], f64[n, n]) =
      (grad(|d| f(d, k))(d), hessian(|d| f(d, k))(d), jacobian(|d| grad(|d| f(d, k))(d))(d))
    """
    module, meaning = dlang.compile(text), dlang.compile(text, backend="interp")
    d, k = np.array([0.0, 2.0, -1.0]), np.zeros((3, 4), bool)
    k[1] = [True, False, True, True]
    assert module.f(d, k) == pytest.approx(4 * 0.0 + 1.5 * np.log(2.0) + 2.0 - 4.0)
    for got, wanted in zip(module.slopes(d, k), meaning.slopes(d, k), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-13)
        assert np.isfinite(got).all()


@pytest.mark.parametrize("body", ["[chosen(x[i], p[0]) * x[i, j] for i, j]", "[chosen(x[0], p[0]) * x[i, j] for i, j]"])
def test_a_check_that_runs_once_for_a_row_runs_only_if_there_are_points(body: str) -> None:
    _, optimised, entry, extra = compiled(body)
    x = np.ones((2, 3))
    with pytest.raises(RunError, match="assertion"):
        run(optimised, entry, [2, 3, x, np.array([7, 0, 0])])
    for n, d in ((0, 3), (0, 0), (2, 0)):
        results, _ = run(optimised, entry, [n, d, np.ones((n, d)), np.full(d, 7)])
        assert results[extra].shape == (n, d)


FAILING = """
import linalg {{ det, identity, inverse, solve }}
fn f(x: f64[n, n], v: f64[n], k: size) -> f64 = sum({body} for {points})
"""
RECTANGLE = "i < k, t < n"
TRIANGLES = (
    "i < k, t < i",
    "t < k, i in t + 1..k",
    "i < k, t in i + 1..k",
    "i < k, t in k - i..k",
    "i < k, t < i, s < t + 1",
)
ONE_MATRIX = {
    "solved": "{ let y = solve(x, v); v[t] }",
    "solved under a condition": "{ if v[0] < 9.0 { let y = solve(x, v) }; v[t] }",
    "asserted under a condition": "{ if v[0] < 9.0 { assert sum(inverse(x)) < 99.0 }; v[t] }",
    "asserted in a loop": "{ for r < 3 { assert sum(inverse(x)) < 99.0 }; v[t] }",
}
USED = "{ let y = solve(x, v); y[0] }"
COLUMN = "{ let y = solve(x + v[t] * identity(n), v); y[0] }"
MATRICES = {
    "solved for each row": "{ let y = solve(x + v[i] * identity(n), v); v[t] }",
    "solved beside a determinant": "{ let a = x + v[i] * identity(n); let y = solve(a, v); det(a) * v[t] }",
}


@cache
def failing(body: str, points: str) -> tuple[Program, str]:
    """A sum over some points."""
    made = lowered(FAILING.format(body=body, points=points), "f")
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def factoring(body: str, x: np.ndarray, k: int, points: str = RECTANGLE) -> int:
    """The operations of linear algebra."""
    program, entry = failing(body, points)
    interpreter = Interpreter(program)
    interpreter.run(entry, [4, k, x, np.arange(4.0), k])
    return interpreter.counts["LinalgOp"]


@pytest.mark.parametrize(
    ("body", "matrices"),
    [*[(body, 1) for body in ONE_MATRIX.values()], *[(body, 4) for body in MATRICES.values()]],
    ids=[*ONE_MATRIX, *MATRICES],
)
def test_what_may_fail_and_is_not_used_runs_once_for_each_point_that_it_depends_on(body: str, matrices: int) -> None:
    x = np.eye(4) + 0.1
    assert factoring(body, x, 4) <= 3 * matrices * factoring("det(x)", x, 1)  # of an inverse less than 3 times as many


@pytest.mark.parametrize("body", [*ONE_MATRIX.values(), *MATRICES.values()], ids=[*ONE_MATRIX, *MATRICES])
def test_what_may_fail_and_is_not_used_fails_only_if_there_are_points(body: str) -> None:
    singular = np.zeros((4, 4))
    with pytest.raises(RunError, match="singular"):
        factoring(body, singular, 1)
    assert factoring(body, singular, 0) == 0


@pytest.mark.parametrize("points", TRIANGLES)
@pytest.mark.parametrize("body", ["solved", "asserted in a loop", "solved for each row"])
def test_what_may_fail_runs_once_where_bounds_depend_on_other_axes(body: str, points: str) -> None:
    code = {**ONE_MATRIX, **MATRICES}[body]
    x, singular = np.eye(4) + 0.1, np.diag([0.0, -1.0, 1.0, 1.0])  # and so it is with 1 more on the diagonal
    matrices = 1 if body in ONE_MATRIX else 3  # in each triangle three rows have points
    assert factoring(code, x, 4, points) == matrices * factoring(ONE_MATRIX.get(body, ONE_MATRIX["solved"]), x, 1)
    assert factoring(code, singular, 1, points) == 0
    with pytest.raises(RunError, match="singular"):
        factoring(code, singular, 2, points)


@pytest.mark.parametrize("points", TRIANGLES)
def test_what_may_fail_runs_once_for_an_inner_axis_where_its_bounds_depend_on_others(points: str) -> None:
    x, singular = np.eye(4) + 0.1, np.diag([0.0, -1.0, 1.0, 1.0])
    assert factoring(COLUMN, x, 4, points) == 3 * factoring(USED, x, 1)
    assert factoring(COLUMN, singular, 1, points) == 0
    with pytest.raises(RunError, match="singular"):
        factoring(COLUMN, singular, 2, points)


def test_what_an_inner_axis_alone_decides_runs_once_for_it_beside_what_no_axis_does() -> None:
    x = np.eye(4) + 0.1
    body = f"{{ let w = solve(x + 9.0, v); w[i] * sum({COLUMN} for t in i..n) }}"
    assert factoring(body, x, 4, "i < n") == 5 * factoring(USED, x, 1)


def test_a_filter_that_depends_on_no_axis_runs_once_whatever_its_condition_reads() -> None:
    text = """
    fn f(p: f64[n], q: f64[k]) -> f64 {
      let a = p[0]
      let h = [(1.0 + { let y: f64[?] = [a for i < n if q[1] > 1.0]; sum(y * y) }) for i < 2, j < n + 1]
      sum(h[1]) + h[0, 0]
    }
    """
    made = lowered(text, "f")
    optimised = optimise(made.program, [made.entry.name], verify=True)
    costs = [run(optimised, made.entry.name, [n, 2, np.full(n, 0.5), np.array([0.0, 2.0])])[1] for n in (20, 40)]
    assert costs[1] <= 2.4 * costs[0]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_what_has_its_size_from_an_axis_of_one_point_runs_once_for_the_axes_inside(first: int) -> None:
    text = f"""
    fn f(q: f64[3]) -> f64[1] = [{{
      let h = q[..i]
      let pairs = [[e, 1.0] for e in h]
      sum([1.0 for p in pairs[argsort([1.0 for p in pairs])]])
    }} for i in {first}..{first + 1}]
    """
    made = lowered(text, "f")
    optimised = optimise(made.program, [made.entry.name], verify=True)
    assert Interpreter(optimised).run(made.entry.name, [np.arange(3.0)])[0].tolist() == [float(first)]
