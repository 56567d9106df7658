"""The warning that `dlang.SeedWarning` names, so that a program can filter it."""

from __future__ import annotations

from dlang.runtime.seeds import SeedWarning

__all__ = ["SeedWarning"]
