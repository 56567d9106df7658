"""Mixtures of Gaussians, the first problem of ADBench: products of small triangular matrices, and a log-sum-exp."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from benchmarks.adbench.problems import GMM
from benchmarks.tools import Calls, cpp_function, loaded, waiting

TITLE = "ADBench GMM: log likelihood, gradient by alphas, means and factors"
SIZES = ("10x25x1000", "32x25x1000", "64x25x10000")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-8}
PI = 3.14159265359  # the benchmark's


def data(size: str, dtype: str) -> list[Any]:
    """Log weights, means, factors, points."""
    import numpy as np

    d, k, n = map(int, size.split("x"))
    random = np.random.default_rng(2016)
    means, points = random.uniform(size=(k, d)), random.normal(size=(n, d))
    return [random.normal(size=k), means, 0.1 * random.normal(size=(k, d * (d + 1) // 2)), points]


def constants(given: list[Any]) -> tuple[Any, float]:
    """Where in a row of factors the elements below the diagonal are, and what does not depend on the arguments."""
    import numpy as np

    _, means, _, x = given
    (k, d), n = means.shape, len(x)
    columns, rows = np.triu_indices(d, 1)
    where = np.full((d, d), len(columns))  # behind them, a zero
    where[rows, columns] = np.arange(len(columns))
    count = d + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(PI) + sum(math.lgamma(0.5 * (count - j)) for j in range(d))
    return where, -0.5 * n * d * math.log(2 * PI) - k * (-0.5 * count * d * math.log(2) - log_gamma)


def dlang(given: list[Any]) -> Calls:
    m = loaded(GMM.path)
    prior = m.Wishart(gamma=1.0, m=0)
    return {"value": partial(m.objective, *given, prior), "gradient": partial(m.gradient, *given, prior)}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    where, constant = constants(given)
    (k, d), n = given[1].shape, len(given[3])
    index = jnp.asarray(where)

    def objective(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
        logs, below = icf[:, :d], icf[:, d:]
        q, sums = jnp.exp(logs), logs.sum(1)
        factors = jnp.pad(below, ((0, 0), (0, 1)))[:, index] + jax.vmap(jnp.diag)(q)
        centres = jnp.einsum("kij,kj->ki", factors, means)
        z = (x @ factors.reshape(k * d, d).T).reshape(n, k, d) - centres  # one product for all points and components
        scores = alphas + sums - 0.5 * jnp.sum(z * z, -1)
        likelihood = jnp.sum(jax.scipy.special.logsumexp(scores, axis=1)) - n * jax.scipy.special.logsumexp(alphas)
        return constant + likelihood + 0.5 * (jnp.sum(q * q) + jnp.sum(below * below))

    arrays = [jnp.asarray(a) for a in given]
    gradient = jax.grad(objective, argnums=(0, 1, 2))
    return {"value": waiting(jax.jit(objective), *arrays), "gradient": waiting(jax.jit(gradient), *arrays)}


def enzyme(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    _, constant = constants(given)
    (k, d), n = given[1].shape, len(given[3])
    value = cpp_function("gmm", f"value<{d}, {k}, {n}>", ())

    def objective(*arrays: Any) -> Any:
        return constant + value(*arrays)[0]

    arrays = [jnp.asarray(a) for a in given]
    gradient = jax.grad(objective, argnums=(0, 1, 2))
    return {"value": waiting(jax.jit(objective), *arrays), "gradient": waiting(jax.jit(gradient), *arrays)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    where, constant = constants(given)
    (k, d), n = given[1].shape, len(given[3])
    index = torch.tensor(where)

    def objective(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
        logs, below = icf[:, :d], icf[:, d:]
        q, sums = logs.exp(), logs.sum(1)
        factors = torch.nn.functional.pad(below, (0, 1))[:, index] + torch.diag_embed(q)
        centres = torch.einsum("kij,kj->ki", factors, means)
        z = (x @ factors.reshape(k * d, d).T).reshape(n, k, d) - centres
        scores = alphas + sums - 0.5 * (z * z).sum(-1)
        likelihood = torch.logsumexp(scores, 1).sum() - n * torch.logsumexp(alphas, 0)
        return constant + likelihood + 0.5 * ((q * q).sum() + (below * below).sum())

    run = wrap(objective)
    *arrays, x = (torch.tensor(a) for a in given)
    active = [a.clone().requires_grad_() for a in arrays]

    def value() -> Any:
        with torch.no_grad():
            return run(*arrays, x)

    return {"value": value, "gradient": lambda: torch.autograd.grad(run(*active, x), active)}
