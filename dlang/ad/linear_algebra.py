"""The adjoints of linear algebra, written in products, triangular solutions and the operations themselves.

Each rule follows from the differential of the equation that defines the result: Giles, An extended collection of matrix
derivative results for forward and reverse mode algorithmic differentiation (2008); for QR Walter and Lehmann,
Algorithmic differentiation of linear algebra functions with application in optimum experimental design (2010). What a
rule emits are operations that have rules themselves, so derivatives nest.
"""

from __future__ import annotations

from dlang.ad.cholesky import vjp_cholesky, vjp_derivative
from dlang.ad.determinants import vjp_cofactors, vjp_determinant
from dlang.ad.matrices import (
    ABOVE,
    BELOW,
    LOWER,
    UPPER,
    at,
    by_flags,
    leading,
    matrix,
    minus,
    negated,
    part_of,
    plus,
    product,
    symmetric,
    transpose,
    triangular,
)
from dlang.ad.rules import scalar
from dlang.ad.scope import Scope
from dlang.ir.anf import Atom, Let, LinalgOp, Lit, Read, Var, poly
from dlang.ir.builder import Builder
from dlang.ir.types import array_type, dtype_of


def vjp_library(let: Let, op: LinalgOp, scope: Scope) -> None:
    """Emits the adjoint of a library operation with active results."""
    bars = [scope.pop(v) if v in scope.active else None for v in let.vars]
    g = [bar if isinstance(bar, Var) else None for bar in bars]
    match op.name:
        case "cholesky":
            if g[0] is not None:
                vjp_cholesky(let, op, g[0], scope)
        case "cholesky_pullback" | "cholesky_pushforward":
            if g[0] is not None:
                vjp_derivative(let, op, g[0], scope)
        case "lu":
            _lu(let, op, g, scope)
        case "lu_det" | "lu_logdet":
            if bars[0] is not None:
                vjp_determinant(op, bars[0], scope)
        case "lu_cofactors":
            if g[0] is not None:
                vjp_cofactors(op, g[0], scope)
        case "lu_solve" | "lu_solve_transposed":
            _lu_solve(let, op, g, scope)
        case "lu_inverse":
            _lu_inverse(let, op, g, scope)
        case "triangular_solve":
            _triangular_solve(let, op, g, scope)
        case "qr":
            _qr(let, op, g, scope)
        case "svd":
            _svd(let, op, g, scope)
        case "eigh":
            _eigh(let, op, g, scope)
        case name:
            raise AssertionError(f"{name} carries no derivative")


def _lu(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """B = L U, B the rows of A in order: L⁻¹ dB U⁻¹ = L⁻¹ dL + dU U⁻¹, strictly lower and upper triangular.

    B̄ = L⁻ᵀ (low(Lᵀ L̄) + up(Ū Uᵀ)) U⁻ᵀ, and the rows go back to where they came from.
    """
    b, (bar, *_) = scope.b, g
    packed, order, *_ = let.vars
    if bar is None:
        return
    lower = product(b, transpose(b, packed), bar, ABOVE, BELOW, BELOW)
    upper = product(b, bar, transpose(b, packed), UPPER, LOWER, UPPER)

    def entry(i: Var, j: Var) -> Atom:
        below = b.add(at(b, bar, i, j), at(b, lower, i, j))
        return b.select(b.prim("gt", i, j), below, at(b, upper, i, j))

    inner = matrix(b, packed, entry)
    left = triangular(b, packed, inner, transposed=True, unit=True)
    both = triangular(b, packed, transpose(b, left), lower=False)
    place = b.library("argsort", order)

    def back(i: Var, j: Var) -> Atom:
        return b.one(Read(both, (poly(j), poly(b.one(Read(place, (poly(i),)))))))

    scope.add(op.args[0], matrix(b, packed, back))


def _lu_solve(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """A dX = dB - dA X: B̄ = A⁻ᵀ X̄, Ā = -B̄ Xᵀ; with Aᵀ in the place of A, Ā is transposed."""
    b, (bar, *_) = scope.b, g
    x = let.vars[0]
    a, packed, order, rhs = op.args
    if bar is None:
        return
    transposed = op.name == "lu_solve_transposed"
    back = b.one(LinalgOp("lu_solve" if transposed else "lu_solve_transposed", (a, packed, order, bar)))
    scope.add(rhs, back)
    if scope.is_active(a):
        left, right = (x, back) if transposed else (back, x)
        scope.add(a, negated(b, product(b, left, transpose(b, right))))


def _lu_inverse(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """dX = -X dA X: Ā = -Xᵀ X̄ Xᵀ."""
    b, (bar, *_) = scope.b, g
    if bar is not None:
        turned = transpose(b, let.vars[0])
        scope.add(op.args[0], negated(b, product(b, product(b, turned, bar), turned)))


def _triangular_solve(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """As `solve` with T, a triangle of A or its transpose; what is not in the triangle has no derivative."""
    b, (bar, *_) = scope.b, g
    x = let.vars[0]
    a, rhs, lower, transposed, unit = op.args
    if bar is None:
        return
    assert isinstance(a, Var)
    back = b.emit(LinalgOp("triangular_solve", (a, bar, lower, b.prim("not", transposed), unit)))[0]
    scope.add(rhs, back)
    if not scope.is_active(a):
        return

    def slope(lower: bool, transposed: bool, unit: bool) -> Var:
        left, right = (x, back) if transposed else (back, x)
        return product(b, left, transpose(b, right), out=part_of(lower, unit))

    scope.add(a, negated(b, by_flags(b, slope, lower, transposed, unit)))


def _qr(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """A = [X Y] = Q [U V], U square; with Y = Q V the second part is V = Qᵀ Y, so Ȳ = Q V̄, and Q̄ gains Y V̄ᵀ.

    X̄ = (Q̄ + Q C) U⁻ᵀ, where C is the symmetric matrix with the lower triangle of U Ūᵀ - Q̄ᵀ Q.
    """
    b = scope.b
    q, r = let.vars
    a = op.args[0]
    assert isinstance(a, Var)
    m, n = array_type(a).shape
    k = array_type(r).shape[0]
    q_bar, r_bar = g
    square = leading(b, r, k)
    low: Var | None = None
    beside_bar: Var | None = None  # of Y, transposed
    if r_bar is not None:
        low = product(b, square, transpose(b, leading(b, r_bar, k)))
        if k != n:
            rest_bar = b.view(r_bar, (k, n - k), lambda i, j: (poly(i), poly(j) + k))
            rest = b.view(a, (m, n - k), lambda i, j: (poly(i), poly(j) + k))
            gained = product(b, rest, transpose(b, rest_bar))
            q_bar = gained if q_bar is None else plus(b, q_bar, gained)
            beside_bar = transpose(b, product(b, q, rest_bar))
    elif k != n:
        beside_bar = b.full((n - k, m), Lit(0.0, dtype_of(q)))
    if q_bar is not None:
        along = product(b, transpose(b, q_bar), q)
        low = negated(b, along) if low is None else minus(b, low, along)
    assert low is not None
    inner = product(b, q, _mirrored(b, low))
    if q_bar is not None:
        inner = plus(b, q_bar, inner)
    turned = triangular(b, square, transpose(b, inner), lower=False)
    if beside_bar is not None:
        turned = b.concat(turned, beside_bar)
    scope.add(a, b.view(turned, (m, n), lambda i, j: (poly(j), poly(i))))


def _mirrored(b: Builder, x: Var) -> Var:
    """The symmetric matrix with the lower triangle of another."""
    return matrix(b, x, lambda i, j: b.select(b.prim("ge", i, j), at(b, x, i, j), at(b, x, j, i)))


def _svd(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """With dP = Uᵀ dA V: dS is its diagonal, and the rotations Uᵀ dU, Vᵀ dV have its other entries over s_j² - s_i².

    Ā = (U M + (I - U Uᵀ) Ū S⁻¹) Vᵀ + U S⁻¹ V̄ᵀ (I - V Vᵀ), M = S̄ + (skew(Uᵀ Ū) / E) S + S (skew(Vᵀ V̄) / E), where
    E_ij = s_j² - s_i² and skew(X) = X - Xᵀ. The projections are 0 where U or V is square.
    """
    b = scope.b
    u, s, vt, _ = let.vars
    u_bar, s_bar, vt_bar, _ = g
    m, k = array_type(u).shape
    n = array_type(vt).shape[1]
    zero, one = Lit(0.0, dtype_of(u)), Lit(1.0, dtype_of(u))
    turn_u = None if u_bar is None else product(b, transpose(b, u), u_bar)
    turn_v = None if vt_bar is None else product(b, vt, transpose(b, vt_bar))

    def of(x: Var, i: Var) -> Atom:
        return b.one(Read(x, (poly(i),)))

    def entry(i: Var, j: Var) -> Atom:
        si, sj = of(s, i), of(s, j)
        rotation: Atom = zero
        for turn, scale in ((turn_u, sj), (turn_v, si)):
            if turn is not None:
                skew = b.sub(at(b, turn, i, j), at(b, turn, j, i))
                rotation = scalar(b, "add", rotation, b.mul(skew, scale))
        gap = b.mul(b.sub(sj, si), b.add(sj, si))
        diagonal = zero if s_bar is None else of(s_bar, i)
        return b.select(b.prim("eq", i, j), diagonal, b.prim("zero_safe_mul", rotation, b.prim("div", one, gap)))

    left = product(b, u, b.map((k, k), entry))
    if u_bar is not None and turn_u is not None:
        along = product(b, u, turn_u)
        square = b.prim("eq", b.size(m), b.size(k))

        def outside(i: Var, j: Var) -> Atom:
            rest = b.sub(at(b, u_bar, i, j), at(b, along, i, j))
            value = b.prim("zero_safe_mul", rest, b.prim("div", one, of(s, j)))
            return b.add(at(b, left, i, j), b.select(square, zero, value))

        total = product(b, b.map((m, k), outside), vt)
    else:
        total = product(b, left, vt)
    if vt_bar is not None and turn_v is not None:
        across = product(b, transpose(b, turn_v), vt)
        full = b.prim("eq", b.size(n), b.size(k))

        def beside(i: Var, j: Var) -> Atom:
            rest = b.sub(at(b, vt_bar, i, j), at(b, across, i, j))
            return b.select(full, zero, b.prim("zero_safe_mul", rest, b.prim("div", one, of(s, i))))

        total = plus(b, total, product(b, u, b.map((k, n), beside)))
    scope.add(op.args[0], total)


def _eigh(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """With dP = Vᵀ dA V: dw is its diagonal, and Vᵀ dV has its other entries over w_j - w_i.

    Ā = V M Vᵀ made symmetric, where M is w̄ on the diagonal and (Vᵀ V̄)_ij / (w_j - w_i) elsewhere.
    """
    b = scope.b
    w, v, _ = let.vars
    w_bar, v_bar, _ = g
    zero, one = Lit(0.0, dtype_of(v)), Lit(1.0, dtype_of(v))
    turn = None if v_bar is None else product(b, transpose(b, v), v_bar)

    def entry(i: Var, j: Var) -> Atom:
        diagonal = zero if w_bar is None else b.one(Read(w_bar, (poly(i),)))
        rotation: Atom = zero
        if turn is not None:
            gap = b.sub(b.one(Read(w, (poly(j),))), b.one(Read(w, (poly(i),))))
            rotation = b.prim("zero_safe_mul", at(b, turn, i, j), b.prim("div", one, gap))
        return b.select(b.prim("eq", i, j), diagonal, rotation)

    inner = product(b, v, matrix(b, v, entry))
    scope.add(op.args[0], symmetric(b, product(b, inner, transpose(b, v))))
