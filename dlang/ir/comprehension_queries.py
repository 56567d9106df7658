"""Facts about comprehensions and loops that several passes ask for, and comprehensions with fewer results."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence, Set
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import pruned, walk
from dlang.ir.types import I64, array_type, dtype_of, named_sizes
from dlang.ir.writes import is_replaced, own_elements

_PLAIN = (anf.Prim, anf.Cast, anf.Read, anf.IndexExpr, anf.StopGradient, anf.If, anf.For, anf.While)


def extent(axis: anf.Axis) -> anf.Size | None:
    """The number of points of an axis that starts at 0 and has one upper bound, else None."""
    if len(axis.highs) == 1 and len(axis.lows) == 1 and axis.lows[0] == anf.ZERO:
        return axis.highs[0]
    return None


def as_comprehension(op: anf.Contract) -> anf.Comp:
    """The product as a comprehension over all of its axes, those of the result first."""
    dtype = array_type(op.a).dtype
    wide = "f32" if dtype in anf.HALF else dtype
    sizes = named_sizes(op)
    names = [*op.out, *(n for n in sizes if n not in op.out)]
    axes = {n: anf.fresh("ijkl"[min(k, 3)], I64) for k, n in enumerate(names)}
    x, y = (anf.fresh(name, anf.Scalar(dtype)) for name in ("x", "y"))
    wide_x, wide_y, xy = (anf.fresh(name, anf.Scalar(wide)) for name in ("x", "y", "xy"))

    def index(names: Sequence[int]) -> tuple[anf.Size, ...]:
        return tuple(anf.poly(axes[n]) for n in names)

    lets: tuple[anf.Let, ...] = (
        anf.Let((x,), anf.Read(op.a, index(op.left))),
        anf.Let((y,), anf.Read(op.b, index(op.right))),
        anf.Let((wide_x,), anf.Cast(wide, x)),
        anf.Let((wide_y,), anf.Cast(wide, y)),
        anf.Let((xy,), anf.Prim("mul", (wide_x, wide_y))),
    )
    if wide == dtype:
        lets = (*lets[:2], anf.Let((xy,), anf.Prim("mul", (x, y))))
    keep = anf.Reduce(tuple(sizes[n] for n in op.out), index(op.out))
    bounds = tuple(anf.Axis(axes[n], (anf.ZERO,), (sizes[n],)) for n in names)
    return anf.Comp(bounds, anf.Block(lets, (xy,)), (keep,))


def point_of(comp: anf.Comp, k: int) -> tuple[anf.Var | None, ...] | None:
    """For a result that holds the value of each point, none left out: the axis that each index entry is.

    None in place of an axis: the only index along an axis of size 1. None for the whole: it is another kind of result,
    reduced, combined with an older array, or with elements that no point reaches.
    """
    d = comp.destinations[k]
    return own_elements(comp.axes, d) if d.into is None else None


def filled(comp: anf.Comp, vars: Sequence[anf.Var]) -> dict[anf.Atom, anf.Atom]:
    """The results of which all elements are one value that is there before, each with that value."""
    inside = {*[a.var for a in comp.axes], *[v for let in comp.body.lets for v in let.vars]}
    return {
        var: value
        for k, (var, value) in enumerate(zip(vars, comp.body.results, strict=True))
        if value not in inside and not isinstance(value.type, anf.Array) and point_of(comp, k) is not None
    }


def without_replaced(comp: anf.Comp) -> anf.Comp:
    """A comprehension that goes on from no array of which it leaves nothing."""
    replaced = [is_replaced(comp, k) for k in range(len(comp.destinations))]
    if not any(replaced):
        return comp
    pairs = zip(comp.destinations, replaced, strict=True)
    return replace(comp, destinations=tuple([replace(d, into=None) if gone else d for d, gone in pairs]))


def giving(op: anf.Comp, positions: Sequence[int]) -> anf.Comp:
    """A comprehension that gives just those of its results, with each also that with whose array it goes on."""
    body = anf.Block(op.body.lets, tuple([op.body.results[k] for k in positions]))
    return anf.Comp(op.axes, body, tuple([_among(op.destinations[k], positions) for k in positions]))


def taken_apart(let: anf.Let, groups: Iterable[Sequence[int]]) -> list[anf.Let]:
    """A comprehension of pure code for each group of the results of one, with just the code that these need.

    That of the first group is as it is, and that of the others is fresh.
    """
    op = let.op
    assert isinstance(op, anf.Comp)
    out: list[anf.Let] = []
    for ks in groups:
        part = giving(op, ks)
        code = pruned(op.body.lets, part.body.results, [e for d in part.destinations for e in d.index])
        new: anf.Op = replace(part, body=anf.Block(tuple(code), part.body.results))
        if out:
            new = Renaming({}, renew=True).op(new)
        out.append(anf.Let(tuple([let.vars[k] for k in ks]), new, let.span))
    return out


def _among(d: anf.Destination, positions: Sequence[int]) -> anf.Destination:
    """A destination of which the one that it goes on with is now where it is among some positions."""
    return d if isinstance(d, anf.ScatterAdd) or d.after is None else replace(d, after=positions.index(d.after))


def with_results(let: anf.Let, positions: Sequence[int]) -> anf.Let:
    """The let of a comprehension that gives just those of its results."""
    assert isinstance(let.op, anf.Comp)
    return anf.Let(tuple([let.vars[k] for k in positions]), giving(let.op, positions), let.span)


def without_results(let: anf.Let, positions: Container[int]) -> list[anf.Let]:
    """The let of a comprehension without those of its results; nothing if none is left."""
    remaining = [k for k in range(len(let.vars)) if k not in positions]
    return [with_results(let, remaining)] if remaining else []


def arms_giving(op: anf.If, positions: Sequence[int]) -> anf.If:
    """A branch that gives just those of its results."""
    then, otherwise = [
        anf.Block(arm.lets, tuple([arm.results[k] for k in positions])) for arm in (op.then, op.otherwise)
    ]
    return anf.If(op.condition, then, otherwise, cold=op.cold)


def with_state(let: anf.Let, positions: Sequence[int]) -> anf.Let:
    """The let of a loop with just those of its state; the rest of the body names no other."""
    op = let.op
    assert isinstance(op, anf.For | anf.While)
    params, init = tuple([op.params[k] for k in positions]), tuple([op.init[k] for k in positions])
    results = (*op.body.results[: op.early], *[op.body.results[op.early + k] for k in positions])
    loop = replace(op, params=params, init=init, body=anf.Block(op.body.lets, results))
    return anf.Let(tuple([let.vars[k] for k in positions]), loop, let.span)


def is_zero(op: anf.Comp) -> bool:
    """Tells whether all elements of the first result of a comprehension are 0."""
    value = op.body.results[0]
    return isinstance(value, anf.Lit) and value.value == 0 and op.destinations[0].into is None


def is_plain(op: anf.Comp) -> bool:
    """Tells whether the body is scalar code, with loops and branches, that nothing keeps from running elsewhere."""
    return all(isinstance(let.op, _PLAIN) for let in walk(op.body))


def done_whole(type: anf.Type) -> bool:
    """Tells whether arrays of this type, of halves or nodes, are not processed a part at a time."""
    return isinstance(type, anf.Array | anf.Scalar) and (type.dtype in anf.HALF or anf.is_handle(type.dtype))


def sizes_named(body: anf.Block) -> dict[anf.Var, anf.Size]:
    """The i64 variables that a body names sizes by, and these."""
    sizes: dict[anf.Var, anf.Size] = {}
    for let in body.lets:
        if isinstance(let.op, anf.IndexExpr):
            sizes[let.vars[0]] = let.op.size.substitute(sizes.get)
    return sizes


def surely_total(op: anf.Op, axes: Iterable[anf.Axis], certified: Set[anf.Var] = frozenset()) -> bool:
    """Tells whether scalar code may run at every point of `axes`, also where nothing around it did run before.

    certified: as for `surely_inside`.
    """
    match op:
        case anf.Prim(name, args) if name in ("floordiv", "mod", "shift_left", "shift_right"):
            return dtype_of(args[0]) in anf.FLOATS or (isinstance(args[1], anf.Lit) and args[1].value != 0)
        case anf.Read():
            return surely_inside(op, axes, certified)
        case _:
            return op.IS.scalar


def surely_inside(
    op: anf.Read | anf.View | anf.Comp, axes: Iterable[anf.Axis], certified: Set[anf.Var] = frozenset()
) -> bool:
    """Tells whether what an operation itself reads, shows or writes is in range at every point of `axes`, whatever else
    does or does not run around it. certified: indices that checks in front of it have given, whatever is empty."""
    match op:
        case anf.Comp():
            axes = (*axes, *op.axes)
            places = [(d.index, d.shape) for d in op.destinations]
        case anf.View(array, names, shape, index):
            axes = (*axes, *[anf.Axis(v, (anf.ZERO,), (n,)) for v, n in zip(names, shape, strict=True)])
            places = [(index, array_type(array).shape)]
        case anf.Read(array, index):
            places = [(index, array_type(array).shape)]
    known = Knowledge()
    known.note_sizes(anf.Array("f64", tuple(shape)) for _, shape in places)
    inner = known.within(axes)
    # the index of a row leaves the last axes out
    entries = [pair for index, shape in places for pair in zip(index, shape, strict=False)]
    return all(entry.atom in certified or inner.inside((entry,), (size,)) for entry, size in entries)


def has_its_elements(axes: Sequence[anf.Axis], destination: anf.Destination, around: Iterable[anf.Axis] = ()) -> bool:
    """Tells whether a destination has an element wherever the axes in its index have a point, whatever the other axes
    have. around: the axes around the comprehension."""
    kept = tuple([a for a in axes if any(entry.mentions((a.var,)) for entry in destination.index)])
    others = {a.var for a in axes} - {a.var for a in kept}
    if any(end.mentions(others) for a in kept for end in (*a.lows, *a.highs)):
        return False
    return surely_inside(anf.Comp(kept, anf.Block((), ()), (destination,)), around)
