"""Code actions: the edits that messages suggest, and annotations of inferred types."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from lsprotocol import types as lsp

from dlang.diagnostics import Diagnostic, Fix, Span
from dlang.grammar import syntax as s
from dlang.grammar.syntax import walk
from dlang.tools.assistance import inferred
from dlang.tools.explain import PAGES
from dlang.tools.language_server.describe import entry_of, shown_type
from dlang.tools.language_server.documents import Document, Project
from dlang.tools.language_server.protocol import offset_at, position_at, range_between, range_of
from dlang.tools.language_server.references import own
from dlang.typecheck.types import MISTAKE, TypeFn

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
    actions: list[lsp.CodeAction | lsp.Command] = []
    if wanted(QUICK):
        actions += _fixes(document, first, last)
    if wanted(REWRITE):
        actions += _annotations(document, first, last)
    if not only:
        actions += _pages(document, first, last)
    return actions


def _pages(document: Document, first: int, last: int) -> Iterator[lsp.Command]:
    """The pages of the codes of the messages at a place."""
    diagnostics = [d for d in document.analysis.diagnostics if _about(document, d, first, last)]
    for code in dict.fromkeys(d.code for d in diagnostics):
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
        [of_diagnostic(document.project, d)],
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


# ---- types and sizes in the text -------------------------------------------------------------------------------------
# Types and sizes that were found and not written, shown where they could be written.

_LONGEST = 60


def inlay_hints(document: Document, within: lsp.Range) -> list[lsp.InlayHint]:
    """The hints of the lines of a range."""
    analysis = document.analysis
    first, last = offset_at(analysis.source, within.start), offset_at(analysis.source, within.end)
    out: list[lsp.InlayHint] = []
    for item in analysis.module.items:
        if item.span.last < first or item.span.first > last:
            continue
        for offset, text in _of_item(document, item):
            if first <= offset <= last:
                out.append(lsp.InlayHint(position_at(analysis.source, offset), text, kind=lsp.InlayHintKind.Type))
    return out


def _of_item(document: Document, item: s.Item) -> Iterator[tuple[int, str]]:
    if isinstance(item, s.Fn):
        yield from of_signature(document, item)
    if isinstance(item, s.Const) and item.type is None:
        yield from of_const(document, item)
    for node in walk(item):
        match node:
            case s.Let(pattern=pattern, type=None, value=value) | s.Var(pattern=pattern, type=None, value=value):
                if not isinstance(value, s.Lambda):
                    yield from of_pattern(document, pattern)
            case s.Lambda(parameters=parameters):
                for p in parameters:
                    if p.type is None:
                        yield from of_pattern(document, p.pattern)
            case s.Binder(pattern=pattern, each=each) if each is not None:
                yield from of_pattern(document, pattern)
            case s.Fn() if node is not item:
                yield from of_local(document, node)
            case _:
                pass


def of_pattern(document: Document, pattern: s.Pattern) -> Iterator[tuple[int, str]]:
    """The types of the names that a pattern binds."""
    for node in walk(pattern):
        if isinstance(node, s.PatternName):
            t = document.analysis.type_at(node.span)
            if t is not None and len(text := shown_type(t)) <= _LONGEST:
                yield node.span.last, f": {text}"


def of_const(document: Document, item: s.Const) -> Iterator[tuple[int, str]]:
    """The type of a constant."""
    constant = own(document, item.name, "value")
    entry = entry_of(document, constant) if constant is not None else None
    if entry is not None and entry.decl.result is not None:
        yield item.name_span.last, f": {shown_type(entry.decl.result)}"


def of_signature(document: Document, f: s.Fn) -> Iterator[tuple[int, str]]:
    """Lists the types and bounds that the signature of a function leaves out, with their offsets."""
    if f.result is not None and all(p.type is not None for p in f.parameters):
        return
    function = own(document, f.name, "value")
    entry = entry_of(document, function) if function is not None and function.item is f else None
    if entry is None:
        return
    signature = inferred(f.name, entry, f)
    if signature.bounds and not f.bounds:
        yield f.name_span.last, signature.bounds
    for p, text in zip(f.parameters, signature.parameters, strict=True):
        if p.type is None and MISTAKE.name not in text:
            yield p.pattern.span.last, ": " + text.partition(": ")[2].partition(" = ")[0]
    if f.result is None and not signature.result.startswith("()") and MISTAKE.name not in signature.result:
        yield end_of_parameters(f), f" -> {signature.result}"


def of_local(document: Document, f: s.Fn) -> Iterator[tuple[int, str]]:
    """The same of a local function."""
    t = document.analysis.type_at(f.name_span)
    if not isinstance(t, TypeFn):
        return
    for p, parameter_type in zip(f.parameters, t.params, strict=False):
        if p.type is None:
            yield p.pattern.span.last, f": {shown_type(parameter_type)}"
    if f.result is None and (text := shown_type(t.result)) != "()":
        yield end_of_parameters(f), f" -> {text}"


def end_of_parameters(f: s.Fn) -> int:
    """The offset behind the `)` of the parameters."""
    start = f.parameters[-1].span.end if f.parameters else f.name_span.end
    between = Span(f.span.source, start, f.body.span.start)
    match = re.match(r"(?:[^)#]|#[^\n]*)*\)", between.text)
    return between.first + (match.end() if match is not None else 0)


# ---- diagnostics -----------------------------------------------------------------------------------------------------
# Diagnostics of the compiler as those of the protocol.

_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}


def of_document(document: Document) -> dict[str, list[lsp.Diagnostic]]:
    """The messages of a check, by the path of the file that they are about; the document's own are always there."""
    by_path: dict[str, list[lsp.Diagnostic]] = {document.path: []}
    for d in document.analysis.diagnostics:
        path = d.span.source.path if d.span is not None else document.path
        by_path.setdefault(path, []).append(of_diagnostic(document.project, d))
    return by_path


def of_diagnostic(project: Project, d: Diagnostic) -> lsp.Diagnostic:
    """One message: what stands under the marked text and what to do are lines of it, notes with a place are links."""
    place = range_of(d.span) if d.span is not None else lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
    lines = [d.message, *([d.label] if d.label else []), *(n.text for n in d.notes if n.span is None)]
    lines += [f"help: {text}" for text in d.help]
    related = [
        lsp.DiagnosticRelatedInformation(lsp.Location(project.uri(n.span.source.path), range_of(n.span)), n.text)
        for n in d.notes
        if n.span is not None
    ]
    page = PAGES / f"{d.code}.md"
    return lsp.Diagnostic(
        place,
        "\n".join(lines),
        severity=_SEVERITIES.get(d.severity, lsp.DiagnosticSeverity.Information),
        code=d.code,
        code_description=lsp.CodeDescription(page.absolute().as_uri()),
        source="dlc",
        related_information=related,
    )
