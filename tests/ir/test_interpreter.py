"""The interpreter against NumPy, on programs made with the builder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Block, Function, Program, Reduce, Scalar, Token, Var, fresh, poly
from dlang.ir.builder import Builder, axis, boolean, f64, i64, text
from dlang.ir.errors import IRError
from dlang.ir.verify import verify
from tests.ir.interpreting import I64, RNG, F, interpreter, matrix, run, vector


# ---- branches, checks, calls -----------------------------------------------------------------------------------------
def test_an_arm_is_evaluated_only_at_the_points_that_take_it() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)

    def element(i: Var) -> Any:
        v = b.read(x, [i])
        positive = b.prim("gt", v, f64(0))

        def checked() -> Any:
            b.check(b.prim("gt", v, f64(0)), "E0701", ["not positive"])
            return b.prim("log", v)

        return b.if_(positive, checked, lambda: f64(0))[0]

    it = interpreter(b, b.map([n], element))
    p = np.array([1.0, -1, 2, -2, 3])
    np.testing.assert_allclose(it.run("f", [5, p])[0], np.where(p > 0, np.log(np.abs(p)), 0))
    assert it.counts["Prim"] == 5 + 2 * 3


def test_arms_that_give_arrays_of_several_sizes_are_joined_point_by_point() -> None:
    b = Builder()
    n = b.param("n", I64)

    def element(i: Var) -> Any:
        small = b.prim("lt", i, i64(2))

        def arm(size: Any, value: float) -> Any:
            k = b.size(size)
            return k, b.map([k], lambda j: b.add(b.cast("f64", j), f64(value)))

        k, array = b.if_(small, lambda: arm(poly(i) + 1, 10), lambda: arm(2, 20))
        return b.reduce([k], lambda j: b.read(array, [j]))

    np.testing.assert_array_equal(run(b, [4], b.map([n], element))[0], [10, 21, 41, 41])


def test_the_first_failing_point_is_reported_though_a_later_one_fails_at_an_earlier_operation() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)

    def good(i: Var, j: Var) -> Var:
        v = b.read(x, [i])
        b.check(b.prim("lt", v, f64(5)), "E0701", ["", "", " at ", "", ""], [v, i])
        b.check(b.prim("ge", v, f64(0)), "E0702", ["", ".2f", " at ", "", ", ", "", ""], [v, i, j])
        return v

    y = b.map([n, 2], good)
    with pytest.raises(RunError) as caught:
        run(b, [4, np.array([1.0, -1, 7, -3])], y)
    assert (caught.value.code, caught.value.message) == ("E0702", "-1.00 at 1, 0")


def test_a_refusal_tells_the_calls_that_led_there() -> None:
    g = Builder()
    v = g.param("v", F)
    (w,) = g.check(g.prim("gt", v, f64(0)), "E0701", ["", "", " is not positive"], [v], [v])
    callee = g.function("g", [w], label="positive")
    b = Builder({"g": callee})
    n = b.param("n", I64)
    x = vector(b, "x", n)
    y = b.map([n], lambda i: b.call("g", b.read(x, [i]))[0])
    with pytest.raises(RunError) as caught:
        run(b, [2, np.array([1.0, -2.0])], y, g=callee)
    assert caught.value.message == "-2.0 is not positive"
    assert [label for label, _ in caught.value.stack] == ["positive"]
    assert caught.value.diagnostic().code == "E0701"


def count_down() -> Function:
    """g(n) = 0 if n = 0 else g(n - 1) + 1"""
    n, r = fresh("n", I64), fresh("r", I64)
    stub = Function("g", (n,), (r,), Block((), ()))
    b = Builder({"g": stub})
    n = b.param("n", I64)
    (r,) = b.if_(b.prim("eq", n, i64(0)), lambda: i64(0), lambda: b.add(b.call("g", b.sub(n, i64(1)))[0], i64(1)))
    return b.function("g", [r])


def test_recursion_goes_100_000_calls_deep() -> None:
    program = Program({"g": count_down()})
    verify(program)
    assert Interpreter(program).run("g", [100_000]) == [100_000]


def test_endless_recursion_is_a_refusal_with_a_code() -> None:
    with pytest.raises(RunError, match="E0805"):
        Interpreter(Program({"g": count_down()}), depth=1_000).run("g", [-1])


def test_a_recursive_call_in_a_comprehension_is_evaluated_at_every_point() -> None:
    g = count_down()
    b = Builder({"g": g})
    n = b.param("n", I64)
    y = b.map([n], lambda i: b.call("g", i)[0])
    np.testing.assert_array_equal(run(b, [5], y, g=g)[0], np.arange(5))


# ---- loops -----------------------------------------------------------------------------------------------------------
def running_sum(b: Builder, x: Var, n: Any) -> Var:
    (y,) = b.for_(1, n, [x], lambda i, s: b.update(s, [i], b.add(b.read(s, [poly(i) - 1]), b.read(s, [i]))))
    return y


def test_a_loop_of_updates_leaves_its_first_array_as_it_was() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)
    y = running_sum(b, x, n)
    p = RNG.normal(size=50)
    given = p.copy()
    it = interpreter(b, y, x)
    after, before = it.run("f", [50, given])
    np.testing.assert_allclose(after, np.cumsum(p), rtol=1e-13)
    np.testing.assert_array_equal(before, p)
    assert it.operations == 4 * 49


def test_old_and_new_versions_of_an_updated_array_can_be_read_in_turns() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)
    y = b.update(x, [0], f64(1))
    z = b.update(y, [0], f64(2))
    w = b.update(y, [1], f64(3))
    reads = [b.read(a, [k]) for a in (z, x, y, w, z, y) for k in (0, 1)]
    assert run(b, [2, np.zeros(2)], *reads) == [2, 0, 0, 0, 1, 0, 1, 3, 2, 0, 1, 0]


def test_a_loop_that_adds_into_an_array_costs_the_elements_it_reaches() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)

    def body(i: Var, total: Var) -> Any:
        one = axis(poly(i) + 1, low=i)
        reached = Reduce((poly(n),), (poly(one.var),), "sum", total)
        return b.comp([one], lambda k: b.cast("f64", k), [reached])

    (y,) = b.for_(0, n, [x], body)
    it = interpreter(b, y, x)
    p = RNG.normal(size=1_000)
    after, before = it.run("f", [1_000, p])
    np.testing.assert_allclose(after, p + np.arange(1_000))
    np.testing.assert_array_equal(before, p)
    assert it.operations == 4 * 1_000


def test_an_element_that_is_set_in_place_costs_its_value_and_one() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)
    whole = b.empty("f64", [n])
    (y,) = b.comp([n], lambda k: b.read(x, [k]), lambda k: [Reduce((poly(n),), (poly(k),), "set", whole)])
    it = interpreter(b, y)
    np.testing.assert_array_equal(it.run("f", [100, np.ones(100)])[0], np.ones(100))
    assert it.operations == 2 * 100 and it.passes == 1 and it.allocated == 800


def test_what_was_never_written_is_no_number() -> None:
    b = Builder()
    n = b.param("n", I64)
    x, k = b.empty("f64", [n]), b.empty("i64", [n])
    found = run(b, [2], b.read(b.update(x, [0], f64(1.0)), [0]), b.read(x, [1]), b.read(k, [0]))
    assert found[0] == 1.0 and np.isnan(found[1]) and found[2] == 2**63 - 1


def test_a_loop_in_a_comprehension_runs_at_every_point() -> None:
    b = Builder()
    m, n = b.param("m", I64), b.param("n", I64)
    x = matrix(b, "x", m, n)

    def element(i: Var, j: Var) -> Var:
        row = b.view(x, [n], lambda k: [i, k])
        return b.read(running_sum(b, row, poly(n)), [j])

    p = RNG.normal(size=(3, 4))
    np.testing.assert_allclose(run(b, [3, 4, p], b.map([m, n], element))[0], np.cumsum(p, axis=1), rtol=1e-13)


def test_a_loop_ends_early_with_the_state_of_that_iteration() -> None:
    b = Builder()
    n = b.param("n", I64)

    def body(i: Var, s: Var) -> Any:
        t = b.add(s, i)
        return b.prim("lt", t, i64(10)), t

    (s,) = b.for_(0, n, [i64(0)], body, early=True)
    assert run(b, [100], s) == [10]
    assert run(b, [3], s) == [3]


def test_while_runs_as_long_as_its_condition_holds() -> None:
    b = Builder()
    x = b.param("x", I64)

    def collatz(v: Var, steps: Var) -> Any:
        even = b.prim("eq", b.prim("mod", v, i64(2)), i64(0))
        half = b.prim("floordiv", v, i64(2))
        return b.select(even, half, b.add(b.mul(v, i64(3)), i64(1))), b.add(steps, i64(1))

    v, steps = b.while_([x, i64(0)], lambda v, _: b.prim("ne", v, i64(1)), collatz)
    assert run(b, [27], v, steps) == [1, 111]


# ---- arrays ----------------------------------------------------------------------------------------------------------
def test_views_slice_transpose_reverse_and_take_diagonals() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = matrix(b, "x", n, n)
    out = [
        b.view(x, [poly(n) - 2, n], lambda i, j: [poly(i) + 1, j]),
        b.view(x, [n, n], lambda i, j: [j, i]),
        b.view(x, [n, n], lambda i, j: [poly(n) - 1 - i, j]),
        b.view(x, [n], lambda i: [i, i]),
        b.view(x, [2, n], lambda i, j: [j, 0]),
    ]
    p = RNG.normal(size=(4, 4))
    expected = [p[1:3], p.T, p[::-1], np.diag(p), np.tile(p[:, 0], (2, 1))]
    for value, wanted in zip(run(b, [4, p], *out), expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_reshape_concat_scan_compact_and_argsort_are_those_of_numpy() -> None:
    b = Builder()
    m, n = b.param("m", I64), b.param("n", I64)
    x, v = matrix(b, "x", m, n), vector(b, "v", n)
    flat = b.reshape(x, [poly(m) * n])
    twice = b.concat(x, x)
    sums, products = b.scan("sum", v), b.scan("prod", v)
    mask = b.map([n], lambda i: b.prim("gt", b.read(v, [i]), f64(0)))
    k, positions = b.compact(mask)
    kept = b.map([k], lambda i: b.read(v, [b.read(positions, [i])]))
    order = b.library("argsort", v)
    p, q = RNG.normal(size=(2, 5)), np.array([0.5, -1, np.nan, 2, 0.5])
    results = run(b, [2, 5, p, q], flat, twice, sums, products, k, kept, order)
    chosen = q[q > 0]
    expected = [p.ravel(), np.vstack([p, p]), np.cumsum(q), np.cumprod(q), 3, chosen, np.argsort(q, kind="stable")]
    for value, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_a_concat_and_a_reshape_in_a_comprehension_are_per_point() -> None:
    b = Builder()
    n = b.param("n", I64)

    def element(i: Var) -> Var:
        first = b.map([2], lambda j: b.add(i, j))
        pair = b.concat(first, b.copy(first))
        square = b.reshape(pair, [2, 2])
        return b.read(square, [1, 1])

    it = interpreter(b, b.map([n], element))
    np.testing.assert_array_equal(it.run("f", [3])[0], [1, 2, 3])
    assert it.copies == 3


# ---- scalars ---------------------------------------------------------------------------------------------------------
def scalar(dtype: str, primitive: str, *values: Any) -> Any:
    b = Builder()
    params = [b.param("x", Scalar(dtype)) for _ in values]
    return run(b, list(values), b.prim(primitive, *params))[0]


def test_dtypes_stay_exact_and_integers_wrap() -> None:
    third = scalar("f32", "div", 1, 3)
    assert third.dtype == np.float32 and third == np.float32(1) / np.float32(3)
    assert scalar("i8", "add", 127, 1) == -128
    assert scalar("u16", "sub", 0, 1) == 65535
    assert scalar("i64", "mul", 2**62, 4) == 0
    assert scalar("i64", "floordiv", -7, 2) == -4 and scalar("i64", "mod", -7, 2) == 1
    assert scalar("f16", "add", 2048, 1) == 2048
    assert scalar("bf16", "add", 256, 1) == 256
    assert scalar("i32", "pow", 3, 30) == np.array(3**30 & 0xFFFFFFFF, np.uint32).astype(np.int32)
    assert scalar("f64", "div", 1, 0) == np.inf


def test_a_sum_of_small_integers_wraps_in_its_own_dtype() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n, "i8")
    (total,) = run(b, [3, [100, 100, 100]], b.reduce([n], lambda i: b.read(x, [i])))
    assert total.dtype == np.int8 and total == 44


@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [
        ("f64", "i32", 1e20, 2**31 - 1),
        ("f64", "i64", -np.inf, -(2**63)),
        ("f64", "i64", 2.0**63, 2**63 - 1),
        ("f64", "u8", -3.5, 0),
        ("f32", "i8", np.nan, 0),
        ("f64", "i64", -2.9, -2),
        ("i64", "i8", 300, 44),
        ("i64", "bool", 2, True),
        ("bool", "f64", True, 1.0),
        ("f64", "bf16", 1.01, 1.0078125),
    ],
)
def test_conversions_truncate_saturate_and_wrap(source: str, target: str, value: Any, expected: Any) -> None:
    b = Builder()
    x = b.param("x", Scalar(source))
    assert run(b, [value], b.cast(target, x)) == [expected]


def test_guard_is_zero_where_the_cotangent_is_zero() -> None:
    assert scalar("f64", "zero_safe_mul", 0.0, np.inf) == 0
    assert scalar("f64", "zero_safe_mul", 2.0, np.inf) == np.inf
    assert scalar("f64", "zero_safe_mul_both", 0.0, np.inf) == scalar("f64", "zero_safe_mul_both", np.nan, 0.0) == 0


# ---- text and effects ------------------------------------------------------------------------------------------------
class Transcript:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def print(self, text: str) -> None:
        self.lines.append(text)

    def effect(self, name: str, static: Any, args: Any) -> list[Any]:
        self.lines.append(f"{name} {static} {args}")
        return [7]


def test_effects_happen_in_order_and_text_is_as_in_python() -> None:
    b = Builder()
    token = b.param("world", Token())
    n = b.param("n", I64)
    x = b.param("x", Scalar("f32"))
    a = vector(b, "a", n)
    parts = ["x = ", "", ", ", ".3f", ", ", "", ", ", "", ""]
    message = b.format(parts, x, x, boolean(True), a)
    (token,) = b.effect("print", token, [message])
    (token,) = b.for_(0, 2, [token], lambda i, t: b.effect("print", t, [b.format(["", "", ""], i)]))
    token, value = b.effect("io.ask", token, [text("how many?")], [I64], ["static"])
    program = Program({"f": b.function("f", [token, value])})
    verify(program)
    world = Transcript()
    assert Interpreter(program, world).run("f", [2, 0.1, [1.0, 2.5]]) == [7]
    assert world.lines == ["x = 0.1, 0.100, true, [1.  2.5]", "0", "1", "io.ask ('static',) ['how many?']"]


def test_strings_are_values_that_compare() -> None:
    b = Builder()
    s = b.param("s", Scalar("str"))
    n = b.param("n", I64)
    same = b.prim("eq", s, text("yes"))
    names = b.map([n], lambda i: b.select(b.prim("eq", i, i64(0)), s, text("other")))
    hits = b.map([n], lambda i: b.prim("eq", b.read(names, [i]), s))
    results = run(b, ["yes", 2], same, b.select(same, s, text("no")), names, hits)
    assert results[:2] == [True, "yes"]
    assert results[2].tolist() == ["yes", "other"] and results[3].tolist() == [True, False]


def test_an_unexpanded_derivative_is_an_internal_error_that_names_it() -> None:
    b = Builder({"g": count_down()})
    x = b.param("x", F)
    y = b.vjp("g", [i64(1)], [], [None])
    with pytest.raises(IRError, match="Vjp of g"):
        Interpreter(Program({"f": b.function("f", [x, *y]), "g": count_down()})).run("f", [1.0])
