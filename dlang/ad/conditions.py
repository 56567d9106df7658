"""Conditions at points: what an iteration saves of arrays of which its adjoint only asks something.

    for k { s = [if s[i] > 0 { f(s[i]) } else { g(s[i]) } for i] }      saves      c[i] = s[i] > 0

in each iteration, and not s, where the derivatives of f and g need no s: a condition takes one byte. It is computed in
the forward pass, at the points at which the adjoint asks.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from dlang.ad.elements import emit_comp
from dlang.ir import anf
from dlang.ir.affine import Change
from dlang.ir.anf import Array, Block, Comp, Let, Read, Reduce, Size, Var, fresh
from dlang.ir.builder import Builder
from dlang.ir.traverse import bound_vars, mentioned, pruned, used_by, walk
from dlang.ir.types import BOOL, array_type, is_float
from dlang.optimize.effects import consumed_by


@dataclass(slots=True)
class _Asked:
    """A comprehension of a backward body, and which of its values are conditions of elements of arrays.

    code: what the forward pass may compute at a point; conditions: values of it that the rest uses, with the arrays
    that they depend on. index: of the point in these arrays; others: the arrays that the rest needs elements of.
    """

    op: Comp
    code: list[Let] = field(default_factory=list)
    conditions: dict[Var, set[Var]] = field(default_factory=dict)
    index: tuple[Size, ...] = ()
    others: set[Var] = field(default_factory=set)


def conditions_first(b: Builder, forward: Sequence[Let], body: Block, params: Sequence[Var]) -> tuple[list[Let], Block]:
    """The forward body of a loop, which also makes arrays of conditions, and the backward body, which reads these.

    params: what is there where the forward body begins.
    """
    made = {*params, *(v for let in forward for v in let.vars)}
    changed = {v for let in forward for v in consumed_by(let.op)}
    arrays = {v for v in made - changed if isinstance(v.type, Array) and is_float(v.type)}
    inside = {v for let in walk(body) for v in (*let.vars, *bound_vars(let.op))} - made
    asked: dict[int, _Asked] = {}
    needed: set[Var] = {v for v in body.results if isinstance(v, Var)}
    for k, let in enumerate(body.lets):
        if isinstance(let.op, Comp) and not arrays.isdisjoint(mentioned(let.op)):
            asked[k] = _asked(let.op, arrays, inside)
            needed |= asked[k].others
        else:
            needed.update(mentioned(let.op))
    while True:  # a condition is saved for arrays that nothing else needs
        spared = {v for a in asked.values() for of in a.conditions.values() for v in of} - needed
        more = {v for a in asked.values() for of in a.conditions.values() if of - spared for v in of} & spared
        if not more:
            break
        needed |= more
    chosen = {k: [c for c, of in a.conditions.items() if of & spared] for k, a in asked.items()}
    if not spared or sum(map(len, chosen.values())) > len(spared):
        return list(forward), body
    out, lets = list(forward), list(body.lets)
    for k, conditions in chosen.items():
        a, reads = asked[k], dict[Var, Read]()
        for c in conditions:
            shape = array_type(next(iter(a.conditions[c]))).shape
            saved = fresh(f"{c.name}_asked", Array("bool", shape))
            with b.scope() as emitted:
                emit_comp(b, Change(a.op.axes, {}), a.code, [(saved, c, Reduce(shape, a.index, "set"))])
            out += emitted
            reads[c] = Read(saved, a.index)
        if reads:
            inner = [replace(let, op=reads.get(let.vars[0], let.op)) if let.vars else let for let in a.op.body.lets]
            sizes = [e for d in a.op.destinations for e in d.index]
            rest = Block(tuple(pruned(inner, a.op.body.results, sizes)), a.op.body.results)
            lets[k] = replace(lets[k], op=replace(a.op, body=rest))
    return out, Block(tuple(lets), body.results)


def _asked(op: Comp, arrays: Set[Var], inside: Set[Var]) -> _Asked:
    """Finds what a comprehension asks of elements of arrays. inside: the variables that the forward pass has not."""
    axes = {a.var for a in op.axes}
    bounds = [bound for a in op.axes for bound in (*a.lows, *a.highs)]
    out, depends, elements = _Asked(op), dict[Var, set[Var]](), dict[Var, Var]()
    if any(bound.mentions(inside - axes) for bound in bounds):
        out.others = {*mentioned(op)} & arrays
        return out
    for let in op.body.lets:
        match let.op:
            case Read(array, index) if array in arrays and _is_place(index, axes) and index == (out.index or index):
                out.index = index
                elements[let.vars[0]] = array
                depends[let.vars[0]] = {array}
            case anf.Prim() | anf.Cast() | Read() if {*used_by(let)} - axes <= depends.keys() | _known(let, inside):
                depends[let.vars[0]] = {v for u in used_by(let) for v in depends.get(u, ())}
                if isinstance(let.op, Read) and let.op.array in arrays:
                    out.others.add(let.op.array)
            case _:
                out.others |= arrays & {*mentioned(let.op)}
                continue
        out.code.append(let)
    here = {v for let in out.code for v in let.vars}
    used = {v for v in op.body.results if isinstance(v, Var)} | {
        v for d in op.destinations for e in d.index for v in e.atoms()
    }
    used |= {v for let in op.body.lets if not let.vars or let.vars[0] not in here for v in mentioned(let.op)}
    out.others |= arrays & {d.into for d in op.destinations if d.into is not None}
    for v in here & used:
        if v.type == BOOL and v not in elements:
            out.conditions[v] = depends[v]
        else:
            out.others |= depends[v]
    return out


def _known(let: Let, inside: Set[Var]) -> set[Var]:
    """The variables of a let that the forward pass has."""
    return {v for v in used_by(let) if v not in inside}


def _is_place(index: Sequence[Size], axes: Set[Var]) -> bool:
    """Tells whether an index has each axis once, and nothing else."""
    names = [e.atom for e in index]
    return len(names) == len(axes) and {*names} == axes
