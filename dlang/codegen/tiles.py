"""Reductions in register tiles: several rows of a result by a vector of its columns, all of their terms in one loop.

    c[i, j] = Σ a[i, k] · b[k, j]        for i by 8, j by 16:    eight accumulators of 16 lanes, and a loop over k

Each element of `b` that is loaded serves all rows of a tile, and each of `a` all columns; so a product of matrices, and
a convolution likewise, runs at the speed of the arithmetic and not of the loads. The last rows are a tile that overlaps
the one before; fewer rows than a tile has go one by one, and columns that fill no vector go with a mask. An operand
whose columns are not adjacent in memory is copied first. Rows may have different columns, as in a triangle: a tile has
those of all of its rows, and the terms that a row does not have are left out when its elements are stored.

Also decides which comprehensions are done so, and the rows, columns and sizes of their tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dlang.codegen import gathered, nests
from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Buffer, Compute, Convert, Decision, Evaluate, Free, Load, Loop, Reduction, Stmt, Store
from dlang.codegen.memory import Place, frame_of, fresh_axes, row_major
from dlang.codegen.vectorize import LANE_BITS, known_iterations
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Axis, Cast, Comp, Prim, Read, Reduce, Size, Var
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, array_type, dtype_of
from dlang.ir.writes import covers
from dlang.ops import figures
from dlang.ops.monoids import COMBINE
from dlang.ops.primitives import COST


def comprehension(s: Scheduler, op: anf.Comp, vars: Sequence[anf.Var], span: Span | None) -> None:
    """Emits the loop nest of a comprehension: in blocks or in tiles if it is a reduction that gains by them."""
    if len(vars) == 1 and vars[0] not in s.joined and not s.device:
        if gathered.comprehension(s, op, vars[0], lambda: _in_tiles(s, op, vars, span)):
            return
    _in_tiles(s, op, vars, span)


def _in_tiles(s: Scheduler, op: anf.Comp, vars: Sequence[anf.Var], span: Span | None) -> None:
    plan = None if any(v in s.joined for v in vars) else plan_of(s, op)
    if plan is None or (s.short and plan.packed):
        nests.comprehension(s, op, vars, span)
    else:
        _emit(s, op, vars, plan)


def gains(s: Scheduler, op: anf.Comp) -> bool:
    """Tells whether a comprehension would be done in blocks or in tiles."""
    return not s.device and (gathered.gains(s, op) or plan_of(s, op) is not None)


# ---- emission --------------------------------------------------------------------------------------------------------
def _emit(s: Scheduler, op: anf.Comp, vars: Sequence[anf.Var], plan: Plan) -> None:
    packed = [_pack(s, op, plan, var, dimension) for var, dimension in plan.packed.items()]
    _order_terms(plan)
    places = []
    for var, destination in zip(vars, op.destinations, strict=True):
        assert isinstance(destination, anf.Reduce)
        place = s.target(var)
        if not covers(op.axes, destination.shape, destination.index):
            s.fill(place, nests.identity(destination.monoid, place.buffer.dtype))
        places.append(place)
    low, size = plan.row.lows[0], plan.row.highs[0] - plan.row.lows[0]
    stmts: list[Stmt]
    if plan.rows == 1:
        row = anf.fresh("i", I64)
        stmts = [
            Loop(row, (ZERO,), (size,), tuple(_kernel(op, plan, places, 1, low + anf.poly(row))), short=plan.short)
        ]
    elif size.constant is not None:
        height = int(size.constant)
        tiles = -(-height // plan.rows)
        tile = anf.fresh("tile", I64)
        if tiles == 1:
            body = _kernel(op, plan, places, plan.rows, low)
        elif height % plan.rows:
            start = anf.fresh("i", I64)
            first: list[Stmt] = [
                Evaluate(each := anf.fresh("i", I64), anf.poly(tile) * plan.rows),
                Compute(start, "minimum", (each, anf.Lit(height - plan.rows, "i64"))),
            ]
            body = [*first, *_kernel(op, plan, places, plan.rows, low + anf.poly(start))]
        else:
            body = _kernel(op, plan, places, plan.rows, low + anf.poly(tile) * plan.rows)
        stmts = body if tiles == 1 else [Loop(tile, (ZERO,), (anf.poly(tiles),), tuple(body))]
    else:
        stmts = _unknown_rows(s, op, plan, places, low, size)
    for axis in reversed(plan.outer):
        stmts = [Loop(axis.var, axis.lows, axis.highs, tuple(stmts), short=plan.short)]
    s.out += stmts
    s.out += [Free(buffer) for buffer in packed]


def _order_terms(plan: Plan) -> None:
    """Brings the reduced axes to an order in which the loop inside is long, two of them made one where they can be."""
    inside = {axis.var for axis in plan.reduced}
    plan.reduced.sort(key=lambda axis: not _at_border(axis, inside))
    k = len(plan.reduced) - 1
    while k > 0:
        outer, inner = plan.reduced[k - 1 : k + 1]
        joined = None if bounded_by(outer, inside) or bounded_by(inner, inside) else _joined(plan, outer, inner)
        if joined is not None:
            plan.reduced[k - 1 : k + 1] = [joined]
        k -= 1


def _at_border(axis: anf.Axis, reduced: set[anf.Var]) -> bool:
    """Tells whether an axis has several bounds, none of which a reduced axis moves: few iterations may be left."""
    bounds = (*axis.lows, *axis.highs)
    return len(bounds) > 2 and not any(b.mentions(reduced) for b in bounds)


def _joined(plan: Plan, outer: anf.Axis, inner: anf.Axis) -> anf.Axis | None:
    """One axis for two, if a step of the outer one goes as far as all of the inner one."""
    size = inner.highs[0]
    if inner.lows[0] != 0 or outer.lows[0] != 0:
        return None
    for stmt in plan.stmts:
        match stmt:
            case Load(_, _, offset):
                try:
                    if offset.coefficient(outer.var) != offset.coefficient(inner.var) * size:
                        return None
                except ValueError:
                    return None
            case Evaluate(_, value) if value.mentions((outer.var, inner.var)):
                return None
            case _:
                pass
    both = anf.fresh(inner.var.name, I64)
    env = {outer.var: ZERO, inner.var: anf.poly(both)}
    plan.stmts = [replace(t, offset=t.offset.substitute(env.get)) if isinstance(t, Load) else t for t in plan.stmts]
    return anf.Axis(both, (ZERO,), (outer.highs[0] * size,))


def _unknown_rows(
    s: Scheduler, op: anf.Comp, plan: Plan, places: list[Place], low: anf.Size, size: anf.Size
) -> list[Stmt]:
    """Tiles, the last of which overlaps the one before; or row after row where there is no full tile."""
    rows = plan.rows
    height, enough, up, some, tiles, singles = (
        anf.fresh(name, anf.Scalar("bool") if name == "enough" else I64)
        for name in ("rows", "enough", "up", "tiles", "tiles", "rows")
    )
    s.out += [
        Evaluate(height, size),
        Compute(enough, "ge", (height, anf.Lit(rows, "i64"))),
        Evaluate(up, size + (rows - 1)),
        Compute(some, "floordiv", (up, anf.Lit(rows, "i64"))),
        Compute(tiles, "select", (enough, some, anf.Lit(0, "i64"))),
        Compute(singles, "select", (enough, anf.Lit(0, "i64"), height)),
    ]
    tile, each, last, start, single = (anf.fresh(name, I64) for name in ("tile", "i", "last", "i", "i"))
    begin: list[Stmt] = [
        Evaluate(each, anf.poly(tile) * rows),
        Evaluate(last, size - rows),
        Compute(start, "minimum", (each, last)),
    ]
    return [
        Loop(tile, (ZERO,), (anf.poly(tiles),), (*begin, *_kernel(op, plan, places, rows, low + anf.poly(start)))),
        Loop(single, (ZERO,), (anf.poly(singles),), tuple(_kernel(op, plan, places, 1, low + anf.poly(single)))),
    ]


def _kernel(op: anf.Comp, plan: Plan, places: list[Place], rows: int, first: anf.Size) -> list[Stmt]:
    """The columns of some rows from the first on."""
    env: dict[anf.Var, anf.Size] = {}
    reduced = [_renewed(axis, env) for axis in plan.reduced]
    column = _renewed(_of_rows(plan, first, rows), env)
    copies = _Copies(plan.stmts, plan.row.var, [first + r for r in range(rows)], env)
    monoids = [d.monoid for d in op.destinations if isinstance(d, anf.Reduce)]
    monoids = [m for m in monoids for _ in range(rows)]
    written_out = 0 if plan.short else _written_out(reduced, rows)
    if rows < plan.rows and written_out < len(reduced):  # which hardly ever runs
        written_out = 0
    stmts, values = _unrolled(copies, plan.values, reduced[len(reduced) - written_out :], monoids)
    for axis in reversed(reduced[: len(reduced) - written_out]):
        results = [anf.fresh("sum", v.type) for v in values]
        sums = [Reduction(m, r, v) for m, r, v in zip(monoids, results, values, strict=True)]
        loop = Loop(axis.var, axis.lows, axis.highs, tuple(stmts), tuple(sums), short=plan.short)
        stmts, values = [loop], list(results)
    stores: list[Stmt] = []
    for k, place in enumerate(places):
        for r in range(rows):
            env[plan.row.var] = first + r
            index = tuple([entry.substitute(env.get) for entry in plan.index])
            tests, value = _among(plan, env, monoids[k * rows], values[k * rows + r]) if rows > 1 else ([], values[k])
            stores += [*tests, Store(place.buffer, place.at(index), value)]
    stmts += stores
    short = plan.short
    reason = "{} operations a term, for which {} accumulators are in registers"
    registers = plan.lanes * rows * len(places)
    why = Decision(f"tiles of {rows} rows by {plan.lanes} columns", reason, (len(plan.stmts), registers))
    return [
        Loop(column.var, column.lows, column.highs, tuple(stmts), (), plan.lanes, masked=short, short=short, why=(why,))
    ]


def _written_out(reduced: Sequence[anf.Axis], rows: int) -> int:
    """How many of the last reduced axes have so few terms in all rows that these are written one after another."""
    terms = rows
    for count, axis in enumerate(reversed(reduced)):
        iterations = known_iterations(axis)
        if not iterations or axis.lows[0].constant is None or terms * iterations > figures.UNROLLED_TILE:
            return count
        terms *= iterations
    return len(reduced)


def _of_rows(plan: Plan, first: anf.Size, rows: int) -> anf.Axis:
    """The columns that any of some rows has."""
    row, last = plan.row.var, first + (rows - 1)

    def ends(bounds: Sequence[anf.Size], least: bool) -> tuple[anf.Size, ...]:
        at = [first if ((b.coefficient(row).constant or 0) >= 0) == least else last for b in bounds]
        return tuple([b.substitute({row: end}.get) for b, end in zip(bounds, at, strict=True)])

    return replace(plan.column, lows=ends(plan.column.lows, True), highs=ends(plan.column.highs, False))


def _among(plan: Plan, env: dict[anf.Var, anf.Size], monoid: str, value: anf.Atom) -> tuple[list[Stmt], anf.Atom]:
    """The element of a row and a column, if the row has that column, else what no terms come to."""
    tests: list[Stmt] = []
    for bounds, order in ((plan.column.lows, "ge"), (plan.column.highs, "lt")):
        for bound in [b for b in bounds if b.mentions((plan.row.var,))]:
            at, end, among = anf.fresh("j", I64), anf.fresh("end", I64), anf.fresh("among", anf.Scalar("bool"))
            kept = anf.fresh("kept", value.type)
            tests += [
                Evaluate(at, anf.poly(plan.column.var).substitute(env.get)),
                Evaluate(end, bound.substitute(env.get)),
                Compute(among, order, (at, end)),
                Compute(kept, "select", (among, value, nests.identity(monoid, dtype_of(value)))),
            ]
            value = kept
    return tests, value


def _renewed(axis: anf.Axis, env: dict[anf.Var, anf.Size]) -> anf.Axis:
    """An axis with a new variable, which the environment then knows."""
    lows = tuple([b.substitute(env.get) for b in axis.lows])
    highs = tuple([b.substitute(env.get) for b in axis.highs])
    var = anf.fresh(axis.var.name, I64)
    env[axis.var] = anf.poly(var)
    return anf.Axis(var, lows, highs)


def _unrolled(
    copies: _Copies, values: tuple[anf.Atom, ...], reduced: list[anf.Axis], monoids: list[str]
) -> tuple[list[Stmt], list[anf.Atom]]:
    """All terms one after another."""
    stmts: list[Stmt] = []
    totals: list[anf.Atom] = []
    for point in _points(reduced):
        more, terms = copies.stmts(point, values)
        stmts += more
        if not totals:
            totals = terms
            continue
        for k, (total, term) in enumerate(zip(totals, terms, strict=True)):
            new = anf.fresh("sum", total.type)
            stmts.append(Compute(new, COMBINE[monoids[k]], (total, term)))
            totals[k] = new
    return stmts, totals


def _points(axes: Sequence[anf.Axis]) -> Iterator[dict[anf.Var, anf.Size]]:
    if not axes:
        yield {}
        return
    for k in range(known_iterations(axes[0]) or 0):
        for inner in _points(axes[1:]):
            yield {axes[0].var: axes[0].lows[0] + k, **inner}


@dataclass(slots=True)
class _Copies:
    """Code of a body for several rows: what does not depend on the row is there once."""

    body: list[TileStmt]
    row: anf.Var
    at: list[anf.Size]
    env: dict[anf.Var, anf.Size]

    def stmts(self, point: dict[anf.Var, anf.Size], results: tuple[anf.Atom, ...]) -> tuple[list[Stmt], list[anf.Atom]]:
        """The code at a point of axes, and the results: all rows of the first, all of the second…"""
        out: list[Stmt] = []
        names: list[dict[anf.Var, anf.Atom]] = [{} for _ in self.at]
        varying: set[anf.Var] = {self.row}
        for stmt in self.body:
            each = self._mentioned(stmt) & varying
            if each:
                varying.add(stmt.var)
            for r in range(len(self.at) if each else 1):
                copy = self._copy(stmt, r, names[r], point)
                out.append(copy)
                for other in names if not each else [names[r]]:
                    other[stmt.var] = copy.var
        values: list[anf.Atom] = []
        for result in results:
            values += [env.get(result, result) if isinstance(result, anf.Var) else result for env in names]
        return out, values

    def _mentioned(self, stmt: TileStmt) -> set[anf.Var]:
        match stmt:
            case Load(_, _, offset):
                return set(offset.atoms())
            case Evaluate(_, size):
                return set(size.atoms())
            case Compute(_, _, args):
                return {a for a in args if isinstance(a, anf.Var)}
            case Convert(_, arg):
                return {arg} if isinstance(arg, anf.Var) else set()

    def _copy(self, stmt: TileStmt, r: int, names: dict[anf.Var, anf.Atom], point: dict[anf.Var, anf.Size]) -> TileStmt:
        def size(x: anf.Size) -> anf.Size:
            return x.substitute(lambda v: self._at(v, r, names)).substitute(point.get)

        def atom(x: anf.Atom) -> anf.Atom:
            return names.get(x, x) if isinstance(x, anf.Var) else x

        match stmt:
            case Load(var, buffer, offset):
                return Load(anf.fresh(var.name, var.type), buffer, size(offset))
            case Evaluate(var, value):
                return Evaluate(anf.fresh(var.name, var.type), size(value))
            case Compute(var, name, args):
                return Compute(anf.fresh(var.name, var.type), name, tuple([atom(a) for a in args]))
            case Convert(var, arg):
                return Convert(anf.fresh(var.name, var.type), atom(arg))

    def _at(self, var: anf.Var, r: int, names: dict[anf.Var, anf.Atom]) -> anf.Size | None:
        if var is self.row:
            return self.at[r]
        if var in names:
            return anf.poly(names[var])
        return self.env.get(var)


def _pack(s: Scheduler, op: anf.Comp, plan: Plan, var: anf.Var, dimension: int) -> Buffer:
    """Copies what the comprehension reads of an array, with one dimension last, for the loads of a variable."""
    read = next(let.op for let in op.body.lets if var in let.vars)
    assert isinstance(read, anf.Read) and isinstance(read.array.type, anf.Array)
    place = s.place(read.array)
    inside = {axis.var for axis in op.axes}
    moving = [d for d, entry in enumerate(read.index) if entry.mentions(inside)]
    order = [d for d in moving if d != dimension] + [dimension]
    shape = tuple([place.shape[d] for d in order])
    buffer = s.allocate("packed", anf.Array(place.buffer.dtype, shape), own=False)
    axes = fresh_axes(len(shape))
    index = tuple([anf.poly(axes[order.index(d)]) if d in moving else entry for d, entry in enumerate(read.index)])
    x = anf.fresh("x", anf.Scalar(place.buffer.dtype))
    target = row_major(shape, tuple(map(anf.poly, axes)))
    s.nest(axes, shape, [Load(x, place.buffer, place.at(index)), Store(buffer, target, x)])
    offset = row_major(shape, tuple([read.index[d] for d in order]))
    plan.stmts = [
        replace(t, buffer=buffer, offset=offset) if isinstance(t, Load) and t.var is var else t for t in plan.stmts
    ]
    return buffer


# ---- which comprehensions are tiled ----------------------------------------------------------------------------------
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
    last = index[-1].atom
    columns = [a for a in op.axes if a.var is last]
    if not columns or not reduced or any(not x.known for x in steps):
        return None
    (column,) = columns
    whole = _whole(s, op, column, steps)
    if whole is None or any(_mentions(axis, column.var) for axis in op.axes):
        return None
    packed: dict[Var, int] = {}
    for x in steps:
        step = x.step(column.var)
        if step not in (0, 1):
            dimension = x.dimension(column.var)
            if dimension is not None:
                packed[x.var] = dimension
            elif step is None or not 2 <= step <= figures.FARTHEST_NEIGHBOUR:
                return None
    if not any(x.depends(column.var) for x in steps):
        return None
    rows = [axis for axis in op.axes if axis.var in kept and axis is not column and _serves(axis, op, steps, column)]
    rows = [axis for axis in rows if not any(x.depends(axis.var) for x in steps if x.var in packed)]
    rows = [axis for axis in rows if whole is column or _mentions(column, axis.var)]
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
    places = [whole if axis is column else axis for axis in op.axes if axis.var in kept]
    if not s.is_inside(places, index, op.destinations[0].shape):
        return None
    outer = [axis for axis in op.axes if axis.var in kept and axis is not row and axis is not column]
    if any(_mentions(axis, other.var) for axis in outer for other in reduced):
        return None
    if s.short:
        lanes, height = min(lanes, native), 1
    return Plan(outer, row, column, reduced, body, op.body.results, index, packed, lanes, height, s.short)


def _whole(s: Scheduler, op: Comp, column: Axis, steps: list[_Steps]) -> Axis | None:
    """The columns of all rows, if a tile can have those of several: they lie between two numbers that are the same for
    all of them, where all that is read is there. The axis itself if all rows have the same columns."""
    inside = {axis.var for axis in op.axes}
    movers = {a for b in (*column.lows, *column.highs) for a in b.atoms() if a in inside}
    if not movers:
        return None if bounded_by(column, inside) else column
    lows, highs = ([b for b in bounds if not b.mentions(inside)] for bounds in (column.lows, column.highs))
    if len(movers) > 1 or len(lows) != 1 or len(highs) != 1:
        return None
    (mover,) = movers
    if any(not b.is_linear(mover) or b.coefficient(mover).constant is None for b in (*column.lows, *column.highs)):
        return None
    whole = replace(column, lows=tuple(lows), highs=tuple(highs))
    axes = [whole if axis is column else axis for axis in op.axes]
    there = all(s.is_inside(axes, x.read.index, array_type(x.read.array).shape) for x in steps)
    return whole if there else None


def _serves(axis: Axis, op: Comp, steps: list[_Steps], column: Axis) -> bool:
    """Tells whether an axis can be the rows: what is loaded for the columns serves several of them."""
    others = [other for other in op.axes if other is not column]
    if bounded_by(axis, {a.var for a in op.axes}) or any(_mentions(other, axis.var) for other in others):
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
