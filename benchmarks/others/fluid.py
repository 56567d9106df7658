"""Accelerate's fluid: stable fluids, whose equations are solved by Jacobi's iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.others.peers import sizes_of, tools

TITLE = "a fluid and its density on a grid, after one step"
SIZES = ("200x40", "20x10")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
STEP, DIFFUSION, VISCOSITY = 0.1, 0.0001, 0.0002


def data(size: str, dtype: str) -> list[Any]:
    n, iterations = sizes_of(size)
    random = np.random.default_rng(0)
    return [0.1 * random.normal(size=(n, n)), 0.1 * random.normal(size=(n, n)), random.uniform(size=(n, n)), iterations]


def value(u: Any, v: Any, density: Any, iterations: int) -> Any:
    import jax
    import jax.numpy as jnp

    n = len(u)
    border = (jnp.arange(n) == 0) | (jnp.arange(n) == n - 1)
    sign = jnp.where(border, -1.0, 1.0)
    corner = jnp.where(border[:, None] & border, 0.0, 1.0)
    signs = [jnp.ones((n, n)), corner * sign[:, None], corner * sign]

    def framed(inner: Any, turned: int) -> Any:
        return jnp.pad(inner, 1, mode="edge") * signs[turned]

    def solved(s: Any, turned: int, a: float, c: float) -> Any:
        def step(_: Any, x: Any) -> Any:
            around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
            return framed((s[1:-1, 1:-1] + a * around) / c, turned)

        return jax.lax.fori_loop(0, iterations, step, jnp.zeros_like(s))

    def diffused(s: Any, turned: int, rate: float) -> Any:
        a = STEP * rate * (n - 2) ** 2
        return solved(s, turned, a, 1 + 4 * a)

    def carried(s: Any, u: Any, v: Any, turned: int) -> Any:
        inner = jnp.arange(1, n - 1)
        x = jnp.clip(inner[:, None] - STEP * (n - 2) * u[1:-1, 1:-1], 0.5, n - 1.5)
        y = jnp.clip(inner - STEP * (n - 2) * v[1:-1, 1:-1], 0.5, n - 1.5)
        i, j = x.astype(int), y.astype(int)
        p, q = x - i, y - j
        left = (1 - p) * ((1 - q) * s[i, j] + q * s[i, j + 1])
        return framed(left + p * ((1 - q) * s[i + 1, j] + q * s[i + 1, j + 1]), turned)

    def projected(u: Any, v: Any) -> Any:
        sources = -0.5 * (u[2:, 1:-1] - u[:-2, 1:-1] + v[1:-1, 2:] - v[1:-1, :-2]) / n
        p = solved(framed(sources, 0), 0, 1.0, 4.0)
        u = u[1:-1, 1:-1] - 0.5 * (n - 2) * (p[2:, 1:-1] - p[:-2, 1:-1])
        v = v[1:-1, 1:-1] - 0.5 * (n - 2) * (p[1:-1, 2:] - p[1:-1, :-2])
        return framed(u, 1), framed(v, 2)

    a, b = projected(diffused(u, 1, VISCOSITY), diffused(v, 2, VISCOSITY))
    a, b = projected(carried(a, a, b, 1), carried(b, a, b, 2))
    return a, b, carried(diffused(density, 0, DIFFUSION), u, v, 0)


def loss(*args: Any) -> Any:
    u, v, density = value(*args)
    return (u**2 + v**2 + density**2).mean()


def frame(x: Any, turned: int) -> None:
    n = len(x)
    for i in range(1, n - 1):
        rows, columns = -1.0 if turned == 1 else 1.0, -1.0 if turned == 2 else 1.0
        x[0, i], x[n - 1, i] = rows * x[1, i], rows * x[n - 2, i]
        x[i, 0], x[i, n - 1] = columns * x[i, 1], columns * x[i, n - 2]
    for i in (0, n - 1):
        for j in (0, n - 1):
            x[i, j] = 0.5 * (x[1 if i == 0 else n - 2, j] + x[i, 1 if j == 0 else n - 2])


def solved(s: Any, turned: int, a: float, c: float, iterations: int) -> Any:
    n = len(s)
    x, following = np.zeros_like(s), np.zeros_like(s)
    for _ in range(iterations):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                following[i, j] = (s[i, j] + a * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])) / c
        frame(following, turned)
        x, following = following, x
    return x


def diffused(s: Any, turned: int, rate: float, iterations: int) -> Any:
    a = STEP * rate * (len(s) - 2) ** 2
    return solved(s, turned, a, 1 + 4 * a, iterations)


def carried(s: Any, u: Any, v: Any, turned: int) -> Any:
    n = len(s)
    result = np.empty_like(s)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            x = min(max(i - STEP * (n - 2) * u[i, j], 0.5), n - 1.5)
            y = min(max(j - STEP * (n - 2) * v[i, j], 0.5), n - 1.5)
            k, m = int(x), int(y)
            p, q = x - k, y - m
            left = (1 - p) * ((1 - q) * s[k, m] + q * s[k, m + 1])
            result[i, j] = left + p * ((1 - q) * s[k + 1, m] + q * s[k + 1, m + 1])
    frame(result, turned)
    return result


def projected(u: Any, v: Any, iterations: int) -> Any:
    n = len(u)
    sources, a, b = np.empty_like(u), np.empty_like(u), np.empty_like(u)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            sources[i, j] = -0.5 * (u[i + 1, j] - u[i - 1, j] + v[i, j + 1] - v[i, j - 1]) / n
    frame(sources, 0)
    p = solved(sources, 0, 1.0, 4.0, iterations)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            a[i, j] = u[i, j] - 0.5 * (n - 2) * (p[i + 1, j] - p[i - 1, j])
            b[i, j] = v[i, j] - 0.5 * (n - 2) * (p[i, j + 1] - p[i, j - 1])
    frame(a, 1)
    frame(b, 2)
    return a, b


def loops(u: Any, v: Any, density: Any, iterations: int) -> Any:
    a, b = projected(diffused(u, 1, VISCOSITY, iterations), diffused(v, 2, VISCOSITY, iterations), iterations)
    a, b = projected(carried(a, a, b, 1), carried(b, a, b, 2), iterations)
    return a, b, carried(diffused(density, 0, DIFFUSION, iterations), u, v, 0)


WRT = (0, 1, 2)
dlang, jax, numba = tools("fluid", value, loops, WRT, loss)
