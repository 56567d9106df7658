"""Slices of arrays: what an adjoint saves of an array of which it reads few elements.

    for k { … a[k, j], a[i, k] … for i, j }      saves      row[j] = a[k, j]  and  column[i] = a[i, k]

in each iteration, and not all of a. The places of the elements have to be known in the forward pass: by the axes of the
loops and comprehensions around the reads, of which none decides the range of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from dlang.ad.elements import emit_comp, from_there
from dlang.ir import anf
from dlang.ir.affine import Change, Knowledge, far_fewer, nonempty
from dlang.ir.anf import Axis, Block, Let, Read, Size, Var, fresh, poly
from dlang.ir.builder import Builder, axis
from dlang.ir.sharing import may_matter
from dlang.ir.sizes import learn
from dlang.ir.traverse import bound_vars, parts, walk
from dlang.ir.types import I64, array_type, dtype_of, product, type_of
from dlang.optimize.effects import consumed_by


@dataclass(frozen=True, slots=True)
class _Read:
    """A read in a backward body, and the axes around it. sure: whether it is done at all points: no branch decides."""

    value: Var
    array: Var
    index: tuple[Size, ...]
    around: tuple[Axis, ...]
    sure: bool


@dataclass(frozen=True, slots=True)
class _Slice:
    """The elements of an array at an index, at all points of some axes: none unless each of `others` has a point."""

    array: Var
    index: tuple[Size, ...]
    axes: tuple[Axis, ...]
    others: tuple[Axis, ...]

    def points(self) -> Size:
        return product([a.highs[0] - a.lows[0] for a in self.axes])

    def mentioned(self) -> set[Var]:
        """The variables that have to be there where it is made, and its axes."""
        bounds = [bound for a in (*self.axes, *self.others) for bound in (*a.lows, *a.highs)]
        return {v for e in (*self.index, *bounds) for v in e.atoms()}

    def made(self, b: Builder, known: Knowledge) -> tuple[Var, list[Let]]:
        """The slice, and the comprehension that makes it; of no axes, an array of one element."""
        t = fresh("t", type_of(dtype_of(self.array), ()))
        kept = self.axes or (axis(1),)
        shape = tuple([a.highs[0] - a.lows[0] for a in kept])
        place = tuple([poly(a.var) - a.lows[0] for a in kept])
        box = {a.var: (a.lows[0], a.highs[0] - 1) for a in (*kept, *self.others)}
        points = Change(tuple(nonempty(kept, self.others, box, known)), {})
        slice = fresh(f"{self.array.name}_read", type_of(dtype_of(self.array), shape))
        with b.scope() as lets:
            emit_comp(
                b, points, [Let((t,), Read(self.array, self.index))], [(slice, t, anf.Reduce(shape, place, "set"))]
            )
        return slice, lets


def sliced(
    b: Builder, forward: Sequence[Let], body: Block, params: Iterable[Var], known: Knowledge
) -> tuple[list[Let], Block]:
    """The forward body of a loop, which also makes slices, and the backward body, which reads them and not the arrays.

    params: what is there where the forward body begins. known: in that body.
    """
    made = dict.fromkeys(params, -1) | {v: k for k, let in enumerate(forward) for v in let.vars}
    arrays = {v for v in made if isinstance(v.type, anf.Array) and not anf.is_handle(dtype_of(v))}
    reads: dict[Var, list[_Read]] = {}
    whole: set[Var] = set()
    for use in _uses(body, arrays, (), True):
        if isinstance(use, _Read):
            reads.setdefault(use.array, []).append(use)
        else:
            whole.add(use)
    sizes: dict[Var, Size] = {}
    inside: set[Var] = set()
    for let in walk(body) if reads.keys() - whole else ():
        inside.update(let.vars, bound_vars(let.op))
        if isinstance(let.op, anf.IndexExpr):
            learn(let, sizes)
    changed = {v: k for k, let in reversed([*enumerate(forward)]) for v in consumed_by(let.op)} if inside else {}
    last_check = max([k for k, let in enumerate(forward) if may_matter(let)], default=-1) if inside else -1
    places = _Places({}, sizes, inside - made.keys(), known)
    after: dict[int, list[Let]] = {}
    values: dict[anf.Atom, Read] = {}
    for array in reads:
        found = None if array in whole else places.slices(reads[array])
        if found is None:
            continue
        slices = list(dict.fromkeys(slice for slice, _, _ in found))
        checked = {slice for slice, _, alone in found if not alone}
        points = sum([slice.points() for slice in slices], poly(0))
        at = {slice: max([made.get(v, -1) for v in (array, *slice.mentioned())]) for slice in slices}
        at.update((slice, max(at[slice], last_check)) for slice in checked)
        held = max(at.values()) < changed.get(array, len(forward))
        if not held or not far_fewer(points, product(array_type(array).shape)):
            continue
        saved = {slice: slice.made(b, known) for slice in slices}
        for slice, (_, lets) in saved.items():
            after.setdefault(at[slice], []).extend(lets)
        for read, (slice, index, _) in zip(reads[array], found, strict=True):
            values[read.value] = Read(saved[slice][0], index)
    if not values:
        return list(forward), body
    out = after.pop(-1, [])
    for k, let in enumerate(forward):
        out += [let, *after.get(k, [])]
    return out, Block(tuple(from_there(body.lets, values)), body.results)


def _uses(block: Block, arrays: Set[Var], around: tuple[Axis, ...], sure: bool) -> Iterator[_Read | Var]:
    """The reads of arrays in a block and the blocks inside of it, and the arrays that these use otherwise."""
    for let in block.lets:
        op = let.op
        if isinstance(op, Read) and op.array in arrays:
            yield _Read(let.vars[0], op.array, op.index, around, sure)
            continue
        yield from [a for a in parts(op).atoms if isinstance(a, Var) and a in arrays]
        match op:
            case anf.For(index, low, high, early=False):
                yield from _uses(op.body, arrays, (*around, Axis(index, (low,), (high,))), sure)
            case anf.Comp(axes, inner):
                yield from _uses(inner, arrays, (*around, *axes), sure)
            case _:
                for inner in parts(op).blocks:
                    yield from _uses(inner, arrays, around, False)
    yield from [a for a in block.results if isinstance(a, Var) and a in arrays]


@dataclass(frozen=True, slots=True)
class _Places:
    """Finds where a backward body reads. names: those of axes, by their positions, so that slices alike are equal.
    sizes: numbers of the body that are polynomials of others. inside: what the body binds itself. known: in the forward
    body.
    """

    names: dict[int, Var]
    sizes: Mapping[Var, Size]
    inside: Set[Var]
    known: Knowledge

    def slices(self, reads: Sequence[_Read]) -> list[tuple[_Slice, tuple[Size, ...], bool]] | None:
        """The slice that has the element of each read, at which index, and whether it may be made wherever its array
        is; None if one is of an unknown place."""
        found = []
        for read in reads:
            slice = self.slice(read)
            if slice is None:
                return None
            found.append(slice)
        return found

    def slice(self, read: _Read) -> tuple[_Slice, tuple[Size, ...], bool] | None:
        """The slice that has the element of a read at all points, and at which index; None if its place is unknown.

        Whether it may be made wherever its array is: else the index is in range because of what the forward body checks
        in blocks of its own, so that nothing names these checks.
        """
        around = [Axis(a.var, self.all(a.lows), self.all(a.highs)) for a in read.around]
        index = self.all(read.index)
        mine = [a for a in around if any(e.mentions((a.var,)) for e in index)]
        others = [a for a in around if a not in mine]
        bounds = [bound for a in around for bound in (*a.lows, *a.highs)]
        unknown = self.inside - {a.var for a in mine}
        if any(len(a.lows) + len(a.highs) > 2 for a in around) or any(b.mentions(self.inside) for b in bounds):
            return None
        if any(e.mentions(unknown) for e in index):
            return None
        if not all(self.known.at_least_zero(a.highs[0] - a.lows[0]) for a in mine):
            return None
        alone = self.in_range(index, read.array, around)
        if not read.sure and not alone:
            return None
        empty = [a for a in others if not self.known.at_least_zero(a.highs[0] - a.lows[0] - 1)]
        named = [replace(a, var=self.names.setdefault(k, fresh("i", I64))) for k, a in enumerate([*mine, *empty])]
        called = {a.var: poly(axis.var) for a, axis in zip(mine, named, strict=False)}
        entries = tuple([e.substitute(called.get) for e in index])
        slice = _Slice(read.array, entries, tuple(named[: len(mine)]), tuple(named[len(mine) :]))
        return slice, tuple([poly(a.var) - a.lows[0] for a in mine]) or (poly(0),), alone

    def all(self, sizes: Iterable[Size]) -> tuple[Size, ...]:
        return tuple([size.substitute(self.sizes.get) for size in sizes])

    def in_range(self, index: Sequence[Size], array: Var, around: Sequence[Axis]) -> bool:
        """Tells whether an array is known to have the elements at an index, at all points of some axes."""
        return self.known.within(around).inside(index, array_type(array).shape)
