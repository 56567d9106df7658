"""Parboil's stencil: a point of a lattice and its six neighbours, over and over."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "seven points of a lattice of three dimensions"
SIZES = ("96x96x96x20", "12x10x8x10")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
CENTRE, AROUND = 1 / 6, 1 / 36


def data(size: str, dtype: str) -> list[Any]:
    n, m, p, steps = sizes_of(size)
    return [np.random.default_rng(0).normal(size=(n, m, p)), steps]


def value(lattice: Any, steps: int) -> Any:
    import jax

    def step(_: Any, a: Any) -> Any:
        inner = a[1:-1, 1:-1, 1:-1]
        around = a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
        around = around + a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:]
        return a.at[1:-1, 1:-1, 1:-1].set(AROUND * around + CENTRE * inner)

    return jax.lax.fori_loop(0, steps, step, lattice)


def loss(lattice: Any, steps: int) -> Any:
    return (value(lattice, steps) ** 2).mean()


def loops(lattice: Any, steps: int) -> Any:
    n, m, p = lattice.shape
    a, following = lattice.copy(), lattice.copy()
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, p - 1):
                    around = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k]
                    around = around + a[i, j, k - 1] + a[i, j, k + 1]
                    following[i, j, k] = AROUND * around + CENTRE * a[i, j, k]
        a, following = following, a
    return a


WRT = (0,)
dlang, jax, numba = tools("stencil", value, loops, WRT, loss)
