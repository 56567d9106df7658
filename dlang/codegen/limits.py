"""Refuses programs that the CPU can't run yet, with a diagnostic."""

from __future__ import annotations

from dlang.diagnostics import DlangError, Span, error

UNSUPPORTED = "E0901"


def unsupported(what: str, span: Span | None, *help: str) -> DlangError:
    """The error for a program that is right but has no code on the CPU."""
    return error(UNSUPPORTED, f"{what} not supported on the CPU", span, help=help)
