"""Numbers by which loops count: between which ends the state of a loop is in an iteration.

A part of the state counts if each iteration changes it by a number between two that are known, through the arms of
branches, where an arm that ends the loop does not count. Of a `for` it is then so far from its first value as the
iterations so far have brought it: `count` in `if x[i] > 0.0 { out[count] = x[i]; count += 1 }` is at most i. Of a
`while` it is between its first value and the end that the condition compares it with.

Passes decide comparisons by this, and the verifier proves accesses by it, so it is said of the program as it stands.
What is said of integers that could wrap holds where it is known that nothing wraps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ir.affine import Knowledge
from dlang.ir.anf import Assert, Atom, Axis, Block, For, If, IndexExpr, Let, Lit, Prim, Size, Var, While, fresh, poly
from dlang.ir.types import BOOL, I64
from dlang.ops.primitives import GAPS, OPPOSITE, SWAPPED

Sizes = Mapping[Var, Size]  # of the i64 variables that are names of polynomials

ORDERS = {name: (sign, rest + 1) for name, (sign, rest) in GAPS.items()}
"""Of comparisons with an end, the direction in which a number comes to it, and whether the last iteration is at the
end."""

Ends = tuple[Var, Size | None, Size | None]
"""A part of the state, with what it is not below, and what it is below."""


def within_iteration(op: For | While, known: Knowledge, sizes: Sizes) -> list[Ends]:
    """Between which ends the parts of the state that count are in an iteration. known: of the place of the loop."""
    return list(_within_for(op, known, sizes) if isinstance(op, For) else _within_while(op, known, sizes))


def within_condition(op: While, known: Knowledge, sizes: Sizes) -> list[Ends]:
    """The same while the condition is found, which may have come to its end: on which side of their first values."""
    return list(_within_while(op, known, sizes, iterations=False))


def behind_loop(vars: Sequence[Var], op: For, iterations: Size, known: Knowledge, sizes: Sizes) -> list[Ends]:
    """Between which ends are the numbers that a loop comes to, which has done all of its iterations, so many."""
    ends: list[Ends] = []
    for param, step in steps_of(op).items() if not op.early else ():
        k = op.params.index(param)
        start = poly(op.init[k]).substitute(sizes.get)
        least, most = start + iterations * step.least, start + iterations * step.most
        if known.exact(least) and known.exact(most):
            ends.append((vars[k], least, most + 1))
    return ends


def _within_for(op: For, known: Knowledge, sizes: Sizes) -> Iterator[Ends]:
    """The same of a `for`, of numbers that wrap in no iteration."""
    steps = steps_of(op)
    if not steps:
        return
    low, high = op.low.substitute(sizes.get), op.high.substitute(sizes.get)
    before = poly(op.index) - low
    inside = known.within([Axis(op.index, (low,), (high,))])
    for param, step in steps.items():
        start = poly(op.init[op.params.index(param)]).substitute(sizes.get)
        least, most = start + before * step.least, start + before * step.most
        if inside.exact(least) and inside.exact(most):
            yield param, least, most + 1


def _within_while(op: While, known: Knowledge, sizes: Sizes, iterations: bool = True) -> Iterator[Ends]:
    steps = steps_of(op)
    for count in counts_of(op, steps):
        start = poly(op.init[count.position]).substitute(sizes.get)
        end = _end(op, count, steps, sizes)
        least, most = count.towards
        simple = count.ahead == 0 and most <= 1 - count.beyond
        goes = least >= 0 and (simple or (end is not None and count.is_exact(start, end, known)))
        if end is not None:
            end = (
                end + (count.beyond * count.direction - count.ahead)
                if iterations and (goes or count.ahead == 0)
                else None
            )
        if count.direction > 0:
            yield count.param, start if goes else None, end
        else:
            yield count.param, None if end is None else end + 1, start + 1 if goes else None


def _end(op: While, count: Count, steps: Mapping[Var, Step], sizes: Sizes) -> Size | None:
    """Finds a number that the end passes in no iteration; None if none is known."""
    if not isinstance(count.end, Var) or count.end not in op.params:
        return poly(count.end).substitute(sizes.get)
    step = steps.get(count.end)
    if step is None:
        return None
    comes = (-1, 0) if count.direction > 0 else (0, 1)  # by at most one, so that it stops where it meets what counts
    if not comes[0] <= step.least <= step.most <= comes[1]:
        return None
    return poly(op.init[op.params.index(count.end)]).substitute(sizes.get)


# ---- between which ends the state stays ------------------------------------------------------------------------------
MOST_VALUES = 8
"""Values that a part of the state may have after an iteration, by the arms that run, beyond which nothing is said."""


def kept_between(op: While, known: Knowledge, sizes: Sizes) -> list[Ends]:
    """Between which of their first values the parts of the state stay, and what the condition says of two of them.

    So `low` and `high` of a bisection stay between the first two. What an iteration may leave is dropped until the rest
    follows from itself and the condition.
    """
    starts = {p: poly(a).substitute(sizes.get) for p, a in zip(op.params, op.init, strict=True) if p.type == I64}
    operations = {let.vars[0]: let.op for let in op.condition.lets if let.vars}
    orders = [
        operations[t]
        for t in implied_in(op.condition.results[0], True, op.condition.lets)
        if isinstance(t, Var) and t in operations
    ]
    pairs = [
        o.args if o.name == "lt" else o.args[::-1] for o in orders if isinstance(o, Prim) and o.name in ("lt", "gt")
    ]
    ordered = [(x, y) for x, y in pairs if isinstance(x, Var) and isinstance(y, Var) and x in starts and y in starts]
    if not ordered:
        return []
    least = known.at_least_zero
    lows = {p: [s for s in starts.values() if least(starts[p] - s)] for p in starts}
    highs = {p: [s for s in starts.values() if least(s - starts[p])] for p in starts}
    while True:
        ends: list[Ends] = [(p, low, None) for p in starts for low in lows[p]] + [
            (p, None, s + 1) for p in starts for s in highs[p]
        ]
        for x, y in ordered:
            ends += [(x, None, poly(y)), *[(x, None, s) for s in highs[y]], *[(y, s + 1, None) for s in lows[x]]]
        inside = known.copy()
        for p, low, high in ends:
            inside.facts.narrow(p, () if low is None else (low,), () if high is None else (high,))
        after = _values(op.body, {p: [poly(p)] for p in starts}, inside, sizes)
        left = False
        for p, r in zip(op.params, op.body.results[op.early :], strict=True):
            if p in starts:
                values = after.get(r) if isinstance(r, Var) else [poly(r)]
                for kept, sign in ((lows[p], 1), (highs[p], -1)):
                    stays = [s for s in kept if values and all(inside.at_least_zero((v - s) * sign) for v in values)]
                    left = left or len(stays) < len(kept)
                    kept[:] = stays
        if not left:
            return ends


def _values(block: Block, around: Mapping[Atom, list[Size]], known: Knowledge, sizes: Sizes) -> dict[Atom, list[Size]]:
    """The numbers that i64s of a block may be, as polynomials; those of which nothing is known stand for themselves.

    known: learns of divisions.
    """
    values_of = dict(around)

    def of(atom: Atom) -> list[Size]:
        return values_of.get(atom) or [poly(atom).substitute(sizes.get)]

    for let in block.lets:
        var = let.vars[0] if let.vars else None
        if var is None:
            continue
        match let.op:
            case Prim("add" | "sub" as name, (x, y)) if x.type == I64:
                values = [a + b if name == "add" else a - b for a in of(x) for b in of(y)]
                if len(values) <= MOST_VALUES and all(map(known.exact, values)):
                    values_of[var] = values
            case Prim("floordiv", (x, Lit(divisor))) if x.type == I64 and int(divisor) > 0 and len(of(x)) == 1:
                (dividend,) = of(x)
                known.facts.floors[var] = dividend, poly(int(divisor))
                if known.at_least_zero(dividend):
                    known.facts.size(var)
            case IndexExpr(size) if size.atom is not None:
                values_of[var] = of(size.atom)
            case IndexExpr(size) if not any(values_of.get(v, [poly(v)]) != [poly(v)] for v in size.atoms()):
                values_of[var] = [size.substitute(sizes.get)]
            case Assert(guarded=guarded):
                values_of |= {v: of(s) for v, s in zip(let.vars, guarded, strict=True) if v.type == I64}
            case If(_, then, otherwise):
                arms = [(_values(arm, values_of, known, sizes), arm) for arm in (then, otherwise)]
                for k, v in enumerate(let.vars):
                    if v.type == I64:
                        results = [(inside, arm.results[k]) for inside, arm in arms]
                        values = [s for inside, r in results for s in inside.get(r) or [poly(r).substitute(sizes.get)]]
                        if len(values) <= MOST_VALUES:
                            values_of[v] = values
            case _:
                pass
    return values_of


# ---- by how much the state changes -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Step:
    """How far a number is from a part of the state: at least, and at most."""

    param: Var
    least: int
    most: int

    def further(self, by: int) -> Step:
        return Step(self.param, self.least + by, self.most + by)


def steps_of(op: For | While) -> dict[Var, Step]:
    """Returns by how much an iteration changes parts of the state, where known, if the loop goes on after it."""
    numbers: dict[Atom, Step] = {p: Step(p, 0, 0) for p in op.params if p.type == I64}
    if not numbers:
        return {}
    holds = implied_in(op.body.results[0], True, op.body.lets) if op.early else {}
    holds.update(settled(op).items())
    after = _after(op.body, holds, numbers)
    steps = {p: after.get(r) for p, r in zip(op.params, op.body.results[op.early :], strict=True)}
    return {p: step for p, step in steps.items() if step is not None and step.param is p}


def settled(op: For | While) -> dict[Var, bool]:
    """The flags with one value in every iteration, such as those that end the loop where they are set."""
    if not op.early:
        return {}
    holds = implied_in(op.body.results[0], True, op.body.lets)
    state = zip(op.params, op.init, op.body.results[1:], strict=True)
    return {p: holds[r] for p, a, r in state if isinstance(a, Lit) and r in holds and holds[r] == a.value}


def implied_in(atom: Atom, value: bool, lets: Sequence[Let]) -> dict[Atom, bool]:
    """The truth values that follow from one."""
    return implied(atom, value, {v: let for let in lets for v in let.vars})


def implied(atom: Atom, value: bool, makers: Mapping[Var, Let]) -> dict[Atom, bool]:
    """The truth values that follow from one. makers: the let of each variable."""
    truths: dict[Atom, bool] = {}
    work = [(atom, value)]
    while work:
        atom, value = work.pop()
        truths[atom] = value
        match makers.get(atom) if isinstance(atom, Var) else None:
            case Let(_, Prim("not", (x,))):
                work.append((x, not value))
            case Let(_, Prim("and" | "or" as name, (x, y))) if value == (name == "and"):
                work += [(x, value), (y, value)]
            case Let(vars, If(condition, then, otherwise)):
                for arm, chosen in ((then, False), (otherwise, True)):
                    result = arm.results[vars.index(atom)]
                    if isinstance(result, Lit) and result.value != value:
                        work.append((condition, chosen))
            case _:
                pass
    return truths


def with_tests_of_state(op: While, makers: Mapping[Var, Let]) -> While:
    """Makes a loop that goes on by a flag of its state test too what that flag says of the rest of the state.

    Those are comparisons that the flag is made of, as an iteration makes it for the next one and as it is made in front
    of the loop, so the loop does the same. makers: the lets in front of the loop, of each truth value.
    """
    flag = op.condition.results[0]
    if op.condition.lets or not isinstance(flag, Var) or flag not in op.params:
        return op
    k, results = op.params.index(flag), op.body.results[op.early :]
    inside = {v: let for let in op.body.lets for v in let.vars}
    passing = {*op.params, *inside}
    state = {r: p for r, p in zip(results, op.params, strict=True) if isinstance(r, Var)}
    first = dict(zip(op.params, op.init, strict=True))
    begun = list(_comparisons(op.init[k], makers))
    lets: list[Let] = []
    goes: Atom = flag
    for test, value in _comparisons(results[k], inside):
        if any(a in passing and a not in state for a in test.args if isinstance(a, Var)):
            continue
        now = Prim(test.name, tuple([state.get(a, a) if isinstance(a, Var) else a for a in test.args]))
        before = Prim(test.name, tuple([first.get(a, a) if isinstance(a, Var) else a for a in now.args]))
        if (before, value) in begun or _decided(before) is value:
            outcome, both = fresh("test", BOOL), fresh("go", BOOL)
            lets.append(Let((outcome,), now if value else replace(now, name=OPPOSITE[now.name])))
            lets.append(Let((both,), Prim("and", (goes, outcome))))
            goes = both
    return replace(op, condition=replace(op.condition, lets=tuple(lets), results=(goes,))) if lets else op


def _comparisons(flag: Atom, makers: Mapping[Var, Let]) -> Iterator[tuple[Prim, bool]]:
    """The comparisons of integers that follow from a flag that is true, with what comes out."""
    for atom, value in implied(flag, True, makers).items():
        op = makers[atom].op if isinstance(atom, Var) and atom in makers else None
        if isinstance(op, Prim) and op.name in GAPS and op.args[0].type == I64:
            yield op, value


def _decided(test: Prim) -> bool | None:
    """The outcome of a comparison of literals; None for any other."""
    match test.args:
        case (Lit(int(a)), Lit(int(b))):
            sign, less = GAPS[test.name]
            return (b - a) * sign + less >= 0
        case _:
            return None


def _after(block: Block, holds: Mapping[Atom, bool], around: Mapping[Atom, Step]) -> dict[Atom, Step]:
    """How far numbers are from the state, those of a block among them, in an iteration in which truth values are
    these."""
    steps = dict(around)
    for let in block.lets:
        match let.op:
            case Prim("add", (x, Lit(value))) | Prim("add", (Lit(value), x)) if x in steps:
                steps[let.vars[0]] = steps[x].further(int(value))
            case Prim("sub", (x, Lit(value))) if x in steps:
                steps[let.vars[0]] = steps[x].further(-int(value))
            case IndexExpr(size) if base := [a for a in size.atoms() if a in steps]:
                if isinstance(apart := (size - poly(base[0])).constant, int):
                    steps[let.vars[0]] = steps[base[0]].further(apart)
            case Assert(guarded=guarded):
                steps |= {v: steps[s] for v, s in zip(let.vars, guarded, strict=True) if s in steps}
            case If() as branch if any(v.type == I64 for v in let.vars):
                steps |= _after_branch(let.vars, branch, holds, steps)
            case _:
                pass
    return steps


def _after_branch(
    vars: Sequence[Var], op: If, holds: Mapping[Atom, bool], around: Mapping[Atom, Step]
) -> dict[Atom, Step]:
    """The same of the results of a branch, by those of its arms that run in such an iteration."""
    ends: list[list[Step | None]] = []
    for arm, value in ((op.then, True), (op.otherwise, False)):
        inside = {**holds}
        for v, r in ((op.condition, Lit(value, "bool")), *zip(vars, arm.results, strict=True)):
            if v in holds:
                inside |= implied_in(r, holds[v], arm.lets)
        if all(a.value == value for a, value in inside.items() if isinstance(a, Lit)):
            after = _after(arm, inside, around)
            ends.append([after.get(r) for r in arm.results])
    after_arms: dict[Atom, Step] = {}
    for v, *steps in zip(vars, *ends, strict=True) if ends else ():
        each = [step for step in steps if step is not None]
        if len(each) == len(steps) and all(step.param is each[0].param for step in each):
            after_arms[v] = Step(each[0].param, min(e.least for e in each), max(e.most for e in each))
    return after_arms


# ---- what the condition compares -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Count:
    """A part of the state that a condition compares with an end: its position, and by how much an iteration changes it.

    test: the comparison. ahead: how far what is compared is from that part of the state. order: of what is compared
    and the end, while the loop goes on.
    """

    param: Var
    position: int
    least: int
    most: int
    test: Atom
    ahead: int
    order: str
    end: Atom

    @property
    def direction(self) -> int:
        return ORDERS[self.order][0]

    @property
    def beyond(self) -> int:
        return ORDERS[self.order][1]

    @property
    def towards(self) -> tuple[int, int]:
        """The least and the greatest step towards the end."""
        return (self.least, self.most) if self.direction > 0 else (-self.most, -self.least)

    @property
    def wraps_alike(self) -> bool:
        """Says whether counting the iterations is the same as making them even where numbers wrap."""
        return self.towards == (1, 1) and not self.beyond

    def distance(self, start: Size, end: Size) -> Size:
        """How many numbers there are from the first that is compared to the last; not above 0 if there is none."""
        return (end - start - self.ahead) * self.direction + self.beyond

    def is_exact(self, start: Size, end: Size, known: Knowledge) -> bool:
        """Says whether no number wraps on the way to the end, nor the number of iterations."""
        far = self.beyond + self.towards[1]
        reached = (start + self.ahead, end + far * self.direction, self.distance(start, end) + far)
        return all(known.exact(p) for p in reached)


def counts_of(op: While, steps: Mapping[Var, Step]) -> Iterator[Count]:
    """Yields the comparisons of what counts that must all hold for the loop to go on."""
    operations = {let.vars[0]: let.op for let in op.condition.lets if let.vars}
    numbers = _after(op.condition, {}, {p: Step(p, 0, 0) for p in steps})
    for test in implied_in(op.condition.results[0], True, op.condition.lets):
        compared = operations.get(test) if isinstance(test, Var) else None
        if isinstance(compared, Prim) and compared.name in ORDERS:
            a, b = compared.args
            for x, end, order in ((a, b, compared.name), (b, a, SWAPPED[compared.name])):
                if x in numbers and (end in op.params or end not in operations):
                    step = steps[numbers[x].param]
                    position, ahead = op.params.index(step.param), numbers[x].least
                    yield Count(step.param, position, step.least, step.most, test, ahead, order, end)
