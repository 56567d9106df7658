"""Loops that count have one form: a `while` is a `for`, of which no part of the state is what its index determines.

    while (s, i = first) { i < high } do { … yield next, i + 1 }
    for k in 0..high - first (s) { i = first + k  … yield next }

If every step of a `for` by which it counts (`ir/loop_states.py`) is the same, its index determines the number, which is
no part of the state then. If every step of a `while` is the same, the condition is nothing but the comparison of that
number with an end, and the end does not change, then how often it runs is known before it starts, and it is a `for`. So
a loop has one form however it is written: its bounds prove its indices in range, and its derivative keeps what it saves
in arrays with a row for each iteration instead of in a list, without the numbers that the iteration's own number
determines.

Integers wrap, and both loops wrap alike. Steps of one can't jump over the end. Others could where the end is close to
the greatest i64, and nothing above that is the end of `i <= high`: what is said of them holds where it is known that
nothing wraps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlang.inequalities import GREATEST, LEAST
from dlang.ir.affine import Knowledge
from dlang.ir.anf import ZERO, Atom, Block, For, If, IndexExpr, Let, Lit, Prim, Size, Var, While, fresh, poly
from dlang.ir.builder import Builder, i64
from dlang.ir.comprehension_queries import with_state
from dlang.ir.loop_states import Count, Sizes, counts_of, settled, steps_of
from dlang.ir.substitution import refresh, substitute
from dlang.ir.traverse import mentioned, type_vars
from dlang.ir.types import I64
from dlang.ops.primitives import OPPOSITE


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
    for count in counts_of(op, steps_of(op)):
        is_all = condition.results[0] is count.test and count.end not in op.params
        same = count.least == count.most and count.towards[0] > 0
        if is_all and same and not any(count.param in type_vars(p.type) for p in op.params):
            start, end = (poly(a).substitute(sizes.get) for a in (op.init[count.position], count.end))
            if count.wraps_alike or count.is_exact(start, end, known):
                return _as_for(let, op, count, start, end)
    return []


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
    steps = steps_of(op)
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


# ---- the loop as one that counts -------------------------------------------------------------------------------------
def _as_for(let: Let, op: While, count: Count, start: Size, end: Size) -> list[Let]:
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
        for p, step in (steps_of(op) if not op.early else {}).items()
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


def _moved(b: Builder, count: Count, first: Atom, iterations: Atom) -> Prim:
    """Computes what counts, after some iterations."""
    length = abs(count.least)
    return Prim(
        "add" if count.least > 0 else "sub", (first, iterations if length == 1 else b.mul(iterations, i64(length)))
    )


def _exact_iterations(b: Builder, count: Count, start: Size, end: Size) -> Size:
    """The number of iterations where nothing wraps; not above 0 if there is none."""
    distance, length = count.distance(start, end), abs(count.least)
    return distance if length == 1 else poly(b.prim("floordiv", b.size(distance + (length - 1)), i64(length)))


def _iterations(b: Builder, count: Count, first: Atom) -> Size:
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
