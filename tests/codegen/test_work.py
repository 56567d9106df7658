"""How long a call takes, as far as its sizes say it."""

import pytest

from dlang.diagnostics import Source
from dlang.driver import check, lower
from dlang.dump_ir import request
from dlang.ops.figures import LONG_CALL
from dlang.runtime.build import build

PROGRAM = """
fn short(x: f64[n]) -> f64 = sum(x * x)
fn table(x: f64[n]) -> f64[n, n] = [[exp(x[i] * x[j]) for j] for i]
fn number(x: f64) -> f64 = x * x + 1.0
fn halved(x: f64) -> f64 { var y = x; while y > 1.0 { y = 0.5 * y }; y }
fn deep(n: i64) -> i64 = if n == 0 or n < 0 { 0 } else { 1 + deep(n - 1) }
fn shown(x: f64) { print("{x}") }
fn triangle(x: f64[n]) -> f64 { var s = 0.0; for i < n { for j < i { s = sin(s + x[j]) } }; s }
fn rows(x: f64[n, n], w: f64[n, n]) -> f64[n, n] = tanh(x @ w)
fn given(x: f64, k: i64[m]) -> f64 { var y = x; for i < k[0] { y = sin(y) }; y }
fn halves(x: f64, n: i64) -> f64 { var y = x; for i < n // 2 { y = sin(y) }; y }
"""


@pytest.fixture(scope="module")
def points():
    functions = check(Source("<text>", PROGRAM)).module.functions
    found = {}
    for name, decl in functions.items():
        program, (entry,) = lower([request(decl)])
        found[name] = build(program, [entry.name]).entries[entry.name]
    return found


def at(point, n):
    return point.work.evaluate(lambda v: n)


def test_it_grows_with_the_sizes(points):
    assert at(points["short"], 100) < LONG_CALL < at(points["short"], 10_000_000)
    assert at(points["table"], 10) < LONG_CALL < at(points["table"], 10_000)
    assert at(points["table"], 1000) > 50 * at(points["table"], 100)


def test_of_straight_code_it_is_a_number(points):
    assert points["number"].work.constant < LONG_CALL / 1000


def test_it_knows_loops_in_loops_blocks_of_products_and_computed_iterations(points):
    assert 3 < at(points["triangle"], 2000) / at(points["triangle"], 1000) < 5
    assert 6 < at(points["rows"], 4000) / at(points["rows"], 2000) < 9
    assert 1.9 < at(points["halves"], 200_000) / at(points["halves"], 100_000) < 2.1


def test_what_is_computed_by_libraries_costs_more_than_a_sum(points):
    heavy, light = points["halves"], points["short"]
    assert at(heavy, 2000) > 10 * at(light, 1000)


def test_a_print_costs_what_a_call_of_python_does(points):
    assert 1_000_000 < points["shown"].work.constant < LONG_CALL


@pytest.mark.parametrize("name", ["halved", "deep", "given"])
def test_where_sizes_do_not_say_it_it_is_unknown(points, name):
    assert points[name].work is None


def nested(depth: int) -> str:
    heads = "".join(f"for i{k} < n {{ " for k in range(depth))
    return f"fn f(x: f64[n]) -> f64 {{ var s = 0.0; {heads}s = sin(s + x[i0]){' }' * depth}; s }}"


def calling(length: int) -> str:
    """A chain of functions, each of which calls the next in a loop whose end no size says."""
    body = "{{ var s = x[0]; while s < 10.0 {{ s = 2.0 * s + 10.0 + {} }}; s }}"
    first = f"fn g0(x: f64[n]) -> f64 {body.format('x[0]')}\n"
    more = "".join(f"fn g{k}(x: f64[n]) -> f64 {body.format(f'g{k - 1}(x)')}\n" for k in range(1, length))
    return first + more + f"fn f(x: f64[n]) -> f64 = g{length - 1}(x)"


@pytest.mark.parametrize("text", [nested(66), calling(80)], ids=["loops in loops", "loops in functions"])
def test_of_more_loops_in_loops_than_a_polynomial_has_factors_nothing_is_known(text):
    program, (entry,) = lower([request(check(Source("<text>", text)).module.functions["f"])])
    assert build(program, [entry.name]).entries[entry.name].work is None
