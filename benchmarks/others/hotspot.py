"""Rodinia's hotspot: a stencil on a grid, for as many steps as are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "temperatures of a chip from the power of its parts"
SIZES = ("512x512x100", "64x64x20")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, m, steps = sizes_of(size)
    random = np.random.default_rng(0)
    return [random.uniform(320, 340, (n, m)), random.uniform(0, 0.01, (n, m)), steps]


def value(temperature: Any, power: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    n, m = temperature.shape
    factor, across, down, out = constants(n, m)

    def step(_: Any, t: Any) -> Any:
        padded = jnp.pad(t, 1, mode="edge")
        sides = padded[1:-1, :-2] + padded[1:-1, 2:] - 2 * t
        ends = padded[:-2, 1:-1] + padded[2:, 1:-1] - 2 * t
        return t + factor * (power + sides / across + ends / down + (80.0 - t) / out)

    return jax.lax.fori_loop(0, steps, step, temperature)


def loss(*args: Any) -> Any:
    return ((value(*args) / 80 - 1) ** 2).mean()


def loops(temperature: Any, power: Any, steps: int) -> Any:
    n, m = temperature.shape
    factor, across, down, out = constants(n, m)
    t, following = temperature.copy(), np.empty_like(temperature)
    for _ in range(steps):
        for i in prange(n):
            for j in range(m):
                here = t[i, j]
                sides = t[i, max(j - 1, 0)] + t[i, min(j + 1, m - 1)] - 2 * here
                ends = t[max(i - 1, 0), j] + t[min(i + 1, n - 1), j] - 2 * here
                following[i, j] = here + factor * (power[i, j] + sides / across + ends / down + (80.0 - here) / out)
        t, following = following, t
    return t


def constants(n: int, m: int) -> tuple[float, float, float, float]:
    """The factor of a step, and the resistances in both directions and to the air."""
    height, width = 0.016 / n, 0.016 / m
    thickness, conductivity, heat = 0.0005, 100.0, 1.75e6
    factor = 0.001 * 0.5 * thickness * heat / 3e6 / (0.5 * heat * thickness * height * width)
    across, down = width / (2 * conductivity * thickness * height), height / (2 * conductivity * thickness * width)
    return factor, across, down, thickness / (conductivity * height * width)


WRT = (0, 1)
dlang, jax, numba = tools("hotspot", value, loops, WRT, loss)
