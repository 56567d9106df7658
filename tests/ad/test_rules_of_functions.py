"""Custom pullbacks and checkpoints of functions, and the value recorded apart from what pulls cotangents back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir import anf
from dlang.pipeline import optimise
from tests.ad.recursive import check, cost
from tests.specialize.support import lowered, ops

RULES = """
fn logistic(x: f64) -> f64 = 1.0 / (1.0 + exp(-x))
pullback logistic(x) -> y = |dy| dy * y * (1.0 - y)
fn clipped(x: f64) -> f64 = x
pullback clipped(x) -> y = |dy| clip(dy, -1.0, 1.0)
fn scaled(x: f64[n], nodiff k: f64) -> f64[n] = k * x
pullback scaled(x, k) -> y = |dy| k * dy
fn norm(x: f64[n]) -> f64 = sqrt(sum(x * x))
pullback norm(x) -> y = |dy| dy * x / y
enum Tree { Leaf(f64), Node(Tree, Tree) }
fn product(t: Tree) -> f64 = match t { Leaf(x) => x, Node(l, r) => product(l) * product(r) }
fn halved(t: Tree) -> Tree = match t { Leaf(x) => Leaf(0.5 * x), Node(l, r) => Node(halved(l), halved(r)) }
pullback halved(t) -> y = |dy| halved(dy)
fn half(x: f64, y: f64) -> Tree = halved(Node(Leaf(x), Node(Leaf(y), Leaf(x * y))))
"""
VALUES = np.array([0.7, 1.3, -0.4, 2.1, 0.9])


def run(text: str, *args: Any) -> list[Any]:
    return lowered(text).run(*args, optimised=True)


@pytest.mark.parametrize(
    ("body", "args", "wrt"),
    [
        ("fn f(x: f64) -> f64 = sin(x) * logistic(x * x)", [0.7], [0]),
        ("fn f(x: f64[n]) -> f64 = sum(logistic(e) * e for e in x)", [5, VALUES], [1]),
        ("fn f(x: f64[n]) -> f64 {\n  var s = 1.0\n  for e in x { s = logistic(s) * e }\n  s\n}", [5, VALUES], [1]),
        (
            (
                "fn go(x: f64, n: i64) -> f64 = if n == 0 { x } else { logistic(go(x, n - 1)) * x }\n"
                "fn f(x: f64) -> f64 = go(x, 4)"
            ),
            [0.7],
            [0],
        ),
        ("fn f(x: f64[n]) -> f64 = sum(scaled(x * x, 3.0) * x) + norm(scaled(x, 2.0))", [5, VALUES], [1]),
        ("fn f(x: f64, y: f64) -> f64 = product(half(x, y)) + product(halved(half(y, x)))", [0.7, 1.2], [0, 1]),
        ("fn f(x: f64[n]) -> f64 = checkpoint(|x: f64[n]| sum(sin(x) * x[0]))(x) * x[1]", [5, VALUES], [1]),
        (
            (
                "fn step(s: f64, x: f64) -> f64 = sin(s * x) + x\n"
                "fn f(x: f64[n]) -> f64 {\n  var s = 1.0\n  for e in x { s = checkpoint(step)(s, e) }\n  s\n}"
            ),
            [5, VALUES],
            [1],
        ),
        (
            (
                "fn go(x: f64, n: i64) -> f64 = if n == 0 { x } else { sin(checkpoint(go)(x, n - 1)) * x }\n"
                "fn f(x: f64) -> f64 = checkpoint(go)(x, 3)"
            ),
            [0.7],
            [0],
        ),
        ("fn f(x: f64, y: f64) -> f64 = product(checkpoint(half)(x, y))", [0.7, 1.2], [0, 1]),
    ],
)
def test_rules_that_are_right_give_the_derivatives_of_central_differences(
    body: str, args: list[Any], wrt: list[int]
) -> None:
    check(RULES + body, args, wrt, order=2)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("fn f(x: f64) -> f64 = grad(|y| 100.0 * clipped(y))(x)", 1.0),
        ("fn f(x: f64) -> f64 = grad(clipped)(x)", 1.0),
        (("fn g(x: f64, n: i64) -> f64 = if n == 0 { x } else { 100.0 * clipped(g(x, n - 1)) }\n"
         "fn f(x: f64) -> f64 = grad(|y| g(y, 3))(x)"), 1.0),
        ("fn f(x: f64) -> f64 = grad(|y| { var s = y\n  for _ < 3 { s = 100.0 * clipped(s) }\n  s })(x)", 1.0),
        ("fn f(x: f64) -> f64 { let (_, pull) = vjp(clipped, x)\n  pull(7.0) + pull(0.5) }", 1.5),
    ],
)  # fmt: skip
def test_the_rule_is_used_wherever_the_function_is_called(body: str, expected: float) -> None:
    assert run(RULES + body, 3.0) == [expected]


def test_a_checkpoint_saves_its_arguments_alone_and_runs_again() -> None:
    text = """
fn costly(x: f64) -> f64 {
  var s = x
  for _ < 1000 { s = sin(s) * x }
  s
}
fn value(x: f64) -> f64 = costly(x)
fn plain(x: f64) -> f64 = grad(costly)(x)
fn again(x: f64) -> f64 = grad(|y: f64| sin(checkpoint(costly)(y)))(x)
"""
    costs = {}
    for name in ("value", "plain", "again"):
        made = lowered(text, name)
        costs[name] = cost(optimise(made.program, [made.entry.name]), made.entry.name, [0.9])
    # for the value, and twice in the backward pass: for the states at the starts of segments, and segment by segment
    assert costs["plain"] + 1.9 * costs["value"] <= costs["again"] <= costs["plain"] + 2.2 * costs["value"]


# ---- recording -------------------------------------------------------------------------------------------------------
def test_pulling_back_once_beside_the_value_makes_no_nodes() -> None:
    text = """
fn f(x: f64[n], dy: f64) -> f64[n] {
  let (_, pull) = vjp(|x: f64[n]| sum(sin(x) * x), x)
  pull(dy)
}
"""
    made = lowered(text)
    program = optimise(made.program, [made.entry.name], verify=True)
    assert not [op for op in ops(program) if isinstance(op, anf.Construct | anf.Fields)]
    (got,) = Interpreter(program).run(made.entry.name, [5, VALUES, 2.0])
    assert np.allclose(got, 2.0 * (np.sin(VALUES) + VALUES * np.cos(VALUES)))


def test_what_was_recorded_is_not_computed_again() -> None:
    text = """
fn costly(x: f64) -> f64 {
  var s = x
  for _ < 1000 { s = sin(s) * x }
  s
}
fn one(x: f64) -> f64 {
  let (_, pull) = vjp(costly, x)
  pull(1.0)
}
fn many(x: f64, n: i64) -> f64 {
  let (_, pull) = vjp(costly, x)
  sum(pull(f64(i)) for i < n)
}
fn value(x: f64) -> f64 = costly(x)
"""
    made = lowered(text, "many")
    program = optimise(made.program, [made.entry.name])
    few, more = (cost(program, made.entry.name, [0.9, n]) for n in (1, 11))
    plain = lowered(text, "one")
    once = cost(optimise(plain.program, [plain.entry.name]), plain.entry.name, [0.9])
    assert few <= 1.2 * once
    assert (more - few) / 10 <= 0.75 * once


def test_a_pull_that_a_function_returns_or_a_list_holds_is_data() -> None:
    text = (
        RULES
        + """
fn pulls(x: f64, n: i64) -> List<f64 -> f64> = if n == 0 { Nil } else {
  let (_, pull) = vjp(|y: f64| y ** 3.0 * x, x + f64(n))
  Cons(pull, pulls(x, n - 1))
}
fn total(l: List<f64 -> f64>, k: f64) -> f64 = match l { Nil => 0.0, Cons(g, rest) => g(k) + total(rest, k) }
fn f(x: f64) -> f64 = total(pulls(x, 3), 2.0)
"""
    )
    assert run(text, 2.0) == [pytest.approx(sum(2.0 * 3 * (2.0 + n) ** 2 * 2.0 for n in (1, 2, 3)))]


def test_a_cotangent_of_another_shape_than_the_tree_ends_the_run() -> None:
    text = (
        RULES
        + "fn f(x: f64) -> f64 {\n  let (_, pull) = vjp(halved, Leaf(x))\n  product(pull(Node(Leaf(x), Leaf(x))))\n}"
    )
    with pytest.raises(RunError) as caught:
        run(text, 2.0)
    assert caught.value.code == "E0706"
