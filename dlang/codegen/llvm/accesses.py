"""Accesses to memory: an element, or one for each lane, which may lie side by side or anywhere; and room for arrays.

Arrays that a loop reads from one end to the other: it asks for what later iterations read.

Processors do so on their own, but not beyond the end of a page, and not for memory that they have just begun to read.
Where an iteration takes long, they also see few iterations at a time.

A loop with long iterations, or with a sum that waits for its additions, asks for what it reads 2 KiB ahead, if that is
other memory in each iteration of the loops around.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen import loops
from dlang.codegen.abi import READ, WRITE, Site
from dlang.codegen.llvm import half, sanitizer, support
from dlang.codegen.llvm.host_calls import leave_if
from dlang.codegen.llvm.indices import size_value, size_varies, size_vector, splat_size
from dlang.codegen.llvm.reductions import of_all_lanes
from dlang.codegen.llvm.scalars import BITS, Scalars, bits, iota, lanes, memory_type
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Buffer, Loop
from dlang.codegen.vectorize import is_float, known_iterations, work
from dlang.ir.anf import HALF, Size, Var
from dlang.ops import figures


def element_address(w: Writer, buffer: Buffer, offset: Size, depth: int | None = None) -> str:
    base = w.values[buffer]
    if not offset.terms:
        return base
    index = size_value(w, offset)
    return w.ops(depth).emit(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, i64 {index}")


def load(w: Writer, var: Var, buffer: Buffer, offset: Size) -> None:
    if size_varies(w, offset):
        _vector_load(w, var, buffer, offset)
        return
    depth = w.depth
    scope = w.scopes[-1] if w.scopes else None
    if scope is not None and scope.loads and scope.conditional == w.conditional:
        if w.depth_of([buffer, *offset.atoms()]) < depth:
            depth -= 1
    ops = w.ops(depth)
    address = _where_taken(w, element_address(w, buffer, offset, depth), "%nothing")
    sanitizer.element(w, READ, buffer, address, depth)
    value = ops.emit(f"load {memory_type(buffer.dtype)}, ptr {address}")
    w.bind(var, from_memory(ops, value, buffer.dtype), depth)


def _where_taken(w: Writer, address: str, other: str) -> str:
    """The address of an element, or another cell where predicated code does not take place: zero, or for stores."""
    if w.taken is None:
        return address
    w.spare = True
    return w.emit(f"select i1 {w.taken}, ptr {address}, ptr {other}, !unpredictable !2")


def store(w: Writer, stmt: loops.Store) -> None:
    buffer, offset = stmt.buffer, stmt.offset
    joined = w.lane is not None and stmt.monoid != "set" and not size_varies(w, offset)
    if not joined and (size_varies(w, offset) or w.varies(stmt.value)):
        _vector_store(w, stmt)
        return
    ops = w.ops()
    type = memory_type(buffer.dtype)
    value = of_all_lanes(w, stmt.monoid, buffer.dtype, w.vector(stmt.value)) if joined else w.scalar(stmt.value)
    element = element_address(w, buffer, offset)
    address = _where_taken(w, element, "%nowhere")
    sanitizer.element(w, WRITE, buffer, address)
    if stmt.monoid != "set":
        source = _where_taken(w, element, "%nothing")
        old = from_memory(ops, ops.emit(f"load {type}, ptr {source}"), buffer.dtype)
        value = ops.combine(stmt.monoid, buffer.dtype, old, value)
    w.code.append(f"  store {type} {to_memory(ops, value, buffer.dtype)}, ptr {address}")


def from_memory(ops: Scalars, value: str, dtype: str) -> str:
    if dtype in HALF:
        return half.decode(ops, dtype, value)
    if dtype == "bool":  # whatever else than 0 a byte of another library is
        return ops.emit(f"icmp ne {lanes('i8', ops.width)} {value}, zeroinitializer")
    return value


def to_memory(ops: Scalars, value: str, dtype: str) -> str:
    if dtype in HALF:
        return half.encode(ops, dtype, value)
    return ops.emit(f"zext {ops.type('bool')} {value} to {lanes('i8', ops.width)}") if dtype == "bool" else value


def move(w: Writer, stmt: loops.Move) -> None:
    bytes = w.emit(f"mul i64 {size_value(w, stmt.count)}, {bits(stmt.target.dtype) // 8}")
    w.module.declare("llvm.memcpy.p0.p0.i64", "void", "ptr", "ptr", "i64", "i1 immarg")
    to, source = w.values[stmt.target], w.values[stmt.source]
    sanitizer.copied(w, stmt.source, source, stmt.target, to, bytes)
    w.code.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {bytes}, i1 false)")


def allocate(w: Writer, stmt: loops.Allocate) -> None:
    total = byte_count(w, stmt.buffer.dtype, stmt.shape)
    if stmt.buffer in w.local:
        name = w.name("own")
        w.room[name] = int(total)
        w.bind(stmt.buffer, name)
        return
    if stmt.extra:
        more = str(stmt.extra * (bits(stmt.buffer.dtype) // 8))
        total = w.ops().intrinsic("uadd.sat", "i64", total, more)
    pointer = w.emit(f"call ptr @{w.module.memory('dl_alloc', 'ptr', 'ptr', 'i64')}(ptr %ctx, i64 {total})")
    w.bind(stmt.buffer, pointer)
    site = support.OUT_OF_MEMORY if stmt.span is None else w.new_site(Site("memory", "E0806", span=stmt.span))
    leave_if(w, w.emit(f"icmp eq ptr {pointer}, null"), site, ())


def free(w: Writer, buffer: Buffer) -> None:
    if buffer in w.local:
        return
    sanitizer.alive(w, buffer)
    w.code.append(f"  call void @{w.module.memory('dl_free', 'void', 'ptr', 'ptr')}(ptr %ctx, ptr {w.values[buffer]})")


def part(w: Writer, stmt: loops.Slice) -> None:
    """The address of an element; for checks it is known by the array that it is in."""
    w.bind(stmt.result, element_address(w, stmt.source, stmt.offset))
    w.roots[stmt.result] = w.root(stmt.source)
    if stmt.source in w.held:
        w.held.add(stmt.result)


def byte_count(w: Writer, dtype: str, shape: Sequence[Size]) -> str:
    """The bytes of an array; -1 if they can't be counted, 0 where a size is negative, which what fills it refuses."""
    known = bits(dtype) // 8
    for size in shape:
        if size.constant is not None:
            known *= int(size.constant)
    total = str(known) if known < 2**62 else "-1"
    for size in shape:
        if size.constant is not None:
            continue
        value = w.ops().intrinsic("smax", "i64", size_value(w, size), "0")
        if size.atom is None:
            value = w.emit(f"select i1 {is_too_large(w, size)}, i64 -1, i64 {value}")
        total = w.emit(f"call i64 @dl_times(i64 {value}, i64 {total})")
    return total


def is_too_large(w: Writer, size: Size) -> str:
    """Emits a test whether a polynomial, estimated as a float, is so large that its i64 value may have wrapped."""
    ops = w.ops()
    total = ops.constant(0.0, "f64")
    for monomial, c in size.terms.items():
        term = ops.constant(abs(float(c)), "f64")
        for atom in monomial:
            term = ops.binary("fmul", "f64", term, ops.convert(w.scalar(atom), "i64", "f64"))
        total = ops.binary("fadd", "f64", total, ops.intrinsic("fabs", "f64", term))
    return ops.compare("ogt", "f64", total, ops.constant(2.0**62, "f64"))


# ---- in lanes --------------------------------------------------------------------------------------------------------
def _step(w: Writer, offset: Size) -> Size | None:
    """How far apart neighbouring lanes are; None if that differs."""
    assert w.lane is not None
    if any(w.varies(a) and a is not w.lane.var for a in offset.atoms()):
        return None
    try:
        step: Size = offset.coefficient(w.lane.var)
    except ValueError:
        return None
    return step


def _addresses(w: Writer, buffer: Buffer, offset: Size, step: Size | None) -> str:
    assert w.lane is not None
    width = w.lane.width
    if step is None:
        index = size_vector(w, offset)
    else:
        ops = w.ops(width=width)
        spread = ops.binary("mul", "i64", iota(width), splat_size(w, step))
        index = ops.binary("add", "i64", spread, w.splat(size_value(w, offset), "i64", w.depth))
    base = w.values[buffer]
    return w.emit(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, <{width} x i64> {index}")


def _reversed(w: Writer, value: str, type: str) -> str:
    assert w.lane is not None
    width = w.lane.width
    order = ", ".join(f"i32 {k}" for k in range(width - 1, -1, -1))
    return w.emit(f"shufflevector <{width} x {type}> {value}, <{width} x {type}> poison, <{width} x i32> <{order}>")


def _mask(w: Writer) -> str:
    assert w.lane is not None
    return w.lane.mask or "splat (i1 true)"


def _one_by_one_or_masked(w: Writer, addresses: str, other: str) -> tuple[str, str]:
    """Addresses of elements anywhere, and the mask under which they are accessed: where the processor accesses them one
    by one, LLVM would have a jump for each lane of a mask, so lanes that are not in use have another cell instead.
    Code that is sanitised has no such cell."""
    assert w.lane is not None
    mask = w.lane.mask
    if mask is None or w.module.processor.gathers or w.module.sanitizes:
        return addresses, _mask(w)
    w.spare = True
    pointers = f"<{w.lane.width} x ptr>"
    chosen = f"<{w.lane.width} x i1> {mask}, {pointers} {addresses}, {pointers} {w.splat(other, 'ptr', 0)}"
    return w.emit(f"select {chosen}"), "splat (i1 true)"


def _suffix(dtype: str, width: int) -> str:
    return f"v{width}" + (dtype if dtype in ("f64", "f32") else memory_type(dtype))


def load_vector(w: Writer, buffer: Buffer, width: int, address: str, mask: str | None) -> str:
    """Elements that lie side by side; where a mask is false, zeros that are not read."""
    dtype = buffer.dtype
    type, align = f"<{width} x {memory_type(dtype)}>", BITS[dtype] // 8
    sanitizer.vector(w, READ, buffer, address, width, mask)
    if mask is None:
        return w.emit(f"load {type}, ptr {address}, align {align}")
    name = f"llvm.masked.load.{_suffix(dtype, width)}.p0"
    w.module.declare(name, type, "ptr", f"<{width} x i1>", type)
    return w.emit(f"call {type} @{name}(ptr align {align} {address}, <{width} x i1> {mask}, {type} zeroinitializer)")


def store_vector(w: Writer, buffer: Buffer, width: int, value: str, address: str, mask: str | None) -> None:
    """Stores elements side by side, those where a mask is true."""
    dtype = buffer.dtype
    type, align = f"<{width} x {memory_type(dtype)}>", BITS[dtype] // 8
    sanitizer.vector(w, WRITE, buffer, address, width, mask)
    if mask is None:
        w.code.append(f"  store {type} {value}, ptr {address}, align {align}")
        return
    name = f"llvm.masked.store.{_suffix(dtype, width)}.p0"
    w.module.declare(name, "void", type, "ptr", f"<{width} x i1>")
    w.code.append(f"  call void @{name}({type} {value}, ptr align {align} {address}, <{width} x i1> {mask})")


def _vector_load(w: Writer, var: Var, buffer: Buffer, offset: Size) -> None:
    """An element for each lane."""
    assert w.lane is not None
    step = _step(w, offset)
    value = _lanes_load(w, buffer, offset, step)
    w.bind_lanes(var, from_memory(w.ops(width=w.lane.width), value, buffer.dtype))


def _lanes_load(w: Writer, buffer: Buffer, offset: Size, step: Size | None) -> str:
    assert w.lane is not None
    width, mask = w.lane.width, w.lane.mask
    scalar = memory_type(buffer.dtype)
    type, align = f"<{width} x {scalar}>", BITS[buffer.dtype] // 8
    if step is not None and step.constant in (1, -1):
        back = step == -1
        address = element_address(w, buffer, offset - (width - 1) if back else offset)
        if not back:
            ask_ahead(w, buffer, offset, address)
        if mask is not None and back:
            mask = _reversed(w, mask, "i1")
        value = load_vector(w, buffer, width, address, mask)
        return _reversed(w, value, scalar) if back else value
    addresses = _addresses(w, buffer, offset, step)
    sanitizer.anywhere(w, READ, buffer, addresses, width, _mask(w))
    name = f"llvm.masked.gather.{_suffix(buffer.dtype, width)}.v{width}p0"
    w.module.declare(name, type, f"<{width} x ptr>", f"<{width} x i1>", type)
    addresses, mask = _one_by_one_or_masked(w, addresses, "%nothing")
    pointers, lanes = f"<{width} x ptr> align {align} {addresses}", f"<{width} x i1> {mask}"
    return w.emit(f"call {type} @{name}({pointers}, {lanes}, {type} zeroinitializer)")


def _vector_store(w: Writer, stmt: loops.Store) -> None:
    """An element from each lane, to places that differ."""
    assert w.lane is not None
    width, mask, buffer = w.lane.width, w.lane.mask, stmt.buffer
    ops = w.ops(width=width)
    scalar = memory_type(buffer.dtype)
    type, align = f"<{width} x {scalar}>", BITS[buffer.dtype] // 8
    step = _step(w, stmt.offset)
    value = w.vector(stmt.value)
    if step is None and stmt.monoid != "set":
        _one_by_one(w, stmt, value)
        return
    if stmt.monoid != "set":
        old = from_memory(ops, _lanes_load(w, buffer, stmt.offset, step), buffer.dtype)
        value = ops.combine(stmt.monoid, buffer.dtype, old, value)
    value = to_memory(ops, value, buffer.dtype)
    if step is not None and step.constant in (1, -1):
        back = step == -1
        address = element_address(w, buffer, stmt.offset - (width - 1) if back else stmt.offset)
        if back:
            value = _reversed(w, value, scalar)
        if mask is not None and back:
            mask = _reversed(w, mask, "i1")
        store_vector(w, buffer, width, value, address, mask)
        return
    addresses = _addresses(w, buffer, stmt.offset, step)
    sanitizer.anywhere(w, WRITE, buffer, addresses, width, _mask(w))
    name = f"llvm.masked.scatter.{_suffix(buffer.dtype, width)}.v{width}p0"
    w.module.declare(name, "void", type, f"<{width} x ptr>", f"<{width} x i1>")
    addresses, mask = _one_by_one_or_masked(w, addresses, "%nowhere")
    pointers, lanes = f"<{width} x ptr> align {align} {addresses}", f"<{width} x i1> {mask}"
    w.code.append(f"  call void @{name}({type} {value}, {pointers}, {lanes})")


def _one_by_one(w: Writer, stmt: loops.Store, values: str) -> None:
    """Each lane joins what is in memory at a place of its own, which may be that of another: in the order of
    iterations."""
    assert w.lane is not None
    width, mask, dtype = w.lane.width, w.lane.mask, stmt.buffer.dtype
    ops, type = w.ops(), memory_type(dtype)
    addresses = _addresses(w, stmt.buffer, stmt.offset, None)
    sanitizer.anywhere(w, WRITE, stmt.buffer, addresses, width, _mask(w))
    for lane in range(width):
        join, over = w.label("join"), w.label("over")
        if mask is not None:
            w.fork(w.emit(f"extractelement <{width} x i1> {mask}, i32 {lane}"), join, over)
            w.begin(join)
        address = w.emit(f"extractelement <{width} x ptr> {addresses}, i32 {lane}")
        value = w.emit(f"extractelement {lanes(ops.type(dtype), width)} {values}, i32 {lane}")
        old = from_memory(ops, ops.emit(f"load {type}, ptr {address}"), dtype)
        new = to_memory(ops, ops.combine(stmt.monoid, dtype, old, value), dtype)
        w.code.append(f"  store {type} {new}, ptr {address}")
        if mask is not None:
            w.jump(over)
            w.begin(over)


# ---- prefetching -----------------------------------------------------------------------------------------------------
LINE = 64


def has_room(w: Writer, stmt: Loop) -> bool:
    """Tells whether an iteration of a loop of lanes takes so long that further instructions hardly count.

    A sum of the elements of one array waits for its additions.
    """
    count = known_iterations(stmt)
    if (
        stmt.short
        or (count is not None and count < figures.PREFETCH_FROM)
        or any(isinstance(s, Loop) for s in stmt.stmts)
    ):
        return False
    loads = [s for s in stmt.stmts if isinstance(s, loops.Load)]
    streams = [s for s in loads if _is_new(w, s.buffer, s.offset, stmt.var)]
    waits = len(loads) == 1 and any(is_float(r.value) for r in stmt.reductions)
    return bool(streams) and (waits or work(stmt.stmts) >= figures.PREFETCH_COVERED * len(streams))


def ask_ahead(w: Writer, buffer: Buffer, offset: Size, address: str) -> None:
    """Before the lanes of an iteration are read from an address: asks for those of later iterations, once for each
    stream.

    What a loop before has read, inside the same loop, is in the cache.
    """
    assert w.lane is not None
    if not w.lane.asks or not _is_new(w, buffer, offset, w.lane.var):
        return
    others = frozenset((m, c) for m, c in offset.terms.items() if m and w.lane.var not in m)
    asked = w.scopes[max(w.depth - 2, 0)].memo
    if ("asked", buffer, others) in asked:
        return
    asked["asked", buffer, others] = address
    w.module.declare("llvm.prefetch.p0", "void", "ptr", "i32 immarg", "i32 immarg", "i32 immarg")
    bytes = w.lane.width * BITS[buffer.dtype] // 8
    for line in range(0, bytes, LINE):
        later = w.emit(f"getelementptr i8, ptr {address}, i64 {figures.PREFETCH_DISTANCE + line}")
        w.code.append(f"  call void @llvm.prefetch.p0(ptr {later}, i32 0, i32 3, i32 1)")


def _is_new(w: Writer, buffer: Buffer, offset: Size, lane: Var) -> bool:
    """Tells whether adjacent elements are others in each iteration of the loops around the one at hand."""
    others = [a for a in offset.atoms() if a is not lane]
    if any(a not in w.depths for a in others) or not offset.mentions((lane,)):
        return False
    return w.depth == 1 or w.depth_of([buffer, *others]) > 0
