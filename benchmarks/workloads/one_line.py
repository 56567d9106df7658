"""The loss of a linear model: one line, whose first call shows what a tool takes to compile anything."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "mean square error of a linear model, and its gradient"
SIZES = ("100x10",)
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-11, "f32": 1e-4}


def data(size: str, dtype: str) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    n, m = map(int, size.split("x"))
    return [random.normal(size=s).astype(scalar(dtype)) for s in (m, (n, m), n)]


def dlang(given: list[Any]) -> Calls:
    m = program("one_line")
    return {"value": partial(m.value, *given), "gradient": partial(m.gradient, *given)}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    def value(w: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ w - y) ** 2)

    arrays = [jnp.asarray(a) for a in given]
    return {"value": waiting(jax.jit(value), *arrays), "gradient": waiting(jax.jit(jax.grad(value)), *arrays)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    run = wrap(lambda w, x, y: ((x @ w - y) ** 2).mean())
    w, x, y = (torch.tensor(a) for a in given)
    active = w.clone().requires_grad_()

    def value() -> Any:
        with torch.no_grad():
            return run(w, x, y)

    return {"value": value, "gradient": lambda: torch.autograd.grad(run(active, x, y), active)[0]}


def numba(given: list[Any]) -> Calls:
    import numba
    import numpy as np

    @numba.njit
    def value(w: Any, x: Any, y: Any) -> float:
        return np.mean((np.dot(x, w) - y) ** 2)

    @numba.njit
    def gradient(w: Any, x: Any, y: Any) -> Any:
        return np.dot(2.0 * (np.dot(x, w) - y) / y.size, x)

    return {"value": partial(value, *given), "gradient": partial(gradient, *given)}


def numpy(given: list[Any]) -> Calls:
    import numpy as np

    w, x, y = given
    return {"value": lambda: np.mean((x @ w - y) ** 2), "gradient": lambda: 2.0 * (x @ w - y) / y.size @ x}
