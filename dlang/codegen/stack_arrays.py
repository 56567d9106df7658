"""Small arrays of a known size that need no memory of the heap: no more than the block that makes them uses them.

    &a = allocate f64[3]
    … &a[0], &a[1], &a[2] …
    free &a

A point, a colour or a row of sums lies on the stack. Where all places in it are known when its loops are written out,
LLVM keeps its elements in registers. An array that is handed on, to the next iteration or to the host, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlang.codegen import loops
from dlang.codegen.traverse import blocks, mentions, walk
from dlang.ir.anf import is_reference
from dlang.ir.terms import WIDTHS
from dlang.ir.types import is_fixed, product
from dlang.ops import figures


def stack_arrays(function: loops.Function) -> frozenset[loops.Buffer]:
    """The arrays of a function that may lie on the stack; none of a recursive one, which would need many of each."""
    if function.recursive:
        return frozenset()
    sizes = {a.buffer: bytes for a in _made_and_freed(function.body.stmts) if (bytes := _bytes(a)) is not None}
    if not sizes:
        return frozenset()
    whole: dict[loops.Value, loops.Buffer] = {buffer: buffer for buffer in sizes}
    handed = [r for r in function.body.results if r in whole]
    for stmt in walk(function.body.stmts):
        if isinstance(stmt, loops.Slice):
            if stmt.source in whole:
                whole[stmt.result] = whole[stmt.source]
        elif not _uses_in_place(stmt):
            handed += [v for v in mentions(stmt) if v in whole]
    for value in handed:
        sizes.pop(whole[value], None)
    room = figures.STACK_ROOM
    kept: list[loops.Buffer] = []
    for buffer, bytes in sizes.items():
        if bytes <= room:
            room -= bytes
            kept.append(buffer)
    return frozenset(kept)


def _uses_in_place(stmt: loops.Stmt) -> bool:
    """Tells whether a statement uses the memory of arrays only as long as it runs, and knows them by no other name."""
    if isinstance(stmt, loops.InOrder | loops.Branch):
        return False
    return stmt.IS.threads or isinstance(stmt, loops.Parallel)


def _made_and_freed(stmts: Sequence[loops.Stmt]) -> Iterator[loops.Allocate]:
    """The arrays that one list of statements, of those inside of these too, both makes and frees."""
    for block in (stmts, *[b for s in walk(stmts) for b in blocks(s)]):
        freed = {s.buffer for s in block if isinstance(s, loops.Free)}
        for s in block:
            if isinstance(s, loops.Allocate) and s.buffer in freed:
                yield s
            elif isinstance(s, loops.Loop):
                yield from s.scratch


def _bytes(stmt: loops.Allocate) -> int | None:
    """The bytes of a small array of a known size; None of another."""
    count = product(stmt.shape).constant if is_fixed(stmt.shape) else None
    if count is None or stmt.extra or is_reference(stmt.buffer.dtype):
        return None
    bytes = int(count) * WIDTHS[stmt.buffer.dtype]
    return bytes if 0 <= bytes <= figures.ON_STACK else None
