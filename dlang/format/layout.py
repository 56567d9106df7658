"""A document becomes lines that fit where they can."""

from __future__ import annotations

from dataclasses import dataclass

from dlang.format.document import Above, Break, Choice, Concat, Doc, Either, Fill, Nest, Trailing
from dlang.format.fitting import Fitting, Item, Rest, reaches_a_break


@dataclass(slots=True)
class Line:
    """text: with its indentation. comment: what stands behind it."""

    text: str
    comment: Trailing | None = None


def layout(doc: Doc) -> list[Line]:
    """The lines of a document; those that can't fit into `WIDTH` are longer."""
    page, fitting = _Page(), Fitting()
    stack: list[Item] = [(0, doc)]
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
                    if fitting.fits(option, indent, page.column, stack):
                        chosen = option
                        break
                stack.append((indent, chosen))
            case Either(first=first, other=other):
                stack.append((indent, first if reaches_a_break(first, page.column, stack) else other))
            case Fill(parts=parts):
                if len(parts) > 1:
                    stack.append((indent, Rest(item, 1, page.number)))
                stack.extend((indent, part) for part in parts[:1])
            case Rest(fill=fill, at=at, line=line):
                gap, content, last = item.parts
                if (
                    gap.hard
                    or (fill.apart and page.number > max(line, page.commented))
                    or not fitting.fits(content, indent, page.column + len(gap.flat), stack if last else ())
                ):
                    page.new_line(indent, gap.blank)
                else:
                    page.write(gap.flat, indent)
                if not last:
                    stack.append((indent, Rest(fill, at + 2, page.number)))
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
