"""Making arrays, and putting their elements into another order or shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Reduce, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.analysis import NONE, effects_of
from dlang.specialize.arith import filled, reduce_axes, zeros
from dlang.specialize.comprehensions import collect, gathered
from dlang.specialize.dynamic import dynamic, reconciled, with_effects
from dlang.specialize.frame import Frame
from dlang.specialize.indexing import Element, leading_shape, map_leaves, select, store
from dlang.specialize.types import Mono, strip
from dlang.specialize.values import ArrayV, Many, ScalarV, Value, alike, leaves, rebuild
from dlang.typecheck import core, types as ty


def atom(v: Value) -> Atom:
    (a,) = leaves(v)
    return a


def as_array(v: Value) -> ArrayV:
    assert isinstance(v, ArrayV)
    return v


def leaf(a: Atom) -> ArrayV:
    assert isinstance(a, Var)
    return ArrayV(a)


# ---- making ----------------------------------------------------------------------------------------------------------
def full(f: Frame, x: Atom, sizes: Sequence[Value]) -> Value:
    shape = array_shape(f, sizes)
    return ArrayV(filled(f, shape, x)) if shape else ScalarV(x)


def array_shape(f: Frame, sizes: Sequence[Value]) -> tuple[Size, ...]:
    e = f.emitter
    return tuple([e.checked_size(e.modulo(e.cast("i64", atom(s))), "the size of an array") for s in sizes])


def repeated(f: Frame, shape: tuple[Size, ...], x: Atom) -> Var:
    """An array with `x`, which may be an array itself, in every place."""
    if not isinstance(x, Var) or not isinstance(x.type, anf.Array):
        return filled(f, shape, x)
    e = f.emitter
    whole = (*shape, *x.type.shape)
    axes = tuple([e.axis(s) for s in whole])
    index = tuple([poly(a.var) for a in axes])
    with f.block() as lets:
        element = e.read(x, index[len(shape) :])
    return e.comp(axes, lets, (element,), (Reduce(whole, index, "set"),), (x.type.dtype,))[0]


def listed(f: Frame, items: list[Value], whole: Mono) -> Value:
    """Values one after another in a fresh array. whole: its type, for functions among them that differ."""
    if not all(alike(i, items[0]) for i in items[1:]):
        effects = NONE.union(*map(effects_of, items))
        element = with_effects(f, strip(whole, 1), effects)
        items = [dynamic(f, i, element) for i in items]
    n = poly(len(items))
    out = gathered(items[0], [zeros(f, (n, *shape), dtype) for shape, dtype in map(plain, leaves(items[0]))], (n,))
    for k, item in enumerate(items):
        out = store(f, out, [Element(poly(k))], item)
    return out


def plain(a: Atom) -> tuple[tuple[Size, ...], str]:
    """Shape and dtype of a leaf."""
    assert not isinstance(a.type, anf.Token)
    return (a.type.shape if isinstance(a.type, anf.Array) else ()), a.type.dtype


# ---- shapes ----------------------------------------------------------------------------------------------------------
def shape_of(v: Value) -> tuple[Size, ...]:
    return leading_shape(v) if isinstance(v, ArrayV | Many) else ()


def reshaped(f: Frame, b: core.Builtin, x: Value, sizes: Sequence[Value]) -> Value:
    """The same elements under another shape; the checker proved that they are as many."""
    e = f.emitter
    t = ty.resolve(b.type)
    declared = ty.resolve_shape(t.shape).pre if isinstance(t, ty.TypeArray) else ()
    given = tuple([e.modulo(e.cast("i64", atom(s))) for s in sizes])
    for g, s in zip(given, declared, strict=False):
        a = ty.resolve_size(s).poly.atom
        if isinstance(a, ty.SizeVar):
            f.bindings.setdefault(a, g)
    # Products of sizes that are as many elements as an array has do not wrap.
    e.settled.update(g for g in given if e.facts.small(g))
    for g in given:
        e.checked_size(g, "a size of `reshape`")
    if not isinstance(x, ArrayV | Many):  # one element
        return gathered(x, [repeated(f, given, a) for a in leaves(x)], given) if given else x
    if not given:
        return select(f, x, [Element(poly(0)) for _ in leading_shape(x)])
    if isinstance(x, ArrayV):
        return ArrayV(e.reshape(x.var, given))
    rank = len(x.shape)
    return Many(given, map_leaves(x.element, lambda x: ArrayV(e.reshape(x.var, (*given, *x.shape[rank:])))))


def permuted(f: Frame, x: Value, order: Sequence[int]) -> Value:
    """Axis k of the result is axis `order[k]`; of an array of structures that of each leaf."""
    if isinstance(x, Many):
        shape = tuple([x.shape[k] for k in order])
        return Many(shape, map_leaves(x.element, lambda a: permuted(f, a, order)))
    return permuted_leaf(f, as_array(x), order)


def permuted_leaf(f: Frame, x: ArrayV, order: Sequence[int]) -> ArrayV:
    whole = [*order, *range(len(order), len(x.shape))]
    axes = tuple([fresh("i", I64) for _ in whole])
    index = [poly(0)] * len(whole)
    for k, place in enumerate(whole):
        index[place] = poly(axes[k])
    return ArrayV(f.emitter.view(x.var, axes, tuple([x.shape[place] for place in whole]), tuple(index)))


def transpose(f: Frame, x: Value) -> Value:
    """All axes in reverse order."""
    return permuted(f, x, list(reversed(range(len(leading_shape(x))))))


def moved(f: Frame, x: Value, axis: int, to: int) -> Value:
    """The array with an axis at another place; negative places count from the end."""
    rank = len(leading_shape(x))
    axis, to = axis % rank, to % rank
    if axis == to:
        return x
    order = [k for k in range(rank) if k != axis]
    order.insert(to, axis)
    return permuted(f, x, order)


def reverse(f: Frame, x: Value, axis: int) -> Value:
    if isinstance(x, Many):
        return Many(x.shape, map_leaves(x.element, lambda a: reverse(f, a, axis % len(x.shape))))
    a = as_array(x)
    axes = tuple([fresh("i", I64) for _ in a.shape])
    index = [poly(i) for i in axes]
    index[axis] = a.shape[axis] - 1 - index[axis]
    return ArrayV(f.emitter.view(a.var, axes, a.shape, tuple(index)))


def rows(v: Value) -> Value:
    """An array as the element of an array of structures: its leaves have the axes of the whole in front already."""
    if isinstance(v, Many):
        return v.element if len(v.shape) == 1 else Many(v.shape[1:], v.element)
    return v


def joined(f: Frame, parts: Sequence[Value], axis: int, whole: Mono) -> Value:
    """Arrays one after another along an axis. whole: the type of the result, for functions among them that differ."""
    first = parts[0]
    for p in parts[1:]:
        first = reconciled(f, first, p, whole)
    alike = [reconciled(f, p, first, whole) for p in parts]
    return moved(f, concat(f, [moved(f, p, axis, 0) for p in alike]), 0, axis)


def concat(f: Frame, parts: Sequence[Value]) -> Value:
    """Arrays one after another along the first axis."""
    sizes = [leading_shape(p)[0] for p in parts]
    shape = (sum(sizes[1:], sizes[0]), *leading_shape(parts[0])[1:])
    if isinstance(parts[0], Many):
        elements = [p.element for p in parts if isinstance(p, Many)]
        columns = zip(*map(leaves, elements), strict=True)
        joined = [atom(concat(f, list(map(leaf, column)))) for column in columns]
        return Many(shape, rebuild(elements[0], iter(joined)))
    arrays = tuple([as_array(p).var for p in parts])
    return ArrayV(f.emitter.emit(anf.Concat(arrays), anf.Array(as_array(parts[0]).dtype, shape))[0])


# ---- along an axis ---------------------------------------------------------------------------------------------------
def along_axis(f: Frame, x: ArrayV, axis: int, function: Callable[[ArrayV], Value]) -> Value:
    """A function of vectors, which keeps their size, at each vector along an axis."""
    e = f.emitter
    last = as_array(moved(f, x, axis, -1))
    axes = tuple([e.axis(s) for s in last.shape[:-1]])
    if not axes:
        return function(last)
    with f.block() as lets:
        place = fresh("i", I64)
        index = (*[poly(a.var) for a in axes], poly(place))
        value = function(ArrayV(e.view(last.var, (place,), last.shape[-1:], index)))
    return moved(f, collect(f, axes, lets, value), -1, axis)


def ordered(f: Frame, name: str, x: ArrayV) -> ArrayV:
    """`cumsum`, `sort` and `argsort` of a vector."""
    e = f.emitter
    match name:
        case "cumsum":
            return ArrayV(e.emit(anf.Scan("sum", x.var), x.var.type)[0])
        case "argsort":
            return order_of(f, x)
        case _:
            order = order_of(f, x)
            return at_each(f, x.shape, lambda i: e.read(x.var, (poly(e.read(order.var, i)),)))


def order_of(f: Frame, x: ArrayV) -> ArrayV:
    """The positions of the elements in ascending order."""
    return ArrayV(f.emitter.emit(anf.LinalgOp("argsort", (x.var,)), anf.Array("i64", x.shape), name="order")[0])


def at_each(f: Frame, shape: tuple[Size, ...], function: Callable[[tuple[Size, ...]], Atom]) -> ArrayV:
    """The array of a scalar function of the index."""
    e = f.emitter
    axes = tuple([e.axis(s) for s in shape])
    index = tuple([poly(a.var) for a in axes])
    with f.block() as lets:
        value = function(index)
    return ArrayV(e.comp(axes, lets, (value,), (Reduce(shape, index, "set"),), (plain(value)[1],))[0])


# ---- texts -----------------------------------------------------------------------------------------------------------
def extremum_of_texts(f: Frame, name: str, x: ArrayV, over: Sequence[int]) -> Value:
    """`max`, `min`, `argmax` or `argmin` of texts: that of their ranks, which are numbers."""
    e = f.emitter
    count = poly(1)
    for s in x.shape:
        count = count * s
    flat = ArrayV(e.reshape(x.var, (count,)))
    order = order_of(f, flat)

    def begins(index: tuple[Size, ...]) -> Atom:
        """1 where a text is another one than that before it in order."""
        current = e.read(flat.var, (poly(e.read(order.var, index)),))
        place = e.atom(index[0])
        with f.block() as then:
            before = e.read(flat.var, (poly(e.read(order.var, (index[0] - 1,))),))
            other = e.cast("i64", e.prim("ne", current, before))
        later = anf.Block(tuple(then), (other,))
        return e.emit(anf.If(e.prim("gt", place, Lit(0, "i64")), later, anf.Block((), (Lit(0, "i64"),))), I64)[0]

    steps = at_each(f, flat.shape, begins)
    ranks = ordered(f, "cumsum", steps)
    placed = scattered(f, flat.shape, order, lambda i: e.read(ranks.var, (i,)), "i64")
    (out,) = reduce_axes(e, ArrayV(e.reshape(placed, x.shape)), over, (name,))
    if name.startswith("arg"):
        return out
    texts = ArrayV(scattered(f, flat.shape, ranks, lambda i: e.read(flat.var, (poly(e.read(order.var, (i,))),)), "str"))
    if isinstance(out, ScalarV):
        return ScalarV(e.read(texts.var, (e.poly(out.atom),)))
    which = as_array(out)
    return at_each(f, which.shape, lambda index: e.read(texts.var, (poly(e.read(which.var, index)),)))


def scattered(f: Frame, shape: tuple[Size, ...], where: ArrayV, value: Callable[[Size], Atom], dtype: str) -> Var:
    """An array with `value(i)` at the place `where[i]`; of several values for a place the last."""
    e = f.emitter
    i = e.axis(shape[0]).var
    state = fresh("ranks", anf.Array(dtype, shape))
    with f.block() as body:
        place = e.read(where.var, (poly(i),))
        (out,) = e.emit(anf.Update(state, (poly(place),), value(poly(i))), state.type)
    start = zeros(f, shape, dtype)
    loop = anf.For(i, poly(0), shape[0], (state,), (start,), anf.Block(tuple(body), (out,)))
    return e.emit(loop, state.type, name="ranks")[0]
