"""Powers of floats with exponents that are whole numbers, and not known to the compiler."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

TEXT = """
fn each(x: T[n], k: i64[n]) -> T[n] = [x[i] ** k[i] for i]
fn one(x: T[n], k: i64) -> T[n] = x ** k
fn alone(x: T, k: i64) -> T = x ** k
"""
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
LARGE = [2**53 + 1, -(2**53 + 1), 2**63 - 1, -(2**63)]  # of which the last bit is no part of a float
RELATIVE = {"f64": 1e-14, "f32": 8e-6}


@pytest.mark.parametrize("dtype", RELATIVE)
def test_powers_are_near_to_those_of_numpy_and_the_same_in_each_lane(dtype: str) -> None:
    made = dlang.compile(TEXT.replace("T", dtype))
    real = np.float64 if dtype == "f64" else np.float32
    bases = np.array([0.3, -0.7, 1.1, -1.3, 2.5, -1.0001, *SPECIAL], dtype=real)
    exponents = [*range(-40, 72), *LARGE]
    x = np.repeat(bases, len(exponents))
    k = np.tile(np.array(exponents, dtype=np.int64), len(bases))
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), k.astype(np.float64))
        odd = (k % 2 == 1) & np.signbit(x)  # the exponent may be even as a float
        wanted = np.where(odd, -np.abs(wanted), np.abs(wanted)).astype(real)
    found = made.each(x, k)
    np.testing.assert_allclose(found, wanted, rtol=RELATIVE[dtype], atol=np.finfo(real).tiny)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))
    for k_of_all in (-33, -1, 0, 13, 65, 2**53 + 1):
        at_once = made.one(bases, k_of_all)
        alone = np.array([made.alone(v, k_of_all) for v in bases], dtype=real)
        np.testing.assert_array_equal(at_once, alone)
        np.testing.assert_array_equal(at_once, made.each(bases, np.full(len(bases), k_of_all)))
        shuffled = made.each(np.append(bases, x), np.append(np.full(len(bases), k_of_all), k))
        np.testing.assert_array_equal(at_once, shuffled[: len(bases)])
