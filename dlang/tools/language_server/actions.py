"""Code actions: the edits that messages suggest, and annotations of inferred types."""

from __future__ import annotations

import time
from collections.abc import Iterator

from lsprotocol import types as lsp

from dlang.diagnostics import Diagnostic, Fix, Span
from dlang.grammar import syntax as s
from dlang.grammar.trees import walk
from dlang.tools.language_server import messages
from dlang.tools.language_server.describe import shown_type
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.inlay import of_const, of_local, of_pattern, of_signature
from dlang.tools.language_server.positions import offset_at, range_between, range_of

EXPLAIN = "dlc.explain"
_MOMENT = 0.3  # seconds
QUICK, REWRITE = lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.RefactorRewrite


def code_actions(
    document: Document, within: lsp.Range, only: tuple[str, ...] = ()
) -> list[lsp.CodeAction | lsp.Command]:
    """Lists the code actions in a range. only: the kinds that are asked for, all if there are none."""

    def wanted(kind: lsp.CodeActionKind) -> bool:
        return not only or any(kind.value == o or kind.value.startswith(o + ".") for o in only)

    source = document.analysis.source
    first, last = offset_at(source, within.start), offset_at(source, within.end)
    found: list[lsp.CodeAction | lsp.Command] = []
    if wanted(QUICK):
        found += _fixes(document, first, last)
    if wanted(REWRITE):
        found += _annotations(document, first, last)
    if not only:
        found += _pages(document, first, last)
    return found


def _pages(document: Document, first: int, last: int) -> Iterator[lsp.Command]:
    """The pages of the codes of the messages at a place."""
    here = [d for d in document.analysis.diagnostics if _about(document, d, first, last)]
    for code in dict.fromkeys(d.code for d in here):
        yield lsp.Command(f"Explain {code}", EXPLAIN, arguments=[code])


def _about(document: Document, d: Diagnostic, first: int, last: int) -> bool:
    """Tells whether a message is about the place."""
    return d.span is not None and d.span.source.path == document.path and d.span.first <= last and d.span.last >= first


def _fixes(document: Document, first: int, last: int) -> Iterator[lsp.CodeAction]:
    """The edits of the messages at a place, as many as can be tried in a moment if the place is large."""
    until = time.monotonic() + _MOMENT
    for d in document.analysis.diagnostics:
        for fix in d.fixes if _about(document, d, first, last) else ():
            if helps(document, d, fix):
                yield _fix(document, d, fix)
            if time.monotonic() > until:
                return


def helps(document: Document, d: Diagnostic, fix: Fix) -> bool:
    """Tells whether an edit of the file makes the message go away, and no other come for it."""
    if fix.span.source.path != document.path:
        return False
    before = [o.message for o in document.analysis.diagnostics]
    text = document.text[: fix.span.first] + fix.text + document.text[fix.span.last :]
    with document.rewritten(text) as analysis:
        left = [o.message for o in analysis.diagnostics]
    return len(left) < len(before) or (len(left) == len(before) and left.count(d.message) < before.count(d.message))


def _fix(document: Document, d: Diagnostic, fix: Fix) -> lsp.CodeAction:
    edit = lsp.TextEdit(range_of(fix.span), fix.text)
    return lsp.CodeAction(
        fix.title,
        QUICK,
        [messages.of_diagnostic(document.project, d)],
        is_preferred=len(d.fixes) == 1,
        edit=lsp.WorkspaceEdit({document.project.uri(fix.span.source.path): [edit]}),
    )


def _annotations(document: Document, first: int, last: int) -> Iterator[lsp.CodeAction]:
    """The types of the signature, or of the `let`, at a place."""
    for item in document.analysis.module.items:
        if not item.span.first <= first <= item.span.last:
            continue
        for node in walk(item):
            match node:
                case s.Let(pattern=s.PatternName() as p, type=None) | s.Var(pattern=s.PatternName() as p, type=None):
                    if _touches(node.span.head(0).to(p.span), first, last):
                        edits = list(of_pattern(document, p))
                        yield from _insertion(document, f"Write the type of `{p.name}`", edits)
                case s.Let(pattern=s.PatternTuple() as p, type=None, value=value) if _touches(p.span, first, last):
                    t = document.analysis.type_at(value.span)
                    edits = [(p.span.last, f": {shown_type(t)}")] if t is not None else []
                    yield from _insertion(document, "Write the type of the pattern", edits)
                case s.Const(type=None) if _touches(node.span.head(0).to(node.name_span), first, last):
                    yield from _insertion(document, f"Write the type of `{node.name}`", list(of_const(document, node)))
                case s.Fn() if _touches(node.span.head(0).to(node.name_span), first, last):
                    edits = list(of_signature(document, node) if node is item else of_local(document, node))
                    yield from _insertion(document, f"Write the types of `{node.name}`", edits)
                case _:
                    pass


def _touches(span: Span, first: int, last: int) -> bool:
    return span.first <= last and first <= span.last


def _insertion(document: Document, title: str, edits: list[tuple[int, str]]) -> Iterator[lsp.CodeAction]:
    """An action that inserts texts, if the file has no more mistakes with them than without."""
    if not edits or not still_checks(document, edits):
        return
    source = document.analysis.source
    changes = [lsp.TextEdit(range_between(source, at, at), text) for at, text in edits]
    yield lsp.CodeAction(title, REWRITE, edit=lsp.WorkspaceEdit({document.project.uri(document.path): list(changes)}))


def still_checks(document: Document, edits: list[tuple[int, str]]) -> bool:
    """Tells whether insertions bring no mistake: not every type that can be shown can be written."""
    before = len(document.analysis.diagnostics)
    text = document.text
    for at, more in sorted(edits, reverse=True):
        text = text[:at] + more + text[at:]
    with document.rewritten(text) as analysis:
        return len(analysis.diagnostics) <= before
