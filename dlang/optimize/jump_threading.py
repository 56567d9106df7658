"""Branches on what an earlier branch has decided become part of that branch.

An early `return` is a flag, on which all that follows branches:

    done, x = if c { yield true, a } else { yield false, 0 }         x = if c { yield a } else { … yield b }
    y = if done { yield x } else { … yield b }

So what comes last stands in the arms again, where a call in tail position can be seen. A node that an earlier branch
chose decides by its variant: where a function of two is called, each arm calls its own, and no node is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from dlang.ir import anf
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
from dlang.optimize.effects import acts, consumed_by


def jump_threading(program: Program) -> Program:
    """The program in which no branch asks what an earlier one has decided."""
    return map_bodies(program, threaded)


def threaded(block: Block) -> Block:
    """The block with branches merged, here and in the blocks inside."""
    if [type(let.op) for let in block.lets].count(If) >= 2:
        block = with_lets(block, _Tail(block.results).beginning_with(block.lets), block.results)
    return map_inner(block, threaded)


@dataclass(slots=True)
class _Run:
    """Branches on one condition that follow one another, from the last to the first of them.

    All of them become one branch at once, when it is known where they begin: so no arm is made again for each branch.

    at: where the first of them stands among the last lets of the block. steps: for each but the last, the lets that
    stand between it and the next one and need it, and those of them that the ones behind it need. mentions: the
    variables that the branches mention. scalar: whether their arms only compute scalars.
    """

    at: int
    lets: list[tuple[Let, If]]
    steps: list[tuple[Sequence[Let], Sequence[Let]]]
    mentions: set[Var]
    scalar: bool

    def takes(self, op: If, between: Sequence[Let]) -> list[Let] | None:
        """The lets before the run that would stand in both arms if a branch on its condition joined; None if they may
        not."""
        copied = _slice(between, self.mentions)
        return copied if _are_few(copied) or not (self.scalar and _is_scalar(op)) else None

    def join(self, let: Let, op: If, between: Sequence[Let], copied: Sequence[Let]) -> None:
        """Has a branch before the others, with lets between that need it, of which some are copied."""
        self.lets.append((let, op))
        self.steps.append((between, copied))
        self.mentions.update(mentioned(op))
        for inside in copied:
            self.mentions.update(mentioned(inside.op))
        self.scalar = self.scalar and _is_scalar(op)

    def merged(self, uses: Mapping[Var, int]) -> tuple[Let, If, list[Let]]:
        """One branch for all, and what has to stand behind it. uses: how often what follows needs variables."""
        lets, steps = self.lets[::-1], self.steps[::-1]
        behind, vars, left = _left(lets, [let for between, _ in steps for let in between], uses)
        copied = [needed for _, needed in steps]
        then = _joined([(let, op.then) for let, op in lets], copied, left)
        otherwise = _joined([(let, op.otherwise) for let, op in lets], copied, left)
        first, a = lets[0]
        op = If(a.condition, then, otherwise, cold=a.cold)
        return Let(tuple([vars[k] for k in left]), op, first.span), op, behind


class _Tail:
    """The last lets of a block, from the end of it to the first of them, and how often they need what is before them.

    They are found from the end on: what a branch becomes part of is complete then, and not made again for each branch
    that follows. Most lets come and stay without a merger that asks for uses: `counted` of them are in `uses` so far.
    Of the branches of a run the first stands for all.
    """

    def __init__(self, results: Iterable[Atom]) -> None:
        self.backward: list[Let] = []
        self.counted = 0
        self.uses = Counter(r for r in results if isinstance(r, Var))
        self.run: _Run | None = None

    def beginning_with(self, lets: Sequence[Let]) -> list[Let]:
        """Some lets and those that are here, in order, with branches merged."""
        for let in reversed(lets):
            if isinstance(let.op, If):
                self.put(let, let.op)
            else:
                self.backward.append(let)
        self.end_run()
        return self.backward[::-1]

    def put(self, let: Let, op: If) -> None:
        """Puts a branch before the others: into a run with the next one, if that is on the same condition."""
        at = self.next_branch()
        if at is not None and isinstance(second := self.backward[at].op, If) and second.condition == op.condition:
            apart, between = split_by_need(self.backward[:at:-1], let.vars)
            run = self.run or _Run(at, [(self.backward[at], second)], [], set(mentioned(second)), _is_scalar(second))
            copied = run.takes(op, between) if _may_pass(apart, op, between) else None
            if copied is not None and not isinstance(op.condition, Lit):
                run.join(let, op, between, copied)
                self.run = run
                self.take_off(at)
                self.backward += [let, *reversed(apart)]
                return
        self.end_run()
        self.begin_with(let, op)

    def end_run(self) -> None:
        """Makes one branch of the run."""
        run, self.run = self.run, None
        if run is not None:
            before = self.backward[run.at + 1 :]
            self.take_off(run.at)
            let, op, behind = run.merged(self.needs())
            self.backward += reversed(behind)
            self.begin_with(let, op)
            self.backward += before

    def begin_with(self, let: Let, op: If) -> None:
        """Puts a branch before the others; the next one joins one that decides it, if only scalars are computed in
        between. Where that one chooses a node, elements may be read, loops be run and checks be done in between, too,
        which then come before it.
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
            if not _may_stand_between(op):
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


def _may_stand_between(op: anf.Op) -> bool:
    """Tells whether an operation may stand between two branches that are merged: one that changes nothing in place."""
    if op.IS.scalar or isinstance(op, Tag | Read | Assert):
        return True
    return (op.IS.total or isinstance(op, anf.Comp | anf.For | anf.While)) and not consumed_by(op)


def _may_pass(apart: Sequence[Let], first: If, between: Sequence[Let]) -> bool:
    """Tells whether lets that do not need a branch may come before it: no check before one that comes first."""
    if all(let.op.IS.scalar or isinstance(let.op, Tag) for let in (*apart, *between)):
        return True
    if not all(let.op.IS.scalar or isinstance(let.op, Tag) for let in between):
        return False
    if not any(isinstance(let.op, Tag) for let in between):
        return False
    arms = [block_acts(arm) for arm in (first.then, first.otherwise)]
    return not any(a.refuses or a.calls for a in arms) or not any(map(acts, apart))


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
    return _are_few(copied) or not (_is_scalar(a) and _is_scalar(b))


def _are_few(copied: Sequence[Let]) -> bool:
    return len(copied) <= figures.DOUBLED


def _is_scalar(op: If) -> bool:
    return all(inside.op.IS.scalar for arm in (op.then, op.otherwise) for inside in walk(arm))


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
    behind, vars, left = _left([(first, a), (second, b)], between, uses)
    then, otherwise = values
    arms = [
        _continued(first, arm, copied, second, b, value, value is other or other is None, left)
        for arm, value, other in ((a.then, then, otherwise), (a.otherwise, otherwise, then))
    ]
    op = If(a.condition, *arms, cold=a.cold)
    return Let(tuple([vars[k] for k in left]), op, first.span), op, behind


def _left(
    lets: Sequence[tuple[Let, If]], between: Sequence[Let], uses: Mapping[Var, int]
) -> tuple[list[Let], list[Var], list[int]]:
    """The lets between branches that have to stand behind the one that they become, the variables that all of the
    branches bind, and the positions of those that are needed."""
    behind = _slice(between, [v for let in between for v in let.vars if uses.get(v, 0) > 0])
    needed = {v for let in behind for v in _needed(let)}
    vars = [v for let, _ in lets for v in let.vars]
    needed.update([v for v in vars if uses.get(v, 0) > 0])
    needed.update([v for var in vars if var in needed for v in type_vars(var.type)])
    # a later branch goes on from the token of an earlier one
    spent = {v for _, op in lets[1:] for v in free_vars(op) if isinstance(v.type, Token)}
    return behind, vars, [k for k, v in enumerate(vars) if v in needed and v not in spent]


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
    return _finished([*arm.lets], more, tuple([both[k] for k in left]), copied)


def _joined(arms: Sequence[tuple[Let, Block]], copied: Sequence[Sequence[Let]], left: Sequence[int]) -> Block:
    """One arm for those of branches that follow one another. copied: what stands between each and the next one, and is
    needed in both arms. left: which of the results of all are needed."""
    renaming = Renaming({})
    lets: list[Let] = []
    results: list[Atom] = []
    fresh: set[tuple[Var, ...]] = set()
    for (let, arm), between in zip(arms, [(), *copied], strict=True):
        renaming.renew = True
        new = [renaming.let(inside) for inside in between]
        fresh.update([inside.vars for inside in new])
        renaming.renew = False
        lets += [*new, *[renaming.let(inside) for inside in arm.lets]]
        ends = renaming.results(arm)
        renaming.env.update(zip(let.vars, ends, strict=True))
        results += ends
    return _finished(lets, [], tuple([results[k] for k in left]), fresh)


def _finished(
    before: Sequence[Let], lets: Sequence[Let], results: tuple[Atom, ...], copied: Set[tuple[Var, ...]]
) -> Block:
    """The block of lets, with branches among the first of them merged. copied: what the results of some bind that stand
    in other arms, too."""
    tail = _Tail(results)
    tail.backward += reversed(lets)
    merged = tail.beginning_with(before)
    while merged and merged[-1].vars in copied and merged[-1].vars[0] not in results:
        merged.pop()  # what merged further in has no use for
    return Block(tuple(merged), results)
