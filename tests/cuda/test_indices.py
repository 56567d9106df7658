"""Indices have 32 bits unless one of a launch might be too large; the emulation says where one is after all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.codegen.abi import BEYOND, LARGEST_INDEX, Kernel
from dlang.codegen.cuda.indices import Indices, indices_of, with_bound
from dlang.codegen.loops import Buffer, Compute, Convert, Evaluate, Load, Loop, Stmt
from dlang.ir.anf import Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from dlang.runtime.devices import Misbehaviour
from dlang.runtime.emulation.driver import THREADS, EmulatedDriver
from tests.cuda import calls
from tests.cuda.both import Both

PROGRAM = """
fn outer(x: f64[n]) -> f64[n, n] = [x[i] - x[j] for i, j]
fn cube(x: f32[n]) -> f32[n, n, n] = [x[i] - x[j] * x[k] for i, j, k]
fn totals(x: f64[n]) -> (f64, i64) = (sum(x), argmax(x))
fn softmaxes(x: f64[n, m]) -> f64[n, m] = [{ let e = [exp(v) for v in x[i]]
                                             [v / sum(e) for v in e] } for i]
fn column_sums(x: f64[n, m]) -> f64[m] = sum(x, axis = 0)
fn transposed(x: f64[n, m]) -> f64[m, n] = [2.0 * x[i, j] for j, i]
fn running(x: f64[n]) -> f64[n] = cumsum(x)
fn reversed(x: f64[n]) -> f64[n] = [x[n - 1 - i] + 1.0 for i < n]
fn triangles(x: f64[n]) -> f64[n] = [sum(x[j] for j < i) for i < n]
fn picked(x: f64[n], k: i64[m]) -> f64[m] = [2.0 * x[k[i]] for i]
fn rolled(x: f64[n, m]) -> f64[n * m] = [x[i // m, (i - 2 * n) % m] for i < n * m]
fn hashed(x: f64[n]) -> f64[n] = [x[i * i * 2654435761 % n] for i < n]
fn signless(x: f64[n]) -> f64[n] = [x[i64((u64(i) - u64(3)) % u64(n))] for i < n]
fn shortened(x: f64[n]) -> f64[n] = [x[i64(i32(i) + i32(i8(i)) - i32(i8(i)))] for i < n]
fn strides(x: f64[n]) -> i64[n] = [{ var total = 0
                                     for j in 0..5 { total += i * 1000000007 + j * 123456789012 }
                                     total } for i < n]
"""
SHAPES = {
    "outer": (100,), "cube": (20,), "totals": (1000,), "softmaxes": (30, 70), "column_sums": (60, 45),
    "transposed": (40, 33), "running": (9000,), "reversed": (500,), "triangles": (70,), "strides": (900,),
    "rolled": (30, 41), "hashed": (900,), "signless": (900,), "shortened": (900,),
}  # fmt: skip
SLACK = BEYOND + 2 * THREADS  # of a device with two multiprocessors


@cache
def program() -> Both:
    return Both(PROGRAM, [*SHAPES, "picked"])


def found(name: str, sizes: Sequence[int], args: Sequence[Any], largest_index: int = LARGEST_INDEX) -> tuple[Any, bool]:
    """The results of a function, and whether a kernel needed wide indices."""
    both = program()
    device = both.runner.device
    assert device is not None
    both.driver.limit(largest_index)
    for known in (device.wide, device.seen, device.repeats):  # what was done before is not done again as it was
        known.clear()
    results = both.found(name, sizes, args)  # in which the emulation sees every index
    both.driver.limit(LARGEST_INDEX)
    return results, bool(device.wide)


def given(name: str) -> Any:
    shape = SHAPES[name]
    return np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32 if name == "cube" else np.float64)


@pytest.mark.parametrize("name", SHAPES)
def test_wide_and_narrow_indices_give_the_same_bits(name: str) -> None:
    program().agree(name, SHAPES[name], [given(name)], 1e-6 if name == "cube" else 1e-12)
    (narrow, no), (wide, yes) = (found(name, SHAPES[name], [given(name)], n) for n in (LARGEST_INDEX, SLACK + 10))
    assert (no, yes) == (False, True)
    for one, other in zip(narrow, wide, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "shape", "reach"),
    [
        ("outer", (400,), 400 * 400 - 1),  # the last offset
        ("cube", (64,), 64**3 - 1),
        ("transposed", (500, 600), 500 * 600 - 1),
        ("rolled", (300, 400), 300 * 400 - 1 + 2 * 300),  # m*(i // m) + i % m - 2*n
        ("hashed", (1000,), 1000),  # of which the product is a value of its own
        ("reversed", (1000,), 2 * 1000),  # n + 1 + (n - 1): that no sum is larger on its way
    ],
)
def test_the_first_size_for_which_indices_are_wide(name: str, shape: tuple[int, ...], reach: int) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32 if name == "cube" else np.float64)
    assert [found(name, shape, [x], SLACK + limit)[1] for limit in (reach, reach - 1)] == [False, True]


def test_sizes_beyond_32_bits_are_wide_though_there_are_no_elements() -> None:
    (result,), wide = found("transposed", [0, 2**40], [np.zeros((0, 2**40))])
    assert result.shape == (2**40, 0) and wide


@pytest.mark.parametrize("wrong", [2**32, 2**32 + 3, -(2**32), 2**63 - 1, 10])
def test_an_index_is_checked_before_it_is_narrow(wrong: int) -> None:
    k = np.array([1, 2, wrong, 3])
    with pytest.raises(Exception, match=f"index {wrong} is"):
        program().found("picked", [10, 4], [np.arange(10.0), k])


def test_the_emulation_reports_an_index_that_is_too_large() -> None:
    driver = EmulatedDriver()
    driver.limit(1000)
    head = 'extern "C" __global__ void '
    bodies = {
        "narrow": "dl_index k = v * 10;",
        "sum": "dl_index k = v * 11 - v;",
        "loop": "for (dl_index k = 0; k <= 1000; k += 7) {}",
        "wide": "i64 k = i64(v) * 11;",
    }
    kernels = [Kernel(name, "map", f"{head}{name}(dl_index v) {{ {body} }}\n") for name, body in bodies.items()]
    handles = dict(zip(bodies, driver.load(kernels), strict=True))
    for name in ("narrow", "wide"):
        calls.launch(driver, handles[name], 1, 32, 100)
    for name, found in (("sum", "1100"), ("loop", "1001")):
        with pytest.raises(Misbehaviour, match=f"an index is {found}, which is too large"):
            calls.launch(driver, handles[name], 1, 32, 100)
    with pytest.raises(Misbehaviour, match="an index is given that is 2000"):
        calls.launch(driver, handles["narrow"], 1, 32, 2000)


# ---- bounds ----------------------------------------------------------------------------------------------------------
def size(name: str) -> Var:
    return fresh(name, I64)


def found_in(*stmts: Stmt) -> Indices:
    return indices_of(stmts)


def test_a_bound_that_another_one_exceeds_is_left_out() -> None:
    n, m = poly(size("n")), poly(size("m"))
    reach: list[Size] = []
    for bound in (n, n * m - 1, n * m, m + 5, m):
        reach = with_bound(reach, bound)
    assert reach == [n, n * m, m + 5]


def test_offsets_go_to_the_last_element() -> None:
    n, m, i, j = map(size, "nmij")
    x, value = Buffer("x", "f64"), fresh("v", Scalar("f64"))
    load = Load(value, x, poly(m) * i + j)
    indices = found_in(Loop(i, (ZERO,), (poly(n),), (Loop(j, (ZERO,), (poly(m),), (load,)),)))
    assert {i, j, n, m} == set(indices.bounds)
    assert set(indices.reach) == {poly(n), poly(m), poly(n) * m - 1}


def test_what_is_loaded_is_no_index_and_what_is_computed_as_a_value_is_none() -> None:
    n, i, k, v, w = map(size, "nikvw")
    keys, x = Buffer("k", "i64"), Buffer("x", "f64")
    stmts = (
        Load(k, keys, poly(i)),
        Evaluate(v, poly(i) * 1000000007),
        Evaluate(w, poly(i) * 3),
        Load(fresh("a", Scalar("f64")), x, poly(k) * n + i),
        Load(fresh("b", Scalar("f64")), x, poly(w) + 1),
    )
    indices = found_in(Loop(i, (ZERO,), (poly(n),), stmts))
    assert set(indices.bounds) == {n, i, w}
    assert set(indices.reach) == {poly(n), 3 * poly(n) - 2}


def test_what_is_divided_is_an_index_unless_it_grows_faster_than_arrays() -> None:
    n, i, square, half, rest, copy = map(size, "nishrc")
    x, three = Buffer("x", "f64"), Lit(3, "i64")
    stmts = (
        Evaluate(square, poly(i) * i),
        Compute(half, "floordiv", (i, three)),
        Compute(rest, "mod", (square, n)),
        Convert(copy, half),
        Load(fresh("a", Scalar("f64")), x, poly(copy)),
        Load(fresh("b", Scalar("f64")), x, poly(rest)),
    )
    indices = found_in(Loop(i, (ZERO,), (poly(n),), stmts))
    assert set(indices.bounds) == {n, i, half, copy} and set(indices.reach) == {poly(3), poly(n)}
    assert indices.bounds[copy] == poly(n) - 1


def test_what_is_of_another_dtype_is_no_index() -> None:
    n, i, back = map(size, "nib")
    x, word, rest = Buffer("x", "f64"), fresh("w", Scalar("u64")), fresh("r", Scalar("u64"))
    stmts = (
        Convert(word, i),
        Compute(rest, "sub", (word, Lit(3, "u64"))),
        Convert(back, rest),
        Load(fresh("a", Scalar("f64")), x, poly(back)),
    )
    assert set(found_in(Loop(i, (ZERO,), (poly(n),), stmts)).bounds) == {n, i}


def test_signs_do_not_make_a_bound_smaller() -> None:
    n, i, low = map(size, "nil")
    x, value = Buffer("x", "f64"), fresh("v", Scalar("f64"))
    loop = Loop(i, (poly(low),), (poly(n),), (Load(value, x, poly(n) - poly(i) - 3),))
    assert found_in(loop).reach == (2 * poly(n) + low + 3,)
