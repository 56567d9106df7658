"""Vectors of three or four numbers at many points: however they are written, all points are done at once."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

PROGRAM = """
import linalg
import ode

fn slope(s: f64[3], a: f64) -> f64[3] = [a * (s[1] - s[0]), s[0] * (1.5 - s[2]) - s[1], s[0] * s[1] - a * s[2]]
fn step(s: f64[3], a: f64) -> f64[3] {
  let k1 = slope(s, a)
  let k2 = slope(s + 0.05 * k1, a)
  s + 0.05 * (k1 + k2)
}
fn run(start: f64[3], a: f64) -> f64[3] {
  var s = start
  for t < 5 { s = step(s, a) }
  s
}
fn by_helper(x: f64[n, 3], a: f64) -> f64 = mean([run(p, a) for p in x] ** 2)
fn by_steps(x: f64[n, 3], a: f64) -> f64 {
  var all = x
  for t < 5 { all = [step(s, a) for s in all] }
  mean(all ** 2)
}
fn by_library(x: f64[n, 3], a: f64) -> f64 {
  let end = |p: f64[3]| ode.rk4(|t, s| slope(s, a), p, 0.0, 0.2, 4)
  mean([end(p) for p in x] ** 2)
}
fn turned(q: f64[4], p: f64[3]) -> f64[3] {
  let v = q[1..4]
  let t = 2.0 / (q @ q) * linalg.cross(v, p)
  p + q[0] * t + linalg.cross(v, t)
}
fn by_cross_products(x: f64[n, 3], a: f64) -> f64 = sum(([turned([a, 0.1, a * a, 0.3], p) for p in x] - 0.5) ** 2)
fn product(p: f64[4], q: f64[4]) -> f64[4] = [
  p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3], p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
  p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1], p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0]
]
fn by_joined_arrays(x: f64[n, 3], a: f64) -> f64 {
  let turn = [a, 0.1, a * a, 0.3]
  let back = turn * [1.0, -1.0, -1.0, -1.0]
  var total = 0.0
  for i < n {
    let moved = product(product(turn, concat([0.0], x[i])), back)
    for k < 3 { total += (moved[k + 1] - x[i, k]) ** 2 }
  }
  total
}
fn by_neighbours(x: f64[n, 3], a: f64) -> f64 {
  let moved = [a * x[i, k] + sin(a) * x[i, (k + 1) % 3] * x[i, (k + 2) % 3] for i < n, k < 3]
  sum((moved[i, k] - 0.5) ** 2 for i, k)
}
fn by_parts_of_rows(x: f64[n, 3], a: f64) -> f64 {
  var y: f64[n, 3] = zeros(n, 3)
  for i < n {
    let s = step(x[i], a)
    y[i, 0] = s[0]
    y[i, 1..3] = [s[k + 1] * a for k < 2]
  }
  sum(y ** 2)
}
fn by_sums(x: f64[n, 3], a: f64) -> f64 {
  var y = 0.5 * x
  for i < n {
    let s = step(x[i], a)
    y[i] += s
  }
  sum(y ** 2)
}
"""
NAMES = [
    "by_helper", "by_steps", "by_library", "by_cross_products", "by_joined_arrays", "by_neighbours",
    "by_parts_of_rows", "by_sums",
]  # fmt: skip
RNG = np.random.default_rng(11)


def optimised(name: str, entry: str) -> anf.Program:
    derivative = f"fn gradient(x: f64[n, 3], a: f64) = grad({name})(x, a)"
    made = lowered(PROGRAM + derivative, entry)
    return optimise(made.program, [made.entry.name], verify=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("derivative", [False, True])
def test_all_points_are_done_at_once(name: str, derivative: bool) -> None:
    program = optimised(name, "gradient" if derivative else name)
    (function,) = program.functions.values()
    outer = [let for let in function.body.lets if isinstance(let.op, anf.For) and let.op.high.constant is None]
    assert not outer
    points = [let.op for let in function.body.lets if isinstance(let.op, anf.Comp) and let.op.axes]
    small = [v for op in points for let in walk(op.body) for v in let.vars if isinstance(v.type, anf.Array)]
    assert all(v.name.startswith(("start_tape", "t_tape", "s_tape", "state_tape", "x_tape")) for v in small), small


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [0, 1, 19])
def test_the_result_is_that_of_the_program_as_it_was(name: str, n: int) -> None:
    same_in_the_end(PROGRAM, name, [n, RNG.normal(size=(n, 3)), 0.7])


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name: str) -> None:
    text = PROGRAM + f"fn f(x: f64[n, 3], a: f64) -> f64 = {name}(x, a)"
    four_ways(text, [4, RNG.normal(size=(4, 3)), 0.7])
