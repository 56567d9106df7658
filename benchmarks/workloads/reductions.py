"""Sums of an array with three axes, along each of them and of all elements: bound by memory, each in its own way."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "sums of an array with three axes, of all elements and along each axis"
SIZES = ("512x512x512",)
DTYPES = ("f32", "f64")
TOLERANCE = {"f64": 1e-12, "f32": 1e-4}
AXES = {"all": None, "first": 0, "middle": 1, "last": 2}


def data(size: str, dtype: str) -> Any:
    import numpy as np

    # positive numbers, whose sums don't cancel
    return np.random.default_rng(0).random(tuple(map(int, size.split("x"))), scalar(dtype))


def dlang(x: Any) -> Calls:
    m = program("reductions")
    return {name: partial(getattr(m, name), x) for name in AXES}


def jax(x: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    given = jnp.asarray(x)
    return {name: waiting(jax.jit(partial(jnp.sum, axis=axis)), given) for name, axis in AXES.items()}


def torch(x: Any, wrap: Any) -> Calls:
    import torch

    given = torch.tensor(x)

    def call(axis: int | None) -> Any:
        run = wrap(torch.sum if axis is None else lambda x: torch.sum(x, axis))

        def value() -> Any:
            with torch.no_grad():
                return run(given)

        return value

    return {name: call(axis) for name, axis in AXES.items()}


def numpy(x: Any) -> Calls:
    import numpy as np

    return {name: partial(np.sum, x, axis=axis) for name, axis in AXES.items()}
