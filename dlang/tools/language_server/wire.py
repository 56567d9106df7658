"""Messages of the protocol as plain data, which is what is written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from cattrs import Converter
from lsprotocol.converters import get_converter

from dlang.identity import ByIdentity

T = TypeVar("T")


@cache
def converter() -> Converter:
    return get_converter()


@dataclass(slots=True)
class PartsCache(Generic[T]):
    """The parts of an answer by declaration, as plain data. Most of a long answer is as it was before an edit, and
    turning it into data would cost more than finding it. parts: by the identity of a declaration."""

    parts: ByIdentity[object, tuple[object, Any]] = field(default_factory=ByIdentity)

    def answer(self, parts: Iterable[tuple[T, object]], make: Callable[[T], object | None]) -> list[Any]:
        """The answer, of declarations with all else that decides what they have in it."""
        return list(self._answer(parts, make))

    def _answer(self, parts: Iterable[tuple[T, object]], make: Callable[[T], object | None]) -> Iterator[Any]:
        before, self.parts = self.parts, ByIdentity()
        for part, basis in parts:
            known = before.get(part)
            if known is None or known[0] != basis:
                known = (basis, converter().unstructure(make(part)))
            self.parts[part] = known
            if known[1] is not None:
                yield known[1]
