"""The library operations on traced scalars, by textbook algorithms: for derivatives, on small matrices.

Each takes the arguments and the values that the library gave for them, which decide what an algorithm could choose
otherwise (signs of vectors), and gives results with derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dlang.interpret.traced import ONE, ZERO, Traced, cast, f64, over, primal, widened
from dlang.ir.values import NDArray

Results = list[Any]
SWEEPS, AFTERWARDS = 30, 3  # of Jacobi's method: at most, and after the values have converged, for derivatives


def _wide(matrix: NDArray) -> NDArray:
    out = np.empty(matrix.shape, object)
    for at in np.ndindex(matrix.shape):
        out[at] = widened(matrix[at])
    return out


def _eye(n: int) -> NDArray:
    out = np.empty((n, n), object)
    for i, j in np.ndindex(n, n):
        out[i, j] = ONE if i == j else ZERO
    return out


def _dot(x: NDArray, y: NDArray) -> Any:
    total: Any = ZERO
    for a, b in zip(x, y, strict=True):
        total = total + a * b
    return total


def _times(c: Any, x: NDArray) -> NDArray:
    out = np.empty(len(x), object)
    for k, a in enumerate(x):
        out[k] = c * a
    return out


def _product(a: NDArray, b: NDArray) -> NDArray:
    out = np.empty((a.shape[0], b.shape[1]), object)
    for i, j in np.ndindex(out.shape):
        out[i, j] = _dot(a[i], b[:, j])
    return out


def _rounded(result: NDArray, like: NDArray) -> NDArray:
    """In the dtype of what the library gave. Derivatives are f64 in any case."""
    kind = {np.float64: "f64", np.float32: "f32"}
    out = np.empty(result.shape, object)
    for at in np.ndindex(result.shape):
        x, dtype = result[at], kind[type(like[at])]
        out[at] = over(x, cast(x.value, "f64", dtype)) if isinstance(x, Traced) else cast(x, "f64", dtype)
    return out


def cholesky(args: Results, values: Results) -> Results:
    a = _wide(args[0])
    n = len(a)
    out = _eye(n)
    for i in range(n):
        for j in range(i + 1):
            rest = a[i, j] - _dot(out[i, :j], out[j, :j])
            out[i, j] = f64("sqrt", rest) if i == j else rest / out[j, j]
        out[i, i + 1 :] = [ZERO] * (n - i - 1)
    return [_rounded(out, values[0]), values[1]]


def _eliminated(a: NDArray, order: NDArray) -> NDArray:
    """l and u of the rows of a matrix in an order, packed."""
    out = a[_whole(order)].copy()
    n = len(out)
    for k in range(n):
        for i in range(k + 1, n):
            out[i, k] = out[i, k] / out[k, k]
            for j in range(k + 1, n):
                out[i, j] = out[i, j] - out[i, k] * out[k, j]
    return out


def lu(args: Results, values: Results) -> Results:
    return [_rounded(_eliminated(_wide(args[0]), values[1]), values[0]), *values[1:]]


def lu_det(args: Results, values: Results) -> Results:
    """By Laplace's expansion: a polynomial, so singular matrices are no exception."""
    out = np.empty(1, object)
    out[0] = _laplace(_wide(args[0]))
    like = np.empty(1, object)
    like[0] = values[0]
    return [_rounded(out, like)[0]]


def _laplace(a: NDArray) -> Any:
    if not len(a):
        return ONE
    total: Any = ZERO
    for k in range(len(a)):
        term = a[0, k] * _laplace(np.delete(a[1:], k, axis=1))
        total = total + term if k % 2 == 0 else total - term
    return total


def lu_logdet(args: Results, values: Results) -> Results:
    packed = _eliminated(_wide(args[0]), args[2])
    total: Any = ZERO
    for k in range(len(packed)):
        total = total + f64("log", f64("abs", packed[k, k]))
    out, like = np.empty(1, object), np.empty(1, object)
    out[0], like[0] = total, values[0]
    return [_rounded(out, like)[0]]


def lu_solve(args: Results, values: Results) -> Results:
    a, _, order, b = args
    packed = _eliminated(_wide(a), order)
    below = _substituted(packed, _wide(b)[_whole(order)], lower=True, unit=True)
    return [_rounded(_substituted(packed, below, lower=False, unit=False), values[0])]


def lu_solve_transposed(args: Results, values: Results) -> Results:
    a, _, order, b = args
    packed = _eliminated(_wide(a), order)
    above = _substituted(packed.T, _wide(b), lower=True, unit=False)
    out = above.copy()
    out[_whole(order)] = _substituted(packed.T, above, lower=False, unit=True)
    return [_rounded(out, values[0])]


def lu_inverse(args: Results, values: Results) -> Results:
    return lu_solve([*args, _eye(len(args[0]))], values)


def _whole(order: NDArray) -> list[int]:
    return [int(k) for k in order]


def triangular_solve(args: Results, values: Results) -> Results:
    a, b, lower, transposed, unit = args
    a = _wide(a).T if transposed else _wide(a)
    return [_rounded(_substituted(a, _wide(b), bool(lower) != bool(transposed), bool(unit)), values[0]), values[1]]


def _substituted(a: NDArray, b: NDArray, lower: bool, unit: bool) -> NDArray:
    out = b.copy()
    n = len(a)
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        for j in range(b.shape[1]):
            rest = b[i, j] - _dot(a[i, known], out[known, j])
            out[i, j] = rest if unit else rest / a[i, i]
    return out


def qr(args: Results, values: Results) -> Results:
    """By Gram and Schmidt on the first k columns, twice for accuracy."""
    a = _wide(args[0])
    k, n = values[1].shape
    q = np.empty((len(a), k), object)
    for j in range(k):
        v = a[:, j]
        for _ in range(2):
            for i in range(j):
                v = v - _times(_dot(q[:, i], v), q[:, i])
        sign = np.float64(-1.0 if primal(values[1][j, j]) < 0 else 1.0)
        q[:, j] = _times(sign / f64("sqrt", _dot(v, v)), v)
    r = _product(q.T, a)
    for i, j in np.ndindex(k, n):
        r[i, j] = r[i, j] if i <= j else ZERO
    return [_rounded(q, values[0]), _rounded(r, values[1])]


def eigh(args: Results, values: Results) -> Results:
    a = _wide(args[0])
    n = len(a)
    for i, j in np.ndindex(n, n):
        a[i, j] = a[max(i, j), min(i, j)]
    w, v = _jacobi(a)
    order = np.argsort([float(primal(x)) for x in w], kind="stable")
    w, v = w[order], v[:, order]
    return [_rounded(w, values[0]), _rounded(_signed(v, values[1]), values[1]), values[2]]


def svd(args: Results, values: Results) -> Results:
    """From the eigenvectors of the smaller of aᵀa and aaᵀ: singular values must not be zero."""
    a = _wide(args[0])
    wide = a.shape[0] < a.shape[1]
    a = a.T if wide else a
    w, v = _jacobi(_product(a.T, a))
    order = np.argsort([-float(primal(x)) for x in w], kind="stable")
    w, v = w[order], v[:, order]
    v = _signed(v, values[0] if wide else values[2].T)
    s = np.empty(len(w), object)
    u = _product(a, v)
    for j in range(len(w)):
        s[j] = f64("sqrt", w[j])
        u[:, j] = _times(ONE / s[j], u[:, j])
    left, right = (v, u.T) if wide else (u, v.T)
    return [_rounded(left, values[0]), _rounded(s, values[1]), _rounded(right, values[2]), values[3]]


def _jacobi(a: NDArray) -> tuple[NDArray, NDArray]:
    """Eigenvalues and eigenvectors (as columns) of a symmetric matrix with different eigenvalues."""
    n = len(a)
    a, v = a.copy(), _eye(n)
    converged = 0
    for _ in range(SWEEPS if n > 1 else 0):
        for p in range(n):
            for q in range(p + 1, n):
                gap = a[q, q] - a[p, p]
                if primal(gap) == 0 and primal(a[p, q]) == 0:
                    continue
                if abs(primal(gap)) >= abs(primal(a[p, q])):
                    angle = np.float64(0.5) * f64("atan", np.float64(2.0) * a[p, q] / gap)
                else:
                    sign = np.float64(1.0 if primal(a[p, q]) > 0 else -1.0)
                    quarter = sign * np.float64(np.pi / 4)
                    angle = quarter - np.float64(0.5) * f64("atan", gap / (np.float64(2.0) * a[p, q]))
                c, s = f64("cos", angle), f64("sin", angle)
                for m in (a, a.T, v):  # columns of a, then its rows, then columns of v
                    x, y = m[:, p].copy(), m[:, q].copy()
                    m[:, p], m[:, q] = _times(c, x) - _times(s, y), _times(s, x) + _times(c, y)
        off = max(abs(float(primal(a[i, j]))) for i in range(n) for j in range(i))
        converged += off <= 1e-15 * max(abs(float(primal(a[i, i]))) for i in range(n))
        if converged > AFTERWARDS:
            break
    w = np.empty(n, object)
    for k in range(n):
        w[k] = a[k, k]
    return w, v


def _signed(v: NDArray, like: NDArray) -> NDArray:
    """The columns with the signs of those that the library gave."""
    out = v.copy()
    for j in range(v.shape[1]):
        if sum(float(primal(x)) * float(primal(y)) for x, y in zip(v[:, j], like[:, j], strict=True)) < 0:
            out[:, j] = [-x for x in v[:, j]]
    return out


OPERATIONS: Mapping[str, Callable[[Results, Results], Results]] = {
    "cholesky": cholesky,
    "lu": lu,
    "lu_solve": lu_solve,
    "lu_solve_transposed": lu_solve_transposed,
    "lu_inverse": lu_inverse,
    "lu_det": lu_det,
    "lu_logdet": lu_logdet,
    "triangular_solve": triangular_solve,
    "qr": qr,
    "eigh": eigh,
    "svd": svd,
}
