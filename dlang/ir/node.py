"""Nodes of datatypes as the interpreter has them, and as they cross the border of compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False, weakref_slot=True)
class Node:
    """A node of a datatype; null is None. What crosses the border makes it first and gives it its fields later."""

    tag: int
    fields: tuple[Any, ...]
