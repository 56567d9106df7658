"""Records the types that inference finds for the expressions and names of one file, for editors.

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

    def knows(self, span: Span) -> bool:
        """Tells whether a type is noted, if only that there is none."""
        return (span.start, span.end) in self.types.get(span.source, {})

    def at(self, span: Span) -> Type | None:
        """The type of what is written there, as far as it is known."""
        found = self.types.get(span.source, {}).get((span.start, span.end))
        return None if found is None or (found := resolve(found)) is MISTAKE else found

    def forget(self, span: Span) -> None:
        """Forgets the types in a span, which is checked again, and may have none then."""
        known = self.types.get(span.source)
        if known is not None:
            self.types[span.source] = {
                place: t for place, t in known.items() if not (span.start <= place[0] and place[1] <= span.end)
            }

    def keep(self, file: Source) -> None:
        """Forgets what is no longer in the file."""
        self.types = {source: types for source, types in self.types.items() if source.file is file}
