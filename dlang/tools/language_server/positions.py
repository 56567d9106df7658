"""Places of the protocol, which counts lines from 0 and columns in units of UTF-16, and offsets in a text."""

from __future__ import annotations

from lsprotocol import types as lsp

from dlang.diagnostics import Source, Span


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
