"""Writes to a person and to programs: messages, colours, and a screen that is drawn anew."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import IO

from dlang.diagnostics import DEFECTS, Diagnostic, DlangError, Note, Span, render, to_json
from dlang.lazy_modules import json, traceback
from dlang.tools.command_line import INTERNAL, USER_ERROR


def report(diagnostics: Iterable[Diagnostic], as_json: bool) -> int:
    """Writes messages in order; gives the number of errors among them."""
    errors = 0
    for d in diagnostics:
        errors += d.severity == "error"
        if as_json:
            print(json.dumps(to_json(d), ensure_ascii=False))
        else:
            print(render(d, colour=coloured(sys.stderr)), end="\n\n", file=sys.stderr)
    return errors


def failed(e: DlangError, as_json: bool) -> int:
    """Writes the messages that end a command; gives its status."""
    report(e.diagnostics, as_json)
    return INTERNAL if any(d.code in DEFECTS for d in e.diagnostics) else USER_ERROR


def failed_in(around: Span, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Messages about a failure in what is at a place, a test for example, without the last note, that it was called:
    nobody has written that call."""
    place = around.source.path, around.first, around.last

    def is_call(note: Note) -> bool:
        return note.span is not None and (note.span.source.path, note.span.first, note.span.last) == place

    return [replace(d, notes=d.notes[:-1]) if d.notes and is_call(d.notes[-1]) else d for d in diagnostics]


def report_defect(e: Exception) -> None:
    """Says that the compiler is at fault; where, only to who asks for it."""
    summary = (str(e).splitlines() or [""])[0]
    print(f"dlc: this is a bug in dlang, not in your program: {type(e).__name__}: {summary}", file=sys.stderr)
    if os.environ.get("DLANG_DEBUG"):
        traceback.print_exception(e)
    else:
        print("Please report it with the program. DLANG_DEBUG=1 shows where it happened.", file=sys.stderr)


# ---- terminals -------------------------------------------------------------------------------------------------------
# Writes to terminals: colours, and a screen that is drawn anew.

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
CLEARED = "\x1b[H\x1b[2J\x1b[3J"
"""Written first, it leaves an empty screen."""


def coloured(stream: IO[str]) -> bool:
    """Tells whether to write colours there: see https://no-color.org and https://force-color.org."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") != "0":
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str, on: bool) -> str:
    """The text in a style of `STYLES`, if colours are on."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if on and text else text
