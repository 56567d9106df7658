"""Numbers by which loops count: between which ends they are in an iteration, and that a `while` that counts is a `for`.

    while (s, i = first) { i < high } do { … yield next, i + 1 }
    for k in 0..high - first (s) { i = first + k  … yield next }

A part of the state counts if each iteration changes it by a number between two that are known, through the arms of
branches, where an arm that ends the loop does not count. Of a `for` it is then so far from its first value as the
iterations so far have brought it: `count` in `if x[i] > 0.0 { out[count] = x[i]; count += 1 }` is at most i. Of a
`while` it is between its first value and the end that the condition compares it with.

If every step of a `for` is the same, its index determines the number, which is no part of the state then. If every step
of a `while` is the same, the condition is nothing but that comparison, and the end does not change, then how often it
runs is known before it starts, and it is a `for`. So a loop has one form however it is written: its bounds prove its
indices in range, and its derivative keeps what it saves in arrays with a row for each iteration instead of in a list,
without the numbers that the iteration's own number determines.

Integers wrap, and both loops wrap alike. Steps of one can't jump over the end. Others could where the end is close to
the greatest i64, and nothing above that is the end of `i <= high`: what is said of them holds where it is known that
nothing wraps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.inequalities import GREATEST, LEAST
from dlang.ir.affine import Knowledge
from dlang.ir.anf import ZERO, Assert, Atom, Block, For, If, IndexExpr, Let, Lit, Prim, Size, Var, While, fresh, poly
from dlang.ir.builder import Builder, i64
from dlang.ir.comprehension_queries import with_state
from dlang.ir.substitution import refresh, substitute
from dlang.ir.traverse import mentioned, type_vars
from dlang.ir.types import I64
from dlang.ops.primitives import GAPS, OPPOSITE, SWAPPED

Sizes = Mapping[Var, Size]  # of the i64 variables that are names of polynomials

ORDERS = {name: (sign, rest + 1) for name, (sign, rest) in GAPS.items()}
"""Of comparisons with an end, the direction in which a number comes to it, and whether the last iteration is at the
end."""


def counted(let: Let, op: For | While, known: Knowledge, sizes: Sizes) -> list[Let]:
    """A loop in a simpler form, with what comes before it; nothing if it is in the simplest.

    First what ends a loop before an iteration does anything is its condition, which loses what does not depend on the
    state; then the loop is a `for`, if it counts; then a `for` has no state that its index determines. known: of
    the place of the loop.
    """
    if isinstance(op, For):
        return _without_counts(let, op, known, sizes)
    if asked := _asked_first(let, op):
        return asked
    setup, condition = _lifted(op)
    if setup:
        return [*setup, replace(let, op=replace(op, condition=condition))]
    if not all(isinstance(inner.op, Prim | IndexExpr) for inner in condition.lets):
        return []
    if (ordered := _ordered(op, known, sizes)) is not None:
        return [replace(let, op=ordered)]
    for count in _counts(op, _steps(op)):
        is_all = condition.results[0] is count.test and count.end not in op.params
        same = count.least == count.most and count.towards[0] > 0
        if is_all and same and not any(count.param in type_vars(p.type) for p in op.params):
            start, end = (poly(a).substitute(sizes.get) for a in (op.init[count.position], count.end))
            if count.wraps_alike or count.is_exact(start, end, known):
                return _as_for(let, op, count, start, end)
    return []


Ends = tuple[Var, Size | None, Size | None]
"""A part of the state, with what it is not below, and what it is below."""


def within_iteration(op: For | While, known: Knowledge, sizes: Sizes) -> list[Ends]:
    """Between which ends the parts of the state that count are in an iteration. known: of the place of the loop."""
    return list(_within_for(op, known, sizes) if isinstance(op, For) else _within_while(op, known, sizes))


def within_condition(op: While, known: Knowledge, sizes: Sizes) -> list[Ends]:
    """The same while the condition is found, which may have come to its end: on which side of their first values."""
    return list(_within_while(op, known, sizes, iterations=False))


def _within_for(op: For, known: Knowledge, sizes: Sizes) -> Iterator[Ends]:
    iterations = (op.high - op.low).substitute(sizes.get)
    before = poly(op.index) - op.low.substitute(sizes.get)
    for param, step in _steps(op).items():
        start = poly(op.init[op.params.index(param)]).substitute(sizes.get)
        if all(known.exact(start + iterations * by) for by in (step.least, step.most)):
            yield param, start + before * step.least, start + before * step.most + 1


def _within_while(op: While, known: Knowledge, sizes: Sizes, iterations: bool = True) -> Iterator[Ends]:
    steps = _steps(op)
    for count in _counts(op, steps):
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


def _end(op: While, count: _Count, steps: Mapping[Var, _Step], sizes: Sizes) -> Size | None:
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


def _lifted(op: While) -> tuple[list[Let], Block]:
    """Splits a condition into what may run once before the loop, and the rest."""
    varying = set(op.params)
    setup, repeated = [], []
    for let in op.condition.lets:
        if isinstance(let.op, Prim | IndexExpr) and varying.isdisjoint(mentioned(let.op)):
            setup.append(let)
        else:
            varying.update(let.vars)
            repeated.append(let)
    return setup, Block(tuple(repeated), op.condition.results)


def _asked_first(let: Let, op: While) -> list[Let]:
    """The loop with a branch in its condition that ends it where an iteration begins, and leaves all as it is but for
    flags that say so; nothing if it has none."""
    flags = {p: Lit(value, "bool") for p, value in settled(op).items()}
    if not op.early or (flags and op.condition != Block((), (Lit(True, "bool"),))):
        return []
    lets, results = _with_flags(op.body, flags)
    at = next((k for k, inner in enumerate(lets) if not inner.op.IS.scalar), None)
    if at is None or not all(inner.op.IS.scalar for inner in lets[at + 1 :]):
        return []
    vars, branch = lets[at].vars, lets[at].op
    test = next((inner for inner in lets[:at] if isinstance(branch, If) and branch.condition in inner.vars), None)
    if not isinstance(branch, If) or test is None:
        return []
    for ends, stays, goes in ((True, branch.then, branch.otherwise), (False, branch.otherwise, branch.then)):
        left: dict[Atom, Atom] = {**dict(zip(vars, stays.results, strict=True)), test.vars[0]: Lit(ends, "bool")}
        last = [left.get(r, r) for r in results[1:]]
        same = all(a is p or (p in flags and isinstance(a, Lit)) for a, p in zip(last, op.params, strict=True))
        end = _decided(results[0], lets, {test.vars[0]: ends, **_flags(vars, stays)})
        on = _decided(results[0], lets, {test.vars[0]: not ends, **_flags(vars, goes)})
        if stays.lets or not same or end is not False or (flags and not on):
            continue
        asked = refresh(Block(lets[:at], (test.vars[0],)))
        b = Builder({}, lets[at].span)
        with b.scope() as condition:
            for inner in (*op.condition.lets, *asked.lets):
                b.append(inner)
            go: Atom = asked.results[0] if not ends else _denied(b, asked.results[0])
            if op.condition.results != (Lit(True, "bool"),):
                go = b.prim("and", op.condition.results[0], go)
        rest = substitute(Block(lets[at + 1 :], results), dict(zip(vars, goes.results, strict=True)))
        after = [p if p in flags else r for p, r in zip(op.params, rest.results[1:], strict=True)]
        body = Block((*lets[:at], *goes.lets, *rest.lets), (*(() if on else rest.results[:1]), *after))
        loop = replace(op, condition=Block(tuple(condition), (go,)), body=body, early=not on)
        bound = tuple([fresh(v.name, v.type) if p in flags else v for v, p in zip(let.vars, op.params, strict=True)])
        said = zip(let.vars, op.params, last, strict=True)
        return [
            replace(let, vars=bound, op=loop),
            *[Let((v,), Prim("or", (a, a)), let.span) for v, p, a in said if p in flags],
        ]
    return []


def _with_flags(body: Block, flags: Mapping[Var, Lit]) -> tuple[tuple[Let, ...], tuple[Atom, ...]]:
    """The lets and results of a body with what flags are in each iteration, and no branches that only make others."""
    body = substitute(body, flags)
    lets, same = [], dict[Var, Atom]()
    for let in body.lets:
        match let.op:
            case If(condition, Block((), (Lit(value=True),)), Block((), (Lit(value=False),))):
                same[let.vars[0]] = condition
                continue
            case If(condition, Block((), (Lit(value=False),)), Block((), (Lit(value=True),))):
                let = replace(let, op=Prim("not", (condition,)))
            case _:
                pass
        lets.append(let)
    body = substitute(Block(tuple(lets), body.results), same)
    return body.lets, body.results


def _flags(vars: Sequence[Var], arm: Block) -> dict[Atom, bool]:
    """The variables of a branch that are true or false where an arm of it runs."""
    pairs = zip(vars, arm.results, strict=True)
    return {v: bool(r.value) for v, r in pairs if isinstance(r, Lit) and isinstance(r.value, bool)}


def _decided(atom: Atom, lets: Sequence[Let], known: Mapping[Atom, bool]) -> bool | None:
    """Tells whether something is true where the truth of others is known; None if that does not say it."""
    if isinstance(atom, Lit) or atom in known:
        return known.get(atom) if isinstance(atom, Var) else bool(atom.value)
    op = next((let.op for let in lets if atom in let.vars), None)
    match op:
        case Prim("not", (x,)):
            value = _decided(x, lets, known)
            return None if value is None else not value
        case Prim(name, args) if name in OPPOSITE and args[0].type == I64:
            for let in lets:
                if let.vars and let.vars[0] in known and isinstance(let.op, Prim) and let.op.args == args:
                    if let.op.name in (name, OPPOSITE[name]):
                        return known[let.vars[0]] == (let.op.name == name)
            return None
        case _:
            return None


def _denied(b: Builder, test: Atom) -> Var:
    """Emits that something does not hold, by the opposite comparison where it is one of integers."""
    made = b.definition(test) if isinstance(test, Var) else None
    if isinstance(made, Prim) and made.name in OPPOSITE and made.args[0].type == I64:
        return b.prim(OPPOSITE[made.name], *made.args)
    return b.prim("not", test)


def _ordered(op: While, known: Knowledge, sizes: Sizes) -> While | None:
    """The loop that asks whether a number is less than its end, or more, in place of whether it is another number: it
    comes nearer by one in each iteration."""
    result = op.condition.results[0]
    test = next((let for let in op.condition.lets if result in let.vars), None)
    if test is None or not isinstance(test.op, Prim) or test.op.name != "ne":
        return None
    steps = _steps(op)
    for x, end in (test.op.args, test.op.args[::-1]):
        step = steps.get(x) if isinstance(x, Var) else None
        if step is None or end.type != I64 or step.least != step.most or abs(step.least) != 1:
            continue
        if end in op.params or any(end in let.vars for let in op.condition.lets):
            continue
        assert isinstance(x, Var)
        start = poly(op.init[op.params.index(x)]).substitute(sizes.get)
        if known.at_least_zero((poly(end).substitute(sizes.get) - start) * step.least):
            order = replace(test, op=Prim("lt" if step.least > 0 else "gt", (x, end)))
            lets = tuple([order if let is test else let for let in op.condition.lets])
            return replace(op, condition=Block(lets, op.condition.results))
    return None


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
        for t in _implied(op.condition.results[0], True, op.condition.lets)
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
class _Step:
    """How far a number is from a part of the state: at least, and at most."""

    param: Var
    least: int
    most: int

    def further(self, by: int) -> _Step:
        return _Step(self.param, self.least + by, self.most + by)


def _steps(op: For | While) -> dict[Var, _Step]:
    """Returns by how much an iteration changes parts of the state, where known, if the loop goes on after it."""
    numbers: dict[Atom, _Step] = {p: _Step(p, 0, 0) for p in op.params if p.type == I64}
    if not numbers:
        return {}
    holds = _implied(op.body.results[0], True, op.body.lets) if op.early else {}
    holds.update(settled(op).items())
    after = _after(op.body, holds, numbers)
    steps = {p: after.get(r) for p, r in zip(op.params, op.body.results[op.early :], strict=True)}
    return {p: step for p, step in steps.items() if step is not None and step.param is p}


def settled(op: For | While) -> dict[Var, bool]:
    """The flags with one value in every iteration, such as those that end the loop where they are set."""
    if not op.early:
        return {}
    holds = _implied(op.body.results[0], True, op.body.lets)
    state = zip(op.params, op.init, op.body.results[1:], strict=True)
    return {p: holds[r] for p, a, r in state if isinstance(a, Lit) and r in holds and holds[r] == a.value}


def _implied(atom: Atom, value: bool, lets: Sequence[Let]) -> dict[Atom, bool]:
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


def _after(block: Block, holds: Mapping[Atom, bool], around: Mapping[Atom, _Step]) -> dict[Atom, _Step]:
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
    vars: Sequence[Var], op: If, holds: Mapping[Atom, bool], around: Mapping[Atom, _Step]
) -> dict[Atom, _Step]:
    """The same of the results of a branch, by those of its arms that run in such an iteration."""
    ends: list[list[_Step | None]] = []
    for arm, value in ((op.then, True), (op.otherwise, False)):
        inside = {**holds}
        for v, r in ((op.condition, Lit(value, "bool")), *zip(vars, arm.results, strict=True)):
            if v in holds:
                inside |= _implied(r, holds[v], arm.lets)
        if all(a.value == value for a, value in inside.items() if isinstance(a, Lit)):
            after = _after(arm, inside, around)
            ends.append([after.get(r) for r in arm.results])
    after_arms: dict[Atom, _Step] = {}
    for v, *steps in zip(vars, *ends, strict=True) if ends else ():
        each = [step for step in steps if step is not None]
        if len(each) == len(steps) and all(step.param is each[0].param for step in each):
            after_arms[v] = _Step(each[0].param, min(e.least for e in each), max(e.most for e in each))
    return after_arms


# ---- what the condition compares -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Count:
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


def _counts(op: While, steps: Mapping[Var, _Step]) -> Iterator[_Count]:
    """Yields the comparisons of what counts that must all hold for the loop to go on."""
    operations = {let.vars[0]: let.op for let in op.condition.lets if let.vars}
    numbers = _after(op.condition, {}, {p: _Step(p, 0, 0) for p in steps})
    for test in _implied(op.condition.results[0], True, op.condition.lets):
        compared = operations.get(test) if isinstance(test, Var) else None
        if isinstance(compared, Prim) and compared.name in ORDERS:
            a, b = compared.args
            for x, end, order in ((a, b, compared.name), (b, a, SWAPPED[compared.name])):
                if x in numbers and (end in op.params or end not in operations):
                    step = steps[numbers[x].param]
                    position, ahead = op.params.index(step.param), numbers[x].least
                    yield _Count(step.param, position, step.least, step.most, test, ahead, order, end)


# ---- the loop as one that counts -------------------------------------------------------------------------------------
def _as_for(let: Let, op: While, count: _Count, start: Size, end: Size) -> list[Let]:
    """The `for`, with what is computed before it. What counts stays in its state if it may end early."""
    k, param = count.position, count.param
    first = op.init[k] if start.constant is None else i64(int(start.constant))
    b = Builder({}, let.span)
    with b.scope() as before:
        iterations = _iterations(b, count, first) if count.wraps_alike else _exact_iterations(b, count, start, end)
        if not op.early:
            b.emit_as((let.vars[k],), _moved(b, count, first, b.prim("maximum", b.size(iterations), i64(0))))
    index = fresh("iteration", I64)
    with b.scope() as lets:
        at_start = first == i64(0) and count.least == 1
        number = index if at_start else b.one(_moved(b, count, first, index), param.name)
    body = substitute(op.body, {param: number})
    body = Block((*lets, *body.lets), body.results)
    loop = replace(let, op=For(index, ZERO, iterations, op.params, op.init, body, op.early))
    return [*before, loop if op.early else with_state(loop, [j for j in range(len(op.params)) if j != k])]


def _without_counts(let: Let, op: For, known: Knowledge, sizes: Sizes) -> list[Let]:
    """A `for` whose index determines some of its state, without that; nothing if there is none."""
    low, high = op.low.substitute(sizes.get), op.high.substitute(sizes.get)
    fixed = {v for p in op.params for v in type_vars(p.type)}
    starts = {p: poly(a).substitute(sizes.get) for p, a in zip(op.params, op.init, strict=True) if p.type == I64}
    by = {
        p: step.least
        for p, step in (_steps(op) if not op.early else {}).items()
        if step.least == step.most and p not in fixed and known.exact(starts[p] + (high - low) * step.least)
    }
    if not by:
        return []
    b = Builder({}, let.span)
    with b.scope() as before:
        iterations = b.prim("maximum", b.size(high - low), i64(0))
        for p, var in zip(op.params, let.vars, strict=True):
            if p in by:
                b.emit_as((var,), IndexExpr(starts[p] + poly(iterations) * by[p]))
    with b.scope() as lets:
        numbers = {p: b.one(IndexExpr(starts[p] + (poly(op.index) - low) * step), p.name) for p, step in by.items()}
    body = substitute(op.body, numbers)
    loop = replace(let, op=replace(op, body=Block((*lets, *body.lets), body.results)))
    return [*before, with_state(loop, [k for k, p in enumerate(op.params) if p not in by])]


def _moved(b: Builder, count: _Count, first: Atom, iterations: Atom) -> Prim:
    """Computes what counts, after some iterations."""
    length = abs(count.least)
    return Prim(
        "add" if count.least > 0 else "sub", (first, iterations if length == 1 else b.mul(iterations, i64(length)))
    )


def _exact_iterations(b: Builder, count: _Count, start: Size, end: Size) -> Size:
    """The number of iterations where nothing wraps; not above 0 if there is none."""
    distance, length = count.distance(start, end), abs(count.least)
    return distance if length == 1 else poly(b.prim("floordiv", b.size(distance + (length - 1)), i64(length)))


def _iterations(b: Builder, count: _Count, first: Atom) -> Size:
    """The number of iterations of steps of one: 2**63 - 1 if there are more."""
    low, high = _ahead(b, first, count.ahead), count.end
    if count.direction < 0:
        low, high = high, low
    apart = b.sub(high, low)
    there = b.select(b.prim("lt", apart, i64(0)), i64(GREATEST), apart)
    return poly(b.select(b.prim("lt", low, high), there, i64(0)))


def _ahead(b: Builder, first: Atom, distance: int) -> Atom:
    """A number at a distance, which wraps."""
    if isinstance(first, Lit):
        return i64((int(first.value) + distance - LEAST) % 2**64 + LEAST)
    return b.add(first, i64(distance)) if distance else first
