"""The energy of bodies that repel each other, and the forces: a nest of two loops and a reduction."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, c_library, cpp_function, pointer, program, scalar, waiting

TITLE = "energy of 1,000 bodies and its gradient"
SIZES = ("1000",)
DTYPES = ("f64", "f32")
TOLERANCE = {"f64": 1e-11, "f32": 1e-3}
SOFTENING = 1e-2


def data(size: str, dtype: str) -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(size=(int(size), 3)).astype(scalar(dtype))


def dlang(r: Any) -> Calls:
    m = program("pairwise")
    softening = r.dtype.type(SOFTENING)
    return {"value": partial(m.value, r, softening), "gradient": partial(m.gradient, r, softening)}


def jax(r: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    def energy(r: Any) -> Any:
        x, y, z = r.T
        squares = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 + (z[:, None] - z) ** 2
        return 0.5 * (jnp.sum(jax.lax.rsqrt(squares + SOFTENING)) - len(r) * SOFTENING**-0.5)

    given = jnp.asarray(r)
    return {
        "value": waiting(jax.jit(energy), given),
        "gradient": waiting(jax.jit(jax.value_and_grad(energy)), given),
    }


def torch(r: Any, wrap: Any) -> Calls:
    import torch

    def energy(r: Any) -> Any:
        x, y, z = r.unbind(1)
        squares = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 + (z[:, None] - z) ** 2
        return 0.5 * (torch.rsqrt(squares + SOFTENING).sum() - len(r) * SOFTENING**-0.5)

    run = wrap(energy)
    given, active = torch.tensor(r), torch.tensor(r).requires_grad_()

    def value() -> Any:
        with torch.no_grad():
            return run(given)

    def gradient() -> Any:
        e = run(active)
        return e.detach(), torch.autograd.grad(e, active)[0]

    return {"value": value, "gradient": gradient}


def enzyme(r: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    kind, n = {"float64": "double", "float32": "float"}[r.dtype.name], len(r)
    energy = cpp_function("pairwise", f"value<{kind}, {n}>", (), dtype=r.dtype.name)

    def value(r: Any) -> Any:
        return energy(*r.T)[0]

    given = jnp.asarray(r)
    return {
        "value": waiting(jax.jit(value), given),
        "gradient": waiting(jax.jit(jax.value_and_grad(value)), given),
    }


def numba(r: Any) -> Calls:
    import numba
    import numpy as np

    parallel = numba.config.NUMBA_NUM_THREADS > 1
    x, y, z = (np.ascontiguousarray(column) for column in r.T)
    one, softening = r.dtype.type(1), r.dtype.type(SOFTENING)

    @numba.njit(fastmath=True, parallel=parallel)
    def value(x: Any, y: Any, z: Any) -> Any:
        energy = 0.0
        for i in numba.prange(x.size):
            s = one - one
            for j in range(x.size):
                a, b, c = x[i] - x[j], y[i] - y[j], z[i] - z[j]
                s += one / np.sqrt(a * a + b * b + c * c + softening)
            energy += s
        return 0.5 * (energy - x.size / np.sqrt(softening))

    @numba.njit(fastmath=True, parallel=parallel)
    def gradient(x: Any, y: Any, z: Any) -> Any:
        energy = 0.0
        g = np.empty((x.size, 3), x.dtype)
        for i in numba.prange(x.size):
            s = u = v = w = one - one
            for j in range(x.size):
                a, b, c = x[i] - x[j], y[i] - y[j], z[i] - z[j]
                k = one / np.sqrt(a * a + b * b + c * c + softening)
                cube = k * k * k
                s += k
                u -= cube * a
                v -= cube * b
                w -= cube * c
            energy += s
            g[i, 0], g[i, 1], g[i, 2] = u, v, w
        return 0.5 * (energy - x.size / np.sqrt(softening)), g

    return {"value": lambda: value(x, y, z), "gradient": lambda: gradient(x, y, z)}


def c(r: Any) -> Calls:
    import ctypes

    import numpy as np

    library = c_library("pairwise")
    kind, real = ("f64", ctypes.c_double) if r.dtype == np.float64 else ("f32", ctypes.c_float)
    columns = [np.ascontiguousarray(column) for column in r.T]
    g = np.empty_like(r)
    arguments = [*map(pointer, columns), real(SOFTENING), ctypes.c_long(len(r))]
    value, gradient = (getattr(library, f"{name}_{kind}") for name in ("value", "gradient"))
    value.restype = gradient.restype = ctypes.c_double

    def run(f: Any, *more: Any) -> Any:
        assert columns  # the pointers are into these
        return f(*arguments, *more)

    return {"value": lambda: run(value), "gradient": lambda: (run(gradient, pointer(g)), g)}
