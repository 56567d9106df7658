"""Parboil's sgemm: a product of matrices, to which another one is added."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import sizes_of, tools

TITLE = "alpha A B + beta C"
SIZES = ("512x512x512", "48x40x32")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    n, k, m = sizes_of(size)
    random = np.random.default_rng(0)
    return [random.normal(size=(n, k)), random.normal(size=(k, m)), random.normal(size=(n, m)), 1.5, 0.5]


def value(a: Any, b: Any, c: Any, alpha: float, beta: float) -> Any:
    return alpha * (a @ b) + beta * c


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).mean()


def loops(a: Any, b: Any, c: Any, alpha: float, beta: float) -> Any:
    return alpha * (a @ b) + beta * c


WRT = (0, 1, 3)
dlang, jax, numba = tools("sgemm", value, loops, WRT, loss)
