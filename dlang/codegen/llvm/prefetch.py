"""Arrays that a loop reads from one end to the other: it asks for what later iterations read.

Processors do so on their own, but not beyond the end of a page, and not for memory that they have just begun to read.
Where an iteration takes long, they also see few iterations at a time.

A loop with long iterations, or with a sum that waits for its additions, asks for what it reads 2 KiB ahead, if that is
other memory in each iteration of the loops around.
"""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.llvm.scalars import BITS
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Buffer, Loop
from dlang.codegen.vectorize import is_float, known_iterations, work
from dlang.ir.anf import Size, Var
from dlang.ops import figures

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
