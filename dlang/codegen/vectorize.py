"""Decides which loops run several iterations at once, and how many.

A loop of independent iterations can if its body is scalar code: every value of it is then a vector with one element for
each iteration. Loops inside may stay, if their bounds are the same for all iterations; so the choice is between a loop
and the ones inside it, and the one whose accesses are adjacent in memory wins. One whose iterations go one by one has a
state of vectors where that differs between lanes: a recurrence at many points is done for several points at once. A
branch becomes a selection where that costs less than the lanes, or no branch, gain (`selections.py`). Where its arms
read or write memory, both arms are done one after the other, each for the lanes that take it: a mask says which.

The compiler writes explicit vectors because it knows that iterations are independent, which LLVM would have to find
out. A check in such a loop stops the vectors, and the iterations are done one by one to find the first that fails. Long
loops of expensive operations take two registers of f64 at a time, because one alone is a long chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import product

from dlang.codegen.lane_arrays import lane_arrays
from dlang.codegen.loops import Assert, Branch, Compute, Decision, For, Load, Loop, Slot, Stmt, Store
from dlang.codegen.selections import is_total, selected
from dlang.codegen.traverse import binds, bound_by, map_inside, mentions, walk
from dlang.ir.anf import FLOATS, HALF, Atom, Axis, Scalar, Size, Var, is_handle
from dlang.ir.terms import WIDTHS
from dlang.ops import figures
from dlang.ops.monoids import COMBINE
from dlang.ops.primitives import COST

LANE_BITS = {dtype: 8 * width for dtype, width in WIDTHS.items() if width > 1} | dict.fromkeys(HALF, 32)
"""The width of a lane in a register: numbers of half precision are computed with as f32."""


@dataclass(slots=True)
class Survey:
    """The vector form of a loop's body, if there is one.

    varying: what differs between iterations. obstacle: why there is none, if so. guarded: something may fail; combined:
    a store joins what is in memory; scattered: how many of these have places that may be the same; totalled: how many
    have one that is the same for all lanes. cost: how many accesses are not adjacent; repeated: those of them that are
    made in each iteration of a loop inside, and not once for all of these. operations, and heavy ones among them;
    widest: bits of a value; narrow: some elements in memory have less than 32. loops: those of independent iterations
    inside; ordered: whether there are others, without such in them. within: what is bound in each iteration of the
    loops inside. own: whether each iteration has arrays of its own. forked: whether lanes take different arms of a
    branch.
    """

    var: Var
    varying: set[Var] = field(default_factory=set)
    obstacle: str = ""
    guarded: bool = False
    combined: bool = False
    scattered: int = 0
    totalled: int = 0
    cost: int = 0
    repeated: int = 0
    operations: int = 0
    heavy: int = 0
    widest: int = 8
    narrow: bool = False
    loops: list[Loop] = field(default_factory=list)
    ordered: bool = False
    within: set[Var] = field(default_factory=set)
    own: bool = False
    forked: bool = False

    def refuse(self, obstacle: str) -> None:
        """Notes why there is no vector form; the first reason stays."""
        self.obstacle = self.obstacle or obstacle

    def atoms(self, atoms: Iterable[object]) -> bool:
        return any(isinstance(a, Var) and a in self.varying for a in atoms)

    def size(self, size: Size) -> bool:
        return size.mentions(self.varying)

    @property
    def maskable(self) -> bool:
        """Tells whether a mask pays for a few iterations: nothing is gathered or fails, memory has wide elements."""
        return not (self.guarded or self.narrow or self.loops or self.ordered or self.cost)

    def bind(self, var: Var, varying: bool) -> None:
        if varying:
            self.varying.add(var)
            assert isinstance(var.type, Scalar)
            if is_handle(var.type.dtype):
                self.refuse("a value is a node")
            self.widest = max(self.widest, LANE_BITS.get(var.type.dtype, 8))

    def stride(self, offset: Size) -> int | None:
        """The step of an offset from iteration to iteration: 0 for one that is not known now, None if it is
        irregular."""
        if any(a in self.varying and a is not self.var for a in offset.atoms()):
            return None
        try:
            step = offset.coefficient(self.var)
        except ValueError:
            return None
        return int(step.constant) if step.constant is not None else 0

    def walk(self, stmts: Sequence[Stmt]) -> None:
        for stmt in stmts:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Compute(var, name, args):
                self.operations += 1
                if self.atoms(args):
                    self.heavy += COST[name] >= figures.DIVISION
                self.bind(var, self.atoms(args))
            case _ if stmt.IS.scalar:
                for slot in bound_by(stmt):
                    assert isinstance(slot, Var)
                    self.bind(slot, self.atoms(mentions(stmt)))
            case Load(var, buffer, offset):
                self.narrow = self.narrow or LANE_BITS.get(buffer.dtype, 8) < 32 or buffer.dtype in HALF
                if self.size(offset):
                    self.operations += 1
                    apart = self.stride(offset) not in (1, -1)
                    self.cost += apart
                    self.repeated += apart and offset.mentions(self.within)
                    self.bind(var, True)
            case Store(buffer, _, _, _) if is_handle(buffer.dtype):
                self.refuse("a value is a node")
            case Store(buffer, offset, _, monoid):
                self.narrow = self.narrow or LANE_BITS.get(buffer.dtype, 8) < 32 or buffer.dtype in HALF
                self.widest = max(self.widest, LANE_BITS.get(buffer.dtype, 8))
                self.combined = self.combined or monoid != "set"
                if monoid in COMBINE and not self.size(offset) and buffer.dtype not in HALF:
                    self.totalled += 1
                    return
                stride = self.stride(offset) if self.size(offset) else None
                if stride is None and monoid != "set" and self.size(offset):
                    self.scattered += 1
                elif stride is None or (stride == 0 and monoid != "set"):
                    self.refuse("a place that is written is irregular, or the same in all iterations")
                self.cost += stride not in (1, -1)
                self.repeated += stride not in (1, -1) and bool(self.within)
            case Assert():
                self.guarded = True
            case Loop():
                if any(self.size(s) for s in (*stmt.lows, *stmt.highs)):
                    self.refuse("the bounds of a loop inside differ between iterations")
                self.loops.append(stmt)
                self.iterations(stmt, stmt.stmts)
                for r in stmt.reductions:
                    self.bind(r.result, True)
                    if r.position is not None:
                        self.bind(r.position, True)
            case For():
                self.in_order(stmt)
            case Branch():
                self.branch(stmt)
            case _:
                self.refuse(f"`{type(stmt).__name__}` is done for one iteration at a time")

    def branch(self, stmt: Branch) -> None:
        """Arms of which each lane takes one; where these differ, both are done, for some of the lanes each."""
        differs = self.atoms((stmt.condition,))
        self.forked = self.forked or differs
        totalled = self.totalled
        for body in (stmt.then, stmt.otherwise):
            self.walk(body.stmts)
            if differs and self.totalled > totalled:
                self.refuse("lanes that take an arm of a branch write to one place")
            if differs and (obstacle := _unmaskable(body.stmts)):
                self.refuse(obstacle)
        for slot, *values in zip(stmt.results, stmt.then.results, stmt.otherwise.results, strict=True):
            if isinstance(slot, Var):
                self.bind(slot, differs or self.atoms(values))
            else:
                self.refuse("a branch chooses an array")

    def in_order(self, loop: For) -> None:
        """Iterations one after another in each lane: as many in all of them, with a state of scalars."""
        self.ordered = self.ordered or not any(isinstance(s, Loop) for s in walk(loop.body.stmts))
        if loop.early or self.size(loop.low) or self.size(loop.high):
            self.refuse("the iterations of a loop inside differ in number")
        moving = moving_state(loop, self.var, self.varying)
        for param, result in zip(loop.params, loop.results, strict=True):
            if isinstance(param, Var) and isinstance(result, Var):
                self.bind(param, param in moving)
                self.bind(result, param in moving)
            else:
                self.refuse("a loop inside carries an array")
        self.iterations(loop, loop.body.stmts)

    def iterations(self, loop: Loop | For, stmts: Sequence[Stmt]) -> None:
        """The statements that each iteration of a loop inside does."""
        around = self.within
        self.within = around | _bound(loop)
        self.walk(stmts)
        self.within = around


def moving_state(loop: For, lane: Var, varying: AbstractSet[Var]) -> frozenset[Slot]:
    """The parts of a loop's state that differ between lanes, at the beginning or after some iteration.

    lane: the variable of the loop of lanes around. varying: the variables that differ before the loop.
    """
    moving = {p for p, x in zip(loop.params, loop.init, strict=True) if x in varying}
    while True:
        inside = Survey(lane, {*varying, *(p for p in moving if isinstance(p, Var))})
        inside.walk(loop.body.stmts)
        more = {p for p, x in zip(loop.params, loop.following, strict=True) if x in inside.varying} - moving
        if not more:
            return frozenset(moving)
        moving |= more


def differing_results(stmt: Branch, lane: Var, varying: AbstractSet[Var]) -> frozenset[Slot]:
    """The results of a branch that differ between lanes, of those that all lanes agree on included.

    lane: the variable of the loop of lanes around. varying: the variables that differ before the branch.
    """
    inside = Survey(lane, set(varying))
    inside.branch(stmt)
    return frozenset(r for r in stmt.results if r in inside.varying)


def _unmaskable(stmts: Sequence[Stmt]) -> str:
    """The reason why statements can't be done for some of the lanes; empty if they can."""
    for stmt in walk(stmts):
        match stmt:
            case Load(_, buffer, _) | Store(buffer, _, _, _):
                if LANE_BITS.get(buffer.dtype, 8) < 32 or buffer.dtype in HALF:
                    return "an arm of a branch reads or writes elements of less than 32 bits"
            case Compute(_, name, args) if not is_total(name, args):
                return "an arm of a branch divides integers"
            case Compute() | Assert() | Branch() | Loop() | For():
                pass
            case _ if stmt.IS.scalar:
                pass
            case _:
                return f"`{type(stmt).__name__}` in an arm of a branch is done for one iteration at a time"
    return ""


def survey(loop: Loop) -> Survey:
    survey_of_loop = Survey(loop.var, {loop.var})
    survey_of_loop.walk(loop.stmts)
    if survey_of_loop.guarded and survey_of_loop.combined:  # an iteration that adds to memory can't be done again
        survey_of_loop.refuse("a check may fail where results are added to memory")
    for r in loop.reductions:
        assert isinstance(r.value.type, Scalar)
        survey_of_loop.widest = max(
            survey_of_loop.widest, LANE_BITS.get(r.value.type.dtype, 8), 64 if r.position is not None else 8
        )
    return survey_of_loop


def known_iterations(loop: Loop | Axis) -> int | None:
    """How many iterations a loop has, or points an axis, if that is known now."""
    if len(loop.lows) != 1 or len(loop.highs) != 1:
        return None
    count = (loop.highs[0] - loop.lows[0]).constant
    return None if count is None else int(count)


def most_iterations(loop: Loop) -> int | None:
    """How many iterations a loop has at most, if bounds of it say so now."""
    counts = [count for high in loop.highs for low in loop.lows if (count := (high - low).constant) is not None]
    return int(min(counts)) if counts else None


def work(stmts: Sequence[Stmt], lanes: bool = False) -> int:
    """About how many additions one iteration takes at least: a branch, that and its cheaper arm. lanes: or in lanes,
    which have the other arm as well unless it is long: that is jumped over where no lane takes it."""
    total = 0
    for stmt in stmts:
        match stmt:
            case Compute(name=name):
                total += COST[name]
            case Branch(then=then, otherwise=otherwise):
                cheaper, other = sorted((work(then.stmts, lanes), work(otherwise.stmts, lanes)))
                jumps = not lanes or other >= figures.ARM_WORTH_A_JUMP
                total += cheaper + (figures.BRANCH if jumps else other + len(stmt.results))
            case _ if stmt.IS.scalar or isinstance(stmt, Load | Store):
                total += 1
            case For():
                total += work(stmt.body.stmts, lanes)
            case _:
                pass
    return total


def _one_lane(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Statements in which no loop has several lanes."""
    inside = [map_inside(s, _one_lane) for s in stmts]
    why = (Decision("one lane", "a loop around it has several"),)
    return tuple([replace(s, lanes=1, tail=0, masked=False, why=why) if isinstance(s, Loop) else s for s in inside])


def in_flight(loop: Loop) -> Loop:
    """A long loop of heavy operations, two registers at a time: each is a long chain, and two of them overlap.

    Lanes of 32 bits are many as it is. A loop inside, in an arm too, is such a chain itself, and what it saves in
    arrays has room for as many lanes as there are.
    """
    inner = any(isinstance(s, Loop | For) for s in walk(loop.stmts))
    count = known_iterations(loop)
    few = loop.short or (count is not None and count < 4 * loop.lanes)
    if not loop.masked or inner or few or loop.lanes > figures.LANES_IN_FLIGHT:
        return loop
    return replace(loop, lanes=2 * loop.lanes)


def lanes_inside(stmts: Sequence[Stmt]) -> bool:
    """Tells whether a loop in statements has lanes."""
    return any(isinstance(s, Loop) and s.lanes > 1 for s in walk(stmts))


def _bound(loop: Loop | For) -> set[Var]:
    """The variables that a loop binds, and the statements inside of it."""
    return {slot for stmt in walk((loop,)) for slot in binds(stmt) if isinstance(slot, Var)}


def _counts(surveyed: Survey) -> list[Size]:
    """How many iterations the loops inside that have lanes may have."""
    return [high - low for loop in surveyed.loops if loop.lanes > 1 for low, high in product(loop.lows, loop.highs)]


def _cost_inside(surveyed: Survey) -> int:
    """How many accesses are not adjacent with the lanes of the loops inside."""
    return sum(survey(inner).cost for inner in surveyed.loops if inner.lanes > 1)


@dataclass(frozen=True, slots=True)
class Lanes:
    """bits: the width of a vector register; 0 for none."""

    bits: int

    def chosen(self, loop: Loop) -> Loop:
        """The loop, with lanes here or in the loops inside it. Those inside have been chosen already."""
        if not self.bits:
            return loop
        if any(isinstance(s, For) for s in loop.stmts):
            inner = self.without_branches(loop, inside=True)
            if inner.lanes > 1:
                return inner
        return self.without_branches(loop)

    def without_branches(self, loop: Loop, inside: bool = False) -> Loop:
        """The loop, with selections in place of branches where they gain. inside: of those in loops with a state, too,
        which wait for what they choose."""
        flat = selected(loop.stmts, inside)
        kind = "masks" if flat is None else "selections"
        flattened = self.with_lanes(loop if flat is None else replace(loop, stmts=flat))
        if flat is None and (flattened.lanes == 1 or not any(isinstance(s, Branch) for s in walk(loop.stmts))):
            return flattened
        gain = max(min(flattened.lanes, self.bits // 64) / 2, 1)  # on the safe side: accesses may be slower
        both, one = work(flattened.stmts, lanes=True), work(loop.stmts)
        gains = both <= gain * one
        reason = "they take {} additions, branches {}, and lanes gain {} times"
        chosen = Decision(kind if gains else "branches", reason, (both, one, gain))
        return replace(flattened if gains else loop, why=(*loop.why, chosen, *(flattened.why if gains else ())))

    def with_lanes(self, loop: Loop) -> Loop:
        """The loop, with lanes if they gain."""
        arrays = lane_arrays(loop)
        surveyed = survey(replace(loop, stmts=arrays.computed()))
        surveyed.own = bool(arrays.made)
        width = 1
        match self.obstacle(loop, surveyed):
            case None:
                width = self.width(loop, surveyed)
                native = max(self.bits // surveyed.widest, 1)
                tail = native if width > native and not (surveyed.loops or surveyed.ordered) else 0
                heavy = surveyed.heavy >= figures.HEAVY_HIDES_MASK and self.bits > 128
                alone = lanes_inside(loop.stmts) and surveyed.cost >= _cost_inside(surveyed) + surveyed.ordered
                counts = _counts(surveyed) if alone and surveyed.cost else []
                few = tuple([size for size in counts if size.constant is None])
                masked = not surveyed.scattered and (loop.short or heavy) and not alone
                stmts = loop.stmts if alone else arrays.whole(_one_lane(arrays.elements(width)))
                reason = "{} operations, {} of them heavy, and {} accesses that are not adjacent"
                why = Decision(f"vectors of {width}", reason, (surveyed.operations, surveyed.heavy, surveyed.cost))
                return replace(loop, lanes=width, tail=tail, masked=masked, few=few, stmts=stmts, why=(*loop.why, why))
            case why:
                return replace(loop, why=(*loop.why, why))

    def obstacle(self, loop: Loop, surveyed: Survey) -> Decision | None:
        """The decision that a loop has one lane; None if it has several."""

        def one(reason: str, *figures: int) -> Decision:
            return Decision("one lane", reason, figures)

        if surveyed.obstacle:
            return one(surveyed.obstacle)
        if surveyed.forked and self.bits < figures.MASKED_REGISTER:
            return one("registers of {} bits have no masks, and lanes take different arms of a branch", self.bits)
        if surveyed.own and (surveyed.guarded or not surveyed.ordered):
            return one("each iteration has arrays of its own")
        if (adds := work(loop.stmts)) < (least := figures.SCATTERED * surveyed.scattered):
            return one("{} additions are less than the {} for which lanes add to places one by one", adds, least)
        if self.width(loop, surveyed) == 1:
            return one("its iterations are fewer than the {} elements of a register", self.bits // surveyed.widest)
        if lanes_inside(loop.stmts):
            inside = _cost_inside(surveyed)
            if surveyed.cost >= inside + surveyed.ordered and not self.yields(loop, surveyed):
                reason = "{} accesses are not adjacent here, {} with the lanes of a loop inside"
                return one(reason, surveyed.cost, inside)
        return None

    def yields(self, loop: Loop, surveyed: Survey) -> bool:
        """Tells whether the loops inside, whose lanes are to be added up, yield theirs though accesses are no fewer.

        All are adjacent here and there: whole vectors of iterations need no such sums. Or those that are not are made
        once here, for all iterations of the loops inside, if these are few and light. The iterations that are left,
        which may be all there are, keep the lanes of the loops inside.
        """
        inner = [i for i in surveyed.loops if i.lanes > 1]
        if surveyed.ordered or surveyed.own or surveyed.scattered or loop.short or not all(i.reductions for i in inner):
            return False
        inside = _cost_inside(surveyed)
        if surveyed.cost == inside == 0:
            return True
        counts = _counts(surveyed)
        known = not any(size.mentions(_bound(loop)) for size in counts)  # in front of the loop
        many = any(isinstance(n := size.constant, int) and n >= figures.FEW_INSIDE for size in counts)
        return surveyed.repeated < inside and not surveyed.heavy and known and not many

    def width(self, loop: Loop, surveyed: Survey) -> int:
        """How many iterations fill a register; several registers where little is computed, to hide latencies."""
        native = max(self.bits // surveyed.widest, 1)
        count = most_iterations(loop)
        if count is not None and count < native:
            exact = known_iterations(loop) is not None
            masked = exact and count >= figures.MASKED_FROM and surveyed.maskable and not loop.reductions
            return 1 << (count - 1).bit_length() if masked else 1
        several = self.several(loop, surveyed)
        while several > 1 and count is not None and native * several > count:
            several //= 2
        return min(
            native * several, figures.MOST_LANES if surveyed.widest < 32 else max(figures.MOST_LANES, 4 * native)
        )

    def several(self, loop: Loop, surveyed: Survey) -> int:
        """How many registers there are of each value. Iterations inside that wait for each other are a long chain, so
        that several of them take no longer than one."""
        totals = [r for l in (loop, *surveyed.loops) for r in l.reductions]
        if (
            (surveyed.loops and not lanes_inside(loop.stmts))
            or loop.short
            or any(r.position is not None and not r.ascending for r in totals)
        ):
            return 1
        if surveyed.ordered and surveyed.operations <= figures.LIGHT_RECURRENCE and not surveyed.scattered:
            return 2 if surveyed.heavy or surveyed.own or self.bits < figures.WIDEST_REGISTER else 4
        if surveyed.operations > figures.LIGHT_BODY or surveyed.heavy:
            return 1
        return 4 if any(is_float(r.value) for r in totals) else 2


def is_float(atom: Atom) -> bool:
    return isinstance(atom.type, Scalar) and atom.type.dtype in FLOATS
