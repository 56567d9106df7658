"""Calls that a derivative passes through: inlined, save those of recursive functions and of large ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dlang import graphs
from dlang.ad.activity import active_vars
from dlang.ir.anf import Block, Call, Derivative, Let, Program, Scalar, Var
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import inlined
from dlang.ir.traverse import called_by, walk
from dlang.ir.types import is_float
from dlang.ops import figures


def functions_that_stay(program: Program) -> set[str]:
    """The functions that derivatives call: recursive ones, and those of which they would have many copies.

    So the code of a derivative grows no faster than the program, though each function calls another twice.
    """
    ops = {name: [let.op for let in walk(f.body)] for name, f in program.functions.items()}
    derived = {op.function for ops_of in ops.values() for op in ops_of if isinstance(op, Derivative)}
    calls = {name: called_by(f) for name, f in program.functions.items()}
    order = graphs.components({name: list(dict.fromkeys(callees)) for name, callees in calls.items()})
    stay = graphs.in_cycles(calls, order)
    places = Counter([callee for name in graphs.reached(derived, calls.__getitem__) for callee in calls[name]])
    lets: dict[str, int] = {}
    for name in [name for component in order for name in component if name not in stay]:
        lets[name] = len(ops[name]) + sum([lets[callee] for callee in calls[name] if callee not in stay])
        if places[name] > 1 and places[name] * lets[name] > figures.COPIED:
            stay.add(name)
    return stay


@dataclass
class Versions:
    """How many derivatives each function that stays has, of which there is one for each choice of parameters.

    The variants of an enum have fields of their own: so calls for n variants would have n derivatives, each of n arms.
    """

    program: Program
    made: Counter[str] = field(default_factory=Counter)

    @cached_property
    def _lets(self) -> dict[str, int]:
        return {name: sum(1 for _ in walk(f.body)) for name, f in self.program.functions.items()}

    def params(self, function: str, wanted: Collection[int]) -> tuple[int, ...]:
        """The positions of the parameters for which another derivative is made: those wanted, or all numbers besides
        where the code of all would be large, so that there is one for the calls that are left."""
        if self.made[function] * self._lets[function] <= figures.COPIED:
            return tuple(sorted(wanted))
        params = self.program.functions[function].params
        numbers = [k for k, p in enumerate(params) if isinstance(p.type, Scalar) and is_float(p.type)]
        return tuple(sorted({*wanted, *numbers}))


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
