"""Finds the loop nests that can run as kernels, and spreads their iterations over threads.

The iterations of a perfect nest of independent loops are one range, and each is done by a thread (`map`), or by a warp
or a block whose threads share the loops inside (`rows`), where these are long. Sums over an axis that is not the
innermost are done by threads that lie side by side (`columns`), and what is loaded across the order of what is stored
goes through memory that a block shares (`tiles`). Of a nest that reduces over all of its iterations each thread makes a
part (`reduction`).

Levels whose iterations are one range become one, so `x[m*i + j]` for i and j is `x[k]` for one k. Then no thread
divides, and the elements of an iteration lie side by side however short the rows are.

Loops in an iteration that add to an element as reductions, and perfect nests of them as one loop.

loop i in 0..n                    loop i in 0..n
  t = &x[m*i + j]                   t = &x[m*i + j]
  &y[j] = &y[j] + t                 s = s + t
                                  &y[j] = &y[j] + s
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from dlang.codegen import loops
from dlang.codegen.abi import SHARED, WARP, WORDS
from dlang.codegen.cuda.columns import Columns, around_loop, columns_of
from dlang.codegen.cuda.tiles import crossed_loads
from dlang.codegen.loops import At, Loop, Reduction, Stmt, Store
from dlang.codegen.traverse import (
    binds,
    blocks,
    bound_by,
    captures,
    map_inside,
    offsets,
    operands,
    rebuild,
    sizes,
    walk,
)
from dlang.codegen.vectorize import known_iterations
from dlang.identity import ByIdentity
from dlang.ir.anf import DTYPES, HALF, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of

LONG = 32  # iterations of a reduction from which the lanes of a warp share it, and iterations whose number is not known


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops whose iterations are spread, the outermost first, around the statements of an iteration.

    form: `map`, `tiles`, `rows`, `columns` or `reduction`. reductions: over all iterations. joined: the stores that
    combine with what other threads store in the same element. merged: for each level the loops whose iterations it
    has. columns: what an iteration is, if it is a column. spread: of a row, by its loops, of which several may have
    the same variable, how many loops right inside each other its threads share. single: what an iteration is if
    several blocks may share the one loop in it. crossed: what tiles load across the order in which they store.
    """

    form: str
    levels: tuple[loops.Loop, ...]
    stmts: tuple[loops.Stmt, ...]
    reductions: tuple[loops.Reduction, ...]
    joined: frozenset[loops.Store]
    merged: tuple[tuple[loops.Loop, ...], ...]
    columns: Columns | None = None
    spread: ByIdentity[loops.Loop, int] = field(default_factory=ByIdentity)
    single: Columns | None = None
    crossed: tuple[loops.Load, ...] = ()


def nest_of(loop: loops.Loop, plain: bool = False) -> Nest | None:
    """A loop as a nest for a kernel; None where something in it is the host's.

    plain: whether each thread is to do iterations of its own, in little code, as the kernel hardly ever does anything.
    """
    if not all(map(can_run, walk([loop]))):
        return None
    levels, stmts, reductions = _flattened(loop)
    if not reductions:
        levels, stmts = _without_meetings(levels, stmts)
    elif _totals(reductions) > WORDS:
        return None
    levels, stmts, merged = flattened(levels, accumulated(stmts), reductions)
    if not plain and _is_rows(stmts):
        columns = None if reductions else columns_of(levels[-1], stmts)
        row, spread = (stmts, ByIdentity([(columns.loop, 1)])) if columns else _spread_inside(stmts)
        joined = _joined(levels, row, spread)
        has_room = 8 * WARP * (_totals(reductions) + _totals_inside(row, spread)) < SHARED
        if has_room and not any(s.buffer.dtype in HALF for s in joined):
            single = columns
            if columns is None and not reductions and all(count == 1 for _, count in spread.items()):
                single = around_loop(levels[-1], row)
            form = "columns" if columns else "rows"
            return Nest(form, levels, row, reductions, frozenset(joined), merged, columns, spread, single)
    joined = _joined(levels, stmts, ByIdentity())
    if any(s.buffer.dtype in HALF for s in joined):
        return None
    across, crossed = (0, ()) if reductions or plain else crossed_loads(levels, stmts)
    if crossed:  # the two levels of a tile become the last ones
        order = [k for k in range(len(levels) - 1) if k != across] + [across, len(levels) - 1]
        levels, merged = tuple([levels[k] for k in order]), tuple([merged[k] for k in order])
    form = "reduction" if reductions else "tiles" if crossed else "map"
    return Nest(form, levels, stmts, reductions, frozenset(joined), merged, crossed=crossed)


def _totals(reductions: Sequence[loops.Reduction]) -> int:
    """Counts the numbers that reductions keep."""
    return sum([1 if r.position is None else 2 for r in reductions])


def _totals_inside(stmts: Sequence[loops.Stmt], spread: ByIdentity[loops.Loop, int]) -> int:
    """The same of the loops that the threads of a row share, each of which leaves a word of them for each warp."""
    return sum([_totals(s.reductions) for s in stmts if isinstance(s, loops.Loop) and s in spread])


# ---- what can run ----------------------------------------------------------------------------------------------------
def can_run(stmt: loops.Stmt) -> bool:
    """Tells whether a thread can run a statement, those inside it aside."""
    match stmt:
        case loops.Assert(_, _, _, shown):
            return len(shown) <= WORDS and all(isinstance(v, Var | Lit) and is_number(dtype_of(v)) for v in shown)
        case loops.Loop():
            return not stmt.scratch and stmt.lanes == 1
        case _ if not stmt.IS.kernel:
            return False
        case _:
            values = (*binds(stmt), *operands(stmt))
            in_array = bool(offsets(stmt))
            return all(_is_of_numbers(v) if in_array else _is_one(v) for v in values)


def is_number(dtype: str) -> bool:
    """Tells whether a dtype is neither that of texts nor of nodes, which the host knows by numbers of its own."""
    return dtype in DTYPES and dtype != "str"


def _is_one(value: loops.Value) -> bool:
    return not isinstance(value, loops.Buffer) and is_number(dtype_of(value))


def _is_of_numbers(value: loops.Value) -> bool:
    """Tells whether a value is a number, or an array of some."""
    return is_number(value.dtype) if isinstance(value, loops.Buffer) else _is_one(value)


# ---- which loops are spread ------------------------------------------------------------------------------------------
def _flattened(loop: loops.Loop) -> tuple[tuple[loops.Loop, ...], tuple[loops.Stmt, ...], tuple[loops.Reduction, ...]]:
    """The loops of a perfect nest whose bounds do not depend on each other, what is inside, and its reductions."""
    levels, reductions = [loop], loop.reductions
    while True:
        inside = [s for s in levels[-1].stmts if not isinstance(s, loops.At)]
        if len(inside) != 1 or not isinstance(inside[0], loops.Loop):
            break
        inner = inside[0]
        handed = handed_on(reductions, inner.reductions)
        outer = [level.var for level in levels]
        if handed is None or any(b.mentions(outer) for b in (*inner.lows, *inner.highs)):
            break
        levels.append(inner)
        reductions = handed
    return tuple(levels), levels[-1].stmts, reductions


def _without_meetings(
    levels: tuple[loops.Loop, ...], stmts: tuple[loops.Stmt, ...]
) -> tuple[tuple[loops.Loop, ...], tuple[loops.Stmt, ...]]:
    """The nest with the loops inside whose iterations meet in an element, so that one thread does them in their order.

    A sum over the rows of a matrix is then done column by column. If all loops are such, it stays as it is; so it does
    where a guard may fail, as the first iteration that fails is the one to be told.
    """
    stores = list(_combining(stmts))
    if not stores or any(isinstance(s, loops.Assert) for s in walk(stmts)):
        return levels, stmts
    apart = [all(_keeps_apart(level, levels, stmts, s.buffer, s.offset) for s in stores) for level in levels]
    if all(apart) or not any(apart):
        return levels, stmts
    for level, spread in zip(reversed(levels), reversed(apart), strict=True):
        if not spread:
            stmts = (replace(level, stmts=stmts),)
    return tuple([level for level, spread in zip(levels, apart, strict=True) if spread]), stmts


def _combining(stmts: Sequence[loops.Stmt]) -> Iterator[loops.Store]:
    return (s for s in walk(stmts) if isinstance(s, loops.Store) and s.monoid != "set")


def _keeps_apart(
    level: loops.Loop, levels: Sequence[loops.Loop], stmts: Sequence[loops.Stmt], buffer: loops.Buffer, offset: Size
) -> bool:
    """Tells whether iterations of a loop never store to one element, for given iterations of the loops around it."""
    roots = {s.result: s.source for s in walk((*levels[0].stmts, *stmts)) if isinstance(s, loops.Slice)}
    known: loops.Buffer | None = buffer
    while known is not None:
        if known in level.disjoint:
            return True
        known = roots.get(known)
    inside: set[loops.Slot] = {slot for s in walk((*level.stmts, *stmts)) for slot in binds(s)}
    inside.update(other.var for other in levels[levels.index(level) + 1 :])
    if buffer in inside:
        return False
    try:
        step = offset.coefficient(level.var)
    except ValueError:
        return False
    remainder = offset.without(level.var)
    return step.constant not in (None, 0) and not remainder.mentions([v for v in inside if isinstance(v, Var)])


def _is_rows(stmts: Sequence[loops.Stmt]) -> bool:
    """Tells whether several threads should share an iteration: it is straight-line code and loops, some of them
    long."""
    for s in stmts:
        match s:
            case loops.Loop():
                if any(isinstance(inner, loops.Assert) for inner in walk(s.stmts)):
                    return False
            case _ if not s.IS.kernel or blocks(s):
                return False
    return any(isinstance(s, loops.Loop) and iterations_inside(_flattened(s)[0]) >= LONG for s in stmts)


def iterations_inside(levels: Sequence[loops.Loop]) -> int:
    """About how many iterations loops right inside each other have."""
    return prod(LONG if (count := known_iterations(level)) is None else count for level in levels)


def _spread_inside(stmts: Sequence[loops.Stmt]) -> tuple[tuple[loops.Stmt, ...], ByIdentity[loops.Loop, int]]:
    """The statements of a row, and how many loops right inside each other are shared by its threads."""
    out: list[loops.Stmt] = []
    spread: ByIdentity[loops.Loop, int] = ByIdentity()
    for stmt in stmts:
        if isinstance(stmt, loops.Loop):
            levels, inside, reductions = _flattened(stmt)
            if not reductions:
                levels, inside = _without_meetings(levels, inside)
                inside = accumulated(inside)
            if all(c > 0 for level in levels for high in level.highs for c in high.terms.values()):
                levels, inside, _ = flattened(levels, inside, reductions)
            for level in reversed(levels):
                stmt = replace(level, stmts=inside, reductions=reductions if level is levels[0] else ())
                inside = (stmt,)
            spread[stmt] = len(levels)
        out.append(stmt)
    return tuple(out), spread


def shared_levels(loop: loops.Loop, count: int) -> tuple[loops.Loop, ...]:
    """The loops right inside each other that the threads of a row share."""
    levels = [loop]
    while len(levels) < count:
        (inner,) = [s for s in levels[-1].stmts if isinstance(s, loops.Loop)]
        levels.append(inner)
    return tuple(levels)


def _joined(
    levels: Sequence[loops.Loop], stmts: Sequence[loops.Stmt], spread: ByIdentity[loops.Loop, int]
) -> list[loops.Store]:
    """The stores that combine with what other threads may be storing in the same element."""
    out = []
    for stmt in stmts:
        if isinstance(stmt, loops.Loop) and stmt in spread:
            inner = shared_levels(stmt, spread[stmt])
            out += _joined((*levels, *inner), inner[-1].stmts, ByIdentity())
            continue
        for s in _combining((stmt,)):
            if not all(_keeps_apart(level, levels, stmts, s.buffer, s.offset) for level in levels):
                out.append(s)
    return out


def accumulated(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Statements of an iteration in which no loop, from the innermost on, adds to an element that all its iterations
    share, and that is there whether it has any or not."""
    out: list[Stmt] = []
    for stmt in stmts:
        stmt = map_inside(stmt, accumulated)
        if isinstance(stmt, Loop):
            stmt, behind = _with_totals(stmt)
            out += [_as_one(stmt), *behind]
        else:
            out.append(stmt)
    return tuple(out)


def _with_totals(loop: Loop) -> tuple[Loop, list[Stmt]]:
    """A loop that adds to totals, and what adds these to memory."""
    bound = {slot for s in walk(loop.stmts) for slot in bound_by(s)} | {loop.var}
    variables = [slot for slot in bound if isinstance(slot, Var)]
    inside: list[Stmt] = []
    behind: list[Stmt] = []
    reductions = list(loop.reductions)
    goes = (known_iterations(loop) or 0) > 0
    for s in loop.stmts:
        if isinstance(s, Store) and s.monoid != "set" and _is_only_use(s, loop) and s.buffer not in bound:
            if (goes or s.sure) and not s.offset.mentions(variables):
                total = fresh("total", Scalar(s.buffer.dtype))
                reductions.append(Reduction(s.monoid, total, s.value))
                behind.append(replace(s, value=total))
                continue
        inside.append(s)
    return replace(loop, stmts=tuple(inside), reductions=tuple(reductions)), behind


def _is_only_use(store: Store, loop: Loop) -> bool:
    return all(s is store or store.buffer not in operands(s) for s in walk(loop.stmts))


def _as_one(loop: Loop) -> Loop:
    """A loop with one loop inside as one loop, if what each iteration does depends on both together alone."""
    inside = [s for s in loop.stmts if not isinstance(s, At)]
    if len(inside) != 1 or not isinstance(inside[0], Loop):
        return loop
    inner = inside[0]
    reductions = handed_on(loop.reductions, inner.reductions)
    extents = (*loop.highs, *inner.highs)
    if reductions is None or any(c < 0 for extent in extents for c in extent.terms.values()):
        return loop
    levels, stmts, _ = flattened((loop, inner), inner.stmts, reductions)
    return loop if len(levels) > 1 else replace(levels[0], stmts=stmts, reductions=reductions)


def handed_on(outer: Sequence[Reduction], inner: Sequence[Reduction]) -> tuple[Reduction, ...] | None:
    """The reductions of two loops as one: each of the outer one's is that of what the inner one gives."""
    if len(outer) != len(inner):
        return None
    by_result = {r.result: r for r in inner}
    out = []
    for r in outer:
        part = by_result.get(r.value) if isinstance(r.value, Var) else None
        if part is None or part.monoid != r.monoid or r.rank is not part.position:
            return None
        out.append(replace(r, value=part.value, rank=part.rank))
    return tuple(out)


# ---- levels whose iterations are one range ---------------------------------------------------------------------------
Merged = tuple[tuple[Loop, ...], tuple[Stmt, ...], tuple[tuple[Loop, ...], ...]]


def flattened(levels: Sequence[Loop], stmts: tuple[Stmt, ...], reductions: Sequence[Reduction]) -> Merged:
    """The levels that are left, the statements of an iteration, and for each level those that it stands for."""
    out = [levels[0]]
    merged: list[tuple[Loop, ...]] = [(levels[0],)]
    for level in levels[1:]:
        if not _are_one(out[-1], level, stmts, reductions):
            out.append(level)
            merged.append((level,))
            continue
        var = fresh(level.var.name, I64)
        stmts = _with_one_index(stmts, out[-1].var, level.var, var)
        disjoint = tuple([b for b in level.disjoint if b in out[-1].disjoint])
        out[-1] = replace(level, var=var, highs=(out[-1].highs[0] * level.highs[0],), disjoint=disjoint)
        merged[-1] = (*merged[-1], level)
    return tuple(out), stmts, tuple(merged)


def _are_one(outer: Loop, inner: Loop, stmts: Sequence[Stmt], reductions: Sequence[Reduction]) -> bool:
    """Tells whether the body of two loops depends on their iterations only by the number of both together."""
    if outer.lows != (ZERO,) or inner.lows != (ZERO,) or len(outer.highs) != 1 or len(inner.highs) != 1:
        return False
    pair, extent = (outer.var, inner.var), inner.highs[0]
    if any(v in pair for r in reductions for v in (r.value, r.rank)):
        return False
    for size in (size for stmt in walk(stmts) for size in sizes(stmt)):
        if not size.mentions(pair):
            continue
        try:
            step, above = size.coefficient(inner.var), size.coefficient(outer.var)
        except ValueError:
            return False
        if step.mentions(pair) or above != step * extent:
            return False
    return not any(v in pair for v in captures(_without_sizes(stmts), ()))


def with_sizes(stmts: Sequence[Stmt], change: Callable[[Size], Size]) -> tuple[Stmt, ...]:
    """Statements of a kernel with their polynomials changed."""
    return tuple([rebuild(s, size=change, block=lambda inner: with_sizes(inner, change)) for s in stmts])


def _without_sizes(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return with_sizes(stmts, lambda _: ZERO)


def _with_one_index(stmts: Sequence[Stmt], outer: Var, inner: Var, both: Var) -> tuple[Stmt, ...]:
    def change(size: Size) -> Size:
        if not size.mentions((outer, inner)):
            return size
        return size.without(outer).without(inner) + size.coefficient(inner) * poly(both)

    return with_sizes(stmts, change)
