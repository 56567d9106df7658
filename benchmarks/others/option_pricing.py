"""FinPar's option pricing: paths of three stocks from Sobol's numbers, by Brownian bridges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "the price of a contract on three stocks, by paths from Sobol's numbers"
SIZES = ("100000", "500")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-8}
DATES, STOCKS, BITS = 5, 3, 30
LIMITS, AMOUNTS = (3758.05, 11840.0, 1200.0), (1150.0, 1300.0, 1450.0, 1600.0, 1750.0)
# Which date follows from which two, of which -1 is the start, each halving an interval.
BRIDGE = np.array([(4, -1, -1), (1, -1, 4), (0, -1, 1), (2, 1, 4), (3, 2, 4)], np.int64)
# Wichura's algorithm AS 241: quotients of polynomials for the middle, the sides and the tails.
NORMAL = np.array([
    [[2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
      13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608],
     [5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
      5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0]],
    [[7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
      3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734],
     [1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
      0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0]],
    [[2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
      0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772],
     [2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
      0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0]],
])  # fmt: skip


def data(size: str, dtype: str) -> list[Any]:
    """The number of paths, numbers of directions, polynomials, a bridge, and what is known of the stocks."""
    (n,) = sizes_of(size)
    random = np.random.default_rng(0)
    odd = 2 * random.integers(0, 2 ** np.arange(BITS), (DATES * STOCKS, BITS)) + 1
    directions = odd << (BITS - 1 - np.arange(BITS))
    times = np.arange(1.0, DATES + 1)
    bridge = np.zeros((DATES, 3))  # the weights of both ends, and of what is random
    bridge[0] = 0, 0, math.sqrt(times[-1])
    for k, (at, left, right) in enumerate(BRIDGE[1:], 1):
        start = times[left] if left >= 0 else 0.0
        a, b = times[at] - start, times[right] - times[at]
        bridge[k] = b / (a + b), a / (a + b), math.sqrt(a * b / (a + b))
    correlations = np.linalg.cholesky(np.array([[1, 0.6, 0.8], [0.6, 1, 0.4], [0.8, 0.4, 1]]))
    starts, drifts = np.array([3700.0, 11500.0, 1150.0]), random.uniform(-0.02, 0.03, (DATES, STOCKS))
    volatilities, discounts = random.uniform(0.15, 0.25, (DATES, STOCKS)), 0.97**times
    return [directions, NORMAL, BRIDGE, bridge, correlations, starts, drifts, volatilities, discounts, n]


def value(
    directions: Any, normal: Any, order: Any, bridge: Any, correlations: Any, starts: Any, drifts: Any,
    volatilities: Any, discounts: Any, n: int,
) -> Any:  # fmt: skip
    import jax.numpy as jnp

    i = jnp.arange(1, n + 1)
    gray = i ^ (i >> 1)
    numbers = jnp.zeros((n, DATES * STOCKS), int)
    for bit in range(BITS):
        numbers = numbers ^ jnp.where((gray[:, None] >> bit) & 1 == 1, directions[:, bit], 0)
    p = ((numbers + 0.5) / 2.0**BITS).reshape(n, DATES, STOCKS) - 0.5
    r = jnp.sqrt(-jnp.log(0.5 - jnp.abs(p)))
    near, sides = jnp.abs(p) <= 0.425, r <= 5

    def quotient(k: int, x: Any) -> Any:
        return jnp.polyval(normal[k, 0], x) / jnp.polyval(normal[k, 1], x)

    z = jnp.where(
        near, p * quotient(0, 0.180625 - p * p),
        jnp.sign(p) * jnp.where(sides, quotient(1, r - 1.6), quotient(2, r - 5)),
    )  # fmt: skip
    path = [jnp.zeros((n, STOCKS))] * DATES
    for k, (at, left, right) in enumerate(BRIDGE):
        before = path[left] if left >= 0 else jnp.zeros((n, STOCKS))
        path[at] = bridge[k, 0] * before + bridge[k, 1] * path[right] + bridge[k, 2] * z[:, k]
    steps = jnp.diff(jnp.stack(path, axis=1), axis=1, prepend=0.0) @ correlations.T
    prices = starts * jnp.exp(jnp.cumsum(drifts + steps * volatilities, axis=1))
    least = (prices / jnp.array(LIMITS)).min(axis=2)
    last = jnp.where(least[:, -1] > 0.75, 1000.0, 1000.0 * least[:, -1])
    reached = least >= 1
    first = jnp.argmax(reached, axis=1)
    payoff = jnp.where(reached.any(axis=1), jnp.array(AMOUNTS)[first] * discounts[first], last * discounts[-1])
    return payoff.mean()


def quantile(p: float, normal: Any) -> float:
    """The quantile of a normal distribution of p + 1/2."""
    if abs(p) <= 0.425:
        return p * quotient(0.180625 - p * p, normal[0])
    r = math.sqrt(-math.log(0.5 - abs(p)))
    x = quotient(r - 1.6, normal[1]) if r <= 5 else quotient(r - 5, normal[2])
    return -x if p < 0 else x


def quotient(x: float, polynomials: Any) -> float:
    a = b = 0.0
    for k in range(8):
        a, b = a * x + polynomials[0, k], b * x + polynomials[1, k]
    return a / b


def payoff(prices: Any, discounts: Any) -> float:
    least = 1.0
    for d in range(DATES):
        least = min(prices[d, 0] / LIMITS[0], prices[d, 1] / LIMITS[1], prices[d, 2] / LIMITS[2])
        if least >= 1:
            return float(AMOUNTS[d] * discounts[d])
    return float((1000.0 if least > 0.75 else 1000.0 * least) * discounts[DATES - 1])


def loops(
    directions: Any, normal: Any, order: Any, bridge: Any, correlations: Any, starts: Any, drifts: Any,
    volatilities: Any, discounts: Any, n: int,
) -> Any:  # fmt: skip
    total = 0.0
    for i in prange(1, n + 1):
        gray = i ^ (i >> 1)
        path, prices = np.zeros((DATES, STOCKS)), np.empty((DATES, STOCKS))
        for k in range(DATES):
            at, left, right = order[k]
            for s in range(STOCKS):
                number = 0
                for bit in range(BITS):
                    if (gray >> bit) & 1 == 1:
                        number ^= directions[k * STOCKS + s, bit]
                z = quantile((number + 0.5) / 2.0**BITS - 0.5, normal)
                path[at, s] = bridge[k, 2] * z
                if left >= 0:
                    path[at, s] += bridge[k, 0] * path[left, s]
                if right >= 0:
                    path[at, s] += bridge[k, 1] * path[right, s]
        for s in range(STOCKS):
            total_log = 0.0
            for d in range(DATES):
                step = 0.0
                for q in range(s + 1):
                    step += correlations[s, q] * (path[d, q] - (path[d - 1, q] if d > 0 else 0.0))
                total_log += drifts[d, s] + step * volatilities[d, s]
                prices[d, s] = starts[s] * math.exp(total_log)
        total += payoff(prices, discounts)
    return total / n


def loss(*args: Any) -> Any:
    return value(*args)


WRT = (5, 6, 7)
dlang, jax, numba = tools("option_pricing", value, loops, WRT, loss)
