"""What a program means: run by the interpreter as it was written, before any pass has changed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

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
