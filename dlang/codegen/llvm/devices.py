"""Work for a device, by the C functions of its driver, and what the host's Python does for it.

Machine code launches kernels, copies and multiplies by calling functions whose addresses are in a table of the run
(`runtime/devices.py` says which); it asks Python for memory, for copies between host and device, and to wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen import loops
from dlang.codegen.abi import (
    BLAS,
    COPY,
    DEVICE,
    FOREIGN,
    KERNELS,
    LAUNCH,
    LAUNCHES,
    MARKS,
    PRODUCT,
    REACH,
    RUN,
    STREAM,
    THREADS,
    Site,
)
from dlang.codegen.llvm import profiling, support
from dlang.codegen.llvm.accesses import byte_count, element_address, load
from dlang.codegen.llvm.host_calls import leave_if, put, signatures, word_of
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import bits, constant
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Buffer
from dlang.diagnostics import Span
from dlang.ir.anf import Size, Var
from dlang.ir.terms import ZERO
from dlang.ops.dtypes import DTYPES

_PLAIN, _TRANSPOSED, _ALGORITHM = 0, 1, -1


def _types(dtype: str) -> tuple[int, int]:
    """The numbers by which cuBLAS knows the type of elements, and that in which it computes."""
    types = DTYPES[dtype].cublas
    assert types is not None, "products are of floats"
    return types


def launch(w: Writer, stmt: loops.Launch) -> None:
    """The parameters are words, and cuLaunchKernel gets where these are."""
    kernel = w.program.kernels[stmt.kernel]
    first = len(w.sites)
    for guard in stmt.guards:
        w.new_site(Site("check", guard.code, guard.parts, signatures(guard.values), span=guard.span))
    iterations = w.scalar(stmt.iterations)
    site = _numbered(w, first) if stmt.guards else str(first)
    handle = _handle(w, stmt)
    words = [word_of(w, value) for value in stmt.args]
    if kernel.form != FOREIGN:
        words = [_entry(w, RUN), site, iterations, *words]
    for k, word in enumerate(words):
        put(w, word, "%slots", k)
        address = w.emit(f"getelementptr i64, ptr %slots, i64 {k}")
        put(w, w.emit(f"ptrtoint ptr {address} to i64"), "%slots", len(words) + k)
    w.slots = max(w.slots, 2 * len(words))
    if stmt.block is None:
        size = str(kernel.block)
        threads = w.emit(f"mul i64 {iterations}, {kernel.threads}")
        wanted = w.emit(f"sdiv i64 {w.emit(f'add i64 {threads}, {kernel.block - 1}')}, {size}")
    else:
        size, wanted = w.scalar(stmt.block), iterations
    most = w.emit(f"sdiv i64 {_entry(w, THREADS)}, {size}")
    w.module.declare("llvm.smin.i64", "i64", "i64", "i64")
    w.module.declare("llvm.smax.i64", "i64", "i64", "i64")
    fewer = w.emit(f"call i64 @llvm.smin.i64(i64 {wanted}, i64 {most})")
    grid = w.emit(f"trunc i64 {w.emit(f'call i64 @llvm.smax.i64(i64 {fewer}, i64 1)')} to i32")
    params = w.emit(f"getelementptr i64, ptr %slots, i64 {len(words)}")
    narrow = size if stmt.block is None else w.emit(f"trunc i64 {size} to i32")
    block = f"i32 {narrow}, i32 1, i32 1, i32 0"
    stream = _entry(w, STREAM)
    _call(w, LAUNCH, f"i64 {handle}, i32 {grid}, i32 1, i32 1, {block}, i64 {stream}, ptr {params}, ptr null")


def _handle(w: Writer, stmt: loops.Launch) -> str:
    """The kernel: with narrow indices, unless it might need wide ones, with which it is made when it is needed."""
    handles = w.emit(f"inttoptr i64 {_entry(w, KERNELS)} to ptr")
    handle = w.emit(f"load i64, ptr {w.emit(f'getelementptr i64, ptr {handles}, i64 {stmt.kernel}')}")
    if not stmt.reach:
        return handle
    put(w, handle, "%slots", 0)
    w.slots = max(w.slots, 1)
    ops = w.ops()
    limit = w.emit(f"sitofp i64 {_entry(w, REACH)} to double")
    sizes: dict[Var, str] = {}
    fits = "true"
    for bound in stmt.reach:
        total = constant(float(bound.terms.get((), 0)), "f64")
        for monomial, c in bound.terms.items():
            if monomial:
                term = constant(float(c), "f64")
                for atom in monomial:
                    if atom not in sizes:
                        size = w.emit(f"sitofp i64 {w.values[atom]} to double")
                        sizes[atom] = ops.intrinsic("fabs", "f64", size)
                    term = w.emit(f"fmul double {term}, {sizes[atom]}")
                total = w.emit(f"fadd double {total}, {term}")
        fits = w.emit(f"and i1 {fits}, {w.emit(f'fcmp ole double {total}, {limit}')}")
    large, going = w.label("large"), w.label("going")
    w.fork(w.emit(f"xor i1 {fits}, true"), large, going, cold=True)
    w.begin(large)
    w.conditional += 1
    _ask(w, "wide", [str(stmt.kernel)])
    w.conditional -= 1
    w.jump(going)
    w.begin(going)
    return w.emit("load i64, ptr %slots")


def on_device(w: Writer, stmt: loops.OnDevice) -> None:
    """Memory, a copy, or a product."""
    match stmt.stmt:
        case loops.Allocate(buffer, shape, extra, span):
            total = byte_count(w, buffer.dtype, shape)
            if extra:
                total = w.ops().intrinsic("uadd.sat", "i64", total, str(extra * (bits(buffer.dtype) // 8)))
            _bind(w, buffer, _ask(w, "allocate", [total], span))
        case loops.Free(buffer):
            _ask(w, "free", [word_of(w, buffer)])
        case loops.Move(target, source, count):
            words = [f"i64 {word_of(w, target)}", f"i64 {word_of(w, source)}", f"i64 {_bytes(w, count, target)}"]
            _call(w, COPY, ", ".join([*words, f"i64 {_entry(w, STREAM)}"]))
        case loops.Product():
            _product(w, stmt.stmt)


def _product(w: Writer, stmt: loops.Product) -> None:
    """Rows of a matrix here are columns of one there, so it is the product of the transposes."""
    _, computed = _types(stmt.c.buffer.dtype)
    assert isinstance(stmt.a, loops.Matrix) and isinstance(stmt.b, loops.Matrix)
    batch = stmt.batch or loops.Batch(ZERO + 1, ZERO, ZERO, ZERO)
    number = "double" if computed == _types("f64")[1] else "float"
    for k, factor in enumerate((1.0, 1.0 if stmt.adds else 0.0)):
        w.code.append(f"  store {number} {factor}, ptr {w.emit(f'getelementptr i64, ptr %slots, i64 {k}')}")
    w.slots = max(w.slots, 2)
    one, other = (w.emit(f"getelementptr i64, ptr %slots, i64 {k}") for k in range(2))
    w.module.declare("llvm.smax.i64", "i64", "i64", "i64")

    def matrix(m: loops.Matrix, step: Size) -> str:
        address = w.emit(f"ptrtoint ptr {element_address(w, m.buffer, m.offset)} to i64")
        stride = w.emit(f"call i64 @llvm.smax.i64(i64 {size_value(w, m.stride)}, i64 1)")
        return f"i64 {address}, i32 {_types(m.buffer.dtype)[0]}, i64 {stride}, i64 {size_value(w, step)}"

    def turn(m: loops.Matrix) -> str:
        return f"i32 {_TRANSPOSED if m.transposed else _PLAIN}"

    columns, rows, inner = (f"i64 {size_value(w, size)}" for size in (stmt.columns, stmt.rows, stmt.inner))
    operands = [
        f"i64 {_entry(w, BLAS)}", turn(stmt.b), turn(stmt.a), columns, rows, inner, f"ptr {one}",
        matrix(stmt.b, batch.b), matrix(stmt.a, batch.a), f"ptr {other}", matrix(stmt.c, batch.c),
        f"i64 {size_value(w, batch.count)}", f"i32 {computed}", f"i32 {_ALGORITHM}",
    ]  # fmt: skip
    _call(w, PRODUCT, ", ".join(operands))


def on_host(w: Writer, stmt: loops.OnHost) -> None:
    """The copies that the host has stand for the arrays while the statements are written."""
    there = {buffer: w.values[buffer] for buffer in (*stmt.arrays, *[array for array, _ in stmt.held])}
    sizes = {buffer: _bytes(w, count, buffer) for buffer, count in stmt.parts}
    # first of all those of which all that is around them is copied anew, and parts behind them
    for buffer in sorted(stmt.arrays, key=lambda array: (array in sizes, array in stmt.still)):
        words = [word_of(w, buffer), sizes.get(buffer, "-1"), str(int(buffer in stmt.still))]
        _bind(w, buffer, _ask(w, "bring", words))
    for buffer, copy in stmt.held:
        w.bind(buffer, w.values[copy])
    if not stmt.arrays:
        _ask(w, "look", [])
    for inner in stmt.stmts:
        w.statement(inner)
    for buffer in stmt.made:
        mine = w.values[buffer]
        _bind(w, buffer, _ask(w, "take_over", [word_of(w, buffer)]))
        w.code.append(f"  call void @dl_free(ptr %ctx, ptr {mine})")
    for buffer, value in there.items():
        w.bind(buffer, value)
    for buffer in stmt.arrays:
        _ask(w, "leave", [word_of(w, buffer), sizes.get(buffer, "-1"), str(int(buffer in stmt.changed))])


def hold(w: Writer, stmt: loops.Hold) -> None:
    """A copy that the host has of the array stays from now on, or no longer."""
    _ask(w, "hold", [word_of(w, stmt.buffer), str(int(stmt.begins))])


def fetch(w: Writer, stmt: loops.Fetch) -> None:
    """The element comes in a word."""
    address = w.emit(f"ptrtoint ptr {element_address(w, stmt.buffer, stmt.offset)} to i64")
    _ask(w, "fetch", [address, str(bits(stmt.buffer.dtype) // 8)])
    element = Buffer(stmt.var.name, stmt.buffer.dtype)
    w.bind(element, "%slots")
    load(w, stmt.var, element, ZERO)


def transfer(w: Writer, stmt: loops.Transfer) -> None:
    """A copy for which nothing but the sides of the two arrays matters."""
    words = [word_of(w, stmt.target), word_of(w, stmt.source), _bytes(w, stmt.count, stmt.target)]
    _ask(w, "upload" if stmt.up else "download", words)


# ---- the pieces of these ---------------------------------------------------------------------------------------------
def _entry(w: Writer, word: int) -> str:
    """A word of the table."""
    table = w.emit(f"load ptr, ptr {w.in_context(support.DEVICE)}")
    return w.emit(f"load i64, ptr {w.emit(f'getelementptr i64, ptr {table}, i64 {word}')}")


def _numbered(w: Writer, first: int) -> str:
    """The number of a site, and above it that of the launch: which of two was first, if it runs again."""
    table = w.emit(f"load ptr, ptr {w.in_context(support.DEVICE)}")
    place = w.emit(f"getelementptr i64, ptr {table}, i64 {LAUNCHES}")
    number = w.emit(f"add i64 {w.emit(f'load i64, ptr {place}')}, 1")
    w.code.append(f"  store i64 {number}, ptr {place}")
    return w.emit(f"or i64 {w.emit(f'shl i64 {number}, 32')}, {first}")


def _bytes(w: Writer, count: Size, buffer: Buffer) -> str:
    return w.emit(f"mul i64 {size_value(w, count)}, {bits(buffer.dtype) // 8}")


def _bind(w: Writer, buffer: Buffer, address: str) -> None:
    w.bind(buffer, w.emit(f"inttoptr i64 {address} to ptr"))


def _call(w: Writer, function: int, operands: str) -> None:
    """Calls a function of the driver; what it gives if it fails goes where messages are."""
    pointer = w.emit(f"inttoptr i64 {_entry(w, function)} to ptr")
    number = profiling.nest(w)
    if number is None:
        _fine(w, w.emit(f"call i32 {pointer}({operands})"))
        return
    array, stream = w.emit(f"inttoptr i64 {_entry(w, MARKS)} to ptr"), _entry(w, STREAM)
    pair, marked = profiling.begin(w, array, number, stream)
    status = w.emit(f"call i32 {pointer}({operands})")
    ended, count = profiling.end(w, array, pair, stream)
    for outcome in (marked, status, ended):
        _fine(w, outcome)
    full, going = w.label("full"), w.label("going")
    w.fork(w.emit(f"icmp eq i64 {count}, {profiling.ROOM}"), full, going, cold=True)
    w.begin(full)
    w.conditional += 1
    _ask(w, "read", [])
    w.conditional -= 1
    w.jump(going)
    w.begin(going)


def _fine(w: Writer, status: str) -> None:
    """Ends the run unless a function of the driver has given 0."""
    put(w, w.emit(f"zext i32 {status} to i64"), "%ctx", support.SLOTS)
    leave_if(w, w.emit(f"icmp ne i32 {status}, 0"), w.new_site(Site("device", "")), ())


def _ask(w: Writer, what: str, words: Sequence[str], span: Span | None = None) -> str:
    """Has Python do something; the first word afterwards."""
    if (nest := profiling.nest(w)) is not None:
        profiling.under_way(w, w.emit(f"inttoptr i64 {_entry(w, MARKS)} to ptr"), nest)
    for k, word in enumerate(words):
        put(w, word, "%slots", k)
    w.slots = max(w.slots, len(words), 1)
    number = w.new_site(Site("runtime", DEVICE, (what,), span=span))
    status = w.emit(f"call i32 @dl_callback(ptr %ctx, i64 {number}, ptr %slots)")
    leave_if(w, w.emit(f"icmp ne i32 {status}, {support.FINE}"), number, ())
    return w.emit("load i64, ptr %slots")
