"""Finds the declaration of a name and all its uses, and gives it another name everywhere."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from lsprotocol import types as lsp

from dlang.diagnostics import Diagnostic, Span
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, tokenize
from dlang.tools.language_server.definitions import Definition, at, declarations, definition, imports, parameters_of
from dlang.tools.language_server.documents import Document, Project
from dlang.tools.language_server.names import Local, Occurrence, Target
from dlang.tools.language_server.protocol import Steps, offset_at, range_of
from dlang.typecheck.types import DTYPES

_KINDS = {"write": lsp.DocumentHighlightKind.Write, "definition": lsp.DocumentHighlightKind.Write}


def go_to_definition(document: Document, position: lsp.Position) -> lsp.Location | None:
    found = at(document, offset_at(document.analysis.source, position))
    return None if found is None or found[1].span is None else location(document.project, found[1].span)


def references(document: Document, position: lsp.Position, declaration: bool = True) -> Steps[list[lsp.Location]]:
    """Every place that names the same thing, in all files. declaration: the one that declares it, too."""
    found = at(document, offset_at(document.analysis.source, position))
    if found is None:
        return []
    places = yield from uses(document, found[1])
    spans = [o.span for _, o in places if declaration or o.role != "definition"]
    return [location(document.project, span) for span in spans]


def highlights(document: Document, position: lsp.Position) -> list[lsp.DocumentHighlight]:
    """The same in this file alone."""
    found = at(document, offset_at(document.analysis.source, position))
    if found is None:
        return []
    return [
        lsp.DocumentHighlight(range_of(o.span), _KINDS.get(o.role, lsp.DocumentHighlightKind.Read))
        for o in uses_in(document, found[1])
    ]


def uses(document: Document, found: Definition) -> Steps[list[tuple[Document, Occurrence]]]:
    """The occurrences of a name, the present file first."""
    places = [(document, o) for o in uses_in(document, found)]
    if is_local(found) and not is_parameter_of_module(document, found):
        return places
    word = re.compile(rf"(?<![\w']){re.escape(found.name)}(?![\w'])")
    for other in document.project.files():
        if other.path != document.path and (word.search(other.text) or found.kind == "module"):
            yield
            places += [(other, o) for o in uses_in(other, found)]
    return places


def is_local(found: Definition) -> bool:
    """Tells whether it is a name inside of a declaration."""
    return found.item is None and found.kind not in ("module", "builtin", "class")


def is_parameter_of_module(document: Document, found: Definition) -> bool:
    """Tells whether it is a parameter of a function that other files may call, with a name for the argument."""
    made = declarations(document).values() if found.kind == "parameter" else ()
    return any(p.key == found.key for d in made if d.kind == "function" for p in parameters_of(d))


def uses_in(document: Document, found: Definition) -> Iterator[Occurrence]:
    """The occurrences in one file."""
    key = found.key
    analysis = document.analysis
    if found.kind == "module":  # it may have any name
        named = analysis.occurrences
    else:
        named = [o for names in analysis.names for o in names.by_name.get(found.name, ())]
    for o in sorted(named, key=lambda o: o.span.first):
        if isinstance(o.target, Local):
            if (o.target.span.source.path, o.target.span.first) == key:
                yield o
        else:
            other = definition(document, o.target)
            if other is not None and other.key == key and other.kind == found.kind:
                yield o


def location(project: Project, span: Span) -> lsp.Location:
    return lsp.Location(project.uri(span.source.path), range_of(span))


# ---- new names -------------------------------------------------------------------------------------------------------
# A new name for what a name stands for, everywhere; refused where the program would come to mean something else.

_WORDS = KEYWORDS | CONTEXTUAL.keys() | DTYPES | {"size", "_"}
_MOMENT = 0.05  # seconds in which nothing else is answered
Edits = dict[str, list[tuple[int, int]]]
"""By path, where the name stands: first, last."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a name can't be changed, in the words of a diagnostic."""

    diagnostic: Diagnostic

    @property
    def text(self) -> str:
        return ": ".join((f"{self.diagnostic.code}: {self.diagnostic.message}", *self.diagnostic.help))


def prepare(document: Document, position: lsp.Position) -> lsp.Range | None:
    """Returns the range of the name that would be changed; None if there is none that could be."""
    found = at(document, offset_at(document.analysis.source, position))
    if found is None or isinstance(_changeable(document, *found), Refused):
        return None
    return range_of(found[0].span)


def rename(document: Document, position: lsp.Position, name: str) -> Steps[lsp.WorkspaceEdit | Refused]:
    """The edits of all files that give a name to what stands at a position."""
    found = at(document, offset_at(document.analysis.source, position))
    if found is None:
        return _refused("there is no name here", None)
    changeable = _changeable(document, *found)
    if isinstance(changeable, Refused):
        return changeable
    before = found[0].span.text
    if not is_name(name, before):
        return _not_a_name(name, before, found[0].span)
    if name == before:
        return lsp.WorkspaceEdit({})
    edits: Edits = {}
    for other, o in (yield from _places(document, *found)):
        edits.setdefault(other.path, []).append((o.span.first, o.span.last))
    problem = yield from _consequences(document.project, edits, name, found[0].span)
    if problem is not None:
        return problem
    return lsp.WorkspaceEdit(
        {document.project.uri(path): list(_text_edits(document, path, edits[path], name)) for path in edits}
    )


def is_name(name: str, before: str) -> bool:
    """Tells whether it is a name of the same sort: a value or a type, private or not."""
    tokens = tokenize(name)
    kinds = [t.kind for t in tokens if t.kind != "newline"]
    if kinds != ["UNAME" if before[:1].isupper() else "NAME"] or tokens[0].text != name:
        return False
    return name not in _WORDS


def _refused(message: str, span: Span | None, *help: str) -> Refused:
    return Refused(Diagnostic("E0978", message, span, help=help))


def _places(document: Document, o: Occurrence, found: Definition) -> Steps[list[tuple[Document, Occurrence]]]:
    """Finds the uses of the name; another name of a module is known in its file alone."""
    if found.kind == "module":
        return [(document, use) for use in document.analysis.occurrences if use.target == o.target]
    return (yield from uses(document, found))


def _not_a_name(name: str, before: str, span: Span) -> Refused:
    if name in _WORDS:
        why = f"`{name}` is a word of the language"
    elif before[:1].isupper():
        why = "names of types and constructors begin with a capital, and letters, digits, `_` and `'` follow"
    else:
        why = "names of values begin with a small letter or `_`, and letters, digits, `_` and `'` follow"
    return _refused(f"`{name}` can't be the new name of `{before}`", span, why)


def _changeable(document: Document, o: Occurrence, found: Definition) -> Refused | None:
    if found.span is None:
        return _refused(f"`{found.name}` belongs to the language", None)
    if found.kind == "module":
        if any(i.alias == o.span.text for i in imports(document)):
            return None
        return _refused(f"`{found.name}` is a file", found.span, f"`import {found.name} as …` gives it another name")
    if document.project.standard(found.span.source.path):
        return _refused(f"`{found.name}` belongs to the standard library", found.span)
    return None


def _text_edits(document: Document, path: str, places: list[tuple[int, int]], name: str) -> list[lsp.TextEdit]:
    other = document if path == document.path else document.project.document(path)
    assert other is not None
    file = other.analysis.source
    return [lsp.TextEdit(range_of(Span(file, first, last)), name) for first, last in sorted(places)]


# ---- what the edits would do -----------------------------------------------------------------------------------------
Meaning = tuple[str, int] | tuple[str, str] | None
"""The meaning of a name: `Definition.key`."""


@dataclass(frozen=True, slots=True)
class Before:
    """A file without the edits. names: where each stands, what it stands for, and the line; codes: of its messages."""

    names: list[tuple[int, int, Meaning, int]]
    codes: Counter[str]


def _consequences(project: Project, edits: Edits, name: str, span: Span) -> Steps[Refused | None]:
    """Tries the edits, and looks whether every name still stands for the same. Some files are looked at together,
    because all of them have their new texts meanwhile."""
    texts: dict[str, str] = {}
    files: list[tuple[Document, Before]] = []
    for path, places in edits.items():
        document = project.document(path)
        assert document is not None
        text = document.text
        for first, last in sorted(places, reverse=True):
            text = text[:first] + name + text[last:]
        texts[path] = text
        files.append((document, _before(document)))
        yield
    while files:
        with project.rewritten(texts):
            until = time.monotonic() + _MOMENT
            while files and time.monotonic() < until:
                problem = _differs(*files.pop(0), edits, name, span)
                if problem is not None:
                    return problem
        yield
    return None


def _before(document: Document) -> Before:
    meanings = _Meanings(document)
    names = [(o.span.first, o.span.last, meanings.of(o), o.span.line) for o in document.analysis.occurrences]
    return Before(names, Counter(d.code for d in document.analysis.diagnostics))


def _differs(document: Document, before: Before, edits: Edits, name: str, span: Span) -> Refused | None:
    """Why a file with the edits is another program than before."""
    new, meanings = document.analysis, _Meanings(document)
    stands_for = {(o.span.first, o.span.last): o for o in new.occurrences}
    moved = {path: _Moved(sorted(places), name) for path, places in edits.items()}
    here = moved[document.path]
    for first, last, meant, line in before.names:
        place = (here.offset(first), here.offset(last))
        again = stands_for.get(place)
        means = meanings.of(again) if again is not None else None
        if meant is not None and isinstance(meant[1], int) and meant[0] in moved:
            meant = (meant[0], moved[meant[0]].offset(meant[1]))
        if meant != means:
            what = new.source.text[slice(*place)]
            said = f"with the name `{name}`, `{what}` in line {line} would stand for something else"
            return _refused(said, span, "choose a name that nothing has there")
    counts = Counter(d.code for d in new.diagnostics)
    counts.subtract(before.codes)
    worse = next((d for d in new.diagnostics if counts[d.code] > 0), None)
    if worse is not None:
        return _refused(f"with the name `{name}` the program would have a mistake: {worse.message}", span)
    return None


@dataclass(slots=True)
class _Meanings:
    """The meanings of the names of a document, found once for all names with the same target."""

    document: Document
    known: dict[Target, Meaning] = field(default_factory=dict)

    def of(self, o: Occurrence) -> Meaning:
        if o.target not in self.known:
            found = definition(self.document, o.target)
            self.known[o.target] = found.key if found is not None else None
        return self.known[o.target]


class _Moved:
    """Maps offsets in a file to those after the edits, which have these places, in order."""

    def __init__(self, places: list[tuple[int, int]], name: str) -> None:
        self.ends = [last for _, last in places]
        self.shifts = [0, *accumulate(len(name) - (last - first) for first, last in places)]

    def offset(self, offset: int) -> int:
        return offset + self.shifts[bisect_right(self.ends, offset)]
