"""Reads the text of an input by its tokens: whether it goes on, how its next line is indented, where it is split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from dlang.grammar.lexer import Token, tokenize
from dlang.grammar.newlines import CLOSERS, NEEDS_MORE, OPENERS

INDENT = 2
PROMPT, MORE = "> ", "| "
"""In front of an input, and of its further lines."""


def incomplete(text: str) -> bool:
    """Tells whether an input goes on: a bracket is open, the last line ends with an operator, or it is the
    documentation of what follows; a command doesn't go on behind an operator."""
    tokens = tokenize(text)
    last = next((t.kind for t in reversed(tokens) if t.kind != "newline"), "")
    command = text.lstrip().startswith(":")
    documented = text.rstrip().rpartition("\n")[2].lstrip().startswith("##")
    return documented or _depth(tokens) > 0 or (last in NEEDS_MORE and last not in ("|", "!") and not command)


def indentation(text: str) -> str:
    """Returns the indentation of a line after a text: one step for each line with a bracket that is still open, and one
    more behind an operator."""
    opened: list[int] = []
    line = 0
    last = ""
    for token in tokenize(text):
        if token.kind == "newline":
            line += token.text.count("\n")
            continue
        if token.kind in OPENERS:
            opened.append(line)
        elif token.kind in CLOSERS and opened:
            opened.pop()
        last = token.kind
    steps = len(set(opened)) + (not opened and last in NEEDS_MORE and last not in ("|", "!"))
    return " " * (INDENT * steps)


def pieces(text: str) -> Iterator[str]:
    """The inputs in a text of several lines, as they are pasted or stand in a cell: each command, which is a line that
    begins with a colon, and what stands between. Of lines that were copied with their prompts, those that have one."""
    for part in _without_prompts(text):
        lines: list[str] = []
        for line in part.splitlines():
            ends = line.lstrip().startswith(":") or (bool(lines) and lines[0].lstrip().startswith(":"))
            if ends and not incomplete("\n".join(lines)):
                yield from _written(lines)
                lines = []
            lines.append(line)
        yield from _written(lines)


def _written(lines: list[str]) -> Iterator[str]:
    if any(line.strip() for line in lines):
        yield "\n".join(lines)


def _without_prompts(text: str) -> list[str]:
    if not text.startswith(PROMPT):
        return [text]
    inputs: list[str] = []
    for line in text.splitlines():
        if line.startswith(PROMPT):
            inputs.append(line.removeprefix(PROMPT))
        elif line.startswith(MORE):
            inputs[-1] += f"\n{line.removeprefix(MORE)}"
    return inputs


def with_file(text: str, formats: Sequence[str]) -> tuple[str, str | None]:
    """Splits a text in front of `> FILE`; the file is None unless its name ends as one of some formats."""
    redirection = re.search(rf"\s*>\s*(\S+\.(?:{'|'.join(formats)}))\s*$", text, re.IGNORECASE)
    return (text, None) if redirection is None else (text[: redirection.start()], os.path.expanduser(redirection[1]))


def split(text: str, separator: str) -> list[str]:
    """The parts of a text between tokens of a kind that stand in no bracket."""
    parts, start, depth = [], 0, 0
    for token in tokenize(text):
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if token.kind == separator and depth == 0:
            parts.append(text[start : token.start])
            start = token.end
    return [*parts, text[start:]]


def _depth(tokens: list[Token]) -> int:
    return sum((t.kind in OPENERS) - (t.kind in CLOSERS) for t in tokens)
