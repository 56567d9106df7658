"""Derivatives of Cholesky's factor, to any order.

A = L Lᵀ with dA symmetric: L⁻¹ dA L⁻ᵀ = L⁻¹ dL + (L⁻¹ dL)ᵀ, so L⁻¹ dL is Φ of the left side, Φ the lower triangle with
half of the diagonal. The tangent of the factor and the cotangent of the matrix are operations of their own, which are
done by blocks (Murray, Differentiation of the Cholesky decomposition; 2016):

    pushforward(L, D) = L Φ(L⁻¹ D L⁻ᵀ)
    pullback(L, B) = (S + Sᵀ) / 2,  S = L⁻ᵀ Φ(Lᵀ B) L⁻¹

Each is linear in its second argument and the transpose of the other. How they depend on L is said in themselves: along
L', with Z = L' L⁻¹, the matrix moves by Z D + (Z D)ᵀ more.
"""

from __future__ import annotations

from dlang.ad.dual import Dual
from dlang.ad.matrices import (
    LOWER,
    UPPER,
    at,
    lower_triangle,
    matrix,
    product,
    quotient,
    symmetric,
    transpose,
    triangular,
)
from dlang.ad.scope import Scope
from dlang.ir.anf import Atom, Let, LinalgOp, Lit, Var
from dlang.ir.builder import Builder
from dlang.ir.types import dtype_of

PULLBACK, PUSHFORWARD = "cholesky_pullback", "cholesky_pushforward"


def vjp_cholesky(let: Let, op: LinalgOp, g: Var, scope: Scope) -> None:
    scope.add(op.args[0], scope.b.one(LinalgOp(PULLBACK, (let.vars[0], g))))


def jvp_cholesky(let: Let, op: LinalgOp, s: Dual) -> None:
    a = _var(op.args[0])
    s.set(let.vars[0], s.b.one(LinalgOp(PUSHFORWARD, (let.vars[0], symmetric(s.b, s.array(a))))))


def vjp_derivative(let: Let, op: LinalgOp, g: Var, scope: Scope) -> None:
    """With B of a cotangent of L, D of a tangent of A, P = pushforward(L, D) and S = pullback(L, B), the number
    ⟨B, P⟩ = ⟨S, D⟩ has in L the slope (B Pᵀ - 2 S D) L⁻ᵀ, of which it is the lower triangle.
    """
    b, (l, given) = scope.b, map(_var, op.args)
    if op.name == PULLBACK:
        cotangent, tangent, summed = given, symmetric(b, g), let.vars[0]
        moved = b.one(LinalgOp(PUSHFORWARD, (l, tangent)))
        scope.add(given, moved)
    else:
        cotangent, tangent, moved = g, given, let.vars[0]
        summed = b.one(LinalgOp(PULLBACK, (l, cotangent)))
        scope.add(given, summed)
    if not scope.is_active(l):
        return
    first = product(b, cotangent, transpose(b, moved), LOWER, UPPER, LOWER)
    second = product(b, summed, tangent, out=LOWER)
    two, zero = Lit(2.0, dtype_of(l)), Lit(0.0, dtype_of(l))

    def inner(i: Var, j: Var) -> Atom:  # transposed
        value = b.sub(at(b, first, j, i), b.mul(two, at(b, second, j, i)))
        return b.select(b.prim("le", i, j), value, zero)

    slope = transpose(b, triangular(b, l, matrix(b, l, inner)))
    scope.add(l, lower_triangle(b, slope))


def jvp_derivative(let: Let, op: LinalgOp, s: Dual) -> None:
    """pushforward: Z P + pushforward(L, D' - Z D - (Z D)ᵀ); pullback: pullback(L, B' + Zᵀ B) - Zᵀ S - (Zᵀ S)ᵀ."""
    b, (l, given), out = s.b, map(_var, op.args), let.vars[0]
    dot = s.dot(given)
    if s.dot(l) is None:
        s.set(out, b.one(LinalgOp(op.name, (l, _var(dot)))))
        return
    turn = quotient(b, s.array(l), l)  # Z
    if op.name == PUSHFORWARD:
        along = product(b, turn, given, LOWER)
        rest = _less_both(b, dot, along)
        second = b.one(LinalgOp(op.name, (l, rest)))
        first = product(b, turn, out, LOWER, LOWER, LOWER)
        s.set(out, matrix(b, l, lambda i, j: b.add(at(b, first, i, j), at(b, second, i, j))))
        return
    back = transpose(b, turn)
    more = product(b, back, given, UPPER, LOWER, LOWER)
    if dot is not None:
        own = more
        more = matrix(b, l, lambda i, j: b.add(at(b, _var(dot), i, j), at(b, own, i, j)))
    s.set(out, _less_both(b, b.one(LinalgOp(op.name, (l, more))), product(b, back, out, UPPER)))


def _less_both(b: Builder, x: Atom | None, y: Var) -> Var:
    """x - y - yᵀ, where None is zero."""
    zero = Lit(0.0, dtype_of(y))

    def entry(i: Var, j: Var) -> Atom:
        return b.sub(zero if x is None else at(b, _var(x), i, j), b.add(at(b, y, i, j), at(b, y, j, i)))

    return matrix(b, y, entry)


def _var(atom: Atom | None) -> Var:
    assert isinstance(atom, Var)
    return atom
