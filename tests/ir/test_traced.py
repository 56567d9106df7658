"""The reference for derivatives: its table against differences, and derivatives inside of derivatives."""

import numpy as np
import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, lower
from dlang.interpret.derivatives import Differentiable
from dlang.interpret.interpreter import Interpreter
from dlang.interpret.traced import SLOPES, Dual, Tape, apply, f64, widened
from dlang.ir.anf import Program, poly
from dlang.ir.values import FUNCTIONS, put
from dlang.ops.primitives import PRIMITIVES

POINTS = {
    "asin": (0.3,),
    "acos": (0.3,),
    "mod": (2.9, 0.7),
    "powi": (1.3, 3),
    "zero_safe_mul": (0.4, 2.5),
    "digamma": (-0.6,),
}


@pytest.mark.parametrize("name", sorted(SLOPES))
def test_the_slope_of_a_primitive_is_that_of_differences(name):
    point = POINTS.get(name, (1.3, 0.7)[: PRIMITIVES[name].arity])
    result = FUNCTIONS[name](*map(np.float64, point))
    for k, slope in enumerate(SLOPES[name]):
        if slope is None:
            continue
        ends = []
        for sign in (1, -1):
            moved = [np.float64(x) for x in point]
            moved[k] += sign * 1e-6
            ends.append(FUNCTIONS[name](*moved))
        found = slope(*map(np.float64, point), result)
        found = 0.0 if found is None else found
        np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-6, rtol=1e-7, atol=1e-8)


def test_every_primitive_with_a_derivative_has_a_slope():
    wanted = {n for n, p in PRIMITIVES.items() if any(text is not None for text in p.derivative)}
    assert wanted == {*SLOPES, "select"}


def test_tags_keep_perturbations_apart():
    """d/dx (x · d/dy (x + y)) is 1."""
    x = Dual(1, np.float64(3.0), np.float64(1.0))
    inner = f64("add", x, Dual(2, np.float64(2.0), np.float64(1.0)))
    assert isinstance(inner, Dual) and inner.tag == 2
    assert f64("mul", x, inner.tangent).tangent == 1.0


def test_a_tape_can_be_differentiated():
    """The second derivative of x³ at 2 is 12: a tangent through the cotangents of a tape."""
    tape = Tape(2, [])
    x = tape.record(Dual(1, np.float64(2.0), np.float64(1.0)), [])
    y = apply("mul", (apply("mul", (x, x), "f64"), x), "f64")
    slope = tape.cotangents([(y, np.float64(1.0))])[x.place]
    assert (slope.value, slope.tangent) == (12.0, 12.0)


def test_derivatives_are_f64_whatever_the_value():
    x = Dual(1, np.float32(1.5), np.float64(0.1))
    y = apply("mul", (x, x), "f32")
    assert type(y.value) is np.float32 and y.tangent == 3.0 * np.float64(0.1)
    assert type(widened(y).value) is np.float64


ARRAYS = {
    "updates": "{ var y = v\n for i { if v[i] > 0.0 { y[i] = c * v[i] }\n y[0] += v[i] }\n y }",
    "pieces": "reverse(concat(v[0..1] * c, v))",
    "arms": "[if e > 0.0 { e * c } else { 1.0 } for e in v]",
    "rows": "[sum([if j < i { c } else { v[j] } for j < i + 1]) for i < n]",
    "scattered": "{ var y = [0.0 for i < n]\n for i { y[k[i]] += v[i] * c }\n y }",
    "extrema": "[max([v[j] * c for j]) + max([c for j < 3]), min([c, v[0]])]",
    "running": "cumsum(v * c) * (v @ v) * c",
    "halves": "[f64(sum([bf16(e * c) for e in v])), f64(f16(c))]",
    "a loop at each point": "[{ var s = e\n while s < 10.0 { s = s * 2.0 + c }\n s } for e in v]",
    "a derivative at each point": "[grad(|p: f64| p ** 3 * c)(e) for e in v]",
}


@pytest.mark.parametrize("name", ARRAYS)
def test_scalars_with_derivatives_lie_in_arrays_with_others(name):
    """Forward and reverse mode agree with the expanded derivatives; without any, the results are those of NumPy."""
    text = f"""
    fn f(v: f64[n], k: i64[n], c: f64) -> (f64, f64) {{ let r = {ARRAYS[name]}\n (r[0], r[1]) }}
    fn total(v: f64[n], k: i64[n], c: f64) -> f64 {{ let r = f(v, k, c)\n r.0 + 3.0 * r.1 }}
    fn main(v: f64[n], k: i64[n], c: f64) -> (f64, f64, (f64, f64), (f64[n], f64)) =
      (f(v, k, c).0, f(v, k, c).1, jvp(|c: f64| f(v, k, c), c, 1.0).1, grad(total, wrt = (v, c))(v, k, c))
    """
    checked = check(Source("p.dl", text))
    assert not errors_of(checked), errors_of(checked)
    decl = checked.module.functions["main"]
    kept: list[Program] = []

    def extend(program, entries):
        kept.append(program)
        return program, []

    program, (entry,) = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))], extend=extend)
    args = [2, np.array([1.25, -0.5]), np.array([1, 1]), 0.75]
    expanded = Interpreter(program).run(entry.name, args)
    for wanted, found in zip(
        expanded, Interpreter(kept[0], algebra=Differentiable()).run(entry.name, args), strict=True
    ):
        assert np.asarray(found).dtype == np.float64
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    for wanted, found in zip(
        expanded, Interpreter(program, algebra=Differentiable()).run(entry.name, args), strict=True
    ):
        assert np.asarray(wanted).tobytes() == np.asarray(found).tobytes()


def test_what_is_stored_keeps_its_type():
    single, traced = np.float32(0.1), Dual(1, np.float32(0.5), np.float64(1.0))
    data = put(np.array([single, single]), 0, traced)
    data = put(data, np.array([1]), np.array([single]))
    assert data[0] is traced and type(data[1]) is np.float32
