"""Adding to places that data say: lanes compute the terms, and add them one after another in the order of
iterations."""

from __future__ import annotations

import io

import numpy as np
import pytest

from dlang.codegen.loops import Compute, Loop
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.runtime.engine import Engine
from tests.optimize.programs import program

ADDED = """
fn f(n.0: i64, m.1: i64, x.2: DTYPE[n.0], k.3: i64[n.0]) -> (a.4: DTYPE[m.1]) {
  a.5: DTYPE[m.1] = comp i.6 in 0..n.0 {
    x.7: DTYPE = read x.2[i.6]
    k.8: i64 = read k.3[i.6]
    CODE
    yield y.9
  } to add [m.1] [k.8]
  yield a.5
}
"""
HEAVY = "t.10: DTYPE = exp(x.7)\n    y.9: DTYPE = sin(t.10)"
LIGHT = "y.9: DTYPE = mul(x.7, x.7)"
DEAR = "t.10: DTYPE = mul(x.7, 3)\n    t.11: DTYPE = floordiv(t.10, 7)\n    t.12: DTYPE = floordiv(t.11, 5)\n"
DEAR += "    y.9: DTYPE = floordiv(t.12, 3)"


def text(code: str, dtype: str = "f64") -> str:
    return ADDED.replace("CODE", code).replace("DTYPE", dtype)


def lanes(code: str) -> int:
    nests = schedule(program(text(code)), Lanes(512))
    loops = [s for s in walk(nests.functions["f"].body.stmts) if isinstance(s, Loop)]
    (loop,) = [loop for loop in loops if any(isinstance(s, Compute) for s in loop.stmts)]
    return loop.lanes


def test_terms_that_take_long_are_computed_in_lanes_and_others_are_not() -> None:
    assert lanes(HEAVY) >= 8
    assert lanes(LIGHT) == 1


@pytest.mark.parametrize(("code", "dtype"), [(HEAVY, "f64"), (HEAVY, "f32"), (DEAR, "i64")])
@pytest.mark.parametrize("sanitize", [False, True])
def test_places_that_are_the_same_get_all_terms_in_order(code: str, dtype: str, sanitize: bool) -> None:
    p = program(text(code, dtype))
    rng = np.random.default_rng(0)
    compiled = Engine(Host(io.StringIO()), sanitize=sanitize).compile(p, ["f"])
    for n in (0, 1, 3, 7, 8, 9, 31, 64, 100):
        x = (rng.uniform(size=n) * 100 - 50).astype({"f64": "f8", "f32": "f4", "i64": "i8"}[dtype])
        if dtype[0] == "f":
            x = (x / 50).astype(x.dtype)
        for m in (1, 2, 50):
            args = [n, m, x, rng.integers(0, m, n)]
            (found,), (wanted,) = compiled.run("f", args), Interpreter(p).run("f", args)
            np.testing.assert_allclose(found, wanted, rtol=1e-13 if dtype == "f64" else 2e-5)
