"""Short axes of known length, beside longer ones, are written out: an array along one is as many arrays.

    d = comp i, j, k < 3 { x[i, k] - x[j, k] } to keep [n, n, 3] [i, j, k] set
    r = comp i, j, k < 3 { d[i, j, k] * d[i, j, k] } to keep [n, n] [i, j] sum

    d₀, d₁, d₂ = comp i, j { x[i, 0] - x[j, 0], … } to keep [n, n] [i, j] set, …
    r = comp i, j { d₀[i, j] * d₀[i, j] + d₁[i, j] * d₁[i, j] + … } to keep [n, n] [i, j] set

So the three coordinates of points cost the same as numbers, rows, or fields of a struct; and what is left is scalar
code, of which the longer axes do several points at once. An array stays whole if it is used otherwise than by elements
whose place along the axis is known. Factors of a product that is added up along a longer axis stay as they are, too: a
product of matrices takes them together (`contractions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import product

from dlang.ir import anf
from dlang.ir.comprehension_queries import done_whole, with_results
from dlang.ir.pruning import pruned_block
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_bodies, map_inner, mentioned, op_blocks, parts, rebuild, with_lets, with_op
from dlang.ops.monoids import COMBINE
from dlang.optimize.unroll import CODE, POINTS, adds_products, is_choice, is_narrow, mentions, unrolled

Place = tuple[int, ...]


def short_axes(program: anf.Program) -> anf.Program:
    """The program with such axes written out."""
    return map_bodies(program, lambda body: _block(unrolled(body, early=True)))


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    chosen = _chosen(block)
    if not chosen:
        return block
    writer = _Writer(chosen)
    for let in block.lets:
        writer.let(let)
    results = tuple([writer.renaming.atom(r) for r in block.results])
    return anf.Block(_of_use(writer.lets, results, writer.parts), results)


def _of_use(lets: Sequence[anf.Let], results: Sequence[anf.Atom], made: Set[anf.Var]) -> tuple[anf.Let, ...]:
    """The lets without the parts of arrays that nothing reads; made: all parts."""
    used: set[anf.Atom] = set(results)
    kept: list[anf.Let] = []
    for let in reversed(lets):
        if not made.isdisjoint(let.vars):
            read = [k for k, v in enumerate(let.vars) if v in used]
            if not read:
                continue
            if len(read) < len(let.vars):
                let = with_results(let, read)
                assert isinstance(let.op, anf.Comp)
                let = anf.Let(let.vars, replace(let.op, body=pruned_block(let.op.body)), let.span)
        used.update(mentioned(let.op))
        kept.append(let)
    return tuple(reversed(kept))


# ---- what can be written out -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Short:
    """The short axes of a comprehension, and of each of its results the dimensions along them."""

    axes: tuple[anf.Axis, ...]
    dimensions: tuple[tuple[int, ...], ...]

    def points(self) -> Iterator[dict[anf.Var, anf.Lit]]:
        """The places along the axes, in order."""
        ranges = [range(int(a.lows[0].constant or 0), int(a.highs[0].constant or 0)) for a in self.axes]
        for values in product(*ranges):
            yield {a.var: anf.Lit(value, "i64") for a, value in zip(self.axes, values, strict=True)}


Chosen = Mapping[tuple[anf.Var, ...], _Short]


def _short(op: anf.Comp) -> _Short | None:
    """The short axes of a comprehension, if it can be written out along them."""
    axes = tuple([axis for axis in op.axes if is_narrow(axis)])
    own = [axis.var for axis in axes]
    longer = [axis for axis in op.axes if axis not in axes]
    points = 1
    for axis in axes:
        points *= int(axis.highs[0].constant or 0) - int(axis.lows[0].constant or 0)
    if not axes or not longer or points > POINTS or points * len(op.body.lets) > CODE:
        return None
    if any(size.mentions(own) for axis in longer for size in (*axis.lows, *axis.highs)):
        return None
    if not all(let.op.IS.point for let in op.body.lets) or adds_products(op, longer):
        return None
    inside = {v for let in op.body.lets for v in let.vars}
    if any(entry.mentions(inside) for d in op.destinations for entry in d.index):
        return None
    dimensions = [_dimensions(d, value, axes) for d, value in zip(op.destinations, op.body.results, strict=True)]
    return _Short(axes, tuple([d for d in dimensions if d is not None])) if None not in dimensions else None


def _dimensions(d: anf.Destination, value: anf.Atom, axes: Sequence[anf.Axis]) -> tuple[int, ...] | None:
    """The dimensions of a result that lie along the axes; None if it can't be taken apart along these."""
    if not isinstance(d, anf.Reduce) or d.into is not None or d.after is not None or isinstance(value.type, anf.Array):
        return None
    if done_whole(value.type) or d.monoid not in (*COMBINE, "set") or is_choice(d):
        return None
    own = {axis.var: axis for axis in axes}
    found = []
    for k, (entry, size) in enumerate(zip(d.index, d.shape, strict=True)):
        atom = entry.atom
        if isinstance(atom, anf.Var) and atom in own:
            axis = own.pop(atom)
            if axis.lows[0].constant != 0 or axis.highs[0] != size:
                return None
            found.append(k)
        elif entry.mentions([axis.var for axis in axes]):
            return None
    return None if d.monoid == "set" and own else tuple(found)


def _chosen(block: anf.Block) -> Chosen:
    """The comprehensions of a block to write out: all that is made of their results is known to be apart, too."""
    chosen = {}
    for let in block.lets:
        if isinstance(let.op, anf.Comp) and (short := _short(let.op)) is not None:
            chosen[let.vars] = short
    while chosen:
        apart = _apart(chosen)
        whole = {r for r in block.results if r in apart}
        _used_whole(block, apart, chosen, frozenset(), whole)
        bad = [vars for vars in chosen if not whole.isdisjoint(vars)]
        if not bad:
            break
        for vars in bad:
            del chosen[vars]
    return chosen


def _apart(chosen: Chosen) -> dict[anf.Atom, tuple[int, ...]]:
    """The arrays that are taken apart, and along which dimensions."""
    return {v: d for vars, short in chosen.items() for v, d in zip(vars, short.dimensions, strict=True) if d}


def _used_whole(
    block: anf.Block,
    apart: Mapping[anf.Atom, tuple[int, ...]],
    chosen: Chosen,
    known: frozenset[anf.Var],
    whole: set[anf.Atom],
) -> None:
    """Finds the arrays that are used otherwise than by elements at known places. known: axes that are written out."""
    for let in block.lets:
        op = let.op
        if isinstance(op, anf.Read) and op.array in apart:
            places = [op.index[k] for k in apart[op.array]]
            if not all(p.constant is not None or p.atom in known for p in places):
                whole.add(op.array)
            continue
        whole.update(a for a in parts(op).atoms if a in apart)
        inside = known.union([a.var for a in chosen[let.vars].axes]) if let.vars in chosen else known
        for inner in op_blocks(op):
            whole.update(r for r in inner.results if r in apart)
            _used_whole(inner, apart, chosen, inside, whole)


# ---- writing it out --------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Writer:
    """arrays: the parts of those that are taken apart, and along which dimensions. parts: all of these."""

    chosen: Chosen
    lets: list[anf.Let] = field(default_factory=list)
    arrays: dict[anf.Var, tuple[tuple[int, ...], dict[Place, anf.Var]]] = field(default_factory=dict)
    parts: set[anf.Var] = field(default_factory=set)
    renaming: Renaming = field(default_factory=lambda: Renaming({}))

    def let(self, let: anf.Let) -> None:
        """A let of the block, or of a comprehension in it."""
        short = self.chosen.get(let.vars)
        if short is not None:
            self.comprehension(let, short)
            return
        r = self.renaming
        op = rebuild(let.op, atom=r.atom, size=r.size, block=self.block, bind=r.bind)
        if isinstance(op, anf.Read) and op.array in self.arrays:
            dimensions, made = self.arrays[op.array]
            array = made[tuple([int(op.index[k].constant or 0) for k in dimensions])]
            if isinstance(array.type, anf.Scalar):
                r.env[let.vars[0]] = array
                return
            op = anf.Read(array, _without(op.index, dimensions))
        self.lets.append(with_op(let, tuple([r.bind(v) for v in let.vars]), op))

    def block(self, block: anf.Block) -> anf.Block:
        around, self.lets = self.lets, []
        for let in block.lets:
            self.let(let)
        new = with_lets(block, self.lets, [self.renaming.atom(a) for a in block.results])
        self.lets = around
        return new

    def comprehension(self, let: anf.Let, short: _Short) -> None:
        op = let.op
        assert isinstance(op, anf.Comp)
        around, self.lets = self.lets, []
        values: list[dict[Place, anf.Atom]] = [{} for _ in op.destinations]
        r = self.renaming
        for point in short.points():
            r.env.update(point)
            r.renew = True
            for inner in op.body.lets:
                self.let(inner)
            r.renew = False
            for value, d, dimensions, found in zip(
                op.body.results, op.destinations, short.dimensions, values, strict=True
            ):
                place = tuple([int(r.size(d.index[k]).constant or 0) for k in dimensions])
                found[place] = self.combined(let, d, found.get(place), r.atom(value))
        body, self.lets = self.lets, around
        axes = tuple([axis for axis in op.axes if axis not in short.axes])
        vars: list[anf.Var] = []
        results: list[anf.Atom] = []
        destinations: list[anf.Destination] = []
        for var, d, dimensions, found in zip(let.vars, op.destinations, short.dimensions, values, strict=True):
            assert isinstance(d, anf.Reduce) and isinstance(var.type, anf.Array | anf.Scalar)
            shape = _without(d.shape, dimensions)
            type = anf.Array(var.type.dtype, shape) if shape else anf.Scalar(var.type.dtype)
            made = {place: anf.fresh(var.name, type) if dimensions else var for place in found}
            if dimensions:
                self.arrays[var] = dimensions, made
                self.parts.update(made.values())
            vars += made.values()
            results += found.values()
            reduced = any(not mentions(d.index, axis.var) for axis in axes)
            destination = anf.Reduce(shape, _without(d.index, dimensions), d.monoid if reduced else "set")
            destinations += [destination] * len(found)
        comp = anf.Comp(axes, anf.Block(tuple(body), tuple(results)), tuple(destinations))
        self.lets.append(anf.Let(tuple(vars), comp, let.span))

    def combined(self, let: anf.Let, d: anf.Destination, first: anf.Atom | None, second: anf.Atom) -> anf.Atom:
        """A value at one more place along axes that are reduced."""
        assert isinstance(d, anf.Reduce)
        if first is None:
            return second
        var = anf.fresh("t", first.type)
        self.lets.append(anf.Let((var,), anf.Prim(COMBINE[d.monoid], (first, second)), let.span))
        return var


def _without(sizes: tuple[anf.Size, ...], dimensions: Sequence[int]) -> tuple[anf.Size, ...]:
    return tuple([size for k, size in enumerate(sizes) if k not in dimensions])
