"""The loop over blocks of an axis that takes the place of a chain (`blocking.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.builder import Builder, i64
from dlang.ir.traverse import rebuild
from dlang.ir.types import I64, type_of
from dlang.optimize.splitting import Split, Way

ROOM = 1 << 20  # bytes of the widest array of a chain, twice over, in a block: half of a core's own cache
DEVICE_ROOM = 1 << 30  # the same of a device, of whose memory such an array is a part
FEWEST = 64  # rows of a block, at least: a product copies its other operand once for each
EVEN = 8  # what the rows of a block, but for the last one, are a multiple of


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
            most = b.prim("maximum", fit, i64(FEWEST))
            count = b.prim("maximum", _ceiling(b, number, most), i64(1))  # as few as that allows, of like lengths
            each = _ceiling(b, _ceiling(b, number, count), i64(EVEN))
            length = b.prim("maximum", b.mul(each, i64(EVEN)), i64(1))
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
    number = anf.fresh("b", I64)
    if how is None:
        body = _Body(members[0].size, None, anf.poly(number))
    else:
        b = Builder()
        first = anf.poly(how.length) * anf.poly(number)
        with b.scope() as lets:
            count = b.prim("minimum", how.length, b.one(anf.IndexExpr(members[0].size - first), "n"))
        body = _Body(members[0].size, anf.poly(count), first, lets)
    for way in members:
        body.add(way)
    vars, results, destinations = [], [], []
    for way in members:
        for var, made, d in body.results(way):
            if var in outside:
                vars.append(var)
                results.append(made)
                destinations.append(d)
    axis = anf.Axis(number, (anf.ZERO,), (members[0].size if how is None else anf.poly(how.blocks),))
    op = anf.Comp((axis,), anf.Block(tuple(body.lets), tuple(results)), tuple(destinations))
    return anf.Let(tuple(vars), op, members[0].unit.lets[0].span)


@dataclass(slots=True)
class _Body:
    """The code of one block: of `count` values of an axis of `size`, from `first` on; None: of that value.

    made: what is there of arrays. views: of those from outside.
    """

    size: anf.Size
    count: anf.Size | None
    first: anf.Size
    lets: list[anf.Let] = field(default_factory=list)
    made: dict[anf.Var, anf.Atom] = field(default_factory=dict)
    splits: dict[anf.Var, Split] = field(default_factory=dict)
    views: dict[tuple[anf.Var, int], anf.Var] = field(default_factory=dict)

    def add(self, way: Way) -> None:
        for let in way.unit.lets:
            split = way.gives.get(let.vars[0]) if len(way.unit.lets) == 1 else way.gives[way.unit.vars[0]]
            self.let(let, way, split)

    def results(self, way: Way) -> list[tuple[anf.Var, anf.Atom, anf.Reduce]]:
        """Lists a unit's results: each with its value in the block and its destination."""
        out = []
        for k, var in enumerate(way.unit.vars):
            op = way.unit.lets[-1].op
            d = op.destinations[k] if isinstance(op, anf.Comp) else None
            shape = var.type.shape if isinstance(var.type, anf.Array) else ()
            if way.gives[var] is not None:
                keep = anf.Reduce(shape, (self.first,), "set")
            else:
                monoid = d.monoid if isinstance(d, anf.Reduce) else "sum"
                keep = anf.Reduce(shape, (), monoid, None if d is None else d.into)
            out.append((var, self.made[var], keep))
        return out

    def shape(self, shape: tuple[anf.Size, ...], split: Split) -> tuple[anf.Size, ...]:
        """The sizes that a block has of an array of these sizes."""
        if split is None:
            return shape
        return (*shape[:split], *(() if self.count is None else (self.count,)), *shape[split + 1 :])

    def index(self, index: Sequence[anf.Size], split: Split) -> tuple[anf.Size, ...]:
        """The index into what a block has of an array."""
        return tuple([e for k, e in enumerate(index) if k != split or self.count is not None])

    def bind(self, var: anf.Var, split: Split) -> anf.Var:
        """A fresh variable for what a block has of an array."""
        type = var.type
        if split is not None:
            assert isinstance(type, anf.Array)
            type = type_of(type.dtype, self.shape(type.shape, split))
        self.made[var] = new = anf.fresh(var.name, type)
        self.splits[var] = split
        return new

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
                self.comp(let, op, way)
            case anf.View() as op:
                self.view(let, op, way)
            case anf.If() as op:
                outer, self.lets = self.lets, []
                for inner in op.then.lets:
                    self.let(inner, way, split)
                then = anf.Block(tuple(self.lets), tuple([self.atom(r) for r in op.then.results]))
                self.lets = outer
                otherwise = anf.Block((), tuple([self.atom(r) for r in op.otherwise.results]))
                new = replace(op, condition=self.atom(op.condition), then=then, otherwise=otherwise)
                self.lets.append(anf.Let((self.bind(let.vars[0], split),), new, let.span))
            case _:
                raise AssertionError(f"{let.op} does not split")

    def atom(self, atom: anf.Atom) -> anf.Atom:
        return self.made.get(atom, atom) if isinstance(atom, anf.Var) else atom

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def array(self, array: anf.Var) -> anf.Var:
        found = self.made.get(array, array)
        assert isinstance(found, anf.Var)
        return found

    def operand(self, array: anf.Var, names: Sequence[int], name: int) -> anf.Var:
        """An operand of a product: of one that is split, the part of the block."""
        if array in self.made or name not in names:
            return self.array(array)
        return self.part(array, names.index(name))

    def part(self, array: anf.Var, split: int) -> anf.Var:
        """A view of the part of an array from outside."""
        if (array, split) not in self.views:
            assert isinstance(array.type, anf.Array)
            shape = self.shape(array.type.shape, split)
            axes = tuple([anf.fresh("ijkl"[min(k, 3)], I64) for k in range(len(shape))])
            index = [anf.poly(a) for a in axes]
            if self.count is None:
                index.insert(split, self.first)
            else:
                index[split] = index[split] + self.first
            view = anf.fresh(array.name, anf.Array(array.type.dtype, shape))
            self.lets.append(anf.Let((view,), anf.View(array, axes, shape, tuple(index))))
            self.views[array, split] = view
        return self.views[array, split]

    def view(self, let: anf.Let, op: anf.View, way: Way) -> None:
        (var,) = let.vars
        axis, split = way.axes[var], way.gives[var]
        assert axis is not None and split is not None
        inside = op.array in self.made
        new_axes = [anf.fresh(a.name, I64) for a in op.axes]
        names: dict[anf.Var, anf.Size] = {old: anf.poly(new) for old, new in zip(op.axes, new_axes, strict=True)}
        axes = tuple([a for k, a in enumerate(new_axes) if k != split or self.count is not None])
        if self.count is None:
            names[axis] = self.first
        elif not inside:
            names[axis] = names[axis] + self.first
        index = tuple([i.substitute(names.get) for i in op.index])
        if inside:
            index = self.index(index, self.splits[op.array])
        new = anf.View(self.array(op.array), axes, self.shape(op.shape, split), index)
        self.lets.append(anf.Let((self.bind(var, split),), new, let.span))

    # ---- comprehensions ----------------------------------------------------------------------------------------------
    def comp(self, let: anf.Let, op: anf.Comp, way: Way) -> None:
        point = _Point(self, way.axes[let.vars[0]])
        axes = tuple([point.bounds(a) for a in op.axes if a.var is not point.axis or self.count is not None])
        body = point.block(op.body)
        destinations: list[anf.Destination] = []
        splits = [point.split(d) for d in op.destinations]
        for split, d in zip(splits, op.destinations, strict=True):
            shape = self.shape(d.shape, split)
            index = self.index([point.entry(e, k == split) for k, e in enumerate(d.index)], split)
            into = self.array(d.into) if d.into in self.made and d.into is not None else None
            destinations.append(
                anf.ScatterAdd(shape, index, into)
                if isinstance(d, anf.ScatterAdd)
                else anf.Reduce(shape, index, d.monoid, into)
            )
        lets = (*point.before, *body.lets)
        if not axes and not any(d.shape for d in destinations):
            self.lets += lets
            self.made.update(zip(let.vars, body.results, strict=True))
            self.splits.update(zip(let.vars, splits, strict=True))
            return
        vars = tuple([self.bind(var, split) for var, split in zip(let.vars, splits, strict=True)])
        self.lets.append(anf.Let(vars, anf.Comp(axes, anf.Block(lets, body.results), tuple(destinations)), let.span))


@dataclass(slots=True)
class _Point:
    """The body of a comprehension at a point of a block. axis: which one is split; within: its value in the block.

    before: what computes its value in the whole, where that is an operand.
    """

    whole: _Body
    axis: anf.Var | None
    env: dict[anf.Var, anf.Atom] = field(default_factory=dict)
    before: list[anf.Let] = field(default_factory=list)
    within: anf.Var = field(default_factory=lambda: anf.fresh("i", I64))

    @property
    def inside(self) -> anf.Size:
        return anf.poly(self.within)

    @property
    def at(self) -> anf.Size:
        """The value of the axis in the whole."""
        return self.whole.first if self.whole.count is None else anf.poly(self.within) + self.whole.first

    def bounds(self, axis: anf.Axis) -> anf.Axis:
        if axis.var is self.axis:
            assert self.whole.count is not None
            return anf.Axis(self.within, (anf.ZERO,), (self.whole.count,))
        lows, highs = (tuple([self.entry(s) for s in sizes]) for sizes in (axis.lows, axis.highs))
        return anf.Axis(self.bind(axis.var), lows, highs)

    def split(self, d: anf.Destination) -> Split:
        return next((k for k, e in enumerate(d.index) if self.axis is not None and e.mentions((self.axis,))), None)

    def entry(self, size: anf.Size, within: bool = False) -> anf.Size:
        """An entry of an index; `within` what a block has."""

        def value(var: anf.Var) -> anf.Size | None:
            if var is self.axis:
                return self.inside if within else self.at
            return anf.poly(self.env[var]) if var in self.env else None

        return size.substitute(value)

    def atom(self, atom: anf.Atom) -> anf.Atom:
        if atom is self.axis and isinstance(atom, anf.Var):
            if atom not in self.env:
                self.env[atom] = value = anf.fresh(atom.name, I64)
                self.before.append(anf.Let((value,), anf.IndexExpr(self.at)))
            return self.env[atom]
        return self.env.get(atom, self.whole.atom(atom)) if isinstance(atom, anf.Var) else atom

    def bind(self, var: anf.Var) -> anf.Var:
        type = var.type
        if isinstance(type, anf.Array):
            type = anf.Array(type.dtype, tuple([self.entry(s) for s in type.shape]))
        self.env[var] = new = anf.fresh(var.name, type)
        return new

    def block(self, block: anf.Block) -> anf.Block:
        lets = []
        for let in block.lets:
            op: anf.Op
            if isinstance(let.op, anf.Read):
                array = self.atom(let.op.array)
                split = self.whole.splits.get(let.op.array)
                index = [self.entry(e, k == split) for k, e in enumerate(let.op.index)]
                if isinstance(array.type, anf.Scalar):
                    self.env[let.vars[0]] = array
                    continue
                assert isinstance(array, anf.Var)
                op = anf.Read(array, self.whole.index(index, split))
            else:
                op = rebuild(let.op, atom=self.atom, size=self.entry, block=self.block, bind=self.bind)
            lets.append(anf.Let(tuple([self.bind(v) for v in let.vars]), op, let.span))
        return anf.Block(tuple(lets), tuple([self.atom(a) for a in block.results]))
