"""Packed products: the numbers of NumPy for all sizes and strides, nothing touched beyond an array, the same bits."""

from __future__ import annotations

import ctypes
import itertools
import platform

import numpy as np
import pytest

import dlang
from dlang.codegen.abi import COLUMNS, panel, terms_of
from dlang.codegen.llvm import jit, microkernel, objects
from dlang.codegen.llvm.microkernel import panels_symbol, product_symbol
from dlang.codegen.llvm.panels import heights_of, pack_symbol
from tests.codegen.guarded import guarded

DTYPES = {"f64": np.float64, "f32": np.float32}
WIDTHS = sorted({128, 256, objects.vector_bits()})

INTS = [ctypes.c_int64] * 2


def product(dtype: str, bits: int, a: np.ndarray, b: np.ndarray, c: np.ndarray, packed: bool, adds: bool) -> None:
    """c = a @ b or c += a @ b, by steps in bytes as NumPy has them. packed: with b in panels beforehand.

    What lies behind the arrays is said to be the next product of a batch, though there may be nothing.
    """
    width, size = panel(dtype, bits), a.itemsize
    across = -(-b.shape[1] // width)
    sizes = (c.ctypes.data, c.strides[0], a.shape[0], b.shape[1], a.shape[1], adds)
    kinds = [ctypes.c_void_p, *INTS, *INTS, ctypes.c_bool]
    one = [ctypes.c_void_p, *INTS]
    if packed:
        panels = guarded((across, b.shape[0], width), DTYPES[dtype], at_end=True)
        panels[...] = np.nan
        pack = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *one, *INTS)(jit.address_of(pack_symbol(dtype, bits)))
        pack(panels.ctypes.data, b.ctypes.data, *b.strides, b.shape[1], b.shape[0])
        multiply = ctypes.CFUNCTYPE(None, *one, *one, *kinds)(jit.address_of(panels_symbol(dtype, bits)))
        steps = (width * size, width * size * b.shape[0])
        multiply(a.ctypes.data, *a.strides, panels.ctypes.data, *steps, *sizes)
    else:
        room = guarded((min(across * width, COLUMNS), min(terms_of(dtype), b.shape[0])), DTYPES[dtype], at_end=True)
        name = product_symbol(dtype, bits)
        multiply = ctypes.CFUNCTYPE(None, *one, *one, ctypes.c_void_p, *kinds, ctypes.c_bool)(jit.address_of(name))
        multiply(a.ctypes.data, *a.strides, b.ctypes.data, *b.strides, room.ctypes.data, *sizes, True)


def matrix(shape: tuple[int, int], dtype: str, turned: bool, at_end: bool) -> np.ndarray:
    """Small whole numbers, so that every sum is exact."""
    array = guarded(shape[::-1] if turned else shape, DTYPES[dtype], at_end)
    array[...] = np.random.default_rng(sum(shape)).integers(-4, 5, array.shape)
    return array.T if turned else array


def around(*sizes: int) -> list[int]:
    return sorted({n + d for n in sizes for d in (-1, 0, 1) if n + d >= 0})


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at_end", [True, False])
def test_products_of_awkward_sizes_are_exact_and_touch_nothing_outside(dtype: str, bits: int, at_end: bool) -> None:
    width, height = panel(dtype, bits), heights_of(bits)[0]
    columns = [0, 1, 3, *around(width), 9 * width - 1]
    for n, m, k in itertools.product(columns, [0, 1, 2, 7, *around(height), 2 * height + 5, 33], [0, 1, 5, width + 3]):
        for turned_a, turned_b in itertools.product((False, True), repeat=2):
            a, b = matrix((m, k), dtype, turned_a, at_end), matrix((k, n), dtype, turned_b, at_end)
            for packed in (True, False):
                adds = (n + m) % 2 == 1
                c = guarded((m, n), DTYPES[dtype], at_end)
                c[...] = 1 if adds else np.nan
                product(dtype, bits, a, b, c, packed, adds)
                assert (c == a @ b + adds).all(), (m, n, k, turned_a, turned_b, packed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_the_same_across_blocks_of_terms_columns_and_rows(dtype: str) -> None:
    bits = objects.vector_bits()
    most = terms_of(dtype)
    for m, n, k in ((13, 37, most + 1), (45, 1100, 2 * most - 1), (35, 290, 3 * most + 7), (26, 150, 128)):
        for turned_a, turned_b in itertools.product((False, True), repeat=2):
            a, b = matrix((m, k), dtype, turned_a, True), matrix((k, n), dtype, turned_b, True)
            c = guarded((m, n), DTYPES[dtype], True)
            product(dtype, bits, a, b, c, turned_a, False)
            assert (c == a @ b).all()


def test_operands_may_have_any_steps() -> None:
    bits = objects.vector_bits()
    whole = np.random.default_rng(0).integers(-4, 5, (80, 90)).astype(np.float64)
    a, b = whole[::2, 1::3], whole[2:62:2, ::2]
    c = np.zeros((40, 60))
    product("f64", bits, a, b, c[:, 3:48], True, False)
    assert (c[:, 3:48] == a @ b).all() and not c[:, :3].any() and not c[:, 48:].any()


def test_an_element_has_the_same_bits_wherever_it_stands_in_a_product() -> None:
    bits, rng = objects.vector_bits(), np.random.default_rng(1)
    a, b = rng.normal(size=(50, 600)), rng.normal(size=(600, 70))
    whole, part = np.zeros((50, 70)), np.zeros((17, 33))
    product("f64", bits, a, b, whole, False, False)
    product("f64", bits, a[20:37], b[:, 30:63], part, True, False)
    assert (whole[20:37, 30:63] == part).all()


def test_infinities_and_nans_reach_the_elements_that_they_belong_to() -> None:
    bits = objects.vector_bits()
    a, b, c = np.ones((15, 9)), np.ones((9, 35)), np.zeros((15, 35))
    a[3, 2], b[2, 34], b[4, 5] = np.inf, np.nan, 0
    product("f64", bits, a, b, c, False, False)
    with np.errstate(invalid="ignore"):
        expected = a @ b
    assert np.array_equal(c, expected, equal_nan=True) and np.isnan(c[:, 34]).all() and np.isinf(c[3, :34]).all()


MANY = """
fn plain(a: f64[n, k], b: f64[k, m]) -> f64[n, m] = a @ b
fn left(a: f64[k, n], b: f64[k, m]) -> f64[n, m] = transpose(a) @ b
fn right(a: f64[n, k], b: f64[m, k]) -> f64[n, m] = a @ transpose(b)
fn half(a: f32[n, k], b: f32[k, m]) -> f32[n, m] = a @ b
fn above(a: f64[n, k], b: f64[k, m]) -> i64 = sum(i64(v > 0.0) for v in reshape(a @ b, n * m))
fn again(a: f64[n, k], b: f64[k, m]) -> f64 { var s = 0.0; for i < 3 { s += sum(a @ (f64(i) * b)) }; s }
fn known(a: f64[6, 20000], b: f64[20000, 9]) -> f64[6, 9] = a @ b
"""


@pytest.mark.parametrize(
    ("n", "k", "m"), [(3, 20000, 4), (30, 9216, 50), (7, 9217, 9), (1, 100_000, 2), (500, 9500, 260)]
)
def test_products_of_so_many_terms_that_they_are_taken_in_pieces(n: int, k: int, m: int) -> None:
    rng, made = np.random.default_rng(k), dlang.compile(MANY)
    a, b = rng.integers(-9, 10, (n, k)).astype(float), rng.integers(-9, 10, (k, m)).astype(float)
    wanted = a @ b  # whole numbers, so that every sum is exact
    np.testing.assert_array_equal(made.plain(a, b), wanted)
    np.testing.assert_array_equal(made.left(a.T.copy(), b), wanted)
    np.testing.assert_array_equal(made.right(a, b.T.copy()), wanted)
    np.testing.assert_array_equal(made.half(a.astype(np.float32), b.astype(np.float32)), wanted.astype(np.float32))
    assert made.above(a, b) == (wanted > 0).sum() and made.again(a, b) == 3 * wanted.sum()


def test_a_known_number_of_terms_in_pieces() -> None:
    a, b = np.arange(120_000.0).reshape(6, 20000) % 7, np.arange(180_000.0).reshape(20000, 9) % 5
    np.testing.assert_array_equal(dlang.compile(MANY).known(a, b), a @ b)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the processor has no levels of x86-64")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_products_call_no_function_of_the_c_library(dtype: str, level: str) -> None:
    """A processor that can't multiply and add in one operation does it in two, as a call would take longer."""
    code = objects.compile_shared(microkernel.text(dtype, 128), objects.LEVELS[level])
    assert b"\0fma\0" not in code and b"\0fmaf\0" not in code
