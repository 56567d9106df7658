"""The tokens of the textual form of the IR, one after another."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from dlang.ir.errors import Unreadable
from dlang.ops.dtypes import NUMBERS

_TOKEN = re.compile(
    rf"""(?P<skip>\s+|\#[^\n]*)
      | (?P<text>"(?:\\.|[^"\\])*")
      | (?P<buffer>&[^\W\d][\w']*\.\d+)
      | (?P<var>[^\W\d][\w']*\.\d+)
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:{"|".join(NUMBERS)})?)
      | (?P<mark>->|<-|\.\.|[()\[\]{{}},:=*/+·×-])""",
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

    def binds(self) -> bool:
        """Tells whether the name of what is bound comes next: its type is behind it, or the operation is."""
        coming = self._tokens[self._at : self._at + 2]
        return len(coming) == 2 and coming[0][0] in ("var", "buffer") and coming[1][1] in (":", "=")

    def take(self, kind: str) -> str:
        if self.peek()[0] != kind:
            raise self.fail(f"a {kind}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def accept(self, *texts: str) -> bool:
        """Goes on behind these texts if they come next, and tells whether they did."""
        coming = self._tokens[self._at : self._at + len(texts)]
        if [text for kind, text, _ in coming if kind in ("mark", "word", "number")] != list(texts):
            return False
        self._at += len(texts)
        return True

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                raise self.fail(repr(text))

    def any_of(self, items: Sequence[Callable[[], T]]) -> T:
        """Reads by the first of these that can; if none can, the error is that of the one that read furthest."""
        begin, failures = self._at, list[Unreadable]()
        for item in items:
            try:
                return item()
            except Unreadable as e:
                failures.append(e)
                self._at = begin
        raise max(failures, key=lambda e: e.offset)

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
