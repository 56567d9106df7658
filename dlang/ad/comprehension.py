"""The adjoint of a comprehension: its body runs forward and back at every point, and each read places its adjoint.

    y[o] = Σ f(x[i], w[j])        at every point: g = ȳ[o];  x̄[i] += g ∂f/∂x[i];  w̄[j] += g ∂f/∂w[j]

Sums, scatters and plain stores share this rule: the cotangent of a value is that of the element that it goes to. Where
elements are set in an array, y = z but for y[o] = f(z[o], …) at the points, the array before has

    z̄ = ȳ,  but  z̄[o] = ȳ[o] ∂f/∂z[o]        which is 0 where f does not read what it replaces,

and ȳ is changed in place to be that; what f reads of other elements, z[i], adds ȳ[o] ∂f/∂z[i] to it afterwards. `max`
and `min` save the position of their first extremum, and their adjoint visits just that point. What has no parallel
adjoint is differentiated with the loop in it around comprehensions (`interchange.py`), or, as products are, as loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.ad import sums
from dlang.ad.adjoint_destinations import Setting, place_adjoint
from dlang.ad.elements import emit_comp, from_there, saved_values
from dlang.ad.interchange import interchanged
from dlang.ad.scope import Contribution, NoParallelAdjoint, Scope, Sink, carry, copied
from dlang.ad.sequential import sequential
from dlang.ir import anf
from dlang.ir.affine import Change, Knowledge, extent, far_fewer, hull, nonempty
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming, substitute
from dlang.ir.terms import ZERO
from dlang.ir.traverse import bound_vars, mentioned
from dlang.ir.types import I64, array_type, dtype_of, is_float, product, type_of
from dlang.ir.writes import determines, missing
from dlang.ops.monoids import CHOOSING
from dlang.polynomials import Poly


@dataclass(frozen=True, slots=True)
class _Saving:
    """A comprehension with what it has to save, and what is saved before and after it."""

    before: Sequence[anf.Let]
    let: anf.Let
    after: Sequence[anf.Let]


def vjp_comp(let: anf.Let, op: anf.Comp, scope: Scope) -> list[anf.Let]:
    """Emits the adjoint of a comprehension; gives it with what has to be saved."""
    gs = {k: g for k, v in enumerate(let.vars) if v in scope.active and (g := scope.pop(v)) is not None}
    if not gs:
        return [let]
    loops = [k for k in gs if needs_loop(op, k)]
    before = {v: list(bars) for v, bars in scope.bars.items()}
    sent = 0 if scope.sink is None else len(scope.sink.wanted)
    try:
        with scope.b.scope() as lets:
            saving = _parallel(let, op, {k: g for k, g in gs.items() if k not in loops}, scope)
    except NoParallelAdjoint:
        scope.bars.clear()
        scope.bars.update(before)
        if scope.sink is not None:
            del scope.sink.wanted[sent:]
        elif (split := interchanged(let, op, scope.known, scope.b, scope.active)) is not None:
            for k, g in gs.items():
                scope.add(let.vars[k], g)
            scope.note_summed(split)
            return scope.walk(split)
        loops, saving = list(gs), _Saving((), let, ())
    else:
        for emitted in lets:
            scope.b.append(emitted)
    if not loops:
        return [*saving.before, saving.let, *saving.after]
    assert isinstance(saving.let.op, anf.Comp)
    for k in loops:
        scope.add(let.vars[k], gs[k])
    one_by_one = sequential(saving.let, saving.let.op, loops, scope.b, scope.active)
    scope.note_summed(one_by_one)
    forward = scope.walk(one_by_one)
    return [*saving.before, *forward, *saving.after]


def needs_loop(op: anf.Comp, k: int) -> bool:
    """Tells whether the derivative of a result has no parallel form of its own."""
    d = op.destinations[k]
    if not isinstance(d, anf.Reduce) or d.monoid in ("sum", "set"):
        return False
    if d.into is None and determines(op.axes, d.index):
        return False  # one point for each element: it is set
    return d.monoid == "prod" or d.into is not None or not _is_box(op, d)


def _is_box(op: anf.Comp, d: anf.Reduce) -> bool:
    """Tells whether the reduced axes form the same kind of box at every point of the others."""
    reduced = {a.var for a in missing(op.axes, d.index)}
    return not any(b.mentions(reduced) for a in op.axes for b in (*a.lows, *a.highs)) and not any(
        e.mentions(bound_vars(op.body)) for e in d.index
    )


def _parallel(let: anf.Let, op: anf.Comp, gs: dict[int, anf.Atom], scope: Scope) -> _Saving:
    """The adjoint of the results in `gs` by comprehensions; gives the comprehension with what it saves."""
    linear: dict[int, anf.Atom] = {}
    before: list[anf.Let] = []
    after: list[anf.Let] = []
    for k, g in gs.items():
        d = op.destinations[k]
        if isinstance(d, anf.Reduce) and d.monoid in CHOOSING and missing(op.axes, d.index):
            let, at_extremum = _vjp_extremum(let, k, g, scope)
            after += at_extremum
        else:
            linear[k] = g
    if linear:
        *before, let = _vjp_linear(let, linear, scope)
    return _Saving(before, let, after)


# ---- sums, scatters, stores ------------------------------------------------------------------------------------------
def _vjp_linear(let: anf.Let, gs: dict[int, anf.Atom], scope: Scope) -> list[anf.Let]:
    op = let.op
    assert isinstance(op, anf.Comp)
    seeds: list[tuple[anf.Atom, anf.Atom, tuple[anf.Size, ...] | None]] = []
    for k, g in gs.items():
        d = op.destinations[k]
        if d.shape:
            assert isinstance(g, anf.Var)
            seeds.append((op.body.results[k], g, d.index))
        else:
            seeds.append((op.body.results[k], g, None))
    lets, known_values = saved_values(let, scope)
    added: list[tuple[anf.Var, anf.Atom]] = []
    settings: list[Setting] = []
    for n, (k, g) in enumerate(gs.items()):
        d = op.destinations[k]
        if d.into is None or d.into not in scope.active:
            continue
        if not isinstance(d, anf.Reduce) or d.monoid != "set":
            added.append((d.into, g))  # y = into with values added: īnto = ȳ
            continue
        assert isinstance(g, anf.Var)
        if scope.sink is None and not _reads_others(op, d):
            settings.append(Setting(d.into, d.index, g, scope.nodes.zero(scope.b, anf.Scalar(dtype_of(d.into)))))
        elif (elements := _elements(op, d, g, scope)) is not None:
            seeds[n] = (seeds[n][0], *elements)
            scope.add(d.into, _cleared(op, d, g, scope))
        else:
            added.append((d.into, _cleared(op, d, g, scope)))
    vjp_body(scope, op.axes, op.body.lets, seeds, known_values, settings=settings)
    for into, g in added:
        scope.add(into, g)
    return lets


def _reads_others(op: anf.Comp, d: anf.Reduce) -> bool:
    """Tells whether points may read elements of an array that are set at others."""
    using = [let.op for let in op.body.lets if d.into in mentioned(let.op)]
    own = all(isinstance(o, anf.Read) and o.index == d.index for o in using)
    return not own or not determines(op.axes, d.index)


def _elements(op: anf.Comp, d: anf.Reduce, g: anf.Var, scope: Scope) -> tuple[anf.Var, tuple[anf.Size, ...]] | None:
    """The elements of a cotangent at all points, in an array of their own, and where that of a point is there.

    None if there are about as many as the cotangent has, so that it is as cheap to make a copy of it.
    """
    box = hull(op.axes, scope.known.within(op.axes))
    if box is None or not far_fewer(product(high - low + 1 for low, high in box.values()), product(d.shape)):
        return None
    shape = tuple([extent(scope.b, box[a.var], scope.known) for a in op.axes])
    at = tuple([anf.poly(a.var) - box[a.var][0] for a in op.axes])
    element = anf.fresh("element", anf.Scalar(dtype_of(g)))
    read = anf.Let((element,), anf.Read(g, d.index))
    return _beside(op, [read], element, anf.Reduce(shape, at, "set"), scope), at


def _cleared(op: anf.Comp, d: anf.Reduce, g: anf.Var, scope: Scope) -> anf.Var:
    """A cotangent of which the elements that are set are 0."""
    assert d.into is not None
    nothing = scope.nodes.zero(scope.b, anf.Scalar(dtype_of(d.into)))
    return _beside(op, [], nothing, anf.Reduce(d.shape, d.index, "set", g), scope)


def _beside(op: anf.Comp, more: list[anf.Let], value: anf.Atom, to: anf.Reduce, scope: Scope) -> anf.Var:
    """Emits a comprehension over the same points that sets a value, which the body and more code behind it compute."""
    body = copied(scope.active, [*op.body.lets, *more], renaming := Renaming({}, renew=True))
    array = anf.fresh("bar", type_of(dtype_of(value), to.shape))
    moved = replace(to, index=tuple(map(renaming.size, to.index)))
    emit_comp(scope.b, Change(op.axes, {}), body, [(array, renaming.atom(value), moved)])
    return array


def vjp_body(
    scope: Scope,
    axes: tuple[anf.Axis, ...],
    lets: Sequence[anf.Let],
    seeds: Sequence[tuple[anf.Atom, anf.Atom, tuple[anf.Size, ...] | None]],
    values: dict[anf.Var, anf.Read],
    digits: dict[anf.Var, tuple[anf.Size, anf.Size]] | None = None,
    settings: Sequence[Setting] = (),
) -> None:
    """Runs a body forward and back at every point of `axes` and places what its reads contribute.

    seeds: a value of the body, and its cotangent: a scalar, or the element of an array at an index. values: those of
    the body that are read instead of being computed again. settings: elements of cotangents that become what the reads
    of the same elements contribute.
    """
    b = scope.b
    renaming = Renaming({}, renew=True)
    copies = copied(scope.active, lets, renaming)
    inside = {v for c in copies for v in (*c.vars, *bound_vars(c.op))} | {a.var for a in axes}
    inner = scope.inner(Sink(inside))
    inner.note_summed(copies)
    with b.scope() as back:
        for atom, g, index in seeds:
            element: anf.Atom = g
            if index is not None:
                assert isinstance(g, anf.Var)
                element = b.one(anf.Read(g, tuple(map(renaming.size, index))))
            inner.add(renaming.atom(atom), element)
        forward = inner.walk(copies)
    stored = {renaming.atom(v): anf.Read(r.array, tuple(map(renaming.size, r.index))) for v, r in values.items()}
    body = from_there(forward, stored)
    assert inner.sink is not None
    wanted = _merged(scope, back, inner.sink.wanted)
    for v in list(inner.bars):
        if v not in inside:
            if isinstance(v.type, anf.Array) or not is_float(v.type):
                raise NoParallelAdjoint  # an inner comprehension that could not be distributed, or a sum of nodes
            with b.scope() as more:
                bar = inner.take(v)
            back += more
            wanted.append(Contribution(v, (), bar, False))
    own: list[Setting] = []
    for s in settings:
        index = tuple(map(renaming.size, s.index))
        with b.scope() as more:
            read = [c.g for c in wanted if c.array is s.array]
            own.append(replace(s, index=index, g=scope.total(read) if read else s.g))
        back += more
        wanted = [c for c in wanted if c.array is not s.array]
    if wanted or own:
        moved = {renaming.atom(d): ends for d, ends in (digits or {}).items()}
        within = {d: ends for d, ends in moved.items() if isinstance(d, anf.Var)}
        place_adjoint(scope, axes, [*body, *back], wanted, within, own)


def _merged(scope: Scope, back: list[anf.Let], wanted: Sequence[Contribution]) -> list[Contribution]:
    """Contributions to one element added up at the point."""
    by_element: dict[object, Contribution] = {}
    with scope.b.scope() as more:
        for c in wanted:
            key = c.array, c.index, c.conditional, c.where
            before = by_element.get(key)
            by_element[key] = c if before is None else replace(c, g=scope.total([before.g, c.g]))
    back += more
    return list(by_element.values())


def vjp_view(op: anf.View, g: anf.Atom, scope: Scope) -> None:
    """y[a] = x[i(a)]: x̄[i(a)] += ȳ[a] at every a, placed as the adjoint of any other read."""
    b = scope.b
    assert isinstance(g, anf.Var)
    axes = tuple(anf.Axis(v, (Poly({}),), (size,)) for v, size in zip(op.axes, op.shape, strict=True))
    with b.scope() as lets:
        value = b.one(anf.Read(g, tuple(anf.poly(v) for v in op.axes)))
    sink = scope.sink
    if sink is not None and op.array not in sink.inside:
        raise NoParallelAdjoint
    if is_float(op.array.type):
        try:
            place_adjoint(scope, axes, lets, [Contribution(op.array, op.index, value, False)])
            return
        except NoParallelAdjoint:
            if op.array not in scope.summed:
                raise
    _vjp_view_in_order(op, g, scope)


def _vjp_view_in_order(op: anf.View, g: anf.Var, scope: Scope) -> None:
    """The same one after another: nodes are summed by calls, and few elements of an array from a node are terms."""
    b = scope.b
    few = op.array in scope.summed and far_fewer(product(op.shape), product(array_type(op.array).shape))

    def nest(bar: anf.Atom, at: tuple[anf.Var, ...]) -> anf.Atom:
        if len(at) < len(op.shape):
            (out,) = b.for_(0, op.shape[len(at)], [bar], lambda i, inner: nest(inner, (*at, i)))
            return out
        index = tuple(substitute(e, dict(zip(op.axes, at, strict=True))) for e in op.index)
        cotangent = b.one(anf.Read(g, tuple(map(anf.poly, at))))
        if few:
            return sums.with_element(b, scope.nodes, bar, index, cotangent)
        assert isinstance(bar, anf.Var)
        return b.update(bar, index, scope.nodes.plus(b, b.one(anf.Read(bar, index)), cotangent))

    scope.add(op.array, nest(scope.take(op.array) if few else scope.take_array(op.array), ()))


# ---- max and min -----------------------------------------------------------------------------------------------------
def _vjp_extremum(let: anf.Let, k: int, g: anf.Atom, scope: Scope) -> tuple[anf.Let, Sequence[anf.Let]]:
    """y[o] = max f(x[i]) over the reduced axes r: with r* the first position where it is attained,

    r*[o] is saved by the forward pass; then g = ȳ[o] is the cotangent of f at (o, r*[o]), and nothing elsewhere. Given
    with the comprehension is what the forward pass finds there.
    """
    op, b = let.op, scope.b
    assert isinstance(op, anf.Comp)
    d = op.destinations[k]
    assert isinstance(d, anf.Reduce)
    reduced = missing(op.axes, d.index)
    kept = tuple(a for a in op.axes if a not in reduced)
    where = anf.fresh("where", type_of("i64", d.shape))
    extended = anf.Comp(
        op.axes,
        anf.Block(op.body.lets, (*op.body.results, op.body.results[k])),
        (*op.destinations, anf.Reduce(d.shape, d.index, f"arg{d.monoid}")),
    )
    forward = anf.Let((*let.vars, where), extended, let.span)
    points = attained(kept, reduced, scope.known)
    with b.scope() as lets:
        rank = points.position(b.one(anf.Read(where, d.index)) if d.shape else where, b)
        positions = positions_of(rank, reduced, b)
    renaming = Renaming(positions)
    body = [*lets, *(renaming.let(inner) for inner in op.body.lets)]
    carry(scope.active, renaming)
    result = renaming.atom(op.body.results[k])
    if points.axes:
        # The reduced axes have become values of the body, so its indices mention them as data.
        box = hull(op.axes, scope.known.within(op.axes)) or {}
        digits = {v: box[a] for a, v in positions.items() if isinstance(v, anf.Var) and a in box}
        (*before, saving), values = saved_values(
            anf.Let((), anf.Comp(points.axes, anf.Block(tuple(body), ()), ()), let.span), scope
        )
        vjp_body(scope, points.axes, body, [(result, g, d.index if d.shape else None)], values, digits)
        saving_copy = anf.Let(saving.vars, Renaming({}, renew=True).op(saving.op), let.span)
        return forward, [*before, saving_copy] if saving.vars else before
    renaming = Renaming({}, renew=True)
    copies = copied(scope.active, body, renaming)
    scope.note_summed(copies)
    with b.scope() as back:
        cotangent = b.one(anf.Read(g, d.index)) if d.shape and isinstance(g, anf.Var) else g
        scope.add(renaming.atom(result), cotangent)
        point = scope.walk(copies)
    for inner in back:
        b.append(inner)
    return forward, point


@dataclass(frozen=True, slots=True)
class Attained:
    """The points at which an extreme is attained: axes, of which the last may be one of a single point, its value 0.

    It has no point where nothing is reduced, for nothing is attained there, and nothing may be read. The check that
    refuses such a reduction may be in a loop that never runs, and what follows from the position outside of it. The
    position mentions that axis, so no code that depends on the position runs where the axis has no point.
    """

    axes: tuple[anf.Axis, ...]
    single: anf.Var | None

    def position(self, rank: anf.Atom, b: Builder) -> anf.Atom:
        """The rank of the extreme as the body of a comprehension over these axes may use it."""
        return rank if self.single is None else b.size(anf.poly(rank) + anf.poly(self.single))


def attained(kept: Sequence[anf.Axis], reduced: Sequence[anf.Axis], known: Knowledge) -> Attained:
    """The points of a reduction's result at which there is an extreme, where `kept` are the axes of the result."""
    known = known.within(kept)
    counts = {high - low for axis in reduced for low in axis.lows for high in axis.highs}
    single = anf.Axis(anf.fresh("attained", I64), (ZERO,), (anf.poly(1),))
    box = hull((*kept, single, *reduced), known)
    if box is None or all(map(known.positive, counts)):
        return Attained(tuple(kept), None)
    return Attained(tuple(nonempty((*kept, single), reduced, box, known)), single.var)


def positions_of(rank: anf.Atom, reduced: Sequence[anf.Axis], b: Builder) -> dict[anf.Var, anf.Atom]:
    """The reduced axes at the point of a row-major rank in their box."""
    out: dict[anf.Var, anf.Atom] = {}
    remaining = rank
    for n, reduced_axis in reversed(list(enumerate(reduced))):
        low = b.size(b.bound(reduced_axis.lows, "maximum"))
        if n:
            count = b.size(anf.poly(b.size(b.bound(reduced_axis.highs, "minimum"))) - anf.poly(low))
            position: anf.Atom = b.prim("mod", remaining, count)
            remaining = b.prim("floordiv", remaining, count)
        else:
            position = remaining
        out[reduced_axis.var] = position if low == anf.Lit(0, "i64") else b.size(anf.poly(position) + anf.poly(low))
    return out
