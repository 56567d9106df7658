"""Rodinia's back propagation: the forward pass of a network with one hidden layer, and its slopes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import sizes_of, tools

TITLE = "a network with one hidden layer of which the input is large"
SIZES = ("262144x16", "4096x16")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
OUTPUTS = 4


def data(size: str, dtype: str) -> list[Any]:
    n, hidden = sizes_of(size)
    random = np.random.default_rng(0)
    into = random.normal(size=(n + 1, hidden)) / math.sqrt(n)
    return [random.uniform(size=n), random.uniform(size=OUTPUTS), into, random.normal(size=(hidden + 1, OUTPUTS))]


def value(x: Any, target: Any, into: Any, out: Any) -> Any:
    import jax.numpy as jnp

    hidden = 1 / (1 + jnp.exp(-(into[0] + x @ into[1:])))
    return 1 / (1 + jnp.exp(-(out[0] + hidden @ out[1:])))


def loss(x: Any, target: Any, into: Any, out: Any) -> Any:
    return 0.5 * ((target - value(x, target, into, out)) ** 2).sum()


def loops(x: Any, target: Any, into: Any, out: Any) -> Any:
    hidden = into[0].copy()
    for i in range(len(x)):
        for j in range(len(hidden)):
            hidden[j] += x[i] * into[i + 1, j]
    result = out[0].copy()
    for i in range(len(hidden)):
        for j in range(len(result)):
            result[j] += out[i + 1, j] / (1 + math.exp(-hidden[i]))
    for j in range(len(result)):
        result[j] = 1 / (1 + math.exp(-result[j]))
    return result


WRT = (2, 3)
dlang, jax, numba = tools("backprop", value, loops, WRT, loss)
