"""What each iteration of a loop adds to a slice of zeros of its own, it sets."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Comp, Contract, Empty, For, Program
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.specialize.support import lowered

TEXT = """
fn state(u: f64[m, m], given: f64[n, b, m]) -> f64[b, m] {
  var h = zeros(b, m)
  for t < n { h = tanh(given[t] + h @ u) }
  h
}
fn whole(u: f64[m, m], given: f64[n, b, m]) -> (f64[m, m], f64[n, b, m]) =
  grad(|u: f64[m, m], given: f64[n, b, m]| sum(state(u, given)), wrt = (u, given))(u, given)

fn shorter(given: f64[n + 1, m]) -> f64[m] {
  var h = zeros(m)
  for t < n { h = tanh(given[t] + h * 2.0) }
  h
}
fn part(given: f64[n + 1, m]) -> f64[n + 1, m] = grad(|given: f64[n + 1, m]| sum(shorter(given)))(given)
"""
RNG = np.random.default_rng(0)


def optimised(name: str) -> tuple[Program, str]:
    made = lowered(TEXT, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def test_the_cotangent_of_slices_is_made_once_and_serves_the_product_after_the_loop() -> None:
    program, entry = optimised("whole")
    body = program.functions[entry].body
    *_, backward = [let.op for let in body.lets if isinstance(let.op, For)]
    stacks = [p for p in backward.params if len(p.type.shape) == 3]
    assert len(stacks) == 1  # nothing is kept twice
    made = {v: let.op for let in body.lets for v in let.vars}
    assert isinstance(made[backward.init[backward.params.index(stacks[0])]], Empty)
    assert any(isinstance(let.op, Contract) for let in body.lets)
    for let in walk(backward.body):
        if isinstance(let.op, Comp):
            assert all(d.into is not stacks[0] or getattr(d, "monoid", "") == "set" for d in let.op.destinations)


def test_an_array_of_which_some_slices_are_left_out_is_filled() -> None:
    program, entry = optimised("part")
    *_, backward = [let.op for let in program.functions[entry].body.lets if isinstance(let.op, For)]
    made = {v: let.op for let in program.functions[entry].body.lets for v in let.vars}
    for init, param in zip(backward.init, backward.params, strict=True):
        if len(param.type.shape) == 2:
            assert isinstance(made[init], Comp)


@pytest.mark.parametrize("n", [1, 4])
def test_the_gradient_is_that_of_differences(n: int) -> None:
    import dlang

    m = dlang.compile(TEXT)
    given = RNG.normal(size=(n + 1, 3))
    found = m.part(given)

    def f(x: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        h = np.zeros(3)
        for t in range(n):
            h = np.tanh(x[t] + h * 2)
        return float(h.sum())

    for at in np.ndindex(*given.shape):
        step = np.zeros(given.shape)
        step[at] = 1e-6
        difference = (f(given + step) - f(given - step)) / 2e-6
        np.testing.assert_allclose(found[at], difference, rtol=1e-5, atol=1e-8)
