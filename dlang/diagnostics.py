"""Messages to a person: where, what was expected and found, why, and what to do.

Every error that a user can cause is a `Diagnostic` with a code. Stages raise `DlangError` (or collect diagnostics and
go on); only this module formats them, for a terminal, as JSON, or for an editor.

A diagnostic has a stable code (`E0301`), one sentence, a span, notes that say where each side of a conflict comes from,
and help. Each code has a page in `dlang/explain/`, which `dlc explain` prints. A terminal gets pictures of control
characters (`shown`), never these themselves.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from dlang.remedies import remedy

_LINE_END = re.compile("\n")


@dataclass(eq=False)
class Source:
    """A text and where it came from; positions in it are offsets in characters.

    A file is one, or each of its declarations is: then what is known of a declaration stays true when something above
    it is edited, and only its place moves. first_line, offset: the place in the file; number: of the declaration, for
    ever; whole: the file.
    """

    path: str
    text: str
    first_line: int = 1
    offset: int = 0
    number: int = 0
    whole: Source | None = None

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in the file, both counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return line + self.first_line - 1, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line of the file, without its end."""
        start = self.line_starts[number - self.first_line]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    @property
    def file(self) -> Source:
        return self if self.whole is None else self.whole


class Span(NamedTuple):
    """A part of a source: offsets `start <= i < end`.

    via: the call that the code was reached by, where an optimiser put it in the place of the call.
    """

    source: Source
    start: int
    end: int
    via: CallSite | None = None

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    def __repr__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"

    @property
    def first(self) -> int:
        """The offset of the start in the file."""
        return self.source.offset + self.start

    @property
    def last(self) -> int:
        """The offset of the end in the file."""
        return self.source.offset + self.end

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def head(self, length: int) -> Span:
        """Its first characters alone."""
        return Span(self.source, self.start, self.start + length, self.via)

    def tail(self, length: int) -> Span:
        """Its last characters alone."""
        return Span(self.source, self.end - length, self.end, self.via)

    def word(self, text: str) -> Span:
        """Returns the span of a word in this one; all of it, if the word isn't there."""
        match = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.text)
        return self if match is None else self._replace(start=self.start + match.start(), end=self.start + match.end())

    def to(self, other: Span) -> Span:
        """Returns the span from the start of this one to the end of another of the same file."""
        if self.source is other.source:
            return Span(self.source, self.start, other.end)
        return Span(self.source.file, self.first, other.last)

    def reached(self, site: CallSite) -> Span:
        """The same place in code that has taken the place of a call."""
        via = self.via
        if via is None:
            return self._replace(via=site)
        return self if via.span is None else self._replace(via=CallSite(via.label, via.span.reached(site)))

    def calls(self) -> Iterator[CallSite]:
        """The calls that it was reached by, innermost first."""
        via = self.via
        while via is not None:
            yield CallSite(via.label, via.span and via.span.plain)
            via = via.span.via if via.span is not None else None

    @property
    def plain(self) -> Span:
        """The place alone."""
        return self if self.via is None else self._replace(via=None)


class CallSite(NamedTuple):
    """A call: how a person calls the function, and where."""

    label: str
    span: Span | None


class Note(NamedTuple):
    """A remark on another place, such as where a size comes from; `span` is None when it has no place."""

    text: str
    span: Span | None = None


class Fix(NamedTuple):
    """An edit that may set a mistake right: what it does, in words, and the text that takes the place of a span.

    certain: there is nothing else that could have been meant.
    """

    title: str
    span: Span
    text: str
    certain: bool = True


def replacement(span: Span, text: str, *, certain: bool = True) -> Fix:
    """The edit that writes something else at a place."""
    old = " ".join(span.text.split())
    shown = " ".join(text.split())
    if not shown:
        title = f"Leave out `{old}`"
    elif not old:
        title = f"Insert `{shown}`"
    else:
        title = f"Write `{shown}`" if len(shown) <= 50 else "Write it as the message says"
    return Fix(title, span, text, certain)


@dataclass(frozen=True)
class Diagnostic:
    """One message.

    code: stable, `E0301`; `dlc explain E0301` has its page. message: one sentence. label: what stands under the
    marked text. help: what to do, with text to paste where there is one; that of the code, if none is given. fixes:
    what a tool may do instead; any one of them.
    """

    code: str
    message: str
    span: Span | None
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: tuple[str, ...] = ()
    severity: str = "error"
    fixes: tuple[Fix, ...] = ()

    def __post_init__(self) -> None:
        if not self.help:
            object.__setattr__(self, "help", remedy(self.code))


def own_help(d: Diagnostic) -> tuple[str, ...]:
    """The help that a message was made with, without that of its code."""
    return () if d.help == remedy(d.code) else d.help


DEFECTS = frozenset({"E0811"})
"""The codes of messages that say that the compiler is at fault, and not the program."""


@dataclass(eq=False)
class DlangError(Exception):
    """Ends a stage with one or more diagnostics; its text is all of them, rendered."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n\n".join(render(d) for d in self.diagnostics)


def error(
    code: str,
    message: str,
    span: Span | None,
    *,
    label: str = "",
    notes: tuple[Note, ...] = (),
    help: tuple[str, ...] = (),
    fixes: tuple[Fix, ...] = (),
) -> DlangError:
    """A `DlangError` of one diagnostic, to raise."""
    return DlangError([Diagnostic(code, message, span, label, notes, help, fixes=fixes)])


# ---- for a terminal --------------------------------------------------------------------------------------------------
BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that have no width and turn the direction of the text around them."""
_PICTURES = {
    **{c: chr(0x2400 + c) for c in range(0x20) if chr(c) not in "\t\n"},  # Unicode has a picture of each
    0x7F: "\u2421",
    **dict.fromkeys([*range(0x80, 0xA0), *map(ord, f"{BIDIRECTIONAL}\u2028\u2029\ufeff")], "\ufffd"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # of a file's name that is no text
}
"""The pictures of characters that do something to a terminal: characters that do nothing."""


def shown(text: str) -> str:
    """A text of a user, such as a line of a program or the name of a file, as a terminal may get it."""
    return text if text.isascii() and text.isprintable() else text.translate(_PICTURES)


_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "blue": "\x1b[1;34m", "bold": "\x1b[1m"}
_LONGEST_LINE = 160  # columns that are shown of a line
_LONGEST_TEXT = 1600  # characters of a sentence of a message
_LONGEST_SPAN = 4  # lines of a span that are shown whole; of a longer one the first and the last


def render(diagnostic: Diagnostic, *, colour: bool = False) -> str:
    """The message with the lines of source that it is about, marked, in the form that Rust made familiar.

    Nothing in it does more to a terminal than to be read.
    """

    def paint(text: str, style: str) -> str:
        return f"{_COLOURS[style]}{text}\x1b[0m" if colour and text else text

    diagnostic = _shown(diagnostic)
    severity = diagnostic.severity if diagnostic.severity in _COLOURS else "blue"
    located = [note for note in diagnostic.notes if note.span is not None]
    gutter = _gutter([diagnostic.span, *(note.span for note in located)])
    bar = paint(" " * gutter + " |", "blue")
    out = [paint(f"{diagnostic.severity}[{diagnostic.code}]", severity) + paint(f": {diagnostic.message}", "bold")]

    def excerpt(span: Span, label: str, mark: str, style: str) -> None:
        line, column = span.source.position(span.start)
        out.append(f"{' ' * gutter}{paint('-->', 'blue')} {_short(span.source.path)}:{line}:{column}")
        out.append(bar)
        for number, text, marks in _marked(span, mark):
            if number is None:
                out.append(paint("...", "blue"))
                continue
            out.append((paint(f"{number:>{gutter}} |", "blue") + " " + text).rstrip())
            if marks:
                out.append(bar + " " + paint(marks, style))
        if label:
            out[-1] += " " + paint(label, style)

    if diagnostic.span is not None:
        excerpt(diagnostic.span, diagnostic.label, "^", severity)
    for note in diagnostic.notes:
        if note.span is None:
            out.append(f"{' ' * gutter} {paint('=', 'blue')} {paint('note', 'bold')}: {note.text}")
        else:
            out.append(f"{paint('note', 'bold')}: {note.text}")
            excerpt(note.span, "", "-", "blue")
    out += [f"{' ' * gutter} {paint('=', 'blue')} {paint('help', 'bold')}: {text}" for text in diagnostic.help]
    return "\n".join(out)


def _shown(d: Diagnostic) -> Diagnostic:
    """The message with the words of it that a terminal may get, without the middle of very long ones."""
    notes = tuple([Note(_short(n.text), n.span) for n in d.notes])
    help = tuple(map(_short, d.help))
    return replace(d, message=_short(d.message), label=_short(d.label), notes=notes, help=help)


def _short(text: str) -> str:
    half = _LONGEST_TEXT // 2
    return shown(text if len(text) <= _LONGEST_TEXT else f"{text[:half]}…{text[-half:]}")


def excerpt(span: Span) -> tuple[str, int]:
    """The lines of source that a message shows of a place, with the width of their numbers.

    It is for a program that has neither this module nor the source: where other numbers in a message are wider, blanks
    go in front of each line but `...`.
    """
    lines = render(Diagnostic("", "", span)).split("\n")[1:]
    return "\n".join(lines), _gutter([span])


def _gutter(spans: Iterable[Span | None]) -> int:
    """The width of the largest line number that is shown."""
    last = [s.source.position(max(s.start, s.end - 1))[0] for s in spans if s is not None]
    return len(str(max(last, default=0)))


def _marked(span: Span, mark: str) -> Iterator[tuple[int | None, str, str]]:
    """The lines of a span: number, text, marks under it. A number None stands for lines left out."""
    source = span.source
    first, start = source.position(span.start)
    last, end = source.position(max(span.start, span.end - 1))
    for number in range(first, last + 1):
        if last - first >= _LONGEST_SPAN and first < number < last:
            if number == first + 1:
                yield None, "", ""
            continue
        line = source.line(number)
        begin = start - 1 if number == first else len(line) - len(line.lstrip())
        stop = end if number == last else len(line)
        before = line[:begin].expandtabs(4)
        width = len(line[:stop].expandtabs(4)) - len(before)
        yield number, *_cut(shown(line.expandtabs(4)), len(before), max(1, width), mark)


def _cut(line: str, begin: int, width: int, mark: str) -> tuple[str, str]:
    """A line and the marks under it; of a very long line the part around the beginning of the marks."""
    if len(line) <= _LONGEST_LINE:
        return line, " " * begin + mark * width
    start = max(0, begin - _LONGEST_LINE // 4)
    end = start + _LONGEST_LINE
    left, right = "…" if start else "", "…" if end < len(line) else ""
    width = max(1, min(width, end - begin))
    return left + line[start:end] + right, " " * (begin - start + len(left)) + mark * width


# ---- for a program ---------------------------------------------------------------------------------------------------
def to_json(diagnostic: Diagnostic) -> dict[str, object]:
    """The message as plain data. Lines and columns count from 1, ends are exclusive; null where there is no place.

    A fix puts its text in its place.
    """
    return {
        **_place(diagnostic.span),
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "notes": [
            *([diagnostic.label] if diagnostic.label else []),
            *(note.text + (f" ({note.span!r})" if note.span else "") for note in diagnostic.notes),
        ],
        "help": list(diagnostic.help),
        "fixes": [{**_place(f.span), "title": f.title, "text": f.text, "certain": f.certain} for f in diagnostic.fixes],
    }


def _place(span: Span | None) -> dict[str, object]:
    line, column = span.source.position(span.start) if span else (None, None)
    end_line, end_column = span.source.position(span.end) if span else (None, None)
    return {
        "file": span.source.path if span else None,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }
