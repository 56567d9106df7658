"""Accesses of a loop of lanes that lie near each other in memory, though not from lane to lane.

The coordinates of bodies in an array of [n, 3] are three loads, each of every third number: together they read all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlang.codegen.loops import At, Buffer, Compute, Convert, Count, Evaluate, Load, Stmt, Store
from dlang.codegen.vectorize import LANE_BITS
from dlang.ir.anf import HALF, Size, Var

FARTHEST = 8
_HARMLESS = (At, Compute, Convert, Count, Evaluate)


@dataclass(frozen=True, slots=True)
class Group:
    """Loads, or stores, of elements that are `stride` apart from lane to lane and less than that from each other.

    first: the least of their offsets; places: how far behind it each of them is.
    """

    buffer: Buffer
    first: Size
    stride: int
    places: tuple[int, ...]
    stmts: tuple[Load | Store, ...]

    @property
    def span(self) -> int:
        """How many elements it is from the first of a lane to the last."""
        return max(self.places) + 1


def groups(stmts: Sequence[Stmt], var: Var) -> dict[int, Group]:
    """The groups among statements of a loop of lanes, by the identities of the statements in them."""
    found: dict[int, Group] = {}
    for run in _runs(stmts):
        for group in _windows(run, var):
            found.update((id(s), group) for s in group.stmts)
    return found


def _runs(stmts: Sequence[Stmt]) -> Iterator[list[Load] | list[Store]]:
    """Accesses of one kind between which nothing else happens to memory."""
    loads: list[Load] = []
    stores: list[Store] = []
    for stmt in stmts:
        if isinstance(stmt, Load) and not stores:
            loads.append(stmt)
        elif isinstance(stmt, Store) and not loads and (not stores or stores[0].monoid == stmt.monoid):
            stores.append(stmt)
        elif not isinstance(stmt, _HARMLESS):
            yield loads or stores
            loads = [stmt] if isinstance(stmt, Load) else []
            stores = [stmt] if isinstance(stmt, Store) else []
    yield loads or stores


def _windows(run: Sequence[Load | Store], var: Var) -> Iterator[Group]:
    """The groups of a run; of stores only if no two may be of one element."""
    alike: dict[tuple[Buffer, Size], list[tuple[int, Load | Store]]] = {}
    for stmt in run:
        constant = int(stmt.offset.terms.get((), 0))
        alike.setdefault((stmt.buffer, stmt.offset - constant), []).append((constant, stmt))
    stores = any(isinstance(stmt, Store) for stmt in run)
    if stores and len(alike) > 1:
        return
    for (buffer, rest), members in alike.items():
        stride = _stride(rest, var)
        if not 2 <= stride <= FARTHEST or buffer.dtype in HALF or LANE_BITS.get(buffer.dtype, 8) < 32:
            continue
        constants = sorted({c for c, _ in members})
        if stores and (len(constants) < len(members) or constants[-1] - constants[0] >= stride):
            continue
        while constants:
            low = constants[0]
            inside = [(c - low, stmt) for c, stmt in members if low <= c < low + stride]
            constants = [c for c in constants if c >= low + stride]
            yield Group(buffer, rest + low, stride, tuple([c for c, _ in inside]), tuple([s for _, s in inside]))


def _stride(offset: Size, var: Var) -> int:
    """How far apart neighbouring lanes are, if that is a known number; else 0."""
    try:
        step = offset.coefficient(var).constant
    except ValueError:
        return 0
    return int(step) if step is not None else 0
