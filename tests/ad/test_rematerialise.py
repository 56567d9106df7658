"""What loops and calls save, and what their adjoints compute again, in bytes and in operations of the program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ad.residuals import Residuals, written
from dlang.diagnostics import DlangError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Assert, Block, Comp, Contract, For, Prim, Program
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.meaning import meaning
from tests.specialize.support import lowered

TEXT = """
fn sigmoid(x: f64[..s]) -> f64[..s] = 0.5 * tanh(0.5 * x) + 0.5

fn gated(w: f64[m, m], v: f64[m, m], xs: f64[n, m]) -> f64 {
  var h = zeros(m)
  var c = zeros(m)
  for t < n {
    c = sigmoid(w @ h + xs[t]) * c + sigmoid(v @ h - xs[t])
    h = tanh(c)
  }
  sum(h)
}
fn of_gated(w: f64[m, m], v: f64[m, m], xs: f64[n, m]) -> (f64[m, m], f64[m, m]) = grad(gated, wrt = (w, v))(w, v, xs)

fn scaled(w: f64[m, m], xs: f64[n, m]) -> f64 {
  var h = zeros(m)
  for t < n {
    let z = w @ h + xs[t]
    let shifted = 3.0 * z - 1.0
    h = shifted * shifted * sin(z)
  }
  sum(h)
}
fn of_scaled(w: f64[m, m], xs: f64[n, m]) -> f64[m, m] = grad(scaled)(w, xs)

fn rectified(w: f64[m, m], v: f64[m, m], xs: f64[n, m]) -> f64 {
  var h = zeros(m)
  for t < n { h = tanh(v @ maximum(w @ h + xs[t], 0.0)) }
  sum(h)
}
fn of_rectified(w: f64[m, m], v: f64[m, m], xs: f64[n, m]) -> (f64[m, m], f64[m, m]) =
  grad(rectified, wrt = (w, v))(w, v, xs)

fn scalars(x: f64, n: i64) -> f64 {
  var s = x
  for k < n { let z = sin(s); s = (0.5 * z + 0.25) * (1.0 - 0.5 * z) }
  s
}
fn of_scalars(x: f64, n: i64) -> f64 = grad(scalars)(x, n)

fn picked(x: f64[m], at: i64[n]) -> f64 {
  var s = x[0]
  for k < n { s = sin(s) * x[at[k]] }
  s
}
fn of_picked(x: f64[m], at: i64[n]) -> f64[m] = grad(picked)(x, at)

fn smoothed(x: f64[m], n: i64) -> f64 {
  var h = x
  for t < n { h = [if i == 0 or i == m - 1 { h[i] } else { 0.5 * (h[i - 1] + h[i + 1]) } for i < m] }
  sum(h)
}
fn of_smoothed(x: f64[m], n: i64) -> f64[m] = grad(smoothed)(x, n)

fn attracted(x: f64[m, 3], n: i64) -> f64 {
  var y = x
  for t < n {
    y += [
      sum(if i == j { 0.0 } else {
        let r2 = sum((y[i, a] - y[j, a]) ** 2 for a) + 0.01
        (y[j, c] - y[i, c]) / (r2 * sqrt(r2))
      } for j < m)
      for i < m, c < 3
    ]
  }
  sum(y ** 2)
}
fn of_attracted(x: f64[m, 3], n: i64) -> f64[m, 3] = grad(attracted)(x, n)

fn deep(w: f64[m, m], h: f64[m], k: i64) -> f64[m] {
  if k == 0 { return h }
  let below = deep(w, sigmoid(w @ h), k - 1)
  sigmoid(w @ below)
}
fn of_deep(w: f64[m, m], h: f64[m], k: i64) -> f64[m, m] = grad(|w: f64[m, m]| sum(deep(w, h, k)))(w)
fn first(xs: f64[n, m], w: f64[m, m], v: f64[m, m]) -> f64[n, m] = grad(|ys: f64[n, m]| gated(w, v, ys))(xs)
fn twice(xs: f64[n, m], w: f64[m, m], v: f64[m, m]) -> f64[n, m] =
  grad(|xs: f64[n, m]| sum(grad(|ys: f64[n, m]| gated(w, v, ys))(xs) ** 2))(xs)
"""


@cache
def compiled(name: str) -> tuple[Program, Program, str, tuple[Residuals, ...]]:
    """The program as derived and as optimised, the entry, what is saved."""
    made = lowered(TEXT, name)
    stages: dict[str, Program] = {}
    found: list[Residuals] = []
    optimise(made.program, [made.entry.name], verify=True, observe=stages.__setitem__, residuals=found)
    return stages["ad"], stages["opt"], made.entry.name, tuple(found)


def lines(name: str) -> list[str]:
    return [line for s in compiled(name)[3] for line in written(s).splitlines()]


def loops(program: Program) -> Iterator[For]:
    """The loops of a program that are in no other loop."""

    def of(block: Block) -> Iterator[For]:
        for let in block.lets:
            if isinstance(let.op, For):
                yield let.op

    for f in program.functions.values():
        yield from of(f.body)


def primitives(block: Block) -> list[str]:
    return [let.op.name for let in walk(block) if isinstance(let.op, Prim)]


def counted(name: str, args: list[Any]) -> int:
    _, program, entry, _ = compiled(name)
    interpreter = Interpreter(program)
    interpreter.run(entry, args)
    return interpreter.operations


# ---- what is saved ---------------------------------------------------------------------------------------------------
def test_of_a_sigmoid_only_the_hyperbolic_tangent_is_saved() -> None:
    """h, which the products need; c before each iteration; of each gate what `tanh` gave, but not 1/2 tanh + 1/2."""
    text = lines("of_gated")
    assert any(line.startswith("#   32*n.0 bytes in each of n.1 iterations of a loop") for line in text), text
    again = "#   not 8*n.0 bytes more: 2*n.0 operations compute them again"
    assert any(line.startswith(again) for line in text), text


def test_what_is_cheap_is_computed_from_what_is_saved() -> None:
    """z and the state, which a product needs: the sine is saved, its cosine is of z."""
    text = lines("of_scaled")
    assert any(line.startswith("#   24*n.0 bytes in each of n.1 iterations of a loop") for line in text), text


@pytest.mark.parametrize("name", ["of_gated", "of_scaled", "of_rectified"])
def test_functions_that_take_long_are_not_computed_again(name: str) -> None:
    """Each runs in the loop forward only; the cosine of the sine is the adjoint's own."""
    forward, backward = loops(compiled(name)[0])
    expensive = {"tanh", "sin"}
    assert expensive & set(primitives(forward.body)) and not expensive & set(primitives(backward.body))


def test_what_a_product_needs_is_saved_so_that_it_is_one_product_after_the_loop() -> None:
    optimised = compiled("of_rectified")[1]
    outside = [let.op for f in optimised.functions.values() for let in f.body.lets if isinstance(let.op, Contract)]
    assert len(outside) == 2


def test_numbers_are_computed_again_from_fewer() -> None:
    text = lines("of_scalars")
    assert any(line.startswith("#   16 bytes in each of n.1 iterations of a loop") for line in text), text


def test_no_check_is_made_twice() -> None:
    forward, backward = loops(compiled("of_picked")[0])
    assert any(isinstance(let.op, Assert) for let in walk(forward.body))
    assert not any(isinstance(let.op, Assert) for let in walk(backward.body))


GATHERED = {
    "in an arm at points": "sum(if y[i] > 0.0 { y[i] * x[at[j]] } else { 0.0 } for i, j)",
    "in an arm in an arm": "sum(if y[i] > 0.0 { if y[i] > x[j] { x[at[j]] } else { 1.0 } } else { 0.0 } for i, j)",
    "in an iteration": "{ var s = 0.0; for j < n { s = 2.0 * s + x[at[j]] }; s * y[0] }",
    "in an arm of an iteration": "{ var s = 0.0; for j < n { if y[0] > 0.0 { s = 2.0 * s + x[at[j]] } }; s }",
}


@pytest.mark.parametrize("code", GATHERED.values(), ids=GATHERED.keys())
def test_an_index_that_is_there_is_not_saved_with_its_check(code: str) -> None:
    text = f"fn f(x: f64[n], y: f64[m], at: i64[n]) -> f64 = {code}\n"
    text += "fn slope(x: f64[n], y: f64[m], at: i64[n]) -> f64[n] = grad(f)(x, y, at)"
    made, found = lowered(text, "slope"), list[Residuals]()
    optimise(made.program, [made.entry.name], verify=True, residuals=found)
    assert not any("*n" in line for s in found for line in written(s).splitlines()[1:])
    args = [np.array([0.5, -1.0, 2.0]), np.array([0.3, -0.2]), np.array([2, 0, 2])]
    compiled, meant = dlang.compile(text), dlang.compile(text, backend="interp")
    np.testing.assert_allclose(compiled.slope(*args), meaning(meant.slope, *args))
    with pytest.raises(DlangError, match="out of range"):
        compiled.slope(*args[:2], np.array([2, 3, 2]))


ASKED = {
    "at points": (
        "sum({ var s = v; for t < m { s = if s > 0.0 { s * 0.5 - y[t] } else { s + y[t] } }; s } for v in x)",
        1,
    ),
    "of two arrays": (
        """{ var (u, v) = (x, 2.0 * x)
        for t < m { let w = [if u[i] > v[i] { u[i] - y[t] } else { u[i] } for i < n]
          v = [0.5 * v[i] + y[t] for i < n]
          u = w }
        sum(u) + sum(v) }""",
        1,
    ),
    "of an array that is needed": (
        "{ var u = x; for t < m { u = [if u[i] > y[t] { u[i] * u[i] } else { u[i] } for i < n] }; sum(u) }",
        8,
    ),
}


@pytest.mark.parametrize(("code", "bytes"), ASKED.values(), ids=ASKED.keys())
def test_of_arrays_that_are_only_asked_something_the_answers_are_saved(code: str, bytes: int) -> None:
    text = f"fn f(x: f64[n], y: f64[m]) -> f64 = {code}\n"
    text += "fn slope(x: f64[n], y: f64[m]) -> (f64[n], f64[m]) = grad(|p: (f64[n], f64[m])| f(p.0, p.1))((x, y))"
    made, found = lowered(text, "slope"), list[Residuals]()
    optimise(made.program, [made.entry.name], verify=True, residuals=found)
    each = [line for s in found for line in written(s).splitlines() if "iterations of a loop" in line]
    size = "n.0" if bytes == 1 else f"{bytes}*n.0"
    assert [line.split(" in each")[0] for line in each] == [f"#   {size} bytes"]
    args = [np.array([0.5, -1.0, 2.0]), np.array([0.3, -0.2])]
    compiled, meant = dlang.compile(text), dlang.compile(text, backend="interp")
    for mine, wanted in zip(compiled.slope(*args), meaning(meant.slope, *args), strict=True):
        np.testing.assert_allclose(mine, wanted)


def test_no_index_by_which_a_loop_counts_is_saved() -> None:
    text = lines("of_smoothed")
    assert not any("iterations of a loop" in line for line in text), text
    x = np.arange(5.0)
    _, program, entry, _ = compiled("of_smoothed")
    found = Interpreter(program).run(entry, [5, x, 2])[0]
    step = np.array([[1, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0, 0.5, 0, 0.5, 0], [0, 0, 0.5, 0, 0.5], [0, 0, 0, 0, 1]])
    assert np.allclose(found, np.ones(5) @ step @ step)


def test_what_outgrows_what_it_is_computed_of_is_not_saved_in_each_iteration() -> None:
    arrays = [p.type for loop in loops(compiled("of_attracted")[1]) for p in loop.params if isinstance(p.type, Array)]
    assert any(len(array.shape) == 3 for array in arrays)  # the state, of each iteration
    assert not any(len([size for size in array.shape if size.constant is None]) > 2 for array in arrays), arrays
    x = np.random.default_rng(0).normal(size=(5, 3))
    _, program, entry, _ = compiled("of_attracted")
    (found,) = Interpreter(program).run(entry, [5, x, 4])
    assert np.allclose(found, meaning(dlang.compile(TEXT, backend="interp").of_attracted, x, 4))


def test_the_tape_of_a_call_has_what_the_rest_is_computed_from() -> None:
    tapes = [d for name, d in compiled("of_deep")[0].datatypes.items() if "tape" in name]
    assert tapes
    for tape in tapes:
        fields = [field for variant in tape.variants for field in variant.fields]
        arrays = [field for field in fields if isinstance(field.type, Array)]
        assert len(arrays) <= 4, arrays  # `h`, `below`, and what `tanh` gave of each


# ---- what that costs -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["gated", "scaled", "rectified"])
def test_a_gradient_takes_at_most_four_times_the_operations(name: str) -> None:
    m, n = 6, 9
    random = np.random.default_rng(0)
    matrices = [random.normal(size=(m, m)) for _ in range(1 if name == "scaled" else 2)]
    args = [m, n, *matrices, random.normal(size=(n, m))]
    assert counted(f"of_{name}", args) <= 4 * (counted(name, args) + len(matrices) * m * m)


def test_a_comprehension_that_runs_again_joins_the_pass_that_reads_it() -> None:
    """The adjoint of an iteration goes over vectors as often as before: nothing that is computed again is an array."""
    backward = list(loops(compiled("of_gated")[1]))[1]
    passes = [let for let in backward.body.lets if isinstance(let.op, Comp)]
    assert len(passes) <= 3, passes


# ---- values ----------------------------------------------------------------------------------------------------------
def test_second_derivatives_are_those_of_differences() -> None:
    n, m = 3, 2
    random = np.random.default_rng(1)
    xs, w, v, step = (random.normal(size=s) for s in ((n, m), (m, m), (m, m), (n, m)))
    _, program, entry, _ = compiled("twice")

    def at(x: Any) -> Any:
        return Interpreter(program).run(entry, [n, m, x, w, v])[0]

    def squares(x: Any) -> float:
        made, inner = compiled("first")[1:3]
        return float(np.sum(np.asarray(Interpreter(made).run(inner, [n, m, x, w, v])[0]) ** 2))

    expected = (squares(xs + 1e-5 * step) - squares(xs - 1e-5 * step)) / 2e-5
    assert np.sum(np.asarray(at(xs)) * step) == pytest.approx(expected, rel=1e-6)
