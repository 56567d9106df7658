"""A document becomes lines that fit where they can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.format.document import Above, Break, Choice, Concat, Doc, Fill, Nest, Trailing, forced, width

WIDTH = 120


@dataclass(slots=True)
class Line:
    """text: with its indentation. comment: what stands behind it."""

    text: str
    comment: Trailing | None = None


@dataclass(slots=True, eq=False)
class _Rest:
    """What is left of a `Fill` from a break on. line: the one on which the content before it began."""

    fill: Fill
    at: int
    line: int

    @property
    def parts(self) -> tuple[Break, Doc, bool]:
        """A break, the content behind it, and whether that is the last."""
        gap, content = self.fill.parts[self.at : self.at + 2]
        assert isinstance(gap, Break)
        return gap, content, self.at + 2 == len(self.fill.parts)


_Item = tuple[int, "Doc | _Rest"]  # an indentation and what is to be written


def layout(doc: Doc) -> list[Line]:
    """The lines of a document; those that can't fit into `WIDTH` are longer."""
    page = _Page()
    stack: list[_Item] = [(0, doc)]
    while stack:
        indent, item = stack.pop()
        match item:
            case str():
                page.write(item, indent)
            case Concat(parts=parts):
                stack.extend((indent, part) for part in reversed(parts))
            case Nest(doc=inner, by=by):
                stack.append((indent + by, inner))
            case Break(blank=blank):
                page.new_line(indent, blank)
            case Choice(options=options):
                chosen = options[-1]
                for option in options[:-1]:
                    if _fits(option, indent, page.column, stack):
                        chosen = option
                        break
                stack.append((indent, chosen))
            case Fill(parts=parts):
                if len(parts) > 1:
                    stack.append((indent, _Rest(item, 1, page.number)))
                stack.extend((indent, part) for part in parts[:1])
            case _Rest(fill=fill, at=at, line=line):
                gap, content, last = item.parts
                if (
                    gap.hard
                    or (fill.apart and page.number > max(line, page.commented))
                    or not _fits(content, indent, page.column + len(gap.flat), stack if last else ())
                ):
                    page.new_line(indent, gap.blank)
                else:
                    page.write(gap.flat, indent)
                if not last:
                    stack.append((indent, _Rest(fill, at + 2, page.number)))
                stack.append((indent, content))
            case Trailing(text=text):
                if page.text and page.comment is None:
                    page.comment = item
                else:
                    page.alone(text, indent, False)
            case Above(text=text, blank=blank):
                page.alone(text, indent, blank)
    page.new_line(0, False)
    return page.lines


class _Page:
    """Lines, and the one that is being written. A new line that has nothing on it yet is not begun again. Behind a
    comment only a comma comes on its line. commented: the number of the line behind the last one that is a comment."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.text: list[str] = []
        self.column = 0
        self.comment: Trailing | None = None
        self.blank = False
        self.commented = 0

    @property
    def number(self) -> int:
        return len(self.lines)

    def write(self, text: str, indent: int) -> None:
        if self.comment is not None and not text.startswith(","):
            self.new_line(indent, False)
        if not self.text:
            text = text.lstrip(" ")
            if not text:
                return
            if self.blank and self.lines:
                self.lines.append(Line(""))
            self.blank = False
            self.text.append(" " * self.column)
        self.text.append(text)
        self.column += len(text)

    def alone(self, text: str, indent: int, blank: bool) -> None:
        """A line of its own."""
        self.new_line(indent, blank)
        self.write(text, indent)
        self.new_line(indent, False)
        self.commented = self.number

    def new_line(self, indent: int, blank: bool) -> None:
        if self.text:
            self.lines.append(Line("".join(self.text).rstrip(" "), self.comment))
            self.text, self.comment, self.blank = [], None, False
        self.blank = self.blank or blank
        self.column = indent


def _fits(doc: Doc, indent: int, column: int, behind: Sequence[_Item]) -> bool:
    """Whether the lines of a document, with the fewest of them, are short enough, the last one with what comes on it
    behind the document. Beyond a line that has to end, what does not fit may take the most lines instead."""
    stack: list[_Item] = [(indent, doc)]
    free = False
    while stack:
        indent, item = stack.pop()
        match item:
            case str():
                column += len(item)
                if column > WIDTH:
                    return False
            case Concat(parts=parts):
                stack.extend((indent, part) for part in reversed(parts))
            case Nest(doc=inner, by=by):
                stack.append((indent + by, inner))
            case Break() | Above() | Trailing():
                column, free = indent, True
            case Choice(options=options):
                long = free and not item.forced and not _continues(column + item.width, stack)
                stack.append((indent, options[-1] if long else options[0]))
            case Fill(parts=parts):
                if not free and not item.forced:
                    stack.extend((indent, p.flat if isinstance(p, Break) else p) for p in reversed(parts))
                    continue
                if len(parts) > 1:
                    stack.append((indent, _Rest(item, 1, 0)))
                stack.extend((indent, part) for part in parts[:1])
            case _Rest(fill=fill, at=at):
                gap, content, last = item.parts
                if gap.hard or forced(content) or not _continues(column + width(gap) + width(content), ()):
                    column, free = indent, True
                else:
                    column += len(gap.flat)
                if not last:
                    stack.append((indent, _Rest(fill, at + 2, 0)))
                stack.append((indent, content))
    return _continues(column, behind)


def _continues(column: int, behind: Sequence[_Item]) -> bool:
    """Whether a line that has come to a column is short enough with what is behind it."""
    return column <= WIDTH and _reaches_a_break(column, [], behind, len(behind))


def _reaches_a_break(column: int, first: list[Doc | _Rest], behind: Sequence[_Item], at: int) -> bool:
    """Whether what follows on the line is short enough, up to where the next line may begin: `first`, from its end on,
    and what is behind it."""
    while first or at:
        if first:
            item = first.pop()
        else:
            at -= 1
            item = behind[at][1]
        match item:
            case str():
                column += len(item)
                if column > WIDTH:
                    return False
            case Concat(parts=parts):
                first.extend(reversed(parts))
            case Nest(doc=inner):
                first.append(inner)
            case Choice(options=options):
                return any(_reaches_a_break(column, [*first, o], behind, at) for o in reversed(options))
            case Fill(parts=parts):
                first.extend(reversed(parts))
            case Break() | Above() | Trailing() | _Rest():
                return True
    return True
