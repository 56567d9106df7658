"""Comparisons of indices that the bounds of the axes and loops around decide.

The check of an index that a function is given is proven where the function has been inlined: `i < n` at a point of an
axis that ends at n. What is left reads by the axis itself, so it can be fused, distributed and differentiated as such.

In an arm of a branch more is known: `x[i - 1]` is in range where `i >= 1` was asked. A comparison that follows from the
condition becomes the condition. The check stays, so what it certifies stays in the arm, whatever passes move; but
nothing is computed for it, and no code is left of it.

The least and the greatest of two indices, and remainders, are bounded too: `clip(i - 1, 0, n - 1)` and `(i + 1) % n`
are in range. Which one it is may be known, and a remainder of what is a few lengths off is no division. So are the
numbers by which loops count, and a `while` that counts is a `for` (`counted_loops.py`).

So the count of `if x[i] > 0.0 { out[count] = x[i]; count += 1 }` needs no check, and the derivative of either form of a
loop saves the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dlang.inequalities import GREATEST
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_functions, rebuild, with_body, with_lets, with_op
from dlang.ir.types import BOOL, I64
from dlang.ops.primitives import OPPOSITE, SWAPPED
from dlang.optimize.counted_loops import counted, implied, settled, within_condition, within_iteration
from dlang.polynomials import Poly

MOST = 3  # lengths that a remainder is moved by, in place of a division

Bounded = tuple[anf.Var, anf.Size | None, anf.Size | None]  # a number, what it is not below, and what it is below
Ends = tuple[list[anf.Size], list[anf.Size]]  # what a number is not below, and what it is not above


def remove_index_checks(program: anf.Program) -> anf.Program:
    """The program without comparisons of which the outcome is known."""
    return map_functions(program, _function)


def _function(function: anf.Function) -> anf.Function:
    known = Knowledge()
    known.note_sizes(p.type for p in function.params)
    return with_body(function, _Walk().block(function.body, known))


@dataclass(frozen=True, slots=True)
class _Arm:
    """An arm of a branch: its condition, and whether that holds there; between which ends numbers lie."""

    condition: anf.Atom
    value: bool
    ends: Sequence[Bounded]


class _Walk:
    def __init__(self) -> None:
        self.renaming = Renaming({})
        self.sizes: dict[anf.Var, anf.Size] = {}  # the i64 variables that are names of polynomials
        self.ends: dict[anf.Var, Ends] = {}  # of what is the least or the greatest of two
        self.prims: dict[anf.Atom, anf.Prim] = {}  # what selects and orders i64s
        self.lengths: dict[anf.Var, anf.Size] = {}  # i64 variables that are a difference, or 0 where that is negative
        self.tests: dict[anf.Var, tuple[anf.Prim | anf.If, int]] = {}  # what gives truth values
        self.nonzero: set[anf.Atom] = set()  # numbers that were checked not to be 0
        self.arms: list[_Arm] = []  # those around
        self.in_arms: dict[anf.Var, anf.Size] = {}  # names of polynomials that are exact because of the arms around

    def block(self, block: anf.Block, known: Knowledge) -> anf.Block:
        known = known.copy()
        lets: list[anf.Let] = []
        pending = list(reversed(block.lets))
        while pending:
            let = pending.pop()
            if isinstance(let.op, anf.For | anf.While) and (simpler := counted(let, let.op, known, self.sizes)):
                pending += reversed(simpler)
                continue
            outcome = self.outcome(let.op, known)
            if outcome is not None:
                self.renaming.env[let.vars[0]] = anf.Lit(outcome, "bool")
                continue
            if self.arms and (same := self.same_as_condition(let, known, lets)) is not None:
                self.renaming.env[let.vars[0]] = same
                continue
            if isinstance(let.op, anf.Prim | anf.If):
                self.tests.update((v, (let.op, k)) for k, v in enumerate(let.vars) if v.type == BOOL)
            if self.chosen(let, lets, known):
                continue
            arithmetic = self.without_distances(self.arithmetic(let.op, known))
            match arithmetic:
                case anf.IndexExpr(size) if (value := size.substitute(self.sizes.get).constant) is not None:
                    self.is_same(let, anf.Lit(int(value), "i64"))
                    continue
                case anf.Prim("lt" | "select", _):
                    self.prims[let.vars[0]] = arithmetic
                case anf.IndexExpr(size):
                    self.sizes[let.vars[0]] = size.substitute(self.sizes.get)
                case anf.Prim("floordiv", (x, anf.Lit(divisor))) if x.type == I64 and int(divisor) > 0:
                    known.facts.floors[let.vars[0]] = self.polynomial(x), anf.poly(int(divisor))
                case anf.Assert(condition, guarded=guarded):
                    for v, s in zip(let.vars, guarded, strict=True):
                        if v.type == I64:
                            self.sizes[v] = self.polynomial(s)
                            test = self.tests.get(condition) if isinstance(condition, anf.Var) else None
                            if test is not None and test[0] == anf.Prim("ne", (s, anf.Lit(0, "i64"))):
                                self.nonzero.add(v)
                case _:
                    pass
            op = self.op(arithmetic, known)
            vars = tuple([self.renaming.bind(v) for v in let.vars])
            known.note_named_sizes(v.type for v in vars)
            lets.append(with_op(let, vars, op))
        return with_lets(block, lets, [self.renaming.atom(a) for a in block.results])

    def op(self, op: anf.Op, known: Knowledge) -> anf.Op:
        inside = before = known
        condition: anf.Block | None = None
        if isinstance(op, anf.For | anf.While):
            self.renaming.env.update({p: anf.Lit(value, "bool") for p, value in settled(op).items()})
        match op:
            case anf.Comp():
                inside = known.within([self.opened(axis) for axis in op.axes])
            case anf.For():
                inside = known.within([self.opened(anf.Axis(op.index, (op.low,), (op.high,)))])
                inside = _narrowed(inside, within_iteration(op, known, self.sizes))
            case anf.While():
                inside = _narrowed(known, within_iteration(op, known, self.sizes))
                condition, before = op.condition, _narrowed(known, within_condition(op, known, self.sizes))
            case _:
                pass
        r = self.renaming

        def block(b: anf.Block) -> anf.Block:
            if isinstance(op, anf.If):
                self.arms.append(self.arm(op.condition, b is op.then, known))
                made = self.block(b, inside)
                self.arms.pop()
                return made
            return self.block(b, before if b is condition else inside)

        return rebuild(op, atom=r.atom, size=r.size, block=block, bind=r.bind)

    def opened(self, axis: anf.Axis) -> anf.Axis:
        """An axis with bounds that name no other polynomial."""
        lows, highs = (tuple([end.substitute(self.sizes.get) for end in ends]) for ends in (axis.lows, axis.highs))
        return anf.Axis(axis.var, lows, highs)

    def arithmetic(self, op: anf.Op, known: Knowledge) -> anf.Op:
        """An operation, or as the polynomial that it is, where that is known not to wrap."""
        match op:
            case anf.Prim("add" | "sub" | "mul" as name, (x, y)) if x.type == I64:
                a, b = self.polynomial(x), self.polynomial(y)
                size = _computed(name, a, b)
                if known.exact(size):
                    return anf.IndexExpr(size)
        return op

    def polynomial(self, atom: anf.Atom) -> anf.Size:
        return anf.poly(atom).substitute(self.sizes.get)

    # ---- arms of branches --------------------------------------------------------------------------------------------
    def arm(self, condition: anf.Atom, value: bool, known: Knowledge) -> _Arm:
        """Gathers what is known in an arm of a branch."""
        holds = implied(condition, value, self.tests)
        ends = [end for test, true in holds.items() for end in self.bounds_implied(test, true, known)]
        return _Arm(self.renaming.atom(condition), value, ends)

    def bounds_implied(self, test: anf.Atom, value: bool, known: Knowledge) -> Iterator[Bounded]:
        """Yields the bounds of numbers that the outcome of a comparison implies."""
        op, _ = self.tests.get(test, (None, 0)) if isinstance(test, anf.Var) else (None, 0)
        if not isinstance(op, anf.Prim) or op.args[0].type != I64:
            return
        name = op.name if value else OPPOSITE.get(op.name, "")
        if name not in OPPOSITE:
            return
        x, y = map(self.polynomial, op.args)
        match name:
            case "eq":
                gaps = [x - y, y - x]
            case "ne":
                gaps = [gap - 1 for gap in (x - y, y - x) if known.at_least_zero(gap)]
            case _:
                gaps = [(y - x if name in ("lt", "le") else x - y) - (1 if name in ("lt", "gt") else 0)]
        for gap in gaps:
            yield from _bounded(gap, known)

    def same_as_condition(self, let: anf.Let, known: Knowledge, lets: list[anf.Let]) -> anf.Atom | None:
        """The condition of an arm, where a comparison holds because of the conditions around: of the outermost, so that
        what is compared in several arms stays the same there.
        """
        match let.op:
            case anf.Prim("add" | "sub" | "mul" | "lt" | "le" | "gt" | "ge" as name, (x, y)) if x.type == I64:
                inside = known
                a, b = self.in_arm(x), self.in_arm(y)
                for arm in self.arms:
                    inside = _narrowed(inside, arm.ends)
                    if name in SWAPPED and arm.ends and _outcome(name, a, b, inside) is True:
                        return self.condition(arm, lets, let)
                if name not in SWAPPED and inside.exact(size := _computed(name, a, b)):
                    self.in_arms[let.vars[0]] = size
        return None

    def condition(self, arm: _Arm, lets: list[anf.Let], let: anf.Let) -> anf.Atom:
        """Gives what holds in an arm: its condition, or the opposite."""
        if arm.value:
            return arm.condition
        opposite = anf.fresh("otherwise", BOOL)
        lets.append(anf.Let((opposite,), anf.Prim("not", (arm.condition,)), let.span))
        return opposite

    def in_arm(self, atom: anf.Atom) -> anf.Size:
        """The polynomial that a number is in the arms around."""
        return anf.poly(atom).substitute(lambda v: self.in_arms.get(v) or self.sizes.get(v))

    def is_length(self, atom: anf.Atom, length: anf.Size, known: Knowledge) -> bool:
        """Says whether a number is known to be positive, or is a size that was checked not to be 0."""
        if not self.is_small(length, known):
            return False
        return known.positive(length) or (atom in self.nonzero and known.at_least_zero(length))

    # ---- the least, the greatest, remainders -------------------------------------------------------------------------
    def chosen(self, let: anf.Let, lets: list[anf.Let], known: Knowledge) -> bool:
        """Replaces a let by a value that it equals and returns true; else notes the bounds of its value."""
        match let.op:
            case anf.Prim("maximum" | "minimum" as name, (x, y)) if x.type == I64:
                a, b = self.polynomial(x), self.polynomial(y)
                if known.at_least_zero(a - b):
                    return self.is_same(let, x if name == "maximum" else y)
                if known.at_least_zero(b - a):
                    return self.is_same(let, y if name == "maximum" else x)
                self.note(let.vars[0], self.ends_of_two(name, x, y, known), known)
            case anf.Prim("select", (condition, x, y)) if x.type == I64 and isinstance(
                outcome := self.renaming.atom(condition), anf.Lit
            ):
                return self.is_same(let, x if outcome.value else y)
            case anf.Prim("select", (ordered, there, anf.Lit(0))) if there.type == I64:
                return self.distance(let, ordered, there, known)
            case anf.Prim("bit_and", (_, anf.Lit(mask, "i64")) | (anf.Lit(mask, "i64"), _)) if int(mask) >= 0:
                self.note(let.vars[0], ([anf.ZERO], [anf.poly(int(mask))]), known)
            case anf.Prim("mod", (x, y)) if x.type == I64 and self.is_length(y, m := self.polynomial(y), known):
                a = self.polynomial(x)
                if not self.is_small(a, known):
                    self.note(let.vars[0], ([anf.ZERO], [m - 1]), known)
                    return False
                low, high = known.at_least_zero(a), known.at_least_zero(m - 1 - a)
                if low and high:
                    return self.is_same(let, x)
                self.note(let.vars[0], ([anf.ZERO], [m - 1]), known)
                if low and known.at_least_zero(2 * m - 1 - a):
                    self.moved(let, "lt", y, a - m, lets)
                    return True
                if high and known.at_least_zero(a + m):
                    self.moved(let, "ge", anf.Lit(0, "i64"), a + m, lets)
                    return True
                up = next((k for k in range(MOST) if known.at_least_zero(a + k * m)), None)
                down = next((k for k in range(MOST + 1) if known.positive((k + 1) * m - a)), None)
                if up is not None and down is not None and up + down <= MOST:
                    self.moved_often(let, m, up, down, lets)
                    return True
        return False

    def distance(self, let: anf.Let, up: anf.Atom, there: anf.Atom, known: Knowledge) -> bool:
        """Replaces a let by a difference if it is the distance from one integer up to another; returns true if it did.

        Where the second may be below the first, its loops are those up to the difference all the same.
        """
        match self.prims.get(there):
            case anf.Prim("select", (_, anf.Lit(value), apart)) if value == GREATEST:
                there = apart
        ordered = self.prims.get(up)
        if not isinstance(ordered, anf.Prim) or ordered.name != "lt" or ordered.args[0].type != I64:
            return False
        low, high = map(self.polynomial, ordered.args)
        length = self.polynomial(there)
        if length != high - low or length.atom is there:
            return False
        if known.at_least_zero(length):
            return self.is_same(let, there)
        self.lengths[let.vars[0]] = length
        return False

    def without_distances(self, op: anf.Op) -> anf.Op:
        """A loop or a comprehension over a difference in place of how many integers there are between two."""
        if not self.lengths:
            return op
        match op:
            case anf.For(low=low, high=high) if low == anf.ZERO and high.atom in self.lengths:
                return replace(op, high=self.lengths[high.atom])
            case anf.Comp():
                fixed = {v for d in op.destinations for size in d.shape for v in size.atoms()}
                axes = [self.without_distance(axis, fixed) for axis in op.axes]
                return replace(op, axes=tuple(axes))
            case _:
                return op

    def without_distance(self, axis: anf.Axis, fixed: set[anf.Var]) -> anf.Axis:
        high = axis.highs[0].atom
        if axis.lows != (anf.ZERO,) or len(axis.highs) > 1 or high is None or high in fixed or high not in self.lengths:
            return axis
        return anf.Axis(axis.var, axis.lows, (self.lengths[high],))

    def is_same(self, let: anf.Let, atom: anf.Atom) -> bool:
        self.renaming.env[let.vars[0]] = self.renaming.atom(atom)
        self.sizes[let.vars[0]] = self.polynomial(atom)
        return True

    def moved(self, let: anf.Let, order: str, end: anf.Atom, otherwise: anf.Size, lets: list[anf.Let]) -> None:
        """A remainder as the number itself, or that moved by one length."""
        assert isinstance(let.op, anf.Prim)
        x, r = self.renaming.atom(let.op.args[0]), self.renaming
        inside, other = anf.fresh("inside", anf.Scalar("bool")), anf.fresh("moved", I64)
        lets.append(anf.Let((inside,), anf.Prim(order, (x, r.atom(end))), let.span))
        lets.append(anf.Let((other,), anf.IndexExpr(r.size(otherwise)), let.span))
        lets.append(anf.Let((r.bind(let.vars[0]),), anf.Prim("select", (inside, x, other)), let.span))

    def moved_often(self, let: anf.Let, length: anf.Size, up: int, down: int, lets: list[anf.Let]) -> None:
        """A remainder as the number moved by lengths, as long as it is below 0 or not below one length."""
        assert isinstance(let.op, anf.Prim)
        r = self.renaming
        x, end = (r.atom(a) for a in let.op.args)
        for step in range(up + down):
            inside, other = anf.fresh("inside", anf.Scalar("bool")), anf.fresh("moved", I64)
            order = anf.Prim("ge", (x, anf.Lit(0, "i64"))) if step < up else anf.Prim("lt", (x, end))
            lets.append(anf.Let((inside,), order, let.span))
            lets.append(
                anf.Let((other,), anf.IndexExpr(anf.poly(x) + r.size(length if step < up else -length)), let.span)
            )
            chosen = anf.fresh("moved", I64) if step < up + down - 1 else r.bind(let.vars[0])
            lets.append(anf.Let((chosen,), anf.Prim("select", (inside, x, other)), let.span))
            x = chosen

    def is_small(self, size: anf.Size, known: Knowledge) -> bool:
        facts = known.facts
        return all(v in facts.bounds or v in facts.sizes for v in size.atoms())

    def note(self, var: anf.Var, ends: Ends, known: Knowledge) -> None:
        self.ends[var] = ends
        lows, highs = ends
        if lows and highs and all(self.is_small(e, known) for e in (*lows, *highs)):
            known.facts.between(var, tuple(lows), tuple([h + 1 for h in highs]))

    def ends_of_two(self, name: str, x: anf.Atom, y: anf.Atom, known: Knowledge) -> Ends:
        """The greatest is not below either; what neither is above, it is not above. The least, the reverse."""
        sign, end = (1, 0) if name == "maximum" else (-1, 1)
        near, far = [], [anf.ZERO]
        for atom in (x, y):
            p = self.polynomial(atom)
            near += [p, *self.known_ends(atom)[end]]
            far += [p, *self.known_ends(atom)[1 - end]]
            far += [e for v in p.atoms() if v in known.facts.bounds for e in known.facts.bounds[v][1 - end]]

        def beyond(e: anf.Size, atom: anf.Atom) -> bool:
            own = (self.polynomial(atom), *self.known_ends(atom)[1 - end])
            return any(known.at_least_zero(sign * (e - p)) for p in own)

        near = [e for e in near if self.is_small(e, known)]
        past = [e for e in far if self.is_small(e, known) and beyond(e, x) and beyond(e, y)]
        return (near, past) if name == "maximum" else (past, near)

    def known_ends(self, atom: anf.Atom) -> Ends:
        return self.ends.get(atom, ([], [])) if isinstance(atom, anf.Var) else ([], [])

    def outcome(self, op: anf.Op, known: Knowledge) -> bool | None:
        """Tells whether a comparison holds; None if that is not known, or the operation is another one."""
        match op:
            case anf.Prim("eq" | "ne" as name, (x, y)) if x.type == I64:
                gap = self.polynomial(y) - self.polynomial(x)
                if known.positive(gap) or known.positive(Poly({}) - gap):
                    return name == "ne"
            case anf.Prim(name, (x, y)) if name in SWAPPED and x.type == I64:
                return _outcome(name, self.polynomial(x), self.polynomial(y), known)
        return None


def _computed(name: str, x: anf.Size, y: anf.Size) -> anf.Size:
    """A sum, a difference or a product."""
    return x + y if name == "add" else x - y if name == "sub" else x * y


def _outcome(name: str, x: anf.Size, y: anf.Size, known: Knowledge) -> bool | None:
    """Says whether two numbers are in an order; None if that is not known."""
    least = y - x if name in ("lt", "le") else x - y
    strict = 1 if name in ("lt", "gt") else 0
    if known.at_least_zero(least - strict):
        return True
    if known.at_least_zero(Poly({}) - least - (1 - strict)):
        return False
    return None


def _bounded(gap: anf.Size, known: Knowledge) -> Iterator[Bounded]:
    """The ends of a variable where a polynomial is at least 0: of the last one that is no size, if there is one."""
    for v in sorted(dict.fromkeys(gap.atoms()), key=lambda v: (v in known.facts.sizes, -v.serial)):
        rest = gap.without(v)
        if (part := gap - rest) in (anf.poly(v), -anf.poly(v)):
            yield (v, -rest, None) if part == anf.poly(v) else (v, None, rest + 1)
            return


def _narrowed(known: Knowledge, ends: Sequence[Bounded]) -> Knowledge:
    """Adds to what is known that numbers lie between ends."""
    inside = known.copy()
    for var, low, high in ends:
        inside.facts.narrow(var, () if low is None else (low,), () if high is None else (high,))
    return inside
