"""How far the routines of BLAS and LAPACK that compiled code calls go behind the pointers that they get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.codegen.blas import LEFT, PLAIN
from dlang.codegen.loops import Buffer, Value
from dlang.ir.anf import Atom, Lit, Var

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
