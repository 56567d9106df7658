"""What threads add to the same elements is the same in any order of threads and on any device, if that is wanted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.codegen.cuda.placement import on_device
from dlang.codegen.loops import (
    Allocate,
    Body,
    Buffer,
    Compute,
    Free,
    Function,
    Load,
    Loop,
    OnHost,
    Program as Loops,
    Stmt,
    Store,
)
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.ir.anf import Lit, Program, Scalar, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from tests.cuda.both import Both

PROGRAM = """import nn { softmax }
fn adds(x: f64[m], k: Idx<n>[m], z: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(x[i] * y[k[i]] for i))(z)
fn singles(x: f32[m], k: Idx<n>[m], z: f32[n]) -> f32[n] = grad(|y: f32[n]| sum(x[i] * y[k[i]] for i))(z)
fn rows(x: f64[m, d], k: Idx<n>[m], z: f64[n, d]) -> f64[n, d] =
  grad(|y: f64[n, d]| sum(x[i, j] * y[k[i], j] ** 2 for i, j))(z)
fn with_a_sum(x: f64[m], k: Idx<n>[m], z: f64[n]) -> (f64, f64[n]) =
  value_and_grad(|y: f64[n]| sum(x[i] * sin(y[k[i]]) for i))(z)
fn twice(x: f64[m], k: Idx<n>[m], z: f64[n]) -> (f64[n], f64[n]) =
  grad(|y: f64[n], w: f64[n]| sum(x[i] * y[k[i]] * w[k[i]] for i), wrt = (y, w))(z, z)
fn unchecked(x: f64[m], k: i64[m], z: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(x[i] * y[k[i]] for i))(z)
fn convolved(x: f64[m], z: f64[n]) -> f64[n] =
  grad(|y: f64[n]| sum(x[i] * y[(i + j) % n] * x[j] for i, j < 4))(z)
fn likelihoods(k: Idx<n>[m], z: f64[n, d]) -> f64[n, d] =
  grad(|y: f64[n, d]| sum(log(softmax(y[k[i]])[0]) for i))(z)
"""
NAMES = ("adds", "singles", "rows", "with_a_sum", "twice", "unchecked", "convolved", "likelihoods")
M, N = 3000, 5


@cache
def both(multiprocessors: int = 2) -> Both:
    return Both(PROGRAM, NAMES, multiprocessors, deterministic=True)


def given(name: str, m: int = M, n: int = N) -> tuple[list[int], list[Any]]:
    rng = np.random.default_rng(m + n)
    shape = (m, 3) if name == "rows" else (m,)
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-5, 6, shape)
    k, z = rng.integers(0, n, m), rng.standard_normal((n, 3) if name == "rows" else n)
    if name == "singles":
        x, z = x.astype(np.float32), z.astype(np.float32)
    sizes = [m, 3, n] if name == "rows" else [m, n]
    match name:
        case "convolved":
            return sizes, [x, z]
        case "likelihoods":
            return [m, n, 3], [k, rng.standard_normal((n, 3))]
        case _:
            return sizes, [x, k, z]


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_on_the_device_and_the_same_in_any_order(name: str) -> None:
    sizes, args = given(name)
    both().agree(name, sizes, args, 2e-5 if name == "singles" else 1e-11)
    found = both().found(name, sizes, args, 5)
    if name != "with_a_sum":  # whose sum is that of as many blocks as there are
        for one, other in zip(found, both(3).found(name, sizes, args), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_no_array_is_copied_to_the_host_for_them(name: str) -> None:
    p, f = both().program, both().entries[name].name
    placed = on_device(schedule(Program({f: p.functions[f]}, p.datatypes), device=True), deterministic=True)
    stmts = [s for function in placed.functions.values() for s in walk(function.body.stmts)]
    assert not any(isinstance(s, OnHost) for s in stmts), print_program(placed)
    assert not any(
        "dl_atomic_sum" in k.text and "f64 v" in k.text.partition("dl_atomic_sum")[2] for k in placed.kernels
    )


def summed(x: Sequence[float], k: Sequence[int], n: int, dtype: str = "float64") -> Any:
    (found,) = both().found(
        "adds" if dtype == "float64" else "singles",
        [len(x), n],
        [np.array(x, dtype), np.array(k), np.zeros(n, dtype)],
        2,
    )
    return found


def test_whole_numbers_are_added_exactly() -> None:
    rng = np.random.default_rng(0)
    x, k = rng.integers(-(2**20), 2**20, 4000).astype(np.float64), rng.integers(0, 3, 4000)
    np.testing.assert_array_equal(summed(x, k, 3), np.bincount(k, x, 3))
    ones = np.ones(4000)
    np.testing.assert_array_equal(summed(ones, k, 3, "float32"), np.bincount(k, ones, 3))


def test_a_sum_is_as_exact_as_its_largest_term() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(2000) * 2.0 ** rng.integers(-40, 40, 2000)
    x = np.concatenate([x, -x[:1000], [1e-9]])
    (found,) = summed(x, [0] * len(x), 1)
    assert abs(found - math.fsum(x)) <= len(x) * 2.0**-55 * np.abs(x).max()


def test_terms_of_any_size_are_added() -> None:
    largest, tiny = np.finfo(np.float64).max, 5e-324
    x = [largest / 2, largest / 4, 1e308, 1e308, -1e308, tiny, -tiny, tiny, 2.0**-1022, 0.0, -0.0, 3e-310]
    k = [0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 5]
    found = summed(x, k, 7)
    np.testing.assert_allclose(found[:2], [largest * 0.75, 1e308], rtol=1e-14)
    np.testing.assert_allclose(found[2:6], [tiny, 2.0**-1022, 0.0, 3e-310], rtol=0, atol=2.0**-1050)
    assert found[6] == 0.0
    assert summed([largest] * 4, [0] * 4, 1)[0] == np.inf
    found = summed([3e38, -1e38, 1e-45], [0, 0, 1], 2, "float32")
    np.testing.assert_allclose(found, np.float32([2e38, 1e-45]), rtol=2e-7)


def test_infinities_and_what_is_no_number_are_what_they_are_in_order() -> None:
    inf, nan = np.inf, np.nan
    x = [inf, 1.0, -inf, 2.0, inf, -inf, nan, 1.0, nan, inf, 3.0]
    k = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    np.testing.assert_array_equal(summed(x, k, 6), [inf, -inf, nan, nan, nan, 3.0])


def test_an_index_out_of_range_is_told_as_ever() -> None:
    sizes, args = given("unchecked")
    args[1][[17, 2000]] = N, -1
    for order in (0, 1, 2):
        with pytest.raises(Exception, match=f"index {N} is"):
            both().found("unchecked", sizes, args, order)


def test_no_terms_leave_an_array_as_it_is() -> None:
    np.testing.assert_array_equal(summed([], [], 4), np.zeros(4))


# ---- which loops -----------------------------------------------------------------------------------------------------
def with_memory_of_iterations(given: bool, looks: bool = False) -> Function:
    """Iterations that store in memory of their own, look at it, and add that to an array, which is given or is the
    function's own. looks: they look at another array too, in which they store.
    """
    n, i, j, k, m = (fresh(name, I64) for name in "nijkm")
    x, y, z, own = (Buffer(name, "f64") for name in ("x", "y", "z", "own"))
    keys = Buffer("keys", "i64")
    a, b, c, twice, product = (fresh(name, Scalar("f64")) for name in "abctp")
    three = (poly(3),)
    adds = Store(y, poly(k), product, "sum")
    inner: tuple[Stmt, ...] = (
        Allocate(own, three),
        Loop(j, (ZERO,), three, (Load(a, x, poly(i) + j), Compute(twice, "add", (a, a)), Store(own, poly(j), twice))),
        Load(k, keys, poly(i)),
        Load(c, z, poly(i)),
        Store(z, poly(i), Lit(1.0, "f64")) if looks else Store(y, poly(k), c, "sum"),
        Loop(m, (ZERO,), three, (Load(b, own, poly(m)), Compute(product, "mul", (b, c)), adds)),
        Free(own),
    )
    loop = Loop(i, (ZERO,), (poly(n),), inner)
    zero = fresh("j", I64)
    begins = Allocate(y, (poly(n),)), Loop(zero, (ZERO,), (poly(n),), (Store(y, poly(zero), Lit(0.0, "f64")),))
    if given:
        return Function("f", (n, x, keys, z, y), (), Body((loop,), ()), ())
    return Function("f", (n, x, keys, z), (), Body((*begins, loop), (y,)), ())


def placed(f: Function) -> tuple[list[Stmt], list[str]]:
    made = on_device(Loops({"f": f}), deterministic=True)
    return list(walk(made.functions["f"].body.stmts)), [kernel.text for kernel in made.kernels]


def test_memory_of_iterations_is_filled_twice_and_nothing_else_is_stored_twice() -> None:
    stmts, texts = placed(with_memory_of_iterations(False))
    assert not any(isinstance(s, OnHost) for s in stmts)
    (largest,) = [text for text in texts if "dl_atomic_max" in text]
    (added,) = [text for text in texts if "dl_atomic_sum" in text]
    for text in (largest, added):
        assert len(re.findall(r"v\d+ \+ v\d+;", text)) == 1 and text.count("dl_atomic") == 4


@pytest.mark.parametrize(("given", "looks"), [(True, False), (False, True)])
def test_the_host_adds_up_where_it_can_not_be_done_twice(given: bool, looks: bool) -> None:
    """To an array of which it is not known how large it is, or where iterations change what they look at."""
    stmts, texts = placed(with_memory_of_iterations(given, looks))
    assert any(isinstance(s, OnHost) for s in stmts) or not texts  # where there is nothing else for a device
    assert not any("dl_atomic" in text for text in texts)
