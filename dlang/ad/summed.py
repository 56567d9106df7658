"""Finds the arrays whose cotangents are sums of terms, and not arrays (`tangent_types.py`).

These are arrays that cost nothing for their elements where they are bound: they are found in nodes, or a branch or a
loop chooses among arrays that are there already. What is added to a few of their elements must cost as little.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dlang.ad.tangent_types import is_small
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Size, poly
from dlang.ir.traverse import bound_vars, walk
from dlang.ir.types import array_type, product
from dlang.ir.writes import choices
from dlang.polynomials import TooManyTerms


def summed_arrays(lets: Sequence[anf.Let], active: Set[anf.Var], known: Knowledge, given: Set[anf.Var]) -> set[anf.Var]:
    """The active arrays of lets, nested ones included, whose cotangents are sums. given: those of outside."""
    found = [*given]
    onward: dict[anf.Atom, list[anf.Var]] = {}
    for let in walk(anf.Block(tuple(lets), ())):
        match let.op:
            case anf.Fields(variant=variant):
                fields = zip(let.vars, variant.fields, strict=True)
                found += [v for v, held in fields if v in active and not is_small(held.type)]
            case anf.For() | anf.While():
                handed = _handed_on(let.op, active, known)
                found += handed
                found += [v for v, p in zip(let.vars, let.op.params, strict=True) if p in handed]
            case anf.Assert() | anf.If():
                for v, values in _values(let):
                    for value in values:
                        onward.setdefault(value, []).append(v)
            case _:
                pass
    summed: set[anf.Var] = set()
    while found:
        v = found.pop()
        if isinstance(v.type, anf.Array) and v not in summed:
            summed.add(v)
            found += onward.get(v, ())
    return summed - given


def _values(let: anf.Let) -> Sequence[tuple[anf.Var, tuple[anf.Atom, ...]]]:
    """The variables that a let binds to values that are there already, each with those that it may be."""
    if isinstance(let.op, anf.Assert):
        return [(v, (a,)) for v, a in zip(let.vars, let.op.guarded, strict=True)]
    return choices(let)


def _handed_on(op: anf.For | anf.While, active: Set[anf.Var], known: Knowledge) -> set[anf.Var]:
    """The arrays of the state that iterations choose among those of the state and of outside, and do not make.

    One that each iteration reads as a whole is none of them: that costs as much as an array of cotangents does.
    """
    after = dict(zip(op.params, op.body.results[op.early :], strict=True))
    handed = {p for p, next in after.items() if p in active and next is not p and not is_small(p.type)}
    if not handed:
        return handed
    sources: dict[anf.Var, tuple[anf.Atom, ...]] = {}
    made: set[anf.Atom] = set()
    for let in walk(op.body):
        chosen = dict(_values(let))
        sources |= chosen
        if not isinstance(let.op, anf.Fields):
            made.update([v for v in let.vars if v not in chosen])
    handed = {p for p in handed if not reads_as_many(op.body, p, known)}
    while True:
        made |= after.keys() - handed
        left = {p for p in handed if made.isdisjoint(_ends(after[p], sources))}
        if left == handed:
            return handed
        handed = left


def _ends(value: anf.Atom, sources: dict[anf.Var, tuple[anf.Atom, ...]]) -> set[anf.Atom]:
    """Finds all that a value may be, through any choices."""
    found: set[anf.Atom] = set()
    seen: set[anf.Atom] = set()
    waiting = [value]
    while waiting:
        atom = waiting.pop()
        if atom in seen:
            continue
        seen.add(atom)
        if isinstance(atom, anf.Var) and atom in sources:
            waiting += sources[atom]
        else:
            found.add(atom)
    return found


# ---- arrays that are read as a whole ---------------------------------------------------------------------------------
def reads_as_many(block: anf.Block, array: anf.Var, known: Knowledge) -> bool:
    """Tells whether a block is known to read as many elements of an array as it has."""
    try:
        return known.at_least_zero(_reads(block, array) - product(array_type(array).shape))
    except TooManyTerms:  # of loops in many loops nothing is known
        return False


def _reads(block: anf.Block, array: anf.Var) -> Size:
    """How many elements of an array a block reads at least, where loops and comprehensions are boxes."""
    count: Size = poly(0)
    for let in block.lets:
        match let.op:
            case anf.Read(array=read) if read is array:
                count = count + 1
            case anf.For(index=index, params=params, low=low, high=high, body=body):
                each = _reads(body, array)
                if not each.mentions({index, *params, *bound_vars(body)}):
                    count = count + (high - low) * each
            case anf.Comp(axes=axes, body=body) if all(len(a.highs) == len(a.lows) == 1 for a in axes):
                points = product([a.highs[0] - a.lows[0] for a in axes]) * _reads(body, array)
                if not points.mentions({*(a.var for a in axes), *bound_vars(body)}):
                    count = count + points
            case _:
                pass
    return count
