"""What only a loop needs that may have no iterations costs nothing where it has none."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Contract, If, Program
from dlang.ir.printer import print_program
from dlang.ir.reader import read_program
from dlang.pipeline import optimise
from tests.optimize.programs import count
from tests.specialize.support import lowered

KEPT = "[v for v in p if v > c]"
ROW = "[sum(tanh(q[t] * q[s]) for s < d) for t < d]"
MATRIX = "[q[t] * q[s] for t < d, s < d]"
SPELLINGS = {
    "a row": f"{{ let z = [p[i] * {ROW} for i < n if p[i] > c]\n sum(z) }}",
    "a row that is read": f"{{ let z = [{{ let r = {ROW}\n r[0] + r[1] * p[i] }} for i < n if p[i] > c]\n sum(z) }}",
    "a running sum": f"{{ let z = [p[i] * cumsum({MATRIX}[0]) for i < n if p[i] > c]\n sum(z) }}",
    "a product": "{ let z = [p[i] * sum(a @ a) for i < n if p[i] > c]\n sum(z) }",
    "a sum": f"{{ let w = {KEPT}\n sum([sum(tanh(q[t] * v) * sum(a @ a) for t < d) for v in w]) }}",
    "two filters": f"{{ let z = [v * w * {ROW} for v in p, w in q if v > c and w > 0.0]\n sum(z) }}",
    "a filter in a filter": f"{{ let z = [sum([w * {ROW}[0] for w in p if w > 0.3]) * v for v in p if v > c]\n"
    " sum(z) }",
    "behind a filter": f"{{ var y = 0.0\n for v in {KEPT} {{ y = y * v + sum(a @ a) }}\n y }}",
    "of a check": f"{{ var y = 0.0\n for v in {KEPT} {{ y = y * v + sum(cumsum({MATRIX}[0])) }}\n y }}",
    "some points": f"{{ let m = i64(8.0 - 8.0 * c)\n sum(sum({ROW}) * q[0] * f64(i) for i < m) }}",
    "some iterations": "{ let m = i64(8.0 - 8.0 * c)\n var y = 0.0\n for i < m { y = y * 0.5 + sum(a @ a) }\n y }",
    "of a slice": f"{{ let w = p[..i64(6.0 - 6.0 * c)]\n sum([v * sum({ROW}) for v in w]) }}",
    "while": f"{{ var y = 2.0 - 2.0 * c\n while y > 0.1 {{ y = y - 1.0 - abs(sum({ROW})) }}\n y }}",
    "while an element is large": f"{{ var y = 0.0\n var i = 0\n while i < n and p[n - 1 - i] > c {{ i += 1\n"
    f" y = y * 0.5 + sum(a @ a) + sum({ROW}) }}\n y }}",
    "while a sum is large": "{ var r = q\n while sum(r * r) > 0.2 + 99.0 * c { r = r * 0.1 / (1.0 + sum(a @ a)) }\n"
    " sum(r) }",
    "while a sum that is checked is large": "{ var r = q\n while sum(r[i64(c) + t] for t < d - i64(c)) > 0.2 + 99.0 * c"
    f" {{\n r = r * 0.1 / (1.0 + abs(sum({ROW}))) }}\n sum(r) }}",
}
OUTER = "[cumsum([q[t] * q[s] for s < d]) for t < d]"
LARGER = {
    "an element of a running sum": "{ let z = [p[i] * cumsum([q[t // d] * q[t % d] for t < d * d])[i] for i < n"
    " if p[i] > c]\n sum(z) }",
    "an element of rows": f"{{ var y = 0.0\n for v in {KEPT} {{ let m = {OUTER}\n y = y * v + m[i64(v), 0] }}\n y }}",
    "a row of rows": f"{{ let z = [v * {{ let m = {OUTER}\n m[i64(v)] }} for v in p if v > c]\n sum(sum(z)) }}",
    "a product with the state": f"{{ var y = q\n for v in {KEPT} {{ y = tanh({MATRIX} @ y) * v }}\n sum(y) }}",
    "factors": f"{{ var y = q\n for v in {KEPT} {{ y = tanh(solve({MATRIX} + identity(d), y)) * v }}\n sum(y) }}",
    "while": f"{{ var y = 2.0 - 2.0 * c\n let m = {OUTER}\n while y > 0.1 {{ y = y - 1.0 - abs(m[i64(y), 0]) }}\n y }}",
}
NONE, SOME, ALL = 1.0, 0.5, 0.0
ROWS = 6


def arguments(d: int, c: float) -> list[Any]:
    rng = np.random.default_rng(d)
    return [ROWS, d, np.linspace(0.1, 0.9, ROWS), rng.random(d), rng.random((d, d)), c]


@cache
def compiled(body: str, name: str) -> tuple[Program, Program, str, int]:
    """The program as specialised and as optimised, its entry, and how many sizes that gives first."""
    types = "f64[n], f64[d], f64[d, d]"
    made = lowered(
        "import linalg { identity, solve }\n"
        f"fn f(p: f64[n], q: f64[d], a: f64[d, d], c: f64) -> f64 = {body}\n"
        f"fn g(p: f64[n], q: f64[d], a: f64[d, d], c: f64) -> ({types}) ="
        f" grad(|z: ({types})| f(z.0, z.1, z.2, c))((p, q, a))\n"
        "fn small(p: f64[n], q: f64[d], a: f64[d, d], c: f64) -> (f64[n], f64[d]) ="
        " grad(|z: (f64[n], f64[d])| f(z.0, z.1, a, c))((p, q))\n"
        "fn along(p: f64[n], q: f64[d], a: f64[d, d], c: f64) -> f64 ="
        " jvp(|z: (f64[n], f64[d])| f(z.0, z.1, a, c), (p, q), (p, q)).1\n",
        name,
    )
    return made.program, optimise(made.program, [made.entry.name], verify=True), made.entry.name, len(made.entry.extra)


def cost(program: Program, entry: str, args: list[Any]) -> tuple[list[Any], int]:
    """The results, and the operations but for copies."""
    interpreter = Interpreter(program)
    results = interpreter.run(entry, args)
    return results, interpreter.operations - interpreter.counts["Copy"]


@pytest.mark.parametrize("body", SPELLINGS.values(), ids=SPELLINGS)
def test_nothing_is_made_for_what_has_no_points(body: str) -> None:
    written, optimised, entry, extra = compiled(body, "f")
    _, gradient, of_gradient, _ = compiled(body, "g")
    for c in (NONE, SOME, ALL):
        for d in (8, 16):
            args = arguments(d, c)
            given = ROWS + d + d * d
            expected, before = cost(written, entry, args)
            found, after = cost(optimised, entry, args)
            np.testing.assert_allclose(found[extra], expected[extra], rtol=1e-12)
            assert after <= 1.1 * before + 20
            assert cost(gradient, of_gradient, args)[1] <= 4 * before + 2 * given


@pytest.mark.parametrize("body", SPELLINGS.values(), ids=SPELLINGS)
def test_gradients_of_what_may_have_no_points_are_those_of_differences(body: str) -> None:
    _, optimised, entry, extra = compiled(body, "f")
    _, gradient, of_gradient, before = compiled(body, "g")
    for c in (NONE, 0.45, 0.05):
        args = arguments(5, c)
        slopes = cost(gradient, of_gradient, args)[0][before:]
        direction = [np.cos(np.arange(float(x.size))).reshape(x.shape) for x in args[2:5]]
        ends = []
        for sign in (1.0, -1.0):
            moved = [x + sign * 1e-6 * v for x, v in zip(args[2:5], direction, strict=True)]
            ends.append(cost(optimised, entry, [*args[:2], *moved, c])[0][extra])
        expected = sum(np.sum(s * v) for s, v in zip(slopes, direction, strict=True))
        np.testing.assert_allclose((ends[0] - ends[1]) / 2e-6, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("body", LARGER.values(), ids=LARGER)
def test_no_derivative_fills_an_array_that_is_larger_than_what_is_given(body: str) -> None:
    _, value, of_value, _ = compiled(body, "f")
    _, gradient, of_gradient, _ = compiled(body, "small")
    _, tangent, of_tangent, _ = compiled(body, "along")
    for d in (8, 16):
        args, given = arguments(d, NONE), ROWS + d
        own = cost(value, of_value, args)[1]
        assert own <= 6 * given
        assert cost(gradient, of_gradient, args)[1] <= 4 * own + 2 * given
        assert cost(tangent, of_tangent, args)[1] <= own + 2 * given


def test_a_loop_of_which_others_need_its_start_runs_only_where_it_has_iterations() -> None:
    for name in ("a product with the state", "an element of rows"):
        _, gradient, entry, before = compiled(LARGER[name], "small")
        _, value, of_value, extra = compiled(LARGER[name], "f")
        for c in (NONE, SOME):
            args = arguments(4, c)
            slopes = cost(gradient, entry, args)[0][before:]
            v = np.cos(np.arange(4.0))
            ends = [cost(value, of_value, [*args[:3], args[3] + h * v, *args[4:]])[0][extra] for h in (1e-6, -1e-6)]
            np.testing.assert_allclose(np.sum(slopes[1] * v), (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)


def test_what_one_arm_alone_needs_is_made_there() -> None:
    body = f"{{ let m = {OUTER}\n if c > 0.7 {{ sum(m) }} else {{ c }} }}"
    _, optimised, entry, extra = compiled(body, "f")
    small, large = [cost(optimised, entry, arguments(d, SOME)) for d in (8, 16)]
    assert small[1] == large[1] and small[0][extra] == SOME
    assert cost(optimised, entry, arguments(8, ALL + 0.8))[1] > 8 * 8


def test_products_stay_products() -> None:
    for name in ("a product", "behind a filter", "some iterations"):
        _, optimised, _, _ = compiled(SPELLINGS[name], "f")
        assert count(optimised, Contract) == 1


def test_what_sizes_say_has_points_has_no_branch() -> None:
    body = f"sum([p[i] * {ROW} for i < n]) + sum([sum(a @ a) * p[j] for i < n, j < i])"
    _, optimised, _, _ = compiled(body, "f")
    assert count(optimised, If) == 0


BY_NUMBER = """
fn inner(x: f64[n], number: i64[n], k: size) -> f64 =
  sum(sum(where(bit_and(number == g, x > 0.0), x, 0.0)) ** 2 for g < k)
fn f(x: f64[n], number: i64[n], k: size) -> f64 = inner(x, number, k)
fn slope(x: f64[n], number: i64[n], k: size) -> f64[n] = grad(|x| inner(x, number, k))(x)
fn product(x: f64[n], number: i64[n], k: size) -> f64 = jvp(|x| inner(x, number, k), x, x).1
"""


@pytest.mark.parametrize("name", ["f", "slope", "product"])
def test_a_parameter_that_is_a_size_counts_as_one(name: str) -> None:
    """No array has k elements, but who calls the function has checked that k is no negative number."""
    lowering = lowered(BY_NUMBER, name)
    optimised = optimise(lowering.program, [lowering.entry.name])
    assert count(optimised, If) == 0
    sizes = optimised.functions[lowering.entry.name].sizes
    assert len(sizes) == 1
    read = read_program(print_program(optimised))
    assert [len(f.sizes) for f in read.functions.values()] == [1]
    run, x, number = Interpreter(optimised).run, np.array([0.5, -1.0, 2.0, 0.25]), np.array([0, 1, 2, 0])
    for k in (0, 2, 3):
        totals = [x[(number == g) & (x > 0.0)].sum() for g in range(k)]
        value = sum(t * t for t in totals)
        slope = [2.0 * totals[g] if v > 0.0 and g < k else 0.0 for v, g in zip(x, number, strict=True)]
        (computed,) = run(lowering.entry.name, [4, k, x, number, k])
        np.testing.assert_allclose(computed, {"f": value, "slope": slope, "product": 2.0 * value}[name], rtol=1e-12)


def test_what_fails_does_so_only_if_there_is_a_point() -> None:
    body = f"{{ let z = [p[i] * {ROW}[d + i64(c)] for i < n if p[i] > c]\n sum(z) }}"
    _, optimised, entry, extra = compiled(body, "f")
    assert cost(optimised, entry, arguments(4, NONE))[0][extra] == 0.0
    with pytest.raises(RunError, match="out of range"):
        cost(optimised, entry, arguments(4, SOME))


def test_a_condition_that_fails_does_so_behind_what_fails_before() -> None:
    body = f"""{{
      var y = q[0]
      assert y < 9.0
      var i = 0
      while p[i] > c {{ i += 1; y = y + sum({ROW}) }}
      y
    }}"""
    _, optimised, entry, _ = compiled(body, "f")
    args = arguments(4, ALL)
    with pytest.raises(RunError, match="out of range"):
        cost(optimised, entry, args)
    with pytest.raises(RunError, match="assertion"):
        cost(optimised, entry, [0, 4, np.zeros(0), np.full(4, 10.0), args[4], 0.0])
