"""Layer normalisation of a matrix, and its product with a cotangent, which sums along both axes."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "layer normalisation of a 4096 × 1024 matrix; with its vjp"
SIZES = ("4096x1024",)
DTYPES = ("f64", "f32")
TOLERANCE = {"f64": 1e-11, "f32": 1e-4}
EPSILON = 1e-5


def data(size: str, dtype: str) -> list[Any]:
    """Scale, shift, the matrix and the cotangent."""
    import numpy as np

    random = np.random.default_rng(0)
    n, m = map(int, size.split("x"))
    return [random.normal(size=shape).astype(scalar(dtype)) for shape in ((m,), (m,), (n, m), (n, m))]


def dlang(given: list[Any]) -> Calls:
    m = program("layer_norm")
    return {"value": partial(m.value, *given[:3]), "gradient": partial(m.gradient, *given)}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    def value(scale: Any, shift: Any, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + EPSILON) * scale + shift

    def gradient(scale: Any, shift: Any, x: Any, seed: Any) -> Any:
        y, pull = jax.vjp(value, scale, shift, x)
        return y, pull(seed)

    arrays = [jnp.asarray(a) for a in given]
    return {"value": waiting(jax.jit(value), *arrays[:3]), "gradient": waiting(jax.jit(gradient), *arrays)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    *arrays, seed = map(torch.tensor, given)
    active = [a.clone().requires_grad_() for a in arrays]
    size = arrays[0].shape
    f = wrap(lambda scale, shift, x: torch.nn.functional.layer_norm(x, size, scale, shift, EPSILON))

    def value() -> Any:
        with torch.no_grad():
            return f(*arrays)

    def gradient() -> Any:
        y = f(*active)
        return y.detach(), torch.autograd.grad(y, active, seed)

    return {"value": value, "gradient": gradient}


def numpy(given: list[Any]) -> Calls:
    import numpy as np

    scale, shift, x, seed = given

    def parts() -> Any:
        centred = x - x.mean(-1, keepdims=True)
        inverse = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + x.dtype.type(EPSILON))
        return centred * inverse, inverse

    def gradient() -> Any:
        h, inverse = parts()
        weighted = seed * scale
        slope = weighted - weighted.mean(-1, keepdims=True) - h * (weighted * h).mean(-1, keepdims=True)
        return h * scale + shift, ((seed * h).sum(0), seed.sum(0), inverse * slope)

    return {"value": lambda: parts()[0] * scale + shift, "gradient": gradient}
