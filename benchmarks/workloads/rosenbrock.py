"""A gradient so small that its call from Python is what takes the time."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, waiting

TITLE = "Rosenbrock's function and its gradient, called from Python"
SIZES = ("2", "10")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-11}


def data(size: str, dtype: str) -> Any:
    import numpy as np

    return np.linspace(-1.2, 1.3, int(size))


def function(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def dlang(x: Any) -> Calls:
    m = program("rosenbrock")
    return {"value": partial(m.value, x), "gradient": partial(m.gradient, x)}


def jax(x: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    given = jnp.asarray(x)
    return {"value": waiting(jax.jit(function), given), "gradient": waiting(jax.jit(jax.grad(function)), given)}


def torch(x: Any, wrap: Any) -> Calls:
    import torch

    run = wrap(function)
    given, active = torch.tensor(x), torch.tensor(x).requires_grad_()

    def value() -> Any:
        with torch.no_grad():
            return run(given)

    return {"value": value, "gradient": lambda: torch.autograd.grad(run(active), active)[0]}


def numba(x: Any) -> Calls:
    import numba
    import numpy as np

    @numba.njit
    def value(x: Any) -> float:
        s = 0.0
        for i in range(x.size - 1):
            d = x[i + 1] - x[i] * x[i]
            s += 100.0 * d * d + (1 - x[i]) ** 2
        return s

    @numba.njit
    def gradient(x: Any) -> Any:
        g = np.zeros_like(x)
        for i in range(x.size - 1):
            d = x[i + 1] - x[i] * x[i]
            g[i + 1] += 200.0 * d
            g[i] -= 400.0 * d * x[i] + 2 * (1 - x[i])
        return g

    return {"value": lambda: value(x), "gradient": lambda: gradient(x)}


def numpy(x: Any) -> Calls:
    import numpy as np

    def gradient() -> Any:
        d = x[1:] - x[:-1] ** 2
        g = np.zeros_like(x)
        g[1:] += 200.0 * d
        g[:-1] -= 400.0 * d * x[:-1] + 2 * (1 - x[:-1])
        return g

    return {"value": lambda: function(x), "gradient": gradient}
