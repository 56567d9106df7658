"""Products of small square matrices: alone and side by side, of transposes, the gradient of the sum of squares."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "products of square matrices, with the first one transposed, and the gradient of the sum of their squares"
SIZES = ("4", "8", "16", "32", "64", "128", "1000x4", "1000x16", "100x64", "16x128")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-12, "f32": 1e-5}


def data(size: str, dtype: str) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    *batch, n = map(int, size.split("x"))
    return [random.normal(size=(*batch, n, n)).astype(scalar(dtype)) for _ in range(2)]


def dlang(given: list[Any]) -> Calls:
    m = program("products")
    transposed = m.transposed if given[0].ndim == 2 else m.all_transposed
    return {
        "value": partial(m.value, *given), "transposed": partial(transposed, *given),
        "gradient": partial(m.gradient, *given),
    }  # fmt: skip


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    arrays = [jnp.asarray(a) for a in given]
    gradient = jax.grad(lambda x, y: ((x @ y) ** 2).sum(), argnums=(0, 1))
    return {
        "value": waiting(jax.jit(lambda x, y: x @ y), *arrays),
        "transposed": waiting(jax.jit(lambda x, y: x.swapaxes(-1, -2) @ y), *arrays),
        "gradient": waiting(jax.jit(gradient), *arrays),
    }


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    arrays = [torch.tensor(a) for a in given]
    active = [a.clone().requires_grad_() for a in arrays]
    product, turned = wrap(lambda x, y: x @ y), wrap(lambda x, y: x.mT @ y)
    squares = wrap(lambda x, y: ((x @ y) ** 2).sum())

    def value() -> Any:
        with torch.no_grad():
            return product(*arrays)

    def transposed() -> Any:
        with torch.no_grad():
            return turned(*arrays)

    return {
        "value": value, "transposed": transposed, "gradient": lambda: torch.autograd.grad(squares(*active), active),
    }  # fmt: skip


def numpy(given: list[Any]) -> Calls:
    x, y = given

    def gradient() -> Any:
        slope = 2 * (x @ y)
        return slope @ y.swapaxes(-1, -2), x.swapaxes(-1, -2) @ slope

    return {"value": lambda: x @ y, "transposed": lambda: x.swapaxes(-1, -2) @ y, "gradient": gradient}
