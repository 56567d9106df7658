"""Updates of almost all of an array are comprehensions of all of it: they cost what these cost, and mean what they
meant."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.fuzz.spellings import different_costs
from tests.optimize.programs import assert_same, run
from tests.specialize.support import lowered

UPDATES = {
    "the inside of a row": "v[1..n - 1] += 0.2 * (v[..n - 2] - 2.0 * v[1..n - 1] + v[2..])",
    "through an array of differences": "let d = 0.5 * (v[1..] - v[..n - 1])\n    v[1..n - 1] += d[1..] - d[..n - 2]",
    "one way and back": "let d = 0.3 * (v[1..] - v[..n - 1])\n    v[..n - 1] += d\n    v[1..] -= d",
    "moved": "v[1..] = v[..n - 1]",
    "reversed": "v[1..] = reverse(v[1..]) * v[..n - 1]",
    "element by element": "let old = v\n    for i in 1..n - 1 { v[i] = old[i - 1] * old[i + 1] + old[i] }",
    "with values of a loop": "v[..n - 1] = v[..n - 1] * f64(t + 1)\n    v[0] = 0.5",
    "joined with its ends": "v = concat(v[..1], v[1..n - 1] * v[2..], v[n - 1..])",
}
TABLES = {
    "the inside of a table": "a[1..n - 1, 1..m - 1] += 0.1 * (a[..n - 2, 1..m - 1] + a[1..n - 1, 2..])",
    "rows, then columns": "a[1..] -= 0.5 * a[..n - 1]\n    a[.., ..m - 1] += sin(a[.., 1..])",
    "its transpose": "a[1.., ..m - 1] = a[..n - 1, 1..] * 0.5",
}
HEAD = "fn g(x: f64[n], y: f64[n, m]) -> f64 {\n  var v = x\n  var a = y\n"
LOOPS = {
    name: f"{HEAD}  for t < 3 {{\n    {update}\n  }}\n  sum(v ** 3) + sum(a ** 3)\n}}\n"
    for name, update in {**UPDATES, **TABLES}.items()
}
VALUE = "fn f(x: f64[n], y: f64[n, m]) -> f64 = g(x, y)\n"
SLOPE = "fn f(x: f64[n], y: f64[n, m]) -> f64 { let (p, q) = grad(g, wrt = (x, y))(x, y); sum(p * x) + sum(q * y) }\n"


def arguments(n: int, m: int) -> list[object]:
    random = np.random.default_rng(n)
    return [n, m, random.normal(size=n), random.normal(size=(n, m))]


@pytest.mark.parametrize("name", LOOPS)
def test_an_update_means_what_it_meant_and_no_array_is_updated_in_part(name: str) -> None:
    made = lowered(LOOPS[name] + VALUE, "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    n, m, x, y = arguments(7, 4)
    odd = [[n, m, np.where(np.arange(7) == 3, value, x), y] for value in (np.nan, np.inf)]
    for args in (arguments(2, 2), arguments(3, 4), arguments(19, 5), *odd):
        with np.errstate(all="ignore"):
            assert_same(run(made.program, args, made.entry.name), run(program, args, made.entry.name), exact=False)
    lets = [let for f in program.functions.values() for let in walk(f.body)]
    assert not any(isinstance(let.op, anf.Concat) for let in lets)
    entries = [e for let in lets if isinstance(let.op, anf.Comp) for d in let.op.destinations for e in d.index]
    assert all(entry.atom is not None for entry in entries)


@pytest.mark.parametrize("name", ["one way and back", "reversed", "joined with its ends", "rows, then columns"])
def test_derivatives_of_derivatives(name: str) -> None:
    four_ways(LOOPS[name] + SLOPE, arguments(4, 3), looser=300.0)


def test_empty_arrays() -> None:
    f = dlang.compile("fn f(x: f64[n + 1], y: f64[n]) -> f64[n + 1] { var z = x; z[1..] += 2.0 * y; z }").f
    np.testing.assert_array_equal(f(np.array([3.0]), np.zeros(0)), [3.0])
    np.testing.assert_array_equal(f(np.array([3.0, -0.0]), np.array([-0.0])), [3.0, -0.0])


def test_steps_of_a_simulation_cost_alike() -> None:
    assert (
        different_costs("""
fn s0(x: f64[n], w: f64[k]) -> f64 {
  var v = x
  for j < k { v[1..n - 1] += w[j] * (v[..n - 2] - 2.0 * v[1..n - 1] + v[2..]) }
  sum(v ** 2)
}
fn s1(x: f64[n], w: f64[k]) -> f64 {
  var v = x
  for j < k {
    let flux = w[j] * (v[1..] - v[..n - 1])
    v[1..n - 1] += flux[1..] - flux[..n - 2]
  }
  sum(v ** 2)
}
fn s2(x: f64[n], w: f64[k]) -> f64 {
  var v = x
  for j < k {
    let old = v
    for i in 1..n - 1 { v[i] += w[j] * (old[i - 1] - 2.0 * old[i] + old[i + 1]) }
  }
  sum(v ** 2)
}
fn s3(x: f64[n], w: f64[k]) -> f64 {
  var v = x
  for j < k { v = concat(v[..1], v[1..n - 1] + w[j] * (v[..n - 2] - 2.0 * v[1..n - 1] + v[2..]), v[n - 1..]) }
  sum(v ** 2)
}
""")
        is None
    )


def test_what_is_added_to_itself_is_no_total() -> None:
    text = """
        fn f(x: f64[n]) -> f64 {
          var y = x
          for t < 2 { y[..n - 2] -= x[1..n - 1]; y[0..n] += y[0..n] }
          sum(y * x) + sum(sin(x))
        }
        fn g(x: f64[n]) -> f64[n] = grad(f)(x)
    """
    made = lowered(text, "g")
    program = optimise(made.program, [made.entry.name], verify=True)
    x, y = np.linspace(0.5, 1.5, 5), np.eye(5)
    for _ in range(2):
        y[:3] -= np.eye(5)[1:4]
        y += y
    assert_same(run(program, [5, x], made.entry.name), [(y + y.T) @ x + np.cos(x)], exact=False)
