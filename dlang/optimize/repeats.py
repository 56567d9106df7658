"""Reads of arrays that repeat one value, or elements of another array along some axes, as that value or reads of that
other array.

    a[i, j] = t[i]
    s[i] = sum(a[i, j] * x[i] for j)    becomes    s[i] = sum(t[i] * x[i] for j)

What is computed then depends on fewer axes, and may have its place among these. Where it depends on as many, the array
stays: fusion knows whether it has to be there.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import point_of
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import substitute
from dlang.ir.traverse import mentioned, op_blocks, walk


class Repeats(Rewriter):
    """A walk that reads elements which are repeated where they come from.

    changing: arrays that something consumes. places: of arrays that repeat elements, what each of their elements is.
    values: those of which every element is one value.
    """

    __slots__ = ("changing", "places", "values")

    def __init__(self, changing: Container[anf.Var]) -> None:
        super().__init__()
        self.changing = changing
        self.places: dict[anf.Var, tuple[tuple[anf.Var | None, ...], anf.Read]] = {}
        self.values: dict[anf.Var, anf.Atom] = {}

    def note(self, let: anf.Let) -> None:
        """Notes which results of a let repeat one value, or elements of an array that stays as it is."""
        if not isinstance(comp := let.op, anf.Comp):
            return
        reads = {inner.vars[0]: inner.op for inner in comp.body.lets if isinstance(inner.op, anf.Read)}
        axes = {a.var for a in comp.axes}
        inside = axes.union(*[inner.vars for inner in comp.body.lets])
        for k, (var, value) in enumerate(zip(let.vars, comp.body.results, strict=True)):
            if value not in inside and isinstance(value.type, anf.Scalar) and point_of(comp, k) is not None:
                self.values[var] = value
            read = reads.get(value) if isinstance(value, anf.Var) else None
            if read is None or read.array in inside or read.array in self.changing:
                continue
            entries = point_of(comp, k)
            named = {a for entry in read.index for a in entry.atoms() if a in inside}
            if entries is not None and named < axes and named.issubset(entries):
                self.places[var] = entries, read

    def rule(self, let: anf.Let) -> None:
        if isinstance(let.op, anf.Read) and let.op.array in self.values:
            self.env[let.vars[0]] = self.values[let.op.array]
        else:
            super().rule(let)

    def op(self, op: anf.Op) -> anf.Op:
        if isinstance(op, anf.Read) and (place := self.places.get(op.array)) is not None:
            entries, read = place
            at = {axis: entry for axis, entry in zip(entries, op.index, strict=True) if axis is not None}
            return replace(read, index=tuple([substitute(entry, at) for entry in read.index]))
        return super().op(op)

    def block(self, block: anf.Block) -> anf.Block:
        return block if self.untouched(block, self.places, self.values) else super().block(block)

    def rewritten(self, let: anf.Let) -> anf.Let:
        """The let with such reads replaced, if it is a comprehension in which less depends on an axis then."""
        if not (self.places or self.values) or not isinstance(let.op, anf.Comp):
            return let
        new = self.let(let)
        self.env.clear()
        return new if new is not let and _axes_used(new.op) < _axes_used(let.op) else let


def _axes_used(op: anf.Op) -> set[anf.Var]:
    """The axes of an operation, and of those in it, that the code at their points mentions."""
    comps = [x for x in (op, *[let.op for b in op_blocks(op) for let in walk(b)]) if isinstance(x, anf.Comp)]
    return {a.var for comp in comps for a in comp.axes} & {v for comp in comps for v in mentioned(comp.body)}
