"""What is made once in front of a loop is what each iteration needs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dlang
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.pipeline import optimise
from tests.specialize.support import lowered

ONE_ARRAY_TWO_WAYS = """
fn forth_and_back(x: f64[m, n], w: f64[n, k]) -> f64[m, n] {
  var y = x
  for _ < 3 { y = tanh(0.3 * (y @ w @ transpose(w))) }
  y
}

fn in_groups(x: f64[m, n], w: f64[n, k, k]) -> f64[m, n] {
  var y = x
  for _ < 3 {
    let z = [sum(y[i, j] * w[j, a, b] for j) for i, a, b]
    y = tanh(0.3 * [sum(z[i, a, b] * w[j, a, b] for a, b) for i < m, j < n])
  }
  y
}

fn around(x: f64[m, n], w: f64[n, n]) -> f64[m, n] {
  var y = x
  for _ < 2 {
    for _ < 2 { y = tanh(y @ w) }
    y = 0.5 * (y @ transpose(w))
  }
  y
}

fn slope(x: f64[m, n], w: f64[n, k]) -> (f64[m, n], f64[n, k]) =
  grad(|x: f64[m, n], w: f64[n, k]| sum(forth_and_back(x, w)), wrt = (x, w))(x, w)
"""


@pytest.mark.parametrize(
    ("name", "shape"), [("forth_and_back", (5, 3)), ("in_groups", (5, 2, 2)), ("around", (5, 5)), ("slope", (5, 3))]
)
@pytest.mark.parametrize("rows", [1, 4, 70])
def test_an_array_may_be_several_matrices_in_one_loop(name: str, shape: tuple[int, ...], rows: int) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(rows, 5)), rng.normal(size=shape)
    found, expected = (getattr(dlang.compile(ONE_ARRAY_TWO_WAYS, backend=b), name)(x, w) for b in ("cpu", "interp"))
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    assert all(np.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in pairs)


def test_a_matrix_and_its_transpose_are_packed_in_front_of_a_loop_each_once() -> None:
    made = lowered(ONE_ARRAY_TWO_WAYS, "forth_and_back")
    program = optimise(made.program, [made.entry.name], verify=True)
    text = print_program(schedule(program, Lanes(512)))
    before, inside = re.split(r"\n  (?:.* = )?for ", text, maxsplit=1)
    assert before.count(" pack ") == 2
    assert before.count("ᵀ") == 1
    assert " pack " not in inside
