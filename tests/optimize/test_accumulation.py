"""Loops that only accumulate: which are comprehensions, that their meaning stays, and what stays a loop."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Contract, For, IndexExpr, Let, Program, fresh, poly
from dlang.ir.traverse import walk
from dlang.ir.types import I64
from dlang.optimize.accumulation import total
from dlang.pipeline import normalise, optimise
from tests.optimize.programs import count
from tests.specialize.support import lowered

X = np.array([0.5, -1.25, 2.0, 0.75, -0.5])
K = np.array([1, 0, 2, 1, 1])

# each body of `fn f(x: f64[n], k: i64[n]) -> T`
ACCUMULATE = {
    "a sum": ("f64", "var s = 1.5; for i < n { s += sin(x[i]) }; s"),
    "a difference": ("f64", "var s = 1.5; for v in x { s -= v * v }; s"),
    "from the right": ("f64", "var s = 1.5; for v in x { s = v * v + s }; s"),
    "a product": ("f64", "var p = 2.0; for v in x { p *= 1.0 + v }; p"),
    "the largest": ("f64", "var m = -9.0; for v in x { m = maximum(m, v) }; m"),
    "the largest so far": ("f64", "var m = -9.0; for v in x { if v > m { m = v } }; m"),
    "the least so far": ("f64", "var m = 9.0; for v in x { if m > v * v + v { m = v * v + v } }; m"),
    "the least of integers": ("i64", "var m = 9; for v in k { if v < m { m = v } }; m"),
    "the largest and where": (
        "(f64, i64)",
        "var (m, at) = (-9.0, -1); for i < n { if x[i] > m { m = x[i]; at = i } }; (m, at)",
    ),
    "the least, where, and a sum": (
        "(f64, i64, f64)",
        "var (m, a, s) = (9.0, 0, 0.0); for i < n { let v = x[i] ** 2; s += v; if m > v { m = v; a = i } }; (m, a, s)",
    ),
    "an element where another is least": (
        "f64",
        "var (m, at) = (9.0, 0); for i < n { let v = x[i] ** 3; if v < m { (m, at) = (v, i) } }; sum(m * x[at..])",
    ),
    "of integers": ("i64", "var c = 3; for i < n { c += k[i] * i }; c"),
    "of truths": ("bool", "var c = false; for v in x { c = c or v > 1.0 }; c"),
    "two in one": ("f64", "var s = 0.0; for v in x { s += v; s += v * v }; s"),
    "two states": ("(f64, f64)", "var (s, p) = (0.0, 1.0); for v in x { s += v; p *= v }; (s, p)"),
    "under a condition": ("f64", "var s = 0.0; for v in x { if v > 0.0 { s += sqrt(v) } }; s"),
    "in both arms": ("f64", "var s = 0.0; for v in x { if v > 0.0 { s += sqrt(v) } else { s -= v } }; s"),
    "after continue": ("f64", "var s = 0.0; for v in x { if v < 0.0 { continue }; s += sqrt(v) }; s"),
    "in a loop in a loop": ("f64", "var s = 0.0; for i < n { for j < i { s += x[i] * x[j] } }; s"),
    "a short loop in a loop": (
        "f64",
        "var s = 0.0; for i < n { var t = 1.0; for j < 3 { t += (x[i] - f64(j)) ** 2 }; s += 1.0 / sqrt(t) }; s",
    ),
    "a sum of sums": ("f64", "var s = 0.0; for i < n { s += sum(x[i] * v for v in x) }; s"),
    "a function of a sum": ("f64", "var s = 0.0; for i < n { let z = sum(x * x[i]); s += log(1.0 + exp(z)) }; s"),
    "a row that is summed": ("f64", "var s = 0.0; for i < n { s += sum(cos(x - x[i])) }; s"),
    "what is read where a sum is least": (
        "f64",
        (
            "var s = 0.0; for u in x { var (m, k) = (9.0, 0); for j < n { let d = sum((x[j] - w * u) ** 2 for w in x)\n"
            "if d < m { (m, k) = (d, j) } }; s += x[k] * m }; s"
        ),
    ),
    "what is read where a sum is greatest": (
        "f64",
        "var s = 0.0; for v in x { let at = argmax([sum((v - w * u) ** 2 for u in x) for w in x]); s += x[at] * v }; s",
    ),
    "all elements": ("f64[n]", "var a = zeros(n); for v in x { a += sin(x) * v }; a"),
    "the largest of each": ("f64[n]", "var a = 0.5 * x; for v in x { a = maximum(a, x * v) }; a"),
    "rows of data": ("f64[3, n]", "var a = zeros(3, n); for i < n { a[k[i] as Idx<3>] += x * x[i] }; a"),
    "rows at places that are checked": ("f64[3, n]", "var a = ones(3, n); for i < n { a[k[i]] -= sin(x) * x[i] }; a"),
    "elements of data": ("f64[3]", "var a = zeros(3); for i < n { a[k[i] as Idx<3>] += x[i] }; a"),
    "taken from elements": ("f64[3]", "var a = ones(3); for i < n { a[k[i] as Idx<3>] -= x[i] * x[i] }; a"),
    "elements of two arrays, each under a condition of its own": (
        "f64[n]",
        "var (a, b) = (x, x); for i < n { if x[i] > 0.0 { a[i] += x[i] }; if k[i] > 0 { b[i] -= 2.0 * x[i] } }; a * b",
    ),
    "elements, a count and a sum of them": (
        "(f64[n], i64, f64)",
        "var (a, c, s) = (x, 0, 0.0); for i < n { if x[i] > 0.0 { a[i] = x[i] ** 3; c += 1; s += a[i] } }; (a, c, s)",
    ),
    "a count": ("i64", "var c = 2; for v in x { if v > 0.0 { c += 1 } }; c"),
    "one element": ("f64[3]", "var a = ones(3); for i < n { a[1] += x[i] }; a"),
    "an element for each": ("f64[n]", "var a = x; for i < n { a[n - 1 - i] += x[i] }; a"),
    "elements of pairs": ("f64[n]", "var a = zeros(n); for i < n { for j < n { a[i] += x[i] * x[j] } }; a"),
    "the other elements of pairs": ("f64[n]", "var a = zeros(n); for i < n { for j < n { a[j] += x[i] * x[j] } }; a"),
    "elements and a number": (
        "(f64[3], f64)",
        "var (a, s) = (zeros(3), 0.0); for i < n { a[k[i] as Idx<3>] += x[i]; s += x[i] }; (a, s)",
    ),
}
RECURRENCES = {
    "what a recurrence gives": (
        "f64",
        "var s = 0.0; for i < n { var t = x[i]; for j < n { t = 0.5 * t * x[j] + 0.1 }; s += t * t }; s",
    ),
    "what a recurrence with checks gives": (
        "(f64, f64[n])",
        "var s = 0.0; for i < n { var t = x[i]; for j in k { t = sin(t + x[(j + i) % n]) }; s += t }; (s, x)",
    ),
}
STAY = {
    "what the next iteration reads": ("f64", "var s = 1.0; for v in x { s = s * v + 1.0 }; s"),
    "what a condition reads": ("f64", "var s = 0.0; for v in x { if s < 1.0 { s += v } }; s"),
    "what another state reads": ("(f64, f64)", "var (s, t) = (0.0, 0.0); for v in x { s += v; t += s }; (s, t)"),
    "two monoids": ("f64", "var s = 1.0; for v in x { if v > 0.0 { s += v } else { s *= v } }; s"),
    "the last of the largest": ("f64", "var m = -9.0; for v in x { if v >= m { m = v } }; m"),
    "all elements, in another order": ("f64[n]", "var a = x; for v in x { a = reverse(a) + x * v }; a"),
    "all elements under a condition": ("f64[n]", "var a = x; for v in x { if v > 0.0 { a = a - x * v } }; a"),
    "the largest and where it is last": (
        "(f64, i64)",
        "var (m, at) = (-9.0, -1); for i < n { if x[i] >= m { (m, at) = (x[i], i) } }; (m, at)",
    ),
    "the largest and another": (
        "(f64, f64)",
        "var (m, o) = (-9.0, 0.0); for i < n { if x[i] > m { (m, o) = (x[i], sin(x[i])) } }; (m, o)",
    ),
    "the first of texts": ("str", 'var m = "z"; for v in x { if "{v}" < m { m = "{v}" } }; m'),
    "at as many points as data say": ("f64[n]", "var a = x; for i < n { for j < k[i] { a[i] += x[i] } }; a"),
    "what is checked beside rows": (
        "f64[n]",
        "var a = x; for i < n { let b = [x[(j + i) % n] for j < n]; a = tanh(a * b) }; a",
    ),
    "a loop of as many iterations as it takes": (
        "f64",
        "var s = 0.0; for v in x { var t = v * v; while t > 0.1 { t *= 0.5 }; s += t }; s",
    ),
    "until it ends": ("f64", "var s = 0.0; for v in x { if v < -1.0 { break }; s += v }; s"),
    "an element that is read": ("f64[n]", "var a = x; for i < n - 1 { a[i + 1] += 0.5 * a[i] }; a"),
}
ROWS = {
    "a row in each iteration": (
        "f64",
        "var s = 0.0; for i < n { let r = exp(x * x[i]); s += sum(r * r[0 as Idx<n>] / sum(r)) }; s",
    ),
    "sums of what sums are made into": (
        "f64",
        "var s = 0.0; for i < n { s += sum(exp(sum(v * w * x[i] for w in x)) for v in x) }; s",
    ),
}
CASES = {**ACCUMULATE, **RECURRENCES, **STAY, **ROWS}


@cache
def program(case: str, derivative: bool) -> tuple[Program, Program, str, int]:
    """The program of a case as it is written and optimised, or its gradient; its entry, and its further results."""
    result, body = CASES[case]
    text = f"fn f(x: f64[n], k: i64[n]) -> {result} {{ {body.replace('; ', chr(10))} }}\n"
    weighed = "r" if result == "f64" else "sum(r * cos(r))" if "[" in result else ""
    if derivative:
        text += f"fn main(x: f64[n], k: i64[n]) -> f64[n] = grad(|x: f64[n]| {{ let r = f(x, k)\n{weighed} }})(x)"
    made = lowered(text, "main" if derivative else "f")
    name = made.entry.name
    return made.program, optimise(made.program, [name], verify=True), name, len(made.entry.extra)


def loops(p: Program) -> int:
    return sum(isinstance(let.op, For) for f in p.functions.values() for let in walk(f.body))


def value(p: Program, name: str, x: np.ndarray[Any, Any], k: np.ndarray[Any, Any]) -> list[Any]:
    return Interpreter(p).run(name, [len(x), x, k])


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("case", CASES)
def test_the_meaning_stays(case: str, n: int) -> None:
    written, p, name, _ = program(case, False)
    for a, b in zip(value(written, name, X[:n], K[:n]), value(p, name, X[:n], K[:n]), strict=True):
        np.testing.assert_array_equal(a, b) if isinstance(a, str) else np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("case", ACCUMULATE)
def test_no_loop_is_left(case: str) -> None:
    assert loops(program(case, False)[1]) == 0


@pytest.mark.parametrize("case", ACCUMULATE)
def test_derivatives_know_no_loop(case: str) -> None:
    written, _, name, _ = program(case, False)
    assert loops(normalise(written, [name])) == 0


@pytest.mark.parametrize("case", RECURRENCES)
def test_a_recurrence_is_done_at_all_points(case: str) -> None:
    (f,) = program(case, False)[1].functions.values()
    assert not any(isinstance(let.op, For) for let in f.body.lets) and loops(program(case, False)[1]) == 1


@pytest.mark.parametrize("case", STAY)
def test_what_depends_on_earlier_iterations_stays_a_loop(case: str) -> None:
    assert loops(program(case, False)[1]) == 1


@pytest.mark.parametrize("case", ROWS)
def test_the_arrays_of_an_iteration_are_never_there_for_all_at_once(case: str) -> None:
    (f,) = program(case, False)[1].functions.values()
    assert loops(program(case, False)[1]) == 0
    assert not any(isinstance(v.type, Array) for let in f.body.lets for v in let.vars)


@pytest.mark.parametrize("case", [c for c, (r, _) in CASES.items() if r.startswith("f64")])
def test_the_gradient_is_that_of_differences(case: str) -> None:
    written, _, name, _ = program(case, False)
    _, gradient, entry, extra = program(case, True)
    found = value(gradient, entry, X, K)[extra]

    def loss(x: np.ndarray[Any, Any]) -> float:
        r = value(written, name, x, K)[-1]
        return float(r if np.ndim(r) == 0 else np.sum(r * np.cos(r)))

    wanted = [(loss(X + h) - loss(X - h)) / 2e-6 for h in 1e-6 * np.eye(len(X))]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    if case in ACCUMULATE and case != "a product":  # whose derivative has running products
        assert loops(gradient) == 0


@pytest.mark.parametrize("first", [-9.0, np.nan])
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_comparison_leaves_out_what_is_not_a_number(first: float, sign: str) -> None:
    loop = f"for i < n {{ if {sign}x[i] > m {{ (m, at) = ({sign}x[i], i) }} }}"
    text = f"fn f(x: f64[n], m: f64) -> (f64, i64) {{ var (m, at) = (m, -1)\n{loop}\n(m, at) }}"
    made = lowered(text, "f")
    after = optimise(made.program, [made.entry.name], verify=True)
    assert loops(after) == 0
    for x in ([], [np.nan], [1.0, np.nan, 2.0, -3.0, 2.0, -3.0], [np.inf, -np.inf], [-np.inf]):
        args = [len(x), np.array(x, dtype=np.float64), first]
        wanted, found = (Interpreter(p).run(made.entry.name, args) for p in (made.program, after))
        np.testing.assert_array_equal(wanted, found)


@pytest.mark.parametrize("columns", [0, 2])
def test_a_check_is_done_once_for_each_row(columns: int) -> None:
    text = "fn f(x: f64[n, d], k: i64[n]) -> f64[3, d] { var a = zeros(3, d)\nfor i < n { a[k[i]] += x[i] }\na }"
    made = lowered(text, "f")
    after = optimise(made.program, [made.entry.name], verify=True)
    assert loops(after) == 0
    run = Interpreter(after).run
    run(made.entry.name, [2, columns, np.ones((2, columns)), np.array([0, 2])])
    with pytest.raises(RunError, match="index 3 is out of range"):
        run(made.entry.name, [2, columns, np.ones((2, columns)), np.array([0, 3])])


def test_checks_beside_a_row_stay() -> None:
    text = """fn f(x: f64[n, n], k: i64[n]) -> f64[n, n] {
  var a = x
  for i < n {
    let b = [x[i, k[j]] for j < n]
    a[i] = tanh(a[i] + x[i])
  }
  a
}"""
    made = lowered(text, "f")
    after = optimise(made.program, [made.entry.name], verify=True)
    with pytest.raises(RunError, match="index 3 is out of range"):
        Interpreter(after).run(made.entry.name, [2, np.ones((2, 2)), np.array([0, 3])])


@pytest.mark.parametrize("row", ["x[i] - m", "2.0 * x[i]", "sin(x[i])"])
def test_outer_products_of_rows_that_are_computed_are_one_product(row: str) -> None:
    """An array of the rows is as large as x; where an element is expensive, each iteration computes its row once."""
    text = f"""fn f(x: f64[n, d], m: f64[d]) -> f64[d, d] {{
  var c = zeros(d, d)
  for i < n {{
    let y = {row}
    c += reshape(y, d, 1) * y
  }}
  c
}}"""
    made = lowered(text, "f")
    after = optimise(made.program, [made.entry.name], verify=True)
    kept = "sin" in row
    assert loops(after) == kept and count(after, Contract) == (not kept)
    for n in (0, 3, 11):
        args = [n, 2, np.linspace(0.0, 1.0, 2 * n).reshape(n, 2), np.array([0.5, 0.25])]
        wanted, found = (Interpreter(p).run(made.entry.name, args) for p in (made.program, after))
        np.testing.assert_allclose(wanted[0], found[0], rtol=1e-13)


def test_a_number_grows_by_what_is_no_linear_function_of_the_index() -> None:
    param, index, result = (fresh(name, I64) for name in ("c", "i", "c"))
    split = total((Let((result,), IndexExpr(poly(param) + poly(index) * poly(index))),), param, result)
    assert split is not None
    ((grown,), term) = split
    assert term.monoid == "sum" and grown.op == IndexExpr(poly(index) * poly(index))
