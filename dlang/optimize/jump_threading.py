"""Branches on what an earlier branch has decided become part of that branch.

An early `return` is a flag, on which all that follows branches:

    done, x = if c { yield true, a } else { yield false, 0 }         x = if c { yield a } else { … yield b }
    y = if done { yield x } else { … yield b }

So what comes last stands in the arms again, where a call in tail position can be seen. A node that an earlier branch
chose decides by its variant: where a function of two is called, each arm calls its own, and no node is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from dlang.ir.anf import Assert, Atom, Block, Construct, If, Let, Lit, Prim, Program, Read, Tag, Token, Var
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    block_acts,
    free_vars,
    map_bodies,
    map_inner,
    mentioned,
    split_by_need,
    type_vars,
    used_by,
    walk,
    with_lets,
)
from dlang.ops import figures
from dlang.optimize.algebra import fold


def jump_threading(program: Program) -> Program:
    """The program in which no branch asks what an earlier one has decided."""
    return map_bodies(program, threaded)


def threaded(block: Block) -> Block:
    """The block with branches merged, here and in the blocks inside."""
    if [type(let.op) for let in block.lets].count(If) >= 2:
        block = with_lets(block, _Tail(block.results).beginning_with(block.lets), block.results)
    return map_inner(block, threaded)


class _Tail:
    """The last lets of a block, from the end of it to the first of them, and how often they need what is before them.

    They are found from the end on: what a branch becomes part of is complete then, and not made again for each branch
    that follows. Most lets come and stay without a merger that asks for uses: `counted` of them are in `uses` so far.
    """

    def __init__(self, results: Iterable[Atom]) -> None:
        self.backward: list[Let] = []
        self.counted = 0
        self.uses = Counter(r for r in results if isinstance(r, Var))

    def beginning_with(self, lets: Sequence[Let]) -> list[Let]:
        """Some lets and those that are here, in order, with branches merged."""
        for let in reversed(lets):
            if isinstance(let.op, If):
                self.begin_with(let, let.op)
            else:
                self.backward.append(let)
        return self.backward[::-1]

    def begin_with(self, let: Let, op: If) -> None:
        """Puts a branch before the others; the next one joins one that decides it, if only scalars are computed in
        between. Where that one chooses a node, elements may be read and checks be done in between, too, which then come
        before it.
        """
        before: list[Let] = []
        while (at := self.next_branch()) is not None:
            second = self.backward[at]
            assert isinstance(second.op, If)
            apart, between = split_by_need(self.backward[:at:-1], let.vars)
            if not _may_pass(apart, op, between):
                break
            values = _decided(let, op, between, second.op)
            if values is None:
                break
            copied = _slice(between, mentioned(second.op))
            if not _may_copy(copied, op, second.op):
                break
            self.take_off(at)
            let, op, between = _merged(let, op, between, copied, second, second.op, values, self.needs())
            self.backward += reversed(between)
            before += apart
        self.backward += [let, *reversed(before)]

    def next_branch(self) -> int | None:
        """The position of the first branch, if what comes before it may be between two that are merged."""
        for at in range(len(self.backward) - 1, -1, -1):
            op = self.backward[at].op
            if isinstance(op, If):
                return at
            if not op.IS.scalar and not isinstance(op, Tag | Read | Assert):
                return None
        return None

    def needs(self) -> Mapping[Var, int]:
        """How often what is here needs variables."""
        for let in self.backward[self.counted :]:
            self.uses.update(_needed(let))
        self.counted = len(self.backward)
        return self.uses

    def take_off(self, at: int) -> None:
        """Takes the first lets off, down to a position."""
        for let in self.backward[at : self.counted]:
            self.uses.subtract(_needed(let))
        self.counted = min(self.counted, at)
        del self.backward[at:]


def _needed(let: Let) -> list[Var]:
    """The variables that a let needs, those in the sizes of what it binds among them."""
    return [*used_by(let), *[v for var in let.vars for v in type_vars(var.type)]]


def _may_pass(apart: Sequence[Let], first: If, between: Sequence[Let]) -> bool:
    """Tells whether lets that do not need a branch may come before it: no check before one that comes first."""
    if all(let.op.IS.scalar or isinstance(let.op, Tag) for let in (*apart, *between)):
        return True
    if any(isinstance(let.op, Read | Assert) for let in between) or not any(isinstance(x.op, Tag) for x in between):
        return False
    acts = [block_acts(arm) for arm in (first.then, first.otherwise)]
    return not any(isinstance(let.op, Assert) for let in apart) or not any(a.refuses or a.calls for a in acts)


Values = tuple[bool | None, bool | None]
"""The values of a condition in the arms of an earlier branch, as far as they are known."""


def _decided(first: Let, a: If, between: Sequence[Let], b: If) -> Values | None:
    """The values of a later condition in the arms of an earlier branch; None if too much would stand in both arms."""
    if isinstance(b.condition, Lit):
        return None
    then = _value(b.condition, first, a, between, a.then, True)
    otherwise = _value(b.condition, first, a, between, a.otherwise, False)
    if then is None or otherwise is None:
        known = otherwise if then is None else then
        if known is None or not _is_small(b.then if known else b.otherwise):
            return None  # what is chosen where it is known would stand in both arms
    return then, otherwise


def _may_copy(copied: Sequence[Let], a: If, b: If) -> bool:
    """Tells whether lets between two branches may stand in both arms.

    Not many where the arms only compute scalars: a loop around may choose between what little the arms give, and then
    has lanes.
    """
    return len(copied) <= figures.DOUBLED or not all(
        inside.op.IS.scalar for arm in (a.then, a.otherwise, b.then, b.otherwise) for inside in walk(arm)
    )


def _merged(
    first: Let,
    a: If,
    between: Sequence[Let],
    copied: Sequence[Let],
    second: Let,
    b: If,
    values: Values,
    uses: Mapping[Var, int],
) -> tuple[Let, If, list[Let]]:
    """One branch for two, and what has to stand behind it.

    between: what needs the earlier one; copied: what of that the later one needs. values: of the later condition. uses:
    how often what follows needs variables.
    """
    behind = _slice(between, [v for let in between for v in let.vars if uses.get(v, 0) > 0])
    needed = {v for let in behind for v in _needed(let)}
    vars = (*first.vars, *second.vars)
    needed.update([v for v in vars if uses.get(v, 0) > 0])
    needed.update([v for var in vars if var in needed for v in type_vars(var.type)])
    spent = {v for v in free_vars(b) if isinstance(v.type, Token)}  # the later branch goes on from the earlier one's
    left = [k for k, v in enumerate(vars) if v in needed and v not in spent]
    then, otherwise = values
    arms = [
        _continued(first, arm, copied, second, b, value, value is other or other is None, left)
        for arm, value, other in ((a.then, then, otherwise), (a.otherwise, otherwise, then))
    ]
    op = If(a.condition, *arms, cold=a.cold)
    return Let(tuple([vars[k] for k in left]), op, first.span), op, behind


def _value(condition: Atom, first: Let, a: If, between: Sequence[Let], arm: Block, taken: bool) -> bool | None:
    """Returns the value of the later condition in an arm of the earlier branch, if that is known."""
    if condition == a.condition:
        return taken
    known: dict[Var, Atom] = dict(zip(first.vars, arm.results, strict=True))
    known |= {v: Lit(taken, "bool") for v, r in known.items() if r == a.condition}
    tags = {let.vars[0]: let.op.variant.tag for let in arm.lets if isinstance(let.op, Construct)}
    for let in between:
        match let.op:
            case Prim(name, args):
                operands = [known.get(x, x) if isinstance(x, Var) else x for x in args]
                numbers = tuple([x for x in operands if isinstance(x, Lit)])
                value = fold(name, numbers) if len(numbers) == len(operands) else None
            case Tag(Var() as node) if isinstance(of := known.get(node), Var) and of in tags:
                value = Lit(tags[of], "i64")
            case _:
                value = None
        if value is not None:
            known[let.vars[0]] = value
    result = known.get(condition) if isinstance(condition, Var) else None
    return bool(result.value) if isinstance(result, Lit) else None


def _slice(lets: Sequence[Let], wanted: Iterable[Var]) -> list[Let]:
    """Selects the lets that some variables need."""
    needed = set(wanted)
    needed_lets: list[Let] = []
    for let in reversed(lets):
        if not needed.isdisjoint(let.vars):
            needed_lets.append(let)
            needed.update(mentioned(let.op))
    return needed_lets[::-1]


def _is_small(block: Block) -> bool:
    return not any(True for _ in islice(walk(block), figures.DOUBLED, None))


def _continued(
    first: Let,
    arm: Block,
    between: Sequence[Let],
    second: Let,
    b: If,
    value: bool | None,
    twice: bool,
    left: Sequence[int],
) -> Block:
    """An arm of the earlier branch, and then what the later one does there. twice: the other arm does some of it, too.
    left: which of the results of both are needed.

    What stands in one arm only is not copied, so code is moved as often as branches around it are merged, and no more.
    """
    renaming = Renaming(dict(zip(first.vars, arm.results, strict=True)), renew=True)
    more = [renaming.let(let) for let in between]
    copied = {let.vars for let in more}
    if value is None:
        renaming.renew = False
        op = renaming.op(second.op)
        renaming.renew = True
        ends: Sequence[Atom] = [renaming.bind(v) for v in second.vars]
        more.append(Let(tuple([v for v in ends if isinstance(v, Var)]), op, second.span))
    else:
        chosen = b.then if value else b.otherwise
        renaming.renew = twice
        more += [renaming.let(let) for let in chosen.lets]
        ends = renaming.results(chosen)
    both = (*arm.results, *ends)
    results = tuple([both[k] for k in left])
    tail = _Tail(results)
    tail.backward += reversed(more)
    lets = tail.beginning_with(arm.lets)
    while lets and lets[-1].vars in copied and lets[-1].vars[0] not in ends:  # what merged further in has no use for
        lets.pop()
    return Block(tuple(lets), results)
