"""Attention of several heads: products of matrices with a softmax between them, whose scores need not be kept."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "scaled dot-product attention: heads × positions × features; with its vjp"
SIZES = ("8x1024x64", "4x4096x64")
DTYPES = ("f32", "f64")
TOLERANCE = {"f64": 1e-11, "f32": 1e-4}


def data(size: str, dtype: str) -> list[Any]:
    """Queries, keys, values, and the cotangent of the result."""
    import numpy as np

    random = np.random.default_rng(0)
    shape = tuple(map(int, size.split("x")))
    return [random.normal(size=shape).astype(scalar(dtype)) for _ in range(4)]


def dlang(given: list[Any]) -> Calls:
    m = program("attention")
    *arrays, seed = given
    return {"value": partial(m.value, *arrays), "gradient": partial(m.gradient, *arrays, seed)}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    def value(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hid,hjd->hij", q, k) / math.sqrt(q.shape[-1])
        return jnp.einsum("hij,hje->hie", jax.nn.softmax(scores, -1), v)

    def gradient(q: Any, k: Any, v: Any, seed: Any) -> Any:
        y, pull = jax.vjp(value, q, k, v)
        return y, pull(seed)

    *arrays, seed = map(jnp.asarray, given)
    return {
        "value": waiting(jax.jit(value), *arrays),
        "gradient": waiting(jax.jit(gradient), *arrays, seed),
    }


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    f = wrap(torch.nn.functional.scaled_dot_product_attention)
    *arrays, seed = map(torch.tensor, given)
    active = [a.clone().requires_grad_() for a in arrays]

    def value() -> Any:
        with torch.no_grad():
            return f(*arrays)

    def gradient() -> Any:
        y = f(*active)
        return y.detach(), torch.autograd.grad(y, active, seed)

    return {"value": value, "gradient": gradient}


def numpy(given: list[Any]) -> Calls:
    import numpy as np

    q, k, v, seed = given
    scale = q.dtype.type(1 / math.sqrt(q.shape[-1]))

    def weights() -> Any:
        scores = (q * scale) @ k.swapaxes(1, 2)
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        return scores

    def value() -> Any:
        return weights() @ v

    def gradient() -> Any:
        w = weights()
        w_bar = seed @ v.swapaxes(1, 2)
        scores_bar = w * (w_bar - (w * w_bar).sum(-1, keepdims=True)) * scale
        return w @ v, (scores_bar @ k, scores_bar.swapaxes(1, 2) @ q, w.swapaxes(1, 2) @ seed)

    return {"value": value, "gradient": gradient}
