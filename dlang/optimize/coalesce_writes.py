"""Comprehensions that write segments of one array, one after another, become one.

    z = comp i { … } to keep [2*h] [i] sum                      z = empty [2*h]
    y = comp i { … } to keep [2*h] [h + i] sum into z     →     z', y = comp i { … } to keep [2*h] [i] set into z,
                                                                                     keep [2*h] [h + i] set after 0

The cotangents of the gates of a recurrent cell are segments of that of one product, or slices of that of one array of
weights. Done in one pass over the points, what they have in common is computed once and not kept. Where the segments
are all of the array, it is not filled before.

A row whose elements each point computes one by one is such segments, too, a column each: no row is made at a point.

This comes late: no pass before it expects destinations that go on with others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.comprehension_queries import sizes_named, taken_apart
from dlang.ir.traverse import map_blocks, map_functions, mentioned, pruned, with_body, with_lets, with_op
from dlang.ir.types import dtype_of, product
from dlang.ir.writes import apart, determines, elements, ranges, read_at, write_all
from dlang.optimize.effects import effectful_functions, is_effectful
from dlang.optimize.fuse import PointReader, renamed, sum_at_point
from dlang.optimize.fusion_order import Items, bits
from dlang.optimize.structural_hash import Key, Keys


def coalesce_writes(program: anf.Program) -> anf.Program:
    """The program with one comprehension for the segments of an array."""
    effectful = effectful_functions(program)

    def function(f: anf.Function) -> anf.Function:
        known = Knowledge.of(f)
        return with_body(f, _block(f.body, effectful, known))

    return map_functions(program, function)


def _block(block: anf.Block, effectful: frozenset[str], known: Knowledge) -> anf.Block:
    known = known.copy()
    lets = []
    for let in block.lets:
        op = map_blocks(let.op, lambda b: _block(b, effectful, known))
        lets += _by_columns(with_op(let, let.vars, op))
        known.note_made(let.vars)
    block = with_lets(block, lets, block.results)
    merged = _merged(block, effectful, known)
    return block if merged is None else _without_unused(merged)


def _merged(block: anf.Block, effectful: frozenset[str], known: Knowledge) -> anf.Block | None:
    """The block with comprehensions merged that go on from each other; None if there are none."""
    if not any(isinstance(let.op, anf.Comp) and _continues(let.op) for let in block.lets):
        return None
    sizes = sizes_named(block)
    uses = Counter([v for let in block.lets for v in set(mentioned(let.op))])
    uses.update(r for r in block.results if isinstance(r, anf.Var))
    items, joined = Items(), False
    home: dict[anf.Var, tuple[int, Key]] = {}
    for let in block.lets:
        op = let.op
        effects = is_effectful(op, effectful)
        if not isinstance(op, anf.Comp) or not op.axes or effects:
            items.append(let, effects)
            continue
        keys = Keys()
        key = tuple([keys.axis(a) for a in op.axes])
        into = [d.into for d in op.destinations if d.into in home and home[d.into][1] == key]
        alone = all(uses[v] == into.count(v) == 1 for v in into)  # what is gone on from, nothing else uses
        near = {home[v][0] for v in into if alone}
        for k in bits(items.joinable(let, sum(1 << k for k in near), effects)):
            together = _together(items.lets[k], let, sizes, known)
            if together is not None:
                items.join(k, let, effects)
                items.lets[k] = together
                joined = True
                break
        else:
            k = items.append(let, effects)
        home.update(dict.fromkeys(let.vars, (k, key)))
    return anf.Block(items.ordered(), block.results) if joined else None


def _continues(op: anf.Comp) -> bool:
    return any(d.into is not None for d in op.destinations)


# ---- two comprehensions ----------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Made:
    """A comprehension being made."""

    axes: tuple[anf.Axis, ...]
    lets: list[anf.Let]
    vars: list[anf.Var]
    values: list[anf.Atom]
    destinations: list[anf.Destination]

    def comp(self) -> anf.Comp:
        return anf.Comp(self.axes, anf.Block(tuple(self.lets), tuple(self.values)), tuple(self.destinations))

    def add(self, var: anf.Var, value: anf.Atom, destination: anf.Destination) -> None:
        self.vars.append(var)
        self.values.append(value)
        self.destinations.append(destination)

    def sum(self, k: int, value: anf.Atom) -> anf.Var:
        """The sum of what goes to a destination and another value."""
        both = anf.fresh("t", value.type)
        self.lets.append(anf.Let((both,), anf.Prim("add", (self.values[k], value))))
        return both

    def indices(self, k: int) -> Iterator[tuple[anf.Size, ...]]:
        """The indices of a destination and of those with whose array it goes on."""
        at: int | None = k
        while at is not None:
            d = self.destinations[at]
            yield d.index
            at = d.after if isinstance(d, anf.Reduce) else None


def _together(first: anf.Let, second: anf.Let, sizes: Mapping[anf.Var, anf.Size], known: Knowledge) -> anf.Let | None:
    """One comprehension for two with equal axes, of which the second goes on with an array of the first."""
    a, b = first.op, second.op
    assert isinstance(a, anf.Comp) and isinstance(b, anf.Comp)
    if not all(isinstance(v.type, anf.Scalar) for v in (*a.body.results, *b.body.results)):
        return None
    if _copies(a) or _copies(b):
        return None
    results = dict(zip(first.vars, range(len(first.vars)), strict=True))
    if any(s.mentions(first.vars) for axis in b.axes for s in (*axis.lows, *axis.highs)):
        return None
    opened = [_opened(d, sizes) for d in a.destinations]
    joint = _Made(a.axes, list(a.body.lets), list(first.vars), list(a.body.results), opened)
    for array in dict.fromkeys(mentioned(b.body)):
        if array in results:
            _as_sum(joint, results[array])
    axes = {y.var: x.var for x, y in zip(a.axes, b.axes, strict=True)}
    reader = PointReader(joint.axes, joint.values, joint.destinations, results, axes)
    body = reader.block(b.body)
    if not results.keys().isdisjoint(mentioned(body)):
        return None
    joint.lets += body.lets
    added: dict[int, int] = {}  # the positions in the second one of what goes on with nothing of the first, and here
    for n, (var, value, destination) in enumerate(zip(second.vars, body.results, b.destinations, strict=True)):
        new = _opened(renamed(destination, reader), sizes)
        if any(size.mentions(first.vars) for size in (*new.shape, *new.index)):
            return None
        if new.into not in results:
            if isinstance(new, anf.Reduce) and new.after is not None:
                if new.after not in added:
                    return None
                new = replace(new, after=added[new.after])
            added[n] = len(joint.vars)
            joint.add(var, value, new)
        elif not _go_on(joint, var, value, new, results[new.into], known):
            return None
    op = joint.comp()
    taken = [d.into for d in op.destinations if d.into is not None]
    if len(set(taken)) < len(taken) or not all(_only_own(op, d, sizes) for d in op.destinations if d.into is not None):
        return None
    return anf.Let(tuple(joint.vars), op, first.span)


def _copies(op: anf.Comp) -> bool:
    """Tells whether it only copies to slices: each value is better made there, if each copy has a pass of its own."""
    sets = all(isinstance(d, anf.Reduce) and d.monoid == "set" for d in op.destinations)
    return sets and all(isinstance(let.op, anf.Read) for let in op.body.lets)


def _opened(d: anf.Destination, sizes: Mapping[anf.Var, anf.Size]) -> anf.Destination:
    """A destination whose index says what sizes are made of."""
    return replace(d, index=tuple([e.substitute(sizes.get) for e in d.index]))


def _as_sum(joint: _Made, k: int) -> None:
    """Makes a plain result of one that is added to an array, element by element, so that it can be read."""
    plain = sum_at_point(joint.axes, joint.destinations[k], joint.values[k])
    if plain is not None:
        lets, joint.values[k], joint.destinations[k] = plain
        joint.lets += lets


def _go_on(joint: _Made, var: anf.Var, value: anf.Atom, new: anf.Destination, k: int, known: Knowledge) -> bool:
    """Adds a destination that goes on with the array of another; False if that can't be done at every point."""
    base = joint.destinations[k]
    if not (isinstance(new, anf.Reduce) and isinstance(base, anf.Reduce)) or dtype_of(value) not in ("f64", "f32"):
        return False
    if new.monoid not in ("sum", "set") or base.monoid not in ("sum", "set"):
        return False
    if not all(determines(joint.axes, d.index) for d in (new, base)):
        return False
    if new.index == base.index:
        if base.into is None and base.after is None and elements(joint.axes, base.shape, base.index) is not None:
            total = joint.sum(k, value) if new.monoid == "sum" else value
            joint.add(var, total, replace(new, monoid="set", into=None))
            return True
        if new.monoid == "sum":  # in its place: nothing else uses what was there
            joint.values[k], joint.vars[k] = joint.sum(k, value), var
            return True
        return False
    place, *others = [ranges(joint.axes, index) for index in (new.index, *joint.indices(k))]
    if not all(apart(place, other, known) for other in others):
        return False
    joint.add(var, value, replace(new, into=None, after=k))
    return True


def _only_own(op: anf.Comp, d: anf.Destination, sizes: Mapping[anf.Var, anf.Size]) -> bool:
    """Tells whether the array that a destination goes on from is read only where the point writes, if at all."""
    mentions = mentioned(op.body).count(d.into) if d.into is not None else 0
    if not mentions or d.into is None:
        return True
    return isinstance(d, anf.Reduce) and read_at(op.body, d.index, sizes)[d.into] == mentions


# ---- rows of known elements ------------------------------------------------------------------------------------------
def _by_columns(let: anf.Let) -> list[anf.Let]:
    """A comprehension that sets the elements of its rows one by one, each row in an array of which that is all."""
    op = let.op
    if not isinstance(op, anf.Comp) or not op.axes:
        return [let]
    rows = {k: row for k in range(len(let.vars)) if (row := _elements_of_row(op, k))}
    if not rows or any(isinstance(d, anf.Reduce) and d.after is not None for d in op.destinations):
        return [let]
    before: list[anf.Let] = []
    made = _Made(op.axes, [], [], [], [])
    for k, (var, value, d) in enumerate(zip(let.vars, op.body.results, op.destinations, strict=True)):
        if k not in rows:
            made.add(var, value, d)
            continue
        whole: anf.Var | None = anf.fresh(var.name, var.type)
        assert whole is not None
        before.append(anf.Let((whole,), anf.Empty(dtype_of(var), d.shape), let.span))
        for n, (place, element) in enumerate(rows[k].items()):
            last = n == len(rows[k]) - 1
            to = anf.Reduce(d.shape, (*d.index, *place), "set", whole, None if whole else len(made.vars) - 1)
            made.add(var if last else anf.fresh(var.name, var.type), element, to)
            whole = None
    made.lets += pruned(op.body.lets, made.values, [e for d in made.destinations for e in d.index])
    return [*before, anf.Let(tuple(made.vars), made.comp(), let.span)]


def _elements_of_row(op: anf.Comp, k: int) -> dict[tuple[anf.Size, ...], anf.Atom]:
    """The elements of a row that each point makes of numbers, by their places; none if it is not made so."""
    d, row = op.destinations[k], op.body.results[k]
    if not isinstance(row.type, anf.Array) or dtype_of(row) not in ("f64", "f32"):
        return {}
    if not isinstance(d, anf.Reduce) or d.into is not None or d.monoid not in ("set", "sum"):
        return {}
    if not determines(op.axes, d.index) or len(d.index) + len(row.type.shape) != len(d.shape):
        return {}
    made = {let.vars[0]: let.op for let in op.body.lets if isinstance(let.op, anf.Update | anf.Empty)}
    uses = Counter([v for let in op.body.lets for v in mentioned(let.op)])
    uses.update(r for r in op.body.results if isinstance(r, anf.Var))
    elements_of: dict[tuple[anf.Size, ...], anf.Atom] = {}
    array: anf.Atom = row
    while isinstance(array, anf.Var) and uses[array] == 1:
        match made.get(array):
            case anf.Update(below, place, value) if all(e.constant is not None for e in place):
                elements_of.setdefault(place, value)
                array = below
            case anf.Empty():
                all_of_them = product(row.type.shape) == anf.poly(len(elements_of))
                return dict(reversed(elements_of.items())) if all_of_them else {}
            case _:
                break
    return {}


# ---- what is left ----------------------------------------------------------------------------------------------------
def _without_unused(block: anf.Block) -> anf.Block:
    """The block without results that nothing uses any more, and without fills of arrays that segments are all of."""
    wanted = {r for r in block.results if isinstance(r, anf.Var)}
    lets: list[anf.Let] = []
    for let in reversed(block.lets):
        if isinstance(let.op, anf.Comp) and len(let.vars) > 1:
            new = _pruned(let, let.op, wanted)
            empty = _emptied(new)
        else:
            new, empty = let, []
        lets.append(new if not empty else empty[1])
        lets += empty[:1]
        wanted |= set(mentioned(new.op))
        wanted |= {v for var in new.vars if isinstance(var.type, anf.Array) for s in var.type.shape for v in s.atoms()}
    return anf.Block(tuple(lets[::-1]), block.results)


def _pruned(let: anf.Let, op: anf.Comp, wanted: set[anf.Var]) -> anf.Let:
    """A comprehension without the results that nothing wants and none goes on with, and without their code."""
    followers = _followers(op)

    def needed(k: int) -> bool:
        return let.vars[k] in wanted or (k in followers and needed(followers[k]))

    left = [k for k in range(len(let.vars)) if needed(k)]
    return let if len(left) == len(let.vars) or not left else taken_apart(let, (left,))[0]


def _followers(op: anf.Comp) -> dict[int, int]:
    """The positions of results with whose array another one goes on, each with that of the other."""
    return {d.after: k for k, d in enumerate(op.destinations) if isinstance(d, anf.Reduce) and d.after is not None}


def _emptied(let: anf.Let) -> list[anf.Let]:
    """An empty array and a comprehension that sets all of it, if that is what segments do; nothing if not."""
    op = let.op
    assert isinstance(op, anf.Comp)
    destinations, followers = list(op.destinations), _followers(op)
    before: list[anf.Let] = []
    for k, d in enumerate(op.destinations):
        if not isinstance(d, anf.Reduce) or d.after is not None or d.into is not None:
            continue
        chain = [k]
        while chain[-1] in followers:
            chain.append(followers[chain[-1]])
        if len(chain) < 2 or before or not write_all([(op.axes, op.destinations[j]) for j in chain]):
            continue
        whole = anf.fresh(let.vars[k].name, let.vars[k].type)
        before.append(anf.Let((whole,), anf.Empty(dtype_of(whole), d.shape), let.span))
        for j in chain:
            to = destinations[j]
            assert isinstance(to, anf.Reduce)
            destinations[j] = replace(to, monoid="set", into=whole if j == k else None)
    return [*before, anf.Let(let.vars, anf.Comp(op.axes, op.body, tuple(destinations)), let.span)] if before else []
