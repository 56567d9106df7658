"""Sums in an arm of a branch: a condition that compares axes becomes a bound of one of them.

    a = comp r in 0..n, c in 0..n {
      t = le(c, r)
      v = if t { s = comp e in 0..d { yield q[r, e] * k[c, e] } to keep [] [] sum; … } else { … }
      …
    } to keep [n, n] [r, c] set

becomes

    m = comp r in 0..n, c in 0..min(n, r + 1), e in 0..d { yield q[r, e] * k[c, e] } to keep [n, n] [r, c] sum
    a = comp r in 0..n, c in 0..n { t = le(c, r); v = if t { s = read m[r, c]; … } else { … }; … }

Such a sum has no place of its own among the axes, so each point would add it up for itself. Out of the arm it is done
in tiles (`codegen/tiles.py`), as a product of matrices without a condition is, at no more points than before; and so
are its adjoints. Where the condition says more than between which bounds an axis lies, the sum stays in its arm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import extent, sizes_named
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import free_vars, map_bodies, map_inner, with_lets
from dlang.ir.types import I64, dtype_of, is_float
from dlang.ops.monoids import COMBINE
from dlang.ops.primitives import GAPS, OPPOSITE
from dlang.optimize.write_out import are_few


def masked_sums(program: anf.Program) -> anf.Program:
    """The program with such sums done in front of the comprehensions that they are in."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    lets = [new for let in block.lets for new in _comp(let)]
    return with_lets(block, lets, block.results)


def _comp(let: anf.Let) -> Iterator[anf.Let]:
    """A let; in front of it, if it is a comprehension, the sums of the arms in its body."""
    op = let.op
    if not isinstance(op, anf.Comp) or not any(isinstance(inner.op, anf.If) for inner in op.body.lets):
        yield let
        return
    nest = _Nest(op)
    body: list[anf.Let] = []
    for inner in op.body.lets:
        if isinstance(inner.op, anf.If):
            arms: list[anf.Block] = []
            for arm, value in ((inner.op.then, True), (inner.op.otherwise, False)):
                sums, arm = nest.without_sums(arm, inner.op.condition, value)
                yield from sums
                arms.append(arm)
            then, otherwise = arms
            if then is not inner.op.then or otherwise is not inner.op.otherwise:
                inner = replace(inner, op=replace(inner.op, then=then, otherwise=otherwise))
        body.append(inner)
    body_after = with_lets(op.body, body, op.body.results)
    yield let if body_after is op.body else anf.Let(let.vars, replace(op, body=body_after), let.span)


@dataclass(frozen=True, slots=True)
class _Bound:
    """One of the axes of a comprehension, where a condition holds. others: the axes that its bounds mention then."""

    axis: anf.Axis
    others: frozenset[anf.Var]


class _Nest:
    """A comprehension with branches in its body."""

    def __init__(self, op: anf.Comp) -> None:
        self.axes = {a.var: a for a in op.axes}
        self.made = {v: inner for inner in op.body.lets for v in inner.vars}
        self.sizes = sizes_named(op.body)
        kept = [d for d in op.destinations if isinstance(d, anf.Reduce)]
        self.arrays = [{a for e in d.index if (a := e.atom) in self.axes} for d in kept]

    def without_sums(self, arm: anf.Block, condition: anf.Atom, value: bool) -> tuple[list[anf.Let], anf.Block]:
        """The sums of an arm, and the arm that reads them."""
        bound = self.bound(condition, value) if any(isinstance(let.op, anf.Comp) for let in arm.lets) else None
        if bound is None:
            return [], arm
        local = {*self.made, *(v for let in arm.lets for v in let.vars)}
        sums: list[anf.Let] = []
        lets: list[anf.Let] = []
        for let in arm.lets:
            found = self.sum(let, bound, local)
            if found is not None:
                sums.append(found[0])
            lets.append(let if found is None else found[1])
        return sums, with_lets(arm, lets, arm.results)

    def bound(self, condition: anf.Atom, value: bool) -> _Bound | None:
        """The axis that lies between bounds just where a condition has a value; None if there is none such."""
        gaps = self.gaps(condition, value)
        if not gaps:
            return None
        order = list(self.axes)
        last = max((order.index(a) for g in gaps for a in g.atoms() if a in self.axes), default=-1)
        if last < 0:
            return None
        axis = self.axes[order[last]]
        lows, highs = list(axis.lows), list(axis.highs)
        for gap in gaps:
            if not gap.is_linear(axis.var) or (step := gap.coefficient(axis.var).constant) not in (1, -1):
                return None
            rest = gap.without(axis.var)
            if step == 1:
                lows.append(-rest)
            else:
                highs.append(rest + 1)
        others = frozenset(a for g in gaps for a in g.atoms() if a in self.axes and a is not axis.var)
        return _Bound(replace(axis, lows=tuple(lows), highs=tuple(highs)), others) if others else None

    def gaps(self, condition: anf.Atom, value: bool) -> list[anf.Size] | None:
        """The numbers that are not below 0 just where a condition has a value; None if it is no comparison of axes."""
        match self.made[condition].op if isinstance(condition, anf.Var) and condition in self.made else None:
            case anf.Prim("not", (a,)):
                return self.gaps(a, not value)
            case anf.Prim("and" | "or" as name, (a, b)) if value == (name == "and"):
                left, right = self.gaps(a, value), self.gaps(b, value)
                return None if left is None or right is None else [*left, *right]
            case anf.Prim(name, (a, b)) if name in GAPS and a.type == I64:
                x, y = self.number(a), self.number(b)
                sign, less = GAPS[name if value else OPPOSITE[name]]
                return None if x is None or y is None else [(y - x) * sign + less]
            case _:
                return None

    def number(self, atom: anf.Atom) -> anf.Size | None:
        """A number as a polynomial of the axes and of what is known in front of the comprehension."""
        size = self.sizes.get(atom, anf.poly(atom)) if isinstance(atom, anf.Var) else anf.poly(atom)
        return None if size.mentions(self.made) else size

    def sum(self, let: anf.Let, bound: _Bound, local: Set[anf.Var]) -> tuple[anf.Let, anf.Let] | None:
        """A sum of an arm, over the points at which it is needed, and the let that reads it; None for anything else."""
        op = let.op
        if not isinstance(op, anf.Comp) or len(let.vars) != 1 or not is_float(let.vars[0].type):
            return None
        (d,) = op.destinations
        if (
            not isinstance(d, anf.Reduce)
            or d.shape
            or d.monoid not in COMBINE
            or not all(i.op.IS.point for i in op.body.lets)
        ):
            return None
        used = {v for v in free_vars(op) if v in self.axes} | bound.others | {bound.axis.var}
        axes = [bound.axis if a is bound.axis.var else self.axes[a] for a in self.axes if a in used]
        if not self.serves(op, bound) or not local.isdisjoint(free_vars(op)):
            return None
        if not any(used <= array for array in self.arrays) or are_few(op.axes) or _depend(op.axes, self.axes):
            return None
        shape = [extent(self.axes[a.var]) for a in axes]
        if any(size is None or size.mentions(self.axes) for size in shape):
            return None
        sizes = tuple([size for size in shape if size is not None])
        index = tuple([anf.poly(a.var) for a in axes])
        whole = anf.Comp((*axes, *op.axes), op.body, (anf.Reduce(sizes, index, d.monoid),))
        array = anf.fresh("sums", anf.Array(dtype_of(let.vars[0]), sizes))
        renamed = Renaming({}, renew=True).op(whole)
        return anf.Let((array,), renamed, let.span), anf.Let(let.vars, anf.Read(array, index), let.span)

    def serves(self, op: anf.Comp, bound: _Bound) -> bool:
        """Tells whether what is read for one axis serves several points of another one, as in a product of matrices."""
        reads = [set(free_vars(i.op)) for i in op.body.lets if isinstance(i.op, anf.Read)]
        column = bound.axis.var
        return any(any(column in r and a not in r for r in reads) and any(a in r for r in reads) for a in bound.others)


def _depend(axes: Iterable[anf.Axis], around: Iterable[anf.Var]) -> bool:
    """Tells whether bounds of axes mention axes around."""
    return any(b.mentions(set(around)) for a in axes for b in (*a.lows, *a.highs))
