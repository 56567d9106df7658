"""Tells whether the compiler verifies its programs: after each pass, and before code is generated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "DLANG_VERIFY"
"""The environment variable that asks for it; 0 says no where it would be done anyhow."""


def verifying() -> bool:
    """Tells whether the environment asks for verification."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


@contextmanager
def verified_by_default() -> Iterator[None]:
    """Asks for verification, in processes that are started in the block too, if the environment says nothing of it."""
    if VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[VARIABLE]
