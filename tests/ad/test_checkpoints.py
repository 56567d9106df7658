"""`checkpoint`: right derivatives, memory like the root of the iterations, one more run of the body."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.ad.four_ways import four_ways
from tests.ad.support import close
from tests.specialize.support import lowered

LOOPS = {
    "counted": "var s = x\n  for k < n { s = sin(s) * x + 0.1 * f64(k) / f64(n) }\n  s",
    "while": "var s = x\n  var k = 0\n  while k < n { s = sin(s) * x + 0.1\n    k += 1 }\n  s",
    "until it breaks": "var s = x\n  for k < 2 * n { if k == n { break }\n    s = sin(s) * x + 0.1 }\n  s",
    "two states": "var (s, v) = (x, 0.0)\n  for k < n { (s, v) = (s + 0.01 * v, v - 0.01 * sin(s)) }\n  s * v",
    "in an arm": "var s = x\n  if x > 0.0 { for k < n { s = sin(s) * x + 0.1 } } else { s = 1.0 }\n  s",
    "in a loop": "var s = x\n  for k < n { for j < 3 { s = sin(s) * x + 0.1 } }\n  s",
}
TEXT = """
fn f(x: f64, n: i64) -> f64 {{
  {}
}}
fn value(x: f64, n: i64) -> f64 = f(x, n)
fn plain(x: f64, n: i64) -> f64 = grad(f)(x, n)
fn again(x: f64, n: i64) -> f64 = grad(|y: f64| checkpoint(f)(y, n))(x)
fn twice(x: f64, n: i64) -> f64 = grad(|y: f64| grad(|z: f64| checkpoint(f)(z, n))(y))(x)
fn plain_twice(x: f64, n: i64) -> f64 = grad(|y: f64| grad(f)(y, n))(x)
"""
ARRAYS = """
fn f(w: f64[m, m], xs: f64[n, m]) -> f64 {
  var h = zeros(m)
  for t < n { h = tanh(w @ h + xs[t]) }
  sum(h)
}
fn value(w: f64[m, m], xs: f64[n, m]) -> f64 = f(w, xs)
fn plain(w: f64[m, m], xs: f64[n, m]) -> (f64[m, m], f64[n, m]) = grad(|p: (f64[m, m], f64[n, m])| f(p.0, p.1))((w, xs))
fn again(w: f64[m, m], xs: f64[n, m]) -> (f64[m, m], f64[n, m]) =
  grad(|p: (f64[m, m], f64[n, m])| checkpoint(f)(p.0, p.1))((w, xs))
"""
PLACES = """
fn f(x: f64[n]) -> f64 {
  var a = x
  for i in 1..n { a[i] = sin(a[i - 1]) * a[i] }
  sum(a)
}
fn plain(x: f64[n]) -> f64[n] = grad(f)(x)
fn again(x: f64[n]) -> f64[n] = grad(|y: f64[n]| checkpoint(f)(y))(x)
"""


@cache
def program(text: str, name: str) -> tuple[Program, str]:
    made = lowered(text, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def counted(text: str, name: str, *args: Any) -> tuple[list[Any], int]:
    """The results of a function, and its operations."""
    p, entry = program(text, name)
    interpreter = Interpreter(p)
    results = interpreter.run(entry, list(args))
    return results, interpreter.operations


def memory(text: str, name: str, *args: Any) -> int:
    """The bytes that a compiled run asks the system for."""
    p, entry = program(text, name)
    compiled = Engine(Host(io.StringIO())).compile(p, [entry])
    compiled.run(entry, list(args))
    context = compiled.engine.contexts[-1]
    return context.taken + context.peak


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_the_derivative_is_the_one_without_a_checkpoint(loop: str, n: int) -> None:
    text = TEXT.format(LOOPS[loop])
    for again, plain in (("again", "plain"), ("twice", "plain_twice")):
        close(counted(text, again, 0.7, n)[0][0], counted(text, plain, 0.7, n)[0][0], 1e-10)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_body_runs_twice_more(loop: str) -> None:
    """In front of the derivative, for the states, and a segment at a time; one that breaks is counted, too."""
    text = TEXT.format(LOOPS[loop])
    more = 3.2 if loop in ("while", "until it breaks") else 2.2
    for n in (100, 400):
        (_, value), (_, plain), (_, again) = (counted(text, name, 0.7, n) for name in ("value", "plain", "again"))
        assert again <= plain + more * value + 100


@pytest.mark.plain_code
@pytest.mark.parametrize("loop", ["counted", "while", "until it breaks", "two states", "in a loop"])
def test_memory_grows_like_the_root_of_the_iterations(loop: str) -> None:
    text = TEXT.format(LOOPS[loop])
    few, many = (memory(text, "again", 0.7, n) for n in (10_000, 1_000_000))
    assert many <= 15 * few and many < 200_000


@pytest.mark.plain_code
def test_a_recurrent_network_saves_states_of_segments() -> None:
    rng = np.random.default_rng(3)
    w = 0.3 * rng.normal(size=(8, 8))
    args = {n: (8, n, w, rng.normal(size=(n, 8))) for n in (100, 1600)}
    for a, b in zip(counted(ARRAYS, "again", *args[100])[0], counted(ARRAYS, "plain", *args[100])[0], strict=True):
        close(a, b, 1e-10)
    for n in args:
        (_, value), (_, plain), (_, again) = (counted(ARRAYS, name, *args[n]) for name in ("value", "plain", "again"))
        assert again <= plain + 2.2 * value
    returned = 8 * 8 * 1600
    assert memory(ARRAYS, "again", *args[1600]) <= 1.3 * returned + 200_000
    assert memory(ARRAYS, "plain", *args[1600]) >= 2 * returned


def test_a_loop_that_changes_elements_is_saved_iteration_by_iteration() -> None:
    """Its states would take more: the operations stay in proportion to the iterations."""
    x = np.linspace(0.2, 1.0, 50)
    close(counted(PLACES, "again", 50, x)[0][0], counted(PLACES, "plain", 50, x)[0][0], 1e-12)
    few, many = (counted(PLACES, "again", n, np.linspace(0.2, 1.0, n))[1] for n in (100, 1600))
    assert many <= 17 * few


RING = """
fn f(x: f64[m], n: i64) -> f64 {
  var a = x
  for i < n { a[i % m] = 0.5 * sin(a[(i + 1) % m]) + 0.9 * a[i % m] }
  sum(a)
}
fn plain(x: f64[m], n: i64) -> f64[m] = grad(f)(x, n)
fn again(x: f64[m], n: i64) -> f64[m] = grad(|y: f64[m]| checkpoint(f)(y, n))(x)
"""
NESTED = """
fn f(x: f64, n: i64, m: i64) -> f64 {
  var s = x
  for k < n {
    var v = 0.1 * s
    for j < m { v = sin(v) * x + 0.1 * s }
    s = 0.5 * s + v
  }
  s
}
fn value(x: f64, n: i64, m: i64) -> f64 = f(x, n, m)
fn plain(x: f64, n: i64, m: i64) -> f64 = grad(f)(x, n, m)
fn again(x: f64, n: i64, m: i64) -> f64 = grad(|y: f64| checkpoint(f)(y, n, m))(x)
"""


@pytest.mark.plain_code
def test_many_changes_of_few_elements_take_memory_like_their_root() -> None:
    x = np.array([0.2, 0.5, -0.3, 0.8])
    for n in (0, 1, 7, 150):
        close(counted(RING, "again", 4, x, n)[0][0], counted(RING, "plain", 4, x, n)[0][0], 1e-12)
    few, many = (memory(RING, "again", 4, x, n) for n in (10_000, 1_000_000))
    assert many <= 15 * few and many < 400_000


@pytest.mark.plain_code
def test_loops_in_loops_are_taken_apart_too() -> None:
    """Each level runs its body once more, and the memory is that of the roots of both numbers of iterations."""
    for n, m in ((0, 3), (3, 0), (1, 1), (5, 40), (30, 7)):
        close(counted(NESTED, "again", 0.7, n, m)[0][0], counted(NESTED, "plain", 0.7, n, m)[0][0], 1e-12)
    (_, value), (_, plain), (_, again) = (counted(NESTED, f, 0.7, 60, 60) for f in ("value", "plain", "again"))
    assert again <= plain + 3.3 * value
    assert memory(NESTED, "again", 0.7, 1000, 1000) < 100_000 < 0.02 * memory(NESTED, "plain", 0.7, 1000, 1000)


def test_what_is_computed_again_is_not_found_to_be_known() -> None:
    text = """
fn f(x: f64[n]) -> f64[n] = exp(sin(cos(tanh(x)))) * sqrt(1.0 + exp(x)) + sin(exp(x))
fn value(x: f64[n]) -> f64[n] = f(x)
fn plain(x: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(f(y) * f(y)))(x)
fn again(x: f64[n]) -> f64[n] = grad(|y: f64[n]| { let z = checkpoint(f)(y)
  sum(z * z) })(x)
"""
    x = np.linspace(0.1, 0.9, 40)
    found = {name: counted(text, name, 40, x) for name in ("value", "plain", "again")}
    close(found["again"][0][0], found["plain"][0][0], 1e-12)
    assert found["again"][1] >= found["plain"][1] + 0.8 * found["value"][1]


LINEAR = """
fn step(u: f64[n], k: f64) -> f64[n] = [u[i] + k * (u[(i + 1) % n] + u[(i - 1) % n] - 2.0 * u[i]) for i]
fn evolved(u: f64[n], k: f64, s: i64) -> f64[n] {
  var v = u
  for i < s { v = step(v, k) }
  v
}
fn by_step(u: f64[n], k: f64, s: i64) -> f64[n] {
  var v = u
  for i < s { v = checkpoint(|w: f64[n]| step(w, k))(v) }
  v
}
fn plain(u: f64[n], k: f64, s: i64) -> f64[n] = grad(|x: f64[n]| sum(evolved(x, k, s) ** 2))(u)
fn whole(u: f64[n], k: f64, s: i64) -> f64[n] =
  grad(|x: f64[n]| sum(checkpoint(|y: f64[n]| evolved(y, k, s))(x) ** 2))(u)
fn steps(u: f64[n], k: f64, s: i64) -> f64[n] = grad(|x: f64[n]| sum(by_step(x, k, s) ** 2))(u)
fn of_k(u: f64[n], k: f64, s: i64) -> f64 = grad(|k: f64| sum(checkpoint(|l: f64| evolved(u, l, s))(k) ** 2))(k)
fn of_k_plainly(u: f64[n], k: f64, s: i64) -> f64 = grad(|k: f64| sum(evolved(u, k, s) ** 2))(k)
fn twice(u: f64[n], k: f64, s: i64) -> f64 =
  grad(|l: f64| sum(grad(|x: f64[n]| sum(checkpoint(|y: f64[n]| evolved(y, l, s))(x) ** 2))(u)))(k)
fn plain_twice(u: f64[n], k: f64, s: i64) -> f64 =
  grad(|l: f64| sum(grad(|x: f64[n]| sum(evolved(x, l, s) ** 2))(u)))(k)
"""


@pytest.mark.parametrize("name", ["whole", "steps"])
def test_what_needs_nothing_saved_is_not_run_again(name: str) -> None:
    n, s = 40, 100
    args = [n, np.sin(np.arange(float(n))), 0.2, s]
    (expected,), cost = counted(LINEAR, "plain", *args)
    (found,), again = counted(LINEAR, name, *args)
    close(found, expected)
    assert again < 1.1 * cost


@pytest.mark.plain_code
@pytest.mark.parametrize("name", ["whole", "steps"])
def test_what_needs_nothing_saved_takes_no_memory_for_each_iteration(name: str) -> None:
    n, s = 40, 100
    args = [n, np.sin(np.arange(float(n))), 0.2, s]
    bytes = memory(LINEAR, name, *args)
    assert bytes < 1.5 * memory(LINEAR, "plain", *args) + 1024 and bytes < 8 * n * s / 2


def test_what_needs_the_states_gets_them_from_another_run() -> None:
    n, s = 40, 100
    args = [n, np.sin(np.arange(float(n))), 0.2, s]
    for name, other in (("of_k", "of_k_plainly"), ("twice", "plain_twice")):
        close(counted(LINEAR, name, *args)[0], counted(LINEAR, other, *args)[0])


PARTS = """
fn part(x: f64[n], y: f64[n], k: i64) -> f64[n] = [x[i] * y[k] + y[i] for i]
fn plain(x: f64[n], y: f64[n], k: i64) -> f64[n] = grad(|z: f64[n]| sum(part(exp(z), sin(y), k)))(x)
fn again(x: f64[n], y: f64[n], k: i64) -> f64[n] =
  grad(|z: f64[n]| sum(checkpoint(|w: f64[n]| part(exp(w), sin(y), k))(z)))(x)
"""


def test_of_another_run_is_made_what_is_needed_and_checks_stay() -> None:
    x, y = np.linspace(0.0, 1.0, 5), np.linspace(1.0, 2.0, 5)
    close(counted(PARTS, "again", 5, x, y, 2)[0], counted(PARTS, "plain", 5, x, y, 2)[0])
    with pytest.raises(RunError) as caught:
        counted(PARTS, "again", 5, x, y, 7)
    assert caught.value.code == "E0801"


RECURSIVE = """
fn deep(x: f64, n: i64) -> f64 = if n == 0 { x } else { checkpoint(|y: f64| deep(2.0 * y, n - 1))(x) + x * x }
fn again(x: f64, n: i64) -> f64 = grad(deep, wrt = x)(x, n)
"""


def test_a_recursion_through_checkpoint_is_differentiated() -> None:
    # deep(x, n) = 2^n x + x^2 (1 + 4 + … + 4^(n - 1))
    close(counted(RECURSIVE, "again", 0.5, 4)[0][0], 2.0**4 + 2 * 0.5 * (4**4 - 1) / 3)


@pytest.mark.parametrize(
    "body",
    [
        "weighed(checkpoint(longer)(c, x))",
        "{ let y = checkpoint(longer)(c, x)\n  weighed(checkpoint(longer)(y, x)) + weighed(y) }",
        "{ var t = x\n  for i < 3 { t += weighed(checkpoint(longer)(c, x * t)) }\n  t }",
        "weighed(jacobian(longer, wrt = x)(c, x))",
    ],
    ids=["once", "twice", "in a loop", "a Jacobian"],
)
def test_sizes_that_a_call_of_a_derivative_opens_are_known_behind_it(body: str) -> None:
    four_ways(
        f"""
fn weighed(y: f64[n]) -> f64 = sum(y[i] * sin(1.0 + f64(i)) for i)
fn longer(c: f64[k], x: f64) -> f64[?] = concat(c, [x * x])
fn f(c: f64[k], x: f64) -> f64 = {body}
""",
        [2, np.array([0.4, 0.8]), 0.3],
    )
