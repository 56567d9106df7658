"""Comprehensions: an array of what is computed at every point."""

from __future__ import annotations

from dlang.ir.anf import Size, poly
from dlang.specialize.binders import acts, axes_of, bind_all, open_variables, places_of
from dlang.specialize.chosen import bounds
from dlang.specialize.elements import elements
from dlang.specialize.filters import filtered
from dlang.specialize.frame import Frame
from dlang.specialize.in_order import in_order
from dlang.specialize.values import Value
from dlang.typecheck import core


def comprehension(f: Frame, c: core.Comprehension) -> Value:
    """An array over the axes of the binders; with a condition, of the points where it holds."""
    if acts(f, c):
        return in_order(f, c)
    if c.condition is not None:
        return filtered(f, c)
    open_variables(f, c)
    binders = bounds(f, c.binders, kept=True)
    axes = axes_of(f, binders)
    index = [poly(a.var) for a in axes]

    def enter() -> list[Size]:
        bind_all(f, binders, index)
        return index

    return elements(f, c.element, axes, enter, places_of(f, c))
