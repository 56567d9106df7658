"""Gradients of loops at many points are loops at each point, with arrays of one point, in lanes.

Compared with the meaning, with other modes and differences, at sizes around those of vectors, and with what loops keep
of all points.
"""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.codegen import loops
from dlang.codegen.llvm.objects import this_processor
from dlang.codegen.traverse import walk as walk_loops
from dlang.dump_ir import nests_of
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.meaning import meaning
from tests.specialize.support import lowered

RNG = np.random.default_rng(7)
HEAD = "fn f(c: f64[k], x: f64[n], z: f64[n, k], p: f64) -> f64 "

# name: a function of numbers that all points share, numbers of a point, its row of a table, and a number
AT_POINTS = {
    "a polynomial": "= sum({ var y = 0.0; for j < k { y = y * x[i] + c[j] }; y ** 2 } for i < n)",
    "a row of a table": (
        "= mean({ var (s, t) = (1.0, 0.0); for j < k { s = s * exp(0.1 * z[i, j]); t += s }; maximum(t - p, 0.0) }"
        " for i < n)"
    ),
    "a loop behind a loop": (
        "= sum({ var y = x[i]; for j < k { y = y * c[j] + 1.0 }; var w = y\n"
        " for j < k { w = 0.5 * w * y + z[i, j] }; w } for i < n)"
    ),
    "a loop in a loop": "= sum({ var y = x[i]; for j < k { for l < 2 { y = 0.5 * y * c[j] + p } }; y } for i < n)",
    "branches": (
        "= sum({ var y = x[i]\n for j < k { if y > 0.2 { y = y * c[j] } else { y = y + c[k - 1 - j] ** 2 } }; y }"
        " for i < n)"
    ),
    "loops around arrays": (
        "{ var (y, v) = (x, zeros(n)); for j < k { v = v - p * sin(y); y = y + c[j] * v }; sum(y ** 2 + v ** 2) }"
    ),
    "a state that is the one before": (
        "{ var (y, w) = (x, 0.9 * x); for j < k { (y, w) = ([2.0 * y[i] - w[i] - p * sin(y[i]) for i < n], y) }\n"
        " sum(y ** 2) + sum(w) }"
    ),
    "an element fewer than iterations": (
        "= sum({ var y = c[k - 1]; for j in 1..k { y = y * x[i] + c[k - 1 - j] }; y ** 2 } for i < n)"
    ),
    "values of all points": (
        "{ let y = [{ var y = x[i]; for j < k { y = y * z[i, j] + c[j] }; y } for i < n]; sum(y * y) }"
    ),
    "sums of one loop behind those of another": (
        "{ let y = [{ var y = x[i]; for j < k { y = y * c[j] + 1.0 }; y } for i < n]\n"
        " let z = [{ var w = y[i]; for j < k { w = w * c[j] + p }; w } for i < n]; sum(z ** 2) + sum(c ** 3) }"
    ),
}
# name: a function of which the points have rows
ROWS = {
    "what a row has": (
        "{ var h = zeros(n, k); for t < 4 { h = [c[j] * h[i, j] + z[i, j] * p for i < n, j < k] }; sum(h ** 2) }"
    ),
    "neighbours in a row": (
        "{ var u = z; for t < 4 { u = [u[i, j] + p * (u[i, (j + 1) % k] - u[i, j]) for i < n, j < k] }; sum(u ** 2) }"
    ),
    "sums of a row": (
        "{ var u = z; var s = x; for t < 4 { s = [sum(sin(u[i, j]) for j < k) for i < n]\n"
        " u = [tanh(u[i, j] + s[i]) for i < n, j < k] }; sum(u ** 2) + sum(s) }"
    ),
}
# what an iteration needs of all points, or what has another form
AROUND_POINTS = {
    "a sum over the points": (
        "{ var y = x; for j < k { let m = mean(y); y = [y[i] * c[j] + m * z[i, j] for i < n] }; sum(y ** 2) }"
    ),
    "neighbours": "{ var y = x; for j < k { y = [y[i] * c[j] + 0.1 * y[(i + 1) % n] for i < n] }; sum(y ** 2) }",
    "all values before the way back": (
        "{ let y = [{ var y = x[i]; for j < k { y = y * z[i, j] + c[j] }; y } for i < n]; sum(y) ** 2 }"
    ),
    "arrays of another size that take turns": (
        "{ var (y, r, s) = (x, c, 2.0 * c); for j < k { y = [y[i] * 0.5 + p for i < n]; (r, s) = (s, r) }\n"
        " sum(y ** 2) + sum(r * c) }"
    ),
    "sums in more places than a point adds to": (
        "{ var (u, a) = (z, zeros(k, k)); for t < 4 { u = [sin(u[i, j]) + p for i < n, j < k]\n"
        " for i < n { for j < k { a[j, j] += u[i, j] } } }; sum(a ** 2) + sum(u ** 2) + sum(c) }"
    ),
    "other elements than iterations": (
        "= sum({ var y = x[i]; for j < k { y = y * sin(c[(j * j + 1) % k]) + p }; y } for i < n)"
    ),
}
GRADIENT = """
fn main(c: f64[k], x: f64[n], z: f64[n, k], p: f64) -> (f64[k], f64[n], f64[n, k], f64) =
  grad(f, wrt = (c, x, z, p))(c, x, z, p)
"""


def text(name: str) -> str:
    return HEAD + {**AT_POINTS, **ROWS, **AROUND_POINTS}[name]


def arguments(k: int, n: int) -> list[object]:
    return [RNG.uniform(0.2, 0.9, k), RNG.uniform(-0.9, 0.9, n), RNG.uniform(-0.9, 0.9, (n, k)), 0.3]


def optimised(text: str) -> anf.Program:
    made = lowered(text, "main")
    return optimise(made.program, [made.entry.name], verify=True)


def arrays_of_points(program: anf.Program) -> list[anf.Var]:
    """The arrays that loops carry and that have an element for each point."""
    (entry,) = [f for f in program.functions.values() if f.label == "main"]
    n = anf.poly(entry.params[1])
    every = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.For)]
    return [p for loop in every for p in loop.params if isinstance(p.type, anf.Array) and n in p.type.shape]


@pytest.mark.parametrize("name", [*AT_POINTS, *ROWS, *AROUND_POINTS])
def test_loops_carry_what_one_point_has(name: str) -> None:
    program = optimised(text(name) + GRADIENT)
    assert bool(arrays_of_points(program)) == (
        name in ("a sum over the points", "neighbours", *list(AROUND_POINTS)[2:5])
    )


@pytest.mark.parametrize("name", AT_POINTS)
def test_points_go_in_lanes(name: str) -> None:
    program = dlang.compile(text(name) + GRADIENT)
    made = lowered(text(name) + GRADIENT, "main")
    nests = nests_of(optimise(made.program, [made.entry.name]), [made.entry.name])
    around = [
        s
        for f in nests.functions.values()
        for s in walk_loops(f.body.stmts)
        if isinstance(s, loops.Loop) and any(isinstance(i, loops.For) for i in walk_loops(s.stmts))
    ]
    least = 0 if name == "branches" and this_processor().bits < 256 else 1  # two lanes are not worth both arms
    assert program and around and all(loop.lanes > least for loop in around)


@pytest.mark.parametrize("name", [*AT_POINTS, *ROWS, *AROUND_POINTS])
@pytest.mark.parametrize("size", [(1, 1), (2, 0), (3, 7), (5, 16), (4, 33), (1, 130)])
def test_the_gradient_is_that_of_the_meaning(name: str, size: tuple[int, int]) -> None:
    program = text(name) + GRADIENT
    args = arguments(*size)
    expected = meaning(dlang.compile(program, backend="interp").main, *args)
    for found, wanted in zip(dlang.compile(program).main(*args), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [*AT_POINTS, *ROWS, *AROUND_POINTS])
def test_derivatives(name: str) -> None:
    four_ways(text(name), [3, 4, *arguments(3, 4)])


@pytest.mark.parametrize("name", ["a polynomial", "a row of a table"])
def test_what_is_saved_is_that_of_the_points_under_way(name: str) -> None:
    """An array of what all iterations saved at all points is in no function of the program."""
    program = optimised(text(name) + GRADIENT)
    (entry,) = [f for f in program.functions.values() if f.label == "main"]
    k, n = map(anf.poly, entry.params[:2])
    shapes = [v.type.shape for let in walk(entry.body) for v in let.vars if isinstance(v.type, anf.Array)]
    assert (k, n) not in shapes
