"""Loops in pieces: each piece is a call of a function of its own, which finds what it needs in words on the stack.

    words:  low · high · the iterations of a piece · where results go · captures… · for each partial: whole, others,
    bytes

`pool.py` calls the pieces, on several threads or one. Each leaves its results in words of its own, and they are
combined in order when all are there.
"""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.abi import READ, WRITE
from dlang.codegen.llvm import pool, sanitizer, support
from dlang.codegen.llvm.accesses import free
from dlang.codegen.llvm.assembly import Label
from dlang.codegen.llvm.host_calls import from_word, leave_if, put, to_word, word_of
from dlang.codegen.llvm.indices import bounds, size_value
from dlang.codegen.llvm.pieces import PIECES
from dlang.codegen.llvm.reductions import accumulator_dtypes, bind_results, first_totals, joined
from dlang.codegen.llvm.scalars import bits, register_type
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Buffer, Parallel, Partial, Pieces
from dlang.ir.anf import Var
from dlang.ir.types import dtype_of


def pieces(w: Writer, stmt: Pieces) -> None:
    """Decides how many iterations a piece has."""
    low, high = bounds(w, stmt.lows, stmt.highs)
    iterations = w.emit(f"sub i64 {high}, {low}")
    work, grain = size_value(w, stmt.work), size_value(w, stmt.grain)
    numbers = f"i64 {iterations}, i64 {work}, i64 {grain}, i64 {stmt.align}, i1 {str(stmt.loose).lower()}"
    w.bind(stmt.length, w.emit(f"call i64 @dl_length({numbers})"))


def parallel(w: Writer, stmt: Parallel) -> None:
    """Runs a loop in pieces."""
    assert w.lane is None
    low, high = bounds(w, stmt.lows, stmt.highs)
    length = w.scalar(stmt.length)
    dtypes = accumulator_dtypes(stmt.reductions)
    w.captured = max(w.captured, pool.CAPTURES + len(stmt.captures) + 3 * len(stmt.partials))
    w.partial = max(w.partial, PIECES * len(dtypes))
    for word, value in ((pool.LOW, low), (pool.HIGH, high), (pool.LENGTH, length)):
        put(w, value, "%captured", word)
    if dtypes:
        put(w, w.emit("ptrtoint ptr %partial to i64"), "%captured", pool.RESULTS)
    for k, slot in enumerate(stmt.captures):
        put(w, word_of(w, slot), "%captured", pool.CAPTURES + k)
    further, arrays = _piece_arrays(w, stmt, low, high, length)
    piece = w.outline(lambda inner, name: _piece(inner, name, stmt))
    count = w.emit(f"call i64 @dl_parallel(ptr %ctx, ptr @{piece}, ptr %captured)")
    fine = w.label("fine")
    w.fork(w.emit(f"icmp slt i64 {count}, 0"), "fail", fine, cold=True)
    w.begin(fine)
    for p, array in zip(stmt.partials, arrays, strict=True):
        pointers = f"ptr {w.values[p.whole]}, ptr {w.values[array]}"
        size = size_value(w, p.size)
        sanitizer.elements(w, WRITE, p.whole, w.values[p.whole], p.size)
        all = w.emit(f"mul i64 {w.emit(f'mul i64 {size}, {bits(p.whole.dtype) // 8}')}, {further}")
        sanitizer.inside(w, READ, array, w.values[array], all)
        w.code.append(f"  call void @dl_add_{p.whole.dtype}({pointers}, i64 {size}, i64 {further})")
        free(w, array)
    if stmt.reductions:
        _combine(w, stmt, dtypes, count)


def _piece_arrays(w: Writer, stmt: Parallel, low: str, high: str, length: str) -> tuple[str, list[Buffer]]:
    """How many pieces there are besides the first, and memory for their arrays."""
    if not stmt.partials:
        return "", []
    further = w.emit(f"call i64 @dl_further(i64 {w.emit(f'sub i64 {high}, {low}')}, i64 {length})")
    arrays = []
    word = pool.CAPTURES + len(stmt.captures)
    for p in stmt.partials:
        bytes = w.emit(f"mul i64 {size_value(w, p.size)}, {bits(p.whole.dtype) // 8}")
        all = w.emit(f"mul i64 {bytes}, {further}")
        pointer = w.emit(f"call ptr @{w.module.memory('dl_alloc', 'ptr', 'ptr', 'i64')}(ptr %ctx, i64 {all})")
        leave_if(w, w.emit(f"icmp eq ptr {pointer}, null"), support.OUT_OF_MEMORY, ())
        arrays.append(Buffer(p.own.name, p.whole.dtype))
        w.bind(arrays[-1], pointer)
        for value in (word_of(w, p.whole), word_of(w, arrays[-1]), bytes):
            put(w, value, "%captured", word)
            word += 1
    return further, arrays


def _combine(w: Writer, stmt: Parallel, dtypes: list[str], count: str) -> None:
    """Binds the results of reductions: those of the pieces, combined one after another."""
    start = first_totals(w, stmt.reductions)
    head, next_, done = w.label("head"), w.label("next"), w.label("done")
    entering = w.block
    index, following = w.name("k"), w.name("k")
    totals = [w.name("total") for _ in dtypes]
    w.jump(head)
    w.begin(head)
    position = len(w.code)
    w.fork(w.emit(f"icmp slt i64 {index}, {count}"), next_, done)
    w.begin(next_)
    parts = []
    for k, dtype in enumerate(dtypes):
        word = w.emit(f"add i64 {w.emit(f'mul i64 {index}, {len(dtypes)}')}, {k}")
        parts.append(
            from_word(w, w.emit(f"load i64, ptr {w.emit(f'getelementptr i64, ptr %partial, i64 {word}')}"), dtype)
        )
    combined = joined(w, stmt.reductions, totals, parts)
    w.code.append(f"  {following} = add i64 {index}, 1")
    leaving = w.block
    w.jump(head)
    carried = [("i64", index, "0", following)]
    carried += zip([register_type(d) for d in dtypes], totals, start, combined, strict=True)
    w.code[position:position] = [
        f"  {name} = phi {type} [ {first}, %{entering} ], [ {later}, %{leaving} ]"
        for type, name, first, later in carried
    ]
    w.begin(done)
    bind_results(w, stmt.reductions, totals)


def _piece(w: Writer, name: str, stmt: Parallel) -> str:
    """The definition of `i1 piece(context, words, number)`: true after a failure."""

    def word(number: int) -> str:
        return w.emit(f"getelementptr i64, ptr %words, i64 {number}")

    low, high, length = (w.emit(f"load i64, ptr {word(k)}") for k in (pool.LOW, pool.HIGH, pool.LENGTH))
    first = w.emit(f"add nsw i64 {low}, {w.emit(f'mul nsw i64 %number, {length}')}")
    last = w.ops().intrinsic("smin", "i64", w.emit(f"add nsw i64 {first}, {length}"), high)
    w.bind(stmt.number, "%number")
    w.bind(stmt.first, first)
    w.bind(stmt.last, last)
    for k, slot in enumerate(stmt.captures):
        if isinstance(slot, Buffer):
            w.bind(slot, w.emit(f"load ptr, ptr {word(pool.CAPTURES + k)}"))
        else:
            w.bind(slot, from_word(w, w.emit(f"load i64, ptr {word(pool.CAPTURES + k)}"), dtype_of(slot)))
    for k, p in enumerate(stmt.partials):
        _bind_partial(w, p, pool.CAPTURES + len(stmt.captures) + 3 * k)
    w.statements(stmt.stmts)
    values: list[loops.Value] = []
    for r in stmt.reductions:
        values += [r.value] if r.rank is None else [r.value, r.rank]
    if values:
        results = w.emit(f"load ptr, ptr {word(pool.RESULTS)}")
        offset = w.emit(f"mul nsw i64 %number, {len(values)}")
        words_of_piece = w.emit(f"getelementptr i64, ptr {results}, i64 {offset}")
        for k, value in enumerate(values):
            assert isinstance(value, Var)
            put(w, to_word(w, w.scalar(value), dtype_of(value)), words_of_piece, k)
    w.code += ["  ret i1 false", Label("fail"), "  ret i1 true"]
    return w.definition(f"define internal i1 @{name}(ptr %ctx, ptr %words, i64 %number) nounwind")


def _bind_partial(w: Writer, p: Partial, word: int) -> None:
    """The array of a piece: that of the first is the whole, any other is empty yet."""
    addresses = [w.emit(f"getelementptr i64, ptr %words, i64 {word + k}") for k in range(3)]
    whole, others = (w.emit(f"load ptr, ptr {a}") for a in addresses[:2])
    bytes = w.emit(f"load i64, ptr {addresses[2]}")
    first = w.emit("icmp eq i64 %number, 0")
    before = w.emit(f"mul i64 {w.emit('sub i64 %number, 1')}, {bytes}")
    other = w.emit(f"getelementptr i8, ptr {others}, i64 {before}")
    array = w.emit(f"select i1 {first}, ptr {whole}, ptr {other}")
    empty = w.emit(f"select i1 {first}, i64 0, i64 {bytes}")
    w.module.declare("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1 immarg")
    w.bind(p.own, array)
    sanitizer.inside(w, WRITE, p.own, array, empty)
    w.code.append(f"  call void @llvm.memset.p0.i64(ptr {array}, i8 0, i64 {empty}, i1 false)")
