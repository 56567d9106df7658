"""Loops of independent trips: one by one, or several lanes at once.

A loop of lanes is a main loop of whole vectors, then what is left: one more trip with a mask, or a loop of single trips
where a mask would be dear, or where a guard may fail: the main loop then leaves before the trips in which it does, and
the loop of single trips reports the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen import loops
from dlang.codegen.llvm import polls
from dlang.codegen.llvm.indices import bounds
from dlang.codegen.llvm.mathematics import FUNCTIONS
from dlang.codegen.llvm.polls import chunk, look, look_every
from dlang.codegen.llvm.reductions import accumulate, accumulator_types, finish, first_totals, horizontal
from dlang.codegen.llvm.scalars import BITS, LIBM, iota
from dlang.codegen.llvm.writer import LaneContext, Writer
from dlang.codegen.loops import Loop, Stmt
from dlang.ir.anf import Var

LANES_PER_TRIP = 4  # vectors go so much faster


def loop(w: Writer, stmt: loops.Loop) -> None:
    low, high = bounds(w, stmt.lows, stmt.highs)
    start = first_totals(w, stmt.reductions)
    pre, done = w.label("pre"), w.label("done")
    entering = w.block
    certain = (polls.count(stmt) or 0) > 0
    if certain:
        w.jump(pre)
    else:
        w.fork(w.emit(f"icmp slt i64 {low}, {high}"), pre, done)
    outer = w.code
    with w.scope(loads=True) as scope:
        w.code = []
        if stmt.lanes > 1 and w.lane is None:
            totals = _vector_loop(w, stmt, low, high, start, pre)
        else:
            totals = _trips(w, stmt, low, high, start, pre)
        inner, w.code = w.code, outer
    leaving = w.block
    w.begin(pre)
    w.code += scope.pre
    w.code += inner
    w.jump(done)
    w.begin(done)
    finish(w, stmt.reductions, start, "" if certain else entering, totals, leaving)


def _trips(w: Writer, stmt: loops.Loop, low: str, high: str, start: Sequence[str], entering: str) -> list[str]:
    """The loop itself, at least one trip, one by one (in a loop of lanes: for all of them); gives the totals."""
    head, latch, after = w.label("head"), w.label("latch"), w.label("after")
    index, following = w.name("i"), w.name("i")
    types = accumulator_types(w, stmt.reductions)
    names = [w.name("a") for _ in types]
    w.jump(head)
    w.begin(head)
    w.code.append(f"  {index} = phi i64 [ {low}, %{entering} ], [ {following}, %{latch} ]")
    position = len(w.code)
    w.bind(stmt.var, index)
    w.statements(stmt.stmts)
    totals = accumulate(w, stmt.reductions, names)
    phis = [
        f"  {name} = phi {type} [ {first}, %{entering} ], [ {total}, %{latch} ]"
        for name, type, first, total in zip(names, types, start, totals, strict=True)
    ]
    w.code[position:position] = phis
    trips = chunk(stmt.stmts)
    if not _few(stmt, trips):
        look_every(w, index, trips)
    w.jump(latch)
    w.begin(latch)
    w.code.append(f"  {following} = add nsw i64 {index}, 1")
    w.fork(w.emit(f"icmp slt i64 {following}, {high}"), head, after)
    w.begin(after)
    return totals


def _vector_loop(w: Writer, stmt: Loop, low: str, high: str, start: Sequence[str], entering: str) -> list[str]:
    """Writes the loop, which has at least one trip; gives the totals of its reductions."""
    width = stmt.lanes
    head, latch, rest, bail = (w.label(s) for s in ("vector", "latch", "rest", "bail"))
    count = w.emit(f"sub i64 {high}, {low}")
    main = w.emit(f"and i64 {count}, {-width}")
    middle = w.emit(f"add i64 {low}, {main}")
    span = 0 if _few(stmt, chunk(stmt.stmts)) else chunk(stmt.stmts) * LANES_PER_TRIP
    begin = _chunk_end(w, low, span, middle) if span else middle
    w.fork(w.emit(f"icmp ne i64 {main}, 0"), head, rest)

    context = LaneContext(stmt.var, width, None, bail, {})
    w.lane = context
    first = first_totals(w, stmt.reductions)
    types = accumulator_types(w, stmt.reductions)
    names = [w.name("a") for _ in types]
    index, following = w.name("i"), w.name("i")
    end, later, turn, again = w.name("end"), w.name("end"), w.label("turn"), w.label("again")
    w.begin(head)
    position = len(w.code)
    _bind_lanes(w, stmt.var, index)
    w.statements(stmt.stmts)
    totals = accumulate(w, stmt.reductions, names)
    carried = [("i64", index, low, following), *zip(types, names, first, totals, strict=True)]
    repeated = f", [ {{}}, %{again} ]" if span else ""
    w.code[position:position] = [
        f"  {name} = phi {type} [ {x}, %{entering} ], [ {total}, %{latch} ]" + repeated.format(total)
        for type, name, x, total in carried
    ]
    if span:
        w.code.insert(
            position, f"  {end} = phi i64 [ {begin}, %{entering} ], [ {end}, %{latch} ], [ {later}, %{again} ]"
        )
    w.jump(latch)
    w.begin(latch)
    w.code.append(f"  {following} = add nsw i64 {index}, {width}")
    if span:
        w.fork(w.emit(f"icmp slt i64 {following}, {end}"), head, turn)
        w.cold += _another_chunk(w, again, head, following, later, span, middle)
        latch, head = turn, w.label("look")
        w.cold += [f"{head}:", *look(w, again)]
        w.begin(turn)
    more = w.emit(f"icmp slt i64 {following}, {middle}")
    if not context.bailed and _mask_is_cheap(stmt.stmts):
        w.fork(more, head, rest)
        return _masked_rest(w, stmt, low, high, middle, entering, rest, latch, types, first, totals)
    done, tail = w.label("whole"), w.label("tail")
    w.fork(more, head, done)
    w.begin(done)
    reduced = horizontal(w, stmt.reductions, totals)
    w.jump(rest)
    edges = [(low, list(start), entering), (middle, reduced, done)]
    if context.bailed:
        w.begin(bail)
        edges.append((index, horizontal(w, stmt.reductions, names), bail))
        w.jump(rest)
    w.lane = None
    w.begin(rest)
    merged = [w.emit("phi i64 " + ", ".join(f"[ {i}, %{block} ]" for i, _, block in edges))]
    for k, type in enumerate(accumulator_types(w, stmt.reductions)):
        merged.append(w.emit(f"phi {type} " + ", ".join(f"[ {xs[k]}, %{block} ]" for _, xs, block in edges)))
    over = w.label("over")
    w.fork(w.emit(f"icmp slt i64 {merged[0]}, {high}"), tail, over)
    w.begin(tail)
    last = _trips(w, stmt, merged[0], high, merged[1:], tail)
    after = w.block
    w.jump(over)
    w.begin(over)
    out = []
    for type, before, value in zip(accumulator_types(w, stmt.reductions), merged[1:], last, strict=True):
        out.append(w.emit(f"phi {type} [ {before}, %{rest} ], [ {value}, %{after} ]"))
    return out


def _few(stmt: Loop, trips: int) -> bool:
    """Whether a loop is known to be over before it has to look up."""
    known = polls.count(stmt)
    return known is not None and known <= trips


def _chunk_end(w: Writer, low: str, span: int, middle: str) -> str:
    return w.ops().intrinsic("smin", "i64", w.emit(f"add nsw i64 {low}, {span}"), middle)


def _another_chunk(w: Writer, again: str, head: str, following: str, later: str, span: int, middle: str) -> list[str]:
    """The block that goes on with the next chunk of trips."""
    w.module.declare("llvm.smin.i64", "i64", "i64", "i64")
    far = w.name("far")
    return [
        f"{again}:",
        f"  {far} = add nsw i64 {following}, {span}",
        f"  {later} = call i64 @llvm.smin.i64(i64 {far}, i64 {middle})",
        f"  br label %{head}",
    ]


def _masked_rest(
    w: Writer,
    stmt: Loop,
    low: str,
    high: str,
    middle: str,
    entering: str,
    rest: str,
    latch: str,
    types: Sequence[str],
    first: Sequence[str],
    totals: Sequence[str],
) -> list[str]:
    """The trips that do not fill a vector, as one with a mask."""
    assert w.lane is not None
    width = w.lane.width
    partial, over = w.label("partial"), w.label("over")
    w.begin(rest)
    index = w.emit(f"phi i64 [ {low}, %{entering} ], [ {middle}, %{latch} ]")
    before = []
    for type, x, total in zip(types, first, totals, strict=True):
        before.append(w.emit(f"phi {type} [ {x}, %{entering} ], [ {total}, %{latch} ]"))
    w.fork(w.emit(f"icmp slt i64 {index}, {high}"), partial, over)
    w.begin(partial)
    _bind_lanes(w, stmt.var, index)
    left = w.emit(f"sub i64 {high}, {index}")
    limit = w.splat(left, "i64", w.depth)
    w.lane.mask = w.emit(f"icmp slt <{width} x i64> {iota(width)}, {limit}")
    w.statements(stmt.stmts)
    after = accumulate(w, stmt.reductions, before, masked=True)
    leaving = w.block
    w.jump(over)
    w.begin(over)
    merged = []
    for type, x, y in zip(types, before, after, strict=True):
        merged.append(w.emit(f"phi {type} [ {x}, %{rest} ], [ {y}, %{leaving} ]"))
    out = horizontal(w, stmt.reductions, merged)
    w.lane = None
    return out


def _bind_lanes(w: Writer, var: Var, index: str) -> None:
    """The loop's variable: as a scalar that of the first lane, as a vector that of each."""
    assert w.lane is not None
    w.bind(var, index)
    width = w.lane.width
    w.lane.vectors[var] = w.emit(f"add <{width} x i64> {w.splat(index, 'i64', w.depth)}, {iota(width)}")


def _mask_is_cheap(stmts: Sequence[Stmt]) -> bool:
    """Whether the processor can mask all accesses, and no function is called lane by lane."""
    for s in stmts:
        match s:
            case loops.Load(_, buffer, _) | loops.Store(buffer, _, _, _):
                if BITS[buffer.dtype] < 32:
                    return False
            case loops.Compute(_, name, _):
                if name in ("floordiv", "mod", "powi", "atan2") or (name in LIBM and name not in FUNCTIONS):
                    return False
            case Loop():
                if not _mask_is_cheap(s.stmts):
                    return False
            case _:
                pass
    return True
