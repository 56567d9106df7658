"""Functions that the compiler knows, on values whose dtypes and ranks are known."""

from __future__ import annotations

from collections.abc import Callable

from dlang.ir import anf
from dlang.ir.anf import Atom, Keep, Lit, Scalar, Size, fresh, poly
from dlang.primitives.table import PRIMITIVES
from dlang.specialize import linear_algebra
from dlang.specialize.arith import elementwise, reduce_axes
from dlang.specialize.comprehensions import gathered, inside, nonempty, reduction
from dlang.specialize.dynamic import reconciled
from dlang.specialize.emitter import I64, Emitter
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.functions import apply, run_from, stopped
from dlang.specialize.indexing import Element, leading_shape, map_leaves, select, store_leaf
from dlang.specialize.operators import Pointwise, close, pointwise, sum_floats
from dlang.specialize.randomness import at, draw, draws_by, points
from dlang.specialize.text import hole, whole
from dlang.specialize.types import Mono, MonoTuple
from dlang.specialize.values import (
    UNIT,
    ArrayV,
    ClosureV,
    Many,
    ScalarV,
    TupleV,
    Value,
    leaves,
    mono_of,
    rebuild,
    shape_key,
)
from dlang.specialize.zeros import filled, zero, zeros
from dlang.typecheck import core
from dlang.typecheck import types as ty

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
ELEMENTWISE = frozenset(PRIMITIVES) - {"guard", "add", "sub", "mul", "div", "neg", "pow", "powi", "select"}


def builtin(f: Frame, b: core.Builtin) -> Value:
    if b.name in REDUCTIONS and len(b.args) == 1 and "axis" not in b.static:
        argument = b.args[0]
        if isinstance(argument, core.Comprehension):
            direct = reduction(f, b.name, argument, nested="nested" in b.static)
            if direct is not None:
                return ScalarV(direct)
    args = [f.eval(a) for a in b.args]
    v = call(f, b, args)
    f.bind_sizes(b.type, v, b.opened)
    return v


def call(f: Frame, b: core.Builtin, args: list[Value]) -> Value:
    e = f.emitter
    match b.name, args:
        case "cast", [x]:
            dtype = f.dtype(b.type)
            return elementwise(f, lambda a: e.cast(dtype, a), x)
        case "where", [c, x, y]:
            return elementwise(f, lambda c, x, y: e.prim("select", c, x, y), c, x, y)
        case "clip", [x, low, high]:
            return elementwise(f, lambda x, a, b: e.prim("minimum", e.prim("maximum", x, a), b), x, low, high)
        case name, _ if name in linear_algebra.OPERATIONS:
            return linear_algebra.operation(f, b, args)
        case name, _ if name in REDUCTIONS or name in ("mean", "logsumexp"):
            axis = b.static.get("axis")
            out = reduce(f, name, args[0], axis)
            if b.static.get("keepdims") and isinstance(axis, int):
                return keepdims(f, as_array(args[0]), axis, out)
            return out
        case name, _ if name in ELEMENTWISE:
            return elementwise(f, lambda *xs: e.prim(name, *xs), *args)
        case "len", [x]:
            return ScalarV(e.atom(leading_shape(x)[0]))
        case "shape", [x]:
            return TupleV(tuple([ScalarV(e.atom(s)) for s in leading_shape(x)]))
        case (("zeros" | "ones"), _):
            dtype = f.dtype(b.type)
            return full(f, zero(dtype) if b.name == "zeros" else Lit(1.0 if dtype in anf.FLOATS else 1, dtype), args)
        case "full", [x, *sizes]:
            shape = array_shape(f, sizes)
            return gathered(x, [repeated(f, shape, a) for a in leaves(x)], shape) if shape else x
        case "reshape", [ArrayV(var) as x, *sizes]:
            return reshape(f, b, x, sizes)
        case "transpose", [x]:
            return map_leaves(x, lambda leaf: transpose(f, leaf)) if isinstance(x, Many) else transpose(f, as_array(x))
        case "reverse", [x]:
            return along(x, lambda leaf: reverse(f, leaf))
        case "concat", [x, y]:
            kind = f.erasing().mono(b.type)
            return concat(f, reconciled(f, x, y, kind), reconciled(f, y, x, kind))
        case "stack", [*parts]:
            return stack(f, parts)
        case "cumsum", [ArrayV(var)]:
            return ArrayV(e.emit(anf.Scan("sum", var), var.type)[0])
        case "argsort", [ArrayV(var) as x]:
            return ArrayV(e.emit(anf.Library("argsort", (var,)), anf.Array("i64", x.shape))[0])
        case "sort", [ArrayV(var) as x]:
            return sort(f, x)
        case "zip", [x, y]:
            return Many(leading_shape(x)[:1], TupleV((rows(x), rows(y))))
        case "scan", [function, init, xs]:
            pair = f.erasing().mono(b.type)
            assert isinstance(pair, MonoTuple)
            return scan(f, function, init, xs, pair.items[0])
        case "map_floats", [function, *values]:
            with inside(f, None, ()):
                return pointwise(f, Pointwise("map", (function,), on_floats), *values)
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
        case name, _ if name.startswith("read_"):
            return read(f, b, [atom(a) for a in args])
        case name, _ if name.startswith("write_"):
            names = b.static.get("names", ())
            assert isinstance(names, tuple)
            return effect(f, f"io.{name}", [a for v in args for a in leaves(v)], names, [])
    raise unsupported(f"`{b.name}`", b.span)


def on_floats(f: Frame, held: tuple[Value, ...], xs: tuple[Atom, ...]) -> Atom:
    """A scalar function at floats: generic code has one for f64, and the floats of a `Vector` may be narrower."""
    e = f.emitter
    (function,) = held
    dtypes = [x.type.dtype for x in xs if isinstance(x.type, Scalar)]
    wanted = dtypes
    if isinstance(function, ClosureV):
        inner = f.inner(function.bindings, {})
        wanted = [inner.dtype(p.type) for p in function.params]
    args: list[Value] = [ScalarV(e.cast(d, x)) for d, x in zip(wanted, xs, strict=True)]
    return e.cast(dtypes[0], atom(apply(f, function, args)))


def atom(v: Value) -> Atom:
    (a,) = leaves(v)
    return a


def as_array(v: Value) -> ArrayV:
    assert isinstance(v, ArrayV)
    return v


# ---- reductions ------------------------------------------------------------------------------------------------------
def reduce(f: Frame, name: str, v: Value, axis: object) -> Value:
    e = f.emitter
    if isinstance(v, ScalarV):
        return ScalarV(Lit(0, "i64")) if name.startswith("arg") else v
    x = as_array(v)
    rank = len(x.shape)
    over = list(range(rank)) if axis is None else [int(axis) % rank] if isinstance(axis, int) else []
    if name in ("max", "min", "argmax", "argmin", "logsumexp"):
        nonempty(f, tuple([x.shape[k] for k in over]), name)
    if name == "mean":
        (total,) = reduce_axes(e, x, over, ("sum",))
        count = poly(1)
        for k in over:
            count = count * x.shape[k]
        n = ScalarV(e.cast(x.dtype, e.atom(count)))
        return elementwise(f, lambda a, b: e.prim("div", a, b), total, n)
    if name == "logsumexp":
        (top,) = reduce_axes(e, x, over, ("max",))
        return logsumexp(f, x, over, top)
    (out,) = reduce_axes(e, x, over, (name,))
    return out


def keepdims(f: Frame, x: ArrayV, axis: int, out: Value) -> Value:
    """A reduction of `x` over one axis, with that axis again, of size 1."""
    axis %= len(x.shape)
    shape = tuple([poly(1) if k == axis else s for k, s in enumerate(x.shape)])
    if isinstance(out, ScalarV):
        return ArrayV(filled(f, shape, out.atom))
    axes = tuple([fresh("i", I64) for _ in shape])
    index = tuple([poly(a) for k, a in enumerate(axes) if k != axis])
    return ArrayV(f.emitter.view(as_array(out).var, axes, shape, index))


def logsumexp(f: Frame, x: ArrayV, over: list[int], top: Value) -> Value:
    """m + log Σ exp(x - m), where m is the maximum."""
    e = f.emitter
    axes = tuple([e.axis(s) for s in x.shape])
    index = tuple([poly(a.var) for a in axes])
    kept = tuple([k for k in range(len(axes)) if k not in over])
    where = tuple([index[k] for k in kept])
    with f.block() as lets:
        m = finite(e, e.read(top.var, where) if isinstance(top, ArrayV) else atom(top))
        term = e.prim("exp", e.prim("sub", e.read(x.var, index), m))
    shape = tuple([x.shape[k] for k in kept])
    order = tuple([axes[k] for k in kept] + [axes[k] for k in over])
    (total,) = e.comp(order, lets, (term,), (Keep(shape, where, "sum"),), (x.dtype,), "r")
    sums: Value = ArrayV(total) if shape else ScalarV(total)
    return elementwise(f, lambda s, m: e.prim("add", finite(e, m), e.prim("log", s)), sums, top)


def finite(e: Emitter, m: Atom) -> Atom:
    """What is subtracted before `exp`: an infinite maximum would give ∞ - ∞."""
    assert isinstance(m.type, Scalar)
    return e.prim("select", e.prim("isfinite", m), m, Lit(0.0, m.type.dtype))


# ---- making and arranging arrays -------------------------------------------------------------------------------------
def full(f: Frame, x: Atom, sizes: list[Value]) -> Value:
    shape = array_shape(f, sizes)
    return ArrayV(filled(f, shape, x)) if shape else ScalarV(x)


def array_shape(f: Frame, sizes: list[Value]) -> tuple[Size, ...]:
    e = f.emitter
    return tuple([e.checked_size(e.poly(e.cast("i64", atom(s))), "the size of an array") for s in sizes])


def repeated(f: Frame, shape: tuple[Size, ...], x: Atom) -> anf.Var:
    """An array with `x`, which may be an array itself, in every place."""
    if not isinstance(x, anf.Var) or not isinstance(x.type, anf.Array):
        return filled(f, shape, x)
    e = f.emitter
    whole = (*shape, *x.type.shape)
    axes = tuple([e.axis(s) for s in whole])
    index = tuple([poly(a.var) for a in axes])
    with f.block() as lets:
        element = e.read(x, index[len(shape) :])
    return e.comp(axes, lets, (element,), (Keep(whole, index, "set"),), (x.type.dtype,))[0]


def reshape(f: Frame, b: core.Builtin, x: ArrayV, sizes: list[Value]) -> Value:
    """The checker proved that the number of elements is the same."""
    e = f.emitter
    given = tuple([e.poly(e.cast("i64", atom(s))) for s in sizes])
    for g, s in zip(given, _declared(b), strict=False):
        _bind(f, s, g)
    for g in given:
        e.checked_size(g, "a size of `reshape`")
    return ArrayV(e.reshape(x.var, given)) if given else ScalarV(e.read(x.var, (poly(0),) * len(x.shape)))


def _declared(b: core.Builtin) -> tuple[ty.Size, ...]:
    t = ty.resolve(b.type)
    return ty.resolve_shape(t.shape).pre if isinstance(t, ty.TypeArray) else ()


def _bind(f: Frame, s: ty.Size, known: Size) -> None:
    a = ty.resolve_size(s).poly.atom
    if isinstance(a, ty.SizeVar):
        f.bindings.setdefault(a, known)


def transpose(f: Frame, x: ArrayV) -> Value:
    """All axes in reverse order."""
    axes = tuple([fresh("i", I64) for _ in x.shape])
    index = tuple([poly(a) for a in reversed(axes)])
    return ArrayV(f.emitter.view(x.var, axes, x.shape[::-1], index))


def reverse(f: Frame, x: ArrayV) -> Value:
    axes = tuple([fresh("i", I64) for _ in x.shape])
    index = (x.shape[0] - 1 - poly(axes[0]), *[poly(a) for a in axes[1:]])
    return ArrayV(f.emitter.view(x.var, axes, x.shape, index))


def along(v: Value, function: Callable[[ArrayV], Value]) -> Value:
    """A function of the first axis, applied to every leaf."""
    match v:
        case Many(shape, element):
            return Many(shape, map_leaves(element, function))
        case _:
            return function(as_array(v))


def rows(v: Value) -> Value:
    """An array as the element of an array of structures: its leaves have the axes of the whole in front already."""
    if isinstance(v, Many):
        return v.element if len(v.shape) == 1 else Many(v.shape[1:], v.element)
    return v


def concat(f: Frame, x: Value, y: Value) -> Value:
    e = f.emitter
    match x, y:
        case ArrayV(a), ArrayV(b):
            shape = (x.shape[0] + y.shape[0], *x.shape[1:])
            return ArrayV(e.emit(anf.Concat((a, b)), anf.Array(x.dtype, shape))[0])
        case Many(s, ex), Many(t, ey):
            total = (s[0] + t[0], *s[1:])
            joined = [atom(concat(f, _leaf(a), _leaf(b))) for a, b in zip(leaves(ex), leaves(ey), strict=True)]
            return Many(total, rebuild(ex, iter(joined)))
    raise unsupported("this concatenation", e.span)


def _leaf(a: Atom) -> ArrayV:
    assert isinstance(a, anf.Var)
    return ArrayV(a)


def stack(f: Frame, parts: list[Value]) -> Value:
    """Scalars or arrays of one shape as the rows of an array."""
    e = f.emitter
    first = parts[0]
    own = first.shape if isinstance(first, ArrayV) else ()
    assert isinstance(first, ScalarV | ArrayV)
    out = ArrayV(zeros(f, (poly(len(parts)), *own), first.dtype))
    for k, p in enumerate(parts):
        assert isinstance(p, ScalarV | ArrayV)
        out = as_array(store_leaf(e, out, [Element(poly(k))], p))
    return out


def sort(f: Frame, x: ArrayV) -> Value:
    e = f.emitter
    (order,) = e.emit(anf.Library("argsort", (x.var,)), anf.Array("i64", x.shape), name="order")
    axis = e.axis(x.shape[0])
    with f.block() as lets:
        at = e.read(order, (poly(axis.var),))
        y = e.read(x.var, (poly(at),))
    return ArrayV(e.comp((axis,), lets, (y,), (Keep(x.shape, (poly(axis.var),), "set"),), (x.dtype,))[0])


def scan(f: Frame, function: Value, init: Value, xs: Value, kind: Mono) -> Value:
    """(last state, outputs): a state of type `kind` threaded through the elements, an output collected for each."""
    e = f.emitter
    n = leading_shape(xs)[0]
    trial_axis = e.axis(n, "k").var
    trips = points(f, draws_by(f, function))
    while True:  # a trial, for the type of the outputs, and whether the state stays of one structure
        params = tuple([fresh("s", a.type) for a in leaves(init)])
        with f.block(), at(f, trips, (trial_axis,)):
            trial = apply(f, function, [rebuild(init, iter(params)), select(f, xs, [Element(poly(trial_axis))])])
            assert isinstance(trial, TupleV)
            kinds = [a.type for a in leaves(trial.items[1])]
        general = reconciled(f, init, trial.items[0], kind)
        if shape_key(general, lambda _: None) == shape_key(init, lambda _: None):
            break
        init = general
    start = rebuild(init, iter(params))
    e.facts.forget(trial_axis)
    outs = []
    for t in kinds:
        assert isinstance(t, Scalar | anf.Array)
        own = t.shape if isinstance(t, anf.Array) else ()
        outs.append(zeros(f, (n, *own), t.dtype))
    slots = tuple([fresh("out", o.type) for o in outs])
    index = e.axis(n, "k").var
    here = [Element(poly(index))]
    with f.block() as body, at(f, trips, (index,)):
        result = apply(f, function, [start, select(f, xs, here)])
        assert isinstance(result, TupleV)
        state, output = result.items
        state = f.fit(reconciled(f, state, start, kind), mono_of(start))
        stored = [
            atom(store_leaf(e, ArrayV(s), here, ScalarV(a) if isinstance(a.type, Scalar) else _leaf(a)))
            for s, a in zip(slots, leaves(output), strict=True)
        ]
        results = (*leaves(state), *stored)
    op = anf.For(index, poly(0), n, (*params, *slots), (*leaves(init), *outs), anf.Block(tuple(body), tuple(results)))
    bound = e.emit(op, *[p.type for p in params], *[s.type for s in slots])
    collected = gathered(output, bound[len(params) :], (n,)) if outs else UNIT
    return TupleV((rebuild(init, iter(bound[: len(params)])), collected))


# ---- effects ---------------------------------------------------------------------------------------------------------
def text(f: Frame, v: Value) -> Atom:
    """What `print` writes of a value: itself if it is a text."""
    return v.atom if isinstance(v, ScalarV) and v.dtype == "str" else atom(whole(f, hole(f, v, "")))


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
    for k, (d, w) in enumerate(zip(dims, wanted, strict=True)):
        if w != poly(d):
            expected = e.atom(w)
            parts = (f"axis {k} of the array in the file has size ", "", ", expected ", "", "")
            e.check(e.prim("eq", d, expected), "E0807", parts, (d, expected))
    return ArrayV(e.reshape(result, tuple(wanted)))
