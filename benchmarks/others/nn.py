"""Rodinia's nearest neighbours: the records that are nearest to a place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "the records nearest to a place, one after another"
SIZES = ("1000000x10", "2000x10")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, count = sizes_of(size)
    random = np.random.default_rng(0)
    return [random.uniform(0, 180, n), random.uniform(0, 180, n), 90.0, 60.0, count]


def value(latitudes: Any, longitudes: Any, latitude: Any, longitude: Any, count: int) -> Any:
    import jax
    import jax.numpy as jnp

    distances = jnp.sqrt((latitudes - latitude) ** 2 + (longitudes - longitude) ** 2)
    negated, indices = jax.lax.top_k(-distances, count)
    return indices, -negated


def loss(*args: Any) -> Any:
    return value(*args)[1].sum()


def loops(latitudes: Any, longitudes: Any, latitude: float, longitude: float, count: int) -> Any:
    n = len(latitudes)
    distances = np.empty(n)
    for i in prange(n):
        distances[i] = math.sqrt((latitudes[i] - latitude) ** 2 + (longitudes[i] - longitude) ** 2)
    indices, found = np.zeros(count, np.int64), np.zeros(count)
    for k in range(count):
        best = 0
        for i in range(n):
            if distances[i] < distances[best]:
                best = i
        indices[k], found[k] = best, distances[best]
        distances[best] = 1e300
    return indices, found


WRT = (2, 3)
dlang, jax, numba = tools("nn", value, loops, WRT, loss)
