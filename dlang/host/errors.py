"""How a run ends when it cannot go on."""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.diagnostics import Diagnostic, Note, Span

NEGATIVE_SIZE = "E0802"
_SHOWN = 6  # calls at each end of a long chain


@dataclass(eq=False)
class RunError(Exception):
    """A failed check, exhausted stack or memory, or the world's refusal.

    stack: the calls under way, innermost first: how a person calls the function, and where it was called. help: what to
    do.
    """

    code: str
    message: str
    span: Span | None = None
    stack: list[tuple[str, Span | None]] = field(default_factory=list)
    help: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        span, self.span = self.span, None
        self.at(span)

    def at(self, span: Span | None) -> None:
        """Says where it happened, unless that is known; with the calls whose place the code has taken."""
        if self.span is None and span is not None:
            self.span = span.plain
            self.stack += span.calls()

    def called(self, label: str, span: Span | None) -> None:
        """Adds a call around all those so far."""
        self.stack.append((label, span and span.plain))
        if span is not None:
            self.stack += span.calls()

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def diagnostic(self) -> Diagnostic:
        """The message for a person, with the chain of calls; the middle of a long chain is left out."""
        calls = [Note(f"in the call of `{label}` here", span) for label, span in self.stack if span is not None]
        if len(calls) > 2 * _SHOWN:
            calls[_SHOWN:-_SHOWN] = [Note(f"{len(calls) - 2 * _SHOWN} more calls")]
        return Diagnostic(self.code, self.message, self.span, notes=tuple(calls), help=self.help)


def negative_size(size: int, span: Span | None) -> RunError:
    """The error of a result that would have fewer than no elements along an axis."""
    return RunError(NEGATIVE_SIZE, f"a size of the result is negative: {size}", span)
