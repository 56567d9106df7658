"""Tail calls become loops, so that they need no stack.

A call is in tail position if its results are, in order and unchanged, those of the function, through the arms of
branches. Functions that tail-call one another are merged first; then a function that tail-calls itself
becomes a `While` whose state is the parameters that change, and the results:

    fn f(p) { … if c { … yield f(q) } else { … yield r } }
    fn f(p) { while (p, r = blank) { … if c { … yield true, q, r } else { … yield false, p, r } } yield r }

An array that is handed on and at last returned is one part of the state, so it stays where it is in memory. Of an
array of which each call sees a part (`x[1..]`), the state is where that begins. A call that hands on any other view
stays a call: a loop would have to copy what is only looked at. So does one of a function without
effects of which each arm calls it again: no result would leave the loop, and as calls it exhausts the stack.

This comes after derivatives: the reverse of a call keeps on the stack what it needs of each call, that of a loop would
keep the state of every iteration in arrays that grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Block, Call, Function, If, Let, Lit, Prim, Program, Scalar, Token, Var, fresh
from dlang.ir.axes import section
from dlang.ir.substitution import Renaming, Replacement, refresh, refresh_vars, substitute
from dlang.ir.terms import WIDTHS
from dlang.ir.traverse import recursive_functions, type_vars, with_body
from dlang.ir.types import I64
from dlang.ir.update_chains import UpdateChains
from dlang.ir.writes import Continues
from dlang.optimize.dce import dce
from dlang.optimize.jump_threading import threaded
from dlang.optimize.ownership import handed_over
from dlang.optimize.simplify import simplify
from dlang.optimize.windows import Windows
from dlang.polynomials import Poly


# ---- calls in tail position ------------------------------------------------------------------------------------------
def branches_merged(program: anf.Program, names: Set[str]) -> anf.Program:
    """The program in which functions of these names show the calls that an early return hides."""
    functions = program.functions
    merged = {name: with_body(f, threaded(f.body)) if name in names else f for name, f in functions.items()}
    return dce(simplify(replace(program, functions=merged)))


def tail_let(block: anf.Block) -> anf.Let | None:
    """The last let of a block if it is a call or a branch, and its results are those of the block."""
    last = block.lets[-1] if block.lets else None
    return last if last is not None and isinstance(last.op, anf.Call | anf.If) and last.vars == block.results else None


def tail_calls(block: anf.Block) -> Iterator[anf.Call]:
    """The calls in tail position."""
    last = tail_let(block)
    match last.op if last is not None else None:
        case anf.Call() as call:
            yield call
        case anf.If(then=then, otherwise=otherwise):
            yield from tail_calls(then)
            yield from tail_calls(otherwise)


def blank(var: anf.Var, lets: list[anf.Let]) -> anf.Atom:
    """Some value of the type of a variable, which is no token: zero, no text, null, or an array.

    An array of numbers is not even filled: that would take longer than all that a call may do.
    """
    match var.type:
        case anf.Scalar(dtype):
            return zero(dtype)
        case anf.Array(dtype, shape) if dtype in WIDTHS and dtype != "str":
            array = anf.fresh(var.name, var.type)
            lets.append(anf.Let((array,), anf.Empty(dtype, shape)))
            return array
        case anf.Array(dtype, shape):
            axes = tuple([anf.Axis(anf.fresh("i", anf.Scalar("i64")), (Poly({}),), (size,)) for size in shape])
            index = tuple([anf.poly(axis.var) for axis in axes])
            array = anf.fresh(var.name, var.type)
            lets.append(
                anf.Let((array,), anf.Comp(axes, anf.Block((), (zero(dtype),)), (anf.Reduce(shape, index, "set"),)))
            )
            return array
        case _:
            raise AssertionError("there is one token at a time")


def zero(dtype: str) -> anf.Lit:
    """Zero, or what is like it, of a dtype; null for handles."""
    match dtype:
        case "bool":
            return anf.Lit(False, dtype)
        case "str":
            return anf.Lit("", dtype)
        case _:
            return anf.Lit(0.0 if dtype in anf.FLOATS else 0, dtype)


TRUE, FALSE = anf.Lit(True, "bool"), anf.Lit(False, "bool")


def tail_calls_to_loops(program: anf.Program) -> anf.Program:
    """The program in which no function tail-calls itself, directly or through others."""
    if not recursive_functions(program):
        return program
    program = merge_mutual(_with_branches_merged(program))
    continues = {f.name: f.continues for f in handed_over(program).functions.values()}
    return replace(program, functions={name: _looped(f, continues) for name, f in program.functions.items()})


def _with_branches_merged(program: anf.Program) -> anf.Program:
    """The program in which recursive functions show the calls that an early return hides."""
    recursive = recursive_functions(program)
    merged = branches_merged(program, recursive).functions
    better = {
        name
        for name, f in program.functions.items()
        if name in recursive and len(list(tail_calls(merged[name].body))) > len(list(tail_calls(f.body)))
    }
    functions = {name: merged[name] if name in better else f for name, f in program.functions.items()}
    return replace(program, functions=functions)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The tail calls that are another iteration. parts: the arguments that are parts of the parameters there."""

    name: str
    parts: frozenset[int]
    windows: Windows

    def are_iterations(self, call: anf.Call) -> bool:
        if call.function != self.name:
            return False
        return not any(self.windows.shows(a) for k, a in enumerate(call.args) if k not in self.parts)

    def within(self, block: anf.Block) -> bool:
        return any(self.are_iterations(c) for c in tail_calls(block))


def _looped(f: anf.Function, continues: Continues) -> anf.Function:
    windows = Windows.of(f.body)
    self_calls = [c for c in tail_calls(f.body) if c.function == f.name]
    parts = frozenset(
        k
        for k, p in enumerate(f.params)
        if isinstance(p.type, anf.Array)
        and any(c.args[k] is not p for c in self_calls)
        and all(windows.start(c.args[k], p) is not None for c in self_calls)
    )
    calls = _Calls(f.name, parts, windows)
    iterations = [c for c in self_calls if calls.are_iterations(c)]
    tokens = any(isinstance(r.type, anf.Token) for r in f.results)
    if not iterations or not (tokens or any(True for _ in _ends(f.body, calls))):
        return f
    changing = tuple(
        p
        for k, p in enumerate(f.params)
        if k not in parts
        and (any(c.args[k] is not p for c in iterations) or (tokens and isinstance(p.type, anf.Token)))
    )
    if any(v in changing for r in f.results for v in type_vars(r.type)):
        return f  # the sizes of the results would change from iteration to iteration
    left = _left_in(f, calls, UpdateChains(continues))
    changing = tuple([p for k, p in enumerate(f.params) if p in changing or (p in left and k not in parts)])
    slots = refresh_vars(changing, {})
    mapping: dict[anf.Var, Replacement] = dict(zip(changing, slots, strict=True))
    shown: dict[int, _Part] = {}
    for k in sorted(parts):
        type = substitute(f.params[k].type, mapping)
        assert isinstance(type, anf.Array)
        var = anf.fresh(f.params[k].name, type)
        shown[k] = _Part(f.params[k], var, tuple([anf.fresh("start", I64) for _ in type.shape]))
        mapping[f.params[k]] = var
    body = substitute(f.body, mapping)
    calls = replace(calls, windows=Windows.of(body))
    return _Loop(f, changing, slots, shown, body, calls, UpdateChains(continues)).function()


def _left_in(f: anf.Function, calls: _Calls, chains: UpdateChains) -> set[anf.Var]:
    """The parameters in whose memory a result is at last: they are state if each call hands them on as well."""
    chains.add(f.body)
    ends = list(_ends(f.body, calls))
    state: set[anf.Var] = set()
    for k, formal in enumerate(f.results):
        found = _memory_of(k, ends, chains, f.params)
        state |= {found} if found is not None and found.type == formal.type else set()
    return state


def _memory_of(k: int, ends: Sequence[anf.Block], chains: UpdateChains, params: Sequence[anf.Var]) -> anf.Var | None:
    """The parameter in whose memory a result is at some end, where it is in that of no other at any end.

    Elsewhere it is an array that was made on the way, and takes the place of the parameter.
    """
    roots = {chains.root(end.results[k], 0) for end in ends}
    found = [p for p in params if p in roots]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Part:
    """A parameter of which each iteration sees a part: all of it, the part in the body, and where that begins."""

    all: anf.Var
    var: anf.Var
    start: tuple[anf.Var, ...]

    def let(self) -> anf.Let:
        assert isinstance(self.var.type, anf.Array)
        starts = tuple(map(anf.poly, self.start))
        return anf.Let((self.var,), section(self.all, starts, self.var.type.shape))


@dataclass(slots=True)
class _Loop:
    """A function that becomes a loop. changing: the parameters that are state, and `slots` in their place in the body.

    parts: the parameters of which an iteration sees a part. shared: the slot of a result that has none of its own.
    extra: the state of the other results, whose positions are `own`.
    """

    f: anf.Function
    changing: tuple[anf.Var, ...]
    slots: tuple[anf.Var, ...]
    parts: dict[int, _Part]
    body: anf.Block
    calls: _Calls
    chains: UpdateChains
    shared: dict[int, int] = field(default_factory=dict)
    own: tuple[int, ...] = ()
    extra: tuple[anf.Var, ...] = ()

    def function(self) -> anf.Function:
        f = self.f
        self.chains.add(self.body)
        self._share()
        self.own = tuple(k for k in range(len(f.results)) if k not in self.shared)
        formals = tuple(f.results[k] for k in self.own)
        self.extra = refresh_vars(formals, {})
        lets: list[anf.Let] = []
        starts = self._starts()
        first: list[anf.Atom] = [*self.changing, *(anf.Lit(0, "i64") for _ in starts)]
        blanks = Renaming({})
        for formal in formals:
            value = blank(anf.Var(formal.name, blanks.type(formal.type)), lets)
            blanks.env[formal] = value
            first.append(value)
        state = (*self.slots, *starts, *self.extra)
        iteration = self.iteration(self.body, ())
        iteration = anf.Block((*(part.let() for part in self.parts.values()), *iteration.lets), iteration.results)
        loop = anf.While(state, tuple(first), anf.Block((), (TRUE,)), iteration, early=True)
        last = refresh_vars(state, {})
        lets.append(anf.Let(last, loop, f.span))
        results = [
            last[self.shared[k]] if k in self.shared else last[len(self.slots) + len(starts) + self.own.index(k)]
            for k in range(len(f.results))
        ]
        return replace(f, body=anf.Block(tuple(lets), tuple(results)))

    def _starts(self) -> tuple[anf.Var, ...]:
        return tuple([start for part in self.parts.values() for start in part.start])

    def _share(self) -> None:
        """Finds the results that a slot holds at last: tokens, and arrays that are in its memory at some end."""
        ends = list(_ends(self.body, self.calls))
        state = [*self.slots, *(p for p in self.f.params if p not in self.changing)]
        for k, formal in enumerate(self.f.results):
            memory = _memory_of(k, ends, self.chains, state)
            for j, (param, slot) in enumerate(zip(self.changing, self.slots, strict=True)):
                if j in self.shared.values() or param.type != formal.type:
                    continue
                fixed = isinstance(formal.type, anf.Array) and slot.type == param.type
                if (fixed and memory is slot) or isinstance(formal.type, anf.Token):
                    self.shared[k] = j
                    break

    def iteration(self, block: anf.Block, scope: tuple[anf.Var, ...]) -> anf.Block:
        """A block in tail position as the body of the loop: it gives whether to go on, and the next state.

        scope: what the blocks around it have bound.
        """
        last = tail_let(block)
        match last.op if last is not None else None:
            case anf.Call() as call if self.calls.are_iterations(call):
                args = [a for a, p in zip(call.args, self.f.params, strict=True) if p in self.changing]
                lets = list(block.lets[:-1])
                for k, part in self.parts.items():
                    args += self._moved(part, call.args[k], lets)
                return anf.Block(tuple(lets), (TRUE, *args, *self.extra))
            case anf.If(condition, then, otherwise) if self.calls.within(block):
                before = block.lets[:-1]
                scope = (*scope, *(v for let in before for v in let.vars))
                op = anf.If(condition, self.iteration(then, scope), self.iteration(otherwise, scope))
                vars = refresh_vars(
                    (anf.fresh("on", anf.Scalar("bool")), *self.slots, *self._starts(), *self.extra), {}
                )
                assert last is not None
                return anf.Block((*before, anf.Let(vars, op, last.span)), vars)
        scope = (*scope, *(v for let in block.lets for v in let.vars))
        held = {j: block.results[k] for k, j in self.shared.items()}
        kept = [held[j] if j in held else self._latest(slot, scope) for j, slot in enumerate(self.slots)]
        return anf.Block(block.lets, (FALSE, *kept, *self._starts(), *(block.results[k] for k in self.own)))

    def _moved(self, part: _Part, arg: anf.Atom, lets: list[anf.Let]) -> list[anf.Atom]:
        """Returns the start of the next iteration's part."""
        skipped = self.calls.windows.start(arg, part.var)
        assert skipped is not None
        out: list[anf.Atom] = []
        for start, more in zip(part.start, skipped, strict=True):
            if more.terms:
                moved = anf.fresh(start.name, I64)
                lets.append(anf.Let((moved,), anf.IndexExpr(anf.poly(start) + more)))
                start = moved
            out.append(start)
        return out

    def _latest(self, slot: anf.Var, scope: tuple[anf.Var, ...]) -> anf.Var:
        """Returns the variable that has a slot's memory at the end, and so needs no copy; any value would do."""
        for var in reversed(scope):
            if isinstance(var.type, anf.Array) and var.type == slot.type and self.chains.root(var, 0) is slot:
                return var
        return slot


def _ends(block: anf.Block, calls: _Calls) -> Iterator[anf.Block]:
    """The blocks in tail position that give the results of the function."""
    last = tail_let(block)
    match last.op if last is not None else None:
        case anf.Call() as call if calls.are_iterations(call):
            pass
        case anf.If(then=then, otherwise=otherwise) if calls.within(block):
            yield from _ends(then, calls)
            yield from _ends(otherwise, calls)
        case _:
            yield block


# ---- functions that tail-call one another ----------------------------------------------------------------------------
def merge_mutual(program: Program) -> Program:
    """The program in which the functions of a cycle of tail calls are calls of one function, which is new."""
    functions = dict(program.functions)
    for names in _cycles(program):
        members = [program.functions[name] for name in names]
        if not _alike(members):
            continue
        merger = _Merger.of(members)
        functions[merger.name] = merger.merged()
        for k, member in enumerate(members):
            functions[member.name] = merger.wrapper(k)
    return replace(program, functions=functions)


def _cycles(program: Program) -> list[list[str]]:
    """The sets of two functions or more that can reach one another by tail calls."""
    calls = {name: {c.function for c in tail_calls(f.body)} for name, f in program.functions.items()}
    calls = {name: callees for name, callees in calls.items() if callees - {name}}
    reach: dict[str, set[str]] = {}
    for name in calls:
        seen: set[str] = set()
        work = [name]
        while work:
            new = calls.get(work.pop(), set()) - seen
            seen |= new
            work += new
        reach[name] = seen
    out: list[list[str]] = []
    done: set[str] = set()
    for name in calls:
        if name not in done:
            members = [other for other in calls if other in reach[name] and name in reach[other]]
            done.update(members)
            if len(members) > 1:
                out.append(members)
    return out


def _alike(members: Sequence[Function]) -> bool:
    """Tells whether all have results of the same types, in which no parameter is mentioned, and all or none a token.

    Each may be called while there are no arrays for others: their arrays can be made of any sizes.
    """
    first = members[0]
    for f in members:
        shapes = [p.type.shape for p in f.params if isinstance(p.type, Array)]
        if any(factor < 0 for shape in shapes for size in shape for factor in size.terms.values()):
            return False
        env = Renaming(dict(zip(f.results, first.results, strict=False)))
        if [env.type(r.type) for r in f.results] != [r.type for r in first.results]:
            return False
        if any(v not in f.results for r in f.results for v in type_vars(r.type)):
            return False
        if _tokens(f) != _tokens(first):
            return False
    return True


def _tokens(f: Function) -> int:
    return sum(isinstance(p.type, Token) for p in f.params)


@dataclass(slots=True)
class _Merger:
    """slots: the parameters of the merged function but the first. maps: from the parameters of each member to them."""

    members: list[Function]
    name: str
    slots: list[Var]
    maps: list[dict[Var, Var]]

    @staticmethod
    def of(members: list[Function]) -> _Merger:
        merger = _Merger(members, " ".join(f.name for f in members), [], [])
        sizes: set[Var] = set()  # among the slots: others may be negative, and no array is made of as many elements
        for f in members:
            own = f.sizes.union(*[type_vars(p.type) for p in f.params])
            env = Renaming({})
            mapping: dict[Var, Var] = {}
            for param in f.params:
                type = env.type(param.type)
                alike = [s for s in merger.slots if s.type == type and (s in sizes) == (param in own)]
                free = [s for s in alike if s not in mapping.values()]
                slot = free[0] if free else fresh(param.name, type)
                if not free:
                    merger.slots.append(slot)
                    sizes.update([slot] if param in own else [])
                env.env[param] = mapping[param] = slot
            merger.maps.append(mapping)
        return merger

    def merged(self) -> Function:
        """The function that is all members: which one is its first parameter."""
        which = fresh("which", Scalar("i64"))
        bodies = [
            self._redirected(refresh(f.body, mapping)) for f, mapping in zip(self.members, self.maps, strict=True)
        ]
        block = bodies[-1]
        for k in range(len(bodies) - 2, -1, -1):
            chosen = fresh("chosen", Scalar("bool"))
            vars = refresh_vars(self.members[0].results, {})
            test = Let((chosen,), Prim("eq", (which, Lit(k, "i64"))))
            block = Block((test, Let(vars, If(chosen, bodies[k], block))), vars)
        label = " and ".join(f.label or f.name for f in self.members)
        results = refresh_vars(self.members[0].results, {})
        return Function(self.name, (which, *self.slots), results, block, label, self.members[0].span)

    def wrapper(self, k: int) -> Function:
        """A member as a call of the merged function."""
        f = self.members[k]
        lets: list[Let] = []
        args = self._arguments(k, f.params, {}, lets)
        vars = refresh_vars(f.results, {})
        lets.append(Let(vars, Call(self.name, args), f.span))
        return replace(f, body=Block(tuple(lets), vars))

    def _redirected(self, block: Block) -> Block:
        """A block of the merged function in which tail calls of members are tail calls of itself."""
        last = tail_let(block)
        match last.op if last is not None else None:
            case Call(function=callee, args=args):
                position = next((k for k, f in enumerate(self.members) if f.name == callee), None)
                if position is None or last is None:
                    return block
                lets = list(block.lets[:-1])
                values: dict[Var, Atom] = {slot: slot for slot in self.slots}
                call = Call(self.name, self._arguments(position, args, values, lets))
                return Block((*lets, Let(last.vars, call, last.span)), block.results)
            case If(condition, then, otherwise) if last is not None:
                op = If(condition, self._redirected(then), self._redirected(otherwise))
                return Block((*block.lets[:-1], Let(last.vars, op, last.span)), block.results)
        return block

    def _arguments(self, k: int, args: Sequence[Atom], values: dict[Var, Atom], lets: list[Let]) -> tuple[Atom, ...]:
        """The arguments of the merged function for those of a member. values: values for slots that it does not use."""
        given = {self.maps[k][p]: a for p, a in zip(self.members[k].params, args, strict=True)}
        env = Renaming({})
        out: list[Atom] = [Lit(k, "i64")]
        for slot in self.slots:
            value = given.get(slot)
            if value is None:
                type = env.type(slot.type)
                value = values.get(slot)
                if value is None or (isinstance(type, Array) and type != value.type):
                    value = blank(Var(slot.name, type), lets)
            env.env[slot] = value
            out.append(value)
        return tuple(out)
