"""Performs the operations of `ops/linear_algebra.py` on NumPy arrays, for the interpreter and for compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dlang.lazy_modules import lazy_module, np

if TYPE_CHECKING:
    from dlang.host import lapack
else:
    lapack = lazy_module("dlang.host.lapack")


def perform(name: str, args: Sequence[Any]) -> list[Any]:
    """The results of an operation. Its arguments, arrays in row-major order and scalars, are left as they are."""
    if name == "argsort":
        return [np.argsort(args[0], kind="stable")]
    with np.errstate(all="ignore"):
        if name == "cholesky_pullback":
            return [lapack.pullback(*args)]
        if name == "cholesky_pushforward":
            return [lapack.pushforward(*args)]
        return lapack.OPERATIONS[name](*args)
