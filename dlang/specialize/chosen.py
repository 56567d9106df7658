"""The binders of a comprehension whose ranges have one length each, whatever the binders before chose."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ir.anf import poly
from dlang.specialize.analysis import mentioned
from dlang.specialize.binders import (
    Bound,
    Index,
    axes_of,
    axis_of,
    bind_all,
    bound,
    chosen,
    inside,
    is_part,
    with_chosen,
)
from dlang.specialize.elements import collect
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.indexing import Element, select
from dlang.specialize.patterns import bind_pattern
from dlang.typecheck import core
from dlang.typecheck.trees import binder_children, pattern_locals


def bounds(f: Frame, binders: Sequence[core.Binder], kept: bool = False) -> list[Bound]:
    """The binders in order. `for row in m, v in row`: what a later one ranges over may be what an earlier one chose.

    kept: whether each is an axis of an array.
    """
    out: list[Bound] = []
    for k, (b, later) in enumerate(with_chosen(binders)):
        found = chosen_bound(f, b, binders[:k], out) if later else bound(f, b)
        out.append(axis_of(f, found) if kept else found)
    return out


def chosen_bound(f: Frame, b: core.Binder, before: Sequence[core.Binder], found: Sequence[Bound]) -> Bound:
    """A binder whose range depends on the place, but not how long it is.

    An array that has to be computed is computed once at each place of the binders before, not once for each element.
    """
    if not f.knows(b.size):
        raise unsupported("a range that differs from element to element of a comprehension", b.span)
    here, size = chosen(f, b), f.size(b.size)
    if is_part(b):
        return Bound(size, "i", lambda g, at: here.at(g, at[:-1]).bind(g, at))
    assert isinstance(b, core.Each)
    pattern = b.pattern
    depth = len(before) if here.drawn is not None else last_mentioned(b, before) + 1
    places = found[:depth]
    axes = axes_of(f, places)
    index = [poly(a.var) for a in axes]
    with f.block() as lets, inside(f, None, ()):
        bind_all(f, places, index)
        arrays = here.array(f, index)
    values = collect(f, axes, lets, arrays)

    def bind(g: Frame, at: Index) -> None:
        bind_pattern(g, pattern, select(g, values, [Element(i) for i in (*at[:depth], at[-1])]))

    return Bound(size, "i", bind)


def last_mentioned(b: core.Binder, before: Sequence[core.Binder]) -> int:
    """The last of the binders before that a range mentions."""
    own = {n for source in binder_children(b) for n in mentioned(source)}
    names = [{x.local} if isinstance(x, core.Count) else set(pattern_locals(x.pattern)) for x in before]
    return max(k for k, bound_here in enumerate(names) if own & bound_here)
