"""One large product of square matrices, in every precision."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "product of two square matrices"
SIZES = ("8192",)
DTYPES = ("f32", "f64", "f16", "bf16")
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
EAGER = True


def data(size: str, dtype: str) -> Any:
    """Two matrices, in f32 if NumPy lacks the dtype, and the dtype."""
    import numpy as np

    random = np.random.default_rng(0)
    made = [random.standard_normal((int(size), int(size)), np.float32).astype(scalar(dtype)) for _ in range(2)]
    return made, dtype


def dlang(given: Any) -> Calls:
    m = program("matmul")
    arrays, dtype = given
    if dtype == "bf16":
        return {"value": partial(m.value_bf16, *map(m.rounded, arrays))}
    return {"value": partial(m.value, *arrays)}


def jax(given: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    arrays, dtype = given
    kind = jnp.bfloat16 if dtype == "bf16" else None
    return {"value": waiting(jax.jit(jnp.matmul), *(jnp.asarray(a, kind) for a in arrays))}


def torch(given: Any, wrap: Any) -> Calls:
    import torch

    arrays, dtype = given
    kind = torch.bfloat16 if dtype == "bf16" else None
    return {"value": partial(wrap(torch.matmul), *(torch.tensor(a, dtype=kind) for a in arrays))}


def numpy(given: Any) -> Calls:
    import numpy as np

    arrays, _ = given
    return {"value": partial(np.matmul, *arrays)}
