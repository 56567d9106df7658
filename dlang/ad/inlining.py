"""Calls that a derivative passes through: inlined, as far as the functions do not call themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dlang.ad.activity import active_vars
from dlang.ir.anf import Block, Call, Let, Program, Var
from dlang.ir.substitution import Renaming, inlined
from dlang.ir.traverse import rebuild, walk


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
        body = _Inline(program, chosen).block(body)


class _Inline:
    """Replaces the calls that bind `chosen` by the bodies of the functions."""

    def __init__(self, program: Program, chosen: set[Var]) -> None:
        self.program, self.chosen, self.renaming = program, chosen, Renaming({})

    def block(self, block: Block) -> Block:
        r = self.renaming
        lets: list[Let] = []
        for let in block.lets:
            if isinstance(let.op, Call) and let.vars and let.vars[0] in self.chosen:
                body = inlined(self.program.functions[let.op.function], tuple(r.atom(a) for a in let.op.args), let.span)
                lets += body.lets
                r.env.update(zip(let.vars, body.results, strict=True))
            else:
                op = rebuild(let.op, atom=r.atom, size=r.size, block=self.block, bind=r.bind)
                lets.append(Let(tuple(r.bind(v) for v in let.vars), op, let.span))
        return Block(tuple(lets), tuple(r.atom(a) for a in block.results))


def recursive(program: Program) -> set[str]:
    """The functions that can reach themselves."""
    called = {
        name: {let.op.function for let in walk(f.body) if isinstance(let.op, Call)}
        for name, f in program.functions.items()
    }
    found = set()
    for name in called:
        seen: set[str] = set()
        work = list(called[name])
        while work:
            callee = work.pop()
            if callee not in seen:
                seen.add(callee)
                work += called.get(callee, ())
        if name in seen:
            found.add(name)
    return found


def unused(name: str, taken: Collection[str]) -> str:
    """A name for a new function: the one given, or with a number."""
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}{number}"
    return candidate
