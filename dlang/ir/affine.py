"""Analyses affine indices: the axes that an index determines, their ranges, and changes of axes.

All of it is symbolic: bounds and coefficients are polynomials in sizes, and a claim is made only where `Facts` proves
it. Nothing here is ever assumed, so a failure costs speed, not correctness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import permutations

from dlang.inequalities import LARGEST, Facts
from dlang.ir.anf import Array, Atom, Axis, Block, Comp, Function, Let, Lit, Scalar, Size, Type, Var, fresh, poly
from dlang.ir.builder import Builder
from dlang.ir.traverse import parts, used_by
from dlang.polynomials import Coefficient, Poly, TooManyTerms

Box = Mapping[Var, tuple[Size, Size]]  # axis -> least and greatest value, in what is not an axis


@dataclass(slots=True)
class Knowledge:
    """`Facts`, and polynomials known to be at least 0: the sizes of the arrays that a function is given.

    lengths: the sizes of arrays that it makes. That such a size is no negative number was checked, but nothing names
    that check: it holds in front of a loop that has no iteration, and the array may have moved ahead of it. So they say
    how long other arrays are, and that no index is in range.
    """

    facts: Facts[Var] = field(default_factory=Facts)
    nonnegative: dict[Size, None] = field(default_factory=dict)
    lengths: dict[Size, None] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function) -> Knowledge:
        """The knowledge where a function begins."""
        known = cls()
        known.note_sizes(p.type for p in function.params)
        for size in function.sizes:
            known.facts.size(size)
        return known

    def copy(self) -> Knowledge:
        return Knowledge(self.facts.copy(), dict(self.nonnegative), dict(self.lengths))

    def note_sizes(self, types: Iterable[Type]) -> None:
        """Notes that the sizes of arrays that are given are at least 0."""
        for size in _sizes(types):
            if size.atom is not None:
                self.facts.size(size.atom)
            else:
                self.nonnegative[size] = None

    def note_made(self, vars: Sequence[Var]) -> None:
        """Notes the sizes of arrays that a let makes. One that the let gives beside an array is no negative number."""
        for size in _sizes(v.type for v in vars):
            if size.atom is not None and size.atom in vars:
                self.facts.size(size.atom)
            else:
                self.lengths[size] = None

    def within(self, axes: Iterable[Axis]) -> Knowledge:
        """Returns the knowledge at a point of `axes`."""
        inner = self.copy()
        for axis in axes:
            inner.facts.between(axis.var, axis.lows, axis.highs)
        return inner

    def at_least_zero(self, p: Size) -> bool:
        """Tells whether p >= 0 follows."""
        if p.constant is not None:
            return p.constant >= 0
        if self.facts.proves_nonnegative(p):
            return True
        if any(self.facts.proves_nonnegative(p - size) for size in self.nonnegative):
            return True
        return p.terms.get((), 0) >= LARGEST and self.facts.ends(p)[0] >= 0

    def exact(self, p: Size) -> bool:
        """Tells whether p, computed with i64s that wrap, is known to be the number that it is in mathematics."""
        if self.facts.exact(p):
            return True
        least = self.at_least_zero
        return any(least(size - p) and (least(p) or least(size + p)) for size in self.nonnegative)

    def is_length(self, p: Size) -> bool:
        """Tells whether p >= 0 follows where no array that was made has a negative size."""
        return self.at_least_zero(p) or any(self.facts.proves_nonnegative(p - size) for size in self.lengths)

    def positive(self, p: Size) -> bool:
        return self.at_least_zero(p - 1)

    def inside(self, index: Sequence[Size], shape: Sequence[Size]) -> bool:
        """Tells whether an index is in range."""
        return all(self.at_least_zero(e) and self.at_least_zero(s - 1 - e) for e, s in zip(index, shape, strict=True))


def _sizes(types: Iterable[Type]) -> Iterator[Size]:
    """The sizes of arrays, but for those that are numbers."""
    for type in types:
        if isinstance(type, Array):
            yield from (size for size in type.shape if size.constant is None)


def axes_of(p: Size, axes: Iterable[Var]) -> list[Var]:
    """Lists those of `axes` that a polynomial mentions, once each."""
    wanted = set(axes)
    return [a for a in dict.fromkeys(p.atoms()) if a in wanted]


def linear(p: Size, axes: Sequence[Var]) -> list[Size] | None:
    """The coefficients of `axes`, themselves free of these axes; None if the polynomial is not linear in them."""
    out = []
    for axis in axes:
        try:
            c = p.coefficient(axis)
        except ValueError:
            return None
        if c.mentions(axes):
            return None
        out.append(c)
    return out


def slope(entry: Size, iteration: Var) -> int:
    """Returns by how much an entry of an index grows with each iteration of a loop; 0 if there is no such number."""
    try:
        c = entry.coefficient(iteration)
    except ValueError:
        return 0
    return c.constant if isinstance(c.constant, int) else 0


def span(p: Size, box: Box, known: Knowledge) -> tuple[Size, Size] | None:
    """The least and the greatest value of a polynomial on a box, None if the sign of a coefficient is not known."""
    axes = axes_of(p, box)
    coefficients = linear(p, axes)
    if coefficients is None:
        return None
    low = high = p
    for axis, c in zip(axes, coefficients, strict=True):
        least, greatest = box[axis]
        if known.at_least_zero(c):
            low, high = low.without(axis) + c * least, high.without(axis) + c * greatest
        elif known.at_least_zero(-c):
            low, high = low.without(axis) + c * greatest, high.without(axis) + c * least
        else:
            return None
    return low, high


def hull(axes: Sequence[Axis], known: Knowledge) -> dict[Var, tuple[Size, Size]] | None:
    """The least and the greatest value of every axis, without mention of another axis; the box around the points."""
    box: dict[Var, tuple[Size, Size]] = {}
    for axis in axes:
        lows = [s[0] for low in axis.lows if (s := span(low, box, known))]
        highs = [s[1] - 1 for high in axis.highs if (s := span(high, box, known))]
        if not lows or not highs:
            return None
        low = next((a for a in lows if all(known.at_least_zero(a - b) for b in lows)), lows[0])
        high = next((a for a in highs if all(known.at_least_zero(b - a) for b in highs)), highs[0])
        box[axis.var] = low, high
    return box


def at_most_one(axis: Axis) -> bool:
    """Tells whether an axis is known to have no more than one point."""
    points = [(high - low).constant for high in axis.highs for low in axis.lows]
    return any(count is not None and count <= 1 for count in points)


def solved_axes(index: Sequence[Size], axes: Sequence[Var], box: Box, known: Knowledge) -> tuple[set[Var], list[Size]]:
    """The axes that the entries of an index determine, and the entries left with two or more unknowns.

    An entry with one unknown axis determines it (its coefficient is not 0). One with several determines all of them if
    they are digits of a mixed radix: sorted by coefficient, each is greater than what the smaller ones can add up to.
    """
    solved: set[Var] = set()
    left = [e for e in index if e.mentions(axes)]
    progress = True
    while progress:
        progress = False
        for entry in left:
            unknown = [a for a in axes_of(entry, axes) if a not in solved]
            coefficients = linear(entry, unknown)
            if coefficients is not None and _digits(unknown, coefficients, box, known):
                solved |= set(unknown)
                left = [e for e in left if e is not entry]
                progress = True
                break
    return solved, left


def _digits(unknown: Sequence[Var], coefficients: Sequence[Size], box: Box, known: Knowledge) -> bool:
    magnitudes: list[Size] = []
    for c in coefficients:
        if known.positive(c):
            magnitudes.append(c)
        elif known.positive(-c):
            magnitudes.append(-c)
        else:
            return False
    if len(unknown) == 1:
        return True
    if len(unknown) > 4:
        return False
    extent = {a: box[a][1] - box[a][0] for a in unknown if a in box}
    if len(extent) < len(unknown):
        return False

    def radix(order: Sequence[int]) -> bool:
        reach: Size = Poly({})
        for k in order:
            if not known.at_least_zero(magnitudes[k] - reach - 1):
                return False
            reach = reach + magnitudes[k] * extent[unknown[k]]
        return True

    return any(radix(order) for order in permutations(range(len(unknown))))


@dataclass(frozen=True, slots=True)
class Change:
    """New axes, and each old axis as a polynomial in them."""

    axes: tuple[Axis, ...]
    env: dict[Var, Size]


def changed(axes: Sequence[Axis], env: Mapping[Var, Size], new: Sequence[Var], box: Box) -> Change | None:
    """Axes `new`, outermost first, such that `env` gives every old axis: the same points, exactly.

    Every old bound becomes a bound of the last new axis that it mentions, None where that would need a division.
    """
    lows: dict[Var, list[Size]] = {v: [box[v][0]] for v in new}
    highs: dict[Var, list[Size]] = {v: [box[v][1] + 1] for v in new}

    def replace(p: Size) -> Size:
        return p.substitute(env.get)

    for axis in axes:
        replaced = replace(poly(axis.var))
        for gap in [replaced - replace(b) for b in axis.lows] + [replace(b) - replaced - 1 for b in axis.highs]:
            if not bound_last(gap, new, lows, highs):
                return None
    out = []
    for v in new:
        out.append(Axis(v, _tightest(lows[v]), _tightest(highs[v])))
    return Change(tuple(out), dict(env))


def bound_last(gap: Size, axes: Sequence[Var], lows: dict[Var, list[Size]], highs: dict[Var, list[Size]]) -> bool:
    """Notes gap >= 0 as a bound of the last of `axes` that it mentions; False where that would need a division."""
    mentioned = [a for a in axes if gap.mentions((a,))]
    if not mentioned:
        return True
    last = mentioned[-1]
    try:
        c = gap.coefficient(last)
    except ValueError:
        return False
    others = gap.without(last)
    if c == 1:
        lows[last].append(-others)
    elif c == -1:
        highs[last].append(others + 1)
    else:
        return False
    return True


def _tightest(bounds: Iterable[Size]) -> tuple[Size, ...]:
    return tuple(dict.fromkeys(bounds))


def _binding(lows: Iterable[Size], known: Knowledge) -> tuple[Size, ...]:
    """Lower bounds without those that are known to be no more than another."""
    out: list[Size] = []
    for low in _tightest(lows):
        if not any(known.at_least_zero(other - low) for other in out):
            out = [*[other for other in out if not known.at_least_zero(low - other)], low]
    return tuple(out)


def rebase(index: Sequence[Size], axes: Sequence[Axis], known: Knowledge) -> Change | None:
    """Axes that solve an index: where an entry leaves several unknowns, such as i + p, their sum t becomes an axis.

    The axis that is replaced must have the coefficient 1 or -1, and is none that another entry determines: that entry
    stays solved, and each step solves one more. Offsets stay in the index, so that indices which differ by an offset
    get the same change. None if that fails.
    """
    first = hull(axes, known)
    if first is None:
        return None
    box = dict(first)
    env: dict[Var, Size] = {}
    names = [axis.var for axis in axes]
    while True:
        now = [e.substitute(env.get) for e in index]
        solved, left = solved_axes(now, names, box, known)
        if not left:
            break
        mentioned = axes_of(left[0], names)
        coefficients = linear(left[0], mentioned)
        if coefficients is None:
            return None
        a: Size = Poly({})
        for v, c in zip(mentioned, coefficients, strict=True):
            a = a + c * poly(v)
        unit = [v for v, c in zip(mentioned, coefficients, strict=True) if v not in solved and (c == 1 or c == -1)]
        if not unit:
            return None
        x = _longest(unit, box, known)
        ends = span(a, box, known)
        if ends is None:
            return None
        t = fresh("t", Scalar("i64"))
        c = a.coefficient(x)
        step = {x: (poly(t) - a.without(x)) * c}
        env = {k: v.substitute(step.get) for k, v in env.items()} | step
        box[t] = ends
        names = [t] + [n for n in names if n is not x]
    copies = {n: fresh(n.name, n.type) for n in names}
    rename = {n: poly(v) for n, v in copies.items()}
    env = {axis.var: env.get(axis.var, poly(axis.var)).substitute(rename.get) for axis in axes}
    return changed(axes, env, list(copies.values()), {copies[n]: box[n] for n in names})


def _longest(candidates: Sequence[Var], box: Box, known: Knowledge) -> Var:
    """The axis that is provably not shorter than the others, else the one of most terms, else the first (outermost).

    An axis of n - k points, what k leave of n, is taken for longer than one of k.
    """
    extents = {v: box[v][1] - box[v][0] for v in candidates}
    for v, extent in extents.items():
        if all(known.at_least_zero(extent - other) for other in extents.values()):
            return v
    return max(candidates, key=lambda v: len(extents[v].without_constant().terms))


def extent(b: Builder, ends: tuple[Size, Size], known: Knowledge) -> Size:
    """How many values lie between two ends, as a size: at least 0."""
    count = ends[1] - ends[0] + 1
    if known.is_length(count):
        return count
    return poly(b.prim("maximum", b.size(count), Lit(0, "i64"), name="extent"))


def nonempty(kept: Sequence[Axis], dropped: Sequence[Axis], box: Box, known: Knowledge) -> list[Axis]:
    """The axes `kept`, with no point at all where one of the axes `dropped` is empty.

    The box does not tell: of max(0, n - 1) <= i < n it may be the last value, which is none if n is 0.
    """
    names = {a.var for a in (*kept, *dropped)}
    counts: list[Size] = []
    for axis in dropped:
        lows = [box[axis.var][0] if low.mentions(names) else low for low in axis.lows]
        highs = [box[axis.var][1] + 1 if high.mentions(names) else high for high in axis.highs]
        counts += [high - low for low in lows for high in highs]
    return _only_if(kept, counts, box, known)


def _only_if(axes: Sequence[Axis], counts: Iterable[Size], box: Box, known: Knowledge) -> list[Axis]:
    """The axes, with no point at all where a number, of which none mentions an axis, is not positive.

    With `count` values between two bounds, i < low + (high - low)·count is no further bound unless count is not
    positive. None is needed for a count that is positive wherever there is a point of the axes.
    """
    out = list(axes)
    known = known.within(axes)
    for count in dict.fromkeys(counts):
        if out and not known.positive(count):
            last = out[-1]
            first, end = box[last.var]
            out[-1] = Axis(last.var, last.lows, (*last.highs, first + (end - first + 1) * count))
    return out


MOST_GAPS = 64
"""Inequalities that are left when an axis is eliminated, beyond which nothing is said."""


def shadow(axes: Sequence[Axis], over: Set[Var], known: Knowledge) -> list[Size] | None:
    """Numbers that are at least 0 at just those values of the axes `over` for which there is a point of all axes.

    Of bounds of these axes those that mention none of the others hold as well. It is Fourier's and Motzkin's
    elimination, in whole numbers: None where that can't be said by inequalities of polynomials.
    """
    dropped = {a.var for a in axes} - over
    gaps = dict.fromkeys(
        gap
        for a in axes
        for gap in (*[poly(a.var) - low for low in a.lows], *[high - poly(a.var) - 1 for high in a.highs])
        if gap.mentions(dropped)
    )
    knowledge = known.within([a for a in axes if a.var in over and not _mentions(a, dropped)])
    for axis in reversed([a.var for a in axes if a.var in dropped]):
        below: list[tuple[Size, Size]] = []  # of c·axis + rest >= 0 with c > 0: c and the rest
        above: list[tuple[Size, Size]] = []  # with c < 0: -c and the rest
        left: dict[Size, None] = {}
        for gap in gaps:
            try:
                c = gap.coefficient(axis)
            except ValueError:
                return None
            others = gap.without(axis)
            if c == 0:
                left[gap] = None
            elif known.positive(c):
                below.append((c, others))
            elif known.positive(-c):
                above.append((-c, others))
            else:
                return None
        for c, low in below:
            for d, high in above:
                try:
                    gap = d * low + c * high
                    sure = knowledge.at_least_zero(gap - (c - 1) * (d - 1))
                except TooManyTerms:
                    return None
                if sure:  # there is a whole number between the two
                    continue
                if c != 1 and d != 1:
                    return None
                left[gap] = None
        if len(left) > MOST_GAPS:
            return None
        gaps = left
    return list(gaps)


def _mentions(axis: Axis, others: Set[Var]) -> bool:
    return any(bound.mentions(others) for bound in (*axis.lows, *axis.highs))


def projected(axes: Sequence[Axis], over: Set[Var], box: Box, known: Knowledge) -> list[Axis] | None:
    """The axes `over`, with just those points for which there is a point of all axes; None if that is not known.

    What is no bound of one of them is said by a further axis, of at most one point.
    """
    gaps = shadow(axes, over, known)
    if gaps is None:
        return None
    dropped = {a.var for a in axes} - over
    kept = [a for a in axes if a.var in over]
    names = [a.var for a in kept]
    lows = {a.var: [low for low in a.lows if not low.mentions(dropped)] for a in kept}
    highs = {a.var: [high for high in a.highs if not high.mentions(dropped)] for a in kept}
    counts = [gap + 1 for gap in gaps if not gap.mentions(names)]
    further = [gap + 1 for gap in gaps if gap.mentions(names) and not bound_last(gap, names, lows, highs)]
    if not all(lows.values()) or not all(highs.values()):
        return None
    tight = [
        Axis(v, _binding(lows[v], known), tuple([-b for b in _binding([-b for b in highs[v]], known)])) for v in names
    ]
    out = _only_if(tight, counts, box, known)
    if further or not out:
        ends = (*further, *([] if out else counts))
        out.append(Axis(fresh("one", Scalar("i64")), (poly(0),), (poly(1), *ends)))
    return out


def dependencies(lets: Sequence[Let], axes: Sequence[Axis]) -> dict[Var, set[Var]]:
    """The axes that each variable of a body depends on."""
    names = {a.var for a in axes}
    depends: dict[Var, set[Var]] = {}
    for let in lets:
        axes_of_let: set[Var] = set()
        for v in used_by(let):
            if v in names:
                axes_of_let.add(v)
            else:
                axes_of_let |= depends.get(v, set())
        for v in let.vars:
            depends[v] = axes_of_let
    return depends


Depends = dict[Var, frozenset[Var]]
"""The axes that variables depend on, an axis on itself."""


def axes_behind(block: Block, others: Iterable[Var] = ()) -> Depends:
    """The axes of comprehensions around them that all variables of a block depend on, those in its blocks too.

    others: variables from outside that are told like axes.
    """
    depends = {v: frozenset((v,)) for v in others}
    _note_axes(block, depends)
    return depends


def _note_axes(block: Block, depends: Depends) -> frozenset[Var]:
    """Notes on which axes the variables of a block depend; gives those that the block does."""
    every = frozenset[Var]()
    for let in block.lets:
        own = frozenset(a.var for a in let.op.axes) if isinstance(let.op, Comp) else frozenset[Var]()
        depends.update((v, frozenset((v,))) for v in own)
        p = parts(let.op)
        used = [*p.atoms, *(v for size in p.sizes for v in size.atoms())]
        on = _axes_of(used, depends).union(*(_note_axes(inner, depends) for inner in p.blocks)) - own
        depends.update(dict.fromkeys(let.vars, on))
        every |= on
    return every | _axes_of(block.results, depends)


def _axes_of(used: Iterable[Atom], depends: Depends) -> frozenset[Var]:
    return frozenset[Var]().union(*(depends.get(v, frozenset()) for v in used if isinstance(v, Var)))


def far_fewer(points: Size, elements: Size) -> bool:
    """Tells whether there are, or may be, far fewer points than elements as sizes grow: at most half as many.

    The points are as many if their number grows with every size that the number of elements grows with. Of a size that
    has nothing to do with the array's, such as that of a window, nothing is known.
    """
    if points.constant is not None and elements.constant is not None:
        return 2 * points.constant <= elements.constant
    if not all(any(_divides(m, other) for other in points.terms) for m in elements.terms):
        return True
    a, b = _degree(points), _degree(elements)
    return a == b and 2 * _lead(points, a) <= _lead(elements, b)


def grows_less(points: Size, elements: Size) -> bool:
    """Says whether a number of points surely grows with a smaller power of the sizes than a number of elements."""
    if points.constant is not None:
        return elements.constant is None
    return all(any(m != other and _divides(m, other) for other in elements.terms) for m in points.terms)


def outgrows(elements: Size, others: Size) -> bool:
    """Says whether a number of elements may be larger than another one where sizes are large."""
    terms = [(m, c) for m, c in elements.terms.items() if m]
    return any(sum(d for other, d in others.terms.items() if _divides(m, other)) < c for m, c in terms)


def _divides(monomial: tuple[Var, ...], other: tuple[Var, ...]) -> bool:
    left = list(other)
    for v in monomial:
        if v not in left:
            return False
        left.remove(v)
    return True


def _lead(p: Size, degree: int) -> Coefficient:
    """The sum of the coefficients of the terms of the highest degree, without their signs."""
    out: Coefficient = 0
    for m, c in p.terms.items():
        if len(m) == degree:
            out = out + (c if c >= 0 else -c)
    return out


def _degree(p: Size) -> int:
    return max((len(m) for m in p.terms), default=0)
