"""Loops whose iterations have parts of their own of all arrays that they change, so that their order does not matter.

    for i in 0..n (rows) {
      a = for k in 0..m (a = zeros) { … }
      rows = comp j in 0..3 { a[j] } to keep [n, 3] [i, j] set into rows
      yield rows
    }

A comprehension whose elements are made by code with a state is such a loop. Each iteration reads and writes the state
only at indices of which one entry moves with its number, by 1 or -1: so two iterations never meet in an element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.comprehension_queries import slope
from dlang.ir.traverse import bound_vars, parts, walk
from dlang.ir.writes import older_of

_Entry = tuple[int, anf.Size]  # the position in an index, and what stands there


def are_independent(loop: anf.For) -> bool:
    """Tells whether the iterations of a loop may be done in any order, and several at a time.

    Where one may fail, the state is only written: so it may be done once more to find out which one fails first.
    """
    if loop.early or not loop.params:
        return False
    if not all(isinstance(p.type, anf.Array) and not anf.is_reference(p.type.dtype) for p in loop.params):
        return False
    inside = frozenset(bound_vars(loop.body))
    may_fail = any(let.op.IS.fails for let in walk(loop.body))
    for param, result in zip(loop.params, loop.body.results, strict=True):
        state = _State(loop.index, inside, {param})
        if not state.stays_in(loop.body) or result not in state.versions or state.entries == set():
            return False
        if may_fail and state.is_read:
            return False
    return True


@dataclass(slots=True)
class _State:
    """An array of a loop's state in an iteration.

    number: of the iteration; inside: what is bound in it. versions: the array and those that go on with it. entries:
    those that each index so far has, and that tell iterations apart; None before the first index.
    """

    number: anf.Var
    inside: frozenset[anf.Var]
    versions: set[anf.Atom]
    entries: set[_Entry] | None = None
    is_read: bool = False

    def stays_in(self, block: anf.Block) -> bool:
        """Tells whether a block uses the array only by elements and parts, and hands on all of it or nothing of it."""
        return all(map(self._let, block.lets))

    def _let(self, let: anf.Let) -> bool:
        op = let.op
        match op:
            case anf.Read(array, index) | anf.View(array, index=index):
                if array in self.versions:
                    self._reached(index)
                    self.is_read = True
                return True
            case anf.Update(array, index):
                if array in self.versions:
                    self._reached(index)
                    self.versions.update(let.vars)
                return True
            case anf.Comp():
                return self._comprehension(let, op)
            case anf.If():
                return all(map(self.stays_in, (op.then, op.otherwise))) and self._handed_on(
                    zip(let.vars, op.then.results, op.otherwise.results, strict=True)
                )
            case anf.For() | anf.While():
                begun = [first in self.versions for first in op.init]
                self.versions.update(p for p, b in zip(op.params, begun, strict=True) if b)
                if not all(map(self.stays_in, parts(op).blocks)):
                    return False
                return self._handed_on(zip(let.vars, op.params, op.body.results[op.early :], strict=True))
            case _:
                return self.versions.isdisjoint(parts(op).atoms)

    def _comprehension(self, let: anf.Let, op: anf.Comp) -> bool:
        if not self.stays_in(op.body) or not self.versions.isdisjoint(op.body.results):
            return False
        for var, d in zip(let.vars, op.destinations, strict=True):
            if older_of(d, let.vars) in self.versions:
                self._reached(d.index)
                self.versions.add(var)
        return True

    def _handed_on(self, choices: Iterable[tuple[anf.Var, anf.Atom, anf.Atom]]) -> bool:
        """Notes the variables that are versions, each of which may be two values; whether both are, or none is."""
        for var, one, other in choices:
            if (one in self.versions) != (other in self.versions):
                return False
            if one in self.versions:
                self.versions.add(var)
        return True

    def _reached(self, index: Sequence[anf.Size]) -> None:
        by_iteration = {
            (k, e) for k, e in enumerate(index) if slope(e, self.number) in (1, -1) and not e.mentions(self.inside)
        }
        self.entries = by_iteration if self.entries is None else self.entries & by_iteration
