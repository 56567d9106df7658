"""Rodinia's k-means: points go to the nearest centre, and centres to the mean of their points."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "centres of clusters after some iterations"
SIZES = ("50000x16x8x5", "1000x4x5x5")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, d, k, iterations = sizes_of(size)
    points = np.random.default_rng(0).normal(size=(n, d))
    return [points, points[:k].copy(), iterations]


def value(points: Any, centres: Any, iterations: int) -> Any:
    import jax
    import jax.numpy as jnp

    k = len(centres)

    def step(_: Any, centres: Any) -> Any:
        nearest = jnp.argmin(squares(points, centres), axis=1)
        sums = jax.ops.segment_sum(points, nearest, k)
        counts = jax.ops.segment_sum(jnp.ones(len(points)), nearest, k)
        return sums / jnp.maximum(counts, 1.0)[:, None]

    return jax.lax.fori_loop(0, iterations, step, centres)


def squares(points: Any, centres: Any) -> Any:
    return ((points[:, None] - centres) ** 2).sum(axis=2)


def loss(points: Any, centres: Any, iterations: int) -> Any:
    return squares(points, value(points, centres, iterations)).min(axis=1).mean()


def loops(points: Any, centres: Any, iterations: int) -> Any:
    (n, d), k = points.shape, len(centres)
    nearest = np.zeros(n, np.int64)
    for _ in range(iterations):
        for i in prange(n):
            least = np.inf
            for c in range(k):
                s = 0.0
                for j in range(d):
                    s += (points[i, j] - centres[c, j]) ** 2
                if s < least:
                    least = s
                    nearest[i] = c
        sums, counts = np.zeros((k, d)), np.zeros(k)
        for i in range(n):
            counts[nearest[i]] += 1
            for j in range(d):
                sums[nearest[i], j] += points[i, j]
        for c in range(k):
            sums[c] /= max(counts[c], 1.0)
        centres = sums
    return centres


WRT = (0,)
dlang, jax, numba = tools("kmeans", value, loops, WRT, loss)
