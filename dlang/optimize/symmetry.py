"""Sums over both sides of pairs that are one: Σⱼ f(i, j) for all i, and Σᵢ g(i, j) for all j, where g(i, j) = ±f(j, i).

The forces between bodies are such: what the body i feels from j is the opposite of what j feels from i, and a
derivative gives both. One of the sums is then the other, so only one side is added up, in a register; the other would
go to memory at every pair.

f(j, i) is compared with g(i, j) by a number for each expression, up to its sign: a - b has that of b - a and the other
sign. Rounding is the same on both sides of zero, so the values are the same bits, but for the sign of a zero: -(a - b)
is -0 where b - a is 0. What could tell zeros apart, as a divisor can, is therefore of another number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.ir.anf import (
    FLOATS,
    Atom,
    Axis,
    Block,
    Cast,
    Comp,
    Keep,
    Let,
    Prim,
    Program,
    Read,
    Scalar,
    Size,
    SizeOf,
    Var,
    fresh,
    poly,
)  # fmt: skip
from dlang.ir.comps import without_results
from dlang.ir.substitution import substitute
from dlang.ir.traverse import map_blocks, map_bodies, with_lets, with_op
from dlang.ir.types import dtype_of, is_float
from dlang.ops.primitives import PRIMITIVES


def symmetry(program: Program) -> Program:
    """The program with each pair of such sums computed once."""
    return map_bodies(program, _block)


def _block(block: Block) -> Block:
    lets: list[Let] = []
    for let in block.lets:
        op = map_blocks(let.op, _block)
        let = with_op(let, let.vars, op)
        lets += _of_one_side(let, op) if isinstance(op, Comp) else [let]
    return with_lets(block, lets, block.results)


@dataclass(frozen=True, slots=True)
class _Twin:
    """The result at `position` is the one at `other`, negated if so, with the axes of a pair exchanged."""

    position: int
    other: int
    negated: bool


def _of_one_side(let: Let, op: Comp) -> list[Let]:
    """A comprehension without what other results of it say, and what makes that of them."""
    for k, p in enumerate(op.axes):
        for q in op.axes[k + 1 :]:
            if _is_pair(op, p, q):
                choices = [_twins(op, p.var, q.var), _twins(op, q.var, p.var)]
                twins = max(choices, key=lambda found: _benefit(op, found))
                if twins:
                    return _without(let, op, p.var, q.var, twins)
    return [let]


def _is_pair(op: Comp, p: Axis, q: Axis) -> bool:
    """Whether two axes have the same range, which nothing else depends on."""
    if (p.lows, p.highs) != (q.lows, q.highs) or len(op.destinations) < 2:
        return False
    return not any(s.mentions((p.var, q.var)) for axis in op.axes for s in (*axis.lows, *axis.highs))


def _benefit(op: Comp, twins: Sequence[_Twin]) -> tuple[int, int]:
    """How many sums are left out; then how many of those go into larger arrays."""
    return len(twins), sum(len(op.destinations[t.position].index) > 1 for t in twins)


def _twins(op: Comp, gone: Var, stays: Var) -> list[_Twin]:
    """Sums for each point of the axis `gone` that are sums for each point of the axis `stays`."""
    inner = {axis.var for axis in op.axes}
    plain, exchanged = _Numbers(op, {}), None
    out: list[_Twin] = []
    for position, a in enumerate(op.destinations):
        if not _is_sum(op, position, gone, stays):
            continue
        for other, b in enumerate(op.destinations):
            if not _is_sum(op, other, stays, gone) or b.into is not None:
                continue
            assert isinstance(a, Keep) and isinstance(b, Keep)
            others = {v for i in a.index for v in i.atoms() if v in inner} - {gone}
            if others != {v for i in b.index for v in i.atoms() if v in inner} - {stays}:
                continue
            if exchanged is None:
                exchanged = _Numbers(op, {gone: poly(stays), stays: poly(gone)}, plain.numbers)
            first, second = exchanged.of(op.body.results[position]), plain.of(op.body.results[other])
            if first is not None and second is not None and first.number == second.number:
                out.append(_Twin(position, other, first.negative != second.negative))
                break
    return out


def _is_sum(op: Comp, position: int, axis: Var, reduced: Var) -> bool:
    """Whether a result is a sum of floats for each point of one axis over another."""
    d, value = op.destinations[position], op.body.results[position]
    if not isinstance(d, Keep) or d.monoid != "sum" or not is_float(value.type) or not isinstance(value.type, Scalar):
        return False
    mentioned = {v for i in d.index for v in i.atoms()}
    computed = {v for let in op.body.lets for v in let.vars}
    return axis in mentioned and reduced not in mentioned and mentioned.isdisjoint(computed)


def _without(let: Let, op: Comp, p: Var, q: Var, twins: Sequence[_Twin]) -> list[Let]:
    gone = {t.position for t in twins}
    lets = without_results(let, gone)
    for t in twins:
        a, b = op.destinations[t.position], op.destinations[t.other]
        assert isinstance(a, Keep) and isinstance(b, Keep)
        named = {v for i in a.index for v in i.atoms()}
        axes = {
            axis.var: replace(axis, var=fresh(axis.var.name, axis.var.type)) for axis in op.axes if axis.var in named
        }
        at: dict[Var, Size] = {old: poly(axis.var) for old, axis in axes.items()}
        there = at | ({p: at[q]} if q in at else {q: at[p]})
        value: Atom = fresh("g", Scalar(dtype_of(op.body.results[t.position])))
        assert isinstance(value, Var)
        body_lets = [Let((value,), Read(let.vars[t.other], tuple([substitute(i, there) for i in b.index])), let.span)]
        if t.negated:
            turned = fresh("g", value.type)
            body_lets.append(Let((turned,), Prim("neg", (value,)), let.span))
            value = turned
        bounds = [
            replace(
                axis,
                lows=tuple([substitute(s, at) for s in axis.lows]),
                highs=tuple([substitute(s, at) for s in axis.highs]),
            )
            for axis in axes.values()
        ]
        destination = replace(a, index=tuple([substitute(i, at) for i in a.index]))
        made = Comp(tuple(bounds), Block(tuple(body_lets), (value,)), (destination,))
        lets.append(Let((let.vars[t.position],), made, let.span))
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
class _Numbers:
    """Numbers of the scalars of a comprehension, with axes replaced."""

    op: Comp
    replaced: dict[Var, Size]
    numbers: dict[object, int] = field(default_factory=dict)
    known: dict[Var, _Value | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for let in self.op.body.lets:
            value = self.value(let)
            for var in let.vars:
                self.known[var] = value

    def of(self, atom: Atom) -> _Value | None:
        if isinstance(atom, Var):
            if atom in self.known:
                return self.known[atom]
            new = self.replaced.get(atom)
            return self.numbered(("var", atom if new is None else new.atom))
        return self.numbered(("literal", repr(atom.value), atom.dtype))

    def numbered(self, key: object, negative: bool = False, certain: bool = True) -> _Value:
        return _Value(self.numbers.setdefault(key, len(self.numbers)), negative, certain)

    def size(self, size: Size) -> Size | None:
        """A size with axes replaced, unless it mentions what is computed."""
        if any(v in self.known for v in size.atoms()):
            return None
        return substitute(size, self.replaced)

    def value(self, let: Let) -> _Value | None:
        match let.op:
            case Prim(name, args):
                values = [self.of(a) for a in args]
                found = [v for v in values if v is not None]
                return self.primitive(name, args, found, let) if len(found) == len(values) else None
            case Cast(dtype, arg):
                x = self.of(arg)
                if x is None:
                    return None
                if dtype in FLOATS and dtype_of(arg) in FLOATS:
                    return self.numbered(("cast", dtype, x.number), x.negative, x.certain)
                return self.numbered(("cast", dtype, x.number)) if x.plain else None
            case SizeOf(size):
                new = self.size(size)
                return None if new is None else self.numbered(("size", new))
            case Read(array, index):
                at = [self.size(i) for i in index]
                return None if None in at else self.numbered(("read", array, tuple(at)))
            case _:
                return None

    def primitive(self, name: str, args: Sequence[Atom], values: list[_Value], let: Let) -> _Value | None:
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
                case "guard", [x, y]:
                    certain = x.certain and y.certain and not y.negative
                    return self.numbered(("guard", x.number, y.number), x.negative != y.negative, certain)
                case "guard_both", [x, y]:
                    key_of = "guard_both", *sorted((x.number, y.number))
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
