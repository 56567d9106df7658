"""Proves that accesses are in range where they stand, and finds those that rely on a check that may not have been made.

Known at a place of a function: the sizes of arrays are no negative numbers; an axis and the index of a loop lie between
their bounds, and there is one where the body runs; what an iteration changes by a number between two is as far from its
first value as the iterations bring it (`loop_states.py`); a check holds behind it; an arm of a branch knows the
condition. Arithmetic of i64s is a polynomial where it cannot wrap. A check that stands in front of the loop that it is
for holds if there is no iteration: `(0 <= j and j < n) or k <= 0`. What it certifies is in range only where k > 0
follows, as it does inside of that loop; an access at such a number anywhere else may be outside of its array.

The proof is a search for the worst case of one variable after another. It is not complete: what it can't prove may be
in range by what a derivative saved, or by what the iterations before have done otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil, floor

from dlang.inequalities import ratio
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Assert, Atom, Lit, Prim, Size, Var, poly
from dlang.ir.errors import IRError
from dlang.ir.loop_states import (
    Ends,
    behind_loop,
    kept_between,
    with_tests_of_state,
    within_condition,
    within_iteration,
)
from dlang.ir.points import find_point, value_at
from dlang.ir.printer import print_let
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import walk
from dlang.ir.types import BOOL, I64, array_type
from dlang.ops.primitives import GAPS, OPPOSITE
from dlang.polynomials import Poly, TooManyTerms

INDEX = "E0801"  # the code of a check that puts an index in range; what others say of a number is no reason to access
GOALS = 300  # of a search
EASY = 4  # goals before a point is looked for at which all holds that is known
DEPTH = 7  # of a search: variables that are replaced one in another
MADE = 3  # elements of arrays that are looked at one in another


@dataclass(frozen=True, slots=True)
class Access:
    """An access of which it is not proven that it is in range: an entry of its index, and the size of that axis.

    conditional: whether it relies on a check that may not have been made, and mentions no number of which nothing is
    known, as derivatives save them. plain: whether only sizes, axes and indices of loops are in it.
    """

    let: anf.Let
    entry: Size
    size: Size
    conditional: bool
    plain: bool


def verify_accesses(program: anf.Program, since: anf.Program | None = None) -> None:
    """Raises IRError if an access relies on a check that may not have been made.

    since: a program of which that is known; functions that are its own are not looked at again.
    """
    kept = {} if since is None else since.functions
    for function in program.functions.values():
        if kept.get(function.name) is function or not _has_conditional_checks(function.body):
            continue
        for access in unproven(function):
            if access.conditional:
                where = f" ({access.let.span!r})" if access.let.span is not None else ""
                raise IRError(
                    f"{function.name}: the index {access.entry} relies on a check that may not have been made{where}\n"
                    f"{print_let(access.let)}"
                )


def _has_conditional_checks(body: anf.Block) -> bool:
    """Tells whether some check certifies a number and may hold by one of several conditions."""
    lets = list(walk(body))
    return any(isinstance(let.op, Prim) and let.op.name == "or" for let in lets) and any(
        isinstance(let.op, Assert) and let.vars for let in lets
    )


def unproven(function: anf.Function) -> list[Access]:
    """The accesses of a function that are not proven to be in range where they stand."""
    walker = _Walk(_Known(Knowledge.of(function)))
    walker.block(function.body)
    return walker.found


# ---- what is known ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Either:
    """One of two conditions holds (`holds`), or fails."""

    one: Atom
    other: Atom
    holds: bool


@dataclass(frozen=True, slots=True)
class _Elements:
    """The code that makes an element of an array of i64s: some lets, and their result, which may be a position.

    axes: what the lets call the entries of an index; behind these, axes that it does not mention. size: what a position
    is below.
    """

    axes: tuple[anf.Axis, ...]
    lets: tuple[anf.Let, ...] = ()
    value: Atom | None = None
    size: Size | None = None


_Mark = tuple[int, int, int, dict[_Either, None], dict[tuple[Size, Size], None], dict[Size, None]]


@dataclass(slots=True)
class _Known:
    """The facts that hold at a place of a function.

    opened: the variables that are polynomials of others. wrapping: those that would be if their arithmetic cannot wrap;
    reopened: those of them of which that was found out later. open: alternatives of which neither is refuted. unequal:
    pairs that are not equal. gaps: numbers that are at least 1 where the code runs, such as how many places the bounds
    of axes and loops around leave. goals: how many the search may still try. asked: what it did not find to follow,
    each with how many variables had been replaced. point: integers for which all that is known holds, of a search that
    is not easy.
    """

    ranges: Knowledge
    definitions: dict[Var, anf.Op] = field(default_factory=dict)
    opened: dict[Var, Size] = field(default_factory=dict)
    wrapping: dict[Var, Size] = field(default_factory=dict)
    open: dict[_Either, None] = field(default_factory=dict)
    unequal: dict[tuple[Size, Size], None] = field(default_factory=dict)
    reopened: list[Var] = field(default_factory=list)
    gaps: list[Size] = field(default_factory=list)
    goals: int = 0
    asked: dict[Size, int] = field(default_factory=dict)
    point: dict[Var, int] | None = None

    def of(self, atom: Atom) -> Size:
        return self.number(poly(atom))

    def number(self, p: Size) -> Size:
        """A polynomial in variables that stand for themselves."""
        return p.substitute(self.opened.get)

    def mark(self) -> _Mark:
        ranges = self.ranges
        lengths = ranges.facts.mark(), len(self.reopened), len(self.gaps)
        return *lengths, dict(self.open), dict(self.unequal), dict(ranges.nonnegative)

    def amount(self) -> tuple[int, ...]:
        """Numbers that are others when more is known in the same place."""
        ranges = self.ranges
        return ranges.facts.mark(), len(ranges.nonnegative), len(self.opened), len(self.gaps)

    def undo(self, mark: _Mark) -> None:
        """Forgets what was learned since a mark."""
        facts, reopened, gaps, self.open, self.unequal, self.ranges.nonnegative = mark
        self.ranges.facts.undo(facts)
        for v in self.reopened[reopened:]:
            del self.opened[v]
        del self.reopened[reopened:], self.gaps[gaps:]

    # ---- conditions ----
    def learn(self, condition: Atom, holds: bool = True) -> None:
        """Learns what follows from a condition that holds, or does not."""
        if isinstance(condition, Lit):
            self.fact(poly(0 if bool(condition.value) == holds else -1))
            return
        match self.definitions.get(condition):
            case Prim("not", (a,)):
                self.learn(a, not holds)
            case Prim(("and" | "or") as name, (a, b)):
                if (name == "and") == holds:
                    self.learn(a, holds)
                    self.learn(b, holds)
                else:
                    self.open[_Either(a, b, holds)] = None
                    self.settle()
            case Prim(name, (a, b)) if name in OPPOSITE and a.type == I64:
                x, y = self.of(a), self.of(b)
                order = name if holds else OPPOSITE[name]
                if order == "ne":
                    self.unequal[x, y] = None
                    self.settle()
                for gap in _gaps(order, x, y):
                    self.fact(gap)
            case _:
                pass

    def refuted(self, condition: Atom, holds: bool, proves: Callable[[Size], bool]) -> bool:
        """Tells whether a condition cannot hold; with `holds` false, whether it has to. proves: that p >= 0."""
        if isinstance(condition, Lit):
            return bool(condition.value) != holds
        match self.definitions.get(condition):
            case Prim("not", (a,)):
                return self.refuted(a, not holds, proves)
            case Prim(("and" | "or") as name, (a, b)):
                one, other = self.refuted(a, holds, proves), self.refuted(b, holds, proves)
                return (one or other) if (name == "and") == holds else (one and other)
            case Prim(name, (a, b)) if name in OPPOSITE and a.type == I64:
                x, y = self.of(a), self.of(b)
                order = name if holds else OPPOSITE[name]
                if order == "ne":
                    return x == y
                return any(proves(-gap - 1) for gap in _gaps(order, x, y))
            case _:
                return False

    def undecided(self, condition: Atom, holds: bool) -> bool:
        """Tells whether a condition that was learned has alternatives of which it is not known which one is true."""
        match self.definitions.get(condition) if isinstance(condition, Var) else None:
            case Prim("not", (a,)):
                return self.undecided(a, not holds)
            case Prim("and" | "or", (a, b)):
                either = _Either(a, b, holds)
                return either in self.open or self.undecided(a, holds) or self.undecided(b, holds)
            case _:
                return False

    def settle(self, proves: Callable[[Size], bool] | None = None) -> None:
        """Learns what follows of alternatives, now that more is known. proves: that p >= 0, if not by ranges alone."""
        proves = proves or self.ranges.at_least_zero
        before = -1
        while before != (before := len(self.open) + len(self.unequal)):
            for either in list(self.open):
                for refuted, left in ((either.one, either.other), (either.other, either.one)):
                    if either in self.open and self.refuted(refuted, either.holds, proves):
                        del self.open[either]
                        self.learn(left, either.holds)
            for x, y in list(self.unequal):
                for gap in (x - y, y - x):
                    if (x, y) in self.unequal and proves(self.number(gap)):
                        del self.unequal[x, y]
                        self.fact(self.number(gap) - 1)

    def fact(self, p: Size) -> None:
        """Learns p >= 0, as bounds of the variables in it; of a negative number, that the code here never runs."""
        if p.constant is not None:
            if p.constant < 0:
                self.gaps.append(poly(0))
            return
        facts, bounded = self.ranges.facts, False
        for v in sorted(dict.fromkeys(p.atoms()), key=lambda v: -v.serial):
            c = p.terms.get((v,))
            others = p.without(v) if c in (1, -1) else None
            if others is None or others.mentions((v,)):
                continue
            match self.definitions.get(v):
                case Prim(("minimum" | "maximum") as name, args):
                    ways = [others + self.of(a) if c == 1 else others - self.of(a) for a in args]
                    if (name == "minimum") == (c == 1):
                        for way in ways:
                            self.fact(way)
                    else:
                        for way, refuted in (ways, ways[::-1]):
                            if self.ranges.at_least_zero(-refuted - 1):
                                self.fact(way)
                case _:
                    pass
            if v in facts.floors:  # of a quotient that is at least, or at most, something
                dividend, divisor = facts.floors[v]
                with suppress(TooManyTerms):
                    self.fact(dividend + others * divisor if c == 1 else (others + 1) * divisor - 1 - dividend)
            if c == 1 and others.constant is not None and others.constant <= 0:
                facts.size(v)
            facts.narrow(v, (-others,) if c == 1 else (), () if c == 1 else (others + 1,))
            bounded = True
        if not bounded:
            self.ranges.nonnegative[p] = None

    # ---- arithmetic ----
    def between(self, v: Var, lows: Sequence[Size], highs: Sequence[Size]) -> None:
        """Learns that v lies between its bounds, and that they leave it a place: the code that runs has one."""
        lows, highs = tuple(map(self.number, lows)), tuple(map(self.number, highs))
        for low in lows:
            for high in highs:
                gap = high - low
                self.gaps.append(gap)
                if gap.constant is None and not self.ranges.positive(gap):
                    self.fact(gap - 1)
                if len(gap.terms) == 1:
                    ((factors, c),) = gap.terms.items()
                    unknown = [f for f in factors if not self.ranges.at_least_zero(poly(f))]
                    if len(factors) > 1 and c > 0 and len(unknown) <= 1:  # each is positive
                        for factor in factors:
                            self.fact(poly(factor) - 1)
        self.ranges.facts.between(v, lows, highs)

    def extent(self, low: Size, high: Size) -> Size:
        """How many numbers there are from one on and below another."""
        gap = self.number(high - low)
        if self.ranges.at_least_zero(gap):
            return gap
        apart, extent = anf.fresh("apart", I64), anf.fresh("extent", I64)
        self.opened[apart] = gap
        self.define(extent, Prim("maximum", (apart, Lit(0, "i64"))))
        return poly(extent)

    def counts(self, ends: Iterable[Ends]) -> None:
        """Learns between which ends numbers of the state of a loop are."""
        for v, low, high in ends:
            self.ranges.facts.narrow(v, () if low is None else (low,), () if high is None else (high,))
            if low is not None and low.constant is not None and low.constant >= 0:
                self.ranges.facts.size(v)

    def define(self, v: Var, op: Prim) -> None:
        """Notes what the result of a primitive is."""
        self.definitions[v] = op
        if v.type != I64:
            return
        facts = self.ranges.facts
        numbers = [self.of(a) for a in op.args if a.type == I64]
        match op.name, numbers:
            case "add", (x, y):
                self.exact(v, x + y)
            case "sub", (x, y):
                self.exact(v, x - y)
            case "neg", (x,):
                self.exact(v, -x)
            case "mul", (x, y):
                with suppress(TooManyTerms):
                    self.exact(v, x * y)
            case "mod", (_, y) if y.constant is not None and y.constant > 0:
                facts.narrow(v, (poly(0),), (y,))
            case "floordiv", (x, y):
                self.divide(v, x, y)
            case "shift_right", (x, y) if isinstance(y.constant, int) and 0 <= y.constant < 62:
                self.divide(v, x, poly(2**y.constant))
            case "minimum", _:
                self.one_of(v, numbers, (), numbers)
            case "maximum", _:
                self.one_of(v, numbers, numbers, ())
            case "select", _:
                self.one_of(v, numbers)
            case _:
                pass

    def exact(self, v: Var, p: Size) -> None:
        """Notes that v is p, if that does not wrap."""
        (self.opened if self.ranges.exact(p) else self.wrapping)[v] = p

    def divide(self, v: Var, dividend: Size, divisor: Size) -> None:
        """Notes v = dividend // divisor, if that is positive."""
        facts = self.ranges.facts
        if self.ranges.positive(divisor):
            facts.floors[v] = dividend, divisor
            if self.ranges.at_least_zero(dividend):
                facts.size(v)

    def one_of(self, v: Var, numbers: Sequence[Size], lows: Sequence[Size] = (), highs: Sequence[Size] = ()) -> None:
        """Notes that v is one of some numbers, at least `lows` and at most `highs`."""
        facts = self.ranges.facts
        ends = [facts.ends(p) for p in numbers]
        low, high = floor(min(e[0] for e in ends)), ceil(max(e[1] for e in ends))
        if low >= 0:
            facts.size(v)
        facts.narrow(v, (poly(low), *lows), (poly(high + 1), *[p + 1 for p in highs]))

    def reconsider(self) -> None:
        """Learns what follows of arithmetic, now that more is known: some that could have wrapped has not."""
        self.settle(self.proves)
        facts = self.ranges.facts
        for v, p in self.wrapping.items():
            if v not in self.opened and v in facts.bounds and self.ranges.exact(p := self.number(p)):
                lows, highs = facts.bounds[v]
                self.opened[v] = p
                self.reopened.append(v)
                for low in lows:
                    self.fact(p - self.number(low))
                for high in highs:
                    self.fact(self.number(high) - p)

    # ---- proofs ----
    def never_runs(self) -> bool:
        """Tells whether the bounds of an axis or a loop around leave no place, or a condition cannot have held."""
        return any(self.proves(-gap) for gap in self.gaps)

    def proves(self, p: Size) -> bool:
        """Tells whether p >= 0 follows."""
        self.goals = GOALS
        self.asked, self.point = {}, None
        return self.search(p, 0)

    def search(self, p: Size, depth: int) -> bool:
        """Tells whether p >= 0 in the worst case of one of its variables, each of them and of its bounds in turn."""
        if p.constant is not None:
            return p.constant >= 0
        if (before := self.asked.get(p)) is not None and before <= depth:  # each order of variables comes to the same
            return False
        if self.point is not None and (found := value_at(p, self.point)) is not None and found < 0:
            return False
        if before is None and self.ranges.at_least_zero(p):
            return True
        self.asked[p] = depth
        if depth > DEPTH or self.goals <= 0:
            return False
        self.goals -= 1
        if self.goals == GOALS - EASY and self.point is None:
            self.point = find_point(self.ranges, self.definitions, self.opened)
        for v in sorted(dict.fromkeys(p.atoms()), key=lambda v: -v.serial):
            try:
                c, others = p.coefficient(v), p.without(v)
                if (sign := self.sign(c)) and self.worst(v, c, others, sign, depth + 1):
                    return True
            except (ValueError, TooManyTerms):  # a square, or no polynomial that is worth it
                continue
        return False

    def worst(self, v: Var, c: Size, others: Size, sign: int, depth: int) -> bool:
        """Tells whether others + c · v >= 0 in the worst case of v; sign: that of c."""

        def is_true_of(value: Size) -> bool:
            return self.search(others + c * self.number(value), depth)

        match self.definitions.get(v):
            case Prim("select", (condition, x, y)):
                if all(
                    self.supposing(condition, holds, is_true_of, self.of(a)) for a, holds in ((x, True), (y, False))
                ):
                    return True
            case Prim(("minimum" | "maximum") as name, args):
                ways = (is_true_of(self.of(a)) for a in args)
                if all(ways) if (name == "minimum") == (sign > 0) else any(ways):
                    return True
            case Prim("mod", (_, y)) if self.search(self.of(y) - 1, depth):
                if is_true_of(poly(0) if sign > 0 else self.of(y) - 1):
                    return True
            case _:
                pass
        facts = self.ranges.facts
        if v in facts.floors and self.worst_floor(v, c, others, sign, depth):
            return True
        ends = facts.bounds.get(v, ((), ()))[0 if sign > 0 else 1]
        return any(is_true_of(end) for end in ends)

    def worst_floor(self, v: Var, c: Size, others: Size, sign: int, depth: int) -> bool:
        """The same of a quotient: divisor · v <= dividend < divisor · (v + 1)."""
        dividend, divisor = self.ranges.facts.floors[v]
        times = ratio(c, divisor)  # c · v is this many times divisor · v
        if sign > 0:
            if self.search(dividend, depth) and self.search(others, depth):  # v >= 0
                return True
            dividend = dividend - divisor + 1
        elif self.search(dividend, depth) and self.search(others + c * dividend, depth):  # v <= dividend
            return True
        if times is not None and self.search(others + dividend * Poly[Var]({(): times}), depth):
            return True
        n = divisor.constant
        return n is not None and self.search(others * Poly[Var]({(): n}) + c * dividend, depth)

    def supposing(self, condition: Atom, holds: bool, is_true_of: Callable[[Size], bool], value: Size) -> bool:
        """Tells whether something is true of a value where a condition holds, or does not."""
        mark, asked, point = self.mark(), self.asked, self.point
        self.asked, self.point = {}, {}
        self.learn(condition, holds)
        self.settle()
        found = is_true_of(value)
        self.undo(mark)
        self.asked, self.point = asked, point
        return found

    def sign(self, c: Size) -> int:
        """1 or -1 if a number is known not to be negative, or not to be positive; else 0."""
        if c.constant is not None:
            return 1 if c.constant > 0 else -1
        return 1 if self.ranges.at_least_zero(c) else -1 if self.ranges.at_least_zero(-c) else 0


def _gaps(order: str, x: Size, y: Size) -> list[Size]:
    """Lists numbers that are at least 0 where x and y are in an order, or equal; none if they are not equal."""
    if order == "eq":
        return [y - x, x - y]
    sign, less = GAPS.get(order, (0, 0))
    return [(y - x) * sign + less] if sign else []


# ---- the walk --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Walk:
    """Goes through a function, block by block.

    plain: axes, indices of loops, and sizes. carried: what loops come to, and what is computed of that; an axis that it
    bounds is not plain. conditional: what checks certify that may not have been made, and what is computed of that.
    unknown: numbers that were read of other arrays, or that calls, loops and sums give, and what is computed of them.
    elements: of arrays of i64s. depth: of elements that are made of elements. makers: the lets of truth values so far.
    """

    known: _Known
    plain: set[Var] = field(default_factory=set)
    carried: set[Var] = field(default_factory=set)
    conditional: set[Var] = field(default_factory=set)
    unknown: set[Var] = field(default_factory=set)
    elements: dict[Var, _Elements] = field(default_factory=dict)
    found: list[Access] = field(default_factory=list)
    depth: int = 0
    makers: dict[Var, anf.Let] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plain |= self.known.ranges.facts.sizes

    def inside(self, let: anf.Let, index: Sequence[Size], shape: Sequence[Size]) -> None:
        """Notes the entries of an index that are not proven to be in range."""
        known = self.known
        for entry, size in zip(index, shape, strict=False):  # that of a row leaves the last axes out
            before = None
            for attempt in (known.settle, known.reconsider):
                attempt()
                e, n = known.number(entry), known.number(size)
                if before != (before := known.amount()) and known.proves(e) and known.proves(n - 1 - e):
                    break
            else:
                if known.never_runs():
                    return
                conditional = not self.conditional.isdisjoint(entry.atoms()) and self.unknown.isdisjoint(entry.atoms())
                plain = self.plain.issuperset((*e.atoms(), *n.atoms()))
                self.found.append(Access(let, entry, size, conditional, plain))

    def inner(self, block: anf.Block, condition: Atom | None = None, holds: bool = True) -> None:
        """Looks at a block of which nothing is known behind it."""
        mark = self.known.mark()
        if condition is not None:
            self.known.learn(condition, holds)
        self.block(block)
        self.known.undo(mark)

    def block(self, block: anf.Block) -> None:
        for let in block.lets:
            self.let(let)

    def let(self, let: anf.Let) -> None:
        known, op = self.known, let.op
        self.makers.update({v: let for v in let.vars if v.type == BOOL})
        match op:
            case Prim():
                known.define(let.vars[0], op)
                self.rely(let.vars[0], op.args)
            case anf.IndexExpr(size):
                self.rely(let.vars[0], size.atoms())
                known.opened[let.vars[0]] = known.number(size)
            case Assert():
                self.check(op, let)
            case anf.Read(array, index):
                self.inside(let, index, array_type(array).shape)
                if let.vars[0].type == I64:
                    if array in self.elements:
                        self.element(let.vars[0], self.elements[array], index)
                    else:
                        self.unknown.add(let.vars[0])
            case anf.Update(array, index):
                self.inside(let, index, array_type(array).shape)
            case anf.View(array, axes, shape, index):
                mark = known.mark()
                for axis, size in zip(axes, shape, strict=True):
                    self.between(axis, (poly(0),), (size,))
                self.inside(let, index, array_type(array).shape)
                known.undo(mark)
                if array in self.elements:
                    own = tuple([anf.Axis(a, (poly(0),), (size,)) for a, size in zip(axes, shape, strict=True)])
                    read = anf.Let((anf.fresh("e", I64),), anf.Read(array, index))
                    self.elements[let.vars[0]] = _Elements(own, (read,), read.vars[0])
            case anf.Copy(array) if array in self.elements:
                self.elements[let.vars[0]] = self.elements[array]
            case anf.Comp(axes, body, destinations):
                mark = known.mark()
                for a in axes:
                    self.between(a.var, a.lows, a.highs)
                self.block(body)
                for d in destinations:
                    self.inside(let, d.index, d.shape)
                self.store(op, let)
                known.undo(mark)
            case anf.For(index, low, high):
                inside = within_iteration(op, known.ranges, known.opened)
                behind = behind_loop(let.vars, op, known.extent(low, high), known.ranges, known.opened)
                mark = known.mark()
                self.between(index, (low,), (high,))
                known.counts(inside)
                self.block(op.body)
                known.undo(mark)
                self.carried.update(let.vars)
                known.counts(behind)
            case anf.While():
                op = with_tests_of_state(op, self.makers)
                inside = within_iteration(op, known.ranges, known.opened)
                kept = kept_between(op, known.ranges, known.opened)
                before = within_condition(op, known.ranges, known.opened)
                mark = known.mark()
                known.counts(before)
                self.block(op.condition)
                known.counts((*inside, *kept))
                self.inner(op.body, op.condition.results[0])
                known.undo(mark)
                self.carried.update(let.vars)
            case anf.If(condition, then, otherwise):
                self.inner(then, condition)
                self.inner(otherwise, condition, False)
                for v, x, y in zip(let.vars, then.results, otherwise.results, strict=True):
                    self.rely(v, (x, y))
                    if v.type == I64:
                        known.define(v, Prim("select", (condition, x, y)))
            case anf.LinalgOp("argsort", (array,)):
                self.positions(let.vars[0], array_type(array).shape[0])
            case anf.Compact(mask):
                size = known.number(array_type(mask).shape[0])
                known.ranges.facts.narrow(let.vars[0], (poly(0),), (size + 1,))
                self.positions(let.vars[1], size)
            case _:
                pass
        if not isinstance(op, Prim | anf.IndexExpr | Assert | anf.Read | anf.If | anf.Compact):
            self.unknown.update(v for v in let.vars if v.type == I64)
        self.sizes(let.vars)

    def sizes(self, vars: Sequence[Var]) -> None:
        """Notes that the sizes of arrays that there are are no negative numbers."""
        for v in vars:
            for size in v.type.shape if isinstance(v.type, anf.Array) else ():
                n = self.known.number(size)
                if n.atom is not None:
                    self.known.ranges.facts.size(n.atom)
                    self.plain.add(n.atom)
                elif n.constant is None:
                    self.known.ranges.nonnegative[n] = None

    def between(self, v: Var, lows: Sequence[Size], highs: Sequence[Size]) -> None:
        if not any(self.carried.intersection(p.atoms()) for p in (*lows, *highs)):
            self.plain.add(v)
        self.known.between(v, lows, highs)

    def check(self, op: Assert, let: anf.Let) -> None:
        """Learns what a check certifies; a number that it certifies is the number that it guards."""
        known = self.known
        for guarded, v in zip(op.guarded, let.vars, strict=True):
            if v.type == I64:
                known.opened[v] = known.of(guarded)
                if guarded in self.carried:
                    self.carried.add(v)
            elif guarded in self.elements:
                assert isinstance(guarded, Var)
                self.elements[v] = self.elements[guarded]
        known.learn(op.condition)
        if op.code == INDEX and known.undecided(op.condition, True):
            self.conditional.update(let.vars)

    def rely(self, v: Var, used: Iterable[Atom]) -> None:
        """Notes that what is made of something that is carried, conditional or unknown is so itself."""
        atoms = set(used)
        for marked in (self.carried, self.conditional, self.unknown):
            if not marked.isdisjoint(atoms):
                marked.add(v)

    def positions(self, array: Var, size: Size) -> None:
        """Notes that the elements of an array are positions below a size."""
        self.elements[array] = _Elements((), size=size)

    def store(self, op: anf.Comp, let: anf.Let) -> None:
        """Notes what makes the i64s that a comprehension stores, one at each of its points."""
        for v, value, d in zip(let.vars, op.body.results, op.destinations, strict=True):
            if value.type != I64 or not isinstance(d, anf.Reduce) or d.monoid != "set" or d.into or d.after is not None:
                continue
            axes = {a.var: a for a in op.axes}
            index = [axes.pop(e.atom) for e in d.index if e.atom in axes]
            if len(index) == len(d.shape):
                self.elements[v] = _Elements((*index, *axes.values()), op.body.lets, value)

    def element(self, v: Var, elements: _Elements, index: Sequence[Size]) -> None:
        """Learns of an element what is known where it is made, with other names."""
        known = self.known
        if elements.size is not None:
            known.ranges.facts.narrow(v, (poly(0),), (elements.size,))
        if elements.value is None or self.depth == MADE:
            return
        renaming, found = Renaming({}, renew=True), len(self.found)
        self.depth += 1
        for axis, entry in zip(elements.axes, index, strict=False):
            known.opened[renaming.bind(axis.var)] = known.number(entry)
        for axis in elements.axes[len(index) :]:
            renaming.bind(axis.var)
        for axis in elements.axes[: len(index)]:
            here = renaming.size(poly(axis.var))
            for low in axis.lows:
                known.fact(known.number(here - renaming.size(low)))
            for high in axis.highs:
                known.fact(known.number(renaming.size(high) - 1 - here))
        for let in elements.lets:
            if isinstance(let.op, Prim | anf.IndexExpr | anf.Read | Assert):
                self.let(renaming.let(let))
            else:
                for w in let.vars:
                    renaming.bind(w)
        self.depth -= 1
        del self.found[found:]
        value = renaming.atom(elements.value)
        known.opened[v] = known.of(value)
        self.rely(v, (value,))
