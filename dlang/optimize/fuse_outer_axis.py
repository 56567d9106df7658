"""Rows: comprehensions that follow one another along a shared outer axis become one, which does a row at a time.

    r = comp i, j { … x[i, j] … } to keep [n] [i] max          y = comp i {
    e = comp i, j { … x[i, j] … r[i] … } to keep [n, m] …   →    r = comp j { … } to keep [] [] max
    y = comp i, j { … e[i, j] … } to keep [n, m] …               e = comp j { … } to keep [m] [j] set
                                                                 y = comp j { … } to keep [m] [j] set
                                                               } to keep [n, m] [i] set

What lies between them is then as large as a row, or a scalar, and a row is still in the cache when it is read again.
A reduction over the outer axis, like the sums of columns, takes the rows as they come. So does a product of a matrix
with a vector, if the matrix need not be there as a whole, and a loop each of whose iterations sets a row makes rows.
The body of the result is treated in the same way.

Each comprehension joins the first others that it can, along its first axis if that will do, and neighbours in memory
stay neighbours in loops. Where an array is then kept that grows faster than all that the block is given and gives,
other axes are tried first: an array of which only a row is there may have any of its axes as the outer one.

Comprehensions that may end the run, as gathers do, keep the order of their points. Each row is then checked as a loop
over the outer axis would check it.

This comes after fusion, which makes one comprehension of those over the same points, and last before ownership: no
other pass expects arrays among the values of a comprehension.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from dlang.ir import anf
from dlang.ir.affine import far_fewer
from dlang.ir.comprehension_queries import as_comprehension, extent
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import count_uses, map_blocks, map_bodies, map_inner, mentioned, walk
from dlang.ir.types import array_type, dtype_of, product, type_of
from dlang.ops import figures
from dlang.optimize.effects import effectful_functions, is_effectful
from dlang.optimize.fusion_order import Items, bits
from dlang.optimize.in_blocks import in_blocks, is_element
from dlang.optimize.splitting import Split, Unit, Way, serves_rows, units, ways
from dlang.optimize.write_out import values


def fuse_outer_axis(program: anf.Program) -> anf.Program:
    """The program with comprehensions that share an outer axis done a row at a time."""
    effectful = effectful_functions(program)
    return map_bodies(program, _Blocks(effectful).block)


@dataclass(frozen=True, slots=True)
class _Member:
    """A comprehension that can be done a row at a time.

    lets: what it stands for: a comprehension, a loop, or a product. shared: the arrays of which it reads the row at
    hand; changed: those of which it changes some elements in place, so that their rows have to be made with this one.
    product: whether it does several rows together by itself.
    """

    lets: tuple[anf.Let, ...]
    let: anf.Let
    op: anf.Comp
    axis: anf.Axis
    way: Way
    shared: frozenset[anf.Var]
    changed: frozenset[anf.Var]
    product: bool

    @property
    def of_product(self) -> bool:
        """Tells whether it stands for a product of arrays."""
        return isinstance(self.lets[0].op, anf.Contract)

    @property
    def keeps_order(self) -> bool:
        """Tells whether it is a comprehension whose points keep their order, so that the first check to fail does."""
        return isinstance(self.lets[0].op, anf.Comp) and self.axis is self.op.axes[0]

    @property
    def inner(self) -> tuple[anf.Axis, ...]:
        return tuple([a for a in self.op.axes if a is not self.axis])

    @property
    def wide(self) -> bool:
        """Tells whether it goes through a row, or makes one."""
        return bool(self.inner) or any(isinstance(r.type, anf.Array) for r in self.op.body.results)


@dataclass(slots=True)
class _Group:
    """Members in order. made: their results. rows: of which there is a row for each value of the axis, and along which.

    mentioned: by their bodies; consumed: what they continue. partial: results that continue an array from outside,
    which the rows lack.
    """

    members: list[_Member] = field(default_factory=list)
    made: set[anf.Var] = field(default_factory=set)
    rows: dict[anf.Var, int] = field(default_factory=dict)
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
        self.rows.update({v: split for v, split in m.way.gives.items() if split is not None})
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
        return needed <= self.rows.keys() and m.changed <= self.rows.keys() and _by_rows(m, needed, self.rows)


def _outgrown(m: _Member, needed: set[anf.Var], given: set[anf.Var]) -> bool:
    """Tells whether an array that a comprehension needs grows faster than all that it makes or reads beside."""
    others = {*m.let.vars, *given, *mentioned(m.op.body)} - needed
    sizes = [product(v.type.shape) for v in others if isinstance(v.type, anf.Array)]
    between = [product(v.type.shape) for v in needed if isinstance(v.type, anf.Array)]
    return any(all(far_fewer(size, large) for size in sizes) for large in between)


def _by_rows(m: _Member, shared: set[anf.Var], rows: Mapping[anf.Var, int]) -> bool:
    """Tells whether a comprehension mentions these arrays only to read the row at hand, or to continue it."""
    reads = [op for op in _reads(m.op) if op.array in shared]
    intos = [(v, d) for v, d in zip(m.let.vars, m.op.destinations, strict=True) if d.into in shared]
    if any(r.index[rows[r.array]].atom is not m.axis.var for r in reads):
        return False
    if any(m.way.gives[v] is None or (is_element(d.shape[1:]) and not _is_sum(d)) for v, d in intos):
        return False
    if any(d.into is not None and m.way.gives[v] != rows[d.into] for v, d in intos):
        return False
    return len(reads) + len(intos) == sum(v in shared for v in mentioned(m.op))


def _reads(op: anf.Comp) -> list[anf.Read | anf.View]:
    """The operations of a comprehension that read elements of arrays, or see parts of them."""
    return [let.op for let in walk(op.body) if isinstance(let.op, anf.Read | anf.View)]


def _is_sum(d: anf.Destination) -> bool:
    return isinstance(d, anf.ScatterAdd) or d.monoid == "sum"


# ---- what can be done by rows ----------------------------------------------------------------------------------------
def _members(unit: Unit, makers: Mapping[anf.Var, anf.Op]) -> list[_Member]:
    """The ways in which a unit can be done a row at a time, if it may be.

    makers: what makes arrays that nothing needs as a whole.
    """
    let = _as_comprehension(unit, makers) if unit.vars else None
    if let is None or not isinstance(op := let.op, anf.Comp):
        return []
    out = []
    read, extents = _reads(op), {a.var: extent(a) for a in op.axes}
    for way in ways(Unit((let,)), nested=True):
        axis = next(a for a in op.axes if a.var is way.axes[let.vars[0]])
        if any(isinstance(r, anf.View) and r.index[-1].mentions((axis.var,)) for r in read):
            continue
        inner = {v: e for v, e in extents.items() if v is not axis.var}
        shared = frozenset(r.array for r in read if r.index[0].atom is axis.var)
        splits = [way.gives[v] for v in let.vars]
        changed = frozenset(_changed(op, splits, inner))
        product = unit.is_product or serves_rows(op, axis)
        out.append(_Member(unit.lets, let, op, axis, way, shared, changed, product))
    return out


def _is_possible(m: _Member, apart: Collection[anf.Var]) -> bool:
    """Tells whether a unit may be done so. apart: arrays of which only a row is to be there, along whichever axis."""
    inner = {a.var: extent(a) for a in m.op.axes if a is not m.axis}
    given = [
        (m.way.gives[v], d)
        for v, d in zip(m.let.vars, m.op.destinations, strict=True)
        if v not in apart or m.way.gives[v] is None
    ]
    if not all(_fits(d, split, inner) for split, d in given):
        return False
    accesses = [*[r.index for r in _reads(m.op) if r.array not in apart], *[d.index for _, d in given]]
    return not inner or not any(_across(index, m.axis.var, inner) for index in accesses)


def _as_comprehension(unit: Unit, makers: Mapping[anf.Var, anf.Op]) -> anf.Let | None:
    """The comprehension that does what a unit does, if one can: a loop that sets rows, a product with a vector.

    A product of a matrix with a vector reads no element of the matrix twice; where that need not be there as a whole,
    its rows are multiplied as they come.
    """
    let = unit.lets[-1]
    match unit.lets[0].op:
        case anf.Comp(body=body):
            return let if all(isinstance(r.type, anf.Scalar) for r in body.results) else None
        case anf.For() as op:
            return _rows_of(let, op)
        case anf.Contract(a, b, left, right, out) as op if array_type(a).dtype not in anf.HALF:
            for matrix, names, other in ((a, left, right), (b, right, left)):
                if isinstance(makers.get(matrix), anf.Comp | anf.For) and {*other} < {*names} > {*out}:
                    if len({*names}) == len(names) and len({*out}) == len(out):
                        return _as_sum(unit, op)
            return None
        case _:
            return None


def _as_sum(unit: Unit, op: anf.Contract) -> anf.Let | None:
    """The comprehension that does what a product does, with its guards if a NaN in it would have it done again."""
    let = unit.lets[-1]
    if isinstance(let.op, anf.If):
        last, bound = let.op.then.lets[-1], {v for part in unit.lets for v in part.vars}
        arrays = [{v for v in mentioned(o) if isinstance(v.type, anf.Array)} - bound for o in (op, last.op)]
        if len(let.op.then.lets) > 1 or arrays[0] != arrays[1] or let.op.then.results != last.vars:
            return None
        return anf.Let(let.vars, Renaming({}, renew=True).op(last.op), let.span)
    return anf.Let(let.vars, as_comprehension(op), let.span)


def _rows_of(let: anf.Let, op: anf.For) -> anf.Let | None:
    """The comprehension that does what a loop does each of whose iterations sets rows of arrays, and needs no other."""
    size = op.high
    if op.early or op.low != anf.ZERO or len(op.body.results) != len(op.params):
        return None
    uses = count_uses(op.body)
    lets = list(op.body.lets)
    rows: list[anf.Var] = []
    at = {v: k for k, inner in enumerate(lets) for v in inner.vars}
    for param, result in zip(op.params, op.body.results, strict=True):
        if not isinstance(param.type, anf.Array) or not isinstance(result, anf.Var) or result not in at:
            return None
        if uses.get(param) != 1 or uses.get(result) != 1 or param.type.shape[0] != size:
            return None
        k = at[result]
        comp = lets[k].op
        if not isinstance(comp, anf.Comp):
            return None
        place = lets[k].vars.index(result)
        d = comp.destinations[place]
        inner = {a.var: extent(a) for a in comp.axes}
        if not isinstance(d, anf.Reduce) or d.into is not param or d.monoid != "set" or d.index[0].atom is not op.index:
            return None
        if not _dense(d.index[1:], d.shape[1:], inner) or len(d.index) != len(comp.axes) + 1:
            return None
        row = anf.fresh(result.name, type_of(dtype_of(result), d.shape[1:]))
        destinations = list(comp.destinations)
        destinations[place] = replace(d, shape=d.shape[1:], index=d.index[1:], into=None)
        vars = tuple([row if v is result else v for v in lets[k].vars])
        lets[k] = anf.Let(vars, replace(comp, destinations=tuple(destinations)), lets[k].span)
        rows.append(row)
    keep = [anf.Reduce(v.type.shape, (anf.poly(op.index),), "set") for v in let.vars if isinstance(v.type, anf.Array)]
    whole = anf.Comp((anf.Axis(op.index, (anf.ZERO,), (size,)),), anf.Block(tuple(lets), tuple(rows)), tuple(keep))
    return anf.Let(let.vars, Renaming({}, renew=True).op(whole), let.span)


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
    if len(set(names)) != len(names) or len(names) != len(shape):
        return False
    return all(isinstance(n, anf.Var) and n in axes and axes[n] == s for n, s in zip(names, shape, strict=True))


# ---- grouping --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Trials:
    """A block, and what is the same in all trials to group its lets.

    makers: as for `_members`. alone: as for `Items`.
    """

    block: anf.Block
    uses: Mapping[anf.Var, int]
    makers: Mapping[anf.Var, anf.Op]
    alone: dict[tuple[anf.Var, ...], bool] = field(default_factory=dict)
    known: dict[tuple[anf.Var, ...], list[_Member]] = field(default_factory=dict)

    def members(self, unit: Unit) -> list[_Member]:
        """As `_members`, of a unit of the block."""
        members = self.known.get(unit.vars)
        if members is None:
            members = self.known[unit.vars] = _members(unit, self.makers)
        return members


@dataclass(slots=True)
class _Blocks:
    effectful: frozenset[str]

    def block(self, block: anf.Block) -> anf.Block:
        block = map_inner(block, self.block)
        if sum(isinstance(let.op, anf.Comp | anf.For) for let in block.lets) < 2:
            return block
        uses = count_uses(block)
        makers = _made_in_parts(block)
        trials = _Trials(block, uses, makers)
        parts = self.grouped(trials)
        if kept := _outgrowing(block, _kept(parts, uses, makers)):
            makes = [unit for unit in units(block) if not kept.isdisjoint(unit.vars)]
            shared = [m.shared for unit in makes for m in trials.members(unit) if _is_possible(m, makers)]
            for near in islice(dict.fromkeys(shared), figures.ORDERS_TRIED):
                apart = makers.keys() - _kept(self.grouped(trials, near, makers), uses, makers)
                others = self.grouped(trials, near, apart)
                whole = _kept(others, uses, makers)
                if whole.isdisjoint(apart) and (fewer := _outgrowing(block, whole)) < kept:
                    parts, kept = others, fewer
        if not any(isinstance(part, list) for part in parts):
            return block
        out = [part if isinstance(part, anf.Let) else self.joined(part, uses) for part in parts]
        return anf.Block(tuple(out), block.results)

    def grouped(
        self, trials: _Trials, first: Collection[anf.Var] = (), apart: Collection[anf.Var] = ()
    ) -> list[anf.Let | list[_Member]]:
        """The lets, with those that are to be joined as one.

        first: arrays; the axes along which they are read are tried first. apart: as for `_is_possible`.
        """
        items = Items(trials.alone)
        groups: dict[int, _Group] = {}
        open_ones: dict[anf.Size, int] = {}  # the items that others may join, a bit for each
        for unit in units(trials.block):
            effects = any(is_effectful(let.op, self.effectful) for let in unit.lets)
            members = [m for m in trials.members(unit) if not effects or m.keeps_order]
            possible = [m for m in members if _is_possible(m, apart)]
            possible.sort(key=lambda m: m.shared.isdisjoint(first))
            # a loop that joins no others stays a loop, behind what it begins with
            ordered_as = unit.lets[0] if len(unit.lets) == 1 else possible[0].let if possible else unit.lets[-1]
            near = [
                (w, k)
                for w in possible
                for k in bits(items.joinable(ordered_as, open_ones.get(w.axis.highs[0], 0), effects))
            ]
            for way, k in near:
                if groups[k].takes(way):
                    groups[k].add(way)
                    items.join(k, ordered_as, effects)
                    break
            else:
                if not possible:
                    for let in unit.lets:
                        items.append(let, is_effectful(let.op, self.effectful))
                    continue
                k = items.append(ordered_as, effects)
                groups[k] = _Group()
                groups[k].add(possible[0])
                if not possible[0].changed and not possible[0].product:
                    size = possible[0].axis.highs[0]
                    open_ones[size] = open_ones.get(size, 0) | 1 << k
        wholes = {items.lets[k].vars: g.members for k, g in groups.items()}
        out: list[anf.Let | list[_Member]] = []
        for let in items.ordered():
            members = wholes.get(let.vars, [])
            before, row, after = _peeled(members)
            if len(members) > 1 and _useful(row):
                whole = _used_outside(row, trials.uses)
                kept = {v for m in row if m.of_product for v in mentioned(m.op) if v in whole and v in trials.makers}
                if kept:  # a matrix that is there as a whole is multiplied as a whole
                    makers = {v: op for v, op in trials.makers.items() if v not in kept}
                    return self.grouped(replace(trials, makers=makers, known={}), first, apart)
                out += [*_apart(before), row, *_apart(after)]
            else:
                out += _apart(members) or [let]
        return out

    def joined(self, members: list[_Member], uses: Mapping[anf.Var, int]) -> anf.Let:
        """One comprehension over the shared axis; it gives what is used elsewhere."""
        outside = _used_outside(members, uses)
        let = in_blocks([m.way for m in members], None, outside)
        return anf.Let(let.vars, map_blocks(let.op, self.block), let.span)


def _apart(members: Iterable[_Member]) -> list[anf.Let]:
    """The lets that members stand for."""
    return [let for m in members for let in m.lets]


def _kept(
    parts: Iterable[anf.Let | list[_Member]], uses: Mapping[anf.Var, int], among: Collection[anf.Var]
) -> set[anf.Var]:
    """The arrays, among some, that are there as a whole between the parts of a block."""
    kept: set[anf.Var] = set()
    for part in parts:
        kept.update(part.vars if isinstance(part, anf.Let) else _used_outside(part, uses))
    return kept.intersection(among)


def _outgrowing(block: anf.Block, arrays: Iterable[anf.Var]) -> set[anf.Var]:
    """The arrays, of some that a block makes, that grow faster than all that it is given and gives."""
    bound = {v for let in block.lets for v in let.vars}
    given = {v for v in mentioned(block) if v not in bound} | {r for r in block.results if isinstance(r, anf.Var)}
    sizes = [product(v.type.shape) for v in given if isinstance(v.type, anf.Array)]
    return {v for v in arrays if all(far_fewer(size, product(array_type(v).shape)) for size in sizes)}


def _used_outside(members: Sequence[_Member], uses: Mapping[anf.Var, int]) -> set[anf.Var]:
    """Returns what members make and other code uses, if all code uses variables so many times."""
    inside: dict[anf.Var, int] = {}
    for let in _apart(members):
        for var, count in count_uses(let.op).items():
            inside[var] = inside.get(var, 0) + count
    return {v for m in members for v in m.let.vars if uses.get(v, 0) > inside.get(v, 0)}


def _made_in_parts(block: anf.Block) -> dict[anf.Var, anf.Op]:
    """The operations that make those arrays of a block of which nothing but products needs more than elements."""
    makers = {v: let.op for let in block.lets for v in let.vars if isinstance(v.type, anf.Array)}
    whole = {v for v in block.results if isinstance(v, anf.Var)}
    for unit in units(block):
        for let in unit.lets:
            match let.op:
                case anf.Comp() as op:
                    whole |= {d.into for d in op.destinations if d.into is not None}
                    whole |= {*mentioned(op)} - {r.array for r in _reads(op)}
                case anf.Contract():
                    pass
                case _ if not unit.is_product:
                    whole |= {*mentioned(let.op)}
                case _:
                    pass
    return {v: op for v, op in makers.items() if v not in whole}


def _peeled(members: Sequence[_Member]) -> tuple[list[_Member], list[_Member], list[_Member]]:
    """Members of the shared axis alone that can stand before or after the others, where several are done at once.

    One that reads, in a loop, rows of an array that is larger than all else stays: that array is then never whole.
    """
    needs: list[set[int]] = []
    continued: list[set[int]] = [set() for _ in members]
    home: dict[anf.Var, int] = {}
    users: dict[anf.Var, set[int]] = {}
    for k, m in enumerate(members):
        sources = {home[v] for v in mentioned(m.op) if v in home}
        for d in m.op.destinations:
            sources |= users.get(d.into, set()) if d.into is not None else set()
            if d.into in home:
                continued[home[d.into]].add(k)
        needs.append(sources.union(*(needs[j] for j in sources)))
        home.update(dict.fromkeys(m.let.vars, k))
        for v in mentioned(m.op):
            users.setdefault(v, set()).add(k)
    if _narrow(members):
        return [], list(members), []
    wide = {k for k, m in enumerate(members) if m.wide}
    arrays = {v for k in wide for v in members[k].let.vars}
    given = {v for k in wide for v in mentioned(members[k].op.body)} - arrays
    wide |= {k for k, m in enumerate(members) if _outgrown(m, arrays & {*mentioned(m.op.body)}, given)}  # by its loops
    before = {k for k in range(len(members)) if k not in wide and not needs[k] & wide}
    while inside := {k for k in before if needs[k] - before or continued[k] - before}:
        before -= inside  # rows that are continued have to be there
    needed = wide.union(*(needs[k] for k in wide))
    arrays = {v for k in wide for v in members[k].let.vars}
    needed |= {k for k, m in enumerate(members) if any(d.into in arrays for d in m.op.destinations)}
    needed = needed.union(*(needs[k] for k in needed))
    after = {k for k in range(len(members)) if k not in needed and k not in before}
    row = [m for k, m in enumerate(members) if k not in before and k not in after]
    return [members[k] for k in sorted(before)], row, [members[k] for k in sorted(after)]


def _narrow(members: Sequence[_Member]) -> bool:
    """Tells whether all rows are so short that they become scalars, of which several are done at once anyhow."""
    inner = [a for m in members for a in m.inner]
    return bool(inner) and all(map(values, inner)) and all(bool(m.inner) or not m.wide for m in members)


def _useful(members: Sequence[_Member]) -> bool:
    """Tells whether some array of rows is then read while its row is at hand."""
    if _narrow(members):
        return True
    seen: set[anf.Var] = set()
    for m in members:
        used = {*m.shared, *(d.into for d in m.op.destinations if d.into is not None)}
        if any(isinstance(v.type, anf.Array) and len(v.type.shape) > 1 and v in seen for v in used):
            return True
        if m.wide:
            seen |= m.shared | set(m.let.vars)
    return False
