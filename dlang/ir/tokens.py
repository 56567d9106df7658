"""The tokens of the textual form of the IR, one after another."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from dlang.ir.errors import Unreadable
from dlang.ops.dtypes import NUMBERS

_TOKEN = re.compile(
    rf"""(?P<skip>\s+|\#[^\n]*)
      | (?P<text>"(?:\\.|[^"\\])*")
      | (?P<var>[^\W\d][\w']*\.\d+)
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:{"|".join(NUMBERS)})?)
      | (?P<mark>->|\.\.|[()\[\]{{}},:=*/+-])""",
    re.VERBOSE,
)

T = TypeVar("T")


def words(text: str) -> list[str]:
    """The tokens of a piece of text, as they are written."""
    return [m.group() for m in _TOKEN.finditer(text) if m.lastgroup != "skip"]


class Tokens:
    """The tokens of a text, and where the reader is among them. Raises IRError, with the line, where one is missing."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, offset
        at = 0
        while at < len(text):
            m = _TOKEN.match(text, at)
            if m is None:
                raise Unreadable(text, at, f"{text[at]!r} starts nothing")
            if m.lastgroup != "skip":
                self._tokens.append((str(m.lastgroup), m.group(), at))
            at = m.end()
        self._at = 0

    def done(self) -> bool:
        return self._at >= len(self._tokens)

    def fail(self, wanted: str) -> Unreadable:
        _, text, offset = ("end", "the end", len(self._text)) if self.done() else self._tokens[self._at]
        return Unreadable(self._text, offset, f"expected {wanted}, found {text}")

    def peek(self) -> tuple[str, str]:
        return ("end", "") if self.done() else self._tokens[self._at][:2]

    def take(self, kind: str) -> str:
        if self.peek()[0] != kind:
            raise self.fail(f"a {kind}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def accept(self, text: str) -> bool:
        kind, found = self.peek()
        if kind in ("mark", "word", "number") and found == text:
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fail(repr(text))

    def several(self, item: Callable[[], T], open: str = "(", close: str = ")") -> tuple[T, ...]:
        """open item, item, … close"""
        self.expect(open)
        out: list[T] = []
        while not self.accept(close):
            if out:
                self.expect(",")
            out.append(item())
        return tuple(out)

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        """item, item, …: at least one"""
        out = [item()]
        while self.accept(","):
            out.append(item())
        return tuple(out)

    def skip(self) -> None:
        """Goes to the next token."""
        self._at += 1

    def back(self) -> None:
        """Returns to the token before, so that an error is said to be there."""
        self._at -= 1
