"""Messages of the protocol as plain data, which is what is written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from cattrs import Converter
from lsprotocol.converters import get_converter

T = TypeVar("T")


@cache
def converter() -> Converter:
    return get_converter()


@dataclass(slots=True)
class Kept(Generic[T]):
    """The parts of an answer by declaration, as plain data. Most of a long answer is as it was before an edit, and
    turning it into data would cost more than finding it. parts: by the identity of a declaration."""

    parts: dict[int, tuple[object, object, Any]] = field(default_factory=dict)

    def answer(self, parts: Iterable[tuple[T, object]], make: Callable[[T], object | None]) -> list[Any]:
        """The answer, of declarations with all else that decides what they have in it."""
        return list(self._answer(parts, make))

    def _answer(self, parts: Iterable[tuple[T, object]], make: Callable[[T], object | None]) -> Iterator[Any]:
        before, self.parts = self.parts, {}
        for part, basis in parts:
            known = before.get(id(part))
            if known is None or known[0] is not part or known[1] != basis:
                known = (part, basis, converter().unstructure(make(part)))
            self.parts[id(part)] = known
            if known[2] is not None:
                yield known[2]
