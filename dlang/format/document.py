"""Documents: text with places where lines may break, after Wadler (A prettier printer, 2003) and Prettier.

A document is *forced* if it can't stand on one line: it has a break that is always taken, or a comment. Its *width* is
that on one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dlang.identity import ByIdentity

INDENT = 2
WIDTH = 120


@dataclass(slots=True, eq=False)
class Break:
    """A new line; in a `Fill` one that is not hard is `flat` where what follows fits. blank: with an empty line."""

    flat: str = ""
    hard: bool = True
    blank: bool = False


@dataclass(slots=True, eq=False)
class Trailing:
    """A comment at the end of the line that is being written, whatever else comes on that line. column: where it stood;
    gap: how many spaces were between the code and it."""

    text: str
    column: int
    gap: int


@dataclass(slots=True, eq=False)
class Above:
    """A comment on a line of its own. blank: with an empty line before it."""

    text: str
    blank: bool


@dataclass(slots=True, eq=False)
class Concat:
    parts: Sequence[Doc]
    forced: bool = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self.forced, self.width = any(map(forced, self.parts)), sum(map(width, self.parts))


@dataclass(slots=True, eq=False)
class Nest:
    """Lines that begin inside are indented by so much more."""

    doc: Doc
    by: int = INDENT
    forced: bool = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self.forced, self.width = forced(self.doc), width(self.doc)


@dataclass(slots=True, eq=False)
class Fill:
    """Contents and breaks in turn: as much on each line as fits. apart: what takes several lines has them for itself,
    so that the next content begins a new one."""

    parts: Sequence[Doc]
    apart: bool = True
    forced: bool = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self.forced, self.width = any(map(forced, self.parts)), sum(map(width, self.parts))


@dataclass(slots=True, eq=False)
class Choice:
    """The first of these whose lines all fit, else the last. The first is the one with the fewest lines."""

    options: Sequence[Doc]
    forced: bool = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self.forced, self.width = forced(self.options[0]), width(self.options[0])


@dataclass(slots=True, eq=False)
class Either:
    """The first if its line is short enough up to where it may break, else the other."""

    first: Doc
    other: Doc
    forced: bool = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self.forced, self.width = forced(self.first), width(self.first)


Doc = str | Break | Trailing | Above | Concat | Nest | Fill | Choice | Either

HARD = Break()


def forced(doc: Doc) -> bool:
    match doc:
        case str():
            return False
        case Break():
            return doc.hard
        case Trailing() | Above():
            return True
        case _:
            return doc.forced


def width(doc: Doc) -> int:
    match doc:
        case str():
            return len(doc)
        case Break():
            return len(doc.flat)
        case Trailing() | Above():
            return 0
        case _:
            return doc.width


def concat(*parts: Doc) -> Doc:
    """One after the other."""
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else Concat(parts)


def join(separator: str, docs: Iterable[Doc]) -> Doc:
    first, *others = docs
    return concat(first, *(part for doc in others for part in (separator, doc)))


def choice(*options: Doc) -> Doc:
    return options[0] if len(options) == 1 else Choice(options)


def flat(doc: Doc) -> Doc:
    """The document on one line for good, if it can stand on one."""
    return doc if forced(doc) else "".join(_texts(doc))


def _texts(doc: Doc) -> Iterator[str]:
    match doc:
        case str():
            yield doc
        case Break():
            yield doc.flat
        case Concat(parts=parts) | Fill(parts=parts):
            for part in parts:
                yield from _texts(part)
        case Nest(doc=inner):
            yield from _texts(inner)
        case Choice(options=options):
            yield from _texts(options[0])
        case Either(first=first):
            yield from _texts(first)
        case _:
            raise AssertionError("a comment has a line for itself")


def opened(doc: Doc) -> Doc:
    """The document with what it ends with in the form that takes the most lines."""
    match doc:
        case Choice(options=options):
            return options[-1]
        case Concat(parts=[*front, last]):
            return Concat([*front, opened(last)])
        case _:
            return doc


# ---- layout ----------------------------------------------------------------------------------------------------------
# A document becomes lines that fit where they can.


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


@dataclass(slots=True, eq=False)
class Rest:
    """The rest of a `Fill` from a break on. line: the one on which the content before it began."""

    fill: Fill
    at: int
    line: int

    @property
    def parts(self) -> tuple[Break, Doc, bool]:
        """A break, the content behind it, and whether that is the last."""
        gap, content = self.fill.parts[self.at : self.at + 2]
        assert isinstance(gap, Break)
        return gap, content, self.at + 2 == len(self.fill.parts)


Item = tuple[int, "Doc | Rest"]  # an indentation and what is to be written


@dataclass(slots=True)
class Fitting:
    """ends: what was found for documents by indentation and column, so that nested choices are looked at once."""

    ends: ByIdentity[Doc, dict[tuple[int, int], int | None]] = field(default_factory=ByIdentity)

    def fits(self, doc: Doc, indent: int, column: int, behind: Sequence[Item]) -> bool:
        """Tells whether all lines of a document fit, the last one with what follows the document on it."""
        end = self._end(doc, indent, column)
        return end is not None and _continues(end, behind)

    def _end(self, doc: Doc, indent: int, column: int) -> int | None:
        """The column at which a document ends that begins at a column; None if it has a line that is too long."""
        if isinstance(doc, str):
            column += len(doc)
            return column if column <= WIDTH else None
        if not forced(doc):
            column += width(doc)
            return column if column <= WIDTH else None
        ends = self.ends.get(doc)
        if ends is None:
            ends = self.ends[doc] = {}
        if (indent, column) not in ends:
            ends[indent, column] = self._measured(doc, indent, column)
        return ends[indent, column]

    def _measured(self, doc: Doc, indent: int, column: int) -> int | None:
        """Up to the first line that has to end, it has to take the fewest lines; beyond it takes as many as it needs,
        as it will when it is written."""
        stack: list[Item] = [(indent, doc)]
        free = False
        while stack:
            indent, item = stack.pop()
            match item:
                case str():
                    column += len(item)
                    if column > WIDTH:
                        return None
                case Concat(parts=parts):
                    stack.extend((indent, part) for part in reversed(parts))
                case Nest(doc=inner, by=by):
                    stack.append((indent + by, inner))
                case Break() | Above() | Trailing():
                    column, free = indent, True
                case Choice(options=options):
                    chosen = options[0]
                    if free:
                        chosen = next((o for o in options if self.fits(o, indent, column, stack)), options[-1])
                    stack.append((indent, chosen))
                case Either(first=first, other=other):
                    stack.append((indent, other if free and not reaches_a_break(first, column, stack) else first))
                case Fill(parts=parts):
                    if not free and not item.forced:
                        stack.extend((indent, p.flat if isinstance(p, Break) else p) for p in reversed(parts))
                        continue
                    if len(parts) > 1:
                        stack.append((indent, Rest(item, 1, 0)))
                    stack.extend((indent, part) for part in parts[:1])
                case Rest(fill=fill, at=at):
                    gap, content, last = item.parts
                    if gap.hard or not self.fits(content, indent, column + width(gap), stack if last else ()):
                        column, free = indent, True
                    else:
                        column += width(gap)
                    if not last:
                        stack.append((indent, Rest(fill, at + 2, 0)))
                    stack.append((indent, content))
        return column


def reaches_a_break(doc: Doc, column: int, behind: Sequence[Item]) -> bool:
    """Tells whether the line on which a document begins fits, up to where the next may begin."""
    return column <= WIDTH and _reaches_a_break(column, [doc], behind, len(behind))


def _continues(column: int, behind: Sequence[Item]) -> bool:
    """Tells whether a line that has reached a column fits with what is behind it."""
    return column <= WIDTH and _reaches_a_break(column, [], behind, len(behind))


def _reaches_a_break(column: int, first: list[Doc | Rest], behind: Sequence[Item], at: int) -> bool:
    """Tells whether what follows on the line fits, up to where the next line may begin: `first`, from its end on, and
    what is behind it."""
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
            case Either(first=one, other=other):
                return any(_reaches_a_break(column, [*first, o], behind, at) for o in (other, one))
            case Fill(parts=parts):
                first.extend(reversed(parts))
            case Break() | Above() | Trailing() | Rest():
                return True
    return True
