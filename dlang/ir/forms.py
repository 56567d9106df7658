"""The forms of operations: how the text of one is made of its fields.

A form stands beside an operation, as its attribute `FORM`, and both the printer and the reader go by it:

    update {array}[{index}] = {value}           a field in braces; a tuple is a list, in the brackets around it
    library {name} … "{code}"                   in quotes: a text that is quoted in any case
    loop {var} in {lows:max}..{highs:min}       one bound as it is, several as max(…)
    hold {buffer}⟨begins?| no longer⟩           what is written if a field holds something, or else
    … ⟨after!? after {after}⟩                   what is written unless a field is None
    ⟨results?{results:typed} = ⟩call …          what is bound, with its type, before what else there is
    {buffer} = arena {buffer.dtype}[{shape}]    the dtype of what is bound, where it stands apart
    {buffer}[{offset}] {monoid:assign} {value}  `=` where a monoid only sets, or else `sum=`
    loop … {stmts:block}                        statements in braces
    for … (⟦{params:typed} = {init}⟧) {body}    a list of what stands in several fields, one of each at a time
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a field. path: the attributes that lead to it. open: the bracket before a list.

    how: what several bounds are the arguments of (`BOUNDS`), `typed` of variables with their types, `assign`, `block`.
    """

    path: tuple[str, ...]
    open: str = ""
    quoted: bool = False
    how: str = ""

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
    """Pieces for when a field holds something, more than 1 (`>1`), or anything but None (`!`), and for when not."""

    field: str
    test: str
    then: Form
    otherwise: Form

    def of(self, op: object) -> Form:
        """The pieces for an operation."""
        held = getattr(op, self.field)
        chosen = held > 1 if self.test == ">1" else held is not None if self.test == "!" else held
        return self.then if chosen else self.otherwise


@dataclass(frozen=True, slots=True)
class Each:
    """Pieces for each of the parts of some fields, which are tuples of one length."""

    form: Form

    @property
    def holes(self) -> list[Hole]:
        return [piece for piece in self.form if isinstance(piece, Hole)]


BOUNDS = ("max", "min")

Form = tuple["str | Hole | Choice | Each", ...]

_PIECE = re.compile(
    r"""⟨(?P<field>\w+)(?P<test>>1|!)?\?(?P<then>[^|⟩]*)\|?(?P<otherwise>[^⟩]*)⟩
      | ⟦(?P<each>[^⟧]*)⟧
      | (?P<open>[(\[])\{(?P<listed>[\w.]+)\}[)\]]
      | "\{(?P<quoted>[\w.]+)\}"
      | \{(?P<plain>[\w.]+)(?::(?P<how>\w+))?\}
      | (?P<words>[^⟨⟦{("\[]+|.)""",
    re.VERBOSE,
)


@cache
def parsed(text: str) -> Form:
    """A form as pieces: what stands in any text of the operation, and places of fields."""
    out: list[str | Hole | Choice | Each] = []
    for m in _PIECE.finditer(text):
        if m["field"]:
            out.append(Choice(m["field"], m["test"] or "", parsed(m["then"]), parsed(m["otherwise"])))
        elif m["each"]:
            out.append(Each(parsed(m["each"])))
        elif name := m["listed"] or m["quoted"] or m["plain"]:
            out.append(Hole(tuple(name.split(".")), m["open"] or "", bool(m["quoted"]), m["how"] or ""))
        else:
            out.append(m["words"])
    return tuple(out)


def written(form: str, op: object, field: Callable[[Hole, object], str]) -> str:
    """The text of an operation by its form. field: writes what stands in a place."""
    return _written(parsed(form), op, field)


def _written(form: Form, op: object, field: Callable[[Hole, object], str]) -> str:
    out = ""
    for piece in form:
        match piece:
            case Choice():
                out += _written(piece.of(op), op, field)
            case Each(inner):
                rows = zip(*[hole.of(op) for hole in piece.holes], strict=True)
                out += ", ".join([_row(inner, row, field) for row in rows])
            case Hole():
                out += field(piece, piece.of(op))
            case _:
                out += piece
    return out


def _row(form: Form, row: Iterable[object], field: Callable[[Hole, object], str]) -> str:
    """The text of one of each of several fields."""
    values = iter(row)
    return "".join([field(piece, next(values)) if isinstance(piece, Hole) else str(piece) for piece in form])
