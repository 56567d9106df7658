"""A function that both arms of a branch call last is called once behind the branch, which chooses what it is given.

    p = if c { yield price(a, true) }              x, f = if c { yield a, true } else { yield b, false }
        else { yield price(b, false) }      →      p = price(x, f)

So a `match` whose arms say the same of different payloads has the code of one arm: what is called once is inlined, and
a loop around has lanes. Recursion stays as it is written, and so does what differs in a number that may be a size:
where it is known the code is better.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dlang.ir.anf import Atom, Block, Call, If, Let, Program, Scalar, Var, fresh
from dlang.ir.traverse import map_blocks, map_bodies, recursive_functions, with_lets, with_op
from dlang.ir.types import I64


def common_calls(program: Program) -> Program:
    """The program with such calls behind their branches."""
    recursive = recursive_functions(program)

    def changed(block: Block) -> Block:
        lets: list[Let] = []
        for let in block.lets:
            let = with_op(let, let.vars, map_blocks(let.op, changed))
            lets += _apart(let, recursive) or [let]
        return with_lets(block, lets, block.results)

    return map_bodies(program, changed)


def _apart(let: Let, recursive: Set[str]) -> list[Let] | None:
    """A branch that chooses the arguments, and the call; None if the arms do not call one function last."""
    if not isinstance(let.op, If) or let.op.cold or not (let.op.then.lets and let.op.otherwise.lets):
        return None
    arms = let.op.then, let.op.otherwise
    first, second = [arm.lets[-1] for arm in arms]
    if not isinstance(first.op, Call) or not isinstance(second.op, Call) or first.op.function != second.op.function:
        return None
    if first.op.function in recursive or not all(isinstance(v.type, Scalar) for v in first.vars):
        return None
    pairs = list(zip(first.op.args, second.op.args, strict=True))
    if not all(a is b or a == b or _may_differ(a, b) for a, b in pairs):
        return None
    calls: dict[Var, Var] = {}
    others: list[int] = []
    for k, ends in enumerate(zip(arms[0].results, arms[1].results, strict=True)):
        at = [_position(r, made.vars) for r, made in zip(ends, (first, second), strict=True)]
        if at[0] != at[1] or (at[0] is not None and first.vars[at[0]] in calls):
            return None
        if at[0] is None:
            others.append(k)
        else:
            calls[first.vars[at[0]]] = let.vars[k]
    differing = [k for k, (a, b) in enumerate(pairs) if a != b]
    args = list(first.op.args)
    for k in differing:
        args[k] = fresh(_name(*pairs[k]), pairs[k][0].type)
    given = [
        Block(arm.lets[:-1], (*[arm.results[k] for k in others], *[pairs[k][side] for k in differing]))
        for side, arm in enumerate(arms)
    ]
    bound = (*[let.vars[k] for k in others], *[v for k in differing if isinstance(v := args[k], Var)])
    results = tuple([calls.get(v) or fresh(v.name, v.type) for v in first.vars])
    call = Let(results, Call(first.op.function, tuple(args)), first.span)
    return [Let(bound, If(let.op.condition, *given), let.span), call]


def _position(atom: Atom, vars: Sequence[Var]) -> int | None:
    return vars.index(atom) if isinstance(atom, Var) and atom in vars else None


def _may_differ(a: Atom, b: Atom) -> bool:
    """Tells whether the argument may be chosen: a scalar that is no size."""
    return isinstance(a.type, Scalar) and a.type == b.type and a.type != I64


def _name(a: Atom, b: Atom) -> str:
    return next((x.name for x in (a, b) if isinstance(x, Var)), "given")
