"""First-order inlining, callees before callers.

A call is replaced by the body of the function where that is small, called once, or works on arrays: array code gains
from standing in one block. Recursive and large scalar functions stay functions. What a derivative names stays,
and is inlined into; so does what has rules of its own, until derivatives are expanded. Where `checkpoint` asks for
code to run again it stays a function, or what is computed again would be found to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.graphs import components, in_cycles, reached
from dlang.ir.anf import (
    Block,
    Call,
    Comp,
    Compact,
    Concat,
    Contract,
    Derivative,
    Function,
    Let,
    Library,
    Program,
    Reshape,
    Scan,
    Update,
    View,
)  # fmt: skip
from dlang.ir.substitution import Renaming, inlined
from dlang.ir.traverse import named_function, rebuild, walk, with_lets, with_op

SMALL = 40  # lets of a scalar function
LARGE = 1000  # lets of a function of arrays: above, only a function called once is inlined
_ARRAY_CODE = (Comp, Contract, Update, View, Reshape, Concat, Scan, Library, Compact)


def inline(program: Program, entries: Sequence[str]) -> Program:
    """The program with calls inlined and without the functions that no entry reaches."""
    derivatives = any(isinstance(let.op, Derivative) for f in program.functions.values() for let in walk(f.body))
    called = {name: _called(f, derivatives) for name, f in program.functions.items()}
    order, recursive = _callees_first(called, entries)
    sites: dict[str, int] = {}
    for name in order:
        for callee in called[name]:
            sites[callee] = sites.get(callee, 0) + 1
    done: dict[str, Function] = {}
    chosen: dict[str, Function] = {}
    for name in order:
        f = program.functions[name]
        body = f.body
        if any(callee in chosen for callee in called[name]):
            body = _Inliner(chosen).block(body)
            f = replace(f, body=body)
        done[name] = f
        ruled = f.rules is not None and (derivatives or f.rules.checkpoint)
        if name not in recursive and not ruled and (sites.get(name, 0) == 1 or _worthwhile(f)):
            chosen[name] = f
    result = replace(program, functions={name: done[name] for name in program.functions if name in done})
    called = {name: _called(f, derivatives) for name, f in result.functions.items()}
    kept = set(reached(entries, called.__getitem__))
    return replace(result, functions={name: f for name, f in result.functions.items() if name in kept})


def _called(f: Function, derivatives: bool) -> list[str]:
    """What a function calls or differentiates, once for each place; its rules as long as there are derivatives."""
    called = [name for let in walk(f.body) if (name := named_function(let.op)) is not None]
    if derivatives and f.rules is not None:
        called += [name for name in (f.rules.pullback, f.rules.pushforward) if name is not None]
    return called


def _callees_first(called: dict[str, list[str]], entries: Sequence[str]) -> tuple[list[str], set[str]]:
    """The functions that the entries reach, each after what it calls, and those that can reach themselves."""
    found = components(called, entries)
    return [name for component in found for name in reversed(component)], in_cycles(called, found)


def _worthwhile(f: Function) -> bool:
    count, arrays = 0, False
    for let in walk(f.body):
        count += 1
        arrays = arrays or isinstance(let.op, _ARRAY_CODE)
    return count <= (LARGE if arrays else SMALL)


class _Inliner:
    """Replaces calls in one function."""

    def __init__(self, chosen: dict[str, Function]) -> None:
        self.chosen = chosen
        self.renaming = Renaming({})

    def block(self, block: Block) -> Block:
        lets: list[Let] = []
        renaming = self.renaming
        for let in block.lets:
            op = let.op
            if isinstance(op, Call) and op.function in self.chosen:
                body = inlined(self.chosen[op.function], tuple([renaming.atom(a) for a in op.args]), let.span)
                lets += body.lets
                renaming.env.update(zip(let.vars, body.results, strict=True))
                continue
            lets.append(self.let(let))
        return with_lets(block, lets, [renaming.atom(r) for r in block.results])

    def let(self, let: Let) -> Let:
        r = self.renaming
        op = rebuild(let.op, atom=r.atom, size=r.size, block=self.block, bind=r.bind)
        return with_op(let, tuple([r.bind(v) for v in let.vars]), op)
