"""Linear algebra: library operations, each with the check that its result exists.

`cholesky` and `eigh` are functions of the symmetric part of their argument, so their derivatives are symmetric too.
"""

from __future__ import annotations

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Lit, Reduce, Size, Var, poly
from dlang.ir.types import I64
from dlang.ops.dtypes import PRECISE
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.values import ArrayV, ScalarV, TupleV, Value
from dlang.typecheck import core

NOT_POSITIVE, SINGULAR, NOT_CONVERGED = "E0831", "E0832", "E0833"


def operation(f: Frame, b: core.Builtin, args: list[Value]) -> Value:
    """A call of a function of matrices; the checker knows that the matrices fit."""
    if isinstance(args[0], ArrayV) and args[0].dtype not in PRECISE:
        raise unsupported(f"`{b.name}` of {args[0].dtype}", b.span)
    match b.name, args:
        case "cholesky", [ArrayV() as a]:
            return cholesky(f, a)
        case "lu", [ArrayV(a)]:
            packed, order, exchanges, _ = lu(f, a)
            return TupleV((ArrayV(packed), ArrayV(order), ScalarV(exchanges)))
        case "logdet_of", [ArrayV(a), ArrayV(packed), ArrayV(order)]:
            op = anf.LinalgOp("lu_logdet", (a, packed, order))
            return ScalarV(f.emitter.emit(op, anf.Scalar(_dtype(a)), name="logdet")[0])
        case "det", [ArrayV(a)]:
            packed, order, exchanges, _ = lu(f, a)
            op = anf.LinalgOp("lu_det", (a, packed, order, exchanges))
            return ScalarV(f.emitter.emit(op, anf.Scalar(_dtype(a)), name="det")[0])
        case "solve", [ArrayV(a), ArrayV(b_)]:
            return solve(f, a, b_)
        case "inverse", [ArrayV(a)]:
            op = anf.LinalgOp("lu_inverse", (a, *regular(f, a)))
            return ArrayV(f.emitter.emit(op, a.type, name="x")[0])
        case "triangular_solve", [ArrayV() as a, ArrayV(b_), *flags]:
            return triangular_solve(f, a, b_, tuple([x.atom for x in flags if isinstance(x, ScalarV)]))
        case "applied", [ArrayV(a), ArrayV(b_)]:
            return applied(f, a, b_)
        case "qr", [ArrayV(a)]:
            return qr(f, a)
        case "svd", [ArrayV(a)]:
            return svd(f, a)
        case "eigh", [ArrayV() as a]:
            return eigh(f, a)
    raise unsupported(f"`{b.name}`", b.span)


def cholesky(f: Frame, a: ArrayV) -> Value:
    e = f.emitter
    x = symmetric_part(f, a)
    factor, info = e.emit(anf.LinalgOp("cholesky", (x,)), x.type, I64, name="l")
    parts = ("the matrix is not positive definite: its leading minor of order ", "", " is not positive, or NaN")
    return ArrayV(_certified(f, info, NOT_POSITIVE, parts, (info,), factor)[0])


def lu(f: Frame, a: Var) -> tuple[Var, ...]:
    """The factors, the order of rows, how many were exchanged, and `info`."""
    return tuple(f.emitter.emit(anf.LinalgOp("lu", (a,)), a.type, Array("i64", _shape(a)[:1]), I64, I64, name="lu"))


def regular(f: Frame, a: Var) -> tuple[Var, Var]:
    """The factors and the order of rows of a matrix that must not be singular."""
    packed, order, _, info = lu(f, a)
    n = f.emitter.atom(_shape(a)[0])
    parts = ("the matrix is singular: pivot ", "", " of ", "", " is zero")
    return _certified(f, info, SINGULAR, parts, (info, n), packed)[0], order


def solve(f: Frame, a: Var, b: Var) -> Value:
    e = f.emitter
    columns = _as_columns(f, b)
    op = anf.LinalgOp("lu_solve", (a, *regular(f, a), columns))
    return ArrayV(e.reshape(e.emit(op, columns.type, name="x")[0], _shape(b)))


def triangular_solve(f: Frame, a: ArrayV, b: Var, flags: tuple[Atom, ...]) -> Value:
    """flags: lower, transposed, unit."""
    e = f.emitter
    columns = _as_columns(f, b)
    x, info = e.emit(anf.LinalgOp("triangular_solve", (a.var, columns, *flags)), columns.type, I64, name="x")
    at = e.prim("sub", info, Lit(1, "i64"))
    parts = ("the matrix is singular: its diagonal is zero at index ", "", "")
    return ArrayV(e.reshape(_certified(f, info, SINGULAR, parts, (at,), x)[0], _shape(b)))


def qr(f: Frame, a: Var) -> Value:
    (m, n), k, dtype = _shape(a), _smaller(f, *_shape(a)), _dtype(a)
    q, r = f.emitter.emit(anf.LinalgOp("qr", (a, k)), Array(dtype, (m, poly(k))), Array(dtype, (poly(k), n)), name="q")
    return TupleV((ArrayV(q), ArrayV(r)))


def svd(f: Frame, a: Var) -> Value:
    (m, n), k, dtype = _shape(a), _smaller(f, *_shape(a)), _dtype(a)
    types = Array(dtype, (m, poly(k))), Array(dtype, (poly(k),)), Array(dtype, (poly(k), n))
    *parts, info = f.emitter.emit(anf.LinalgOp("svd", (a, k)), *types, I64, name="s")
    return TupleV(tuple([ArrayV(x) for x in _converged(f, info, "singular values", *parts)]))


def eigh(f: Frame, a: ArrayV) -> Value:
    x = symmetric_part(f, a)
    w, v, info = f.emitter.emit(anf.LinalgOp("eigh", (x,)), Array(a.dtype, _shape(x)[:1]), x.type, I64, name="v")
    return TupleV(tuple([ArrayV(x) for x in _converged(f, info, "eigenvalues", w, v)]))


def applied(f: Frame, a: Var, b: Var) -> Value:
    """The product of a matrix with an array of any rank, over the last axis of the one and the first of the other."""
    e = f.emitter
    columns = _as_columns(f, b)
    i, j, p = e.axis(_shape(a)[0]), e.axis(_shape(columns)[1]), e.axis(_shape(a)[1], "p")
    with e.block() as lets:
        term = e.prim("mul", e.read(a, (poly(i.var), poly(p.var))), e.read(columns, (poly(p.var), poly(j.var))))
    shape, index = (_shape(a)[0], _shape(columns)[1]), (poly(i.var), poly(j.var))
    (out,) = e.comp((i, j, p), lets, (term,), (Reduce(shape, index, "sum"),), (_dtype(a),))
    return ArrayV(e.reshape(out, (shape[0], *_shape(b)[1:])))


def symmetric_part(f: Frame, a: ArrayV) -> Var:
    """(a + aᵀ) / 2."""
    e = f.emitter
    i, j = (e.axis(s) for s in a.shape)
    position, there = (poly(i.var), poly(j.var)), (poly(j.var), poly(i.var))
    with e.block() as lets:
        both = e.prim("add", e.read(a.var, position), e.read(a.var, there))
        half = e.prim("mul", Lit(0.5, a.dtype), both)
    return e.comp((i, j), lets, (half,), (Reduce(a.shape, position, "set"),), (a.dtype,))[0]


def _converged(f: Frame, info: Var, what: str, *results: Var) -> tuple[Var, ...]:
    e = f.emitter
    finite = e.prim("ge", info, Lit(0, "i64"))
    (checked,) = e.check(
        finite, NOT_CONVERGED, (f"there are no {what}: an element of the matrix is not finite",), (), (info,)
    )
    assert isinstance(checked, Var)
    return _certified(f, checked, NOT_CONVERGED, (f"the iteration for the {what} did not converge",), (), *results)


def _certified(
    f: Frame, info: Var, code: str, parts: tuple[str, ...], values: tuple[Atom, ...], *results: Var
) -> tuple[Var, ...]:
    """The results of an operation, which exist if `info` is 0."""
    e = f.emitter
    checked = e.check(e.prim("eq", info, Lit(0, "i64")), code, parts, values, results)
    return tuple([x for x in checked if isinstance(x, Var)])


def _as_columns(f: Frame, b: Var) -> Var:
    """A right-hand side as a matrix: all axes but the first are one."""
    shape = _shape(b)
    columns = poly(1)
    for s in shape[1:]:
        columns = columns * s
    return f.emitter.reshape(b, (shape[0], columns))


def _smaller(f: Frame, m: Size, n: Size) -> Atom:
    e = f.emitter
    if m == n:
        return e.atom(m)
    if m.constant is not None and n.constant is not None:
        return Lit(int(min(m.constant, n.constant)), "i64")
    k = e.prim("minimum", e.atom(m), e.atom(n))
    assert isinstance(k, Var)
    e.facts.size(k)
    return k


def _shape(a: Var) -> tuple[Size, ...]:
    assert isinstance(a.type, Array)
    return a.type.shape


def _dtype(a: Var) -> str:
    assert isinstance(a.type, Array)
    return a.type.dtype
