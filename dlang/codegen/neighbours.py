"""Accesses of a loop of lanes that lie near each other in memory, though not from lane to lane.

The coordinates of bodies in an array of [n, 3] are three loads, each of every third number: together they read all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlang.codegen.loops import At, Buffer, Compute, Convert, Count, Evaluate, Load, Stmt, Store
from dlang.codegen.vectorize import LANE_BITS
from dlang.ir.anf import HALF, Size, Var
from dlang.ops import figures

_HARMLESS = (At, Compute, Convert, Count, Evaluate)


_Run = list[tuple[int, Load | Store]]  # with their numbers among the statements


@dataclass(frozen=True, slots=True)
class Group:
    """Loads, or stores, of elements that are `stride` apart from lane to lane and less than that from each other.

    first: the least of their offsets; places: how far behind it each of them is. numbers: of their statements.
    """

    buffer: Buffer
    first: Size
    stride: int
    places: tuple[int, ...]
    stmts: tuple[Load | Store, ...]
    numbers: tuple[int, ...]

    @property
    def span(self) -> int:
        """How many elements it is from the first of a lane to the last."""
        return max(self.places) + 1


def groups(stmts: Sequence[Stmt], var: Var) -> dict[int, Group]:
    """The groups among statements of a loop of lanes, by the numbers of the statements in them."""
    groups: dict[int, Group] = {}
    for run in _runs(stmts):
        for group in _windows(run, var):
            groups.update(dict.fromkeys(group.numbers, group))
    return groups


def _runs(stmts: Sequence[Stmt]) -> Iterator[_Run]:
    """Accesses of one kind between which nothing else happens to memory."""
    run: _Run = []
    for number, stmt in enumerate(stmts):
        if isinstance(stmt, Load | Store) and (not run or _go_together(run[0][1], stmt)):
            run.append((number, stmt))
        elif not isinstance(stmt, _HARMLESS):
            yield run
            run = [(number, stmt)] if isinstance(stmt, Load | Store) else []
    yield run


def _go_together(a: Load | Store, b: Load | Store) -> bool:
    """Tells whether both load, or both store in the same way."""
    return isinstance(b, Load) if isinstance(a, Load) else isinstance(b, Store) and a.monoid == b.monoid


def _windows(run: _Run, var: Var) -> Iterator[Group]:
    """The groups of a run; of stores only if no two may be of one element."""
    alike: dict[tuple[Buffer, Size], list[tuple[int, int, Load | Store]]] = {}
    for number, stmt in run:
        constant = int(stmt.offset.terms.get((), 0))
        alike.setdefault((stmt.buffer, stmt.offset - constant), []).append((constant, number, stmt))
    stores = any(isinstance(stmt, Store) for _, stmt in run)
    if stores and len(alike) > 1:
        return
    for (buffer, offset), members in alike.items():
        stride = _stride(offset, var)
        if not 2 <= stride <= figures.FARTHEST_NEIGHBOUR or buffer.dtype in HALF or LANE_BITS.get(buffer.dtype, 8) < 32:
            continue
        constants = sorted({c for c, _, _ in members})
        if stores and (len(constants) < len(members) or constants[-1] - constants[0] >= stride):
            continue
        while constants:
            low = constants[0]
            inside = [(c - low, k, stmt) for c, k, stmt in members if low <= c < low + stride]
            constants = [c for c in constants if c >= low + stride]
            places, numbers, accesses = zip(*inside, strict=True)
            yield Group(buffer, offset + low, stride, places, accesses, numbers)


def _stride(offset: Size, var: Var) -> int:
    """How far apart neighbouring lanes are, if that is a known number; else 0."""
    try:
        step = offset.coefficient(var).constant
    except ValueError:
        return 0
    return int(step) if step is not None else 0
