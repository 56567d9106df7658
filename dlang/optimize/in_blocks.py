"""The comprehension over blocks of an axis that does what several lets do along it, one block after another.

A block is some values of the axis, as many as fit into the cache (`blocking.py`), or one (`fuse_outer_axis.py`). Of
each array that has the axis there is a part in a block; of one that the lets have made, that takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.axes import Location, Relocation, at_point, inserted, part, within, without
from dlang.ir.builder import Builder, i64
from dlang.ir.types import I64, array_type, comp_types, product, type_of
from dlang.ops import figures
from dlang.ops.monoids import COMBINE
from dlang.optimize.splitting import Split, Way


@dataclass(frozen=True, slots=True)
class Cut:
    """How an axis is cut: so many blocks, of so many values each but for the last; and the lets that compute that."""

    lets: tuple[anf.Let, ...]
    blocks: anf.Var
    length: anf.Var


def cut(size: anf.Size, row: anf.Size, room: int) -> Cut:
    """An axis of a size in blocks, when its values take `row` bytes each, and there is room for so many."""
    b = Builder()
    with b.scope() as lets:
        number, bytes = b.one(anf.IndexExpr(size), "n"), b.one(anf.IndexExpr(size * row), "n")

        def several() -> tuple[anf.Var, anf.Var]:
            fit = b.prim("floordiv", i64(room), b.prim("maximum", b.one(anf.IndexExpr(row), "n"), i64(1)))
            most = b.prim("maximum", fit, i64(figures.ROWS_OF_BLOCK))
            count = b.prim("maximum", _ceiling(b, number, most), i64(1))  # as few as that allows, of like lengths
            each = _ceiling(b, _ceiling(b, number, count), i64(figures.EVEN_ROWS))
            length = b.prim("maximum", b.mul(each, i64(figures.EVEN_ROWS)), i64(1))
            return _ceiling(b, number, length), length

        blocks, length = b.if_(
            b.prim("le", bytes, i64(room)),
            lambda: (b.prim("minimum", number, i64(1)), number),
            several,
            names=("blocks", "length"),
        )
    return Cut(tuple(lets), blocks, length)


def _ceiling(b: Builder, x: anf.Atom, y: anf.Atom) -> anf.Var:
    """x / y, rounded up; y is positive."""
    return b.prim("floordiv", b.sub(b.add(x, y), i64(1)), y)


def in_blocks(members: Sequence[Way], how: Cut | None, outside: set[anf.Var]) -> anf.Let:
    """The comprehension over blocks that does what members do one after another; it gives what is used outside.

    how: the blocks; None for a comprehension over single values of the axis, in which no array has that axis.
    """
    name = next((a.name for a in members[0].axes.values() if a is not None), "b") if how is None else "b"
    number = anf.fresh(name, I64)
    if how is None:
        elements = all(isinstance(let.op, _OF_POINTS) for way in members for let in way.unit.lets)
        body = _Body(None, anf.poly(number), elements)
    else:
        b = Builder()
        first = anf.poly(how.length) * anf.poly(number)
        with b.scope() as lets:
            count = b.prim("minimum", how.length, b.one(anf.IndexExpr(members[0].size - first), "n"))
        body = _Body(anf.poly(count), first, lets=lets)
    for way in members:
        body.add(way)
    vars, results, destinations = [], [], []
    for way in members:
        for var, d in body.results(way):
            if var in outside:
                vars.append(var)
                results.append(body.code.atom(var))
                destinations.append(d)
    axis = anf.Axis(number, (anf.ZERO,), (members[0].size if how is None else anf.poly(how.blocks),))
    op = anf.Comp((axis,), anf.Block(tuple(body.lets), tuple(results)), tuple(destinations))
    return anf.Let(tuple(vars), op, members[0].unit.lets[0].span)


_OF_POINTS = anf.Comp | anf.For | anf.Empty | anf.Copy  # what reads elements only


@dataclass(slots=True)
class _Body:
    """The code of one block: of `count` values of an axis, from `first` on; None: of that value.

    elements: whether a row of one element is just that, as only comprehensions read it. splits: of what has been made.
    code: the copies of the members' code, which know what is there of arrays. parts: views of those from outside.
    bases: what sums are added to in the end.
    """

    count: anf.Size | None
    first: anf.Size
    elements: bool = False
    lets: list[anf.Let] = field(default_factory=list)
    splits: dict[anf.Var, Split] = field(default_factory=dict)
    code: Relocation = field(default_factory=lambda: Relocation({}, {}, renew=True))
    parts: dict[tuple[anf.Var, int], anf.Var] = field(default_factory=dict)
    bases: dict[anf.Var, anf.Var] = field(default_factory=dict)

    def add(self, way: Way) -> None:
        for let in way.unit.lets:
            split = way.gives.get(let.vars[0]) if len(way.unit.lets) == 1 else way.gives[way.unit.vars[0]]
            self.let(let, way, split)

    def results(self, way: Way) -> Iterator[tuple[anf.Var, anf.Reduce]]:
        """A unit's results, each with its destination."""
        op = way.unit.lets[-1].op
        destinations: Sequence[anf.Destination | None] = [None] * len(way.unit.vars)
        if isinstance(op, anf.Comp):
            destinations = op.destinations
        elif isinstance(op, anf.For):
            destinations = [
                _added(x) if way.inside[p] is None else None for p, x in zip(op.params, op.init, strict=True)
            ]
        for var, d in zip(way.unit.vars, destinations, strict=True):
            shape = var.type.shape if isinstance(var.type, anf.Array) else ()
            into = None if d is None or d.into is None else self.bases.get(d.into, d.into)
            into = None if into in self.splits else into
            monoid = d.monoid if isinstance(d, anf.Reduce) else "sum"
            if way.gives[var] is None:
                if into is not None:
                    self.bases[var] = into
                yield var, anf.Reduce(shape, (), monoid, into)
            else:
                part = self.code.atom(var)
                places = d.index[1:] if d is not None and isinstance(part.type, anf.Scalar) else ()  # of one element
                yield var, anf.Reduce(shape, (self.first, *places), "set" if into is None else monoid, into)

    @property
    def start(self) -> anf.Size | None:
        """The start of a block in an array that has it as a part; None for one value."""
        return None if self.count is None else self.first

    def shape(self, shape: Sequence[anf.Size], split: Split) -> tuple[anf.Size, ...]:
        """The sizes that a block has of an array of these sizes."""
        unsplit = without(shape, split)
        return unsplit if split is None or self.count is None else inserted(unsplit, split, self.count)

    def index(self, index: Sequence[anf.Size], split: Split) -> tuple[anf.Size, ...]:
        """The index into what a block has of an array."""
        return tuple(map(self.code.size, within(index, split, self.start)))

    def name(self, var: anf.Var, part: anf.Atom, split: Split) -> None:
        """Notes what a block has of an array, or of a scalar."""
        self.splits[var] = split
        self.code.env[var] = part
        if isinstance(var.type, anf.Array):
            self.code.locations[var] = Location(part, axis=split, start=self.start)

    def bind(self, var: anf.Var, split: Split) -> anf.Var:
        """A fresh variable for what a block has of an array."""
        type = var.type
        if split is not None:
            assert isinstance(type, anf.Array)
            type = type_of(type.dtype, self.shape(type.shape, split))
        new = anf.fresh(var.name, type)
        self.name(var, new, split)
        return new

    def enter(self, axis: anf.Var | None) -> anf.Var:
        """Has the code be at a value of an axis in the block; returns the axis there, which one value has not."""
        inner = anf.fresh("i" if axis is None else axis.name, I64)
        if axis is not None:
            self.code.env[axis] = self.first if self.count is None else anf.poly(inner) + self.first
        return inner

    def let(self, let: anf.Let, way: Way, split: Split) -> None:
        match let.op:
            case anf.Contract() as op:
                a, b = self.operand(op.a, op.left, way.name), self.operand(op.b, op.right, way.name)
                left, right, out = (
                    tuple([n for n in names if n != way.name or self.count is not None])
                    for names in (op.left, op.right, op.out)
                )
                part = replace(op, a=a, b=b, left=left, right=right, out=out)
                self.lets.append(anf.Let((self.bind(let.vars[0], split),), part, let.span))
            case anf.Comp() as op:
                self.comp(let, op, way.axes[let.vars[0]])
            case anf.View() as op:
                self.view(let, op, way)
            case anf.For() as op:
                self.loop(let, op, way)
            case anf.Empty(dtype, shape):
                if sizes := self.shape(shape, split):
                    self.lets.append(anf.Let((self.bind(let.vars[0], split),), anf.Empty(dtype, sizes), let.span))
                else:
                    self.name(let.vars[0], anf.Lit(0, dtype), split)
            case anf.Copy(array):
                assert isinstance(array, anf.Var)
                self.name(let.vars[0], self.taken(array, split, let.vars[0].name), split)
            case anf.If() as op:
                outer, self.lets = self.lets, []
                for inner in op.then.lets:
                    self.let(inner, way, split)
                then = anf.Block(tuple(self.lets), tuple(map(self.code.atom, op.then.results)))
                self.lets = outer
                otherwise = anf.Block((), tuple(map(self.code.atom, op.otherwise.results)))
                new = replace(op, condition=self.code.atom(op.condition), then=then, otherwise=otherwise)
                self.lets.append(anf.Let((self.bind(let.vars[0], split),), new, let.span))
            case _:
                raise AssertionError(f"{let.op} does not split")

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def array(self, array: anf.Var) -> anf.Var:
        part = self.code.atom(array)
        assert isinstance(part, anf.Var)
        return part

    def operand(self, array: anf.Var, names: Sequence[int], name: int) -> anf.Var:
        """An operand of a product: of one that is split, the part of the block."""
        if array in self.splits or name not in names:
            return self.array(array)
        return self.part(array, names.index(name))

    def part(self, array: anf.Var, split: int) -> anf.Var:
        """A view of the part of an array from outside."""
        if (array, split) not in self.parts:
            if self.count is None:
                view = at_point(array, (self.first,), split)
            else:
                view = part(array, self.count, self.first, split)
            self.parts[array, split] = new = anf.fresh(array.name, anf.Array(array_type(array).dtype, view.shape))
            self.lets.append(anf.Let((new,), view))
        return self.parts[array, split]

    def view(self, let: anf.Let, op: anf.View, way: Way) -> None:
        (var,) = let.vars
        axis, split = way.axes[var], way.gives[var]
        assert axis is not None and split is not None
        inner = self.enter(axis)
        view_axes = [inner if a is axis else self.code.bind(a) for a in op.axes]
        axes = tuple([a for a in view_axes if a is not inner or self.count is not None])
        index = self.index(op.index, self.splits.get(op.array))
        new = anf.View(self.array(op.array), axes, self.shape(op.shape, split), index)
        self.lets.append(anf.Let((self.bind(var, split),), new, let.span))

    # ---- loops -------------------------------------------------------------------------------------------------------
    def loop(self, let: anf.Let, op: anf.For, way: Way, around: bool = False) -> None:
        """A loop, of whose iterations comprehensions are the parts. around: whether it is in another one."""
        init = [self.beginning(p, x, way.inside[p], around) for p, x in zip(op.params, op.init, strict=True)]
        params = [self.bind(p, way.inside[p]) for p in op.params]
        made = {v for inner in op.body.lets for v in inner.vars}
        there = {
            r: self.taken(r, way.inside[p], p.name)
            for p, r in zip(op.params, op.body.results, strict=True)
            if isinstance(r, anf.Var) and r not in made
        }
        index = self.code.bind(op.index)
        outer, self.lets = self.lets, []
        for inner in op.body.lets:
            match inner.op:
                case anf.Comp() as comp:
                    self.comp(inner, comp, way.axes.get(inner.vars[0]))
                case anf.For() as loop:
                    self.loop(inner, loop, way, True)
                case _:
                    self.lets.append(self.code.let(inner))
        results = [there[r] if isinstance(r, anf.Var) and r in there else self.code.atom(r) for r in op.body.results]
        body = anf.Block(tuple(self.lets), tuple(results))
        self.lets = outer
        low, high = self.code.size(op.low), self.code.size(op.high)
        new = anf.For(index, low, high, tuple(params), tuple(init), body)
        vars = tuple([self.bind(v, way.inside[p]) for v, p in zip(let.vars, op.params, strict=True)])
        self.lets.append(anf.Let(vars, new, let.span))

    def beginning(self, param: anf.Var, first: anf.Atom, split: Split, around: bool) -> anf.Atom:
        """The first value of what a loop carries: zero of what it adds up, unless that goes on from a loop around."""
        if around or isinstance(first, anf.Lit):
            return self.code.atom(first)
        assert isinstance(first, anf.Var) and isinstance(param.type, anf.Array)
        if split is not None:
            return self.taken(first, split, param.name)
        if first in self.splits:
            return self.code.atom(first)
        b = Builder()
        with b.scope() as lets:
            zeros = b.full(param.type.shape, anf.Lit(0, param.type.dtype))
        self.lets += lets
        return zeros

    def taken(self, array: anf.Var, split: Split, name: str) -> anf.Atom:
        """Gives what a block has of an array, to be changed there."""
        if array in self.splits:
            return self.code.atom(array)
        assert split is not None
        dtype, shape = array_type(array).dtype, self.shape(array_type(array).shape, split)
        if not shape:
            new = anf.fresh(name, type_of(dtype, shape))
            self.lets.append(anf.Let((new,), anf.Read(array, (self.first,))))
            return new
        points = product(shape).constant
        if points is not None and points <= figures.WRITTEN_OUT_POINTS:  # numbers, if nothing needs the row as a whole
            b = Builder()
            with b.scope() as lets:
                elements = b.map(
                    shape, lambda *at: b.read(array, inserted(list(map(anf.poly, at)), split, self.first)), name=name
                )
            self.lets += lets
            return elements
        new = anf.fresh(name, type_of(dtype, shape))
        self.lets.append(anf.Let((new,), anf.Copy(self.part(array, split))))
        return new

    # ---- comprehensions ----------------------------------------------------------------------------------------------
    def comp(self, let: anf.Let, op: anf.Comp, axis: anf.Var | None) -> None:
        """A comprehension, of which an axis is split."""
        inner_axis = self.enter(axis)
        axes: list[anf.Axis] = []
        for a in op.axes:
            if a.var is not axis:
                axes.append(self.code.axis(a))
            elif self.count is not None:
                axes.append(anf.Axis(inner_axis, (anf.ZERO,), (self.count,)))
        self.code.numbers.clear()
        body = self.code.block(op.body)
        lets = (*self.code.numbers, *body.lets)
        splits = [_split(d, axis) for d in op.destinations]
        destinations = tuple([self.destination(d, s) for d, s in zip(op.destinations, splits, strict=True)])
        results: list[anf.Atom]
        if not axes and all(not d.shape or d.into is not None for d in destinations):
            self.lets += lets
            results = [self.updated(let, d, x) for d, x in zip(destinations, body.results, strict=True)]
        elif axes or any(d.index or d.into is not None for d in destinations):
            new = anf.Comp(tuple(axes), anf.Block(lets, body.results), destinations)
            results = [anf.fresh(v.name, t) for v, t in zip(let.vars, comp_types(new), strict=True)]
            self.lets.append(anf.Let(tuple([v for v in results if isinstance(v, anf.Var)]), new, let.span))
        else:
            results = list(body.results)
            self.lets += lets
        for k, (d, inner) in enumerate(zip(op.destinations, destinations, strict=True)):
            if d.into is not None and d.into in self.splits and not inner.shape and not _is_set(d):
                both = anf.fresh("t", results[k].type)
                op_of_both = anf.Prim(_combines(d), (self.code.atom(d.into), results[k]))
                self.lets.append(anf.Let((both,), op_of_both, let.span))
                results[k] = both
        for named in zip(let.vars, results, splits, strict=True):
            self.name(*named)

    def updated(self, let: anf.Let, d: anf.Destination, x: anf.Atom) -> anf.Atom:
        """Emits the change of an array at one point; gives the array then, or the value that there is in its place."""
        if d.into is None:
            return x
        new = anf.fresh(d.into.name, d.into.type)
        op = anf.Update(d.into, d.index, x) if _is_set(d) else anf.Comp((), anf.Block((), (x,)), (d,))
        self.lets.append(anf.Let((new,), op, let.span))
        return new

    def destination(self, d: anf.Destination, split: Split) -> anf.Destination:
        """The destination of what a block has of a result; that of a row of one element is the element."""
        shape, index = self.shape(d.shape, split), self.index(d.index, split)
        if self.elements and split is not None and is_element(shape, index):
            if d.into is None or (d.into in self.splits and isinstance(self.code.atom(d.into).type, anf.Scalar)):
                shape = index = ()
        if not shape:
            return anf.Reduce((), (), "sum" if isinstance(d, anf.ScatterAdd) else d.monoid)
        into = self.array(d.into) if d.into is not None and d.into in self.splits else None
        return replace(d, shape=shape, index=index, into=into)


def _is_set(d: anf.Destination) -> bool:
    return isinstance(d, anf.Reduce) and d.monoid == "set"


def _combines(d: anf.Destination) -> str:
    """The primitive by which a destination combines values."""
    return "add" if isinstance(d, anf.ScatterAdd) else COMBINE[d.monoid]


def _added(first: anf.Atom) -> anf.Reduce:
    """The destination of what a loop adds up from a first value on, which is 0 if it is a number."""
    into = first if isinstance(first, anf.Var) else None
    return anf.Reduce(() if into is None else array_type(into).shape, (), "sum", into)


def _split(d: anf.Destination, axis: anf.Var | None) -> Split:
    return next((k for k, e in enumerate(d.index) if axis is not None and e.mentions((axis,))), None)


def is_element(shape: Sequence[anf.Size], index: Sequence[anf.Size] = ()) -> bool:
    """Tells whether an array is one element, which an index may say without an axis."""
    return all(s == 1 for s in shape) and all(i.constant is not None for i in index)
