"""The forms of operations: how the text of one is made of its fields.

A form stands beside an operation, as its attribute `FORM`, and both the printer and the reader go by it:

    update {array}[{index}] = {value}           a field in braces; a tuple is a list, in the brackets around it
    library {name} … "{code}"                   in quotes: a text that is quoted in any case
    loop {var} in {lows:max}..{highs:min}       one bound as it is, several as max(…)
    hold {buffer}⟨begins?| no longer⟩           what is written if a field holds something, or else

Operations with blocks have forms of more than one line, which are functions of the printer and the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a field. path: the attributes that lead to it. open: the bracket before a list."""

    path: tuple[str, ...]
    open: str = ""
    quoted: bool = False
    several: str = ""

    @property
    def close(self) -> str:
        return {"(": ")", "[": "]", "": ""}[self.open]

    def of(self, op: object) -> object:
        """The part of an operation that stands there."""
        for name in self.path:
            op = getattr(op, name)
        return op


@dataclass(frozen=True, slots=True)
class Choice:
    """Pieces for when a field holds something, more than 1 if `above` says so, and for when it does not."""

    field: str
    above: bool
    then: Form
    otherwise: Form


Form = tuple["str | Hole | Choice", ...]

_PIECE = re.compile(
    r"""⟨(?P<test>\w+)(?P<above>>1)?\?(?P<then>[^|⟩]*)\|?(?P<otherwise>[^⟩]*)⟩
      | (?P<open>[(\[])\{(?P<listed>[\w.]+)\}[)\]]
      | "\{(?P<quoted>[\w.]+)\}"
      | \{(?P<plain>[\w.]+)(?::(?P<several>\w+))?\}
      | (?P<words>[^⟨{("\[]+|.)""",
    re.VERBOSE,
)


@cache
def parsed(text: str) -> Form:
    """A form as pieces: what stands in any text of the operation, and places of fields."""
    out: list[str | Hole | Choice] = []
    for m in _PIECE.finditer(text):
        if m["test"]:
            out.append(Choice(m["test"], bool(m["above"]), parsed(m["then"]), parsed(m["otherwise"])))
        elif name := m["listed"] or m["quoted"] or m["plain"]:
            out.append(Hole(tuple(name.split(".")), m["open"] or "", bool(m["quoted"]), m["several"] or ""))
        else:
            out.append(m["words"])
    return tuple(out)


def written(form: str, op: object, field: Callable[[Hole, object], str]) -> str:
    """The text of an operation by its form. field: writes what stands in a place."""
    return _written(parsed(form), op, field)


def _written(form: Form, op: object, field: Callable[[Hole, object], str]) -> str:
    out = ""
    for piece in form:
        if isinstance(piece, Choice):
            held = getattr(op, piece.field)
            chosen = piece.then if (held > 1 if piece.above else held) else piece.otherwise
            out += _written(chosen, op, field)
        elif isinstance(piece, Hole):
            out += field(piece, piece.of(op))
        else:
            out += piece
    return out
