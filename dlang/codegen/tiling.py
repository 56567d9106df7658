"""Decides whether a comprehension is done in register tiles (`tiles.py`): their rows, columns and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Compute, Convert, Evaluate, Load
from dlang.codegen.memory import frame_of
from dlang.codegen.vectorize import LANE_BITS, known_iterations
from dlang.ir.anf import Atom, Axis, Cast, Comp, Prim, Read, Reduce, Size, Var
from dlang.ir.types import dtype_of
from dlang.ops import figures
from dlang.ops.monoids import COMBINE
from dlang.ops.primitives import COST

MOST = {512: 16, 256: 12}  # accumulators that leave registers for operands, by the width of a register

TileStmt = Load | Evaluate | Compute | Convert


@dataclass(slots=True)
class Plan:
    """A nest of kept axes, the row and the column axis among them, around reduced ones. values: the body's results.

    short: whether it is to be little code.
    """

    outer: list[Axis]
    row: Axis
    column: Axis
    reduced: list[Axis]
    stmts: list[TileStmt]
    values: tuple[Atom, ...]
    index: tuple[Size, ...]
    packed: dict[Var, int]  # loads of arrays to be copied so that the dimension with this number is the last
    lanes: int
    rows: int
    short: bool = False


def plan_of(s: Scheduler, op: Comp) -> Plan | None:
    """The tiles of a comprehension; None if it gains nothing by them."""
    kept = _kept(op)
    if kept is None or not s.lanes.bits:
        return None
    reads = {let.vars[0]: let.op for let in op.body.lets if isinstance(let.op, Read)}
    steps = [_Steps(s, var, read) for var, read in reads.items()]
    index = op.destinations[0].index
    reduced = [axis for axis in op.axes if axis.var not in kept]
    inside = {axis.var for axis in op.axes}
    last = index[-1].atom
    columns = [a for a in op.axes if a.var is last]
    if not columns or not reduced or bounded_by(columns[0], inside) or any(not x.known for x in steps):
        return None
    (column,) = columns
    if any(_mentions(axis, column.var) for axis in op.axes):
        return None
    packed: dict[Var, int] = {}
    for x in steps:
        if x.step(column.var) not in (0, 1):
            dimension = x.dimension(column.var)
            if dimension is None:
                return None
            packed[x.var] = dimension
    if not any(x.depends(column.var) for x in steps):
        return None
    rows = [axis for axis in op.axes if axis.var in kept and axis is not column and _serves(axis, op, steps, column)]
    rows = [axis for axis in rows if not any(x.depends(axis.var) for x in steps if x.var in packed)]
    if not rows:
        return None
    enough = max(min(_known(axis), figures.TILED_ROWS) for axis in rows)
    row = [axis for axis in rows if min(_known(axis), figures.TILED_ROWS) == enough][-1]
    if enough < 2:
        return None
    dtype = dtype_of(op.body.results[0])
    native = s.lanes.bits // LANE_BITS[dtype]
    lanes = _lanes(known_iterations(column), s.lanes.bits, dtype)
    body = _body(s, op)
    if body is None or len(body) > figures.TILE_BODY:
        return None
    if any(isinstance(t, Compute) and COST[t.name] >= figures.DIVISION for t in body):
        return None
    height = _rows(
        known_iterations(row), max(1, lanes * LANE_BITS[dtype] // s.lanes.bits) * len(op.destinations), s.lanes.bits
    )
    if not s.is_inside([axis for axis in op.axes if axis.var in kept], index, op.destinations[0].shape):
        return None
    outer = [axis for axis in op.axes if axis.var in kept and axis is not row and axis is not column]
    if any(_mentions(axis, other.var) for axis in outer for other in reduced):
        return None
    if s.short:
        lanes, height = min(lanes, native), 1
    return Plan(outer, row, column, reduced, body, op.body.results, index, packed, lanes, height, s.short)


def _serves(axis: Axis, op: Comp, steps: list[_Steps], column: Axis) -> bool:
    """Tells whether an axis can be the rows: what is loaded for the columns serves several of them."""
    if bounded_by(axis, {a.var for a in op.axes}) or any(_mentions(other, axis.var) for other in op.axes):
        return False
    shared = any(x.depends(column.var) and not x.depends(axis.var) for x in steps)
    return shared and any(x.depends(axis.var) for x in steps)


def _kept(op: Comp) -> set[Var] | None:
    """The axes of the results, if they are reductions to the same elements by code that a tile can repeat."""
    first = op.destinations[0] if op.destinations else None
    if not isinstance(first, Reduce) or len(first.index) < 2:
        return None
    for value, d in zip(op.body.results, op.destinations, strict=True):
        if not isinstance(d, Reduce) or d.index != first.index or d.shape != first.shape or d.into is not None:
            return None
        if d.monoid not in COMBINE or dtype_of(value) not in ("f64", "f32"):
            return None
        if not isinstance(value, Var):
            return None
    axes = {axis.var for axis in op.axes}
    bound: set[Var] = set()
    for let in op.body.lets:
        match let.op:
            case Prim(
                "zero_safe_mul" | "zero_safe_mul_both", _
            ):  # what remains of these runs only where a product has failed
                return None
            case Cast(_, arg) if arg in axes:
                return None
            case Prim(_, args) if any(a in axes for a in args):
                return None
            case _ if let.op.IS.point:
                bound.update(let.vars)
            case _:
                return None
        if isinstance(let.op, Read) and (let.op.array in bound or any(e.mentions(bound) for e in let.op.index)):
            return None
    kept: set[Var] = set()
    for entry in first.index:
        atom = entry.atom
        if atom is None or atom not in axes or atom in kept:
            if entry.mentions(axes) or entry.mentions(bound):
                return None
            continue
        kept.add(atom)
    return kept if len(kept) < len(axes) else None


@dataclass(frozen=True, slots=True)
class _Steps:
    """How a load moves as the axes do."""

    s: Scheduler
    var: Var
    read: Read

    @property
    def known(self) -> bool:
        return self.read.array in self.s.memory.places

    @property
    def offset(self) -> Size:
        return self.s.place(self.read.array).at(self.read.index)

    def depends(self, axis: Var) -> bool:
        return self.offset.mentions((axis,))

    def step(self, axis: Var) -> int | None:
        """0, 1 or another number of elements; None if it is irregular or known only when the program runs."""
        try:
            step = self.offset.coefficient(axis).constant
        except ValueError:
            return None
        return int(step) if step is not None else None

    def dimension(self, axis: Var) -> int | None:
        """The one dimension of the array that an axis runs through from one end to the other."""
        dimensions = [d for d, entry in enumerate(self.read.index) if entry.mentions((axis,))]
        if len(dimensions) != 1 or self.read.index[dimensions[0]].atom is not axis:
            return None
        return dimensions[0]


def bounded_by(axis: Axis, axes: set[Var]) -> bool:
    """Tells whether an axis has several bounds or bounds that change with other axes."""
    return len(axis.lows) != 1 or len(axis.highs) != 1 or any(b.mentions(axes) for b in (*axis.lows, *axis.highs))


def _mentions(axis: Axis, var: Var) -> bool:
    return any(b.mentions((var,)) for b in (*axis.lows, *axis.highs))


def _known(axis: Axis) -> int:
    """How many points an axis has, many if that is not known."""
    iterations = known_iterations(axis)
    return figures.TILED_ROWS if iterations is None else iterations


def _body(s: Scheduler, op: Comp) -> list[TileStmt] | None:
    """The code of a body; None if some of it is no arithmetic, as the order of texts, which the host knows."""
    with s.collect() as stmts:
        s.inline(op.body, [None] * len(op.body.results), frame_of(op.body))
    body = [stmt for stmt in stmts if isinstance(stmt, TileStmt)]
    return body if len(body) == len(stmts) else None


def _lanes(count: int | None, bits: int, dtype: str) -> int:
    """Columns of a tile: two registers, or what wastes the fewest lanes."""
    native = bits // LANE_BITS[dtype]
    if count is None:
        return 2 * native
    if count <= native:
        return max(1 << (count - 1).bit_length(), 2)
    return min((2 * native, native), key=lambda lanes: -(-count // lanes) * lanes)


def _rows(count: int | None, vectors: int, bits: int) -> int:
    """Rows of a tile whose rows are so many vectors, that need few tiles and enough accumulators in each."""
    most = max(MOST.get(bits, 8) // vectors, 1)
    if count is None:
        return max(min(figures.LATENCY // vectors, most), 1)
    if count <= most:
        return count
    return min(range(most, 0, -1), key=lambda rows: -(-count // rows) * max(rows * vectors, figures.LATENCY))
