"""Linear algebra: the operations of `ir/libraries.py` as calls of LAPACK and BLAS from compiled code.

LAPACK's matrices are column-major: what lies in memory by rows is the transpose for it. Where an operation commutes
with transposition no data is moved. Matrices too large for its 32-bit integers, and those for which it finds no
workspace, are left to the host, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.codegen.blas import (
    ANY_DIAGONAL,
    LEFT,
    LOWER,
    PLAIN,
    RIGHT,
    TRANSPOSED,
    UNIT,
    UPPER,
    Block,
    Routines,
    letter,
)
from dlang.codegen.blocks import Scheduler
from dlang.codegen.cholesky import cholesky_pullback
from dlang.codegen.factors import cholesky_factor
from dlang.codegen.loops import (
    Allocate,
    ArrayValue,
    Body,
    Buffer,
    Convert,
    For,
    Free,
    Load,
    Move,
    Operand,
    Reduction,
    Store,
)
from dlang.codegen.memory import ZERO, product
from dlang.codegen.sorting import KEYS, argsort
from dlang.codegen.substitution import Triangle, substitute
from dlang.ir.anf import Array, Atom, Lit, Scalar, Size, Var, fresh, poly

LARGEST = 2**31 - 1
IN_BLOCKS = 48  # rows from which products of our own are faster than LAPACK's
SEVERAL = 8  # right-hand sides, the same
NO_WORKSPACE = -1000  # LAPACKE's own codes lie below
NOT_FINITE = Lit(-1, "i64")
NAN = float("nan")
I64 = Scalar("i64")
I32 = Scalar("i32")


@dataclass(frozen=True, slots=True)
class Done:
    """The scalars among the results; asked: what a routine said that may find no workspace."""

    scalars: tuple[Atom, ...]
    asked: Var | None = None


Direct = Callable[[Routines, Sequence[Operand], Sequence[ArrayValue]], Done]


def has(name: str, dtype: str) -> bool:
    """Whether compiled code does an operation itself, for a first argument of a dtype."""
    return name in _OPERATIONS and (name != "argsort" or dtype in KEYS)


def directly(s: Scheduler, name: str, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    """Emits one of these operations on arrays in a row."""
    routines = Routines(s, _array(args[0]).buffer.dtype)
    done = _OPERATIONS[name](routines, args, outs)
    routines.done()
    return done


def fits(s: Scheduler, name: str, args: Sequence[Operand]) -> Atom:
    """Whether the arrays have few enough elements for LAPACK, if an operation needs it."""
    r = Routines(s, "")
    result: Atom = Lit(True, "bool")
    if name == "argsort":
        return result
    for size in {product(a.shape) for a in args if isinstance(a, ArrayValue)}:
        if size.constant is not None:
            if size.constant > LARGEST:
                return Lit(False, "bool")
            continue
        small = r.compute("le", r.evaluate(size), Lit(LARGEST, "i64"))
        result = small if isinstance(result, Lit) else r.compute("and", result, small)
    return result


def _array(value: Operand) -> ArrayValue:
    assert isinstance(value, ArrayValue)
    return value


def _matrix(value: Operand) -> Block:
    """An array in a row as a matrix; a vector is one with a row."""
    array = _array(value)
    return Block(array.buffer, ZERO, array.shape[-1])


def _unless(r: Routines, info: Atom, outs: Sequence[ArrayValue]) -> None:
    """Results that do not exist are NaN."""

    def nan() -> None:
        for out in outs:
            rows = product(out.shape[:-1])
            r.fill(_matrix(out), rows, out.shape[-1], NAN)

    r.when(r.compute("ne", info, Lit(0, "i64")), nan)


def _copied(r: Routines, source: ArrayValue, target: Buffer) -> None:
    r.s.out.append(Move(target, source.buffer, product(source.shape)))


# ---- factors and solutions -------------------------------------------------------------------------------------------
def _cholesky(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    """By columns the memory of a lower factor is an upper one, and that of the matrix is its transpose."""
    a, l = _matrix(args[0]), _matrix(outs[0])
    n = outs[0].shape[0]

    def row(i: Var) -> None:
        r.loop(0, poly(i) + 1, lambda j: r.store(l, poly(i), poly(j), r.load(a, poly(i), poly(j))))
        r.loop(poly(i) + 1, n, lambda j: r.store(l, poly(i), poly(j), r.real(0.0)))

    r.loop(0, n, row)
    large = r.compute("ge", r.evaluate(n), Lit(IN_BLOCKS, "i64"))
    found = r.choose(
        large,
        lambda: cholesky_factor(r, n, l),
        lambda: r.lapack("potrf_work", letter("U"), r.int32(n), l.buffer, r.leading(n)),
    )

    def broken(i: Var) -> Atom:
        pivot = r.load(l, poly(i), poly(i))
        return r.compute("not", r.compute("gt", pivot, r.real(0.0)))

    # OpenBLAS lets NaN pass for a positive pivot
    fine = r.compute("eq", found, Lit(0, "i64"))
    info = r.choose(fine, lambda: r.first(n, broken), lambda: found)
    _unless(r, info, outs)
    return Done((info,))


def _triangular_solve(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    a, b, x = _matrix(args[0]), _array(args[1]), _matrix(outs[0])
    n, columns = b.shape
    lower, transposed, unit = (_flag(v) for v in args[2:])
    _copied(r, b, x.buffer)
    flags = (
        _either(r, lower, LOWER, UPPER),
        _either(r, transposed, TRANSPOSED, PLAIN),
        _either(r, unit, UNIT, ANY_DIAGONAL),
    )

    def zero(i: Var) -> Atom:
        empty = r.compute("eq", r.load(a, poly(i), poly(i)), r.real(0.0))
        return r.compute("and", empty, r.compute("not", unit))

    info = r.first(n, zero)
    size, stride = r.int32(n), r.leading(n)
    if columns == 1:
        r.blas("trsv", *flags, size, a.buffer, stride, x.buffer, Lit(1, "i32"))
    else:

        def library() -> None:
            across = r.int32(columns)
            r.blas("trsm", LEFT, *flags, size, across, r.real(1.0), a.buffer, stride, x.buffer, r.leading(columns))

        if all(isinstance(flag, Lit) for flag in (lower, transposed, unit)):
            turned = transposed == Lit(True, "bool")
            forward = (lower == Lit(True, "bool")) != turned
            triangle = Triangle(
                n, lambda i, j: r.load(a, j, i) if turned else r.load(a, i, j), forward, unit == Lit(True, "bool")
            )
            r.when(_many(r, n, columns), lambda: substitute(r, triangle, x, columns), library)
        else:
            library()
    _unless(r, info, outs)
    return Done((info,))


def _many(r: Routines, n: Size, columns: Size) -> Atom:
    """Whether products of our own are faster than the library's substitution."""
    enough = r.compute("ge", r.evaluate(n), Lit(IN_BLOCKS, "i64"))
    return r.compute("and", enough, r.compute("ge", r.evaluate(columns), Lit(SEVERAL, "i64")))


def _flag(value: Operand) -> Atom:
    assert isinstance(value, Var | Lit)
    return value


def _either(r: Routines, flag: Atom, yes: Lit, no: Lit) -> Atom:
    if isinstance(flag, Lit):
        return yes if flag.value else no
    return r.compute("select", flag, yes, no, type=I32)


@dataclass(frozen=True, slots=True)
class _Factored:
    """P L U by columns, the exchanges of rows (from 1), and the first zero on the diagonal of u."""

    packed: Block
    pivots: Buffer
    info: Var


def _factored(r: Routines, a: Operand) -> _Factored:
    n = _array(a).shape[0]
    packed = r.matrix("packed", n, n)
    r.transposed(packed, _matrix(a), n, n)
    pivots = r.room("pivots", (n,), "i32")
    info = r.lapack("getrf_work", r.int32(n), r.int32(n), packed.buffer, r.leading(n), pivots)

    def within(i: Var) -> None:  # of NaN no pivot is the largest
        pivot = r.load(Block(pivots, ZERO, n), 0, poly(i))
        wrong = r.compute("or", r.compute("lt", pivot, Lit(1, "i32")), r.compute("gt", pivot, last))
        r.store(Block(pivots, ZERO, n), 0, poly(i), r.compute("select", wrong, last, pivot, type=I32))

    last = r.int32(n)
    r.loop(0, n, within)
    return _Factored(packed, pivots, info)


def _lu(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    n = outs[0].shape[0]
    found = _factored(r, args[0])
    r.transposed(_matrix(outs[0]), found.packed, n, n)
    order = outs[1].buffer
    r.loop(0, n, lambda i: r.s.out.append(Store(order, poly(i), i)))
    k, pivot, row, this, other = (fresh(name, t) for name, t in zip("kprxy", (I64, I32, I64, I64, I64), strict=True))
    there = poly(row) - 1
    body = (
        Load(pivot, found.pivots, poly(k)),
        Convert(row, pivot),
        Load(this, order, poly(k)),
        Load(other, order, there),
        Store(order, poly(k), other),
        Store(order, there, this),
    )
    r.s.out.append(For(k, ZERO, n, (), (), Body(body, ()), ()))
    return Done((found.info,))


def _det(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    """The product of the diagonal of u, negative after an odd number of exchanges of rows."""
    n = _array(args[0]).shape[0]
    found = _factored(r, args[0])
    i, total = fresh("i", I64), fresh("det", Scalar(r.dtype))
    with r.s.collect() as stmts:
        x = r.load(found.packed, poly(i), poly(i))
        pivot = r.load(Block(found.pivots, ZERO, n), 0, poly(i))
        here = r.evaluate(poly(i) + 1)
        wide = fresh("pivot", I64)
        r.s.out.append(Convert(wide, pivot))
        value = r.compute("select", r.compute("eq", wide, here), x, r.compute("neg", x), type=Scalar(r.dtype))
    r.s.loop(i, (ZERO,), (n,), stmts, [Reduction("prod", total, value)])
    return Done((total,))


def _solve(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    b, out = _array(args[1]), _matrix(outs[0])
    n, columns = b.shape
    found = _factored(r, args[0])

    def solved() -> None:
        if columns == 1:
            _library_solve(r, found, b, out)
        else:
            r.when(_many(r, n, columns), lambda: _own_solve(r, found, b, out), lambda: _library_solve(r, found, b, out))

    r.when(r.compute("eq", found.info, Lit(0, "i64")), solved)
    _unless(r, found.info, outs)
    return Done((found.info,))


def _library_solve(r: Routines, found: _Factored, b: ArrayValue, out: Block) -> None:
    """The solution for a matrix that has been factored, by LAPACK."""
    n, columns = b.shape
    stride = r.leading(n)
    factors = found.packed.buffer, stride, found.pivots
    if columns == 1:
        _copied(r, b, out.buffer)
        r.lapack("getrs_work", letter("N"), r.int32(n), r.int32(columns), *factors, out.buffer, stride)
        return
    x = Buffer("x", r.dtype)
    r.s.out.append(Allocate(x, (columns, n), 0, r.s.span))
    r.transposed(Block(x, ZERO, n), _matrix(b), columns, n)
    r.lapack("getrs_work", letter("N"), r.int32(n), r.int32(columns), *factors, x, stride)
    r.transposed(out, Block(x, ZERO, n), n, columns)
    r.s.out.append(Free(x))


def _own_solve(r: Routines, found: _Factored, b: ArrayValue, out: Block) -> None:
    """The same in blocks, where the right-hand sides lie."""
    n, columns = b.shape
    _copied(r, b, out.buffer)
    k, other = fresh("k", I64), fresh("row", I64)
    with r.s.collect() as stmts:
        pivot = r.load(Block(found.pivots, ZERO, n), 0, poly(k))
        r.s.out.append(Convert(other, pivot))
        there = poly(other) - 1

        def exchange(j: Var) -> None:
            x, y = r.load(out, poly(k), poly(j)), r.load(out, there, poly(j))
            r.store(out, poly(k), poly(j), y)
            r.store(out, there, poly(j), x)

        r.when(r.compute("ne", r.evaluate(there), k), lambda: r.loop(0, columns, exchange))
    r.s.out.append(For(k, ZERO, n, (), (), Body(tuple(stmts), ()), ()))
    for forward in (True, False):
        triangle = Triangle(n, lambda i, j: r.load(found.packed, j, i), forward, unit=forward)
        substitute(r, triangle, out, columns)


# ---- orthogonal factors ----------------------------------------------------------------------------------------------
def _qr(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    m, n = _array(args[0]).shape
    k = outs[1].shape[0]
    work, q = r.matrix("work", n, m), r.matrix("q", k, m)
    scales = r.room("scales", (k,))
    r.transposed(work, _matrix(args[0]), n, m)
    asked = r.lapack("geqrf", r.int32(m), r.int32(n), work.buffer, r.leading(m), scales)
    r_ = _matrix(outs[1])

    def row(i: Var) -> None:
        r.loop(0, poly(i), lambda j: r.store(r_, poly(i), poly(j), r.real(0.0)))
        r.loop(poly(i), n, lambda j: r.store(r_, poly(i), poly(j), r.load(work, poly(j), poly(i))))

    r.loop(0, k, row)
    r.map(k, m, lambda i, j: r.load(work, poly(i), poly(j)), q)
    again = r.lapack("orgqr", r.int32(m), r.int32(k), r.int32(k), q.buffer, r.leading(m), scales)
    r.transposed(_matrix(outs[0]), q, m, k)
    return Done((), r.compute("minimum", asked, again))


def _svd(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    m, n = _array(args[0]).shape
    k = outs[1].shape[0]
    a = _matrix(args[0])
    work, u, vt = r.matrix("work", n, m), r.matrix("u", k, m), r.matrix("vt", n, k)

    def decompose() -> Atom:
        r.transposed(work, a, n, m)
        rows, least = r.leading(m), r.leading(k)
        info = r.lapack(
            "gesdd", letter("S"), r.int32(m), r.int32(n), work.buffer, rows, outs[1].buffer, u.buffer, rows, vt.buffer,
            least,
        )  # fmt: skip
        r.transposed(_matrix(outs[0]), u, m, k)
        r.transposed(_matrix(outs[2]), vt, k, n)
        return info

    info = r.choose(_finite(r, m, lambda i: n, a), decompose, lambda: NOT_FINITE)
    _unless(r, info, outs)
    return Done((info,), info)


def _eigh(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    a = _array(args[0])
    n = a.shape[0]
    vectors = r.matrix("vectors", n, n)

    def decompose() -> Atom:
        _copied(r, a, vectors.buffer)  # by columns its upper triangle
        info = r.lapack("syevd", letter("V"), letter("U"), r.int32(n), vectors.buffer, r.leading(n), outs[0].buffer)
        r.transposed(_matrix(outs[1]), vectors, n, n)
        return info

    info = r.choose(_finite(r, n, lambda i: poly(i) + 1, _matrix(a)), decompose, lambda: NOT_FINITE)
    _unless(r, info, outs)
    return Done((info,), info)


def _finite(r: Routines, rows: Size, columns: Callable[[Var], Size], a: Block) -> Var:
    """Whether all elements in the first columns of the rows are finite."""
    i, j = fresh("i", I64), fresh("j", I64)
    row, all = fresh("finite", Scalar("bool")), fresh("finite", Scalar("bool"))
    with r.s.collect() as outer:
        with r.s.collect() as inner:
            fine = r.compute("isfinite", r.load(a, poly(i), poly(j)))
        r.s.loop(j, (ZERO,), (columns(i),), inner, [Reduction("all", row, fine)])
    r.s.loop(i, (ZERO,), (rows,), outer, [Reduction("all", all, row)])
    return all


def _argsort(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    x = _array(args[0])
    argsort(r, x.buffer, x.shape[0], outs[0].buffer)
    return Done(())


def _cholesky_pullback(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    n = outs[0].shape[0]
    cholesky_pullback(r, n, _matrix(args[0]), _matrix(args[1]), _matrix(outs[0]))
    return Done(())


def _cholesky_pushforward(r: Routines, args: Sequence[Operand], outs: Sequence[ArrayValue]) -> Done:
    """l Φ(l⁻¹ ȧ l⁻ᵀ), where Φ takes the lower triangle and half of the diagonal."""
    l, x, n = _matrix(args[0]), _matrix(outs[0]), outs[0].shape[0]
    _copied(r, _array(args[1]), x.buffer)
    size, stride, half = r.int32(n), r.leading(n), r.real(0.5)
    both = size, size, r.real(1.0), l.buffer, stride, x.buffer, stride

    def own() -> None:
        triangle = Triangle(n, lambda i, j: r.load(l, i, j), forward=True, unit=False)
        turned = r.s.allocate("turned", Array(r.dtype, (n, n)), own=False)
        substitute(r, triangle, x, n)
        r.transposed(Block(turned, ZERO, n), x, n, n)
        r.s.out.append(Move(x.buffer, turned, n * n))
        substitute(r, triangle, x, n)  # what comes out is symmetric
        r.s.out.append(Free(turned))

    def library() -> None:
        r.blas("trsm", LEFT, LOWER, PLAIN, ANY_DIAGONAL, *both)
        r.blas("trsm", RIGHT, LOWER, TRANSPOSED, ANY_DIAGONAL, *both)

    r.when(_many(r, n, n), own, library)

    def row(i: Var) -> None:
        r.store(x, poly(i), poly(i), r.compute("mul", r.load(x, poly(i), poly(i)), half))
        r.loop(poly(i) + 1, n, lambda j: r.store(x, poly(i), poly(j), r.real(0.0)))

    r.loop(0, n, row)
    r.blas("trmm", LEFT, LOWER, PLAIN, ANY_DIAGONAL, *both)
    return Done(())


_OPERATIONS: dict[str, Direct] = {
    "argsort": _argsort,
    "cholesky": _cholesky,
    "cholesky_pullback": _cholesky_pullback,
    "cholesky_pushforward": _cholesky_pushforward,
    "triangular_solve": _triangular_solve,
    "lu": _lu,
    "det": _det,
    "solve": _solve,
    "qr": _qr,
    "svd": _svd,
    "eigh": _eigh,
}
