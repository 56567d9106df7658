"""Comprehensions and reductions over them, and what binders stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.anf import Atom, Keep, Let, Lit, Scalar, Size, fresh, poly
from dlang.ir.traverse import refresh
from dlang.specialize.analysis import binder_children, mentioned, pattern_locals, walk
from dlang.specialize.arith import reduce_axes
from dlang.specialize.effects import acts_in
from dlang.specialize.emitter import I64, TRUE
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.indexing import Element, leading_shape, select
from dlang.specialize.patterns import bind_pattern
from dlang.specialize.randomness import Points, at, draws_in, points
from dlang.specialize.values import ArrayV, Many, ScalarV, Value, leaves, rebuild
from dlang.specialize.zeros import zero, zeros
from dlang.typecheck import core
from dlang.typecheck import types as ty


@dataclass(frozen=True, slots=True)
class Bound:
    """A binder whose range is known: `bind` makes its names stand for the place `at`, 0 <= at < size."""

    size: Size
    name: str
    bind: Callable[[Frame, Size], None]


def bound(f: Frame, b: core.Binder) -> Bound:
    """Evaluates what bounds a binder, outside of what it ranges over."""
    e = f.emitter
    match b:
        case core.Count(local, size, expression, span):
            with e.at(span):
                if expression is not None:
                    known = e.poly(e.cast("i64", f.atom(expression)))
                    bind_size(f, size, known)
                n = f.size(size)
            return Bound(n, local.name, lambda g, at: bind_index(g, local, at))
        case core.Each(pattern, array, size, span):
            xs = f.eval(array)
            n = leading_shape(xs)[0]
            bind_size(f, size, n)

            def each(g: Frame, at: Size) -> None:
                bind_pattern(g, pattern, select(g, xs, [Element(at)]))

            return Bound(n, "i", each)
        case core.Range(pattern, low, high, step, size, span):
            with e.at(span):
                first = e.poly(f.atom(low))
                last = e.poly(f.atom(high))
                stride = f.atom(step) if step is not None else Lit(1, "i64")
                s, length = steps(f, first, last, stride)
                bind_size(f, size, length)

            def ranged(g: Frame, at: Size) -> None:
                bind_pattern(g, pattern, ScalarV(g.emitter.atom(first + at * s)))

            return Bound(length, "k", ranged)


def steps(f: Frame, first: Size, last: Size, stride: Atom) -> tuple[Size, Size]:
    """The step of a range, checked unless it is a literal, and how many steps lead to its end."""
    e = f.emitter
    if isinstance(stride, Lit) and stride.value != 0:
        s = int(stride.value)
        length = last - first if s > 0 else first - last
        return poly(s), length if abs(s) == 1 else e.floor(length + (abs(s) - 1), poly(abs(s)))
    zero = Lit(0, "i64")
    (stride,) = e.check(e.prim("ne", stride, zero), "E0802", ("the step of a range is 0",), (), (stride,))
    up = e.prim("gt", stride, zero)
    span = e.prim("select", up, e.atom(last - first), e.atom(first - last))
    size = e.prim("select", up, stride, e.prim("neg", stride))
    return poly(stride), e.floor(poly(span) + poly(size) - 1, poly(size))


def bounds(f: Frame, binders: Sequence[core.Binder]) -> list[Bound]:
    """The binders of a comprehension. `for row in m, v in row`: what a later one ranges over may be an element that an
    earlier one chose, of a size that is the same for all of them."""
    return [chosen_bound(f, b) if chosen else bound(f, b) for b, chosen in with_chosen(binders)]


def with_chosen(binders: Sequence[core.Binder]) -> Iterator[tuple[core.Binder, bool]]:
    """Each binder with whether what it ranges over mentions what those before it bind."""
    before: set[object] = set()
    for b in binders:
        own = [n for source in binder_children(b) for n in mentioned(source)]
        yield b, bool(before.intersection(own))
        before.update([b.local] if isinstance(b, core.Count) else pattern_locals(b.pattern))


def open_variables(f: Frame, c: core.Comprehension) -> None:
    """What a `var` of unknown size holds may bound an index: its sizes are found before what mentions it runs."""
    for part in parts_of(c):
        for node in walk(part):
            if isinstance(node, core.Ref) and node.opened and node.local in f.env:
                f.bind_sizes(node.type, f.env[node.local], node.opened)


def chosen_bound(f: Frame, b: core.Binder) -> Bound:
    """A binder whose range depends on the place, but not how long it is."""
    if isinstance(b, core.Count) or not known(f, b.size):
        raise unsupported("a range that differs from element to element of a comprehension", b.span)

    def bind(g: Frame, at: Size) -> None:
        if isinstance(b, core.Each):
            bind_pattern(g, b.pattern, select(g, g.eval(b.array), [Element(at)]))
        else:
            bound(g, b).bind(g, at)

    return Bound(f.size(b.size), "i", bind)


def known(f: Frame, size: ty.Size) -> bool:
    """Whether what a size mentions has a value here."""
    return all(
        known(f, a.dividend) and known(f, a.divisor) if isinstance(a, ty.Floor) else a in f.bindings
        for a in ty.resolve_size(size).poly.atoms()
    )


def bind_size(f: Frame, size: ty.Size, known: Size) -> None:
    """A size that the checker left open is what the bound turned out to be."""
    a = ty.resolve_size(size).poly.atom
    if isinstance(a, ty.SizeVar) and a not in f.bindings:
        f.bindings[a] = known


def bind_index(f: Frame, local: core.Local, at: Size) -> None:
    f.env[local] = ScalarV(f.emitter.atom(at))
    if local.size is not None:
        f.bindings[local.size] = at


@contextmanager
def inside(f: Frame, places: Points | None, index: Sequence[Atom], token: anf.Var | None = None) -> Iterator[None]:
    """At a point of a comprehension. Without a token nothing may touch the world there: points have no order."""
    before, f.world.token = f.world.token, token
    try:
        with at(f, places, index):
            yield
    finally:
        f.world.token = before


def places_of(f: Frame, c: core.Comprehension) -> Points | None:
    """The levels of the elements, where something is drawn."""
    return points(f, draws_in(f, *parts_of(c)))


def parts_of(c: core.Comprehension) -> list[core.Expr]:
    """What runs at every point."""
    return [c.element] if c.condition is None else [c.condition, c.element]


def axes_of(f: Frame, binders: list[Bound]) -> tuple[anf.Axis, ...]:
    return tuple([f.emitter.axis(b.size, b.name) for b in binders])


def comprehension(f: Frame, c: core.Comprehension) -> Value:
    """An array over the axes of the binders; with a condition, of the points where it holds."""
    e = f.emitter
    open_variables(f, c)
    binders = bounds(f, c.binders)
    for b in binders:
        e.checked_size(b.size, "the size of a comprehension")
    if c.condition is not None:
        return filtered(f, c, binders)
    axes = axes_of(f, binders)
    return elements(f, c, binders, axes, lambda: [poly(a.var) for a in axes], places_of(f, c))


def elements(
    f: Frame,
    c: core.Comprehension,
    binders: list[Bound],
    axes: tuple[anf.Axis, ...],
    where: Callable[[], list[Size]],
    places: Points | None,
) -> Value:
    """The array of the elements at every point of the axes; one after another if they touch the world.

    where: emits what the indices of the binders are at a point.
    """
    e, world = f.emitter, f.world
    acts = world.token is not None and acts_in(f.env, c.element)
    first = fresh("world", anf.Token()) if acts else None
    with f.block() as lets:
        index = where()
        with inside(f, places, [e.atom(i) for i in index], first):
            for b, i in zip(binders, index, strict=True):
                b.bind(f, i)
            value = f.eval(c.element)
            last = world.token
    if first is None:
        return collect(f, axes, lets, value)
    assert last is not None
    same_sizes(f, axes, lets, value)
    return sequential(f, axes, lets, value, (first, last))


def collect(f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], value: Value) -> Value:
    """The arrays of the leaves of `value`, computed by `lets` at every point of the axes."""
    e = f.emitter
    shape = tuple([a.highs[0] for a in axes])
    index = tuple([poly(a.var) for a in axes])
    parts = list(leaves(value))
    if all(isinstance(p.type, Scalar) for p in parts):
        destinations = tuple([Keep(shape, index, "set") for _ in parts])
        dtypes = tuple([p.type.dtype for p in parts if isinstance(p.type, Scalar)])
        outs = e.comp(axes, lets, tuple(parts), destinations, dtypes)
        return gathered(value, outs, shape)
    same_sizes(f, axes, lets, value)
    if any(isinstance(let.op, anf.For | anf.While | anf.Call | anf.Derivative | anf.Library) for let in lets):
        return sequential(f, axes, lets, value)
    made: list[anf.Var] = []
    for p in parts:
        if isinstance(p.type, Scalar):
            body, at = lets, axes
            (out,) = e.comp(at, body, (p,), (Keep(shape, index, "set"),), (p.type.dtype,))
        else:
            assert isinstance(p.type, anf.Array) and isinstance(p, anf.Var)
            inner = tuple([e.axis(s, "j") for s in p.type.shape])
            with f.block() as body:
                e.lets.extend(lets)
                x = e.read(p, tuple([poly(a.var) for a in inner]))
            full = (*axes, *inner)
            keep = Keep(shape + p.type.shape, tuple([poly(a.var) for a in full]), "set")
            (out,) = e.comp(full, body, (x,), (keep,), (p.type.dtype,))
        made.append(out)
        # Each leaf has a pass of its own: a variable is bound once, so the next one computes fresh copies.
        axes, lets, parts_left = renewed(f, axes, lets, parts)
        index = tuple([poly(a.var) for a in axes])
        parts[:] = parts_left
    return gathered(value, made, shape)


def same_sizes(f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], value: Value) -> None:
    """The sizes of an element are known outside of the comprehension."""
    inner = {a.var for a in axes} | defined(lets)
    for p in leaves(value):
        if isinstance(p.type, anf.Array) and any(s.mentions(inner) for s in p.type.shape):
            raise unsupported("a comprehension whose elements differ in size", f.emitter.span)


def renewed(
    f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], parts: list[Atom]
) -> tuple[tuple[anf.Axis, ...], list[Let], list[Atom]]:
    """A copy of a body over fresh axes."""
    e = f.emitter
    fresh_axes = tuple([e.axis(a.highs[0], a.var.name) for a in axes])
    mapping: dict[anf.Var, anf.Atom | Size] = {a.var: b.var for a, b in zip(axes, fresh_axes, strict=True)}
    block = refresh(anf.Block(tuple(lets), tuple(parts)), mapping)
    return fresh_axes, list(block.lets), list(block.results)


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


def sequential(
    f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], value: Value, tokens: tuple[anf.Var, Atom] | None = None
) -> Value:
    """Each point runs once, and what it gives is stored in turn.

    For elements that are arrays made by loops or calls, and for those that touch the world: `tokens` are then the
    world before and after a point.
    """
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
            rows = [stored(f, _var(c), index, p) for c, p in zip(current, parts, strict=False)]
            return [*rows, *([tokens[1]] if tokens is not None else [])]
        params = [fresh("rows", c.type) for c in current]
        if tokens is not None and depth == len(axes) - 1:
            params[-1] = tokens[0]
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

    if tokens is None:
        return gathered(value, list(map(_var, nest(0, state))), shape)
    assert f.world.token is not None
    *made, f.world.token = nest(0, [*state, f.world.token])
    return gathered(value, list(map(_var, made)), shape)


def _var(a: Atom) -> anf.Var:
    assert isinstance(a, anf.Var)
    return a


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
    keep = Keep(array.type.shape, index + where, "set", array)
    return e.comp(inner, lets, (x,), (keep,), (array.type.dtype,), array.name)[0]


def filtered(f: Frame, c: core.Comprehension, binders: list[Bound]) -> Value:
    """The points where the condition holds, found first; then the elements at those points."""
    e = f.emitter
    assert c.condition is not None
    axes = axes_of(f, binders)
    index = tuple([poly(a.var) for a in axes])
    if f.world.token is not None and acts_in(f.env, c.condition):
        raise unsupported("an effect in the condition of a comprehension", c.condition.span)
    places = places_of(f, c)
    with f.block() as lets, inside(f, places, [a.var for a in axes]):
        for b, i in zip(binders, index, strict=True):
            b.bind(f, i)
        holds = f.bool(c.condition)
    shape = tuple([b.size for b in binders])
    (mask,) = e.comp(axes, lets, (holds,), (Keep(shape, index, "set"),), ("bool",), "mask")
    total = poly(1)
    for s in shape:
        total = total * s
    flat = e.reshape(mask, (total,))
    k = fresh("k", I64)
    e.facts.size(k)
    where = fresh("at", anf.Array("i64", (poly(k),)))
    e.bind(anf.Compact(flat), (k, where))
    if c.opened is not None:
        f.bindings[c.opened] = poly(k)
    axis = e.axis(poly(k), "j")

    def at_kept() -> list[Size]:
        position = e.read(where, (poly(axis.var),))
        assert isinstance(position, anf.Var)
        return unravelled(f, position, shape)

    return elements(f, c, binders, (axis,), at_kept, places)


def unravelled(f: Frame, position: anf.Var, shape: tuple[Size, ...]) -> list[Size]:
    """The index of a position in row-major order; in range, because the position is."""
    e = f.emitter
    if len(shape) == 1:
        e.facts.between(position, (poly(0),), (shape[0],))
        return [poly(position)]
    out: list[Size] = []
    rest: Atom = position
    for s in reversed(shape[1:]):
        out.append(poly(e.prim("mod", rest, e.atom(s))))
        rest = e.prim("floordiv", rest, e.atom(s))
    out.append(poly(rest))
    out.reverse()
    for p, s in zip(out, shape, strict=True):
        if p.atom is not None:
            e.facts.between(p.atom, (poly(0),), (s,))
    return out


I64_TYPE = ty.TypeCon("i64")
IDENTITY: dict[str, Callable[[str], Lit]] = {
    "sum": zero,
    "prod": lambda dtype: Lit(1.0 if dtype in anf.FLOATS else 1, dtype),
    "any": lambda dtype: Lit(False, dtype),
    "all": lambda dtype: Lit(True, dtype),
}


def ragged(f: Frame, binders: Sequence[core.Binder]) -> int | None:
    """The first binder of which it depends on those before it how long its range is."""
    for k, (b, chosen) in enumerate(with_chosen(binders)):
        if chosen and (isinstance(b, core.Count) or not known(f, b.size)):
            return k
    return None


def reduction(f: Frame, monoid: str, c: core.Comprehension, nested: bool = False, check: bool = True) -> Atom | None:
    """A reduction over all axes of a comprehension of scalars, without making its array; None if it can't be.

    nested: it is part of another, so it may be of nothing. check: whether a `max` of nothing ends the run.
    """
    e = f.emitter
    if nested and monoid in ("max", "min"):
        return largest_or_identity(f, monoid, c)
    split = ragged(f, c.binders)
    if split is not None:
        inner = replace(c, binders=c.binders[split:])
        within = core.Builtin(c.element.type, c.span, monoid, (inner,), {"nested": 1})
        if monoid in ("max", "min") and check:
            one = core.Literal(I64_TYPE, c.span, 1)
            count = reduction(f, "sum", replace(c, element=one))
            assert count is not None
            nonempty(f, (e.poly(count),), monoid)
        outer = replace(c, binders=c.binders[:split], element=within, condition=None)
        return reduction(f, monoid, outer, check=False)
    if c.condition is not None and (monoid not in IDENTITY or not isinstance(f.erasing().mono(c.element.type), Scalar)):
        return None
    if f.world.token is not None and acts_in(f.env, *parts_of(c)):
        return None
    open_variables(f, c)
    binders = bounds(f, c.binders)
    axes = axes_of(f, binders)
    places = places_of(f, c)
    with f.block() as lets, inside(f, places, [a.var for a in axes]):
        for b, a in zip(binders, axes, strict=True):
            b.bind(f, poly(a.var))
        if c.condition is None:
            value = f.eval(c.element)
        else:
            value = conditional(f, c, monoid)
    if not isinstance(value, ScalarV):
        value = collect(f, axes, lets, value)
        assert isinstance(value, ArrayV)
        (out,) = reduce_axes(e, value, range(len(value.shape)), (monoid,))
        assert isinstance(out, ScalarV)
        return out.atom
    if monoid in ("max", "min", "argmax", "argmin") and check:
        nonempty(f, tuple([b.size for b in binders]), monoid)
    dtype = "i64" if monoid.startswith("arg") else value.dtype
    return e.comp(axes, lets, (value.atom,), (Keep((), (), monoid),), (dtype,), "r")[0]


def largest_or_identity(f: Frame, monoid: str, c: core.Comprehension) -> Atom:
    """`max` or `min`; of nothing it is the identity, without a gradient, which would go to an element."""
    from dlang.ir.reduction import identity

    e = f.emitter
    some: Atom = TRUE
    open_variables(f, c)
    for b in bounds(f, c.binders[: ragged(f, c.binders)]):
        some = e.prim("and", some, e.prim("gt", e.atom(b.size), Lit(0, "i64")))
    with f.block() as then:
        value = reduction(f, monoid, c, check=False)
        assert value is not None
    assert isinstance(value.type, Scalar)
    dtype = value.type.dtype
    nothing = identity(monoid, dtype)
    otherwise = Lit(float(nothing) if dtype in anf.FLOATS else int(nothing), dtype)
    return e.emit(anf.If(some, anf.Block(tuple(then), (value,)), anf.Block((), (otherwise,))), value.type)[0]


def conditional(f: Frame, c: core.Comprehension, monoid: str) -> Value:
    """The element where the condition holds, else the identity."""
    e = f.emitter
    assert c.condition is not None
    holds = f.bool(c.condition)
    with f.block() as then:
        value = f.eval(c.element)
    if not isinstance(value, ScalarV):
        raise unsupported("a reduction with `if` over arrays", e.span)
    otherwise = IDENTITY[monoid](value.dtype)
    op = anf.If(holds, anf.Block(tuple(then), (value.atom,)), anf.Block((), (otherwise,)))
    return ScalarV(e.emit(op, value.atom.type)[0])


def nonempty(f: Frame, shape: tuple[Size, ...], what: str) -> None:
    """`max` of nothing ends the run."""
    e = f.emitter
    for s in shape:
        if not e.facts.proves_nonnegative(s - 1):
            ok = e.prim("gt", e.atom(s), Lit(0, "i64"))
            e.check(ok, "E0808", (f"`{what}` of nothing",))
