"""Lists that are made in order, and only walked, are arrays: which are, and that values, derivatives and refusals
stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Construct, Fields
from dlang.ir.traverse import reachable, recursive_functions, walk
from dlang.pipeline import optimise
from tests.meaning import as_written, values_and_gradients_agree
from tests.specialize.support import lowered

PROGRAM = """
enum Pairs { Pair(rest: Pairs, a: f64, b: f64, n: i64), End }

fn listed(c: f64[k]) -> List<f64> {
  var l = Nil
  for a in reverse(c) { l = Cons(a, l) }
  l
}
fn from(c: f64[k], i: i64) -> List<f64> = if i == k { Nil } else { Cons(sin(c[i]), from(c, i + 1)) }
fn rest_of(c: f64[k]) -> List<f64> = if k == 0 { Nil } else { Cons(c[0] * 2.0, rest_of(c[1..])) }

fn horner(l: List<f64>, x: f64) -> f64 = match l { Nil => 0.5, Cons(a, rest) => a + x * horner(rest, x) }
fn state(l: List<f64>, x: f64) -> f64 = match l { Cons(a, rest) => state(rest, sin(x) + a), Nil => x }
fn doubled(l: List<f64>) -> List<f64> = match l { Nil => Nil, Cons(a, rest) => Cons(a * 2.0 + 1.0, doubled(rest)) }
fn zipped(l: List<f64>, m: List<f64>) -> f64 = match l {
  Nil => 1.0,
  Cons(a, rest) => match m { Nil => 2.0, Cons(b, others) => a * b + zipped(others, rest) },
}

fn by_loop(c: f64[k], x: f64) -> f64 = horner(listed(c), x)
fn by_points(c: f64[k], x: f64) -> f64 {
  let l = listed(c)
  sum(horner(l, v) ** 2 for v in c * x)
}
fn by_recursion(c: f64[k], x: f64) -> f64 = state(from(c, 0), x) * horner(rest_of(c), x)
fn by_map(c: f64[k], x: f64) -> f64 = horner(doubled(doubled(listed(c))), x)
fn by_two(c: f64[k], x: f64) -> f64 = zipped(listed(c), from(c, 0)) * x
fn by_pairs(c: f64[k], x: f64) -> f64 {
  var l = End
  for i < k { l = Pair(l, c[i], x * c[i], i) }
  pairs(l)
}
fn pairs(l: Pairs) -> f64 = match l { End => 0.0, Pair(rest, a, b, n) => a * sin(b) * f64(n) + pairs(rest) }
fn by_walk(c: f64[k], x: f64) -> f64 {
  var (l, total) = (listed(c), x)
  while true { match l { Nil => { break }, Cons(a, rest) => { total = sin(total) + a; l = rest } } }
  total
}
fn by_search(c: f64[k], x: f64) -> f64 = found(listed(c), x)
fn found(l: List<f64>, x: f64) -> f64 = match l {
  Nil => x,
  Cons(a, rest) => if a > 1.0 { a * x } else { found(rest, x) },
}
fn in_a_loop(c: f64[k], x: f64) -> f64 {
  var s = x
  for i < 3 { s = horner(listed(c * s), 0.5) }
  s
}

fn held(c: f64[k], x: f64) -> f64 {
  let l = Cons(x, listed(c))
  horner(l, x)
}
fn given(c: f64[k], x: f64) -> f64 = match last(listed(c)) { Nil => x, Cons(a, _) => a * x }
fn last(l: List<f64>) -> List<f64> = match l { Nil => l, Cons(_, Nil) => l, Cons(_, rest) => last(rest) }
fn chosen(c: f64[k], x: f64) -> f64 {
  var l = Nil
  for a in c { if a > x { l = Cons(a, l) } }
  horner(l, x)
}
fn by_several(c: f64[k], x: f64) -> f64 {
  var l = Nil
  for (i, a) in enumerate(c) {
    l = Cons(a, Cons(a * x, l))
    if a < x { l = Cons(sin(a), l) } else if i > 2 { l = Cons(f64(i), Cons(0.5, l)) }
  }
  horner(doubled(l), x)
}
fn by_lists(c: f64[k], x: f64) -> f64 {
  var (l, m, n) = (Nil, Nil, Nil)
  for a in c {
    l = Cons(a, l)
    if a > x { m = Cons(a * x, m) } else { n = Cons(a, Cons(x, n)) }
  }
  horner(l, x) * zipped(m, l) + horner(n, 0.5)
}
fn until(c: f64[k], x: f64) -> f64 {
  var l = Nil
  for a in c { if a > 0.5 { break }; l = Cons(a, l) }
  horner(l, x)
}
fn counted(c: f64[k], x: f64) -> f64 = rare(2 * k // 2, x)
fn rare(m: i64, x: f64) -> f64 {
  var l = Nil
  for i < m { if i % 7 == 3 { l = Cons(f64(i), l) } }
  horner(l, x)
}
fn many(c: f64[k], x: f64) -> f64 {
  var l = Nil
  for a in c { l = Cons(a, Cons(x, Cons(a, Cons(x, Cons(1.0, l))))) }
  horner(l, x)
}
fn shared(c: f64[k], x: f64) -> f64 {
  var l = Nil
  for a in c {
    let longer = Cons(a, l)
    l = if a > x { longer } else { l }
  }
  horner(l, x)
}
fn compared(c: f64[k], x: f64) -> f64 = if listed(c) == Nil { x } else { x * x }

fn filtered(c: f64[k], x: f64) -> f64 = chosen(c, x) * by_several(c, x)
fn second(c: f64[k], x: f64) -> f64[k] = grad(|a: f64[k]| by_points(a, x) + by_recursion(a, x) + filtered(a, x))(c)
fn curved(c: f64[k], x: f64) -> f64 = sum(second(c, x) ** 2)
"""
ARRAYS = ["by_loop", "by_points", "by_recursion", "by_map", "by_two", "by_pairs", "by_walk", "by_search", "in_a_loop"]
ROOMY = ["chosen", "by_several", "by_lists"]
LISTS = ["held", "given", "many", "shared", "until", "counted"]
COMPILED, MEANING = dlang.compile(PROGRAM), dlang.compile(PROGRAM, backend="interp")


def nodes(name: str) -> int:
    """How often the optimised program makes a node or looks into one."""
    found = lowered(PROGRAM, name)
    program = reachable(optimise(found.program, [found.entry.name], verify=True), [found.entry.name])
    return sum(isinstance(let.op, Construct | Fields) for f in program.functions.values() for let in walk(f.body))


@pytest.mark.parametrize("name", [*ARRAYS, *ROOMY])
def test_a_list_that_is_only_walked_is_an_array(name: str) -> None:
    assert nodes(name) == 0


@pytest.mark.parametrize("name", LISTS)
def test_another_list_stays(name: str) -> None:
    assert nodes(name) > 0


@pytest.mark.parametrize(
    "name", ["by_loop", "by_points", "by_recursion", "by_map", "by_pairs", "in_a_loop", *ROOMY[:2]]
)
def test_recursion_over_it_is_a_loop(name: str) -> None:
    found = lowered(PROGRAM, name)
    program = optimise(found.program, [found.entry.name])
    assert not recursive_functions(reachable(program, [found.entry.name]))


@pytest.mark.parametrize("name", [*ARRAYS, *ROOMY, *LISTS, "compared", "curved"])
def test_values_and_gradients_stay(name: str) -> None:
    rng = np.random.default_rng(0)
    for k in (0, 1, 2, 3, 4, 5, 9):
        c, x = rng.normal(size=k), rng.normal()
        f, g = getattr(COMPILED, name), getattr(MEANING, name)
        values_and_gradients_agree(f, g, c, x)
        if name != "curved" and k:
            direction = rng.normal(size=k)
            (tangent,) = dlang.jvp(f, (c, x), (direction, 0.0))[1:]
            np.testing.assert_allclose(tangent, dlang.grad(f, wrt="c")(c, x) @ direction, rtol=1e-10, atol=1e-12)


CHECKED = """
fn listed(c: f64[k]) -> List<i64> {
  var l = Nil
  for a in reverse(c) { l = Cons(i64(a), l) }
  l
}
fn looked_up(l: List<i64>, x: f64[n]) -> f64 = match l { Nil => 0.0, Cons(i, rest) => x[i] + looked_up(rest, x) }
fn main(c: f64[k], x: f64[n]) -> f64 = looked_up(listed(c), x)
"""


def refusal(f: Any, *args: Any) -> str:
    with pytest.raises(dlang.DlangError) as failure:
        f(*args)
    return str(failure.value).split("\n  |\n")[0]


def test_what_a_walk_checks_is_checked_where_it_stands() -> None:
    x = np.arange(3.0)
    compiled, meaning = (dlang.compile(CHECKED, backend=backend).main for backend in ("cpu", "interp"))
    assert compiled(np.array([0.0, 2.0, 1.0]), x) == 3.0
    found = refusal(compiled, np.array([7.0, 8.0, 0.0, 9.0]), x)
    with as_written():
        assert refusal(meaning, np.array([7.0, 8.0, 0.0, 9.0]), x) == found
    assert "[E0801]" in found and "<text>:7:" in found


ENDING = """
fn asserted(m: i64, x: f64) -> f64 {
  var y: f64[?] = zeros(0)
  for i < m { y = concat(y, [x]); assert i < 10, "no more {i}" }
  sum(y)
}
fn indexed(m: i64, c: f64[k], x: f64) -> f64 {
  var l = Nil
  for i < m { l = Cons(x + c[i], l) }
  total(l)
}
fn total(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(a, rest) => a + total(rest) }
"""


def test_there_is_no_room_for_iterations_that_a_check_may_prevent() -> None:
    module = dlang.compile(ENDING)
    assert "[E0800]" in refusal(module.asserted, 2 * 10**10, 0.5)
    assert "[E0801]" in refusal(module.indexed, 2 * 10**10, np.ones(2), 0.5)
    assert module.asserted(5, 0.5) == 2.5 and module.indexed(2, np.ones(2), 0.5) == 3.0


def test_a_walk_needs_no_stack() -> None:
    assert np.isclose(COMPILED.by_loop(np.ones(1_000_000), 0.5), 2.0)
    np.testing.assert_allclose(dlang.grad(COMPILED.by_loop, wrt="c")(np.ones(500_000), 0.5)[:3], [1.0, 0.5, 0.25])


DOUBLE = """
enum Numbers { None, Some(f64, Numbers) }

fn total(l: Numbers) -> f64 = match l { None => 0.0, Some(a, rest) => a + total(rest) }

fn f(x: f64, n: i64) -> f64 {
  var l = None
  for i < n { l = Some(x, Some(2.0, l)) }
  total(l)
}
"""


@pytest.mark.parametrize("n", [2, 0, -1, -(2**62), -(2**63)])
def test_there_is_room_for_no_cell_where_there_is_no_iteration(n: int) -> None:
    assert dlang.compile(DOUBLE).f(0.5, n) == max(n, 0) * 2.5
