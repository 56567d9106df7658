"""Hints below an input while it is typed: the signature of the call at hand, or the type of what is written."""

from __future__ import annotations

from dlang.diagnostics import DlangError
from dlang.tools.assistance.calls import call_at
from dlang.tools.assistance.signatures import Signature
from dlang.tools.assistance.situation import situation
from dlang.tools.repl.commands import COMMANDS
from dlang.tools.repl.inputs import incomplete
from dlang.tools.repl.looking import type_of
from dlang.tools.repl.names import signature_of
from dlang.tools.repl.session import Session

LONGEST = 2000  # characters of an input that is checked at every key
Hint = list[tuple[str, bool]]


def hint(session: Session, before: str, text: str) -> Hint:
    """Parts of a line, and which of them is the parameter at hand. before: the text up to the cursor."""
    if text.startswith(":"):
        return _of_command(text)
    if len(text) > LONGEST:
        return []
    at = situation(before)
    call = call_at(at)
    if call is not None:
        if call.path in session.state.values:
            return [(f"{call.path}: {session.state.values[call.path].shown}", False)]
        shown = signature_of(call.path, session.checked)
        if shown is not None:
            return _marked(shown.inside(call.form), call.parameter(shown.names))
    if not text.strip() or incomplete(text):
        return []
    try:
        return [(f": {type_of(session, text)}", False)]
    except DlangError:
        return []


def fitted(parts: Hint, columns: int) -> Hint:
    """As much of a line as there is room for; what is in front of the parameter at hand is left out first."""
    text = "".join(part for part, _ in parts)
    marks = [marked for part, marked in parts for _ in part]
    over = len(text) - columns
    first = marks.index(True) if True in marks else 0
    if over <= 0 or first == 0:
        return parts
    cut = min(over + 1, first)
    return [("…", False), *((text[k], marks[k]) for k in range(cut, len(text)))]


def _of_command(text: str) -> Hint:
    name = text.split(maxsplit=1)[0]
    found = next((c for c in COMMANDS if name in (c.name, c.short)), None)
    return [] if found is None else [(f"{found.name} {found.takes}".rstrip(), True), (f"  {found.help}", False)]


def _marked(shown: Signature, argument: int) -> Hint:
    out: Hint = [(f"{shown.name}{shown.bounds}(", False)]
    for k, parameter in enumerate(shown.parameters):
        out += [(", ", False)] if k else []
        out.append((parameter, k == argument))
    out.append((")" + (f" -> {shown.result}" if shown.result else ""), False))
    return out
