"""Epilogues of products: a comprehension over the elements of a product runs on each block while it is in the cache.

    m = contract x w -> [n, k]                        loop over blocks of a
    a = comp i, j { max(0, m[i, j] + b[j]) }     →      block of a = x · w
                                                        loop over its elements: a[i, j] = max(0, a[i, j] + b[j])

The product is written to where the result is to be, unless something else reads it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Reduction, Store, Value
from dlang.codegen.memory import Place, frame_of
from dlang.codegen.nests import identity
from dlang.codegen.packing import Extent
from dlang.ir import anf
from dlang.ir.traverse import free_vars, mentioned, type_vars
from dlang.ir.writes import covers

SCALARS = frozenset("sum prod max min any all".split())
NEAR = 16  # lets after a product among which its reader is looked for


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A comprehension over the elements of a product. row, column: its axes that go along those of the product.

    places: of its results; None for a scalar, which all elements are combined to.
    """

    vars: tuple[anf.Var, ...]
    op: anf.Comp
    row: anf.Axis
    column: anf.Axis
    places: tuple[Place | None, ...]

    def emit(self, s: Scheduler, extent: Extent, whole: bool) -> list[Reduction]:
        """The comprehension on a block; gives what the block contributes to scalars. whole: it is the only one."""
        body = self.op.body
        with s.collect() as stmts:
            values = s.inline(body, [None] * len(body.results), frame_of(body))
            elements, sums = self._stores(values)
            stmts += elements
        joined = tuple([e.buffer for e in elements if e.monoid != "set"])
        with s.collect() as columns:
            s.loop(self.column.var, (extent.column,), (extent.column + extent.columns,), stmts, sums, joined)
        sums = self._of_loop(sums, whole)
        s.loop(self.row.var, (extent.row,), (extent.row + extent.rows,), columns, sums)
        return [] if whole else self._of_loop(sums, True)

    def _stores(self, values: Sequence[Value]) -> tuple[list[Store], list[Reduction]]:
        stores, sums = [], []
        for var, place, d, value in zip(self.vars, self.places, self.op.destinations, values, strict=True):
            assert isinstance(d, anf.Reduce) and isinstance(value, anf.Lit | anf.Var)
            if place is None:
                sums.append(Reduction(d.monoid, anf.fresh(var.name, var.type), value))
            else:
                monoid = "set" if _is_apart(d, self.op) else d.monoid
                stores.append(Store(place.buffer, place.at(d.index), value, monoid))
        return stores, sums

    def _of_loop(self, inside: Sequence[Reduction], last: bool) -> list[Reduction]:
        """Returns a loop's reductions of the scalars of the loop inside it; those of the last loop bind the results."""
        scalars = [var for var, place in zip(self.vars, self.places, strict=True) if place is None]
        results = scalars if last else [anf.fresh(var.name, var.type) for var in scalars]
        return [Reduction(r.monoid, result, r.result) for r, result in zip(inside, results, strict=True)]


def epilogue_of(s: Scheduler, product: anf.Var) -> Epilogue | None:
    """The comprehension that can run with a product, whose let is at hand; its results get their places.

    It is the first to read the product, and nothing in between gives it anything.
    """
    between: set[anf.Var] = set()
    block, position = s.at
    for k, let in enumerate(block.lets[position + 1 : position + 1 + NEAR], position + 1):
        if product in mentioned(let.op):
            axes = _axes(s, let, product, between)
            if axes is None:
                return None
            assert isinstance(let.op, anf.Comp)
            places = tuple([_place(s, var, d, product) for var, d in zip(let.vars, let.op.destinations, strict=True)])
            for place, d in zip(places, let.op.destinations, strict=True):
                if place is not None and isinstance(d, anf.Reduce) and not _is_apart(d, let.op):
                    s.fill(place, identity(d.monoid, place.buffer.dtype))
            s.finished.update(let.vars)
            last = s.memory.frames[-1].last_use.get(product, -1) == k
            if last and product not in s.parts and product not in s.wanted:
                _in_place(s, product, let, axes, places)
            return Epilogue(let.vars, let.op, *axes, places)
        between.update(let.vars)
    return None


def _axes(s: Scheduler, let: anf.Let, product: anf.Var, between: set[anf.Var]) -> tuple[anf.Axis, anf.Axis] | None:
    """The axes along the rows and columns of a product, if a let is a comprehension over its elements."""
    op = let.op
    if not isinstance(op, anf.Comp) or len(op.axes) != 2 or not s.copied.isdisjoint(let.vars):
        return None
    if any(var in s.parts or var in s.joined for var in let.vars):
        return None
    needed = set(free_vars(anf.Block((let,), ()))) | {v for var in let.vars for v in type_vars(var.type)}
    if not needed.isdisjoint(between) or not all(t.op.IS.point for t in op.body.lets):
        return None
    index = {t.op.index for t in op.body.lets if isinstance(t.op, anf.Read) and t.op.array is product}
    if len(index) != 1:
        return None
    axes = {axis.var: axis for axis in op.axes}
    entries = [axes.pop(entry.atom, None) if isinstance(entry.atom, anf.Var) else None for entry in index.pop()]
    row, column = entries if len(entries) == 2 else (None, None)
    assert isinstance(product.type, anf.Array)
    if row is None or column is None or not _is_whole((row, column), product.type):
        return None
    return (row, column) if all(_is_possible(d, op, column.var, product) for d in op.destinations) else None


def _place(s: Scheduler, var: anf.Var, d: anf.Destination, product: anf.Var) -> Place | None:
    """Returns the place of a result: the product's, if it is written there and that is known already."""
    if not isinstance(var.type, anf.Array):
        return None
    if d.into is product and product in s.wanted:
        s.wanted[var] = s.wanted[product]
    return s.target(var)


def _is_possible(d: anf.Destination, op: anf.Comp, column: anf.Var, product: anf.Var) -> bool:
    """Tells whether a destination is an element for each point, a sum for each column, or a scalar."""
    if not isinstance(d, anf.Reduce) or d.into not in (None, product):
        return False
    if not d.shape:
        return d.monoid in SCALARS
    if not covers(op.axes, d.shape, d.index):
        return False
    return _is_apart(d, op) or (d.monoid == "sum" and any(entry.atom is column for entry in d.index))


def _is_apart(d: anf.Reduce, op: anf.Comp) -> bool:
    """Tells whether each point has an element of its own."""
    return {entry.atom for entry in d.index} >= {axis.var for axis in op.axes}


def _is_whole(axes: Sequence[anf.Axis], type: anf.Array) -> bool:
    return all(
        axis.lows == (anf.poly(0),) and axis.highs == (size,) for axis, size in zip(axes, type.shape, strict=True)
    )


def _in_place(
    s: Scheduler, product: anf.Var, let: anf.Let, axes: tuple[anf.Axis, anf.Axis], places: Sequence[Place | None]
) -> None:
    """Has the product written to where a result is to be, if there is one with as many elements in the same order."""
    assert isinstance(let.op, anf.Comp) and isinstance(product.type, anf.Array)
    index = tuple([anf.poly(axis.var) for axis in axes])
    for var, d, place in zip(let.vars, let.op.destinations, places, strict=True):
        if place is None or place.start is None or not isinstance(d, anf.Reduce):
            continue
        if var.type == product.type and d.index == index:
            s.wanted[product] = place
            return
