"""The elements of a comprehension, leaf by leaf: what is computed at every point becomes an array for each leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.anf import Atom, Let, Reduce, Scalar, Size, fresh, poly
from dlang.ir.marks import is_mark
from dlang.specialize.binders import Index, inside
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.layouts import array_sizes
from dlang.specialize.randomness import Points
from dlang.specialize.types import sizes_of_binding
from dlang.specialize.values import (
    ArrayV,
    ClosureV,
    Many,
    ScalarV,
    Value,
    contains_function,
    leaf_var,
    leaves,
    parts as parts_of,
    rebuild,
    with_parts,
)
from dlang.specialize.zeros import zeros
from dlang.typecheck import core


def elements(
    f: Frame,
    element: core.Expr,
    axes: tuple[anf.Axis, ...],
    enter: Callable[[], Index],
    places: Points | None,
) -> Value:
    """The array of the elements at every point of the axes.

    enter: binds the names of the binders at a point, and says what their indices are.
    """
    with f.block() as lets:
        index = enter()
        with inside(f, places, [f.emitter.atom(i) for i in index]):
            value = f.eval(element)
    return collect(f, axes, lets, value)


def collect(f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], value: Value) -> Value:
    """The arrays of the leaves of `value`, computed by `lets` at every point of the axes."""
    e = f.emitter
    shape = tuple([a.highs[0] for a in axes])
    index = tuple([poly(a.var) for a in axes])
    if contains_function(value):
        value = outside(value, {a.var for a in axes} | defined(lets))
    parts = list(leaves(value))
    if all(isinstance(p.type, Scalar) for p in parts):
        destinations = tuple([Reduce(shape, index, "set") for _ in parts])
        dtypes = tuple([p.type.dtype for p in parts if isinstance(p.type, Scalar)])
        outs = e.comp(axes, lets, tuple(parts), destinations, dtypes)
        return gathered(value, outs, shape)
    same_sizes(f, axes, lets, value)
    if len(parts) == 1 and is_comprehension(lets, parts[0]):
        out = gathered(value, [nested(f, axes, lets, parts[0])], shape)
    else:
        out = sequential(f, axes, lets, value)
    for size in dict.fromkeys(array_sizes(value)):  # without a point nothing has refused a negative one
        e.checked_size(size, "a size of an element")
    return out


def is_comprehension(lets: list[Let], part: Atom) -> bool:
    """Tells whether code is a comprehension that makes an array element by element, with scalars that it reads.

    Nothing is lost then if the elements of a row are made where they are read: no check, and nothing made for all.
    """
    if not lets or lets[-1].vars != (part,) or not isinstance(lets[-1].op, anf.Comp):
        return False
    *scalars, made = lets
    assert isinstance(made.op, anf.Comp)
    (to,) = made.op.destinations
    one_by_one = isinstance(to, Reduce) and to.monoid == "set" and to.into is None
    if not one_by_one or to.index != tuple([poly(a.var) for a in made.op.axes]):
        return False
    return all(is_mark(let.op) or let.op.IS.point for let in scalars)


def nested(f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], part: Atom) -> anf.Var:
    """One comprehension over the points and the elements of what is a comprehension itself at each point."""
    e = f.emitter
    assert isinstance(part, anf.Var) and isinstance(part.type, anf.Array)
    full = (*axes, *[e.axis(s, "j") for s in part.type.shape])
    index = tuple([poly(a.var) for a in full])
    with f.block() as body:
        e.lets.extend(lets)
        x = e.read(part, index[len(axes) :])
    keep = Reduce(tuple([a.highs[0] for a in full]), index, "set")
    return e.comp(full, body, (x,), (keep,), (part.type.dtype,))[0]


def outside(value: Value, inner: set[anf.Var]) -> Value:
    """A value whose functions know no size of a point: what they have captured of it are leaves, sizes among them."""
    if isinstance(value, ClosureV):
        bindings = value.bindings.items()
        known = {v: b for v, b in bindings if not any(s.mentions(inner) for s in sizes_of_binding(b))}
        value = replace(value, bindings=known)
    own = parts_of(value)
    return with_parts(value, [outside(p, inner) for p in own]) if own else value


def same_sizes(f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], value: Value) -> None:
    """The sizes of an element are known outside of the comprehension."""
    inner = {a.var for a in axes} | defined(lets)
    for p in leaves(value):
        if isinstance(p.type, anf.Array) and any(s.mentions(inner) for s in p.type.shape):
            raise unsupported("a comprehension whose elements differ in size", f.emitter.span)


def defined(lets: list[Let]) -> set[anf.Var]:
    return {v for let in lets for v in let.vars}


def gathered(value: Value, outs: list[anf.Var] | tuple[anf.Var, ...], shape: tuple[Size, ...]) -> Value:
    """The array of values like `value`, from the arrays of its leaves."""
    if isinstance(value, ScalarV | ArrayV):
        return ArrayV(outs[0])
    if isinstance(value, Many):
        # An array of arrays of structures is one array: its axes are in one list.
        return Many(shape + value.shape, rebuild(value.element, iter(outs)))
    return Many(shape, rebuild(value, iter(outs)))


def sequential(f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], value: Value) -> Value:
    """Each point runs once, and what it gives is stored in turn: for arrays that are made by loops or calls."""
    e = f.emitter
    shape = tuple([a.highs[0] for a in axes])
    parts = list(leaves(value))
    state: list[anf.Var] = []
    for p in parts:
        assert isinstance(p.type, Scalar | anf.Array)
        own = p.type.shape if isinstance(p.type, anf.Array) else ()
        state.append(zeros(f, shape + own, p.type.dtype))

    def nest(depth: int, current: Sequence[Atom]) -> list[Atom]:
        if depth == len(axes):
            e.lets.extend(lets)
            index = tuple([poly(a.var) for a in axes])
            return [stored(f, leaf_var(c), index, p) for c, p in zip(current, parts, strict=True)]
        params = [fresh("rows", c.type) for c in current]
        with f.block() as body:
            results = nest(depth + 1, params)
        loop = anf.For(
            axes[depth].var,
            poly(0),
            axes[depth].highs[0],
            tuple(params),
            tuple(current),
            anf.Block(tuple(body), tuple(results)),
        )
        return list(e.emit(loop, *[c.type for c in current], name="rows"))

    return gathered(value, list(map(leaf_var, nest(0, state))), shape)


def stored(f: Frame, array: anf.Var, index: tuple[Size, ...], part: Atom) -> anf.Var:
    e = f.emitter
    assert isinstance(array.type, anf.Array)
    if isinstance(part.type, Scalar):
        return e.emit(anf.Update(array, index, part), array.type, name=array.name)[0]
    assert isinstance(part, anf.Var) and isinstance(part.type, anf.Array)
    inner = tuple([e.axis(s, "j") for s in part.type.shape])
    where = tuple([poly(a.var) for a in inner])
    with f.block() as lets:
        x = e.read(part, where)
    keep = Reduce(array.type.shape, index + where, "set", array)
    return e.comp(inner, lets, (x,), (keep,), (array.type.dtype,), array.name)[0]
