"""Outer products that a recursion adds up are collected, and added several at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Array, Call, Comp, Contract, If, Program
from dlang.ir.traverse import walk
from dlang.ops import figures
from dlang.pipeline import optimise
from tests.specialize.support import lowered

TREES = """
enum Tree { Leaf(i64), Node(Tree, Tree) }

fn parsed(code: i64[n], at: i64) -> (Tree, i64) {
  if code[at] >= 0 { return (Leaf(code[at]), at + 1) }
  let (left, middle) = parsed(code, at + 1)
  let (right, end) = parsed(code, middle)
  (Node(left, right), end)
}

fn state(words: f64[m, h], w: f64[2, h, h], tree: Tree) -> f64[h] = match tree {
  Leaf(word) => words[word]
  Node(left, right) => tanh(state(words, w, left) @ w[0] + state(words, w, right) @ w[1])
}

fn value(words: f64[m, h], w: f64[2, h, h], code: i64[n]) -> f64 = sum(state(words, w, parsed(code, 0).0) ** 2)
fn gradient(words: f64[m, h], w: f64[2, h, h], code: i64[n]) -> (f64[m, h], f64[2, h, h]) =
  grad(|words: f64[m, h], w: f64[2, h, h]| value(words, w, code), wrt = (words, w))(words, w)
fn curvature(words: f64[m, h], w: f64[2, h, h], code: i64[n], v: f64[2, h, h]) -> f64[2, h, h] =
  jvp(|w: f64[2, h, h]| grad(|w: f64[2, h, h]| value(words, w, code))(w), w, v).1
"""
ROSES = """
enum Rose<m> { Tip(f64[m]), Fork(Rose<m>[5]) }

fn grown(x: f64[m], depth: i64) -> Rose<m> =
  if depth == 0 { Tip(x) } else { Fork([grown(x, depth - 1) for _ < 5]) }
fn state(w: f64[m, m], rose: Rose<m>) -> f64[m] = match rose {
  Tip(x) => x
  Fork(children) => {
    var total = zeros(m)
    for child in children { total = tanh(total * 0.5 + state(w, child) @ w + 0.1) }
    total
  }
}
fn value(w: f64[m, m], x: f64[m], depth: i64) -> f64 = sum(state(w, grown(x, depth)))
fn gradient(w: f64[m, m], x: f64[m], depth: i64) -> f64[m, m] = grad(|w: f64[m, m]| value(w, x, depth))(w)
"""
RNG = np.random.default_rng(0)
WORDS, W = RNG.normal(size=(4, 5)), RNG.normal(size=(2, 5, 5)) * 0.4


def code(depth: int) -> list[int]:
    return [int(RNG.integers(0, 4))] if depth == 0 else [-1, *code(depth - 1), *code(depth - 1)]


def backward(program: Program) -> Any:
    """The recursive function that goes backwards."""
    (found,) = [
        f
        for f in program.functions.values()
        if "bwd" in f.name and any(isinstance(let.op, Call) and let.op.function == f.name for let in walk(f.body))
    ]
    return found


def test_a_node_adds_nothing_of_the_size_of_the_weights() -> None:
    made = lowered(TREES, "gradient")
    f = backward(optimise(made.program, [made.entry.name], verify=True))
    loop: Any = f.body.lets[0].op
    cold = [
        let for inner in walk(loop.body) if isinstance(inner.op, If) and inner.op.cold for let in walk(inner.op.then)
    ]
    sums = [
        let.op
        for let in walk(loop.body)
        if isinstance(let.op, Comp)
        and let not in cold
        and any(d.into is not None and len(d.shape) == 3 for d in let.op.destinations)
    ]
    products = [let for let in walk(loop.body) if isinstance(let.op, Contract)]
    assert len(sums) == 2 and all(len(op.body.lets) == 1 for op in sums)  # the two products, when there is no room
    assert len(products) == 4  # these two, and the cotangents of both children
    rows = [p for p in f.params if isinstance(p.type, Array) and p.type.shape[0] == figures.OUTER_PRODUCTS]
    assert len(rows) == 4  # both factors of both


@pytest.mark.parametrize("depth", [0, 1, 4, 7])  # of up to 127 nodes
def test_the_gradient_is_that_of_differences(depth: int) -> None:
    m = dlang.compile(TREES)
    tree = np.array(code(depth))
    found = m.gradient(WORDS, W, tree)
    for k in range(2):
        for _ in range(4):
            given = [WORDS, W]
            direction = RNG.normal(size=given[k].shape)
            ends = []
            for step in (1e-6, -1e-6):
                moved = list(given)
                moved[k] = given[k] + step * direction
                ends.append(m.value(*moved, tree))
            np.testing.assert_allclose(np.sum(found[k] * direction), (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_second_derivatives_go_through_what_is_collected() -> None:
    m = dlang.compile(TREES)
    tree, v = np.array(code(6)), RNG.normal(size=W.shape)
    ends = [m.gradient(WORDS, W + step * v, tree)[1] for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(m.curvature(WORDS, W, tree, v), (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-5)


def test_infinite_factors_of_zero_cotangents_stay_out_of_the_sum() -> None:
    m = dlang.compile(TREES)
    words = np.full((1, 5), 1e3)  # tanh has no slope there
    words[0, 0] = np.inf
    tree = np.array([-1, 0, 0])
    weights = np.ones((2, 5, 5))
    assert np.all(np.isfinite(m.gradient(words, weights, tree)[1]))


def test_children_in_a_loop_are_collected_too() -> None:
    m = dlang.compile(ROSES)
    w, x = RNG.normal(size=(3, 3)) * 0.5, np.array([0.1, 0.2, 0.3])
    found = m.gradient(w, x, 3)
    for at in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[at] = 1e-6
        difference = (m.value(w + step, x, 3) - m.value(w - step, x, 3)) / 2e-6
        np.testing.assert_allclose(found[at], difference, rtol=1e-5, atol=1e-8)
