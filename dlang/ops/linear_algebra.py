"""The operations that a library does, with every fact that a stage asks for: an operation is added here, as one row.

All are total. A factorisation or a solution that does not exist is reported as LAPACK does, by an i64 `info` among the
results: 0 if all is well. What it means to the program is an `Assert` on `info` that hands on the other results, so no
pass has to know that a library can fail. `cholesky`: the order of the first leading minor that is not positive; `lu`,
`triangular_solve`: the first zero on the diagonal of u or a, from 1; `svd`, `eigh`: -1 where an element is not finite,
else positive where the iteration did not converge. A result that does not exist is filled with NaN.

What is made of the factors of a gets a too, of which it is a function: derivatives are with respect to a and b, and
none goes through the factors. So a matrix is factored once, for a solution, its derivatives and theirs.

What each stage does for an operation is keyed by its name there, and a test asks for it: NumPy's and LAPACK's functions
in `host/lapack.py`, loops in `codegen/lapack.py`, derivatives in `ad/linear_algebra.py` and
`ad/linear_algebra.py`, and what these are compared with in `interpret/traced.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

FACTORS = ("packed", "order")
"""The names of arguments that are factors of the first one."""


@dataclass(frozen=True, slots=True)
class Value:
    """An argument or a result. dtype: `t` for that of the matrices; shape: names of sizes, empty for a scalar."""

    name: str
    dtype: str
    shape: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a library.

    about: what it does. cost: the operations that it counts as, by the rows and columns of the first array, and the
    columns of a right-hand side. A multiplication or an addition counts twice, as in a product: the element that it
    needs is read.
    several: whether there may be any number of last arguments, of none on.
    matrices: whether it takes matrices of `PRECISE` floats, and LAPACK does it; else an array of any dtype.
    written: whether programs have it; else only derivatives.
    """

    name: str
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    about: str
    cost: Callable[[int, int, int], int]
    several: bool = False
    matrices: bool = True
    written: bool = True

    @property
    def informs(self) -> bool:
        """Tells whether the last result says that the others exist."""
        return self.results[-1].name == "info"

    @property
    def carries(self) -> bool:
        """Tells whether it has a derivative: its results are floats."""
        return any(r.dtype == "t" for r in self.results)


_VALUE = re.compile(r"(\w+)(…?): (\w+)(?:\[([\w, ]+)\])?")


def _values(text: str) -> tuple[Value, ...]:
    groups = [m.groups() for m in _VALUE.finditer(text)]
    return tuple([Value(name, dtype, tuple(sizes.split(", ")) if sizes else ()) for name, _, dtype, sizes in groups])


def _linear(
    name: str,
    arguments: str,
    results: str,
    about: str,
    arithmetic: Callable[[int, int, int], int],
    written: bool = True,
) -> Operation:
    """Linear algebra with multiplications and additions. An i64 argument with the name of a size is that size."""
    return Operation(
        name,
        _values(arguments),
        _values(results),
        about,
        lambda m, n, r: 2 * arithmetic(m, n, r),
        several="…" in arguments,
        written=written,
    )


_LU = "a: t[n, n], packed: t[n, n], order: i64[n]"

_ROWS = (
    Operation(
        "argsort", _values("x: any[n]"), _values("positions: i64[n]"), "Ascending and stable, NaN last.",
        lambda _, n, r: 2 * n + n * ceil(log2(max(n, 2))), matrices=False,
    ),
    _linear(
        "cholesky", "a: t[n, n]", "l: t[n, n], info: i64", "a = l lᵀ; of a the lower triangle is read.",
        lambda m, n, r: n**3 // 3 + n * n,
    ),
    _linear(
        "cholesky_pullback", "l: t[n, n], bar: t[n, n]", "a_bar: t[n, n]",
        "The cotangent of a, symmetric; of l and its cotangent the lower triangles are read.",
        lambda m, n, r: 5 * n**3 // 6 + 3 * n * n, written=False,
    ),
    _linear(
        "cholesky_pushforward", "l: t[n, n], dot: t[n, n]", "l_dot: t[n, n]",
        "The tangent of l, where that of a is symmetric.",
        lambda m, n, r: 5 * n**3 // 6 + 3 * n * n, written=False,
    ),
    _linear(
        "lu", "a: t[n, n]", "packed: t[n, n], order: i64[n], exchanges: i64, info: i64",
        "a[order] = l u; l has a unit diagonal; `exchanges` says how many rows were exchanged to get there.",
        lambda m, n, r: 2 * n**3 // 3 + n * n,
    ),
    _linear("lu_solve", f"{_LU}, b: t[n, r]", "x: t[n, r]", "a x = b.", lambda m, n, r: 2 * n * n * r),
    _linear("lu_solve_transposed", f"{_LU}, b: t[n, r]", "x: t[n, r]", "aᵀ x = b.", lambda m, n, r: 2 * n * n * r),
    _linear("lu_inverse", _LU, "x: t[n, n]", "The inverse.", lambda m, n, r: 4 * n**3 // 3 + n * n),
    _linear("lu_det", f"{_LU}, exchanges: i64", "d: t", "The determinant.", lambda m, n, r: n),
    _linear("lu_logdet", _LU, "d: t", "The logarithm of the absolute value of the determinant.", lambda m, n, r: n),
    _linear(
        "lu_cofactors", f"{_LU}, exchanges: i64, h…: t[n, n]", "c: t[n, n]",
        "The matrix of the cofactors, which is the derivative of the determinant, or its derivative along matrices h.",
        lambda m, n, r: 20 * n**3, written=False,
    ),
    _linear(
        "triangular_solve", "a: t[n, n], b: t[n, r], lower: bool, transposed: bool, unit: bool",
        "x: t[n, r], info: i64", "a x = b, or aᵀ x = b; the other triangle of a is not read.",
        lambda m, n, r: n * n * r,
    ),
    # k stands for an i64 argument that is min(m, n)
    _linear(
        "qr", "a: t[m, n], k: i64", "q: t[m, k], r: t[k, n]", "a = q r.", lambda m, n, r: 4 * m * n * min(m, n),
    ),
    # the iterations of `eigh` and `svd` depend on the values: what is usual
    _linear(
        "svd", "a: t[m, n], k: i64", "u: t[m, k], s: t[k], vt: t[k, n], info: i64",
        "a = u diag(s) vt, s descending.", lambda m, n, r: 20 * m * n * min(m, n),
    ),
    _linear(
        "eigh", "a: t[n, n]", "w: t[n], v: t[n, n], info: i64",
        "a v = v w, w ascending; of a the lower triangle is read.", lambda m, n, r: 20 * n**3,
    ),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {o.name: o for o in _ROWS}
