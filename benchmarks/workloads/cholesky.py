"""The log density of a Gaussian by a Cholesky factor, differentiated through the factorisation."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, waiting

TITLE = "log density of a Gaussian with a dense covariance"
SIZES = ("100", "500")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-8}


def data(size: str, dtype: str) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    n = int(size)
    b = random.normal(size=(n, n))
    return [b @ b.T / n + np.eye(n), random.normal(size=n)]


def dlang(given: list[Any]) -> Calls:
    m = program("cholesky")

    def gradient() -> Any:
        of_a, of_w = m.gradient(*given)
        return 0.5 * (of_a + of_a.T), of_w

    return {"value": partial(m.value, *given), "gradient": gradient}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    def value(a: Any, w: Any) -> Any:
        # the gradient is that of the symmetric matrix
        l = jnp.linalg.cholesky(a)
        z = jax.scipy.linalg.solve_triangular(l, w, lower=True)
        return jnp.sum(jnp.log(jnp.diagonal(l))) + 0.5 * jnp.sum(z * z)

    arrays = [jnp.asarray(a) for a in given]
    return {
        "value": waiting(jax.jit(value), *arrays),
        "gradient": waiting(jax.jit(jax.grad(value, argnums=(0, 1))), *arrays),
    }


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    def density(a: Any, w: Any) -> Any:
        l = torch.linalg.cholesky(a)
        z = torch.linalg.solve_triangular(l, w[:, None], upper=False)
        return torch.log(torch.diagonal(l)).sum() + 0.5 * (z * z).sum()

    run = wrap(density)
    arrays = [torch.tensor(a) for a in given]
    active = [a.clone().requires_grad_() for a in arrays]

    def value() -> Any:
        with torch.no_grad():
            return run(*arrays)

    return {"value": value, "gradient": lambda: torch.autograd.grad(run(*active), active)}
