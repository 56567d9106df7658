"""Rodinia's lavaMD: particles in boxes, and their forces on those of the boxes around."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "potentials and forces of particles in neighbouring boxes"
SIZES = ("5x48", "2x6")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
ALPHA = 0.5


def data(size: str, dtype: str) -> list[Any]:
    side, particles = sizes_of(size)
    random = np.random.default_rng(0)
    boxes = [(a, b, c) for a in range(side) for b in range(side) for c in range(side)]
    around = [[k for k, other in enumerate(boxes) if max(abs(np.subtract(box, other))) <= 1] for box in boxes]
    neighbours = np.zeros((len(boxes), 27), np.int64)
    for row, found in zip(neighbours, around, strict=True):
        row[: len(found)] = found
    shape = (len(boxes), particles)
    counts = np.array([len(found) for found in around])
    return [neighbours, counts, random.uniform(0.1, 1, (*shape, 4)), random.uniform(0.1, 1, shape)]


def value(neighbours: Any, counts: Any, r: Any, charge: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def box(own: Any, around: Any, count: Any) -> Any:
        there = r[around].reshape(-1, 4)
        q = jnp.where(jnp.arange(27)[:, None] < count, charge[around], 0.0).reshape(-1)
        v = jnp.exp(-2 * ALPHA**2 * (own[:, None, 0] + there[:, 0] - own[:, 1:] @ there[:, 1:].T)) * q
        forces = 2 * (v.sum(axis=1)[:, None] * own[:, 1:] - v @ there[:, 1:])
        return jnp.concatenate([v.sum(axis=1)[:, None], forces], axis=1)

    return jax.vmap(box)(r, neighbours, counts)


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).mean()


def loops(neighbours: Any, counts: Any, r: Any, charge: Any) -> Any:
    boxes, particles, _ = r.shape
    result = np.zeros_like(r)
    for b in prange(boxes):
        for i in range(particles):
            v = x = y = z = 0.0
            for k in range(counts[b]):
                there = neighbours[b, k]
                for j in range(particles):
                    dot = r[b, i, 1] * r[there, j, 1] + r[b, i, 2] * r[there, j, 2] + r[b, i, 3] * r[there, j, 3]
                    s = charge[there, j] * math.exp(-2 * ALPHA**2 * (r[b, i, 0] + r[there, j, 0] - dot))
                    v += s
                    x += 2 * s * (r[b, i, 1] - r[there, j, 1])
                    y += 2 * s * (r[b, i, 2] - r[there, j, 2])
                    z += 2 * s * (r[b, i, 3] - r[there, j, 3])
            result[b, i, 0], result[b, i, 1], result[b, i, 2], result[b, i, 3] = v, x, y, z
    return result


WRT = (2, 3)
dlang, jax, numba = tools("lavamd", value, loops, WRT, loss)
