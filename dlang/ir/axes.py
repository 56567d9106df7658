"""Axes of arrays and of comprehensions: one more, one less, and parts of one.

Code that moves along an axis stays as it is, but for where it reads. What a loop makes in each of its iterations is a
row of an array of all iterations; a row that is at hand has an axis less than the array; of a block of rows, an index
counts from the first. So a pass says for each array where its elements are (`Location`), and a `Relocation` copies the
code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import Replacement
from dlang.ir.types import I64, array_type
from dlang.polynomials import Poly


def without(entries: Sequence[anf.Size], at: int | None) -> tuple[anf.Size, ...]:
    """The sizes of a shape, or the entries of an index, without that of an axis; None takes none off."""
    return tuple(entries) if at is None else (*entries[:at], *entries[at + 1 :])


def within(index: Sequence[anf.Size], at: int | None, start: anf.Size | None) -> tuple[anf.Size, ...]:
    """The index into the part of an array along an axis from `start` on; None for `start`: at one point of it."""
    if at is None or start is None:
        return without(index, at)
    return (*index[:at], index[at] - start, *index[at + 1 :])


def inserted(entries: Sequence[anf.Size], at: int, *more: anf.Size) -> tuple[anf.Size, ...]:
    """The sizes of a shape, or the entries of an index, with more from an axis on."""
    return (*entries[:at], *more, *entries[at:])


def stacked(
    d: anf.Destination, shape: Sequence[anf.Size], index: Sequence[anf.Size], into: anf.Var | None = None
) -> anf.Destination:
    """The destination with more axes in front: of an array that has what it was of at each point of them.

    shape, index: of those axes. into: what it continues.
    """
    return replace(d, shape=(*shape, *d.shape), index=(*index, *d.index), into=into)


def at_point(array: anf.Var, point: Sequence[anf.Size], at: int = 0) -> anf.View:
    """The view of an array at a point of some of its axes, the first of which is `at`."""
    shape = array_type(array).shape
    axes = _indices(len(shape) - len(point))
    other_sizes = (*shape[:at], *shape[at + len(point) :])
    return anf.View(array, axes, other_sizes, inserted([anf.poly(a) for a in axes], at, *point))


def part(array: anf.Var, count: anf.Size, start: anf.Size = anf.ZERO, at: int = 0) -> anf.View:
    """The view of so many elements along an axis of an array, from one on."""
    shape = array_type(array).shape
    starts = [start if k == at else anf.ZERO for k in range(len(shape))]
    return section(array, starts, (*shape[:at], count, *shape[at + 1 :]))


def section(array: anf.Var, starts: Sequence[anf.Size], shape: Sequence[anf.Size]) -> anf.View:
    """The view of a part of an array of these sizes, which starts there along each axis."""
    axes = _indices(len(shape))
    return anf.View(array, axes, tuple(shape), tuple([start + a for a, start in zip(axes, starts, strict=True)]))


def _indices(count: int) -> tuple[anf.Var, ...]:
    return tuple([anf.fresh("ijkl"[min(k, 3)], I64) for k in range(count)])


@dataclass(frozen=True, slots=True)
class Location:
    """The place of the elements of an array: in another array, or that is the only element that is read.

    axis: along which only a part of them is there, from `start` on; None for `start`: at one point, and there is no
    such axis. entries: those of further axes, from `at` on.
    """

    there: anf.Atom
    entries: tuple[anf.Size, ...] = ()
    at: int = 0
    axis: int | None = None
    start: anf.Size | None = None

    def index(self, index: Sequence[anf.Size]) -> tuple[anf.Size, ...]:
        """The index there of an element."""
        return inserted(within(index, self.axis, self.start), self.at, *self.entries)


class Relocation(Rewriter):
    """A walk by which the elements of some arrays are read, or seen in a view, where they are now.

    A polynomial may stand for a variable that is an operand, too: `numbers` is what computes those, and comes first.
    """

    __slots__ = ("locations", "numbers", "_operands")

    def __init__(
        self,
        mapping: Mapping[anf.Var, Replacement],
        locations: Mapping[anf.Var, Location],
        renew: bool = False,
    ) -> None:
        super().__init__(mapping, renew)
        self.locations: dict[anf.Var, Location] = dict(locations)
        self.numbers: list[anf.Let] = []
        self._operands: dict[anf.Var, anf.Var] = {}

    def atom(self, atom: anf.Atom) -> anf.Atom:
        new = self.env.get(atom) if isinstance(atom, anf.Var) else None
        if new is None:
            return atom
        if not isinstance(new, Poly):
            return new
        if new.atom is not None or new.constant is not None:
            return super().atom(atom)
        assert isinstance(atom, anf.Var)
        if atom not in self._operands:
            self._operands[atom] = anf.fresh(atom.name, I64)
            self.numbers.append(anf.Let((self._operands[atom],), anf.IndexExpr(new)))
        return self._operands[atom]

    def op(self, op: anf.Op) -> anf.Op:
        if isinstance(op, anf.Read | anf.View) and (location := self.locations.get(op.array)) is not None:
            assert isinstance(location.there, anf.Var)
            return super().op(replace(op, array=location.there, index=location.index(op.index)))
        return super().op(op)

    def rule(self, let: anf.Let) -> None:
        location = self.locations.get(let.op.array) if isinstance(let.op, anf.Read) else None
        if location is not None and isinstance(location.there.type, anf.Scalar):
            self.env[let.vars[0]] = location.there
        else:
            super().rule(let)

    def block(self, block: anf.Block) -> anf.Block:
        return block if self.untouched(block, self.locations) else super().block(block)
