"""FinPar's calibration of local volatility: prices of options by implicit steps in alternating directions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "prices of options where the volatility is random, back from their end"
SIZES = ("8x128x32x32", "2x16x12x6")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
SPOT, END = 0.03, 5.0


def data(size: str, dtype: str) -> list[Any]:
    count, n, m, steps = sizes_of(size)
    return [SPOT * np.linspace(0.5, 1.5, count), 0.2, 0.6, 0.5, n, m, steps]


def value(strikes: Any, alpha: Any, nu: Any, beta: Any, n: int, m: int, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    dx, dy = 20 * alpha * SPOT * math.sqrt(END) / n, 10 * nu * math.sqrt(END) / m
    i, j = jax.lax.stop_gradient(jnp.trunc(SPOT / dx)), m // 2
    x, y = SPOT + (jnp.arange(n) - i) * dx, jnp.log(alpha) + (jnp.arange(m) - j) * dy
    inner_x = (jnp.arange(n) > 0) & (jnp.arange(n) < n - 1)
    inner_y = (jnp.arange(m) > 0) & (jnp.arange(m) < m - 1)
    step = END / (steps - 1)

    def second(inner: Any, h: Any, variance: Any) -> Any:
        """Half of the variance times the second difference; nothing at both ends."""
        return jnp.where(inner, 0.5 * variance / h**2, 0.0)

    def explicit(w: Any, u: Any) -> Any:
        padded = jnp.pad(u, ((0, 0), (1, 1)))
        return w * (padded[:, :-2] - 2 * u + padded[:, 2:])

    def implicit(w: Any, right: Any) -> Any:
        lower, diagonal = -0.5 * w, 1 / step + w

        def down(state: Any, given: Any) -> Any:
            c, r = state
            a, b, y = given
            scale = 1 / (b - a * c)
            return (a * scale, (y - a * r) * scale), (a * scale, (y - a * r) * scale)

        def up(u: Any, given: Any) -> Any:
            c, r = given
            return r - c * u, r - c * u

        zero = jnp.zeros(len(right))
        _, rows = jax.lax.scan(down, (zero, zero), (lower.T, diagonal.T, right.T))
        return jax.lax.scan(up, zero, rows, reverse=True)[1].T

    def price(strike: Any) -> Any:
        def back(k: Any, u: Any) -> Any:
            now = END * (steps - 2 - k) / (steps - 1)
            variance = jnp.exp(2 * (beta * jnp.log(x) + y[:, None] - 0.5 * nu**2 * now))
            in_x = second(inner_x, dx, variance)
            in_y = jnp.broadcast_to(second(inner_y, dy, nu**2), (n, m))
            v = explicit(in_y, u.T)
            half = implicit(in_x, u / step + 0.5 * explicit(in_x, u) + v.T)
            return implicit(in_y, half.T / step - 0.5 * v).T

        start = jnp.broadcast_to(jnp.maximum(x - strike, 0), (m, n))
        return jax.lax.fori_loop(0, steps - 1, back, start)[j, i.astype(int)]

    return jax.vmap(price)(strikes)


def loss(*args: Any) -> Any:
    return 1e4 * (value(*args) ** 2).mean()


def implicit(w: Any, right: Any, step: float) -> None:
    k = len(right)
    c = np.empty(k)
    above = before = 0.0
    for j in range(k):
        a = -0.5 * w[j]
        scale = 1 / (1 / step + w[j] - a * above)
        above, before = a * scale, (right[j] - a * before) * scale
        c[j], right[j] = above, before
    for j in range(k - 2, -1, -1):
        right[j] -= c[j] * right[j + 1]


def price(strike: float, alpha: float, nu: float, beta: float, n: int, m: int, steps: int) -> float:
    dx, dy = 20 * alpha * SPOT * math.sqrt(END) / n, 10 * nu * math.sqrt(END) / m
    i, j = int(SPOT / dx), m // 2
    x, y = SPOT + (np.arange(n) - i) * dx, math.log(alpha) + (np.arange(m) - j) * dy
    step = END / (steps - 1)
    u, half, v = np.empty((m, n)), np.zeros((m, n)), np.zeros((n, m))
    for q in range(m):
        for p in range(n):
            u[q, p] = max(x[p] - strike, 0.0)
    in_x, in_y = np.zeros((m, n)), np.zeros(m)
    in_y[1 : m - 1] = 0.5 * nu * nu / (dy * dy)
    for k in range(steps - 1):
        now = END * (steps - 2 - k) / (steps - 1)
        for q in range(m):
            for p in range(1, n - 1):
                variance = math.exp(2 * (beta * math.log(x[p]) + y[q] - 0.5 * nu * nu * now))
                in_x[q, p] = 0.5 * variance / (dx * dx)
        for q in range(m):
            for p in range(n):
                v[p, q] = in_y[q] * (u[q - 1, p] - 2 * u[q, p] + u[q + 1, p]) if 0 < q < m - 1 else 0.0
                across = in_x[q, p] * (u[q, p - 1] - 2 * u[q, p] + u[q, p + 1]) if 0 < p < n - 1 else 0.0
                half[q, p] = u[q, p] / step + 0.5 * across + v[p, q]
            implicit(in_x[q], half[q], step)
        for p in range(n):
            right = half[:, p] / step - 0.5 * v[p]
            implicit(in_y, right, step)
            u[:, p] = right
    result: float = u[j, i]
    return result


def loops(strikes: Any, alpha: float, nu: float, beta: float, n: int, m: int, steps: int) -> Any:
    prices = np.empty(len(strikes))
    for k in prange(len(strikes)):
        prices[k] = price(strikes[k], alpha, nu, beta, n, m, steps)
    return prices


WRT = (1, 2, 3)
dlang, jax, numba = tools("locvol", value, loops, WRT, loss)
