"""Futhark's BFAST: where the series of images of a place, some of them under clouds, leaves its old course."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "moving sums of the residuals of a model of seasons, for each pixel"
SIZES = ("1000x256x128", "20x24x16")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-6}
HARMONICS, PORTION = 2, 0.25


def data(size: str, dtype: str) -> list[Any]:
    pixels, times, history = sizes_of(size)
    random = np.random.default_rng(0)
    images = np.sin(2 * math.pi * np.arange(1, times + 1) / 8.3) + 0.1 * random.normal(size=(pixels, times))
    images[random.uniform(size=images.shape) < 0.2] = np.nan
    return [images, 8.0, history]


def value(images: Any, period: Any, history: int) -> Any:
    import jax
    import jax.numpy as jnp

    n, (_, times) = history, images.shape
    t = jnp.arange(1, times + 1.0)
    angles = 2 * math.pi * jnp.arange(1, HARMONICS + 1)[:, None] * t / period
    x = jnp.concatenate([jnp.ones((1, times)), t[None] / n, jnp.sin(angles), jnp.cos(angles)])

    def pixel(y: Any) -> Any:
        seen = ~jnp.isnan(y)
        y = jnp.where(seen, y, 0.0)
        old = x[:, :n] * seen[:n]
        beta = jnp.linalg.solve(old @ x[:, :n].T, old @ y[:n])
        error = jnp.where(seen, y - beta @ x, 0.0)
        sigma = jnp.sqrt((error[:n] ** 2).sum() / (n - 2 * HARMONICS - 2))
        running = jnp.concatenate([jnp.zeros(1), jnp.cumsum(error)])
        h = int(n * PORTION)
        return (running[n + 1 :] - running[n + 1 - h : times + 1 - h]) / (sigma * math.sqrt(n))

    return jax.vmap(pixel)(images)


def loops(images: Any, period: float, history: int) -> Any:
    n, (pixels, times) = history, images.shape
    k, h = 2 + 2 * HARMONICS, int(history * PORTION)
    x = np.ones((k, times))
    for t in range(times):
        x[1, t] = (t + 1) / n
        for q in range(HARMONICS):
            angle = 2 * math.pi * (q + 1) * (t + 1) / period
            x[2 + q, t], x[2 + HARMONICS + q, t] = math.sin(angle), math.cos(angle)
    result = np.empty((pixels, times - n))
    for p in prange(pixels):
        a, beta = np.zeros((k, k)), np.zeros(k)
        for t in range(n):
            if not math.isnan(images[p, t]):
                for i in range(k):
                    beta[i] += x[i, t] * images[p, t]
                    for j in range(k):
                        a[i, j] += x[i, t] * x[j, t]
        beta = np.linalg.solve(a, beta)
        error, squares = np.zeros(times), 0.0
        for t in range(times):
            if not math.isnan(images[p, t]):
                error[t] = images[p, t]
                for i in range(k):
                    error[t] -= x[i, t] * beta[i]
            if t < n:
                squares += error[t] * error[t]
        scale = 1 / math.sqrt(squares / (n - 2 * HARMONICS - 2) * n)
        moving = 0.0
        for t in range(n + 1 - h, n):
            moving += error[t]
        for t in range(n, times):
            moving += error[t]
            result[p, t - n] = moving * scale
            moving -= error[t - h + 1]
    return result


WRT = (1,)
NANS = {"reassoc", "contract", "arcp", "afn", "nsz", "ninf"}
dlang, jax, numba = tools("bfast", value, loops, WRT, fastmath=NANS)
