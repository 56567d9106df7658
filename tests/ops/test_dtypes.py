"""Every dtype has every fact that a stage asks for, and the facts agree with one another and with NumPy and C."""

from __future__ import annotations

import ctypes
import math
import struct

import numpy as np
import pytest

from dlang.codegen.llvm.emitter import FORMATS
from dlang.ops.dtypes import DTYPES, FLOATS, HALF, INTEGERS, NAMES, TRUNCATED, WHOLE, DType, rounded

NUMBERS = [d for d in DTYPES.values() if d.kind != "text"]


@pytest.mark.parametrize("d", NUMBERS, ids=lambda d: d.name)
def test_an_element_is_as_wide_in_every_language(d: DType) -> None:
    assert np.dtype(d.memory).itemsize == d.width
    assert ctypes.sizeof(getattr(ctypes, f"c_{d.c_element.removesuffix('_t')}")) == d.width
    assert d.in_numpy == (np.dtype(d.numpy).itemsize == d.width)
    assert d.llvm and d.c and d.elsewhere


@pytest.mark.parametrize("d", [DTYPES[name] for name in FLOATS], ids=lambda d: d.name)
def test_a_float_has_digits_a_largest_number_and_a_step(d: DType) -> None:
    exponents = d.bits - d.digits  # with the sign, and the leading digit that is not kept
    bias = 2 ** (exponents - 1) - 1
    assert d.largest == pytest.approx((2 - 2.0 ** (1 - d.digits)) * 2.0**bias, rel=1e-7)
    assert 2.0**-d.digits < d.step < 1 and 2.0**-d.digits < d.tolerance < 1
    assert d.cublas is not None
    assert d.is_half == (d.width < DTYPES[d.register].width) == (d.name in HALF)


@pytest.mark.parametrize("name", INTEGERS)
def test_the_ends_of_integers_are_those_of_numpy(name: str) -> None:
    d, info = DTYPES[name], np.iinfo(DTYPES[name].numpy)
    assert (d.smallest, d.largest, d.bits) == (int(info.min), int(info.max), info.bits)


def test_formats_of_floats_are_those_of_ieee_754() -> None:
    assert {name: (f.bits, f.fraction, f.bias) for name, f in FORMATS.items()} == {
        "f64": (64, 52, 1023),
        "f32": (32, 23, 127),
    }
    assert FORMATS["f32"].pattern(1.0) == struct.unpack("<I", struct.pack("<f", 1.0))[0] == FORMATS["f32"].one


def test_groups_of_dtypes_leave_none_out() -> None:
    assert set(NAMES) == set(DTYPES)
    assert set(WHOLE) | set(HALF) | {"str"} == set(DTYPES)
    preferences = sorted(d.preference for d in DTYPES.values() if d.preference)
    assert preferences == list(range(1, len(preferences) + 1))
    suffixes = [s for d in DTYPES.values() for s in d.suffixes]
    assert len(suffixes) == len(set(suffixes))


@pytest.mark.parametrize("dtype", TRUNCATED)
def test_a_truncated_float_is_the_upper_half_of_an_f32(dtype: str) -> None:
    for x in (0.1, -1 / 3, 1e-40, 65504.0, 3.4e38, -0.0):
        number = rounded(x, dtype)
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        assert bits % 2**16 == 0
        assert math.isinf(number) == (abs(x) > DTYPES[dtype].largest)
        assert math.isinf(number) or abs(number - x) <= 2.0 ** -DTYPES[dtype].digits * max(abs(x), 2.0**-126)
