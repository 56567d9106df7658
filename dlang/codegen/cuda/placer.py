"""The walk over a function that launches kernels: which statements run where, and what is copied between them.

Statements for the host that follow each other share the copies of arrays that they need, and elements that are stored
one by one are stored by one kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dlang.codegen import loops
from dlang.codegen.cuda.kernels import Kernels, results_of
from dlang.codegen.cuda.nests import Nest, is_number
from dlang.codegen.cuda.scans import Scan, scan_of
from dlang.codegen.cuda.spaces import Launching, Spaces, is_worth_it
from dlang.codegen.cuda.tallies import tally_of
from dlang.codegen.loops import Allocate, At, Branch, Count, Free, Loop, Slot, Stmt, Store
from dlang.codegen.profile import Measuring
from dlang.codegen.traverse import binds, bound_by, captures, changed, map_inside, walk
from dlang.ir.anf import Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of, product

# ---- blocks under way, and what statements bind and change -----------------------------------------------------------
_T = TypeVar("_T")


@dataclass(slots=True)
class Scope:
    """The statements of a block so far.

    host, once: those that have come last and are to be done together, by the host or by one thread of the device; one
    of these is empty. after: what is freed after them. there: numbers that the device has, by how to get them.
    temporary: memory of the device to be freed where the block ends. conditions: those on which kernels do anything;
    cold: whether they hardly ever do.
    """

    there: dict[Var, loops.Stmt]
    out: list[loops.Stmt] = field(default_factory=list)
    host: list[loops.Stmt] = field(default_factory=list)
    once: list[loops.Stmt] = field(default_factory=list)
    after: list[loops.Stmt] = field(default_factory=list)
    temporary: list[loops.Buffer] = field(default_factory=list)
    conditions: list[Var] = field(default_factory=list)
    cold: bool = False


def bound(stmts: Sequence[loops.Stmt]) -> set[loops.Slot]:
    return {slot for stmt in stmts for slot in bound_by(stmt)}


def guards_in(stmts: Sequence[loops.Stmt]) -> list[loops.Assert]:
    """The guards among the statements themselves; one inside of a statement refuses what is made there."""
    return [stmt for stmt in stmts if isinstance(stmt, loops.Assert)]


def without(values: Sequence[_T], positions: Container[int]) -> tuple[_T, ...]:
    return tuple([value for k, value in enumerate(values) if k not in positions])


def counted(stmts: Sequence[loops.Stmt]) -> dict[loops.Buffer, Size]:
    """Maps arrays that statements of the host only hand to functions to the numbers of elements that these get."""
    counts: dict[loops.Buffer, Size] = {}
    differing = {v for v in captures(_without_operands(stmts), ()) if isinstance(v, loops.Buffer)}
    inside = [slot for stmt in walk(stmts) for slot in binds(stmt) if isinstance(slot, Var)]
    for stmt in walk(stmts):
        for operand in (*stmt.args, *stmt.outs) if isinstance(stmt, loops.Runtime) else ():
            if isinstance(operand, loops.ArrayValue):
                size = product(operand.shape)
                if counts.setdefault(operand.buffer, size) != size or size.mentions(inside):
                    differing.add(operand.buffer)
    return {buffer: size for buffer, size in counts.items() if buffer not in differing}


def _without_operands(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
    """Statements whose calls of functions are handed nothing."""
    handed = [replace(s, args=(), outs=()) if isinstance(s, loops.Runtime) else s for s in stmts]
    return tuple([map_inside(s, _without_operands) for s in handed])


def may_change(stmts: Sequence[loops.Stmt]) -> set[loops.Buffer]:
    """The arrays that statements may change or give back, whoever does them."""
    return changed_by(stmts) | {stmt.buffer for stmt in walk(stmts) if isinstance(stmt, loops.Free)}


def changed_by(stmts: Sequence[loops.Stmt]) -> set[loops.Buffer]:
    """The arrays that statements may change."""
    roots: dict[loops.Buffer, loops.Buffer] = {}
    for stmt in walk(stmts):
        match stmt:
            case loops.Slice(result, source):
                roots[result] = source
            case loops.InOrder():
                for param, first in zip(stmt.params, stmt.init, strict=True):
                    if isinstance(param, loops.Buffer) and isinstance(first, loops.Buffer):
                        roots[param] = first
            case _:
                pass
    changed_roots: set[loops.Buffer] = set()
    for value in [value for stmt in walk(stmts) for value in changed(stmt)]:
        while isinstance(value, loops.Buffer) and value not in changed_roots:
            changed_roots.add(value)
            value = roots.get(value, value)
    return changed_roots


LONG = 40  # statements that each thread of a kernel does first; more are done once, by a kernel of their own


@dataclass(slots=True)
class Placer:
    """The walk over a function.

    measure: marks the nests of a profile. twins: arrays of nodes, which the host has, of arrays of the device; with how
    many elements are still to be copied there, if any. still: groups of arrays that a loop under way never changes.
    """

    launches: Launching
    kernels: Kernels
    spaces: Spaces
    measure: Measuring | None = None
    twins: dict[loops.Buffer, tuple[loops.Buffer, Size | None]] = field(default_factory=dict)
    still: set[loops.Buffer] = field(default_factory=set)
    numbers: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = Numbers(self.launches, self.spaces)

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def block(
        self,
        body: loops.Body,
        there: Mapping[Var, loops.Stmt],
        kept: Sequence[tuple[loops.Buffer, loops.Value]] = (),
        leaves: bool = False,
    ) -> loops.Body:
        """A block, whose results the host knows, unless numbers are left on the device, in arrays of one element.

        there: numbers that the device has. kept: what it stores at the end, all at once.
        """
        s = Scope(dict(there))
        for stmt in body.stmts:
            self.statement(s, stmt)
        self.flush(s)
        self.store(s, kept)
        results = list(body.results)
        if leaves:
            results = [self.left(s, v) if isinstance(v, Var) and v in s.there else v for v in results]
            self.flush(s)
        else:
            self.known(s, [v for v in results if isinstance(v, Var)])
        s.out += [loops.OnDevice(loops.Free(buffer)) for buffer in reversed(s.temporary) if buffer not in results]
        return loops.Body(tuple(s.out), tuple(results))

    def left(self, s: Scope, var: Var) -> loops.Buffer:
        """A number of the device, in an array that is its own."""
        kept = self._temporary(s, var)
        s.once.append(loops.Store(kept, ZERO, var))
        return kept

    def statement(self, s: Scope, stmt: loops.Stmt) -> None:
        match stmt:
            case loops.Compute() | loops.Convert() | loops.Evaluate():
                self.scalar(s, stmt)
            case loops.At(span):
                if self.measure is not None:
                    self.measure.span = span
                (s.host or s.once or s.out).append(stmt)
            case loops.Count():
                (s.host or s.out).append(stmt)
            case loops.Load(_, buffer) if self.spaces.on_device(buffer):
                self.load(s, stmt)
            case loops.Store(buffer) if self.spaces.on_device(buffer):
                if s.host:
                    self.flush(s)
                s.once.append(stmt)
            case loops.Assert() if self._is_there(s, stmt):
                if s.host:
                    self.flush(s)
                s.once.append(stmt)
            case loops.Assert():
                self.known(s, captures((stmt,), ()))
                if s.once:
                    self.flush(s)
                (s.host or s.out).append(stmt)
            case loops.Allocate(buffer) if self.spaces.on_device(buffer):
                if not bound(s.host).isdisjoint(captures((stmt,), ())):
                    self.flush(s)
                self._sizes_known(s, stmt)
                self._refused_first(s)
                s.out.append(loops.OnDevice(stmt))
            case loops.Free(buffer) if self.spaces.on_device(buffer):
                (s.after if s.host or s.once else s.out).append(loops.OnDevice(stmt))
            case loops.Slice(_, buffer) if self.spaces.on_device(buffer):
                if s.host:
                    self.flush(s)
                self._sizes_known(s, stmt)
                s.out.append(stmt)
            case loops.Move(target, source) if self.spaces.on_device(target) or self.spaces.on_device(source):
                self._device(s, stmt)
                if self.spaces.on_device(target) and self.spaces.on_device(source):
                    self.nest(s, stmt, [loops.OnDevice(stmt)])
                else:
                    copy = loops.Transfer(target, source, stmt.count, self.spaces.on_device(target))
                    s.out += self.one_of("transfer", [copy])
            case loops.Product():
                self._device(s, stmt)
                self.nest(s, stmt, [loops.OnDevice(stmt)])
            case loops.ArenaAllocate(buffer, shape) if self.spaces.on_device(buffer):
                self._device(s, stmt)
                twin = self._twin(buffer, product(shape))
                s.out += [replace(stmt, buffer=twin), loops.OnDevice(loops.Allocate(buffer, shape, 0, stmt.span))]
                s.temporary.append(buffer)
            case loops.LoadField(slot, _, _, shape) if self.spaces.on_device(slot):
                assert isinstance(slot, loops.Buffer)
                self._device(s, stmt)
                twin = self._twin(slot, None)
                s.out += [replace(stmt, slot=twin), loops.OnDevice(loops.Allocate(slot, shape))]
                s.out += self.one_of("transfer", [loops.Transfer(slot, twin, product(shape), True)])
                s.temporary.append(slot)
            case loops.Node(references=references) if any(map(self.spaces.on_device, references)):
                self.node(s, stmt)
            case loops.Loop() if self.numbers.is_for_device(stmt):
                nest = self.launches.nest(stmt)
                assert nest is not None
                self.flush(s)
                self._iterations_known(s, nest, captures((stmt,), ()))
                self.launch(s, stmt, self.counted(s, stmt))
            case loops.For() if (scan := scan_of(stmt)) is not None:
                self.flush(s)
                self.scan(s, scan)
            case _ if self.launches.stays_on_host(stmt):
                self.known(s, captures((stmt,), ()))
                if s.once:
                    self.flush(s)
                if self.measure is not None and self.measure.span is not None and not s.host:
                    s.host.append(loops.At(self.measure.span))
                s.host.append(stmt)
            case loops.Loop():
                self.loop(s, stmt)
            case loops.For() | loops.While():
                self.in_order(s, stmt)
            case loops.Branch() if self._can_be_skipped(s, stmt):
                self.skipped(s, stmt)
            case loops.Branch():
                self.branch(s, stmt)
            case loops.Invoke():
                self._device(s, stmt)
                s.out.append(stmt)
            case loops.CallC():
                self._device(s, stmt)
                self.nest(s, stmt, self.kernels.foreign(stmt))
            case _:
                raise AssertionError(f"{type(stmt).__name__} around kernels")

    def _twin(self, buffer: loops.Buffer, count: Size | None) -> loops.Buffer:
        twin = loops.Buffer(buffer.name, buffer.dtype)
        self.twins[buffer] = twin, count
        return twin

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def scalar(self, s: Scope, stmt: loops.Compute | loops.Convert | loops.Evaluate) -> None:
        """Places a scalar computation: on the device if it uses a number of the device, else on the host."""
        if not self._is_there(s, stmt):
            (s.host or s.out).append(stmt)
            return
        s.there[stmt.var] = stmt
        if len(needed(s.there, (stmt.var,))) > LONG:
            self.flush(s)
            kept = self._temporary(s, stmt.var)
            s.once.append(loops.Store(kept, ZERO, stmt.var))
            self.flush(s)
            s.there[stmt.var] = loops.Load(stmt.var, kept, ZERO)

    def load(self, s: Scope, stmt: loops.Load) -> None:
        """An element of an array of the device: as it is now, whatever happens to the array."""
        self.flush(s)
        kept = self._temporary(s, stmt.var)
        if self._is_there(s, loops.Evaluate(stmt.var, stmt.offset)):
            inside = fresh(stmt.var.name, stmt.var.type)
            s.once += [replace(stmt, var=inside), loops.Store(kept, ZERO, inside)]
            self.flush(s)
        else:
            element = loops.Buffer(stmt.buffer.name, stmt.buffer.dtype)
            s.out.append(loops.Slice(element, stmt.buffer, stmt.offset))
            s.out += self.one_of("numbers", [loops.OnDevice(loops.Move(kept, element, poly(1)))])
        s.there[stmt.var] = loops.Load(stmt.var, kept, ZERO)

    def known(self, s: Scope, slots: Iterable[loops.Value], kind: str = "transfer") -> None:
        """Has the host get those of some numbers that the device has. kind: of the nest in a profile."""
        wanted = needed(s.there, [v for v in slots if isinstance(v, Var)])
        if not bound(s.host).isdisjoint(captures([s.there[var] for var in wanted], ())):
            self.flush(s)
        for var in wanted:
            stmt = s.there.pop(var)
            if isinstance(stmt, loops.Load):
                s.out += self.one_of(kind, [loops.Fetch(var, stmt.buffer, stmt.offset)])
            else:
                s.out.append(stmt)

    def _temporary(self, s: Scope, var: Var) -> loops.Buffer:
        """Memory on the device for a number."""
        buffer = loops.Buffer(var.name, dtype_of(var))
        s.out.append(loops.OnDevice(loops.Allocate(buffer, (poly(1),))))
        s.temporary.append(buffer)
        return buffer

    def _is_there(self, s: Scope, stmt: loops.Stmt) -> bool:
        """Tells whether a statement uses a number that the device has."""
        return bool(s.there) and any(v in s.there for v in captures((stmt,), ()) if isinstance(v, Var))

    def _sizes_known(self, s: Scope, stmt: loops.Stmt) -> None:
        self.known(s, captures((stmt,), ()))

    def _refused_first(self, s: Scope) -> None:
        """Has guards done before an array is made, whose size they may be about; the host does them if it can."""
        guards = guards_in(s.once)
        if not guards and not guards_in(s.host):
            return
        numbers = captures(s.once, ())
        waits = any(
            isinstance(s.there[v], loops.Load) for v in needed(s.there, [v for v in numbers if isinstance(v, Var)])
        )
        if len(guards) == len(s.once) and not waits:
            self.known(s, numbers)
            s.host, s.once = [*s.host, *guards], []
        self.flush(s)

    # ---- the device --------------------------------------------------------------------------------------------------
    def _device(self, s: Scope, stmt: loops.Stmt) -> None:
        """Before a statement whose numbers the host has to know."""
        self.flush(s)
        self.known(s, captures((stmt,), ()))

    def launch(self, s: Scope, loop: loops.Loop, number: int | None) -> None:
        """Launches a kernel; what it reduces stays on the device. number: of the nest in a profile."""
        nest = self.launches.plain(loop) if s.cold else self.launches.nest(loop)
        assert nest is not None
        outside = captures((loop,), ())
        self._iterations_known(s, nest, outside)
        first = needed(s.there, s.conditions)  # the rest may never have been written
        wanted = [var for var in needed(s.there, [v for v in outside if isinstance(v, Var)]) if var not in first]
        sums = {var: self._temporary(s, var) for var in results_of(nest)}
        prelude = (*[s.there[v] for v in first], *map(loops.Only, s.conditions), *[s.there[v] for v in wanted])
        launched = self.kernels.launch(nest, sums, prelude)
        s.out += launched if number is None else self._marked(number, launched)
        for var, buffer in sums.items():
            s.there[var] = loops.Load(var, buffer, ZERO)

    def _iterations_known(self, s: Scope, nest: Nest, outside: Sequence[loops.Slot]) -> None:
        iterations = [v for level in nest.levels for size in (*level.lows, *level.highs) for v in size.atoms()]
        self.known(s, [v for v in iterations if v in outside])

    def scan(self, s: Scope, scan: Scan) -> None:
        """Launches the kernels of a scan; the totals of all iterations stay on the device."""
        outside = captures((scan.loop,), ())
        iterations = [*scan.loop.low.atoms(), *scan.loop.high.atoms()]
        self.known(s, [v for v in iterations if v in outside])
        number = self.counted(s, scan.loop)
        wanted = needed(s.there, [v for v in outside if isinstance(v, Var)])
        sums = {var: self._temporary(s, var) for var in scan.loop.results if isinstance(var, Var)}
        launched = self.kernels.scan(scan, sums, tuple([s.there[var] for var in wanted]))
        s.out += launched if number is None else self._marked(number, launched)
        for var, buffer in sums.items():
            s.there[var] = loops.Load(var, buffer, ZERO)

    def flush(self, s: Scope) -> None:
        """Has done what was to be done together."""
        if s.once:
            stmts, s.once = tuple(s.once), []
            loop = loops.Loop(fresh("once", I64), (ZERO,), (poly(1),), stmts)
            if self.launches.nest(loop) is None:
                self.known(s, captures(stmts, ()))
                s.host = list(stmts)
            else:
                self.launch(s, loop, None if self.measure is None else self.measure.one_of("numbers"))
        if s.host:
            s.out += self.on_host(s.host)
            s.host = []
        s.out += s.after
        s.after = []

    def on_host(self, stmts: Sequence[loops.Stmt]) -> list[loops.Stmt]:
        """Emits statements for the host, with transfers of the arrays of the device that they use."""
        used = [v for v in captures(stmts, ()) if isinstance(v, loops.Buffer) and self.spaces.on_device(v)]
        arrays = tuple([v for v in used if v not in self.twins])
        arrays_made = tuple(
            [v for t in stmts for v in bound_by(t) if isinstance(v, loops.Buffer) and self.spaces.on_device(v)]
        )
        changed, sizes = changed_by(stmts), counted(stmts)
        if self.measure is not None:
            stmts = self.measure.marked(stmts)
        if not used and not arrays_made:
            return list(stmts)
        held = [(v, *self.twins[v]) for v in used if v in self.twins]
        down = [loops.Transfer(twin, v, count, False) for v, twin, count in held if count is not None]
        up = [loops.Transfer(v, twin, count, True) for v, twin, count in held if count is not None and v in changed]
        pairs = tuple([(v, twin) for v, twin, _ in held])
        still = frozenset([a for a in arrays if self.spaces.group(a) in self.still])
        groups = Counter([self.spaces.group(a) for a in arrays])
        alone = [a for a in arrays if a not in still and groups[self.spaces.group(a)] == 1]
        parts = tuple([(a, sizes[a]) for a in alone if a in sizes])
        region = loops.OnHost(
            tuple(stmts), arrays, tuple([a for a in arrays if a in changed]), pairs, arrays_made, still, parts
        )
        return self.one_of("transfer", [*down, region, *up])

    # ---- loops in order, and branches --------------------------------------------------------------------------------
    def store(self, s: Scope, kept: Iterable[tuple[loops.Buffer, loops.Value]]) -> None:
        """Has numbers stored, of which the device may have made some."""
        s.once += [loops.Store(buffer, ZERO, value) for buffer, value in kept if not isinstance(value, loops.Buffer)]
        self.flush(s)

    def holding(self, stmt: loops.Stmt) -> list[loops.Buffer]:
        """The arrays of the device that a loop of the host uses and never changes, and that none around it holds."""
        changed = {self.spaces.group(buffer) for buffer in may_change((stmt,))}
        used = [v for v in captures((stmt,), ()) if isinstance(v, loops.Buffer) and self.spaces.on_device(v)]
        return [v for v in used if v not in self.twins and self.spaces.group(v) not in changed | self.still]

    def held(self, arrays: Sequence[loops.Buffer], loop: loops.Stmt) -> list[loops.Stmt]:
        """A loop that the placer is done with, around which those of the arrays are held that the host looks at."""
        regions = [stmt for stmt in walk((loop,)) if isinstance(stmt, loops.OnHost)]
        wanted = {self.spaces.group(a) for region in regions for a in region.still}
        kept = [a for a in arrays if self.spaces.group(a) in wanted]
        return [*[loops.Hold(a, True) for a in kept], loop, *[loops.Hold(a, False) for a in reversed(kept)]]

    def in_order(self, s: Scope, stmt: loops.For | loops.While) -> None:
        """A loop in order; the numbers that it carries and that the device makes are in arrays of one element."""
        positions = self.numbers.carried(stmt, set(s.there))
        self.flush(s)
        kept = {k: self._temporary(s, p) for k in positions if isinstance(p := stmt.params[k], Var)}
        self.store(s, [(buffer, stmt.init[k]) for k, buffer in kept.items()])
        inside = dict(s.there)
        inside.update((p, loops.Load(p, b, ZERO)) for k, b in kept.items() if isinstance(p := stmt.params[k], Var))
        early, state = stmt.body.results[: stmt.early], stmt.body.results[stmt.early :]
        state_kept, empty = without(state, kept), loops.Body((), ())
        params: tuple[loops.Slot, ...] = without(stmt.params, kept)
        results: tuple[loops.Slot, ...] = without(stmt.results, kept)
        loop = replace(stmt, params=params, init=without(stmt.init, kept), results=results, body=empty)
        self._device(s, loop if isinstance(loop, loops.For) else replace(loop, condition=empty))
        after = [(buffer, state[k]) for k, buffer in kept.items()]
        arrays = self.holding(stmt)
        around, self.still = self.still, self.still | {self.spaces.group(a) for a in arrays}
        body = self.block(loops.Body(stmt.body.stmts, (*early, *state_kept)), inside, after)
        if isinstance(loop, loops.For):
            whole: loops.Stmt = replace(loop, body=body)
        else:
            assert isinstance(stmt, loops.While)
            whole = replace(loop, condition=self.block(stmt.condition, inside), body=body)
        self.still = around
        s.out += self.held(arrays, whole)
        s.there.update((r, loops.Load(r, b, ZERO)) for k, b in kept.items() if isinstance(r := stmt.results[k], Var))

    def branch(self, s: Scope, stmt: loops.Branch) -> None:
        """A branch that the host takes; numbers that it gives and that the device makes stay there."""
        positions = self.numbers.chosen(stmt, set(s.there))
        self.flush(s)
        kept = {k: self._temporary(s, r) for k in positions if isinstance(r := stmt.results[k], Var)}
        self._device(s, replace(stmt, then=loops.Body((), ()), otherwise=loops.Body((), ())))

        def arm(body: loops.Body) -> loops.Body:
            results = without(body.results, kept)
            return self.block(loops.Body(body.stmts, results), s.there, [(b, body.results[k]) for k, b in kept.items()])

        results = without(stmt.results, kept)
        s.out.append(replace(stmt, then=arm(stmt.then), otherwise=arm(stmt.otherwise), results=results))
        s.there.update((r, loops.Load(r, b, ZERO)) for k, b in kept.items() if isinstance(r := stmt.results[k], Var))

    # ---- branches that the device takes ------------------------------------------------------------------------------
    def _can_be_skipped(self, s: Scope, stmt: loops.Branch) -> bool:
        """Tells whether a branch need not wait for its condition; a profile waits, as it counts only the arm taken."""
        return stmt.condition in s.there and self.measure is None and can_be_skipped(stmt, s.there, self.numbers)

    def skipped(self, s: Scope, stmt: loops.Branch) -> None:
        """Launches the kernels of both arms, of which those of one do nothing."""
        assert isinstance(stmt.condition, Var)
        opposite = fresh("otherwise", stmt.condition.type)
        self.flush(s)
        s.cold = stmt.cold
        s.there[opposite] = loops.Compute(opposite, "not", (stmt.condition,))
        for condition, body in ((stmt.condition, stmt.then), (opposite, stmt.otherwise)):
            s.conditions.append(condition)
            for inner in body.stmts:
                self.statement(s, inner)
            self.flush(s)
            s.conditions.pop()
            s.cold = False

    # ---- the rest ----------------------------------------------------------------------------------------------------
    def loop(self, s: Scope, stmt: loops.Loop) -> None:
        """A loop of the host, with work for the device inside."""
        self._device(s, replace(stmt, stmts=(), reductions=()))
        values = tuple([v for r in stmt.reductions for v in (r.value, r.rank) if v is not None])
        arrays = self.holding(stmt)
        around, self.still = self.still, self.still | {self.spaces.group(a) for a in arrays}
        body = self.block(loops.Body(stmt.stmts, values), s.there)
        self.still = around
        s.out += self.held(arrays, replace(stmt, stmts=body.stmts))

    def node(self, s: Scope, stmt: loops.Node) -> None:
        """A node, whose arrays are the host's."""
        self._device(s, stmt)
        references: list[loops.Value] = []
        for value in stmt.references:
            if isinstance(value, loops.Buffer) and self.spaces.on_device(value):
                twin, count = self.twins[value]
                if count is not None:
                    s.out += self.one_of("transfer", [loops.Transfer(twin, value, count, False)])
                references.append(twin)
            else:
                references.append(value)
        s.out.append(replace(stmt, references=tuple(references)))

    # ---- profiles ----------------------------------------------------------------------------------------------------
    def nest(self, s: Scope, stmt: loops.Stmt, launches: Sequence[loops.Stmt]) -> None:
        """Emits the statements that run a nest; a profile counts them."""
        if self.measure is None:
            s.out += launches
            return
        number = self.measure.found(stmt)
        s.out += [*self.measure.counter(number).statements([stmt])[:-1], *self._marked(number, launches)]

    def one_of(self, kind: str, stmts: list[loops.Stmt]) -> list[loops.Stmt]:
        """Statements that are of a nest, with others of their place."""
        return stmts if self.measure is None else self._marked(self.measure.one_of(kind), stmts)

    def _marked(self, number: int, stmts: Sequence[loops.Stmt]) -> list[loops.Stmt]:
        assert self.measure is not None
        return self.measure.around(number, stmts, self.kernels.made)

    def counted(self, s: Scope, loop: loops.Loop | loops.For) -> int | None:
        """Counts what a loop will do whose iterations the host knows: in front of it, or by a kernel that looks at
        them.

        Gives the number of the nest.
        """
        if self.measure is None:
            return None
        number = self.measure.found(loop)
        counter = self.measure.counter(number)
        counter.bound.update(s.there)
        *before, with_counts = counter.walk((loop,))
        s.out += [*counter.front, *counter.count(), *before]
        if any(isinstance(stmt, loops.Count) for stmt in walk((with_counts,))):
            tally = tally_of(with_counts) if isinstance(with_counts, loops.Loop) else None
            if tally is None or self.launches.nest(tally.loop) is None:
                self.measure.give_up(number)
            else:
                self.launch(s, tally.loop, self.measure.one_of("counts"))
                self.known(s, (tally.bytes, tally.operations), "counts")
                s.out.append(loops.Count(Lit(number, "i64"), poly(tally.bytes), poly(tally.operations)))
        return number


FEW_LAUNCHES = 12  # that are tried in vain rather than that the host waits


def can_be_skipped(stmt: Branch, there: Mapping[Var, Stmt], numbers: Numbers) -> bool:
    """Tells whether kernels that do nothing can stand for an arm that is not taken, so that the host need not wait."""
    launches = 0
    inside: set[Slot] = set()
    if stmt.results:
        return False

    def is_known(sizes: Iterable[Size]) -> bool:
        return not any(v in there or v in inside for size in sizes for v in size.atoms())

    for inner in (*stmt.then.stmts, *stmt.otherwise.stmts):
        match inner:
            case At() | Count():
                pass
            case _ if inner.IS.scalar:
                pass
            case Allocate(buffer, shape) if numbers.spaces.on_device(buffer):
                if not is_known(shape):
                    return False
            case Free(buffer) | Store(buffer) if numbers.spaces.on_device(buffer):
                pass
            case Loop() if numbers.is_for_device(inner):
                nest = numbers.launches.nest(inner)
                assert nest is not None
                around = [level.var for level in nest.levels]
                bounds = [size for level in nest.levels for size in (*level.lows, *level.highs)]
                if not is_known([size for size in bounds if not size.mentions(around)]):
                    return False
                launches += 1
            case _:
                return False
        inside.update(bound_by(inner))
    return launches <= FEW_LAUNCHES


# ---- numbers that the device has -------------------------------------------------------------------------------------
def needed(there: Mapping[Var, loops.Stmt], vars: Iterable[Var]) -> list[Var]:
    """The numbers of the device that some are computed from, in order, with those themselves."""
    required: set[Var] = set()
    pending = [v for v in vars if v in there]
    while pending:
        var = pending.pop()
        if var not in required:
            required.add(var)
            pending += [v for v in captures((there[var],), ()) if isinstance(v, Var) and v in there]
    return [var for var in there if var in required]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Finds the numbers of a function that are computed on the device."""

    launches: Launching
    spaces: Spaces

    def is_for_device(self, loop: loops.Loop) -> bool:
        """Tells whether a loop is a kernel: of many iterations, or on arrays that are on the device anyway."""
        if self.launches.nest(loop) is None:
            return False
        arrays = [v for v in captures((loop,), ()) if isinstance(v, loops.Buffer)]
        return is_worth_it(loop) or (bool(arrays) and all(map(self.spaces.on_device, arrays)))

    def made(self, stmts: Sequence[loops.Stmt], there: Set[Var]) -> set[Var]:
        """Returns the numbers that the device has after some statements, given those that it has before."""
        known = set(there)
        for stmt in stmts:
            match stmt:
                case loops.Load(var, buffer) if self.spaces.on_device(buffer):
                    known.add(var)
                case _ if stmt.IS.scalar:
                    if not known.isdisjoint(captures((stmt,), ())):
                        known.update(v for v in bound_by(stmt) if isinstance(v, Var))
                case loops.Loop() if self.is_for_device(stmt):
                    nest = self.launches.nest(stmt)
                    assert nest is not None
                    known.update(results_of(nest))
                case loops.InOrder():
                    known |= {r for k in self.carried(stmt, known) if isinstance(r := stmt.results[k], Var)}
                case loops.Branch():
                    known |= {r for k in self.chosen(stmt, known) if isinstance(r := stmt.results[k], Var)}
                case _:
                    pass
        return known

    def carried(self, loop: loops.For | loops.While, there: Set[Var]) -> list[int]:
        """Lists the positions, among all that a loop carries, of the numbers that the device computes."""
        if self.launches.stays_on_host(loop):
            return []
        positions: list[int] = []
        while True:
            params = {p for k, p in enumerate(loop.params) if k in positions and isinstance(p, Var)}
            numbers_made = self.made(loop.body.stmts, {*there, *params})
            more = [
                k
                for k, (p, r) in enumerate(zip(loop.params, loop.following, strict=True))
                if _is_one(p, r, numbers_made)
            ]
            if more == positions:
                return positions
            positions = more

    def chosen(self, branch: loops.Branch, there: Set[Var]) -> list[int]:
        """The same of the numbers that a branch gives."""
        if self.launches.stays_on_host(branch):
            return []
        arms: list[tuple[loops.Body, set[Var]]] = [
            (b, self.made(b.stmts, there)) for b in (branch.then, branch.otherwise)
        ]
        slots = enumerate(branch.results)
        return [k for k, slot in slots if any(_is_one(slot, arm.results[k], tried) for arm, tried in arms)]


def _is_one(slot: loops.Slot, value: loops.Value, numbers_made: Set[Var]) -> bool:
    return isinstance(slot, Var) and is_number(dtype_of(slot)) and value in numbers_made
