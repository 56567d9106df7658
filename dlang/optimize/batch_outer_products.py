"""Outer products that a recursion adds up are collected, and added several at a time.

    fn f(…, w̄) { … w̄ += x ⊗ y … f(…, w̄) … }   becomes   fn f(…, w̄, xs, ys, n) { … xs[n] = x; ys[n] = y; n += 1
                                                            if n == 32 { w̄ += xsᵀ ys; n = 0 } … f(…, w̄, xs, ys, n) … }

The gradient of the weights of a network that recurses over a tree gets such a product at every node, and each goes over
all of the weights. Some together (`figures.OUTER_PRODUCTS`) are one product of matrices. How many nodes there will be
is not known, so they are collected in memory of a fixed size; who calls the recursion adds the rest.

A parameter takes part if the function only adds to it and hands it on: to itself, through branches and loops, and to
its caller. In what order terms are added is open, so other sums into it stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.axes import part
from dlang.ir.builder import Builder, axis
from dlang.ir.comprehension_queries import extent, sizes_named, surely_total, without_results
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, mentioned, pruned, walk, with_body, with_lets, with_op
from dlang.ir.types import I64, array_type, dtype_of
from dlang.ops import figures
from dlang.ops.primitives import GUARDS


def batch_outer_products(program: anf.Program, entries: Sequence[str]) -> anf.Program:
    """The program with the outer products that its recursive functions add up collected."""
    for name in list(program.functions):
        if name in entries or not _calls_itself(program.functions[name]):
            continue
        for at in range(len(program.functions[name].params)):
            thread = _thread(program.functions[name], at)
            if thread is not None:
                program = _collected(program, thread)
    return program


def _calls_itself(f: anf.Function) -> bool:
    return any(isinstance(let.op, anf.Call) and let.op.function == f.name for let in walk(f.body))


# ---- what is found ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Outer:
    """A product of two factors with axes of their own, added to the thread. sides: the axes of each, and its code."""

    let: anf.Let
    result: int
    name: str
    sides: tuple[tuple[tuple[anf.Axis, ...], tuple[anf.Let, ...], anf.Atom], ...]


@dataclass(slots=True)
class _Thread:
    """A parameter and the result that it becomes. given: the i64 parameters that every call inside hands on.

    outer, ends: of lets, by the first variable that they bind, the product that one adds, and which result of a branch
    is the thread.
    around: the indices of the loops that are being followed.
    """

    function: anf.Function
    param: int
    result: int = 0
    given: frozenset[anf.Var] = frozenset()
    outer: dict[anf.Var, _Outer] = field(default_factory=dict)
    ends: dict[anf.Var, int] = field(default_factory=dict)
    around: list[anf.Axis] = field(default_factory=list)

    def find(self) -> bool:
        """Tells whether the parameter is only added to and handed on, and gets outer products."""
        f = self.function
        calls = [let.op for let in walk(f.body) if isinstance(let.op, anf.Call) and let.op.function == f.name]
        self.given = frozenset(
            p for k, p in enumerate(f.params) if p.type == I64 and all(call.args[k] is p for call in calls)
        )
        ends = [k for k, r in enumerate(f.results) if r.type == f.params[self.param].type]
        for self.result in ends:
            self.outer.clear()
            if self.follow(f.body, f.params[self.param]) == self.result and self.outer:
                return True
        return False

    def follow(self, block: anf.Block, var: anf.Var, named: dict[anf.Var, anf.Size] | None = None) -> int | None:
        """The only result of a block that is the thread, which comes into it as `var`; None if it is used otherwise."""
        named = {**(named or {}), **sizes_named(block)}
        for let in block.lets:
            uses = mentioned(let.op).count(var)
            if not uses:
                continue
            at = self.step(let, var, uses, named)
            if at is None:
                return None
            var = let.vars[at]
        ends = [k for k, r in enumerate(block.results) if r is var]
        return ends[0] if len(ends) == 1 else None

    def step(self, let: anf.Let, var: anf.Var, uses: int, named: dict[anf.Var, anf.Size]) -> int | None:
        """Returns which result of an operation is the thread; None if it does not just add to it or hand it on."""
        match let.op:
            case anf.Comp() as op if uses == 1:
                at = next((k for k, d in enumerate(op.destinations) if d.into is var), None)
                if at is None or (not isinstance(d := op.destinations[at], anf.ScatterAdd) and d.monoid != "sum"):
                    return None
                outer = self.product(let, op, at, named)
                if outer is not None:
                    self.outer[let.vars[0]] = outer
                return at
            case anf.Call(function, args) if function == self.function.name and uses == 1:
                return self.result if args[self.param] is var else None
            case anf.If(_, then, otherwise):
                first = self.follow(then, var, named)
                if first is None or first != self.follow(otherwise, var, named):
                    return None
                self.ends[let.vars[0]] = first
                return first
            case anf.For() | anf.While() as op if uses == 1 and var in op.init:
                at = op.init.index(var)
                loops = [anf.Axis(op.index, (op.low,), (op.high,))] if isinstance(op, anf.For) else []
                self.around += loops
                end = self.follow(op.body, op.params[at], named)
                del self.around[len(self.around) - len(loops) :]
                if end is None or end - op.early != at:
                    return None
                return None if isinstance(op, anf.While) and op.params[at] in mentioned(op.condition) else at
            case _:
                return None

    def product(self, let: anf.Let, op: anf.Comp, k: int, named: dict[anf.Var, anf.Size]) -> _Outer | None:
        """The outer product that a comprehension adds, if its value is one."""
        d = op.destinations[k]
        defined = {v: x for x in op.body.lets for v in x.vars}
        value = op.body.results[k]
        multiplication = defined.get(value) if isinstance(value, anf.Var) else None
        if (
            not isinstance(d, anf.Reduce)
            or multiplication is None
            or not isinstance(multiplication.op, anf.Prim)
            or multiplication.op.name not in _PRODUCTS
        ):
            return None
        axes = {a.var for a in op.axes}
        sizes = [s.substitute(named.get) for s in [extent(a) or anf.poly(a.var) for a in op.axes]]
        if any(e.mentions(defined) or not set(e.atoms()) <= axes | self.given for e in d.index):
            return None
        if not all(set(s.atoms()) <= self.given for s in (*sizes, *d.shape)):
            return None
        if _few(sizes):
            return None
        boxes = tuple([anf.Axis(a.var, (anf.poly(0),), (s,)) for a, s in zip(op.axes, sizes, strict=True)])
        if not all(any(e.mentions((a.var,)) for e in d.index) for a in boxes):
            return None
        sides = []
        for factor in multiplication.op.args:
            code = tuple(pruned(op.body.lets, [factor]))
            varying = tuple([a for a in boxes if a.var is factor or any(a.var in mentioned(x.op) for x in code)])
            pure = all(x.op.IS.point and surely_total(x.op, (*self.around, *varying)) for x in code)
            if not varying or not pure or dtype_of(factor) not in ("f32", "f64"):
                return None
            sides.append((varying, code, factor))
        (left, *_), (right, *_) = sides
        if {a.var for a in left} & {a.var for a in right} or len(left) + len(right) != len(boxes):
            return None
        return _Outer(let, k, multiplication.op.name, tuple(sides))


_PRODUCTS = ("mul", *GUARDS)


def _few(sizes: Sequence[anf.Size]) -> bool:
    """Tells whether so few points are known that an iteration of its own for each product is cheap."""
    points = 1
    for size in sizes:
        if not isinstance(size.constant, int):
            return False
        points *= size.constant
    return points <= figures.SMALL_OUTER_PRODUCT


def _thread(function: anf.Function, at: int) -> _Thread | None:
    type = function.params[at].type
    if not isinstance(type, anf.Array) or type.dtype not in ("f32", "f64"):
        return None
    thread = _Thread(function, at)
    return thread if thread.find() else None


# ---- what is made ----------------------------------------------------------------------------------------------------
State = tuple[anf.Atom, ...]
"""The thread, then for each outer product what its factors were, one array for each, and how many."""


def _collected(program: anf.Program, thread: _Thread) -> anf.Program:
    functions = {
        name: _Rewriter(thread).function(f) if f is thread.function else _callers(f, thread)
        for name, f in program.functions.items()
    }
    return replace(program, functions=functions)


def _rows(outer: _Outer) -> list[tuple[str, tuple[anf.Size, ...]]]:
    """The dtype and the shape of what is collected of each factor."""
    many = anf.poly(figures.OUTER_PRODUCTS)
    return [(dtype_of(value), (many, *[a.highs[0] for a in axes])) for axes, _, value in outer.sides]


class _Rewriter:
    """The function of a thread, with what is collected as further parameters and results."""

    def __init__(self, thread: _Thread) -> None:
        self.thread = thread
        self.outer = list(thread.outer.values())

    def more(self) -> list[anf.Var]:
        """Variables for what is collected."""
        collected = []
        for outer in self.outer:
            for (dtype, shape), (_, _, value) in zip(_rows(outer), outer.sides, strict=True):
                collected.append(anf.fresh(f"{_named(value)}s", anf.Array(dtype, shape)))
            collected.append(anf.fresh("some", I64))
        return collected

    def function(self, f: anf.Function) -> anf.Function:
        params, results = self.more(), self.more()
        state = (f.params[self.thread.param], *params)
        body = self.block(f.body, f.params[self.thread.param], state)
        return replace(f, params=(*f.params, *params), results=(*f.results, *results), body=body)

    def block(self, block: anf.Block, var: anf.Var, state: State) -> anf.Block:
        """The block with the thread, which comes into it as `var`, in the form of `state`."""
        b = Builder()
        with b.scope() as lets:
            for let in block.lets:
                if var not in mentioned(let.op):
                    b.append(let)
                    continue
                b.span = let.span
                var, state = self.step(b, let, var, state)
        results = [state[0] if r is var else r for r in block.results]
        return anf.Block(tuple(lets), (*results, *state[1:]))

    def step(self, b: Builder, let: anf.Let, var: anf.Var, state: State) -> tuple[anf.Var, State]:
        more = self.more()
        vars = (*let.vars, *more)
        match let.op:
            case anf.Comp() as op:
                at = next(k for k, d in enumerate(op.destinations) if d.into is var)
                outer = self.thread.outer.get(let.vars[0])
                if outer is not None:
                    return let.vars[at], self.put(b, outer, state)
                destinations = list(op.destinations)
                into = state[0]
                assert isinstance(into, anf.Var)
                destinations[at] = replace(destinations[at], into=into)
                b.append(anf.Let(let.vars, anf.Comp(op.axes, op.body, tuple(destinations)), let.span))
                return let.vars[at], (let.vars[at], *state[1:])
            case anf.Call(name, args):
                args = tuple([state[0] if k == self.thread.param else a for k, a in enumerate(args)])
                b.append(anf.Let(vars, anf.Call(name, (*args, *state[1:])), let.span))
                end = let.vars[self.thread.result]
            case anf.If() as op:
                then, otherwise = self.block(op.then, var, state), self.block(op.otherwise, var, state)
                b.append(anf.Let(vars, anf.If(op.condition, then, otherwise, cold=op.cold), let.span))
                end = let.vars[self.thread.ends[let.vars[0]]]
            case anf.For() | anf.While() as op:
                at = op.init.index(var)
                inside = self.more()
                body = self.block(op.body, op.params[at], (op.params[at], *inside))
                init = (*[state[0] if k == at else a for k, a in enumerate(op.init)], *state[1:])
                params = (*op.params, *inside)
                if isinstance(op, anf.For):
                    new: anf.For | anf.While = anf.For(op.index, op.low, op.high, params, init, body, op.early)
                else:
                    new = anf.While(params, init, op.condition, body, op.early)
                b.append(anf.Let(vars, new, let.span))
                end = let.vars[at]
            case _:
                raise AssertionError(let.op)
        return end, (end, *more)

    def put(self, b: Builder, outer: _Outer, state: State) -> State:
        """Keeps the factors of an outer product, and adds those that have been kept if there is no room for more."""
        k = 1 + 3 * self.outer.index(outer)
        first, second, some = state[k : k + 3]
        kept = []
        for collected, (axes, code, value) in zip((first, second), outer.sides, strict=True):
            assert isinstance(collected, anf.Var)
            body = anf.Block(code, (value,))
            index = (anf.poly(some), *[anf.poly(a.var) for a in axes])
            into = anf.Reduce(array_type(collected).shape, index, "set", collected)
            op = Renaming({}, renew=True).op(anf.Comp(axes, body, (into,)))
            kept.append(b.one(op, collected.name))
        for other in without_results(outer.let, (outer.result,)):
            b.append(other)
        count = b.add(some, anf.Lit(1, "i64"), "some")
        full = b.prim("ge", count, anf.Lit(figures.OUTER_PRODUCTS, "i64"), name="full")
        total = state[0]
        assert isinstance(total, anf.Var)
        after, left = b.if_(
            full,
            lambda: (_added(b, outer, total, kept[0], kept[1], {}), anf.Lit(0, "i64")),
            lambda: (total, count),
            names=(total.name, "some"),
        )
        return (after, *state[1:k], kept[0], kept[1], left, *state[k + 3 :])


def _named(value: anf.Atom) -> str:
    return value.name if isinstance(value, anf.Var) else "v"


def _added(
    b: Builder, outer: _Outer, total: anf.Var, first: anf.Var, second: anf.Var, given: dict[anf.Var, anf.Size]
) -> anf.Var:
    """The thread with what has been collected of an outer product added."""
    op = outer.let.op
    assert isinstance(op, anf.Comp)
    d = op.destinations[outer.result]
    k = axis(array_type(first).shape[0])
    renaming = Renaming(given, renew=True)
    axes: list[anf.Axis] = [k]
    indices = []
    for factor_axes, _, _ in outer.sides:
        new = list(map(renaming.axis, factor_axes))
        axes += new
        indices.append((anf.poly(k.var), *[anf.poly(a.var) for a in new]))
    place = [renaming.size(e) for e in d.index]
    kept = sorted(axes[1:], key=lambda a: next(n for n, e in enumerate(place) if e.mentions((a.var,))))
    shape, index = tuple([a.highs[0] for a in kept]), tuple([anf.poly(a.var) for a in kept])
    with b.scope() as lets:
        value = b.prim(outer.name, b.read(first, indices[0]), b.read(second, indices[1]))
    sum = anf.Comp(tuple(axes), anf.Block(tuple(lets), (value,)), (anf.Reduce(shape, index, "sum"),))
    product = b.one(sum, "product")
    box = [axis(size) for size in shape]
    at = {a.var: anf.poly(x.var) for a, x in zip(kept, box, strict=True)}
    with b.scope() as lets:
        element = b.read(product, [anf.poly(x.var) for x in box])
    into = anf.Reduce(array_type(total).shape, tuple([e.substitute(at.get) for e in place]), "sum", total)
    return b.one(anf.Comp(tuple(box), anf.Block(tuple(lets), (element,)), (into,)), total.name)


def _callers(f: anf.Function, thread: _Thread) -> anf.Function:
    """A function with what its calls of the other collect added after each."""

    def block(inner: anf.Block) -> anf.Block:
        b = Builder()
        with b.scope() as lets:
            for let in inner.lets:
                op = map_blocks(let.op, block)
                b.span = let.span
                if isinstance(op, anf.Call) and op.function == thread.function.name:
                    _call(b, let, op, thread)
                else:
                    b.append(with_op(let, let.vars, op))
        return with_lets(inner, lets, inner.results)

    return with_body(f, block(f.body))


def _call(b: Builder, let: anf.Let, op: anf.Call, thread: _Thread) -> None:
    params = thread.function.params
    given = {p: anf.poly(a) for p, a in zip(params, op.args, strict=True) if p in thread.given}
    more: list[anf.Atom] = []
    vars: list[anf.Var] = []
    for outer in thread.outer.values():
        for dtype, shape in _rows(outer):
            room = b.empty(dtype, [s.substitute(given.get) for s in shape], "room")
            more.append(room)
            vars.append(anf.fresh("room", room.type))
        more.append(anf.Lit(0, "i64"))
        vars.append(anf.fresh("some", I64))
    result = let.vars[thread.result]
    total = anf.fresh(result.name, result.type)
    bound = tuple([total if v is result else v for v in let.vars])
    b.append(anf.Let((*bound, *vars), anf.Call(op.function, (*op.args, *more)), let.span))
    for k, outer in enumerate(thread.outer.values()):
        after = result if k + 1 == len(thread.outer) else anf.fresh(result.name, result.type)
        _add_rest(b, outer, total, vars[3 * k : 3 * k + 3], after, given)
        total = after


def _add_rest(
    b: Builder,
    outer: _Outer,
    total: anf.Var,
    collected: Sequence[anf.Var],
    result: anf.Var,
    given: dict[anf.Var, anf.Size],
) -> None:
    """Binds `result` to the thread with what is left of an outer product added."""
    first, second, some = collected

    def rest() -> anf.Var:
        used = [b.one(part(collected, anf.poly(some)), collected.name) for collected in (first, second)]
        return _added(b, outer, total, used[0], used[1], given)

    b.if_(b.prim("gt", some, anf.Lit(0, "i64"), name="left"), rest, lambda: total, results=(result,))
