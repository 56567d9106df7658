"""Calls of compiled functions, with failures as messages for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dlang.diagnostics import Diagnostic, DlangError, Note, Span
from dlang.host.errors import RunError


class Runner(Protocol):
    """A runner of a program's functions, which takes leaves and returns leaves."""

    def run(self, name: str, leaves: Sequence[Any]) -> Sequence[Any]: ...


class Called(Protocol):
    """The facts that a call needs of a function: name, whether it takes a seed, and `extra` results before its own."""

    @property
    def name(self) -> str: ...

    @property
    def seed(self) -> bool: ...

    @property
    def extra(self) -> Sequence[Any]: ...


def call(
    runner: Runner, entry: Called, sizes: Sequence[int] = (), leaves: Sequence[Any] = (), seed: int = 0
) -> list[Any]:
    """Runs an entry; gives the leaves of its result. A failure is a `DlangError` for a person to read.

    seed: of an entry that draws random numbers, what they depend on.
    """
    try:
        results = runner.run(entry.name, [*sizes, *([seed] if entry.seed else []), *leaves])
    except RunError as e:
        raise failure(e) from e.__cause__
    return list(results[len(entry.extra) :])


# ---- failures of a run -----------------------------------------------------------------------------------------------
_SHOWN_CALLS = 8


def failure(e: RunError) -> DlangError:
    """Returns the error for a person after a failed run: its message, and the calls that led there, innermost first."""
    calls: list[Note] = []
    for (label, span), times in _folded(e.stack):
        text = f"in `{label}`" + (", called here" if span else "") + (f" {times} times over" if times > 1 else "")
        calls.append(Note(text, span))
    if len(calls) > _SHOWN_CALLS:
        kept = _SHOWN_CALLS // 2
        between = Note(f"… and {len(calls) - 2 * kept} calls between")
        calls = [*calls[:kept], between, *calls[-kept:]]
    return DlangError([Diagnostic(e.code, e.message, e.span, notes=tuple(calls), help=e.help)])


def _folded(stack: Sequence[tuple[str, Span | None]]) -> list[tuple[tuple[str, Span | None], int]]:
    """Calls of a function from one place, one after another, are one with a count: a recursion."""
    out: list[tuple[tuple[str, Span | None], int]] = []
    for call in stack:
        if out and out[-1][0] == call:
            out[-1] = call, out[-1][1] + 1
        else:
            out.append((call, 1))
    return out
