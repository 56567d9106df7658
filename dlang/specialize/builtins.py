"""Functions that the compiler knows, on values whose dtypes and ranks are known.

Those of linear algebra are library operations, each with the check that its result exists. `cholesky` and `eigh` are
functions of the symmetric part of their argument, so their derivatives are symmetric too.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Lit, Reduce, Scalar, Size, Var, fresh, poly
from dlang.ir.types import I64, product
from dlang.ops.dtypes import PRECISE
from dlang.ops.functions import DECLARED, FUNCTIONS, POSITIONS, REDUCED, Reduction
from dlang.ops.monoids import MONOIDS
from dlang.ops.primitives import PRIMITIVES, operator, parsed
from dlang.specialize.analysis import WORLD, effects_of
from dlang.specialize.arith import elementwise, filled, reduce_axes, zero, zeros
from dlang.specialize.arrangement import (
    along_axis,
    array_shape,
    as_array,
    atom,
    extremum_of_texts,
    full,
    joined,
    leaf,
    listed,
    moved,
    ordered,
    repeated,
    reshaped,
    reverse,
    rows,
    shape_of,
    transpose,
)
from dlang.specialize.binders import acts, ragged
from dlang.specialize.comprehensions import gathered, nonempty, reduction
from dlang.specialize.dynamic import reconciled
from dlang.specialize.emitter import Emitter
from dlang.specialize.foreign import append_row, read_value, write_value
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.functions import apply, run_from, stopped
from dlang.specialize.in_order import in_order, map_floats
from dlang.specialize.indexing import Element, leading_shape, select, store_leaf
from dlang.specialize.operators import close, sum_floats
from dlang.specialize.randomness import at, draw, draws_by, points, restart
from dlang.specialize.text import hole, whole
from dlang.specialize.types import Mono, MonoTuple
from dlang.specialize.values import (
    UNIT,
    ArrayV,
    Many,
    ScalarV,
    TupleV,
    Value,
    alike,
    leaf_var,
    leaves,
    mono_of,
    rebuild,
)
from dlang.typecheck import core, types as ty


def builtin(f: Frame, b: core.Builtin) -> Value:
    reduces = FUNCTIONS[b.name].reduction if b.name in FUNCTIONS else None
    if reduces is not None and reduces.plain and len(b.args) == 1 and "axes" not in b.static:
        argument = b.args[0]
        if isinstance(argument, core.Comprehension):
            direct = reduction(f, b.name, argument, nested="nested" in b.static)
            if direct is not None:
                return ScalarV(direct)
            if acts(f, argument) and ragged(f, argument.binders) is not None:
                return reduce(f, b.name, in_order(f, argument, flat=True), ())
    args = [f.eval(a) for a in b.args]
    v = call(f, b, args)
    f.bind_sizes(b.type, v, b.opened)
    return v


def call(f: Frame, b: core.Builtin, args: list[Value]) -> Value:
    """The value of a call of a function that the compiler knows."""
    e = f.emitter
    match b.name, args:
        case "cast", [x]:
            dtype = f.dtype(b.type)
            return elementwise(f, lambda a: e.cast(dtype, a), x)
        case "where", [c, x, y]:
            return elementwise(f, lambda c, x, y: e.prim("select", c, x, y), c, x, y)
        case "clip", [x, low, high]:
            return elementwise(f, lambda x, a, b: extreme(e, "minimum", extreme(e, "maximum", x, a), b), x, low, high)
        case (("maximum" | "minimum") as name, [x, y]):
            return elementwise(f, lambda x, y: extreme(e, name, x, y), x, y)
        case name, _ if name in DECLARED and DECLARED[name].matrices:
            return operation(f, b, args)
        case name, _ if name in REDUCED:
            out = reduce(f, name, args[0], axes_of(b))
            return keepdims(f, as_array(args[0]), axes_of(b), out) if "keepdims" in b.static else out
        case name, _ if name in PRIMITIVES:
            return elementwise(f, lambda *xs: e.prim(name, *xs), *args)
        case "len", [x]:
            return ScalarV(e.atom(leading_shape(x)[0]))
        case "shape", [x]:
            sizes = [ScalarV(e.atom(s)) for s in shape_of(x)]
            return sizes[0] if len(sizes) == 1 else TupleV(tuple(sizes))
        case (("zeros" | "ones"), _):
            dtype = f.dtype(b.type)
            return full(f, zero(dtype) if b.name == "zeros" else Lit(1.0 if dtype in anf.FLOATS else 1, dtype), args)
        case "full", [x, *sizes]:
            shape = array_shape(f, sizes)
            return gathered(x, [repeated(f, shape, a) for a in leaves(x)], shape) if shape else x
        case "reshape", [x, *sizes]:
            return reshaped(f, b, x, sizes)
        case "transpose", [x]:
            return transpose(f, x)
        case "reverse", [x]:
            return reverse(f, x, axis_of(b))
        case (("cumsum" | "sort" | "argsort") as name, [ArrayV() as x]):
            return along_axis(f, x, axis_of(b), lambda row: ordered(f, name, row))
        case "concat", _:
            return joined(f, args, axis_of(b), f.erasing().mono(b.type))
        case "stack", _:
            return moved(f, listed(f, args, f.erasing().mono(b.type)), 0, axis_of(b))
        case "zip", [x, *_]:
            return Many(leading_shape(x)[:1], TupleV(tuple([rows(v) for v in args])))
        case "scan", [function, init, xs]:
            pair = f.erasing().mono(b.type)
            assert isinstance(pair, MonoTuple)
            return scan(f, function, init, xs, pair.items[0])
        case "map_floats", [function, *values]:
            return map_floats(f, function, values)
        case "sum_floats", [x]:
            return ScalarV(sum_floats(f, x, f.dtype(b.type)))
        case "close", [x, y, *tol]:
            return ScalarV(close(f, x, y, atom(tol[0]) if tol else Lit(1e-9, "f64")))
        case "stop_gradient", [x]:
            return stopped(f, x)
        case (("random_bits" | "random_uniform" | "random_normal"), []):
            return draw(f, b.name, f.dtype(b.type))
        case "random_run", [ScalarV(seed), function]:
            return run_from(f, seed, function)
        case "print", [x]:
            return effect(f, "print", [text(f, x)], (), [])
        case "progress", [done, total, label]:
            return ScalarV(asked(f, "io.progress", [atom(done), atom(total), atom(label)], I64))
        case "read_value", [path]:
            return read_value(f, b, atom(path))
        case "write_value", [path, value]:
            given, form = write_value(f, atom(path), value)
            return effect(f, "io.write_value", given, form, [])
        case "write_row", [path, record]:
            given, names = append_row(f, atom(path), record, b.span)
            return effect(f, "io.write_row", given, names, [])
        case name, _ if name.startswith("read_"):
            return read(f, b, [atom(a) for a in args])
        case name, _ if name.startswith("write_"):
            return effect(f, f"io.{name}", [a for v in args for a in leaves(v)], (), [])
    raise unsupported(f"`{b.name}`", b.span)


def extreme(e: Emitter, name: str, x: Atom, y: Atom) -> Atom:
    """`maximum` or `minimum`, of numbers or of texts."""
    if isinstance(x.type, Scalar) and x.type.dtype == "str":
        return e.prim("select", e.prim("lt" if name == "maximum" else "gt", x, y), y, x)
    return e.prim(name, x, y)


def axes_of(b: core.Builtin) -> tuple[int, ...]:
    """The axes that are named; none of them stands for all."""
    axes = b.static.get("axes", ())
    return tuple([int(k) for k in axes]) if isinstance(axes, tuple) else ()


def axis_of(b: core.Builtin) -> int:
    """The axis that is named, or the first."""
    return (axes_of(b) or (0,))[0]


# ---- reductions ------------------------------------------------------------------------------------------------------
def reduce(f: Frame, name: str, v: Value, axes: tuple[int, ...]) -> Value:
    """A reduction over the named axes, or over all."""
    e = f.emitter
    reduction = FUNCTIONS[name].reduction
    if isinstance(v, ScalarV):
        if reduction is None or reduction.plain:
            return ScalarV(Lit(0, "i64")) if name in POSITIONS else v
        return finished(f, reduction, ScalarV(computed(e, reduction.element, {"x": v.atom}, v.dtype)), ())
    x = as_array(v)
    rank = len(x.shape)
    over = sorted({k % rank for k in axes}) if axes else list(range(rank))
    if reduction is None:  # of nothing `logsumexp` is the logarithm of 0
        (top,) = reduce_axes(e, x, over, ("max",))
        return logsumexp(f, x, over, top)
    if not MONOIDS[reduction.monoid].has_empty:
        found_by_rank = (x.var,) if x.dtype == "str" else ()
        for certified in nonempty(f, tuple([x.shape[k] for k in over]), name, *found_by_rank):
            x = ArrayV(leaf_var(certified))
    if x.dtype == "str":
        return extremum_of_texts(f, name, x, over)
    element = reduction.element
    (out,) = reduce_axes(e, x, over, (reduction.monoid,), lambda a: computed(e, element, {"x": a}, x.dtype))
    return finished(f, reduction, out, [x.shape[k] for k in over])


def finished(f: Frame, reduction: Reduction, out: Value, shape: Sequence[Size]) -> Value:
    """Makes the result of a reduction of the elements of a box that a monoid has combined."""
    if reduction.result == "r":
        return out
    assert isinstance(out, ScalarV | ArrayV)
    e, dtype = f.emitter, out.dtype
    n = ScalarV(e.cast(dtype, e.atom(product(shape))))
    return elementwise(f, lambda r, n: computed(e, reduction.result, {"r": r, "n": n}, dtype), out, n)


def computed(e: Emitter, text: str, names: Mapping[str, Atom], dtype: str) -> Atom:
    """Emits an expression of primitives, in which numbers are of a dtype."""
    return _computed(e, parsed(text), names, dtype)


def _computed(e: Emitter, x: ast.expr, names: Mapping[str, Atom], dtype: str) -> Atom:
    match x:
        case ast.Name(id=name):
            return names[name]
        case ast.Constant(value=int() | float() as value):
            return Lit(value, dtype)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return e.prim(operator(x), _computed(e, left, names, dtype), _computed(e, right, names, dtype))
        case ast.Call(func=ast.Name(id=name), args=args):
            return e.prim(name, *[_computed(e, a, names, dtype) for a in args])
        case _:
            raise ValueError(f"no expression of primitives: {ast.unparse(x)}")


def keepdims(f: Frame, x: ArrayV, axes: tuple[int, ...], out: Value) -> Value:
    """A reduction of `x` over some axes, with these again, of size 1."""
    over = {k % len(x.shape) for k in axes}
    shape = tuple([poly(1) if k in over else s for k, s in enumerate(x.shape)])
    if isinstance(out, ScalarV):
        return ArrayV(filled(f, shape, out.atom))
    places = tuple([fresh("i", I64) for _ in shape])
    index = tuple([poly(a) for k, a in enumerate(places) if k not in over])
    return ArrayV(f.emitter.view(as_array(out).var, places, shape, index))


def logsumexp(f: Frame, x: ArrayV, over: list[int], top: Value) -> Value:
    """m + log Σ exp(x - m), where m is the maximum; it has no derivative, as the value does not depend on it."""
    e = f.emitter
    axes = tuple([e.axis(s) for s in x.shape])
    index = tuple([poly(a.var) for a in axes])
    kept = tuple([k for k in range(len(axes)) if k not in over])
    where = tuple([index[k] for k in kept])
    with f.block() as lets:
        m = fixed(e, e.read(top.var, where) if isinstance(top, ArrayV) else atom(top))
        term = e.prim("exp", e.prim("sub", e.read(x.var, index), m))
    shape = tuple([x.shape[k] for k in kept])
    order = tuple([axes[k] for k in kept] + [axes[k] for k in over])
    (total,) = e.comp(order, lets, (term,), (Reduce(shape, where, "sum"),), (x.dtype,), "r")
    sums: Value = ArrayV(total) if shape else ScalarV(total)
    return elementwise(f, lambda s, m: e.prim("add", fixed(e, m), e.prim("log", s)), sums, top)


def fixed(e: Emitter, m: Atom) -> Atom:
    """Emits the number to subtract before `exp`: 0 for an infinite maximum, which would give ∞ - ∞."""
    assert isinstance(m.type, Scalar)
    finite = e.prim("select", e.prim("isfinite", m), m, Lit(0.0, m.type.dtype))
    return e.emit(anf.StopGradient(finite), m.type)[0] if isinstance(finite, Var) else finite


# ---- scans -----------------------------------------------------------------------------------------------------------
def scan(f: Frame, function: Value, init: Value, xs: Value, kind: Mono) -> Value:
    """(last state, outputs): a state of type `kind` threaded through the elements, an output collected for each."""
    e = f.emitter
    n = leading_shape(xs)[0]
    trial_axis = e.axis(n, "k").var
    iterations = points(f, draws_by(f, function))
    before = f.world.token
    acts = before is not None and bool(WORLD & effects_of(function))
    inside = fresh("world", anf.Token()) if acts else None
    copies = e.copies.mark()
    while True:  # a trial, for the type of the outputs, and whether the state stays of one structure
        params = tuple([fresh("s", a.type) for a in leaves(init)])
        e.copies.undo(copies)
        restart(iterations)
        with f.block(), at(f, iterations, (trial_axis,)):
            f.world.token = inside
            trial = apply(f, function, [rebuild(init, iter(params)), select(f, xs, [Element(poly(trial_axis))])])
            assert isinstance(trial, TupleV)
            kinds = [a.type for a in leaves(trial.items[1])]
        general = reconciled(f, init, trial.items[0], kind)
        if alike(general, init):
            break
        init = general
    start = rebuild(init, iter(params))
    e.facts.forget(trial_axis)
    e.copies.undo(copies)
    restart(iterations)
    outs = []
    for t in kinds:
        assert isinstance(t, Scalar | anf.Array)
        element_shape = t.shape if isinstance(t, anf.Array) else ()
        outs.append(zeros(f, (n, *element_shape), t.dtype))
    slots = tuple([fresh("out", o.type) for o in outs])
    index = e.axis(n, "k").var
    index_of_iteration = [Element(poly(index))]
    with f.block() as body, at(f, iterations, (index,)):
        f.world.token = inside
        result = apply(f, function, [start, select(f, xs, index_of_iteration)])
        assert isinstance(result, TupleV)
        state, output = result.items
        state = f.fit(reconciled(f, state, start, kind), mono_of(start))
        stored = [
            atom(store_leaf(e, ArrayV(s), index_of_iteration, ScalarV(a) if isinstance(a.type, Scalar) else leaf(a)))
            for s, a in zip(slots, leaves(output), strict=True)
        ]
        results = (*leaves(state), *stored, *some(f.world.token if acts else None))
    carried = (*params, *slots, *((inside,) if inside is not None else ()))
    first = (*leaves(init), *outs, *some(before if acts else None))
    op = anf.For(index, poly(0), n, carried, first, anf.Block(tuple(body), results))
    bound = e.emit(op, *[p.type for p in carried])
    f.world.token = bound[-1] if acts else before
    collected_arrays = bound[len(params) : len(params) + len(slots)]
    collected = gathered(output, collected_arrays, (n,)) if outs else UNIT
    return TupleV((rebuild(init, iter(bound[: len(params)])), collected))


def some(token: Atom | None) -> tuple[Atom, ...]:
    return () if token is None else (token,)


# ---- effects ---------------------------------------------------------------------------------------------------------
def text(f: Frame, v: Value) -> Atom:
    """Emits the text that `print` writes of a value: itself if it is a text."""
    return v.atom if isinstance(v, ScalarV) and v.dtype == "str" else atom(whole(f, hole(f, v, "")))


def asked(f: Frame, name: str, args: list[Atom], type: anf.Type) -> anf.Var:
    """Threads the token through an effect that gives one number."""
    e = f.emitter
    if f.world.token is None:
        raise unsupported(f"`{name}` inside a comprehension or a derivative", e.span)
    token, result = e.emit(anf.Effect(name, f.world.token, tuple(args)), anf.Token(), type, name="w")
    f.world.token = token
    return result


def effect(f: Frame, name: str, args: list[Atom], static: tuple[str, ...], types: list[anf.Type]) -> Value:
    """Threads the token through an effect without results."""
    e = f.emitter
    if f.world.token is None:
        raise unsupported(f"`{name}` inside a comprehension or a derivative", e.span)
    token, *_ = e.emit(anf.Effect(name, f.world.token, tuple(args), static), anf.Token(), *types, name="w")
    f.world.token = token
    return UNIT


def read(f: Frame, b: core.Builtin, args: list[Atom]) -> Value:
    """An array from a file: its dims come first; those that the type states are checked."""
    e = f.emitter
    if f.world.token is None:
        raise unsupported(f"`{b.name}` inside a comprehension or a derivative", e.span)
    t = ty.resolve(b.type)
    shape = ty.resolve_shape(t.shape).pre if isinstance(t, ty.TypeArray) else ()
    dtype = f.dtype(t.element if isinstance(t, ty.TypeArray) else t)
    dims = tuple([fresh("n", I64) for _ in shape])
    for d in dims:
        e.facts.size(d)
    token = fresh("w", anf.Token())
    result = fresh("x", anf.Array(dtype, tuple(map(poly, dims))) if dims else Scalar(dtype))
    op = anf.Effect(f"io.{b.name}", f.world.token, tuple(args), (dtype, str(len(dims))))
    e.bind(op, (token, *dims, result))
    f.world.token = token
    if not dims:
        return ScalarV(result)
    wanted = []
    for s, d in zip(shape, dims, strict=True):
        a = ty.resolve_size(s).poly.atom
        if isinstance(a, ty.SizeVar) and a not in f.bindings:
            f.bindings[a] = poly(d)
            e.facts.size(d)
        wanted.append(f.size(s))
    return ArrayV(e.resized(result, tuple(wanted), "axis {} of the array in the file"))


# ---- linear algebra --------------------------------------------------------------------------------------------------
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
