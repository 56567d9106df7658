"""Prices of a million options, and five of their derivatives, one of them the second."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, c_library, pointer, program, scalar, waiting

TITLE = "Black-Scholes prices of 10⁶ options; delta, theta, rho, vega and gamma"
SIZES = ("1000000",)
DTYPES = ("f64", "f32")
TOLERANCE = {"f64": 1e-10, "f32": 1e-3}
ROOT_HALF = 0.7071067811865476
RANGES = ((50, 150), (50, 150), (0.05, 2), (0.01, 0.1), (0.05, 0.6))  # spot, strike, time, rate, volatility


def data(size: str, dtype: str) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    return [random.uniform(low, high, int(size)).astype(scalar(dtype)) for low, high in RANGES]


def price(xp: Any, erf: Any, s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
    width = v * xp.sqrt(t)
    d = (xp.log(s / k) + (r + 0.5 * v * v) * t) / width
    return 0.5 * (s * (1.0 + erf(d * ROOT_HALF)) - k * xp.exp(-r * t) * (1.0 + erf((d - width) * ROOT_HALF)))


def dlang(options: list[Any]) -> Calls:
    m = program("black_scholes")
    return {"value": partial(m.value, *options), "gradient": partial(m.gradient, *options)}


def jax(options: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import erf

    def value(*given: Any) -> Any:
        return price(jnp, erf, *given)

    first = jax.grad(lambda *given: value(*given).sum(), argnums=(0, 2, 3, 4))

    def greeks(s: Any, *others: Any) -> Any:
        slopes, second = jax.jvp(lambda s: first(s, *others), (s,), (jnp.ones_like(s),))
        return (*slopes, second[0])

    given = [jnp.asarray(column) for column in options]
    return {"value": waiting(jax.jit(value), *given), "gradient": waiting(jax.jit(greeks), *given)}


def torch(options: list[Any], wrap: Any) -> Calls:
    import torch

    def total(*given: Any) -> Any:
        return price(torch, torch.erf, *given)

    run = wrap(total)
    given = [torch.tensor(column) for column in options]
    active = [column.clone().requires_grad_(k != 1) for k, column in enumerate(given)]
    wrt = [active[0], *active[2:]]

    def value() -> Any:
        with torch.no_grad():
            return run(*given)

    def gradient() -> Any:
        # what torch.compile makes has no second derivative
        slopes = torch.autograd.grad(total(*active).sum(), wrt, create_graph=True)
        return [s.detach() for s in slopes] + [torch.autograd.grad(slopes[0].sum(), active[0])[0]]

    return {"value": value, "gradient": gradient}


def numba(options: list[Any]) -> Calls:
    import math

    import numba
    import numpy as np

    parallel = numba.config.NUMBA_NUM_THREADS > 1

    @numba.njit(fastmath=True, parallel=parallel)
    def value(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
        out = np.empty_like(s)
        for i in numba.prange(s.size):
            width = v[i] * math.sqrt(t[i])
            d = (math.log(s[i] / k[i]) + (r[i] + 0.5 * v[i] * v[i]) * t[i]) / width
            discounted = k[i] * math.exp(-r[i] * t[i])
            out[i] = 0.5 * (s[i] * (1 + math.erf(d * ROOT_HALF)) - discounted * (1 + math.erf((d - width) * ROOT_HALF)))
        return out

    @numba.njit(fastmath=True, parallel=parallel)
    def gradient(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
        out = np.empty((5, s.size), s.dtype)
        for i in numba.prange(s.size):
            root = math.sqrt(t[i])
            width = v[i] * root
            d = (math.log(s[i] / k[i]) + (r[i] + 0.5 * v[i] * v[i]) * t[i]) / width
            n1 = 0.5 * (1 + math.erf(d * ROOT_HALF))
            n2 = 0.5 * (1 + math.erf((d - width) * ROOT_HALF))
            discounted = k[i] * math.exp(-r[i] * t[i])
            density = math.exp(-0.5 * d * d) * 0.3989422804014327
            out[0, i] = n1
            out[1, i] = s[i] * density * v[i] / (2 * root) + r[i] * discounted * n2
            out[2, i] = discounted * t[i] * n2
            out[3, i] = s[i] * density * root
            out[4, i] = density / (s[i] * width)
        return out

    return {"value": lambda: value(*options), "gradient": lambda: list(gradient(*options))}


def c(options: list[Any]) -> Calls:
    import ctypes

    import numpy as np

    library = c_library("black_scholes")
    kind = "f64" if options[0].dtype == np.float64 else "f32"
    out = np.empty((5, len(options[0])), options[0].dtype)

    def run(name: str) -> Any:
        getattr(library, f"{name}_{kind}")(*map(pointer, options), pointer(out), ctypes.c_long(len(options[0])))
        return out[0] if name == "value" else list(out)

    return {"value": lambda: run("value"), "gradient": lambda: run("gradient")}
