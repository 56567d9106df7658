"""Comprehensions with a condition: the points where it holds are found first, then the elements at those points.

The points are numbered, last binder fastest. Where it depends on the binders before how long a range is, `for i < n,
j < i if c`, the ranges lie one after another: their lengths are added up, and each point knows which range it is in. So
there are as many points as the ranges have, and no box around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Lit, Reduce, ScatterAdd, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.binders import (
    Bound,
    Chosen,
    Index,
    bind_all,
    bound,
    chosen,
    inside,
    is_part,
    open_variables,
    places_of,
    points_of,
    ragged,
    with_chosen,
)
from dlang.specialize.chosen import bounds
from dlang.specialize.elements import elements
from dlang.specialize.frame import Frame
from dlang.specialize.indexing import Element, select
from dlang.specialize.patterns import bind_pattern
from dlang.specialize.values import Many, Value, leaves, rebuild
from dlang.specialize.zeros import zeros
from dlang.typecheck import core

ONE, ZERO = Lit(1, "i64"), Lit(0, "i64")


@dataclass(frozen=True, slots=True)
class Grid:
    """The points of some binders. enter: binds their names at a point, and says what their indices are.

    box: the binders, where each has one range.
    """

    count: Size
    enter: Callable[[Frame, Var], Index]
    box: Sequence[Bound] = ()


def filtered(f: Frame, c: core.Comprehension) -> Value:
    """The elements at the points where the condition holds."""
    e = f.emitter
    assert c.condition is not None
    open_variables(f, c)
    grid = grid_of(f, c)
    places = places_of(f, c)
    sizes = tuple([b.size for b in grid.box]) or (grid.count,)
    axes = tuple([e.axis(s, "p") for s in sizes])
    own = tuple([poly(a.var) for a in axes])
    with f.block() as lets:
        if grid.box:
            index: Index = own
            bind_all(f, grid.box, index)
        else:
            index = grid.enter(f, axes[0].var)
        with inside(f, places, [e.atom(i) for i in index]):
            holds = f.bool(c.condition)
    (found,) = e.comp(axes, lets, (holds,), (Reduce(sizes, own, "set"),), ("bool",), "mask")
    mask = e.reshape(found, (grid.count,))
    k = fresh("k", I64)
    e.facts.size(k)
    where = fresh("at", Array("i64", (poly(k),)))
    e.bind(anf.Compact(mask), (k, where))
    if c.opened is not None:
        f.bindings[c.opened] = poly(k)
    kept = e.axis(poly(k), "j")

    def enter() -> Index:
        position = e.read(where, (poly(kept.var),))
        assert isinstance(position, Var)
        e.facts.between(position, (poly(0),), (grid.count,))
        return grid.enter(f, position)

    return elements(f, c.element, (kept,), enter, places)


def grid_of(f: Frame, c: core.Comprehension) -> Grid:
    """The points of all binders."""
    split = ragged(f, c.binders)
    grid = box([points_of(f, b) for b in bounds(f, c.binders[:split])])
    for k, (b, later) in enumerate(with_chosen(c.binders)):
        if split is not None and k >= split:
            grid = ranges(f, grid, chosen(f, b)) if later else product(f, grid, bound(f, b))
    return grid


def box(binders: list[Bound]) -> Grid:
    count = poly(1)
    for b in binders:
        count = count * b.size

    def enter(f: Frame, point: Var) -> Index:
        index = unravelled(f, point, [b.size for b in binders])
        bind_all(f, binders, index)
        return index

    return Grid(count, enter, binders)


def product(f: Frame, grid: Grid, b: Bound) -> Grid:
    """The points of a grid, each with the whole range of a binder."""
    b = points_of(f, b)

    def enter(g: Frame, point: Var) -> Index:
        before, own = unravelled(g, point, [grid.count, b.size])
        index = [*grid.enter(g, variable(g, before)), own]
        b.bind(g, index)
        return index

    return Grid(grid.count * b.size, enter)


def unravelled(f: Frame, point: Var, shape: list[Size]) -> list[Size]:
    """The index of a point in row-major order; in range, because the point is."""
    e = f.emitter
    out: list[Size] = []
    rest: Atom = point
    for s in reversed(shape[1:]):
        out.append(poly(e.prim("mod", rest, e.atom(s))))
        rest = e.prim("floordiv", rest, e.atom(s))
    out.append(poly(rest))
    out.reverse()
    for p, s in zip(out, shape, strict=True):
        e.facts.between(variable(f, p), (poly(0),), (s,))
    return out


def variable(f: Frame, p: Size) -> Var:
    """A size that is a variable; of an axis without places it may be a number."""
    v = f.emitter.atom(p)
    assert isinstance(v, Var)
    return v


# ---- ranges of several lengths ---------------------------------------------------------------------------------------
def ranges(f: Frame, grid: Grid, b: Chosen) -> Grid:
    """The points of a grid, each with the range that a binder has there; one that ends before it begins has none."""
    e = f.emitter
    axis = e.axis(grid.count, "p")
    with f.block() as lets, inside(f, None, ()):
        size = b.at(f, grid.enter(f, axis.var)).size
        length = e.atom(size)
        if not e.facts.proves_nonnegative(size):
            length = e.prim("maximum", length, ZERO)
    here = (poly(axis.var),)
    lengths, total = e.comp(
        (axis,),
        lets,
        (length, length),
        (Reduce((grid.count,), here, "set"), Reduce((), (), "sum")),
        ("i64", "i64"),
        "n",
    )
    e.facts.size(total)
    (ends,) = e.emit(anf.Scan("sum", lengths), lengths.type, name="end")
    starts = at_each(f, grid.count, lambda p: e.prim("sub", e.read(ends, (p,)), e.read(lengths, (p,))))
    # Which range a point is in: how many ranges have begun there. Empty ones begin where the next one does.
    axis = e.axis(grid.count, "p")
    whole = (poly(total) + 1,)
    with f.block() as lets:
        begins = e.read(starts, (poly(axis.var),))
    (begun,) = e.comp((axis,), lets, (ONE,), (ScatterAdd(whole, (poly(begins),)),), ("i64",), "begun")
    (range_of,) = e.emit(anf.Scan("sum", begun), Array("i64", whole), name="range")
    values = None if is_part(b.binder) else copied(f, grid, b, starts, total)

    def enter(g: Frame, point: Var) -> Index:
        em = g.emitter
        (which,) = em.emit(anf.Prim("sub", (em.read(range_of, (poly(point),)), ONE)), I64, name="p")
        em.facts.between(which, (poly(0),), (grid.count,))
        before = list(grid.enter(g, which))
        (own,) = em.emit(anf.Prim("sub", (point, em.read(starts, (poly(which),)))), I64, name="j")
        index = [*before, poly(own)]
        if values is not None:
            assert isinstance(b.binder, core.Each)
            em.facts.size(own)
            bind_pattern(g, b.binder.pattern, select(g, values, [Element(poly(point))]))
            return index
        here = b.at(g, before)
        em.facts.between(own, (poly(0),), (here.size,))
        here.bind(g, index)
        return index

    return Grid(poly(total), enter)


def at_each(f: Frame, count: Size, function: Callable[[Size], Atom]) -> Var:
    """The i64 array of a function of the index."""
    e = f.emitter
    axis = e.axis(count, "p")
    with f.block() as lets:
        value = function(poly(axis.var))
    return e.comp((axis,), lets, (value,), (Reduce((count,), (poly(axis.var),), "set"),), ("i64",), "start")[0]


def copied(f: Frame, grid: Grid, b: Chosen, starts: Var, total: Var) -> Value:
    """The arrays that a binder ranges over, one after another, each computed once."""
    e = f.emitter
    assert isinstance(b.binder, core.Each)
    index = e.axis(grid.count, "p").var
    with f.block() as body, inside(f, None, ()):
        before = grid.enter(f, index)
        xs = b.array(f, before)
        first = e.read(starts, (poly(index),))
        params: list[Var] = []
        results: list[Atom] = []
        for x in leaves(xs):
            assert isinstance(x, Var) and isinstance(x.type, Array)
            shape = (poly(total), *x.type.shape[1:])
            rows = fresh("rows", Array(x.type.dtype, shape))
            axes = tuple([e.axis(s, "j") for s in x.type.shape])
            own = tuple([poly(a.var) for a in axes])
            with f.block() as lets:
                value = e.read(x, own)
            place = Reduce(shape, (poly(first) + own[0], *own[1:]), "set", rows)
            params.append(rows)
            results += e.comp(axes, lets, (value,), (place,), (x.type.dtype,), "rows")
    start = [zeros(f, p.type.shape, p.type.dtype) for p in params if isinstance(p.type, Array)]
    loop = anf.For(index, poly(0), grid.count, tuple(params), tuple(start), anf.Block(tuple(body), tuple(results)))
    made = e.emit(loop, *[p.type for p in params], name="rows")
    if isinstance(xs, Many):
        return Many((poly(total), *xs.shape[1:]), rebuild(xs.element, iter(made)))
    return rebuild(xs, iter(made))
