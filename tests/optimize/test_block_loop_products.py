"""Products of the inputs of a loop are done for a block of iterations at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Block, Contract, For, Let, Program
from dlang.ir.traverse import walk
from dlang.ops import figures
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.specialize.support import lowered

TEXT = """
fn last(w: f64[k, m], u: f64[m, m], xs: f64[n, k]) -> f64[m] {
  var h = zeros(m)
  for t < n { h = tanh(xs[t] @ w + h @ u) }
  h
}
fn of_batches(w: f64[k, m], u: f64[m, m], xs: f64[n, b, k]) -> f64[b, m] {
  var h = zeros(b, m)
  for t < n { h = tanh(xs[t] @ w + h @ u) }
  h
}
fn backwards(w: f64[m, k], u: f64[m, m], xs: f64[n, k]) -> f64[m] {
  var h = zeros(m)
  for t < n { h = tanh(w @ xs[n - 1 - t] + u @ h) }
  h
}
fn gates(w: f64[k, m], v: f64[k, m], u: f64[m, m], xs: f64[n, k]) -> f64[m] {
  var h = zeros(m)
  for t < n {
    let keep = tanh(xs[t] @ v + h @ u)
    h = keep * h + tanh(xs[t] @ w)
  }
  h
}
fn windows(w: f64[3, k, m], u: f64[m, m], xs: f64[l, k]) -> f64[m] {
  var h = zeros(m)
  for t < l - 2 { h = tanh([sum(xs[t + i, p] * w[i, p, j] for i < 3, p) for j] + h @ u) }
  h
}
fn before(w: f64[k, m], u: f64[m, m], xs: f64[n, b, k]) -> f64[b, m] {
  let given = xs @ w + 1.0
  var h = zeros(b, m)
  for t < n { h = tanh(given[t] + h @ u) }
  h
}
fn stops(w: f64[k, m], u: f64[m, m], xs: f64[n, k]) -> f64[m] {
  var h = zeros(m)
  for t < n {
    h = tanh(xs[t] @ w + h @ u)
    if h[0] > 0.5 { break }
  }
  h
}
fn of_both(w: f64[k, m], u: f64[m, m], xs: f64[n, k]) -> (f64[k, m], f64[n, k]) =
  grad(|w: f64[k, m], xs: f64[n, k]| sum(last(w, u, xs) ** 2.0), wrt = (w, xs))(w, xs)

fn along(w: f64[k, m], u: f64[m, m], xs: f64[n, k]) -> f64[m] = jvp(|xs: f64[n, k]| last(w, u, xs), xs, xs).1
"""
ENGINE = Engine(Host())
RNG = np.random.default_rng(0)
K, M, N, B = 6, 5, 11, 7
W, U, XS = RNG.normal(size=(K, M)) * 0.3, RNG.normal(size=(M, M)) * 0.3, RNG.normal(size=(N, K))
BATCHES = RNG.normal(size=(N, B, K))
ARGS: dict[str, list[Any]] = {
    "last": [W, U, XS],
    "of_batches": [W, U, BATCHES],
    "backwards": [np.ascontiguousarray(W.T), U, XS],
    "gates": [W, W * 0.5, U, XS],
    "windows": [RNG.normal(size=(3, K, M)) * 0.3, U, RNG.normal(size=(N + 2, K))],
    "before": [W, U, BATCHES],
    "stops": [W, U, XS],
    "of_both": [W, U, XS],
    "along": [W, U, XS],
}


def optimised(name: str) -> tuple[Program, str]:
    made = lowered(TEXT, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def arguments(program: Program, entry: str, args: list[Any]) -> list[Any]:
    """The arguments with the sizes before them that the parameters mention."""
    sizes: dict[Any, int] = {}
    params = program.functions[entry].params
    arrays = [p for p in params if getattr(p.type, "shape", None)]
    for p, a in zip(arrays, args, strict=True):
        for size, n in zip(p.type.shape, a.shape, strict=True):
            if size.atom is not None:
                sizes[size.atom] = n
    rest = iter(args)
    return [next(rest) if getattr(p.type, "shape", None) else sizes[p] for p in params]


def contracts(block: Block) -> list[Let]:
    return [let for let in block.lets if isinstance(let.op, Contract)]


def nest(program: Program, entry: str) -> tuple[For, For]:
    """The first loop over blocks, and that over the iterations of a block."""
    for outer in program.functions[entry].body.lets:
        if isinstance(outer.op, For):
            for inner in outer.op.body.lets:
                if isinstance(inner.op, For):
                    return outer.op, inner.op
    raise AssertionError


@pytest.mark.parametrize(
    ("name", "outside", "inside"),
    [("last", 1, 1), ("of_batches", 1, 1), ("backwards", 1, 1), ("gates", 2, 1), ("windows", 1, 1), ("before", 1, 1)],
)
def test_a_block_of_iterations_has_one_product_of_its_inputs(name: str, outside: int, inside: int) -> None:
    program, entry = optimised(name)
    outer, inner = nest(program, entry)
    assert len(contracts(outer.body)) == outside
    assert len(contracts(inner.body)) == inside
    assert not contracts(program.functions[entry].body)  # no product of all inputs at once


def test_a_loop_that_may_end_early_does_no_product_that_it_does_not_reach() -> None:
    program, entry = optimised("stops")
    (loop,) = [let.op for let in program.functions[entry].body.lets if isinstance(let.op, For)]
    assert len(contracts(loop.body)) == 2


def test_forward_mode_has_products_of_inputs_and_tangents_in_blocks() -> None:
    program, entry = optimised("along")
    outer, _ = nest(program, entry)
    assert len(contracts(outer.body)) >= 1
    (f,) = [program.functions[entry]]
    assert sum(isinstance(let.op, For) for let in f.body.lets) == 1


@pytest.mark.parametrize("room", [1, 24 * M * B, 1 << 22])
@pytest.mark.parametrize("name", list(ARGS))
def test_blocks_of_any_size_give_the_same(name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = lowered(TEXT, name)
    expected = None
    if name not in ("of_both", "along"):
        inputs_of = arguments(plain.program, plain.entry.name, ARGS[name])
        expected = Interpreter(plain.program).run(plain.entry.name, inputs_of)
    monkeypatch.setattr(figures, "PRODUCTS_OF_BLOCK", room)
    program, entry = optimised(name)
    args = arguments(program, entry, ARGS[name])
    got = Interpreter(program).run(entry, args)
    compiled = ENGINE.compile(program, [entry]).run(entry, args)
    for a, b in zip(got, compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    for a, b in zip(got, expected if expected is not None else got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_no_iteration_costs_more_than_before() -> None:
    def operations(n: int) -> int:
        program, entry = optimised("last")
        interpreter = Interpreter(program)
        interpreter.run(entry, arguments(program, entry, [W, U, XS[:n]]))
        return interpreter.operations

    one = operations(2) - operations(1)
    assert operations(N) - operations(1) == one * (N - 1)


def test_the_derivative_of_inputs_is_one_product_too() -> None:
    program, entry = optimised("of_both")
    after = contracts(program.functions[entry].body)
    assert len(after) >= 2  # of the weights and of the inputs
    loops = [let.op for let in walk(program.functions[entry].body) if isinstance(let.op, For)]
    assert len(contracts(loops[-1].body)) == 1  # what passes from iteration to iteration


def test_an_empty_loop_does_nothing() -> None:
    program, entry = optimised("last")
    (h,) = Interpreter(program).run(entry, arguments(program, entry, [W, U, XS[:0]]))
    np.testing.assert_array_equal(h, np.zeros(M))
