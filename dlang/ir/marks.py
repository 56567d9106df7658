"""Marks: checks that always hold, and name the variable of the source whose value they guard.

A program has them where it was specialised for someone who follows it step by step. As a check certifies the values
that it guards, a derivative passes through a mark, as the cotangent or the tangent of that variable: it gets a mark
too. No pass that optimises has to know them; a check whose condition is the literal true is removed by the first. The
mark of a cotangent has the value among what it mentions, so that a backward pass knows that as well.

The message of a mark, which nobody reads, is its key; of a cotangent or a tangent also which of the guarded values it
belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlang.diagnostics import Span
from dlang.ir.anf import Assert, Atom, Block, Let, Lit
from dlang.ir.traverse import walk

MARK = "mark"  # in the place of a code
BACKWARD, FORWARD = "backward", "forward"  # the keys of the marks around a backward pass
REVERSED = "reversed"  # that of the mark in the body of a loop that goes through the iterations of another backward
COTANGENT, TANGENT = "cotangent", "tangent"
OUTER = "outer "  # before the kind of the tangents of a derivative that is around another one


@dataclass(frozen=True, slots=True)
class Mark:
    """key: of the variable. kinds: none of its value; of a tangent of its cotangent, `COTANGENT` and then `TANGENT`.

    guarded: of a cotangent or a tangent, which of the values that the mark of the value guards its own belong to.
    """

    key: str
    kinds: tuple[str, ...] = ()
    guarded: tuple[int, ...] = ()

    def derived(self, kind: str, given: Sequence[int]) -> Mark:
        """Returns the mark of the cotangents, or the tangents, of some of the guarded values."""
        guarded = self.guarded if self.kinds else range(max(given, default=-1) + 1)
        return Mark(self.key, (*self.kinds, kind), tuple([guarded[k] for k in given]))

    @property
    def is_backward(self) -> bool:
        """Tells whether a mark stands in a backward pass."""
        return COTANGENT in self.kinds

    def check(self, values: tuple[Atom, ...] = (), guarded: tuple[Atom, ...] = ()) -> Assert:
        text = ";".join((self.key, ",".join(self.kinds), ",".join(map(str, self.guarded))))
        return Assert(Lit(True, "bool"), MARK, (text, *[""] * (2 * len(values))), values, guarded)


def mark_of(op: object) -> Mark | None:
    if not is_mark(op):
        return None
    assert isinstance(op, Assert)
    key, kinds, guarded = op.parts[0].split(";")
    return Mark(key, tuple(kinds.split(",")) if kinds else (), tuple(map(int, guarded.split(","))) if guarded else ())


def is_mark(op: object) -> bool:
    return isinstance(op, Assert) and op.code == MARK


def has_marks(block: Block) -> bool:
    """Tells whether a function was specialised with marks: if so, it begins with those of its parameters."""
    return any(is_mark(let.op) for let in block.lets)


def tangent_kind(block: Block) -> str:
    """Returns the kind of the tangents that a derivative of a block makes; the block may have tangents already."""
    marks = [mark for let in walk(block) if (mark := mark_of(let.op)) is not None]
    known = [kind.count(OUTER) for mark in marks for kind in mark.kinds if kind != COTANGENT]
    return OUTER * (max(known, default=-1) + 1) + TANGENT


def backward(lets: Iterable[Let], span: Span | None) -> tuple[Let, ...]:
    """The lets of a backward pass, between the marks that say so. span: of the function."""
    return (_plain(BACKWARD, span), *lets, _plain(FORWARD, span))


def against(body: Block, forward: Block) -> Block:
    """The body of a loop that is the adjoint of another: one that runs backward does so no more."""
    return body if is_reversed(forward) else Block((_plain(REVERSED, None), *body.lets), body.results)


def is_reversed(body: Block) -> bool:
    return any((mark := mark_of(let.op)) is not None and mark.key == REVERSED for let in body.lets)


def _plain(key: str, span: Span | None) -> Let:
    """A mark of no value."""
    return Let((), Mark(key).check(), span)
