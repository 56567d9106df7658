"""A table by the identity of its keys, for what has no key of its own.

Such are memos of trees and blocks, whose comparison as values would take longer than what is remembered, and objects of
Python that a value from outside shares. A fact about a part of a program has a real key: a variable, a number, a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ByIdentity(Generic[K, V]):
    """Values by objects, which the table keeps alive, so that no other object takes the identity of one."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[K, V]] = ()) -> None:
        self._entries: dict[int, tuple[K, V]] = {id(key): (key, value) for key, value in entries}

    def get(self, key: K) -> V | None:
        """The value of an object; None if it has none."""
        entry = self._entries.get(id(key))
        return None if entry is None else entry[1]

    def __getitem__(self, key: K) -> V:
        return self._entries[id(key)][1]

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[id(key)] = key, value

    def __contains__(self, key: K) -> bool:
        return id(key) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self._entries.values())

    def items(self) -> Iterable[tuple[K, V]]:
        """The objects with their values, in the order in which they came."""
        return self._entries.values()

    def discard(self, key: K) -> None:
        """Forgets an object, if it is known."""
        self._entries.pop(id(key), None)
