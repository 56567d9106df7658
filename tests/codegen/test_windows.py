"""Products with a factor in windows, by tables of offsets: exact, the same bits, nothing touched beyond an array."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from dlang.codegen.abi import panel, terms_of
from dlang.codegen.llvm import jit
from dlang.codegen.llvm.panels import heights_of, pack_symbol
from dlang.codegen.llvm.windows import gather_symbol, windows_symbol
from tests.codegen.guarded import guarded
from tests.codegen.test_packed_products import DTYPES, INTS, WIDTHS, product

POINTER = ctypes.c_void_p


def panels_of(dtype: str, bits: int, b: np.ndarray) -> np.ndarray:
    """A matrix in panels."""
    width = panel(dtype, bits)
    out = guarded((-(-b.shape[1] // width), b.shape[0], width), DTYPES[dtype], at_end=True)
    pack = ctypes.CFUNCTYPE(None, POINTER, POINTER, *INTS, *INTS)(jit.address_of(pack_symbol(dtype, bits)))
    pack(out.ctypes.data, b.ctypes.data, *b.strides, b.shape[1], b.shape[0])
    return out


def offsets(points: np.ndarray, size: int) -> np.ndarray:
    """A table with an element more than it needs."""
    return np.append(points * size, 1 << 40).astype(np.int64)


def windows(x: np.ndarray, rows: np.ndarray, terms: np.ndarray, b: np.ndarray, c: np.ndarray, bits: int) -> None:
    """c = a · b, where a[i, k] = x[rows[i] + terms[k]]."""
    dtype = {8: "f64", 4: "f32"}[x.itemsize]
    panels = panels_of(dtype, bits, b)
    kinds = [POINTER] * 4 + [ctypes.c_int64, POINTER] + [ctypes.c_int64] * 4 + [ctypes.c_bool]
    multiply = ctypes.CFUNCTYPE(None, *kinds)(jit.address_of(windows_symbol(dtype, bits)))
    tables = [offsets(rows, x.itemsize)[:-1].copy(), offsets(terms, x.itemsize)]
    step = panel(dtype, bits) * len(b) * x.itemsize
    sizes = (c.strides[0], len(rows), b.shape[1], len(terms), False)
    multiply(x.ctypes.data, *[t.ctypes.data for t in tables], panels.ctypes.data, step, c.ctypes.data, *sizes)


def drawn(shape: tuple[int, ...], dtype: str, at_end: bool) -> np.ndarray:
    """Small whole numbers, so that every sum is exact."""
    array = guarded(shape, DTYPES[dtype], at_end)
    array[...] = np.random.default_rng(sum(shape)).integers(-4, 5, shape)
    return array


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at_end", [True, False])
def test_windows_that_are_read_where_they_are_give_exact_products(dtype: str, bits: int, at_end: bool) -> None:
    width, height = panel(dtype, bits), heights_of(bits)[0]
    rng = np.random.default_rng(3)
    x = drawn((97,), dtype, at_end)
    for m, n, k in itertools.product([1, 2, height - 1, 2 * height + 5], [1, width // 2, width + 1], [1, 7, 40]):
        rows, terms = rng.integers(0, 49, m), rng.integers(0, 49, k)
        rows[-1], terms[-1] = (48, 48) if at_end else (0, 0)
        b = drawn((k, n), dtype, at_end)
        c = guarded((m, n), DTYPES[dtype], at_end)
        c[...] = np.nan
        windows(x, rows, terms, b, c, bits)
        assert (c == x[rows[:, None] + terms] @ b).all(), (m, n, k)


@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_give_the_bits_of_packed_products_across_blocks_of_terms(dtype: str) -> None:
    bits, rng = WIDTHS[-1], np.random.default_rng(5)
    x, b = rng.normal(size=2000).astype(DTYPES[dtype]), rng.normal(size=(2 * terms_of(dtype) + 9, 37))
    b = b.astype(DTYPES[dtype])
    rows, terms = 3 * np.arange(29), 2 * np.arange(len(b))
    found, expected = np.zeros((2, 29, 37), DTYPES[dtype])
    windows(x, rows, terms, b, found, bits)
    product(dtype, bits, x[rows[:, None] + terms], b, expected, True, False)
    assert (found == expected).all()


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at_end", [True, False])
def test_windows_are_put_in_panels_run_by_run_with_zeros_behind_them(dtype: str, bits: int, at_end: bool) -> None:
    width, size = panel(dtype, bits), np.dtype(DTYPES[dtype]).itemsize
    gather = ctypes.CFUNCTYPE(None, *[POINTER] * 4, *INTS)(jit.address_of(gather_symbol(dtype, bits)))
    x = drawn((20, 11), dtype, at_end)
    for run, n in itertools.product([1, 3, 7, 9], [1, width - 1, width, 2 * width + 3]):
        points = np.array([11 * (i // run % 18) + i % run for i in range(n)])
        terms = np.array([0, 1, 2, 11, 13])
        points[-1] = 17 * 11 + 8 if at_end else points[-1]
        found = guarded((-(-n // width), len(terms), width), DTYPES[dtype], at_end=True)
        found[...] = np.nan
        tables = [offsets(terms, size), offsets(points, size)]
        gather(found.ctypes.data, x.ctypes.data, *[t.ctypes.data for t in tables], n, len(terms))
        expected = np.ascontiguousarray(x.ravel()[terms[:, None] + points])
        assert (found == panels_of(dtype, bits, expected)).all(), (run, n)
