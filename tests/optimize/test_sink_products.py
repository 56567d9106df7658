"""Products that a loop adds up are one product after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Comp, Contract, For, Program, poly
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.meaning import meaning
from tests.specialize.support import lowered

TEXT = """
fn last(w: f64[m, m], u: f64[k, m], xs: f64[n, b, k]) -> f64[b, m] {
  var h = zeros(b, m)
  for t < n { h = tanh(h @ w + xs[t] @ u) }
  h
}
fn of_batches(w: f64[m, m], u: f64[k, m], xs: f64[n, b, k]) -> (f64[m, m], f64[k, m]) =
  grad(|w: f64[m, m], u: f64[k, m]| sum(last(w, u, xs) ** 2.0), wrt = (w, u))(w, u)

fn end(w: f64[m, m], u: f64[m, k], xs: f64[n, k]) -> f64[m] {
  var h = zeros(m)
  for x in xs { h = tanh(w @ h + u @ x) }
  h
}
fn of_vectors(w: f64[m, m], u: f64[m, k], xs: f64[n, k]) -> (f64[m, m], f64[m, k]) =
  grad(|w: f64[m, m], u: f64[m, k]| sum(end(w, u, xs) ** 2.0), wrt = (w, u))(w, u)

fn folded(w: f64[m, m], xs: f64[n, m]) -> f64[m, m] {
  var h = zeros(m)
  var used = w
  for t < n { h = tanh(used @ h + xs[t]); used = used * 0.5 }
  used
}
fn of_a_state(w: f64[m, m], xs: f64[n, m]) -> f64[m, m] = grad(|w: f64[m, m]| sum(folded(w, xs)))(w)
"""
RNG = np.random.default_rng(0)
W, U, XS = RNG.normal(size=(4, 4)), RNG.normal(size=(3, 4)), RNG.normal(size=(6, 2, 3))


def optimised(name: str) -> tuple[Program, str]:
    made = lowered(TEXT, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def results(name: str, args: list[Any]) -> list[Any]:
    program, entry = optimised(name)
    return list(Interpreter(program).run(entry, args))


def loops(program: Program, entry: str) -> list[For]:
    return [let.op for let in program.functions[entry].body.lets if isinstance(let.op, For)]


def test_the_gradient_of_weights_is_one_product_for_all_iterations() -> None:
    program, entry = optimised("of_batches")
    *_, backward = loops(program, entry)
    inside = [let.op for let in walk(backward.body) if isinstance(let.op, Contract)]
    after = [let.op for let in program.functions[entry].body.lets if isinstance(let.op, Contract)]
    assert len(inside) == 1 and len(after) == 2  # that of the state is needed in the next iteration


def test_products_of_rank_one_become_a_product_of_matrices() -> None:
    program, entry = optimised("of_vectors")
    *_, backward = loops(program, entry)
    square = [
        let for let in walk(backward.body) if isinstance(let.op, Comp) and any(d.into for d in let.op.destinations)
    ]
    kept = [d for let in square for d in let.op.destinations if isinstance(let.op, Comp) and d.into is not None]
    assert all(
        len(d.shape) == 2 and d.monoid == "set" for d in kept
    )  # cotangents of iterations, and nothing is added up
    assert sum(isinstance(let.op, Contract) for let in program.functions[entry].body.lets) == 2


def test_weights_that_change_in_the_loop_are_added_to_there() -> None:
    program, entry = optimised("of_a_state")
    assert not [let for let in program.functions[entry].body.lets if isinstance(let.op, Contract)]


def of_batches(w: Any, u: Any, xs: Any) -> float:
    h = np.zeros((xs.shape[1], w.shape[0]))
    for x in xs:
        h = np.tanh(h @ w + x @ u)
    return float(np.sum(h**2))


def of_vectors(w: Any, u: Any, xs: Any) -> float:
    h = np.zeros(w.shape[0])
    for x in xs:
        h = np.tanh(w @ h + u @ x)
    return float(np.sum(h**2))


@pytest.mark.parametrize("iterations", [0, 1, 6])
@pytest.mark.parametrize(
    ("name", "f", "u", "xs", "sizes"),
    [("of_batches", of_batches, U, XS, [4, 3, 6, 2]), ("of_vectors", of_vectors, U.T, XS[:, 0], [4, 3, 6])],
)
def test_the_gradient_is_that_of_differences(
    name: str, f: Any, u: Any, xs: Any, sizes: list[int], iterations: int
) -> None:
    sizes = [iterations if s == 6 else s for s in sizes]
    found = results(name, [*sizes, W, u, xs[:iterations]])
    for k, g in enumerate(found):
        for at in np.ndindex(g.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [W.copy(), u.copy()]
                moved[k][at] += step
                ends.append(f(*moved, xs[:iterations]))
            np.testing.assert_allclose(g[at], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-8)


# name: a program, and whether a loop carries a matrix of the size of the weights
OF_SEVERAL: dict[str, tuple[str, bool]] = {
    "twice in an iteration": (
        """
fn f(w: f64[m, m], x: f64[n, m], steps: i64) -> f64 {
  var h = x
  for t < steps {
    let k = tanh(h @ w)
    h = h + 0.1 * tanh((h + 0.5 * k) @ w)
  }
  sum(h ** 2)
}
""",
        False,
    ),
    "as rows and columns": (
        """
fn f(w: f64[m, m], x: f64[n, m], steps: i64) -> f64 {
  var (u, v) = (x[0], x[n - 1])
  for t < steps {
    u = 1.0 / (2.0 + (w @ v) ** 2)
    v = 1.0 / (2.0 + (transpose(w) @ u) ** 2)
  }
  sum(u * v)
}
""",
        False,
    ),
    "beside what is no product": (
        """
fn f(w: f64[m, m], x: f64[n, m], steps: i64) -> f64 {
  var h = x
  for t < steps {
    h = tanh(h @ w + f64(t))
    h = h + 0.1 * sum(sin(w * h[0, 0]))
  }
  sum(h ** 2)
}
""",
        True,
    ),
}


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_each_of_several_sums_is_a_product(name: str) -> None:
    text, left = OF_SEVERAL[name]
    gradient = "fn main(w: f64[m, m], x: f64[n, m], steps: i64) -> f64[m, m] = grad(f)(w, x, steps)\n"
    made = lowered(text + gradient, "main")
    program = optimise(made.program, [made.entry.name], verify=True)
    m = program.functions[made.entry.name].params[0]
    around = loops(program, made.entry.name)
    whole = [p for loop in around for p in loop.params if isinstance(p.type, Array) and p.type.shape == (poly(m),) * 2]
    assert bool(whole) == left
    for steps in (0, 1, 5):
        args = [RNG.normal(size=(3, 3)), RNG.normal(size=(2, 3)), steps]
        wanted = meaning(dlang.compile(text + gradient, backend="interp").main, *args)
        np.testing.assert_allclose(dlang.compile(text + gradient).main(*args), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_derivatives_of_several_sums(name: str) -> None:
    text, _ = OF_SEVERAL[name]
    four_ways(text, [3, 2, RNG.normal(size=(3, 3)), RNG.normal(size=(2, 3)), 2])


def test_products_of_what_an_iteration_has_alone_stay_in_it() -> None:
    text = """
fn f(x: f64[n, d], b: f64[n, s]) -> f64 {
  var h = zeros(d, s)
  for t < n { h = [0.9 * h[i, q] + x[t, i] * b[t, q] for i < d, q < s] }
  sum(h ** 2)
}
fn main(x: f64[n, d], b: f64[n, s]) -> (f64[n, d], f64[n, s]) = grad(f, wrt = (x, b))(x, b)
"""
    made = lowered(text, "main")
    program = optimise(made.program, [made.entry.name], verify=True)
    made_there = [v for f in program.functions.values() for let in walk(f.body) for v in let.vars]
    assert all(len(v.type.shape) < 3 for v in made_there if isinstance(v.type, Array))
    args = [RNG.normal(size=(5, 3)), RNG.normal(size=(5, 4))]
    wanted = meaning(dlang.compile(text, backend="interp").main, *args)
    for found, expected in zip(dlang.compile(text).main(*args), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
