"""Linear algebra by LAPACK, on matrices of f64 or f32 in row-major order; the last result is `info` where there is one.

LAPACK's matrices are column-major. Where an operation commutes with transposition no data is moved: the lower triangle
of a row-major matrix is the upper one of the same memory read by columns. The interpreter calls these functions, and
compiled code the same routines for small matrices, eigenvectors and singular vectors, so signs and order are equal.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

from dlang.host.platform.machine import openblas
from dlang.lazy_modules import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[Any]


_BY_COLUMNS = 102  # LAPACK_COL_MAJOR
NOT_FINITE = -1


def cholesky(a: Matrix) -> list[Any]:
    """The lower factor l of the symmetric matrix whose lower triangle is that of a; and `info`."""
    n = len(a)
    factor = np.triu(a.T).copy(order="F")  # by columns its upper triangle: a = uᵀ u, and l is u by rows
    info = _call("potrf_work", a, b"U", n, factor, _leading(n))
    if not info:  # OpenBLAS lets NaN pass for a positive pivot
        broken = np.flatnonzero(~(np.diagonal(factor) > 0))
        info = int(broken[0]) + 1 if len(broken) else 0
    return [_unless(info, factor.T), np.int64(info)]


def lu(a: Matrix) -> list[Any]:
    """l and u packed in one matrix, the order of the rows: a[order] = l u, how many were exchanged, and info.

    Exists for singular a too.
    """
    n = len(a)
    packed, pivots = a.copy(order="F"), np.arange(1, n + 1, dtype=np.int32)
    info = _call("getrf_work", a, n, n, packed, _leading(n), pivots)
    pivots[(pivots < 1) | (pivots > n)] = n  # of NaN no pivot is the largest
    order = np.arange(n)
    for k, row in enumerate(pivots - 1):
        order[k], order[row] = order[row], order[k]
    exchanges = np.count_nonzero(pivots != np.arange(1, n + 1))
    return [np.ascontiguousarray(packed), order, np.int64(exchanges), np.int64(info)]


def lu_solve(a: Matrix, packed: Matrix, order: NDArray[np.int64], b: Matrix) -> list[Any]:
    """x with a x = b, where `packed` and `order` are those of `lu`."""
    below, _ = triangular_solve(packed, b[order], True, False, True)
    return triangular_solve(packed, below, False, False, False)[:1]


def lu_solve_transposed(a: Matrix, packed: Matrix, order: NDArray[np.int64], b: Matrix) -> list[Any]:
    """x with aᵀ x = b."""
    above, _ = triangular_solve(packed, b, False, True, False)
    x = np.empty_like(b)
    x[order] = triangular_solve(packed, above, True, True, True)[0]
    return [x]


def lu_inverse(a: Matrix, packed: Matrix, order: NDArray[np.int64]) -> list[Any]:
    return lu_solve(a, packed, order, np.eye(len(a), dtype=a.dtype))


def lu_det(a: Matrix, packed: Matrix, order: NDArray[np.int64], exchanges: int) -> list[Any]:
    """The determinant: the product of the diagonal of u, negative after an odd number of exchanges of rows."""
    return [np.prod(np.diagonal(packed)) * a.dtype.type(-1 if exchanges % 2 else 1)]


def lu_logdet(a: Matrix, packed: Matrix, order: NDArray[np.int64]) -> list[Any]:
    """The logarithm of the absolute value of the determinant."""
    return [np.sum(np.log(np.abs(np.diagonal(packed))), dtype=a.dtype)]


def lu_cofactors(a: Matrix, packed: Matrix, order: NDArray[np.int64], exchanges: int, *directions: Matrix) -> list[Any]:
    """The cofactors: the determinant times the transpose of the inverse, or by singular values; or their derivative."""
    (value,) = lu_det(a, packed, order, exchanges)
    if value != 0 and not directions:
        return [value * lu_inverse(a, packed, order)[0].T]
    return [_minors(a, directions)]


def _minors(a: Matrix, directions: Sequence[Matrix]) -> Matrix:
    """Weighs the entries of a last direction in the derivative of the determinant along some directions and it.

    Of a diagonal matrix: for each choice of rows for the directions, and each permutation of these rows.
    """
    u, s, vt, _ = svd(a, len(a))
    n, k = len(a), len(directions)
    turned = [u.T @ h @ vt.T for h in directions]
    out = np.zeros_like(a)
    for rows in permutations(range(n), k + 1):
        other_factors = np.prod(np.delete(s, rows))
        for order in permutations(range(k + 1)):
            sign = np.linalg.det(np.eye(k + 1)[list(order)])
            entries = [h[rows[m], rows[order[m]]] for m, h in enumerate(turned, 1)]
            out[rows[0], rows[order[0]]] += sign * other_factors * np.prod(entries)
    minors: Matrix = (np.linalg.det(u @ vt) * (u @ out @ vt)).astype(a.dtype)
    return minors


def triangular_solve(a: Matrix, b: Matrix, lower: bool, transposed: bool, unit: bool) -> list[Any]:
    """x with op(a) x = b, where op(a) is a or its transpose and only one triangle of a is read."""
    n, columns = b.shape
    x = b.copy(order="F")
    by_columns = b"U" if lower else b"L", b"N" if transposed else b"T"  # the memory of a read by columns is aᵀ
    info = 0
    if b.size:
        matrix, unit_flag = np.ascontiguousarray(a), b"U" if unit else b"N"
        info = _call("trtrs_work", a, *by_columns, unit_flag, n, columns, matrix, _leading(n), x, _leading(n))
        if not info and not np.isfinite(x).all():  # kernels of BLAS may spread what is not finite further
            x = _substituted(a.T if transposed else a, b, lower != transposed, unit)
    elif not unit:
        zeros = np.flatnonzero(np.diagonal(a) == 0)
        info = int(zeros[0]) + 1 if len(zeros) else 0
    return [_unless(info, x), np.int64(info)]


def _substituted(a: Matrix, b: Matrix, forward: bool, unit: bool) -> Matrix:
    """x with a x = b, element by element: what is not finite reaches what is computed from it, and nothing else."""
    x, order = b.copy(), range(len(a)) if forward else range(len(a) - 1, -1, -1)
    with np.errstate(all="ignore"):
        for turn, k in enumerate(order):
            if not unit:
                x[k] /= a[k, k]
            for i in order[turn + 1 :]:
                x[i] -= a[i, k] * x[k]
    return x


def qr(a: Matrix, k: int) -> list[Any]:
    """q with k orthonormal columns and r, upper triangular with k rows, by Householder reflections."""
    m, n = a.shape
    k = int(k)
    work = a.copy(order="F")
    scales = np.empty(k, a.dtype)
    _call("geqrf", a, m, n, work, _leading(m), scales)
    r = np.triu(work[:k])
    q = work[:, :k].copy(order="F")
    _call("orgqr", a, m, k, k, q, _leading(m), scales)
    return [np.ascontiguousarray(q), np.ascontiguousarray(r)]


def svd(a: Matrix, k: int) -> list[Any]:
    """u, s, vt: the reduced singular value decomposition by divide and conquer; s descends."""
    m, n = a.shape
    k = int(k)
    u, s, vt = np.empty((m, k), a.dtype, "F"), np.empty(k, a.dtype), np.empty((k, n), a.dtype, "F")
    if not np.isfinite(a).all():
        info = NOT_FINITE
    else:
        work = a.copy(order="F")
        info = _call("gesdd", a, b"S", m, n, work, _leading(m), s, u, _leading(m), vt, _leading(k))
    return [*(_unless(info, x) for x in (u, s, vt)), np.int64(info)]


def eigh(a: Matrix) -> list[Any]:
    """w ascending and v, whose columns are eigenvectors, of the symmetric matrix whose lower triangle is that of a."""
    n = len(a)
    vectors = a.T.copy(order="F")  # by columns its upper triangle
    w = np.empty(n, a.dtype)
    if not np.isfinite(np.tril(a)).all():
        info = NOT_FINITE
    else:
        info = _call("syevd", a, b"V", b"U", n, vectors, _leading(n), w)
    return [_unless(info, w), _unless(info, vectors), np.int64(info)]


OPERATIONS: dict[str, Callable[..., list[Any]]] = {
    "cholesky": cholesky,
    "lu": lu,
    "lu_solve": lu_solve,
    "lu_solve_transposed": lu_solve_transposed,
    "lu_inverse": lu_inverse,
    "lu_det": lu_det,
    "lu_logdet": lu_logdet,
    "lu_cofactors": lu_cofactors,
    "triangular_solve": triangular_solve,
    "qr": qr,
    "svd": svd,
    "eigh": eigh,
}


def _unless(info: int, x: Matrix) -> Matrix:
    """A result by rows; NaN throughout if it does not exist."""
    return np.full(x.shape, np.nan, x.dtype) if info else np.ascontiguousarray(x)


def _leading(rows: int) -> int:
    """The distance of columns: LAPACK wants at least 1."""
    return max(rows, 1)


# The parameters of the routines behind the layout: a letter, a number, or the address of an array. LAPACKE allocates
# the workspace of those that need one; `_work` is the form without, which calls LAPACK at once.
_SIGNATURES = {
    "potrf_work": "cnan",
    "getrf_work": "nnana",
    "trtrs_work": "cccnnanan",
    "geqrf": "nnana",
    "orgqr": "nnnana",
    "gesdd": "cnnanaanan",
    "syevd": "ccnana",
}
_TYPES = {"c": ctypes.c_char, "n": ctypes.c_int, "a": ctypes.c_void_p}


@cache
def _routine(name: str, precision: str) -> Any:
    function = getattr(openblas(), f"scipy_LAPACKE_{precision}{name}")
    function.argtypes = [ctypes.c_int, *(_TYPES[kind] for kind in _SIGNATURES[name])]
    return function


def _call(name: str, like: Matrix, *args: Any) -> int:
    """A routine of LAPACK in the dtype of a matrix; gives info."""
    passed = [_BY_COLUMNS]
    for x in args:
        if isinstance(x, np.ndarray):
            if x.size >= 2**31:
                raise MemoryError("a matrix of 2^31 elements or more is beyond this LAPACK")
            x = x.__array_interface__["data"][0]
        passed.append(x)
    info = int(_routine(name, "d" if like.dtype == np.float64 else "s")(*passed))
    if info < -1000:  # LAPACKE's own codes: it could not allocate
        raise MemoryError
    assert info >= 0, f"{name} refuses its argument {-info}"
    return info


# ---- derivatives of Cholesky's factor --------------------------------------------------------------------------------
# Derivatives of Cholesky's factor for a few times what the factor costs.
#
#     a = l lᵀ,   blocks:   l21 = a21 l11⁻ᵀ,   a22 - l21 l21ᵀ = l22 l22ᵀ
#
# Each is the differential of the blocks, or its transpose, recursively, so nearly all work is products of matrices:
# Murray, Differentiation of the Cholesky decomposition (2016). Written in triangular solutions for the whole matrix, as
# small blocks are, they would cost four times as much.

BLOCK = 32  # rows up to which the formula for the whole matrix is as fast


def pullback(l: Matrix, bar: Matrix) -> Matrix:
    """The cotangent of the symmetric matrix whose lower factor is l; above its diagonal that of l is not read."""
    below = _pulled(l, np.tril(bar))
    return 0.5 * (below + below.T)


def _pulled(l: Matrix, bar: Matrix) -> Matrix:
    """A lower triangle: the cotangents of the elements of a in and below the diagonal, each of which stands for two."""
    n = len(l)
    if n <= BLOCK:
        whole = _solved(l, _solved(l, _phi(np.tril(l).T @ bar), transposed=True).T, transposed=True)
        both = np.tril(whole + whole.T)
        np.fill_diagonal(both, np.diagonal(whole))
        return both
    k = n // 2
    l11, l21, l22 = l[:k, :k], l[k:, :k], l[k:, k:]
    out = np.zeros_like(l)
    out[k:, k:] = s22 = _pulled(l22, bar[k:, k:])
    # l21 l21ᵀ is taken off a22; l21 solves l21 l11ᵀ = a21
    out[k:, :k] = s21 = _solved(l11, (bar[k:, :k] - (s22 + s22.T) @ l21).T, transposed=True).T
    out[:k, :k] = _pulled(l11, bar[:k, :k] - np.tril(s21.T @ l21))
    return out


def pushforward(l: Matrix, dot: Matrix) -> Matrix:
    n = len(l)
    if n <= BLOCK:
        return np.tril(l) @ _phi(_solved(l, _solved(l, dot).T))
    k = n // 2
    l11, l21, l22 = l[:k, :k], l[k:, :k], l[k:, k:]
    out = np.zeros_like(l)
    out[:k, :k] = d11 = pushforward(l11, dot[:k, :k])
    out[k:, :k] = d21 = _solved(l11, (dot[k:, :k] - l21 @ d11.T).T).T
    off = d21 @ l21.T
    out[k:, k:] = pushforward(l22, dot[k:, k:] - off - off.T)
    return out


def _phi(x: Matrix) -> Matrix:
    """The lower triangle with half of the diagonal."""
    out = np.tril(x)
    np.fill_diagonal(out, 0.5 * np.diagonal(x))
    return out


def _solved(l: Matrix, x: Matrix, transposed: bool = False) -> Matrix:
    """l⁻¹ x, or l⁻ᵀ x."""
    out: Matrix = triangular_solve(np.ascontiguousarray(l), np.ascontiguousarray(x), True, transposed, False)[0]
    return out


def perform(name: str, args: Sequence[Any]) -> list[Any]:
    """The results of an operation. Its arguments, arrays in row-major order and scalars, are left as they are."""
    if name == "argsort":
        return [np.argsort(args[0], kind="stable")]
    with np.errstate(all="ignore"):
        if name == "cholesky_pullback":
            return [pullback(*args)]
        if name == "cholesky_pushforward":
            return [pushforward(*args)]
        return OPERATIONS[name](*args)
