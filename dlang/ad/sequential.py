"""A comprehension as nested loops that update their results: the form whose adjoint always exists.

Used where the adjoint has no parallel form, such as loops over arrays inside of the body. The cost stays in
proportion; products use it too, because the adjoint of the running product has no division and is exact at zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlang.ad.scope import Scope
from dlang.ir.anf import (
    Add,
    Array,
    Atom,
    Axis,
    Block,
    Comp,
    Destination,
    For,
    Let,
    Lit,
    Read,
    Size,
    Var,
    fresh,
    poly,
)
from dlang.ir.traverse import Renaming
from dlang.ir.types import I64, dtype_of

_COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "set": 0.0}


def sequential(let: Let, op: Comp, chosen: Sequence[int], scope: Scope) -> list[Let]:
    """The results `chosen`, active ones, computed by loops; the others, if any, by the comprehension as before."""
    b = scope.b
    others = [k for k in range(len(let.vars)) if k not in chosen]
    lets: list[Let] = []
    if others:
        rest = Comp(
            op.axes,
            Block(op.body.lets, tuple(op.body.results[k] for k in others)),
            tuple(op.destinations[k] for k in others),
        )
        lets.append(Let(tuple(let.vars[k] for k in others), rest, let.span))
    renaming = Renaming({}, fresh=True)
    destinations = [op.destinations[k] for k in chosen]
    with b.scope() as emitted:
        init: list[Atom] = []
        for k, d in zip(chosen, destinations, strict=True):
            identity = Lit(_IDENTITY[_monoid(d)], dtype_of(let.vars[k]))
            init.append(d.into if d.into is not None else b.full(d.shape, identity) if d.shape else identity)
        loop = _nest(scope, op, chosen, list(op.axes), init, renaming)
        final = Let(tuple(let.vars[k] for k in chosen), loop, let.span)
    for old, new in renaming.env.items():
        if old in scope.active and isinstance(new, Var):
            scope.active.add(new)
    return [*lets, *emitted, final]


def _monoid(d: Destination) -> str:
    return "sum" if isinstance(d, Add) else d.monoid


def _nest(
    scope: Scope, op: Comp, chosen: Sequence[int], axes: list[Axis], init: Sequence[Atom], renaming: Renaming
) -> For:
    """The loop over the first of `axes`, around those over the others."""
    b = scope.b
    axis, *inner = axes
    low, high = _bound(scope, axis.lows, "maximum", renaming), _bound(scope, axis.highs, "minimum", renaming)
    index = fresh(axis.var.name, I64)
    renaming.env[axis.var] = index
    params = tuple(fresh(a.name if isinstance(a, Var) else "acc", a.type) for a in init)
    scope.active.update(params)
    with b.scope() as lets:
        if inner:
            loop = _nest(scope, op, chosen, inner, params, renaming)
            results: tuple[Atom, ...] = tuple(fresh(p.name, p.type) for p in params)
            scope.active.update(r for r in results if isinstance(r, Var))
            b.emit_as([r for r in results if isinstance(r, Var)], loop)
        else:
            for let in op.body.lets:
                b.append(renaming.let(let))
            results = tuple(
                _combined(scope, op.destinations[k], p, renaming.atom(op.body.results[k]), renaming)
                for k, p in zip(chosen, params, strict=True)
            )
    return For(index, low, high, params, tuple(init), Block(tuple(lets), results))


def _bound(scope: Scope, bounds: Sequence[Size], primitive: str, renaming: Renaming) -> Size:
    b = scope.b
    sizes = [renaming.size(s) for s in bounds]
    if len(sizes) == 1:
        return sizes[0]
    value = b.size(sizes[0])
    for size in sizes[1:]:
        value = b.prim(primitive, value, b.size(size))
    return poly(value)


def _combined(scope: Scope, d: Destination, acc: Var, value: Atom, renaming: Renaming) -> Atom:
    """The next state: acc with `value` combined into the element at the destination's index."""
    b, monoid = scope.b, _monoid(d)
    index = tuple(renaming.size(e) for e in d.index)
    if monoid == "set":
        new = value
    else:
        old: Atom = acc
        if isinstance(acc.type, Array):
            old = b.one(Read(acc, index))
            scope.active.add(old)
        new = b.prim(_COMBINE[monoid], old, value)
        scope.active.add(new)
    if not isinstance(acc.type, Array):
        return new
    out = b.update(acc, index, new)
    scope.active.add(out)
    return out
