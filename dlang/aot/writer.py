"""Definitions of C, collected: literals, arrays, and places in the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.diagnostics import Span, excerpt
from dlang.ir.terms import is_handle


def quoted(text: str) -> str:
    """A text as a literal of C."""
    out = ""
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        out += chr(byte) if plain else f"\\{byte:03o}"
    return f'"{out}"'


@dataclass(slots=True)
class Writer:
    """Collects definitions; equal ones are one. places: the names of those that are written."""

    lines: list[str] = field(default_factory=list)
    places: dict[Span, tuple[str, int]] = field(default_factory=dict)

    def place(self, label: str, span: Span | None) -> str:
        """A place, as an initialiser."""
        if span is None:
            return f"{{{quoted(label)}, 0, 0}}"
        plain = span.plain
        if plain not in self.places:
            text, width = excerpt(plain)
            name = f"excerpt_{len(self.places)}"
            self.lines.append(f"static const char {name}[] = {quoted(text)};")
            self.places[plain] = name, width
        name, width = self.places[plain]
        return f"{{{quoted(label)}, {name}, {width}}}"

    def calls(self, name: str, span: Span | None) -> str:
        """The calls by which a place was reached, as two values: where they are, and how many."""
        calls = [] if span is None else list(span.calls())
        return self.array("dl_place", name, [self.place(c.label, c.span) for c in calls])

    def array(self, type: str, name: str, items: Sequence[str]) -> str:
        if not items:
            return "0, 0"
        self.lines.append(f"static const {type} {name}[] = {{{', '.join(items)}}};")
        return f"{name}, {len(items)}"


def dtype(name: str) -> str:
    """The address of a dtype; nodes are words."""
    return f"&dl_{'i64' if is_handle(name) else name}"
