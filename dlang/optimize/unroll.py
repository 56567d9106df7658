"""Comprehensions over a few points, known now, become scalar code where they stand in a larger one, or in a loop.

An array of such a comprehension whose every use names an element is its elements, and takes no memory: a vector of
three numbers costs what a struct of three does. What is left is scalar code, of which the loop around does several
points at once. This comes after `rows`, which brings together what belongs to one point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from dlang.ir.anf import (
    FLOATS,
    HALF,
    Array,
    Atom,
    Axis,
    Block,
    Cast,
    Comp,
    Destination,
    Empty,
    For,
    Keep,
    Let,
    Lit,
    Prim,
    Program,
    Read,
    Scalar,
    Size,
    SizeOf,
    Type,
    Update,
    Var,
    While,
    fresh,
    poly,
)
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, map_bodies, mentioned, rebuild, with_lets, with_op
from dlang.ir.types import I64, dtype_of
from dlang.ops.monoids import COMBINE, STAYS
from dlang.optimize.constants import convert, fold

EXTENT = 4  # of an axis: what is longer fills vectors of its own
POINTS = 16
CODE = 256  # operations

Index = tuple[int, ...]
Best = dict[Index, tuple[int, Atom]]  # the last position that was looked at, and the extreme value so far


def unroll(program: Program) -> Program:
    """The program with small comprehensions inside of others written out."""
    return map_bodies(program, _block)


def _block(block: Block) -> Block:
    lets: list[Let] = []
    for let in block.lets:
        op = map_blocks(let.op, _block)
        match op:
            case Comp(axes=(_, *_)):
                lets += _comprehension(with_op(let, let.vars, op))
                continue
            case For() | While() if (writer := _written(op.body, kept=op.body.results)) is not None:
                op = replace(op, body=writer.block(op.body))  # what a loop carries stays an array, made where it lies
            case _:
                pass
        lets.append(with_op(let, let.vars, op))
    return with_lets(block, lets, block.results)


def _comprehension(let: Let) -> list[Let]:
    """A comprehension with the small ones inside of it written out, and what puts its results together.

    A small array that is reduced as a whole is reduced element by element, and so never made at a point.
    """
    op = let.op
    assert isinstance(op, Comp)
    writer = _written(op.body)
    if writer is None:
        return [let]
    vars: list[Var] = []
    results: list[Atom] = []
    destinations: list[Destination] = []
    after: list[Let] = []
    for var, value, d in zip(let.vars, op.body.results, op.destinations, strict=True):
        elements = writer.elements.get(value) if isinstance(value, Var) else None
        if elements is None or not isinstance(d, Keep) or d.index or d.into is not None or d.monoid not in COMBINE:
            vars.append(var)
            results.append(writer.result(value))
            destinations.append(d)
            continue
        assert isinstance(var.type, Array)
        parts = {index: fresh(var.name, Scalar(var.type.dtype)) for index in elements}
        vars += parts.values()
        results += elements.values()
        destinations += [Keep((), (), d.monoid) for _ in parts]
        after += _together(var, parts)
    new = Comp(op.axes, Block(tuple(writer.lets), tuple(results)), tuple(destinations))
    return [Let(tuple(vars), new, let.span), *after]


def _together(array: Var, elements: Mapping[Index, Atom]) -> Iterator[Let]:
    """The lets that make an array of its elements."""
    assert isinstance(array.type, Array)
    made = fresh(array.name, array.type)
    yield Let((made,), Empty(array.type.dtype, array.type.shape))
    for k, (index, value) in enumerate(elements.items()):
        new = array if k == len(elements) - 1 else fresh(array.name, array.type)
        yield Let((new,), Update(made, tuple([poly(i) for i in index]), value))
        made = new


# ---- what can be written out -----------------------------------------------------------------------------------------
def _box(op: Comp) -> list[range] | None:
    """The values of each axis, where they are few and known."""
    box = []
    for axis in op.axes:
        low, high = axis.lows[0].constant, axis.highs[0].constant
        if len(axis.lows) != 1 or len(axis.highs) != 1 or low is None or high is None:
            return None
        box.append(range(int(low), int(high)))
        if not 0 < len(box[-1]) <= EXTENT:
            return None
    points = 1
    for values in box:
        points *= len(values)
    return box if points <= POINTS and points * len(op.body.lets) <= CODE else None


def is_narrow(axis: Axis) -> bool:
    """Whether an axis has few values, which are known."""
    return bool(_box(Comp((axis,), Block((), ()), ())))


def _points(op: Comp) -> Iterator[dict[Var, Lit]]:
    """The axes at each point, in order."""
    for values in product(*(_box(op) or ())):
        yield {axis.var: Lit(value, "i64") for axis, value in zip(op.axes, values, strict=True)}


def _index(index: Sequence[Size], point: dict[Var, Lit]) -> Index | None:
    """An index at a point, if it is known there."""
    found = [entry.substitute(lambda v: poly(point[v]) if v in point else None).constant for entry in index]
    return tuple([int(i) for i in found if i is not None]) if None not in found else None


def _is_small(op: Comp) -> bool:
    """Whether a comprehension has few points and plain code, and makes each element of its results at known ones."""
    if _box(op) is None or not all(isinstance(let.op, Prim | Cast | Read | SizeOf) for let in op.body.lets):
        return False
    for value, d in zip(op.body.results, op.destinations, strict=True):
        if not isinstance(d, Keep) or d.monoid not in (*COMBINE, *STAYS, "set") or dtype_of(value) in HALF:
            return False
        if d.monoid in STAYS and d.into is not None:
            return False
        shape = [s.constant for s in d.shape]
        reached = {_index(d.index, point) for point in _points(op)}
        if None in shape or None in reached or isinstance(value.type, Array):
            return False
        count = 1
        for s in shape:
            count *= int(s or 0)
        if count > POINTS or (d.into is None and len(reached) != count):
            return False
    return True


def _chosen(body: Block, kept: Sequence[Atom]) -> list[Let]:
    """The small comprehensions of a body of which every array is used by its elements alone, and is not to be kept."""
    chosen = {id(let): let for let in body.lets if isinstance(let.op, Comp) and _is_small(let.op)}
    while chosen:
        arrays = {v for let in chosen.values() for v in let.vars if isinstance(v.type, Array)}
        wrong = _otherwise(body, arrays, chosen) | (arrays & set(kept))
        bad = [key for key, let in chosen.items() if _refused(let, arrays, wrong)]
        if not bad:
            break
        for key in bad:
            del chosen[key]
    return list(chosen.values())


def _refused(let: Let, arrays: set[Var], wrong: set[Var]) -> bool:
    assert isinstance(let.op, Comp)
    intos = {d.into for d in let.op.destinations if d.into is not None}
    return not wrong.isdisjoint(let.vars) or not intos <= arrays


def _otherwise(body: Block, arrays: set[Var], chosen: dict[int, Let]) -> set[Var]:
    """Which arrays are used in another way than by an element that is known."""
    wrong: set[Var] = set()
    for let in body.lets:
        op = let.op
        if id(let) in chosen and isinstance(op, Comp):
            for inner in op.body.lets:
                if isinstance(inner.op, Read) and inner.op.array in arrays:
                    if any(_index(inner.op.index, point) is None for point in _points(op)):
                        wrong.add(inner.op.array)
        elif isinstance(op, Read) and op.array in arrays:
            if _index(op.index, {}) is None:
                wrong.add(op.array)
        else:
            wrong |= arrays & set(mentioned(op))
    return wrong


def _is_zero(atom: Atom) -> bool:
    return isinstance(atom, Lit) and not isinstance(atom.value, bool | str) and atom.value == 0


# ---- writing it out --------------------------------------------------------------------------------------------------
def _written(body: Block, kept: Sequence[Atom] = ()) -> _Writer | None:
    """A body with its small comprehensions written out, but for those of arrays that are to be kept; None without."""
    chosen = _chosen(body, kept)
    if not chosen:
        return None
    writer = _Writer()
    small = {id(let) for let in chosen}
    for let in body.lets:
        if id(let) in small:
            writer.comprehension(let)
        else:
            writer.let(let)
    return writer


@dataclass(slots=True)
class _Writer:
    """elements: those of the arrays that are gone."""

    lets: list[Let] = field(default_factory=list)
    elements: dict[Var, dict[Index, Atom]] = field(default_factory=dict)
    renaming: Renaming = field(default_factory=lambda: Renaming({}))

    def let(self, let: Let, point: dict[Var, Lit] | None = None) -> None:
        """A let, at a point of the comprehension around it, or outside of one."""
        op, r = let.op, self.renaming
        (var, *_) = let.vars or (None,)
        if isinstance(op, Read) and op.array in self.elements and var is not None:
            index = _index(op.index, point or {})
            assert index is not None
            r.env[var] = self.elements[op.array][index]
            return
        new = rebuild(op, atom=r.atom, size=r.size, block=r.block, bind=r.bind)
        known: Atom | None = None
        match new:
            case Prim("select", (Lit(value), a, b)):
                known = a if value else b
            case Prim(name, args) if all(isinstance(a, Lit) for a in args):
                known = fold(name, tuple([a for a in args if isinstance(a, Lit)]))
            case Cast(dtype, Lit() as arg):
                known = convert(arg, dtype)
            case SizeOf(size) if size.constant is not None:
                known = Lit(int(size.constant), "i64")
            case _:
                pass
        if known is not None and var is not None:
            r.env[var] = known
            return
        vars = tuple([fresh(v.name, r.type(v.type)) for v in let.vars]) if point is not None else let.vars
        if point is not None:
            r.env.update(zip(let.vars, vars, strict=True))
        else:
            vars = tuple([r.bind(v) for v in vars])
        self.lets.append(Let(vars, new, let.span))

    def comprehension(self, let: Let) -> None:
        op = let.op
        assert isinstance(op, Comp)
        made: list[dict[Index, Atom]] = []
        extremes: list[Best] = [{} for d in op.destinations]
        for d in op.destinations:
            made.append(dict(self.elements[d.into]) if d.into is not None else {})
        for point in _points(op):
            self.renaming.env.update(point)
            for inner in op.body.lets:
                self.let(inner, point)
            for value, d, found, best in zip(op.body.results, op.destinations, made, extremes, strict=True):
                index = _index(d.index, point)
                assert index is not None and isinstance(d, Keep)
                atom = self.renaming.atom(value)
                if d.monoid in STAYS:
                    self.extreme(let, d.monoid, index, atom, best, found)
                    continue
                replaced = d.monoid == "set" or index not in found
                found[index] = atom if replaced else self.combined(d.monoid, found[index], atom, let)
        for var, found in zip(let.vars, made, strict=True):
            if isinstance(var.type, Array):
                self.elements[var] = found
            else:
                self.renaming.env[var] = found[()]

    def combined(self, monoid: str, first: Atom, second: Atom, let: Let) -> Atom:
        if monoid == "sum" and (_is_zero(first) or _is_zero(second)):
            return second if _is_zero(first) else first
        return self.prim(let, first.type, COMBINE[monoid], first, second)

    def extreme(self, let: Let, monoid: str, index: Index, atom: Atom, best: Best, found: dict[Index, Atom]) -> None:
        """Takes one more value: the first NaN is the extreme, else the first of the greatest or the least values."""
        if index not in best:
            best[index], found[index] = (0, atom), Lit(0, "i64")
            return
        (last, old), truth = best[index], Scalar("bool")
        better = self.prim(let, truth, "not", self.prim(let, truth, STAYS[monoid], atom, old))
        if dtype_of(atom) in FLOATS:
            better = self.prim(let, truth, "and", better, self.prim(let, truth, "eq", old, old))
        best[index] = last + 1, self.prim(let, atom.type, "select", better, atom, old)
        found[index] = self.prim(let, I64, "select", better, Lit(last + 1, "i64"), found[index])

    def prim(self, let: Let, type: Type, name: str, *args: Atom) -> Var:
        var = fresh("t", type)
        self.lets.append(Let((var,), Prim(name, args), let.span))
        return var

    def result(self, atom: Atom) -> Atom:
        """A result: an array that is gone is put together."""
        if not isinstance(atom, Var) or atom not in self.elements:
            return self.renaming.atom(atom)
        assert isinstance(atom.type, Array)
        array = fresh(atom.name, atom.type)
        self.lets += _together(array, self.elements[atom])
        return array

    def block(self, body: Block) -> Block:
        """The block that has been written, with the results of a body."""
        results = tuple([self.result(r) for r in body.results])
        return Block(tuple(self.lets), results)
