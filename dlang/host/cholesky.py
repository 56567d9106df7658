"""Derivatives of Cholesky's factor for a few times what the factor costs.

    a = l lᵀ,   blocks:   l21 = a21 l11⁻ᵀ,   a22 - l21 l21ᵀ = l22 l22ᵀ

Each is the differential of the blocks, or its transpose, recursively, so nearly all work is products of matrices:
Murray, Differentiation of the Cholesky decomposition (2016). Written in triangular solutions for the whole matrix, as
small blocks are, they would cost four times as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlang.host.lapack import triangular_solve

Matrix = NDArray[Any]
BLOCK = 32  # rows up to which the formula for the whole matrix is as fast


def pullback(l: Matrix, bar: Matrix) -> Matrix:
    """The cotangent of the symmetric matrix whose lower factor is l; above its diagonal that of l is not read."""
    below = _pulled(l, np.tril(bar))
    return 0.5 * (below + below.T)


def pushforward(l: Matrix, dot: Matrix) -> Matrix:
    """The tangent of the lower factor l of a symmetric matrix with the tangent dot, which is symmetric."""
    return _pushed(l, dot)


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


def _pushed(l: Matrix, dot: Matrix) -> Matrix:
    n = len(l)
    if n <= BLOCK:
        return np.tril(l) @ _phi(_solved(l, _solved(l, dot).T))
    k = n // 2
    l11, l21, l22 = l[:k, :k], l[k:, :k], l[k:, k:]
    out = np.zeros_like(l)
    out[:k, :k] = d11 = _pushed(l11, dot[:k, :k])
    out[k:, :k] = d21 = _solved(l11, (dot[k:, :k] - l21 @ d11.T).T).T
    off = d21 @ l21.T
    out[k:, k:] = _pushed(l22, dot[k:, k:] - off - off.T)
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
