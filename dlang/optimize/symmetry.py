"""Sums over both sides of pairs that are one: Σⱼ f(i, j) for all i, and Σᵢ g(i, j) for all j, where g(i, j) = ±f(j, i).

The forces between bodies are such: what the body i feels from j is the opposite of what j feels from i, and a
derivative gives both. One of the sums is then the other, so only one side is added up, in a register; the other would
go to memory at every pair.

f(j, i) is compared with g(i, j) by a number for each expression, up to its sign: a - b has that of b - a and the other
sign. An element of an array that a comprehension makes of its points is the expression that makes it. Rounding is the
same on both sides of zero, so the values are the same bits, but for the sign of a zero: -(a - b) is -0 where b - a is
0. What could tell zeros apart, as a divisor can, is therefore of another number.

The sum that is left is read at all points of its axes, so it has to have these elements also where nothing is added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dlang.ir import anf
from dlang.ir.comprehension_queries import has_its_elements, point_of, without_results
from dlang.ir.substitution import Renaming, substitute
from dlang.ir.traverse import map_blocks, map_bodies, with_lets, with_op
from dlang.ir.types import dtype_of, is_float
from dlang.ops.primitives import PRIMITIVES
from dlang.optimize.producers import Producer

MOST = 200  # lets that make the arrays which the sums of one comprehension read


def symmetry(program: anf.Program) -> anf.Program:
    """The program with each pair of such sums computed once."""
    return map_bodies(program, partial(_block, around=()))


def _block(block: anf.Block, around: tuple[anf.Axis, ...]) -> anf.Block:
    """around: the axes of loops and comprehensions around the block."""
    lets: list[anf.Let] = []
    made: _Made = {}
    for let in block.lets:
        within = around
        match let.op:
            case anf.Comp(axes):
                within = (*around, *axes)
            case anf.For(index, low, high):
                within = (*around, anf.Axis(index, (low,), (high,)))
            case _:
                pass
        op = map_blocks(let.op, partial(_block, around=within))
        let = with_op(let, let.vars, op)
        if not isinstance(op, anf.Comp):
            lets.append(let)
            continue
        lets += _of_one_side(let, op, made, around)
        if len(op.axes) > 1:
            producer = Producer(op)
            made |= {v: (producer, k) for k, v in enumerate(let.vars) if point_of(op, k) is not None}
    return with_lets(block, lets, block.results)


_Made = dict[anf.Var, tuple[Producer, int]]
"""Arrays of pairs that hold the value of each point of a comprehension, and where."""


@dataclass(frozen=True, slots=True)
class _Twin:
    """The result at `position` is the one at `other`, negated if so, with the axes of a pair exchanged."""

    position: int
    other: int
    negated: bool


def _of_one_side(let: anf.Let, op: anf.Comp, made: _Made, around: tuple[anf.Axis, ...]) -> list[anf.Let]:
    """A comprehension without what other results of it say, and what makes that of them."""
    for k, p in enumerate(op.axes):
        for q in op.axes[k + 1 :]:
            if _is_pair(op, p, q):
                # of as many, those that leave the sums of the outer axis: they stay in a register
                there = {k for k, d in enumerate(op.destinations) if has_its_elements(op.axes, d, around)}
                sides = [_twins(op, q.var, p.var, made), _twins(op, p.var, q.var, made)]
                twins = max([[t for t in side if {t.position, t.other} <= there] for side in sides], key=len)
                if twins:
                    return _without(let, op, p.var, q.var, twins)
    return [let]


def _is_pair(op: anf.Comp, p: anf.Axis, q: anf.Axis) -> bool:
    """Tells whether two axes have the same range, which nothing else depends on."""
    if (p.lows, p.highs) != (q.lows, q.highs) or len(op.destinations) < 2:
        return False
    return not any(s.mentions((p.var, q.var)) for axis in op.axes for s in (*axis.lows, *axis.highs))


def _twins(op: anf.Comp, gone: anf.Var, stays: anf.Var, made: _Made) -> list[_Twin]:
    """Sums for each point of the axis `gone` that are sums for each point of the axis `stays`."""
    inner = {axis.var for axis in op.axes}
    sums, others = _sums(op, gone, stays), {k: b for k, b in _sums(op, stays, gone).items() if b.into is None}
    if not sums or not others:
        return []
    table = _Table(made)
    plain = _Numbers(op.body.lets, {}, table)
    exchanged = _Numbers(op.body.lets, {gone: anf.poly(stays), stays: anf.poly(gone)}, table)
    out: list[_Twin] = []
    for position, a in sums.items():
        for other, b in others.items():
            if inner & _named(a.index) - {gone} != inner & _named(b.index) - {stays}:
                continue
            first, second = exchanged.of(op.body.results[position]), plain.of(op.body.results[other])
            if first is not None and second is not None and first.number == second.number:
                out.append(_Twin(position, other, first.negative != second.negative))
                break
    return out


def _sums(op: anf.Comp, axis: anf.Var, reduced: anf.Var) -> dict[int, anf.Reduce]:
    """The results that are sums of floats for each point of one axis over another, by position."""
    sums: dict[int, anf.Reduce] = {}
    computed: set[anf.Var] | None = None
    for k, (d, value) in enumerate(zip(op.destinations, op.body.results, strict=True)):
        if isinstance(d, anf.Reduce) and d.monoid == "sum" and isinstance(value.type, anf.Scalar):
            named = _named(d.index)
            if is_float(value.type) and axis in named and reduced not in named:
                computed = {v for let in op.body.lets for v in let.vars} if computed is None else computed
                if named.isdisjoint(computed):
                    sums[k] = d
    return sums


def _named(index: Sequence[anf.Size]) -> set[anf.Var]:
    return {v for entry in index for v in entry.atoms()}


def _without(let: anf.Let, op: anf.Comp, p: anf.Var, q: anf.Var, twins: Sequence[_Twin]) -> list[anf.Let]:
    gone = {t.position for t in twins}
    lets = without_results(let, gone)
    for t in twins:
        a, b = op.destinations[t.position], op.destinations[t.other]
        assert isinstance(a, anf.Reduce) and isinstance(b, anf.Reduce)
        named = _named(a.index)
        code = Renaming({}, renew=True)
        axes = tuple([code.axis(axis) for axis in op.axes if axis.var in named])
        at = code.env
        there = at | ({p: at[q]} if q in at else {q: at[p]})
        value: anf.Atom = anf.fresh("g", anf.Scalar(dtype_of(op.body.results[t.position])))
        assert isinstance(value, anf.Var)
        body_lets = [
            anf.Let((value,), anf.Read(let.vars[t.other], tuple([substitute(i, there) for i in b.index])), let.span)
        ]
        if t.negated:
            turned = anf.fresh("g", value.type)
            body_lets.append(anf.Let((turned,), anf.Prim("neg", (value,)), let.span))
            value = turned
        destination = replace(a, index=tuple(map(code.size, a.index)))
        one_side = anf.Comp(axes, anf.Block(tuple(body_lets), (value,)), (destination,))
        lets.append(anf.Let((let.vars[t.position],), one_side, let.span))
    return lets


# ---- numbers of expressions ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Value:
    """The expression of a number, negated if so. certain: also where it is zero."""

    number: int
    negative: bool = False
    certain: bool = True

    @property
    def plain(self) -> bool:
        return self.certain and not self.negative


@dataclass(slots=True)
class _Table:
    """The numbers given so far, and the values of elements of arrays that were made.

    steps: how many lets of those are still looked at, so that long chains of arrays are not gone through for each sum
    at their end.
    """

    made: _Made
    numbers: dict[object, int] = field(default_factory=dict)
    elements: dict[object, _Value | None] = field(default_factory=dict)
    steps: int = MOST

    def element(self, array: anf.Var, index: tuple[anf.Size, ...]) -> _Value | None:
        """The value of an element, by what makes it."""
        key = array, index
        if key not in self.elements:
            producer, k = self.made[array]
            code = producer.code(k) or []
            self.steps -= len(code)
            points = zip(point_of(producer.op, k) or (), index, strict=True)
            numbers = _Numbers(code, {axis: entry for axis, entry in points if axis is not None}, self)
            self.elements[key] = numbers.of(producer.op.body.results[k])
        return self.elements[key]


@dataclass(slots=True)
class _Numbers:
    """Numbers of the scalars that the lets of a point compute, with axes replaced."""

    lets: Sequence[anf.Let]
    replaced: dict[anf.Var, anf.Size]
    table: _Table
    known: dict[anf.Var, _Value | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for let in self.lets:
            value = self.value(let)
            for var in let.vars:
                self.known[var] = value

    def of(self, atom: anf.Atom) -> _Value | None:
        if isinstance(atom, anf.Var):
            if atom in self.known:
                return self.known[atom]
            new = self.replaced.get(atom)
            return self.numbered(("var", atom if new is None else new.atom))
        return self.numbered(("literal", repr(atom.value), atom.dtype))

    def numbered(self, key: object, negative: bool = False, certain: bool = True) -> _Value:
        numbers = self.table.numbers
        return _Value(numbers.setdefault(key, len(numbers)), negative, certain)

    def size(self, size: anf.Size) -> anf.Size | None:
        """A size with axes replaced, unless it mentions what is computed."""
        if any(v in self.known for v in size.atoms()):
            return None
        return substitute(size, self.replaced)

    def value(self, let: anf.Let) -> _Value | None:
        match let.op:
            case anf.Prim(name, args):
                values = [self.of(a) for a in args]
                known = [v for v in values if v is not None]
                return self.primitive(name, args, known, let) if len(known) == len(values) else None
            case anf.Cast(dtype, arg):
                x = self.of(arg)
                if x is None:
                    return None
                if dtype in anf.FLOATS and dtype_of(arg) in anf.FLOATS:
                    return self.numbered(("cast", dtype, x.number), x.negative, x.certain)
                return self.numbered(("cast", dtype, x.number)) if x.plain else None
            case anf.IndexExpr(size):
                new = self.size(size)
                return None if new is None else self.numbered(("size", new))
            case anf.Read(array, index):
                at = tuple([new for i in index if (new := self.size(i)) is not None])
                if len(at) < len(index):
                    return None
                if array in self.table.made and self.table.steps > 0 and all(i.atom is not None for i in at):
                    return self.table.element(array, at)
                return self.numbered(("read", array, at))
            case _:
                return None

    def primitive(self, name: str, args: Sequence[anf.Atom], values: list[_Value], let: anf.Let) -> _Value | None:
        if is_float(let.vars[0].type):
            match name, values:
                case "neg", [x]:
                    return replace(x, negative=not x.negative)
                case "abs", [x]:
                    return self.numbered(("abs", x.number))
                case "add" | "sub", [x, y]:
                    other = replace(y, negative=y.negative != (name == "sub"))
                    x, y = sorted((x, other), key=lambda v: v.number)
                    key = "add", x.number, y.number, x.negative != y.negative
                    return self.numbered(key, x.negative, x.certain and y.certain and not x.negative)
                case "mul", [x, y]:
                    key_of = "mul", *sorted((x.number, y.number))
                    square = x.number == y.number and x.negative == y.negative
                    return self.numbered(key_of, x.negative != y.negative, square or (x.certain and y.certain))
                case "zero_safe_mul", [x, y]:
                    certain = x.certain and y.certain and not y.negative
                    return self.numbered(("zero_safe_mul", x.number, y.number), x.negative != y.negative, certain)
                case "zero_safe_mul_both", [x, y]:
                    key_of = "zero_safe_mul_both", *sorted((x.number, y.number))
                    return self.numbered(key_of, x.negative != y.negative, x.certain and y.certain)
                case "div", [x, y] if y.certain:
                    return self.numbered(("div", x.number, y.number), x.negative != y.negative, x.certain)
                case _:
                    pass
        if not all(v.plain for v in values):
            return None
        numbers = [v.number for v in values]
        dtypes = tuple([dtype_of(a) for a in args])
        return self.numbered((name, dtypes, *(sorted(numbers) if PRIMITIVES[name].commutative else numbers)))
