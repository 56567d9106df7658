"""Launches of kernels, which are work of the host: it is handed what the kernel's parameters stand for, as words."""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.llvm import support
from dlang.codegen.llvm.crossings import leave_if, new_site, pack, put, signatures
from dlang.codegen.llvm.sites import LAUNCH, Signature, Site
from dlang.codegen.llvm.writer import Writer


def launch(w: Writer, stmt: loops.Launch) -> None:
    """The words are the number of trips and the arguments."""
    first = len(w.sites)
    for guard in stmt.guards:
        new_site(w, Site("check", guard.code, guard.parts, signatures(guard.values), span=guard.span))
    word = pack(w, stmt.trips, "%slots", 0)
    for value in stmt.args:
        if isinstance(value, loops.Buffer):
            put(w, w.emit(f"ptrtoint ptr {w.values[value]} to i64"), "%slots", word)
            word += 1
        else:
            word = pack(w, value, "%slots", word)
    args = (Signature("i64", 0),) * word
    number = new_site(w, Site("runtime", LAUNCH, (str(stmt.kernel), str(first)), args, (), ()))
    w.slots = max(w.slots, word)
    status = w.emit(f"call i32 @dl_callback(ptr %ctx, i64 {number}, ptr %slots)")
    leave_if(w, w.emit(f"icmp ne i32 {status}, {support.FINE}"), number, ())
