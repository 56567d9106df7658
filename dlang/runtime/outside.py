"""The services that whoever runs compiled programs gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class World(Protocol):
    """The world that effects act on: `dlang.host.effects.Host`, or a stand-in."""

    def print(self, text: str) -> None: ...
    def effect(self, name: str, static: Sequence[str], args: Sequence[Any]) -> list[Any]: ...
    def failed(self) -> None:
        """A run has ended before it was through."""


class Shelf(Protocol):
    """The records kept of a program between processes, by kind; nothing is kept of what has no form in a record."""

    def get(self, kind: str) -> Any | None: ...
    def put(self, kind: str, value: Any) -> None: ...
