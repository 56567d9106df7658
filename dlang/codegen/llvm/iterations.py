"""Loops of independent iterations: one by one, or several lanes at once.

A loop of lanes is a main loop of whole vectors, then what is left: iterations with a mask, or, where a mask would be
expensive, a loop of vectors of one register and then of single iterations. Where a guard may fail, single iterations
follow at once: the main loop then leaves before the iterations in which it does, and they report the first. Where two
copies of the body would be long, or the loop is to be short, all iterations have a mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlang.codegen import loops
from dlang.codegen.abi import WRITE
from dlang.codegen.jam import Jam, jammed
from dlang.codegen.llvm import sanitizer
from dlang.codegen.llvm.accesses import allocate, element_address, free, has_room
from dlang.codegen.llvm.assembly import Label, Line
from dlang.codegen.llvm.indices import bounds, size_value
from dlang.codegen.llvm.reductions import accumulate, accumulator_types, finish, first_totals, folded, horizontal
from dlang.codegen.llvm.safepoints import chunk, look, look_every
from dlang.codegen.llvm.scalars import BITS, bits, iota
from dlang.codegen.llvm.writer import LaneContext, Writer
from dlang.codegen.loops import Loop, Stmt
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import known_iterations, lanes_inside
from dlang.ir.anf import Lit, Var, poly
from dlang.ops import figures

NARROW = 8  # lanes for whose mask numbers of 64 bits are compared
LANES_PER_ITERATION = 4  # vectors go so much faster


def loop(w: Writer, stmt: loops.Loop) -> None:
    """A loop of independent iterations; its totals are bound behind it, those of no iterations too."""
    low, high = bounds(w, stmt.lows, stmt.highs)
    start = first_totals(w, stmt.reductions)
    pre, done = w.label("pre"), w.label("done")
    entering = w.block
    certain = (known_iterations(stmt) or 0) > 0
    ahead = w.ahead_of(pre)
    first = w.label("scratch") if stmt.scratch else ahead
    if certain:
        w.jump(first)
    else:
        w.fork(w.emit(f"icmp slt i64 {low}, {high}"), first, done)
    if stmt.scratch:
        w.begin(first)
        for memory in stmt.scratch:
            allocate(w, memory)
        w.jump(ahead)
    outer = w.code
    with w.scope(loads=True) as scope:
        w.code = []
        w.depths.update((s.buffer, w.depth) for s in stmt.scratch)  # another array in each iteration, in one place
        cleared = _cleared(stmt) if w.lane is None else None
        if cleared is not None:
            totals = _clear(w, stmt, cleared, low, high)
        elif stmt.lanes > 1 and w.lane is None and stmt.masked and _can_mask(w, stmt.stmts):
            totals = _masked_loop(w, stmt, low, high, pre)
        elif stmt.lanes > 1 and w.lane is None and not stmt.short:
            totals = _vector_loop(w, stmt, low, high, start, pre)
        else:
            totals = _one_lane(w, stmt, low, high, start, pre)
        inner, w.code = w.code, outer
    leaving = w.block
    w.begin_ahead(ahead, pre, scope)
    w.code += inner
    w.block = leaving
    for memory in stmt.scratch:
        free(w, memory.buffer)
    leaving = w.block
    w.jump(done)
    w.begin(done)
    finish(w, stmt.reductions, start, "" if certain else entering, totals, leaving)


def _cleared(stmt: Loop) -> loops.Store | None:
    """Returns the store of a loop that only stores zeros side by side."""
    match stmt.stmts:
        case (loops.Store(_, offset, Lit(value), "set") as store,) if not stmt.reductions:
            zero = not isinstance(value, str) and value == 0 and not str(value).startswith("-")
            return store if zero and not (offset - poly(stmt.var)).mentions((stmt.var,)) else None
        case _:
            return None


def _clear(w: Writer, stmt: Loop, store: loops.Store, low: str, high: str) -> list[str]:
    """Stores the zeros of all iterations."""
    w.bind(stmt.var, low)
    address = element_address(w, store.buffer, store.offset)
    bytes = w.emit(f"mul i64 {w.emit(f'sub i64 {high}, {low}')}, {bits(store.buffer.dtype) // 8}")
    sanitizer.inside(w, WRITE, store.buffer, address, bytes)
    w.module.declare("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1 immarg")
    w.code.append(f"  call void @llvm.memset.p0.i64(ptr {address}, i8 0, i64 {bytes}, i1 false)")
    return []


def _one_lane(w: Writer, stmt: Loop, low: str, high: str, start: Sequence[str], entering: str) -> list[str]:
    """The loop, with at least one iteration, one by one or several interleaved; gives the totals."""
    jam = jammed(stmt) if w.lane is None else None
    if jam is None:
        return _iterations(w, stmt, low, high, start, entering)
    return _jammed_loop(w, stmt, jam, low, high, start, entering)


def _iterations(w: Writer, stmt: loops.Loop, low: str, high: str, start: Sequence[str], entering: str) -> list[str]:
    """The loop itself, at least one iteration, one by one (in a loop of lanes: for all of them); gives the totals."""
    head, latch, after = w.label("head"), w.label("latch"), w.label("after")
    w.jump(head)
    return _rounds(w, stmt, Jam(1, stmt.stmts, (stmt.reductions,)), (head, latch, after), low, high, start, entering)


def _rounds(
    w: Writer,
    stmt: Loop,
    jam: Jam,
    labels: tuple[str, str, str],
    low: str,
    high: str,
    start: Sequence[str],
    entering: str,
) -> list[str]:
    """A loop of rounds, each of so many iterations at once, of which there is one at least; gives the totals.

    labels: where a round begins, where it ends, and what comes behind the last.
    """
    head, latch, after = labels
    index, following = w.name("i"), w.name("i")
    types = accumulator_types(w, stmt.reductions)
    names = [w.name("a") for _ in types]
    w.begin(head)
    position = len(w.code)
    w.bind(stmt.var, index)
    w.statements(jam.stmts)
    totals: list[str] = names
    for reductions in jam.reductions:
        totals = accumulate(w, reductions, totals)
    carried = [("i64", index, low, following), *zip(types, names, start, totals, strict=True)]
    w.code[position:position] = _phis(carried, entering, latch)
    iterations = chunk(stmt.stmts)
    if not _few(stmt, iterations):
        look_every(w, index, iterations, jam.rows)
    w.jump(latch)
    w.begin(latch)
    w.code.append(f"  {following} = add nsw i64 {index}, {jam.rows}")
    w.fork(w.emit(f"icmp slt i64 {following}, {high}"), head, after)
    w.begin(after)
    return totals


def _jammed_loop(
    w: Writer, stmt: Loop, jam: Jam, low: str, high: str, start: Sequence[str], entering: str
) -> list[str]:
    """The loop with at least one iteration, several iterations at once and the last ones one by one; gives the
    totals."""
    head, latch, remaining, tail, over = (w.label(s) for s in ("rows", "latch", "rest", "tail", "over"))
    count = w.emit(f"sub i64 {high}, {low}")
    main = w.emit(f"and i64 {count}, {-jam.rows}")
    middle = w.emit(f"add i64 {low}, {main}")
    w.fork(w.emit(f"icmp ne i64 {main}, 0"), head, remaining)
    totals = _rounds(w, stmt, jam, (head, latch, remaining), low, middle, start, entering)
    types = accumulator_types(w, stmt.reductions)
    edges = [("i64", low, middle), *zip(types, start, totals, strict=True)]
    merged = _merged(w, edges, entering, latch)
    w.fork(w.emit(f"icmp slt i64 {merged[0]}, {high}"), tail, over)
    w.begin(tail)
    last = _iterations(w, stmt, merged[0], high, merged[1:], tail)
    after = w.block
    w.jump(over)
    w.begin(over)
    return _merged(w, zip(types, merged[1:], last, strict=True), remaining, after)


def _vector_loop(w: Writer, stmt: Loop, low: str, high: str, start: Sequence[str], entering: str) -> list[str]:
    """Writes the loop, which has at least one iteration; gives the totals of its reductions."""
    width = stmt.lanes
    known = known_iterations(stmt)
    if known is not None and known < width and _can_mask(w, stmt.stmts):
        return _one_partial(w, stmt, low, known)
    exact = known is not None and known > 0 and known % width == 0 and not (stmt.few or _may_bail(stmt.stmts))
    head, latch, remaining, bail = (w.label(s) for s in ("vector", "latch", "rest", "bail"))
    count = w.emit(f"sub i64 {high}, {low}")
    main = w.emit(f"and i64 {count}, {-width}")
    for size in stmt.few:
        few = w.emit(f"icmp slt i64 {size_value(w, size)}, {figures.FEW_INSIDE}")
        main = w.emit(f"select i1 {few}, i64 {main}, i64 0")
    middle = w.emit(f"add i64 {low}, {main}")
    span = 0 if _few(stmt, chunk(stmt.stmts)) else chunk(stmt.stmts) * LANES_PER_ITERATION
    begin = _chunk_end(w, low, span, middle) if span else middle
    if exact:
        w.jump(head)
    else:
        w.fork(w.emit(f"icmp ne i64 {main}, 0"), head, remaining)

    context = LaneContext(stmt.var, width, None, bail, {}, asks=has_room(w, stmt))
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
        w.cold += [Label(head), *look(w, again)]
        w.begin(turn)
    more = w.emit(f"icmp slt i64 {following}, {middle}")
    if exact:
        w.fork(more, head, remaining)
        w.begin(remaining)
        totals = horizontal(w, stmt.reductions, totals)
        w.lane = None
        return totals
    masked = _mask_is_cheap(w, stmt.stmts) and not lanes_inside(stmt.stmts)
    if not context.bailed and (masked or stmt.tail):
        behind = w.label("behind")
        w.fork(more, head, behind)
        return _rest(w, stmt, (low, middle, high), (entering, behind, remaining), totals, masked)
    done, tail = w.label("whole"), w.label("tail")
    w.fork(more, head, done)
    w.begin(done)
    reduced = horizontal(w, stmt.reductions, totals)
    w.jump(remaining)
    edges = [(low, list(start), entering), (middle, reduced, done)]
    if context.bailed:
        w.begin(bail)
        edges.append((index, horizontal(w, stmt.reductions, names), bail))
        w.jump(remaining)
    w.lane = None
    w.begin(remaining)
    merged = [w.emit("phi i64 " + ", ".join(f"[ {i}, %{block} ]" for i, _, block in edges))]
    for k, type in enumerate(accumulator_types(w, stmt.reductions)):
        merged.append(w.emit(f"phi {type} " + ", ".join(f"[ {xs[k]}, %{block} ]" for _, xs, block in edges)))
    over = w.label("over")
    w.fork(w.emit(f"icmp slt i64 {merged[0]}, {high}"), tail, over)
    w.begin(tail)
    last = _one_lane(w, stmt, merged[0], high, merged[1:], tail)
    after = w.block
    w.jump(over)
    w.begin(over)
    return _merged(w, zip(accumulator_types(w, stmt.reductions), merged[1:], last, strict=True), remaining, after)


def _one_partial(w: Writer, stmt: Loop, low: str, count: int) -> list[str]:
    """All iterations of a loop that has fewer than there are lanes."""
    width = stmt.lanes
    partial = w.label("partial")
    w.jump(partial)
    w.begin(partial)
    mask = ", ".join(f"i1 {'true' if k < count else 'false'}" for k in range(width))
    w.lane = LaneContext(stmt.var, width, f"<{mask}>", "", {})
    first = first_totals(w, stmt.reductions)
    _bind_lanes(w, stmt.var, low)
    w.statements(stmt.stmts)
    totals = horizontal(w, stmt.reductions, accumulate(w, stmt.reductions, first, masked=True))
    w.lane = None
    return totals


def _masked_loop(w: Writer, stmt: Loop, low: str, high: str, entering: str) -> list[str]:
    """All iterations of a loop of lanes, at least one, each with a mask unless whole vectors are known to be enough."""
    known = known_iterations(stmt)
    if known is not None and known < stmt.lanes:
        return _one_partial(w, stmt, low, known)
    w.lane = LaneContext(stmt.var, stmt.lanes, None, "", {}, asks=has_room(w, stmt))
    masked = known is None or known % stmt.lanes > 0
    totals = _lane_iterations(w, stmt, low, high, entering, first_totals(w, stmt.reductions), masked, chunk(stmt.stmts))
    totals = horizontal(w, stmt.reductions, totals)
    w.lane = None
    return totals


def _lane_iterations(
    w: Writer, stmt: Loop, low: str, high: str, entering: str, start: Sequence[str], masked: bool, looks: int = 0
) -> list[str]:
    """A loop of lanes, as many as the context says, with at least one iteration; gives the accumulators.

    looks: looks up once in so many times the lanes, unless it is 0 or the loop is over before.
    """
    assert w.lane is not None
    width = w.lane.width
    head, latch, after = w.label("head"), w.label("latch"), w.label("after")
    index, following = w.name("i"), w.name("i")
    types = accumulator_types(w, stmt.reductions)
    names = [w.name("a") for _ in types]
    w.jump(head)
    w.begin(head)
    position = len(w.code)
    _bind_lanes(w, stmt.var, index)
    if masked:
        _mask_from(w, index, high)
    w.statements(stmt.stmts)
    totals = accumulate(w, stmt.reductions, names, masked=True)
    carried = [("i64", index, low, following), *zip(types, names, start, totals, strict=True)]
    w.code[position:position] = _phis(carried, entering, latch)
    if looks and not _few(stmt, looks):
        look_every(w, index, looks * width, width)
    w.jump(latch)
    w.begin(latch)
    w.code.append(f"  {following} = add nsw i64 {index}, {width}")
    w.fork(w.emit(f"icmp slt i64 {following}, {high}"), head, after)
    w.begin(after)
    return totals


def _mask_from(w: Writer, index: str, high: str) -> None:
    """Masks the lanes that are not below a bound."""
    assert w.lane is not None
    width = w.lane.width
    left, type = w.emit(f"sub i64 {high}, {index}"), "i64"
    if width > NARROW:  # so that fewer registers are compared
        left = w.emit(f"trunc i64 {w.ops().intrinsic('smin', 'i64', left, str(width))} to i32")
        type = "i32"
    limit = w.splat(left, type, w.depth)
    w.lane.mask = w.emit(f"icmp slt <{width} x {type}> {iota(width, type)}, {limit}")


def _can_mask(w: Writer, stmts: Sequence[Stmt]) -> bool:
    return _mask_is_cheap(w, stmts) and not _may_bail(stmts)


def _may_bail(stmts: Sequence[Stmt]) -> bool:
    return any(isinstance(s, loops.Assert) for s in walk(stmts))


def _few(stmt: Loop, iterations: int) -> bool:
    """Tells whether a loop is known to end before its first safepoint."""
    known = known_iterations(stmt)
    return known is not None and known <= iterations


def _chunk_end(w: Writer, low: str, span: int, middle: str) -> str:
    return w.ops().intrinsic("smin", "i64", w.emit(f"add nsw i64 {low}, {span}"), middle)


def _another_chunk(w: Writer, again: str, head: str, following: str, later: str, span: int, middle: str) -> list[Line]:
    """The block that goes on with the next chunk of iterations."""
    w.module.declare("llvm.smin.i64", "i64", "i64", "i64")
    far = w.name("far")
    return [
        Label(again),
        f"  {far} = add nsw i64 {following}, {span}",
        f"  {later} = call i64 @llvm.smin.i64(i64 {far}, i64 {middle})",
        f"  br label %{head}",
    ]


def _rest(
    w: Writer,
    stmt: Loop,
    ends: tuple[str, str, str],
    labels: tuple[str, str, str],
    totals: Sequence[str],
    masked: bool,
) -> list[str]:
    """The iterations that do not fill a vector: one with a mask, or several if fewer lanes than before go at once;
    without masks such of fewer lanes, and the last one by one.

    ends: of the loop, with that of the whole vectors in between. labels: of the block from which no whole vector
    is made, the one that follows the last, and the one for the rest.
    """
    assert w.lane is not None
    (low, middle, high), (entering, behind, remaining) = ends, labels
    few, whole = w.label("few"), w.label("whole")
    w.begin(behind)
    if 0 < stmt.tail < w.lane.width:
        totals = folded(w, stmt.reductions, totals, stmt.tail)
        w.lane = LaneContext(stmt.var, stmt.tail, None, "", {})
    w.jump(remaining)
    w.begin(remaining)
    types, first = accumulator_types(w, stmt.reductions), first_totals(w, stmt.reductions)
    edges = [("i64", low, middle), *zip(types, first, totals, strict=True)]
    index, *before = _merged(w, edges, entering, behind)
    end = high
    if not masked:
        left = w.emit(f"and i64 {w.emit(f'sub i64 {high}, {index}')}, {-stmt.tail}")
        end = w.emit(f"add nsw i64 {index}, {left}")
    w.fork(w.emit(f"icmp slt i64 {index}, {end}"), few, whole)
    w.begin(few)
    if w.lane.width < stmt.lanes:
        after = _lane_iterations(w, stmt, index, end, few, before, masked)
    else:
        _bind_lanes(w, stmt.var, index)
        _mask_from(w, index, high)
        w.statements(stmt.stmts)
        after = accumulate(w, stmt.reductions, before, masked=True)
    leaving = w.block
    w.jump(whole)
    w.begin(whole)
    reduced = horizontal(w, stmt.reductions, _merged(w, zip(types, before, after, strict=True), remaining, leaving))
    w.lane = None
    if masked:
        return reduced
    single, over = w.label("single"), w.label("over")
    entering = w.block
    w.fork(w.emit(f"icmp slt i64 {end}, {high}"), single, over)
    w.begin(single)
    last = _iterations(w, stmt, end, high, reduced, single)
    leaving = w.block
    w.jump(over)
    w.begin(over)
    return _merged(w, zip(accumulator_types(w, stmt.reductions), reduced, last, strict=True), entering, leaving)


def _phis(carried: Iterable[tuple[str, str, str, str]], entering: str, latch: str) -> list[str]:
    """Returns the phis at a loop's head, from (type, name, initial value, value after an iteration) of its state."""
    return [f"  {name} = phi {type} [ {x}, %{entering} ], [ {y}, %{latch} ]" for type, name, x, y in carried]


def _merged(w: Writer, values: Iterable[tuple[str, str, str]], before: str, after: str) -> list[str]:
    """Values that come from one of two blocks: of each (type, from the first, from the second)."""
    return [w.emit(f"phi {type} [ {x}, %{before} ], [ {y}, %{after} ]") for type, x, y in values]


def _bind_lanes(w: Writer, var: Var, index: str) -> None:
    """The loop's variable: as a scalar that of the first lane, as a vector that of each."""
    assert w.lane is not None
    w.bind(var, index)
    width = w.lane.width
    w.bind_lanes(var, w.emit(f"add <{width} x i64> {w.splat(index, 'i64', w.depth)}, {iota(width)}"))


def _mask_is_cheap(w: Writer, stmts: Sequence[Stmt]) -> bool:
    """Tells whether the processor can mask all accesses, and no function is called lane by lane."""
    least = 8 if w.module.processor.avx512 else 32
    for s in walk(stmts):
        match s:
            case loops.Load(_, buffer, _) | loops.Store(buffer, _, _, _):
                if BITS[buffer.dtype] < least:
                    return False
            case loops.Compute(_, name, _):
                if name in ("floordiv", "mod", "powi", "atan2"):
                    return False
            case _:
                pass
    return True
