"""Small arrays inside of comprehensions are their elements, and cost what structs cost."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dlang.codegen.loops import Allocate, Loop
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk as walk_loops
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.ir.anf import Comp, Empty, Program, Update
from dlang.ir.verify import verify
from dlang.optimize.unroll import unroll
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.optimize.programs import assert_same, cost, count, program, run
from tests.specialize.support import lowered

ROTATIONS = """
fn cross(a: f64[3], b: f64[3]) -> f64[3] =
  [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

fn rotated(r: f64[3], x: f64[3]) -> f64[3] {
  let angle = sqrt(sum(r * r))
  let axis = r / angle
  cos(angle) * x + sin(angle) * cross(axis, x) + (1.0 - cos(angle)) * (axis @ x) * axis
}

fn value(r: f64[n, 3], x: f64[n, 3]) -> f64 = sum([sum(rotated(r[i], x[i]) ** 2) for i])
fn gradient(r: f64[n, 3], x: f64[n, 3]) -> f64[n, 3] = grad(value)(r, x)
"""

STRUCTS = """
struct V { x: f64, y: f64, z: f64 }

fn cross(a: V, b: V) -> V = V(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)
fn dot(a: V, b: V) -> f64 = a.x * b.x + a.y * b.y + a.z * b.z

fn rotated(r: V, x: V) -> V {
  let angle = sqrt(dot(r, r))
  let axis = V(r.x / angle, r.y / angle, r.z / angle)
  let c = cross(axis, x)
  let along = (1.0 - cos(angle)) * dot(axis, x)
  V(
    cos(angle) * x.x + sin(angle) * c.x + along * axis.x,
    cos(angle) * x.y + sin(angle) * c.y + along * axis.y,
    cos(angle) * x.z + sin(angle) * c.z + along * axis.z,
  )
}

fn squares(v: V) -> f64 = v.x ** 2 + v.y ** 2 + v.z ** 2
fn of(x: f64[n, 3], i: Idx<n>) -> V = V(x[i, 0], x[i, 1], x[i, 2])
fn value(r: f64[n, 3], x: f64[n, 3]) -> f64 = sum([squares(rotated(of(r, i), of(x, i))) for i in 0..n])
fn gradient(r: f64[n, 3], x: f64[n, 3]) -> f64[n, 3] = grad(value)(r, x)
"""

PAIRS = "fn pairs(r: f64[n]) -> f64[n, 2] = [[a * 2.0, sin(a)] for a in r]"


@cache
def optimised(text: str, entry: str) -> Program:
    made = lowered(text, entry)
    return optimise(made.program, [made.entry.name], verify=True)


def entry(p: Program) -> str:
    (found,) = [f for f in p.functions if f.endswith("entry")]
    return found


def arguments(n: int) -> list[object]:
    rng = np.random.default_rng(3)
    return [n, rng.normal(size=(n, 3)), rng.normal(size=(n, 3))]


def test_vectors_of_three_numbers_cost_what_structs_of_three_cost() -> None:
    for name in ("value", "gradient"):
        arrays, structs = optimised(ROTATIONS, name), optimised(STRUCTS, name)
        assert cost(arrays, arguments(5), entry(arrays)) <= 1.1 * cost(structs, arguments(5), entry(structs))
        assert_same(run(arrays, arguments(5), entry(arrays)), run(structs, arguments(5), entry(structs)), exact=False)


@pytest.mark.parametrize(("text", "name"), [(ROTATIONS, "value"), (ROTATIONS, "gradient"), (PAIRS, "pairs")])
def test_a_loop_over_small_arrays_is_vectors_and_allocates_nothing(text: str, name: str) -> None:
    p = optimised(text, name)
    stmts = list(walk_loops(schedule(p, Lanes(512)).functions[entry(p)].body.stmts))
    loops = [s for s in stmts if isinstance(s, Loop)]
    assert all(loop.lanes > 1 for loop in loops), print_program(schedule(p, Lanes(512)))
    assert not any(isinstance(s, Allocate) and len(s.shape) > 1 for s in stmts)


@pytest.mark.parametrize("n", [0, 1, 3, 17])
def test_compiled_code_with_small_arrays_gives_what_the_interpreter_gives(n: int) -> None:
    p = optimised(ROTATIONS, "gradient")
    compiled = Engine(Host()).compile(p, [entry(p)])
    assert_same(compiled.run(entry(p), arguments(n)), run(p, arguments(n), entry(p)), exact=False)


TEXT = """
fn f(n.0: i64, x.1: f64[n.0, 3], k.2: i64) -> (r.3: f64[n.0], s.4: f64[n.0, 3]) {
  r.3: f64[n.0], s.4: f64[n.0, 3] = comp i.5 in 0..n.0 {
    a.6: f64[3], m.7: f64 = comp j.8 in 0..3 {
      t.9: f64 = read x.1[i.5, j.8]
      t.10: f64 = mul(t.9, t.9)
      yield t.10, t.9
    } to keep [3] [j.8] set, keep [] [] max
    b.11: f64[3] = comp j.12 in 0..3 {
      t.13: f64 = read a.6[2 - j.12]
      t.14: f64 = mul(t.13, m.7)
      yield t.14
    } to keep [3] [j.12] set
    t.15: f64 = read b.11[WHICH]
    yield t.15, b.11
  } to keep [n.0] [i.5] set, keep [n.0, 3] [i.5] set
  yield r.3, s.4
}
"""


def test_an_array_read_by_what_only_the_run_knows_stays_an_array() -> None:
    before = program(TEXT.replace("WHICH", "k.2"))
    after = unroll(before)
    verify(after)
    args = [2, np.arange(6.0).reshape(2, 3), 1]
    assert count(after, Comp) == 3  # `b` stays a comprehension, which reads `a` at more than one place
    assert_same(run(before, args), run(after, args))


def test_an_array_that_a_row_needs_is_put_together_from_its_elements() -> None:
    before = program(TEXT.replace("WHICH", "1"))
    after = unroll(before)
    verify(after)
    assert count(after, Comp) == 1 and count(after, Empty) == 1 and count(after, Update) == 3
    args = [2, np.arange(6.0).reshape(2, 3), 1]
    assert_same(run(before, args), run(after, args))


def test_long_axes_fill_vectors_of_their_own() -> None:
    before = program(TEXT.replace("WHICH", "1").replace("3]", "5]").replace("0..3", "0..5").replace("2 - j", "4 - j"))
    assert unroll(before) is before or count(unroll(before), Comp) == 3


EXTREMES = """
fn f(n.0: i64, x.1: DTYPE[n.0, 4]) -> (g.2: i64[n.0], l.3: i64[n.0]) {
  g.2: i64[n.0], l.3: i64[n.0] = comp i.4 in 0..n.0 {
    g.5: i64, l.6: i64 = comp j.7 in 0..4 {
      t.8: DTYPE = read x.1[i.4, j.7]
      yield t.8, t.8
    } to keep [] [] argmax, keep [] [] argmin
    yield g.5, l.6
  } to keep [n.0] [i.4] set, keep [n.0] [i.4] set
  yield g.2, l.3
}
"""


def test_the_position_of_an_extreme_is_that_of_the_first_one_or_of_a_nan() -> None:
    nan = np.nan
    floats = [[1, 3, 3, 2], [2, 1, 1, 2], [nan, 5, nan, 1], [1, nan, nan, 7], [-np.inf] * 4, [0.0, -0.0, 0.0, -0.0]]
    for dtype, rows in (("f64", np.array(floats)), ("i64", np.array(floats[:2], np.int64))):
        before = program(EXTREMES.replace("DTYPE", dtype))
        after = unroll(before)
        verify(after)
        assert count(after, Comp) == 1
        assert_same(run(before, [len(rows), rows]), run(after, [len(rows), rows]))
        assert_same(Engine(Host()).compile(after, ["f"]).run("f", [len(rows), rows]), run(before, [len(rows), rows]))


LOOP = """
fn f(n.0: i64, x.1: f64[n.0, 3]) -> (s.2: f64, a.3: f64[3]) {
  z.4: f64[3] = comp j.5 in 0..3 {
    yield 0.0
  } to keep [3] [j.5] set
  s.2: f64, a.3: f64[3] = for i.6 in 0..n.0 (s.7: f64 = 0.0, a.8: f64[3] = z.4) {
    b.9: f64[3] = comp j.10 in 0..3 {
      t.11: f64 = read x.1[i.6, j.10]
      t.12: f64 = mul(t.11, t.11)
      yield t.12
    } to keep [3] [j.10] set
    m.13: f64 = comp j.14 in 0..3 {
      t.15: f64 = read b.9[j.14]
      yield t.15
    } to keep [] [] max
    a.16: f64[3] = comp j.17 in 0..3 {
      t.18: f64 = read a.8[j.17]
      t.19: f64 = add(t.18, m.13)
      yield t.19
    } to keep [3] [j.17] set
    s.20: f64 = add(s.7, m.13)
    yield s.20, a.16
  }
  yield s.2, a.3
}
"""


def test_in_a_loop_small_arrays_are_their_elements_but_for_those_that_it_carries() -> None:
    before = program(LOOP)
    after = unroll(before)
    verify(after)
    assert count(after, Comp) == 2  # where the state begins, and where it goes on
    args = [3, np.random.default_rng(2).normal(size=(3, 3))]
    assert_same(run(before, args), run(after, args))


TOTALS = """
fn f(n.0: i64, x.1: f64[n.0, 3]) -> (s.2: f64[3]) {
  s.2: f64[3] = comp i.3 in 0..n.0 {
    a.4: f64[3] = comp j.5 in 0..3 {
      t.6: f64 = read x.1[i.3, j.5]
      t.7: f64 = mul(t.6, t.6)
      yield t.7
    } to keep [3] [j.5] set
    yield a.4
  } to keep [3] [] sum
  yield s.2
}
"""


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_sum_of_small_arrays_is_that_of_each_element(n: int) -> None:
    before = program(TOTALS)
    after = unroll(before)
    verify(after)
    (comp,) = [let.op for let in after.functions["f"].body.lets if isinstance(let.op, Comp)]
    assert [d.shape for d in comp.destinations] == [(), (), ()]
    assert not any(isinstance(let.op, Empty) for let in comp.body.lets)
    args = [n, np.random.default_rng(2).normal(size=(n, 3))]
    assert_same(run(before, args), run(after, args))
