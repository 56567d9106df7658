"""Futhark's Heston model: prices of options by Fourier's transform, whose variance is random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "prices of options in Heston's model"
SIZES = ("2000x100", "20x30")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
SPOT = 100.0


def data(size: str, dtype: str) -> list[Any]:
    """Strikes, times, the variance at first and later, its speed, its volatility and correlation, and a quadrature."""
    n, points = sizes_of(size)
    random = np.random.default_rng(0)
    x, w = np.polynomial.legendre.leggauss(points)
    return [
        random.uniform(70, 130, n), random.uniform(0.2, 2, n), 0.04, 0.09, 1.5, 0.6, -0.5, 40 * (x + 1), 40 * w,
    ]  # fmt: skip


def value(strikes: Any, times: Any, start: Any, later: Any, speed: Any, wild: Any, tie: Any, x: Any, w: Any) -> Any:
    import jax.numpy as jnp

    xi = x - 0.5j
    t = times[:, None]
    d0 = speed - 1j * tie * wild * xi
    d = jnp.sqrt(d0**2 + wild**2 * xi * (1j + xi))
    low = d0 - d
    g = low / (d0 + d)
    e = jnp.exp(-d * t)
    a = speed * later / wild**2 * (low * t - 2 * jnp.log((1 - g * e) / (1 - g)))
    psi = jnp.exp(a + start / wild**2 * low * (1 - e) / (1 - g * e))
    turn = jnp.exp(-1j * x * jnp.log(strikes / SPOT)[:, None])
    total = (w / (0.25 + x**2) * (turn * psi).real).sum(axis=1)
    return SPOT - jnp.sqrt(strikes * SPOT) * total / math.pi


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).mean() / SPOT


def loops(
    strikes: Any, times: Any, start: float, later: float, speed: float, wild: float, tie: float, x: Any, w: Any
) -> Any:
    prices = np.empty(len(strikes))
    for k in prange(len(strikes)):
        t, moneyness = times[k], strikes[k] / SPOT
        total = 0.0
        for j in range(len(x)):
            xi = x[j] - 0.5j
            d0 = speed - 1j * tie * wild * xi
            d = np.sqrt(d0 * d0 + wild * wild * xi * (1j + xi))
            low = d0 - d
            g = low / (d0 + d)
            e = np.exp(-d * t)
            a = speed * later / (wild * wild) * (low * t - 2 * np.log((1 - g * e) / (1 - g)))
            psi = np.exp(a + start / (wild * wild) * low * (1 - e) / (1 - g * e))
            total += w[j] / (0.25 + x[j] * x[j]) * (np.exp(-1j * x[j] * math.log(moneyness)) * psi).real
        prices[k] = SPOT - math.sqrt(strikes[k] * SPOT) * total / math.pi
    return prices


WRT = (2, 3, 4, 5, 6)
dlang, jax, numba = tools("heston", value, loops, WRT, loss)
