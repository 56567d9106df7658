"""Calls that a derivative passes through: inlined, as far as the functions do not call themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dlang.ad.activity import active_vars
from dlang.ir.anf import Block, Call, Let, Program, Var
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import inlined
from dlang.ir.traverse import walk


def inlined_where_active(
    program: Program,
    body: Block,
    wrt: Sequence[Var],
    seeded: Sequence[bool],
    keep: Collection[str],
    held: Collection[str],
) -> Block:
    """The body with every call that a derivative passes through inlined, save those of the functions in `keep`."""
    while True:
        active = active_vars(body, wrt, seeded, held)
        chosen = {
            let.vars[0]
            for let in walk(body)
            if isinstance(let.op, Call) and let.op.function not in keep and any(v in active for v in let.vars)
        }
        if not chosen:
            return body
        body = _Inliner(program, chosen).block(body)


class _Inliner(Rewriter):
    """Replaces the calls that bind `chosen` by the bodies of the functions."""

    def __init__(self, program: Program, chosen: set[Var]) -> None:
        super().__init__()
        self.program, self.chosen = program, chosen

    def rule(self, let: Let) -> None:
        op = let.op
        if isinstance(op, Call) and not self.chosen.isdisjoint(let.vars):
            args = tuple([self.atom(a) for a in op.args])
            self.insert(inlined(self.program.functions[op.function], args, let.span), let.vars)
        else:
            super().rule(let)


def unused(name: str, taken: Collection[str]) -> str:
    """A name for a new function: the one given, or with a number."""
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}{number}"
    return candidate
