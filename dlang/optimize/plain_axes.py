"""The axes of a comprehension in one form: without bounds that say nothing, and without axes that nothing depends on.

A reduction along an axis that its terms do not depend on is a multiple of a term; a result that is the same along one
of its axes is computed once, and spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from math import prod

from dlang.inequalities import SUM
from dlang.ir import anf
from dlang.ir.affine import Knowledge, dependencies, extent
from dlang.ir.builder import Builder, axis as fresh_axis
from dlang.ir.sharing import runs_anywhere
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import mentioned, parts, pruned, type_vars, walk
from dlang.ir.types import I64, dtype_of, is_float, type_of
from dlang.ops.monoids import MONOIDS, STAYS, identity
from dlang.polynomials import Poly


def with_plain_bounds(op: anf.Comp) -> anf.Comp:
    """The comprehension without bounds that others imply, by a constant or as they say that other axes have points:
    max(0, 1)..min(n, n - 1), or 0..min(n, n * m) beside 0..m."""
    if all(len(a.lows) == len(a.highs) == 1 for a in op.axes):
        return op
    axes = [replace(a, lows=_tightest(a.lows, -1), highs=_tightest(a.highs, 1)) for a in op.axes]
    for k, axis in enumerate(axes):
        others = [b for b in axes if b is not axis and len(b.lows) == len(b.highs) == 1]
        lengths = [b.highs[0] - b.lows[0] for b in others]
        products = [(high, high * n) for high in axis.highs for n in (*lengths, prod(lengths, start=anf.poly(1)))]
        repeated = {longer for high, longer in products if longer != high}
        highs = tuple([high for high in axis.highs if high not in repeated])
        if highs and len(highs) < len(axis.highs):
            axes[k] = replace(axis, highs=highs)
    return replace(op, axes=tuple(axes)) if any(a != b for a, b in zip(axes, op.axes, strict=True)) else op


def _tightest(bounds: tuple[anf.Size, ...], sign: int) -> tuple[anf.Size, ...]:
    """The bounds without those that are looser than another one by a constant: greater, or less with a sign of -1."""
    if len(bounds) == 1:
        return bounds

    def implied(k: int) -> bool:
        steps = [(j, (bounds[k] - other).constant) for j, other in enumerate(bounds) if j != k]
        return any(step is not None and (sign * step > 0 or (step == 0 and j < k)) for j, step in steps)

    return tuple([bound for k, bound in enumerate(bounds) if not implied(k)])


def straightened(op: anf.Comp) -> anf.Comp:
    """The comprehension with axes that begin where others say, and end where sizes do, if its body asks for no more.

        [sum(e(i + k + 1) for k < n - i - 1) for i < n]    becomes    [sum(e(t + 1) for t in i..n - 1) for i < n]

    So it is seen that the body depends on t alone.
    """
    for k in range(1, len(op.axes)):
        axis = op.axes[k]
        offset = _offset(axis, {a.var for a in op.axes[:k]})
        if offset is not None and _only_shifted(op, axis.var, offset):
            moved = anf.Axis(anf.fresh(axis.var.name, I64), _plus(axis.lows, offset), _plus(axis.highs, offset))
            new = Renaming({axis.var: anf.poly(moved.var) - offset}).op(op)
            assert isinstance(new, anf.Comp)
            op = anf.Comp((*new.axes[:k], moved, *new.axes[k + 1 :]), new.body, new.destinations)
    return op


def _plus(bounds: Iterable[anf.Size], offset: anf.Size) -> tuple[anf.Size, ...]:
    return tuple([b + offset for b in bounds])


def _offset(axis: anf.Axis, outer: Set[anf.Var]) -> anf.Size | None:
    """Returns the offset with which the end of an axis mentions no outer axis."""
    for high in axis.highs:
        if high.mentions(outer):
            offset = Poly({m: -c for m, c in high.terms.items() if not outer.isdisjoint(m)})
            return offset if not any((b + offset).mentions(outer) for b in axis.highs) else None
    return None


def _only_shifted(op: anf.Comp, axis: anf.Var, offset: anf.Size) -> bool:
    """Tells whether the body uses an axis only with an offset added to it."""
    sizes = [*parts(op).sizes]
    atoms: list[anf.Atom] = [*op.body.results]
    for let in walk(op.body):
        p = parts(let.op)
        sizes += p.sizes
        atoms += [*p.atoms, *[a for b in p.blocks for a in b.results]]
        if any(v is axis for var in let.vars for v in type_vars(var.type)):
            return False
    outer = set(offset.atoms())
    unshifted = {axis: anf.poly(axis) - offset}
    mentioned = [e.substitute(unshifted.get) for e in sizes if e.mentions((axis,))]
    return bool(mentioned) and axis not in atoms and not any(e.mentions(outer) for e in mentioned)


def without_idle_axes(let: anf.Let, op: anf.Comp, known: Knowledge) -> tuple[anf.Let, anf.Let] | None:
    """A reduction that is the same along some axes of its result, done once for all of these, and then spread.

        [sum(e(i, l) for l) for i, j]    becomes    s[i] = sum(e(i, l) for l) and [s[i] for i, j]

    None if there are no such axes, or the body may not run where such an axis has no points.
    """
    if len(op.destinations) != 1 or not isinstance(d := op.destinations[0], anf.Reduce) or d.into is not None:
        return None
    depends = dependencies(op.body.lets, op.axes)
    needed = {v for x in op.body.results if isinstance(x, anf.Var) for v in depends.get(x, {x})}
    idle: dict[int, anf.Axis] = {}
    for k, (entry, size) in enumerate(zip(d.index, d.shape, strict=True)):
        for a in op.axes:
            if entry.atom is not a.var or a.lows != (anf.ZERO,) or a.highs != (size,) or a.var in needed:
                continue
            elsewhere = [
                *d.index[:k],
                *d.index[k + 1 :],
                *[b for o in op.axes if o is not a for b in (*o.lows, *o.highs)],
            ]
            if not any(a.var in depends.get(v, {v}) for e in elsewhere for v in e.atoms()):
                idle[k] = a
    if not idle or len(op.axes) == len(d.index):  # what is no reduction is a value of fewer axes
        return None
    axes = tuple([a for a in op.axes if a not in idle.values()])
    if any(inner.op.IS.fails for inner in walk(op.body)):
        return None
    body = anf.Block(tuple(pruned(op.body.lets, op.body.results, d.index)), op.body.results)
    index, shape = ([x for k, x in enumerate(xs) if k not in idle] for xs in (d.index, d.shape))
    (v,) = let.vars
    once = anf.fresh(v.name, type_of(dtype_of(v), tuple(shape)))
    first = anf.Let((once,), anf.Comp(axes, body, (replace(d, index=tuple(index), shape=tuple(shape)),)), let.span)
    if not runs_anywhere([first], known, set()):
        return None
    b = Builder(span=let.span)
    with b.scope() as spread:
        over = [fresh_axis(n) for n in d.shape]
        places = tuple([anf.poly(a.var) for k, a in enumerate(over) if k not in idle])
        keep = anf.Reduce(d.shape, tuple([anf.poly(a.var) for a in over]), "set")
        b.comp(over, lambda *_: b.one(anf.Read(once, places)) if places else once, [keep])
    (last,) = spread
    return first, anf.Let((v,), last.op, let.span)


def without_repeats(let: anf.Let, op: anf.Comp, known: Knowledge) -> tuple[anf.Let, anf.Comp] | None:
    """Reductions along axes on which nothing depends, by how many points these have.

        sum(e(i) for i, j < n)    becomes    sum(n * e(i) for i)

    None if there are no such axes, or the body may not run where such an axis has no points.
    """
    for value, d in zip(op.body.results, op.destinations, strict=True):
        if not isinstance(d, anf.Reduce) or d.monoid == "set" or d.monoid in STAYS:
            return None
        if not MONOIDS[d.monoid].idempotent and dtype_of(value) not in ("f64", "f32", "i64"):
            return None  # integers that wrap elsewhere than their number of points, and halves, which are rounded once
    needed = set(op.body.results).union(*[mentioned(inner.op) for inner in walk(op.body)])
    needed.update(v for d in op.destinations for e in d.index for v in e.atoms())
    needed.update(v for a in op.axes for e in (*a.lows, *a.highs) for v in e.atoms())
    idle = [a for a in op.axes if a.var not in needed and len(a.lows) == len(a.highs) == 1]
    axes = tuple([a for a in op.axes if a not in idle])
    inside = known.within(axes)
    if not idle or any(inner.op.IS.fails for inner in walk(op.body)):
        return None
    if not runs_anywhere([anf.Let(let.vars, replace(op, axes=axes), let.span)], known, set()):
        return None
    b = Builder(span=let.span)
    with b.scope() as repeated:
        lengths = [extent(b, (a.lows[0], a.highs[0] - 1), inside) for a in idle]
        points = prod(lengths, start=anf.poly(1))
        if points.constant is not None and points.constant >= SUM:
            return None
        count = b.size(points)
        monoids = [d.monoid for d in op.destinations if isinstance(d, anf.Reduce)]
        results = tuple([_repeated(b, m, value, count) for m, value in zip(monoids, op.body.results, strict=True)])
    destinations = tuple([_set(d, axes) for d in op.destinations])
    new = anf.Comp(axes, anf.Block((*op.body.lets, *repeated), results), destinations)
    return anf.Let(let.vars, new, let.span), new


def _set(d: anf.Destination, axes: Sequence[anf.Axis]) -> anf.Destination:
    """A destination of sums as one of single values, where each element is the sum of one."""
    if not isinstance(d, anf.Reduce) or d.monoid != "sum" or d.into is not None or d.after is not None:
        return d
    alone = d.shape and all(any(e.mentions((a.var,)) for e in d.index) for a in axes)
    return replace(d, monoid="set") if alone else d


def _repeated(b: Builder, monoid: str, value: anf.Atom, count: anf.Atom) -> anf.Atom:
    """A value that comes several times, combined with itself; if it comes never, the identity of the monoid."""
    dtype = dtype_of(value)
    if MONOIDS[monoid].idempotent:
        return b.select(b.prim("gt", count, anf.Lit(0, "i64")), value, anf.Lit(identity(monoid, dtype), dtype))
    if monoid == "prod":
        return b.prim("powi", value, count)
    return b.prim("zero_safe_mul" if is_float(value.type) else "mul", b.cast(dtype, count), value)
