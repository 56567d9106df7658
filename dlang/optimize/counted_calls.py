"""Recursion that counts becomes a loop: a function calls itself once, with a number that is one more or less, until it
comes to an end that stays.

    fn f(j, s) { if j == n { base(s) } else { … f(j + 1, t) } }
    fn f(j, s) { for k in 0..n - j (s) { … yield t }; base(s) }

    fn f(j) { if j == n { base } else { before; r = f(j + 1); after(r) } }
    fn f(j) { for k in 0..n - j (r = base) { before of j = n - 1 - k; yield after(r) } }

In the first, what the call gives is the result, so the state goes from call to call; in the second it is used, so the
calls are undone from the last to the first, and nothing may differ between them but numbers that each call changes by
the same. So such recursion is differentiated, and done at many points at once, as a loop is, and needs no stack. Where
the number never comes to its end, it is refused as the recursion is.

Recursion on what is left of an array counts, too, by the array's size: it is given the whole array, and where its part
begins (`parts.py`).

    fn f(n, x: [n]) { if n == 0 { base } else { … f(n - 1, x[1..]) … } }
    fn f(n, N, X: [N], o) { x = X[o..o + n]  if n == 0 { base } else { … f(n - 1, N, X, o + 1) … } }

Other recursion stays until derivatives are expanded (`tailcalls.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.builder import Builder, i64
from dlang.ir.substitution import refresh, refresh_vars
from dlang.ir.traverse import mentioned, recursive_functions, type_vars, walk
from dlang.ir.types import I64
from dlang.ops.primitives import GAPS, OPPOSITE, SWAPPED
from dlang.optimize.inline import inline
from dlang.optimize.jump_threading import threaded
from dlang.optimize.parts import whole_arrays
from dlang.optimize.tailcalls import branches_merged

STACK_EXHAUSTED = "E0805"


def counted_calls(program: anf.Program, entries: Sequence[str]) -> anf.Program:
    """The program with loops in the place of recursion that counts, and of calls of these functions."""
    recursive = recursive_functions(program)
    if not recursive:
        return program
    finished = program.finished.get
    wanted = {name: f for name, f in program.functions.items() if name in recursive and finished(name) is not f}
    functions = dict(program.functions)
    for f in wanted.values():
        functions.update(_looped(f))
    hidden = {name for name, f in wanted.items() if functions[name] is f and threaded(f.body) is not f.body}
    if hidden:
        shown = branches_merged(program, hidden).functions
        for name in sorted(hidden & shown.keys()):
            if (shown[name].params, shown[name].results) == (wanted[name].params, wanted[name].results):
                looped = _looped(shown[name])
                functions.update(looped if looped[name] is not shown[name] else {})
    if all(f is program.functions.get(name) for name, f in functions.items()):
        return program
    return inline(replace(program, functions=functions), entries)


@dataclass(frozen=True, slots=True)
class _Recursion:
    """A function that counts. position: of the number among its parameters; step: 1 or -1; end: where it stops, or for
    `past` 1 one beyond; equal: whether it stops nowhere else. before: what each call computes first; asked: the
    comparison. call: that in `arm`, at `at`; base: the other arm."""

    function: anf.Function
    position: int
    step: int
    end: anf.Atom
    past: int
    equal: bool
    before: tuple[anf.Let, ...]
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
    def descent(self) -> tuple[anf.Let, ...]:
        """The lets that a call runs before it calls."""
        return (*self.before, *self.arm.lets[: self.at])

    @property
    def steps(self) -> dict[int, int]:
        """By how much each call changes the other numbers, of those which all calls change by the same."""
        pairs = enumerate(zip(self.call.args, self.function.params, strict=True))
        found = {k: _step(a, p, self.descent) for k, (a, p) in pairs if a is not p and k != self.position}
        return {k: step for k, step in found.items() if step is not None}

    @property
    def changing(self) -> list[int]:
        """The positions of the other parameters that differ from call to call."""
        pairs, steps = enumerate(zip(self.call.args, self.function.params, strict=True)), self.steps
        return [k for k, (a, p) in pairs if a is not p and k != self.position and k not in steps]

    @property
    def is_last(self) -> bool:
        """Tells whether the result of the call is that of the function."""
        return self.at == len(self.arm.lets) - 1 and self.arm.results == self.arm.lets[-1].vars

    @property
    def fits(self) -> bool:
        """Tells whether arrays have the same sizes in all calls, and what each call sees of one lies within what the
        first does, so that no view relies on a check of another call."""
        f = self.function
        changing = {f.params[k] for k in (self.position, *self.steps, *self.changing)}
        if any(v in changing for p in (*f.params, *f.results) for v in type_vars(p.type)):
            return False
        for let in self.before:
            match let.op:
                case anf.View(axes=axes, shape=shape, index=index) if len(axes) == len(index):
                    starts = [entry - anf.poly(axis) for axis, entry in zip(axes, index, strict=True)]
                    if not all(map(self._shrinks, starts, shape)):
                        return False
                case anf.View():
                    return False
                case _:
                    pass
        return True

    def _shrinks(self, start: anf.Size, size: anf.Size) -> bool:
        """Tells whether so many elements of an axis are fewer in each call, none that were not there, and never less
        than none."""
        left, right, shorter = self._moved(start), self._moved(start + size), self._moved(size)
        if left is None or right is None or left < 0 or right > 0:
            return False
        none_is_last = isinstance(self.end, anf.Lit) and int(self.end.value) + self.step * self.past >= 0
        return shorter == 0 or (size == anf.poly(self.number) and none_is_last)

    @property
    def number(self) -> anf.Var:
        return self.function.params[self.position]

    @property
    def empties(self) -> bool:
        """Tells whether the number is the size of what is left of an array, and may be less than its end at first."""
        left = any(isinstance(let.op, anf.View) and anf.poly(self.number) in let.op.shape for let in self.before)
        return left and self.step < 0 and self.end != i64(-self.step * self.past)

    def _moved(self, size: anf.Size) -> int | None:
        """By how much each call changes a size; None where that is not known."""
        f, steps = self.function, {self.position: self.step, **self.steps}
        if size.mentions([f.params[k] for k in self.changing]):
            return None
        moving = {f.params[k]: anf.poly(f.params[k]) + step for k, step in steps.items()}
        difference = (size.substitute(moving.get) - size).constant
        return None if difference is None else int(difference)


def _looped(f: anf.Function) -> dict[str, anf.Function]:
    """A function as a loop, with the function that is the loop if that is another one."""
    found = _recursion(f)
    if found is not None:
        return {f.name: _loop(found)}
    split = whole_arrays(f)
    inner = next((_recursion(g) for g in split.values() if g.name != f.name), None)
    if inner is None:
        return {f.name: f}
    return {**split, inner.function.name: _loop(inner)}


def _loop(found: _Recursion) -> anf.Function:
    f = found.function
    b = Builder(span=f.span)
    with b.scope() as lets:
        count = _count(b, found, found.number)
        run = b.as_poly(count)
        results = _forward(b, found, run) if found.is_last else _backward(b, found, run)
    return replace(f, body=anf.Block(tuple(lets), results))


def _recursion(f: anf.Function) -> _Recursion | None:
    """A function that counts; None if it is none."""
    if f.rules is not None or f.consumed or len(f.body.lets) < 2:
        return None
    *before, asked, last = f.body.lets
    match asked.op, last.op:
        case anf.Prim(name, (a, b)), anf.If(condition, then, otherwise) if (
            asked.vars == (condition,) and last.vars == f.body.results and name in OPPOSITE
        ):
            pass
        case _:
            return None
    if any(isinstance(v.type, anf.Token) for v in (*f.params, *f.results)):
        return None
    if condition in {*mentioned(then), *mentioned(otherwise), *then.results, *otherwise.results}:
        return None
    calls = [(arm, k) for arm in (then, otherwise) for k, let in enumerate(arm.lets) if _calls(let, f.name)]
    every = sum(_calls(let, f.name) for let in walk(f.body))
    if len(calls) != 1 or every != 1:
        return None
    arm, at = calls[0]
    if {*mentioned(anf.Block(arm.lets[at + 1 :], arm.results))}.isdisjoint(arm.lets[at].vars):
        return None  # nobody asks for what the call gives
    base = otherwise if arm is then else then
    for x, end, test in ((a, b, name), (b, a, SWAPPED.get(name, name))):
        if arm is then:
            test = OPPOSITE[test]
        position = next((k for k, p in enumerate(f.params) if p is x and p.type == I64), None)
        call = arm.lets[at].op
        assert isinstance(call, anf.Call)
        if position is None or not _stays(end, call, f):
            continue
        step = _step(call.args[position], f.params[position], (*before, *arm.lets[:at]))
        past = _past(step, test) if step in (1, -1) else None
        if step is None or past is None:
            continue
        made = _Recursion(f, position, step, end, past, test == "eq", tuple(before), asked.op, arm, base, at)
        return made if made.fits and (made.is_last or not made.changing) else None
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


def _step(arg: anf.Atom, number: anf.Var, lets: Sequence[anf.Let]) -> int | None:
    """By how much a number changes from a call to the next, where that is always the same."""
    if number.type != I64:
        return None
    op = next((let.op for let in lets if arg in let.vars), None)
    match op:
        case anf.Prim("add", (a, anf.Lit(value=int(more)))) | anf.Prim("add", (anf.Lit(value=int(more)), a)):
            return more if a is number else None
        case anf.Prim("sub", (a, anf.Lit(value=int(less)))):
            return -less if a is number else None
        case anf.IndexExpr(size):
            checked = {
                var: value
                for let in lets
                if isinstance(let.op, anf.Assert)
                for var, value in zip(let.vars, let.op.guarded, strict=True)
                if var.type == I64
            }
            difference = (
                size.substitute(lambda v: anf.poly(checked[v]) if v in checked else None) - anf.poly(number)
            ).constant
            return None if difference is None else int(difference)
        case _:
            return None


def _count(b: Builder, found: _Recursion, number: anf.Var) -> anf.Atom:
    """Emits how often the function calls itself; a number that never comes to its end is refused."""
    end = found.end if not found.past else b.prim("add", found.end, i64(found.step))
    count = b.prim("sub", end, number) if found.step == 1 else b.prim("sub", number, end)
    ends = b.prim("ge", count, i64(0))
    if not found.equal:
        asked = b.one(found.asked, "t")
        last = found.function.body.lets[-1]
        assert isinstance(last.op, anf.If)
        ends = b.prim("or", ends, asked if found.base is last.op.then else b.prim("not", asked))
    if found.empties:  # then a call finds nothing left, and is refused for that
        b.if_(b.prim("not", ends), lambda: _nothing(_iterations(b, found, anf.poly(number) + 1)), tuple, cold=True)
    checked = anf.fresh("count", I64)
    message = (f"the stack is exhausted: `{found.function.label}` never comes to its end from ", "", "")
    b.append(anf.Let((checked,), anf.Assert(ends, STACK_EXHAUSTED, message, (number,), (count,)), b.span))
    return checked if found.equal else b.prim("maximum", checked, i64(0))


def _nothing(values: tuple[anf.Atom, ...]) -> tuple[anf.Atom, ...]:
    return ()


def _numbers(b: Builder, found: _Recursion, k: anf.Size) -> dict[anf.Var, anf.Atom]:
    """Emits the numbers of the k-th call."""
    f = found.function
    number = found.number
    out: dict[anf.Var, anf.Atom] = {number: b.one(anf.IndexExpr(anf.poly(number) + found.step * k), number.name)}
    for position, step in found.steps.items():
        p, arg = f.params[position], found.call.args[position]
        if any(isinstance(let.op, anf.IndexExpr) for let in found.arm.lets if arg in let.vars):
            out[p] = b.one(anf.IndexExpr(anf.poly(p) + step * k), p.name)
        else:  # it may wrap
            out[p] = b.add(p, b.mul(b.size(k), i64(step)), p.name)
    return out


def _forward(b: Builder, found: _Recursion, count: anf.Size) -> tuple[anf.Atom, ...]:
    last = _iterations(b, found, count)
    return _base(b, found, count, {found.function.params[k]: v for k, v in zip(found.changing, last, strict=True)})


def _iterations(b: Builder, found: _Recursion, count: anf.Size) -> tuple[anf.Var, ...]:
    """Emits what calls do before they call, from the first call on; gives what the state is then."""
    f, index = found.function, anf.fresh("k", I64)
    init = tuple([f.params[k] for k in found.changing])
    state = refresh_vars(init, {})
    with b.scope() as lets:
        env = {**_numbers(b, found, anf.poly(index)), **dict(zip(init, state, strict=True))}
        each = found.descent
        results = b.inline(refresh(anf.Block(each, tuple([found.call.args[k] for k in found.changing])), env))
    last = refresh_vars(init, {})
    b.append(anf.Let(last, anf.For(index, anf.ZERO, count, state, init, anf.Block(tuple(lets), results)), f.span))
    return last


def _backward(b: Builder, found: _Recursion, count: anf.Size) -> tuple[anf.Atom, ...]:
    """Emits what calls do, from the last one on. What they check before they call is checked first, in their order."""
    f = found.function
    if any(isinstance(let.op, anf.Assert) for outer in found.descent for let in walk(anf.Block((outer,), ()))):
        _iterations(b, found, count)
    init = _base(b, found, count, {})
    index = anf.fresh("k", I64)
    given = found.arm.lets[found.at].vars
    state = refresh_vars(given, {})
    with b.scope() as lets:
        env = {**_numbers(b, found, count - 1 - anf.poly(index)), **dict(zip(given, state, strict=True))}
        each = (*found.descent, *found.arm.lets[found.at + 1 :])
        results = b.inline(refresh(anf.Block(each, found.arm.results), env))
    last = refresh_vars(given, {})
    b.append(anf.Let(last, anf.For(index, anf.ZERO, count, state, init, anf.Block(tuple(lets), results)), f.span))
    return last


def _base(b: Builder, found: _Recursion, count: anf.Size, state: dict[anf.Var, anf.Atom]) -> tuple[anf.Atom, ...]:
    """Emits the last call, which is the one that does not call."""
    env = {**_numbers(b, found, count), **state}
    return b.inline(refresh(anf.Block((*found.before, *found.base.lets), found.base.results), env))
