"""Accelerate's tunnel: an image of smooth noise, seen as a tunnel that one flies through."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "smooth noise as the walls of a tunnel"
SIZES = ("200x300", "20x24")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-6}


def data(size: str, dtype: str) -> list[Any]:
    n, m = sizes_of(size)
    return [2.5, n, m]


def value(time: Any, n: int, m: int) -> Any:
    import jax.numpy as jnp

    def fract(x: Any) -> Any:
        return x - jnp.trunc(x)

    def noise(x: Any, y: Any) -> Any:
        colour = weight = 0.0
        for i in range(-2, 3):
            for j in range(-2, 3):
                a, b = jnp.trunc(x) + i, jnp.trunc(y) + j
                u = i - fract(x) + fract(jnp.sin(127.1 * a + 311.7 * b) * 437.585453)
                v = j - fract(y) + fract(jnp.sin(269.5 * a + 183.3 * b) * 437.585453)
                t = jnp.clip(jnp.sqrt(u**2 + v**2) / 1.414, 0, 1)
                smooth = 1 - t * t * (3 - 2 * t)
                weight = weight + smooth
                colour = colour + smooth * fract(jnp.sin(419.2 * a + 371.9 * b) * 833.458578)
        return colour / weight

    y, x = jnp.meshgrid(1.2 * (jnp.arange(n) - n // 2 + 0.5), 1.2 * (jnp.arange(m) - m // 2 + 0.5), indexing="ij")
    inverse = 1 / jnp.sqrt(x**2 + y**2)
    v = noise(5 * (x * inverse - inverse - 2 * time), 5 * y * inverse) + 0.24 * inverse
    return v[..., None] * jnp.array([0.659, 0.772, 1.0])


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).mean()


def fract(x: float) -> float:
    return x - math.trunc(x)


def noise(x: float, y: float) -> float:
    colour = weight = 0.0
    for i in range(-2, 3):
        for j in range(-2, 3):
            a, b = math.trunc(x) + i, math.trunc(y) + j
            u = i - fract(x) + fract(math.sin(127.1 * a + 311.7 * b) * 437.585453)
            v = j - fract(y) + fract(math.sin(269.5 * a + 183.3 * b) * 437.585453)
            t = min(max(math.sqrt(u * u + v * v) / 1.414, 0.0), 1.0)
            smooth = 1 - t * t * (3 - 2 * t)
            weight += smooth
            colour += smooth * fract(math.sin(419.2 * a + 371.9 * b) * 833.458578)
    return colour / weight


def loops(time: float, n: int, m: int) -> Any:
    image = np.empty((n, m, 3))
    for i in prange(n):
        for j in range(m):
            y, x = 1.2 * (i - n // 2 + 0.5), 1.2 * (j - m // 2 + 0.5)
            inverse = 1 / math.sqrt(x * x + y * y)
            v = noise(5 * (x * inverse - inverse - 2 * time), 5 * y * inverse) + 0.24 * inverse
            image[i, j, 0], image[i, j, 1], image[i, j, 2] = 0.659 * v, 0.772 * v, v
    return image


WRT = (0,)
dlang, jax, numba = tools("tunnel", value, loops, WRT, loss)
