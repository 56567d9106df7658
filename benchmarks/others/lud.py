"""Rodinia's LU decomposition, without pivots, both factors in one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "a matrix as the product of two triangular ones; the logarithm of its determinant"
SIZES = ("384", "32")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    (n,) = sizes_of(size)
    return [np.random.default_rng(0).uniform(size=(n, n)) + n * np.eye(n)]


def value(matrix: Any) -> Any:
    import jax
    import jax.numpy as jnp

    n = len(matrix)
    below = jnp.arange(n)

    def step(k: Any, m: Any) -> Any:
        column = jnp.where(below > k, m[:, k] / m[k, k], 0.0)
        m = m - column[:, None] * jnp.where(below > k, m[k], 0.0)
        return m.at[:, k].set(jnp.where(below > k, column, m[:, k]))

    return jax.lax.fori_loop(0, n, step, matrix)


def loss(matrix: Any) -> Any:
    import jax.numpy as jnp

    return jnp.log(jnp.diagonal(value(matrix))).sum()


def loops(matrix: Any) -> Any:
    n = len(matrix)
    m = matrix.copy()
    for k in range(n):
        for i in prange(k + 1, n):
            m[i, k] /= m[k, k]
            for j in range(k + 1, n):
                m[i, j] -= m[i, k] * m[k, j]
    return m


WRT = (0,)
dlang, jax, numba = tools("lud", value, loops, WRT, loss)
