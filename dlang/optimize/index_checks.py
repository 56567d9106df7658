"""Comparisons of indices that the bounds of the axes and loops around decide.

The check of an index that a function is given is proven where the function has been inlined: `i < n` at a point of an
axis that ends at n. What is left reads by the axis itself, so it can be fused, distributed and differentiated as such.

In an arm of a branch more is known: `x[i - 1]` is in range where `i >= 1` was asked. A comparison that follows from the
condition becomes the condition. The check stays, so what it certifies stays in the arm, whatever passes move; but
nothing is computed for it, and no code is left of it.

The least and the greatest of two indices, and remainders, are bounded too: `clip(i - 1, 0, n - 1)` and `(i + 1) % n`
are in range. Which one it is may be known, and a remainder of what is a few lengths off is no division. So are the
numbers by which loops count (`ir/loop_states.py`), and a `while` that counts is a `for` (`counted_loops.py`).

What a check certifies is certified no more where the accesses that depend on it are in range by the bounds of axes and
loops alone: `x[1..]` begins at 1.

Indices that a program keeps in an array are the same as those that it writes where they are used, if each is computed
of its place alone (`index_arrays.py`).

So the count of `if x[i] > 0.0 { out[count] = x[i]; count += 1 }` needs no check, and the derivative of either form of a
loop saves the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

from dlang.diagnostics import Span
from dlang.inequalities import GREATEST, SUM
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.loop_states import implied, kept_between, settled, within_condition, within_iteration
from dlang.ir.marks import is_mark
from dlang.ir.rewriting import Rewriter
from dlang.ir.sizes import learn
from dlang.ir.traverse import map_functions, op_blocks, rebuild, type_vars, used_by, with_body
from dlang.ir.types import BOOL, I64
from dlang.ops.primitives import GAPS, OPPOSITE, SWAPPED
from dlang.optimize.counted_loops import counted
from dlang.optimize.independence import accesses, known_inside
from dlang.optimize.index_arrays import IndexArrays
from dlang.polynomials import Poly

TRUE = anf.Lit(True, "bool")
MOST_ARMS = 8  # of conditions that are known at once, beyond which no assertion is one
MOST = 3  # lengths that a remainder is moved by, in place of a division

Bounded = tuple[anf.Var, anf.Size | None, anf.Size | None]  # a number, what it is not below, and what it is below
Ends = tuple[list[anf.Size], list[anf.Size]]  # what a number is not below, and what it is not above


def remove_index_checks(program: anf.Program) -> anf.Program:
    """The program without comparisons of which the outcome is known, and without what checks certify needlessly."""
    return map_functions(map_functions(program, _function), _without_certificates)


def _function(function: anf.Function) -> anf.Function:
    known = Knowledge.of(function)
    return with_body(function, _Prover(known).block(function.body))


# ---- checks that certify what is known -------------------------------------------------------------------------------
def _without_certificates(function: anf.Function) -> anf.Function:
    """A function without what checks certify, where all accesses are in range without that, wherever they stand.

    So `x[1..]` is known to begin at 1, and a loop over slices only adds.
    """
    accesses = _Accesses()
    accesses.block(function.body, Knowledge())
    if not (needless := accesses.certified - accesses.needed):
        return function
    return with_body(function, _Uncertified(needless).block(function.body))


@dataclass(slots=True)
class _Accesses:
    """The accesses of a function that depend on what checks certify.

    certified: the numbers that checks certify. needed: those of them but for which some access may be out of range.
    behind: from which of them other numbers are computed. sizes: the numbers that are polynomials, in what is none.
    """

    certified: set[anf.Var] = field(default_factory=set)
    needed: set[anf.Var] = field(default_factory=set)
    behind: dict[anf.Var, frozenset[anf.Var]] = field(default_factory=dict)
    sizes: dict[anf.Var, anf.Size] = field(default_factory=dict)

    def block(self, block: anf.Block, known: Knowledge) -> None:
        for let in block.lets:
            self.op(let.op, known)
            for size in (v for var in let.vars for v in type_vars(var.type)):  # of an array that is made
                self.needed |= self.of((size,))
            learn(let, self.sizes)
            numbers = [v for v in let.vars if v.type == I64]
            match let.op:
                case anf.Assert() as check if not is_mark(check):
                    behind = self.behind_all(let)
                    self.certified.update(numbers)
                    self.behind.update({v: behind | {v} for v in numbers})
                    self.needed.update([v for v in let.vars if len(numbers) < len(let.vars)])  # it certifies arrays
                case anf.For(init=init) | anf.While(init=init):
                    self.needed |= self.of(init)
                case anf.Comp(body=body):
                    self.needed |= self.of(body.results)
                case anf.Update(value=value):
                    self.needed |= self.of((value,))
                case anf.View():
                    pass
                case op if op.IS.point or isinstance(op, anf.If):
                    if numbers:
                        self.behind.update(dict.fromkeys(numbers, self.behind_all(let)))
                case _:  # what becomes of it there is not followed
                    self.needed |= self.behind_all(let)

    def behind_all(self, let: anf.Let) -> frozenset[anf.Var]:
        """The certified numbers from which all that an operation uses is computed, the results of its blocks too."""
        results = [r for inner in op_blocks(let.op) for r in inner.results]
        return self.of((*used_by(let), *results))

    def of(self, atoms: Iterable[anf.Atom]) -> frozenset[anf.Var]:
        """The certified numbers from which some are computed."""
        return frozenset[anf.Var]().union(
            *[self.behind[a] for a in atoms if isinstance(a, anf.Var) and a in self.behind]
        )

    def op(self, op: anf.Op, known: Knowledge) -> None:
        match op:
            case anf.Comp(axes=axes):
                self.behind.update({a.var: self.of(v for e in (*a.lows, *a.highs) for v in e.atoms()) for a in axes})
            case anf.For(counter, low, high):
                self.behind[counter] = self.of((*low.atoms(), *high.atoms()))
            case _:
                pass
        inner = known_inside(op, known)
        for block in op_blocks(op):
            self.block(block, inner)
        for index, shape, there in accesses(op, inner):
            for entry, size in zip(index, shape, strict=False):
                behind = self.of((*entry.atoms(), *size.atoms()))
                if behind and not there.inside((self.opened(entry),), (self.opened(size),)):
                    self.needed |= behind

    def opened(self, size: anf.Size) -> anf.Size:
        return size.substitute(self.sizes.get)


class _Uncertified(Rewriter):
    """The walk of a function that takes for what they were before the numbers that are certified needlessly.

    A check of what was checked around it goes, if it certifies nothing then. checked: what holds.
    """

    def __init__(self, needless: Set[anf.Var]) -> None:
        super().__init__()
        self.needless = needless
        self.checked: set[anf.Atom] = set()

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Assert(condition, guarded=guarded) as check if not is_mark(check):
                parts = set(self.parts(self.atom(condition)))
                repeated = parts <= self.checked
                self.checked |= parts
                if guarded and self.needless >= set(let.vars):
                    self.env.update({v: self.atom(x) for v, x in zip(let.vars, guarded, strict=True)})
                    if not repeated:
                        self.keep(let, self.op(replace(check, guarded=())), ())
                    return
            case _:
                pass
        self.keep(let, self.op(let.op))

    def parts(self, condition: anf.Atom) -> Iterator[anf.Atom]:
        """Yields what holds where a condition does, itself left out if that says it all."""
        match self.definition(condition):
            case anf.Prim("and", (x, y)):
                yield from (*self.parts(x), *self.parts(y))
            case _ if condition != anf.Lit(True, "bool"):
                yield condition

    def block(self, block: anf.Block) -> anf.Block:
        around = set(self.checked)
        new = super().block(block)
        self.checked = around
        return new


@dataclass(frozen=True, slots=True)
class _Arm:
    """An arm of a branch: its condition, and whether that holds there; between which ends numbers lie."""

    condition: anf.Atom
    value: bool
    ends: Sequence[Bounded]


class _Prover(Rewriter):
    """The walk of a function. known: what holds at the place where it is.

    sizes: the i64 variables that are names of polynomials; in_arms: those that are exact because of the arms around.
    ends: of what is the least or the greatest of two; choices: which two; numbers: those that are known to lie between
    two numbers. arrays: of indices that are computed where they are read. lengths: i64 variables that are a
    difference, or 0 where that is negative. nonzero: numbers that were checked not to be 0.
    """

    def __init__(self, known: Knowledge) -> None:
        super().__init__()
        self.known = known
        self.sizes: dict[anf.Var, anf.Size] = {}
        self.ends: dict[anf.Var, Ends] = {}
        self.choices: dict[anf.Var, tuple[str, anf.Size, anf.Size]] = {}
        self.numbers: set[anf.Var] = set()
        self.arrays = IndexArrays()
        self.lengths: dict[anf.Var, anf.Size] = {}
        self.nonzero: set[anf.Atom] = set()
        self.arms: list[_Arm] = []
        self.in_arms: dict[anf.Var, anf.Size] = {}

    def rule(self, let: anf.Let) -> None:
        op = let.op
        if isinstance(op, anf.For | anf.While) and (simpler := counted(let, op, self.known, self.sizes)):
            for part in simpler:
                self.rule(part)
        elif isinstance(op, anf.Read) and self.atom(op.array) in self.arrays.producers:
            self.read(let, op)
        elif isinstance(outcome := self.outcome(op), bool):
            self.env[let.vars[0]] = anf.Lit(outcome, "bool")
        elif self.arms and (same := self.same_as_condition(let)) is not None:
            self.env[let.vars[0]] = same
        elif outcome is not None and self.known.exact(outcome.without_constant()):
            start, least = outcome.without_constant(), anf.Lit(-int(outcome.terms.get((), 0)), "i64")
            number = start.atom or self.emit(anf.IndexExpr(start), I64, "ends", let.span)
            self.keep(let, anf.Prim("ge", (number, least)))
        elif not (self.chosen(let) or self.sure(let)):
            self.computed(let, self.without_distances(self.arithmetic(let)))

    def read(self, let: anf.Let, op: anf.Read) -> None:
        """Computes an element of an array of indices where it is read."""
        here = self.op(op)
        assert isinstance(here, anf.Read)
        lets, index = self.arrays.element(here.array, here.index)
        for inner in lets:
            self.rule(inner)
        self.is_same(let, index)

    def computed(self, let: anf.Let, op: anf.Op) -> None:
        """Keeps a let, which computes an operation, and notes what is known of its value."""
        match op:
            case anf.IndexExpr(size) if (value := size.substitute(self.sizes.get).constant) is not None:
                self.is_same(let, anf.Lit(int(value), "i64"))
                return
            case anf.IndexExpr(size):
                self.sizes[let.vars[0]] = size.substitute(self.sizes.get)
            case anf.Prim("floordiv", (x, anf.Lit(divisor))) if x.type == I64 and int(divisor) > 0:
                self.known.facts.floors[let.vars[0]] = self.polynomial(x), anf.poly(int(divisor))
                if self.known.at_least_zero(self.polynomial(x)):
                    self.known.facts.size(let.vars[0])
            case anf.Assert(condition, guarded=guarded):
                test = self.definition(condition)
                for v, s in zip(let.vars, guarded, strict=True):
                    if v.type == I64:
                        self.sizes[v] = self.polynomial(s)
                        if test == anf.Prim("ne", (self.atom(s), anf.Lit(0, "i64"))):
                            self.nonzero.add(v)
            case _:
                pass
        self.keep(let, self.op(op))
        self.arrays.note(self.lets[-1])
        if isinstance(op := self.lets[-1].op, anf.If):
            for var, x, y in zip(self.lets[-1].vars, op.then.results, op.otherwise.results, strict=True):
                if var.type == I64:
                    self.note_choice(var, op.condition, x, y)
        if isinstance(op, anf.Assert) and not op.guarded and len(self.arms) < MOST_ARMS:
            self.arms.append(self.arm(op.condition, True))

    def sure(self, let: anf.Let) -> bool:
        """Leaves out a check of what holds, and what is true as all that it says is; returns true if it did."""
        match let.op:
            case anf.Prim("and", args):
                return all(self.atom(x) == TRUE for x in args) and self.is_same(let, TRUE)
            case anf.Assert(condition, guarded=guarded) if self.atom(condition) == TRUE:
                if not all(isinstance(v.type, anf.Scalar) for v in let.vars):
                    return False
                for v, x in zip(let.vars, guarded, strict=True):
                    self.same(v, x)
                return True
            case _:
                return False

    def write(self, let: anf.Let) -> None:
        super().write(let)
        self.known.note_made(let.vars)

    def op(self, op: anf.Op) -> anf.Op:
        """An operation, rewritten with what is known in its blocks."""
        known = inside = before = self.known
        condition: anf.Block | None = None
        if isinstance(op, anf.For | anf.While):
            self.env.update({p: anf.Lit(value, "bool") for p, value in settled(op).items()})
        match op:
            case anf.Comp():
                inside = known.within([self.opened(axis) for axis in op.axes])
            case anf.For():
                inside = known.within([self.opened(anf.Axis(op.index, (op.low,), (op.high,)))])
                inside = _narrowed(inside, within_iteration(op, known, self.sizes))
            case anf.While():
                inside = _narrowed(known, within_iteration(op, known, self.sizes))
                inside = _narrowed(inside, kept_between(op, known, self.sizes))
                condition, before = op.condition, _narrowed(known, within_condition(op, known, self.sizes))
            case _:
                pass

        def block(b: anf.Block) -> anf.Block:
            around = len(self.arms)
            if isinstance(op, anf.If):
                self.arms.append(self.arm(op.condition, b is op.then))
            self.known = (before if b is condition else inside).copy()
            checked = self.block(b)
            self.known = known
            del self.arms[around:]
            return checked

        return rebuild(op, atom=self.atom, size=self.size, block=block, bind=self.bind)

    def opened(self, axis: anf.Axis) -> anf.Axis:
        """An axis with bounds that name no other polynomial."""
        lows, highs = (tuple([end.substitute(self.sizes.get) for end in ends]) for ends in (axis.lows, axis.highs))
        return anf.Axis(axis.var, lows, highs)

    def arithmetic(self, let: anf.Let) -> anf.Op:
        """An operation, or as the polynomial that it is, where that is known not to wrap.

        Where a choice of two is known by numbers alone, that is for proofs: an adjoint has no use for a polynomial.
        """
        match let.op:
            case anf.Prim("add" | "sub" | "mul" as name, (x, y)) if x.type == I64:
                a, b = self.polynomial(x), self.polynomial(y)
                size = _computed(name, a, b)
                if self.known.exact(size):
                    if size.mentions(self.numbers):
                        self.sizes[let.vars[0]] = size
                        return let.op
                    return anf.IndexExpr(size)
        return let.op

    def polynomial(self, atom: anf.Atom) -> anf.Size:
        return anf.poly(atom).substitute(self.sizes.get)

    # ---- arms of branches --------------------------------------------------------------------------------------------
    def arm(self, condition: anf.Atom, value: bool) -> _Arm:
        """Gathers what is known in an arm of a branch."""
        holds = implied(condition, value, self.defined)
        ends = [end for test, true in holds.items() for end in self.bounds_implied(test, true)]
        return _Arm(self.atom(condition), value, ends)

    def bounds_implied(self, test: anf.Atom, value: bool) -> Iterator[Bounded]:
        """Yields the bounds of numbers that the outcome of a comparison implies."""
        op = self.definition(test)
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
                gaps = [gap - 1 for gap in (x - y, y - x) if self.known.at_least_zero(gap)]
            case _:
                gaps = [_gap(name, x, y)]
        for gap in gaps:
            yield from _bounded(gap, self.known)

    def same_as_condition(self, let: anf.Let) -> anf.Atom | None:
        """The condition of an arm, where a comparison holds because of the conditions around: of the outermost, so that
        what is compared in several arms stays the same there.
        """
        match let.op:
            case anf.Prim("add" | "sub" | "mul" | "lt" | "le" | "gt" | "ge" as name, (x, y)) if x.type == I64:
                inside = self.known
                a, b = self.in_arm(x), self.in_arm(y)
                for arm in self.arms:
                    inside = _narrowed(inside, arm.ends)
                    if name in SWAPPED and arm.ends and self.holds(_gap(name, a, b), inside) is True:
                        return self.condition(arm, let.span)
                if name not in SWAPPED and inside.exact(size := _computed(name, a, b)):
                    self.in_arms[let.vars[0]] = size
        return None

    def condition(self, arm: _Arm, span: Span | None) -> anf.Atom:
        """Gives what holds in an arm: its condition, or the opposite."""
        return arm.condition if arm.value else self.emit(anf.Prim("not", (arm.condition,)), BOOL, "otherwise", span)

    def in_arm(self, atom: anf.Atom) -> anf.Size:
        """The polynomial that a number is in the arms around."""
        return anf.poly(atom).substitute(lambda v: self.in_arms.get(v) or self.sizes.get(v))

    def is_length(self, atom: anf.Atom, length: anf.Size) -> bool:
        """Says whether a number is known to be positive, or is a size that was checked not to be 0."""
        if not self.is_small(length):
            return False
        return self.known.positive(length) or (atom in self.nonzero and self.known.at_least_zero(length))

    # ---- the least, the greatest, remainders -------------------------------------------------------------------------
    def chosen(self, let: anf.Let) -> bool:
        """Replaces a let by a value that it equals and returns true; else notes the bounds of its value."""
        known = self.known
        match let.op:
            case anf.Prim("maximum" | "minimum" as name, (x, y)) if x.type == I64:
                a, b = self.polynomial(x), self.polynomial(y)
                if known.at_least_zero(a - b):
                    return self.is_same(let, x if name == "maximum" else y)
                if known.at_least_zero(b - a):
                    return self.is_same(let, y if name == "maximum" else x)
                self.note(let.vars[0], self.ends_of_two(name, x, y))
                self.note_numbers(let.vars[0], name, (a, b))
                self.choices[let.vars[0]] = name, a, b
            case anf.Prim("select", (condition, x, y)) if x.type == I64 and isinstance(
                outcome := self.atom(condition), anf.Lit
            ):
                return self.is_same(let, x if outcome.value else y)
            case anf.Prim("select", (condition, x, y)) if x.type == I64:
                if y == anf.Lit(0, "i64") and self.distance(let, condition, x):
                    return True
                self.note_choice(let.vars[0], condition, x, y)
            case anf.Prim("bit_and", (_, anf.Lit(mask, "i64")) | (anf.Lit(mask, "i64"), _)) if int(mask) >= 0:
                self.note(let.vars[0], ([anf.ZERO], [anf.poly(int(mask))]))
            case anf.Prim("mod", (x, y)) if x.type == I64 and self.is_length(y, m := self.polynomial(y)):
                a = self.polynomial(x)
                if not self.is_small(a):
                    self.note(let.vars[0], ([anf.ZERO], [m - 1]))
                    return False
                low, high = known.at_least_zero(a), known.at_least_zero(m - 1 - a)
                if low and high:
                    return self.is_same(let, x)
                self.note(let.vars[0], ([anf.ZERO], [m - 1]))
                if low and known.at_least_zero(2 * m - 1 - a):
                    self.moved(let, "lt", y, a - m)
                    return True
                if high and known.at_least_zero(a + m):
                    self.moved(let, "ge", anf.Lit(0, "i64"), a + m)
                    return True
                up = next((k for k in range(MOST) if known.at_least_zero(a + k * m)), None)
                down = next((k for k in range(MOST + 1) if known.positive((k + 1) * m - a)), None)
                if up is not None and down is not None and up + down <= MOST:
                    self.moved_often(let, m, up, down)
                    return True
        return False

    def distance(self, let: anf.Let, up: anf.Atom, there: anf.Atom) -> bool:
        """Replaces a let by a difference if it is the distance from one integer up to another; returns true if it did.

        Where the second may be below the first, its loops are those up to the difference all the same.
        """
        match self.definition(there):
            case anf.Prim("select", (_, anf.Lit(value), apart)) if value == GREATEST:
                there = apart
        ordered = self.definition(up)
        if not isinstance(ordered, anf.Prim) or ordered.name != "lt" or ordered.args[0].type != I64:
            return False
        low, high = map(self.polynomial, ordered.args)
        length = self.polynomial(there)
        if length != high - low or length.atom is there:
            return False
        if self.known.at_least_zero(length):
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
        self.same(let.vars[0], atom)
        return True

    def same(self, var: anf.Var, atom: anf.Atom) -> None:
        """Replaces a variable by what it is the same as."""
        self.env[var] = self.atom(atom)
        if var.type == I64:
            self.sizes[var] = self.polynomial(atom)

    def moved(self, let: anf.Let, order: str, end: anf.Atom, otherwise: anf.Size) -> None:
        """A remainder as the number itself, or that moved by one length."""
        assert isinstance(let.op, anf.Prim)
        x = self.atom(let.op.args[0])
        inside = self.emit(anf.Prim(order, (x, self.atom(end))), BOOL, "inside", let.span)
        other = self.emit(anf.IndexExpr(self.size(otherwise)), I64, "moved", let.span)
        self.keep(let, anf.Prim("select", (inside, x, other)))

    def moved_often(self, let: anf.Let, length: anf.Size, up: int, down: int) -> None:
        """A remainder as the number moved by lengths, as long as it is below 0 or not below one length."""
        assert isinstance(let.op, anf.Prim)
        x, end = map(self.atom, let.op.args)
        length = self.size(length)
        for step in range(up + down):
            order = anf.Prim("ge", (x, anf.Lit(0, "i64"))) if step < up else anf.Prim("lt", (x, end))
            inside = self.emit(order, BOOL, "inside", let.span)
            moved = anf.poly(x) + (length if step < up else -length)
            other = self.emit(anf.IndexExpr(moved), I64, "moved", let.span)
            chosen = anf.Prim("select", (inside, x, other))
            if step == up + down - 1:
                self.keep(let, chosen)
            else:
                x = self.emit(chosen, I64, "moved", let.span)

    def is_small(self, size: anf.Size) -> bool:
        facts = self.known.facts
        return all(v in facts.bounds or v in facts.sizes for v in size.atoms())

    def note(self, var: anf.Var, ends: Ends) -> None:
        self.ends[var] = ends
        lows, highs = ends
        if lows and highs and all(self.is_small(e) for e in (*lows, *highs)):
            self.known.facts.between(var, tuple(lows), tuple([h + 1 for h in highs]))

    def note_numbers(self, var: anf.Var, name: str, two: Sequence[anf.Size]) -> None:
        """Notes between which numbers the least or the greatest of two is, if nothing better is known of it."""
        facts = self.known.facts
        if var not in facts.bounds:
            lows, highs = zip(*map(facts.ends, two), strict=True)
            of_two = max if name == "maximum" else min
            low, high = int(of_two(lows)), int(of_two(highs))
            if low >= -SUM and high <= SUM:
                facts.between(var, (anf.poly(low),), (anf.poly(high + 1),))
                self.numbers.add(var)

    def ends_of_two(self, name: str, x: anf.Atom, y: anf.Atom) -> Ends:
        """The greatest is not below either; what neither is above, it is not above. The least, the reverse."""
        sign, end = (1, 0) if name == "maximum" else (-1, 1)
        near, far = [], [anf.ZERO]
        bounds = self.known.facts.bounds
        for atom in (x, y):
            p = self.polynomial(atom)
            near += [p, *self.known_ends(atom)[end]]
            far += [p, *self.known_ends(atom)[1 - end]]
            far += [e for v in p.atoms() if v in bounds for e in bounds[v][1 - end]]

        def beyond(e: anf.Size, atom: anf.Atom) -> bool:
            values = (self.polynomial(atom), *self.known_ends(atom)[1 - end])
            return any(self.known.at_least_zero(sign * (e - p)) for p in values)

        near = [e for e in near if self.is_small(e)]
        past = [e for e in far if self.is_small(e) and beyond(e, x) and beyond(e, y)]
        return (near, past) if name == "maximum" else (past, near)

    def note_choice(self, var: anf.Var, condition: anf.Atom, x: anf.Atom, y: anf.Atom) -> None:
        """Notes what a number that a condition chooses is not below, and not above: as each is where it is chosen."""
        test = self.atom(condition)
        holds, fails = [_narrowed(self.known, self.arm(test, value).ends) for value in (True, False)]
        cases = (self.polynomial(x), holds), (self.polynomial(y), fails)
        ends = [anf.ZERO]
        for p, known in cases:
            ends.append(p)
            for v in p.atoms():
                ends += [p.substitute({v: end}.get) for side in known.facts.bounds.get(v, ()) for end in side]
        ends = [e for e in dict.fromkeys(ends) if self.is_small(e)]
        lows = [e for e in ends if all(known.at_least_zero(p - e) for p, known in cases)]
        highs = [e for e in ends if all(known.at_least_zero(e - p) for p, known in cases)]
        self.note(var, (self.nearest(lows, 1), self.nearest(highs, -1)))
        if all(p.constant is not None for p, _ in cases):
            self.numbers.add(var)

    def nearest(self, ends: Sequence[anf.Size], sign: int) -> list[anf.Size]:
        """The ends that say something which no other says: the best number, and what is known to be no worse.

        So of a number chosen again and again there are no more ends than of the first. sign: 1 for lower ends.
        """
        numbers = [e for e in ends if e.constant is not None]
        best = max(numbers, key=lambda e: sign * e.terms.get((), 0), default=None)
        near = [] if best is None else [best]
        for e in (e for e in ends if e.constant is None):
            if not any(self.known.at_least_zero((n - e) * sign) for n in near):
                near = [*[n for n in near if n is best or not self.known.at_least_zero((e - n) * sign)], e]
        return near

    def known_ends(self, atom: anf.Atom) -> Ends:
        return self.ends.get(atom, ([], [])) if isinstance(atom, anf.Var) else ([], [])

    def outcome(self, op: anf.Op) -> bool | anf.Size | None:
        """Tells whether a comparison holds, or gives a number, no choice of two, that is at least 0 where it does; None
        if that is not known, or the operation is another one."""
        known = self.known
        match op:
            case anf.Prim("eq" | "ne" as name, (x, y)) if x.type == I64:
                gap = self.polynomial(y) - self.polynomial(x)
                if known.positive(gap) or known.positive(Poly({}) - gap):
                    return name == "ne"
            case anf.Prim(name, (x, y)) if name in SWAPPED and x.type == I64:
                gap = _gap(name, self.polynomial(x), self.polynomial(y))
                held = self.holds(gap, known)
                return held if held != gap else None
        return None

    def holds(self, gap: anf.Size, known: Knowledge) -> bool | anf.Size | None:
        """Tells whether a number is at least 0; else gives another one that is so where it is, in which there is no
        choice of two; None if there are several such conditions.

        The least of two is at least 0 where both are, the greatest where one is.
        """
        if known.at_least_zero(gap):
            return True
        if known.at_least_zero(-gap - 1):
            return False
        choice = max((v for v in gap.atoms() if v in self.choices), key=lambda v: v.serial, default=None)
        if choice is None:
            return gap
        others = gap.without(choice)
        name, *two = self.choices[choice]
        factor = (gap - others).terms.get((choice,))
        if factor is None or gap - others != anf.poly(choice) * anf.poly(int(factor)):
            return None
        both = (name == "minimum") == (factor > 0)
        sides = dict.fromkeys([self.holds(others + x * int(factor), known) for x in two])
        if (not both) in sides:
            return not both
        sides.pop(both, None)
        return both if not sides else next(iter(sides)) if len(sides) == 1 else None


def _computed(name: str, x: anf.Size, y: anf.Size) -> anf.Size:
    """A sum, a difference or a product."""
    return x + y if name == "add" else x - y if name == "sub" else x * y


def _gap(name: str, x: anf.Size, y: anf.Size) -> anf.Size:
    """Returns the number that is at least 0 where two are in an order."""
    sign, offset = GAPS[name]
    return (y - x) * sign + offset


def _bounded(gap: anf.Size, known: Knowledge) -> Iterator[Bounded]:
    """The ends of a variable where a polynomial is at least 0: of the last one that is no size, if there is one."""
    for v in sorted(dict.fromkeys(gap.atoms()), key=lambda v: (v in known.facts.sizes, -v.serial)):
        others = gap.without(v)
        if (part := gap - others) in (anf.poly(v), -anf.poly(v)):
            yield (v, -others, None) if part == anf.poly(v) else (v, None, others + 1)
            return


def _narrowed(known: Knowledge, ends: Sequence[Bounded]) -> Knowledge:
    """Adds to what is known that numbers lie between ends."""
    inside = known.copy()
    for var, low, high in ends:
        inside.facts.narrow(var, () if low is None else (low,), () if high is None else (high,))
    return inside
