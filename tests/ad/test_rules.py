"""The derivative of every primitive: against central differences, and at the points where care is needed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dlang.ad.rules import contribution
from dlang.ir.anf import Atom, Function, Lit, Prim, Program, Scalar
from dlang.ir.builder import Builder
from dlang.ir.traverse import walk
from dlang.ops.primitives import PRIMITIVES
from tests.ad.support import F64, I64, check_gradient, close, const, differentiated, expanded, program_of, pushed, run

# Where each argument is drawn from; (-2, 2) if nothing is said.
DOMAIN = {
    "log": [(0.2, 3.0)],
    "log1p": [(-0.8, 3.0)],
    "sqrt": [(0.2, 3.0)],
    "rsqrt": [(0.2, 3.0)],
    "asin": [(-0.9, 0.9)],
    "acos": [(-0.9, 0.9)],
    "tan": [(-1.0, 1.0)],
    "pow": [(0.2, 2.0), (-2.0, 2.0)],
    "div": [(-2.0, 2.0), (0.3, 2.0)],
    "mod": [(-2.0, 2.0), (0.7, 0.9)],
    "atan2": [(0.2, 2.0), (0.2, 2.0)],
    "zero_safe_mul": [(0.2, 2.0), (-2.0, 2.0)],
    "zero_safe_mul_both": [(0.2, 2.0), (-2.0, -0.2)],
}
SMOOTH = [name for name in PRIMITIVES if any(PRIMITIVES[name].derivative) and name not in ("select", "powi")]


def primitive(name: str) -> Function:
    b = Builder()
    args = [b.param("xyz"[k], F64) for k in range(PRIMITIVES[name].arity)]
    return b.function("f", [b.prim(name, *args)])


@pytest.mark.parametrize("name", SMOOTH)
def test_the_derivative_of_a_primitive_is_that_of_central_differences(name: str) -> None:
    rng = np.random.default_rng(1)
    arity = PRIMITIVES[name].arity
    for _ in range(3):
        args = [float(rng.uniform(*DOMAIN.get(name, [(-2.0, 2.0)] * arity)[k])) for k in range(arity)]
        check_gradient(primitive(name), list(range(arity)), args)


@pytest.mark.parametrize("x", [-1.5, 0.0, 2.0])
@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_an_integer_power_has_a_derivative_everywhere(x: float, k: int) -> None:
    b = Builder()
    base, exponent = b.param("x", F64), b.param("k", I64)
    f = b.function("f", [b.prim("powi", base, exponent)])
    check_gradient(f, [0], [x, k])


def gradient(f: Function, *args: float) -> list[float]:
    """The gradient by reverse mode, which forward mode gives one element at a time."""
    program = expanded(differentiated(program_of(f), "f", range(len(args))))
    found = [float(g) for g in run(program, "grad", args)[1:]]
    forward = expanded(pushed(program_of(f), "f", range(len(args))))
    units = np.eye(len(args)).tolist()
    assert [float(run(forward, "along", [*args, *unit])[1]) for unit in units] == pytest.approx(found, nan_ok=True)
    return found


@pytest.mark.parametrize(
    ("name", "args", "wanted"),
    [
        ("pow", (0.0, 2.0), (0.0, 0.0)),
        ("pow", (0.0, 1.0), (1.0, 0.0)),
        ("pow", (0.0, 0.0), (0.0, 0.0)),
        ("pow", (-2.0, 3.0), (12.0, math.nan)),
        ("abs", (0.0,), (0.0,)),
        ("maximum", (2.0, 2.0), (1.0, 0.0)),
        ("minimum", (2.0, 2.0), (1.0, 0.0)),
        ("sqrt", (0.0,), (math.inf,)),
        ("rsqrt", (0.0,), (-math.inf,)),
        ("rsqrt", (math.inf,), (0.0,)),
        ("mul", (0.0, 3.0), (3.0, 0.0)),
    ],
)
def test_kinks_and_singular_points(name: str, args: tuple[float, ...], wanted: tuple[float, ...]) -> None:
    assert gradient(primitive(name), *args) == pytest.approx(wanted, nan_ok=True)


def test_the_derivative_of_a_reciprocal_takes_no_second_quotient() -> None:
    b = Builder()
    x, r, g = (b.param(name, F64) for name in "xrg")
    change = contribution(b, "div", (const(1.0), x), r, 1, g)
    assert change is not None
    f = b.function("f", [change])
    assert "div" not in [let.op.name for let in walk(f.body) if isinstance(let.op, Prim)]
    assert run(program_of(f), "f", [0.5, 2.0, 3.0]) == [-12.0]


def test_a_branch_that_is_not_taken_contributes_nothing_though_its_derivative_is_infinite() -> None:
    b = Builder()
    x = b.param("x", F64)
    safe = b.select(b.prim("gt", x, const(0.0)), b.prim("sqrt", x), const(0.0))
    assert gradient(b.function("f", [safe]), 0.0) == [0.0]


def test_the_second_derivative_of_y_times_root_x_survives_a_zero_cotangent() -> None:
    b = Builder()
    x, y = b.param("x", F64), b.param("y", F64)
    f = b.function("f", [b.mul(y, b.prim("sqrt", x))])
    inner = differentiated(program_of(f), "f", [0], "slope")
    program = expanded(differentiated(inner, "slope", [1], "mixed", seeds=[None, 1.0]))
    close(run(program, "mixed", [4.0, 0.0])[-1], 0.25)


def test_a_conversion_to_an_integer_stops_the_derivative_and_one_between_floats_keeps_the_dtype() -> None:
    b = Builder()
    x = b.param("x", F64)
    truncated = b.cast("f64", b.cast("i64", x))
    f = b.function("f", [b.add(truncated, b.mul(x, x))])
    assert gradient(f, 2.5) == [5.0]
    b = Builder()
    half: Atom = b.param("x", Scalar("f16"))
    square = b.mul(b.cast("f64", half), b.cast("f64", half))
    f = b.function("f", [square])
    program = expanded(differentiated(program_of(f), "f", [0]))
    bar = program.functions["grad"].results[1]
    assert bar.type == Scalar("f16")
    assert float(run(program, "grad", [1.5])[1]) == 3.0


def test_stop_ends_the_derivative() -> None:
    b = Builder()
    x = b.param("x", F64)
    f = b.function("f", [b.mul(x, b.stop(x))])
    assert gradient(f, 3.0) == [3.0]


def test_an_argument_that_is_not_used_has_a_zero_cotangent_and_a_constant_no_work() -> None:
    b = Builder()
    b.param("x", F64)
    y = b.param("y", F64)
    assert gradient(b.function("f", [y]), 3.0, 4.0) == [0.0, 1.0]
    b = Builder()
    b.param("x", F64)
    assert gradient(b.function("f", [Lit(10.0, "f64")]), 3.0) == [0.0]


def test_the_third_derivative_of_a_fourth_power() -> None:
    b = Builder()
    x = b.param("x", F64)
    program = program_of(b.function("f", [b.mul(b.mul(x, x), b.mul(x, x))]))
    for name, out in (("f", "first"), ("first", "second"), ("second", "third")):
        program = slope(program, name, out)
    third = expanded(program)
    close([run(third, "third", [v])[0] for v in (1.0, 2.0, 3.0)], [24.0, 48.0, 72.0])


def slope(program: Program, name: str, out: str) -> Program:
    """The program with a function that gives just the derivative of a function of one float."""
    b = Builder(program.functions)
    x = b.param("x", F64)
    return Program({**program.functions, out: b.function(out, b.vjp(name, [x], [0], [const(1.0)])[1:])})


def test_an_argument_passed_twice_gets_both_contributions() -> None:
    b = Builder()
    args = [b.param(name, F64) for name in "abcd"]
    product = b.function("product", [b.mul(b.mul(args[0], args[1]), b.mul(args[2], args[3]))])
    b = Builder({"product": product})
    x = b.param("x", F64)
    f = b.function("f", b.call("product", x, x, x, x))
    program = expanded(differentiated(program_of(product, f), "f", [0]))
    close(run(program, "grad", [3.0])[1], 108.0)


def test_no_perturbation_confusion_between_nested_derivatives() -> None:
    b = Builder()
    x, y = b.param("x", F64), b.param("y", F64)
    f = b.function("f", [b.mul(x, b.mul(y, y))])
    b = Builder({"f": f})
    x = b.param("x", F64)
    inner = b.function("inner", b.vjp("f", [x, const(3.0)], [1], [const(1.0)])[1:])
    program = expanded(differentiated(program_of(f, inner), "inner", [0]))
    close(run(program, "grad", [2.0])[1], 6.0)


def test_formulas_of_several_scalars() -> None:
    b = Builder()
    x, y, z = (b.param(name, F64) for name in "xyz")
    f = b.function("f", [b.add(b.mul(x, y), b.prim("div", y, z))])
    assert gradient(f, 3.0, 4.0, 5.0) == pytest.approx([4.0, 3.2, -0.16])
    b = Builder()
    x, y, z = (b.param(name, F64) for name in "xyz")
    first = b.mul(x, y)
    f = b.function("f", [b.prim("div", b.add(first, b.mul(y, first)), z)])
    assert gradient(f, 3.0, 4.0, 5.0) == pytest.approx([4.0, 5.4, -2.4])


def test_a_seed_for_each_result() -> None:
    b = Builder()
    x, y = b.param("x", F64), b.param("y", F64)
    f = b.function("f", [b.add(x, y), b.sub(x, y), b.mul(x, y), b.prim("div", x, y)])
    program = program_of(f)
    for seeds, wanted in (
        ([1.0, None, None, None], [1.0, 1.0]),
        ([None, 2.0, None, None], [2.0, -2.0]),
        ([None, None, 1.0, None], [4.0, 3.0]),
        ([1.0, None, 1.0, 1.0], [5.25, 3.8125]),
    ):
        both = expanded(differentiated(program, "f", [0, 1], seeds=seeds))
        close(run(both, "grad", [3.0, 4.0])[4:], wanted)
