"""Terms of the protocol: places, messages as plain data, and answers that are found in steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from cattrs import Converter
from lsprotocol import types as lsp
from lsprotocol.converters import get_converter

from dlang.diagnostics import Source, Span
from dlang.identity import ByIdentity


def offset_at(file: Source, position: lsp.Position) -> int:
    """The offset in a file; beyond the end of a line it is that end, beyond the last line the end of the text."""
    if position.line >= len(file.line_starts):
        return len(file.text)
    line = file.line(position.line + 1)
    if line.isascii():
        return file.line_starts[position.line] + min(position.character, len(line))
    units = 0
    for column, c in enumerate(line):
        if units >= position.character:
            return file.line_starts[position.line] + column
        units += width(c)
    return file.line_starts[position.line] + len(line)


def position_at(file: Source, offset: int) -> lsp.Position:
    """The place of an offset in a file."""
    offset = min(offset, len(file.text))
    line, column = file.position(offset)
    return lsp.Position(line - 1, units(file.text[offset - column + 1 : offset]))


def range_between(file: Source, first: int, last: int) -> lsp.Range:
    return lsp.Range(position_at(file, first), position_at(file, last))


def range_of(span: Span) -> lsp.Range:
    """Returns the range of a span in its file."""
    file = span.source.file
    return range_between(file, span.first, span.last)


def units(text: str) -> int:
    """The length of a text in UTF-16."""
    return len(text) if text.isascii() else sum(map(width, text))


def width(c: str) -> int:
    return 2 if ord(c) > 0xFFFF else 1


# ---- messages --------------------------------------------------------------------------------------------------------
# Messages of the protocol as plain data, which is what is written as JSON.

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


# ---- steps -----------------------------------------------------------------------------------------------------------
# Answers that look at many files are found in steps, between which a server can see what else is asked.

Steps = Generator[None, None, T]
"""Yields where it may be left, and all that is known is as it was before."""


def finished(steps: Steps[T]) -> T:
    """The answer, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer
