"""Checks in front of accesses to memory, in a program that is sanitised: each compares what it touches with its array.

All accesses of compiled code to arrays and nodes are announced here, by the functions that write them, whether they
load or store, one element or a vector, with a mask or without, or hand memory to a library, the host or a function of
C. In other programs none of these functions writes anything. A check names the address that the buffer of the access is
known by (`Writer.roots`), so that a slice is compared with the array that it is cut from; `registry.py` knows how far
that reaches, and whether it is alive.

How far the routines of BLAS and LAPACK that compiled code calls go behind the pointers that they get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.abi import ACCESS, COLUMNS, FREE, READ, WRITE, Site, panel, terms_of
from dlang.codegen.blas import LEFT, PLAIN
from dlang.codegen.llvm.assembly import Label
from dlang.codegen.llvm.indices import size_value
from dlang.codegen.llvm.scalars import bits, iota
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Buffer, Operand, Value
from dlang.ir.anf import Atom, Lit, Size, Var, poly
from dlang.ir.terms import WIDTHS, ZERO
from dlang.ir.types import dtype_of, product


# ---- accesses --------------------------------------------------------------------------------------------------------
def inside(w: Writer, what: str, buffer: Buffer, address: str, bytes: str | int, depth: int | None = None) -> None:
    """So many bytes at an address are read or written, as a part of a buffer. depth: of the loops where that is."""
    if w.module.sanitizes:
        function = "dl_outside_held" if buffer in w.held else "dl_outside"
        _check(w, function, what, buffer, f"ptr {w.root(buffer)}, ptr {address}, i64 {bytes}", depth)


def copied(w: Writer, source: Buffer, begin: str, target: Buffer, to: str, bytes: str) -> None:
    """So many bytes are copied; a negative number of them, which is a very large one then, is never there."""
    if w.module.sanitizes:
        many = w.ops().intrinsic("umin", "i64", bytes, str(2**62))
        inside(w, READ, source, begin, many)
        inside(w, WRITE, target, to, many)


def element(w: Writer, what: str, buffer: Buffer, address: str, depth: int | None = None) -> None:
    """An element at an address is read or written."""
    inside(w, what, buffer, address, bits(buffer.dtype) // 8, depth)


def elements(w: Writer, what: str, buffer: Buffer, address: str, count: Size) -> None:
    """So many elements from an address on are read or written."""
    if w.module.sanitizes:
        inside(w, what, buffer, address, w.emit(f"mul i64 {size_value(w, count)}, {bits(buffer.dtype) // 8}"))


def vector(w: Writer, what: str, buffer: Buffer, address: str, width: int, mask: str | None) -> None:
    """Elements side by side are read or written, those where a mask is true."""
    if not w.module.sanitizes:
        return
    size = bits(buffer.dtype) // 8
    if mask is None:
        inside(w, what, buffer, address, width * size)
        return
    numbers = f"<{width} x i64>"
    chosen = f"select <{width} x i1> {mask}, {numbers} {iota(width)}, {numbers}"
    low = _reduced(w, "umin", width, w.emit(f"{chosen} splat (i64 {width})"))
    high = _reduced(w, "smax", width, w.emit(f"{chosen} splat (i64 -1)"))
    first = w.emit(f"getelementptr i8, ptr {address}, i64 {w.emit(f'mul i64 {low}, {size}')}")
    count = w.emit(f"sub i64 {w.emit(f'add i64 {high}, 1')}, {low}")
    inside(w, what, buffer, first, w.emit(f"mul i64 {count}, {size}"))


def anywhere(w: Writer, what: str, buffer: Buffer, addresses: str, width: int, mask: str) -> None:
    """An element at each of the addresses in a vector is read or written, those where a mask is true."""
    if not w.module.sanitizes:
        return
    numbers = f"<{width} x i64>"
    integers = w.emit(f"ptrtoint <{width} x ptr> {addresses} to {numbers}")
    chosen = f"select <{width} x i1> {mask}, {numbers} {integers}, {numbers}"
    low = _reduced(w, "umin", width, w.emit(f"{chosen} splat (i64 -1)"))
    high = _reduced(w, "umax", width, w.emit(f"{chosen} splat (i64 0)"))
    reach = w.emit(f"add i64 {w.emit(f'sub i64 {high}, {low}')}, {bits(buffer.dtype) // 8}")
    none = w.emit(f"icmp ult i64 {high}, {low}")
    inside(w, what, buffer, w.emit(f"inttoptr i64 {low} to ptr"), w.emit(f"select i1 {none}, i64 0, i64 {reach}"))


def alive(w: Writer, buffer: Buffer) -> None:
    """A buffer is freed."""
    if w.module.sanitizes:
        _check(w, "dl_not_alive", FREE, buffer, f"ptr {w.values[buffer]}")


def node(w: Writer, handle: Atom, word: int) -> None:
    """A word of a node is read; its tag is -1."""
    if w.module.sanitizes:
        name = handle.name if isinstance(handle, Var) else ""
        _check(w, "dl_outside_node", READ, Buffer(name, dtype_of(handle)), f"i64 {w.scalar(handle)}, i64 {word}")


def text(w: Writer, value: Atom) -> None:
    """The bytes of a text are read, or it becomes a part of another."""
    if w.module.sanitizes and not isinstance(value, Lit):
        _check(w, "dl_outside_text", READ, Buffer(value.name, "str"), f"i64 {w.scalar(value)}")


# ---- what is handed on -----------------------------------------------------------------------------------------------
def operands(w: Writer, what: str, values: Sequence[Operand]) -> None:
    """The host reads or writes all of the arrays and texts among some values."""
    for value in values:
        if isinstance(value, loops.ArrayValue):
            elements(w, what, value.buffer, w.values[value.buffer], product(value.shape))
        elif dtype_of(value) == "str":
            text(w, value)


def invoke(w: Writer, stmt: loops.Invoke, callee: loops.Function) -> None:
    """A function of the program gets arrays and destinations, in which it may touch what their types say."""
    if not w.module.sanitizes:
        return
    given = {p: a for p, a in zip(callee.params, stmt.args, strict=True) if isinstance(p, Var)}

    def here(var: Var) -> Size | None:
        value = given.get(var)
        if isinstance(value, Lit):
            return ZERO + int(value.value)
        return poly(value) if isinstance(value, Var) else None

    for arg, extent in zip(stmt.args, callee.extents, strict=True):
        if isinstance(arg, Buffer) and extent is not None:
            elements(w, READ, arg, w.values[arg], extent.substitute(here))
    for buffer, out in zip(stmt.outs, callee.outs, strict=True):
        elements(w, WRITE, buffer, w.values[buffer], product(out.shape).substitute(here))


def call_c(w: Writer, stmt: loops.CallC) -> None:
    """A function of C, or a routine of BLAS or LAPACK, gets pointers: of the first the statement says how far it may
    go, of a routine its arguments do."""
    if not w.module.sanitizes:
        return
    arrays = [a for a in stmt.args if isinstance(a, Buffer)]
    if not stmt.target.startswith(LINEAR_ALGEBRA):
        for buffer, count in zip(arrays, stmt.extents, strict=True):
            elements(w, WRITE, buffer, w.values[buffer], count)
        return
    for buffer, parts in touched(stmt.target, stmt.args):
        rows, columns, stride = (_number(w, part) for part in parts)
        inside(w, WRITE, buffer, w.values[buffer], _extent(w, rows, columns, stride, WIDTHS[buffer.dtype]))


def matrix_product(w: Writer, stmt: loops.Product, a: str, b: str, c: str) -> None:
    """A product reads and writes at the addresses of its matrices."""
    if not w.module.sanitizes:
        return
    rows, columns, inner = (size_value(w, size) for size in (stmt.rows, stmt.columns, stmt.inner))
    _matrix(w, READ, stmt.a, a, rows, inner, terms_more=1)
    if isinstance(stmt.b, loops.Panels):
        _panels(w, READ, stmt.b, b, inner, columns)
    else:
        _matrix(w, READ, stmt.b, b, inner, columns)
    _matrix(w, WRITE, stmt.c, c, rows, columns)
    if stmt.workspace is not None:
        dtype = stmt.c.buffer.dtype
        wide = w.ops().intrinsic("umin", "i64", _in_panels(w, columns, panel(dtype, stmt.bits)), str(COLUMNS))
        terms = w.ops().intrinsic("umin", "i64", inner, str(terms_of(dtype)))
        count = w.emit(f"mul i64 {wide}, {terms}")
        inside(w, WRITE, stmt.workspace, w.values[stmt.workspace], w.emit(f"mul i64 {count}, {WIDTHS[dtype]}"))


def packed(w: Writer, stmt: loops.Pack, target: str, source: str) -> None:
    """A matrix is read at an address and becomes panels at another."""
    if w.module.sanitizes:
        rows, columns = size_value(w, stmt.rows), size_value(w, stmt.columns)
        _matrix(w, READ, stmt.source, source, rows, columns)
        _panels(w, WRITE, stmt.target, target, rows, columns)


def _matrix(
    w: Writer, what: str, m: loops.Matrix | loops.Scattered, address: str, rows: str, columns: str, terms_more: int = 0
) -> None:
    """All elements of a matrix. terms_more: how many offsets are read behind those of the columns."""
    width = WIDTHS[m.buffer.dtype]
    if isinstance(m, loops.Matrix):
        down, across = (columns, rows) if m.transposed else (rows, columns)
        inside(w, what, m.buffer, address, _extent(w, down, across, size_value(w, m.stride), width))
        return
    for table, count, more in ((m.rows, rows, 0), (m.columns, columns, terms_more)):
        all = w.emit(f"add i64 {count}, {more}")
        inside(w, READ, table, w.values[table], w.emit(f"mul i64 {all}, 8"))
    tables = f"ptr {w.values[m.rows]}, i64 {rows}, ptr {w.values[m.columns]}, i64 {columns}"
    where = f"ptr {w.root(m.buffer)}, ptr {address}, {tables}, i64 {width}"
    _check(w, "dl_outside_scattered", what, m.buffer, where)


def _panels(w: Writer, what: str, p: loops.Panels, address: str, rows: str, columns: str) -> None:
    """Panel after panel, the last one as wide as the others."""
    count = w.emit(f"mul i64 {_in_panels(w, columns, p.width)}, {rows}")
    inside(w, what, p.buffer, address, w.emit(f"mul i64 {count}, {WIDTHS[p.buffer.dtype]}"))


def _in_panels(w: Writer, columns: str, width: int) -> str:
    """Columns as a multiple of the width of a panel."""
    up = w.emit(f"add i64 {columns}, {width - 1}")
    return w.emit(f"and i64 {up}, {-width}")


def _extent(w: Writer, rows: str, columns: str, stride: str, width: int) -> str:
    """The bytes from the first element of a matrix to the last; none if it has none."""
    ops = w.ops()
    least = ops.intrinsic("smin", "i64", rows, columns)
    before = w.emit(f"mul i64 {w.emit(f'sub i64 {rows}, 1')}, {stride}")
    bytes = w.emit(f"mul i64 {w.emit(f'add i64 {before}, {columns}')}, {width}")
    return w.emit(f"select i1 {w.emit(f'icmp sgt i64 {least}, 0')}, i64 {bytes}, i64 0")


def _number(w: Writer, value: Number) -> str:
    """A number of a routine's, as an i64."""
    match value:
        case Least(x, y):
            return w.ops().intrinsic("smin", "i64", _number(w, x), _number(w, y))
        case Lit(number):
            return str(number)
        case Var():
            return w.emit(f"sext i32 {w.scalar(value)} to i64")
    return str(value)


def _reduced(w: Writer, name: str, width: int, value: str) -> str:
    function = f"llvm.vector.reduce.{name}.v{width}i64"
    w.module.declare(function, "i64", f"<{width} x i64>")
    return w.emit(f"call i64 @{function}(<{width} x i64> {value})")


# ---- the check -------------------------------------------------------------------------------------------------------
def _check(w: Writer, function: str, what: str, buffer: Buffer, operands: str, depth: int | None = None) -> None:
    """Leaves the function unless a function of `registry` says that nothing is outside."""
    types = [operand.split(" ")[0] for operand in operands.split(", ")]
    w.module.imports.add(function)
    w.module.declare(function, "i1", "ptr", *types, "i64")
    site = w.new_site(Site(ACCESS, "", (what, buffer.name, buffer.dtype), span=w.span))
    bad, fine = w.name("v"), w.label("whole")
    w.lines_at(w.depth if depth is None else depth).extend(
        [
            f"  {bad} = call i1 @{function}(ptr %ctx, {operands}, i64 {site})",
            f"  br i1 {bad}, label %fail, label %{fine}, !prof !0",
            Label(fine, whole=True),
        ]
    )
    if depth is None or depth == w.depth:
        w.block = fine


# ---- routines of libraries -------------------------------------------------------------------------------------------
LINEAR_ALGEBRA = "scipy_"
"""How the symbols of BLAS and LAPACK begin."""


@dataclass(frozen=True, slots=True)
class Least:
    """The least of two numbers."""

    x: Number
    y: Number


Number = Atom | int | Least
Reach = tuple[int, tuple[Number, Number, Number]]
"""The position of a pointer among the arguments, and rows of so many elements, so many elements apart."""


def touched(symbol: str, args: Sequence[Value]) -> list[tuple[Buffer, tuple[Number, Number, Number]]]:
    """The arrays that a routine gets, each with its rows, the elements of a row, and from row to row. The argument in
    front of the others is the order of the elements."""
    name = symbol.removeprefix(LINEAR_ALGEBRA).removeprefix("cblas_").removeprefix("LAPACKE_")[1:]
    out = []
    for position, reach in _ROUTINES[name](_Given(args)):
        buffer = args[position]
        assert isinstance(buffer, Buffer)
        out.append((buffer, reach))
    assert {buffer for buffer, _ in out} == {a for a in args if isinstance(a, Buffer)}, f"{name} gets further arrays"
    return out


@dataclass(frozen=True, slots=True)
class _Given:
    """The arguments of a call; those that are read as numbers are."""

    args: Sequence[Value]

    def __getitem__(self, position: int) -> Atom:
        value = self.args[position]
        assert isinstance(value, Var | Lit)
        return value


def _gemm(a: _Given) -> list[Reach]:
    m, n, k = a[3], a[4], a[5]
    left = (m, k) if a[1] == PLAIN else (k, m)
    right = (k, n) if a[2] == PLAIN else (n, k)
    return [(7, (*left, a[8])), (9, (*right, a[10])), (12, (m, n, a[13]))]


def _triangle_of_matrix(a: _Given) -> list[Reach]:
    size = a[5] if a[1] == LEFT else a[6]
    return [(8, (size, size, a[9])), (10, (a[5], a[6], a[11]))]


def _triangle_of_vector(a: _Given) -> list[Reach]:
    return [(5, (a[4], a[4], a[6])), (7, (a[4], 1, a[8]))]


def _cholesky(a: _Given) -> list[Reach]:
    return [(3, (a[2], a[2], a[4]))]


def _factors(a: _Given) -> list[Reach]:
    return [(3, (a[2], a[1], a[4])), (5, (Least(a[1], a[2]), 1, 1))]


def _orthogonal(a: _Given) -> list[Reach]:
    return [(4, (a[2], a[1], a[5])), (6, (a[3], 1, 1))]


def _singular_values(a: _Given) -> list[Reach]:
    m, n, k = a[2], a[3], Least(a[2], a[3])
    return [(4, (n, m, a[5])), (6, (k, 1, 1)), (7, (k, m, a[8])), (9, (n, k, a[10]))]


def _eigenvalues(a: _Given) -> list[Reach]:
    return [(4, (a[3], a[3], a[5])), (6, (a[3], 1, 1))]


_ROUTINES: dict[str, Callable[[_Given], list[Reach]]] = {
    "gemm": _gemm,
    "trsm": _triangle_of_matrix,
    "trmm": _triangle_of_matrix,
    "trsv": _triangle_of_vector,
    "potrf_work": _cholesky,
    "getrf_work": _factors,
    "geqrf": _factors,
    "orgqr": _orthogonal,
    "gesdd": _singular_values,
    "syevd": _eigenvalues,
}
