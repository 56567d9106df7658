"""Operations on square matrices, and the gradients of sums of powers of what they give."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, waiting

TITLE = "an operation of linear algebra on square matrices, and the gradient of a sum of powers of its result"
OPERATIONS = ("solve", "triangular", "inverse", "det", "qr", "eigh", "svd")
SIZES = tuple(f"{name}x{n}" for n in (100, 10, 500) for name in OPERATIONS)
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-6}
POWERS = {"solve": 2, "triangular": 2, "inverse": 2, "det": 1, "qr": 4, "eigh": 3, "svd": 3}


def data(size: str, dtype: str) -> list[Any]:
    """The operation, a matrix and a right-hand side."""
    import numpy as np

    name, n = size.split("x")
    random = np.random.default_rng(0)
    m = random.normal(size=(int(n), int(n)))
    m = {"eigh": m + m.T, "triangular": np.tril(m) / int(n) + np.eye(int(n))}.get(name, m)
    return [name, m, random.normal(size=m.shape)]


def dlang(given: list[Any]) -> Calls:
    module = program("factorisations")
    name, m, b = given
    gradient = getattr(module, f"{name}_gradient")
    calls: Calls = {"value": partial(getattr(module, name), m, b), "gradient": partial(gradient, m, b)}
    if name == "qr":  # rows have either sign
        value = calls["value"]
        calls["value"] = lambda: abs(value())
    return calls


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    name, *arrays = given
    m, b = map(jnp.asarray, arrays)
    operations: dict[str, Any] = {
        "solve": jnp.linalg.solve,
        "triangular": partial(jax.scipy.linalg.solve_triangular, lower=True),
        "inverse": lambda m, b: jnp.linalg.inv(m),
        "det": lambda m, b: jnp.linalg.slogdet(m)[1],
        "qr": lambda m, b: jnp.linalg.qr(m)[1],
        "eigh": lambda m, b: jnp.linalg.eigh(m)[0],
        "svd": lambda m, b: jnp.linalg.svd(m, full_matrices=False)[1],
    }
    run, power = operations[name], POWERS[name]
    gradient = jax.grad(
        lambda m, b: (run(m, b) ** power).sum(), argnums=(0, 1) if power == 2 and name != "inverse" else 0
    )
    value = (lambda m, b: abs(run(m, b))) if name == "qr" else run
    return {"value": waiting(jax.jit(value), m, b), "gradient": waiting(jax.jit(gradient), m, b)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    name, *arrays = given
    linear = torch.linalg
    operations: dict[str, Any] = {
        "solve": linear.solve,
        "triangular": lambda m, b: linear.solve_triangular(m, b, upper=False),
        "inverse": lambda m, b: linear.inv(m),
        "det": lambda m, b: linear.slogdet(m)[1],
        "qr": lambda m, b: linear.qr(m)[1],
        "eigh": lambda m, b: linear.eigh(m)[0],
        "svd": lambda m, b: linear.svd(m, full_matrices=False)[1],
    }
    run, power = operations[name], POWERS[name]
    plain = [torch.tensor(a) for a in arrays]
    m, b = (a.clone().requires_grad_() for a in plain)
    active = (m, b) if name in ("solve", "triangular") else (m,)
    operation, powers = wrap(run), wrap(lambda m, b: (run(m, b) ** power).sum())

    def value() -> Any:
        with torch.no_grad():
            y = operation(*plain)
        return y.abs() if name == "qr" else y

    def gradient() -> Any:
        slopes = torch.autograd.grad(powers(m, b), active)
        return slopes if len(active) == 2 else slopes[0]

    return {"value": value, "gradient": gradient}
