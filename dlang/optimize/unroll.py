"""Comprehensions over a few points, known now, become scalar code where they stand in a larger one, or in a loop.

An array of such a comprehension whose every use names an element is its elements, and takes no memory: a vector of
three numbers costs what a struct of three does. What is left is scalar code, of which the loop around does several
points at once. This comes after `fuse_outer_axis.py`, which brings together what belongs to one point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import prod

from dlang.ir import anf
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, map_bodies, mentioned, with_lets, with_op
from dlang.ir.types import I64, dtype_of
from dlang.ops.monoids import COMBINE, MONOIDS, STAYS
from dlang.optimize.constants import evaluated

EXTENT = 4  # of an axis: what is longer fills vectors of its own
POINTS = 16
CODE = 256  # operations

Index = tuple[int, ...]
Best = dict[Index, tuple[int, anf.Atom]]  # the last position that was looked at, and the extreme value so far


def unroll(program: anf.Program) -> anf.Program:
    """The program with small comprehensions inside of others written out."""
    return map_bodies(program, unrolled)


def unrolled(block: anf.Block, early: bool = False) -> anf.Block:
    """The block with small comprehensions inside of others written out.

    early: but for what has a better form for derivatives and products: extremes, whose derivative is one element's, and
    sums of more than a few products.
    """
    lets: list[anf.Let] = []
    for let in block.lets:
        op = map_blocks(let.op, partial(unrolled, early=early))
        match op:
            case anf.Comp(axes=(_, *_)):
                lets += _comprehension(with_op(let, let.vars, op), early)
                continue
            case anf.For() | anf.While() if (writer := _written(op.body, early, op.body.results)) is not None:
                op = replace(op, body=writer.block(op.body))  # what a loop carries stays an array, made where it lies
            case _:
                pass
        lets.append(with_op(let, let.vars, op))
    return with_lets(block, lets, block.results)


def _comprehension(let: anf.Let, early: bool) -> list[anf.Let]:
    """A comprehension with the small ones inside of it written out, and what puts its results together.

    A small array that is reduced as a whole is reduced element by element, and so never made at a point.
    """
    op = let.op
    assert isinstance(op, anf.Comp)
    writer = _written(op.body, early)
    if writer is None:
        return [let]
    vars: list[anf.Var] = []
    results: list[anf.Atom] = []
    destinations: list[anf.Destination] = []
    after: list[anf.Let] = []
    for var, value, d in zip(let.vars, op.body.results, op.destinations, strict=True):
        elements = writer.elements.get(value) if isinstance(value, anf.Var) else None
        if (
            elements is None
            or not isinstance(d, anf.Reduce)
            or d.index
            or d.into is not None
            or d.monoid not in COMBINE
        ):
            vars.append(var)
            results.append(writer.result(value))
            destinations.append(d)
            continue
        assert isinstance(var.type, anf.Array)
        parts = {index: anf.fresh(var.name, anf.Scalar(var.type.dtype)) for index in elements}
        vars += parts.values()
        results += elements.values()
        destinations += [anf.Reduce((), (), d.monoid) for _ in parts]
        after += _together(var, parts)
    new = anf.Comp(op.axes, anf.Block(tuple(writer.lets), tuple(results)), tuple(destinations))
    return [anf.Let(tuple(vars), new, let.span), *after]


def _together(array: anf.Var, elements: Mapping[Index, anf.Atom]) -> Iterator[anf.Let]:
    """The lets that make an array of its elements."""
    assert isinstance(array.type, anf.Array)
    made = anf.fresh(array.name, array.type)
    yield anf.Let((made,), anf.Empty(array.type.dtype, array.type.shape))
    for k, (index, value) in enumerate(elements.items()):
        new = array if k == len(elements) - 1 else anf.fresh(array.name, array.type)
        yield anf.Let((new,), anf.Update(made, tuple([anf.poly(i) for i in index]), value))
        made = new


# ---- what can be written out -----------------------------------------------------------------------------------------
def _box(op: anf.Comp) -> list[range] | None:
    """The values of each axis, where they are few and known."""
    box = []
    for axis in op.axes:
        low, high = axis.lows[0].constant, axis.highs[0].constant
        if len(axis.lows) != 1 or len(axis.highs) != 1 or low is None or high is None:
            return None
        if not 0 < high - low <= EXTENT:
            return None
        box.append(range(int(low), int(high)))
    points = 1
    for values in box:
        points *= len(values)
    return box if points <= POINTS and points * len(op.body.lets) <= CODE else None


def is_narrow(axis: anf.Axis) -> bool:
    """Tells whether an axis has few values, which are known."""
    return bool(_box(anf.Comp((axis,), anf.Block((), ()), ())))


def _points(op: anf.Comp) -> Iterator[dict[anf.Var, anf.Lit]]:
    """The axes at each point, in order."""
    for values in product(*(_box(op) or ())):
        yield {axis.var: anf.Lit(value, "i64") for axis, value in zip(op.axes, values, strict=True)}


def _index(index: Sequence[anf.Size], point: dict[anf.Var, anf.Lit]) -> Index | None:
    """An index at a point, if it is known there."""
    found = [entry.substitute(lambda v: anf.poly(point[v]) if v in point else None).constant for entry in index]
    return tuple([int(i) for i in found if i is not None]) if None not in found else None


def _is_small(op: anf.Comp, early: bool) -> bool:
    """Tells whether a comprehension has few points, plain code and result elements at known indices."""
    box = _box(op)
    if box is None or not all(let.op.IS.point for let in op.body.lets):
        return False
    if early and (any(map(is_choice, op.destinations)) or (prod(map(len, box)) > EXTENT and adds_products(op))):
        return False
    for value, d in zip(op.body.results, op.destinations, strict=True):
        if not isinstance(d, anf.Reduce) or d.monoid not in (*COMBINE, *STAYS, "set") or dtype_of(value) in anf.HALF:
            return False
        if d.monoid in STAYS and d.into is not None:
            return False
        shape = [s.constant for s in d.shape]
        reached = {_index(d.index, point) for point in _points(op)}
        if None in shape or None in reached or isinstance(value.type, anf.Array):
            return False
        count = 1
        for s in shape:
            count *= int(s or 0)
        if count > POINTS or (d.into is None and len(reached) != count):
            return False
    return True


def is_choice(d: anf.Destination) -> bool:
    """Tells whether a result is one of the values of the points."""
    return isinstance(d, anf.Reduce) and MONOIDS[d.monoid].derivative == "choice"


def adds_products(op: anf.Comp, axes: Sequence[anf.Axis] | None = None) -> bool:
    """Tells whether a result is a sum of products over one of the axes: those given, or any."""
    products = {let.vars[0] for let in op.body.lets if isinstance(let.op, anf.Prim) and let.op.name == "mul"}
    return any(
        value in products and any(not mentions(d.index, axis.var) for axis in (op.axes if axes is None else axes))
        for value, d in zip(op.body.results, op.destinations, strict=True)
    )


def mentions(index: Sequence[anf.Size], var: anf.Var) -> bool:
    """Tells whether an index has an entry that mentions a variable."""
    return any(entry.mentions((var,)) for entry in index)


def _chosen(body: anf.Block, early: bool, kept: Sequence[anf.Atom]) -> list[anf.Let]:
    """The small comprehensions of a body of which every array is used by its elements alone, and is not to be kept."""
    chosen = {let.vars: let for let in body.lets if isinstance(let.op, anf.Comp) and _is_small(let.op, early)}
    while chosen:
        arrays = {v for let in chosen.values() for v in let.vars if isinstance(v.type, anf.Array)}
        wrong = _otherwise(body, arrays, chosen) | (arrays & set(kept))
        bad = [key for key, let in chosen.items() if _refused(let, arrays, wrong)]
        if not bad:
            break
        for key in bad:
            del chosen[key]
    return list(chosen.values())


def _refused(let: anf.Let, arrays: set[anf.Var], wrong: set[anf.Var]) -> bool:
    assert isinstance(let.op, anf.Comp)
    intos = {d.into for d in let.op.destinations if d.into is not None}
    return not wrong.isdisjoint(let.vars) or not intos <= arrays


def _otherwise(body: anf.Block, arrays: set[anf.Var], chosen: dict[tuple[anf.Var, ...], anf.Let]) -> set[anf.Var]:
    """Finds arrays that are used in another way than by an element that is known."""
    wrong: set[anf.Var] = set()
    for let in body.lets:
        op = let.op
        if let.vars in chosen and isinstance(op, anf.Comp):
            for inner in op.body.lets:
                if isinstance(inner.op, anf.Read) and inner.op.array in arrays:
                    if any(_index(inner.op.index, point) is None for point in _points(op)):
                        wrong.add(inner.op.array)
        elif isinstance(op, anf.Read) and op.array in arrays:
            if _index(op.index, {}) is None:
                wrong.add(op.array)
        else:
            wrong |= arrays & set(mentioned(op))
    return wrong


def _is_zero(atom: anf.Atom) -> bool:
    return isinstance(atom, anf.Lit) and not isinstance(atom.value, bool | str) and atom.value == 0


# ---- writing it out --------------------------------------------------------------------------------------------------
def _written(body: anf.Block, early: bool, kept: Sequence[anf.Atom] = ()) -> _Writer | None:
    """A body with its small comprehensions written out, but for those of arrays that are to be kept; None without."""
    chosen = _chosen(body, early, kept)
    if not chosen:
        return None
    writer = _Writer()
    small = {let.vars for let in chosen}
    for let in body.lets:
        if let.vars in small:
            writer.comprehension(let)
        else:
            writer.let(let)
    return writer


@dataclass(slots=True)
class _Writer:
    """elements: those of the arrays that are gone."""

    lets: list[anf.Let] = field(default_factory=list)
    elements: dict[anf.Var, dict[Index, anf.Atom]] = field(default_factory=dict)
    renaming: Renaming = field(default_factory=lambda: Renaming({}))

    def let(self, let: anf.Let, point: dict[anf.Var, anf.Lit] | None = None) -> None:
        """A let, at a point of the comprehension around it, or outside of one."""
        op, r = let.op, self.renaming
        (var, *_) = let.vars or (None,)
        if isinstance(op, anf.Read) and op.array in self.elements and var is not None:
            index = _index(op.index, point or {})
            assert index is not None
            r.env[var] = self.elements[op.array][index]
            return
        new = r.op(op)
        known = evaluated(new)
        if known is not None and var is not None:
            r.env[var] = known
            return
        vars = tuple([anf.fresh(v.name, r.type(v.type)) for v in let.vars]) if point is not None else let.vars
        if point is not None:
            r.env.update(zip(let.vars, vars, strict=True))
        else:
            vars = tuple([r.bind(v) for v in vars])
        self.lets.append(anf.Let(vars, new, let.span))

    def comprehension(self, let: anf.Let) -> None:
        op = let.op
        assert isinstance(op, anf.Comp)
        made: list[dict[Index, anf.Atom]] = []
        extremes: list[Best] = [{} for d in op.destinations]
        for d in op.destinations:
            made.append(dict(self.elements[d.into]) if d.into is not None else {})
        for point in _points(op):
            self.renaming.env.update(point)
            for inner in op.body.lets:
                self.let(inner, point)
            for value, d, found, best in zip(op.body.results, op.destinations, made, extremes, strict=True):
                index = _index(d.index, point)
                assert index is not None and isinstance(d, anf.Reduce)
                atom = self.renaming.atom(value)
                if d.monoid in STAYS:
                    self.extreme(let, d.monoid, index, atom, best, found)
                    continue
                replaced = d.monoid == "set" or index not in found
                found[index] = atom if replaced else self.combined(d.monoid, found[index], atom, let)
        for var, found in zip(let.vars, made, strict=True):
            if isinstance(var.type, anf.Array):
                self.elements[var] = found
            else:
                self.renaming.env[var] = found[()]

    def combined(self, monoid: str, first: anf.Atom, second: anf.Atom, let: anf.Let) -> anf.Atom:
        if monoid == "sum" and (_is_zero(first) or _is_zero(second)):
            return second if _is_zero(first) else first
        return self.prim(let, first.type, COMBINE[monoid], first, second)

    def extreme(
        self, let: anf.Let, monoid: str, index: Index, atom: anf.Atom, best: Best, found: dict[Index, anf.Atom]
    ) -> None:
        """Takes one more value: the first NaN is the extreme, else the first of the greatest or the least values."""
        if index not in best:
            best[index], found[index] = (0, atom), anf.Lit(0, "i64")
            return
        (last, old), truth = best[index], anf.Scalar("bool")
        better = self.prim(let, truth, "not", self.prim(let, truth, STAYS[monoid], atom, old))
        if dtype_of(atom) in anf.FLOATS:
            better = self.prim(let, truth, "and", better, self.prim(let, truth, "eq", old, old))
        best[index] = last + 1, self.prim(let, atom.type, "select", better, atom, old)
        found[index] = self.prim(let, I64, "select", better, anf.Lit(last + 1, "i64"), found[index])

    def prim(self, let: anf.Let, type: anf.Type, name: str, *args: anf.Atom) -> anf.Var:
        var = anf.fresh("t", type)
        self.lets.append(anf.Let((var,), anf.Prim(name, args), let.span))
        return var

    def result(self, atom: anf.Atom) -> anf.Atom:
        """A result: an array that is gone is put together."""
        if not isinstance(atom, anf.Var) or atom not in self.elements:
            return self.renaming.atom(atom)
        assert isinstance(atom.type, anf.Array)
        array = anf.fresh(atom.name, atom.type)
        self.lets += _together(array, self.elements[atom])
        return array

    def block(self, body: anf.Block) -> anf.Block:
        """The block that has been written, with the results of a body."""
        results = tuple([self.result(r) for r in body.results])
        return anf.Block(tuple(self.lets), results)
