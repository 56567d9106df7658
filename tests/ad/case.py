"""What a program is whose gradient must be right: a function, the parameters of the derivative, arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlang.ir.anf import Function, Var
from dlang.ir.builder import Builder
from tests.ad.support import I64

Case = tuple[Function, list[int], list[Any]]


class Cases(dict[str, Callable[[], Case]]):
    """The programs of a subject, by their names."""

    def add(self, f: Callable[[], Case]) -> Callable[[], Case]:
        """Adds a program: the decorated function builds it."""
        self[f.__name__] = f
        return f


def new(*sizes: str) -> tuple[Builder, list[Var]]:
    b = Builder()
    return b, [b.param(s, I64) for s in sizes]


def randoms(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape)
