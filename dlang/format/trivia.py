"""Finds the trivia between tokens: comments, empty lines, where the author began a new line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dlang.format.document import Above, Trailing
from dlang.grammar.lexer import Token

_PIECE = re.compile(r"#[^\n]*|\n")


@dataclass(slots=True)
class Trivia:
    """The trivia of a token. above: comments on lines of their own before it. broken: it begins a line. blank: an empty
    line is directly before it. behind: the comment after it on its line."""

    above: list[Above] = field(default_factory=list)
    broken: bool = False
    blank: bool = False
    behind: Trailing | None = None

    @property
    def apart(self) -> bool:
        """Tells whether an empty line is before the token and its comments."""
        return self.above[0].blank if self.above else self.blank


def trivia(text: str, tokens: list[Token]) -> list[Trivia]:
    """One for each token, and one for the end of the text."""
    found = [Trivia() for _ in range(len(tokens) + 1)]
    before = 0
    for number, here in enumerate(found):
        start = tokens[number].start if number < len(tokens) else len(text)
        if text[before:start] not in ("", " "):
            last = found[number - 1] if number else None
            _between(text, before, start, last, here)
        before = tokens[number].end if number < len(tokens) else start
    return found


def _between(text: str, start: int, end: int, last: Trivia | None, here: Trivia) -> None:
    """Records the trivia between two tokens."""
    newlines = 0
    for match in _PIECE.finditer(text, start, end):
        if match[0] == "\n":
            newlines += 1
            here.broken = True
            continue
        words = match[0].rstrip()
        if last is not None and not here.broken:
            code = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            last.behind = Trailing(words, len(code), len(code) - len(code.rstrip()))
        else:
            here.above.append(Above(words, newlines > 1))
        newlines = 0
    here.blank = newlines > 1
