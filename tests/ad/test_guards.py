"""Zeros and derivatives that are not finite: 0 times anything is 0, where c is 0 in c · d."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.interpret.derivatives import Differentiable
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Block, For, Prim, Program, poly
from dlang.ir.builder import Builder
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import free_vars, walk
from dlang.ir.types import I64
from dlang.ops.primitives import GUARDS
from dlang.pipeline import optimise
from tests.ad.extremes import differing
from tests.ad.four_ways import compiled
from tests.specialize.support import lowered

INF, NAN = np.inf, np.nan
ZERO_FIRST = np.array([0.0, 4.0, 9.0])

# The text of `f`, its sizes and arguments, and its gradient.
ZEROS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "the arm that was not taken": (
        "fn f(x: f64[n]) -> f64 = sum(where(x > 0.0, sqrt(x), 0.0))",
        [3, ZERO_FIRST],
        [[0.0, 0.25, 1 / 6]],
    ),
    "an arm over several passes": (
        "fn f(x: f64[n]) -> f64 { let r = sqrt(x); let t = sum(r[1..]); sum(where(x > 0.0, r * t, 1.0)) }",
        [3, ZERO_FIRST],
        [[0.0, 2.5, 5 / 3]],
    ),
    "a branch for each element": (
        "fn f(x: f64[n]) -> f64 = sum(if v > 0.0 { log(v) } else { 0.0 } for v in x)",
        [3, ZERO_FIRST],
        [[0.0, 0.25, 1 / 9]],
    ),
    "data that is missing": (
        "fn f(w: f64[n], x: f64[n]) -> f64 = sum(where(x == x, w * x, 0.0))",
        [3, np.array([1.0, 2.0, 3.0]), np.array([NAN, 2.0, 5.0])],
        [[0.0, 2.0, 5.0], [0.0, 2.0, 3.0]],
    ),
    "a sine of infinity": (
        "fn f(x: f64[n]) -> f64 = sum(where(x < 10.0, sin(x), 0.0))",
        [2, np.array([INF, 0.0])],
        [[0.0, 1.0]],
    ),
    "an overflow": (
        "fn f(x: f64) -> f64 = where(x > 30.0, x, log(1.0 + exp(x)) * exp(x))",
        [1000.0],
        [1.0],
    ),
    "a pair of which one is used": (
        (
            "fn both(x: f64, y: f64) -> (f64, f64) = (sqrt(x) * y, x + y)\n"
            "fn f(x: f64, y: f64) -> f64 { let (a, b) = vjp(both, x, y).1((0.0, 1.0)); a * x + 2.0 * b * y }"
        ),
        [0.0, 3.0],
        [1.0, 2.0],
    ),
    "an element that is overwritten": (
        "fn f(x: f64[n]) -> f64 { var r = sqrt(x); r[0] = 1.0; sum(r) }",
        [3, ZERO_FIRST],
        [[0.0, 0.25, 1 / 6]],
    ),
    "an element that no sum has": (
        "fn f(x: f64[n]) -> f64 { let r = sqrt(x); sum(r[n - 1 - j] for i < n, j < i) }",
        [3, ZERO_FIRST],
        [[0.0, 0.25, 1 / 3]],
    ),
    "the lesser of two": (
        "fn f(x: f64[n]) -> f64 = sum(maximum(sqrt(x), 1.0))",
        [3, ZERO_FIRST],
        [[0.0, 0.25, 1 / 6]],
    ),
    "the maximum of an array": ("fn f(x: f64[n]) -> f64 = max(sqrt(x))", [3, ZERO_FIRST], [[0.0, 0.0, 1 / 6]]),
    "a slope that is multiplied with what is 0 there": (
        "fn f(x: f64, y: f64) -> f64 = grad(|a: f64| y * sqrt(a))(x)",
        [4.0, 0.0],
        [0.0, 0.25],
    ),
    "a state that starts as a constant": (
        "fn f(x: f64[n]) -> f64 { var s = 0.0; for v in x { s = s * v + (if v < 5.0 { v } else { 0.0 }) }; s + x[0] }",
        [2, np.array([1.0, 2.0])],
        [[3.0, 2.0]],
    ),
}
# The same, where a zero comes from the side of the result: forward mode gets there with an infinite tangent.
FLAT: dict[str, tuple[str, list[Any], list[Any]]] = {
    "a sigmoid that is flat there": (
        "fn f(x: f64[n]) -> f64 = sum(1.0 / (1.0 + exp(-x)))",
        [3, np.array([-800.0, 0.0, 800.0])],
        [[0.0, 0.25, 0.0]],
    ),
    "a mask of numbers": (
        "fn f(mask: f64[n], x: f64[n]) -> f64 = sum(mask * sqrt(x))",
        [3, np.array([0.0, 1.0, 2.0]), ZERO_FIRST],
        [[0.0, 2.0, 3.0], [0.0, 0.25, 1 / 3]],
    ),
    "zero times a root": ("fn f(x: f64) -> f64 = 0.0 * sqrt(x)", [0.0], [0.0]),
    "a quotient that is flat there": ("fn f(x: f64) -> f64 = 1.0 / (1.0 + exp(800.0 - x))", [0.0], [0.0]),
    "a factor of zero around a loop": (
        "fn f(x: f64, k: f64) -> f64 { var y = sqrt(x); for _ < 3 { y = y * k }; y }",
        [0.0, 0.0],
        [0.0, 0.0],
    ),
    "a factor of zero in a loop": (
        "fn f(x: f64, k: f64) -> f64 { var y = 1.0; for _ < 3 { y = k * y * sqrt(x) + 1.0 }; y }",
        [0.0, 0.0],
        [0.0, 0.0],
    ),
    "factors that overflow together in a loop": (
        "fn f(x: f64, a: f64, b: f64, k: f64) -> f64 { var y = x; for _ < 1 { y = y * a * b }; y * k }",
        [1e-300, 1e200, 1e200, 0.0],
        [0.0, 0.0, 0.0, 1e100],
    ),
    "an overflow that is flat": (
        "fn f(x: f64, a: f64) -> f64 = tanh((x * a + 1.0) * a * a)",
        [0.0, 1e200],
        [0.0, 0.0],
    ),
}


@pytest.mark.parametrize("name", ZEROS)
def test_what_no_path_leads_to_is_zero_in_both_modes(name: str) -> None:
    text, args, expected = ZEROS[name]
    made = compiled(text)
    for found in (made.reverse(args), made.forward(args), made.reference(args)):
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-12)


@pytest.mark.parametrize("name", FLAT)
def test_a_cotangent_that_is_computed_as_zero_stays_zero(name: str) -> None:
    text, args, expected = FLAT[name]
    made = compiled(text)
    for found in (made.reverse(args), made.reference(args)):
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-12)


SEEDS = """
fn roots(x: f64[n]) -> f64 = sum(sqrt(x) * x[0])
fn along(x: f64[n], dx: f64[n]) -> f64 = jvp(roots, x, dx).1
fn whole(x: f64[n]) -> f64[n, n] = jacobian(|x: f64[n]| sqrt(x))(x)
fn rows(x: f64[n], g: f64[n]) -> f64[n] = vjp(|x: f64[n]| sqrt(x), x).1(g)
"""


def value(name: str, args: list[Any]) -> Any:
    made = lowered(SEEDS, name)
    (result,) = Interpreter(optimise(made.program, [made.entry.name], verify=True)).run(made.entry.name, args)
    return result


def test_a_direction_of_zero_follows_nothing() -> None:
    assert value("along", [3, np.array([1.0, 0.0, 4.0]), np.array([0.0, 0.0, 1.0])]) == 0.25


def test_a_seed_of_zero_follows_nothing() -> None:
    np.testing.assert_array_equal(value("rows", [2, np.array([0.0, 4.0]), np.array([0.0, 1.0])]), [0.0, 0.25])


def test_the_modes_differ_where_the_root_of_a_square_has_a_kink() -> None:
    """x · ẋ is 0 and then meets infinity; ȳ · 1 / (2 r) is infinite and then meets 0."""
    text = "fn root(x: f64) -> f64 = sqrt(x * x)\nfn f(x: f64) -> f64 = "
    assert np.isnan(compiled(text + "grad(root)(x)").value([0.0]))
    assert compiled(text + "jvp(root, x, 1.0).1").value([0.0]) == 0.0


def test_the_rows_of_a_jacobian_have_seeds_of_their_own() -> None:
    found = value("whole", [2, np.array([0.0, 4.0])])
    np.testing.assert_array_equal(found, [[INF, 0.0], [0.0, 0.25]])


# ---- what is guarded -------------------------------------------------------------------------------------------------
PLAIN = """
fn steps(p: f64, x: f64, n: i64) -> f64 { var y = x; for _ < n { y = p * y * (1.0 - y) }; y }
fn logistic(p: f64, x: f64, n: i64) -> f64 = grad(steps)(p, x, n)
fn along(p: f64, x: f64, n: i64) -> f64 = jvp(|p: f64| steps(p, x, n), p, 1.0).1
fn loss(w: f64[n, m], x: f64[k, n], y: f64[k, m]) -> f64 = mean((tanh(x @ w) - y) ** 2.0)
fn layer(w: f64[n, m], x: f64[k, n], y: f64[k, m]) -> f64[n, m] = grad(loss)(w, x, y)
fn bump(w: f64[n], x: f64[n]) -> f64 = sum(sin(tanh(w * x) - erf(x)) * w)
fn bumps(w: f64[n], x: f64[n]) -> f64[n] = grad(bump)(w, x)
fn bell(w: f64[n], x: f64[n]) -> f64 = sum(sin(erf(v * u)) * cos(exp(-0.5 * v * v)) for v in w, u in x)
fn bells(w: f64[n], x: f64[n]) -> f64[n] = grad(bell)(w, x)
fn entropy(x: f64[n]) -> f64 { let p = exp(x - max(x)); let q = p / sum(p); -sum(q * log(q)) }
fn slope(x: f64[n]) -> f64[n] = grad(entropy)(x)
fn masked(x: f64[n]) -> f64[n] = grad(|x: f64[n]| sum(where(x > 0.0, sqrt(x) * x, 0.0)))(x)
"""


SINGULAR = {
    "a root": "where(x > 0.0, sqrt(x), x * x)",
    "a product of two": "where(x > 0.0, log(x) * sqrt(x), x * x)",
    "a quotient and a composition": "where(x > 0.0, x ** 0.3 * log(x) / sqrt(x) + exp(sqrt(x)), x * x)",
    "elements": "sum(where(y > 0.0, sqrt(y) * log(y), y * y) for y in [x, x]) / 2.0",
    "a loop": "{\n var s = 0.0\n for i < 3 { s += where(x > 0.0, sqrt(x) * log(x) * s, x * x) }\n s / 3.0\n}",
    "a pole": "where(x < 0.5, x * x, lgamma(x - 0.5) * sqrt(x) + asin(x * 3.0))",
    "a branch": "if x > 0.0 { sqrt(x) } else { x * x }",
}
BOTH = """
fn f(x: f64) -> f64 = BODY
fn seconds(x: f64) -> (f64, f64, f64, f64) = (
  jvp(grad(f), x, 1.0).1, grad(grad(f))(x), jvp(|y: f64| jvp(f, y, 1.0).1, x, 1.0).1, grad(|y: f64| jvp(f, y, 1.0).1)(x)
)
fn thirds(x: f64) -> (f64, f64) = (grad(grad(grad(f)))(x), jvp(grad(|y: f64| jvp(f, y, 1.0).1), x, 1.0).1)
"""


@pytest.mark.parametrize("name", SINGULAR)
def test_an_arm_that_was_not_taken_has_no_part_in_second_derivatives(name: str) -> None:
    """In all combinations of modes, compiled and by the reference: forward or reverse, over forward or reverse."""
    text = BOTH.replace("BODY", SINGULAR[name])
    for function, wanted in (("seconds", [2.0] * 4), ("thirds", [0.0] * 2)):
        made = lowered(text, function)
        program = optimise(made.program, [made.entry.name])
        for x in (-1.5, 0.0):
            for found in (Interpreter(program), Interpreter(made.program, algebra=Differentiable())):
                np.testing.assert_allclose(found.run(made.entry.name, [x]), wanted, rtol=1e-14)


@pytest.mark.parametrize("x", [4.0, 9.0])
def test_a_zero_that_is_computed_does_not_end_a_further_derivative(x: float) -> None:
    """Of y √x and y sin(y) √x at y = 0, where the cotangent of √x is 0 and changes with y."""
    text = """
    fn f(x: f64, y: f64) -> f64 = where(x > 0.0, y * sqrt(x), 0.0)
    fn g(x: f64, y: f64) -> f64 = where(x > 0.0, y * sin(y) * sqrt(x), 0.0)
    fn slopes(x: f64, y: f64) -> (f64, f64, f64) = (
      grad(|y: f64| grad(f)(x, y))(y), jvp(|y: f64| grad(grad(f))(x, y), y, 1.0).1,
      grad(|y: f64| grad(|y: f64| grad(grad(g))(x, y))(y))(y)
    )
    """
    made = lowered(text, "slopes")
    program = optimise(made.program, [made.entry.name])
    found = Interpreter(program).run(made.entry.name, [x, 0.0])
    np.testing.assert_allclose(found, [0.5 * x**-0.5, -0.25 * x**-1.5, 2 * -0.25 * x**-1.5], rtol=1e-14)


def loops(block: Block) -> list[For]:
    return [let.op for let in walk(block) if isinstance(let.op, For)]


def guarded(block: Block) -> int:
    return sum(isinstance(let.op, Prim) and let.op.name in GUARDS for let in walk(block))


@pytest.mark.parametrize(("name", "expected"), [("layer", 0), ("bumps", 0), ("bells", 0), ("slope", 4), ("masked", 3)])
def test_what_may_be_infinite_or_chosen_is_guarded(name: str, expected: int) -> None:
    made = lowered(PLAIN, name)
    program = optimise(made.program, [made.entry.name])
    assert sum(guarded(f.body) for f in program.functions.values()) == expected


def chain(loop: For, k: int) -> int:
    """How many operations an iteration does one after another, on a scalar of the state, for its next value."""
    depth = {loop.params[k]: 0}
    for let in loop.body.lets:
        before = [depth[v] for v in free_vars(let.op) if v in depth]
        if before:
            depth[let.vars[0]] = max(before) + 1
    return depth[loop.body.results[k]]


@pytest.mark.parametrize(("name", "k", "operations"), [("logistic", 0, 1), ("along", 1, 2)])
def test_the_derivative_of_a_loop_waits_for_one_product_in_a_iteration(name: str, k: int, operations: int) -> None:
    """x̄ · (p · (1 - x) - p · x), where the factor waits for nothing. Where that is not finite a loop has its guards."""
    made = lowered(PLAIN, name)
    program = optimise(made.program, [made.entry.name])
    *_, quick, slow = loops(program.functions[made.entry.name].body)
    assert guarded(quick.body) == 0 and chain(quick, k) == operations
    assert guarded(slow.body) > 0


def test_only_what_grows_is_not_bounded() -> None:
    """A state that is added to itself may overflow, one that is replaced may not."""
    text = """
    fn f(x: f64, w: f64[n], a: f64) -> f64 { var s = x; for v in w { s = STEP }; tanh(a * s) }
    fn g(x: f64, w: f64[n], a: f64) -> f64 = grad(f, wrt = a)(x, w, a)
    """
    for step, expected in (("v", 0), ("tanh(s) + v", 0), ("s + s", 1), ("s * s", 1)):
        made = lowered(text.replace("STEP", step), "g")
        program = optimise(made.program, [made.entry.name])
        assert sum(guarded(f.body) for f in program.functions.values()) == expected, step


@pytest.mark.parametrize("seed", range(24))
def test_what_is_left_out_changes_nothing_where_numbers_are_extreme(seed: int) -> None:
    with np.errstate(all="ignore"):
        assert differing(seed, 10) is None


def test_a_sum_into_rows_that_are_computed_keeps_its_guards() -> None:
    text = "fn f(m: f64[n, k], j: i64) -> f64 = sin(sum(sqrt(m[j % n, 0]) for i < n + k, l in i..n + k))"
    made = compiled(text)
    args = [2, 3, np.array([[2.0, 1.0, 1.0], [4.0, 1.0, 1.0]]), 1]
    np.testing.assert_allclose(made.reverse(args)[0], made.reference(args)[0], rtol=1e-12)


# ---- products of arrays that are there before a derivative is taken --------------------------------------------------
def test_a_product_of_arrays_is_guarded_element_by_element() -> None:
    """Where the cotangent, or the tangent, of an element is 0 the other factor does not matter."""
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    x, w = b.param("x", Array("f64", (poly(n), poly(m)))), b.param("w", Array("f64", (poly(m),)))
    product = b.function("product", [b.contract(x, w, (0, 1), (1,), (0,))])
    made = {product.name: product}

    b = Builder(made)
    params = b.params = list(refresh_vars(product.params, {}))
    g = b.param("g", Array("f64", (poly(params[0]),)))
    made["reverse"] = b.function("reverse", b.vjp("product", params[:4], [2, 3], [g]))

    b = Builder(made)
    params = b.params = list(refresh_vars(product.params, {}))
    dw = b.param("dw", params[3].type)
    made["forward"] = b.function("forward", b.jvp("product", params[:4], [None, None, None, dw]))

    interpreter = Interpreter(optimise(Program(made), ["reverse", "forward"], verify=True))
    x0, w0 = np.array([[1.0, INF], [2.0, 3.0]]), np.array([0.5, NAN])
    _, of_x, of_w = interpreter.run("reverse", [2, 2, x0, w0, np.array([0.0, 1.0])])
    np.testing.assert_array_equal(of_x, [[0.0, 0.0], [0.5, NAN]])
    np.testing.assert_array_equal(of_w, [2.0, 3.0])
    _, along = interpreter.run("forward", [2, 2, x0, w0, np.array([1.0, 0.0])])
    np.testing.assert_array_equal(along, [1.0, 2.0])
