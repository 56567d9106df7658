"""Comprehensions that touch the world: loops, in which the points come one after another, the last binder fastest.

What a binder ranges over is computed where it is entered, as in a `for`. With a condition, or where the ranges differ
in length, the elements are counted as they come: if it is not known how many there may be, their array grows, to twice
its size and a little whenever it is full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Block, Lit, Scalar, Size, Token, Type, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.analysis import WORLD, effects_of
from dlang.specialize.arith import zeros
from dlang.specialize.binders import (
    Bound,
    Chosen,
    Index,
    axis_of,
    bound,
    chosen,
    inside,
    open_variables,
    places_of,
    points_of,
    with_chosen,
)
from dlang.specialize.comprehensions import collect, element_value, gathered, stored, without_sizes
from dlang.specialize.frame import Frame, Level, scalar, unsupported
from dlang.specialize.functions import apply
from dlang.specialize.generated import construct, generated, opened, tag_of
from dlang.specialize.indexing import Element, select
from dlang.specialize.joins import Arm, joined
from dlang.specialize.operators import Pointwise, by_variant, is_float, one_variant, pointwise
from dlang.specialize.randomness import Points, at, draws_by, passed_key, points, restart
from dlang.specialize.values import (
    ArrayV,
    ClosureV,
    DataV,
    EnumV,
    Many,
    NodeV,
    ScalarV,
    TupleV,
    Value,
    leaves,
    parts,
    with_parts,
)
from dlang.typecheck import core

Start = Callable[[Sequence[Type]], list[Atom]]
"""The state before a point, once it is known what the leaves of an element are like."""


@dataclass(frozen=True, slots=True)
class Point:
    """The code that runs at the point of an index."""

    condition: Callable[[], Atom] | None
    element: Callable[[Index], Value]


@dataclass(slots=True)
class Rows:
    """The state of the loops: the number of elements (`counts`), their room (`grows`), their arrays."""

    counts: bool
    grows: bool
    shape: tuple[Size, ...]  # of the arrays, where there is room for all elements from the start
    value: Value | None = None  # an element
    leaves: list[Type] = field(default_factory=list)

    def formals(self) -> list[Var]:
        """Fresh variables for a state."""
        count = [fresh("k", I64)] if self.counts else []
        room = [fresh("room", I64)] if self.grows else []
        shape = (poly(room[0]),) if self.grows else self.shape
        return [*count, *room, *[fresh("rows", array(shape, t)) for t in self.leaves]]


def array(shape: tuple[Size, ...], leaf: Type) -> Array:
    assert isinstance(leaf, Scalar | Array)
    return Array(leaf.dtype, shape + (leaf.shape if isinstance(leaf, Array) else ()))


def in_order(f: Frame, c: core.Comprehension, flat: bool = False) -> Value:
    """The elements in order. flat: in one array of however many there are, as with a condition."""
    e = f.emitter
    open_variables(f, c)
    binders: list[Bound | Chosen] = []
    sizes: list[Size] = []
    counts = flat or c.condition is not None
    for b, later in with_chosen(c.binders):
        range_of_binder = chosen(f, b) if later else bound(f, b)
        if isinstance(range_of_binder, Bound):
            range_of_binder = points_of(f, range_of_binder) if counts else axis_of(f, range_of_binder)
            sizes.append(range_of_binder.size)
        elif f.knows(b.size):
            sizes.append(f.size(b.size))
        binders.append(range_of_binder)
    grows = len(sizes) < len(binders)
    total = poly(1)
    for s in sizes:
        total = total * s
    if grows and not counts:
        raise unsupported("a range that differs from element to element of a comprehension", c.span)
    rows = Rows(counts, grows, (total,) if counts else tuple(sizes))
    condition = c.condition
    innermost = Point(None if condition is None else lambda: f.bool(condition), lambda _: element_value(f, c.element))
    out = nest(f, innermost, rows, binders, places_of(f, c), [], lambda _: first(f, rows))
    assert rows.value is not None
    if not counts:
        return gathered(rows.value, [v for v in out if isinstance(v, Var)], tuple(sizes))
    k, arrays = out[0], out[2 if grows else 1 :]
    assert isinstance(k, Var)
    e.facts.size(k)
    if c.opened is not None:
        f.bindings[c.opened] = poly(k)
    return gathered(rows.value, [beginning(f, a, k) for a in arrays], (poly(k),))


def each_in_order(f: Frame, shape: tuple[Size, ...], element: Callable[[Index], Value], places: Points | None) -> Value:
    """The values at every index of a shape."""
    rows = Rows(False, False, shape)
    binders = [Bound(s, "i", lambda _, at: None) for s in shape]
    out = nest(f, Point(None, element), rows, binders, places, [], lambda _: first(f, rows))
    assert rows.value is not None
    return gathered(rows.value, [v for v in out if isinstance(v, Var)], shape)


def first(f: Frame, rows: Rows) -> list[Atom]:
    """No elements, in arrays with room for all of them, or for none."""
    shape = (poly(0),) if rows.grows else rows.shape
    empty = [zeros(f, a.shape, a.dtype) for a in [array(shape, t) for t in rows.leaves]]
    return [*[Lit(0, "i64")] * (rows.counts + rows.grows), *empty]


def beginning(f: Frame, a: Atom, k: Var) -> Var:
    """The first k rows."""
    assert isinstance(a, Var) and isinstance(a.type, Array)
    axes = tuple([fresh("i", I64) for _ in a.type.shape])
    return f.emitter.view(a, axes, (poly(k), *a.type.shape[1:]), tuple([poly(i) for i in axes]))


def nest(
    f: Frame,
    innermost: Point,
    rows: Rows,
    binders: Sequence[Bound | Chosen],
    places: Points | None,
    index: list[Size],
    start: Start,
) -> list[Atom]:
    """The state after all points below a place."""
    e, world = f.emitter, f.world
    depth = len(index)
    if depth == len(binders):
        restart(places)
        with at(f, places, [e.atom(i) for i in index]):
            return point(f, innermost, rows, index, start)
    binder = binders[depth]
    b = binder if isinstance(binder, Bound) else binder.at(f, index)
    before, token = world.token, fresh("world", Token())
    assert before is not None
    i = e.axis(b.size, b.name).var
    params: list[Var] = []

    def entered(_: Sequence[Type]) -> list[Atom]:
        params.extend(rows.formals())
        return list(params)

    world.token = token
    with f.block() as body:
        b.bind(f, [*index, poly(i)])
        after = nest(f, innermost, rows, binders, places, [*index, poly(i)], entered)
        results = (*after, world.token)
    world.token = before
    if depth == 0:
        body = without_sizes(f, body, {i, *params}, rows.leaves)
    init = start(rows.leaves)
    out = [*rows.formals(), fresh("world", Token())]
    loop = anf.For(i, poly(0), b.size, (*params, token), (*init, before), Block(tuple(body), results))
    e.bind(loop, tuple(out))
    world.token = out.pop()
    return list(out)


def point(f: Frame, innermost: Point, rows: Rows, index: Index, start: Start) -> list[Atom]:
    """The state after a point: with its element, if the condition holds."""
    e, world = f.emitter, f.world
    before = world.token
    assert before is not None
    if innermost.condition is None:
        return element(f, innermost, rows, index, start)[1]
    holds = innermost.condition()
    asked = world.token
    with f.block() as then:
        state, state_after = element(f, innermost, rows, index, start)
        assert world.token is not None and asked is not None
        yes = Block(tuple(then), (*state_after, world.token))
    out = [*rows.formals(), fresh("world", Token())]
    e.bind(anf.If(holds, yes, Block((), (*state, asked))), tuple(out))
    world.token = out.pop()
    return list(out)


def element(f: Frame, innermost: Point, rows: Rows, index: Index, start: Start) -> tuple[list[Atom], list[Atom]]:
    """The state before an element and after it."""
    e = f.emitter
    rows.value = innermost.element(index)
    parts = list(leaves(rows.value))
    rows.leaves = [p.type for p in parts]
    state = start(rows.leaves)
    count: list[Atom] = []
    room: list[Atom] = []
    arrays = state
    if rows.counts:
        count, arrays = [e.prim("add", state[0], Lit(1, "i64"))], state[1:]
    if rows.grows:
        room, arrays = roomy(f, rows, state[0], arrays[0], arrays[1:])
    place = (e.poly(state[0]),) if rows.counts else tuple(index)
    stored_arrays = [stored(f, a, place, p) for a, p in zip(map(variable, arrays), parts, strict=True)]
    return state, [*count, *room, *stored_arrays]


def roomy(f: Frame, rows: Rows, count: Atom, room: Atom, arrays: Sequence[Atom]) -> tuple[list[Atom], list[Atom]]:
    """The room, and the arrays, with a place for one more element."""
    e = f.emitter
    full = e.prim("ge", count, room)
    with e.block() as more:
        added = e.prim("add", room, Lit(8, "i64"))
        wider = e.prim("add", room, added)
        grown: list[Atom] = [wider]
        for a, t in zip(map(variable, arrays), rows.leaves, strict=True):
            added_rows = array((poly(added),), t)
            whole = anf.Concat((a, zeros(f, added_rows.shape, added_rows.dtype)))
            grown += e.emit(whole, array((poly(wider),), t), name="rows")
    out = rows.formals()[1:]
    e.bind(anf.If(full, Block(tuple(more), tuple(grown)), Block((), (room, *arrays))), tuple(out))
    return [out[0]], list(out[1:])


def variable(a: Atom) -> Var:
    assert isinstance(a, Var)
    return a


# ---- maps of floats --------------------------------------------------------------------------------------------------
# `map_floats` of a function with effects: at one float after another, or with a level of draws for each.
#
# The order is that of the fields, and of the elements of an array. Without effects it is an operator (`operators.py`).


def map_floats(f: Frame, function: Value, values: Sequence[Value]) -> Value:
    """A function of scalars at the corresponding floats of values of one structure."""
    acts = f.world.token is not None and bool(WORLD & effects_of(function))
    if acts or draws_by(f, function):
        return mapped(f, function, values, acts)
    with inside(f, None, ()):
        return pointwise(f, Pointwise("map", (function,), at_floats), *values)


def at_floats(f: Frame, held: tuple[Value, ...], xs: tuple[Atom, ...]) -> Atom:
    """A scalar function at floats: generic code has one for f64, and the floats of a `Vector` may be narrower."""
    e = f.emitter
    (function,) = held
    dtypes = [x.type.dtype for x in xs if isinstance(x.type, anf.Scalar)]
    wanted = dtypes
    if isinstance(function, ClosureV):
        inner = f.inner(function.bindings, {})
        wanted = [inner.dtype(p.type) for p in function.params]
    args: list[Value] = [ScalarV(e.cast(d, x)) for d, x in zip(wanted, xs, strict=True)]
    return e.cast(dtypes[0], scalar(apply(f, function, args)))


def mapped(f: Frame, function: Value, values: Sequence[Value], acts: bool) -> Value:
    """A function of floats at every float of values of one structure; all else is that of the first."""
    first = values[0]
    match first:
        case ScalarV():
            atoms = tuple(map(scalar, values))
            return ScalarV(at_floats(f, (function,), atoms)) if is_float(first.atom) else first
        case ArrayV():
            if not is_float(first.var):
                return first
            return at_elements(f, first.shape, function, values, acts)
        case Many(shape, _):
            return at_elements(f, shape, function, values, acts)
        case TupleV() | DataV():
            columns = zip(*[parts(v) for v in values], strict=True)
            return with_parts(first, [mapped(f, function, column, acts) for column in columns])
        case EnumV():
            return mapped_enum(f, function, [v for v in values if isinstance(v, EnumV)], acts)
        case NodeV():
            return mapped_node(f, function, [v for v in values if isinstance(v, NodeV)], acts)
        case _:  # a function
            return first


def at_elements(f: Frame, shape: tuple[Size, ...], function: Value, values: Sequence[Value], acts: bool) -> Value:
    """At the corresponding elements of arrays of one shape."""
    e = f.emitter
    places = points(f, draws_by(f, function))

    def element(index: Index) -> Value:
        return mapped(f, function, [select(f, v, [Element(i) for i in index]) for v in values], acts)

    if acts:
        return each_in_order(f, shape, element, places)
    axes = tuple([e.axis(s) for s in shape])
    with f.block() as lets, inside(f, places, [a.var for a in axes]):
        value = element([poly(a.var) for a in axes])
    return collect(f, axes, lets, value)


def mapped_enum(f: Frame, function: Value, values: Sequence[EnumV], acts: bool) -> Value:
    """All values are of one variant; the fields of the others are left."""
    first = values[0]
    tag = one_variant(f, [scalar(v.tag) for v in values])
    variants: list[tuple[Value, ...]] = []
    for k, fields in enumerate(first.variants):
        if not any(is_float(a) for x in fields for a in leaves(x)):
            variants.append(fields)
            continue
        is_variant = f.emitter.prim("eq", tag, Lit(k, "i64"))
        columns = list(zip(*[v.variants[k] for v in values], strict=True))

        def those(columns: Sequence[tuple[Value, ...]] = columns) -> list[Value]:
            return [mapped(f, function, column, acts) for column in columns]

        variants.append(tuple(one_of(f, is_variant, those, list(fields), acts)))
    return EnumV(first.decl, ScalarV(tag), tuple(variants))


def one_of(
    f: Frame, condition: Atom, then: Callable[[], list[Value]], otherwise: list[Value], acts: bool
) -> list[Value]:
    """A branch of which one arm may touch the world."""
    world = f.world
    before = world.token
    with f.block() as lets:
        arm = Arm(lets, then(), world.token if acts else None)
    world.token = before
    return joined(f, condition, [arm, Arm([], otherwise, before if acts else None)], [None] * len(otherwise))


def mapped_node(f: Frame, function: Value, values: Sequence[NodeV], acts: bool) -> Value:
    """Data that contains itself: a function of the IR, which calls itself, with a key of its own for each part."""
    n = len(values)
    draws = draws_by(f, function)

    def body(g: Frame, args: Sequence[Value]) -> Value:
        nodes = [v for v in args[:n] if isinstance(v, NodeV)]
        g.world.level = Level(scalar(args[n + 1])) if draws else None
        first = nodes[0]
        tag = one_variant(g, [tag_of(g, v) for v in nodes])

        def arm(k: int) -> list[Value]:
            columns = zip(*[opened(g, v, k) for v in nodes], strict=True)
            return [construct(g, first.type, k, tuple([mapped(g, args[n], column, acts) for column in columns]))]

        return by_variant(g, tag, len(first.type.decl.variants), arm)[0]

    held = (function, ScalarV(passed_key(f))) if draws else (function,)
    return generated(f, "map_floats", ("drawn", draws), (*values, *held), lambda args: args[0], body, acts)
