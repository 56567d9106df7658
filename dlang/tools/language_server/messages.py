"""Diagnostics of the compiler as those of the protocol."""

from __future__ import annotations

from lsprotocol import types as lsp

from dlang.diagnostics import Diagnostic
from dlang.tools.explain import PAGES
from dlang.tools.language_server.documents import Document, Project
from dlang.tools.language_server.positions import range_of

_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}


def of_document(document: Document) -> dict[str, list[lsp.Diagnostic]]:
    """The messages of a check, by the path of the file that they are about; the document's own are always there."""
    found: dict[str, list[lsp.Diagnostic]] = {document.path: []}
    for d in document.analysis.diagnostics:
        path = d.span.source.path if d.span is not None else document.path
        found.setdefault(path, []).append(of_diagnostic(document.project, d))
    return found


def of_diagnostic(project: Project, d: Diagnostic) -> lsp.Diagnostic:
    """One message: what stands under the marked text and what to do are lines of it, notes with a place are links."""
    here = range_of(d.span) if d.span is not None else lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
    lines = [d.message, *([d.label] if d.label else []), *(n.text for n in d.notes if n.span is None)]
    lines += [f"help: {text}" for text in d.help]
    related = [
        lsp.DiagnosticRelatedInformation(lsp.Location(project.uri(n.span.source.path), range_of(n.span)), n.text)
        for n in d.notes
        if n.span is not None
    ]
    page = PAGES / f"{d.code}.md"
    return lsp.Diagnostic(
        here,
        "\n".join(lines),
        severity=_SEVERITIES.get(d.severity, lsp.DiagnosticSeverity.Information),
        code=d.code,
        code_description=lsp.CodeDescription(page.absolute().as_uri()),
        source="dlc",
        related_information=related,
    )
