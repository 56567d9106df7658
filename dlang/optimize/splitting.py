"""Finds the ways in which products and comprehensions split into parts of an axis.

A let that is done for some values of an axis gives the elements of its results that belong to these, where the results
have the axis, and else a part of a sum (or another reduction) over it. Of each array that it reads it needs the
elements that belong to the values at hand, or possibly all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import done_whole, extent, is_plain
from dlang.ir.sharing import additions
from dlang.ir.traverse import bound_vars, count_own_uses, count_uses, mentioned, walk
from dlang.ir.types import array_type, product
from dlang.ir.writes import sums_in
from dlang.ops import figures
from dlang.ops.monoids import COMBINE
from dlang.optimize.contractions import adds_many
from dlang.optimize.write_out import values

Split = int | None
"""Along which of its axes an array is split; None: it is whole, or a part of a reduction."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Lets that are done together: one, or a product, the search for a NaN in it, and the branch that does it again."""

    lets: tuple[anf.Let, ...]

    @property
    def vars(self) -> tuple[anf.Var, ...]:
        return self.lets[-1].vars

    @property
    def is_product(self) -> bool:
        return isinstance(self.lets[0].op, anf.Contract)


@dataclass(frozen=True, slots=True)
class Way:
    """A unit done by parts of an axis that has so many values.

    axes: which axis that is: of a comprehension or view, by the first variable that its let binds; None for one that
    only handles parts of sums. name: of a product. needs: what it reads, and how that is split. gives: its results.
    inside: how the arrays are split that a loop carries, and what is made in it. continues: the sums that it adds to.
    """

    unit: Unit
    size: anf.Size
    needs: tuple[tuple[anf.Var, Split], ...]
    gives: Mapping[anf.Var, Split]
    axes: Mapping[anf.Var, anf.Var | None]
    name: int = -1
    inside: Mapping[anf.Var, Split] = field(default_factory=dict)
    continues: frozenset[anf.Var] = frozenset()


def units(block: anf.Block) -> list[Unit]:
    """The lets of a block in order, products that may be done again with what does that."""
    uses = count_own_uses(block)
    makers = {v: let for let in block.lets for v in let.vars}
    taken: dict[anf.Var, Unit] = {}  # by the variables that are bound
    for let in block.lets:
        checked = _checked(let, makers, uses)
        if checked is not None:
            taken |= {v: checked for inner in checked.lets for v in inner.vars}
    out: list[Unit] = []
    for let in block.lets:
        unit = (taken.get(let.vars[0]) if let.vars else None) or Unit((let,))
        if unit.lets[-1] is let:
            out.append(unit)
    return out


def _checked(let: anf.Let, makers: Mapping[anf.Var, anf.Let], uses: Mapping[anf.Var, int]) -> Unit | None:
    """A product that is done again where a NaN is found in it, as `contractions.py` has it."""
    op = let.op
    if not isinstance(op, anf.If) or not op.cold or op.otherwise.lets or len(op.otherwise.results) != 1:
        return None
    (product,) = op.otherwise.results
    test = makers.get(op.condition) if isinstance(op.condition, anf.Var) else None
    product_let = makers.get(product) if isinstance(product, anf.Var) else None
    if (
        test is None
        or product_let is None
        or len(test.vars) > 1
        or len(product_let.vars) > 1
        or not isinstance(product, anf.Var)
    ):
        return None
    if not isinstance(test.op, anf.Comp) or not isinstance(product_let.op, anf.Contract) or uses[test.vars[0]] != 1:
        return None
    keep = test.op.destinations[0]
    reads = [inner.op.array for inner in walk(test.op.body) if isinstance(inner.op, anf.Read)]
    if not isinstance(keep, anf.Reduce) or keep.monoid != "any" or reads != [product]:
        return None
    inside = sum(v is product for v in (*mentioned(test.op), *mentioned(op)))
    return Unit((product_let, test, let)) if uses[product] == inside else None


def serves_rows(op: anf.Comp, row: anf.Axis) -> bool:
    """Tells whether a comprehension adds up many light terms, with an operand that serves several rows at once.

    Of a few known rows, which are too few for threads, one that serves other elements is enough.
    """
    few = values(row) is not None
    if sum(isinstance(let.op, anf.Prim) for let in walk(op.body)) > figures.LIGHT_TERM:
        return False
    for d in op.destinations:
        if not isinstance(d, anf.Reduce) or d.monoid != "sum" or not adds_many(op, d):
            continue
        axes, named = {a.var for a in op.axes}, {v for i in d.index for v in i.atoms()}
        kept, reduced = axes & named, axes - named
        for let in op.body.lets:
            if isinstance(let.op, anf.Read):
                read = {v for i in let.op.index for v in i.atoms()}
                varying = kept & read
                if reduced & read and varying and varying != kept and (few or row.var not in varying):
                    return True
    return False


def ways(unit: Unit, nested: bool = False, loops: bool = False) -> Iterator[Way]:
    """The ways in which a unit splits. nested: whether comprehensions may hold operations on arrays. loops: whether
    loops split, and arrays that are only there to be written."""
    first = unit.lets[0]
    if any(done_whole(v.type) for let in unit.lets for v in let.vars):
        return
    match first.op:
        case anf.Contract() as op:
            for way in _products(unit, first, op):
                again = way if len(unit.lets) == 1 else _again(way)
                if again is not None:
                    yield again
        case anf.Comp() as op:
            if nested or is_plain(op):
                for axis in op.axes:
                    size = extent(axis)
                    by_axis = None if size is None else _comp(unit, op, axis.var, size)
                    if by_axis is not None:
                        yield by_axis
        case anf.View() as op:
            for k, (axis_var, size) in enumerate(zip(op.axes, op.shape, strict=True)):
                at = _shared(op.array, op.index, axis_var, size)
                if at is not None:
                    yield Way(unit, size, ((op.array, at),), {first.vars[0]: k}, {first.vars[0]: axis_var})
        case anf.Empty(shape=shape) if loops:
            for k, size in enumerate(shape):
                yield Way(unit, size, (), {first.vars[0]: k}, {})
        case anf.Copy(array) if loops:
            for k, size in enumerate(array_type(array).shape if isinstance(array, anf.Var) else ()):
                yield Way(unit, size, ((array, k),), {first.vars[0]: k}, {})
        case anf.For() as op if loops:
            by_points = _loop(unit, op)
            if by_points is not None:
                yield by_points
        case _:
            pass


def _position(index: Sequence[anf.Size], axis: anf.Var) -> int | None:
    """Returns the position of the entry of an index that is just an axis, if the axis is in no other entry."""
    positions = [k for k, entry in enumerate(index) if entry.mentions((axis,))]
    return positions[0] if len(positions) == 1 and index[positions[0]].atom is axis else None


def _shared(array: anf.Var, index: Sequence[anf.Size], axis: anf.Var, size: anf.Size) -> Split:
    """Along which axis an array is read as far as another axis reaches, and no further."""
    assert isinstance(array.type, anf.Array)
    at = _position(index, axis)
    return at if at is not None and array.type.shape[at] == size else None


# ---- products --------------------------------------------------------------------------------------------------------
def _products(unit: Unit, let: anf.Let, op: anf.Contract) -> Iterator[Way]:
    for name in dict.fromkeys((*op.left, *op.right)):
        needs: list[tuple[anf.Var, Split]] = []
        size: anf.Size | None = None
        for array, names in ((op.a, op.left), (op.b, op.right)):
            assert isinstance(array.type, anf.Array)
            if names.count(name) > 1:
                break
            at = names.index(name) if name in names else None
            needs.append((array, at))
            size = size if at is None else array.type.shape[at]
        else:
            assert size is not None
            gives = op.out.index(name) if name in op.out else None
            yield Way(unit, size, tuple(needs), {let.vars[0]: gives}, {}, name)


def _again(way: Way) -> Way | None:
    """The way of a product with what does it again: each comprehension of that has to split as the product does."""
    product_let, test, branch = way.unit.lets
    assert isinstance(branch.op, anf.If) and isinstance(test.op, anf.Comp)
    (product,), (result,) = product_let.vars, branch.op.then.results
    split = way.gives[product]
    arm = _Arm(way.size, dict(way.needs), {product: split})
    if not isinstance(result, anf.Var):
        return None
    arm.splits[result] = split
    (read,) = [inner.op for inner in walk(test.op.body) if isinstance(inner.op, anf.Read)]
    arm.axes[test.vars[0]] = None if split is None else read.index[split].atom
    if not all(arm.let(let) for let in reversed(branch.op.then.lets)):
        return None
    needs = tuple(dict.fromkeys((*way.needs, *arm.needs)))
    return Way(way.unit, way.size, needs, {branch.vars[0]: split}, arm.axes, way.name)


@dataclass(slots=True)
class _Arm:
    """The walk backwards over what does a product again. splits: of what is made there; operands: of the product."""

    size: anf.Size
    operands: Mapping[anf.Var, Split]
    splits: dict[anf.Var, Split]
    axes: dict[anf.Var, anf.Var | None] = field(default_factory=dict)
    needs: list[tuple[anf.Var, Split]] = field(default_factory=list)

    def let(self, let: anf.Let) -> bool:
        op = let.op
        if not isinstance(op, anf.Comp) or len(let.vars) > 1 or let.vars[0] not in self.splits:
            return False
        split = self.splits[let.vars[0]]
        earlier = set(self.splits)
        axis = self.axis(op, split)
        if axis is None:
            if split is not None or any(d.into not in (None, *earlier) for d in op.destinations):
                return False
            for inner in walk(op.body):
                if isinstance(inner.op, anf.Read):  # of a part of a sum
                    self.splits.setdefault(inner.op.array, None)
            self.axes[let.vars[0]] = None
            return True
        way = _comp(Unit((let,)), op, axis, self.size, earlier)
        if way is None or way.gives[let.vars[0]] != split:
            return False
        for array, at in way.needs:
            if array in self.splits and self.splits[array] != at:
                return False
            if array not in self.splits:
                self.needs.append((array, at))
                if at is not None:
                    self.splits.setdefault(array, at)
        self.axes[let.vars[0]] = axis
        return True

    def axis(self, op: anf.Comp, split: Split) -> anf.Var | None:
        """The axis by which a comprehension splits: that of the result, or of what the product reads."""
        axes = {a.var for a in op.axes if extent(a) == self.size}
        if split is not None:
            atom = op.destinations[0].index[split].atom
            return atom if atom in axes else None
        for inner in walk(op.body):
            at = self.operands.get(inner.op.array) if isinstance(inner.op, anf.Read) else None
            if at is not None and isinstance(inner.op, anf.Read) and inner.op.index[at].atom in axes:
                return inner.op.index[at].atom
        return None


# ---- comprehensions --------------------------------------------------------------------------------------------------
def _comp(unit: Unit, op: anf.Comp, axis: anf.Var, size: anf.Size, continued: Iterable[anf.Var] = ()) -> Way | None:
    """A comprehension done by parts of one of its axes. continued: arrays that it may continue whatever they are."""
    if size.mentions({a.var for a in op.axes}):
        return None
    gives: dict[anf.Var, Split] = {}
    needs: list[tuple[anf.Var, Split]] = []
    for var, d in zip(unit.vars, op.destinations, strict=True):
        at = _position(d.index, axis)
        if at is None and (any(e.mentions((axis,)) for e in d.index) or not _is_reduced(d)):
            return None
        if at is not None and d.shape[at] != size:
            return None
        gives[var] = at
        if d.into is not None and at is not None:
            needs.append((d.into, at))
    for inner in walk(op.body):
        if isinstance(inner.op, anf.Read):
            needs.append((inner.op.array, _shared(inner.op.array, inner.op.index, axis, size)))
    arrays = {v for v in mentioned(op) if isinstance(v.type, anf.Array)}
    arrays -= {a for a, _ in needs} | {v for let in walk(op.body) for v in let.vars} | set(continued)
    needs += [(a, None) for a in arrays]
    return Way(unit, size, tuple(dict.fromkeys(needs)), gives, {unit.vars[0]: axis})


# ---- loops -----------------------------------------------------------------------------------------------------------
def _loop(unit: Unit, op: anf.For) -> Way | None:
    """A loop that goes over its iterations for some values of the axis that all comprehensions in it have as the first.

    What it carries is split along that axis, or adds up something over it that nothing in the loop reads, in arrays
    that have about an element for each iteration, or for each point of other axes. All else that an iteration does is
    the same for all values.
    """
    within = _Within()
    vars = unit.lets[0].vars
    op = _with_sums(op)
    if not within.loop(op) or within.size is None or within.size.mentions(bound_vars(op)):
        return None
    if any(array_type(v).shape[s] != within.size for v, s in within.split.items() if s is not None):
        return None
    needs: dict[tuple[anf.Var, Split], None] = {}
    continues: set[anf.Var] = set()
    for p, first in zip(op.params, op.init, strict=True):
        if within.split[p] is None and not within.may_begin_anew(op, p, first):
            return None
        if isinstance(first, anf.Var) and within.split[p] is None:
            continues.add(first)
        elif isinstance(first, anf.Var):
            needs[first, within.split[p]] = None
    inside = set(bound_vars(op))
    needs |= {(a, s): None for a, s in within.needs if a not in inside}
    gives = {v: within.split[p] for v, p in zip(vars, op.params, strict=True)}
    unit = Unit((anf.Let(vars, op, unit.lets[0].span),))
    return Way(unit, within.size, tuple(needs), gives, within.axes, inside=within.split, continues=frozenset(continues))


def _with_sums(op: anf.For) -> anf.For:
    """A loop in which an element that a number is added to is no more than that: a comprehension of one point."""
    makers = {v: let for let in op.body.lets for v in let.vars}
    uses = count_uses(op.body)
    gone: set[anf.Var] = set()
    sums: dict[anf.Var, anf.Comp] = {}
    for let in op.body.lets:
        match let.op:
            case anf.Update(array, index, value) if isinstance(array, anf.Var) and isinstance(value, anf.Var):
                both = makers.get(value)
                if both is None or uses[value] != 1 or not isinstance(both.op, anf.Prim) or both.op.name != "add":
                    continue
                for old, term in (both.op.args, both.op.args[::-1]):
                    read = makers[old].op if isinstance(old, anf.Var) and old in makers and uses[old] == 1 else None
                    if isinstance(read, anf.Read) and (read.array, read.index) == (array, index):
                        keep = anf.Reduce(array_type(array).shape, index, "sum", array)
                        sums[let.vars[0]] = anf.Comp((), anf.Block((), (term,)), (keep,))
                        gone |= {value, *(v for v in (old,) if isinstance(v, anf.Var))}
                        break
            case _:
                pass
    if not sums:
        return op
    lets = [
        anf.Let(let.vars, sums.get(let.vars[0], let.op), let.span) for let in op.body.lets if gone.isdisjoint(let.vars)
    ]
    return replace(op, body=anf.Block(tuple(lets), op.body.results))


_AT_A_POINT = (anf.Prim, anf.Cast, anf.Read, anf.IndexExpr, anf.If, anf.For, anf.Empty, anf.Update)


@dataclass(slots=True)
class _Within:
    """The comprehensions in a loop, and the size of the first axis, which each of them has. others: those of the other
    axes of each.

    split: of what the loops carry, and what is made in them; added: sums over the axis that are added to what a loop
    carries; needs, axes: as those of a `Way`.
    """

    size: anf.Size | None = None
    others: list[Counter[anf.Size]] = field(default_factory=list)
    split: dict[anf.Var, Split] = field(default_factory=dict)
    added: set[anf.Atom] = field(default_factory=set)
    needs: list[tuple[anf.Var, Split]] = field(default_factory=list)
    axes: dict[anf.Var, anf.Var | None] = field(default_factory=dict)

    def loop(self, op: anf.For) -> bool:
        """Goes through a loop; tells whether it can be done for some values of the axis."""
        if op.early or len({*op.body.results}) < len(op.params) or not all(map(self.let, op.body.lets)):
            return False
        uses = count_uses(op.body)
        makers = {v: let for let in op.body.lets for v in let.vars}
        for k, (p, result) in enumerate(zip(op.params, op.body.results, strict=True)):
            if not isinstance(result, anf.Var) or done_whole(p.type):
                return False
            if result not in makers:  # the numbers that are there before, at each point
                if not isinstance(p.type, anf.Array) or len(p.type.shape) > 1:
                    return False
                self.split[p] = 0
                self.needs.append((result, 0))
                continue
            self.split[p] = self.split.get(result)
            if self.split[p] is None and not self.adds(op, k, makers[result]):
                return False
        if any(self.split[a] != s for a, s in self.needs if a in self.split):
            return False
        sums = {v for v in makers if self.split.get(v, 0) is None} - {*op.body.results}
        read = {a for let in op.body.lets if let.op.IS.point for a in mentioned(let.op)}
        alike = all(self.split.get(a) is None for a in read)
        return alike and all(v in self.added and uses.get(v) == 1 for v in sums)

    def may_begin_anew(self, op: anf.For, p: anf.Var, first: anf.Atom) -> bool:
        """Tells whether what a loop adds up may begin with zeros for each value of the axis."""
        if isinstance(p.type, anf.Scalar):
            return isinstance(first, anf.Lit) and not first.value
        shape = array_type(p).shape
        more = (product(shape).constant, (product(shape) - (op.high - op.low)).constant)
        return any(Counter(shape) <= others for others in self.others) or any(
            k is not None and k <= figures.WRITTEN_OUT_POINTS for k in more
        )

    def let(self, let: anf.Let) -> bool:
        match let.op:
            case anf.Comp((), anf.Block((), (term,)), (d,)) if d.into is not None:
                self.added.add(term)
                self.split[let.vars[0]] = None
                return isinstance(term, anf.Var) and self.split.get(term, 0) is None
            case anf.Comp((axis, *rest)) as op if all(isinstance(inner.op, _AT_A_POINT) for inner in walk(op.body)):
                size = extent(axis)
                self.others.append(Counter([n for other in rest if (n := extent(other)) is not None]))
                way = None if size is None else _comp(Unit((let,)), op, axis.var, size)
                if way is None or (self.size is not None and self.size != size):
                    return False
                self.size = size
                self.split |= way.gives
                self.needs += way.needs
                self.axes |= way.axes
                return not any(map(done_whole, (v.type for v in let.vars)))
            case anf.For() as op:
                if not self.loop(op):
                    return False
                self.split |= {v: self.split[p] for v, p in zip(let.vars, op.params, strict=True)}
                for p, first in zip(op.params, op.init, strict=True):
                    if isinstance(first, anf.Var) and self.split[p] is not None:
                        self.needs.append((first, self.split[p]))
                return True
            case op:
                return op.IS.point and not op.IS.fails and additions(op) <= figures.ADDITION

    def adds(self, op: anf.For, k: int, let: anf.Let) -> bool:
        """Tells whether iterations only add to what a loop carries, and this is read by nothing else.

        let: what makes the value that an iteration hands on.
        """
        p, result = op.params[k], op.body.results[k]
        if isinstance(p.type, anf.Array):
            versions = sums_in(op, k)
            self.added |= versions
            return bool(versions)
        uses = count_uses(op.body)
        if not isinstance(result, anf.Var) or uses.get(p) != 1 or uses[result] != 1:
            return False
        match let.op:
            case anf.Prim("add", (x, y)) if p in (x, y):
                term = y if x is p else x
                self.added.add(term)
                return isinstance(term, anf.Var) and self.split.get(term, 0) is None
            case anf.For() as inner:
                return inner.init[let.vars.index(result)] is p
            case _:
                return False


def _is_reduced(d: anf.Destination) -> bool:
    return not isinstance(d, anf.Reduce) or d.monoid in COMBINE


def is_reduction(op: anf.Op, array: anf.Var) -> bool:
    """Tells whether an operation gives less than an array that it reads has: a product, or one with a reduction."""
    if isinstance(op, anf.Contract):
        return True
    if not isinstance(op, anf.Comp):
        return False
    assert isinstance(array.type, anf.Array)
    return any(len(d.shape) < len(array.type.shape) for d in op.destinations)
