"""Code that does not change in a loop, or over the points of a comprehension, moves in front of it.

Only total code moves, as the loop may not run at all: arithmetic, reads that are in range whatever runs, products,
factors of matrices, and comprehensions made of these; of a comprehension the results that do not change, if others do.
Out of comprehensions only scalars move. What is consumed in the loop stays, or it would be copied in every iteration.
An element of an array of which all elements have become one value is that value, which may leave the next loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.comprehension_queries import giving, point_of, surely_total
from dlang.ir.pruning import pruned
from dlang.ir.substitution import Renaming, substitute
from dlang.ir.traverse import bound_vars, map_blocks, map_bodies, mentioned, type_vars, with_lets, with_op
from dlang.optimize.effects import consumed_by


def hoist(program: anf.Program) -> anf.Program:
    """The program with invariant code as far out as it may run."""
    return map_bodies(program, _hoisted)


def _hoisted(body: anf.Block) -> anf.Block:
    moving = _Moving()
    out = moving.block(body, ())
    return substitute(out, moving.elements) if moving.elements else out


@dataclass(frozen=True, slots=True)
class _Moving:
    """fills: arrays of which all elements are one value. elements: what was read of them, and these values."""

    fills: dict[anf.Var, anf.Atom] = field(default_factory=dict)
    elements: dict[anf.Var, anf.Atom] = field(default_factory=dict)

    def block(self, block: anf.Block, around: tuple[anf.Axis, ...]) -> anf.Block:
        """around: the indices of the loops around, which are within their bounds here."""
        lets: list[anf.Let] = []
        for let in block.lets:
            if isinstance(let.op, anf.Read) and let.op.array in self.fills:
                self.elements[let.vars[0]] = self.fills[let.op.array]
                continue
            before, op = self.operation(let.op, around)
            lets += before
            lets.append(with_op(let, let.vars, op))
            if isinstance(op, anf.Comp):
                self.fill(op, let.vars)
        return with_lets(block, lets, block.results)

    def fill(self, op: anf.Comp, vars: Sequence[anf.Var]) -> None:
        inside = {*[a.var for a in op.axes], *[v for let in op.body.lets for v in let.vars]}
        for k, (var, value) in enumerate(zip(vars, op.body.results, strict=True)):
            one = self.known(value)
            row = isinstance(one, anf.Var) and isinstance(one.type, anf.Array)
            if one not in inside and not row and point_of(op, k) is not None:
                self.fills[var] = one

    def known(self, value: anf.Atom) -> anf.Atom:
        return self.elements.get(value, value) if isinstance(value, anf.Var) else value

    def operation(self, op: anf.Op, around: tuple[anf.Axis, ...]) -> tuple[list[anf.Let], anf.Op]:
        """Splits an operation into the lets that move in front of it, and what stays."""
        match op:
            case anf.For():
                body = self.block(op.body, (*around, anf.Axis(op.index, (op.low,), (op.high,))))
                before, body = self.split(body, {op.index, *op.params}, around, arrays=True)
                return before, map_blocks(op, lambda _: body)
            case anf.While():
                condition, body = self.block(op.condition, around), self.block(op.body, around)
                first, condition = self.split(condition, set(op.params), around, arrays=True)
                before, body = self.split(body, set(op.params), around, arrays=True)
                same = condition is op.condition and body is op.body
                return first + before, op if same else anf.While(op.params, op.init, condition, body, op.early)
            case anf.Comp():
                body = self.block(op.body, (*around, *op.axes))
                before, body = self.split(body, {axis.var for axis in op.axes}, around, arrays=False)
                return before, map_blocks(op, lambda _: body)
            case anf.If():
                return [], map_blocks(op, lambda b: self.block(b, around))
            case _:
                return [], op

    def split(
        self, block: anf.Block, inside: set[anf.Var], around: tuple[anf.Axis, ...], *, arrays: bool
    ) -> tuple[list[anf.Let], anf.Block]:
        """The lets of a body that depend on nothing bound `inside`, and the rest."""
        consumed = {v for let in block.lets for v in consumed_by(let.op)}
        moved: list[anf.Let] = []
        stay: list[anf.Let] = []
        for let in (part for whole in block.lets for part in (_apart(whole, inside, around) if arrays else [whole])):
            used = mentioned(let.op) + [v for var in let.vars for v in type_vars(var.type)]
            free = not any(self.known(v) in inside for v in used)
            if free and _total(let.op, arrays, around) and not any(v in consumed for v in let.vars):
                moved.append(let)
            else:
                inside.update(let.vars)
                inside.update(bound_vars(let.op))
                stay.append(let)
        return moved, with_lets(block, stay, block.results)


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
    out: list[anf.Let] = []
    for ks in (groups[False], groups[True]):
        part = giving(op, ks)
        code = pruned(op.body.lets, part.body.results, [e for d in part.destinations for e in d.index])
        part = anf.Comp(op.axes, anf.Block(tuple(code), part.body.results), part.destinations)
        new = Renaming({}, renew=True).op(part) if out else part
        out.append(anf.Let(tuple([let.vars[k] for k in ks]), new, let.span))
    return out


def _total(op: anf.Op, arrays: bool, axes: Sequence[anf.Axis]) -> bool:
    """Tells whether an operation may run where it did not before."""
    match op:
        case anf.View() | anf.Contract() | anf.LinalgOp() | anf.Reshape() | anf.Concat() | anf.Scan():
            return arrays
        case anf.Comp():
            scalars = all(not d.shape for d in op.destinations)
            if any(d.into is not None for d in op.destinations) or not (arrays or scalars):
                return False
            inner = (*axes, *op.axes)
            return all(_total(let.op, arrays, inner) for let in op.body.lets)
        case _:
            return surely_total(op, axes)
