"""Linear algebra: what `ops/linear_algebra.py` lists in blocks, and as calls of LAPACK and BLAS from compiled code.

LAPACK's matrices are column-major: what lies in memory by rows is the transpose for it. Where an operation commutes
with transposition no data is moved. Matrices too large for its 32-bit integers, and those for which it finds no
workspace, are left to the host, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.blas import ANY_DIAGONAL, LEFT, LOWER, PLAIN, RIGHT, TRANSPOSED, Block, Routines, letter
from dlang.codegen.blocks import Scheduler
from dlang.codegen.cholesky import cholesky_factor, cholesky_pullback
from dlang.codegen.lu import lu_factor, lu_inverted, lu_solution, many
from dlang.codegen.qr import qr_factors
from dlang.codegen.sorting import SORTED, argsort
from dlang.codegen.substitution import Factor, Triangle, by_library, substitute
from dlang.ir.anf import Array, Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, product
from dlang.ops import figures
from dlang.ops.linear_algebra import OPERATIONS

LARGEST = 2**31 - 1
NO_WORKSPACE = -1000  # LAPACKE's own codes lie below
NOT_FINITE = Lit(-1, "i64")
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Done:
    """The scalars among the results; asked: what a routine said that may find no workspace."""

    scalars: tuple[Atom, ...]
    asked: Var | None = None


Direct = Callable[[Routines, Sequence[loops.Operand], Sequence[loops.ArrayValue]], Done]


def has(name: str, dtype: str) -> bool:
    """Tells whether compiled code does an operation itself, for a first argument of a dtype."""
    return name in _OPERATIONS and (OPERATIONS[name].matrices or dtype in SORTED)


def directly(s: Scheduler, name: str, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    """Emits one of these operations on arrays in a row."""
    routines = Routines(s, _array(args[0]).buffer.dtype)
    done = _OPERATIONS[name](routines, args, outs)
    routines.done()
    return done


def fits(s: Scheduler, name: str, args: Sequence[loops.Operand]) -> Atom:
    """Emits a test whether the arrays have few enough elements for LAPACK, if an operation needs it."""
    r = Routines(s, "")
    result: Atom = Lit(True, "bool")
    if not OPERATIONS[name].matrices:
        return result
    for size in dict.fromkeys(product(a.shape) for a in args if isinstance(a, loops.ArrayValue)):
        if size.constant is not None:
            if size.constant > LARGEST:
                return Lit(False, "bool")
            continue
        small = r.compute("le", r.evaluate(size), Lit(LARGEST, "i64"))
        result = small if isinstance(result, Lit) else r.compute("and", result, small)
    return result


def _array(value: loops.Operand) -> loops.ArrayValue:
    assert isinstance(value, loops.ArrayValue)
    return value


def _matrix(value: loops.Operand) -> Block:
    """An array in a row as a matrix; a vector is one with a row."""
    array = _array(value)
    return Block(array.buffer, ZERO, array.shape[-1])


def _unless(r: Routines, info: Atom, outs: Sequence[loops.ArrayValue]) -> None:
    """Results that do not exist are NaN."""

    def nan() -> None:
        for out in outs:
            rows = product(out.shape[:-1])
            r.fill(_matrix(out), rows, out.shape[-1], NAN)

    r.when(r.compute("ne", info, Lit(0, "i64")), nan)


def _copied(r: Routines, source: loops.ArrayValue, target: loops.Buffer) -> None:
    r.s.out.append(loops.Move(target, source.buffer, product(source.shape)))


# ---- factors and solutions -------------------------------------------------------------------------------------------
def _cholesky(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    """Factorises a matrix. LAPACK stores by columns: it sees a lower factor as an upper one, a matrix transposed."""
    a, l = _matrix(args[0]), _matrix(outs[0])
    n = outs[0].shape[0]

    def row(i: Var) -> None:
        r.loop(0, poly(i) + 1, lambda j: r.store(l, poly(i), poly(j), r.load(a, poly(i), poly(j))))
        r.loop(poly(i) + 1, n, lambda j: r.store(l, poly(i), poly(j), r.real(0.0)))

    r.loop(0, n, row)
    large = r.compute("ge", r.evaluate(n), Lit(figures.BLOCKED_LU_FROM, "i64"))
    outcome = r.choose(
        large,
        lambda: cholesky_factor(r, n, l),
        lambda: r.lapack("potrf_work", letter("U"), r.int32(n), l.buffer, r.leading(n)),
    )

    def broken(i: Var) -> Atom:
        pivot = r.load(l, poly(i), poly(i))
        return r.compute("not", r.compute("gt", pivot, r.real(0.0)))

    # OpenBLAS lets NaN pass for a positive pivot
    fine = r.compute("eq", outcome, Lit(0, "i64"))
    info = r.choose(fine, lambda: r.first(n, broken), lambda: outcome)
    _unless(r, info, outs)
    return Done((info,))


def _triangular_solve(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    a, b, x = _matrix(args[0]), _array(args[1]), _matrix(outs[0])
    n, columns = b.shape
    lower, transposed, unit = (_flag(v) for v in args[2:])

    def start() -> None:
        _copied(r, b, x.buffer)

    def zero(i: Var) -> Atom:
        empty = r.compute("eq", r.load(a, poly(i), poly(i)), r.real(0.0))
        return r.compute("and", empty, r.compute("not", unit))

    def library() -> None:
        by_library(r, n, a, [Factor(lower, transposed, unit)], x, columns, start)

    def own() -> None:
        turned = transposed == Lit(True, "bool")
        forward = (lower == Lit(True, "bool")) != turned
        triangle = Triangle(
            n, lambda i, j: r.load(a, j, i) if turned else r.load(a, i, j), forward, unit == Lit(True, "bool")
        )
        start()
        substitute(r, triangle, x, columns)

    info = r.first(n, zero)
    if columns != 1 and all(isinstance(flag, Lit) for flag in (lower, transposed, unit)):
        r.when(many(r, n, columns), own, library)
    else:
        library()
    _unless(r, info, outs)
    return Done((info,))


def _flag(value: loops.Operand) -> Atom:
    assert isinstance(value, Var | Lit)
    return value


def _lu(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    _copied(r, _array(args[0]), outs[0].buffer)
    return Done(lu_factor(r, outs[0].shape[0], _matrix(outs[0]), outs[1].buffer))


def _lu_solve(
    r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue], transposed: bool = False
) -> Done:
    def solution() -> None:
        b = _array(args[3])
        packed, order = _matrix(args[1]), _array(args[2]).buffer
        lu_solution(r, b.shape[0], packed, order, _matrix(b), b.shape[1], _matrix(outs[0]), transposed)

    return _if_regular(r, args, outs, solution)


def _lu_solve_transposed(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    return _lu_solve(r, args, outs, transposed=True)


def _lu_inverse(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    packed, order, n = _matrix(args[1]), _array(args[2]).buffer, outs[0].shape[0]
    return _if_regular(r, args, outs, lambda: lu_inverted(r, n, packed, order, _matrix(outs[0])))


def _if_regular(
    r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue], result: Callable[[], None]
) -> Done:
    """Emits a computation from the factors of a matrix, which runs only if u has no zero on its diagonal."""
    packed, n = _matrix(args[1]), _array(args[1]).shape[0]
    info = r.first(n, lambda i: r.compute("eq", r.load(packed, poly(i), poly(i)), r.real(0.0)))
    r.when(r.compute("eq", info, Lit(0, "i64")), result)
    _unless(r, info, outs)
    return Done(())


def _lu_det(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    """The product of the diagonal of u, negative after an odd number of exchanges of rows."""
    product = _over_diagonal(r, args, "prod", lambda x: x)
    odd = r.compute("eq", r.compute("mod", _flag(args[3]), Lit(2, "i64")), Lit(1, "i64"))
    return Done((r.compute("select", odd, r.compute("neg", product), product),))


def _lu_logdet(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    return Done((_over_diagonal(r, args, "sum", lambda x: r.compute("log", r.compute("abs", x))),))


def _over_diagonal(r: Routines, args: Sequence[loops.Operand], monoid: str, value: Callable[[Var], Atom]) -> Var:
    packed, n = _matrix(args[1]), _array(args[1]).shape[0]
    i, total = fresh("i", I64), fresh("total", Scalar(r.dtype))
    with r.s.collect() as stmts:
        term = value(r.load(packed, poly(i), poly(i)))
    r.s.loop(i, (ZERO,), (n,), stmts, [loops.Reduction(monoid, total, term)])
    return total


# ---- orthogonal factors ----------------------------------------------------------------------------------------------
def _qr(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    m, n = _array(args[0]).shape
    k = outs[1].shape[0]
    a, q, upper = _matrix(args[0]), _matrix(outs[0]), _matrix(outs[1])

    def own() -> Atom:
        qr_factors(r, m, n, k, a, q, upper)
        return Lit(0, "i64")

    large = r.compute("ge", r.evaluate(k), Lit(figures.BLOCKED_LU_FROM, "i64"))
    return Done((), r.choose(large, own, lambda: _library_qr(r, (m, n, k), a, q, upper)))


def _library_qr(r: Routines, sizes: tuple[Size, Size, Size], a: Block, q: Block, upper: Block) -> Atom:
    m, n, k = sizes
    with (
        r.s.little_code(),
        r.temporary("work", n, m) as work,
        r.temporary("q", k, m) as turned,
        r.temporary("scales", poly(1), k) as scales,
    ):
        r.transposed(work, a, n, m)
        asked = r.lapack("geqrf", r.int32(m), r.int32(n), work.buffer, r.leading(m), scales.buffer)

        def row(i: Var) -> None:
            r.loop(0, poly(i), lambda j: r.store(upper, poly(i), poly(j), r.real(0.0)))
            r.loop(poly(i), n, lambda j: r.store(upper, poly(i), poly(j), r.load(work, poly(j), poly(i))))

        r.loop(0, k, row)
        r.map(k, m, lambda i, j: r.load(work, poly(i), poly(j)), turned)
        again = r.lapack("orgqr", r.int32(m), r.int32(k), r.int32(k), turned.buffer, r.leading(m), scales.buffer)
        r.transposed(q, turned, m, k)
    return r.compute("minimum", asked, again)


def _svd(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
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

    info = r.choose(r.finite(m, lambda i: n, a), decompose, lambda: NOT_FINITE)
    _unless(r, info, outs)
    return Done((info,), info)


def _eigh(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    a = _array(args[0])
    n = a.shape[0]
    vectors = r.matrix("vectors", n, n)

    def decompose() -> Atom:
        _copied(r, a, vectors.buffer)  # by columns its upper triangle
        info = r.lapack("syevd", letter("V"), letter("U"), r.int32(n), vectors.buffer, r.leading(n), outs[0].buffer)
        r.transposed(_matrix(outs[1]), vectors, n, n)
        return info

    info = r.choose(r.finite(n, lambda i: poly(i) + 1, _matrix(a)), decompose, lambda: NOT_FINITE)
    _unless(r, info, outs)
    return Done((info,), info)


def _argsort(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    x = _array(args[0])
    argsort(r, x.buffer, x.shape[0], outs[0].buffer)
    return Done(())


def _cholesky_pullback(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
    n = outs[0].shape[0]
    cholesky_pullback(r, n, _matrix(args[0]), _matrix(args[1]), _matrix(outs[0]))
    return Done(())


def _cholesky_pushforward(r: Routines, args: Sequence[loops.Operand], outs: Sequence[loops.ArrayValue]) -> Done:
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
        r.s.out.append(loops.Move(x.buffer, turned, n * n))
        substitute(r, triangle, x, n)  # what comes out is symmetric
        r.s.out.append(loops.Free(turned))

    def library() -> None:
        r.blas("trsm", LEFT, LOWER, PLAIN, ANY_DIAGONAL, *both)
        r.blas("trsm", RIGHT, LOWER, TRANSPOSED, ANY_DIAGONAL, *both)

    r.when(many(r, n, n), own, library)

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
    "lu_solve": _lu_solve,
    "lu_solve_transposed": _lu_solve_transposed,
    "lu_inverse": _lu_inverse,
    "lu_det": _lu_det,
    "lu_logdet": _lu_logdet,
    "qr": _qr,
    "svd": _svd,
    "eigh": _eigh,
}
