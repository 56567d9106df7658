"""A new name for what a name stands for, everywhere; refused where the program would come to mean something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lsprotocol import types as lsp

from dlang.diagnostics import Diagnostic, Span
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, tokenize
from dlang.tools.language_server.definitions import Definition, at, definition, imports
from dlang.tools.language_server.documents import Document, Project
from dlang.tools.language_server.positions import offset_at, range_of
from dlang.tools.language_server.references import uses
from dlang.tools.language_server.scopes import Occurrence
from dlang.typecheck.types import DTYPES

_WORDS = KEYWORDS | CONTEXTUAL.keys() | DTYPES | {"size", "_"}
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
    """Where the name stands that would be changed; None if there is none that could be."""
    found = at(document, offset_at(document.analysis.source, position))
    if found is None or isinstance(_changeable(document, *found), Refused):
        return None
    return range_of(found[0].span)


def rename(document: Document, position: lsp.Position, name: str) -> lsp.WorkspaceEdit | Refused:
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
    for other, o in _places(document, *found):
        edits.setdefault(other.path, []).append((o.span.first, o.span.last))
    problem = _consequences(document.project, edits, name, found[0].span)
    if problem is not None:
        return problem
    return lsp.WorkspaceEdit(
        {document.project.uri(path): list(_text_edits(document, path, edits[path], name)) for path in edits}
    )


def is_name(name: str, before: str) -> bool:
    """Whether it is a name of the same sort: a value or a type, private or not."""
    tokens = tokenize(name)
    kinds = [t.kind for t in tokens if t.kind != "newline"]
    if kinds != ["UNAME" if before[:1].isupper() else "NAME"] or tokens[0].text != name:
        return False
    return name not in _WORDS


def _refused(message: str, span: Span | None, *help: str) -> Refused:
    return Refused(Diagnostic("E0978", message, span, help=help))


def _places(document: Document, o: Occurrence, found: Definition) -> Iterator[tuple[Document, Occurrence]]:
    """Where the name stands; another name of a module is known in its file alone."""
    if found.kind == "module":
        yield from ((document, use) for use in document.analysis.occurrences if use.target == o.target)
    else:
        yield from uses(document, found)


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
def _consequences(project: Project, edits: Edits, name: str, span: Span) -> Refused | None:
    """Makes the edits in a copy of the files and looks whether every name still stands for the same."""
    copy = Project()
    for path, open_file in project.open.items():
        copy.put(path, open_file.uri, open_file.text, 0)
    for path, places in edits.items():
        before = project.document(path)
        assert before is not None
        text = before.text
        for first, last in sorted(places, reverse=True):
            text = text[:first] + name + text[last:]
        copy.put(path, before.uri, text, 0)
    for path in edits:
        before, after = project.document(path), copy.document(path)
        assert before is not None and after is not None
        problem = _differs(before, after, edits, name, span)
        if problem is not None:
            return problem
    return None


def _differs(before: Document, after: Document, edits: Edits, name: str, span: Span) -> Refused | None:
    old, new = before.analysis, after.analysis
    places = edits[before.path]
    stands_for = {(o.span.first, o.span.last): o for o in new.occurrences}
    for o in old.occurrences:
        moved = (_moved(o.span.first, places, name), _moved(o.span.last, places, name))
        again = stands_for.get(moved)
        meant = definition(before, o.target)
        means = definition(after, again.target) if again is not None else None
        if not _same(meant, means, edits, name):
            what = f"`{name}`" if (o.span.first, o.span.last) in places else f"`{o.span.text}`"
            line = old.source.position(o.span.first)[0]
            said = f"with the name `{name}`, {what} in line {line} would stand for something else"
            return _refused(said, o.span, "choose a name that nothing has there")
    counts = Counter(d.code for d in new.diagnostics)
    counts.subtract(Counter(d.code for d in old.diagnostics))
    worse = next((d for d in new.diagnostics if counts[d.code] > 0), None)
    if worse is not None:
        return _refused(f"with the name `{name}` the program would have a mistake: {worse.message}", span)
    return None


def _moved(offset: int, places: list[tuple[int, int]], name: str) -> int:
    """Where an offset is after the edits."""
    return offset + sum(len(name) - (last - first) for first, last in places if last <= offset)


def _same(a: Definition | None, b: Definition | None, edits: Edits, name: str) -> bool:
    if a is None or b is None:
        return a is b
    if a.span is None or b.span is None:
        return a.key == b.key
    path = a.span.source.path
    return path == b.span.source.path and _moved(a.span.first, edits.get(path, []), name) == b.span.first
