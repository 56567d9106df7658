"""Derivatives of determinants, to any order and at matrices of any rank.

det is a polynomial of degree n. Its k-th derivative D^k det(A)[H1, …, Hk] is linear in each direction, and these may
change places; what it adds up of the entries of the last one is a matrix: of k = 1 the cofactors of A, and of each
further k their derivative along k - 1 directions, which `lu_cofactors` takes too. So this is its own adjoint, and the
derivative of one is another with one more direction.

Where A is regular the matrix is det(A) times a sum of products of A⁻¹ and the directions, and where these cancel it is
found by singular values: with A = U S Vᵀ, S diagonal, cof(A) = ± U cof(S) Vᵀ, where the sign is det(U V), and in the
directions the same holds of Uᵀ H V. The minors of a diagonal matrix are products of what stands on it, so nothing is
divided or cancels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations, permutations

from dlang.ad.matrices import at, matrix, plus, product, transpose
from dlang.ad.rules import scalar
from dlang.ad.scope import Dual, Scope
from dlang.ir.anf import Atom, Block, Function, Let, LinalgOp, Lit, Program, Read, Reduce, Var, poly
from dlang.ir.builder import Builder
from dlang.ir.traverse import map_blocks, map_functions, walk, with_body, with_lets, with_op
from dlang.ir.types import array_type, dtype_of

COFACTORS = "lu_cofactors"
PRECISE = {"f64": 2.0**26, "f32": 2.0**11}  # how much rounding may grow: to the root of what it is


# ---- rules -----------------------------------------------------------------------------------------------------------
def vjp_determinant(op: LinalgOp, g: Atom, scope: Scope) -> None:
    """d det(A) = Σ cof(A) dA, d log |det A| = Σ A⁻ᵀ dA, elementwise."""
    b, a = scope.b, op.args[0]
    assert isinstance(a, Var)
    slope = _slope(b, op)
    scope.add(a, matrix(b, a, lambda i, j: b.mul(g, at(b, slope, i, j))))


def jvp_determinant(op: LinalgOp, s: Dual) -> Var:
    """The tangent of a determinant, or of its logarithm."""
    b, a = s.b, op.args[0]
    assert isinstance(a, Var)
    dot, slope = s.array(a), _slope(s.b, op)
    return b.reduce(array_type(a).shape, lambda i, j: b.mul(at(b, slope, i, j), at(b, dot, i, j)))


def _slope(b: Builder, op: LinalgOp) -> Var:
    if op.name == "lu_det":
        return b.one(LinalgOp("lu_cofactors", op.args))
    return transpose(b, b.one(LinalgOp("lu_inverse", op.args)))


def vjp_cofactors(op: LinalgOp, g: Var, scope: Scope) -> None:
    """With D = D^k det(A)[H…, G], a number: Ā and each H̄ are what D adds up of the entries of the direction there."""
    a, directions = _parts(op)
    if scope.is_active(a):
        scope.add(a, _derivative(scope.b, op, (*directions, g)))
    for k, h in enumerate(directions):
        if scope.is_active(h):
            scope.add(h, _derivative(scope.b, op, _replaced(directions, k, g)))


def jvp_cofactors(op: LinalgOp, s: Dual) -> Var:
    """The tangent: a further direction Ȧ, and each Ḣ in the place of H."""
    a, directions = _parts(op)
    terms = [_derivative(s.b, op, (*directions, s.array(a)))] if s.dot(a) is not None else []
    for k, h in enumerate(directions):
        if s.dot(h) is not None:
            terms.append(_derivative(s.b, op, _replaced(directions, k, s.array(h))))
    total = terms[0]
    for term in terms[1:]:
        total = plus(s.b, total, term)
    return total


def _parts(op: LinalgOp) -> tuple[Var, tuple[Var, ...]]:
    """The matrix and the directions."""
    a, *directions = [v for v in (op.args[0], *op.args[4:]) if isinstance(v, Var)]
    return a, tuple(directions)


def _derivative(b: Builder, op: LinalgOp, directions: Sequence[Var]) -> Var:
    return b.one(LinalgOp(COFACTORS, (*op.args[:4], *directions)))


def _replaced(directions: Sequence[Var], k: int, by: Var) -> tuple[Var, ...]:
    return (*directions[:k], by, *directions[k + 1 :])


# ---- what the operations are made of ---------------------------------------------------------------------------------
def cofactors_in_products(program: Program) -> Program:
    """The program with cofactors and their derivatives in other operations; no derivative is taken of it any more."""

    def function(f: Function) -> Function:
        if not any(isinstance(let.op, LinalgOp) and let.op.name == COFACTORS for let in walk(f.body)):
            return f
        return with_body(f, _block(Builder(program.functions, f.span), f.body))

    return map_functions(program, function)


def _block(b: Builder, block: Block) -> Block:
    lets: list[Let] = []
    for let in block.lets:
        match let.op:
            case LinalgOp(name) as op if name == COFACTORS:
                lets += _in_products(b, let, op)
            case op:
                lets.append(with_op(let, let.vars, map_blocks(op, partial(_block, b))))
    return with_lets(block, lets, block.results)


def _in_products(b: Builder, let: Let, op: LinalgOp) -> Iterator[Let]:
    b.span = let.span
    with b.scope() as lets:
        cofactors = _cofactors(b, op)
    yield from lets[:-1]
    assert lets[-1].vars == (cofactors,)
    yield Let(let.vars, lets[-1].op, let.span)


def _cofactors(b: Builder, op: LinalgOp) -> Var:
    """Computes cofactors by the inverse, or by singular values where A is singular or much cancels."""
    a, directions = _parts(op)
    inverse = b.one(LinalgOp("lu_inverse", op.args[:3]))
    moved = [product(b, inverse, h) for h in directions]
    slope = _by_inverse(b, inverse, directions, moved)
    value = b.one(LinalgOp("lu_det", op.args[:4]))

    def regular() -> Var:
        return matrix(b, a, lambda i, j: b.mul(value, at(b, slope, j, i)))

    if directions:
        size = _size(b, a)
        for x in (inverse, inverse, *moved):
            size = b.mul(size, _size(b, x))
        precise = b.prim("le", size, b.mul(Lit(PRECISE[dtype_of(a)], dtype_of(a)), _size(b, slope)))
        rarely = b.prim("not", precise)  # so where something is no number too
    else:
        rarely = b.prim("eq", value, Lit(0.0, dtype_of(a)))
    return b.if_(rarely, lambda: _by_minors(b, a, directions), regular, cold=True)[0]


def _by_inverse(b: Builder, inverse: Var, directions: Sequence[Var], moved: Sequence[Var]) -> Var:
    """The transpose of D^(k+1) det(A)[H1, …, Hk, G] over det(A), as a matrix F(H1, …, Hk) that G is multiplied with.

    Of the permutations of k + 1 directions A⁻¹H, each cycle is minus the trace of the product of those in it. With G in
    one of its own or behind some H: F(S) = t(S) A⁻¹ - Σ_{H in S} A⁻¹H F(S - H), t(S) = Σ H F(S - H)ᵀ for any H of S.
    """
    factors = {frozenset[int](): inverse}
    every = range(len(directions))
    for count in range(1, len(directions) + 1):
        for chosen in map(frozenset, combinations(every, count)):
            first, *_ = chosen
            less = factors[chosen - {first}]
            h = directions[first]
            total = b.reduce(array_type(h).shape, lambda i, j, h=h, less=less: b.mul(at(b, h, i, j), at(b, less, j, i)))
            terms = [product(b, moved[m], factors[chosen - {m}]) for m in chosen]

            def entry(i: Var, j: Var, total: Var = total, terms: Sequence[Var] = terms) -> Atom:
                value = b.mul(total, at(b, inverse, i, j))
                for term in terms:
                    value = b.sub(value, at(b, term, i, j))
                return value

            factors[chosen] = matrix(b, inverse, entry)
    return factors[frozenset(every)]


def _size(b: Builder, x: Var) -> Var:
    """The root of the sum of the squares."""
    return b.prim("sqrt", b.reduce(array_type(x).shape, lambda i, j: b.mul(at(b, x, i, j), at(b, x, i, j))))


def _by_minors(b: Builder, a: Var, directions: Sequence[Var]) -> Var:
    """± U M Vᵀ: M of S = diag(s) and of the directions Uᵀ H V."""
    u, s, vt, _ = b.emit(LinalgOp("svd", (a, b.size(array_type(a).shape[0]))))
    turn = product(b, u, vt)
    packed, order, exchanges, _ = b.emit(LinalgOp("lu", (turn,)))
    sign = b.one(LinalgOp("lu_det", (turn, packed, order, exchanges)))
    v, ut = transpose(b, vt), transpose(b, u)
    middle = _minors(b, s, [product(b, product(b, ut, h), v) for h in directions])
    return product(b, u, product(b, matrix(b, a, lambda i, j: b.mul(sign, at(b, middle, i, j))), vt))


def _minors(b: Builder, s: Var, directions: Sequence[Var]) -> Var:
    """Returns the sum over the entries of G in D^(k+1) det(diag(s))[H1, …, Hk, G].

    By Leibniz' formula it is a sum over permutations σ: of each row i one entry (i, σ i) is taken, k + 1 of them from
    the directions, one each, and the others from the diagonal, so that σ leaves these rows where they are. With r_0 the
    row of the entry of G, r_m that of the entry of Hm and π a permutation of 0..k, σ r_m = r_(π m), this is

        Σ_π sgn π Σ_{r distinct} G[r_0, r_(π 0)] Π_m Hm[r_m, r_(π m)] Π_{l not in r} s_l
    """
    (n,) = array_type(s).shape
    dtype, k = dtype_of(s), len(directions)
    zero, one = Lit(0.0, dtype), Lit(1.0, dtype)

    def equal(pairs: Iterable[tuple[Var, Var]]) -> Atom:
        any_equal: Atom = Lit(False, "bool")
        for x, y in pairs:
            any_equal = b.prim("or", any_equal, b.prim("eq", x, y))
        return any_equal

    def factor(*axes: Var) -> Atom:
        *rows, row = axes
        return b.select(equal([(row, r) for r in rows]), one, b.one(Read(s, (poly(row),))))

    products = b.comp(
        [n] * (k + 2), factor, lambda *axes: [Reduce((n,) * (k + 1), tuple(map(poly, axes[:-1])), "prod")]
    )[0]

    def term(last: int, *axes: Var) -> Atom:
        """At r_0 and the rows of the directions, those terms in which the entry of G is in column r_last."""
        total: Atom = zero
        for order in permutations(range(k + 1)):
            if order[0] != last:
                continue
            value: Atom = b.one(Read(products, tuple(map(poly, axes))))
            for m, h in enumerate(directions, 1):
                value = b.mul(value, at(b, h, axes[m], axes[order[m]]))
            total = scalar(b, "add", total, value if _even(order) else b.prim("neg", value))
        return b.select(equal(combinations(axes, 2)), zero, total)

    (diagonal,) = b.comp([n] * (k + 1), partial(term, 0), lambda row, *_: [Reduce((n,), (poly(row),))])
    out = b.map([n, n], lambda i, j: b.select(b.prim("eq", i, j), b.one(Read(diagonal, (poly(i),))), zero))
    for last in range(1, k + 1):

        def kept(*axes: Var, last: int = last) -> list[Reduce]:
            return [Reduce((n, n), (poly(axes[0]), poly(axes[last])))]

        out = plus(b, out, b.comp([n] * (k + 1), partial(term, last), kept)[0])
    return out


def _even(order: Sequence[int]) -> bool:
    return sum(x > y for x, y in combinations(order, 2)) % 2 == 0
