"""The derivatives of linear algebra, written in products, triangular solutions and the operations themselves."""

from __future__ import annotations

from dlang.ad.determinants import jvp_cofactors, jvp_determinant, vjp_cofactors, vjp_determinant
from dlang.ad.matrices import (
    ABOVE,
    BELOW,
    LOWER,
    UPPER,
    at,
    by_flags,
    leading,
    lower_triangle,
    matrix,
    minus,
    negated,
    of_quarters,
    part_of,
    plus,
    product,
    quarters,
    quotient,
    symmetric,
    transpose,
    triangular,
)
from dlang.ad.rules import scalar
from dlang.ad.scope import Dual, Scope
from dlang.ir.anf import Atom, Let, LinalgOp, Lit, Read, Var, poly
from dlang.ir.builder import Builder
from dlang.ir.rules import functional
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
            _vjp_lu(let, op, g, scope)
        case "lu_det" | "lu_logdet":
            if bars[0] is not None:
                vjp_determinant(op, bars[0], scope)
        case "lu_cofactors":
            if g[0] is not None:
                vjp_cofactors(op, g[0], scope)
        case "lu_solve" | "lu_solve_transposed":
            _vjp_lu_solve(let, op, g, scope)
        case "lu_inverse":
            _vjp_lu_inverse(let, op, g, scope)
        case "triangular_solve":
            _vjp_triangular_solve(let, op, g, scope)
        case "qr":
            _vjp_qr(let, op, g, scope)
        case "svd":
            _vjp_svd(let, op, g, scope)
        case "eigh":
            _vjp_eigh(let, op, g, scope)
        case name:
            raise AssertionError(f"{name} carries no derivative")


def _vjp_lu(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """B = L U, B the rows of A in order: L⁻¹ dB U⁻¹ = L⁻¹ dL + dU U⁻¹, strictly lower and upper triangular.

    B̄ = L⁻ᵀ (low(Lᵀ L̄) + up(Ū Uᵀ)) U⁻ᵀ, and the rows go back to where they came from.
    """
    b, (bar, *_) = scope.b, g
    packed, order, *_ = let.vars
    if bar is None:
        return
    lower = product(b, transpose(b, packed), bar, ABOVE, BELOW, BELOW)
    upper = product(b, bar, transpose(b, packed), UPPER, LOWER, UPPER)

    inner = _in_one(b, packed, bar, lower, upper)
    left = triangular(b, packed, inner, transposed=True, unit=True)
    both = triangular(b, packed, transpose(b, left), lower=False)
    place = b.library("argsort", order)

    def back(i: Var, j: Var) -> Atom:
        return b.one(Read(both, (poly(j), poly(b.one(Read(place, (poly(i),)))))))

    scope.add(op.args[0], matrix(b, packed, back))


def _vjp_lu_solve(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
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


def _vjp_lu_inverse(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """dX = -X dA X: Ā = -Xᵀ X̄ Xᵀ."""
    b, (bar, *_) = scope.b, g
    if bar is not None:
        turned = transpose(b, let.vars[0])
        scope.add(op.args[0], negated(b, product(b, product(b, turned, bar), turned)))


def _vjp_triangular_solve(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
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


def _vjp_qr(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
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
            right = b.view(a, (m, n - k), lambda i, j: (poly(i), poly(j) + k))
            gained = product(b, right, transpose(b, rest_bar))
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


def _vjp_svd(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
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
            difference = b.sub(at(b, u_bar, i, j), at(b, along, i, j))
            value = b.prim("zero_safe_mul", difference, b.prim("div", one, of(s, j)))
            return b.add(at(b, left, i, j), b.select(square, zero, value))

        total = product(b, b.map((m, k), outside), vt)
    else:
        total = product(b, left, vt)
    if vt_bar is not None and turn_v is not None:
        across = product(b, transpose(b, turn_v), vt)
        full = b.prim("eq", b.size(n), b.size(k))

        def beside(i: Var, j: Var) -> Atom:
            difference = b.sub(at(b, vt_bar, i, j), at(b, across, i, j))
            return b.select(full, zero, b.prim("zero_safe_mul", difference, b.prim("div", one, of(s, i))))

        total = plus(b, total, product(b, u, b.map((k, n), beside)))
    scope.add(op.args[0], total)


def _vjp_eigh(let: Let, op: LinalgOp, g: list[Var | None], scope: Scope) -> None:
    """With dP = Vᵀ dA V: dw is its diagonal, and Vᵀ dV has its other entries over w_j - w_i.

    Ā = V M Vᵀ made symmetric, where M is w̄ on the diagonal and (Vᵀ V̄)_ij / (w_j - w_i) elsewhere.
    """
    b = scope.b
    w, v, _ = let.vars
    w_bar, v_bar, _ = g
    zero = Lit(0.0, dtype_of(v))
    turn = None if v_bar is None else product(b, transpose(b, v), v_bar)

    def entry(i: Var, j: Var) -> Atom:
        diagonal = zero if w_bar is None else b.one(Read(w_bar, (poly(i),)))
        rotation: Atom = zero
        if turn is not None:
            rotation = _over_gap(b, w, turn, i, j)
        return b.select(b.prim("eq", i, j), diagonal, rotation)

    inner = product(b, v, matrix(b, v, entry))
    scope.add(op.args[0], symmetric(b, product(b, inner, transpose(b, v))))


def _over_gap(b: Builder, w: Var, x: Var, i: Var, j: Var) -> Atom:
    """x_ij / (w_j - w_i), which is 0 where x_ij is."""
    gap = b.sub(b.one(Read(w, (poly(j),))), b.one(Read(w, (poly(i),))))
    return b.prim("zero_safe_mul", at(b, x, i, j), b.prim("div", Lit(1.0, dtype_of(w)), gap))


# ---- tangents --------------------------------------------------------------------------------------------------------
# The tangents of linear algebra: the differentials of the equations that define the results.
#
# Giles, An extended collection of matrix derivative results for forward and reverse mode algorithmic differentiation
# (2008); for QR Walter and Lehmann, Algorithmic differentiation of linear algebra functions with application in optimum
# experimental design (2010). Each is the transpose of the rule in `linear_algebra.py`.


def jvp_library(let: Let, op: LinalgOp, s: Dual) -> None:
    """Emits the tangents of a library operation, which has been emitted."""
    if all(s.dot(a) is None for a in functional(op)):
        return
    match op.name:
        case "cholesky":
            jvp_cholesky(let, op, s)
        case "cholesky_pullback" | "cholesky_pushforward":
            jvp_derivative(let, op, s)
        case "lu":
            _jvp_lu(let, op, s)
        case "lu_det" | "lu_logdet":
            s.set(let.vars[0], jvp_determinant(op, s))
        case "lu_cofactors":
            s.set(let.vars[0], jvp_cofactors(op, s))
        case "lu_solve" | "lu_solve_transposed":
            _jvp_lu_solve(let, op, s)
        case "lu_inverse":
            _jvp_lu_inverse(let, op, s)
        case "triangular_solve":
            _jvp_triangular_solve(let, op, s)
        case "qr":
            _jvp_qr(let, op, s)
        case "svd":
            _jvp_svd(let, op, s)
        case "eigh":
            _jvp_eigh(let, op, s)
        case name:
            raise AssertionError(f"{name} carries no derivative")


def _first(op: LinalgOp, s: Dual) -> tuple[Var, Var]:
    """The matrix and its tangent."""
    a = op.args[0]
    assert isinstance(a, Var)
    return a, s.array(a)


def _jvp_lu(let: Let, op: LinalgOp, s: Dual) -> None:
    """B = L U, B the rows of A in order; of two halves of the rows and columns in turn, as the factors are found:

    L21 U11 = B21 and L11 U12 = B12 are differentiated as products, and L22 U22 = B22 - L21 U12. In whole matrices it
    would take half as much again.
    """
    b, (packed, order, *_) = s.b, let.vars
    if packed not in s.active:
        return
    _, dot = _first(op, s)
    moved = matrix(b, packed, lambda i, j: b.one(Read(dot, (poly(b.one(Read(order, (poly(i),)))), poly(j)))))
    (f11, f12, f21, f22), (b11, b12, b21, b22) = quarters(b, packed, moved)
    d11 = _of_factors(b, f11, b11)
    d12 = triangular(b, f11, minus(b, b12, product(b, d11, f12, BELOW)), unit=True)
    update = minus(b, b21, product(b, f21, d11, right=UPPER))
    d21 = transpose(b, triangular(b, f11, transpose(b, update), lower=False, transposed=True))
    d22 = _of_factors(b, f22, minus(b, minus(b, b22, product(b, d21, f12)), product(b, f21, d12)))
    s.set(packed, of_quarters(b, d11, d12, d21, d22))


def _of_factors(b: Builder, packed: Var, dot: Var) -> Var:
    """With N = L⁻¹ Ḃ U⁻¹: L̇ = L low(N), low without the diagonal, and U̇ = up(N) U; in one matrix, as the factors."""
    left = triangular(b, packed, dot, unit=True)
    both = transpose(b, triangular(b, packed, transpose(b, left), lower=False, transposed=True))
    lower = product(b, packed, both, BELOW, BELOW, BELOW)
    upper = product(b, both, packed, UPPER, UPPER, UPPER)

    return _in_one(b, packed, both, lower, upper)


def _in_one(b: Builder, packed: Var, x: Var, lower: Var, upper: Var) -> Var:
    """The matrix with `x + lower` below the diagonal, and `upper` above."""

    def entry(i: Var, j: Var) -> Atom:
        below = b.add(at(b, x, i, j), at(b, lower, i, j))
        return b.select(b.prim("gt", i, j), below, at(b, upper, i, j))

    return matrix(b, packed, entry)


def _jvp_lu_solve(let: Let, op: LinalgOp, s: Dual) -> None:
    """A X = B: A Ẋ = Ḃ - Ȧ X; or the same with Aᵀ."""
    b, x = s.b, let.vars[0]
    a, packed, order, rhs = op.args
    assert isinstance(a, Var)
    moved = None
    if s.dot(a) is not None:
        dot = s.array(a)
        moved = product(b, transpose(b, dot) if op.name == "lu_solve_transposed" else dot, x)
    s.set(x, b.one(LinalgOp(op.name, (a, packed, order, _difference(s, s.dot(rhs), moved)))))


def _jvp_lu_inverse(let: Let, op: LinalgOp, s: Dual) -> None:
    """Ẋ = -X Ȧ X."""
    b, (x,) = s.b, let.vars
    _, dot = _first(op, s)
    s.set(x, negated(b, product(b, x, product(b, dot, x))))


def _jvp_triangular_solve(let: Let, op: LinalgOp, s: Dual) -> None:
    """As `solve` with T, a triangle of A or its transpose; what is not in the triangle has no derivative."""
    b, x = s.b, let.vars[0]
    a, rhs, lower, transposed, unit = op.args
    assert isinstance(a, Var)
    moved = None
    if s.dot(a) is not None:
        dot = s.array(a)

        def along(lower: bool, transposed: bool, unit: bool) -> Var:
            part = part_of(lower, unit)
            return product(b, transpose(b, dot), x, part.turned()) if transposed else product(b, dot, x, part)

        moved = by_flags(b, along, lower, transposed, unit)
    args = (a, _difference(s, s.dot(rhs), moved), lower, transposed, unit)
    s.set(x, b.emit(LinalgOp("triangular_solve", args))[0])


def _difference(s: Dual, x: Atom | None, y: Var | None) -> Var:
    """x - y, where None is zero; not both are."""
    assert x is None or isinstance(x, Var)
    if y is None:
        assert x is not None
        return x
    return negated(s.b, y) if x is None else minus(s.b, x, y)


def _jvp_qr(let: Let, op: LinalgOp, s: Dual) -> None:
    """A = [X Y] = Q [U V], U square. With W = Ẋ U⁻¹ and P = Qᵀ W = Qᵀ Q̇ + U̇ U⁻¹, where the first is skew and the second
    upper triangular, Qᵀ Q̇ is Ω = low(P) - low(P)ᵀ; so U̇ = (P - Ω) U, Q̇ = W - Q (P - Ω) and V̇ = Q̇ᵀ Y + Qᵀ Ẏ.
    """
    b, (q, r) = s.b, let.vars
    a, dot = _first(op, s)
    m, n = array_type(a).shape
    k = array_type(r).shape[0]
    square = leading(b, r, k)
    first = b.view(dot, (m, k), lambda i, j: (poly(i), poly(j)))
    w = transpose(b, triangular(b, square, transpose(b, first), lower=False, transposed=True))
    p = product(b, transpose(b, q), w)
    zero = Lit(0.0, dtype_of(q))

    def upper(i: Var, j: Var) -> Atom:
        both = b.add(at(b, p, i, j), at(b, p, j, i))
        return b.select(b.prim("gt", i, j), zero, b.select(b.prim("eq", i, j), at(b, p, i, j), both))

    upper_part = matrix(b, p, upper)
    q_dot = minus(b, w, product(b, q, upper_part))
    r_dot = product(b, upper_part, square)
    if k != n:
        y = b.view(a, (m, n - k), lambda i, j: (poly(i), poly(j) + k))
        y_dot = b.view(dot, (m, n - k), lambda i, j: (poly(i), poly(j) + k))
        v_dot = plus(b, product(b, transpose(b, q_dot), y), product(b, transpose(b, q), y_dot))
        r_dot = transpose(b, b.concat(transpose(b, r_dot), transpose(b, v_dot)))
    s.set(q, q_dot)
    s.set(r, r_dot)


def _jvp_svd(let: Let, op: LinalgOp, s: Dual) -> None:
    """With P = Uᵀ Ȧ V: Ṡ is its diagonal, Uᵀ U̇ = (P S + S Pᵀ) / E and Vᵀ V̇ = (S P + Pᵀ S) / E off the diagonal, where
    E_ij = s_j² - s_i²; and U̇ gains (I - U Uᵀ) Ȧ V S⁻¹, V̇ gains (I - V Vᵀ) Ȧᵀ U S⁻¹, which are 0 where U or V is square.
    """
    b, (u, values, vt, _) = s.b, let.vars
    _, dot = _first(op, s)
    m, k = array_type(u).shape
    n = array_type(vt).shape[1]
    zero, one = Lit(0.0, dtype_of(u)), Lit(1.0, dtype_of(u))
    right = product(b, dot, transpose(b, vt))  # Ȧ V
    p = product(b, transpose(b, u), right)

    def of(i: Var) -> Var:
        return b.one(Read(values, (poly(i),)))

    if let.vars[1] in s.active:
        s.set(values, b.map((k,), lambda i: at(b, p, i, i)))

    def rotation(left: bool) -> Var:
        def entry(i: Var, j: Var) -> Atom:
            si, sj = of(i), of(j)
            above, there = b.mul(at(b, p, i, j), sj if left else si), b.mul(at(b, p, j, i), si if left else sj)
            gap = b.mul(b.sub(sj, si), b.add(sj, si))
            value = b.prim("zero_safe_mul", b.add(above, there), b.prim("div", one, gap))
            return b.select(b.prim("eq", i, j), zero, value)

        return b.map((k, k), entry)

    def outside(square: Var, numerator: Atom, scale: Atom) -> Atom:
        return b.select(square, zero, b.prim("zero_safe_mul", numerator, b.prim("div", one, scale)))

    if u in s.active:
        turned, along = product(b, u, rotation(True)), product(b, u, p)
        square = b.prim("eq", b.size(m), b.size(k))

        def left(i: Var, j: Var) -> Atom:
            difference = b.sub(at(b, right, i, j), at(b, along, i, j))
            return b.add(at(b, turned, i, j), outside(square, difference, of(j)))

        s.set(u, b.map((m, k), left))
    if vt in s.active:
        # The transpose of V̇, so Vᵀ V̇ stands transposed.
        turned_v = product(b, transpose(b, rotation(False)), vt)
        below, across = product(b, transpose(b, u), dot), product(b, p, vt)
        full = b.prim("eq", b.size(n), b.size(k))

        def beside(i: Var, j: Var) -> Atom:
            difference = b.sub(at(b, below, i, j), at(b, across, i, j))
            return b.add(at(b, turned_v, i, j), outside(full, difference, of(i)))

        s.set(vt, b.map((k, n), beside))


def _jvp_eigh(let: Let, op: LinalgOp, s: Dual) -> None:
    """With P = Vᵀ Ȧ V, Ȧ symmetric: ẇ is its diagonal, and Vᵀ V̇ has its other entries over w_j - w_i."""
    b, (w, v, _) = s.b, let.vars
    _, dot = _first(op, s)
    zero = Lit(0.0, dtype_of(v))
    p = product(b, transpose(b, v), product(b, symmetric(b, dot), v))
    n = array_type(w).shape[0]
    if w in s.active:
        s.set(w, b.map((n,), lambda i: at(b, p, i, i)))

    def entry(i: Var, j: Var) -> Atom:
        return b.select(b.prim("eq", i, j), zero, _over_gap(b, w, p, i, j))

    if v in s.active:
        s.set(v, product(b, v, matrix(b, v, entry)))


# ---- Cholesky's factor -----------------------------------------------------------------------------------------------
# Derivatives of Cholesky's factor, to any order.
#
# A = L Lᵀ with dA symmetric: L⁻¹ dA L⁻ᵀ = L⁻¹ dL + (L⁻¹ dL)ᵀ, so L⁻¹ dL is Φ of the left side, Φ the lower triangle
# with half of the diagonal. The tangent of the factor and the cotangent of the matrix are operations of their own,
# which are done by blocks (Murray, Differentiation of the Cholesky decomposition; 2016):
#
#     pushforward(L, D) = L Φ(L⁻¹ D L⁻ᵀ)
#     pullback(L, B) = (S + Sᵀ) / 2,  S = L⁻ᵀ Φ(Lᵀ B) L⁻¹
#
# Each is linear in its second argument and the transpose of the other. How they depend on L is said in themselves:
# along L', with Z = L' L⁻¹, the matrix moves by Z D + (Z D)ᵀ more.

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
        reduced = _less_both(b, dot, along)
        second = b.one(LinalgOp(op.name, (l, reduced)))
        first = product(b, turn, out, LOWER, LOWER, LOWER)
        s.set(out, matrix(b, l, lambda i, j: b.add(at(b, first, i, j), at(b, second, i, j))))
        return
    back = transpose(b, turn)
    more = product(b, back, given, UPPER, LOWER, LOWER)
    if dot is not None:
        first_part = more
        more = matrix(b, l, lambda i, j: b.add(at(b, _var(dot), i, j), at(b, first_part, i, j)))
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
