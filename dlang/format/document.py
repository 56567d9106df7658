"""Documents: text with places where lines may break, after Wadler (A prettier printer, 2003) and Prettier.

A document is *forced* if it can't stand on one line: it has a break that is always taken, or a comment. Its *width* is
that on one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

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
    first, *rest = docs
    return concat(first, *(part for doc in rest for part in (separator, doc)))


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
