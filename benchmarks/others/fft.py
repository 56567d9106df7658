"""Accelerate's FFT: the spectrum of an image, by transforms whose length is a power of two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import sizes_of, tools

TITLE = "magnitudes of the spectrum of an image"
SIZES = ("512", "32")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}


def data(size: str, dtype: str) -> list[Any]:
    (n,) = sizes_of(size)
    return [np.random.default_rng(0).normal(size=(n, n))]


def value(image: Any) -> Any:
    import jax.numpy as jnp

    return jnp.abs(jnp.fft.fft2(image))


def loss(image: Any) -> Any:
    import jax.numpy as jnp

    return jnp.log1p(value(image)).mean()


def transform(x: Any, sign: float) -> None:
    """Stockham's transform, in place; backward if the sign is 1, without the factor."""
    n = len(x)
    y = np.empty_like(x)
    half, stride = n // 2, 1
    while half > 0:
        for k in range(half):
            turn = complex(math.cos(math.pi * k / half), sign * math.sin(math.pi * k / half))
            for q in range(stride):
                a, b = x[q + stride * k], x[q + stride * (k + half)]
                y[q + stride * 2 * k], y[q + stride * (2 * k + 1)] = a + b, (a - b) * turn
        x[:] = y
        half, stride = half // 2, 2 * stride


def transform_2d(x: Any, sign: float) -> Any:
    for i in range(len(x)):
        transform(x[i], sign)
    turned = x.T.copy()
    for i in range(len(turned)):
        transform(turned[i], sign)
    return turned.T


def loops(image: Any) -> Any:
    return np.abs(transform_2d(image.astype(np.complex128), -1.0))


WRT = (0,)
dlang, jax, numba = tools("fft", value, loops, WRT, loss)
