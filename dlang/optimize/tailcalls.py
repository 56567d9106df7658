"""Tail calls become loops, so that they need no stack.

A call is in tail position if its results are, in order and unchanged, those of the function, through the arms of
branches. Functions that tail-call one another are merged first (`mutual.py`); then a function that tail-calls itself
becomes a `While` whose state is the parameters that change, and the results:

    fn f(p) { … if c { … yield f(q) } else { … yield r } }
    fn f(p) { while (p, r = blank) { … if c { … yield true, q, r } else { … yield false, p, r } } yield r }

An array that is handed on and at last returned is one part of the state, so it stays where it is in memory. A call
that hands on a view of an array stays a call: a loop would have to copy what is only looked at.

This comes after derivatives: the reverse of a call keeps on the stack what it needs of each call, that of a loop would
keep the state of every trip in arrays that grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dlang.ir.anf import (
    Array,
    Atom,
    Block,
    Call,
    Function,
    If,
    Let,
    Lit,
    Program,
    Reshape,
    Scalar,
    Token,
    Var,
    View,
    While,
    fresh,
)
from dlang.ir.chains import Chains
from dlang.ir.traverse import Renaming, refresh_vars, substitute, type_vars, walk
from dlang.optimize.mutual import merge_mutual
from dlang.optimize.tails import blank, tail_calls, tail_let

TRUE, FALSE = Lit(True, "bool"), Lit(False, "bool")


def tail_calls_to_loops(program: Program) -> Program:
    """The program in which no function tail-calls itself, directly or through others."""
    program = merge_mutual(program)
    return replace(program, functions={name: _looped(f) for name, f in program.functions.items()})


def _looped(f: Function) -> Function:
    views = _views(f.body)
    calls = [c for c in tail_calls(f.body) if _goes_on(c, f, views)]
    if not calls:
        return f
    tokens = any(isinstance(r.type, Token) for r in f.results)
    changing = tuple(
        p
        for k, p in enumerate(f.params)
        if any(c.args[k] is not p for c in calls) or (tokens and isinstance(p.type, Token))
    )
    if any(v in changing for r in f.results for v in type_vars(r.type)):
        return f  # the sizes of the results would change from trip to trip
    slots = refresh_vars(changing, {})
    body = substitute(f.body, dict(zip(changing, slots, strict=True)))
    return _Loop(f, changing, slots, body).function()


def _views(block: Block) -> frozenset[Var]:
    return frozenset(let.vars[0] for let in walk(block) if isinstance(let.op, View | Reshape))


def _goes_on(call: Call, f: Function, views: frozenset[Var]) -> bool:
    """Whether a call in tail position is another trip of the loop that a function becomes."""
    return call.function == f.name and not any(a in views for a in call.args)


@dataclass(slots=True)
class _Loop:
    """A function that becomes a loop. changing: the parameters that are state, and `slots` in their place in the body.

    shared: the slot of a result that has none of its own. extra: the state of the others, whose positions are `own`.
    """

    f: Function
    changing: tuple[Var, ...]
    slots: tuple[Var, ...]
    body: Block
    chains: Chains = field(default_factory=Chains)
    views: frozenset[Var] = frozenset()
    shared: dict[int, int] = field(default_factory=dict)
    own: tuple[int, ...] = ()
    extra: tuple[Var, ...] = ()

    def function(self) -> Function:
        f = self.f
        self.chains.add(self.body)
        self.views = _views(self.body)
        self._share()
        self.own = tuple(k for k in range(len(f.results)) if k not in self.shared)
        formals = tuple(f.results[k] for k in self.own)
        self.extra = refresh_vars(formals, {})
        lets: list[Let] = []
        first: list[Atom] = list(self.changing)
        blanks = Renaming({})
        for formal in formals:
            value = blank(Var(formal.name, blanks.type(formal.type)), lets)
            blanks.env[formal] = value
            first.append(value)
        state = (*self.slots, *self.extra)
        loop = While(state, tuple(first), Block((), (TRUE,)), self.trip(self.body, ()), early=True)
        last = refresh_vars(state, {})
        lets.append(Let(last, loop, f.span))
        results = [
            last[self.shared[k]] if k in self.shared else last[len(self.slots) + self.own.index(k)]
            for k in range(len(f.results))
        ]
        return replace(f, body=Block(tuple(lets), tuple(results)))

    def _share(self) -> None:
        """Finds the results that a slot holds at last: tokens, and arrays that every end leaves in the slot's memory."""
        ends = list(_ends(self.body, self.f, self.views))
        for k, formal in enumerate(self.f.results):
            for j, (param, slot) in enumerate(zip(self.changing, self.slots, strict=True)):
                if j in self.shared.values() or param.type != formal.type:
                    continue
                fixed = isinstance(formal.type, Array) and slot.type == param.type
                left = fixed and ends and all(self.chains.root(end.results[k], 0) is slot for end in ends)
                if left or isinstance(formal.type, Token):
                    self.shared[k] = j
                    break

    def trip(self, block: Block, scope: tuple[Var, ...]) -> Block:
        """A block in tail position as the body of the loop: it gives whether to go on, and the next state.

        scope: what the blocks around it have bound.
        """
        last = tail_let(block)
        match last.op if last is not None else None:
            case Call() as call if _goes_on(call, self.f, self.views):
                args = [a for a, p in zip(call.args, self.f.params, strict=True) if p in self.changing]
                return Block(block.lets[:-1], (TRUE, *args, *self.extra))
            case If(condition, then, otherwise) if any(_goes_on(c, self.f, self.views) for c in tail_calls(block)):
                before = block.lets[:-1]
                scope = (*scope, *(v for let in before for v in let.vars))
                op = If(condition, self.trip(then, scope), self.trip(otherwise, scope))
                vars = refresh_vars((fresh("on", Scalar("bool")), *self.slots, *self.extra), {})
                assert last is not None
                return Block((*before, Let(vars, op, last.span)), vars)
        scope = (*scope, *(v for let in block.lets for v in let.vars))
        held = {j: block.results[k] for k, j in self.shared.items()}
        kept = [held[j] if j in held else self._latest(slot, scope) for j, slot in enumerate(self.slots)]
        return Block(block.lets, (FALSE, *kept, *(block.results[k] for k in self.own)))

    def _latest(self, slot: Var, scope: tuple[Var, ...]) -> Var:
        """What has the memory of a slot at the end: any value of its type would do, this one need not be copied."""
        for var in reversed(scope):
            if isinstance(var.type, Array) and var.type == slot.type and self.chains.root(var, 0) is slot:
                return var
        return slot


def _ends(block: Block, f: Function, views: frozenset[Var]) -> Iterator[Block]:
    """The blocks in tail position that give the results of the function."""
    last = tail_let(block)
    match last.op if last is not None else None:
        case Call() as call if _goes_on(call, f, views):
            pass
        case If(then=then, otherwise=otherwise) if any(_goes_on(c, f, views) for c in tail_calls(block)):
            yield from _ends(then, f, views)
            yield from _ends(otherwise, f, views)
        case _:
            yield block
