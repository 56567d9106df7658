"""Loops whose first and last iterations are apart, so that the others need not ask where the ends are.

    for j in 0..n { … x[max(j - 1, 0)] … }    becomes    for j in 0..min(1, n) { … x[0] … }
                                                          for j in 1..n { … x[j - 1] … }

A comparison of the loop's variable that is decided after a few first iterations, or up to a few last ones, is decided
in all between: what was gathered there, lies in a row, an arm of a branch on it is all that is left of that, and a
check of an index is none. Loops inside whose bounds differ from iteration to iteration, as those of a window do at the
ends of an array, have the same ones in between. What decides is the prover, from the bounds of each part. A condition
that is the same in all iterations is asked once, in front of two loops (`unswitched`). What the parts of a loop add up
is added up behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dlang.codegen.loops import (
    Assert,
    Body,
    Branch,
    Buffer,
    Compute,
    Convert,
    Evaluate,
    Load,
    Loop,
    Reduction,
    Slot,
    Stmt,
    Store,
)
from dlang.codegen.traverse import binds, bound_by, kept, map_inside, mentions, rebuild, walk
from dlang.inequalities import Facts
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.types import BOOL, I64
from dlang.ops import figures
from dlang.ops.monoids import COMBINE
from dlang.ops.primitives import GAPS, PARTIAL

ROUNDS = 4  # in which one comparison decides what another is of

Part = tuple[tuple[Size, ...], tuple[Size, ...]]
"""The bounds of some iterations of a loop."""

_STRAIGHT = (Load, Compute, Convert, Evaluate, Store, Assert)


@dataclass(frozen=True, slots=True)
class Peeled:
    """The first iterations of a loop, those between, and the last, all of them in the order of the loop."""

    before: list[Loop]
    between: Loop
    after: list[Loop]

    def totals(self, reductions: Sequence[Reduction]) -> list[Stmt]:
        """The results of the whole loop, of those of its parts."""
        parts = [self.between, *self.before, *self.after]
        out: list[Stmt] = []
        for k, whole in enumerate(reductions):
            first, *others = [part.reductions[k].result for part in parts]
            for n, other in enumerate(others):
                assert isinstance(whole.result, Var) and isinstance(first, Var) and isinstance(other, Var)
                total = whole.result if n == len(others) - 1 else fresh(whole.result.name, whole.result.type)
                out.append(Compute(total, COMBINE[whole.monoid], (first, other)))
                first = total
        return out


def peeled(loop: Loop, sizes: Mapping[Var, Size], facts: Facts[Var]) -> Peeled | None:
    """A loop in three; None if that decides no comparison.

    sizes: of variables around it that are names of polynomials. facts: what is known there.
    """
    if loop.short or not _combine(loop.reductions) or len(loop.lows) + len(loop.highs) > 2:
        return None
    if not any(map(_asks, loop.stmts)) or not _is_straight(loop.stmts):
        return None
    (low,), (high,) = loop.lows, loop.highs

    def part(loop: Loop, lows: tuple[Size, ...], highs: tuple[Size, ...]) -> tuple[_Copy, Loop]:
        copy = _Copy(dict(sizes), facts.copy())
        return copy, copy.loop(loop, (lows, highs))

    start, end = low, high
    for _ in range(ROUNDS):
        copy, between = part(loop, (start,), (end,))
        first, last = start + max(copy.first, default=0), end - max(copy.last, default=0)
        far = (first - low).constant, (high - last).constant
        if (first, last) == (start, end) or any(n is None or n > figures.END_ITERATIONS for n in far):
            break
        if not (facts.exact(first) and facts.exact(last)):
            break
        start, end = first, last
    else:
        return None
    if not copy.decided:
        return None
    few = replace(loop, short=True)
    before = [part(few, (low,), (high, start))[1]] if start != low else []
    after = [part(few, (start, end), (high,))[1]] if end != high else []
    return Peeled(before, between, after)


def unswitched(loop: Loop, conditions: int = figures.CONDITIONS_IN_FRONT) -> tuple[list[Stmt], Branch] | None:
    """A loop as two, of which a branch chooses one by what is the same in all iterations, and what that needs.

    The arms of the branch are loops, or branches of that kind again; None if no branch in the loop is on such a
    condition.
    """
    if not conditions or not _combine(loop.reductions) or not _is_straight(loop.stmts):
        return None
    inside = {loop.var, *(v for s in walk(loop.stmts) for v in bound_by(s))}
    same: dict[Var, Stmt] = {}
    for stmt in loop.stmts:
        if isinstance(stmt, Compute | Convert | Evaluate) and _is_total(stmt):
            if all(v in same or v not in inside for v in mentions(stmt)):
                same[stmt.var] = stmt
    asked = [s.condition for s in loop.stmts if isinstance(s, Branch)]
    condition = next((c for c in asked if isinstance(c, Var) and (c in same or c not in inside)), None)
    if condition is None:
        return None
    setup = _live(list(same.values()), {condition})
    moved = {v for s in setup for v in bound_by(s)}
    remaining = replace(loop, stmts=tuple([s for s in loop.stmts if moved.isdisjoint(bound_by(s))]))
    makers = {s.var: s for s in setup if isinstance(s, Compute)}
    arms: list[Body] = []
    for value in (True, False):
        copy = _Copy({}, Facts(), dict(makers))
        with copy.where(condition, value):
            arm = copy.loop(remaining, (remaining.lows, remaining.highs))
        inner = unswitched(arm, conditions - 1)
        results = tuple([r.result for r in arm.reductions])
        arms.append(Body((arm,) if inner is None else (*inner[0], inner[1]), results))
    return list(setup), Branch(condition, arms[0], arms[1], tuple([r.result for r in loop.reductions]))


def _combine(reductions: Sequence[Reduction]) -> bool:
    """Tells whether what parts of a loop give is combined by an operation of two numbers: all but positions are."""
    return all(r.monoid in COMBINE and r.position is None for r in reductions)


def _is_straight(stmts: Sequence[Stmt]) -> bool:
    """Tells whether statements are scalar code, in arms of branches perhaps, and few."""
    for k, stmt in enumerate(walk(stmts)):
        match stmt:
            case Branch(results=results) if all(isinstance(r, Var) for r in results):
                pass
            case _ if not isinstance(stmt, _STRAIGHT):
                return False
            case _:
                pass
        if k >= figures.PEELED_BODY:
            return False
    return True


def _asks(stmt: Stmt) -> bool:
    """Tells whether a statement is about an order of integers, or may hold such."""
    match stmt:
        case Branch() | Assert():
            return True
        case Compute(name=name, args=(x, _)):
            return x.type == I64 and (name in _ORDERS or name in _CHOICES)
        case _:
            return False


def _is_total(stmt: Stmt) -> bool:
    return not (isinstance(stmt, Compute) and stmt.name in PARTIAL)


_ORDERS = {*GAPS, "eq", "ne"}
_CHOICES = {"maximum", "minimum"}


@dataclass(slots=True)
class _Copy:
    """Code of some of the iterations, without what they decide.

    names: the polynomials that variables are. facts: what holds there. truths: of conditions, in the arm at hand;
    made: what they are. first, last: after how many further iterations, or up to how many, comparisons are decided.
    decided: how many are. atoms, sizes: what stands for variables of the loop.
    """

    names: dict[Var, Size]
    facts: Facts[Var]
    made: dict[Var, Compute] = field(default_factory=dict)
    truths: dict[Var, Lit] = field(default_factory=dict)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    decided: int = 0
    atoms: dict[Var, Atom] = field(default_factory=dict)
    sizes: dict[Var, Size] = field(default_factory=dict)
    inside: set[Var] = field(default_factory=set)
    axis: Var | None = None
    part: Part = ((), ())

    def loop(self, loop: Loop, part: Part) -> Loop:
        self.axis, self.part = self.bound(loop.var), part
        self.facts.between(self.axis, *part)
        stmts = self.block(loop.stmts)
        given = tuple([replace(r, result=_renewed(r.result), value=self.value(r.value)) for r in loop.reductions])
        wanted: set[object] = {r.value for r in given}
        return replace(loop, var=self.axis, lows=part[0], highs=part[1], stmts=_live(stmts, wanted), reductions=given)

    def block(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple([new for s in stmts for new in self.stmt(s)])

    def stmt(self, stmt: Stmt) -> Sequence[Stmt]:
        match stmt:
            case Evaluate(var, size):
                return [self.number(var, self.size(size))]
            case Convert(var, arg) if var.type == I64 == arg.type:
                arg = self.atom(arg)
                if arg in self.names or arg is self.axis:
                    return [self.number(var, poly(arg).substitute(self.sizes.get))]
                return [Convert(self.bound(var), arg)]
            case Compute(var, name, args):
                return self.compute(var, name, tuple([self.atom(a) for a in args]))
            case Assert(condition=condition) if self.atom(condition) == Lit(True, "bool"):
                self.decided += 1
                return []
            case Branch(condition, then, otherwise, results):
                chosen = self.atom(condition)
                if not isinstance(chosen, Lit):
                    return [self.branch(stmt, chosen)]
                body = then if chosen.value else otherwise
                chosen_stmts = self.block(body.stmts)
                for result, value in zip(results, body.results, strict=True):
                    assert isinstance(result, Var) and isinstance(value, Var | Lit)
                    self.atoms[result] = self.atom(value)
                return chosen_stmts
            case _:
                return [rebuild(stmt, value=self.value, size=self.size, bind=self.bound)]

    def compute(self, var: Var, name: str, args: tuple[Atom, ...]) -> Sequence[Stmt]:
        """Emits an operation, or what it is known to be."""
        if (known := _known(name, args)) is not None:
            self.atoms[var] = known
            return []
        if len(args) == 2 and args[0].type == I64:
            x, y = (poly(a).substitute(self.names.get) for a in args)
            if name in _ORDERS and (holds := self.holds(name, x, y)) is not None:
                self.decided += 1
                self.atoms[var] = Lit(holds, "bool")
                return []
            if name in _CHOICES and (holds := self.at_least_zero(x - y if name == "maximum" else y - x)) is not None:
                self.decided += 1
                self.atoms[var] = args[0] if holds else args[1]
                return []
            if name in ("add", "sub") and self.facts.exact(x + y if name == "add" else x - y):
                x, y = (poly(a).substitute(self.sizes.get) for a in args)
                return [self.number(var, x + y if name == "add" else x - y)]
        new = Compute(self.bound(var), name, args)
        if var.type == BOOL:
            self.made[new.var] = new
        return [new]

    def branch(self, stmt: Branch, condition: Atom) -> Stmt:
        arms: list[Body] = []
        for value, body in ((True, stmt.then), (False, stmt.otherwise)):
            with self.where(condition, value):
                arms.append(Body(self.block(body.stmts), tuple([self.value(r) for r in body.results])))
        return replace(
            stmt, condition=condition, then=arms[0], otherwise=arms[1], results=tuple(map(self.bound, stmt.results))
        )

    @contextmanager
    def where(self, condition: Atom, value: bool) -> Iterator[None]:
        """Inside, a condition is known, and so is what follows from it."""
        around, self.truths = self.truths, dict(self.truths)
        work = [(condition, value)]
        while work:
            atom, value = work.pop()
            if isinstance(atom, Var):
                self.truths[atom] = Lit(value, "bool")
                match self.made.get(atom):
                    case Compute(_, "not", (x,)):
                        work.append((x, not value))
                    case Compute(_, "and" | "or" as name, args) if value == (name == "and"):
                        work += [(x, value) for x in args]
                    case _:
                        pass
        yield
        self.truths = around

    # ---- what is decided ---------------------------------------------------------------------------------------------
    def holds(self, name: str, x: Size, y: Size) -> bool | None:
        """Tells whether an order of two numbers holds; None if that is not known in all iterations of the part."""
        if name in GAPS:
            sign, less = GAPS[name]
            return self.at_least_zero((y - x) * sign + less)
        sides = self.at_least_zero(x - y), self.at_least_zero(y - x)
        if False in sides:
            return name == "ne"
        return None if None in sides else name == "eq"

    def at_least_zero(self, gap: Size) -> bool | None:
        """Tells whether a number is at least 0; None if that is not known, and then notes from where on it is."""
        if self.facts.proves_nonnegative(gap):
            return True
        if self.facts.proves_nonnegative(-gap - 1):
            return False
        if self.axis is not None and not gap.mentions(self.inside - {self.axis}):
            self.note(gap, self.axis)
        return None

    def note(self, gap: Size, axis: Var) -> None:
        """Notes how many iterations at an end are on the other side of 0 than those between."""
        if len(self.part[0]) + len(self.part[1]) > 2:
            return
        try:
            slope = gap.coefficient(axis).constant
        except ValueError:
            return
        if slope not in (1, -1):
            return
        offset = gap.without(axis)
        # of j + rest, the first that is at least 0 is -rest; of rest - j, the first that is not is rest + 1
        turn = -offset if slope == 1 else offset + 1
        (low,), (high,) = self.part
        if isinstance(count := (turn - low).constant, int) and 0 < count <= figures.END_ITERATIONS:
            self.first.append(count)
        elif isinstance(count := (high - turn).constant, int) and 0 < count <= figures.END_ITERATIONS:
            self.last.append(count)

    # ---- names -------------------------------------------------------------------------------------------------------
    def number(self, var: Var, size: Size) -> Stmt:
        """A variable that is a polynomial, as which indices know it."""
        new = self.bound(var)
        self.sizes[new] = size
        self.names[new] = size.substitute(self.names.get)
        return Evaluate(new, size)

    def atom(self, x: Atom) -> Atom:
        if isinstance(x, Var):
            x = self.atoms.get(x, x)
        return self.truths.get(x, x) if isinstance(x, Var) else x

    def value(self, x: Any) -> Any:
        return self.atom(x) if isinstance(x, Var) else x

    def size(self, size: Size) -> Size:
        def name(v: Var) -> Size | None:
            return poly(self.atoms[v]) if v in self.atoms else None

        return size.substitute(name).substitute(self.sizes.get)

    def bound(self, var: Slot) -> Var:
        assert isinstance(var, Var) and isinstance(var.type, Scalar)
        new = fresh(var.name, var.type)
        self.atoms[var] = new
        self.inside.add(new)
        return new


def _renewed(result: Slot) -> Var:
    assert isinstance(result, Var)
    return fresh(result.name, result.type)


def _known(name: str, args: tuple[Atom, ...]) -> Atom | None:
    """Returns what an operation of truth values, or a choice, is by those of its operands that are known."""
    match name, args:
        case "select", (Lit(value), x, y):
            return x if value else y
        case "and" | "or", (Lit(value), x) | (x, Lit(value)):
            return x if value == (name == "and") else Lit(value, "bool")
        case "not", (Lit(value),):
            return Lit(not value, "bool")
        case _:
            return None


def _live(stmts: Sequence[Stmt], needed: set[object]) -> tuple[Stmt, ...]:
    """Straight code without what is not needed, nor stored or checked, or needed for that; adds what it needs."""
    out: list[Stmt] = []
    for stmt in reversed(stmts):
        if isinstance(stmt, Branch):
            needed.update(v for body in (stmt.then, stmt.otherwise) for v in body.results)
            then, otherwise = (Body(_live(b.stmts, needed), b.results) for b in (stmt.then, stmt.otherwise))
            if not (then.stmts or otherwise.stmts) and needed.isdisjoint(stmt.results):
                continue
            stmt = replace(stmt, then=then, otherwise=otherwise)
            needed.add(stmt.condition)
        elif isinstance(stmt, Store | Assert) or not needed.isdisjoint(bound_by(stmt)):
            needed.update(mentions(stmt))
        else:
            continue
        out.append(stmt)
    return tuple(out[::-1])


# ---- bounds of loops inside ------------------------------------------------------------------------------------------
def with_even_middle(loop: Loop, facts: Facts[Var]) -> Peeled | None:
    """A loop in three, of which the one between has loops inside that have the same bounds in all its iterations.

        for t in 0..n { for j in max(0, t - m)..min(k, t + 1) { … } }

    has all of 0..k in the iterations k - 1 to m. None where no bounds differ, or some differ in all iterations.
    """
    if loop.short or loop.reductions or loop.scratch:
        return None
    inside = {loop.var, *[v for s in walk(loop.stmts) for v in binds(s) if isinstance(v, Var)]}
    turns = _Turns(loop.var, inside, [], [])
    stmts = turns.block(loop.stmts)
    if not (turns.first or turns.last) or not all(map(facts.exact, (*turns.first, *turns.last))):
        return None
    first, last = tuple(dict.fromkeys(turns.first)), tuple(dict.fromkeys(turns.last))
    before = [replace(loop, lows=(*loop.lows, *first[:k]), highs=(f, *loop.highs)) for k, f in enumerate(first)]
    between = replace(loop, lows=(*first, *loop.lows), highs=(*last, *loop.highs), stmts=stmts)
    behind = (*first, *loop.lows)
    after = [replace(loop, lows=(f, *behind), highs=(*loop.highs, *last[:k])) for k, f in enumerate(last)]
    return Peeled(list(map(_renamed, before)), between, list(map(_renamed, reversed(after))))


@dataclass(frozen=True, slots=True)
class _Turns:
    """Finds from which iteration on, and up to which, one bound of each loop inside is the tightest.

    var: of the loop. inside: what it binds. first, last: of the iterations between, no less and less.
    """

    var: Var
    inside: Set[Var]
    first: list[Size]
    last: list[Size]

    def block(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return kept(stmts, [self.stmt(s) for s in stmts])

    def stmt(self, stmt: Stmt) -> Stmt:
        new = map_inside(stmt, self.block)
        if not isinstance(new, Loop):
            return new
        lows, highs = self.tightest(new.lows, 1), self.tightest(new.highs, -1)
        return new if (lows, highs) == (new.lows, new.highs) else replace(new, lows=lows, highs=highs)

    def tightest(self, bounds: tuple[Size, ...], sign: int) -> tuple[Size, ...]:
        """The bound that is the greatest (sign 1) or the least (-1) in the iterations between, which are noted."""
        moving = [b for b in bounds if b.mentions((self.var,))]
        fixed = [b for b in bounds if not b.mentions(self.inside)]
        if not moving or len(fixed) != 1 or len(moving) + 1 != len(bounds):
            return bounds
        turns: list[tuple[list[Size], Size]] = []
        for bound in moving:
            offset = bound.without(self.var)
            slope = (bound - offset).terms.get((self.var,))
            if offset.mentions(self.inside) or slope not in (1, -1):
                return bounds
            # sign * (fixed - bound), which is to be at least 0, falls with the variable, or rises
            if slope == sign:
                turns.append((self.last, sign * (fixed[0] - offset) + 1))
            else:
                turns.append((self.first, sign * (offset - fixed[0])))
        for ends, turn in turns:
            ends.append(turn)
        return (fixed[0],)


def _renamed(loop: Loop) -> Loop:
    """A loop with variables and buffers of its own."""
    names: dict[object, Any] = {}

    def bind(slot: Any) -> Any:
        new = fresh(slot.name, slot.type) if isinstance(slot, Var) else Buffer(slot.name, slot.dtype)
        names[slot] = new
        return new

    def value(x: Any) -> Any:
        return names.get(x, x)

    def size(s: Size) -> Size:
        return s.substitute(lambda v: poly(names[v]) if v in names else None)

    def block(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple([rebuild(s, value=value, size=size, block=block, bind=bind) for s in stmts])

    (new,) = block((loop,))
    assert isinstance(new, Loop)
    return new
