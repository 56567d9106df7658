"""The tangents of linear algebra: the differentials of the equations that define the results.

Giles, An extended collection of matrix derivative results for forward and reverse mode algorithmic differentiation
(2008); for QR Walter and Lehmann, Algorithmic differentiation of linear algebra functions with application in optimum
experimental design (2010). Each is the transpose of the rule in `linear_algebra.py`.
"""

from __future__ import annotations

from dlang.ad.cholesky import jvp_cholesky, jvp_derivative
from dlang.ad.determinants import jvp_cofactors, jvp_determinant
from dlang.ad.dual import Dual
from dlang.ad.matrices import (
    BELOW,
    UPPER,
    at,
    by_flags,
    leading,
    matrix,
    minus,
    negated,
    of_quarters,
    part_of,
    plus,
    product,
    quarters,
    symmetric,
    transpose,
    triangular,
)
from dlang.ir.anf import Atom, Let, LinalgOp, Lit, Read, Var, poly
from dlang.ir.builder import Builder
from dlang.ir.libraries import functional
from dlang.ir.types import array_type, dtype_of


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
            _lu(let, op, s)
        case "lu_det" | "lu_logdet":
            s.set(let.vars[0], jvp_determinant(op, s))
        case "lu_cofactors":
            s.set(let.vars[0], jvp_cofactors(op, s))
        case "lu_solve" | "lu_solve_transposed":
            _lu_solve(let, op, s)
        case "lu_inverse":
            _lu_inverse(let, op, s)
        case "triangular_solve":
            _triangular_solve(let, op, s)
        case "qr":
            _qr(let, op, s)
        case "svd":
            _svd(let, op, s)
        case "eigh":
            _eigh(let, op, s)
        case name:
            raise AssertionError(f"{name} carries no derivative")


def _first(op: LinalgOp, s: Dual) -> tuple[Var, Var]:
    """The matrix and its tangent."""
    a = op.args[0]
    assert isinstance(a, Var)
    return a, s.array(a)


def _lu(let: Let, op: LinalgOp, s: Dual) -> None:
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
    rest = minus(b, b21, product(b, f21, d11, right=UPPER))
    d21 = transpose(b, triangular(b, f11, transpose(b, rest), lower=False, transposed=True))
    d22 = _of_factors(b, f22, minus(b, minus(b, b22, product(b, d21, f12)), product(b, f21, d12)))
    s.set(packed, of_quarters(b, d11, d12, d21, d22))


def _of_factors(b: Builder, packed: Var, dot: Var) -> Var:
    """With N = L⁻¹ Ḃ U⁻¹: L̇ = L low(N), low without the diagonal, and U̇ = up(N) U; in one matrix, as the factors."""
    left = triangular(b, packed, dot, unit=True)
    both = transpose(b, triangular(b, packed, transpose(b, left), lower=False, transposed=True))
    lower = product(b, packed, both, BELOW, BELOW, BELOW)
    upper = product(b, both, packed, UPPER, UPPER, UPPER)

    def entry(i: Var, j: Var) -> Atom:
        below = b.add(at(b, both, i, j), at(b, lower, i, j))
        return b.select(b.prim("gt", i, j), below, at(b, upper, i, j))

    return matrix(b, packed, entry)


def _lu_solve(let: Let, op: LinalgOp, s: Dual) -> None:
    """A X = B: A Ẋ = Ḃ - Ȧ X; or the same with Aᵀ."""
    b, x = s.b, let.vars[0]
    a, packed, order, rhs = op.args
    assert isinstance(a, Var)
    moved = None
    if s.dot(a) is not None:
        dot = s.array(a)
        moved = product(b, transpose(b, dot) if op.name == "lu_solve_transposed" else dot, x)
    s.set(x, b.one(LinalgOp(op.name, (a, packed, order, _difference(s, s.dot(rhs), moved)))))


def _lu_inverse(let: Let, op: LinalgOp, s: Dual) -> None:
    """Ẋ = -X Ȧ X."""
    b, (x,) = s.b, let.vars
    _, dot = _first(op, s)
    s.set(x, negated(b, product(b, x, product(b, dot, x))))


def _triangular_solve(let: Let, op: LinalgOp, s: Dual) -> None:
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


def _qr(let: Let, op: LinalgOp, s: Dual) -> None:
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

    rest = matrix(b, p, upper)
    q_dot = minus(b, w, product(b, q, rest))
    r_dot = product(b, rest, square)
    if k != n:
        y = b.view(a, (m, n - k), lambda i, j: (poly(i), poly(j) + k))
        y_dot = b.view(dot, (m, n - k), lambda i, j: (poly(i), poly(j) + k))
        v_dot = plus(b, product(b, transpose(b, q_dot), y), product(b, transpose(b, q), y_dot))
        r_dot = transpose(b, b.concat(transpose(b, r_dot), transpose(b, v_dot)))
    s.set(q, q_dot)
    s.set(r, r_dot)


def _svd(let: Let, op: LinalgOp, s: Dual) -> None:
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
            here, there = b.mul(at(b, p, i, j), sj if left else si), b.mul(at(b, p, j, i), si if left else sj)
            gap = b.mul(b.sub(sj, si), b.add(sj, si))
            value = b.prim("zero_safe_mul", b.add(here, there), b.prim("div", one, gap))
            return b.select(b.prim("eq", i, j), zero, value)

        return b.map((k, k), entry)

    def outside(square: Var, rest: Atom, scale: Atom) -> Atom:
        return b.select(square, zero, b.prim("zero_safe_mul", rest, b.prim("div", one, scale)))

    if u in s.active:
        turned, along = product(b, u, rotation(True)), product(b, u, p)
        square = b.prim("eq", b.size(m), b.size(k))

        def left(i: Var, j: Var) -> Atom:
            rest = b.sub(at(b, right, i, j), at(b, along, i, j))
            return b.add(at(b, turned, i, j), outside(square, rest, of(j)))

        s.set(u, b.map((m, k), left))
    if vt in s.active:
        # The transpose of V̇, so Vᵀ V̇ stands transposed.
        turned_v = product(b, transpose(b, rotation(False)), vt)
        below, across = product(b, transpose(b, u), dot), product(b, p, vt)
        full = b.prim("eq", b.size(n), b.size(k))

        def beside(i: Var, j: Var) -> Atom:
            rest = b.sub(at(b, below, i, j), at(b, across, i, j))
            return b.add(at(b, turned_v, i, j), outside(full, rest, of(i)))

        s.set(vt, b.map((k, n), beside))


def _eigh(let: Let, op: LinalgOp, s: Dual) -> None:
    """With P = Vᵀ Ȧ V, Ȧ symmetric: ẇ is its diagonal, and Vᵀ V̇ has its other entries over w_j - w_i."""
    b, (w, v, _) = s.b, let.vars
    _, dot = _first(op, s)
    zero, one = Lit(0.0, dtype_of(v)), Lit(1.0, dtype_of(v))
    p = product(b, transpose(b, v), product(b, symmetric(b, dot), v))
    n = array_type(w).shape[0]
    if w in s.active:
        s.set(w, b.map((n,), lambda i: at(b, p, i, i)))

    def entry(i: Var, j: Var) -> Atom:
        gap = b.sub(b.one(Read(w, (poly(j),))), b.one(Read(w, (poly(i),))))
        return b.select(b.prim("eq", i, j), zero, b.prim("zero_safe_mul", at(b, p, i, j), b.prim("div", one, gap)))

    if v in s.active:
        s.set(v, product(b, v, matrix(b, v, entry)))
