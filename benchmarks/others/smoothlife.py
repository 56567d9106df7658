"""Accelerate's SmoothLife: the game of life on a continuum, by means over discs and rings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.fft import transform_2d
from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "the game of life on a continuum"
SIZES = ("128x10", "32x3")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-8}
STEP = 0.1


def data(size: str, dtype: str) -> list[Any]:
    """The world, and the spectra of a disc and of the ring around it."""
    n, steps = sizes_of(size)
    axis = np.minimum(np.arange(n), n - np.arange(n))
    radius = np.hypot(axis[:, None], axis)
    disc = np.clip(10 / 3 - radius + 0.5, 0, 1)
    ring = np.clip(10 - radius + 0.5, 0, 1) - disc
    spectra = [np.fft.fft2(k / k.sum()) for k in (disc, ring)]
    return [np.random.default_rng(0).uniform(size=(n, n)), *(s.real.copy() for s in spectra), steps]


def value(world: Any, disc: Any, ring: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    def sigmoid(x: Any, a: Any, width: float) -> Any:
        return 1 / (1 + jnp.exp(-4 * (x - a) / width))

    def between(x: Any, a: float, b: float) -> Any:
        return sigmoid(x, a, 0.028) * (1 - sigmoid(x, b, 0.028))

    def step(_: Any, world: Any) -> Any:
        spectrum = jnp.fft.fft2(world)
        inside, around = jnp.fft.ifft2(spectrum * disc).real, jnp.fft.ifft2(spectrum * ring).real
        alive = sigmoid(inside, 0.5, 0.147)
        target = between(around, 0.257, 0.336) * (1 - alive) + between(around, 0.365, 0.549) * alive
        return jnp.clip(world + STEP * (2 * target - 1), 0, 1)

    return jax.lax.fori_loop(0, steps, step, world)


def sigmoid(x: float, a: float, width: float) -> float:
    return 1 / (1 + math.exp(-4 * (x - a) / width))


def between(x: float, a: float, b: float) -> float:
    return sigmoid(x, a, 0.028) * (1 - sigmoid(x, b, 0.028))


def loops(world: Any, disc: Any, ring: Any, steps: int) -> Any:
    n = len(world)
    for _ in range(steps):
        spectrum = transform_2d(world.astype(np.complex128), -1.0)
        inside = transform_2d(spectrum * disc, 1.0).real / (n * n)
        around = transform_2d(spectrum * ring, 1.0).real / (n * n)
        following = np.empty((n, n))
        for i in prange(n):
            for j in range(n):
                alive = sigmoid(inside[i, j], 0.5, 0.147)
                target = between(around[i, j], 0.257, 0.336) * (1 - alive) + between(around[i, j], 0.365, 0.549) * alive
                following[i, j] = min(max(world[i, j] + STEP * (2 * target - 1), 0.0), 1.0)
        world = following
    return world


WRT = (0,)
dlang, jax, numba = tools("smoothlife", value, loops, WRT)
