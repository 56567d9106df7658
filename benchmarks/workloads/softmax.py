"""The softmax of every row of a matrix, and its product with a cotangent: bound by memory and `exp`."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, c_library, pointer, program, scalar, waiting

TITLE = "softmax of the rows of a 4096 × 1024 matrix; with its vjp"
SIZES = ("4096x1024",)
DTYPES = ("f64", "f32")
TOLERANCE = {"f64": 1e-12, "f32": 1e-5}


def data(size: str, dtype: str) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    shape = tuple(map(int, size.split("x")))
    return [random.normal(size=shape).astype(scalar(dtype)) for _ in range(2)]


def dlang(given: list[Any]) -> Calls:
    m = program("softmax")
    x, seed = given
    return {"value": partial(m.value, x), "gradient": partial(m.gradient, x, seed)}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    def value(x: Any) -> Any:
        return jax.nn.softmax(x, -1)

    def gradient(x: Any, seed: Any) -> Any:
        y, pull = jax.vjp(value, x)
        return y, pull(seed)[0]

    x, seed = map(jnp.asarray, given)
    return {"value": waiting(jax.jit(value), x), "gradient": waiting(jax.jit(gradient), x, seed)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    x, seed = map(torch.tensor, given)
    active = x.clone().requires_grad_()
    f = wrap(lambda x: torch.softmax(x, -1))

    def value() -> Any:
        with torch.no_grad():
            return f(x)

    def gradient() -> Any:
        y = f(active)
        return y.detach(), torch.autograd.grad(y, active, seed)[0]

    return {"value": value, "gradient": gradient}


def numpy(given: list[Any]) -> Calls:
    import numpy as np

    x, seed = given

    def value() -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        e /= e.sum(-1, keepdims=True)
        return e

    def gradient() -> Any:
        y = value()
        weighted = y * seed
        return y, weighted - y * weighted.sum(-1, keepdims=True)

    return {"value": value, "gradient": gradient}


def c(given: list[Any]) -> Calls:
    import ctypes

    import numpy as np

    library = c_library("softmax")
    x, seed = given
    kind = "f64" if x.dtype == np.float64 else "f32"
    y, slope = np.empty_like(x), np.empty_like(x)
    n, m = map(ctypes.c_long, x.shape)

    def value() -> Any:
        getattr(library, f"value_{kind}")(pointer(x), pointer(y), n, m)
        return y

    def gradient() -> Any:
        getattr(library, f"gradient_{kind}")(pointer(x), pointer(seed), pointer(y), pointer(slope), n, m)
        return y, slope

    return {"value": value, "gradient": gradient}
