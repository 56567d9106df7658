"""The operations that a library does: the types of their results, and how many operations they count as.

All are total. A factorisation or a solution that does not exist is reported as LAPACK does, by an i64 `info` among the
results: 0 if all is well. What it means to the program is an `Assert` on `info` that hands on the other results, so no
pass has to know that a library can fail. k stands for an i64 argument that is min(m, n).

    argsort(x[n])                               -> positions[n]                  stable, ascending, NaN last
    cholesky(a[n, n])                           -> l[n, n], info                 of the lower triangle; a = l lᵀ
    cholesky_pullback(l[n, n], bar[n, n])       -> the cotangent of a, symmetric; of l and bar the lower triangles
    cholesky_pushforward(l[n, n], dot[n, n])    -> the tangent of l, where that of a is dot, symmetric
    lu(a[n, n])                                 -> packed[n, n], order[n], exchanges, info
                                                   a[order] = l u; l has a unit diagonal; an i64 says how many rows were
                                                   exchanged to get there
    lu_solve(a, packed, order, b[n, r])         -> x[n, r]                       a x = b
    lu_solve_transposed(a, packed, order, b)    -> x[n, r]                       aᵀ x = b
    lu_inverse(a, packed, order)                -> the inverse
    lu_det(a, packed, order, exchanges)         -> the determinant
    lu_logdet(a, packed, order)                 -> the logarithm of its absolute value
    lu_cofactors(a, packed, order, exchanges, h…) -> the matrix of the cofactors, which is the derivative of the
                                                   determinant, or its derivative along some matrices
    triangular_solve(a, b, lower, transposed, unit) -> x[n, r], info             the other triangle of a is not read
    qr(a[m, n], k)                              -> q[m, k], r[k, n]              a = q r
    svd(a[m, n], k)                             -> u[m, k], s[k], vt[k, n], info a = u diag(s) vt, s descending
    eigh(a[n, n])                               -> w[n], v[n, n], info           lower triangle; w ascending, a v = v w

What is made of the factors of a gets a too, of which it is a function: derivatives are with respect to a and b, and
none goes through the factors. So a matrix is factored once, for a solution, its derivatives and theirs.

info: `cholesky`: the order of the first leading minor that is not positive; `lu`, `triangular_solve`: the first zero on
the diagonal of u or a, from 1; `svd`, `eigh`: -1 where an element is not finite, else positive where the iteration did
not converge. A result that does not exist is filled with NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import Any

from dlang.ir.anf import Array, Atom, LinalgOp, Scalar, Size, Type, poly
from dlang.ir.errors import IRError

_FLOATS = ("f64", "f32")
_INFO = Scalar("i64")
_SOLUTIONS = ("lu_solve", "lu_solve_transposed")


def library_types(op: LinalgOp) -> tuple[Type, ...]:
    """The types of the results; an error if the arguments do not fit."""
    types = [a.type for a in op.args]
    match op.name, types:
        case "argsort", [Array(_, (_,) as shape)]:
            return (Array("i64", shape),)
        case "cholesky", [Array() as a]:
            _matrix(op, a)
            return a, _INFO
        case "cholesky_pullback" | "cholesky_pushforward", [Array() as a, Array() as b]:
            if _matrix(op, a)[2] != _matrix(op, b)[2]:
                raise IRError("the factor and its derivative have different dtypes")
            return (a,)
        case "lu", [Array() as a]:
            n, _, _ = _matrix(op, a)
            return a, Array("i64", (n,)), Scalar("i64"), _INFO
        case name, [Array() as a, Array() as packed, Array("i64", (_,)), *rest] if name.startswith("lu_"):
            if _matrix(op, a)[2] != _matrix(op, packed)[2]:
                raise IRError("the matrix and its factors have different dtypes")
            match name, rest:
                case "lu_solve" | "lu_solve_transposed", [Array() as b]:
                    return (_right_hand_side(op, a, b),)
                case "lu_inverse", []:
                    return (a,)
                case ("lu_det", [Scalar("i64")]) | ("lu_logdet", []):
                    return (Scalar(a.dtype),)
                case "lu_cofactors", [Scalar("i64"), *directions]:
                    if any(_matrix(op, x)[2] != a.dtype for x in directions):
                        raise IRError("the matrix and the directions have different dtypes")
                    return (a,)
        case "triangular_solve", [a, b, Scalar("bool"), Scalar("bool"), Scalar("bool")]:
            return _right_hand_side(op, a, b), _INFO
        case "qr", [a, Scalar("i64")]:
            m, n, dtype = _matrix(op, a)
            k = poly(op.args[1])
            return Array(dtype, (m, k)), Array(dtype, (k, n))
        case "svd", [a, Scalar("i64")]:
            m, n, dtype = _matrix(op, a)
            k = poly(op.args[1])
            return Array(dtype, (m, k)), Array(dtype, (k,)), Array(dtype, (k, n)), _INFO
        case "eigh", [Array() as a]:
            n, _, dtype = _matrix(op, a)
            return Array(dtype, (n,)), a, _INFO
    raise IRError(f"there is no library operation {op.name} of {len(types)} such arguments")


def library_cost(name: str, args: Sequence[Any], sizes: Sequence[int]) -> int:
    """The number of operations that it counts as. args: their values; sizes: those of the first array.

    A multiplication or an addition in it counts twice, as in a product: the element that it needs is read.
    """
    if name == "argsort":
        (n,) = sizes
        return 2 * n + n * ceil(log2(max(n, 2)))
    m, n = sizes
    columns = args[3 if name in _SOLUTIONS else 1].shape[1] if name.count("_solve") else 0
    return 2 * _arithmetic(name, m, n, columns)


def _arithmetic(name: str, m: int, n: int, columns: int) -> int:
    """The multiplications and additions of linear algebra with a matrix of m rows and n columns."""
    match name:
        case "cholesky":
            return n**3 // 3 + n * n
        case "cholesky_pullback" | "cholesky_pushforward":
            return 5 * n**3 // 6 + 3 * n * n
        case "lu":
            return 2 * n**3 // 3 + n * n
        case "lu_solve" | "lu_solve_transposed":
            return 2 * n * n * columns
        case "lu_inverse":
            return 4 * n**3 // 3 + n * n
        case "lu_det" | "lu_logdet":
            return n
        case "triangular_solve":
            return n * n * columns
        case "qr":
            return 4 * m * n * min(m, n)
        case _:  # the iterations of `eigh` and `svd` depend on the values: what is usual
            return 20 * m * n * min(m, n)


def equal_sizes(op: LinalgOp) -> list[tuple[Size, Size]]:
    """The pairs of sizes that have to be the same."""
    if op.name in ("argsort", "qr", "svd"):
        return []
    m, n, _ = _matrix(op, op.args[0].type)
    if op.name == "triangular_solve":
        rows, _, _ = _matrix(op, op.args[1].type)
        return [(m, n), (m, rows)]
    if op.name.startswith("lu_"):
        rows, columns, _ = _matrix(op, op.args[1].type)
        order = op.args[2].type
        assert isinstance(order, Array)
        pairs = [(m, n), (m, rows), (m, columns), (m, order.shape[0])]
        if op.name in _SOLUTIONS:
            return [*pairs, (m, _matrix(op, op.args[3].type)[0])]
        return [*pairs, *[(m, k) for x in op.args[4:] for k in _matrix(op, x.type)[:2]]]
    if op.name.startswith("cholesky_"):
        rows, columns, _ = _matrix(op, op.args[1].type)
        return [(m, n), (m, rows), (m, columns)]
    return [(m, n)]


def functional(op: LinalgOp) -> tuple[Atom, ...]:
    """The arguments that the results are a function of, when derivatives are taken: all but factors of a matrix."""
    return (op.args[0], *op.args[3:]) if op.name.startswith("lu_") else op.args


def _right_hand_side(op: LinalgOp, a: Type, b: Type) -> Type:
    if _matrix(op, a)[2] != _matrix(op, b)[2]:
        raise IRError("the matrix and the right-hand side have different dtypes")
    return b


def _matrix(op: LinalgOp, type: Type) -> tuple[Size, Size, str]:
    if not isinstance(type, Array) or len(type.shape) != 2 or type.dtype not in _FLOATS:
        raise IRError(f"{op.name} takes matrices of f64 or f32")
    return type.shape[0], type.shape[1], type.dtype
