"""Reductions over all axes of a comprehension, without making its array."""

from __future__ import annotations

from dataclasses import replace

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Reduce, Scalar, Size, poly
from dlang.ops.monoids import CHOOSING, MONOIDS, identity, result_dtype
from dlang.specialize.arith import reduce_axes
from dlang.specialize.binders import (
    acts,
    axes_of,
    bind_all,
    inside,
    is_part,
    open_variables,
    places_of,
    with_chosen,
)
from dlang.specialize.chosen import bounds
from dlang.specialize.elements import collect
from dlang.specialize.emitter import TRUE
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.values import ArrayV, ScalarV, Value
from dlang.typecheck import core, types as ty

I64_TYPE = ty.TypeCon("i64")


def reduction(f: Frame, monoid: str, c: core.Comprehension, nested: bool = False, check: bool = True) -> Atom | None:
    """A reduction over all axes of a comprehension of scalars, without making its array; None if it can't be.

    nested: it is part of another, so it may be of nothing. check: whether a `max` of nothing ends the run.
    """
    e = f.emitter
    element = f.erasing().mono(c.element.type)
    filters = MONOIDS[monoid].has_empty and isinstance(element, Scalar)
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
    with f.block() as lets, inside(f, places, [a.var for a in axes]):
        bind_all(f, binders, [poly(a.var) for a in axes])
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
    if not MONOIDS[monoid].has_empty and check:
        nonempty(f, tuple([b.size for b in binders]), monoid)
    dtype = result_dtype(monoid, value.dtype)
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


def conditional(f: Frame, c: core.Comprehension, monoid: str) -> Value:
    """The element where the condition holds, else the identity."""
    e = f.emitter
    assert c.condition is not None
    holds = f.bool(c.condition)
    with f.block() as then:
        value = f.eval(c.element)
    if not isinstance(value, ScalarV):
        raise unsupported("a reduction with `if` over arrays", e.span)
    otherwise = Lit(identity(monoid, value.dtype), value.dtype)
    op = anf.If(holds, anf.Block(tuple(then), (value.atom,)), anf.Block((), (otherwise,)))
    return ScalarV(e.emit(op, value.atom.type)[0])


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
