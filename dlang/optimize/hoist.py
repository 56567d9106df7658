"""Code that does not change in a loop, or over the points of a comprehension, moves in front of it.

Only total code moves, as the loop may not run at all: arithmetic, reads and views that are in range whatever runs,
products, factors of matrices, and comprehensions made of these; of a comprehension the results that do not change, if
others do.
A check that is the same in every iteration moves out of a loop of numbered iterations, and holds if there are none, and
out of a comprehension that surely has points, where nothing that an iteration does before may fail, act or go on for
ever: the first iteration would have failed so. Out of comprehensions only scalars move. What is consumed in the loop
stays, or it would be copied in every iteration.
An element of an array of which all elements have become one value is that value, which may leave the next loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dlang.ir import anf
from dlang.ir.comprehension_queries import extent, filled, surely_inside, surely_total, taken_apart
from dlang.ir.rewriting import Rewriter
from dlang.ir.traverse import (
    bound_vars,
    map_blocks,
    map_bodies,
    mentioned,
    parts,
    type_vars,
    with_lets,
)
from dlang.optimize.effects import acts, consumed_by
from dlang.optimize.lifting import asked_before, asks


def hoist(program: anf.Program) -> anf.Program:
    """The program with invariant code as far out as it may run."""
    return map_bodies(program, hoisted)


def hoisted(block: anf.Block) -> anf.Block:
    """The block with invariant code as far out as it may run."""
    return _Hoister().block(block)


class _Hoister(Rewriter):
    """The walk of a function. around: the indices of the loops around, which are within their bounds here.

    fills: arrays of which all elements are one value.
    """

    def __init__(self) -> None:
        super().__init__()
        self.around: tuple[anf.Axis, ...] = ()
        self.fills: dict[anf.Atom, anf.Atom] = {}

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Read(array) if (value := self.fills.get(self.atom(array))) is not None:
                self.env[let.vars[0]] = value
                return
            case anf.For() | anf.While() | anf.Comp() as loop:
                op = self.loop(loop)
            case op:
                op = self.op(op)
        self.keep(let, op)
        if isinstance(op, anf.Comp):
            self.fills.update(filled(op, self.lets[-1].vars))

    def loop(self, op: anf.For | anf.While | anf.Comp) -> anf.Op:
        """A loop without what does not change in it, which is written in front of it."""
        outer = self.around
        self.around = (*outer, *self.axes(op))
        new = self.op(op)
        self.around = outer
        bound, arrays, count = parts(new).binds, not isinstance(op, anf.Comp), _count(new)
        return map_blocks(new, lambda block: self.split(block, set(bound), arrays, count))

    def axes(self, op: anf.For | anf.While | anf.Comp) -> Sequence[anf.Axis]:
        """The indices of a loop, in terms of what replaces variables."""
        match op:
            case anf.For(index, low, high):
                return (anf.Axis(index, (self.size(low),), (self.size(high),)),)
            case anf.While():
                return ()
            case anf.Comp():
                if not self.env:
                    return op.axes
                return [anf.Axis(a.var, tuple(map(self.size, a.lows)), tuple(map(self.size, a.highs))) for a in op.axes]

    def split(self, block: anf.Block, inside: set[anf.Var], arrays: bool, count: anf.Size | None) -> anf.Block:
        """Writes the lets of a body that depend on nothing bound `inside`; returns the rest.

        count: how often the body runs, if that is known before.
        """
        consumed = {v for let in block.lets for v in consumed_by(let.op)}
        stay: list[anf.Let] = []
        calm = count is not None and any(isinstance(let.op, anf.Assert) for let in block.lets)  # else nobody asks
        for let in (
            part for whole in block.lets for part in (_apart(whole, inside, self.around) if arrays else [whole])
        ):
            used = mentioned(let.op) + [v for var in let.vars for v in type_vars(var.type)]
            free = inside.isdisjoint(used)
            if free and _total(let.op, arrays, self.around) and consumed.isdisjoint(let.vars):
                self.write(let)
            elif free and count is not None and isinstance(let.op, anf.Assert) and asks(let, let.op) and calm:
                some = count.constant is not None and count.constant > 0
                for new in asked_before(let, let.op, count, some):
                    self.write(new)
            else:
                calm = calm and not acts(let)
                inside.update(let.vars)
                inside.update(bound_vars(let.op))
                stay.append(let)
        return with_lets(block, stay, block.results)


def _count(op: anf.Op) -> anf.Size | None:
    """How often the body of a loop over numbers runs, or that of a comprehension with a known number of points."""
    match op:
        case anf.For(_, low, high):
            return high - low
        case anf.Comp(axes):
            sizes = [extent(axis) for axis in axes]
            known = [size for size in sizes if size is not None and (size.constant or 0) > 0]
            return prod(known, start=anf.poly(1)) if len(known) == len(axes) else None
        case _:
            return None


def _apart(let: anf.Let, inside: set[anf.Var], around: tuple[anf.Axis, ...]) -> list[anf.Let]:
    """A comprehension of which some results depend on nothing bound `inside`: these alone, and the others."""
    op = let.op
    if not isinstance(op, anf.Comp) or len(let.vars) < 2:
        return [let]
    depends = set(inside)
    for inner in op.body.lets:
        if any(v in depends for v in mentioned(inner.op)):
            depends.update(inner.vars)
    bounds = {v for a in op.axes for b in (*a.lows, *a.highs) for v in b.atoms()}
    groups: dict[bool, list[int]] = {}
    for k, (result, d) in enumerate(zip(op.body.results, op.destinations, strict=True)):
        used = bounds | {v for e in (*d.shape, *d.index) for v in e.atoms()} | {v for v in (result, d.into) if v}
        groups.setdefault(any(v in depends for v in used), []).append(k)
    simple = all(_total(inner.op, True, (*around, *op.axes)) for inner in op.body.lets)
    if len(groups) == 1 or not simple:
        return [let]
    return taken_apart(let, (groups[False], groups[True]))


def _total(op: anf.Op, arrays: bool, axes: Sequence[anf.Axis]) -> bool:
    """Tells whether an operation may run where it did not before."""
    match op:
        case anf.Contract() | anf.LinalgOp() | anf.Reshape() | anf.Concat() | anf.Scan():
            return arrays
        case anf.View():
            return arrays and surely_inside(op, axes)
        case anf.Comp():
            scalars = all(not d.shape for d in op.destinations)
            if any(d.into is not None for d in op.destinations) or not (arrays or scalars):
                return False
            inner = (*axes, *op.axes)
            return all(_total(let.op, arrays, inner) for let in op.body.lets) and surely_inside(op, axes)
        case _:
            return surely_total(op, axes)
