"""Segments of one array, written in one pass: what is merged, what is not filled, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Comp, Empty, For, Program, Reduce
from dlang.ir.errors import IRError
from dlang.ir.printer import print_program
from dlang.ir.reader import read_program
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.coalesce_writes import coalesce_writes
from dlang.optimize.ownership import ownership
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.meaning import meaning
from tests.optimize.programs import assert_same, cost, count, program, run, through
from tests.specialize.support import lowered

TWO = """
fn f(h.0: i64, x.1: f64[h.0], y.2: f64[SIZE]) -> (z.3: f64[SIZE]) {
  a.4: f64[SIZE], b.5: f64[h.0] = comp i.6 in 0..h.0 {
    t.7: f64 = read x.1[i.6]
    t.8: f64 = exp(t.7)
    t.9: f64 = mul(t.8, t.8)
    yield t.9, t.8
  } to keep [SIZE] [i.6] FIRST, keep [h.0] [i.6] set
  c.10: f64[SIZE] = comp j.11 in 0..h.0 {
    t.12: f64 = read b.5[j.11]
    t.13: f64 = add(t.12, 1.0)
    yield t.13
  } to keep [SIZE] [PLACE] sum into a.4
  yield c.10
}
"""
GATES = """
import nn { sigmoid }

fn cell(z: f64[4 * h], c: f64[h]) -> (f64[h], f64[h]) {
  let next = sigmoid(z[..h]) * c + sigmoid(z[h..2 * h]) * tanh(z[2 * h..3 * h])
  (sigmoid(z[3 * h..]) * tanh(next), next)
}

fn f(w: f64[h, 4 * h], x: f64[t, 4 * h]) -> f64 {
  var state: (f64[h], f64[h]) = (zeros(h), zeros(h))
  for k < t { state = cell(x[k] + state.0 @ w, state.1) }
  sum(state.0)
}

fn g(w: f64[h, 4 * h], x: f64[t, 4 * h]) -> (f64[h, 4 * h], f64[t, 4 * h]) = grad(f, wrt = (w, x))(w, x)
"""


def two(place: str = "h.0 + j.11", size: str = "2*h.0", first: str = "sum") -> Program:
    return program(TWO.replace("PLACE", place).replace("SIZE", size).replace("FIRST", first))


def args(size: int) -> list[Any]:
    return [3, np.array([0.5, -1.0, 2.0]), np.arange(float(size))]


def compiled(p: Program, given: list[Any]) -> list[Any]:
    return list(Engine(Host()).compile(p, ["f"]).run("f", given))


def test_segments_that_are_all_of_an_array_are_set_in_one_pass() -> None:
    before = two()
    after = through(before, coalesce_writes, ownership)
    (comp,) = [let.op for let in walk(after.functions["f"].body) if isinstance(let.op, Comp)]
    assert [d.monoid for d in comp.destinations if isinstance(d, Reduce)] == ["set", "set"]
    assert count(after, Empty) == 1
    assert_same(run(before, args(6)), run(after, args(6)))
    assert_same(run(before, args(6)), compiled(after, args(6)), exact=False)
    assert cost(after, args(6)) <= cost(before, args(6)) - 6 - 3 * 3  # no fill; no factor written and read


def test_segments_that_leave_elements_out_are_added_to_zeros() -> None:
    before = two(size="3*h.0")
    after = through(before, coalesce_writes, ownership)
    assert count(after, Comp) == 1 and count(after, Empty) == 0
    assert_same(run(before, args(9)), run(after, args(9)))
    assert_same(run(before, args(9)), compiled(after, args(9)), exact=False)


def test_segments_of_an_array_that_is_handed_in_go_on_with_a_copy_of_it() -> None:
    before = two(first="sum into y.2")
    after = through(before, coalesce_writes, ownership)
    assert count(after, Comp) == 1
    for p in (run, compiled):
        assert_same(run(before, args(6)), p(after, args(6)), exact=False)


def test_what_is_added_to_the_same_segment_is_added_up_first() -> None:
    before = two(place="j.11")
    after = through(before, coalesce_writes, ownership)
    assert count(after, Comp) == 1
    assert all(d.after is None for d in destinations(after))
    assert_same(run(before, args(6)), compiled(after, args(6)), exact=False)


@pytest.mark.parametrize("place", ["j.11 + 1", "h.0 - 1 - j.11", "h.0 + j.11 - 1"])
def test_segments_that_overlap_stay_apart(place: str) -> None:
    before = two(place=place)
    assert count(coalesce_writes(before), Comp) == 2


@pytest.mark.parametrize("text", [
    TWO.replace("yield c.10", "yield a.4, c.10").replace("(z.3: f64[SIZE])", "(z.3: f64[SIZE], kept.14: f64[SIZE])"),
    "fn f(h.0: i64, x.1: f64[h.0], y.2: f64[SIZE]) -> (z.3: f64[SIZE], s.4: f64[SIZE]) {\n"
    + "".join([f"""
  {made}: f64[SIZE] = comp {i} in 0..h.0 {{
    {t}: f64 = read x.1[{i}]
    {u}: f64 = add({t}, {number})
    yield {u}
  }} to keep [SIZE] [{place}] {monoid}
""" for made, i, t, u, number, place, monoid in (
        ("a.5", "i.6", "t.7", "u.8", "1.0", "i.6", "set"),
        ("b.9", "j.10", "t.11", "u.12", "2.0", "h.0 + j.10", "sum into a.5"),
        ("c.13", "k.14", "t.15", "u.16", "3.0", "h.0 + k.14", "sum into a.5"))])
    + "  yield b.9, c.13\n}\n",
])  # fmt: skip
def test_what_something_else_uses_does_not_go_on(text: str) -> None:
    before = program(text.replace("SIZE", "2*h.0").replace("FIRST", "sum").replace("PLACE", "h.0 + j.11"))
    after = through(before, coalesce_writes, ownership)
    assert not any(d.after is not None for d in destinations(after))
    assert_same(run(before, args(6)), run(after, args(6)))
    assert_same(run(before, args(6)), compiled(after, args(6)), exact=False)


def test_two_stacks_with_one_first_row() -> None:
    module = dlang.compile("fn f(v: f64[n]) -> f64[n] = stack(v, 2.0 * v)[1] * stack(v, sin(v))[1]")
    v = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(module.f(v), 2.0 * v * np.sin(v))


def destinations(p: Program) -> list[Reduce]:
    ops = [let.op for f in p.functions.values() for let in walk(f.body)]
    return [d for op in ops if isinstance(op, Comp) for d in op.destinations if isinstance(d, Reduce)]


def test_the_cotangents_of_gates_are_made_in_one_pass() -> None:
    made = lowered(GATES, "g")
    after = optimise(made.program, [made.entry.name], verify=True)
    *_, backward = [let.op for let in after.functions[made.entry.name].body.lets if isinstance(let.op, For)]
    found = [let.op for let in walk(backward.body) if isinstance(let.op, Comp)]
    gates = [op for op in found if sum(isinstance(d, Reduce) and d.after is not None for d in op.destinations) == 3]
    assert len(gates) == 1
    assert not [op for op in found if not op.body.lets]  # nothing is filled


@pytest.mark.parametrize("h", [1, 3, 17])
def test_gradients_through_gates_are_those_of_the_reference(h: int) -> None:
    rng = np.random.default_rng(h)
    w, x = 0.4 * rng.normal(size=(h, 4 * h)), rng.normal(size=(5, 4 * h))
    made = lowered(GATES, "g")
    plain = Interpreter(optimise(made.program, [made.entry.name])).run(made.entry.name, [h, 5, w, x])
    found = dlang.compile(GATES).g(w, x)
    assert_same(found, plain[len(made.entry.extra) :], exact=False)
    step = 1e-6
    f = dlang.compile(GATES).f
    for k in range(4 * h):
        moved = np.zeros_like(x)
        moved[1, k] = step
        assert abs((f(w, x + moved) - f(w, x - moved)) / (2 * step) - found[1][1, k]) < 1e-7


def test_segments_are_written_and_read_as_text() -> None:
    after = coalesce_writes(two())
    assert " after 0" in print_program(after)
    verify(read_program(print_program(after)))
    with pytest.raises(IRError, match="goes on with that of no earlier one"):
        verify(read_program(print_program(after).replace(" after 0", " after 1")))


def test_columns_of_a_row_go_on_with_each_other_behind_other_segments() -> None:
    text = """
fn f(v: f64[3], x: f64) -> f64 {
  let w = if x > 0.0 {
    let (y, g) = value_and_grad(|u: f64[3]| {
      var m = [u[i] * f64(c) for i < 3, c < 2]
      m[.., 0] = sin(u)
      m[.., 1] += m[.., 0]
      sum(sum(m, axis = 1) * u)
    })(v)
    y * g
  } else { v }
  sum(w * w)
}
"""
    v = np.array([0.3, -0.8, 1.2])
    compiled, interpreted = dlang.compile(text).f, dlang.compile(text, backend="interp").f
    expected = meaning(dlang.grad(interpreted), v, 0.5)
    np.testing.assert_allclose(dlang.grad(compiled)(v, 0.5), expected, rtol=1e-12)
