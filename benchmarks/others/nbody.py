"""Accelerate's n-body: every body attracts every other one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "bodies that attract each other, for some steps"
SIZES = ("1000x4", "100x10")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
STEP, SOFTENING = 0.01, 0.5


def data(size: str, dtype: str) -> list[Any]:
    n, steps = sizes_of(size)
    random = np.random.default_rng(0)
    return [random.normal(size=(n, 3)), random.normal(size=(n, 3)), random.uniform(0.5, 1.5, n) / n, steps]


def value(r: Any, v: Any, mass: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    def step(_: Any, state: Any) -> Any:
        r, v = state
        d = r[None] - r[:, None]
        inverse = jax.lax.rsqrt(jnp.sum(d**2, axis=2) + SOFTENING**2)
        return r + STEP * v, v + STEP * jnp.einsum("ij,ijk->ik", mass * inverse**3, d)

    return jax.lax.fori_loop(0, steps, step, (r, v))


def loss(*args: Any) -> Any:
    r, v = value(*args)
    return (r**2 + v**2).mean()


def loops(r: Any, v: Any, mass: Any, steps: int) -> Any:
    n = len(r)
    v = v.copy()
    for _ in range(steps):
        following = r + STEP * v
        for i in prange(n):
            x = y = z = 0.0
            for j in range(n):
                a, b, c = r[j, 0] - r[i, 0], r[j, 1] - r[i, 1], r[j, 2] - r[i, 2]
                inverse = 1 / math.sqrt(a * a + b * b + c * c + SOFTENING**2)
                s = mass[j] * inverse * inverse * inverse
                x += s * a
                y += s * b
                z += s * c
            v[i, 0] += STEP * x
            v[i, 1] += STEP * y
            v[i, 2] += STEP * z
        r = following
    return r, v


WRT = (0, 1, 2)
dlang, jax, numba = tools("nbody", value, loops, WRT, loss)
