"""The series of the Java Grande Forum: coefficients of Fourier, by the rule of trapezoids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "coefficients of Fourier of (x + 1) ** x"
SIZES = ("1000x1000", "20x50")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    return [2.0, *sizes_of(size)]


def value(end: Any, n: int, steps: int) -> Any:
    import jax.numpy as jnp

    x = end * jnp.arange(steps + 1) / steps
    weights = jnp.ones(steps + 1).at[jnp.array([0, steps])].set(0.5) * (x + 1) ** x * end / steps
    angles = math.pi * jnp.arange(n)[:, None] * x
    return jnp.cos(angles) @ weights, jnp.sin(angles) @ weights


def loss(*args: Any) -> Any:
    a, b = value(*args)
    return (a**2 + b**2).mean()


def loops(end: float, n: int, steps: int) -> Any:
    a, b = np.empty(n), np.empty(n)
    for i in prange(n):
        c = s = 0.0
        for k in range(steps + 1):
            x = end * k / steps
            weight = (0.5 if k in (0, steps) else 1.0) * (x + 1) ** x
            c += weight * math.cos(math.pi * i * x)
            s += weight * math.sin(math.pi * i * x)
        a[i], b[i] = c * end / steps, s * end / steps
    return a, b


WRT = (0,)
dlang, jax, numba = tools("series", value, loops, WRT, loss)
