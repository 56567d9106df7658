"""What a device can do at most: copy memory, and multiply matrices by the library of its maker."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls

TITLE = "what the device can do: bytes that are copied, and products of matrices"
SIZES = ("1073741824x8192",)
DTYPES = ("",)
TOLERANCE = {"": 0.0}


def data(size: str, dtype: str) -> tuple[int, int]:
    """How many bytes are copied, and the size of the matrices."""
    count, n = map(int, size.split("x"))
    return count, n


def torch(given: tuple[int, int], wrap: Any) -> Calls:
    import torch

    count, n = given
    source = torch.randint(0, 256, (count,), dtype=torch.uint8)
    target = torch.empty_like(source)

    def product(dtype: Any) -> Any:
        # of zeros it would be quicker
        return partial(torch.matmul, *(torch.randn(n, n).to(dtype) for _ in range(2)))

    kinds = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    return {"copy": lambda: target.copy_(source), **{name: product(dtype) for name, dtype in kinds.items()}}
