"""An axis that is divided is two axes: no quotient is left, values and derivatives are those of the meaning."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen import loops
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk as walk_loops
from dlang.codegen.vectorize import Lanes
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.specialize.support import lowered

HEADS = "fn f(x: f64[h, t], y: f64[t, h * e], n: i64) -> f64[h * e] = "
SPLIT = {
    "heads": f"{HEADS}[sum(x[c // e, j] * y[j, c] for j) for c < h * e]",
    "columns of heads": f"{HEADS}[sum(x[c // e, j] * y[j, c % e] for j) for c < h * e]",
    "the axis itself": f"{HEADS}[sum(x[c // e, j] * y[j, c] * sin(f64(c)) for j) for c < h * e]",
    "a condition": f"{HEADS}[if c % e == 0 {{ x[c // e, 0] }} else {{ y[0, c - 1] }} for c < h * e]",
    "digits": "fn f(x: f64[t, 3, 3], y: f64[9 * t], n: i64) -> f64 = "
    "sum(x[k // 9, k // 3 % 3, k % 3] * y[k] * f64(k) for k < 9 * t)",
    "the larger one first": "fn f(x: f64[t, 3, 3], y: f64[9 * t], n: i64) -> f64 = "
    "sum(x[k // 9, k % 9 // 3, k % 3] * y[k] for k < 9 * t)",
    "both axes": "fn f(x: f64[a, b], y: f64[p, q], n: i64) -> f64[a * p, b * q] = "
    "[x[i // p, j // q] * y[i % p, j % q] for i < a * p, j < b * q]",
    "repeated": "fn f(x: f64[t, m], y: f64[2 * t, 3 * m], n: i64) -> f64[2 * t, 3 * m] = "
    "[x[i // 2, j // 3] * y[i, j] for i < 2 * t, j < 3 * m]",
}
STAY = {
    "a loop": HEADS
    + """{
  var out = zeros(h * e)
  for c < h * e {
    for j < t { out[c] += x[c // e, j] * y[j, c] }
  }
  out
}""",
    "a serial loop": HEADS
    + """{
  var (out, s) = (zeros(h * e), 0.5)
  for c < h * e {
    s = sin(s + x[c // e, 0] * y[0, c] + f64(c))
    out[c] = s
  }
  out
}""",
    "a rest": "fn f(x: f64[t], y: f64[2 * t], n: i64) -> f64[2 * t] = "
    "[x[i // 3 % t] + y[(i + 1) % 3 % t] for i < 2 * t]",
    "a number that may be negative": "fn f(x: f64[t], y: f64[t, h], n: i64) -> f64 = "
    "sum(x[(i // n) % t] for i < n * 2)",
    "another one at each point": "fn f(x: f64[t], y: f64[t, h], n: i64) -> f64 = "
    "sum(x[i // (j + 1) % t] for i < 6 * t, j < 3)",
}


def shapes(name: str, k: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of the arguments; k: 0 for the least."""
    h, t, e = ((1, 1, 1), (2, 3, 4), (3, 5, 1), (4, 2, 7))[k]
    match name:
        case "digits" | "the larger one first":
            return (t, 3, 3), (9 * t,)
        case "both axes":
            return (h, t), (e, t)
        case "repeated":
            return (h, t), (2 * h, 3 * t)
        case "a rest":
            return (t,), (2 * t,)
        case "a number that may be negative" | "another one at each point":
            return (t,), (t, h)
        case _:
            return (h, t), (t, h * e)


def arguments(name: str, k: int) -> list[Any]:
    random = np.random.default_rng(k)
    return [*[random.normal(size=shape) for shape in shapes(name, k)], 3]


@cache
def module(name: str, backend: str) -> Any:
    text = {**SPLIT, **STAY}[name]
    head = text[text.index("(") : text.index(", n: i64)")]
    slope = "grad(|x, y| sum(cos(f(x, y, n))), wrt = (0, 1))(x, y)"
    if "-> f64 =" in text:
        slope = slope.replace("sum(cos(f(x, y, n)))", "cos(f(x, y, n))")
    return dlang.compile(f"{text}\nfn g{head}, n: i64) = {slope}\n", backend=backend)


def divisions(name: str) -> int:
    made = lowered({**SPLIT, **STAY}[name] + "\n", "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    lets = [let for f in program.functions.values() for let in walk(f.body)]
    inside = [inner for let in lets if isinstance(let.op, anf.Comp | anf.For) for inner in walk(let.op.body)]
    return sum(isinstance(let.op, anf.Prim) and let.op.name in ("floordiv", "mod") for let in inside)


@pytest.mark.parametrize("name", SPLIT)
def test_nothing_is_divided_at_a_point(name: str) -> None:
    assert divisions(name) == 0


@pytest.mark.parametrize("name", STAY)
def test_an_axis_stays_whose_size_is_not_known_to_be_a_multiple(name: str) -> None:
    assert divisions(name) > 0


@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize("name", [*SPLIT, *STAY])
def test_compiled_code_agrees_with_the_meaning(name: str, k: int) -> None:
    args = arguments(name, k)
    found, expected = (module(name, backend).f(*args) for backend in ("cpu", "interp"))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    found, expected = (module(name, backend).g(*args) for backend in ("cpu", "interp"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_loops_with_two_negative_numbers_reach_nothing() -> None:
    text = """
fn f(a: i64, b: i64) -> f64[?] {
  var out = zeros(a * b)
  for i < a {
    for j < b { out[i * b + j] += 1.0 }
  }
  out
}
"""
    for backend in ("cpu", "interp"):
        m = dlang.compile(text, backend=backend)
        assert m.f(2, 3).tolist() == [1.0] * 6
        assert m.f(-2, -3).tolist() == [0.0] * 6


def test_products_of_heads_go_in_tiles() -> None:
    text = """
fn f(x: f64[h, t, t], y: f64[t, h * e]) -> f64[t, h * e] =
  [sum(x[c // e, i, j] * y[j, c] for j) for i, c < h * e]
"""
    made = lowered(text, "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    nests = schedule(program, lanes=Lanes(256)).functions[made.entry.name]
    why = [w.choice for s in walk_loops(nests.body.stmts) if isinstance(s, loops.Loop) for w in s.why]
    assert any(choice.startswith("tiles of 4 rows") for choice in why)
