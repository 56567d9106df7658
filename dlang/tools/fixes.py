"""`dlc check --fix`: makes the edits that messages suggest, where nothing else can have been meant.

One edit at a time, because each may settle other messages; one after which its message is still there, or others have
come, is not made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from dlang.diagnostics import Diagnostic, DlangError, Fix, Source, shown
from dlang.spelling import plural
from dlang.tools.files import programs, replace_file
from dlang.tools.report import report
from dlang.typecheck.modules import read_exactly
from dlang.typecheck.workspace import Workspace

MOST = 1_000  # edits of a file


def fix_files(paths: Sequence[str], as_json: bool) -> int:
    """Edits files in place and reports what is left. 0, or 1 if there is still an error."""
    errors = 0
    try:
        files = programs(paths)
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    for path in files:
        try:
            text, left, made = fixed(path, read_exactly(path))
            if made:
                replace_file(path, text)
        except DlangError as e:
            errors += report(e.diagnostics, as_json)
            continue
        if not as_json:
            for fix in made:
                print(shown(f"{path}: {fix}"))
        errors += report(left, as_json)
    if errors and not as_json:
        print(plural(errors, "error"), file=sys.stderr)
    return 1 if errors else 0


def fixed(path: str, text: str) -> tuple[str, list[Diagnostic], list[str]]:
    """The text after the edits, the messages that are left, and what was done."""
    workspace = Workspace()

    def check(text: str) -> list[Diagnostic]:
        return workspace.check(Source(path, text)).diagnostics

    made: list[str] = []
    seen = {text}
    found = check(text)
    while len(made) < MOST:
        step = _step(path, text, found, seen, check)
        if step is None:
            break
        text, found, title = step
        made.append(title)
    return text, check(text), made


def _step(
    path: str, text: str, found: list[Diagnostic], seen: set[str], check: Callable[[str], list[Diagnostic]]
) -> tuple[str, list[Diagnostic], str] | None:
    """The first edit that helps: the text after it, what is left to say of that, and what the edit is."""
    edits = [
        (d, fix, fix.span.first, fix.span.last, fix.span.line)
        for d in found
        if len(d.fixes) == 1
        for fix in d.fixes
        if fix.certain and fix.span.source.path == path
    ]
    for d, fix, first, last, line in edits:  # places as they are before a check of another text moves them
        new = text[:first] + fix.text + text[last:]
        if new in seen:
            continue
        seen.add(new)
        left = check(new)
        settled = all(other.message != d.message or _behind(other, first + len(fix.text)) for other in left)
        if len(left) < len(found) or (len(left) == len(found) and settled):
            return new, left, f"line {line}: {_said(fix)}"
    return None


def _behind(d: Diagnostic, offset: int) -> bool:
    """Tells whether a message is about text behind a place: the same mistake, made again."""
    return d.span is not None and d.span.first > offset


def _said(fix: Fix) -> str:
    return fix.title[:1].lower() + fix.title[1:]
