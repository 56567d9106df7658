"""The least that calls have to do: bytes of device memory that they move, and operations.

Each argument is read once, each result is written once, and nothing else is moved. An elementary function counts as one
operation, so where these decide, a call can't come near to what the operations alone would take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod

WIDTHS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes that are read and written, and operations on numbers."""

    bytes: int
    operations: int


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a device can do at most: bytes it copies in a second, counted when read and when written; operations a
    second in products of matrices, by dtype."""

    device: str
    copy: float
    products: Mapping[str, float]

    def least(self, work: Work, dtype: str) -> float:
        """Seconds that a call takes at least."""
        return max(work.bytes / self.copy, work.operations / self.products[dtype])

    def bound_by_memory(self, work: Work, dtype: str) -> bool:
        """Whether it is the copying of its arguments and results that sets this limit."""
        return work.bytes / self.copy >= work.operations / self.products[dtype]


def work_of(workload: str, size: str, dtype: str) -> dict[str, Work]:
    """The work of each call of a workload that knows a GPU; of other calls nothing is said."""
    sizes = tuple(map(int, size.split("x")))
    w = WIDTHS.get(dtype, 0)
    match workload, sizes:
        case "ceilings", (count, n):
            products = {kind: Work(3 * n * n * width, 2 * n**3) for kind, width in WIDTHS.items()}
            return {"copy": Work(2 * count, 0), **products}
        case "elementwise", (n,):
            return {"value": Work(2 * n * w, 7 * n), "gradient": Work(2 * n * w, 16 * n)}
        case "reductions", (n, m, k):
            results = {"all": 1, "first": m * k, "middle": n * k, "last": n * m}
            return {name: Work((prod(sizes) + count) * w, prod(sizes)) for name, count in results.items()}
        case "softmax", (n, m):
            return {"value": Work(2 * n * m * w, 5 * n * m), "gradient": Work(4 * n * m * w, 9 * n * m)}
        case "layer_norm", (n, m):
            value = Work((2 * n * m + 2 * m) * w, 7 * n * m)
            return {"value": value, "gradient": Work((4 * n * m + 4 * m) * w, 18 * n * m)}
        case "matmul", (n,):
            return {"value": Work(3 * n * n * w, 2 * n**3)}
        case "mlp", (batch,):
            return _mlp(batch, w)
        case "lstm", (steps, batch, h):
            return _lstm(steps, batch, h, w)
        case "lenet", (batch,):
            return _lenet(batch, w)
        case "gmm", (d, k, n):
            return _gmm(d, k, n, w)
        case "black_scholes", (n,):
            return {"value": Work(6 * n * w, 26 * n), "gradient": Work(10 * n * w, 41 * n)}
        case "pairwise", (n,):
            return {"value": Work(3 * n * w, 11 * n * n), "gradient": Work(6 * n * w, 19 * n * n)}
        case _:
            raise ValueError(f"the work of {workload} {size} is not known")


# ---- products: of the forward pass, for slopes of weights, and for those of what comes in ----------------------------
def _mlp(batch: int, w: int) -> dict[str, Work]:
    from benchmarks.workloads.mlp import UNITS

    weights = sum(n * m for n, m in pairwise(UNITS))
    parameters = weights + sum(UNITS[1:])
    given = (parameters + batch * UNITS[0]) * w + batch * 8  # labels are i64
    slope = Work(given + parameters * w, 2 * batch * (3 * weights - UNITS[0] * UNITS[1]))
    return {"value": Work(given, 2 * batch * weights), "gradient": slope, "step": slope}


def _lstm(steps: int, batch: int, h: int, w: int) -> dict[str, Work]:
    weights = 4 * h * h  # those of the input, and again those of the state
    parameters = 2 * weights + 4 * h
    given = (parameters + steps * batch * h) * w
    value = Work(given, 2 * steps * batch * 2 * weights)
    return {"value": value, "gradient": Work(given + parameters * w, 2 * steps * batch * 5 * weights)}


def _lenet(batch: int, w: int) -> dict[str, Work]:
    from benchmarks.workloads.lenet import KERNELS, UNITS

    first, second = (prod(kernel) for kernel in KERNELS)
    dense = sum(n * m for n, m in pairwise(UNITS))
    parameters = first + second + dense + KERNELS[0][-1] + KERNELS[1][-1] + sum(UNITS[1:])
    of_first, others = 28 * 28 * first, 10 * 10 * second + dense
    given = (parameters + batch * 28 * 28) * w + batch * 8
    value = Work(given, 2 * batch * (of_first + others))
    return {"value": value, "gradient": Work(given + parameters * w, 2 * batch * (2 * of_first + 3 * others))}


def _gmm(d: int, k: int, n: int, w: int) -> dict[str, Work]:
    parameters = k + k * d + k * d * (d + 1) // 2
    given = (parameters + n * d) * w
    product = d * (d + 1)  # of a triangular matrix and a vector
    value = Work(given, n * k * (product + 3 * d))
    return {"value": value, "gradient": Work(given + parameters * w, n * k * (2 * product + 5 * d))}
