"""Products, triangular solutions and other matrices made of matrices, as the rules of linear algebra emit them."""

from __future__ import annotations

from collections.abc import Callable

from dlang.ad.rules import scalar
from dlang.ir.anf import Atom, Keep, Let, Library, Lit, Read, Size, Var, poly
from dlang.ir.builder import Builder, axis
from dlang.ir.types import array_type, dtype_of

Entry = Callable[[Var, Var], Atom]


def at(b: Builder, x: Var, i: Var, j: Var) -> Var:
    return b.one(Read(x, (poly(i), poly(j))))


def matrix(b: Builder, like: Var, entry: Entry) -> Var:
    """The matrix of the shape of another with the given entries."""
    return b.map(array_type(like).shape, entry)


def product(b: Builder, x: Var, y: Var) -> Var:
    (m, n), (_, k) = array_type(x).shape, array_type(y).shape
    i, p, j = axis(m), axis(n), axis(k)

    def body(i: Var, j: Var, p: Var) -> Atom:
        return b.mul(at(b, x, i, p), at(b, y, p, j))

    (out,) = b.comp((i, j, p), body, [Keep((m, k), (poly(i.var), poly(j.var)))])
    return out


def transpose(b: Builder, x: Var) -> Var:
    m, n = array_type(x).shape
    return b.view(x, (n, m), lambda i, j: (poly(j), poly(i)))


def leading(b: Builder, x: Var, k: Size) -> Var:
    """The first k rows and columns."""
    return b.view(x, (k, k), lambda i, j: (poly(i), poly(j)))


def symmetric(b: Builder, x: Var) -> Var:
    half = Lit(0.5, dtype_of(x))
    return matrix(b, x, lambda i, j: b.mul(half, b.add(at(b, x, i, j), at(b, x, j, i))))


def plus(b: Builder, x: Var, y: Var) -> Var:
    return matrix(b, x, lambda i, j: b.add(at(b, x, i, j), at(b, y, i, j)))


def minus(b: Builder, x: Var, y: Var) -> Var:
    return matrix(b, x, lambda i, j: b.sub(at(b, x, i, j), at(b, y, i, j)))


def negated(b: Builder, x: Var) -> Var:
    return matrix(b, x, lambda i, j: scalar(b, "neg", at(b, x, i, j)))


def triangular(
    b: Builder, a: Var, rhs: Var, *, lower: bool = True, transposed: bool = False, unit: bool = False
) -> Var:
    flags = (Lit(flag, "bool") for flag in (lower, transposed, unit))
    return b.emit(Library("triangular_solve", (a, rhs, *flags)))[0]


# ---- derivatives of Cholesky's factor --------------------------------------------------------------------------------
CHOLESKY = ("cholesky_pullback", "cholesky_pushforward")


def in_products(b: Builder, let: Let) -> list[Let]:
    """A derivative of Cholesky's factor, which is about to be differentiated, in operations that have rules.

    A = L Lᵀ with dA symmetric: L⁻¹ dA L⁻ᵀ = L⁻¹ dL + (L⁻¹ dL)ᵀ, so L⁻¹ dL is Φ of the left side, Φ the lower triangle
    with half of the diagonal: L̇ = L Φ(L⁻¹ Ȧ L⁻ᵀ), and Ā = S + Sᵀ halved, S = L⁻ᵀ Φ(Lᵀ L̄) L⁻¹.
    """
    op = let.op
    assert isinstance(op, Library)
    factor, given = op.args
    assert isinstance(factor, Var) and isinstance(given, Var)
    zero, half, one = (Lit(value, dtype_of(factor)) for value in (0.0, 0.5, 1.0))

    def lower(x: Var) -> Var:
        return matrix(b, factor, lambda i, j: b.select(b.prim("ge", i, j), at(b, x, i, j), zero))

    def phi(x: Var) -> Var:
        def entry(i: Var, j: Var) -> Atom:
            weight = b.select(b.prim("eq", i, j), half, b.select(b.prim("gt", i, j), one, zero))
            return b.mul(weight, at(b, x, i, j))

        return matrix(b, factor, entry)

    with b.scope() as lets:
        if op.name == "cholesky_pullback":
            left = triangular(b, factor, phi(product(b, transpose(b, factor), lower(given))), transposed=True)
            out = symmetric(b, triangular(b, factor, transpose(b, left), transposed=True))
        else:
            left = triangular(b, factor, given)
            out = product(b, lower(factor), phi(triangular(b, factor, transpose(b, left))))
    last = lets.pop()
    assert last.vars == (out,)
    return [*lets, Let(let.vars, last.op, let.span)]
