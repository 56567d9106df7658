"""Parboil's LBM: a fluid on a lattice, of which a wall is moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "a fluid in a box as nineteen streams from cell to cell"
SIZES = ("32x32x32x5", "6x6x6x4")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
OMEGA = 1.2
WAYS = np.array(
    [(a, b, c) for a in (-1, 0, 1) for b in (-1, 0, 1) for c in (-1, 0, 1) if abs(a) + abs(b) + abs(c) < 3], np.int64
)
WEIGHTS = np.array([{0: 1 / 3, 1: 1 / 18, 2: 1 / 36}[int(np.abs(way).sum())] for way in WAYS])


def data(size: str, dtype: str) -> list[Any]:
    n, m, p, steps = sizes_of(size)
    random = np.random.default_rng(0)
    f = WEIGHTS[:, None, None, None] * random.uniform(0.95, 1.05, (19, n, m, p))
    solid = (random.uniform(size=(n, m, p)) < 0.1).astype(np.float64)
    return [f, solid, WAYS, WEIGHTS, steps]


def value(f: Any, solid: Any, ways: Any, weights: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    directions = jnp.asarray(ways, f.dtype)

    def step(_: Any, f: Any) -> Any:
        f = jnp.stack([jnp.roll(f[k], tuple(WAYS[k]), axis=(0, 1, 2)) for k in range(19)])
        rho = f.sum(axis=0)
        u = jnp.einsum("kc,kxyz->cxyz", directions, f) / rho
        along = jnp.einsum("kc,cxyz->kxyz", directions, u)
        rest = weights[:, None, None, None] * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (u**2).sum(axis=0))
        return jnp.where(solid > 0, f[::-1], f + OMEGA * (rest - f))

    return jax.lax.fori_loop(0, steps, step, f)


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).sum(axis=0).mean()


def loops(f: Any, solid: Any, ways: Any, weights: Any, steps: int) -> Any:
    _, n, m, p = f.shape
    following = np.empty_like(f)
    for _ in range(steps):
        for x in prange(n):
            g = np.empty(19)
            for y in range(m):
                for z in range(p):
                    rho = a = b = c = 0.0
                    for k in range(19):
                        s = f[k, (x - ways[k, 0]) % n, (y - ways[k, 1]) % m, (z - ways[k, 2]) % p]
                        g[k] = s
                        rho += s
                        a += ways[k, 0] * s
                        b += ways[k, 1] * s
                        c += ways[k, 2] * s
                    a, b, c = a / rho, b / rho, c / rho
                    for k in range(19):
                        along = ways[k, 0] * a + ways[k, 1] * b + ways[k, 2] * c
                        square = 1.5 * (a * a + b * b + c * c)
                        rest = weights[k] * rho * (1 + 3 * along + 4.5 * along * along - square)
                        following[k, x, y, z] = g[18 - k] if solid[x, y, z] > 0 else g[k] + OMEGA * (rest - g[k])
        f, following = following, np.empty_like(f)
    return f


WRT = (0,)
dlang, jax, numba = tools("lbm", value, loops, WRT, loss)
