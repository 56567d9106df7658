"""An axis that is compared with a number is visited where the comparison holds, in values and in gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Block, Comp, If
from dlang.ir.traverse import op_blocks, walk
from dlang.pipeline import optimise
from tests.specialize.support import lowered

SCATTERS = {
    "a mask": "[sum(where(label == g, x, 0.0)) for g < k]",
    "two masks": "[sum(where(bit_and(label == g, x > 0.0), x * x, 0.0)) for g < k]",
    "a filter": "[sum(v * v for (v, l) in zip(x, label) if l == g) for g < k]",
    "two filters": "[sum(v for (v, l) in zip(x, label) if v > 0.0 and g == l) for g < k]",
    "a number next to the axis": "[sum(where(label == g + 1, x, 0.0)) for g < k]",
    "an axis that runs down": "[sum(where(label == k - 1 - g, x, 0.0)) for g < k]",
    "counts": "[sum(f64(label == g)) for g < k]",
    "what depends on the axis": "[sum(where(label == g, x * f64(g + 2), 0.0)) for g < k]",
    "a number of another axis": "[sum(where(i == g, x[i], 0.0) for i < n) for g < k]",
}
GATHERS = {
    "elements": "[sum(where(label[i] == g, y[i, g], 0.0) for g < k) for i < n]",
    "rows": "[sum(where(label[i] == g, y[j, g] * x[i], 0.0) for i < n, g < k) for j < n]",
}
PRODUCTS = {
    "factors of 1 or 0": "[sum(f64(label[i] == g) * x[i] for i < n) for g < k]",
    "a one-hot matrix": "{\n  let hot = [if label[i] == g { 1.0 } else { 0.0 } for g < k, i < n]\n  hot @ x\n}",
    "rows of a one-hot matrix": """{
  let hot = [f64(label[i] == g) for i < n, g < k]
  sum(hot @ transpose(y), axis = 1)
}""",
    "a one-hot matrix in a loop": """{
  let hot = [if label[i] == g { 1.0 } else { 0.0 } for i < n, g < k]
  var z = zeros(k)
  for t < 3 { z += sin(0.1 * x + sum(z)) @ hot }
  z
}""",
}
NEITHER = {
    "one of two": "[sum(if label[i] == g { x[i] } else { 1.0 } for i < n) for g < k]",
    "either of two": "[sum(where(bit_or(label == g, x > 0.0), x, 0.0)) for g < k]",
    "a power of the axis": "[sum(where(label == g * g, x, 0.0)) for g < k]",
    "a check": "[sum(if label[i] == g { x[label[i] + i] } else { 0.0 } for i < n) for g < k]",
}
ALL = SCATTERS | GATHERS | PRODUCTS
X = np.array([0.5, -1.0, 2.0, 0.25, 3.0, 1.5])
LABELS = [np.array(values) for values in ([0, 1, 2, 0, 1, 5], [-1, 9, 4, 4, 4, -(2**63)], [2**63 - 1, 0, 0, 0, 0, 0])]
Y = np.arange(36.0).reshape(6, 6) - 9.5


def text(body: str) -> str:
    return f"""
fn f(x: f64[n], label: i64[n], y: f64[n, k]) -> f64[?m] = {body}
fn total(x: f64[n], label: i64[n], y: f64[n, k]) -> f64 = sum(f(x, label, y) ** 2)
fn both(x: f64[n], label: i64[n], y: f64[n, k]) -> (f64[?m], f64[?m]) = jvp(|x| f(x, label, y), x, 0.5 * x)
"""


def points(body: str, name: str = "f") -> list[int]:
    """How many axes the comprehensions of a function have."""
    lowering = lowered(text(body), name)
    program = optimise(lowering.program, [lowering.entry.name])
    lets = [let for f in program.functions.values() for let in walk(f.body)]
    return [len(let.op.axes) for let in lets if isinstance(let.op, Comp)]


@pytest.mark.parametrize("body", [*SCATTERS.values(), *GATHERS.values()], ids=[*SCATTERS, *GATHERS])
def test_the_axis_is_gone(body: str) -> None:
    assert max(points(body)) == 1 + ("y[j, g]" in body)


@pytest.mark.parametrize("body", SCATTERS.values(), ids=SCATTERS)
def test_the_axis_is_gone_from_values_with_tangents(body: str) -> None:
    assert max(points(body, "both")) == 1
    values, both = lowered(text(body)), lowered(text(body), "both")
    for label in LABELS:
        for k in (0, 1, 6):
            value, low, high = [values.run(6, k, scale * X, label, Y[:, :k].copy())[-1] for scale in (1.0, 0.5, 1.5)]
            *_, computed, tangent = both.run(6, k, X, label, Y[:, :k].copy(), optimised=True)
            np.testing.assert_allclose(computed, value, rtol=1e-12)
            np.testing.assert_allclose(tangent, (high - low) / 2.0, rtol=1e-12)  # of values that are squares at most


@pytest.mark.parametrize("body", NEITHER.values(), ids=NEITHER)
def test_an_axis_of_which_more_counts_stays(body: str) -> None:
    assert max(points(body)) == 2 or len(points(body)) > 1


@pytest.mark.parametrize("body", PRODUCTS.values(), ids=PRODUCTS)
def test_a_product_with_1_or_0_has_the_axis_only_where_something_is_not_finite(body: str) -> None:
    lowering = lowered(text(body))
    program = optimise(lowering.program, [lowering.entry.name])
    branches = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, If)]
    (branch,) = [op for op in branches if op.cold]
    axes = [len(let.op.axes) for let in walk(branch.otherwise) if isinstance(let.op, Comp)]
    assert axes and max(axes) <= 1 + ("transpose" in body)


def looped(term: str) -> str:
    hot = "let hot = [if label[i] == g { 1.0 } else { 0.0 } for i < n, g < k]"
    return f"{{\n  {hot}\n  var z = y[0]\n  for t < 3 {{ z += tanh({term}) }}\n  z\n}}"


LINEAR = {
    "a loop over a one-hot matrix": looped("sin(0.1 * x + sum(z)) @ hot"),
    "one and a function without bounds": looped("[sum(hot[i, g] * (exp(x[i]) * z[g]) for i < n) for g < k]"),
    "a matrix of which rows have one element that counts": """{
  let z = [sin(x[i] * y[0, g]) for i < n, g < k]
  [sum(z[i, g] for i < n if label[i] == g) for g < k]
}""",
    "an element in each iteration": """{
  var (u, s) = (x, 0.5)
  for t < k {
    u[t % n] = sin(u[t % n])
    let z = [if i == label[t % n] { u[i] * u[i] } else { 0.0 } for i < n]
    s += sum(z) * s
  }
  [s]
}""",
}


@pytest.mark.parametrize("body", LINEAR.values(), ids=LINEAR)
def test_a_gradient_has_no_axis_that_the_value_has_not(body: str) -> None:
    more = "fn slope(x: f64[n], label: i64[n], y: f64[n, k]) -> f64[n] = grad(|x| total(x, label, y))(x)\n"
    lowering = lowered(text(body) + more, "slope")
    optimised = optimise(lowering.program, [lowering.entry.name]).functions[lowering.entry.name]
    assert max(usual_axes(optimised.body)) == 1


def usual_axes(block: Block) -> Iterator[int]:
    """How many axes the comprehensions have that do not stand in arms that hardly ever run."""
    for let in block.lets:
        if isinstance(let.op, Comp):
            yield len(let.op.axes)
        for inner in [let.op.otherwise] if isinstance(let.op, If) and let.op.cold else op_blocks(let.op):
            yield from usual_axes(inner)


@pytest.mark.parametrize("body", ALL.values(), ids=ALL)
def test_values_are_those_of_the_program_as_written(body: str) -> None:
    lowering = lowered(text(body))
    optimised = optimise(lowering.program, [lowering.entry.name])
    for label in LABELS:
        for k in (0, 1, 5, 6):
            args: list[Any] = [6, k, X, label, Y[:, :k].copy()]
            expected, computed = [Interpreter(p).run(lowering.entry.name, args) for p in (lowering.program, optimised)]
            np.testing.assert_allclose(computed[-1], expected[-1], rtol=1e-12)


def test_gradients_are_those_of_forward_mode() -> None:
    for body in (*ALL.values(), *LINEAR.values()):
        module = dlang.compile(
            text(body)
            + """
fn back(x: f64[n], label: i64[n], y: f64[n, k]) -> f64[n] = grad(|x| total(x, label, y))(x)
fn ahead(x: f64[n], label: i64[n], y: f64[n, k]) -> f64[n] =
  [jvp(|x| total(x, label, y), x, [f64(j == i) for j < n]).1 for i < n]
"""
        )
        for label in LABELS[:2]:
            for k in (0, 3, 6):
                slope = module.back(X, label, Y[:, :k])
                np.testing.assert_allclose(slope, module.ahead(X, label, Y[:, :k]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("body", ALL.values(), ids=ALL)
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_counts_where_it_is_times_0(body: str, number: float) -> None:
    lowering = lowered(text(body))
    optimised = optimise(lowering.program, [lowering.entry.name])
    for at in range(6):
        x, y = X.copy(), Y.copy()
        x[at] = y[at, 2] = number
        args: list[Any] = [6, 6, x, LABELS[0], y]
        expected, computed = [Interpreter(p).run(lowering.entry.name, args) for p in (lowering.program, optimised)]
        np.testing.assert_allclose(computed[-1], expected[-1], rtol=1e-12)


def test_products_with_one_hot_matrices_cost_what_they_pick() -> None:
    module = dlang.compile("""
fn picked(ids: i64[n], e: f64[v, d]) -> f64[n, d] = [f64(ids[i] == j) for i < n, j < v] @ e
fn loss(ids: i64[n], e: f64[v, d]) -> f64 = sum(picked(ids, e) ** 2)
fn slope(ids: i64[n], e: f64[v, d]) -> f64[v, d] = grad(loss, wrt = e)(ids, e)
fn grouped(ids: i64[n], x: f64[n, d], k: size) -> f64[k, d] = [if ids[i] == g { 1.0 } else { 0.0 } for g < k, i < n] @ x
""")
    ids, e = np.array([3, 0, 7, -1, 3, 2]), np.arange(12.0).reshape(4, 3)
    hot = (ids[:, None] == np.arange(4)).astype(float)
    np.testing.assert_allclose(module.picked(ids, e), hot @ e)
    np.testing.assert_allclose(module.slope(ids, e), 2 * hot.T @ (hot @ e))
    np.testing.assert_allclose(module.grouped(ids, X[:, None] * e[0], 4), hot.T @ (X[:, None] * e[0]))
    assert module.picked(ids, e[:0]).shape == module.grouped(ids[:0], e[:0], 6)[:, :3].shape == (6, 3)


@pytest.mark.parametrize("dtype", ["f32", "f16", "i64", "i8", "u32"])
def test_sums_by_label_are_right_in_every_dtype(dtype: str) -> None:
    """Sums of half precision are rounded once, and those of short integers wrap, as without labels."""
    module = dlang.compile(f"""
fn f(x: {dtype}[n], label: i64[n], k: size) -> {dtype}[k] = [sum(where(label == g, x, {dtype}(0))) for g < k]
""")
    x = (np.arange(600) % 97 + 1).astype({"f32": "f4", "f16": "f2", "i64": "i8", "i8": "i1", "u32": "u4"}[dtype])
    label = np.arange(600) % 7 - 1
    expected = [x[label == g].sum(dtype=x.dtype if dtype[0] in "iu" else "f8").astype(x.dtype) for g in range(5)]
    np.testing.assert_array_equal(module.f(x, label, 5), np.array(expected))


AGAIN = {"squares": "y * y", "sums": "y + (y * 2.0 - y)", "quotients": "y / (1.0 + y)"}


@pytest.mark.parametrize("step", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize(
    "body", ["sum(g(x[i]) for i < n)", "sum([sum(where(i == j, g(x[i]), 0.0) * x[j] for j < n) for i < n])"]
)
def test_values_of_which_each_uses_the_one_before_twice_are_looked_at_once(body: str, step: str) -> None:
    steps = "".join(f"  y = {step}\n" for _ in range(100))
    made = lowered(f"fn g(x: f64) -> f64 {{\n  var y = x\n{steps}  y\n}}\nfn f(x: f64[n]) -> f64 = {body}", "f")
    assert optimise(made.program, [made.entry.name]).functions


def test_compared_numbers_that_double_are_looked_at_once() -> None:
    steps = "".join("  y = y + y\n" for _ in range(100))
    made = lowered(
        f"""
fn g(x: i64) -> i64 {{
  var y = x
{steps}  y
}}
fn f(x: f64[n], l: i64[n], k: size) -> f64[k] = [sum(where(g(l[i]) == j, x[i], 0.0) for i < n) for j < k]""",
        "f",
    )
    assert optimise(made.program, [made.entry.name]).functions
