"""Reductions over an axis that is not the innermost: threads that lie side by side have columns that do.

A block has some columns and shares their rows; if there are few columns, several blocks share the rows as well, each
leaves its part in memory, and another kernel adds the parts in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dlang.codegen import loops
from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.statements import (
    Printer,
    accumulators,
    behind,
    distance,
    fold_into,
    left,
    place_levels,
    quotient,
    remainder,
    totals_of,
)
from dlang.codegen.cuda.vectors import Plan, compute, declare, planned, read, write
from dlang.codegen.traverse import bound_by, walk
from dlang.codegen.vectorize import work
from dlang.identity import ByIdentity
from dlang.ir.anf import Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of

FLIGHT = 4  # rows that a thread reads at once
CODE = 256  # about as many operations may they have
WORDS = 16  # that a thread shares with others at most


@dataclass(frozen=True, slots=True)
class Columns:
    """The statements of an iteration, which is a column: `before` the loop over its rows, that loop, and `behind`
    it."""

    before: tuple[loops.Stmt, ...]
    loop: loops.Loop
    behind: tuple[loops.Stmt, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Several blocks for one column: how many, and where they leave their totals."""

    count: Var
    parts: tuple[loops.Buffer, ...]


def columns_of(level: loops.Loop, stmts: Sequence[loops.Stmt]) -> Columns | None:
    """An iteration as a column, if what its loop loads lies side by side from iteration to iteration; `level` is the
    innermost one."""
    columns = around_loop(level, stmts)
    if columns is None:
        return None
    loads = [s for s in columns.loop.stmts if isinstance(s, loops.Load)]
    along = sum(_steps(s, level.var, columns.loop.var) for s in loads)
    across = sum(_steps(s, columns.loop.var, level.var) for s in loads)
    return columns if along > across else None


def around_loop(level: loops.Loop, stmts: Sequence[loops.Stmt]) -> Columns | None:
    """An iteration that is one reduction and straight code, if threads can share it, whose iterations stand for
    themselves."""
    stmts = [s for s in stmts if not isinstance(s, loops.At)]
    places = [k for k, s in enumerate(stmts) if isinstance(s, loops.Loop)]
    if len(places) != 1:
        return None
    (place,) = places
    loop, before, behind = stmts[place], tuple(stmts[:place]), tuple(stmts[place + 1 :])
    assert isinstance(loop, loops.Loop)
    if not 0 < len(accumulators(loop.reductions)) <= WORDS:
        return None
    if not all(s.IS.straight or isinstance(s, loops.Branch) for s in walk(before)):
        return None
    if not all(s.IS.straight or isinstance(s, loops.Branch | loops.Store) for s in walk((*loop.stmts, *behind))):
        return None
    if planned(replace(level, stmts=(*before, *loop.stmts)), frozenset(), frozenset()) is None:
        return None
    inside = [v for s in walk((*before, *loop.stmts)) for v in bound_by(s) if isinstance(v, Var)]
    if any(size.mentions([level.var, *inside]) for size in (*loop.lows, *loop.highs)):
        return None
    return Columns(before, loop, behind)


def _steps(load: loops.Load, var: Var, other: Var) -> bool:
    """Tells whether a load moves by one element with a variable, and somehow with another one."""
    try:
        return load.offset.coefficient(var) == 1 and load.offset.mentions((other,))
    except ValueError:
        return False


def column_plan(level: loops.Loop, columns: Columns, joined: frozenset[loops.Store], uncertain: frozenset[Var]) -> Plan:
    """Returns the plan by which a thread reduces elements of a row in columns that are side by side."""
    every = replace(level, stmts=(*columns.before, *columns.loop.stmts), reductions=columns.loop.reductions)
    plan = planned(every, joined, uncertain)
    assert plan is not None, "otherwise it is no column"
    count = len(accumulators(columns.loop.reductions))
    return plan if plan.width * count <= WORDS else replace(plan, width=max(WORDS // count, 1))


def column_text(
    p: Printer, levels: Sequence[loops.Loop], columns: Columns, plan: Plan, split: Split | None, name: str
) -> str:
    """The kernel: its iterations are tiles of columns, each as often as several blocks share it.

    Gives the struct of its totals, which has this name.
    """
    level, width, structs = levels[-1], plan.width, list[str]()
    low, high = p.range(level)
    blocks = "1" if split is None else p.names[split.count]
    p.line("if (iterations == 0) return;")
    pieces = quotient(f"{distance(low, high)} + {width - 1}", str(width))
    p.line(f"const dl_index pieces = {pieces};")
    warps = quotient("pieces + DL_WARP - 1", "DL_WARP") + f" * {blocks}"
    p.line(f"const dl_index outer = {quotient('iterations', warps)};")
    p.line("const i32 columns = dl_columns(pieces, outer), rows = (i32)blockDim.x / columns;")
    p.line("const i32 column = (i32)threadIdx.x % columns, row = (i32)threadIdx.x / columns;")
    p.line(f"const dl_index tiles = {quotient('pieces + columns - 1', 'columns')};")
    with p.block(f"for (dl_index t = blockIdx.x; t < outer * tiles * {blocks}; t += gridDim.x)"):
        first, many = p.fresh("j"), p.fresh("n")
        turn, tile = ("0", "t") if split is None else (remainder("t", blocks), quotient("t", blocks))
        p.line(f"const dl_index turn = {turn}, tile = {tile};")
        within = f"({remainder('tile', 'tiles')} * columns + column) * {width}"
        p.line(f"const dl_index {first} = {behind(low, within)};")
        p.line(f"const i32 {many} = dl_left({left(first, high)});")
        if len(levels) > 1:
            place_levels(p, levels[:-1], quotient("tile", "tiles"))
        totals = totals_of(p, columns.loop.reductions, name, structs, f"[{width}]", "[k]")
        start, end = p.range(columns.loop)
        if split is not None:
            first_row, each = p.fresh("r"), p.fresh("n")
            p.line(f"const dl_index {each} = ({distance(start, end)} + {blocks} - 1) / {blocks};")
            p.line(f"const dl_index {first_row} = {behind(start, f'turn * {each}')};")
            p.line(f"const dl_index {first_row}_end = dl_minimum(dl_index({end}), dl_index({first_row} + {each}));")
            start, end = first_row, f"{first_row}_end"
        _rows(p, columns.loop, plan, (start, end), (first, many), totals)
        p.held = ByIdentity()
        p.line(f"dl_fold_columns({fold_into(totals)}, columns, rows);")
        p.line("if (row != 0) continue;")
        p.line("#pragma unroll")
        with p.block(f"for (i32 k = 0; k < {width}; ++k) if (k < {many})"):
            p.let(level.var, f"{first} + k")
            if split is not None:
                with p.block(f"if ({blocks} > 1)"):
                    extent, place = p.fresh("n"), p.fresh("i")
                    p.line(f"const dl_index {extent} = {distance(low, high)};")
                    row = f"turn * outer + {quotient('tile', 'tiles')}"
                    p.line(f"const dl_index {place} = ({row}) * {extent} + {distance(low, p.names[level.var])};")
                    for part, total in zip(split.parts, totals, strict=True):
                        p.line(f"{p.names[part]}[{place}] = {scalars.encode(total, part.dtype)};")
                    p.line("continue;")
            p.names.update(zip([var for var, _ in accumulators(columns.loop.reductions)], totals, strict=True))
            p.statements((*columns.before, *columns.behind))
    return structs[0]


def _rows(
    p: Printer, loop: loops.Loop, plan: Plan, ends: tuple[str, str], pieces: tuple[str, str], totals: Sequence[str]
) -> None:
    """The rows of a thread, some at a time, of which all is read that lies side by side before any is computed."""
    (start, end), (first, many) = ends, pieces
    several = FLIGHT if FLIGHT * plan.width * work(plan.inside) <= CODE else 1
    base, lanes = p.fresh("r"), p.fresh("n")
    head = f"{p.type(loop.var)} {base} = {behind(start, 'row')}"
    with p.block(f"for ({head}; {base} < {end}; {base} += rows * {several})"):
        arrays = {place: declare(p, place, f"[{several}][{plan.width}]") for place in plan.places}

        @contextmanager
        def each_row() -> Iterator[None]:
            p.line("#pragma unroll")
            with p.block(f"for (i32 q = 0; q < {several}; ++q)"):
                p.let(loop.var, f"{base} + q * rows")
                p.line(f"const i32 {lanes} = {p.names[loop.var]} < {end} ? {many} : 0;")
                p.line(f"if (!{lanes}) break;")
                p.statements(plan.before)
                p.names[plan.var] = first
                yield

        if plan.needed:
            with each_row():
                for place, access in plan.needed.items():
                    read(p, access, f"{arrays[place]}[q]", lanes)
        with each_row():
            within = {place: f"{array}[q]" for place, array in arrays.items()}
            compute(p, plan, first, lanes, within, lambda: p.accumulate(loop.reductions, totals))
            p.names[plan.var] = first
            for store in plan.stores:
                write(p, store, within[plan.place(store)], lanes)


def parts_of(columns: Columns) -> tuple[loops.Buffer, ...]:
    """Returns the buffers in which several blocks leave the totals of their rows."""
    return tuple(loops.Buffer("parts", dtype_of(var)) for var, _ in accumulators(columns.loop.reductions))


def adding(levels: Sequence[loops.Loop], columns: Columns, split: Split) -> tuple[loops.Stmt, ...]:
    """The statements of an iteration that adds what the blocks of a column have left, in their order."""
    position, total = ZERO, poly(1)
    for level in levels:
        extent = level.highs[0] - level.lows[0]
        position, total = position * extent + poly(level.var) - level.lows[0], total * extent
    turn, parts = fresh("part", I64), iter(split.parts)
    loads: list[loops.Stmt] = []
    reductions: list[loops.Reduction] = []
    for r in columns.loop.reductions:
        loaded = [fresh("part", var.type) for var in (r.result, r.position) if var is not None]
        loads += [loops.Load(var, next(parts), total * turn + position) for var in loaded]
        reductions.append(replace(r, value=loaded[0], rank=None if r.position is None else loaded[1]))
    loop = loops.Loop(turn, (ZERO,), (poly(split.count),), tuple(loads), tuple(reductions))
    return (*columns.before, loop, *columns.behind)
