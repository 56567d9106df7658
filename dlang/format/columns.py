"""Comments behind code. Those that stand in one column stand in one column again, as far from the code as before."""

from __future__ import annotations

from collections.abc import Iterator

from dlang.format.document import WIDTH, Trailing
from dlang.format.layout import Line

_LEAST = 2  # spaces before a comment


def written(lines: list[Line]) -> list[str]:
    """The lines with their comments."""
    texts = [line.text for line in lines]
    for group in _groups(lines):
        end = max(len(texts[number]) for number, _ in group)
        gap = max(_LEAST, min(comment.gap for _, comment in group))
        longest = max(len(comment.text) for _, comment in group)
        column = max(end + _LEAST, min(end + gap, WIDTH - longest))
        for number, comment in group:
            texts[number] = texts[number].ljust(column) + comment.text
    return texts


def _groups(lines: list[Line]) -> Iterator[list[tuple[int, Trailing]]]:
    """The numbers and comments of lines near each other whose comments stood in one column; a group ends with a
    paragraph or a block."""
    group: list[tuple[int, Trailing]] = []
    indent = 0
    for number, line in enumerate(lines):
        ended = not line.text or line.text[:indent].strip()
        if group and (ended or (line.comment and line.comment.column != group[0][1].column)):
            yield group
            group = []
        if line.comment is not None:
            if not group:
                indent = len(line.text) - len(line.text.lstrip())
            group.append((number, line.comment))
    if group:
        yield group
