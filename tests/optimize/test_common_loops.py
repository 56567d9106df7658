"""Loops through the same state, one of which goes through more, are one loop in what is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.meaning import meaning
from tests.specialize.support import lowered

RNG = np.random.default_rng(3)
ROOT = "fn root(a: f64) -> f64 { var x = a; for i < 12 { x = x - (x * x - a) / (x + 1.0) }; x }\n"
# name: a program, and how many loops its gradient has
PROGRAMS = {
    "a root at each point": (ROOT + "fn f(x: f64[n]) -> f64 = sum([root(v) for v in x] ** 2)", 2),
    "two numbers": (
        """
fn last(u: f64, n: i64) -> f64 { var (p, v) = (u, 1.0); for i < n { v = v - 0.1 * sin(p); p = p + 0.1 * v }; p * v }
fn f(x: f64[n]) -> f64 = sum([last(u, n) for u in x] ** 2)
""",
        2,
    ),
    "loops that begin with other numbers": (
        """
fn last(u: f64, first: f64, n: i64) -> f64 { var y = first; for i < n { y = sin(y) + u }; y }
fn f(x: f64[n]) -> f64 = sum(last(u, u, n) * last(u, 2.0 * u, n) for u in x)
""",
        4,
    ),
}
GRADIENT = "\nfn main(x: f64[n]) -> f64[n] = grad(f)(x)"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_state_is_gone_through_once(name: str) -> None:
    text, count = PROGRAMS[name]
    made = lowered(text + GRADIENT, "main")
    program = optimise(made.program, [made.entry.name], verify=True)
    found = [let for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.For)]
    assert len(found) == count


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str) -> None:
    text, _ = PROGRAMS[name]
    for n in (0, 1, 17):
        x = RNG.uniform(0.5, 1.5, n)
        wanted = meaning(dlang.compile(text + GRADIENT, backend="interp").main, x)
        np.testing.assert_allclose(dlang.compile(text + GRADIENT).main(x), wanted, rtol=1e-9)
    four_ways(text, [3, RNG.uniform(0.5, 1.5, 3)])
