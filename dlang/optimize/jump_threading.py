"""Branches on what an earlier branch has decided become part of that branch.

An early `return` is a flag, on which all that follows branches:

    done, x = if c { yield true, a } else { yield false, 0 }         x = if c { yield a } else { … yield b }
    y = if done { yield x } else { … yield b }

So what comes last stands in the arms again, where a call in tail position can be seen. A node that an earlier branch
chose decides by its variant: where a function of two is called, each arm calls its own, and no node is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlang.ir.anf import Assert, Atom, Block, Construct, If, Let, Lit, Prim, Program, Read, Tag, Token, Var
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import block_acts, free_vars, map_blocks, map_bodies, mentioned, walk, with_lets, with_op
from dlang.ops import figures
from dlang.optimize.algebra import fold


def jump_threading(program: Program) -> Program:
    """The program in which no branch asks what an earlier one has decided."""
    return map_bodies(program, threaded)


def threaded(block: Block) -> Block:
    """The block with branches merged, here and in the blocks inside."""
    lets: list[Let] = []
    for let in block.lets:
        _append(lets, let)
    return with_lets(block, [with_op(let, let.vars, map_blocks(let.op, threaded)) for let in lets], block.results)


def _append(lets: list[Let], let: Let) -> None:
    """Adds a let; a branch joins an earlier one that decides it, if only scalars are computed in between. Where that
    one chooses a node, elements may be read and checks be done in between, too, which then come before it.
    """
    if isinstance(let.op, If):
        at = len(lets) - 1
        while at >= 0 and (lets[at].op.IS.scalar or isinstance(lets[at].op, Tag | Read | Assert)):
            at -= 1
        first = lets[at] if at >= 0 else None
        if first is not None and isinstance(first.op, If):
            apart, between = _needing(lets[at + 1 :], first.vars)
            if _may_pass(apart, first.op, between):
                merged = _merged(first, first.op, between, let, let.op)
                if merged is not None:
                    lets[at:] = [*apart, merged, *between]
                    return
    lets.append(let)


def _may_pass(apart: Sequence[Let], first: If, between: Sequence[Let]) -> bool:
    """Tells whether lets that do not need a branch may come before it: no check before one that comes first."""
    if all(let.op.IS.scalar or isinstance(let.op, Tag) for let in (*apart, *between)):
        return True
    if any(isinstance(let.op, Read | Assert) for let in between) or not any(isinstance(x.op, Tag) for x in between):
        return False
    acts = [block_acts(arm) for arm in (first.then, first.otherwise)]
    return not any(isinstance(let.op, Assert) for let in apart) or not any(a.refuses or a.calls for a in acts)


def _needing(lets: Sequence[Let], vars: Iterable[Var]) -> tuple[list[Let], list[Let]]:
    """The lets that need none of some variables, and those that do."""
    needed = set(vars)
    apart: list[Let] = []
    needing: list[Let] = []
    for let in lets:
        needs = any(v in needed for v in mentioned(let.op))
        (needing if needs else apart).append(let)
        needed.update(let.vars if needs else ())
    return apart, needing


def _merged(first: Let, a: If, between: Sequence[Let], second: Let, b: If) -> Let | None:
    """One branch for two. between: what the later one may need of what the earlier one gives."""
    if isinstance(b.condition, Lit):
        return None
    then = _value(b.condition, first, a, between, a.then, True)
    otherwise = _value(b.condition, first, a, between, a.otherwise, False)
    if then is None or otherwise is None:
        known = otherwise if then is None else then
        if known is None or not _is_small(b.then if known else b.otherwise):
            return None  # what is chosen where it is known would stand in both arms
    twice = {True: then is otherwise or otherwise is None, False: then is otherwise or then is None}
    between = _slice(between, second)
    if len(between) > figures.DOUBLED and all(
        inside.op.IS.scalar for arm in (a.then, a.otherwise, b.then, b.otherwise) for inside in walk(arm)
    ):
        return None  # a loop around may choose between what little the arms give, and then has lanes
    arms = [_continued(first, a.then, between, second, b, then, twice[True])]
    arms.append(_continued(first, a.otherwise, between, second, b, otherwise, twice[False]))
    vars = (*first.vars, *second.vars)
    spent = {v for v in free_vars(b) if isinstance(v.type, Token)}  # the later branch goes on from the earlier one's
    left = [k for k, v in enumerate(vars) if v not in spent]
    first_arm, second_arm = (Block(arm.lets, tuple([arm.results[k] for k in left])) for arm in arms)
    return Let(tuple([vars[k] for k in left]), If(a.condition, first_arm, second_arm, cold=a.cold), first.span)


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


def _slice(lets: Sequence[Let], user: Let) -> list[Let]:
    """Selects the lets that a later one needs."""
    needed = set(mentioned(user.op))
    needed_lets: list[Let] = []
    for let in reversed(lets):
        if not needed.isdisjoint(let.vars):
            needed_lets.append(let)
            needed.update(mentioned(let.op))
    return needed_lets[::-1]


def _is_small(block: Block) -> bool:
    return sum(1 for _ in walk(block)) <= figures.DOUBLED


def _continued(
    first: Let, arm: Block, between: Sequence[Let], second: Let, b: If, value: bool | None, twice: bool
) -> Block:
    """An arm of the earlier branch, and then what the later one does there. twice: the other arm does some of it, too.

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
    lets = list(arm.lets)
    for let in more:
        _append(lets, let)
    while lets and lets[-1].vars in copied and lets[-1].vars[0] not in ends:  # what merged further in has no use for
        lets.pop()
    return Block(tuple(lets), (*arm.results, *ends))
