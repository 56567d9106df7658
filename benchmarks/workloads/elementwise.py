"""A chain of elementary functions of each element of a large array, and the gradient of its sum."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, c_library, pointer, program, scalar, waiting

TITLE = "tanh(sin x · exp(-x²) + x) of 10⁷ elements"
SIZES = ("10000000",)
DTYPES = ("f64", "f32")
TOLERANCE = {"f64": 1e-11, "f32": 1e-4}


def data(size: str, dtype: str) -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(size=int(size)).astype(scalar(dtype))


def dlang(x: Any) -> Calls:
    m = program("elementwise")
    return {"value": partial(m.value, x), "gradient": partial(m.gradient, x)}


def jax(x: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        return jnp.tanh(jnp.sin(x) * jnp.exp(-x * x) + x)

    given = jnp.asarray(x)
    return {"value": waiting(jax.jit(f), given), "gradient": waiting(jax.jit(jax.grad(lambda x: f(x).sum())), given)}


def torch(x: Any, wrap: Any) -> Calls:
    import torch

    def f(x: Any) -> Any:
        return torch.tanh(torch.sin(x) * torch.exp(-x * x) + x)

    given, active = torch.tensor(x), torch.tensor(x).requires_grad_()
    value, total = wrap(f), wrap(lambda x: f(x).sum())

    def no_grad() -> Any:
        with torch.no_grad():
            return value(given)

    return {"value": no_grad, "gradient": lambda: torch.autograd.grad(total(active), active)[0]}


def numba(x: Any) -> Calls:
    import numba
    import numpy as np

    @numba.njit(fastmath=True, parallel=numba.config.NUMBA_NUM_THREADS > 1)
    def value(x: Any) -> Any:
        out = np.empty_like(x)
        for i in numba.prange(x.size):
            v = x[i]
            out[i] = np.tanh(np.sin(v) * np.exp(-v * v) + v)
        return out

    @numba.njit(fastmath=True, parallel=numba.config.NUMBA_NUM_THREADS > 1)
    def gradient(x: Any) -> Any:
        out = np.empty_like(x)
        for i in numba.prange(x.size):
            v = x[i]
            s, e = np.sin(v), np.exp(-v * v)
            y = np.tanh(s * e + v)
            out[i] = (1 - y * y) * (e * (np.cos(v) - 2 * v * s) + 1)
        return out

    return {"value": lambda: value(x), "gradient": lambda: gradient(x)}


def c(x: Any) -> Calls:
    import ctypes

    import numpy as np

    library = c_library("elementwise")
    kind = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}[x.dtype]
    out = np.empty_like(x)

    def call(name: str) -> Any:
        getattr(library, f"{name}_{kind}")(pointer(x), pointer(out), ctypes.c_long(x.size))
        return out

    return {"value": lambda: call("value"), "gradient": lambda: call("gradient")}
