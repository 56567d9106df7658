"""Products of matrices in blocks of the result, with what becomes of each block while it is in the cache.

A block is a call of the micro-kernel's library (`llvm/microkernel.py`), which packs what it needs of `b` by itself, if
its rows are used often enough. The sizes alone say where blocks are, and they are independent iterations of one loop,
so `parallel.py` may cut it like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from dlang.codegen import loops
from dlang.codegen.abi import COLUMNS, panel, terms_of
from dlang.codegen.blocks import Scheduler, outermost
from dlang.ir.anf import Array, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from dlang.ops import figures

ROWS = 480  # of a block at most, a multiple of the rows of any tile
NARROW = 128  # columns of one where there are no more than FROM, so that there are enough blocks for several threads
FROM = 2 * COLUMNS
NARROWEST = 128  # bits of a vector where there are none


@dataclass(frozen=True, slots=True)
class Extent:
    """A block of a result: so many rows and columns from a row and a column on."""

    row: Size
    column: Size
    rows: Size
    columns: Size


class Epilogue(Protocol):
    """Emits code for each block of a product; returns the reductions of the loop of blocks. whole: only one block."""

    def emit(self, s: Scheduler, extent: Extent, whole: bool) -> list[loops.Reduction]: ...


def matrix_product(
    s: Scheduler,
    a: loops.Matrix,
    b: loops.Matrix,
    c: loops.Matrix,
    sizes: tuple[Size, Size, Size],
    epilogue: Epilogue | None = None,
    adds: bool = False,
    name: Var | None = None,
    most: int = figures.UNBLOCKED_PRODUCT,
    followed: Var | None = None,
) -> None:
    """Emits c = a · b, or c += a · b. sizes: m, n and k, where c is m by n, and not transposed.

    name: the array that b is, if all of it is meant; in a loop that has it from outside, it is packed in front.
    most: multiplications of a product, of sizes that are not known, that is one block. followed: whether the next one
    of a batch lies right behind in all arrays.
    """
    operand = b if name is None else _in_front(s, name, b, sizes[2], sizes[1])
    if epilogue is None and operand is b and all(size.constant is None for size in sizes):
        _small_or_in_blocks(s, a, b, c, sizes, adds, most, followed)
        return
    _in_blocks(s, a, operand, c, sizes, epilogue, adds, followed)


def _small_or_in_blocks(
    s: Scheduler,
    a: loops.Matrix,
    b: loops.Matrix,
    c: loops.Matrix,
    sizes: tuple[Size, Size, Size],
    adds: bool,
    most: int,
    followed: Var | None,
) -> None:
    """Sizes of which nothing is known: a small product is spared the loop and its pieces."""
    rows, columns, inner = sizes
    count, small = fresh("size", I64), fresh("small", Scalar("bool"))
    s.out += [loops.Evaluate(count, rows * columns * inner), loops.Compute(small, "le", (count, Lit(most, "i64")))]
    with s.collect() as whole:
        _block(s, a, b, c, inner, Extent(ZERO, ZERO, rows, columns), adds, followed, small=True)
    with s.collect() as blocks:
        _in_blocks(s, a, b, c, sizes, None, adds)
    s.out.append(loops.Branch(small, loops.Body(tuple(whole), ()), loops.Body(tuple(blocks), ()), ()))


def _in_blocks(
    s: Scheduler,
    a: loops.Matrix,
    operand: loops.Matrix | loops.Panels,
    c: loops.Matrix,
    sizes: tuple[Size, Size, Size],
    epilogue: Epilogue | None,
    adds: bool,
    followed: Var | None = None,
) -> None:
    rows, columns, inner = sizes
    height, step = _at_most(s, rows, ROWS), _columns_of_block(s, columns)
    down, across = _blocks(s, rows, ZERO + ROWS), _blocks(s, columns, step)
    if down == across == 1:
        extent = Extent(ZERO, ZERO, rows, columns)
        _block(s, a, operand, c, inner, extent, adds, followed)
        if epilogue is not None:
            epilogue.emit(s, extent, True)
        return
    iteration, first, left = fresh("block", I64), poly(fresh("row", I64)), poly(fresh("column", I64))
    with s.collect() as stmts:
        if across == 1:
            first, left = poly(iteration), ZERO
        elif down == 1:
            first, left = ZERO, poly(iteration)
        else:
            first, left = (_computed(s, name, iteration, across) for name in ("floordiv", "mod"))
        row, column = first * ROWS, left * step
        extent = Extent(row, column, _rest(s, rows, row, height), _rest(s, columns, column, step))
        _block(s, a, operand, c, inner, extent, adds)
        reductions = [] if epilogue is None else epilogue.emit(s, extent, False)
    s.loop(iteration, (ZERO,), (down * across,), stmts, reductions)


def packed(s: Scheduler, matrix: loops.Matrix | loops.Scattered, rows: Size, columns: Size) -> loops.Panels:
    """Emits a copy in panels, in new memory that is the caller's to free."""
    width = panel(matrix.buffer.dtype, s.lanes.bits or NARROWEST)
    panels = loops.Panels(loops.Buffer("panels", matrix.buffer.dtype), ZERO, width)
    s.out += [
        loops.Allocate(panels.buffer, (rounded_up(columns, width), rows), 0, s.span),
        loops.Pack(panels, matrix, rows, columns),
    ]
    return panels


def workspace_shape(s: Scheduler, dtype: str, inner: Size, columns: Size) -> tuple[Size, Size]:
    """The shape of what a product needs to put a part of `b` in panels."""
    width = panel(dtype, s.lanes.bits or NARROWEST)
    return _at_most(s, rounded_up(columns, width), COLUMNS), _at_most(s, inner, terms_of(dtype))


def _at_most(s: Scheduler, size: Size, most: int) -> Size:
    if size.constant is not None:
        return ZERO + min(int(size.constant), most)
    value, less = fresh("size", I64), fresh("size", I64)
    s.out += [loops.Evaluate(value, size), loops.Compute(less, "minimum", (value, Lit(most, "i64")))]
    return poly(less)


def rounded_up(size: Size, width: int) -> Size:
    """A multiple of a width that is large enough; of a size that is not known, a little more."""
    return size + (width - 1) if size.constant is None else ZERO + -(-int(size.constant) // width) * width


def _in_front(s: Scheduler, name: Var, b: loops.Matrix, inner: Size, columns: Size) -> loops.Matrix | loops.Panels:
    """A matrix in panels that are made in front of the loops that do not change it, if there are any."""
    loop = outermost(s.outside, s.memory.frames[-1], name)
    if loop is None:
        return b
    key = (b, inner, columns)
    if key not in loop.panels:
        with s.collect() as stmts:
            loop.panels[key] = packed(s, b, inner, columns)
        loop.before += stmts
    return loop.panels[key]


def _block(
    s: Scheduler,
    a: loops.Matrix,
    b: loops.Matrix | loops.Panels,
    c: loops.Matrix,
    inner: Size,
    extent: Extent,
    adds: bool,
    followed: Var | None = None,
    small: bool = False,
) -> None:
    """A block of the result. A panel begins where it does. small: without a workspace of its own."""
    a = replace(a, offset=a.offset + extent.row * (1 if a.transposed else a.stride))
    match b:
        case loops.Matrix():
            b = replace(b, offset=b.offset + extent.column * (b.stride if b.transposed else 1))
        case loops.Panels():
            b = replace(b, offset=b.offset + extent.column * inner)
    c = replace(c, offset=c.offset + extent.row * c.stride + extent.column)
    bits = s.lanes.bits or NARROWEST
    if small or isinstance(b, loops.Panels):
        s.out.append(loops.Product(a, b, c, extent.rows, extent.columns, inner, bits, None, adds, followed))
        return
    workspace = s.allocate(
        "workspace", Array(c.buffer.dtype, workspace_shape(s, c.buffer.dtype, inner, extent.columns)), own=False
    )
    s.out += [
        loops.Product(a, b, c, extent.rows, extent.columns, inner, bits, workspace, adds, followed),
        loops.Free(workspace),
    ]


def _columns_of_block(s: Scheduler, columns: Size) -> Size:
    if columns.constant is not None:
        return ZERO + (NARROW if int(columns.constant) <= FROM else COLUMNS)
    many, one = fresh("size", I64), fresh("size", I64)
    s.out += [
        loops.Compute(many, "floordiv", (_atom(s, columns), Lit(FROM + 1, "i64"))),
        loops.Compute(one, "minimum", (many, Lit(1, "i64"))),
    ]
    return poly(one) * (COLUMNS - NARROW) + NARROW


def _blocks(s: Scheduler, size: Size, most: Size) -> Size:
    """How many blocks of at most so many rows or columns there are."""
    if size.constant is not None and most.constant is not None:
        return ZERO + -(-int(size.constant) // int(most.constant))
    return _computed(s, "floordiv", _atom(s, size + most - 1), most)


def _computed(s: Scheduler, name: str, x: Var, y: Size) -> Size:
    result = fresh("blocks", I64)
    divisor: Lit | Var = Lit(int(y.constant), "i64") if y.constant is not None else _atom(s, y)
    s.out.append(loops.Compute(result, name, (x, divisor)))
    return poly(result)


def _atom(s: Scheduler, size: Size) -> Var:
    """A size as a variable."""
    if size.atom is not None:
        return size.atom
    var = fresh("size", I64)
    s.out.append(loops.Evaluate(var, size))
    return var


def _rest(s: Scheduler, size: Size, first: Size, most: Size) -> Size:
    """How many rows or columns a block has from the first on, of at most so many."""
    if not first.terms and size.constant is not None:
        return size
    if size.constant is not None and most.constant is not None and int(size.constant) % int(most.constant) == 0:
        return most
    left, count = fresh("left", I64), fresh("size", I64)
    s.out += [loops.Evaluate(left, size - first), loops.Compute(count, "minimum", (_atom(s, most), left))]
    return poly(count)
