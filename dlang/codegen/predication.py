"""Branches in one path: short arms both run, and only what is chosen takes place.

A jump that may go either way is mispredicted half of the time, which costs as much as dozens of operations. In code
that is predicated there is no jump: an arm that the condition does not choose reads zeros, stores to a cell that nobody
reads, and checks nothing.

A branch stays where its condition depends on nothing but the counters of loops and what is around them, so that it can
be foreseen; where an arm hardly ever runs; where its arms cost more than a misprediction does on average, or do what
must not be done in vain: calls, loops, divisions of integers. It also stays where the condition is computed from an
array in which an arm stores, as in a loop that sorts: with a jump, a processor goes on before it knows what has been
stored, and without one, iterations wait for each other. So they would where the condition is computed from an element
that is read where a branch of the iteration before says, as in a search by halves.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from dlang.codegen import loops
from dlang.codegen.loops import Decision
from dlang.codegen.selections import is_number, is_total
from dlang.codegen.traverse import blocks, bound_by, kept, map_inside, mentions, walk, with_stmts
from dlang.ir.anf import Var, is_reference
from dlang.ops import figures
from dlang.ops.primitives import COST

Read = frozenset[loops.Buffer]


def predicated(program: loops.Program) -> loops.Program:
    """The program with such branches in one path, in loops whose iterations go one after another."""
    return replace(program, functions={name: _function(f) for name, f in program.functions.items()})


def _function(f: loops.Function) -> loops.Function:
    if not any(isinstance(s, loops.Branch) and _is_light(s) for s in walk(f.body.stmts)):
        return f
    sources = _Sources()
    sources.statements(f.body.stmts)
    return replace(f, body=with_stmts(f.body, _Predication(sources).outside(f.body.stmts)))


@dataclass(slots=True)
class _Sources:
    """The arrays that variables have been computed from, by any way through a loop's state; of a slice, its array."""

    read: dict[loops.Slot, Read] = field(default_factory=dict)

    def of(self, *values: loops.Value) -> Read:
        return frozenset[loops.Buffer]().union(*map(self._of, values))

    def _of(self, value: loops.Value) -> Read:
        match value:
            case loops.Buffer():
                return self.read.get(value, frozenset({value}))
            case Var():
                return self.read.get(value, frozenset())
            case _:
                return frozenset()

    def statements(self, stmts: Sequence[loops.Stmt]) -> None:
        for stmt in stmts:
            self.statement(stmt)

    def statement(self, stmt: loops.Stmt) -> None:
        match stmt:
            case loops.Load(var, buffer, offset):
                self.read[var] = self.of(buffer, *offset.atoms())
            case loops.Slice(result, source, _):
                self.read[result] = self.of(source)
            case loops.Branch(condition, then, otherwise, results):
                self.statements(then.stmts)
                self.statements(otherwise.stmts)
                for slot, a, b in zip(results, then.results, otherwise.results, strict=True):
                    self.read[slot] = self.of(condition, a, b)
            case loops.InOrder():
                self.carried(stmt)
            case _:
                for block in blocks(stmt):
                    self.statements(block)
                read = self.of(*mentions(stmt))
                self.read.update(dict.fromkeys([v for v in bound_by(stmt) if isinstance(v, Var)], read))

    def carried(self, loop: loops.InOrder) -> None:
        assert isinstance(loop, loops.Stmt)
        state = {p: self.of(x) for p, x in zip(loop.params, loop.init, strict=True)}
        while True:
            self.read |= state
            for block in blocks(loop):
                self.statements(block)
            after = {p: state[p] | self.of(x) for p, x in zip(loop.params, loop.following, strict=True)}
            if after == state:
                break
            state = after
        self.read.update((result, state[p]) for result, p in zip(loop.results, loop.params, strict=True))


@dataclass(frozen=True, slots=True)
class _Predication:
    sources: _Sources

    def outside(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        """Statements outside of loops."""
        return kept(stmts, [self.loop(s, set()) if _is_loop(s) else map_inside(s, self.outside) for s in stmts])

    def loop(self, loop: loops.Stmt, varying: Set[Var]) -> loops.Stmt:
        """A loop. varying: what around it may differ in each iteration, and can't be foreseen."""
        if isinstance(loop, loops.Loop) and loop.lanes > 1:
            return loop
        state, searched = set[Var](), set[loops.Value]()
        if isinstance(loop, loops.InOrder):
            state = {p for p in loop.params if isinstance(p, Var)}
            searched = _searched(loop)
        return map_inside(loop, partial(self.inside, varying=varying | state, searched=searched))

    def inside(
        self, stmts: Sequence[loops.Stmt], varying: Set[Var], searched: Set[loops.Value]
    ) -> tuple[loops.Stmt, ...]:
        """Statements in a loop. searched: what waits for elements that are read where a branch says."""
        varying = set(varying)
        out: list[loops.Stmt] = []
        for stmt in stmts:
            match stmt:
                case _ if _is_loop(stmt):
                    out.append(self.loop(stmt, varying))
                case loops.Branch(condition=Var() as condition) if condition in varying - searched and self.gains(stmt):
                    out.append(_in_one_path(stmt))
                case _:
                    out.append(map_inside(stmt, partial(self.inside, varying=varying, searched=searched)))
            if isinstance(stmt, loops.Load) or any(v in varying for v in mentions(stmt)):
                varying.update(v for v in bound_by(stmt) if isinstance(v, Var))
        return tuple(kept(stmts, out))

    def gains(self, stmt: loops.Branch) -> bool:
        """Tells whether a branch is light, and its condition does not wait for what its arms store."""
        stored = [s.buffer for s in walk((stmt,)) if isinstance(s, loops.Store)]
        return _is_light(stmt) and self.sources.of(stmt.condition).isdisjoint(self.sources.of(*stored))


def _searched(loop: loops.InOrder) -> set[loops.Value]:
    """All that is computed from elements which are read where a branch of the loop, in an iteration before, says."""
    stmts = list(walk(loop.body.stmts))
    chosen = _computed_from([r for s in stmts if isinstance(s, loops.Branch) for r in s.results], loop, stmts)
    read = [s.var for s in stmts if isinstance(s, loops.Load) and not chosen.isdisjoint(s.offset.atoms())]
    return _computed_from(read, loop, stmts) if read else set()


def _computed_from(values: Sequence[loops.Value], loop: loops.InOrder, stmts: Sequence[loops.Stmt]) -> set[loops.Value]:
    """All that is computed from some values in a loop, by any way through its state and that of the loops in it."""
    found = set(values)
    in_order = [loop, *[s for s in stmts if isinstance(s, loops.InOrder)]]
    before = -1
    while len(found) > before:
        before = len(found)
        for s in stmts:
            if any(v in found for v in mentions(s)):
                found.update(bound_by(s))
        for inner in in_order:
            for p, first, following in zip(inner.params, inner.init, inner.following, strict=True):
                if first in found or following in found:
                    found.add(p)
    return found


def _is_loop(stmt: loops.Stmt) -> bool:
    return isinstance(stmt, loops.Loop | loops.InOrder)


def _in_one_path(stmt: loops.Stmt) -> loops.Stmt:
    inside = map_inside(stmt, lambda stmts: tuple([_in_one_path(s) for s in stmts]))
    if not isinstance(inside, loops.Branch):
        return inside
    reason = "{} operations and {} accesses of both arms, beside a jump that can't be foreseen"
    why = (*inside.why, Decision("one path", reason, _cost(inside) or ()))
    return replace(inside, predicated=True, why=why)


def _is_light(branch: loops.Branch) -> bool:
    """Tells whether both arms may run, at little cost."""
    return _cost(branch) is not None


def _cost(branch: loops.Branch) -> tuple[int, int] | None:
    """The operations and the accesses of both arms; None if they can't both run, or are too many."""
    operations = accesses = 0
    for s in walk((branch,)):
        match s:
            case loops.Branch() if not s.cold and all(map(is_number, s.results)):
                operations += len(s.results)
            case loops.Compute(_, name, args) if is_total(name, args):
                operations += COST[name]
            case loops.Assert():
                operations += 1
            case _ if s.IS.scalar and not isinstance(s, loops.Compute) and all(map(is_number, bound_by(s))):
                operations += 1
            case loops.Load(_, buffer, _) if not is_reference(buffer.dtype):
                accesses += 1
            case loops.Store(buffer, _, _, monoid) if not is_reference(buffer.dtype):
                accesses += 1 + (monoid != "set")
            case _:
                return None
        if operations > figures.PREDICATED_ARMS or accesses > figures.PREDICATED_ACCESSES:
            return None
    return operations, accesses
