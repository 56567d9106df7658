"""Finds elements that loops compute and leave: the adjoint reads them in the array after the loop, and saves none.

    for i in low..high { x = x with [w(i)] = f(x[r(i)]) }      x[r(i)] is x_after[r(i)] if no w(j), j >= i, is r(i)

So the adjoint of a triangular system, a decomposition in place or a recurrence along an array saves the array once, and
not what each iteration reads of it. Of each version of the array that a loop carries, the writes that follow are known:
those after it in the iteration, and all of the iterations that are left, of each loop around. An element stands in the
last version if its index differs from that of every such write, whatever the numbers are that the write depends on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.sizes import learn
from dlang.ir.traverse import bound_vars, walk
from dlang.ir.types import array_type, dtype_of, product
from dlang.ir.writes import older_of
from dlang.ops import figures

MOST = 64  # writes that are compared with a read


def nominal(size: anf.Size, indices: Mapping[anf.Var, int] | None = None) -> int:
    """About how large a size is, for comparing. indices: the loops around, which are halfway."""
    return max(
        1, size.evaluate(lambda v: figures.UNKNOWN_SIZE // 2 if indices and v in indices else figures.UNKNOWN_SIZE)
    )


@dataclass(frozen=True, slots=True)
class _Write:
    """An index that is written, for all numbers in ranges: variables, each with its bounds in what is before it."""

    index: tuple[anf.Size, ...]
    ranges: tuple[anf.Axis, ...] = ()

    def short(self) -> _Write:
        """The same without ranges that say nothing about the index, nor about what bounds others."""
        needed = {v for e in self.index for v in e.atoms()}
        seen: set[tuple[tuple[anf.Size, ...], tuple[anf.Size, ...]]] = set()
        kept: list[anf.Axis] = []
        for a in reversed(self.ranges):
            told = [v for bound in (*a.lows, *a.highs) for v in bound.atoms()]
            if a.var in needed or (told and (a.lows, a.highs) not in seen):
                seen.add((a.lows, a.highs))
                needed.update(told)
                kept.append(a)
        return self if len(kept) == len(self.ranges) else _Write(self.index, tuple(kept[::-1]))


@dataclass(frozen=True, slots=True)
class _Final:
    """The array that a loop leaves, and the writes after a version of it. depth: how many loops are around that one."""

    array: anf.Var
    later: tuple[_Write, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Lasting:
    """The arrays in which versions end that the loops around carry. loops: their indices, and about how often each
    runs. sizes: the numbers in the loops that are polynomials of others."""

    finals: Mapping[anf.Var, tuple[_Final, ...]] = field(default_factory=dict)
    loops: Mapping[anf.Var, int] = field(default_factory=dict)
    sizes: Mapping[anf.Var, anf.Size] = field(default_factory=dict)

    def arrays(self) -> set[anf.Var]:
        """The arrays that the loops around leave, which are there in the backward pass only."""
        return {final.array for finals in self.finals.values() for final in finals}

    def within(self, let: anf.Let, op: anf.For) -> Lasting:
        """The same in the body of a loop."""
        loops = {**self.loops, op.index: nominal(op.high - op.low, self.loops)}
        if not any(isinstance(p.type, anf.Array) for p in op.params):
            return replace(self, loops=loops)
        sizes = dict(self.sizes)
        for inner in walk(op.body):
            learn(inner, sizes)
        tracer, finals = _Tracer(sizes), dict(self.finals)
        for k, array in enumerate(let.vars):
            if not isinstance(array.type, anf.Array) or anf.is_handle(dtype_of(array)):
                continue
            for v, later in tracer.versions(op, k).items():
                if v.type == array.type and len(later) <= MOST:
                    finals[v] = (*finals.get(v, ()), _Final(array, later, len(self.loops)))
        return Lasting(finals, loops, sizes)

    def element(
        self,
        array: anf.Var,
        index: Sequence[anf.Size],
        known: Knowledge,
        axes: Sequence[anf.Axis] = (),
        kept: Container[anf.Var] = (),
    ) -> anf.Read | None:
        """The read of an element of a version in the array in which it ends, where that has about as few elements.

        axes: of the comprehension around, at each point of which the element is needed. kept: the arrays that are read
        anyhow, however many elements they have.
        """
        finals = self.finals.get(array, ())
        if not finals:
            return None
        index = tuple(index)
        at = [e.substitute(self.sizes.get) for e in index]
        known = known.within(axes) if axes else known
        points = 1
        for axis in axes:
            points *= min(nominal(high - low, self.loops) for high in axis.highs for low in axis.lows)
        for final in finals:
            needed = points
            for iterations in [*self.loops.values()][final.depth :]:
                needed *= iterations
            few = figures.SAVED_WHOLE * needed >= nominal(product(array_type(final.array).shape))
            if (few or final.array in kept) and all(_apart(at, write, known) for write in final.later):
                return anf.Read(final.array, index)
        return None


def _apart(index: Sequence[anf.Size], write: _Write, known: Knowledge) -> bool:
    """Tells whether a write is of another element than the one at an index."""
    known = known.within(write.ranges)
    for mine, other in zip(index, write.index, strict=True):
        gap = mine - other
        differs = known.positive(gap) or known.positive(-gap)
        if differs and known.exact(mine) and known.exact(other):
            return True
    return False


_Step = tuple[anf.Let, int, anf.Var]
"""A let, the position among what it binds of a version of an array, and the version before that."""


@dataclass(slots=True)
class _Tracer:
    """Follows arrays through the body of a loop."""

    sizes: Mapping[anf.Var, anf.Size]
    written: dict[anf.Var, tuple[_Write, ...] | None] = field(default_factory=dict)

    def versions(self, op: anf.For, k: int) -> dict[anf.Var, tuple[_Write, ...]]:
        """The writes after each version of an array that a loop carries; none if some of them are not known."""
        writes_after: dict[anf.Var, tuple[_Write, ...]] = {}
        if self._by_loop(op, k) is None:
            return writes_after
        self._note_loop(op, k, (), writes_after)
        for let in walk(op.body):
            if isinstance(let.op, anf.Assert):
                for v, guarded in zip(let.vars, let.op.guarded, strict=True):
                    if guarded in writes_after and isinstance(guarded, anf.Var):
                        writes_after.setdefault(v, writes_after[guarded])
        return writes_after

    def _note_loop(
        self, op: anf.For, k: int, after: tuple[_Write, ...], writes_after: dict[anf.Var, tuple[_Write, ...]]
    ) -> None:
        writes_of_body = self._by_block(op.body, op.body.results[k])
        assert writes_of_body is not None
        ahead = anf.Axis(anf.fresh(op.index.name, op.index.type), (anf.poly(op.index) + 1,), (self._size(op.high),))
        renamed = _renamed(writes_of_body[0], op, ahead)
        self._note(op.body, op.body.results[k], (*renamed, *after), writes_after)

    def _note(
        self,
        block: anf.Block,
        end: anf.Atom,
        after: tuple[_Write, ...],
        writes_after: dict[anf.Var, tuple[_Write, ...]],
    ) -> None:
        """Notes the writes after each version in a block, where some follow the last one."""
        for let, k, before in self._steps(block, end):
            writes_after[let.vars[k]] = after
            match let.op:
                case anf.For():
                    self._note_loop(let.op, k, after, writes_after)
                case anf.If():
                    self._note(let.op.then, let.op.then.results[k], after, writes_after)
                    self._note(let.op.otherwise, let.op.otherwise.results[k], after, writes_after)
                case _:
                    pass
            after = (*(self._writes(let, k) or ()), *after)
            writes_after[before] = after

    def _steps(self, block: anf.Block, end: anf.Atom) -> list[_Step]:
        """The lets of a block that make an array of a version before, the last first."""
        makers = {v: let for let in block.lets for v in let.vars}
        steps: list[_Step] = []
        while isinstance(end, anf.Var) and end in makers:
            let = makers[end]
            k = let.vars.index(end)
            before = self._before(let, k)
            if before is None:
                break
            steps.append((let, k, before))
            end = before
        return steps

    def _before(self, let: anf.Let, k: int) -> anf.Var | None:
        """The version of an array that a let goes on with."""
        match let.op:
            case anf.Update(array) | anf.Copy(array):
                return array
            case anf.Comp() as op:
                return older_of(op.destinations[k], let.vars)
            case anf.For() as op if not op.early:
                before: anf.Atom = op.init[k]
            case anf.Assert() as op:
                before = op.guarded[k]
            case anf.If(_, then, otherwise):
                arms = [self._root(arm, arm.results[k]) for arm in (then, otherwise)]
                if arms[0] is not arms[1]:
                    return None
                before = arms[0]
            case _:
                return None
        return before if isinstance(before, anf.Var) else None

    def _root(self, block: anf.Block, end: anf.Atom) -> anf.Atom:
        steps = self._steps(block, end)
        return steps[-1][2] if steps else end

    def _by_block(self, block: anf.Block, end: anf.Atom) -> tuple[tuple[_Write, ...], anf.Atom] | None:
        """The writes of a block into the array that it gives, and the version with which that begins."""
        writes: list[_Write] = []
        for let, k, before in self._steps(block, end):
            more = self._writes(let, k)
            if more is None or len(writes) + len(more) > MOST:
                return None
            writes += more
            end = before
        return tuple(writes), end

    def _by_loop(self, op: anf.For, k: int) -> tuple[_Write, ...] | None:
        """The writes of a loop into an array that it carries, as far as they are known outside of it."""
        writes_of_body = self._by_block(op.body, op.body.results[k])
        if op.early or writes_of_body is None or writes_of_body[1] is not op.params[k]:
            return None
        axis = anf.Axis(anf.fresh(op.index.name, op.index.type), (self._size(op.low),), (self._size(op.high),))
        return _renamed(writes_of_body[0], op, axis)

    def _writes(self, let: anf.Let, k: int) -> tuple[_Write, ...] | None:
        """The writes of a let into a version of an array; None if they are not known."""
        if let.vars[k] not in self.written:
            self.written[let.vars[k]] = self._written(let, k)
        return self.written[let.vars[k]]

    def _written(self, let: anf.Let, k: int) -> tuple[_Write, ...] | None:
        match let.op:
            case anf.Update(_, index):
                return (_Write(tuple(map(self._size, index))),)
            case anf.Copy() | anf.Assert():
                return ()
            case anf.Comp() as op:
                axes = tuple([replace(a, lows=self._all(a.lows), highs=self._all(a.highs)) for a in op.axes])
                bound = {v for inner in op.body.lets for v in (*inner.vars, *bound_vars(inner.op))}
                return _fresh([_Write(self._all(op.destinations[k].index), axes)], bound)
            case anf.For() as op:
                return self._by_loop(op, k)
            case anf.If(_, then, otherwise) as op:
                arms = [self._by_block(arm, arm.results[k]) for arm in (then, otherwise)]
                writes = [write for arm in arms if arm is not None for write in arm[0]]
                return None if None in arms else _fresh(writes, set(bound_vars(op)))
            case _:
                return None

    def _size(self, size: anf.Size) -> anf.Size:
        return size.substitute(self.sizes.get)

    def _all(self, sizes: Iterable[anf.Size]) -> tuple[anf.Size, ...]:
        return tuple([self._size(size) for size in sizes])


def _renamed(writes: Sequence[_Write], op: anf.For, axis: anf.Axis) -> tuple[_Write, ...]:
    """Writes of the body of a loop as those of the iterations that an axis counts."""
    at = {op.index: anf.poly(axis.var)}
    moved = [
        _Write(
            tuple([e.substitute(at.get) for e in write.index]),
            (axis, *[_substituted(a, at) for a in write.ranges]),
        ).short()
        for write in writes
    ]
    return _fresh(moved, set(bound_vars(op)) - {op.index})


def _fresh(writes: Sequence[_Write], bound: set[anf.Var]) -> tuple[_Write, ...]:
    """Writes with new names for their ranges and for the variables in `bound`, of which nothing is known."""
    out = []
    for write in writes:
        names: dict[anf.Var, anf.Size] = {a.var: anf.poly(anf.fresh(a.var.name, a.var.type)) for a in write.ranges}
        for size in (*write.index, *[s for a in write.ranges for s in (*a.lows, *a.highs)]):
            for v in size.atoms():
                if v in bound and v not in names:
                    names[v] = anf.poly(anf.fresh(v.name, v.type))
        out.append(
            _Write(
                tuple([e.substitute(names.get) for e in write.index]),
                tuple([_substituted(a, names) for a in write.ranges]),
            )
        )
    return tuple(out)


def _substituted(axis: anf.Axis, names: Mapping[anf.Var, anf.Size]) -> anf.Axis:
    def of(sizes: Iterable[anf.Size]) -> tuple[anf.Size, ...]:
        return tuple([size.substitute(names.get) for size in sizes])

    var = names[axis.var].atom if axis.var in names else axis.var
    assert var is not None
    return anf.Axis(var, of(axis.lows), of(axis.highs))
