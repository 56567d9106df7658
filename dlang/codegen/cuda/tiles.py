"""Maps that load along another axis than they store, such as transposes: square tiles go through shared memory.

loop i in 0..n                      a block has a tile of 32 rows i and columns j: its threads read &x along i,
  loop j in 0..m                    wait for each other, and write &y along j
    t = &x[n*j + i]
    &y[m*i + j] = t
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.statements import Printer, behind, distance, place_levels, quotient, remainder
from dlang.codegen.loops import Branch, Load, Loop, Stmt, Store
from dlang.codegen.traverse import bound_by, captures, walk
from dlang.codegen.vectorize import known_iterations
from dlang.ir.anf import Size, Var

SIDE = 32
NEAR = (None, *range(-SIDE // 4, SIDE // 4 + 1))
"""Steps between elements that are near each other, and those of which nothing is known."""
MOST = 4  # loads whose elements a block puts in shared memory


def crossed_loads(levels: Sequence[Loop], stmts: Sequence[Stmt]) -> tuple[int, tuple[Load, ...]]:
    """Returns a level before the last and the loads that are adjacent along it, in a map that stores along the last."""
    loads: list[Load] = []
    stored, bound = False, {slot for s in walk(stmts) for slot in bound_by(s)}
    for stmt in stmts:
        match stmt:
            case Store(offset=offset):
                stored = True
                if _step(offset, levels[-1].var) != 1:
                    return 0, ()
            case _ if not all(s.IS.straight or isinstance(s, Branch) for s in walk((stmt,))):
                return 0, ()
            case _ if stored and any(isinstance(s, Load) for s in walk((stmt,))):
                return 0, ()
            case Load(_, _, offset) if _step(offset, levels[-1].var) not in NEAR:
                if not any(slot in bound for slot in captures((stmt,), ())):
                    loads.append(stmt)
            case _:
                pass
    if not stored or (known_iterations(levels[-1]) or SIDE) < SIDE // 2:
        return 0, ()
    for number, level in enumerate(levels[:-1]):
        adjacent = tuple(load for load in loads if _step(load.offset, level.var) == 1)
        if 0 < len(adjacent) <= MOST and (known_iterations(level) or SIDE) >= SIDE // 2:
            return number, adjacent
    return 0, ()


def _step(offset: Size, var: Var) -> int | str | None:
    """How an offset moves with a variable: by a number, or by one that is not known; None if in no fixed way."""
    try:
        step = offset.coefficient(var)
    except ValueError:
        return None
    return "unknown" if step.constant is None else int(step.constant)


def tile_text(p: Printer, levels: Sequence[Loop], stmts: Sequence[Stmt], crossed: Sequence[Load]) -> None:
    """The kernel, whose iterations are tiles."""
    row, column = levels[-2:]
    ends, sides = [p.range(level) for level in levels[-2:]], (p.fresh("n"), p.fresh("n"))
    p.line(f"const i32 x = (i32)threadIdx.x % {SIDE}, y = (i32)threadIdx.x / {SIDE}, step = (i32)blockDim.x / {SIDE};")
    p.line("if (iterations == 0) return;")
    for side, (low, high) in zip(sides, ends, strict=True):
        count = quotient(f"{distance(low, high)} + {SIDE - 1}", str(SIDE))
        p.line(f"const dl_index {side} = {count};")
    kept, above = list[str](), quotient("t", sides[1])
    for load in crossed:
        kept.append(p.fresh("s"))
        p.line(f"DL_SHARED({scalars.memory_type(load.buffer.dtype)}, {kept[-1]}, {SIDE} * {SIDE + 1});")
    with p.block("for (dl_index t = blockIdx.x; t < iterations; t += gridDim.x)"):
        if len(levels) > 2:
            place_levels(p, levels[:-2], quotient(above, sides[0]))
        first = p.fresh("i"), p.fresh("j")
        below = f"{remainder(above, sides[0])} * {SIDE}"
        p.line(f"const dl_index {first[0]} = {behind(ends[0][0], below)};")
        beside = f"{remainder('t', sides[1])} * {SIDE}"
        p.line(f"const dl_index {first[1]} = {behind(ends[1][0], beside)};")

        def element(of_row: str, of_column: str) -> str:
            p.let(row.var, f"{first[0]} + {of_row}")
            p.let(column.var, f"{first[1]} + {of_column}")
            inside = [f"{p.names[level.var]} < {high}" for level, (_, high) in zip((row, column), ends, strict=True)]
            return f"if ({' && '.join(inside)})"

        with p.block(f"for (i32 k = y; k < {SIDE}; k += step)"), p.block(element("x", "k")):
            for load, name in zip(crossed, kept, strict=True):
                p.line(f"{name}[k * {SIDE + 1} + x] = {p.names[load.buffer]}[{p.size(load.offset)}];")
                p.held[load] = f"{name}[x * {SIDE + 1} + k]"
        p.line("__syncthreads();")
        with p.block(f"for (i32 k = y; k < {SIDE}; k += step)"), p.block(element("k", "x")):
            p.statements(stmts)
        p.line("__syncthreads();")
