"""How long a call takes, as far as its sizes say it."""

import pytest

from dlang.codegen.work import LONG
from dlang.diagnostics import Source
from dlang.driver import check, lower
from dlang.listings import request
from dlang.runtime.build import build

PROGRAM = """
fn short(x: f64[n]) -> f64 = sum(x * x)
fn table(x: f64[n]) -> f64[n, n] = [[exp(x[i] * x[j]) for j] for i]
fn number(x: f64) -> f64 = x * x + 1.0
fn halved(x: f64) -> f64 { var y = x; while y > 1.0 { y = 0.5 * y }; y }
fn deep(n: i64) -> i64 = if n == 0 { 0 } else { 1 + deep(n - 1) }
fn shown(x: f64) { print("{x}") }
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
    assert at(points["short"], 100) < LONG < at(points["short"], 10_000_000)
    assert at(points["table"], 10) < LONG < at(points["table"], 10_000)
    assert at(points["table"], 1000) > 50 * at(points["table"], 100)


def test_of_straight_code_it_is_a_number(points):
    assert points["number"].work.constant < LONG / 1000


@pytest.mark.parametrize("name", ["halved", "deep", "shown"])
def test_where_sizes_do_not_say_it_it_is_unknown(points, name):
    assert points[name].work is None
