"""What is done in blocks: the memory that a chain of products takes, what becomes part of one, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang import pipeline
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Comp, Contract, Let, Program, Reduce
from dlang.ir.traverse import walk
from dlang.ops import figures
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from dlang.runtime.threads import default_pool
from tests.limits import memory_needed
from tests.optimize.programs import assert_same
from tests.specialize.support import lowered

ATTENTION = """
fn attention(q: f64[n, d], k: f64[m, d], v: f64[m, e]) -> f64[n, e] {
  let s = [sum(q[i, p] * k[j, p] for p) for i, j]
  let x = [if j - i > m - n { -1e30 } else { s[i, j] } for i, j]
  let y = [exp(x[i, j] - max(x[i])) for i, j]
  let z = [sum(y[i]) for i]
  [sum(y[i, j] * v[j, p] for j) / z[i] for i, p]
}

fn value(q: f64[n, d], k: f64[m, d], v: f64[m, e]) -> f64[n, e] = attention(q, k, v)

fn gradient(
  q: f64[n, d], k: f64[m, d], v: f64[m, e], seed: f64[n, e]
) -> (f64[n, e], (f64[n, d], f64[m, d], f64[m, e])) {
  let (y, pull) = vjp(attention, q, k, v)
  (y, pull(seed))
}
"""

HEADS = """
fn value(q: f64[h, n, d], k: f64[h, m, d], v: f64[h, m, e]) -> f64[h, n, e] {
  let s = [sum(q[b, i, p] * k[b, j, p] for p) for b, i, j]
  let y = [exp(s[b, i, j] - max(s[b, i])) for b, i, j]
  let z = [sum(y[b, i]) for b, i]
  [sum(y[b, i, j] * v[b, j, p] for j) / z[b, i] for b, i, p]
}
"""

LAYERS = """
fn value(x: f64[n, a], w: f64[a, b], u: f64[b, c]) -> f64 = sum(logsumexp(tanh(x @ w) @ u, axis = 1))
"""

MIXTURE = """
fn value(factors: f64[k, d, d], centres: f64[k, d], x: f64[n, d]) -> f64 {
  let scores = [-0.5 * sum((sum(factors[c, i, j] * x[p, j] for j) - centres[c, i]) ** 2 for i) for p, c]
  sum(logsumexp(scores, axis = 1))
}

fn gradient(factors: f64[k, d, d], centres: f64[k, d], x: f64[n, d]) -> (f64[k, d, d], f64[k, d]) =
  grad(value, wrt = (factors, centres))(factors, centres, x)
"""

LOSS = """
fn value(x: f64[n, d], w: f64[d, c], labels: i64[n]) -> f64 {
  let logits = x @ w
  sum(logsumexp(logits, axis = 1)) - sum(logits[i, labels[i]] for i)
}

fn gradient(x: f64[n, d], w: f64[d, c], labels: i64[n]) -> f64[d, c] = grad(value, wrt = w)(x, w, labels)
"""

NEAREST = """
fn value(x: f64[n, d], c: f64[k, d]) -> f64 = sum(min(sum((p - q) ** 2) for q in c) for p in x)

fn places(x: f64[n, d], c: f64[k, d]) -> i64[n] = [argmin([sum((p - q) ** 2) for q in c]) for p in x]

fn loop(x: f64[n, d], c: f64[k, d]) -> f64 {
  var total = 0.0
  for p in x {
    var (least, at) = (1e9, 0)
    for j < k {
      let distance = sum((p - c[j]) ** 2)
      if distance < least { (least, at) = (distance, j) }
    }
    total += sum((p - c[at]) ** 3)
  }
  total
}

fn gradient(x: f64[n, d], c: f64[k, d]) -> (f64[n, d], f64[k, d]) = grad(loop, wrt = (x, c))(x, c)
"""

FLOATS = np.random.default_rng(4)


def normal(*shape: int) -> Any:
    return FLOATS.normal(size=shape)


def whole(text: str, name: str, args: list[Any], monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], Program, str]:
    """What a program gives that is not done in blocks; and the program with blocks of any length from now on."""
    found = lowered(text, name)
    with monkeypatch.context() as without:
        without.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p.name != "blocking"))
        expected = Interpreter(optimise(found.program, [found.entry.name])).run(found.entry.name, args)
    for figure in ("CACHE", "EVEN_ROWS"):
        monkeypatch.setattr(figures, figure, 1)
    return list(expected), optimise(found.program, [found.entry.name], verify=True), found.entry.name


def optimised(text: str, name: str) -> tuple[Program, str]:
    found = lowered(text, name)
    return optimise(found.program, [found.entry.name], verify=True), found.entry.name


def loops(program: Program, name: str) -> list[Let]:
    """The comprehensions whose bodies have products."""
    lets = list(walk(program.functions[name].body))
    return [
        let for let in lets if isinstance(let.op, Comp) and any(isinstance(i.op, Contract) for i in let.op.body.lets)
    ]


# ---- what is done in blocks ------------------------------------------------------------------------------------------
PRODUCTS = {
    (ATTENTION, "value"): 2,
    (ATTENTION, "gradient"): 6,
    (MIXTURE, "value"): 1,
    (MIXTURE, "gradient"): 2,
    (LOSS, "gradient"): 2,
}


@pytest.mark.parametrize(("text", "name"), PRODUCTS)
def test_a_chain_is_one_loop_over_blocks(text: str, name: str) -> None:
    program, entry = optimised(text, name)
    (loop,) = loops(program, entry)
    assert isinstance(loop.op, Comp)
    products = sum(isinstance(let.op, Contract) for let in walk(loop.op.body))
    assert products == PRODUCTS[text, name]


def test_scores_are_rows_of_a_block_and_nothing_has_them_all() -> None:
    program, entry = optimised(ATTENTION, "gradient")
    (loop,) = loops(program, entry)
    n, _, m, _ = program.functions[entry].params[:4]
    everything = [v for let in walk(program.functions[entry].body) for v in let.vars]
    shapes = [[s.atom for s in v.type.shape] for v in everything if isinstance(v.type, Array)]
    assert [n, m] not in shapes and any(shape[1:] == [m] and shape[0] is not n for shape in shapes)
    assert isinstance(loop.op, Comp)
    kept = [(d.monoid, len(d.index)) for d in loop.op.destinations if isinstance(d, Reduce)]
    assert sorted(kept) == [("set", 1), ("set", 1), ("sum", 0), ("sum", 0)]


def test_a_batch_of_chains_is_done_one_after_another_each_in_blocks() -> None:
    program, entry = optimised(HEADS, "value")
    outer = [let for let in program.functions[entry].body.lets if isinstance(let.op, Comp)]
    assert len(outer) == 1 and isinstance(outer[0].op, Comp)
    assert all(len(v.type.shape) < 3 for let in walk(outer[0].op.body) for v in let.vars if isinstance(v.type, Array))
    (loop,) = loops(program, entry)
    assert loop is not outer[0]


def test_the_hidden_layers_of_a_network_are_not_done_in_blocks() -> None:
    program, entry = optimised(LAYERS, "value")
    products = [let for let in program.functions[entry].body.lets if isinstance(let.op, Contract)]
    assert len(products) == 1 and len(loops(program, entry)) == 1


def test_a_product_whose_result_is_wanted_is_none_in_blocks() -> None:
    program, entry = optimised("fn f(x: f64[n, a], w: f64[a, b]) -> f64[n, b] = tanh(x @ w)", "f")
    assert not loops(program, entry)


# ---- what it computes ------------------------------------------------------------------------------------------------
CASES = [
    (ATTENTION, "value", (7, 2, 5, 3), lambda n, d, m, e: (normal(n, d), normal(m, d), normal(m, e))),
    (ATTENTION, "gradient", (7, 2, 9, 3), lambda n, d, m, e: (normal(n, d), normal(m, d), normal(m, e), normal(n, e))),
    (HEADS, "value", (2, 7, 3, 5, 4), lambda h, n, d, m, e: (normal(h, n, d), normal(h, m, d), normal(h, m, e))),
    (MIXTURE, "gradient", (3, 5, 10), lambda k, d, n: (normal(k, d, d), normal(k, d), normal(n, d))),
    (LOSS, "gradient", (11, 4, 6), lambda n, d, c: (normal(n, d), normal(d, c), np.arange(n) % c)),
    (ATTENTION, "gradient", (0, 2, 9, 3), lambda n, d, m, e: (normal(n, d), normal(m, d), normal(m, e), normal(n, e))),
]


@pytest.mark.parametrize(("text", "name", "shape", "draw"), CASES)
@pytest.mark.parametrize("fewest", [1, 3, 1000])
def test_blocks_of_any_length_give_what_the_program_means(
    text: str, name: str, shape: tuple[int, ...], draw: Any, fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = [*shape, *draw(*shape)]
    monkeypatch.setattr(figures, "ROWS_OF_BLOCK", fewest)
    expected, program, entry = whole(text, name, args, monkeypatch)
    assert loops(program, entry)
    assert_same(Interpreter(program).run(entry, args), expected, exact=False)
    assert_same(Engine(Host()).compile(program, [entry]).run(entry, args), expected, exact=False)


@pytest.mark.parametrize("name", ["value", "places", "loop", "gradient"])
@pytest.mark.parametrize("shape", [(7, 3, 5), (0, 3, 5), (1, 1, 1), (9, 0, 2), (16, 2, 9)])
@pytest.mark.parametrize("fewest", [1, 3, 1000])
def test_the_nearest_of_points_is_found_a_block_at_a_time(
    name: str, shape: tuple[int, int, int], fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, d, k = shape
    args = [n, d, k, normal(n, d), normal(k, d)]
    monkeypatch.setattr(figures, "ROWS_OF_BLOCK", fewest)
    expected, program, entry = whole(NEAREST, name, args, monkeypatch)
    assert_same(Interpreter(program).run(entry, args), expected, exact=False)
    assert_same(Engine(Host()).compile(program, [entry]).run(entry, args), expected, exact=False)


def test_an_infinite_factor_without_influence_makes_no_nan_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v, seed = normal(7, 2), normal(5, 2), normal(5, 3), normal(7, 3)
    v[2, 1], seed[:, 1] = np.inf, 0.0
    args = [7, 2, 5, 3, q, k, v, seed]
    monkeypatch.setattr(figures, "ROWS_OF_BLOCK", 3)
    expected, program, entry = whole(ATTENTION, "gradient", args, monkeypatch)
    assert not any(np.isnan(g).any() for g in expected[1:])
    assert_same(Engine(Host()).compile(program, [entry]).run(entry, args), expected, exact=False)


# ---- memory ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["value", "gradient"])
def test_attention_needs_memory_for_its_results_and_a_few_blocks(name: str) -> None:
    module = dlang.compile(ATTENTION)
    n, d = 2048, 8
    args = [normal(n, d), normal(n, d), normal(n, d), *([normal(n, d)] if name == "gradient" else [])]
    assert memory_needed(getattr(module, name), *args) < 8 * n * n / 2


def test_the_gradient_of_a_mixture_does_not_keep_an_element_for_each_point_component_and_coordinate() -> None:
    module = dlang.compile(MIXTURE)
    k, d, n = 10, 16, 20000
    assert memory_needed(module.gradient, normal(k, d, d), normal(k, d), normal(n, d)) < 8 * n * k * d / 2


@pytest.mark.parametrize("name", ["value", "places", "loop", "gradient"])
def test_the_distances_of_all_points_from_all_others_are_never_there(name: str) -> None:
    module = dlang.compile(NEAREST)
    n, k = 3000, 2000
    assert memory_needed(getattr(module, name), normal(n, 4), normal(k, 4)) < 8 * n * k / 4


# ---- threads ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def threads() -> Any:
    pool = default_pool()
    before = pool.threads
    yield dlang.set_threads
    dlang.set_threads(before)


@pytest.mark.parametrize("n", [40, 700])  # one block, whose loops are cut; several
def test_threads_change_no_bit_of_what_blocks_add_up(n: int, threads: Any) -> None:
    module = dlang.compile(ATTENTION)
    args = [normal(n, 64), normal(1500, 64), normal(1500, 32), normal(n, 32)]
    found = []
    for count in (1, 3):
        threads(count)
        y, grads = module.gradient(*args)
        found.append([y, *grads])
    for one, three in zip(*found, strict=True):
        assert one.tobytes() == three.tobytes()
