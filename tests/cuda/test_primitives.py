"""Every primitive of the table on every dtype that it takes, and all conversions: what the interpreter gives."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlang.codegen.cuda.printing import device_text
from dlang.codegen.cuda.scalars import literal
from dlang.host.effects import Host
from dlang.host.half import bf16_of_bits, bits_of_bf16
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import DTYPES, FLOATS, INTEGERS, Array, Atom, Lit, Program, Scalar, Var, poly
from dlang.ir.builder import Builder
from dlang.ops.primitives import ANY, BITS, BOOL, FLOAT, INT, NUM, ORD, PRIMITIVES, WORD
from dlang.ops.special import PARITY, ROTATIONS, ROUNDS
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.engine import Engine

NUMBERS = tuple(d for d in DTYPES if d != "str")
TAKEN = {
    FLOAT: FLOATS, NUM: (*FLOATS, *INTEGERS), ORD: (*FLOATS, *INTEGERS), INT: INTEGERS, BITS: INTEGERS, WORD: ("u64",),
    BOOL: ("bool",), ANY: NUMBERS,
}  # fmt: skip
TRUTH_TOO = frozenset("eq ne select bit_and bit_or bit_xor bit_not".split())
SHARP = {"f64": 4e-14, "f32": 1e-5, "f16": 2e-3, "bf16": 2e-2}
"""How far results of functions of mathematics may be apart, relatively; all others are equal bit for bit."""
EXACT = frozenset(
    """add sub mul div zero_safe_mul floordiv mod neg abs sign maximum minimum sqrt floor ceil round eq ne lt le gt ge
    isnan isfinite and or not select bit_and bit_or bit_xor bit_not shift_left shift_right threefry
    threefry_second""".split()
)
EITHER_ZERO = frozenset(("maximum", "minimum"))
"""Of a zero and one with a sign, what is larger is left open, by NumPy too."""


def numbers(dtype: str) -> Any:
    """Numbers where operations differ, in every pair."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in FLOATS:
        some = [0.0, -0.0, 0.3, -0.3, 1.0, -1.0, 2.5, -2.5, 3.0, 7.25, -7.25, 90.0, np.inf, -np.inf, np.nan]
        if dtype == "bf16":
            return bf16_of_bits(bits_of_bf16(np.array(some, np.float32)))
        return np.array(some, {"f64": "f8", "f32": "f4", "f16": "f2"}[dtype])
    info = np.iinfo({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    whole = [0, 1, 2, 3, 7, 8, 31, 33, 63, 64, 100, -1, -2, -7, -100, info.max, info.min, info.max - 1]
    return np.array([w for w in whole if info.min <= w <= info.max], info.dtype)


def pairs(dtype: str) -> list[Any]:
    x = numbers(dtype)
    grid = np.meshgrid(x, x, indexing="ij")
    return [np.ascontiguousarray(g.reshape(-1)) for g in grid]


def applies(name: str, dtype: str) -> bool:
    p = PRIMITIVES[name]
    if dtype == "bool":
        return p.domain == BOOL or name in TRUTH_TOO
    return dtype in TAKEN[p.domain]


def applied(b: Builder, name: str, x: Atom, y: Atom, dtype: str) -> list[Atom]:
    """A primitive of two numbers, in all the ways that its arguments may be."""
    match name:
        case "powi":
            large = (2**24 + 1, -(2**53) - 1, 2**63 - 1)  # whose last bit no float of the dtype holds
            exponents: list[Atom] = [Lit(k, "i64") for k in (0, 1, 2, 5, *((-3, *large) if dtype in FLOATS else ()))]
            some = b.cast("i64", y if dtype in FLOATS else b.prim("bit_and", y, Lit(7, dtype)))
            return [b.prim(name, x, k) for k in (*exponents, some)]
        case "pow" if dtype not in FLOATS:
            return [b.prim(name, x, b.prim("bit_and", y, Lit(7, dtype)))]
        case "pow":
            return [b.prim(name, x, y), b.prim(name, x, Lit(2.0, dtype))]
        case "floordiv" | "mod" if dtype not in FLOATS:
            divisor = b.select(b.prim("eq", y, Lit(0, dtype)), Lit(3, dtype), y)
            return [b.prim(name, x, divisor)]
        case "select":
            return [b.select(b.prim("eq", x, y), x, y)]
        case "threefry" | "threefry_second":
            return [b.prim(name, x, y, y, x)]
        case _:
            return [b.prim(name, *(x, y)[: PRIMITIVES[name].arity])]


def run_both(build: Callable[[Builder], list[Atom]], args: list[Any]) -> tuple[list[Any], list[Any]]:
    b = Builder({})
    program = Program({"f": b.function("f", build(b))})
    compiled = Engine(Host(io.StringIO()), driver=EmulatedDriver()).compile(program, ["f"])
    assert compiled.device is not None
    return compiled.run("f", args), Interpreter(program, Host(io.StringIO())).run("f", args)


def assert_same_bits(found: Any, wanted: Any, name: str) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
    if wanted.dtype.kind == "f" and name not in EITHER_ZERO:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), name)
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(wanted[number]), name)
    np.testing.assert_array_equal(found, wanted, name)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_primitive_is_that_of_the_interpreter(dtype: str) -> None:
    made: list[str] = []

    def build(b: Builder) -> list[Atom]:
        n = b.param("n", Scalar("i64"))
        arrays = [b.param(name, Array(dtype, (poly(n),))) for name in ("x", "y")]

        def body(i: Var) -> list[Atom]:
            x, y = (b.read(a, [i]) for a in arrays)
            out: list[Atom] = []
            for name in PRIMITIVES:
                if applies(name, dtype):
                    results = applied(b, name, x, y, dtype)
                    made.extend([name] * len(results))
                    out += results
            return out

        return list(b.comp([n], body))

    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        found, wanted = run_both(build, [len(x), x, y])
    for name, f, w in zip(made, found, wanted, strict=True):
        if name in EXACT or w.dtype.kind not in "f":
            assert_same_bits(f, w, name)
        else:
            np.testing.assert_allclose(f, w, rtol=SHARP[dtype], atol=SHARP[dtype], err_msg=name)


@pytest.mark.parametrize("source", NUMBERS)
def test_every_conversion_gives_the_bits_of_the_interpreter(source: str) -> None:
    def build(b: Builder) -> list[Atom]:
        n = b.param("n", Scalar("i64"))
        x = b.param("x", Array(source, (poly(n),)))
        return list(b.comp([n], lambda i: [b.cast(d, b.read(x, [i])) for d in NUMBERS]))

    x = numbers(source)
    if source in ("f64", "f32"):
        more = [1e300, 3e38, 65504.0, 65519.99, 65520.0, 2.0**-24, 2.0**-25, 1 + 2.0**-11, 2.0**63, 2.0**64, 1e-45]
        more += [1 + 2.0**-8, (1 + 2.0**-8) * (1 + 2.0**-45), 2.0**-25 * (1 + 2.0**-40), 255.9, 256.0, 2147483648.0]
        with np.errstate(all="ignore"):
            x = np.concatenate([x, np.array(more).astype(x.dtype), -np.array(more).astype(x.dtype)])
    with np.errstate(all="ignore"):
        found, wanted = run_both(build, [len(x), x])
    for dtype, f, w in zip(NUMBERS, found, wanted, strict=True):
        assert_same_bits(f, w, dtype)


def test_all_primitives_are_tried() -> None:
    assert {name for name in PRIMITIVES for dtype in NUMBERS if applies(name, dtype)} == set(PRIMITIVES)


def test_the_constants_of_random_numbers_are_those_of_the_table() -> None:
    text = device_text()
    assert f"{{{', '.join(map(str, ROTATIONS))}}}" in text
    assert f"0x{PARITY:x}ull" in text and f"r < {ROUNDS};" in text


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "f64", "0.1"),
        (0.1, "f32", "0.10000000149011612f"),
        (-2.0, "f64", "(-2.0)"),
        (float("inf"), "f32", "dl_infinity_f32()"),
        (-(2**63), "i64", "(-9223372036854775807ll - 1)"),
        (2**64 - 1, "u64", "18446744073709551615ull"),
        (-5, "i8", "i8(-5)"),
        (True, "bool", "true"),
    ],
)
def test_a_literal_is_exact_and_has_its_type(value: float, dtype: str, text: str) -> None:
    assert literal(Lit(value, dtype)) == text
