"""Every dtype, and the conversions between them: compiled code gives the bits of the interpreter, and of NumPy."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dlang
from dlang.driver import Backend
from dlang.host.half import bf16_of_bits, bits_of_bf16
from dlang.ir.values import convert, to_bf16
from dlang.ops.dtypes import rounded

BACKENDS: tuple[Backend, ...] = ("cpu", "interp")
FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")
DTYPES = (*FLOATS, *INTEGERS, "bool")
NUMPY = {"f64": "float64", "f32": "float32", "f16": "float16", "bool": "bool"} | {
    d: ("uint" if d[0] == "u" else "int") + d[1:] for d in INTEGERS
}
# bf16 enters and leaves as f32, which holds its numbers exactly
OUTSIDE = {d: "f32" if d == "bf16" else d for d in DTYPES}

WHOLE = [0, 1, 2, 3, 7, 100, 127, 128, 129, 255, 256, 257, 2047, 2049, 32767, 32768, 65504, 65519, 65520, 65535]
WHOLE += [2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 2**32 + 1, 2**53 + 1, 2**62, 2**63 - 1]
REAL = [
    0.0,
    0.5,
    1.5,
    2.5,
    0.1,
    1 / 3,
    254.9,
    65519.99,
    65520.0,
    1e5,
    2.0**-14,
    2.0**-24,
    2.0**-25,
    3e38,
    3.4e38,
    1e300,
]
REAL += [
    2.0**-25 * (1 + 2.0**-40),
    1 + 2.0**-11,
    1 + 2.0**-8,
    (1 + 2.0**-8) * (1 + 2.0**-45),
    1e-45,
    math.inf,
    math.nan,
]


def samples(dtype: str) -> Any:
    """Numbers of a dtype where conversions differ."""
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return np.arange(19) % 3 == 0
        if dtype in FLOATS:
            values = np.array([*REAL, *map(float, WHOLE)])
            values = np.concatenate([values, -values])
            return to_bf16(values.astype(np.float32)) if dtype == "bf16" else values.astype(NUMPY[dtype])
        signed = [*WHOLE, *(-v for v in WHOLE)]
        return np.array([v & (2**64 - 1) for v in signed], np.uint64).astype(NUMPY[dtype])


@cache
def conversions(backend: Backend) -> ModuleType:
    functions = []
    for source in DTYPES:
        for target in DTYPES:
            inner = f"bf16({'x[i]'})" if source == "bf16" else "x[i]"
            outer = f"{target}({inner})" if target != "bool" else f"{inner} != {zero(source)}"
            outer = f"f32({outer})" if target == "bf16" else outer
            x, y = OUTSIDE[source], OUTSIDE[target]
            functions.append(f"fn {source}_to_{target}(x: {x}[n]) -> {y}[n] = [{outer} for i]")
    return dlang.compile("\n".join(functions), backend=backend)


def zero(dtype: str) -> str:
    return "false" if dtype == "bool" else f"{dtype}(0.0)" if dtype in FLOATS else f"{dtype}(0)"


def same(found: Any, wanted: Any) -> bool:
    """Equality of bits, but all NaN are one."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if found.dtype.kind != "f":
        return bool((found == wanted).all())
    nan = np.isnan(found) & np.isnan(wanted)
    return bool((nan | ((found == wanted) & (np.signbit(found) == np.signbit(wanted)))).all())


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_a_conversion_gives_the_bits_of_the_interpreter(source: str, target: str) -> None:
    x = samples(source)
    found, wanted = (getattr(conversions(b), f"{source}_to_{target}")(x) for b in BACKENDS)
    assert same(found, wanted)


@pytest.mark.parametrize("target", [d for d in DTYPES if d not in ("bf16", "bool")])
@pytest.mark.parametrize("source", [d for d in DTYPES if d != "bf16"])
def test_a_conversion_is_that_of_numpy(source: str, target: str) -> None:
    x = samples(source)
    if source in FLOATS and target in INTEGERS:  # where NumPy's is undefined ours saturates
        info = np.iinfo(NUMPY[target])
        wanted = np.array([clamped(float(v), info.min, info.max) for v in x], NUMPY[target])
    else:
        with np.errstate(all="ignore"):
            wanted = x.astype(NUMPY[target])
    assert same(getattr(conversions("cpu"), f"{source}_to_{target}")(x), wanted)


def clamped(x: float, low: int, high: int) -> int:
    if math.isnan(x):
        return 0
    return low if x <= low else high if x >= high else int(x)


# ---- arithmetic ------------------------------------------------------------------------------------------------------
PRIMITIVES = {
    "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "floordiv": "x // y", "mod": "x % y",
    "maximum": "maximum(x, y)", "neg": "-x", "abs": "abs(x)", "sign": "sign(x)", "sqrt": "sqrt(abs(x))",
    "floor": "floor(x)", "round": "round(x)", "square": "x ** 2", "where": "where(x < y, x, y)",
}  # fmt: skip


@cache
def arithmetic(backend: Backend) -> ModuleType:
    functions = []
    for dtype in ("f16", "bf16"):
        for name, text in PRIMITIVES.items():
            out = OUTSIDE[dtype]
            inner = text if dtype == "f16" else f"f32({text})"
            make = "" if dtype == "f16" else "  let x = bf16(x)\n  let y = bf16(y)\n"
            functions.append(f"fn {dtype}_{name}_of(x: {out}, y: {out}) -> {out} {{\n{make}  {inner}\n}}")
            element = f"{dtype}_{name}_of(x[i], y[i])"
            functions.append(f"fn {dtype}_{name}(x: {out}[n], y: {out}[n]) -> {out}[n] = [{element} for i]")
    return dlang.compile("\n".join(functions), backend=backend)


def pairs(dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    some = rng.integers(0, 1 << 16, 4000).astype(np.uint16)
    more = rng.integers(0, 1 << 16, 4000).astype(np.uint16)
    if dtype == "f16":
        return some.view(np.float16), more.view(np.float16)
    return bf16_of_bits(some), bf16_of_bits(more)


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_arithmetic_of_half_precision_rounds_after_each_operation(dtype: str, name: str) -> None:
    x, y = pairs(dtype)
    found, wanted = (getattr(arithmetic(b), f"{dtype}_{name}")(x, y) for b in BACKENDS)
    assert same(found, wanted)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_of_f16_is_that_of_numpy(name: str) -> None:
    x, y = pairs("f16")
    with np.errstate(all="ignore"):
        wanted = {"add": x + y, "sub": x - y, "mul": x * y, "div": x / y}[name]
    assert same(getattr(arithmetic("cpu"), f"f16_{name}")(x, y), wanted)


def nearest(x: Fraction, digits: int, least: int) -> Fraction:
    """The number of so many digits nearest to x, ties to even; least: the exponent of the smallest step."""
    exponent = max(abs(x).numerator.bit_length() - abs(x).denominator.bit_length() - digits - 1, least)
    while True:
        step = Fraction(2) ** exponent
        found = Fraction(round(abs(x) / step)) * step
        if abs(x) / step <= 2**digits:
            return found if x >= 0 else -found
        exponent += 1


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(-60000, 60000, allow_subnormal=False), st.sampled_from([("f16", 11, -24), ("bf16", 8, -133)]))
def test_rounding_is_to_the_nearest_ties_to_even(x: float, form: tuple[str, int, int]) -> None:
    dtype, digits, least = form
    wanted = float(nearest(Fraction(x), digits, least))
    found = getattr(conversions("cpu"), f"f64_to_{dtype}")(np.full(3, x))
    assert float(found[1]) == wanted == rounded(x, dtype) == float(convert(np.float64(x), "f64", dtype))


def test_every_f16_survives_the_way_through_memory_and_f64() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = conversions("cpu").f16_to_f64(every)
    assert same(wide, every.astype(np.float64))
    assert same(conversions("cpu").f64_to_f16(wide), every)


def test_every_bf16_survives_the_way_to_bits_and_back() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    numbers = bf16_of_bits(every)
    back = bits_of_bf16(numbers)
    assert same(bf16_of_bits(back), numbers)
    with np.errstate(all="ignore"):
        assert same(conversions("cpu").bf16_to_f64(numbers), numbers.astype(np.float64))


# ---- sums ------------------------------------------------------------------------------------------------------------
SUMS = """
fn total(x: f16[n]) -> f16 = sum(x)
fn columns(x: f16[n, m]) -> f16[m] = sum(x, axis = 0)
fn rows(x: f16[n, m]) -> f16[n] = sum(x, axis = 1)
fn matrix(x: f16[n, k], y: f16[k, m]) -> f16[n, m] = x @ y
fn running(x: f16[n]) -> f16[n] = cumsum(x)
fn largest(x: f16[n]) -> f16 = max(x)
fn where_largest(x: f16[n]) -> i64 = argmax(x)
fn slope(x: f16[n]) -> f16[n] = grad(|x: f16[n]| sum(x * x))(x)
fn scattered(t: i64[n], x: f16[n]) -> f16[4] {
  var out: f16[4] = zeros(4)
  for i < n { out[t[i]] += x[i] }
  out
}
fn btotal(x: f32[n]) -> f32 = f32(sum([bf16(v) for v in x]))
fn bmatrix(x: f32[n, k], y: f32[k, m]) -> f32[n, m] = f32([bf16(x[i, j]) for i, j] @ [bf16(y[i, j]) for i, j])
fn shown(x: f16[n]) -> str = "{x} {x[0]:.3f} {bf16(0.3)}"
"""


@cache
def sums(backend: Backend) -> ModuleType:
    return dlang.compile(SUMS, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_half_precision_are_done_in_f32(backend: Backend) -> None:
    m = sums(backend)
    many = np.ones(5000, np.float16)  # in f16 a sum of ones stops at 2048
    assert m.total(many) == 5000
    assert (m.columns(many.reshape(2500, 2)) == 2500).all()
    assert (m.rows(many.reshape(2, 2500)) == 2500).all()
    assert (m.matrix(many.reshape(2, 2500), many.reshape(2500, 2)) == 2500).all()
    assert same(m.running(many), np.cumsum(many.astype(np.float32)).astype(np.float16))
    assert m.btotal(np.ones(1000, np.float32)) == 1000
    assert (m.bmatrix(np.ones((2, 700), np.float32), np.ones((700, 2), np.float32)) == float(to_bf16(700.0))).all()


def test_both_back_ends_give_the_same_sums() -> None:
    rng = np.random.default_rng(2)
    x = (rng.integers(-64, 64, 600) / 8).astype(np.float16)  # whose sums in f32 are exact
    cases: dict[str, tuple[Any, ...]] = {
        "total": (x,),
        "columns": (x.reshape(30, 20),),
        "matrix": (x.reshape(20, 30), x.reshape(30, 20)),
        "running": (x,),
        "largest": (x,),
        "where_largest": (x,),
        "slope": (x,),
        "scattered": (rng.integers(0, 4, 600), x),
    }
    for name, args in cases.items():
        found, wanted = (np.asarray(getattr(sums(b), name)(*args)) for b in BACKENDS)
        assert same(found, wanted), name
    assert sums("cpu").shown(x[:3]) == sums("interp").shown(x[:3])


# ---- Python ----------------------------------------------------------------------------------------------------------
PYTHON = "fn scaled(x: bf16[n], k: bf16) -> bf16[n] = [k * v for v in x]\nfn first(x: bf16[n]) -> bf16 = x[0]\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_bf16_is_that_of_ml_dtypes_where_it_is_installed(backend: Backend) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    m = dlang.compile(PYTHON, backend=backend)
    x = np.linspace(0, 3, 7).astype(ml_dtypes.bfloat16)
    k = ml_dtypes.bfloat16(0.3)
    for _ in range(2):
        assert (m.scaled(x, 0.3) == x * k).all()
        assert (m.scaled(x, k) == x * k).all()
    assert m.scaled([1.0, 2.0], 0.5).dtype == ml_dtypes.bfloat16
    assert type(m.first(x)) is ml_dtypes.bfloat16


def test_an_array_that_is_not_bf16_is_refused_with_help() -> None:
    m = dlang.compile(PYTHON)
    with pytest.raises(dlang.DlangError, match=r"(?s)expected bf16\[n\], got u16\[2\].*convert it: .*ml_dtypes"):
        m.scaled(np.zeros(2, np.uint16), 0.5)
