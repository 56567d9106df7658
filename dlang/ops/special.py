"""The functions that NumPy lacks, or has with other values: what they mean, not how compiled code does them.

The special functions are computed element by element in f64.

Threefry-2x64 with 20 rounds: random bits as a pure function of a key and a counter, of two words of 64 bits each.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). No state and no order: any word can be
drawn at any time, by any thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _elementwise(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of one float on numbers and arrays of any float dtype."""
    whole = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(whole(np.asarray(x, np.float64)), np.float64).astype(np.asarray(x).dtype)


def _lgamma(x: float) -> float:
    """log |gamma x|; infinite at the poles."""
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _digamma(x: float) -> float:
    """The derivative of log |gamma x|: by its recurrence up to 10, from there on by its asymptotic series."""
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0:
        if math.isinf(x) or x == math.floor(x):
            return math.nan
        r = x - round(x)
        return _digamma(1 - x) - math.pi / math.tan(math.pi * r)
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    if math.isinf(x) or math.isnan(x):
        return x
    series = sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1)) if x < 1e20 else 0.0
    return total + math.log(x) - 0.5 / x - series


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
lgamma = _elementwise(_lgamma)
digamma = _elementwise(_digamma)


def power(x: Any, y: Any) -> Any:
    """Powers of integers modulo 2**64, then of the dtype; of floats as IEEE 754 has them."""
    if np.issubdtype(x.dtype, np.integer):  # a negative exponent was refused before
        return np.power(x.astype(np.uint64), np.maximum(y, 0).astype(np.uint64)).astype(x.dtype)
    if not np.issubdtype(np.asarray(y).dtype, np.floating):
        result = np.power(x, y)
        # A large exponent loses its last bit as a float, and the sign of the power is in that.
        return np.where(y & 1, np.copysign(result, x), result)
    # NumPy takes the square root for the power 0.5, which differs at -0.0 and -inf: of powers that are no whole numbers
    # these two have those of their magnitudes.
    magnitude = ((x == 0) | np.isinf(x)) & (np.floor(y) != y)
    return np.power(np.where(magnitude, np.abs(x), x), y)


def select(c: Any, x: Any, y: Any) -> Any:
    return np.where(c, x, y) if isinstance(c, np.ndarray) else x if c else y


# ---- random bits -----------------------------------------------------------------------------------------------------
ROUNDS = 20
ROTATIONS = (16, 42, 12, 31, 16, 32, 24, 21)  # of the rounds, over and over
PARITY = 0x1BD11BDAA9FC1A22


def threefry(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[Any, Any]:
    """Two words for a key and a counter: NumPy's `uint64`, or arrays of them."""
    word = type(k0.dtype.type(0))
    keys = (k0, k1, word(PARITY) ^ k0 ^ k1)
    x, y = c0 + k0, c1 + k1
    for r in range(ROUNDS):
        places = ROTATIONS[r % len(ROTATIONS)]
        x = x + y
        y = ((y << word(places)) | (y >> word(64 - places))) ^ x
        if r % 4 == 3:
            s = r // 4 + 1
            x, y = x + keys[s % 3], y + keys[(s + 1) % 3] + word(s)
    return x, y
