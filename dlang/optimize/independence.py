"""Decides whether an operation reads and writes in range by its own bounds, and so wherever it stands.

An index may also be in range because of what was checked before: `a[1]`, where an array with two elements fewer than
`a` has been made, and its size was found to be no negative number. Nothing names such a check, so an operation with
such an index has to stay behind what ended the run if it failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from dlang.ir.affine import Knowledge
from dlang.ir.anf import ZERO, Array, Assert, Axis, Block, Comp, For, Op, Read, Size, Update, Var, View
from dlang.ir.traverse import op_blocks


def stands_alone(op: Op, certified: Set[Var]) -> bool:
    """Tells whether all accesses of an operation, and in its blocks, are in range whatever was checked before it.

    certified: variables that checks around it have given, whose uses depend on these.
    """
    return _alone(op, Knowledge(), _Certified(certified))


@dataclass(frozen=True, slots=True)
class _Certified:
    """The variables that checks have given: around an operation, and in it."""

    around: Set[Var]
    inside: set[Var] = field(default_factory=set)

    def has(self, var: Var | None) -> bool:
        return var in self.around or var in self.inside


def accesses(op: Op, inner: Knowledge) -> Iterator[tuple[Sequence[Size], Sequence[Size], Knowledge]]:
    """Yields each index that an operation itself reads, writes or shows, with the shape, and what is known there.

    inner: what is known in the blocks of the operation, as `known_inside` gives it.
    """
    match op:
        case Read(array, index) | Update(array, index, _):
            yield index, _shape(array), inner
        case View(array, axes, shape, index):
            yield index, _shape(array), inner.within([Axis(v, (ZERO,), (n,)) for v, n in zip(axes, shape, strict=True)])
        case Comp():
            for d in op.destinations:
                yield d.index, d.shape, inner
        case _:
            pass


def known_inside(op: Op, known: Knowledge) -> Knowledge:
    """The knowledge in the blocks of an operation: of the axes of a comprehension, or the index of a loop."""
    match op:
        case Comp(axes):
            return known.within(axes)
        case For(index, low, high):
            return known.within([Axis(index, (low,), (high,))])
        case _:
            return known


def _alone(op: Op, known: Knowledge, certified: _Certified) -> bool:
    inner = known_inside(op, known)
    if not all(_block_alone(block, inner, certified) for block in op_blocks(op)):
        return False
    return all(_inside(index, shape, there, certified) for index, shape, there in accesses(op, inner))


def _block_alone(block: Block, known: Knowledge, certified: _Certified) -> bool:
    for let in block.lets:
        if isinstance(let.op, Assert):
            certified.inside.update(let.vars)
        elif not _alone(let.op, known, certified):
            return False
    return True


def _shape(array: Var) -> tuple[Size, ...]:
    return array.type.shape if isinstance(array.type, Array) else ()


def _inside(index: Sequence[Size], shape: Sequence[Size], known: Knowledge, certified: _Certified) -> bool:
    """Tells whether an index is in range. That of a row, or of a block of rows, leaves the last axes out."""
    return all(certified.has(e.atom) or known.inside((e,), (size,)) for e, size in zip(index, shape, strict=False))
