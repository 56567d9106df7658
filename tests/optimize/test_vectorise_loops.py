"""Loops whose iterations need nothing of each other: what becomes of them, what they cost, and which stay."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Comp, For, Program
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.vectorise_loops import vectorise_loops
from dlang.pipeline import optimise
from tests.limits import memory_needed
from tests.optimize.programs import assert_same, count, program, run
from tests.specialize.support import lowered

HEADS = """
import nn { softmax }

fn attention(q: f64[n, d], k: f64[m, d], v: f64[m, e]) -> f64[n, e] = softmax(q @ transpose(k)) @ v

fn by_head(q: f64[h, n, d], k: f64[h, m, d], v: f64[h, m, e]) -> f64[h, n, e] =
  [attention(q[b], k[b], v[b]) for b]

fn by_index(q: f64[h, n, d], k: f64[h, m, d], v: f64[h, m, e]) -> f64[h, n, e] {
  let weights = softmax([sum(q[b, i, p] * k[b, j, p] for p) for b, i, j])
  [sum(weights[b, i, j] * v[b, j, p] for j) for b, i, p]
}

fn slope_by_head(q: f64[h, n, d], k: f64[h, m, d], v: f64[h, m, e]) -> (f64[h, n, d], f64[h, m, d], f64[h, m, e]) =
  grad(|q, k, v| sum(by_head(q, k, v) ** 2), wrt = (q, k, v))(q, k, v)

fn slope_by_index(q: f64[h, n, d], k: f64[h, m, d], v: f64[h, m, e]) -> (f64[h, n, d], f64[h, m, d], f64[h, m, e]) =
  grad(|q, k, v| sum(by_index(q, k, v) ** 2), wrt = (q, k, v))(q, k, v)
"""
EXAMPLES = """
fn loss(w: f64[m, m], x: f64[m]) -> f64 = sum(tanh(w @ tanh(w @ x)) ** 2)
fn f(w: f64[m, m], x: f64[k, m]) -> f64[k, m, m] = [grad(loss)(w, x[i]) for i]
"""
RNG = np.random.default_rng(3)


@cache
def optimised(text: str, name: str) -> tuple[Program, str, int]:
    made = lowered(text, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name, len(made.entry.extra)


def counted(text: str, name: str, args: list[Any]) -> tuple[list[Any], int]:
    p, entry, _ = optimised(text, name)
    interpreter = Interpreter(p)
    return interpreter.run(entry, args), interpreter.operations


def heads(h: int, n: int, m: int, d: int) -> list[Any]:
    return [RNG.normal(size=shape) for shape in ((h, n, d), (h, m, d), (h, m, d))]


@pytest.mark.parametrize("name", ["", "slope_"])
def test_attention_of_each_head_costs_what_attention_of_all_heads_costs(name: str) -> None:
    args = [3, 5, 2, 4, 2, *heads(3, 5, 4, 2)]
    by_head, one = counted(HEADS, f"{name}by_head", args)
    by_index, other = counted(HEADS, f"{name}by_index", args)
    assert_same(by_head, by_index, exact=False)
    assert one <= other + 3  # a check for each head


@pytest.mark.parametrize("name", ["by_head", "slope_by_head"])
def test_no_loop_over_heads_is_left(name: str) -> None:
    p, entry, _ = optimised(HEADS, name)
    assert not [let for let in walk(p.functions[entry].body) if isinstance(let.op, For)]


def test_the_gradient_of_attention_of_each_head_keeps_no_scores() -> None:
    module = dlang.compile(HEADS)
    h, n = 4, 1024
    assert memory_needed(module.slope_by_head, *heads(h, n, n, 8)) < 8 * h * n * n / 4


def test_gradients_of_single_examples_are_products_of_all() -> None:
    p, entry, extra = optimised(EXAMPLES, "f")
    assert not [let for let in walk(p.functions[entry].body) if isinstance(let.op, For)]
    w, x = RNG.normal(size=(3, 3)), RNG.normal(size=(4, 3))
    found = Interpreter(p).run(entry, [3, 4, w, x])[extra:]
    single = optimised(EXAMPLES + "fn g(w: f64[m, m], x: f64[m]) -> f64[m, m] = grad(loss)(w, x)", "g")
    for k in range(4):
        one = Interpreter(single[0]).run(single[1], [3, w, x[k]])[single[2] :]
        assert_same([found[0][k]], one, exact=False)


# ---- one pass --------------------------------------------------------------------------------------------------------
ROWS = """
fn f(n.0: i64, m.1: i64, x.2: f64[n.0, m.1], y.3: f64[n.0, m.1]) -> (r.4: f64[n.0, m.1]) {
  r.5: f64[n.0, m.1] = for i.6 in LOW..n.0 (s.7: f64[n.0, m.1] = y.3) {
    c.8: f64 = read x.2[i.6, 0]
    a.9: f64[m.1] = comp j.10 in 0..m.1 {
      t.11: f64 = read x.2[i.6, j.10]
      t.12: f64 = mul(t.11, c.8)
      yield t.12
    } to keep [m.1] [j.10] set
    b.13: f64 = comp j.14 in 0..m.1 {
      t.15: f64 = read a.9[j.14]
      yield t.15
    } to keep [] [] sum
    CHECK
    v.16: f64[m.1] = view j.17 in 0..m.1 of a.9[m.1 - 1 - j.17]
    s.18: f64[n.0, m.1] = comp j.19 in 0..m.1 {
      t.20: f64 = read v.16[j.19]
      t.21: f64 = add(t.20, b.13)
      MORE
      yield t.21
    } to keep [n.0, m.1] [WHERE, j.19] MONOID into s.7
    yield s.18
  }
  yield r.5
}
"""
ARGS = [3, 2, np.arange(6.0).reshape(3, 2) - 1, np.ones((3, 2))]


def rows(low: str = "0", where: str = "i.6", monoid: str = "set", check: str = "", more: str = "") -> Program:
    text = ROWS.replace("LOW", low).replace("WHERE", where).replace("MONOID", monoid)
    return program(text.replace("CHECK", check).replace("MORE", more))


@pytest.mark.parametrize("low", ["0", "1"])
@pytest.mark.parametrize("where", ["i.6", "n.0 - 1 - i.6"])
@pytest.mark.parametrize("monoid", ["set", "sum"])
def test_each_iteration_writes_a_slice_of_its_own(low: str, where: str, monoid: str) -> None:
    before = rows(low, where, monoid)
    args = ARGS if low == "0" else [3, 2, *ARGS[2:]]
    after = vectorise_loops(before) if low == "0" else before
    verify(after)
    assert count(after, For) == (low != "0")
    assert_same(run(before, args), run(after, args))


@pytest.mark.parametrize("where", ["0", "2*i.6", "i.6 - i.6"])
def test_iterations_that_may_write_the_same_slice_stay_in_order(where: str) -> None:
    assert count(vectorise_loops(rows(where=where)), For) == 1


@pytest.mark.parametrize("row", ["n.0 - 1 - i.6", "0"])
def test_a_iteration_that_reads_what_another_wrote_stays_in_order(row: str) -> None:
    more = f"t.30: f64 = read s.7[{row}, j.19]"
    assert count(vectorise_loops(rows(more=more)), For) == 1


@pytest.mark.parametrize("monoid", ["set", "sum"])
def test_an_iteration_may_read_what_it_alone_changes(monoid: str) -> None:
    before = program(OWN.replace("MONOID", monoid))
    after = vectorise_loops(before)
    verify(after)
    assert count(after, For) == 0
    assert_same(run(before, ARGS), run(after, ARGS))


OWN = """
fn f(n.0: i64, m.1: i64, x.2: f64[n.0, m.1], y.3: f64[n.0, m.1]) -> (r.4: f64[n.0, m.1]) {
  r.5: f64[n.0, m.1] = for i.6 in 0..n.0 (s.7: f64[n.0, m.1] = y.3) {
    b.8: f64 = comp k.9 in 0..m.1 {
      t.10: f64 = read s.7[i.6, m.1 - 1 - k.9]
      t.11: f64 = read x.2[i.6, k.9]
      t.12: f64 = mul(t.10, t.11)
      yield t.12
    } to keep [] [] sum
    s.13: f64[n.0, m.1] = comp j.14 in 0..m.1 {
      t.15: f64 = read s.7[i.6, j.14]
      t.16: f64 = sub(b.8, t.15)
      yield t.16
    } to keep [n.0, m.1] [i.6, j.14] MONOID into s.7
    yield s.13
  }
  yield r.5
}
"""


def test_a_check_of_each_iteration_is_still_made() -> None:
    check = """ok.22: bool = gt(b.13, -1.5)
    c.23: f64 = check ok.22 "E0801" ("small") () for (c.8)"""
    before = rows(check=check)
    after = vectorise_loops(before)
    assert count(after, For) == 0 and count(after, Comp) >= 4
    assert_same(run(before, ARGS), run(after, ARGS))
    bad = [3, 2, np.array([[1.0, 0.0], [1.0, -5.0], [1.0, 0.0]]), ARGS[3]]
    for p in (before, after):
        with pytest.raises(RunError):
            run(p, bad)
    empty = [0, 2, np.ones((0, 2)), np.ones((0, 2))]
    assert_same(run(before, empty), run(after, empty))


INTERIOR = """
fn f(x: f64[n]) -> f64[n] {
  var y = x
  for i in 1..n - 1 { y[i] = x[i - 1] - 2.0 * x[i] + x[i + 1] }
  y
}
"""


def test_a_loop_of_perhaps_fewer_than_no_iterations_is_done_at_once() -> None:
    p, entry, extra = optimised(INTERIOR, "f")
    assert not [let for let in walk(p.functions[entry].body) if isinstance(let.op, For)]
    for n in range(5):
        x = RNG.normal(size=n)
        y = x.copy()
        y[1:-1] = x[:-2] - 2.0 * x[1:-1] + x[2:] if n > 2 else y[1:-1]
        assert_same(Interpreter(p).run(entry, [n, x])[extra:], [y], exact=False)
