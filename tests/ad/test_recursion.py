"""Derivatives of recursive functions, some to third order, against central differences of one order less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlang.pipeline import optimise
from dlang.tools.dlc import main
from tests.ad.recursive import check, cost
from tests.specialize.support import lowered

POWER = "fn power(x: f64, n: i64) -> f64 = if n == 0 or n < 0 { 1.0 } else { x * power(x, n - 1) }\n"
VALUES = np.array([0.7, 1.3, -0.4, 2.1, 0.9])

CASES: dict[str, tuple[str, list[Any], list[int]]] = {
    "power": (
        POWER
        + """
fn f(x: f64) -> f64 = power(x, 5)
""",
        [1.3],
        [0],
    ),
    "power of a run-time exponent": (
        POWER
        + """
fn f(x: f64, n: i64) -> f64 = power(sin(x), n)
""",
        [0.4, 6],
        [0],
    ),
    "a derivative through an array whose size is a polynomial": (
        """
fn deeper(p: f64[n], d: i64, s: f64, step: f64 -> f64) -> f64 =
  if d <= 0 { step(s) + mean(p) * s } else { deeper(p, d - 1, 0.9 * s, |r: f64| step(0.5 * r)) }
fn slope(p: f64[n], d: i64, x: f64) -> f64 = grad(|s: f64| deeper(p, d % 7, s, |r| 2.0 * r * s))(x)
fn f(x: f64[n], j: i64) -> f64 {
  fn go(d: i64, a: f64) -> f64 = if d <= 0 { x[0] } else { 0.9 * go(d - 1, slope([x[1] for i < n + 1], j, a)) + a }
  go(j % 5, x[2])
}
""",
        [5, VALUES, 4],
        [1],
    ),
    "a derivative in an arm, of an array whose size is a polynomial": (
        """
fn deeper(p: f64[n], q: f64[k], d: i64) -> f64 =
  if d == 0 { sum(p) * sum(q) } else { p[0] * deeper(p, q, d - 1) }
fn f(x: f64[n], s: f64) -> f64 {
  if s > 1.0 { return sum(grad(deeper)([x[0] for i < n + 1], [x[1] for i < 1], 3)) }
  s
}
""",
        [5, VALUES, 1.5],
        [1],
    ),
    "two calls in a branch": (
        """
fn tree(x: f64, n: i64) -> f64 = if n == 0 { sin(x) } else { tree(x * 0.9, n - 1) * tree(x + 0.1, n - 1) }
fn f(x: f64) -> f64 = tree(x, 3)
""",
        [0.8],
        [0],
    ),
    "mutual recursion": (
        """
fn even(x: f64, n: i64) -> f64 = if n == 0 { x } else { sin(odd(x, n - 1)) }
fn odd(x: f64, n: i64) -> f64 = if n == 0 { 1.0 } else { x * even(x, n - 1) }
fn f(x: f64) -> f64 = even(x, 5) + odd(x, 4)
""",
        [0.8],
        [0],
    ),
    "the elements of an array": (
        """
fn go(x: f64[n], i: i64) -> f64 = if i == n { 1.0 } else { sin(x[i]) * go(x, i + 1) + x[i] }
fn f(x: f64[n]) -> f64 = go(x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "halves of an array": (
        """
fn go(x: f64[n]) -> f64 {
  if n == 0 { 1.0 } else if n == 1 { sin(x[0]) } else {
    let h = n // 2
    go(x[0 .. h]) * go(x[h .. n])
  }
}
fn f(x: f64[n]) -> f64 = go(x)
""",
        [5, VALUES],
        [1],
    ),
    "an array that is returned": (
        """
fn go(x: f64[n], k: i64) -> f64[n] = if k == 0 { x } else { [sin(e) * e for e in go(0.9 * x, k - 1)] }
fn f(x: f64[n]) -> f64 = sum(go(x, 3))
""",
        [5, VALUES],
        [1],
    ),
    "ackermann's recursion": (
        """
fn go(x: f64, m: i64, n: i64) -> f64 = if m == 0 { x + f64(n) } else if n == 0 { sin(go(x, m - 1, 1)) }
  else { x * go(go(x, m, n - 1) * 0.1, m - 1, n - 1) }
fn f(x: f64) -> f64 = go(x, 2, 2)
""",
        [0.7],
        [0],
    ),
    "a recursion in a loop": (
        POWER
        + """
fn f(x: f64) -> f64 {
  var s = x
  for i in 0..4 { s = sin(s) + power(s, i) }
  s
}
""",
        [0.7],
        [0],
    ),
    "a recursion in a while loop": (
        POWER
        + """
fn f(x: f64) -> f64 {
  var s = x
  while s < 9.0 { s = s + power(s, 2) }
  s
}
""",
        [0.7],
        [0],
    ),
    "a recursion in a comprehension": (
        POWER
        + """
fn f(x: f64[n], w: f64) -> f64 = sum(power(x[i] * w, i) for i < n)
""",
        [5, VALUES, 0.8],
        [1, 2],
    ),
    "a loop in a recursion": (
        """
fn go(x: f64[n], k: i64) -> f64 {
  var s = 0.0
  for i in 0..n { s = s * x[i] + sin(x[i]) }
  if k == 0 { s } else { s * go(0.5 * x, k - 1) }
}
fn f(x: f64[n]) -> f64 = go(x, 3)
""",
        [5, VALUES],
        [1],
    ),
    "a recursion in a recursion": (
        POWER
        + """
fn go(x: f64, n: i64) -> f64 = if n == 0 { x } else { power(go(x, n - 1), 2) * x }
fn f(x: f64) -> f64 = go(x, 3)
""",
        [0.9],
        [0],
    ),
    "continuations": (
        """
fn go(x: f64, n: i64, k: f64 -> f64) -> f64 = if n == 0 { k(x) } else { go(x, n - 1, |r| k(sin(r) * x)) }
fn f(x: f64) -> f64 = go(x, 4, |r| r * x)
""",
        [0.9],
        [0],
    ),
    "a stream": (
        """
enum Stream { Cell(f64, () -> Stream) }
fn powers(x: f64, y: f64) -> Stream = Cell(y, || powers(x, x * y))
fn take(s: Stream, n: i64) -> f64 = match s {
  Cell(x, rest) => if n == 0 { 0.0 } else { sin(x) + take(rest(), n - 1) }
}
fn f(x: f64) -> f64 = take(powers(x, 1.0), 4)
""",
        [0.9],
        [0],
    ),
    "an array that every call changes": (
        """
fn go(u: f64[n], k: i64) -> f64[n] {
  if k == 0 { u } else {
    var v = u
    for i in 1..n { v[i] = v[i - 1] * sin(v[i]) }
    go(v, k - 1)
  }
}
fn f(x: f64[n]) -> f64 = sum(go(x, 3))
""",
        [5, VALUES],
        [1],
    ),
    "several results, not all of which are used": (
        """
fn go(x: f64, y: f64, n: i64) -> (f64, f64) {
  if n == 0 { (x, y) } else {
  let (a, b) = go(x, y * x, n - 1)
  (a * b, a + b) }
}
fn f(x: f64) -> f64 {
  let (a, b) = go(x, 1.0, 3)
  let (c, _) = go(a, b, 2)
  a * b + c
}
""",
        [0.7],
        [0],
    ),
    "arrays whose size the function finds": (
        """
fn go(x: f64[n], k: i64) -> f64[?] = if k == 0 { [e * e for e in x if e > 0.0] } else { let y = go(x, k - 1)
  [sin(e) * x[0] for e in y if e > 0.1] }
fn f(x: f64[n]) -> f64 = sum(go(x, 2))
""",
        [5, VALUES],
        [1],
    ),
    "arrays that grow": (
        """
fn go(x: f64[n], k: i64) -> f64[?] = if k == 0 { x } else { concat(go(0.5 * x, k - 1), sin(go(x, k - 1))) }
fn f(x: f64[n]) -> f64 = sum(go(x, 2) ** 2.0)
""",
        [5, VALUES],
        [1],
    ),
    "an array given twice": (
        """
fn go(x: f64[n], y: f64[n], i: i64) -> f64 = if i == n { 1.0 } else { x[i] * sin(y[n - 1 - i]) + go(y, x, i + 1) }
fn f(x: f64[n]) -> f64 = go(x, x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "an array given twice in the recursion": (
        """
fn go(x: f64[n], y: f64[n], i: i64) -> f64 = if i == n { x[0] } else { x[i] * sin(y[n - 1 - i]) * go(x, x, i + 1) }
fn f(x: f64[n]) -> f64 = go(x, 2.0 * x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "a whole array in every call": (
        """
fn go(x: f64[n], i: i64) -> f64 = if i == 3 { sum(x) } else { sum(x * x) * go(x, i + 1) + x[i] }
fn f(x: f64[n]) -> f64 = go(x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "comprehensions with calls": (
        """
fn go(x: f64[n], i: i64) -> f64 = if i == 3 { sum(x) } else {
  sum(x[j] * x[j - 1] for j in 1..n) * go(x, i + 1) + sum(go(x, 3) * x[j] for j < i)
}
fn f(x: f64[n]) -> f64 = go(x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "a call in the loop of a recursion": (
        """
fn go(x: f64[n], i: i64) -> f64 {
  if i == 2 { sum(x) } else {
  var s = 1.0
  for k in 0..n { s = s * sin(x[k]) + go(x, i + 1) }
  s }
}
fn f(x: f64[n]) -> f64 = go(x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "a call in the while loop of a recursion": (
        """
fn go(x: f64[n], i: i64) -> f64 {
  if i == 2 { sum(x) } else {
  var s = 1.0
  while s < 3.0 { s = s + sin(x[i]) * sin(x[i]) + 0.1 * go(x, i + 1) * go(x, i + 1) }
  s }
}
fn f(x: f64[n]) -> f64 = go(x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "powers of a matrix": (
        """
fn go(a: f64[n, n], k: i64) -> f64[n, n] = if k == 0 { a } else if k % 2 == 0 { let h = go(a, k // 2)
  h @ h } else { a @ go(a, k - 1) }
fn f(x: f64[n]) -> f64 = sum(go([0.1 * x[i] * x[j] + 1.0 / f64(i + j + 1) for i < n, j < n], 5))
""",
        [5, 0.3 * VALUES],
        [1],
    ),
    "early returns": (
        """
fn go(x: f64, n: i64) -> f64 {
  if n == 0 { return x }
  let r = go(x * 0.9, n - 1)
  if r > 0.5 { return r * x }
  sin(r) * go(x, n - 1)
}
fn f(x: f64) -> f64 = go(x, 3)
""",
        [0.7],
        [0],
    ),
    "continuations over the elements of an array": (
        """
fn go(x: f64[n], i: i64, k: f64 -> f64) -> f64 = if i == n { k(1.0) } else { go(x, i + 1, |r| k(sin(r) * x[i])) }
fn f(x: f64[n]) -> f64 = go(x, 0, |r| r * x[0])
""",
        [5, VALUES],
        [1],
    ),
}


THIRD = ("power", "two calls in a branch", "mutual recursion", "halves of an array", "continuations", "a stream")


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_a_recursion_are_those_of_central_differences(name: str) -> None:
    check(*CASES[name], order=3 if name in THIRD else 2)


def costs(value: str, slope: str, sizes: tuple[int, int], text: str) -> list[tuple[int, int]]:
    """The operations of a function of n and of its derivative at two sizes."""
    made = [lowered(text, name) for name in (value, slope)]
    programs = [(optimise(m.program, [m.entry.name], verify=True), m.entry.name) for m in made]
    out = []
    for n in sizes:
        plain, derived = (cost(p, name, [n, np.ones(n)]) for p, name in programs)
        out.append((plain, derived))
    return out


@pytest.mark.parametrize(
    "go",
    [
        "fn go(x: f64[n], i: i64) -> f64 = if i == n { 1.0 } else { sin(x[i]) * go(x, i + 1) + x[i] }",
        "fn go(x: f64[n], i: i64) -> f64 = if i == n { 0.0 } else { power(x[i], 5) + go(x, i + 1) }",
    ],
)
def test_the_derivative_of_a_recursion_costs_in_proportion(go: str) -> None:
    text = f"""{POWER}
{go}
fn value(x: f64[n]) -> f64 = go(x, 0)
fn slope(x: f64[n]) -> f64[n] = grad(value)(x)
"""
    (value, slope), (values, slopes) = costs("value", "slope", (40, 400), text)
    assert slope <= 4.5 * (value + 40) and slopes <= 4.5 * (values + 400)
    assert slopes / slope == pytest.approx(10, rel=0.1)


def test_the_second_derivative_of_a_recursion_grows_with_its_depth_alone() -> None:
    text = f"""{POWER}
fn value(x: f64[n]) -> f64 = power(x[0], n)
fn slope(x: f64[n]) -> f64 = grad(grad(|y: f64| power(y, n)))(x[0])
"""
    (value, slope), (_, slopes) = costs("value", "slope", (40, 400), text)
    assert slope <= 20 * value
    assert slopes / slope == pytest.approx(10, rel=0.1)


def test_a_tape_has_a_variant_for_each_arm_of_the_branch_that_ends_a_function() -> None:
    made = lowered(POWER + "fn f(x: f64, n: i64) -> f64 = grad(|y: f64| power(y, n))(x)")
    program = optimise(made.program, [made.entry.name], verify=True)
    (tape,) = program.datatypes.values()
    assert [len(variant.fields) for variant in tape.variants] == [0, 3]


DEEP = """
fn power(x: f64, n: i64) -> f64 = if n == 0 { 1.0 } else { x * power(x, n - 1) }
fn product(x: f64[n], i: i64) -> f64 = if i == n { 1.0 } else { x[i] * product(x, i + 1) }
fn even(x: f64, n: i64) -> f64 = if n == 0 { x } else { odd(x, n - 1) + 0.0 * x }
fn odd(x: f64, n: i64) -> f64 = if n == 0 { 2.0 * x } else { even(x, n - 1) + x }
fn list(n: i64) -> List<f64> {
  var l = Nil
  for _ < n { l = Cons(1.0, l) }
  l
}
fn squares(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(x, rest) => x * x + squares(rest) }
fn total(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(x, rest) => x + total(rest) }
test "deep" {
  let n = 100000
  assert grad(power)(1.0, n) == f64(n)
  assert grad(|x: f64| grad(power)(x, n))(1.0) == f64(n) * f64(n - 1)
  assert sum(grad(|x: f64[_]| product(x, 0))([1.0 for i < n])) == f64(n)
  assert grad(even)(1.0, n) == 50001.0
  assert total(grad(squares)(list(n))) == 2.0 * f64(n)
}
"""


def test_derivatives_of_recursions_of_a_hundred_thousand_calls_are_compiled(tmp_path: Path) -> None:
    file = tmp_path / "deep.dl"
    file.write_text(DEEP)
    assert main(["test", str(file)]) == 0
