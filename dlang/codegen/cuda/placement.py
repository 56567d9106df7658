"""The program of the host of a device: which statements run where, and what is copied between them.

Numbers that the device has made stay there: what is computed of them is computed again by each kernel that uses them,
and the host gets them only where it must know them. What no kernel can do is done by the host, on copies of arrays:

    loop i in 0..n                  launch kernel 0, n trips (&x, &s)
      s = s + &x[i]                 launch kernel 1, n trips (&s, &y)        which loads s
    m = s / n                       on host (&y)
    loop i in 0..n                    runtime print(&y)
      &y[i] = m
    runtime print(&y)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.captures import captures
from dlang.codegen.counting import Routines
from dlang.codegen.cuda.expansion import expanded
from dlang.codegen.cuda.kernels import Kernels, results_of
from dlang.codegen.cuda.nests import Nest
from dlang.codegen.cuda.scans import Scan, scan_of
from dlang.codegen.cuda.spaces import Launching, Spaces, is_worth_it, launching, spaces_of
from dlang.codegen.cuda.tallies import tally_of
from dlang.codegen.loops import (
    Allocate,
    At,
    Body,
    Branch,
    Buffer,
    CallC,
    Compute,
    Convert,
    Count,
    Evaluate,
    Fetch,
    For,
    Free,
    Guard,
    Invoke,
    Load,
    LoadField,
    Loop,
    Move,
    Node,
    OnDevice,
    OnHost,
    Only,
    Product,
    Program,
    Room,
    Runtime,
    Slice,
    Slot,
    Stmt,
    Store,
    Transfer,
    Value,
    While,
)
from dlang.codegen.profile import Measuring, with_nests
from dlang.codegen.traverse import bound_by, walk
from dlang.ir.anf import Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of, product

FEW_LAUNCHES = 12  # that are tried in vain rather than that the host waits
LONG = 40  # statements that each thread of a kernel does first; more are done once, by a kernel of their own


def on_device(program: Program, profile: Routines | None = None) -> Program:
    """The program with its kernels, and with what the host is to do around them. Its loops have one lane and piece.

    profile: has the program measure itself, and says how many operations functions of mathematics are.
    """
    whole = {name: replace(f, body=expanded(f.body)) for name, f in program.functions.items()}
    program = replace(program, functions=whole)
    launches = launching(program)
    fails = any(isinstance(s, Guard) for name in launches.functions for s in walk(program.functions[name].body.stmts))
    called = {s.function for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, Invoke)}
    kernels = Kernels(careful=fails)
    measure = None if profile is None else Measuring(with_nests(program), profile, launches.is_opened)
    functions = {}
    for name, f in program.functions.items():
        if name not in launches.functions:
            functions[name] = f if measure is None else measure.function(f)
            continue
        if measure is not None:
            f = measure.counted(f)
        placer = _Placer(launches, kernels, spaces_of(f, launches, program.functions), measure)
        body = placer.block(f.body, {}, leaves=name not in called)
        functions[name] = replace(f, body=body if measure is None else measure.whole(body), device=True)
    made = replace(program, functions=functions, kernels=tuple(kernels.made), careful=fails)
    if measure is None:
        return made
    hosts = [f for name, f in program.functions.items() if name not in launches.functions]
    return replace(made, functions=measure.with_parts(functions, hosts), nests=measure.all_nests())


@dataclass(slots=True)
class _Scope:
    """The statements of a block so far.

    host, once: those that have come last and are to be done together, by the host or by one thread of the device; one
    of these is empty. after: what is freed after them. there: numbers that the device has, by how to get them.
    temporary: memory of the device to be freed where the block ends. conditions: those on which kernels do anything.
    """

    there: dict[Var, Stmt]
    out: list[Stmt] = field(default_factory=list)
    host: list[Stmt] = field(default_factory=list)
    once: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)
    temporary: list[Buffer] = field(default_factory=list)
    conditions: list[Var] = field(default_factory=list)


@dataclass(slots=True)
class _Placer:
    """The walk over a function.

    measure: marks the nests of a profile. twins: arrays of nodes, which the host has, of arrays of the device; with how
    many elements are still to be copied there, if any.
    """

    launches: Launching
    kernels: Kernels
    spaces: Spaces
    measure: Measuring | None = None
    twins: dict[Buffer, tuple[Buffer, Size | None]] = field(default_factory=dict)

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def block(self, body: Body, there: Mapping[Var, Stmt], leaves: bool = False) -> Body:
        """A block, whose results the host knows, unless numbers are left on the device, in arrays of one element.

        there: numbers that the device has.
        """
        s = _Scope(dict(there))
        for stmt in body.stmts:
            self.statement(s, stmt)
        self.flush(s)
        results = list(body.results)
        if leaves:
            results = [self.left(s, v) if isinstance(v, Var) and v in s.there else v for v in results]
            self.flush(s)
        else:
            self.known(s, [v for v in results if isinstance(v, Var)])
        s.out += [OnDevice(Free(buffer)) for buffer in reversed(s.temporary) if buffer not in results]
        return Body(tuple(s.out), tuple(results))

    def left(self, s: _Scope, var: Var) -> Buffer:
        """A number of the device, in an array that is its own."""
        kept = self._temporary(s, var)
        s.once.append(Store(kept, ZERO, var))
        return kept

    def statement(self, s: _Scope, stmt: Stmt) -> None:
        match stmt:
            case Compute() | Convert() | Evaluate():
                self.scalar(s, stmt)
            case At(span):
                if self.measure is not None:
                    self.measure.span = span
                (s.host or s.once or s.out).append(stmt)
            case Count():
                (s.host or s.out).append(stmt)
            case Load(_, buffer) if self.spaces.on_device(buffer):
                self.load(s, stmt)
            case Store(buffer) if self.spaces.on_device(buffer):
                if s.host:
                    self.flush(s)
                s.once.append(stmt)
            case Guard() if self._is_there(s, stmt):
                if s.host:
                    self.flush(s)
                s.once.append(stmt)
            case Allocate(buffer) if self.spaces.on_device(buffer):
                if not _bound(s.host).isdisjoint(captures((stmt,), ())):
                    self.flush(s)
                self._sizes_known(s, stmt)
                s.out.append(OnDevice(stmt))
            case Free(buffer) if self.spaces.on_device(buffer):
                (s.after if s.host or s.once else s.out).append(OnDevice(stmt))
            case Slice(_, buffer) if self.spaces.on_device(buffer):
                if s.host:
                    self.flush(s)
                self._sizes_known(s, stmt)
                s.out.append(stmt)
            case Move(target, source) if self.spaces.on_device(target) or self.spaces.on_device(source):
                self._device(s, stmt)
                if self.spaces.on_device(target) and self.spaces.on_device(source):
                    self.nest(s, stmt, [OnDevice(stmt)])
                else:
                    copy = Transfer(target, source, stmt.count, self.spaces.on_device(target))
                    s.out += self.one_of("transfer", [copy])
            case Product():
                self._device(s, stmt)
                self.nest(s, stmt, [OnDevice(stmt)])
            case Room(buffer, shape) if self.spaces.on_device(buffer):
                self._device(s, stmt)
                twin = self._twin(buffer, product(shape))
                s.out += [replace(stmt, buffer=twin), OnDevice(Allocate(buffer, shape, 0, stmt.span))]
                s.temporary.append(buffer)
            case LoadField(slot, _, _, shape) if self.spaces.on_device(slot):
                assert isinstance(slot, Buffer)
                self._device(s, stmt)
                twin = self._twin(slot, None)
                s.out += [replace(stmt, slot=twin), OnDevice(Allocate(slot, shape))]
                s.out += self.one_of("transfer", [Transfer(slot, twin, product(shape), True)])
                s.temporary.append(slot)
            case Node(references=references) if any(map(self.spaces.on_device, references)):
                self.node(s, stmt)
            case Loop() if self._is_for_device(stmt):
                nest = self.launches.nest(stmt)
                assert nest is not None
                self.flush(s)
                self._trips_known(s, nest, captures((stmt,), ()))
                self.launch(s, stmt, self.counted(s, stmt))
            case For() if (scan := scan_of(stmt)) is not None:
                self.flush(s)
                self.scan(s, scan)
            case _ if self.launches.stays_on_host(stmt):
                self.known(s, captures((stmt,), ()))
                if s.once:
                    self.flush(s)
                if self.measure is not None and self.measure.span is not None and not s.host:
                    s.host.append(At(self.measure.span))
                s.host.append(stmt)
            case Loop():
                self.loop(s, stmt)
            case For():
                self._device(s, replace(stmt, body=Body((), ())))
                s.out.append(replace(stmt, body=self.block(stmt.body, s.there)))
            case While():
                self._device(s, replace(stmt, body=Body((), ()), condition=Body((), ())))
                condition, body = self.block(stmt.condition, s.there), self.block(stmt.body, s.there)
                s.out.append(replace(stmt, condition=condition, body=body))
            case Branch(condition) if condition in s.there and self._can_be_skipped(s, stmt):
                self.skipped(s, stmt)
            case Branch():
                self._device(s, replace(stmt, then=Body((), ()), otherwise=Body((), ())))
                then, otherwise = self.block(stmt.then, s.there), self.block(stmt.otherwise, s.there)
                s.out.append(replace(stmt, then=then, otherwise=otherwise))
            case Invoke():
                self._device(s, stmt)
                s.out.append(stmt)
            case CallC():
                self._device(s, stmt)
                self.nest(s, stmt, self.kernels.foreign(stmt))
            case _:
                raise AssertionError(f"{type(stmt).__name__} around kernels")

    def _is_for_device(self, loop: Loop) -> bool:
        """Whether a loop is a kernel: of many trips, or on arrays that are on the device anyway."""
        if self.launches.nest(loop) is None:
            return False
        arrays = [v for v in captures((loop,), ()) if isinstance(v, Buffer)]
        return is_worth_it(loop) or (bool(arrays) and all(map(self.spaces.on_device, arrays)))

    def _twin(self, buffer: Buffer, count: Size | None) -> Buffer:
        twin = Buffer(buffer.name, buffer.dtype)
        self.twins[buffer] = twin, count
        return twin

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def scalar(self, s: _Scope, stmt: Compute | Convert | Evaluate) -> None:
        """What is computed of numbers of the device is one of them; anything else the host computes."""
        if not self._is_there(s, stmt):
            (s.host or s.out).append(stmt)
            return
        s.there[stmt.var] = stmt
        if len(_needed(s.there, (stmt.var,))) > LONG:
            self.flush(s)
            kept = self._temporary(s, stmt.var)
            s.once.append(Store(kept, ZERO, stmt.var))
            self.flush(s)
            s.there[stmt.var] = Load(stmt.var, kept, ZERO)

    def load(self, s: _Scope, stmt: Load) -> None:
        """An element of an array of the device: as it is now, whatever happens to the array."""
        self.flush(s)
        kept = self._temporary(s, stmt.var)
        if self._is_there(s, Evaluate(stmt.var, stmt.offset)):
            inside = fresh(stmt.var.name, stmt.var.type)
            s.once += [replace(stmt, var=inside), Store(kept, ZERO, inside)]
            self.flush(s)
        else:
            element = Buffer(stmt.buffer.name, stmt.buffer.dtype)
            s.out.append(Slice(element, stmt.buffer, stmt.offset))
            s.out += self.one_of("numbers", [OnDevice(Move(kept, element, poly(1)))])
        s.there[stmt.var] = Load(stmt.var, kept, ZERO)

    def known(self, s: _Scope, slots: Iterable[Value], kind: str = "transfer") -> None:
        """Has the host get those of some numbers that the device has. kind: of the nest in a profile."""
        needed = _needed(s.there, [v for v in slots if isinstance(v, Var)])
        if not _bound(s.host).isdisjoint(captures([s.there[var] for var in needed], ())):
            self.flush(s)
        for var in needed:
            stmt = s.there.pop(var)
            if isinstance(stmt, Load):
                s.out += self.one_of(kind, [Fetch(var, stmt.buffer, stmt.offset)])
            else:
                s.out.append(stmt)

    def _temporary(self, s: _Scope, var: Var) -> Buffer:
        """Room on the device for a number."""
        buffer = Buffer(var.name, dtype_of(var))
        s.out.append(OnDevice(Allocate(buffer, (poly(1),))))
        s.temporary.append(buffer)
        return buffer

    def _is_there(self, s: _Scope, stmt: Stmt) -> bool:
        """Whether a statement uses a number that the device has."""
        return bool(s.there) and any(v in s.there for v in captures((stmt,), ()) if isinstance(v, Var))

    def _sizes_known(self, s: _Scope, stmt: Stmt) -> None:
        self.known(s, captures((stmt,), ()))

    # ---- the device --------------------------------------------------------------------------------------------------
    def _device(self, s: _Scope, stmt: Stmt) -> None:
        """Before a statement whose numbers the host has to know."""
        self.flush(s)
        self.known(s, captures((stmt,), ()))

    def launch(self, s: _Scope, loop: Loop, number: int | None) -> None:
        """Launches a kernel; what it reduces stays on the device. number: of the nest in a profile."""
        nest = self.launches.nest(loop)
        assert nest is not None
        outside = captures((loop,), ())
        self._trips_known(s, nest, outside)
        needed = _needed(s.there, [*[v for v in outside if isinstance(v, Var)], *s.conditions])
        sums = {var: self._temporary(s, var) for var in results_of(nest)}
        prelude = (*[s.there[var] for var in needed], *map(Only, s.conditions))
        made = self.kernels.launch(nest, sums, prelude)
        s.out += made if number is None else self._marked(number, made)
        for var, buffer in sums.items():
            s.there[var] = Load(var, buffer, ZERO)

    def _trips_known(self, s: _Scope, nest: Nest, outside: Sequence[Slot]) -> None:
        trips = [v for level in nest.levels for size in (*level.lows, *level.highs) for v in size.atoms()]
        self.known(s, [v for v in trips if v in outside])

    def scan(self, s: _Scope, scan: Scan) -> None:
        """Launches the kernels of a scan; the totals of all trips stay on the device."""
        outside = captures((scan.loop,), ())
        trips = [*scan.loop.low.atoms(), *scan.loop.high.atoms()]
        self.known(s, [v for v in trips if v in outside])
        number = self.counted(s, scan.loop)
        needed = _needed(s.there, [v for v in outside if isinstance(v, Var)])
        sums = {var: self._temporary(s, var) for var in scan.loop.results if isinstance(var, Var)}
        made = self.kernels.scan(scan, sums, tuple([s.there[var] for var in needed]))
        s.out += made if number is None else self._marked(number, made)
        for var, buffer in sums.items():
            s.there[var] = Load(var, buffer, ZERO)

    def flush(self, s: _Scope) -> None:
        """Has done what was to be done together."""
        if s.once:
            stmts, s.once = tuple(s.once), []
            loop = Loop(fresh("once", I64), (ZERO,), (poly(1),), stmts)
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

    def on_host(self, stmts: Sequence[Stmt]) -> list[Stmt]:
        """What the host does, with the arrays of the device that it needs for that."""
        used = [v for v in captures(stmts, ()) if isinstance(v, Buffer) and self.spaces.on_device(v)]
        arrays = tuple([v for v in used if v not in self.twins])
        made = tuple([v for t in stmts for v in bound_by(t) if isinstance(v, Buffer) and self.spaces.on_device(v)])
        changed = _changed(stmts)
        if self.measure is not None:
            stmts = self.measure.marked(stmts)
        if not used and not made:
            return list(stmts)
        held = [(v, *self.twins[v]) for v in used if v in self.twins]
        down = [Transfer(twin, v, count, False) for v, twin, count in held if count is not None]
        up = [Transfer(v, twin, count, True) for v, twin, count in held if count is not None and v in changed]
        pairs = tuple([(v, twin) for v, twin, _ in held])
        region = OnHost(tuple(stmts), arrays, tuple([a for a in arrays if a in changed]), pairs, made)
        return self.one_of("transfer", [*down, region, *up])

    # ---- branches that the device takes ------------------------------------------------------------------------------
    def _can_be_skipped(self, s: _Scope, stmt: Branch) -> bool:
        """Whether kernels that do nothing can stand for an arm that is not taken, so that nobody has to wait."""
        launches = 0
        inside: set[Slot] = set()
        if stmt.results or self.measure is not None:  # which counts what is done alone
            return False

        def is_known(sizes: Iterable[Size]) -> bool:
            return not any(v in s.there or v in inside for size in sizes for v in size.atoms())

        for inner in (*stmt.then.stmts, *stmt.otherwise.stmts):
            match inner:
                case Compute() | Convert() | Evaluate() | At() | Count():
                    pass
                case Allocate(buffer, shape) if self.spaces.on_device(buffer):
                    if not is_known(shape):
                        return False
                case Free(buffer) | Store(buffer) if self.spaces.on_device(buffer):
                    pass
                case Loop() if self._is_for_device(inner):
                    nest = self.launches.nest(inner)
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

    def skipped(self, s: _Scope, stmt: Branch) -> None:
        """Launches the kernels of both arms, of which those of one do nothing."""
        assert isinstance(stmt.condition, Var)
        opposite = fresh("otherwise", stmt.condition.type)
        self.flush(s)
        s.there[opposite] = Compute(opposite, "not", (stmt.condition,))
        for condition, body in ((stmt.condition, stmt.then), (opposite, stmt.otherwise)):
            s.conditions.append(condition)
            for inner in body.stmts:
                self.statement(s, inner)
            self.flush(s)
            s.conditions.pop()

    # ---- the rest ----------------------------------------------------------------------------------------------------
    def loop(self, s: _Scope, stmt: Loop) -> None:
        """A loop of the host, with work for the device inside."""
        self._device(s, replace(stmt, stmts=(), reductions=()))
        values = tuple([v for r in stmt.reductions for v in (r.value, r.rank) if v is not None])
        s.out.append(replace(stmt, stmts=self.block(Body(stmt.stmts, values), s.there).stmts))

    def node(self, s: _Scope, stmt: Node) -> None:
        """A node, whose arrays are the host's."""
        self._device(s, stmt)
        references: list[Value] = []
        for value in stmt.references:
            if isinstance(value, Buffer) and self.spaces.on_device(value):
                twin, count = self.twins[value]
                if count is not None:
                    s.out += self.one_of("transfer", [Transfer(twin, value, count, False)])
                references.append(twin)
            else:
                references.append(value)
        s.out.append(replace(stmt, references=tuple(references)))

    # ---- profiles ----------------------------------------------------------------------------------------------------
    def nest(self, s: _Scope, stmt: Stmt, made: Sequence[Stmt]) -> None:
        """What is done for a statement that is a nest."""
        if self.measure is None:
            s.out += made
            return
        number = self.measure.found(stmt)
        s.out += [*self.measure.counter(number).statements([stmt])[:-1], *self._marked(number, made)]

    def one_of(self, kind: str, stmts: list[Stmt]) -> list[Stmt]:
        """Statements that are of a nest, with others of their place."""
        return stmts if self.measure is None else self._marked(self.measure.one_of(kind), stmts)

    def _marked(self, number: int, stmts: Sequence[Stmt]) -> list[Stmt]:
        assert self.measure is not None
        return self.measure.around(number, stmts, self.kernels.made)

    def counted(self, s: _Scope, loop: Loop | For) -> int | None:
        """Counts what a loop will do whose trips the host knows: in front of it, or by a kernel that looks at them.

        Gives the number of the nest.
        """
        if self.measure is None:
            return None
        number = self.measure.found(loop)
        counter = self.measure.counter(number)
        counter.bound.update(s.there)
        *before, with_counts = counter.walk((loop,))
        s.out += [*counter.front, *counter.count(), *before]
        if any(isinstance(stmt, Count) for stmt in walk((with_counts,))):
            tally = tally_of(with_counts) if isinstance(with_counts, Loop) else None
            if tally is None or self.launches.nest(tally.loop) is None:
                self.measure.give_up(number)
            else:
                self.launch(s, tally.loop, self.measure.one_of("counts"))
                self.known(s, (tally.bytes, tally.operations), "counts")
                s.out.append(Count(Lit(number, "i64"), poly(tally.bytes), poly(tally.operations)))
        return number


def _bound(stmts: Sequence[Stmt]) -> set[Slot]:
    return {slot for stmt in stmts for slot in bound_by(stmt)}


def _needed(there: Mapping[Var, Stmt], vars: Iterable[Var]) -> list[Var]:
    """The numbers of the device that some are computed from, in order, with those themselves."""
    found: set[Var] = set()
    open = [v for v in vars if v in there]
    while open:
        var = open.pop()
        if var not in found:
            found.add(var)
            open += [v for v in captures((there[var],), ()) if isinstance(v, Var) and v in there]
    return [var for var in there if var in found]


def _changed(stmts: Sequence[Stmt]) -> set[Buffer]:
    """The arrays that statements of the host may change."""
    roots: dict[Buffer, Buffer] = {}
    changed: list[Value] = []
    for stmt in walk(stmts):
        match stmt:
            case Slice(result, source):
                roots[result] = source
            case Store(buffer) | Move(buffer):
                changed.append(buffer)
            case Runtime(outs=outs):
                changed += [out.buffer for out in outs]
            case CallC(_, args) | Invoke(_, args):
                changed += args
                if isinstance(stmt, Invoke):
                    changed += stmt.outs
            case For() | While():
                for param, first in zip(stmt.params, stmt.init, strict=True):
                    if isinstance(param, Buffer) and isinstance(first, Buffer):
                        roots[param] = first
            case _:
                pass
    found: set[Buffer] = set()
    for value in changed:
        while isinstance(value, Buffer) and value not in found:
            found.add(value)
            value = roots.get(value, value)
    return found
