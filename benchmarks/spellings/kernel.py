"""A kernel is one function in several spellings: `NAME.dl` beside this file, and the arguments that it is called with.

A spelling is a function of the file whose name begins with `by_`, and the rest of the name says what it is made of. All
spellings of a kernel have the same parameters and the same meaning. Those whose names begin with `by_recursion` or
`by_list` call themselves or build lists, for which the law allows more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
PREFIX = "by_"
RECURSIVE = ("by_recursion", "by_list")
GROWTH = 4
"""The factor between the two sizes of a kernel that are measured."""
TOLERANCE = {"f64": 1e-8, "f32": 2e-3}


class Draw:
    """Random arguments of one dtype; the same seed gives the same numbers."""

    def __init__(self, seed: int, dtype: str) -> None:
        import numpy as np

        self.random = np.random.default_rng(seed)
        self.dtype = np.dtype({"f64": np.float64, "f32": np.float32}[dtype])

    def normal(self, *shape: int) -> Any:
        return self.random.normal(size=shape).astype(self.dtype)

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        return self.random.uniform(low, high, size=shape).astype(self.dtype)

    def integers(self, below: int, *shape: int) -> Any:
        return self.random.integers(0, below, size=shape)

    def positive_definite(self, n: int) -> Any:
        import numpy as np

        factor = self.normal(n, n)
        return factor @ factor.T + n * np.eye(n, dtype=self.dtype)

    def mask(self, share: float, *shape: int) -> Any:
        return self.random.random(shape) < share


@dataclass(frozen=True, slots=True)
class Kernel:
    """The sizes and the arguments of a kernel.

    sizes: those that are measured, of which the first grows. small: those of the tests. arguments: by the names of the
    parameters and in their order, from a `Draw` and the sizes. wrt: the parameters of the gradient.
    """

    name: str
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    wrt: tuple[str, ...]
    arguments: Callable[..., dict[str, Any]]
    dtype: str = "f64"

    @property
    def path(self) -> Path:
        return HERE / f"{self.name}.dl"

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.dtype]

    @property
    def title(self) -> str:
        """The first line of the file, which says what is computed."""
        with self.path.open(encoding="utf-8") as lines:
            return lines.readline().removeprefix("#").strip()

    def grown(self, scale: int) -> dict[str, int]:
        """The measured sizes with the first `scale` times as large."""
        first = next(iter(self.sizes))
        return {**self.sizes, first: scale * self.sizes[first]}

    def made(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        return self.arguments(Draw(zlib.crc32(self.name.encode()), self.dtype), **sizes)


def spellings(module: ModuleType) -> dict[str, Any]:
    """The spellings of a loaded kernel by name, in the order of the file."""
    return {name: function for name, function in vars(module).items() if name.startswith(PREFIX)}


def differentiated(kernel: Kernel, function: Any) -> Any:
    import dlang

    return dlang.value_and_grad(function, wrt=kernel.wrt if len(kernel.wrt) > 1 else kernel.wrt[0])
