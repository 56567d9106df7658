"""Small arrays inside of comprehensions are their elements, and cost what structs cost."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dlang
from dlang.codegen.loops import Allocate, Loop
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk as walk_loops
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.ir.anf import Array, Comp, Empty, For, Program, Update, While
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.optimize.unroll import unroll
from dlang.optimize.write_out import places
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


def test_in_a_loop_small_arrays_are_their_elements() -> None:
    before = program(LOOP)
    after = unroll(before)
    verify(after)
    assert count(after, Comp) == 1  # where the state begins
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


BOUNCES = """
fn value(x0: f64[3], v0: f64[3], n: i64, h: f64) -> f64 {
  var x = x0
  var v = v0
  for t < n {
    x += h * v
    if x[1] < 0.0 {
      v[1] = -0.8 * v[1]
      x[1] = 0.0
    } else if x[0] > 1.0 { v = -0.5 * v }
    v[1] -= 9.81 * h
  }
  sum(x * x) + v[0]
}
fn gradient(x0: f64[3], v0: f64[3], n: i64, h: f64) -> (f64[3], f64[3]) = grad(value, wrt = (x0, v0))(x0, v0, n, h)
"""
SPIRAL = """
fn value(x0: f64[2], n: i64) -> (f64[2], i64) {
  var (x, y, t) = (x0, [0.0, 1.0], 0)
  while sum(x * x) > 0.01 and t < n {
    let z = x
    x = [x[0] * 0.9 - 0.1 * y[1], x[1] * 0.9 + 0.1 * x[0]]
    y = 0.5 * z
    t += 1
  }
  (x - y, t)
}
"""
TORQUE = """
fn value(r: f64[n, 3], f: f64[n, 3]) -> f64[3] {
  var total = zeros(3)
  for k < n {
    let t = [r[k, 1] * f[k, 2] - r[k, 2] * f[k, 1], r[k, 2] * f[k, 0] - r[k, 0] * f[k, 2], r[k, 0] * f[k, 1]]
    total += t
  }
  total
}
"""


def carried(p: Program) -> list[int]:
    """How many numbers each loop carries; none may carry a small array."""
    ops = [let.op for f in p.functions.values() for let in walk(f.body) if isinstance(let.op, For | While)]
    assert not any(isinstance(v.type, Array) and len(places(v.type)) for op in ops for v in op.params)
    return [len(op.params) for op in ops]


@pytest.mark.parametrize(
    ("text", "expected", "given"),
    [
        (BOUNCES, [6], [np.array([0.93, 0.23, 0.1]), np.array([0.8, -0.5, 0.3]), 40, 0.05]),
        (SPIRAL, [5], [np.array([1.0, 0.5]), 30]),
        (TORQUE, [], arguments(7)),
    ],
)
def test_loops_carry_small_arrays_as_numbers(text: str, expected: list[int], given: list[object]) -> None:
    made = lowered(text, "value")
    after = optimise(made.program, [made.entry.name], verify=True)
    assert carried(after) == expected
    name = made.entry.name
    assert_same(run(made.program, given, name), run(after, given, name), exact=text is not TORQUE)


def test_gradients_of_loops_carry_small_arrays_as_numbers() -> None:
    assert max(carried(optimised(BOUNCES, "gradient"))) > 6
    given = [np.array([0.93, 0.23, 0.1]), np.array([0.8, -0.5, 0.3])]
    module = dlang.compile(BOUNCES)
    bars = module.gradient(*given, 40, 0.05)
    for k in range(2):
        for j in range(3):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [x.copy() for x in given]
                moved[k][j] += step
                ends.append(module.value(*moved, 40, 0.05))
            assert bars[k][j] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


INDEXED = """
fn value(k: Idx<4>[n], x: f64[n]) -> f64[4] {
  var h = zeros(4)
  for i < n {
    h[k[i]] += x[i]
    h[0] += 1.0
    if x[i] > 0.5 { h = 0.5 * h }
  }
  h
}
"""


def test_a_loop_carries_as_an_array_what_it_reads_at_any_place() -> None:
    after = optimised(INDEXED, "value")
    assert any(
        isinstance(v.type, Array)
        for f in after.functions.values()
        for let in walk(f.body)
        if isinstance(let.op, For)
        for v in let.op.params
    )


def test_the_end_of_a_loop_that_changes_one_element_has_the_others_of_its_begin() -> None:
    text = "fn value(x: f64[n], a: f64[3]) -> f64[3] { var a = a; for i < n { a[1] = a[1] * x[i] + 1.0 }; a }"
    assert carried(optimised(text, "value")) == [1]


@pytest.mark.parametrize(
    "body",
    [
        # a loop and a branch that give small arrays of which not all elements are read, beside a longer axis
        "{ var s = [0.0, 1.0]\n for k < n { s = [s[0] + x[k, 0], s[1] * x[k, 1]] }\n sum(x[i, 0] * s[0] for i) }",
        "{ let s = if x[0, 0] > 0.0 { [x[0, 0], x[1, 1]] } else { [1.0, 2.0] }\n sum(x[i, 1] * s[1] for i) }",
        # arrays of texts are no numbers
        '{ var s = ["a", "b"]\n for k < n { s[0] = if x[k, 0] > 0.0 { s[1] } else { "c" } }\n f64(len(s)) * x[0, 0] }',
    ],
)
def test_arrays_of_which_some_elements_are_read_mean_the_same(body: str) -> None:
    module = dlang.compile(f"fn f(x: f64[n, 2]) -> f64 = {body}\nfn g(x: f64[n, 2]) -> f64[n, 2] = grad(f)(x)")
    x = np.array([[0.5, 1.5], [-2.0, 0.25], [1.0, 3.0]])
    value, slope, step = module.f(x), module.g(x), 1e-6
    for at in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[at] += step
        below[at] -= step
        assert abs((module.f(above) - module.f(below)) / (2 * step) - slope[at]) < 1e-6 * max(1.0, abs(value))


FORCES = """
fn forces(x: f64[n, 3]) -> f64[n, 3] = [
  sum(if i == j { 0.0 } else {
    let r2 = sum((x[i, a] - x[j, a]) ** 2 for a) + 0.01
    (x[j, c] - x[i, c]) / (r2 * sqrt(r2))
  } for j < n)
  for i < n, c < 3
]
fn moved(x: f64[n, 3], steps: i64) -> f64[n, 3] {
  var y = x
  for s < steps { y = y + 0.1 * forces(y) }
  y
}
"""


def test_branches_of_few_points_are_scalar_code_of_a_longer_loop() -> None:
    made = lowered(FORCES, "moved")
    scheduled = schedule(optimise(made.program, [made.entry.name], verify=True), Lanes(512))
    stmts = list(walk_loops(scheduled.functions[made.entry.name].body.stmts))
    sums = [s for s in stmts if isinstance(s, Loop) and s.reductions]
    assert [(loop.lanes, len(loop.reductions)) for loop in sums] == [(8, 3)]
    x = np.random.default_rng(0).normal(size=(11, 3))
    compiled, meaning = dlang.compile(FORCES), dlang.compile(FORCES, backend="interp")
    np.testing.assert_allclose(compiled.moved(x, 4), meaning.moved(x, 4), rtol=1e-12)
