"""The solver of tridiagonal systems of Futhark's simulation of an ocean: a system for each column of water."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "tridiagonal systems, one for each column of water"
SIZES = ("10000x100", "40x12")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, k = sizes_of(size)
    random = np.random.default_rng(0)
    lower, upper = random.uniform(0.1, 1, (n, k)), random.uniform(0.1, 1, (n, k))
    return [lower, random.uniform(2.5, 4, (n, k)), upper, random.normal(size=(n, k))]


def value(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def down(state: Any, given: Any) -> Any:
        c, y = state
        a, b, above, r = given
        scale = 1 / (b - a * c)
        following = above * scale, (r - a * y) * scale
        return following, following

    def up(x: Any, given: Any) -> Any:
        c, y = given
        x = y - c * x
        return x, x

    zero = jnp.zeros(len(right))
    _, rows = jax.lax.scan(down, (zero, zero), tuple(a.T for a in (lower, diagonal, upper, right)))
    return jax.lax.scan(up, zero, rows, reverse=True)[1].T


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).mean()


def loops(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
    n, k = right.shape
    x = np.empty_like(right)
    for i in prange(n):
        c = np.empty(k)
        above = before = 0.0
        for j in range(k):
            scale = 1 / (diagonal[i, j] - lower[i, j] * above)
            above, before = upper[i, j] * scale, (right[i, j] - lower[i, j] * before) * scale
            c[j], x[i, j] = above, before
        for j in range(k - 2, -1, -1):
            x[i, j] -= c[j] * x[i, j + 1]
    return x


WRT = (0, 1, 2, 3)
dlang, jax, numba = tools("tridiag", value, loops, WRT, loss)
