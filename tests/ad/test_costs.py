"""What derivatives must not do: work for what is not used, sums of zeros, the primal once for each row, memory."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ad.residuals import Residuals, written
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Prim, Program
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.meaning import meaning
from tests.specialize.support import lowered


@cache
def program(text: str, name: str) -> tuple[Program, str]:
    made = lowered(text, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def run(text: str, name: str, args: Sequence[Any]) -> Interpreter:
    """The interpreter after a run, with its counts."""
    p, entry = program(text, name)
    interpreter = Interpreter(p)
    interpreter.run(entry, list(args))
    return interpreter


def result(text: str, name: str, args: Sequence[Any]) -> Any:
    """The only result of a run."""
    p, entry = program(text, name)
    (found,) = Interpreter(p).run(entry, list(args))
    return found


# ---- no work for what is not used ------------------------------------------------------------------------------------
UNUSED = """
fn both(x: f64[n]) -> (f64, f64) = (sum(x * x), sum(exp(sin(cos(x)))))
fn first(x: f64[n]) -> f64[n] = grad(|y: f64[n]| both(y).0)(x)
fn direct(x: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(y * y))(x)
fn stopped(x: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(y * y) + stop_gradient(sum(y)))(x)
fn pulled(x: f64[n], g: f64) -> f64[n] = vjp(both, x).1((g, 0.0))
"""


def test_an_output_that_is_not_used_costs_nothing() -> None:
    x = np.linspace(0.1, 1.0, 50)
    assert run(UNUSED, "first", [50, x]).operations == run(UNUSED, "direct", [50, x]).operations
    assert run(UNUSED, "stopped", [50, x]).operations == run(UNUSED, "direct", [50, x]).operations


WHICH = """
fn f(x: f64[n], y: f64[n, n]) -> f64 = sum(sin(x[i]) * y[i, j] for i < n, j < n)
fn of_x(x: f64[n], y: f64[n, n]) -> f64[n] = grad(f, wrt = x)(x, y)
fn of_both(x: f64[n], y: f64[n, n]) -> (f64[n], f64[n, n]) = grad(f, wrt = (x, y))(x, y)
"""


def test_a_parameter_that_is_not_asked_for_costs_nothing() -> None:
    args = [20, np.linspace(0.1, 1.0, 20), np.ones((20, 20))]
    assert run(WHICH, "of_x", args).operations < 0.7 * run(WHICH, "of_both", args).operations


# ---- zeros are not made ----------------------------------------------------------------------------------------------
ZEROS = """
fn one(x: f64[n], m: i64) -> f64 {
  var s = 0.0
  for k < m { s += sin(x[k % 7]) }
  s
}
fn slope(x: f64[n], m: i64) -> f64[n] = grad(one)(x, m)
fn early(x: f64[n, n], m: i64) -> f64 {
  var s = 0.1
  for k < m { if k == 3 { s = s + sum(x * x) } else { s = sin(s) + x[0, 0] } }
  s
}
fn slope_of_early(x: f64[n, n], m: i64) -> f64[n, n] = grad(early)(x, m)
"""


def test_reads_of_single_elements_add_to_single_elements() -> None:
    """The cotangent of x is made once: an iteration costs the same however long x is."""
    per_iteration = []
    for n in (10, 1000):
        few, many = (run(ZEROS, "slope", [n, np.ones(n), m]).operations for m in (10, 110))
        per_iteration.append((many - few) / 100)
    assert per_iteration[0] == per_iteration[1] <= 20


def test_an_arm_that_is_not_taken_makes_no_zeros() -> None:
    few, many = (run(ZEROS, "slope_of_early", [30, np.full((30, 30), 0.1), m]).operations for m in (10, 110))
    assert (many - few) / 100 <= 25


GATHERS = """
fn f(x: f64[n], y: f64[p], k: i64[p]) -> f64 = sum(y[i] * {product} for i)
fn slope(x: f64[n], y: f64[p], k: i64[p]) -> f64[n] = grad(f, wrt = x)(x, y, k)
fn along(x: f64[n], y: f64[p], k: i64[p], v: f64[n]) -> f64 = jvp(|z: f64[n]| f(z, y, k), x, v).1
"""


def test_reads_of_one_array_share_what_their_gradients_compute() -> None:
    """Each read at an index of its own adds to the array, and what all of them need is computed once."""
    rng = np.random.default_rng(0)
    n, p = 40, 30
    x, y, k = rng.uniform(0.5, 1.0, n), rng.uniform(size=p), rng.integers(0, n, p)
    ratios, sizes = [], []
    for reads in (2, 4, 8, 16):
        text = GATHERS.replace("{product}", " * ".join(f"sin(x[(k[i] + {j}) % n])" for j in range(reads)))
        value, slope = (run(text, name, [n, p, x, y, k]) for name in ("f", "slope"))
        ratios.append(slope.operations / value.operations)
        sizes.append(sum(len(list(walk(f.body))) for f in program(text, "slope")[0].functions.values()))
        v = rng.uniform(size=n)
        found, along = result(text, "slope", [n, p, x, y, k]), result(text, "along", [n, p, x, y, k, v])
        assert np.isclose(v @ found, along, rtol=1e-12)
        above, below = (result(text, "f", [n, p, x + h * v, y, k]) for h in (1e-6, -1e-6))
        assert np.isclose((above - below) / 2e-6, along, rtol=1e-6, atol=1e-9)
    assert max(ratios) <= 6, ratios
    assert sizes[-1] <= 2.2 * sizes[-2], sizes


ROWS = {
    "a row that is divided by its sum": "{ let e = exp(v[i]); e / sum(e) }",
    "elements that a loop changes": "{ var e = v[i]; for k < SIZE { e[k] *= exp(v[i, 0] * f64(k)) }; e / sum(e) }",
    "elements that are set": "{ let e = sin(sum(v[i])); var o = zeros(SIZE); for k < SIZE { o[k] = v[i, k] * e }; o }",
}


@pytest.mark.parametrize("size", [3, 6])
@pytest.mark.parametrize("name", ROWS)
def test_what_elements_of_a_short_row_share_is_differentiated_once(name: str, size: int) -> None:
    body = ROWS[name].replace("SIZE", str(size))
    text = f"""
fn f(v: f64[n, {size}]) -> f64[n, {size}] = [{body} for i < n]
fn slope(v: f64[n, {size}], c: f64[n, {size}]) -> f64[n, {size}] = vjp(f, v).1(c)
fn along(v: f64[n, {size}], d: f64[n, {size}]) -> f64[n, {size}] = jvp(f, v, d).1
"""
    rng = np.random.default_rng(0)
    v, c, d = (rng.uniform(0.5, 1.5, (20, size)) for _ in range(3))
    value, slope = run(text, "f", [20, v]), run(text, "slope", [20, v, c])
    assert slope.operations / (value.operations + v.size) < 3.5
    found, along = result(text, "slope", [20, v, c]), result(text, "along", [20, v, d])
    assert np.isclose(np.sum(d * found), np.sum(c * along), rtol=1e-12)
    above, below = (result(text, "f", [20, v + h * d]) for h in (1e-6, -1e-6))
    assert np.allclose((above - below) / 2e-6, along, rtol=1e-6, atol=1e-8)


PAIRS = {
    "below": "for i < n { for j in i + 1..n { BODY } }",
    "above": "for i < n { for j in 0..i { BODY } }",
    "near": "for i < n { for j in i..minimum(i + 3, n) { BODY } }",
}
OF_PAIR = "let d = r[i] - r[j]; let s = sum(d * d); e += sin(s) * exp(-s) * tanh(s)"


@pytest.mark.parametrize("name", PAIRS)
def test_what_pairs_of_rows_add_to_shares_what_it_takes_to_compute(name: str) -> None:
    """A pair's functions are computed once, though each of the three numbers of both rows gets a part."""
    loops = PAIRS[name].replace("BODY", OF_PAIR)
    text = f"fn f(r: f64[n, 3]) -> f64 {{ var e = 0.0; {loops}; e }}\nfn g(r: f64[n, 3]) -> f64[n, 3] = grad(f)(r)\n"
    made, _ = program(text, "g")
    heavy = [let for f in made.functions.values() for let in walk(f.body) if isinstance(let.op, Prim)]
    assert sum(let.op.name == "exp" for let in heavy if isinstance(let.op, Prim)) == 1
    x = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(
        result(text, "g", [7, x]), meaning(dlang.compile(text, backend="interp").g, x), rtol=1e-9, atol=1e-12
    )


# ---- matrices of derivatives share the primal ------------------------------------------------------------------------
JACOBIAN = """
fn f(x: f64[n], a: f64[m]) -> f64[m] {
  let shared = sum(exp(sin(x[i] * x[j])) for i < n, j < n)
  [shared * x[k % n] + a[k] for k < m]
}
fn all(x: f64[n], a: f64[m]) -> f64[m, n] = jacobian(f)(x, a)
"""


def test_the_rows_of_a_jacobian_share_the_value() -> None:
    """The shared sum has n² terms, which do not come again with every row; a row has n elements."""
    n = 12
    x = np.linspace(0.1, 1.0, n)
    few, many = (run(JACOBIAN, "all", [n, m, x, np.ones(m)]).operations for m in (30, 130))
    assert (many - few) / 100 <= 40 * n < run(JACOBIAN, "f", [n, 1, x, np.ones(1)]).operations


# ---- long loops ------------------------------------------------------------------------------------------------------
LONG = """
fn f(x: f64, n: i64) -> f64 {
  var s = x
  for k < n { s = 0.999 * sin(s) + 1e-6 * x }
  s
}
fn slope(x: f64, n: i64) -> f64 = grad(f)(x, n)
fn down(x: f64, n: i64) -> f64 = if n == 0 { x } else { down(0.999 * sin(x) + 1e-6, n - 1) }
fn slope_of_down(x: f64, n: i64) -> f64 = grad(down)(x, n)
fn power(x: f64, n: i64) -> f64 {
  var acc = 1.0
  for k < n { acc = acc * x }
  acc
}
fn slope_of_power(x: f64, n: i64) -> f64 = grad(power)(x, n)
"""


@pytest.mark.plain_code
@pytest.mark.parametrize("name", ["slope", "slope_of_down"])
def test_a_million_iterations_take_a_number_or_two_each(name: str) -> None:
    p, entry = program(LONG, name)
    compiled = Engine(Host(io.StringIO())).compile(p, [entry])
    (found,) = compiled.run(entry, [0.7, 1_000_000])
    context = compiled.engine.contexts[-1]
    assert np.isfinite(found) and context.taken + context.peak <= (80 if name == "slope_of_down" else 20) * 1_000_000


@pytest.mark.plain_code
def test_the_gradient_of_a_million_multiplications_by_one_is_a_million() -> None:
    p, entry = program(LONG, "slope_of_power")
    compiled = Engine(Host(io.StringIO())).compile(p, [entry])
    assert compiled.run(entry, [1.0, 1_000_000])[0] == 1_000_000.0
    context = compiled.engine.contexts[-1]
    assert context.taken + context.peak <= 10 * 1_000_000


# ---- what is saved ---------------------------------------------------------------------------------------------------
SAVED = """
fn f(w: f64[m, m], xs: f64[n, m]) -> f64 {
  var h = zeros(m)
  for t < n { h = tanh(w @ h + xs[t]) }
  sum(h)
}
fn slope(w: f64[m, m], xs: f64[n, m]) -> f64[m, m] = grad(f)(w, xs)
fn again(w: f64[m, m], xs: f64[n, m]) -> f64[m, m] = grad(|v: f64[m, m]| checkpoint(f)(v, xs))(w)
fn until(x: f64) -> f64 {
  var y = x
  while y * y > 2.0 { y = 0.5 * sin(y) * (y + 2.0 / y) }
  y
}
fn slope_of_until(x: f64) -> f64 = grad(until)(x)
fn cubed(x: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(exp(y) * sin(y)))(x)
"""


def saved(name: str) -> list[str]:
    found: list[Residuals] = []
    made = lowered(SAVED, name)
    optimise(made.program, [made.entry.name], residuals=found)
    return [line for s in found for line in written(s).splitlines()]


def test_what_a_loop_saves_is_reported_for_each_iteration_and_in_all() -> None:
    head, loop, once, whole = saved("slope")
    assert head == "# the derivative of test.f(n.0: i64, n.1: i64, w.2: f64[n.0, n.0], xs.3: f64[n.1, n.0]) saves"
    assert loop.startswith("#   8*n.0 bytes in each of n.1 iterations of a loop  # test.dl:4:3")
    assert once == "#   8*n.0 bytes outside of loops"  # the state before the first iteration
    assert whole == "#   8*n.0*n.1 + 8*n.0 bytes in all"


def test_a_checkpoint_is_reported_by_segments() -> None:
    lines = saved("again")
    assert any("8*n.0 bytes in each of segments" in line for line in lines), lines
    assert any("where a loop runs again" in line for line in lines), lines


def test_a_loop_of_unknown_length_is_reported_by_nodes() -> None:
    assert any("bytes in a node for each iteration of a loop" in line for line in saved("slope_of_until"))


def test_the_product_of_a_chain_saves_no_more_than_its_factors() -> None:
    assert saved("cubed")[-1] == "#   16*n.0 bytes in all"


# ---- what does not change in a loop ----------------------------------------------------------------------------------
INVARIANT = """
fn f(w: f64[m, m], x: f64[m], n: i64) -> f64 {
  var h = x
  for t < n { h = tanh(exp(w) @ h) }
  sum(h)
}
fn slope(w: f64[m, m], x: f64[m], n: i64) -> f64[m, m] = grad(f)(w, x, n)
"""


def test_what_does_not_change_in_a_loop_is_differentiated_once() -> None:
    args = [[4, np.full((4, 4), 0.1), np.ones(4), n] for n in (10, 110)]
    few, many = (run(INVARIANT, "slope", a).counts["Prim"] for a in args)
    assert (many - few) / 100 <= 40  # of vectors of four; the exponentials of 16 elements are outside
