"""Rows: comprehensions that follow one another along a shared outer axis become one, which does a row at a time.

    r = comp i, j { … x[i, j] … } to keep [n] [i] max          y = comp i {
    e = comp i, j { … x[i, j] … r[i] … } to keep [n, m] …   →    r = comp j { … } to keep [] [] max
    y = comp i, j { … e[i, j] … } to keep [n, m] …               e = comp j { … } to keep [m] [j] set
                                                                 y = comp j { … } to keep [m] [j] set
                                                               } to keep [n, m] [i] set

What lies between them is then as large as a row, or a scalar, and a row is still in the cache when it is read again.
A reduction over the outer axis, like the sums of columns, takes the rows as they come. The body of the result is
treated in the same way. This comes after fusion, which makes one comprehension of those over the same points, and last
before ownership: no other pass expects arrays among the values of a comprehension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.affine import far_fewer
from dlang.ir.comprehension_queries import done_whole, extent, is_plain
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import count_uses, map_bodies, map_inner, mentioned, rebuild, walk
from dlang.ir.types import comp_types, product
from dlang.ops.monoids import COMBINE
from dlang.optimize.effects import effectful_functions, is_effectful
from dlang.optimize.fusion_order import Items, bits
from dlang.optimize.unguarded import adds_many
from dlang.optimize.unroll import is_narrow

LIGHT = 4  # primitives of a term, more of which take so long that it does not matter how often operands are read


def fuse_outer_axis(program: anf.Program) -> anf.Program:
    """The program with comprehensions that share an outer axis done a row at a time."""
    effectful = effectful_functions(program)
    return map_bodies(program, _Blocks(effectful).block)


@dataclass(frozen=True, slots=True)
class _Member:
    """A comprehension that can be done a row at a time.

    shared: the arrays of which it reads the row at hand; changed: those of which it changes some elements in place, so
    that their rows have to be made with this one. product: whether it does several rows together by itself.
    """

    let: anf.Let
    op: anf.Comp
    axis: anf.Axis
    shared: frozenset[anf.Var]
    changed: frozenset[anf.Var]
    product: bool

    @property
    def inner(self) -> tuple[anf.Axis, ...]:
        return tuple([a for a in self.op.axes if a is not self.axis])


@dataclass(slots=True)
class _Group:
    """Members in order. made: their results, of which `rows` have a row for each value of the axis.

    mentioned: by their bodies; consumed: what they continue. partial: results that continue an array from outside,
    which the rows lack.
    """

    members: list[_Member] = field(default_factory=list)
    made: set[anf.Var] = field(default_factory=set)
    rows: set[anf.Var] = field(default_factory=set)
    shared: set[anf.Var] = field(default_factory=set)
    mentioned: set[anf.Var] = field(default_factory=set)
    consumed: set[anf.Var] = field(default_factory=set)
    partial: set[anf.Var] = field(default_factory=set)

    def add(self, m: _Member) -> None:
        self.members.append(m)
        for var, d in zip(m.let.vars, m.op.destinations, strict=True):
            if d.into is not None and d.into not in self.made:
                self.partial.add(var)
        self.made.update(m.let.vars)
        for var, d in zip(m.let.vars, m.op.destinations, strict=True):
            if _row_of(d, m.axis.var) is not None:
                self.rows.add(var)
        self.shared |= m.shared
        self.mentioned.update(mentioned(m.op.body))
        self.consumed.update(d.into for d in m.op.destinations if d.into is not None)

    def takes(self, m: _Member) -> bool:
        """Tells whether a comprehension may join: it needs only rows of what the others make, and shares some array."""
        body = set(mentioned(m.op.body))
        intos = [d.into for d in m.op.destinations if d.into is not None]
        needed = self.made & {*mentioned(m.op)}
        if not needed and self.shared.isdisjoint(m.shared):
            return False
        if not self.consumed.isdisjoint(body) or not self.consumed.isdisjoint(intos) or self.partial & needed:
            return False
        if any(v not in self.made and v in self.mentioned for v in intos):
            return False
        if m.product and not _outgrown(m, needed, self.mentioned - self.made):
            return False
        return needed <= self.rows and m.changed <= self.rows and _by_rows(m, needed)


def _outgrown(m: _Member, needed: set[anf.Var], given: set[anf.Var]) -> bool:
    """Tells whether an array that a comprehension needs grows faster than all that it makes or reads beside."""
    others = {*m.let.vars, *given, *mentioned(m.op.body)} - needed
    sizes = [product(v.type.shape) for v in others if isinstance(v.type, anf.Array)]
    between = [product(v.type.shape) for v in needed if isinstance(v.type, anf.Array)]
    return any(all(far_fewer(size, large) for size in sizes) for large in between)


def _by_rows(m: _Member, made: set[anf.Var]) -> bool:
    """Tells whether a comprehension mentions these arrays only to read the row at hand, or to continue it."""
    row = m.axis.var
    reads = [let.op for let in walk(m.op.body) if isinstance(let.op, anf.Read) and let.op.array in made]
    intos = [d for d in m.op.destinations if d.into in made]
    if any(r.index[0].atom is not row for r in reads):
        return False
    if any(_row_of(d, row) is None or (_is_scalar(d.shape[1:]) and not _is_sum(d)) for d in intos):
        return False
    return len(reads) + len(intos) == sum(v in made for v in mentioned(m.op))


def _is_sum(d: anf.Destination) -> bool:
    return isinstance(d, anf.ScatterAdd) or d.monoid == "sum"


def _row_of(d: anf.Destination, row: anf.Var) -> tuple[anf.Size, ...] | None:
    """The index within the row, where a destination has a row for each value of an axis."""
    if d.index and d.index[0].atom is row and not any(i.mentions((row,)) for i in d.index[1:]):
        return d.index[1:]
    return None


def _is_product(op: anf.Comp) -> bool:
    """Tells whether a comprehension adds up many light terms, with an operand that serves several rows at once."""
    if sum(isinstance(let.op, anf.Prim) for let in walk(op.body)) > LIGHT:
        return False
    for d in op.destinations:
        if not isinstance(d, anf.Reduce) or d.monoid != "sum" or not adds_many(op, d):
            continue
        kept = [a.var for a in op.axes if any(i.mentions((a.var,)) for i in d.index)]
        reduced = [a.var for a in op.axes if a.var not in kept]
        for let in op.body.lets:
            if isinstance(let.op, anf.Read) and any(i.mentions(reduced) for i in let.op.index):
                found = [any(i.mentions((axis,)) for i in let.op.index) for axis in kept]
                if any(found) and not all(found):
                    return True
    return False


# ---- what can be done by rows ----------------------------------------------------------------------------------------
def _members(let: anf.Let) -> list[_Member]:
    """The ways in which a let can be done a row at a time."""
    op = let.op
    if not isinstance(op, anf.Comp) or not is_plain(op):
        return []
    if any(done_whole(v.type) for v in let.vars):
        return []
    is_product = _is_product(op)
    out = []
    for axis in op.axes:
        size = extent(axis)
        others = {a.var for a in op.axes if a is not axis}
        if size is None or size.mentions(others) or not all(_fits(d, axis, size, op) for d in op.destinations):
            continue
        accesses = [inner.op.index for inner in walk(op.body) if isinstance(inner.op, anf.Read)]
        accesses += [d.index for d in op.destinations]
        if others and any(_across(index, axis.var, others) for index in accesses):
            continue
        read = [inner.op for inner in walk(op.body) if isinstance(inner.op, anf.Read)]
        shared = frozenset(r.array for r in read if r.index[0].atom is axis.var)
        out.append(_Member(let, op, axis, shared, frozenset(_changed(op, axis.var)), is_product))
    return out


def _changed(op: anf.Comp, row: anf.Var) -> Iterator[anf.Var]:
    inner = {a.var: extent(a) for a in op.axes if a.var is not row}
    for d in op.destinations:
        within = _row_of(d, row)
        if d.into is not None and within is not None and not _dense(within, d.shape[1:], inner):
            yield d.into


def _across(index: Sequence[anf.Size], row: anf.Var, others: set[anf.Var]) -> bool:
    """Tells whether neighbours of an access lie along the outer axis, so that the loops inside would jump."""
    return bool(index) and index[-1].mentions((row,)) and any(i.mentions(others) for i in index)


def _fits(d: anf.Destination, axis: anf.Axis, size: anf.Size, op: anf.Comp) -> bool:
    """Tells whether a destination takes a row for each value of the axis, or reduces rows of its own shape."""
    row = axis.var
    inner = {a.var: extent(a) for a in op.axes if a is not axis}
    if any(i.mentions((row,)) for i in d.index):
        within = _row_of(d, row)
        return within is not None and d.shape[0] == size
    if isinstance(d, anf.ScatterAdd) or d.monoid not in COMBINE:
        return False
    return _dense(d.index, d.shape, inner)


def _dense(index: Sequence[anf.Size], shape: Sequence[anf.Size], axes: dict[anf.Var, anf.Size | None]) -> bool:
    """Tells whether an index runs over all of a shape, an axis for each entry."""
    names = [i.atom for i in index]
    if len(set(names)) != len(names):
        return False
    return all(isinstance(n, anf.Var) and n in axes and axes[n] == s for n, s in zip(names, shape, strict=True))


def _is_scalar(shape: Sequence[anf.Size], index: Sequence[anf.Size] = ()) -> bool:
    """Tells whether a row is one element, which an index may say without an axis."""
    return all(s == 1 for s in shape) and all(i.constant is not None for i in index)


# ---- grouping --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Blocks:
    effectful: frozenset[str]

    def block(self, block: anf.Block) -> anf.Block:
        block = map_inner(block, self.block)
        if sum(isinstance(let.op, anf.Comp) for let in block.lets) < 2:
            return block
        parts = self.grouped(block.lets)
        if not any(isinstance(part, list) for part in parts):
            return block
        uses = count_uses(block)
        out = [part if isinstance(part, anf.Let) else self.joined(part, uses) for part in parts]
        return anf.Block(tuple(out), block.results)

    def grouped(self, lets: Sequence[anf.Let]) -> list[anf.Let | list[_Member]]:
        """The lets, with those that are to be joined as one."""
        items = Items()
        groups: dict[int, _Group] = {}
        open_ones: dict[anf.Size, int] = {}  # the items that others may join, a bit for each
        for let in lets:
            effects = is_effectful(let.op, self.effectful)
            ways = [] if effects else _members(let)
            near = [(w, k) for w in ways for k in bits(items.joinable(let, open_ones.get(w.axis.highs[0], 0)))]
            for way, k in near:
                if groups[k].takes(way):
                    groups[k].add(way)
                    items.join(k, let)
                    break
            else:
                k = items.append(let, effects)
                if ways and not ways[0].changed and not ways[0].product:
                    groups[k] = _Group()
                    groups[k].add(ways[0])
                    size = ways[0].axis.highs[0]
                    open_ones[size] = open_ones.get(size, 0) | 1 << k
        wholes = {items.lets[k].vars: g.members for k, g in groups.items()}
        out: list[anf.Let | list[_Member]] = []
        for let in items.ordered():
            members = wholes.get(let.vars, [])
            before, row, after = _peeled(members)
            if len(members) > 1 and _useful(row):
                out += [*(m.let for m in before), row, *(m.let for m in after)]
            else:
                out += [m.let for m in members] or [let]
        return out

    def joined(self, members: list[_Member], uses: dict[anf.Var, int]) -> anf.Let:
        """One comprehension over the shared axis; it gives what is used elsewhere."""
        inside: dict[anf.Var, int] = {}
        for m in members:
            for var, count in count_uses(m.op).items():
                inside[var] = inside.get(var, 0) + count
        axis = members[0].axis
        row = _Row(axis.var)
        vars: list[anf.Var] = []
        results: list[anf.Atom] = []
        destinations: list[anf.Destination] = []
        for m in members:
            values = row.add(m)
            for var, value, d in zip(m.let.vars, values, m.op.destinations, strict=True):
                if uses.get(var, 0) > inside.get(var, 0):
                    vars.append(var)
                    results.append(value)
                    destinations.append(row.destination(d, m.axis.var))
        body = self.block(anf.Block(tuple(row.lets), tuple(results)))
        return anf.Let(tuple(vars), anf.Comp((axis,), body, tuple(destinations)), members[0].let.span)


def _peeled(members: Sequence[_Member]) -> tuple[list[_Member], list[_Member], list[_Member]]:
    """Members of the shared axis alone that can stand before or after the others, where several are done at once.

    One that reads, in a loop, rows of an array that is larger than all else stays: that array is then never whole.
    """
    needs: list[set[int]] = []
    continued: list[set[int]] = [set() for _ in members]
    home: dict[anf.Var, int] = {}
    users: dict[anf.Var, set[int]] = {}
    for k, m in enumerate(members):
        found = {home[v] for v in mentioned(m.op) if v in home}
        for d in m.op.destinations:
            found |= users.get(d.into, set()) if d.into is not None else set()
            if d.into in home:
                continued[home[d.into]].add(k)
        needs.append(found.union(*(needs[j] for j in found)))
        home.update(dict.fromkeys(m.let.vars, k))
        for v in mentioned(m.op):
            users.setdefault(v, set()).add(k)
    if _narrow(members):
        return [], list(members), []
    wide = {k for k, m in enumerate(members) if m.inner}
    made = {v for k in wide for v in members[k].let.vars}
    given = {v for k in wide for v in mentioned(members[k].op.body)} - made
    wide |= {k for k, m in enumerate(members) if _outgrown(m, made & {*mentioned(m.op.body)}, given)}  # by its loops
    before = {k for k in range(len(members)) if k not in wide and not needs[k] & wide}
    while inside := {k for k in before if needs[k] - before or continued[k] - before}:
        before -= inside  # rows that are continued have to be there
    needed = wide.union(*(needs[k] for k in wide))
    made = {v for k in wide for v in members[k].let.vars}
    needed |= {k for k, m in enumerate(members) if any(d.into in made for d in m.op.destinations)}
    needed = needed.union(*(needs[k] for k in needed))
    after = {k for k in range(len(members)) if k not in needed and k not in before}
    row = [m for k, m in enumerate(members) if k not in before and k not in after]
    return [members[k] for k in sorted(before)], row, [members[k] for k in sorted(after)]


def _narrow(members: Sequence[_Member]) -> bool:
    """Tells whether all rows are so short that they become scalars, of which several are done at once anyhow."""
    return any(m.inner for m in members) and all(is_narrow(a) for m in members for a in m.inner)


def _useful(members: Sequence[_Member]) -> bool:
    """Tells whether some array of rows is then read while its row is at hand."""
    if _narrow(members):
        return True
    seen: set[anf.Var] = set()
    for m in members:
        used = {*m.shared, *(d.into for d in m.op.destinations if d.into is not None)}
        if any(isinstance(v.type, anf.Array) and len(v.type.shape) > 1 and v in seen for v in used):
            return True
        if m.inner:
            seen |= m.shared | set(m.let.vars)
    return False


# ---- the comprehension of a row --------------------------------------------------------------------------------------
class _Row:
    """The body of a comprehension over an axis, under way. made: the row, or the scalar, of an array."""

    def __init__(self, axis: anf.Var) -> None:
        self.axis = axis
        self.lets: list[anf.Let] = []
        self.made: dict[anf.Var, anf.Atom] = {}
        self.renaming = Renaming({})

    def add(self, m: _Member) -> list[anf.Atom]:
        """The code of a member at one value of the axis; gives its values: rows, or scalars."""
        self.renaming.env[m.axis.var] = self.axis
        body = self.block(m.op.body)
        inner: list[anf.Destination] = []
        for d in m.op.destinations:
            within = _row_of(d, m.axis.var)
            shape, index = (d.shape, d.index) if within is None else (d.shape[1:], within)
            if _is_scalar(shape, index) and (d.into is None or d.into in self.made):
                shape = index = ()
            index = tuple([self.renaming.size(i) for i in index])
            into = self.made.get(d.into) if d.into is not None and shape else None
            assert into is None or isinstance(into, anf.Var)
            if isinstance(d, anf.ScatterAdd) and shape:
                inner.append(anf.ScatterAdd(shape, index, into))
            else:
                inner.append(anf.Reduce(shape, index, "sum" if isinstance(d, anf.ScatterAdd) else d.monoid, into))
        values: list[anf.Atom]
        if m.inner or any(d.shape for d in inner):
            op = anf.Comp(tuple([self.bounds(a) for a in m.inner]), body, tuple(inner))
            made = [anf.fresh(v.name, t) for v, t in zip(m.let.vars, comp_types(op), strict=True)]
            self.lets.append(anf.Let(tuple(made), op, m.let.span))
            values = list(made)
        else:
            self.lets += body.lets
            values = list(body.results)
        for k, (d, made_here) in enumerate(zip(m.op.destinations, inner, strict=True)):
            if d.into in self.made and not made_here.shape:
                both = anf.fresh("t", values[k].type)
                self.lets.append(anf.Let((both,), anf.Prim("add", (self.made[d.into], values[k])), m.let.span))
                values[k] = both
        self.made.update(zip(m.let.vars, values, strict=True))
        return values

    def bounds(self, axis: anf.Axis) -> anf.Axis:
        """An inner axis, whose range may depend on the row."""
        lows, highs = (tuple([self.renaming.size(s) for s in sizes]) for sizes in (axis.lows, axis.highs))
        return anf.Axis(axis.var, lows, highs)

    def destination(self, d: anf.Destination, axis: anf.Var) -> anf.Destination:
        """Returns the destination of a value computed from the row."""
        into = None if d.into in self.made else d.into
        if _row_of(d, axis) is None:
            assert isinstance(d, anf.Reduce)
            return anf.Reduce(d.shape, (), d.monoid, into)
        monoid = "set" if into is None else d.monoid if isinstance(d, anf.Reduce) else "sum"
        rest = d.index[1:] if into is None and _is_scalar(d.shape[1:], d.index[1:]) else ()
        return anf.Reduce(d.shape, (anf.poly(self.axis), *rest), monoid, into)

    def block(self, block: anf.Block) -> anf.Block:
        lets = []
        r = self.renaming
        for let in block.lets:
            if isinstance(let.op, anf.Read) and let.op.array in self.made:
                value = self.made[let.op.array]
                index = tuple([r.size(i) for i in let.op.index[1:]])
                if isinstance(value.type, anf.Scalar):
                    r.env[let.vars[0]] = value
                    continue
                assert isinstance(value, anf.Var)
                op: anf.Op = anf.Read(value, index)
            else:
                op = rebuild(let.op, atom=r.atom, size=r.size, block=self.block, bind=r.bind)
            lets.append(anf.Let(tuple([r.bind(v) for v in let.vars]), op, let.span))
        return anf.Block(tuple(lets), tuple([r.atom(a) for a in block.results]))
