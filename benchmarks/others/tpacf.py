"""Parboil's tpacf: how many pairs of points on a sphere are how far apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import sizes_of, tools

TITLE = "histograms of the angles between points on a sphere"
SIZES = ("2000", "60")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-12}
BINS = 20


def data(size: str, dtype: str) -> list[Any]:
    (n,) = sizes_of(size)
    random = np.random.default_rng(0)
    places = []
    for _ in range(2):
        right, up = random.uniform(0, 2 * math.pi, n), np.arcsin(random.uniform(-1, 1, n))
        places.append(np.stack([np.cos(right) * np.cos(up), np.sin(right) * np.cos(up), np.sin(up)], axis=1))
    return [*places, np.cos(10 ** (np.arange(BINS + 1) / 5) / 60 * math.pi / 180)]


def value(points: Any, others: Any, edges: Any) -> Any:
    import jax.numpy as jnp

    def histogram(a: Any, b: Any, weights: Any) -> Any:
        places = jnp.searchsorted(-edges, -(a @ b.T), side="left")
        return jnp.bincount(places.ravel(), weights=weights, length=BINS + 2)

    n = len(points)
    below = jnp.tril(jnp.ones((n, n)), -1).ravel()
    return histogram(points, points, below), histogram(points, others, None), histogram(others, others, below)


def place(dot: float, edges: Any) -> int:
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if dot >= edges[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def loops(points: Any, others: Any, edges: Any) -> Any:
    n = len(points)
    own, both, rest = np.zeros(BINS + 2, np.int64), np.zeros(BINS + 2, np.int64), np.zeros(BINS + 2, np.int64)
    for i in range(n):
        for j in range(n):
            both[place(dot(points, i, others, j), edges)] += 1
        for j in range(i):
            own[place(dot(points, i, points, j), edges)] += 1
            rest[place(dot(others, i, others, j), edges)] += 1
    return own, both, rest


def dot(a: Any, i: int, b: Any, j: int) -> float:
    result: float = a[i, 0] * b[j, 0] + a[i, 1] * b[j, 1] + a[i, 2] * b[j, 2]
    return result


dlang, jax, numba = tools("tpacf", value, loops)
