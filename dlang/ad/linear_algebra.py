"""The adjoints of linear algebra, written in products, triangular solutions and the operations themselves.

Each rule follows from the differential of the equation that defines the result: Giles, An extended collection of matrix
derivative results for forward and reverse mode algorithmic differentiation (2008); for QR Walter and Lehmann,
Algorithmic differentiation of linear algebra functions with application in optimum experimental design (2010). What a
rule emits are operations that have rules themselves, so derivatives nest.
"""

from __future__ import annotations

from collections.abc import Callable

from dlang.ad.rules import scalar
from dlang.ad.scope import Scope
from dlang.ir.anf import Atom, Keep, Let, Library, Lit, Read, Size, Var, poly
from dlang.ir.builder import Builder, axis
from dlang.ir.types import array_type, dtype_of

Entry = Callable[[Var, Var], Atom]


def pull_library(let: Let, op: Library, scope: Scope) -> None:
    """Emits the adjoint of a library operation with active results."""
    bars = [scope.pop(v) if v in scope.active else None for v in let.vars]
    if op.name == "det":
        _det(let, op, bars[0], scope)
        return
    g = [bar if isinstance(bar, Var) else None for bar in bars]
    match op.name:
        case "cholesky":
            _cholesky(let, op, g, scope)
        case "lu":
            _lu(let, op, g, scope)
        case "solve":
            _solve(let, op, g, scope)
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


def _cholesky(let: Let, op: Library, g: list[Var | None], scope: Scope) -> None:
    """A = L Lᵀ with dA symmetric: L⁻¹ dA L⁻ᵀ = L⁻¹ dL + (L⁻¹ dL)ᵀ, so L⁻¹ dL is Φ of the left side, Φ the lower
    triangle with half of the diagonal. Ā = S + Sᵀ halved, S = L⁻ᵀ Φ(Lᵀ L̄) L⁻¹.
    """
    b, (bar, *_) = scope.b, g
    factor = let.vars[0]
    if bar is None:
        return
    zero, half = Lit(0.0, dtype_of(factor)), Lit(0.5, dtype_of(factor))

    def lower(i: Var, j: Var) -> Atom:
        return b.select(b.prim("ge", i, j), _at(b, bar, i, j), zero)

    inner = _product(b, _transposed(b, factor), _matrix(b, factor, lower))

    def phi(i: Var, j: Var) -> Atom:
        weight = b.select(b.prim("eq", i, j), half, b.select(b.prim("gt", i, j), Lit(1.0, half.dtype), zero))
        return b.mul(weight, _at(b, inner, i, j))

    left = _triangular(b, factor, _matrix(b, factor, phi), transposed=True)
    both = _triangular(b, factor, _transposed(b, left), transposed=True)
    scope.add(op.args[0], _symmetric(b, both))


def _lu(let: Let, op: Library, g: list[Var | None], scope: Scope) -> None:
    """B = L U, B the rows of A in order: L⁻¹ dB U⁻¹ = L⁻¹ dL + dU U⁻¹, strictly lower and upper triangular.

    B̄ = L⁻ᵀ (low(Lᵀ L̄) + up(Ū Uᵀ)) U⁻ᵀ, and the rows go back to where they came from.
    """
    b, (bar, *_) = scope.b, g
    packed, order, _ = let.vars
    if bar is None:
        return
    zero, one = Lit(0.0, dtype_of(packed)), Lit(1.0, dtype_of(packed))

    def below(x: Var) -> Entry:
        return lambda i, j: b.select(b.prim("gt", i, j), _at(b, x, i, j), zero)

    def above(x: Var) -> Entry:
        return lambda i, j: b.select(b.prim("le", i, j), _at(b, x, i, j), zero)

    def unit(i: Var, j: Var) -> Atom:
        return b.select(b.prim("eq", i, j), one, below(packed)(i, j))

    lower = _product(b, _transposed(b, _matrix(b, packed, unit)), _matrix(b, packed, below(bar)))
    upper = _product(b, _matrix(b, packed, above(bar)), _transposed(b, _matrix(b, packed, above(packed))))
    inner = _matrix(b, packed, lambda i, j: b.add(below(lower)(i, j), above(upper)(i, j)))
    left = _triangular(b, packed, inner, transposed=True, unit=True)
    both = _triangular(b, packed, _transposed(b, left), lower=False)
    place = b.library("argsort", order)

    def back(i: Var, j: Var) -> Atom:
        return b.one(Read(both, (poly(j), poly(b.one(Read(place, (poly(i),)))))))

    scope.add(op.args[0], _matrix(b, packed, back))


def _det(let: Let, op: Library, g: Atom | None, scope: Scope) -> None:
    """d det A = tr(cof(A)ᵀ dA), where cof(A) = det(A) A⁻ᵀ, and for singular A = U S Vᵀ it is det(U) det(V) U C Vᵀ: C is
    the diagonal matrix of the products of all other singular values.
    """
    b = scope.b
    a = op.args[0]
    if g is None:
        return
    assert isinstance(a, Var)
    value = let.vars[0]
    n, _ = array_type(a).shape
    zero, one = Lit(0.0, dtype_of(a)), Lit(1.0, dtype_of(a))

    def singular() -> Var:
        u, s, vt, _ = b.emit(Library("svd", (a, b.size(n))))
        (others,) = b.comp(
            [n, n],
            lambda i, j: b.select(b.prim("eq", i, j), one, b.one(Read(s, (poly(j),)))),
            lambda i, j: [Keep((n,), (poly(i),), "prod")],
        )
        sign = b.mul(b.one(Library("det", (u,))), b.one(Library("det", (vt,))))
        return _product(
            b, u, _matrix(b, vt, lambda i, j: b.mul(b.mul(sign, b.one(Read(others, (poly(i),)))), _at(b, vt, i, j)))
        )

    def regular() -> Var:
        identity = _matrix(b, a, lambda i, j: b.select(b.prim("eq", i, j), one, zero))
        inverse = b.emit(Library("solve", (a, identity)))[0]
        return _matrix(b, a, lambda i, j: b.mul(value, _at(b, inverse, j, i)))

    (cofactors,) = b.if_(b.prim("eq", value, zero), singular, regular)
    scope.add(a, _matrix(b, a, lambda i, j: b.mul(g, _at(b, cofactors, i, j))))


def _solve(let: Let, op: Library, g: list[Var | None], scope: Scope) -> None:
    """A dX = dB - dA X: B̄ = A⁻ᵀ X̄, Ā = -B̄ Xᵀ."""
    b, (bar, *_) = scope.b, g
    x = let.vars[0]
    a, rhs = op.args
    if bar is None:
        return
    assert isinstance(a, Var)
    back = b.emit(Library("solve", (_transposed(b, a), bar)))[0]
    scope.add(rhs, back)
    if scope.is_active(a):
        scope.add(a, _negated(b, _product(b, back, _transposed(b, x))))


def _triangular_solve(let: Let, op: Library, g: list[Var | None], scope: Scope) -> None:
    """As `solve` with T, a triangle of A or its transpose; what is not in the triangle has no derivative."""
    b, (bar, *_) = scope.b, g
    x = let.vars[0]
    a, rhs, lower, transposed, unit = op.args
    if bar is None:
        return
    assert isinstance(a, Var)
    back = b.emit(Library("triangular_solve", (a, bar, lower, b.prim("not", transposed), unit)))[0]
    scope.add(rhs, back)
    if not scope.is_active(a):
        return
    first = _product(b, back, _transposed(b, x))
    zero = Lit(0.0, dtype_of(a))

    def entry(i: Var, j: Var) -> Atom:
        inside = b.select(lower, b.prim("ge", i, j), b.prim("le", i, j))
        inside = b.prim("and", inside, b.prim("or", b.prim("not", unit), b.prim("ne", i, j)))
        here = b.select(transposed, _at(b, first, j, i), _at(b, first, i, j))
        return b.select(inside, scalar(b, "neg", here), zero)

    scope.add(a, _matrix(b, a, entry))


def _qr(let: Let, op: Library, g: list[Var | None], scope: Scope) -> None:
    """A = [X Y] = Q [U V], U square; with Y = Q V the second part is V = Qᵀ Y, so Ȳ = Q V̄, and Q̄ gains Y V̄ᵀ.

    X̄ = (Q̄ + Q C) U⁻ᵀ, where C is the symmetric matrix with the lower triangle of U Ūᵀ - Q̄ᵀ Q.
    """
    b = scope.b
    q, r = let.vars
    a = op.args[0]
    assert isinstance(a, Var)
    m, n = array_type(a).shape
    k = array_type(r).shape[0]
    q_bar, r_bar = (_or_zero(b, bar, v) for bar, v in zip(g, let.vars, strict=True))
    square = _square(b, r, k)
    if k != n:
        rest_bar = b.view(r_bar, (k, n - k), lambda i, j: (poly(i), poly(j) + k))
        rest = b.view(a, (m, n - k), lambda i, j: (poly(i), poly(j) + k))
        q_bar = _sum(b, q_bar, _product(b, rest, _transposed(b, rest_bar)))
    low = _difference(
        b,
        _product(b, square, _transposed(b, _square(b, r_bar, k))),
        _product(b, _transposed(b, q_bar), q),
    )

    def symmetric(i: Var, j: Var) -> Atom:
        return b.select(b.prim("ge", i, j), _at(b, low, i, j), _at(b, low, j, i))

    inner = _sum(b, q_bar, _product(b, q, _matrix(b, low, symmetric)))
    turned = _triangular(b, square, _transposed(b, inner), lower=False)
    if k != n:
        turned = b.concat(turned, b.view(_product(b, q, rest_bar), (n - k, m), lambda i, j: (poly(j), poly(i))))
    scope.add(a, b.view(turned, (m, n), lambda i, j: (poly(j), poly(i))))


def _svd(let: Let, op: Library, g: list[Var | None], scope: Scope) -> None:
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
    turn_u = None if u_bar is None else _product(b, _transposed(b, u), u_bar)
    turn_v = None if vt_bar is None else _product(b, vt, _transposed(b, vt_bar))

    def of(x: Var, i: Var) -> Atom:
        return b.one(Read(x, (poly(i),)))

    def entry(i: Var, j: Var) -> Atom:
        si, sj = of(s, i), of(s, j)
        rotation: Atom = zero
        for turn, scale in ((turn_u, sj), (turn_v, si)):
            if turn is not None:
                skew = b.sub(_at(b, turn, i, j), _at(b, turn, j, i))
                rotation = scalar(b, "add", rotation, b.mul(skew, scale))
        gap = b.mul(b.sub(sj, si), b.add(sj, si))
        diagonal = zero if s_bar is None else of(s_bar, i)
        return b.select(b.prim("eq", i, j), diagonal, b.prim("guard", rotation, b.prim("div", one, gap)))

    left = _product(b, u, b.map((k, k), entry))
    if u_bar is not None and turn_u is not None:
        along = _product(b, u, turn_u)
        square = b.prim("eq", b.size(m), b.size(k))

        def outside(i: Var, j: Var) -> Atom:
            rest = b.sub(_at(b, u_bar, i, j), _at(b, along, i, j))
            value = b.prim("guard", rest, b.prim("div", one, of(s, j)))
            return b.add(_at(b, left, i, j), b.select(square, zero, value))

        total = _product(b, b.map((m, k), outside), vt)
    else:
        total = _product(b, left, vt)
    if vt_bar is not None and turn_v is not None:
        across = _product(b, _transposed(b, turn_v), vt)
        full = b.prim("eq", b.size(n), b.size(k))

        def beside(i: Var, j: Var) -> Atom:
            rest = b.sub(_at(b, vt_bar, i, j), _at(b, across, i, j))
            return b.select(full, zero, b.prim("guard", rest, b.prim("div", one, of(s, i))))

        total = _sum(b, total, _product(b, u, b.map((k, n), beside)))
    scope.add(op.args[0], total)


def _eigh(let: Let, op: Library, g: list[Var | None], scope: Scope) -> None:
    """With dP = Vᵀ dA V: dw is its diagonal, and Vᵀ dV has its other entries over w_j - w_i.

    Ā = V M Vᵀ made symmetric, where M is w̄ on the diagonal and (Vᵀ V̄)_ij / (w_j - w_i) elsewhere.
    """
    b = scope.b
    w, v, _ = let.vars
    w_bar, v_bar, _ = g
    zero, one = Lit(0.0, dtype_of(v)), Lit(1.0, dtype_of(v))
    turn = None if v_bar is None else _product(b, _transposed(b, v), v_bar)

    def entry(i: Var, j: Var) -> Atom:
        diagonal = zero if w_bar is None else b.one(Read(w_bar, (poly(i),)))
        rotation: Atom = zero
        if turn is not None:
            gap = b.sub(b.one(Read(w, (poly(j),))), b.one(Read(w, (poly(i),))))
            rotation = b.prim("guard", _at(b, turn, i, j), b.prim("div", one, gap))
        return b.select(b.prim("eq", i, j), diagonal, rotation)

    inner = _product(b, v, _matrix(b, v, entry))
    scope.add(op.args[0], _symmetric(b, _product(b, inner, _transposed(b, v))))


# ---- matrices --------------------------------------------------------------------------------------------------------
def _at(b: Builder, x: Var, i: Var, j: Var) -> Var:
    return b.one(Read(x, (poly(i), poly(j))))


def _matrix(b: Builder, like: Var, entry: Entry) -> Var:
    """The matrix of the shape of another with the given entries."""
    return b.map(array_type(like).shape, entry)


def _product(b: Builder, x: Var, y: Var) -> Var:
    (m, n), (_, k) = array_type(x).shape, array_type(y).shape
    i, p, j = axis(m), axis(n), axis(k)

    def body(i: Var, j: Var, p: Var) -> Atom:
        return b.mul(_at(b, x, i, p), _at(b, y, p, j))

    (out,) = b.comp((i, j, p), body, [Keep((m, k), (poly(i.var), poly(j.var)))])
    return out


def _transposed(b: Builder, x: Var) -> Var:
    m, n = array_type(x).shape
    return b.view(x, (n, m), lambda i, j: (poly(j), poly(i)))


def _square(b: Builder, x: Var, k: Size) -> Var:
    """The first k rows and columns."""
    return b.view(x, (k, k), lambda i, j: (poly(i), poly(j)))


def _symmetric(b: Builder, x: Var) -> Var:
    half = Lit(0.5, dtype_of(x))
    return _matrix(b, x, lambda i, j: b.mul(half, b.add(_at(b, x, i, j), _at(b, x, j, i))))


def _sum(b: Builder, x: Var, y: Var) -> Var:
    return _matrix(b, x, lambda i, j: b.add(_at(b, x, i, j), _at(b, y, i, j)))


def _difference(b: Builder, x: Var, y: Var) -> Var:
    return _matrix(b, x, lambda i, j: b.sub(_at(b, x, i, j), _at(b, y, i, j)))


def _negated(b: Builder, x: Var) -> Var:
    return _matrix(b, x, lambda i, j: scalar(b, "neg", _at(b, x, i, j)))


def _or_zero(b: Builder, bar: Var | None, like: Var) -> Var:
    return bar if bar is not None else b.full(array_type(like).shape, Lit(0.0, dtype_of(like)))


def _triangular(
    b: Builder, a: Var, rhs: Var, *, lower: bool = True, transposed: bool = False, unit: bool = False
) -> Var:
    flags = (Lit(flag, "bool") for flag in (lower, transposed, unit))
    return b.emit(Library("triangular_solve", (a, rhs, *flags)))[0]
