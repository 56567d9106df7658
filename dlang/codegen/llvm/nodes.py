"""Nodes of datatypes as LLVM text: making them in the arena, looking into them, and what drops them again."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen import loops
from dlang.codegen.abi import WRITE, Site
from dlang.codegen.llvm import collector, sanitizer, support
from dlang.codegen.llvm.accesses import byte_count, from_memory, to_memory
from dlang.codegen.llvm.assembly import Label
from dlang.codegen.llvm.host_calls import leave_if, put
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import memory_type
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Buffer, Slot
from dlang.diagnostics import Span
from dlang.ir.anf import Atom, Var, is_reference
from dlang.ir.types import dtype_of, product


# ---- the arena -------------------------------------------------------------------------------------------------------
def place_mark(w: Writer, var: Var) -> None:
    """Binds where the arena ends, before a loop that collects or releases. What was placed behind is no more."""
    top = _arena_top(w)
    pointer = w.in_context(support.ARENA_SEEN)
    seen = w.emit(f"load i64, ptr {pointer}")
    lower = w.emit(f"icmp ult i64 {top}, {seen}")
    w.code.append(f"  store i64 {w.emit(f'select i1 {lower}, i64 {top}, i64 {seen}')}, ptr {pointer}")
    w.bind(var, top)


def _arena_top(w: Writer) -> str:
    return w.emit(f"load i64, ptr {w.in_context(support.ARENA_TOP)}")


def release(w: Writer, mark: Var) -> None:
    w.code.append(f"  store i64 {w.values[mark]}, ptr {w.in_context(support.ARENA_TOP)}")


def _exhausted(w: Writer, span: Span | None) -> int:
    return w.new_site(Site("memory", "E0806", span=span))


def _take(w: Writer, bytes: int, span: Span | None) -> str:
    """The address of so many bytes at the end of the arena."""
    pointer = w.in_context(support.ARENA_TOP)
    top = w.emit(f"load i64, ptr {pointer}")
    end = w.emit(f"add i64 {top}, {bytes}")
    limit = w.emit(f"load i64, ptr {w.in_context(support.ARENA_LIMIT)}")
    over = w.emit(f"icmp ugt i64 {end}, {limit}")
    fine, grow, failing = w.label("fine"), w.label("grow"), w.label("failing")
    w.fork(over, grow, fine, cold=True)
    w.module.declare("dl_grow", "i1", "ptr", "i64")
    fits = w.name("fits")
    w.cold += [
        Label(grow),
        f"  {fits} = call i1 @dl_grow(ptr %ctx, i64 {end})",
        f"  br i1 {fits}, label %{fine}, label %{failing}",
        Label(failing),
        f"  store i64 {_exhausted(w, span)}, ptr %ctx",
        "  br label %fail",
    ]
    w.begin(fine)
    w.code.append(f"  store i64 {end}, ptr {pointer}")
    return top


def arena_allocate(w: Writer, stmt: loops.ArenaAllocate) -> None:
    kind = collector.OF_REFERENCES if is_reference(stmt.buffer.dtype) else collector.ARRAY
    bytes = byte_count(w, stmt.buffer.dtype, stmt.shape)
    w.module.declare("dl_room", "ptr", "ptr", "i64", "i64")
    pointer = w.emit(f"call ptr @dl_room(ptr %ctx, i64 {bytes}, i64 {kind})")
    w.bind(stmt.buffer, pointer)
    w.held.add(stmt.buffer)
    leave_if(w, w.emit(f"icmp eq ptr {pointer}, null"), _exhausted(w, stmt.span), ())


# ---- nodes -----------------------------------------------------------------------------------------------------------
def node(w: Writer, stmt: loops.Node) -> None:
    """A node in the arena: a header, its references, its scalars. One without fields is a constant."""
    count = len(stmt.references) + len(stmt.scalars)
    header = collector.node_header(stmt.tag, len(stmt.references), count)
    if not count:
        w.bind(stmt.var, _constant(w, header))
        return
    top = _take(w, 8 * (count + 1), stmt.span)
    base = w.emit(f"inttoptr i64 {top} to ptr")
    w.code.append(f"  store i64 {header}, ptr {base}")
    ops = w.ops()
    for k, value in enumerate((*stmt.references, *stmt.scalars)):
        address = w.emit(f"getelementptr i64, ptr {base}, i64 {k + 1}")
        if isinstance(value, Buffer):
            w.code.append(f"  store ptr {w.values[value]}, ptr {address}")
        else:
            dtype = dtype_of(value)
            w.code.append(f"  store {memory_type(dtype)} {to_memory(ops, w.scalar(value), dtype)}, ptr {address}")
    w.bind(stmt.var, w.emit(f"add i64 {top}, 8"))


def _constant(w: Writer, header: int) -> str:
    """The handle of a node without fields: one for the module, outside of the arena."""
    name = f"@node.{header}"
    w.module.helpers[name] = f"{name} = private constant [2 x i64] [i64 {header}, i64 0], align 8"
    return f"ptrtoint (ptr getelementptr (i64, ptr {name}, i64 1) to i64)"


def _address(w: Writer, handle: Atom, word: int) -> str:
    base = w.emit(f"inttoptr i64 {w.scalar(handle)} to ptr")
    return w.emit(f"getelementptr i64, ptr {base}, i64 {word}") if word else base


def load_tag(w: Writer, var: Var, handle: Atom) -> None:
    sanitizer.node(w, handle, -1)
    header = w.emit(f"load i64, ptr {_address(w, handle, -1)}")
    shifted = w.emit(f"lshr i64 {header}, {collector.TAG_SHIFT}")
    w.bind(var, w.emit(f"and i64 {shifted}, {collector.TAG_MASK}"))


def load_field(w: Writer, slot: Slot, handle: Atom, word: int) -> None:
    sanitizer.node(w, handle, word)
    address = _address(w, handle, word)
    if isinstance(slot, Buffer):
        w.held.add(slot)
        w.bind(slot, w.emit(f"load ptr, ptr {address}"))
    else:
        dtype = dtype_of(slot)
        w.bind(slot, from_memory(w.ops(), w.emit(f"load {memory_type(dtype)}, ptr {address}"), dtype))


# ---- collection ------------------------------------------------------------------------------------------------------
def collect(w: Writer, stmt: loops.Collect) -> None:
    """Has the collector run where the arena has grown beyond the trigger."""
    trigger = w.values[stmt.trigger]
    over = w.emit(f"icmp ugt i64 {_arena_top(w)}, {trigger}")
    collecting, done = w.label("collect"), w.label("done")
    before = w.block
    w.fork(over, collecting, done, cold=True)
    code, w.code = w.code, []
    w.conditional += 1
    w.begin(collecting)
    moved, following = _call(w, stmt)
    w.conditional -= 1
    leaving = w.block
    w.jump(done)
    w.cold += w.code
    w.code = code
    w.begin(done)
    for var, old, new in zip(stmt.results, stmt.handles, moved, strict=True):
        w.bind(var, w.emit(f"phi i64 [ {w.scalar(old)}, %{before} ], [ {new}, %{leaving} ]"))
    w.bind(stmt.following, w.emit(f"phi i64 [ {trigger}, %{before} ], [ {following}, %{leaving} ]"))


def _call(w: Writer, stmt: loops.Collect) -> tuple[Sequence[str], str]:
    """The handles after a collection, and the next trigger. Its roots are ranges of references: handles are one."""
    sanitizer.operands(w, WRITE, stmt.arrays)
    first = 2 * (len(stmt.arrays) + 1)
    arrays = w.emit(f"getelementptr i64, ptr %slots, i64 {first}")
    put(w, w.emit(f"ptrtoint ptr {arrays} to i64"), "%slots", 0)
    put(w, str(len(stmt.handles)), "%slots", 1)
    for k, array in enumerate(stmt.arrays):
        put(w, w.emit(f"ptrtoint ptr {w.values[array.buffer]} to i64"), "%slots", 2 * k + 2)
        put(w, size_value(w, product(array.shape)), "%slots", 2 * k + 3)
    for k, handle in enumerate(stmt.handles):
        put(w, w.scalar(handle), "%slots", first + k)
    w.slots = max(w.slots, first + len(stmt.handles))
    w.module.declare("dl_collect", "i64", "ptr", "i64", "ptr", "i64")
    ranges = len(stmt.arrays) + 1
    mark = w.values[stmt.mark]
    following = w.emit(f"call i64 @dl_collect(ptr %ctx, i64 {mark}, ptr %slots, i64 {ranges})")
    moved = []
    for k in range(len(stmt.handles)):
        address = w.emit(f"getelementptr i64, ptr %slots, i64 {first + k}")
        moved.append(w.emit(f"load i64, ptr {address}"))
    return moved, following
