"""The meaning of a program: the interpreter runs it as it was written, before any pass has changed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dlang
from dlang import driver

if TYPE_CHECKING:
    from dlang.driver import Request
    from dlang.ir.anf import Program
    from dlang.specialize.specialize import Entry


def _expanded(requests: Sequence[Request], **_: Any) -> tuple[Program, list[Entry]]:
    (request,) = requests
    program, entry = driver.expanded(request)
    return program, [entry]


@contextmanager
def as_written() -> Iterator[None]:
    """Has the interpreter run functions that are called inside for the first time as they were written: derivatives
    are expanded, and nothing is optimised. Compiled functions have to be called before or after."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "lower", _expanded)
        yield


def meaning(function: Any, *args: Any) -> Any:
    """The value of an interpreted function, as it was written."""
    with as_written():
        return function(*args)


def values_and_gradients_agree(compiled: Any, interpreted: Any, c: Any, x: float, atol: float = 0.0) -> None:
    """Compares a compiled function of an array `c` and a number `x`, and its gradients, with its meaning."""
    np.testing.assert_allclose(compiled(c, x), meaning(interpreted, c, x), rtol=1e-12, atol=atol)
    for wrt in "cx":
        slope = meaning(dlang.grad(interpreted, wrt=wrt), c, x)
        np.testing.assert_allclose(dlang.grad(compiled, wrt=wrt)(c, x), slope, rtol=1e-10, atol=1e-12)
