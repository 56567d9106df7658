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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.affine import far_fewer
from dlang.ir.comprehension_queries import extent
from dlang.ir.traverse import count_uses, map_blocks, map_bodies, map_inner, mentioned, walk
from dlang.ir.types import product
from dlang.optimize.effects import effectful_functions, is_effectful
from dlang.optimize.fusion_order import Items, bits
from dlang.optimize.in_blocks import in_blocks, is_element
from dlang.optimize.splitting import Split, Unit, Way, ways
from dlang.optimize.unguarded import adds_many
from dlang.optimize.write_out import values

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
    way: Way
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
        self.rows.update([v for v, split in m.way.gives.items() if split is not None])
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
    reads = [let.op for let in walk(m.op.body) if isinstance(let.op, anf.Read) and let.op.array in made]
    intos = [(v, d) for v, d in zip(m.let.vars, m.op.destinations, strict=True) if d.into in made]
    if any(r.index[0].atom is not m.axis.var for r in reads):
        return False
    if any(m.way.gives[v] is None or (is_element(d.shape[1:]) and not _is_sum(d)) for v, d in intos):
        return False
    return len(reads) + len(intos) == sum(v in made for v in mentioned(m.op))


def _is_sum(d: anf.Destination) -> bool:
    return isinstance(d, anf.ScatterAdd) or d.monoid == "sum"


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
    if not isinstance(op, anf.Comp) or not (found := list(ways(Unit((let,))))):
        return []
    is_product = _is_product(op)
    out = []
    for way in found:
        axis = next(a for a in op.axes if a.var is way.axes[let.vars[0]])
        inner = {a.var: extent(a) for a in op.axes if a is not axis}
        if not all(_fits(d, way.gives[v], inner) for v, d in zip(let.vars, op.destinations, strict=True)):
            continue
        read = [let.op for let in walk(op.body) if isinstance(let.op, anf.Read)]
        accesses = [*(r.index for r in read), *(d.index for d in op.destinations)]
        if inner and any(_across(index, axis.var, inner) for index in accesses):
            continue
        shared = frozenset(r.array for r in read if r.index[0].atom is axis.var)
        splits = [way.gives[v] for v in let.vars]
        changed = frozenset(_changed(op, splits, inner))
        out.append(_Member(let, op, axis, way, shared, changed, is_product))
    return out


def _fits(d: anf.Destination, split: Split, inner: Mapping[anf.Var, anf.Size | None]) -> bool:
    """Tells whether a destination takes a row for each value of the axis, or reduces rows of its own shape."""
    return split == 0 or (split is None and isinstance(d, anf.Reduce) and _dense(d.index, d.shape, inner))


def _changed(op: anf.Comp, splits: Iterable[Split], inner: Mapping[anf.Var, anf.Size | None]) -> Iterator[anf.Var]:
    for d, split in zip(op.destinations, splits, strict=True):
        if d.into is not None and split == 0 and not _dense(d.index[1:], d.shape[1:], inner):
            yield d.into


def _across(index: Sequence[anf.Size], row: anf.Var, others: Collection[anf.Var]) -> bool:
    """Tells whether neighbours of an access lie along the outer axis, so that the loops inside would jump."""
    return bool(index) and index[-1].mentions((row,)) and any(i.mentions(others) for i in index)


def _dense(index: Sequence[anf.Size], shape: Sequence[anf.Size], axes: Mapping[anf.Var, anf.Size | None]) -> bool:
    """Tells whether an index runs over all of a shape, an axis for each entry."""
    names = [i.atom for i in index]
    if len(set(names)) != len(names):
        return False
    return all(isinstance(n, anf.Var) and n in axes and axes[n] == s for n, s in zip(names, shape, strict=True))


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
        outside = {v for m in members for v in m.let.vars if uses.get(v, 0) > inside.get(v, 0)}
        let = in_blocks([m.way for m in members], None, outside)
        return anf.Let(let.vars, map_blocks(let.op, self.block), let.span)


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
    return any(m.inner for m in members) and all(values(a) for m in members for a in m.inner)


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
