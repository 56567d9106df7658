"""Recursion that counts becomes a loop: a function calls itself once, with a number that is one more or less, until it
comes to an end that stays.

    fn f(j, s) { if j == n { base(s) } else { … f(j + 1, t) } }
    fn f(j, s) { for k in 0..n - j (s) { … yield t }; base(s) }

    fn f(j) { if j == n { base } else { before; r = f(j + 1); after(r) } }
    fn f(j) { for k in 0..n - j (r = base) { before of j = n - 1 - k; yield after(r) } }

In the first, what the call gives is the result, so the state goes from call to call; in the second it is used, so the
calls are undone from the last to the first, and nothing but the number may differ between them. So such recursion is
differentiated, and done at many points at once, as a loop is, and needs no stack. Where the number never comes to its
end, it is refused as the recursion is.

Other recursion stays until derivatives are expanded (`tailcalls.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.builder import Builder, i64
from dlang.ir.substitution import refresh
from dlang.ir.traverse import mentioned, recursive_functions, type_vars, walk
from dlang.ir.types import I64
from dlang.ops.primitives import GAPS, OPPOSITE, SWAPPED
from dlang.optimize.inline import inline

STACK_EXHAUSTED = "E0805"


def counted_calls(program: anf.Program, entries: Sequence[str]) -> anf.Program:
    """The program with loops in the place of recursion that counts, and of calls of these functions."""
    recursive = recursive_functions(program)
    if not recursive:
        return program
    finished = program.finished.get
    functions = {
        name: _looped(f) if name in recursive and finished(name) is not f else f
        for name, f in program.functions.items()
    }
    if all(f is program.functions[name] for name, f in functions.items()):
        return program
    return inline(replace(program, functions=functions), entries)


@dataclass(frozen=True, slots=True)
class _Recursion:
    """A function that counts. position: of the number among its parameters; step: 1 or -1; end: where it stops, or for
    `past` 1 one beyond; equal: whether it stops nowhere else. asked: by which comparison. call: that in `arm`, at `at`;
    base: the other arm."""

    function: anf.Function
    position: int
    step: int
    end: anf.Atom
    past: int
    equal: bool
    asked: anf.Op
    arm: anf.Block
    base: anf.Block
    at: int

    @property
    def call(self) -> anf.Call:
        op = self.arm.lets[self.at].op
        assert isinstance(op, anf.Call)
        return op

    @property
    def changing(self) -> list[int]:
        """The positions of the other parameters that differ from call to call."""
        pairs = enumerate(zip(self.call.args, self.function.params, strict=True))
        return [k for k, (a, p) in pairs if a is not p and k != self.position]

    @property
    def is_last(self) -> bool:
        """Tells whether the result of the call is that of the function."""
        return self.at == len(self.arm.lets) - 1 and self.arm.results == self.arm.lets[-1].vars


def _looped(f: anf.Function) -> anf.Function:
    found = _recursion(f)
    if found is None:
        return f
    b = Builder(span=f.span)
    number = f.params[found.position]
    with b.scope() as lets:
        count = _count(b, found, number)
        run = b.as_poly(count)
        results = _forward(b, found, run) if found.is_last else _backward(b, found, run)
    return replace(f, body=anf.Block(tuple(lets), results))


def _recursion(f: anf.Function) -> _Recursion | None:
    """A function that counts; None if it is none."""
    if f.rules is not None or f.consumed or len(f.body.lets) != 2:
        return None
    asked, last = f.body.lets
    match asked.op, last.op:
        case anf.Prim(name, (a, b)), anf.If(condition, then, otherwise) if (
            asked.vars == (condition,) and last.vars == f.body.results and name in OPPOSITE
        ):
            pass
        case _:
            return None
    types = [v.type for v in (*f.params, *f.results)]
    if not all(isinstance(t, anf.Scalar | anf.Array) and not anf.is_reference(t.dtype) for t in types):
        return None
    if condition in {*mentioned(then), *mentioned(otherwise), *then.results, *otherwise.results}:
        return None
    calls = [(arm, k) for arm in (then, otherwise) for k, let in enumerate(arm.lets) if _calls(let, f.name)]
    every = sum(_calls(let, f.name) for let in walk(f.body))
    if len(calls) != 1 or every != 1:
        return None
    arm, at = calls[0]
    base = otherwise if arm is then else then
    for x, end, test in ((a, b, name), (b, a, SWAPPED.get(name, name))):
        if arm is then:
            test = OPPOSITE[test]
        position = next((k for k, p in enumerate(f.params) if p is x and p.type == I64), None)
        call = arm.lets[at].op
        assert isinstance(call, anf.Call)
        if position is None or not _stays(end, call, f):
            continue
        step = _step(call.args[position], x, arm)
        past = None if step is None else _past(step, test)
        if step is None or past is None:
            continue
        made = _Recursion(f, position, step, end, past, test == "eq", asked.op, arm, base, at)
        changing = {x, *(f.params[k] for k in made.changing)}
        changing.update(f.results)
        if any(v in changing for t in types for v in type_vars(t)):
            return None
        return made if made.is_last or not made.changing else None
    return None


def _past(step: int, test: str) -> int | None:
    """How far beyond its end a number is with which a comparison first holds; None if steps do not come to that."""
    if test == "eq":
        return 0
    sign, rest = GAPS.get(test, (step, 0))
    return -rest if sign == -step else None


def _calls(let: anf.Let, name: str) -> bool:
    return isinstance(let.op, anf.Call) and let.op.function == name


def _stays(end: anf.Atom, call: anf.Call, f: anf.Function) -> bool:
    """Tells whether the end is the same in all calls."""
    if isinstance(end, anf.Lit):
        return True
    return any(p is end and a is end for p, a in zip(f.params, call.args, strict=True))


def _step(arg: anf.Atom, number: anf.Atom, arm: anf.Block) -> int | None:
    """By how much a number changes, if that is 1 or -1."""
    op = next((let.op for let in arm.lets if arg in let.vars), None)
    match op:
        case anf.Prim("add", (a, anf.Lit(value=1))) | anf.Prim("add", (anf.Lit(value=1), a)) if a is number:
            return 1
        case anf.Prim("sub", (a, anf.Lit(value=1))) if a is number:
            return -1
        case anf.Prim("add", (a, anf.Lit(value=-1))) if a is number:
            return -1
        case anf.IndexExpr(size) if isinstance(number, anf.Var):
            difference = (size - anf.poly(number)).constant
            return int(difference) if difference in (1, -1) else None
        case _:
            return None


def _count(b: Builder, found: _Recursion, number: anf.Var) -> anf.Atom:
    """Emits how often the function calls itself; a number that never comes to its end is refused."""
    end = found.end if not found.past else b.prim("add", found.end, i64(found.step))
    count = b.prim("sub", end, number) if found.step == 1 else b.prim("sub", number, end)
    ends = b.prim("ge", count, i64(0))
    if not found.equal:
        asked = b.one(found.asked, "t")
        (last,) = found.function.body.lets[1:]
        assert isinstance(last.op, anf.If)
        ends = b.prim("or", ends, asked if found.base is last.op.then else b.prim("not", asked))
    checked = anf.fresh("count", I64)
    message = (f"the stack is exhausted: `{found.function.label}` never comes to its end from ", "", "")
    b.append(anf.Let((checked,), anf.Assert(ends, STACK_EXHAUSTED, message, (number,), (count,)), b.span))
    return checked if found.equal else b.prim("maximum", checked, i64(0))


def _number(found: _Recursion, k: anf.Size) -> anf.Let:
    """The number of the k-th call."""
    number = found.function.params[found.position]
    return anf.Let((anf.fresh(number.name, I64),), anf.IndexExpr(anf.poly(number) + found.step * k))


def _forward(b: Builder, found: _Recursion, count: anf.Size) -> tuple[anf.Atom, ...]:
    f, index = found.function, anf.fresh("k", I64)
    positions = found.changing
    here = _number(found, anf.poly(index))
    state = tuple([anf.fresh(f.params[k].name, f.params[k].type) for k in positions])
    env: dict[anf.Var, anf.Atom] = {f.params[found.position]: here.vars[0]}
    env.update(zip((f.params[k] for k in positions), state, strict=True))
    arm = refresh(anf.Block(found.arm.lets[: found.at], tuple([found.call.args[k] for k in positions])), env)
    init = tuple([f.params[k] for k in positions])
    last = tuple([anf.fresh(v.name, v.type) for v in state])
    body = anf.Block((here, *arm.lets), arm.results)
    b.append(anf.Let(last, anf.For(index, anf.ZERO, count, state, init, body), f.span))
    end = _number(found, count)
    b.append(end)
    env = {f.params[found.position]: end.vars[0], **dict(zip(init, last, strict=True))}
    base = refresh(found.base, env)
    for let in base.lets:
        b.append(let)
    return base.results


def _backward(b: Builder, found: _Recursion, count: anf.Size) -> tuple[anf.Atom, ...]:
    f, number = found.function, found.function.params[found.position]
    before = found.arm.lets[: found.at]
    end = _number(found, count)
    b.append(end)
    base = refresh(found.base, {number: end.vars[0]})
    for let in base.lets:
        b.append(let)
    index = anf.fresh("k", I64)
    here = _number(found, count - 1 - anf.poly(index))
    given = found.arm.lets[found.at].vars
    state = tuple([anf.fresh(v.name, v.type) for v in given])
    lets = (*before, *found.arm.lets[found.at + 1 :])
    env: dict[anf.Var, anf.Atom] = {number: here.vars[0], **dict(zip(given, state, strict=True))}
    arm = refresh(anf.Block(lets, found.arm.results), env)
    last = tuple([anf.fresh(v.name, v.type) for v in given])
    body = anf.Block((here, *arm.lets), arm.results)
    b.append(anf.Let(last, anf.For(index, anf.ZERO, count, state, base.results, body), f.span))
    return last
