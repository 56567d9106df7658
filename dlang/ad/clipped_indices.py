"""Indices that are clipped or wrapped at the ends of an axis, and what leads back from the element to the point.

At the points i of an axis that is as long as the array is along it,

    wrapped:  v = (i + s) mod n        every element v is read once, at i = (v - s) mod n
    clipped:  v = min(max(i + s, l), h)
              l <= v <= h is read at i = v - s, if that is a point of the axis at which v is i + s;
              l and h beside that by the points before and behind these: as many as s, not as n.

The adjoint of y_i = x_v(i) is x̄_v = Σ ȳ_i over all i with v(i) = v: where there is one such i it is the inverse of
v. So x̄ only reads, at the same kind of index as the value did, and the ends of clipped axes are added to it.

An arm of a branch, `if i > 0 { x[i - 1] }`, reads between bounds of the axes (`Points.gaps`): an offset there is such
an index without ends. An arm that runs at a few points only, as at the border of an array, is an end.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.affine import Box, Knowledge, axes_of, bound_last, span
from dlang.ir.anf import ZERO, Atom, Axis, IndexExpr, Let, Lit, Op, Prim, Scalar, Size, Var, fresh, poly
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, pruned, walk, with_lets, with_op
from dlang.ir.types import I64, dtype_of
from dlang.ops import figures
from dlang.ops.primitives import GAPS

MOST = 6  # pieces of an index; each is a pass if it is an end


@dataclass(frozen=True, slots=True)
class Piece:
    """The value of an index at the points at which all of `gaps` are at least 0."""

    value: Size
    gaps: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class Bent:
    """An entry of an index that is sign·axis + rest, up to a multiple of `wrap`, where all of `gaps` are at least 0.

    ends: what it is at the other points. The axis goes from 0 to the size of the array, here `length`.
    """

    axis: Var
    sign: int
    rest: Size
    length: Size
    gaps: tuple[Size, ...] = ()
    ends: tuple[Piece, ...] = ()
    wraps: bool = False


@dataclass(slots=True)
class Points:
    """The points of a comprehension. sizes: of i64 variables around it that are names of polynomials."""

    axes: tuple[Axis, ...]
    lets: Sequence[Let]
    known: Knowledge
    box: Box | None
    sizes: Mapping[Var, Size]

    # ---- what an entry is ----------------------------------------------------------------------------------------
    def bent(self, index: Sequence[Size], shape: Sequence[Size]) -> dict[int, Bent] | None:
        """The entries of an index that depend on data, by their positions; None if one is not clipped or wrapped.

        The index is in range at every point. An axis that leads back from an entry is in no other entry.
        """
        makers = {v: let.op for let in self.lets for v in let.vars}
        out: dict[int, Bent] = {}
        for k, entry in enumerate(index):
            if not entry.mentions(makers):
                continue
            entry_bent = None if entry.atom is None else self.found(entry.atom, makers, shape[k])
            if entry_bent is None:
                return None
            out[k] = entry_bent
        for k, b in out.items():
            others = [e for j, e in enumerate(index) if j not in out]
            others += [b2.rest for j, b2 in out.items() if j != k]
            others += [g for j, b2 in out.items() if j != k for g in (*b2.gaps, *(g for e in b2.ends for g in e.gaps))]
            if any(e.mentions((b.axis,)) for e in others):
                return None
            if any(b.axis is b2.axis for j, b2 in out.items() if j != k):
                return None
        return out

    def affine(self, atom: Atom, makers: Mapping[Var, Op]) -> Size | None:
        """A value as a polynomial of axes and of what is known to be small, so that it wraps nowhere; None if not."""
        if atom.type != I64:
            return None
        op = makers.get(atom) if isinstance(atom, Var) else None
        value = op.size if isinstance(op, IndexExpr) else poly(atom)
        value = opened(value, makers)
        return None if value.mentions(makers) else self.known_as(value)

    def known_as(self, value: Size) -> Size | None:
        """A polynomial in what is known to be small."""
        value = value.substitute(self.sizes.get)
        facts = self.known.facts
        return value if all(v in facts.bounds or v in facts.sizes for v in value.atoms()) else None

    def pieces(self, atom: Atom, makers: Mapping[Var, Op]) -> list[Piece] | None:
        """Returns the pieces of a value; at each point exactly one of them applies."""
        if (value := self.affine(atom, makers)) is not None:
            return [Piece(value)]
        op = makers.get(atom) if isinstance(atom, Var) else None
        match op:
            case Prim("minimum" | "maximum" as name, (x, y)):
                one, other = self.pieces(x, makers), self.pieces(y, makers)
                if one is None or other is None:
                    return None
                out = []
                for p, q in itertools.product(one, other):
                    gap = q.value - p.value if name == "minimum" else p.value - q.value
                    if self.known.at_least_zero(-gap):
                        p, q, gap = q, p, -gap
                    out.append(Piece(p.value, (*p.gaps, *q.gaps, gap)))
                    out.append(Piece(q.value, (*p.gaps, *q.gaps, -gap - 1)))
            case IndexExpr(size):
                bent = list({v for v in size.atoms() if v in makers})
                one = self.pieces(bent[0], makers) if len(bent) == 1 and _sign(size, bent[0]) is not None else None
                if one is None:
                    return None
                moved = [(self.known_as(size.substitute({bent[0]: p.value}.get)), p.gaps) for p in one]
                out = [Piece(value, gaps) for value, gaps in moved if value is not None]
                if len(out) < len(one):
                    return None
            case Prim("select", (c, x, y)):
                condition = makers.get(c) if isinstance(c, Var) else None
                if not isinstance(condition, Prim) or condition.name not in GAPS:
                    return None
                low, high = (self.affine(a, makers) for a in condition.args)
                one, other = self.pieces(x, makers), self.pieces(y, makers)
                if low is None or high is None or one is None or other is None:
                    return None
                sign, less = GAPS[condition.name]
                gap = (high - low) * sign + less
                out = [Piece(p.value, (*p.gaps, gap)) for p in one]
                out += [Piece(p.value, (*p.gaps, -gap - 1)) for p in other]
            case _:
                return None
        possible = [self.tidied(p) for p in out if not any(self.known.at_least_zero(-g - 1) for g in p.gaps)]
        return possible if len(possible) <= MOST else None

    def tidied(self, piece: Piece) -> Piece:
        return Piece(piece.value, tuple([g for g in piece.gaps if not self.known.at_least_zero(g)]))

    def remainder(self, atom: Atom, makers: Mapping[Var, Op], length: Size) -> Size | None:
        """x, if a value is x or x and multiples of a length."""
        if (value := self.affine(atom, makers)) is not None:
            return value
        match makers.get(atom) if isinstance(atom, Var) else None:
            case Prim("mod", (x, y)) if self.affine(y, makers) == length:
                return self.remainder(x, makers, length)
            case Prim("select", (_, x, y)):
                one, other = self.remainder(x, makers, length), self.remainder(y, makers, length)
                if one is None or other is None:
                    return None
                return one if any(other - one == length * k for k in range(-MOST, MOST + 1)) else None
            case IndexExpr(size):
                local = [v for v in size.atoms() if v in makers]
                whole = {v: self.remainder(v, makers, length) for v in local if _sign(size, v) is not None}
                if len(whole) < len(set(local)) or any(x is None for x in whole.values()):
                    return None
                return self.known_as(size.substitute(whole.get))
        return None

    def found(self, atom: Atom, makers: Mapping[Var, Op], length: Size) -> Bent | None:
        """An entry of an index along an axis of an array of this length, if it is clipped or wrapped."""
        names = [a.var for a in self.axes]
        x = self.remainder(atom, makers, length)
        wraps = x is not None
        pieces = [Piece(x)] if x is not None else self.pieces(atom, makers)
        if pieces is None:
            return None
        moving = [p for p in pieces if p.value.mentions(names)]
        ends = tuple([p for p in pieces if not p.value.mentions(names)])
        if len(moving) != 1:
            return None
        main = moving[0]
        for axis in self.axes:
            sign = _sign(main.value, axis.var)
            if sign is None or axis.lows != (ZERO,) or axis.highs != (length,):
                continue
            if any(b.mentions((axis.var,)) for a in self.axes for b in (*a.lows, *a.highs)):
                continue
            offset = main.value.without(axis.var)
            return Bent(axis.var, sign, offset, length, () if wraps else main.gaps, ends, wraps)
        return None

    # ---- what a branch decides ---------------------------------------------------------------------------------------
    def gaps(self, condition: Atom, holds: bool, makers: Mapping[Var, Op]) -> list[Size]:
        """The polynomials that are at least 0 where a condition holds, or where it does not, as far as they say so."""
        match makers.get(condition) if isinstance(condition, Var) else None:
            case Prim("and" | "or" as name, args) if holds == (name == "and"):
                return [gap for a in args for gap in self.gaps(a, holds, makers)]
            case Prim("not", (a,)):
                return self.gaps(a, not holds, makers)
            case Prim(name, (x, y)) if name in GAPS or name in ("eq", "ne"):
                low, high = self.affine(x, makers), self.affine(y, makers)
                if low is None or high is None:
                    return []
                if name in GAPS:
                    sign, less = GAPS[name]
                    gap = (high - low) * sign + less
                    return [gap if holds else -gap - 1]
                if holds == (name == "eq"):
                    return [high - low, low - high]
                return [gap - 1 for gap in (high - low, low - high) if self.known.at_least_zero(gap)]
        return []

    def decides(self, condition: Atom, holds: bool, makers: Mapping[Var, Op]) -> bool:
        """Tells whether these polynomials say all that a condition does."""
        match makers.get(condition) if isinstance(condition, Var) else None:
            case Prim("and" | "or" as name, args) if holds == (name == "and"):
                return all(self.decides(a, holds, makers) for a in args)
            case Prim("not", (a,)):
                return self.decides(a, not holds, makers)
        return bool(self.gaps(condition, holds, makers))

    def chosen(self, index: Sequence[Size], shape: Sequence[Size], gaps: Sequence[Size]) -> dict[int, Bent] | None:
        """The entries of an index of axes and sizes alone that are moved, by their positions, where gaps are at least
        0; None if there is no way back from the elements."""
        names = [a.var for a in self.axes]
        of = {a.var: a for a in self.axes}
        out: dict[int, Bent] = {}
        seen: set[Var] = set()
        for k, entry in enumerate(index):
            moving = axes_of(entry, names)
            if (not moving or entry == poly(moving[0])) and self.known.inside((entry,), (shape[k],)):
                if not seen.isdisjoint(moving):
                    return None
                seen.update(moving)
                continue
            sign = _sign(entry, moving[0]) if len(moving) == 1 else None
            if sign is None or not seen.isdisjoint(moving):
                return None
            seen.update(moving)
            axis = of[moving[0]]
            if axis.lows != (ZERO,) or axis.highs != (shape[k],):
                return None
            if any(b.mentions((axis.var,)) for a in self.axes for b in (*a.lows, *a.highs)):
                return None
            own = tuple([g for g in gaps if axes_of(g, names) == moving])
            out[k] = Bent(axis.var, sign, entry.without(axis.var), shape[k], own)
        return out

    def narrowed(self, gaps: Sequence[Size]) -> tuple[tuple[Axis, ...], bool]:
        """The points at which gaps of one axis each are at least 0, and whether they are few along some axis."""
        names = [a.var for a in self.axes]
        lows = {a.var: list(a.lows) for a in self.axes}
        highs = {a.var: list(a.highs) for a in self.axes}
        for gap in gaps:
            if len(axes_of(gap, names)) == 1:
                bound_last(gap, names, lows, highs)
        axes = tuple([Axis(v, tuple(dict.fromkeys(lows[v])), tuple(dict.fromkeys(highs[v]))) for v in names])
        counts = [
            high - low for a, b in zip(axes, self.axes, strict=True) if a != b for high in a.highs for low in a.lows
        ]
        return axes, any(c.constant is not None and c.constant <= figures.END_POINTS for c in counts)

    # ---- back from the elements ----------------------------------------------------------------------------------
    def back(self, bent: Sequence[Bent], g: Atom, decided: Mapping[Var, Lit] | None = None) -> tuple[list[Let], Atom]:
        """g at the points that lead to the elements of which the positions are in the place of the axes; or 0.

        decided: conditions that are known at these points.
        """
        lets: list[Let] = []

        def emit(op: Op, name: str = "t", dtype: str = "i64") -> Var:
            var = fresh(name, Scalar(dtype))
            lets.append(Let((var,), op))
            return var

        def number(size: Size) -> Atom:
            if size.atom is not None:
                return size.atom
            c = size.constant
            return Lit(int(c), "i64") if c is not None else emit(IndexExpr(size))

        at: dict[Var, Size] = {}
        valid: Var | None = None
        for b in bent:
            raw = (poly(b.axis) - b.rest) * b.sign
            if b.wraps:
                at[b.axis] = poly(emit(Prim("mod", (number(raw), number(b.length)))))
                continue
            point = number(raw)
            if not self.known.at_least_zero(raw):
                point = emit(Prim("maximum", (point, Lit(0, "i64"))))
            if not self.known.at_least_zero(b.length - 1 - raw):
                point = emit(Prim("minimum", (point, number(b.length - 1))))
            gaps = [raw, b.length - 1 - raw, *(g.substitute({b.axis: raw}.get) for g in b.gaps)]
            for gap in dict.fromkeys(gaps):
                if not self.known.at_least_zero(gap):
                    holds = emit(Prim("ge", (number(gap), Lit(0, "i64"))), "inside", "bool")
                    valid = holds if valid is None else emit(Prim("and", (valid, holds)), "inside", "bool")
            at[b.axis] = poly(point)
        renaming = Renaming(dict(at), renew=True)
        code = pruned(self.lets, [g])
        lets += [renaming.let(_decided(let, decided) if decided else let) for let in code]
        cotangent = renaming.atom(g)
        if valid is not None:
            cotangent = emit(Prim("select", (valid, cotangent, Lit(0.0, dtype_of(g)))), "g", dtype_of(g))
        return lets, cotangent

    def behind(self, bent: Sequence[tuple[Bent, Piece]]) -> tuple[Axis, ...] | None:
        """The points at which entries are at these ends; None if that can't be said by bounds of the axes."""
        names = [a.var for a in self.axes]
        lows = {a.var: list(a.lows) for a in self.axes}
        highs = {a.var: list(a.highs) for a in self.axes}
        for b, end in bent:
            for gap in end.gaps:
                self.narrow(b.axis, gap, lows, highs)
                if not gap.mentions(names):
                    highs[b.axis].append(b.length * (gap + 1))  # no points if it is less than 0, else no bound
                elif not bound_last(gap, names, lows, highs):
                    return None
        return tuple([Axis(v, tuple(dict.fromkeys(lows[v])), tuple(dict.fromkeys(highs[v]))) for v in names])

    def narrow(self, axis: Var, gap: Size, lows: dict[Var, list[Size]], highs: dict[Var, list[Size]]) -> None:
        """Bounds an axis by what gap >= 0 says of it wherever the others are, so that there are few points."""
        sign, others_part = _sign(gap, axis), gap.without(axis)
        others = axes_of(others_part, [a.var for a in self.axes])
        if sign is None or not others or self.box is None:
            return
        ends = span(others_part, self.box, self.known)
        if ends is not None and sign > 0:
            lows[axis].append(-ends[1])
        elif ends is not None:
            highs[axis].append(ends[1] + 1)


def opened(size: Size, makers: Mapping[Var, Op]) -> Size:
    """A polynomial in terms of what variables in it name, some levels deep."""
    for _ in range(MOST):
        named = {v: op.size for v in size.atoms() if isinstance(op := makers.get(v), IndexExpr)}
        if not named:
            break
        size = size.substitute(named.get)
    return size


def end_of(bent: Bent, end: Piece, axes: Sequence[Axis], known: Knowledge) -> tuple[Size, list[Axis]]:
    """Returns the place of an index's entry at an end, at the points `axes`, and further axes of at most one point.

    If there is just one point, its place says where the element is.
    """
    inside = known.within(axes)
    for axis in axes:
        if axis.var is bent.axis:
            for low in axis.lows:
                place = poly(axis.var) - low + end.value
                if low + 1 in axis.highs and inside.inside((place,), (bent.length,)):
                    return place, []
    one = at_most_one(end.value, bent.length)
    return poly(one.var), [one]


def at_most_one(entry: Size, length: Size) -> Axis:
    """An axis with the position of an element, if there is one: where nothing is read, an array may be too short."""
    return Axis(fresh("at", I64), tuple(dict.fromkeys((ZERO, entry))), tuple(dict.fromkeys((entry + 1, length))))


def _decided(let: Let, conditions: Mapping[Var, Lit]) -> Let:
    """A let in which branches, inside of it too, are on known conditions; but for those in which an arm reads or checks
    what it may only where the condition holds: what is computed for no element goes on at any point."""

    def block(inner: anf.Block) -> anf.Block:
        return with_lets(inner, [_decided(part, conditions) for part in inner.lets], inner.results)

    op = map_blocks(let.op, block)
    if isinstance(op, anf.If) and isinstance(op.condition, Var) and op.condition in conditions:
        known = conditions[op.condition]
        chosen = op.then if known.value else op.otherwise
        if not any(isinstance(part.op, anf.Read) or part.op.IS.fails for part in walk(chosen)):
            op = replace(op, condition=known)
    return with_op(let, let.vars, op)


def _sign(p: Size, axis: Var) -> int | None:
    """The coefficient of an axis, if it is 1 or -1."""
    try:
        c = p.coefficient(axis)
    except ValueError:
        return None
    return 1 if c == 1 else -1 if c == -1 else None
