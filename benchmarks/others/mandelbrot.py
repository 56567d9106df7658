"""Accelerate's mandelbrot: how long each point stays near the origin."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "steps until points escape"
SIZES = ("600x800x40", "40x48x40")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, m, limit = sizes_of(size)
    return [-0.7, 0.0, 3.0, n, m, limit]


def value(x: Any, y: Any, width: Any, n: int, m: int, limit: int) -> Any:
    import jax
    import jax.numpy as jnp

    a = x + width * (jnp.arange(m) / m - 0.5)
    b = y + width * n / m * (jnp.arange(n) / n - 0.5)
    c, d = jnp.broadcast_to(a, (n, m)), jnp.broadcast_to(b[:, None], (n, m))

    def step(state: Any) -> Any:
        k, u, v, count = state
        inside = u**2 + v**2 < 16
        u, v = jnp.where(inside, u**2 - v**2 + c, u), jnp.where(inside, 2 * u * v + d, v)
        return k + 1, u, v, count + inside

    def some_are_inside(state: Any) -> Any:
        k, u, v, _ = state
        return (k < limit) & jnp.any(u**2 + v**2 < 16)

    _, _, _, count = jax.lax.while_loop(some_are_inside, step, (0, c, d, jnp.zeros((n, m), int)))
    return count


def loops(x: float, y: float, width: float, n: int, m: int, limit: int) -> Any:
    counts = np.zeros((n, m), np.int64)
    for i in prange(n):
        d = y + width * n / m * (i / n - 0.5)
        for j in range(m):
            c = x + width * (j / m - 0.5)
            u, v, k = c, d, 0
            while k < limit and u * u + v * v < 16:
                u, v, k = u * u - v * v + c, 2 * u * v + d, k + 1
            counts[i, j] = k
    return counts


dlang, jax, numba = tools("mandelbrot", value, loops)
