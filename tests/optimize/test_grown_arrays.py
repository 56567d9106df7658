"""Arrays that grow by the same in each iteration are as long from the start: values, derivatives and costs."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir.accesses import unproven
from dlang.ir.anf import Concat, For, Program
from dlang.ir.traverse import reachable, walk
from dlang.pipeline import optimise
from tests.meaning import values_and_gradients_agree
from tests.specialize.support import lowered

PROGRAM = """
fn pushed(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = zeros(0)
  for v in c { y = concat(y, [sin(v) * x]) }
  weighed(y)
}
fn weighed(y: f64[n]) -> f64 = sum(y[i] * sin(1.0 + f64(i)) for i)

fn squares(c: f64[k]) -> f64[?] = if k == 0 { zeros(0) } else { concat([c[0] ** 2, c[k - 1]], squares(c[1..])) }
fn recursive(c: f64[k], x: f64) -> f64 = weighed(squares(c * x))

fn both_sides(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = [x, x * x]
  for i < k { y = concat([c[i]], y, [x * c[i], x, sin(c[i])]) }
  weighed(y)
}
fn rows(c: f64[k], x: f64) -> f64 {
  var y: f64[?, k] = [c * x]
  for i < 3 { y = concat(y, [sin(c), c * f64(i)]) }
  sum(weighed(row) * sin(f64(i)) for (i, row) in enumerate(y))
}
fn looked_at(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = [x, 1.0]
  for i < k { y = concat(y, [sin(y[len(y) - 1]) + y[len(y) - 2] * c[i]]) }
  weighed(y)
}
fn summed(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = [x]
  var s = 0.0
  for i < k {
    y = concat(y, [c[i]])
    s += sum(y) * c[i]
  }
  s + weighed(y)
}
fn two(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = zeros(0)
  var z: f64[?] = [x]
  for v in c { y = concat(y, [v * x]); z = concat([v + x], z) }
  weighed(y) * weighed(z)
}
fn nested(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = zeros(0)
  for i < k { for j < 3 { y = concat(y, [c[i] * f64(j) + x]) } }
  weighed(y)
}
fn none(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = [x]
  for i in 3..1 { y = concat(y, c) }
  weighed(y)
}

fn chosen(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = zeros(0)
  for v in c { if v > x { y = concat(y, [v * x]) } }
  weighed(y)
}
fn sides(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = [x, 1.0]
  for i < k { if c[i] > 0.0 { y = concat([c[i] * x, sin(y[len(y) - 1])], y) } }
  weighed(y)
}
fn until(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = zeros(0)
  for v in c {
    if v > 1.0 { break }
    if v < x { y = concat(y, [v * x]) } else if v < 0.5 { y = concat(y, [sum(y)]) }
  }
  weighed(y)
}
fn pairs(c: f64[k], x: f64) -> f64 {
  var y: f64[?, 2] = zeros(0, 2)
  for v in c { if v > 0.0 { y = concat(y, [[v, x * v]]) } }
  sum(weighed(row) * sin(f64(i)) for (i, row) in enumerate(y))
}
fn indexed(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = zeros(0)
  var at: i64[?] = [0]
  for i < k { if c[i] > x { y = concat(y, [c[i] * x]); at = concat([i, i // 2], at) } }
  weighed(y) + sum(c[i] * sin(x + f64(i)) for i in at if k > 0)
}
fn counted(c: f64[k], x: f64) -> f64 = weighed(rare(c, 2 * len(c) // 2, x))
fn rare(c: f64[k], m: i64, x: f64) -> f64[?] {
  var y: f64[?] = [x]
  for i < m { if i % 7 == 3 { y = concat(y, [x * f64(i)]) } }
  y
}
fn several(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = [x]
  for v in c { if v > x { y = concat(y, c) } }
  weighed(y)
}
fn doubled(c: f64[k], x: f64) -> f64 {
  var y: f64[?] = [x]
  for i < 3 { y = concat(y, y * 0.5) }
  weighed(y)
}
fn kept(c: f64[k], x: f64) -> f64[?] = if k == 0 { zeros(0) } else { rest_of(c, kept(c[1..], x), x) }
fn rest_of(c: f64[k], rest: f64[n], x: f64) -> f64[?] = if c[0] > x { concat([c[0] * x], rest) } else { rest }
fn filtered(c: f64[k], x: f64) -> f64 = weighed(kept(c, x))

fn grown(c: f64[k], x: f64) -> f64 = pushed(c, x) + recursive(c, x) + looked_at(c, x)
fn others(c: f64[k], x: f64) -> f64 = grown(c, x) + chosen(c, x) * sides(c, x) + until(c, x) + filtered(c, x)
fn second(c: f64[k], x: f64) -> f64[k] = grad(|a: f64[k]| others(a, x))(c)
fn curved(c: f64[k], x: f64) -> f64 = sum(second(c, x) ** 2)
"""
GROWN = ["pushed", "recursive", "both_sides", "rows", "looked_at", "summed", "two", "nested", "none"]
ROOMY = ["chosen", "filtered", "sides", "pairs", "indexed"]
OTHERS = ["several", "doubled", "until", "counted"]
COMPILED, MEANING = dlang.compile(PROGRAM), dlang.compile(PROGRAM, backend="interp")


def joins(name: str) -> int:
    """How many loops of the optimised program join arrays."""
    found = lowered(PROGRAM, name)
    program = reachable(optimise(found.program, [found.entry.name], verify=True), [found.entry.name])
    loops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, For)]
    return sum(isinstance(let.op, Concat) for op in loops for let in walk(op.body))


@pytest.mark.parametrize("name", [*GROWN, *ROOMY])
def test_an_array_that_grows_by_few_numbers_is_as_long_from_the_start(name: str) -> None:
    assert joins(name) == 0


@pytest.mark.parametrize("name", [*GROWN, *ROOMY])
def test_its_accesses_are_proven_after_each_pass(name: str) -> None:
    found = lowered(PROGRAM, name)
    seen: list[tuple[str, str]] = []

    def observe(after: str, program: Program) -> None:
        seen.extend((after, str(a.entry)) for f in program.functions.values() for a in unproven(f))

    optimise(found.program, [found.entry.name], observe=observe)
    assert seen == []


@pytest.mark.parametrize("name", [*GROWN, *ROOMY, *OTHERS, "curved"])
def test_values_and_gradients_stay(name: str) -> None:
    rng = np.random.default_rng(0)
    for k in (0, 1, 2, 3, 4, 5, 9):
        c, x = rng.normal(size=k), rng.normal()
        f, g = getattr(COMPILED, name), getattr(MEANING, name)
        values_and_gradients_agree(f, g, c, x, atol=1e-13)
        if name != "curved" and k:
            direction = rng.normal(size=k)
            (tangent,) = dlang.jvp(f, (c, x), (direction, 0.0))[1:]
            np.testing.assert_allclose(tangent, dlang.grad(f, wrt="c")(c, x) @ direction, rtol=1e-10, atol=1e-12)


def test_elements_are_written_once() -> None:
    n = 200_000
    assert np.isfinite(COMPILED.looked_at(np.full(n, 0.1), 0.5))
    assert np.isclose(COMPILED.pushed(np.zeros(n), 0.5), 0.0)
    assert np.isfinite(COMPILED.filtered(np.full(n, 0.1), 0.05))


def test_there_is_no_room_for_all_where_that_may_be_much_more_than_comes() -> None:
    assert all(joins(name) > 0 for name in OTHERS)
