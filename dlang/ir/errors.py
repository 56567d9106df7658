"""The one exception for a defect of the compiler itself: a program in the IR that no pass should have made."""

from __future__ import annotations


class IRError(Exception):
    """An ill-formed program of the IR. A user's program never causes one; a wrong pass does."""


class Unreadable(IRError):
    """A text that is no program of the IR. offset: of the character at which that shows."""

    def __init__(self, text: str, offset: int, message: str) -> None:
        super().__init__(f"line {text.count(chr(10), 0, offset) + 1}: {message}")
        self.offset, self.message = offset, message
