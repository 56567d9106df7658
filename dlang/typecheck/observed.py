"""What inference finds out about the expressions and names of one file, for editors.

A declaration with a mistake has no core tree, but most of its expressions have a type, and that is when an editor is
asked for it. So inference notes types as it goes; they are looked at when all is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.diagnostics import Source, Span
from dlang.typecheck.types import MISTAKE, Type, resolve


@dataclass(slots=True)
class Observed:
    """path: of the file. types: by the source of a declaration, then by the start and the end of what has the type."""

    path: str
    types: dict[Source, dict[tuple[int, int], Type]] = field(default_factory=dict)

    def note(self, span: Span, t: Type) -> None:
        """The type of what is written there: an expression, or the name of a local."""
        if span.source.path == self.path:
            self.types.setdefault(span.source, {})[span.start, span.end] = t

    def at(self, span: Span) -> Type | None:
        """The type of what is written there, as far as it is known."""
        found = self.types.get(span.source, {}).get((span.start, span.end))
        return None if found is None or (found := resolve(found)) is MISTAKE else found

    def keep(self, file: Source) -> None:
        """Forgets what is no longer in the file."""
        self.types = {source: types for source, types in self.types.items() if source.file is file}
