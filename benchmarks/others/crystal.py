"""Accelerate's crystal: waves in several directions, added up and folded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "an image of a quasicrystal"
SIZES = ("400x30", "40x5")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, degree = sizes_of(size)
    return [30.0, 4.5, n, degree]


def value(scale: Any, time: Any, n: int, degree: int) -> Any:
    import jax.numpy as jnp

    angles = jnp.arange(degree) * (math.pi / (1 + 0.005 * time**1.5))
    place = scale * jnp.arange(n) / n
    phase = jnp.cos(angles) * place[None, :, None] + jnp.sin(angles) * place[:, None, None]
    total = (0.5 * (jnp.cos(phase) + 1)).sum(axis=2)
    whole = jnp.floor(total)
    rest = total - whole
    v = jnp.where(whole % 2 == 1, 1 - rest, rest)
    return jnp.stack([jnp.ones_like(v), 0.4 + 0.6 * v, v], axis=2)


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).mean()


def loops(scale: float, time: float, n: int, degree: int) -> Any:
    image = np.empty((n, n, 3))
    angle = math.pi / (1 + 0.005 * time**1.5)
    cosines, sines = np.cos(angle * np.arange(degree)), np.sin(angle * np.arange(degree))
    for i in prange(n):
        for j in range(n):
            total = 0.0
            for k in range(degree):
                total += 0.5 * (math.cos(scale * (cosines[k] * j / n + sines[k] * i / n)) + 1)
            whole = math.floor(total)
            v = 1 - (total - whole) if whole % 2 == 1 else total - whole
            image[i, j, 0], image[i, j, 1], image[i, j, 2] = 1.0, 0.4 + 0.6 * v, v
    return image


WRT = (0, 1)
dlang, jax, numba = tools("crystal", value, loops, WRT, loss)
