"""`map_floats` of a function with effects: at one float after another, or with a level of draws for each.

The order is that of the fields, and of the elements of an array. Without effects it is an operator (`operators.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Size, poly
from dlang.specialize.binders import Index, inside
from dlang.specialize.effects import WORLD, effects_of
from dlang.specialize.elements import collect
from dlang.specialize.frame import Frame, Level, scalar
from dlang.specialize.functions import apply
from dlang.specialize.generated import generated
from dlang.specialize.in_order import each_in_order
from dlang.specialize.indexing import Element, select
from dlang.specialize.joins import Arm, joined
from dlang.specialize.nodes import construct, opened, tag_of
from dlang.specialize.operators import Pointwise, by_variant, is_float, one_variant, pointwise
from dlang.specialize.randomness import draws_by, passed_key, points
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
        here = f.emitter.prim("eq", tag, Lit(k, "i64"))
        columns = list(zip(*[v.variants[k] for v in values], strict=True))

        def those(columns: Sequence[tuple[Value, ...]] = columns) -> list[Value]:
            return [mapped(f, function, column, acts) for column in columns]

        variants.append(tuple(one_of(f, here, those, list(fields), acts)))
    return EnumV(first.decl, ScalarV(tag), tuple(variants))


def one_of(
    f: Frame, condition: Atom, then: Callable[[], list[Value]], otherwise: list[Value], acts: bool
) -> list[Value]:
    """A branch of which one arm may touch the world."""
    world = f.world
    before = world.token
    with f.block() as lets:
        made = Arm(lets, then(), world.token if acts else None)
    world.token = before
    return joined(f, condition, [made, Arm([], otherwise, before if acts else None)], [None] * len(otherwise))


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
