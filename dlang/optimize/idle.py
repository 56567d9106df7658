"""Moves code that only a possibly idle loop needs into a branch: it runs only if the loop has an iteration.

    k, at = compact mask                           k, at = compact mask
    r = [sum(sin(q[t] + s) for s) for t]  →     r = if k > 0 { [sum(sin(q[t] + s) for s) for t] } else { zeros }
    y = [p[at[j]] * r[t] for j < k, t]             y = [p[at[j]] * r[t] for j < k, t]

Passes move out of loops and comprehensions what does not change there. Where it depends on data how many iterations or
points there are, that may be none, and then the program as written makes nothing of it. Of sizes it is taken that there
are some. Passes would see less of a program with more branches, so this comes when products are recognised and
comprehensions merged; and before derivatives are expanded, where there are any: the adjoint of what is made in a branch
is found in one.

What only an arm of a branch needs is made there in the same way. A loop of which a result is needed elsewhere
too runs in the branch, and the others get what it begins with. A condition that takes long is found once: the loop has
it in its state.

What an operation does in its iterations is needed only if there are any, and so is what only that needs. Code that ends
the run or is seen by the world stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod

from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    bound_vars,
    count_own_uses,
    count_uses,
    free_vars,
    map_blocks,
    map_functions,
    parts,
    type_vars,
    used_by,
    walk,
    with_body,
    with_lets,
    with_op,
)
from dlang.ir.types import BOOL, I64
from dlang.ops import figures
from dlang.ops.primitives import COUNTING
from dlang.optimize.effects import consumed_by, effectful_functions, is_effectful
from dlang.optimize.lifting import nothing, zero
from dlang.polynomials import Coefficient


@dataclass(frozen=True, slots=True)
class _Iterations:
    """Says that there is a number between two, that the condition of a loop holds at first, or that of a branch.

    params, loop: the state of the loop, by which it is told from others, and the loop. once: to find its condition
    takes long. branch: the condition of one.
    """

    low: anf.Size = anf.ZERO
    high: anf.Size = anf.ZERO
    branch: anf.Var | None = None
    params: tuple[anf.Var, ...] = ()
    loop: anf.While | None = field(default=None, compare=False)
    once: bool = field(default=False, compare=False)

    def named(self) -> Set[anf.Var]:
        """Returns the variables from which the iterations are found."""
        if self.branch is not None:
            return {self.branch}
        if self.loop is None:
            return {*self.low.atoms(), *self.high.atoms()}
        first = dict(zip(self.params, self.loop.init, strict=True))
        return {v for p in free_vars(self.loop.condition) if isinstance(v := first.get(p, p), anf.Var)}

    def order(self) -> tuple[list[int], list[tuple[list[int], Coefficient]]]:
        """Returns the key by which the iterations are ordered."""
        terms = sorted([([v.serial for v in m], c) for m, c in (self.high - self.low).terms.items()])
        return sorted([v.serial for v in {*self.params, *self.named()}]), terms

    def refuses(self) -> bool:
        """Tells whether finding the iterations may end the run."""
        return self.loop is not None and any(isinstance(let.op, anf.Assert) for let in walk(self.loop.condition))

    def holds(self, b: Builder) -> anf.Atom:
        """Emits the condition."""
        if self.branch is not None:
            return self.branch
        if self.loop is None:
            return b.prim("gt", b.size(self.high), b.size(self.low))
        first = Renaming(dict(zip(self.params, self.loop.init, strict=True)), renew=True)
        (holds,) = b.inline(first.block(self.loop.condition))
        return holds


Needs = frozenset[_Iterations]  # what surely holds where something is needed
ALWAYS: Needs = frozenset()


@dataclass(frozen=True, slots=True)
class _Inner:
    """A block, what it needs of what is around it, and whether it costs something."""

    block: anf.Block
    needed: Mapping[anf.Var, Needs]
    costs: bool


def idle(program: anf.Program) -> anf.Program:
    """The program that makes nothing for loops without iterations, and what one arm needs in that arm alone."""
    effectful = effectful_functions(program)
    return map_functions(program, lambda f: _function(f, effectful))


def _function(function: anf.Function, effectful: Set[str]) -> anf.Function:
    sizes = {*function.sizes, *[v for p in function.params for v in type_vars(p.type)]}
    indices: set[anf.Var] = set()
    named: dict[anf.Var, anf.Size] = {}
    positive: dict[anf.Atom, Needs] = {}
    exact: set[anf.Atom] = set()
    for let in walk(function.body):
        match let.op:
            case anf.For(index=index):
                indices.add(index)
            case anf.Comp(axes=axes):
                indices.update([a.var for a in axes])
            case anf.IndexExpr(size):
                named[let.vars[0]] = size
                if sizes.issuperset(size.atoms()):
                    sizes.update(let.vars)
            case anf.Prim("gt", (x, y)) | anf.Prim("lt", (y, x)) if x.type == I64:
                low, high = [named.get(a) or anf.poly(a) if isinstance(a, anf.Var) else anf.poly(a) for a in (y, x)]
                positive[let.vars[0]] = frozenset([_Iterations(low, high)])
                exact.update(let.vars)
            case anf.Prim("and", (a, b)):
                positive[let.vars[0]] = positive.get(a, ALWAYS) | positive.get(b, ALWAYS)
                exact.update(let.vars if exact.issuperset((a, b)) else ())
            case anf.Prim(name, args) if name in COUNTING and let.vars[0].type == I64:
                if all(isinstance(a, anf.Lit) or a in sizes for a in args):
                    sizes.update(let.vars)
            case anf.If(anf.Var() as condition) if condition not in exact:
                positive[condition] = positive.get(condition, ALWAYS) | {_Iterations(branch=condition)}
                exact.add(condition)
            case _:
                pass
    code = _Code(sizes, indices, positive, exact, effectful)
    return with_body(function, code.block(function.body).block)


@dataclass(frozen=True, slots=True)
class _Code:
    """The code of a function. sizes: what is computed from the sizes of its parameters; indices: of loops.

    positive: what surely holds where a condition does. exact: the conditions that say nothing else.
    """

    sizes: set[anf.Var]
    indices: set[anf.Var]
    positive: Mapping[anf.Atom, Needs]
    exact: Set[anf.Atom]
    effectful: Set[str]

    # ---- loops that may have no iterations
    # --------------------------------------------------------------------------------
    def idle(self, op: anf.Op, inner: Sequence[_Inner]) -> Needs:
        """Returns the conditions under which an operation has iterations, or points, as far as they depend on data."""
        match op:
            case anf.For(low=low, high=high):
                ends = [(low, high)]
            case anf.Comp(axes=axes):
                variables = {a.var for a in axes}
                pairs = [(low, high) for a in axes for low in a.lows for high in a.highs]
                ends = [
                    (low, high) for low, high in pairs if not low.mentions(variables) and not high.mentions(variables)
                ]
            case anf.While():
                seen = any(isinstance(let.op, anf.Effect) for let in walk(op.condition))
                twice = inner[0].costs and op.early
                return frozenset([] if seen or twice else [_Iterations(params=op.params, loop=op, once=inner[0].costs)])
            case _:
                return ALWAYS
        return frozenset([_Iterations(low, high) for low, high in ends if self.unsure(high - low)])

    def unsure(self, count: anf.Size) -> bool:
        """Tells whether a number may be 0 by more than sizes; one that varies in a loop counts as positive."""
        if count.mentions(self.indices):
            return False
        return not all(not m or (c > 0 and self.sizes.issuperset(m)) for m, c in count.terms.items())

    # ---- what needs something ----------------------------------------------------------------------------------------
    def uses(self, op: anf.Op, inner: Sequence[_Inner]) -> dict[anf.Var, Needs]:
        """Maps the variables that an operation uses to the conditions under which they are needed."""
        p = parts(op)
        needs_of = {v: ALWAYS for size in p.sizes for v in size.atoms()}
        needs_of.update({a: ALWAYS for a in p.atoms if isinstance(a, anf.Var)})
        iterations = self.idle(op, inner)
        for k, block in enumerate(inner):
            around = iterations
            if isinstance(op, anf.While) and k == 0:
                around = ALWAYS
            elif isinstance(op, anf.If):
                around = self.positive.get(op.condition, ALWAYS) if k == 0 else ALWAYS
            for v, needs in block.needed.items():
                needs_of[v] = needs_of[v] & (needs | around) if v in needs_of else needs | around
        return _outside(needs_of, set(p.binds))

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def block(self, block: anf.Block) -> _Inner:
        lets: list[anf.Let] = []
        blocks: list[list[_Inner]] = []
        for let in block.lets:
            inner: list[_Inner] = []

            def done(b: anf.Block, inner: list[_Inner] = inner) -> anf.Block:
                inner.append(self.block(b))
                return inner[-1].block

            lets.append(with_op(let, let.vars, map_blocks(let.op, done)))
            blocks.append(inner)
        heavy = [_heavy(let.op, inner) for let, inner in zip(lets, blocks, strict=True)]
        uses = count_own_uses(with_lets(block, lets, block.results))
        guards, needed, instead = self.guards(lets, blocks, heavy, uses, block.results)
        local = {v for let in lets for v in let.vars}
        if any(guards):
            lets = _Guarded(self.positive, self.exact, local, uses, instead).made(lets, guards)
        return _Inner(with_lets(block, lets, block.results), _outside(needed, local), any(heavy))

    def guards(
        self,
        lets: Sequence[anf.Let],
        blocks: Sequence[Sequence[_Inner]],
        heavy: Sequence[bool],
        uses: Mapping[anf.Var, int],
        results: Iterable[anf.Atom],
    ) -> tuple[list[Needs], dict[anf.Var, Needs], dict[anf.Var, anf.Atom]]:
        """Returns the conditions under which some lets are to run, and the needs of all values.

        The last are values of what is needed also where that does not hold.
        """
        movable = self.movable(lets, heavy, uses)
        needed: dict[anf.Var, Needs] = {v: ALWAYS for v in results if isinstance(v, anf.Var)}
        guards: list[Needs] = []
        instead: dict[anf.Var, anf.Atom] = {}
        for let, inner, moves in zip(reversed(lets), reversed(blocks), reversed(movable), strict=True):
            for var in let.vars:
                needed.update(dict.fromkeys(type_vars(var.type), ALWAYS))
            of_results = [needed[v] for v in let.vars if v in needed]
            guard = of_results[0].intersection(*of_results[1:]) if moves and of_results else ALWAYS
            of_iterations = self.iterations_alone(let, inner, needed) if moves and of_results else ALWAYS
            if of_iterations - guard:
                guard |= of_iterations
                without = _without_iterations(let)
                for v in let.vars:
                    if v in needed and not guard <= needed[v]:
                        instead[v] = without[v]
            elif guard and self.costs_nothing(let, inner, guard):
                guard = ALWAYS
            for v, needs in self.uses(let.op, inner).items():
                needed[v] = needed[v] & (needs | guard) if v in needed else needs | guard
            for v in let.vars:
                first = instead.get(v)
                if isinstance(first, anf.Var):
                    needed[first] = needed.get(first, needed[v]) & needed[v]
            guards.append(guard)
        return guards[::-1], needed, instead

    def iterations_alone(self, let: anf.Let, inner: Sequence[_Inner], needed: Mapping[anf.Var, Needs]) -> Needs:
        """The condition that a loop has iterations, if only then some large array that it gives is needed."""
        iterations = self.idle(let.op, inner)
        large = [v for v in let.vars if isinstance(v.type, anf.Array) and any(n.constant is None for n in v.type.shape)]
        where = [needed[v] & iterations for v in large if v in needed]
        some = max(where, key=len, default=ALWAYS)
        known = _without_iterations(let)
        others = [v for v in let.vars if v in needed and not some <= needed[v]]
        return some if some and all(v in known for v in others) else ALWAYS

    def costs_nothing(self, let: anf.Let, inner: Sequence[_Inner], guard: Needs) -> bool:
        """Tells whether a let makes nothing anyhow where the guard does not hold."""
        if isinstance(let.op, anf.If):
            return guard <= self.positive.get(let.op.condition, ALWAYS) and not inner[1].costs
        shapes = [v.type.shape for v in let.vars if isinstance(v.type, anf.Array)]
        empty = all(any(_Iterations(anf.ZERO, size) in guard for size in s) for s in shapes)
        return empty and (isinstance(let.op, anf.Contract) or bool(self.idle(let.op, inner) & guard))

    def movable(self, lets: Sequence[anf.Let], heavy: Sequence[bool], uses: Mapping[anf.Var, int]) -> list[bool]:
        """Tells which lets may run only where needed: pure ones that cost something, and those that depend on them."""
        after: set[anf.Var] = set()
        out = []
        for let, costs in zip(lets, heavy, strict=True):
            costs = costs or not after.isdisjoint(used_by(let))
            plain = all(
                isinstance(v.type, anf.Array | anf.Scalar) and v.type.dtype in anf.DTYPES for v in let.vars if v in uses
            )
            moves = costs and plain and bool(let.vars) and not is_effectful(let.op, self.effectful)
            moves = moves and not isinstance(let.op, anf.Fields | anf.Derivative) and after.issuperset(_taken(let.op))
            if moves:
                after.update(let.vars)
            out.append(moves)
        return out


def _taken(op: anf.Op) -> set[anf.Var]:
    """The arrays from outside of an operation that it consumes."""
    return set(consumed_by(op)).difference(bound_vars(op))


def _without_iterations(let: anf.Let) -> dict[anf.Var, anf.Atom]:
    """The results of an operation without an iteration, or a point, as far as these have names."""
    match let.op:
        case anf.For(init=init) | anf.While(init=init):
            return dict(zip(let.vars, init, strict=True))
        case anf.Comp(destinations=destinations) if not any(
            isinstance(d, anf.Reduce) and d.after is not None for d in destinations
        ):
            named = zip(let.vars, destinations, strict=True)
            return {
                v: d.into or zero(v) for v, d in named if d.into or isinstance(d, anf.ScatterAdd) or d.monoid == "sum"
            }
        case _:
            return {}


def _outside(needed: Mapping[anf.Var, Needs], local: Set[anf.Var]) -> dict[anf.Var, Needs]:
    """Returns the needs of the variables that are not local, with the conditions that can be told outside."""
    known = {needs: frozenset([t for t in needs if local.isdisjoint(t.named())]) for needs in set(needed.values())}
    return {v: known[needs] for v, needs in needed.items() if v not in local}


def _heavy(op: anf.Op, inner: Sequence[_Inner]) -> bool:
    """Tells whether the cost of an operation grows with sizes, or is not known."""
    match op:
        case anf.Comp(axes) if _many(axes):
            return True
        case anf.For(low=low, high=high) if (high - low).constant is None or (high - low).constant > figures.IDLE_UP_TO:
            return True
        case anf.While() | anf.Call() | anf.LinalgOp():
            return True
        case anf.Compact():  # what it gives is how many there are, on which conditions depend
            return False
        case _ if op.IS.long and op.IS.total:
            arrays = [a.type for a in parts(op).atoms if isinstance(a.type, anf.Array)]
            return any(size.constant is None for array in arrays for size in array.shape)
        case _:
            return any(block.costs for block in inner)


def _many(axes: Sequence[anf.Axis]) -> bool:
    """Tells whether there are, or may be, more points than a few."""
    counts = [[(high - low).constant for low in a.lows for high in a.highs] for a in axes]
    least = [min([c for c in differences if c is not None], default=None) for differences in counts]
    return any(c is None for c in least) or prod([int(c) for c in least if c is not None]) > figures.IDLE_UP_TO


def _with_condition(let: anf.Let, op: anf.While, first: anf.Atom) -> anf.Let:
    """A loop that has its condition in its state, of which the first value is known."""
    go = anf.fresh("go", BOOL)
    again = Renaming(dict(zip(op.params, op.body.results, strict=True)), renew=True).block(op.condition)
    body = anf.Block((*op.body.lets, *again.lets), (*op.body.results, *again.results))
    loop = anf.While((*op.params, go), (*op.init, first), anf.Block((), (go,)), body)
    return anf.Let((*let.vars, anf.fresh("go", BOOL)), loop, let.span)


@dataclass(slots=True)
class _Guarded:
    """The lets of a block being put into branches, each branch where something first needs what it makes.

    local: what the block binds. uses: how often it mentions each variable. instead: what is needed where what makes it
    does not run, and then has a value all the same: a variable, or the number that an array is full of. waiting: what
    is to be in a branch, by what holds there. first: the condition of loops at first, where it has been found. behind:
    loops that have been emitted.
    """

    positive: Mapping[anf.Atom, Needs]
    exact: Set[anf.Atom]
    local: Set[anf.Var]
    uses: Mapping[anf.Var, int]
    instead: Mapping[anf.Var, anf.Atom]
    lets: list[anf.Let] = field(default_factory=list)
    defined: set[anf.Var] = field(default_factory=set)
    waiting: dict[Needs, list[anf.Let]] = field(default_factory=dict)
    first: dict[tuple[anf.Var, ...], anf.Atom] = field(default_factory=dict)
    behind: set[tuple[anf.Var, ...]] = field(default_factory=set)

    def made(self, lets: Sequence[anf.Let], guards: Sequence[Needs]) -> list[anf.Let]:
        for let, guard in zip(lets, guards, strict=True):
            named = {*used_by(let), *[v for var in let.vars for v in type_vars(var.type)]}
            consumed = set(consumed_by(let.op))
            for other in list(self.waiting):
                joins = other == guard or (guard and guard not in self.waiting)
                if not joins and isinstance(let.op, anf.If) and self.positive.get(let.op.condition, ALWAYS) >= other:
                    let = self.inside(let, let.op, other, alone=not guard)
                if self.changes(consumed, other, guard) or (not joins and self.gives(other, named)):
                    self.flush(other, let.op)
            if guard:
                self.waiting.setdefault(guard, []).append(let)
            else:
                self.emit([let])
        for guard in list(self.waiting):
            self.flush(guard)
        return self.lets

    def gives(self, guard: Needs, named: Set[anf.Var]) -> bool:
        """Tells whether the lets that wait for a guard bind a variable of `named`."""
        return any(v in named for let in self.waiting.get(guard, ()) for v in let.vars)

    def changes(self, consumed: Set[anf.Var], other: Needs, guard: Needs) -> bool:
        """Tells whether code that consumes arrays would come before waiting lets that read them."""
        if not consumed or other == guard:
            return False
        return any(v in consumed for let in self.waiting.get(other, ()) for v in used_by(let))

    def inside(self, let: anf.Let, op: anf.If, guard: Needs, alone: bool) -> anf.Let:
        """A branch with what waits in its first arm, if that uses what it gives and the other does not.

        Where others use it as well, the branch has to run just where it is needed. alone: it stands in no other one.
        """
        lets = self.waiting.get(guard, [])
        vars = [v for each in lets for v in each.vars]
        inner = count_uses(anf.Block((*lets, *op.then.lets), op.then.results))
        given = [v for v in vars if self.uses.get(v, 0) > inner.get(v, 0)]
        same = op.condition in self.exact and self.positive[op.condition] == guard
        if not self.gives(guard, set(free_vars(op.then))) or self.gives(guard, set(free_vars(op.otherwise))):
            return let
        if given and not (same and alone):
            return let
        del self.waiting[guard]
        self.needed_by(lets)
        renaming = Renaming({}, renew=True)
        then = renaming.block(anf.Block((*lets, *op.then.lets), (*op.then.results, *given)))
        b = Builder(span=let.span)
        with b.scope() as others:
            results = [*op.otherwise.results, *[self.otherwise(b, v, vars) for v in given]]
        otherwise = anf.Block((*op.otherwise.lets, *others), tuple(results))
        return anf.Let((*let.vars, *given), anf.If(op.condition, then, otherwise, cold=op.cold), let.span)

    def needed_by(self, lets: Sequence[anf.Let]) -> None:
        """Emits what waits and gives something that some lets need."""
        named = {v for let in lets for v in used_by(let)}
        for other in list(self.waiting):
            if self.gives(other, named):
                self.flush(other)

    def flush(self, guard: Needs, by: anf.Op | None = None) -> None:
        """Emits what waits, behind that which it needs. by: the operation in front of which it has to be."""
        lets = self.waiting.pop(guard, [])
        self.needed_by(lets)
        ready = all(v not in self.local or v in self.defined for iterations in guard for v in iterations.named())
        ready = ready and not any(t.once and t.params in self.behind and t.params not in self.first for t in guard)
        refuses = any(iterations.refuses() and iterations.loop is not by for iterations in guard)
        self.emit(self.branch(guard, lets) if ready and not refuses else lets)

    def emit(self, lets: Iterable[anf.Let]) -> None:
        for let in lets:
            self.lets.append(self.entered(let))
            self.defined.update(let.vars)

    def entered(self, let: anf.Let) -> anf.Let:
        """A loop whose condition has been found at first, with the condition as a part of its state; others stay."""
        op = let.op
        if not isinstance(op, anf.While):
            return let
        self.behind.add(op.params)
        first = self.first.get(op.params)
        return let if first is None else _with_condition(let, op, first)

    def branch(self, guard: Needs, lets: Sequence[anf.Let]) -> list[anf.Let]:
        """A branch that runs some lets if what is to hold does."""
        inside = count_uses(anf.Block(tuple(lets), ()))
        bound = [v for let in lets for v in let.vars]
        given = [v for v in bound if self.uses.get(v, 0) > inside.get(v, 0)]
        if not given:
            return []
        b = Builder(span=next((let.span for let in lets if let.span is not None), None))

        def otherwise() -> list[anf.Atom]:
            return [self.otherwise(b, v, bound) for v in given]

        with b.scope() as out:
            conditions = [self.condition(b, iterations) for iterations in sorted(guard, key=_Iterations.order)]
            all_hold = conditions[0]
            for condition in conditions[1:]:
                all_hold = b.prim("and", all_hold, condition)
            renaming = Renaming({}, renew=True)
            inner = tuple([renaming.let(self.entered(let)) for let in lets])
            then = anf.Block(inner, tuple([renaming.atom(v) for v in given]))
            b.emit_as(given, anf.If(all_hold, then, b.block(otherwise)))
        return out

    def condition(self, b: Builder, iterations: _Iterations) -> anf.Atom:
        """Emits a condition; one that takes long is found once."""
        if not iterations.once:
            return iterations.holds(b)
        if iterations.params not in self.first:
            self.first[iterations.params] = iterations.holds(b)
        return self.first[iterations.params]

    def otherwise(self, b: Builder, v: anf.Var, bound: Sequence[anf.Var]) -> anf.Atom:
        """Returns the stand-in for a value that is not made."""
        value = self.instead.get(v)
        while isinstance(value, anf.Var) and value in bound:
            value = self.instead.get(value)
        if value is not None:
            return (
                b.full(v.type.shape, value) if isinstance(v.type, anf.Array) and isinstance(value, anf.Lit) else value
            )
        return nothing(b, v)
