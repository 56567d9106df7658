"""Finds the arrays whose cotangents are sums of terms, and not arrays (`tangent_types.py`).

These are arrays that cost nothing for their elements where they are bound: they are found in nodes, or a branch or a
loop chooses among arrays that are there already. What is added to a few of their elements must cost as little.

What goes on in the memory of a chosen array, as the state of a loop in which elements are set, has an array for a
cotangent, which goes on as that of the chosen array.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from dlang.ad.tangent_types import is_small
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Size, poly
from dlang.ir.traverse import bound_vars, own_consumed, parts, walk
from dlang.ir.types import array_type, product
from dlang.ir.writes import choices
from dlang.polynomials import TooManyTerms


def summed_arrays(
    lets: Sequence[anf.Let], active: Set[anf.Var], known: Knowledge, given: Set[anf.Var], repeated: bool = False
) -> set[anf.Var]:
    """The active arrays of lets, nested ones included, whose cotangents are sums. given: those of outside.

    repeated: whether the lets run many times.
    """
    search = _Search(active, known)
    search.block(anf.Block(tuple(lets), ()), repeated)
    arrays = set()
    waiting: list[anf.Atom] = [*search.consumed]
    while waiting:
        atom = waiting.pop()
        if isinstance(atom, anf.Var) and atom in search.chosen and atom not in arrays:
            arrays.add(atom)
            waiting += search.chosen[atom]
    summed: set[anf.Var] = set()
    found = [*given, *search.found, *(v for v in search.few if v not in arrays)]
    while found:
        v = found.pop()
        if isinstance(v.type, anf.Array) and v not in summed:
            summed.add(v)
            found += [w for w in search.onward.get(v, ()) if w not in arrays]
    return summed - given


@dataclass(slots=True)
class _Search:
    """The arrays of the blocks so far.

    found: those that are in nodes, or that a loop hands on. few: those that a branch chooses where it runs many times,
    and of which few elements are read. onward: what a value may become. chosen: what branches and checks give, with
    the values that it may be. consumed: the arrays in whose memory others go on.
    """

    active: Set[anf.Var]
    known: Knowledge
    found: list[anf.Var] = field(default_factory=list)
    few: list[anf.Var] = field(default_factory=list)
    onward: dict[anf.Atom, list[anf.Var]] = field(default_factory=dict)
    chosen: dict[anf.Var, tuple[anf.Atom, ...]] = field(default_factory=dict)
    consumed: list[anf.Atom] = field(default_factory=list)

    def block(self, block: anf.Block, repeated: bool) -> None:
        """Takes in a block and those inside of it."""
        for let in block.lets:
            op = let.op
            match op:
                case anf.Fields(variant=variant):
                    fields = zip(let.vars, variant.fields, strict=True)
                    self.found += [v for v, held in fields if v in self.active and not is_small(held.type)]
                case anf.For() | anf.While():
                    handed = _handed_on(op, self.active, self.known)
                    self.found += handed
                    self.found += [v for v, p in zip(let.vars, op.params, strict=True) if p in handed]
                    states = zip(op.params, op.init, op.body.results[op.early :], strict=True)
                    self.consumed += [a for p, *ends in states if p not in handed for a in ends]
                case anf.Assert() | anf.If():
                    for v, values in _values(let):
                        self.chosen[v] = values
                        for value in values:
                            self.onward.setdefault(value, []).append(v)
                    if repeated and isinstance(op, anf.If):
                        self.few += [v for v in _of_outside(let, op) if self.is_read_little(v, block)]
                case _:
                    self.consumed += own_consumed(op)
            for inner in parts(op).blocks:
                self.block(inner, repeated or isinstance(op, anf.For | anf.While))

    def is_read_little(self, array: anf.Var, block: anf.Block) -> bool:
        """Tells whether a block may read few elements of an active array."""
        return array in self.active and not is_small(array.type) and not reads_as_many(block, array, self.known)


def _of_outside(let: anf.Let, op: anf.If) -> list[anf.Var]:
    """The arrays that a branch gives and that none of its arms makes."""
    inside = set(bound_vars(op))
    return [v for v, values in choices(let) if isinstance(v.type, anf.Array) and inside.isdisjoint(values)]


def _values(let: anf.Let) -> Sequence[tuple[anf.Var, tuple[anf.Atom, ...]]]:
    """The variables that a let binds to values that are there already, each with those that it may be."""
    if isinstance(let.op, anf.Assert):
        return [(v, (a,)) for v, a in zip(let.vars, let.op.guarded, strict=True)]
    return choices(let)


def _handed_on(op: anf.For | anf.While, active: Set[anf.Var], known: Knowledge) -> set[anf.Var]:
    """The arrays of the state that iterations choose among those of the state and of outside, and do not make but as a
    whole.

    One that each iteration reads or makes as a whole is none of them: that costs as much as an array of cotangents
    does.
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
    whole = _made_as_wholes(op.body)
    handed = {p for p in handed if not reads_as_many(op.body, p, known)}
    ends = {p: _ends(after[p], sources) for p in handed}
    handed = {p for p in handed if not ends[p] <= whole}
    made -= whole
    while True:
        made |= after.keys() - handed
        left = {p for p in handed if made.isdisjoint(ends[p])}
        if left == handed:
            return handed
        handed = left


def _made_as_wholes(block: anf.Block) -> set[anf.Atom]:
    """The arrays that a block makes, but for loops in it, which costs as much as they have elements."""
    whole: set[anf.Atom] = set()
    for let in block.lets:
        match let.op:
            case anf.Comp(destinations=destinations):
                whole.update([v for v, d in zip(let.vars, destinations, strict=True) if d.shape and d.into is None])
            case anf.Contract() | anf.Scan() | anf.Concat():
                whole.update(let.vars)
            case anf.If(then=then, otherwise=otherwise):
                whole |= _made_as_wholes(then) | _made_as_wholes(otherwise)
            case _:
                pass
    return whole


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
