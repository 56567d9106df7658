"""Factors of the terms of a sum that depend on fewer axes are multiplied by themselves: c[k, j] · x[j] / t[j] is
c[k, j] · (x[j] / t[j]).

So a term is a product of as few numbers of all of its axes as there are, as one would write it who counts, and so are
its derivatives: what is made of the factors of one axis, and the tangent and the cotangent of that, is computed once
for each point of that axis. A product of arrays is found in any order of its factors, but of what a derivative makes
of the other order more numbers depend on all axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.affine import dependencies
from dlang.ir.traverse import map_blocks, map_bodies, parts, with_lets, with_op
from dlang.ir.types import is_float

MOST = 24  # factors of a term


def factors(program: anf.Program) -> anf.Program:
    """The program with the factors of the terms of its sums in such an order."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    lets: list[anf.Let] = []
    for let in block.lets:
        op = map_blocks(let.op, _block)
        if isinstance(op, anf.Comp) and len(op.axes) > 1:
            op = _ordered(op)
        lets.append(with_op(let, let.vars, op))
    return with_lets(block, lets, block.results)


def _ordered(op: anf.Comp) -> anf.Comp:
    depends = dependencies(op.body.lets, op.axes)
    defined = {v: let.op for let in op.body.lets for v in let.vars}
    uses = Counter(a for let in op.body.lets for a in parts(let.op).atoms)
    uses.update(op.body.results)
    lets, results = list(op.body.lets), list(op.body.results)
    for k, d in enumerate(op.destinations):
        if not isinstance(d, anf.Reduce) or d.monoid != "sum" or not _adds(op, d) or not is_float(results[k].type):
            continue
        if isinstance(results[k].type, anf.Scalar):
            term = _Term(depends, defined, uses)
            term.take(results[k])
            if (ordered := term.ordered()) is not None:
                more, results[k] = ordered
                lets += more
    if len(lets) == len(op.body.lets):
        return op
    return replace(op, body=anf.Block(tuple(lets), tuple(results)))


def _adds(op: anf.Comp, d: anf.Reduce) -> bool:
    """Tells whether several points of a comprehension meet in an element."""
    return any(not any(e.mentions((axis.var,)) for e in d.index) for axis in op.axes)


@dataclass(slots=True)
class _Group:
    """Factors that depend on the same axes, and divisors."""

    factors: list[anf.Atom] = field(default_factory=list)
    divisors: list[anf.Atom] = field(default_factory=list)


@dataclass(slots=True)
class _Term:
    """A product, taken apart. whole: how many of its operations depend on all axes that it depends on."""

    depends: dict[anf.Var, set[anf.Var]]
    defined: dict[anf.Var, anf.Op]
    uses: Counter[anf.Atom]
    groups: dict[frozenset[anf.Var], _Group] = field(default_factory=dict)
    negate: bool = False
    made: list[frozenset[anf.Var]] = field(default_factory=list)
    dtype: anf.Type = field(default_factory=lambda: anf.Scalar("f64"))

    def axes(self, a: anf.Atom) -> frozenset[anf.Var]:
        return frozenset(self.depends.get(a, ())) if isinstance(a, anf.Var) else frozenset()

    def take(self, value: anf.Atom) -> None:
        self.dtype = value.type
        work = [(value, False)]
        while work:
            a, divides = work.pop()
            op = self.defined.get(a) if isinstance(a, anf.Var) and self.uses[a] == 1 else None
            match op:
                case anf.Prim("mul", (x, y)) if not divides and len(self.made) < MOST:
                    work += [(y, False), (x, False)]
                    self.made.append(self.axes(a))
                case anf.Prim("div", (x, y)) if not divides and len(self.made) < MOST:
                    work += [(y, True), (x, False)]
                    self.made.append(self.axes(a))
                case anf.Prim("neg", (x,)) if not divides:
                    self.negate = not self.negate
                    work.append((x, False))
                case _:
                    group = self.groups.setdefault(self.axes(a), _Group())
                    (group.divisors if divides else group.factors).append(a)

    def ordered(self) -> tuple[list[anf.Let], anf.Atom] | None:
        """The code of the product in the better order, if there is one, and its value."""
        every = frozenset().union(*self.groups)
        for axes in sorted(self.groups, key=len):
            larger = [g for g in self.groups if axes < g < every]
            if larger:
                home, group = self.groups[min(larger, key=len)], self.groups.pop(axes)
                home.factors += group.factors
                home.divisors += group.divisors
        whole = self.groups.pop(every, _Group())
        apart = [g for g in self.groups.values() if g.factors]
        left = [d for g in self.groups.values() if not g.factors for d in g.divisors]
        count = max(len(whole.factors) + len(apart) - 1, 0) + len(whole.divisors) + len(left)
        if (not whole.factors and not apart) or count >= self.made.count(every):
            return None
        lets: list[anf.Let] = []
        values = [self._product(lets, g.factors, g.divisors) for g in apart]
        value = self._product(lets, [*whole.factors, *values], [*whole.divisors, *left])
        if self.negate:
            value = self._emit(lets, "neg", value)
        return lets, value

    def _product(self, lets: list[anf.Let], factors: Sequence[anf.Atom], divisors: Sequence[anf.Atom]) -> anf.Atom:
        value, *others = factors
        for x in others:
            value = self._emit(lets, "mul", value, x)
        for x in divisors:
            value = self._emit(lets, "div", value, x)
        return value

    def _emit(self, lets: list[anf.Let], name: str, *args: anf.Atom) -> anf.Var:
        var = anf.fresh("t", self.dtype)
        lets.append(anf.Let((var,), anf.Prim(name, args)))
        return var
