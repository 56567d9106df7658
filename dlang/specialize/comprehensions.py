"""Comprehensions without effects: their elements become arrays, or go into reductions. `in_order.py` has the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Let, Lit, Reduce, Scalar, ScatterAdd, Size, Var, fresh, poly
from dlang.ir.marks import is_mark
from dlang.ir.traverse import bound_vars, map_inner, mentioned as mentioned_vars, walk, with_lets
from dlang.ir.types import I64
from dlang.ops.monoids import CHOOSING, MONOIDS, identity, result_dtype
from dlang.specialize.analysis import mentioned
from dlang.specialize.arith import reduce_axes, zeros
from dlang.specialize.binders import (
    Bound,
    Chosen,
    Index,
    acts,
    axes_of,
    axis_of,
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
from dlang.specialize.emitter import TRUE
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.indexing import Element, select
from dlang.specialize.layouts import array_sizes
from dlang.specialize.patterns import bind_pattern
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
from dlang.typecheck import core, types as ty
from dlang.typecheck.terms import variables
from dlang.typecheck.trees import binder_children, pattern_locals


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
            value = element_value(f, element)
    return collect(f, axes, lets, value)


def element_value(f: Frame, element: core.Expr) -> Value:
    """An element. A size that a call has computed is that which the type of the element says, where it says one."""
    value = f.eval(element)
    called = {v for let in f.emitter.lets if isinstance(let.op, anf.Call) for v in let.vars}
    if f.erased or not any(s.mentions(called) for s in array_sizes(value)):
        return value
    known = all(v in f.bindings for v in variables(element.type) if isinstance(v, ty.SizeVar))
    return f.fit(value, f.mono(element.type)) if known else value


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
    lets = without_sizes(f, lets, {a.var for a in axes}, [p.type for p in parts])
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
    *scalars, last = lets
    assert isinstance(last.op, anf.Comp)
    (to,) = last.op.destinations
    one_by_one = isinstance(to, Reduce) and to.monoid == "set" and to.into is None
    if not one_by_one or to.index != tuple([poly(a.var) for a in last.op.axes]):
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
    parts = parts_of(value)
    return with_parts(value, [outside(p, inner) for p in parts]) if parts else value


def without_sizes(f: Frame, lets: list[Let], binders: set[anf.Var], types: Sequence[anf.Type]) -> list[Let]:
    """The code of an element without what its sizes are computed by, which is emitted here: they are those of all."""
    block = anf.Block(tuple(lets), ())
    makers = {v: let for let in walk(block) for v in let.vars}
    sizes = [v for t in types if isinstance(t, Array) for s in t.shape for v in s.atoms()]
    inner = {*bound_vars(block), *binders}
    wanted, moved = [v for v in sizes if v in inner], set[anf.Var]()
    if not wanted:
        return lets
    while wanted:
        let = makers.get(wanted.pop())
        if let is None or not isinstance(let.op, anf.Prim | anf.IndexExpr | anf.Assert):
            raise unsupported("a comprehension whose elements differ in size", f.emitter.span)
        if not moved.issuperset(let.vars):
            moved.update(let.vars)
            wanted += [v for v in mentioned_vars(let.op) if v in inner]
    f.emitter.emit_before([let for let in walk(block) if moved.intersection(let.vars)])
    return list(_without(block, moved).lets)


def _without(block: anf.Block, moved: set[anf.Var]) -> anf.Block:
    """The block without what binds some variables, at any depth."""
    inner = map_inner(block, lambda b: _without(b, moved))
    return with_lets(inner, [let for let in inner.lets if not moved.intersection(let.vars)], inner.results)


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
        element_shape = p.type.shape if isinstance(p.type, anf.Array) else ()
        state.append(zeros(f, shape + element_shape, p.type.dtype))

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


# ---- binders of one length -------------------------------------------------------------------------------------------
# The binders of a comprehension whose ranges have one length each, whatever the binders before chose.


def bounds(f: Frame, binders: Sequence[core.Binder], kept: bool = False) -> list[Bound]:
    """The binders in order. `for row in m, v in row`: what a later one ranges over may be what an earlier one chose.

    kept: whether each is an axis of an array.
    """
    out: list[Bound] = []
    for k, (b, later) in enumerate(with_chosen(binders)):
        bound_of_binder = chosen_bound(f, b, binders[:k], out) if later else bound(f, b)
        out.append(axis_of(f, bound_of_binder) if kept else bound_of_binder)
    return out


def chosen_bound(f: Frame, b: core.Binder, before: Sequence[core.Binder], bounds_before: Sequence[Bound]) -> Bound:
    """A binder whose range depends on the place, but not how long it is.

    An array that has to be computed is computed once at each place of the binders before, not once for each element.
    """
    if not f.knows(b.size):
        raise unsupported("a range that differs from element to element of a comprehension", b.span)
    chosen_range, size = chosen(f, b), f.size(b.size)
    if is_part(b):
        return Bound(size, "i", lambda g, at: chosen_range.at(g, at[:-1]).bind(g, at))
    assert isinstance(b, core.Each)
    pattern = b.pattern
    depth = len(before) if chosen_range.drawn is not None else last_mentioned(b, before) + 1
    places = bounds_before[:depth]
    axes = axes_of(f, places)
    index = [poly(a.var) for a in axes]
    with f.block() as lets, inside(f, None, ()):
        bind_all(f, places, index)
        arrays = chosen_range.array(f, index)
    values = collect(f, axes, lets, arrays)

    def bind(g: Frame, at: Index) -> None:
        bind_pattern(g, pattern, select(g, values, [Element(i) for i in (*at[:depth], at[-1])]))

    return Bound(size, "i", bind)


def last_mentioned(b: core.Binder, before: Sequence[core.Binder]) -> int:
    """The last of the binders before that a range mentions."""
    names_mentioned = {n for source in binder_children(b) for n in mentioned(source)}
    names = [{x.local} if isinstance(x, core.Count) else set(pattern_locals(x.pattern)) for x in before]
    return max(k for k, bound_here in enumerate(names) if names_mentioned & bound_here)


# ---- conditions ------------------------------------------------------------------------------------------------------
# Comprehensions with a condition: the points where it holds are found first, then the elements at those points.
#
# The points are numbered, last binder fastest. Where it depends on the binders before how long a range is, `for i < n,
# j < i if c`, the ranges lie one after another: their lengths are added up, and each point knows which range it is in.
# So there are as many points as the ranges have, and no box around them.

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
    point = tuple([poly(a.var) for a in axes])
    with f.block() as lets:
        if grid.box:
            index: Index = point
            bind_all(f, grid.box, index)
        else:
            index = grid.enter(f, axes[0].var)
        with inside(f, places, [e.atom(i) for i in index]):
            holds = f.bool(c.condition)
    (holding,) = e.comp(axes, lets, (holds,), (Reduce(sizes, point, "set"),), ("bool",), "mask")
    mask = e.reshape(holding, (grid.count,))
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
        before, inner = unravelled(g, point, [grid.count, b.size])
        index = [*grid.enter(g, variable(g, before)), inner]
        b.bind(g, index)
        return index

    return Grid(grid.count * b.size, enter)


def unravelled(f: Frame, point: Var, shape: list[Size]) -> list[Size]:
    """The index of a point in row-major order; in range, because the point is."""
    e = f.emitter
    out: list[Size] = []
    remaining: Atom = point
    for s in reversed(shape[1:]):
        out.append(poly(e.prim("mod", remaining, e.atom(s))))
        remaining = e.prim("floordiv", remaining, e.atom(s))
    out.append(poly(remaining))
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
    at_point = (poly(axis.var),)
    lengths, total = e.comp(
        (axis,),
        lets,
        (length, length),
        (Reduce((grid.count,), at_point, "set"), Reduce((), (), "sum")),
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
        (inner,) = em.emit(anf.Prim("sub", (point, em.read(starts, (poly(which),)))), I64, name="j")
        index = [*before, poly(inner)]
        if values is not None:
            assert isinstance(b.binder, core.Each)
            em.facts.size(inner)
            bind_pattern(g, b.binder.pattern, select(g, values, [Element(poly(point))]))
            return index
        range_at = b.at(g, before)
        em.facts.between(inner, (poly(0),), (range_at.size,))
        range_at.bind(g, index)
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
            element_index = tuple([poly(a.var) for a in axes])
            with f.block() as lets:
                value = e.read(x, element_index)
            place = Reduce(shape, (poly(first) + element_index[0], *element_index[1:]), "set", rows)
            params.append(rows)
            results += e.comp(axes, lets, (value,), (place,), (x.type.dtype,), "rows")
    start = [zeros(f, p.type.shape, p.type.dtype) for p in params if isinstance(p.type, Array)]
    loop = anf.For(index, poly(0), grid.count, tuple(params), tuple(start), anf.Block(tuple(body), tuple(results)))
    rows_copied = e.emit(loop, *[p.type for p in params], name="rows")
    if isinstance(xs, Many):
        return Many((poly(total), *xs.shape[1:]), rebuild(xs.element, iter(rows_copied)))
    return rebuild(xs, iter(rows_copied))


# ---- reductions ------------------------------------------------------------------------------------------------------
# Reductions over all axes of a comprehension, without making its array.

I64_TYPE = ty.TypeCon("i64")


def reduction(f: Frame, monoid: str, c: core.Comprehension, nested: bool = False, check: bool = True) -> Atom | None:
    """A reduction over all axes of a comprehension of scalars, without making its array; None if it can't be.

    nested: it is part of another, so it may be of nothing. check: whether a `max` of nothing ends the run.
    """
    e = f.emitter
    element = f.erasing().mono(c.element.type)
    filters = (MONOIDS[monoid].has_empty or monoid in CHOOSING) and isinstance(element, Scalar)
    if acts(f, c) or (c.condition is not None and not filters) or element == Scalar("str"):
        return None
    if nested and monoid in CHOOSING:
        return largest_or_identity(f, monoid, c)
    split = entered(f, c)
    if split is not None:
        inner = replace(c, binders=c.binders[split:])
        within = core.Builtin(c.element.type, c.span, monoid, (inner,), {"nested": 1})
        if monoid in CHOOSING and check:
            one = core.Literal(I64_TYPE, c.span, 1)
            count = reduction(f, "sum", replace(c, element=one))
            assert count is not None
            nonempty(f, (e.sized(count),), monoid)
        outer = replace(c, binders=c.binders[:split], element=within, condition=None)
        return reduction(f, monoid, outer, check=False)
    open_variables(f, c)
    binders = bounds(f, c.binders)
    axes = axes_of(f, binders)
    places = places_of(f, c)
    holds: Atom | None = None
    with f.block() as lets, inside(f, places, [a.var for a in axes]):
        bind_all(f, binders, [poly(a.var) for a in axes])
        if c.condition is None:
            value = f.eval(c.element)
        else:
            value, holds = conditional(f, c, monoid)
    if not isinstance(value, ScalarV):
        value = collect(f, axes, lets, value)
        assert isinstance(value, ArrayV)
        if not MONOIDS[monoid].has_empty and check:
            nonempty(f, value.shape, monoid)
        (out,) = reduce_axes(e, value, range(len(value.shape)), (monoid,))
        assert isinstance(out, ScalarV)
        return out.atom
    dtype = result_dtype(monoid, value.dtype)
    if not MONOIDS[monoid].has_empty and check and holds is not None:
        keep = (Reduce((), (), monoid), Reduce((), (), "any"))
        result, some = e.comp(axes, lets, (value.atom, holds), keep, (dtype, "bool"), "r")
        return e.check(some, "E0808", (f"`{monoid}` of nothing",), (), (result,))[0]
    if not MONOIDS[monoid].has_empty and check:
        nonempty(f, tuple([b.size for b in binders]), monoid)
    return e.comp(axes, lets, (value.atom,), (Reduce((), (), monoid),), (dtype,), "r")[0]


def entered(f: Frame, c: core.Comprehension) -> int | None:
    """The binder from which on the reduction is one of its own at each place of those before: its range has a length of
    its own there, or has to be computed."""
    for k, (b, later) in enumerate(with_chosen(c.binders)):
        if later and not (f.knows(b.size) and is_part(b)):
            return k
    return None


def largest_or_identity(f: Frame, monoid: str, c: core.Comprehension) -> Atom:
    """`max` or `min`; of nothing it is the identity, without a gradient, which would go to an element."""
    e = f.emitter
    some: Atom = TRUE
    open_variables(f, c)
    for b in bounds(f, c.binders[: entered(f, c)]):
        some = e.prim("and", some, e.prim("gt", e.atom(b.size), Lit(0, "i64")))
    with f.block() as then:
        value = reduction(f, monoid, c, check=False)
        assert value is not None
    assert isinstance(value.type, Scalar)
    dtype = value.type.dtype
    otherwise = Lit(identity(monoid, dtype), dtype)
    return e.emit(anf.If(some, anf.Block(tuple(then), (value,)), anf.Block((), (otherwise,))), value.type)[0]


def conditional(f: Frame, c: core.Comprehension, monoid: str) -> tuple[Value, Atom]:
    """The element where the condition holds, else the identity; and whether it holds."""
    e = f.emitter
    assert c.condition is not None
    holds = f.bool(c.condition)
    with f.block() as then:
        value = f.eval(c.element)
    if not isinstance(value, ScalarV):
        raise unsupported("a reduction with `if` over arrays", e.span)
    otherwise = Lit(identity(monoid, value.dtype), value.dtype)
    op = anf.If(holds, anf.Block(tuple(then), (value.atom,)), anf.Block((), (otherwise,)))
    return ScalarV(e.emit(op, value.atom.type)[0]), holds


def nonempty(f: Frame, shape: tuple[Size, ...], what: str, *guarded: Atom) -> tuple[Atom, ...]:
    """`max` of nothing ends the run. Returns the guarded values, which rely on that.

    A reduction does not: of nothing it is the identity. An element that is found by a position does.
    """
    e = f.emitter
    for s in shape:
        if not e.facts.proves_nonnegative(s - 1):
            ok = e.prim("gt", e.atom(s), Lit(0, "i64"))
            guarded = e.check(ok, "E0808", (f"`{what}` of nothing",), (), guarded)
    return guarded
