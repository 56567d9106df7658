"""The passes that rewrite derivatives: what they make of each is still the derivative, in four ways to compute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlang import pipeline
from dlang.ad import rematerialise
from dlang.ad.rematerialise import Value, minimum_cut
from dlang.ir.anf import Program
from dlang.pipeline import CorePass, CoreTarget
from tests.ad.four_ways import four_ways
from tests.optimize.test_batch_outer_products import TREES
from tests.optimize.test_vectorise_loops import HEADS

RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape) * 0.5


CELL = """
import nn { sigmoid }

fn f(w: f64[h, 2 * h], u: f64[d, 2 * h], x: f64[t, d]) -> f64 {
  var s = zeros(h)
  var c = zeros(h)
  for k < t {
    let z = s @ w + x[k] @ u
    c = sigmoid(z[..h]) * c + sigmoid(z[h..])
    s = tanh(c)
  }
  sum(s)
}
"""
LAYERS = """
fn f(u: f64[m, m], given: f64[n, b, m]) -> f64 {
  var h = zeros(b, m)
  for t < n { h = tanh(given[t] + h @ u) }
  sum(h)
}
"""

# The text of `f`, the passes that have something to do in it, its sizes and arguments.
CASES: dict[str, tuple[str, set[str], list[Any]]] = {
    "a recursion over a tree": (
        TREES + "fn f(words: f64[m, h], w: f64[2, h, h], code: i64[n]) -> f64 = value(words, w, code)",
        {"batch_outer_products"},
        [2, 3, 7, normal(2, 3), normal(2, 3, 3), np.array([-1, -1, 0, 1, -1, 1, 0])],
    ),
    "the cell of a recurrent network": (
        CELL,
        {"sink_products", "block_loop_products", "coalesce_writes", "recompute"},
        [3, 2, 4, normal(3, 6), normal(2, 6), normal(4, 2)],
    ),
    "a recurrent layer": (LAYERS, {"slice_writes", "sink_products"}, [3, 4, 2, normal(3, 3), normal(4, 2, 3)]),
    "a map that is iterated": (
        "fn f(x: f64, p: f64, n: i64) -> f64 { var y = x; for _ < n { y = p * y * (1.0 - y) }; y }",
        {"jacobians"},
        [0.3, 2.8, 5],
    ),
    "an energy of pairs": (
        """
fn f(r: f64[n, 2], m: f64[n]) -> f64 =
  sum(m[i] * m[j] / sqrt((r[i, 0] - r[j, 0]) ** 2 + (r[i, 1] - r[j, 1]) ** 2 + 0.1) for i, j)
""",
        {"symmetry"},
        [4, normal(4, 2), 1.0 + normal(4)],
    ),
    "attention of each head": (
        HEADS + "fn f(q: f64[h, n, d], k: f64[h, m, d], v: f64[h, m, e]) -> f64 = sum(by_head(q, k, v) ** 2)",
        {"vectorise_loops", "blocking", "contractions"},
        [2, 3, 2, 4, 2, normal(2, 3, 2), normal(2, 4, 2), normal(2, 4, 2)],
    ),
    "rows of scores": (
        "fn f(x: f64[n, m]) -> f64 = sum([log(sum([exp(x[i, j] - max(x[i])) for j])) + max(x[i]) for i in 0..n])",
        {"fuse_outer_axis"},
        [3, 4, normal(3, 4)],
    ),
    "vectors of three numbers": (
        """
fn cross(a: f64[3], b: f64[3]) -> f64[3] =
  [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
fn f(r: f64[n, 3], x: f64[n, 3]) -> f64 = sum([sum(sin(cross(r[i], x[i])) ** 2) for i])
""",
        {"short_axes"},
        [3, normal(3, 3), normal(3, 3)],
    ),
}


def watched(step: CorePass, changing: set[str]) -> CorePass:
    """A pass that notes in `changing` whether it has changed a function."""

    def function(program: Program, to: CoreTarget) -> Program:
        after = step.function(program, to)
        if any(after.functions.get(name) is not f for name, f in program.functions.items()):
            changing.add(step.name)
        return after

    return replace(step, function=function)


@pytest.mark.parametrize("name", CASES)
def test_what_passes_make_of_a_derivative_is_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, passes, args = CASES[name]
    changing: set[str] = set()

    def cut(values: Sequence[Value], wanted: Sequence[int]) -> tuple[set[int], set[int]]:
        saved, again = minimum_cut(values, wanted)
        if again:
            changing.add("recompute")
        return saved, again

    monkeypatch.setattr(pipeline, "PASSES", tuple([watched(step, changing) for step in pipeline.PASSES]))
    monkeypatch.setattr(rematerialise, "minimum_cut", cut)
    assert any(np.any(e) for e in four_ways(text, args))
    assert passes <= changing
