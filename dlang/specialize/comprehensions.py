"""Comprehensions and reductions over them, and what binders stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.anf import Atom, Keep, Let, Lit, Scalar, Size, fresh, poly
from dlang.ir.traverse import refresh
from dlang.specialize.arith import reduce_axes
from dlang.specialize.emitter import I64
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.indexing import Element, leading_shape, select
from dlang.specialize.patterns import bind_pattern
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, ScalarV, TupleV, Value, leaves, rebuild
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
                if not isinstance(stride, Lit) or stride.value == 0:
                    raise unsupported("a step that is not a literal", span)
                s = int(stride.value)
                length = last - first if s > 0 else first - last
                if abs(s) != 1:
                    length = e.floor(length + (abs(s) - 1), poly(abs(s)))
                bind_size(f, size, length)

            def ranged(g: Frame, at: Size) -> None:
                bind_pattern(g, pattern, ScalarV(g.emitter.atom(first + at * s)))

            return Bound(length, "k", ranged)


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
def pure(f: Frame) -> Iterator[None]:
    """Inside a comprehension nothing may have effects."""
    token, f.world.token = f.world.token, None
    try:
        yield
    finally:
        f.world.token = token


def axes_of(f: Frame, binders: list[Bound]) -> tuple[anf.Axis, ...]:
    return tuple([f.emitter.axis(b.size, b.name) for b in binders])


def comprehension(f: Frame, c: core.Comprehension) -> Value:
    """An array over the axes of the binders; with a condition, of the points where it holds."""
    e = f.emitter
    binders = [bound(f, b) for b in c.binders]
    for b in binders:
        e.checked_size(b.size, "the size of a comprehension")
    if c.condition is not None:
        return filtered(f, c, binders)
    axes = axes_of(f, binders)
    index = tuple([poly(a.var) for a in axes])
    with pure(f), e.block() as lets:
        for b, at in zip(binders, index, strict=True):
            b.bind(f, at)
        value = f.eval(c.element)
    return collect(f, axes, lets, value)


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
    outside = {a.var for a in axes}
    for p in parts:
        if isinstance(p.type, anf.Array) and any(s.mentions(outside | defined(lets)) for s in p.type.shape):
            raise unsupported("a comprehension whose elements differ in size", e.span)
    if any(isinstance(let.op, anf.For | anf.While | anf.Call | anf.Vjp | anf.Library) for let in lets):
        return sequential(f, axes, lets, value)
    made: list[anf.Var] = []
    for p in parts:
        if isinstance(p.type, Scalar):
            body, at = lets, axes
            (out,) = e.comp(at, body, (p,), (Keep(shape, index, "set"),), (p.type.dtype,))
        else:
            assert isinstance(p.type, anf.Array) and isinstance(p, anf.Var)
            inner = tuple([e.axis(s, "j") for s in p.type.shape])
            with e.block() as body:
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
        return Many(shape + value.shape, arrays(value.element, iter(outs)))
    return Many(shape, arrays(value, iter(outs)))


def arrays(value: Value, outs: Iterator[anf.Var]) -> Value:
    """The structure of `value`, scalars too replaced by arrays."""
    return rebuild(as_arrays(value), outs)


def as_arrays(value: Value) -> Value:
    placeholder = fresh("a", anf.Array("f64", (poly(0),)))
    match value:
        case ScalarV():
            return ArrayV(placeholder)
        case TupleV(items):
            return TupleV(tuple([as_arrays(i) for i in items]))
        case DataV(decl, fields):
            return DataV(decl, tuple([as_arrays(x) for x in fields]))
        case EnumV():
            return value.map(as_arrays)
        case Many(shape, element):
            return Many(shape, as_arrays(element))
        case _:
            return value


def sequential(f: Frame, axes: tuple[anf.Axis, ...], lets: list[Let], value: Value) -> Value:
    """Elements that are arrays made by loops or calls: each point runs once, and its rows are stored in turn."""
    e = f.emitter
    shape = tuple([a.highs[0] for a in axes])
    parts = list(leaves(value))
    state: list[anf.Var] = []
    for p in parts:
        assert isinstance(p.type, Scalar | anf.Array)
        own = p.type.shape if isinstance(p.type, anf.Array) else ()
        state.append(zeros(f, shape + own, p.type.dtype))

    def nest(depth: int, current: list[anf.Var]) -> list[anf.Var]:
        if depth == len(axes):
            e.lets.extend(lets)
            index = tuple([poly(a.var) for a in axes])
            return [stored(f, c, index, p) for c, p in zip(current, parts, strict=True)]
        params = tuple([fresh(c.name, c.type) for c in current])
        with e.block() as body:
            results = nest(depth + 1, list(params))
        loop = anf.For(
            axes[depth].var,
            poly(0),
            axes[depth].highs[0],
            params,
            tuple(current),
            anf.Block(tuple(body), tuple(results)),
        )
        return list(e.emit(loop, *[c.type for c in current], name="rows"))

    return gathered(value, nest(0, state), shape)


def stored(f: Frame, array: anf.Var, index: tuple[Size, ...], part: Atom) -> anf.Var:
    e = f.emitter
    assert isinstance(array.type, anf.Array)
    if isinstance(part.type, Scalar):
        return e.emit(anf.Update(array, index, part), array.type, name=array.name)[0]
    assert isinstance(part, anf.Var) and isinstance(part.type, anf.Array)
    inner = tuple([e.axis(s, "j") for s in part.type.shape])
    where = tuple([poly(a.var) for a in inner])
    with e.block() as lets:
        x = e.read(part, where)
    keep = Keep(array.type.shape, index + where, "set", array)
    return e.comp(inner, lets, (x,), (keep,), (array.type.dtype,), array.name)[0]


def zeros(f: Frame, shape: tuple[Size, ...], dtype: str) -> anf.Var:
    return filled(f, shape, zero(dtype))


def zero(dtype: str) -> Lit:
    if dtype == "bool":
        return Lit(False, dtype)
    if dtype == "str":
        return Lit("", dtype)
    return Lit(0.0 if dtype in anf.FLOATS else 0, dtype)


def filled(f: Frame, shape: tuple[Size, ...], x: Atom) -> anf.Var:
    e = f.emitter
    assert isinstance(x.type, Scalar)
    axes = tuple([e.axis(s) for s in shape])
    keep = Keep(shape, tuple([poly(a.var) for a in axes]), "set")
    return e.comp(axes, [], (x,), (keep,), (x.type.dtype,))[0]


def filtered(f: Frame, c: core.Comprehension, binders: list[Bound]) -> Value:
    """The points where the condition holds, found first; then the elements at those points."""
    e = f.emitter
    assert c.condition is not None
    axes = axes_of(f, binders)
    index = tuple([poly(a.var) for a in axes])
    with pure(f), e.block() as lets:
        for b, at in zip(binders, index, strict=True):
            b.bind(f, at)
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
    with pure(f), e.block() as lets:
        position = e.read(where, (poly(axis.var),))
        assert isinstance(position, anf.Var)
        for b, at in zip(binders, unravelled(f, position, shape), strict=True):
            b.bind(f, at)
        value = f.eval(c.element)
    return collect(f, (axis,), lets, value)


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


IDENTITY: dict[str, Callable[[str], Lit]] = {
    "sum": zero,
    "prod": lambda dtype: Lit(1.0 if dtype in anf.FLOATS else 1, dtype),
    "any": lambda dtype: Lit(False, dtype),
    "all": lambda dtype: Lit(True, dtype),
}


def reduction(f: Frame, monoid: str, c: core.Comprehension) -> Atom | None:
    """A reduction over all axes of a comprehension of scalars, without making its array; None if it can't be."""
    e = f.emitter
    if c.condition is not None and monoid not in IDENTITY:
        return None
    binders = [bound(f, b) for b in c.binders]
    axes = axes_of(f, binders)
    with pure(f), e.block() as lets:
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
    if monoid in ("max", "min", "argmax", "argmin"):
        nonempty(f, tuple([b.size for b in binders]), monoid)
    dtype = "i64" if monoid.startswith("arg") else value.dtype
    return e.comp(axes, lets, (value.atom,), (Keep((), (), monoid),), (dtype,), "r")[0]


def conditional(f: Frame, c: core.Comprehension, monoid: str) -> Value:
    """The element where the condition holds, else the identity."""
    e = f.emitter
    assert c.condition is not None
    holds = f.bool(c.condition)
    with e.block() as then:
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
