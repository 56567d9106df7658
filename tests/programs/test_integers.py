"""Indices, slices, ranges and sizes at the ends of i64: as Python's integers say, natively and in the interpreter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlang

LEAST, MOST = -(2**63), 2**63 - 1
TEXT = """
fn at(x: f64[n], a: i64, c: i64) -> f64 = x[a + c]
fn product(x: f64[n], a: size, b: size) -> f64 = x[a * b]
fn part(x: f64[n], a: i64, b: i64) -> f64[?] = x[a..b]
fn moved(x: f64[n], a: i64, c: i64) -> f64[?] = x[a - c..a + c]
fn stepped(x: f64[n], a: i64, b: i64, s: i64) -> f64[?] = x[a..b by s]
fn two(x: f64[n], a: i64) -> f64[2] = x[a..a + 2]
fn rows(x: f64[n, n], a: i64) -> f64 = sum(x[a..a + 2, a - 1..a + 1])
fn put(x: f64[n], a: i64) -> f64[n] {
  var y = x
  y[a..a + 2] = [7.0, 8.0]
  y
}
fn slope(x: f64[n], a: i64) -> f64[n] = grad(|x: f64[n]| sum(x[a..a + 2] * x[a + 1..a + 3]))(x)
fn iterations(a: i64, b: i64) -> i64 {
  var s = 0
  for i in a..b {
    s += 1
    if s > 9 { break }
  }
  s
}
fn last(a: i64, b: i64, s: i64) -> i64 {
  var t = 0
  var k = 0
  for i in a..b by s {
    t = i
    k += 1
    if k > 9 { break }
  }
  t
}
fn total(x: f64[n], a: i64, b: i64) -> f64 = sum(x[i] for i in a..b)
fn seen(x: f64[n], a: i64) -> f64 = sum(x[i] for i in a..a + 2)
fn clipped(x: f64[n], a: i64) -> f64 {
  var s = 0.0
  for i in 0..minimum(a, n) - 2 { s += x[i] }
  s
}
fn halves(a: i64) -> i64 = (a * 2) // 2
"""


@pytest.fixture(scope="module", params=["cpu", "interp"])
def module(request: pytest.FixtureRequest) -> Any:
    return dlang.compile(TEXT, backend=request.param)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, as Python's numbers, or the code of its refusal."""
    try:
        found = function(*args)
    except dlang.DlangError as e:
        return e.diagnostics[0].code
    return found.tolist() if isinstance(found, np.ndarray) else found


def wrapped(value: int) -> int:
    """What an i64 that is computed is."""
    return (value + 2**63) % 2**64 - 2**63


def part(x: list[float], a: int, b: int, s: int = 1) -> list[float] | str:
    """x[a..b by s]."""
    if s <= 0:
        return "E0802"
    return x[a:b:s] if 0 <= a <= b <= len(x) else "E0801"


def total(x: list[float], a: int, b: int) -> float | str:
    """The sum of x[i] for i in a..b."""
    if a >= b:
        return 0.0
    return sum(x[a:b]) if a >= 0 and b <= len(x) else "E0801"


def expected(name: str, x: list[float], args: list[int]) -> Any:
    """What a function of the program means in Python, whose integers do not wrap."""
    n, a = len(x), args[0]
    match name, args:
        case "at", (_, c):
            i = wrapped(a + c)
            return x[i] if 0 <= i < n else "E0801"
        case "part", (_, b):
            return part(x, a, b)
        case "moved", (_, c):
            found = part(x, wrapped(a - c), wrapped(a + c))
            if isinstance(found, str) or len(found) == 2 * c:
                return found
            return "E0802" if c < 0 else "E0806"  # the size 2 * c is exact or refused
        case "stepped", (_, b, s):
            return part(x, a, b, s)
        case "two", _:
            return part(x, a, wrapped(a + 2))
        case "put", _:
            good = part(x, a, wrapped(a + 2)) != "E0801"
            return [*x[:a], 7.0, 8.0, *x[a + 2 :]] if good else "E0801"
        case "iterations", (_, b):
            return min(max(b - a, 0), 10)
        case "last", (_, b, s):
            if s == 0:
                return "E0802"
            numbers = range(a, b, s)[:10]
            return numbers[-1] if len(numbers) else 0
        case "total", (_, b):
            return total(x, a, b)
        case "seen", _:
            return total(x, a, wrapped(a + 2))
        case "clipped", _:
            return total(x, 0, wrapped(min(a, n) - 2))
        case "halves", _:
            return wrapped(2 * a) // 2
    raise AssertionError(name)


def test_numbers_at_the_ends_of_i64_mean_what_they_mean_in_python(module: Any) -> None:
    x = [1.0, 2.0, 4.0, 8.0, 16.0]
    n = len(x)
    edges = [0, 1, -1, 2, n - 2, n - 1, n, n + 1, 2**31, -(2**31) - 1, 2**32, 2**62, -(2**62), MOST, MOST - 1, LEAST]
    edges += [LEAST + 1, MOST - n]
    counts = {"at": 2, "part": 2, "moved": 2, "stepped": 3, "two": 1, "put": 1, "iterations": 2, "last": 3, "total": 2}
    counts |= {"seen": 1, "clipped": 1, "halves": 1}
    draw = random.Random(3)
    for name, count in counts.items():
        call = getattr(module, name)
        arrays = [np.array(x)] if name not in ("iterations", "last", "halves") else []
        tries = [[e] for e in edges] if count == 1 else [[draw.choice(edges) for _ in range(count)] for _ in range(60)]
        for args in tries:
            assert outcome(call, *arrays, *args) == expected(name, x, args), (name, args)


def test_a_slice_whose_ends_wrap_is_refused_in_rows_and_derivatives_too(module: Any) -> None:
    x, square = np.arange(1.0, 6.0), np.arange(25.0).reshape(5, 5)
    assert outcome(module.rows, square, 1) == square[1:3, 0:2].sum()
    assert outcome(module.slope, x, 1) == [0.0, 3.0, 6.0, 3.0, 0.0]
    for a in (MOST, MOST - 1, LEAST, LEAST + 1, 4, -1):
        assert outcome(module.rows, square, a) == "E0801"
        assert outcome(module.slope, x, a) == "E0801"


def test_a_product_of_sizes_that_wraps_is_no_index(module: Any) -> None:
    assert module.product(np.arange(5.0), 2, 2) == 4.0
    for a, b in ((2**46, 2**17), (2**47, 2**17 + 1), (2**40, 2**24)):
        assert outcome(module.product, np.arange(5.0), a, b) in ("E0801", 0.0)[: 1 + (a * b % 2**64 == 0)]


SIZES = """
fn every(x: f64[n], s: i64) -> f64[?] = x[0..n by s]
fn both(n: i64, m: i64) -> i64 = len(concat(zeros(n), zeros(m)))
fn table(x: f64[n * m], n: size, m: size) -> f64 = sum(x[i * m + j] for i < n, j < m)
fn tail(x: f64[n], k: size) -> f64[n - k + 1] = [x[i] for i < n - k + 1]
fn longer(a: i64) -> i64 = len([1.0 for i < a + 2])
fn tiles(a: i64, b: i64) -> i64 = len(zeros(a * b))
fn flat(k: size) -> i64 = len(reshape(zeros(k, k), k * k))
fn ends(x: f64[n], k: size) -> f64 = x[n - k] + sum(x[n - k..n])
"""


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_size_is_exact_or_refused(backend: str) -> None:
    m = dlang.compile(SIZES, backend=backend)
    x = np.arange(10.0)
    assert [outcome(m.every, x, s) for s in (4, MOST, 0)] == [[0.0, 4.0, 8.0], [0.0], "E0802"]
    assert [outcome(m.both, *s) for s in ((3, 4), (2**62, 2**62), (-1, 1))] == [7, "E0806", "E0802"]
    for _ in range(3):  # also where compiled code takes the arguments apart
        assert outcome(m.table, np.ones(6), 2, 3) == 6.0
    assert outcome(m.table, np.ones(0), 2**32, 2**32) == "E0960"
    assert [outcome(m.tail, x[:2], k) for k in (2, 3, 12, 2**62)] == [[0.0], [], "E0802", "E0806"]
    assert [outcome(m.longer, a) for a in (1, -2, -3, MOST, LEAST)] == [3, 0, "E0802", "E0806", "E0802"]
    wide = [outcome(m.tiles, *s) for s in ((2, 3), (2**32, 2**32), (-(2**32), 2**32), (MOST, 2), (-3, 1))]
    assert wide == [6, "E0806", "E0802", "E0806", "E0802"]
    assert [outcome(m.flat, k) for k in (3, 2**32)] == [9, "E0806"]
    assert [outcome(m.ends, x, k) for k in (1, 11, 2**47, MOST)] == [18.0, "E0801", "E0801", "E0806"]


POWERS = """
fn power<a: Num, b: Int>(x: a, k: b) -> a = x ** k
fn of_u64(x: u64, k: u64) -> u64 = power(x, k)
fn of_i8(x: i8, k: u64) -> i8 = power(x, k)
fn of_u32(x: u32, k: u32) -> u32 = power(x, k)
fn of_i16(x: i16, k: u8) -> i16 = power(x, k)
fn of_float(x: f64, k: u64) -> f64 = power(x, k)
fn signs<a: Float>(x: a[n], k: i64, l: i64) -> (a[n], a[n]) = (x ** k, x ** l)
fn of_many(x: f64[n], k: u64[n]) -> f64[n] = x ** k
"""


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_powers_of_large_exponents(backend: Any) -> None:
    m = dlang.compile(POWERS, backend=backend)
    for k in (0, 1, 5, 2049, 2**24 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1):
        for x in (0, 1, 2, 3, 10, 2**64 - 1):
            assert m.of_u64(x, k) == pow(x, k, 2**64)
        for y in (-128, -3, -1, 7):
            assert int(m.of_i8(y, k)) % 256 == pow(y, k, 256)
        assert m.of_float(-1.0, k) == (-1.0 if k % 2 else 1.0)
        assert m.of_float(2.0, k) == (2.0**k if k < 9 else np.inf)
        assert dlang.grad(m.of_float)(1.0, k) == pytest.approx(k)
        for dtype in (np.float64, np.float32, np.float16):
            signs = m.signs(np.array([-1.0, 1.0], dtype), min(k, 2**63 - 1), -min(k, 2**63 - 1))
            assert signs[0].tolist() == signs[1].tolist() == [(-1.0) ** (k % 2 if k < 2**63 else 1), 1.0]
    assert m.of_u32(3, 2**32 - 1) == pow(3, 2**32 - 1, 2**32) and m.of_i16(3, 255) == pow(3, 255, 2**16) - 2**16
    powers = m.of_many(np.array([2.0, -1.0, 0.5]), np.array([10, 2**63 + 1, 2**63], np.uint64))
    assert powers.tolist() == [1024.0, -1.0, 0.0]
