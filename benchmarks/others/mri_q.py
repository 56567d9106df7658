"""Parboil's mri-q: for each point, sums of cosines and sines over all samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "the matrix Q of a reconstruction of an image from samples of its spectrum"
SIZES = ("4096x1024", "256x128")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, m = sizes_of(size)
    random = np.random.default_rng(0)
    return [random.normal(size=(m, 3)), random.normal(size=m), random.normal(size=m), random.normal(size=(n, 3))]


def value(k: Any, re: Any, im: Any, x: Any) -> Any:
    import jax.numpy as jnp

    angles = 2 * math.pi * (x @ k.T)
    magnitude = re**2 + im**2
    return jnp.cos(angles) @ magnitude, jnp.sin(angles) @ magnitude


def loss(*args: Any) -> Any:
    a, b = value(*args)
    return (a**2 + b**2).mean()


def loops(k: Any, re: Any, im: Any, x: Any) -> Any:
    n, m = len(x), len(k)
    a, b = np.empty(n), np.empty(n)
    for i in prange(n):
        c = s = 0.0
        for j in range(m):
            angle = 2 * math.pi * (k[j, 0] * x[i, 0] + k[j, 1] * x[i, 1] + k[j, 2] * x[i, 2])
            magnitude = re[j] * re[j] + im[j] * im[j]
            c += magnitude * math.cos(angle)
            s += magnitude * math.sin(angle)
        a[i], b[i] = c, s
    return a, b


WRT = (0, 1, 2)
dlang, jax, numba = tools("mri_q", value, loops, WRT, loss)
