"""Comprehensions as loop nests: the order of the loops, and where each result accumulates.

A result whose reduced axes are innermost accumulates in a register and is stored once; any other accumulates in memory,
a row at a time, which is what makes a column sum read its array in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product

from dlang.codegen import loops, traverse
from dlang.codegen.blocks import Scheduler
from dlang.codegen.memory import Place, frame_of, whole
from dlang.diagnostics import DlangError, Span, error
from dlang.ir import anf
from dlang.ir.anf import Size
from dlang.ir.comprehension_queries import filled, has_its_elements
from dlang.ir.terms import ZERO
from dlang.ir.traverse import count_uses, walk
from dlang.ir.types import BOOL, I64, dtype_of
from dlang.ir.writes import covers, is_replaced, sums_in
from dlang.ops import figures, monoids


@dataclass(slots=True)
class Target:
    """A destination: where it goes, and after which loops (counted from outside) its value is complete.

    meets: points may meet in an element. data: the index mentions values of the body, known only there.
    combine: the value joins what is in memory already. there: pairs of numbers, the first of each below the second
    where the element is there; none if it surely is. sure: as that of a `Store`. row: the sizes of the value, if it is
    an array; of several rows if it is a block.
    """

    var: anf.Var
    monoid: str
    value: anf.Atom
    index: tuple[anf.Size, ...]
    kept: frozenset[anf.Var]
    meets: bool
    data: bool = False
    place: Place | None = None
    depth: int = 0
    combine: bool = False
    there: Sequence[tuple[anf.Size, anf.Size]] = ()
    sure: bool = False
    rank: anf.Size | None = None
    row: tuple[anf.Size, ...] = ()
    is_block: bool = False

    @property
    def positional(self) -> bool:
        """Tells whether the value is the position of an extremum."""
        return self.monoid in monoids.STAYS


@dataclass(frozen=True, slots=True)
class Contribution:
    """The value that the loops inside have computed for a target."""

    target: Target
    value: anf.Atom
    rank: anf.Atom | None


def identity(monoid: str, dtype: str) -> anf.Lit:
    """The element that a monoid leaves others alone with; 0 for those that have none."""
    return anf.Lit(monoids.identity(monoid, dtype), dtype)


def comprehension(s: Scheduler, op: anf.Comp, vars: Sequence[anf.Var], span: Span | None) -> None:
    """Emits the loop nest of a comprehension; nothing for what leaves the elements that it joins alone."""
    if len(vars) == 1 and vars[0] in s.joined and _is_identity(anf.Let(tuple(vars), op), s.joined[vars[0]]):
        s.joined.pop(vars[0])
        s.target(vars[0])
        return
    span = span or s.span
    axes = {axis.var: axis for axis in op.axes}
    targets = [
        _target(var, value, d, axes, span) for var, value, d in zip(vars, op.body.results, op.destinations, strict=True)
    ]
    order = _order(s, op, targets, span)
    for k, (target, destination) in enumerate(zip(targets, op.destinations, strict=True)):
        if isinstance(destination, anf.Reduce) and destination.after is not None:
            _go_on(s, target, targets[destination.after], destination.shape, order)
        else:
            _settle(s, target, destination.into, destination.shape, axes, order, is_replaced(op, k))
            target.sure = s.device and has_its_elements(op.axes, destination)
    _Nest(s, op, order, targets).level(0)


def _target(
    var: anf.Var,
    value: anf.Atom,
    destination: anf.Reduce | anf.ScatterAdd,
    axes: dict[anf.Var, anf.Axis],
    span: Span | None,
) -> Target:
    mentioned = {a for entry in destination.index for a in entry.atoms()}
    kept = frozenset(a for a in mentioned if a in axes)
    monoid = destination.monoid if isinstance(destination, anf.Reduce) else "sum"
    target = Target(var, monoid, value, destination.index, kept, isinstance(destination, anf.ScatterAdd))
    if isinstance(value.type, anf.Array):
        target.row = value.type.shape
        target.is_block = len(target.row) + len(destination.index) > len(destination.shape)
    if target.positional:
        target.rank = ZERO
        for axis in axes.values():
            if axis.var not in kept:
                if len(axis.lows) != 1 or len(axis.highs) != 1:
                    raise unsupported(f"`{monoid}` over an axis with several bounds is", span)
                target.rank = target.rank * (axis.highs[0] - axis.lows[0]) + (anf.poly(axis.var) - axis.lows[0])
    return target


def _settle(
    s: Scheduler,
    t: Target,
    into: anf.Var | None,
    shape: tuple[anf.Size, ...],
    axes: dict[anf.Var, anf.Axis],
    order: tuple[anf.Axis, ...],
    replaced: bool,
) -> None:
    """Finds the target's depth and its memory, and brings that to its first state."""
    _find_depth(s, t, shape, order)
    reduced_outside = any(axis.var not in t.kept for axis in order[: t.depth])
    if not shape:
        if t.depth:
            raise AssertionError("a scalar result has no index")
        return
    scattered = t.monoid != "set" and not t.positional
    joined = s.joined.pop(t.var, None)
    if into is not None and joined is None:
        t.place = s.continued(t.var, into, replaced)
        t.combine = t.meets or scattered
        return
    t.place = s.target(t.var)
    if joined is not None:
        t.monoid, t.combine = joined, True
        return
    t.combine = t.meets or (reduced_outside and scattered)
    if t.combine or t.data or not (t.is_block or covers([*axes.values()], shape[: len(t.index)], t.index)):
        s.fill(t.place, identity(t.monoid, t.place.buffer.dtype))


def _find_depth(s: Scheduler, t: Target, shape: tuple[anf.Size, ...], order: tuple[anf.Axis, ...]) -> None:
    """Finds the depth of a target, and which numbers are in order where its element is there.

    That is known, or the loops inside have an iteration, or the index is compared with the shape: one that a check
    certifies may be out of range where no point needs it.
    """
    positions = {axis.var: k for k, axis in enumerate(order)}
    t.depth = len(order) if t.data or t.row else 1 + max((positions[a] for a in t.kept), default=-1)
    inside = {axis.var for axis in order[t.depth :]}
    if not inside or s.is_inside(order[: t.depth], t.index, shape):
        return
    loops_inside = order[t.depth :]
    if any(end.mentions(inside) for axis in loops_inside for end in (*axis.lows, *axis.highs)):
        compared = zip(t.index, shape, strict=False)
        t.there = [ends for entry, size in compared for ends in ((anf.poly(-1), entry), (entry, size))]
    else:
        t.there = [ends for axis in loops_inside for ends in product(axis.lows, axis.highs)]


def _go_on(s: Scheduler, t: Target, earlier: Target, shape: tuple[anf.Size, ...], order: tuple[anf.Axis, ...]) -> None:
    """Gives a target the memory of an earlier one, in which it has other elements."""
    _find_depth(s, t, shape, order)
    assert earlier.place is not None
    s.wanted.pop(t.var, None)
    s.memory.settle(t.var, earlier.place)
    t.place = earlier.place
    t.combine = t.monoid != "set"


def _joins(body: anf.Block, row: Target) -> anf.Var | None:
    """The array that is made in memory that holds something, each element joining what is there, to make a row so.

    That is the row, if a comprehension makes it whole and for this alone; or what loops begin with that only add to it,
    if that leaves what it is added to as it is.
    """
    used = count_uses(body)
    makers = {v: let for let in body.lets for v in let.vars}
    array = row.value
    while isinstance(array, anf.Var) and used.get(array) == 1 and array in makers:
        let = makers[array]
        k = let.vars.index(array)
        match let.op:
            case anf.Comp() as op if array is row.value:
                d = op.destinations[k]
                is_whole = d.into is None or is_replaced(op, k)
                joins = isinstance(d, anf.Reduce) and is_whole and d.after is None and d.monoid in ("set", row.monoid)
                return array if joins else None
            case anf.Comp():
                return array if _is_identity(let, row.monoid) else None
            case anf.For() as op if sums_in(op, k, row.monoid):
                array = op.init[k]
            case _:
                return None
    return None


def _is_identity(let: anf.Let, monoid: str) -> bool:
    """Tells whether a let makes one array that leaves others alone."""
    if not isinstance(let.op, anf.Comp) or len(let.vars) != 1:
        return False
    value = filled(let.op, let.vars).get(let.vars[0])
    return isinstance(value, anf.Lit) and value == identity(monoid, dtype_of(let.vars[0]))


# ---- the order of the loops ------------------------------------------------------------------------------------------
def _order(s: Scheduler, op: anf.Comp, targets: list[Target], span: Span | None) -> tuple[anf.Axis, ...]:
    """The cheapest order that the bounds allow, counting how accesses move as the innermost axis does.

    Where a check may fail, the order stays, so that the first point that fails is the one reported.
    """
    body = _bound_in(op.body)
    for target in targets:
        target.data = any(a in body for entry in target.index for a in entry.atoms())
    positional = [t for t in targets if t.positional]
    fixed = any(let.op.IS.fails for let in walk(op.body))
    candidates = [op.axes]
    if len(op.axes) <= 4 and (positional or not fixed):
        candidates = list(permutations(op.axes))
    allowed = [order for order in candidates if _is_allowed(order) and _keeps_pairs(order, positional)]
    if not allowed:
        raise unsupported("these arguments of extrema in one comprehension are", span)
    reads = [(let.op, s.memory.places.get(let.op.array)) for let in op.body.lets if isinstance(let.op, anf.Read)]
    known = [place.at(read.index) for read, place in reads if place is not None]
    offsets = [o for o in known if not o.mentions(body)]
    return min(allowed, key=lambda order: _cost(order, offsets, targets))


def _bound_in(block: anf.Block) -> set[anf.Var]:
    """Returns the variables that the lets of a block bind."""
    return {var for let in block.lets for var in let.vars}


def _is_allowed(order: Sequence[anf.Axis]) -> bool:
    seen: set[anf.Var] = set()
    inside = {axis.var for axis in order}
    for axis in order:
        if any(a in inside and a not in seen for bound in (*axis.lows, *axis.highs) for a in bound.atoms()):
            return False
        seen.add(axis.var)
    return True


def _keeps_pairs(order: Sequence[anf.Axis], positional: list[Target]) -> bool:
    """Tells whether every argument of an extremum is found in registers."""
    for t in positional:
        depth = len(order) if t.data else max((k + 1 for k, axis in enumerate(order) if axis.var in t.kept), default=0)
        if any(axis.var not in t.kept for axis in order[:depth]):
            return False
    return True


def _stride(offset: anf.Size, axis: anf.Var) -> int:
    try:
        step = offset.coefficient(axis)
    except ValueError:
        return figures.STRIDED
    if not step.terms:
        return 0
    return 1 if step == 1 or step == -1 else figures.STRIDED


def _cost(order: Sequence[anf.Axis], offsets: Sequence[anf.Size], targets: Sequence[Target]) -> int:
    if not order:
        return 0
    innermost = order[-1].var
    cost = sum(_stride(offset, innermost) for offset in offsets)
    for t in targets:
        if t.index and innermost in t.kept:
            # the index as if axes had equal large sizes: only its last entry is adjacent in memory
            last = _stride(t.index[-1], innermost)
            outer = any(e.mentions((innermost,)) for e in t.index[:-1])
            reduced = len(t.kept) < len(order)
            cost += (figures.STRIDED if outer else max(last, 1)) * (2 if reduced else 1)
    return cost


def _moves_with(entry: anf.Size, axis: anf.Var, inside: set[anf.Var]) -> bool:
    """Tells whether an entry of an index differs wherever an axis does, whatever else varies."""
    try:
        step = entry.coefficient(axis)
    except ValueError:
        return False
    return step.constant not in (None, 0) and not entry.without(axis).mentions(inside)


# ---- emission --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Nest:
    s: Scheduler
    op: anf.Comp
    order: tuple[anf.Axis, ...]
    targets: list[Target]
    rows: list[loops.Buffer] = field(default_factory=list)  # each of one point alone

    def level(self, depth: int) -> list[Contribution]:
        """Emits the loops from a depth on; gives what they contribute to targets that are not complete there."""
        s = self.s
        if depth == len(self.order):
            contributions = self._body()
        else:
            axis = self.order[depth]
            mark = s.facts.mark()
            s.facts.between(axis.var, axis.lows, axis.highs)
            with s.collect() as stmts:
                inner = self.level(depth + 1)
            s.facts.undo(mark)
            contributions = [self._result(c, depth == 0) for c in inner]
            reductions = [
                loops.Reduction(
                    c.target.monoid,
                    r.value,
                    c.value,
                    r.rank if isinstance(r.rank, anf.Var) else None,
                    c.rank,
                    ascending=self._ascends(c.target, depth),
                )
                for c, r in zip(inner, contributions, strict=True)
                if isinstance(r.value, anf.Var)
            ]
            low_trip_count = any(isinstance(let.op, anf.Contract) for let in self.op.body.lets)
            body = without_addresses(stmts)
            if body is not stmts:
                gone = {stmt.result for stmt in traverse.walk(stmts) if isinstance(stmt, loops.Slice)}
                self.rows = [row for row in self.rows if row not in gone]
            s.loop(axis.var, axis.lows, axis.highs, body, reductions, self._disjoint(axis.var), low_trip_count)
        open_ones = []
        for c in contributions:
            t = c.target
            if t.place is None and depth == 0:
                if not self.order or t.positional:
                    s.out.append(loops.Convert(t.var, self._complete(c)))
            elif t.place is not None and t.depth == depth:
                self._store(t, self._complete(c), depth)
            else:
                open_ones.append(c)
        return open_ones

    def _ascends(self, t: Target, depth: int) -> bool:
        """Tells whether the ranks of a position go up with the loop at a depth, whatever the loops inside do."""
        left = {a.var for a in self.order[depth:]} - t.kept
        return t.positional and self.order[depth].var is next(a.var for a in self.op.axes if a.var in left)

    def _store(self, t: Target, value: anf.Atom, depth: int) -> None:
        """Emits a store of a value, if there is such an element."""
        assert t.place is not None
        stmts: list[loops.Stmt] = [
            loops.Store(t.place.buffer, t.place.at(t.index), value, t.monoid if t.combine else "set", t.sure)
        ]
        for low, high in t.there:
            first, end, some = anf.fresh("first", I64), anf.fresh("end", I64), anf.fresh("some", BOOL)
            branch = loops.Branch(some, loops.Body(tuple(stmts), ()), loops.Body((), ()), ())
            stmts = [
                loops.Evaluate(first, low),
                loops.Evaluate(end, high),
                loops.Compute(some, "lt", (first, end)),
                branch,
            ]
        self.s.out += stmts

    def _disjoint(self, axis: anf.Var) -> tuple[loops.Buffer, ...]:
        """The buffers in which points join what is there, but those that differ in an axis never in one element."""
        inside = {a.var for a in self.order if a.var is not axis} | _bound_in(self.op.body)
        disjoint: dict[loops.Buffer, bool] = {}
        for t in self.targets:
            if t.combine and t.place is not None:
                apart = any(_moves_with(e, axis, inside) for e in t.index) if t.meets else axis in t.kept
                disjoint[t.place.buffer] = disjoint.get(t.place.buffer, True) and apart
        return (*self.rows, *(buffer for buffer, apart in disjoint.items() if apart))

    def _complete(self, c: Contribution) -> anf.Atom:
        """The value to keep: of a position, 0 where there was no point."""
        if c.rank is None:
            return c.value
        position = anf.fresh("position", I64)
        self.s.out.append(loops.Compute(position, "maximum", (c.rank, anf.Lit(0, "i64"))))
        return position

    def _body(self) -> list[Contribution]:
        s = self.s
        with s.region(self.op.body):
            scalars = iter(self._inside())
        out = []
        for t in self.targets:
            if t.row:
                continue
            value = next(scalars)
            assert isinstance(value, anf.Lit | anf.Var)
            rank: anf.Atom | None = None
            if t.rank is not None:
                position = anf.fresh("rank", I64)
                s.out.append(loops.Evaluate(position, t.rank))
                rank = position
            out.append(Contribution(t, value, rank))
        return out

    def _inside(self) -> list[loops.Value]:
        """Emits the body with its rows in their places; gives its scalars."""
        s = self.s
        wanted: list[Place | None] = []
        for t in self.targets:
            joined = _joins(self.op.body, t) if t.row and t.combine else None
            place = self._row(t) if t.row and (joined or not t.combine) else None
            if place is not None and t.place is not None and not t.combine:
                self.rows += [place.buffer, t.place.buffer]
            wanted.append(place)
            if place is not None and isinstance(t.value, anf.Var):
                if joined is t.value or (joined is None and any(axis.var not in t.kept for axis in self.order)):
                    s.shared.add(t.value)
                if joined is not None:
                    s.joined[joined] = t.monoid
        results = iter(s.inline(self.op.body, wanted, frame_of(self.op.body)))
        scalars: list[loops.Value] = []
        for t, place in zip(self.targets, wanted, strict=True):
            if place is not None:
                continue
            value = next(results)
            if isinstance(value, loops.Buffer):
                s.combine(whole(value, t.row), self._row(t), t.monoid, t.sure)
                s.out.append(loops.Free(value))
            else:
                scalars.append(s.flat(value) if t.place is not None else value)
        return scalars

    def _row(self, t: Target) -> Place:
        """Returns the place of a target's row, or block of rows, at the point at hand."""
        assert t.place is not None and t.place.start is not None
        first = (*t.index, *[ZERO] * (len(t.row) - t.is_block))
        row = loops.Buffer(t.place.buffer.name, t.place.buffer.dtype)  # which nothing else uses at the point
        self.s.out.append(loops.Slice(row, t.place.buffer, t.place.at(first)))
        self.s.memory.writable.add(row)
        return whole(row, t.row)

    def _result(self, c: Contribution, outermost: bool) -> Contribution:
        """Returns a contribution with new variables for a loop's result: the target's own if the loop is the last."""
        t = c.target
        final = outermost and t.place is None and not t.positional
        assert isinstance(c.value.type, anf.Scalar)
        value = t.var if final else anf.fresh(t.var.name, c.value.type)
        rank = anf.fresh("rank", I64) if t.positional else None
        return Contribution(t, value, rank)


UNSUPPORTED = "E0901"


def unsupported(what: str, span: Span | None, *help: str) -> DlangError:
    """The error for a program that is right but has no code on the CPU."""
    return error(UNSUPPORTED, f"{what} not supported on the CPU", span, help=help)


_SCALAR = (
    loops.Compute,
    loops.Convert,
    loops.Evaluate,
    loops.Load,
    loops.Store,
    loops.Slice,
    loops.Branch,
    loops.For,
    loops.Allocate,
    loops.Free,
)


def without_addresses(stmts: Sequence[loops.Stmt]) -> Sequence[loops.Stmt]:
    """Scalar code in which loads and stores go to whole arrays; anything else as it is.

    What goes through elements in a loop of its own, or hands an array on, needs the address of the first.
    """
    if not any(isinstance(s, loops.Slice) for s in stmts) or not all(
        isinstance(s, _SCALAR) for s in traverse.walk(stmts)
    ):
        return stmts
    parts = {s.result for s in traverse.walk(stmts) if isinstance(s, loops.Slice)}
    others = [s for s in traverse.walk(stmts) if not isinstance(s, loops.Load | loops.Store | loops.Slice)]
    handed = {v for s in others for v in traverse.mentions(s)}
    return stmts if parts & handed else _at_whole_arrays(stmts, {})


def _at_whole_arrays(
    stmts: Sequence[loops.Stmt], at: dict[loops.Buffer, tuple[loops.Buffer, Size]]
) -> tuple[loops.Stmt, ...]:
    """The statements without addresses. at: for each the array in which it is, and where."""
    out: list[loops.Stmt] = []
    for stmt in stmts:
        match stmt:
            case loops.Slice(result, source, offset):
                base = at.get(source)
                at[result] = (source, offset) if base is None else (base[0], base[1] + offset)
            case loops.Load(buffer=buffer, offset=offset) | loops.Store(buffer=buffer, offset=offset) if buffer in at:
                source, start = at[buffer]
                out.append(replace(stmt, buffer=source, offset=start + offset))
            case _:
                out.append(traverse.map_inside(stmt, lambda inside: _at_whole_arrays(inside, at)))
    return tuple(out)
