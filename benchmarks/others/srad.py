"""Rodinia's SRAD: diffusion that removes the speckle of an image and keeps its edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "an image without its speckle, by diffusion that stops at edges"
SIZES = ("256x256x20", "48x40x10")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
RATE = 0.5


def data(size: str, dtype: str) -> list[Any]:
    n, m, steps = sizes_of(size)
    return [np.random.default_rng(0).uniform(0, 255, (n, m)), steps]


def value(image: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    def step(_: Any, x: Any) -> Any:
        mean = x.mean()
        speckle = (x**2).mean() / mean**2 - 1
        padded = jnp.pad(x, 1, mode="edge")
        north, south = padded[:-2, 1:-1] - x, padded[2:, 1:-1] - x
        west, east = padded[1:-1, :-2] - x, padded[1:-1, 2:] - x
        slope = (north**2 + south**2 + west**2 + east**2) / x**2
        bend = (north + south + west + east) / x
        here = (0.5 * slope - bend**2 / 16) / (1 + 0.25 * bend) ** 2
        c = jnp.clip(1 / (1 + (here - speckle) / (speckle * (1 + speckle))), 0, 1)
        shifted = jnp.pad(c, ((0, 1), (0, 1)), mode="edge")
        flow = c * (north + west) + shifted[1:, :-1] * south + shifted[:-1, 1:] * east
        return x + 0.25 * RATE * flow

    return 255 * jnp.log(jax.lax.fori_loop(0, steps, step, jnp.exp(image / 255)))


def loss(image: Any, steps: int) -> Any:
    return ((value(image, steps) / 255) ** 2).mean()


def loops(image: Any, steps: int) -> Any:
    n, m = image.shape
    x, c = np.exp(image / 255), np.empty_like(image)
    following = np.empty_like(x)
    for _ in range(steps):
        total = squares = 0.0
        for i in range(n):
            for j in range(m):
                total += x[i, j]
                squares += x[i, j] * x[i, j]
        mean = total / (n * m)
        speckle = squares / (n * m) / (mean * mean) - 1
        for i in prange(n):
            for j in range(m):
                here = x[i, j]
                north, south = x[max(i - 1, 0), j] - here, x[min(i + 1, n - 1), j] - here
                west, east = x[i, max(j - 1, 0)] - here, x[i, min(j + 1, m - 1)] - here
                slope = (north * north + south * south + west * west + east * east) / (here * here)
                bend = (north + south + west + east) / here
                q = (0.5 * slope - bend * bend / 16) / ((1 + 0.25 * bend) * (1 + 0.25 * bend))
                c[i, j] = min(max(1 / (1 + (q - speckle) / (speckle * (1 + speckle))), 0.0), 1.0)
        for i in prange(n):
            for j in range(m):
                here = x[i, j]
                north, south = x[max(i - 1, 0), j] - here, x[min(i + 1, n - 1), j] - here
                west, east = x[i, max(j - 1, 0)] - here, x[i, min(j + 1, m - 1)] - here
                flow = c[i, j] * (north + west) + c[min(i + 1, n - 1), j] * south + c[i, min(j + 1, m - 1)] * east
                following[i, j] = here + 0.25 * RATE * flow
        x, following = following, x
    return 255 * np.log(x)


WRT = (0,)
dlang, jax, numba = tools("srad", value, loops, WRT, loss)
