"""Loops of several lanes: a main loop of whole vectors, then what is left.

The rest is one more trip with a mask, or a loop of single trips where a mask would be dear, or where a guard may fail:
the main loop then leaves before the trips in which it does, and the loop of single trips reports the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlang.codegen import loops
from dlang.codegen.llvm.mathematics import FUNCTIONS
from dlang.codegen.llvm.scalars import BITS, LIBM, LLVM, Scalars, constant, memory_type
from dlang.codegen.loops import Buffer, Loop, Reduction, Stmt
from dlang.ir.anf import FLOATS, SIGNED, Scalar, Size, Var

if TYPE_CHECKING:
    from dlang.codegen.llvm.functions import FunctionEmitter


def vector_loop(e: FunctionEmitter, stmt: Loop, low: str, high: str, start: Sequence[str], entering: str) -> list[str]:
    """Writes the loop, which has at least one trip; gives the totals of its reductions."""
    from dlang.codegen.llvm.functions import LaneContext

    width = stmt.lanes
    head, latch, rest, bail = (e.label(s) for s in ("vector", "latch", "rest", "bail"))
    count = e.emit(f"sub i64 {high}, {low}")
    main = e.emit(f"and i64 {count}, {-width}")
    middle = e.emit(f"add i64 {low}, {main}")
    e.fork(e.emit(f"icmp ne i64 {main}, 0"), head, rest)

    context = LaneContext(stmt.var, width, "", None, bail, {})
    e.lane = context
    first = e.start(stmt.reductions)
    types = e.accumulator_types(stmt.reductions)
    names = [e.name("a") for _ in types]
    index, following = e.name("i"), e.name("i")
    e.begin(head)
    e.code.append(f"  {index} = phi i64 [ {low}, %{entering} ], [ {following}, %{latch} ]")
    position = len(e.code)
    _bind_lanes(e, stmt.var, index)
    e.statements(stmt.stmts)
    totals = e.accumulate(stmt.reductions, names)
    e.code[position:position] = [
        f"  {name} = phi {type} [ {x}, %{entering} ], [ {total}, %{latch} ]"
        for name, type, x, total in zip(names, types, first, totals, strict=True)
    ]
    e.jump(latch)
    e.begin(latch)
    e.code.append(f"  {following} = add nsw i64 {index}, {width}")
    more = e.emit(f"icmp slt i64 {following}, {middle}")
    if not context.bailed and _mask_is_cheap(stmt.stmts):
        e.fork(more, head, rest)
        return _masked_rest(e, stmt, low, high, middle, entering, rest, latch, types, first, totals)
    done, tail = e.label("whole"), e.label("tail")
    e.fork(more, head, done)
    e.begin(done)
    reduced = _horizontal(e, stmt.reductions, totals)
    e.jump(rest)
    edges = [(low, list(start), entering), (middle, reduced, done)]
    if context.bailed:
        e.begin(bail)
        edges.append((index, _horizontal(e, stmt.reductions, names), bail))
        e.jump(rest)
    e.lane = None
    e.begin(rest)
    merged = [e.emit("phi i64 " + ", ".join(f"[ {i}, %{block} ]" for i, _, block in edges))]
    for k, type in enumerate(e.accumulator_types(stmt.reductions)):
        merged.append(e.emit(f"phi {type} " + ", ".join(f"[ {xs[k]}, %{block} ]" for _, xs, block in edges)))
    over = e.label("over")
    e.fork(e.emit(f"icmp slt i64 {merged[0]}, {high}"), tail, over)
    e.begin(tail)
    last = e.trips(stmt, merged[0], high, merged[1:], tail)
    after = e.block
    e.jump(over)
    e.begin(over)
    out = []
    for type, before, value in zip(e.accumulator_types(stmt.reductions), merged[1:], last, strict=True):
        out.append(e.emit(f"phi {type} [ {before}, %{rest} ], [ {value}, %{after} ]"))
    return out


def _masked_rest(
    e: FunctionEmitter,
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
    assert e.lane is not None
    width = e.lane.width
    partial, over = e.label("partial"), e.label("over")
    e.begin(rest)
    index = e.emit(f"phi i64 [ {low}, %{entering} ], [ {middle}, %{latch} ]")
    before = []
    for type, x, total in zip(types, first, totals, strict=True):
        before.append(e.emit(f"phi {type} [ {x}, %{entering} ], [ {total}, %{latch} ]"))
    e.fork(e.emit(f"icmp slt i64 {index}, {high}"), partial, over)
    e.begin(partial)
    _bind_lanes(e, stmt.var, index)
    left = e.emit(f"sub i64 {high}, {index}")
    limit = e.splat(left, "i64", e.depth)
    e.lane.mask = e.emit(f"icmp slt <{width} x i64> {_iota(width)}, {limit}")
    e.statements(stmt.stmts)
    after = e.accumulate(stmt.reductions, before, masked=True)
    leaving = e.block
    e.jump(over)
    e.begin(over)
    merged = []
    for type, x, y in zip(types, before, after, strict=True):
        merged.append(e.emit(f"phi {type} [ {x}, %{rest} ], [ {y}, %{leaving} ]"))
    out = _horizontal(e, stmt.reductions, merged)
    e.lane = None
    return out


def _iota(width: int) -> str:
    return "<" + ", ".join(f"i64 {k}" for k in range(width)) + ">"


def _bind_lanes(e: FunctionEmitter, var: Var, index: str) -> None:
    """The loop's variable: as a scalar that of the first lane, as a vector that of each."""
    assert e.lane is not None
    e.bind(var, index)
    width = e.lane.width
    e.lane.vectors[var] = e.emit(f"add <{width} x i64> {e.splat(index, 'i64', e.depth)}, {_iota(width)}")


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


# ---- reductions across lanes -----------------------------------------------------------------------------------------
def _horizontal(e: FunctionEmitter, reductions: Sequence[Reduction], totals: Sequence[str]) -> list[str]:
    """The accumulators of all lanes as one."""
    assert e.lane is not None
    width = e.lane.width
    out: list[str] = []
    values = iter(totals)
    for r in reductions:
        assert isinstance(r.result.type, Scalar)
        dtype = r.result.type.dtype
        total = next(values)
        if r.position is not None:
            out += _horizontal_position(e, r.monoid, dtype, total, next(values))
            continue
        type = f"<{width} x {LLVM[dtype]}>"
        kind = dtype if dtype in FLOATS else LLVM[dtype]
        if dtype in FLOATS and r.monoid in ("sum", "prod"):
            name = f"llvm.vector.reduce.{'fadd' if r.monoid == 'sum' else 'fmul'}.v{width}{kind}"
            e.module.declare(name, LLVM[dtype], LLVM[dtype], type)
            neutral = constant(-0.0 if r.monoid == "sum" else 1.0, dtype)
            out.append(e.emit(f"call reassoc {LLVM[dtype]} @{name}({LLVM[dtype]} {neutral}, {type} {total})"))
            continue
        if dtype in FLOATS:
            stem = "fmaximum" if r.monoid == "max" else "fminimum"
        else:
            sign = "s" if dtype in SIGNED else "u"
            stem = {"sum": "add", "prod": "mul", "any": "or", "all": "and"}.get(r.monoid) or sign + r.monoid
        name = f"llvm.vector.reduce.{stem}.v{width}{kind}"
        e.module.declare(name, LLVM[dtype], type)
        out.append(e.emit(f"call {LLVM[dtype]} @{name}({type} {total})"))
    return out


def _horizontal_position(e: FunctionEmitter, monoid: str, dtype: str, values: str, ranks: str) -> list[str]:
    assert e.lane is not None
    width = e.lane.width
    ops = Scalars(e.module, e.code)
    best = rank = ""
    for lane in range(width):
        value = e.emit(f"extractelement <{width} x {LLVM[dtype]}> {values}, i64 {lane}")
        place = e.emit(f"extractelement <{width} x i64> {ranks}, i64 {lane}")
        if lane:
            wins = ops.better(monoid, dtype, value, place, best, rank)
            value, place = ops.select(wins, dtype, value, best), ops.select(wins, "i64", place, rank)
        best, rank = value, place
    return [best, rank]


# ---- memory ----------------------------------------------------------------------------------------------------------
def _step(e: FunctionEmitter, offset: Size) -> Size | None:
    """How far apart neighbouring lanes are; None if that differs."""
    assert e.lane is not None
    if any(e.varies(a) and a is not e.lane.var for a in offset.atoms()):
        return None
    try:
        step: Size = offset.coefficient(e.lane.var)
    except ValueError:
        return None
    return step


def _addresses(e: FunctionEmitter, buffer: Buffer, offset: Size, step: Size | None) -> str:
    assert e.lane is not None
    width = e.lane.width
    if step is None:
        index = e.vector_size(offset)
    else:
        ops = e.ops(width=width)
        spread = ops.binary("mul", "i64", _iota(width), e.splat_size(step))
        index = ops.binary("add", "i64", spread, e.splat(e.size(offset), "i64", e.depth))
    base = e.values[buffer]
    return e.emit(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, <{width} x i64> {index}")


def _reversed(e: FunctionEmitter, value: str, type: str) -> str:
    assert e.lane is not None
    width = e.lane.width
    order = ", ".join(f"i32 {k}" for k in range(width - 1, -1, -1))
    return e.emit(f"shufflevector <{width} x {type}> {value}, <{width} x {type}> poison, <{width} x i32> <{order}>")


def _mask(e: FunctionEmitter) -> str:
    assert e.lane is not None
    return e.lane.mask or "splat (i1 true)"


def _suffix(dtype: str, width: int) -> str:
    return f"v{width}{dtype if dtype in FLOATS else memory_type(dtype)}"


def vector_load(e: FunctionEmitter, var: Var, buffer: Buffer, offset: Size) -> None:
    """An element for each lane."""
    assert e.lane is not None
    step = _step(e, offset)
    value = _load(e, buffer, offset, step)
    e.lane.vectors[var] = e.from_memory(e.ops(width=e.lane.width), value, buffer.dtype)


def _load(e: FunctionEmitter, buffer: Buffer, offset: Size, step: Size | None) -> str:
    assert e.lane is not None
    width, mask = e.lane.width, e.lane.mask
    scalar = memory_type(buffer.dtype)
    type, align = f"<{width} x {scalar}>", BITS[buffer.dtype] // 8
    if step is not None and step.constant in (1, -1):
        back = step == -1
        address = e.address(buffer, offset - (width - 1) if back else offset)
        if mask is None:
            value = e.emit(f"load {type}, ptr {address}, align {align}")
        else:
            name = f"llvm.masked.load.{_suffix(buffer.dtype, width)}.p0"
            e.module.declare(name, type, "ptr", f"<{width} x i1>", type)
            lanes = _reversed(e, mask, "i1") if back else mask
            value = e.emit(
                f"call {type} @{name}(ptr align {align} {address}, <{width} x i1> {lanes}, {type} zeroinitializer)"
            )
        return _reversed(e, value, scalar) if back else value
    addresses = _addresses(e, buffer, offset, step)
    name = f"llvm.masked.gather.{_suffix(buffer.dtype, width)}.v{width}p0"
    e.module.declare(name, type, f"<{width} x ptr>", f"<{width} x i1>", type)
    pointers, lanes = f"<{width} x ptr> align {align} {addresses}", f"<{width} x i1> {_mask(e)}"
    return e.emit(f"call {type} @{name}({pointers}, {lanes}, {type} zeroinitializer)")


def vector_store(e: FunctionEmitter, stmt: loops.Store) -> None:
    """An element from each lane, to places that differ."""
    assert e.lane is not None
    width, mask, buffer = e.lane.width, e.lane.mask, stmt.buffer
    ops = e.ops(width=width)
    scalar = memory_type(buffer.dtype)
    type, align = f"<{width} x {scalar}>", BITS[buffer.dtype] // 8
    step = _step(e, stmt.offset)
    value = e.vector(stmt.value)
    if stmt.monoid != "set":
        old = e.from_memory(ops, _load(e, buffer, stmt.offset, step), buffer.dtype)
        value = ops.combine(stmt.monoid, buffer.dtype, old, value)
    value = e.to_memory(ops, value, buffer.dtype)
    if step is not None and step.constant in (1, -1):
        back = step == -1
        address = e.address(buffer, stmt.offset - (width - 1) if back else stmt.offset)
        if back:
            value = _reversed(e, value, scalar)
        if mask is None:
            e.code.append(f"  store {type} {value}, ptr {address}, align {align}")
            return
        name = f"llvm.masked.store.{_suffix(buffer.dtype, width)}.p0"
        e.module.declare(name, "void", type, "ptr", f"<{width} x i1>")
        lanes = _reversed(e, mask, "i1") if back else mask
        e.code.append(f"  call void @{name}({type} {value}, ptr align {align} {address}, <{width} x i1> {lanes})")
        return
    addresses = _addresses(e, buffer, stmt.offset, step)
    name = f"llvm.masked.scatter.{_suffix(buffer.dtype, width)}.v{width}p0"
    e.module.declare(name, "void", type, f"<{width} x ptr>", f"<{width} x i1>")
    pointers, lanes = f"<{width} x ptr> align {align} {addresses}", f"<{width} x i1> {_mask(e)}"
    e.code.append(f"  call void @{name}({type} {value}, {pointers}, {lanes})")
