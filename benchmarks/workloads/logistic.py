"""A scalar loop of which each iteration needs the one before: nothing but latency, and the tape of the reverse mode."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, c_library, cpp_function, pointer, program, waiting

TITLE = "10⁶ steps of the logistic map, derivative with respect to its parameter"
SIZES = ("1000000",)
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
PARAMETER, START = 3.2, 0.3  # a stable cycle


def data(size: str, dtype: str) -> int:
    return int(size)


def dlang(steps: int) -> Calls:
    m = program("logistic")
    return {
        name: partial(f, PARAMETER, START, steps)
        for name, f in (("value", m.value), ("gradient", m.gradient), ("forward", m.forward))
    }


def jax(steps: int) -> Calls:
    import jax
    import jax.numpy as jnp

    def step(x: Any, p: Any) -> Any:
        return p * x * (1 - x)

    def value(p: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, x: step(x, p), jnp.asarray(START))

    def scanned(p: Any) -> Any:
        return jax.lax.scan(lambda x, _: (step(x, p), None), jnp.asarray(START), None, length=steps, unroll=8)[0]

    def forward(p: Any) -> Any:
        return jax.jvp(value, (p,), (jnp.ones_like(p),))[1]

    p = jnp.asarray(PARAMETER)
    return {
        "value": waiting(jax.jit(value), p),
        "gradient": waiting(jax.jit(jax.grad(scanned)), p),
        "forward": waiting(jax.jit(forward), p),
    }


def enzyme(steps: int) -> Calls:
    import jax
    import jax.numpy as jnp

    value = cpp_function("logistic", f"value<{steps}>", ())
    p, x = jnp.asarray(PARAMETER), jnp.asarray(START)

    def forward(p: Any) -> Any:
        return jax.jvp(lambda p: value(p, x)[0], (p,), (jnp.ones_like(p),))[1]

    return {
        "value": waiting(jax.jit(lambda p: value(p, x)[0]), p),
        "gradient": waiting(jax.jit(jax.grad(lambda p: value(p, x)[0])), p),
        "forward": waiting(jax.jit(forward), p),
    }


def numba(steps: int) -> Calls:
    import numba
    import numpy as np

    @numba.njit
    def value(p: float, x: float) -> float:
        for _ in range(steps):
            x = p * x * (1.0 - x)
        return x

    @numba.njit
    def gradient(p: float, x: float, tape: Any) -> float:
        for i in range(steps):
            tape[i] = x
            x = p * x * (1.0 - x)
        of_x, of_p = 1.0, 0.0
        for i in range(steps - 1, -1, -1):
            x = tape[i]
            of_p += of_x * x * (1.0 - x)
            of_x *= p * (1.0 - 2.0 * x)
        return of_p

    @numba.njit
    def forward(p: float, x: float) -> float:
        d = 0.0
        for _ in range(steps):
            d = x * (1.0 - x) + p * (1.0 - 2.0 * x) * d
            x = p * x * (1.0 - x)
        return d

    tape = np.empty(steps)
    return {
        "value": lambda: value(PARAMETER, START),
        "gradient": lambda: gradient(PARAMETER, START, tape),
        "forward": lambda: forward(PARAMETER, START),
    }


def c(steps: int) -> Calls:
    import ctypes

    import numpy as np

    library = c_library("logistic")
    for name in ("value", "gradient", "forward"):
        getattr(library, name).restype = ctypes.c_double
    p, x, n = ctypes.c_double(PARAMETER), ctypes.c_double(START), ctypes.c_long(steps)
    tape = np.empty(steps)
    return {
        "value": lambda: library.value(p, x, n),
        "gradient": lambda: library.gradient(p, x, n, pointer(tape)),
        "forward": lambda: library.forward(p, x, n),
    }
