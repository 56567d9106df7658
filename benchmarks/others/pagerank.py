"""Accelerate's PageRank: a page gives its rank to those that it links to."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import sizes_of, tools

TITLE = "ranks of pages after some iterations"
SIZES = ("50000x500000x10", "100x600x10")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    """Links, ordered by where they lead; a tenth of the pages has none."""
    n, m, iterations = sizes_of(size)
    random = np.random.default_rng(0)
    start, end = random.integers(0, n - n // 10, m), np.sort((n * random.uniform(size=m) ** 2).astype(np.int64))
    return [start, end, np.bincount(start, minlength=n), np.full(n, 1 / n), iterations]


def value(start: Any, end: Any, counts: Any, ranks: Any, iterations: int) -> Any:
    import jax
    import jax.numpy as jnp

    def step(_: Any, ranks: Any) -> Any:
        given = jnp.where(counts > 0, ranks / jnp.maximum(counts, 1), 0.0)
        lost = jnp.where(counts > 0, 0.0, ranks).mean()
        return jax.ops.segment_sum(given[start], end, len(ranks), indices_are_sorted=True) + lost

    return jax.lax.fori_loop(0, iterations, step, ranks)


def loss(*args: Any) -> Any:
    ranks = value(*args)
    return len(ranks) * (ranks**2).sum()


def loops(start: Any, end: Any, counts: Any, ranks: Any, iterations: int) -> Any:
    n = len(ranks)
    for _ in range(iterations):
        lost, given = 0.0, np.zeros(n)
        for i in range(n):
            if counts[i] > 0:
                given[i] = ranks[i] / counts[i]
            else:
                lost += ranks[i]
        ranks = np.full(n, lost / n)
        for k in range(len(start)):
            ranks[end[k]] += given[start[k]]
    return ranks


WRT = (3,)
dlang, jax, numba = tools("pagerank", value, loops, WRT, loss)
