"""Loops: what a body assigns is the state, of one structure for all iterations.

That structure is found by trying: where an iteration gives another one than it got, the state gets the more general
one, and the body is emitted again. So a function that a loop changes becomes dynamic, and a size that changes one more
i64 of the state, before the arrays that mention it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Lit, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.analysis import acts_in, assigned, escapes
from dlang.specialize.binders import bound
from dlang.specialize.dynamic import reconciled
from dlang.specialize.emitter import FALSE
from dlang.specialize.frame import Exits, Frame, scalar, unsupported
from dlang.specialize.layouts import into
from dlang.specialize.randomness import at, draws_in, points, restart
from dlang.specialize.types import Mono
from dlang.specialize.values import (
    UNIT,
    ScalarV,
    Value,
    alike,
    contains_function,
    formal,
    leaves,
    mono_of,
    sizes_of,
    with_sizes,
)
from dlang.typecheck import core, types as ty
from dlang.typecheck.trees import Tree, binder_children


# ---- what a loop carries ---------------------------------------------------------------------------------------------
def changing(f: Frame, *trees: Tree) -> list[core.Local]:
    """Lists the locals of this frame that code inside assigns, and the flags of how it may leave."""
    kinds = frozenset[str]().union(*[escapes(t) for t in trees])
    flags = f.exits.of(kinds)
    if "return" in kinds and f.exits.result is not None:
        flags.append(f.exits.result)
    return [local for local in (*assigned(*trees), *flags) if local in f.env]


def flag_value(f: Frame, flags: Sequence[core.Local]) -> Atom:
    """Emits the test whether one of the flags is set."""
    out: Atom = FALSE
    for flag in flags:
        (flag_set,) = leaves(f.env[flag])
        out = flag_set if out == FALSE else out if flag_set == FALSE else f.emitter.prim("or", out, flag_set)
    return out


@dataclass(slots=True)
class Carried:
    """A local in the state. varying: which of the sizes of its value, in order, are of the state too.

    formal: what it stands for in an iteration. like: a value that an iteration gave, if it is of another structure.
    """

    local: core.Local
    init: Value
    may_vary: bool
    varying: set[int] = field(default_factory=set)
    sizes: tuple[Var, ...] = ()
    formal: Value = UNIT
    like: Value | None = None

    def enter(self, f: Frame) -> list[Var]:
        """Fresh parameters, for which the local stands inside."""
        sizes: list[Var] = []
        given: list[Size] = []
        for k, s in enumerate(sizes_of(self.init)):
            if k in self.varying:
                sizes.append(size_var(f))
            given.append(poly(sizes[-1]) if k in self.varying else s)
        self.sizes = tuple(sizes)
        self.formal = f.env[self.local] = formal(with_sizes(self.init, iter(given)), lambda s: s)
        return [*sizes, *vars_of(self.formal)]

    def first(self, f: Frame) -> list[Atom]:
        """The first state."""
        sizes = [f.emitter.atom(s) for k, s in enumerate(sizes_of(self.init)) if k in self.varying]
        return [*sizes, *leaves(self.init)]

    def next(self, f: Frame) -> list[Atom] | None:
        """The next state; None if it is of another structure, or its sizes are others, and those are carried now."""
        v = f.env[self.local]
        if not alike(v, self.formal):
            v = reconciled(f, v, self.formal, self.type(f))
            if not alike(v, self.formal):
                self.like = v
                return None
        sizes_now = list(sizes_of(v))
        given = list(sizes_of(self.formal))
        opened = f.emitter.opened
        changed = {k for k, (a, b) in enumerate(zip(sizes_now, given, strict=True)) if opened(a) != opened(b)}
        if (self.may_vary or contains_function(v)) and not changed <= self.varying:
            self.varying |= changed
            return None
        target = [a if k in self.varying else b for k, (a, b) in enumerate(zip(sizes_now, given, strict=True))]
        sizes = [f.emitter.atom(s) for k, s in enumerate(sizes_now) if k in self.varying]
        return [*sizes, *leaves(f.fit(v, mono_of(with_sizes(v, iter(target)))))]

    def adapt(self, f: Frame) -> None:
        """Before another try, the first value gets the structure of what the iteration gave."""
        if self.like is None:
            return
        before = self.init
        self.init = reconciled(f, self.init, self.like, self.type(f))
        if alike(self.init, before):
            raise unsupported(f"`{self.local.name}` of another structure after each iteration", f.emitter.span)
        self.like, self.varying = None, set()

    def after(self, f: Frame) -> list[Var]:
        """Fresh variables for the last state, for which the local stands after the loop."""
        sizes = [size_var(f) for _ in self.sizes]
        mapping = {s: poly(k) for s, k in zip(self.sizes, sizes, strict=True)}
        v = f.env[self.local] = formal(self.formal, into(mapping))
        return [*sizes, *vars_of(v)]

    def type(self, f: Frame) -> Mono:
        return f.erasing().mono(self.local.type)


@dataclass(slots=True)
class State:
    """The state of a loop; the token comes last. outer: the world before the loop, also if it is not touched."""

    carried: list[Carried]
    before: dict[core.Local | core.FnDecl, Value]
    token: Atom | None
    outer: Atom | None

    def enter(self, f: Frame) -> tuple[Var, ...]:
        """Fresh parameters; inside, the state stands for them."""
        f.env = dict(self.before)
        params = [p for c in self.carried for p in c.enter(f)]
        if self.token is not None:
            f.world.token = fresh("world", anf.Token())
            params.append(f.world.token)
        return tuple(params)

    def first(self, f: Frame) -> tuple[Atom, ...]:
        initial = [a for c in self.carried for a in c.first(f)]
        return (*initial, *([self.token] if self.token is not None else []))

    def next(self, f: Frame) -> list[Atom] | None:
        """The next state; None if the state has to be more general."""
        states = [c.next(f) for c in self.carried]
        out: list[Atom] = []
        for atoms in states:
            if atoms is None:
                return None
            out.extend(atoms)
        if self.token is not None:
            assert f.world.token is not None
            out.append(f.world.token)
        elif f.world.token is not self.outer:
            raise unsupported("an effect of a function whose type does not state it", f.emitter.span)
        return out

    def again(self, f: Frame) -> None:
        """Back to before the loop, for another try."""
        f.env = dict(self.before)
        if self.token is not None:
            f.world.token = self.token
        for c in self.carried:
            c.adapt(f)
            self.before[c.local] = c.init

    def after(self, f: Frame) -> tuple[Var, ...]:
        """Fresh variables for the last state; after the loop the locals stand for them."""
        f.env = dict(self.before)
        out = [v for c in self.carried for v in c.after(f)]
        if self.token is not None:
            f.world.token = fresh("world", anf.Token())
            out.append(f.world.token)
        return tuple(out)

    def name(self, f: Frame) -> None:
        """Marks what the locals stand for now, if names are wanted."""
        for c in self.carried:
            f.name(c.local)


def state_of(f: Frame, locals_: Sequence[core.Local], *trees: Tree) -> State:
    """The state of a loop that is entered now, as far as it is known before it was tried."""
    carried = [Carried(x, f.env[x], x is f.exits.result or changes_size(x.type)) for x in locals_]
    acts = f.world.token is not None and acts_in(f.env, *trees)
    return State(carried, dict(f.env), f.world.token if acts else None, f.world.token)


def changes_size(t: ty.Type) -> bool:
    """Tells whether a `var` was declared with `?`: only then may its size change."""
    return any(v.opened for v in ty.size_vars_in(t))


def size_var(f: Frame) -> Var:
    v = fresh("n", I64)
    f.emitter.facts.size(v)
    return v


def vars_of(v: Value) -> list[Var]:
    return [a for a in leaves(v) if isinstance(a, Var)]


# ---- loops -----------------------------------------------------------------------------------------------------------
def loop(f: Frame, binders: Sequence[core.Binder], body: core.Expr) -> None:
    """`for`: several binders nest."""
    em = f.emitter
    b = bound(f, binders[0])
    outer = f.exits
    early = start_loop(f, body, nested=len(binders) > 1)
    inside = [body, *[x for inner in binders[1:] for x in binder_children(inner)]]
    iterations = points(f, draws_in(f, *inside))
    state = state_of(f, loop_state(f, body), *inside)
    copies = em.copies.mark()
    while True:
        em.copies.undo(copies)
        restart(iterations)
        index = em.axis(b.size, b.name).var
        params = state.enter(f)
        with f.block() as lets, at(f, iterations, (index,)):
            b.bind(f, [poly(index)])
            state.name(f)
            if len(binders) > 1:
                loop(f, binders[1:], body)
            else:
                iteration(f, body)
            results = next_state(f, state, early)
        if results is not None:
            break
        state.again(f)
    block = Block(tuple(lets), tuple(results))
    op = anf.For(index, poly(0), b.size, params, state.first(f), block, bool(early))
    em.bind(op, state.after(f))
    state.name(f)
    f.exits = outer


def while_loop(f: Frame, condition: core.Expr, body: core.Expr) -> None:
    """Emits a `while`, again with a more general state as long as that of an iteration does not fit."""
    em = f.emitter
    outer = f.exits
    early = start_loop(f, body)
    iterations = points(f, draws_in(f, condition, body))
    number = core.Local("iteration", ty.TypeCon("u64"))
    f.env[number] = ScalarV(Lit(0, "u64"))
    locals_ = loop_state(f, condition, body)
    state = state_of(f, locals_ if iterations is None else [*locals_, number], condition, body)
    copies = em.copies.mark()
    while True:
        em.copies.undo(copies)
        restart(iterations)
        params = state.enter(f)
        inside, token = dict(f.env), f.world.token
        with f.block() as test, at(f, iterations, list(leaves(f.env[number]))):
            f.world.token = None
            state.name(f)
            holds = f.bool(condition)
        f.env, f.world.token = inside, token
        with f.block() as lets:
            with at(f, iterations, list(leaves(f.env[number]))):
                state.name(f)
                iteration(f, body)
            if iterations is not None:
                f.env[number] = ScalarV(em.prim("add", scalar(f.env[number]), Lit(1, "u64")))
            results = next_state(f, state, early)
        if results is not None:
            break
        state.again(f)
    test_block, body_block = Block(tuple(test), (holds,)), Block(tuple(lets), tuple(results))
    op = anf.While(params, state.first(f), test_block, body_block, bool(early))
    em.bind(op, state.after(f))
    state.name(f)
    f.exits = outer


def start_loop(f: Frame, body: core.Expr, nested: bool = False) -> frozenset[str]:
    """Sets up the flags of a loop; the ways in which its body may end it early."""
    flag = ty.TypeCon("bool")
    broken = f.exits.broken
    if broken is None or not f.exits.nested:
        broken = core.Local("broken", flag)
        f.env[broken] = ScalarV(FALSE)
    continued = None if nested else core.Local("continued", flag)
    f.exits = Exits(f.exits.returned, f.exits.result, broken, continued, nested)
    return escapes(body) & {"return", "break"}


def loop_state(f: Frame, *trees: Tree) -> list[core.Local]:
    """Lists the state of a loop: locals that iterations may change, without the flag of one cut short."""
    state = changing(f, *trees)
    kinds = frozenset[str]().union(*[escapes(t) for t in trees])
    return state if "continue" not in kinds else [local for local in state if local is not f.exits.continued]


def iteration(f: Frame, body: core.Expr) -> None:
    """One run of a loop's body."""
    if f.exits.continued is not None:
        f.env[f.exits.continued] = ScalarV(FALSE)
    f.eval(body)


def next_state(f: Frame, state: State, early: frozenset[str]) -> list[Atom] | None:
    """The results of a body: whether to go on, if it may end the loop; then the state. None to try again."""
    results = state.next(f)
    if results is None or not early:
        return results
    return [f.emitter.prim("not", flag_value(f, f.exits.of(early))), *results]
