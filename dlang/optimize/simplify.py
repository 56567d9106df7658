"""Simplification in one walk: literals, algebra, sizes, reads through what moves no data, branches and loops that are
known, and comprehensions of one point.

Here is what becomes of branches, loops, comprehensions, checks and nodes; `algebra.py` has the rules of scalars, and
`elements.py` those of arrays that are read. Every rule gives the same bits (`algebra.py` names the one exception). What
becomes unused is left to `dce`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import arms_giving, giving, point_of, with_state, without_replaced
from dlang.ir.traverse import map_functions, mentioned, own_consumed, type_vars, walk, with_body
from dlang.ops.monoids import STAYS
from dlang.optimize.algebra import same, simpler
from dlang.optimize.elements import Elements, is_atom


def simplify(program: anf.Program, nests: bool = True) -> anf.Program:
    """The program with every operation in its simplest form.

    nests: whether comprehensions are perfect nests. Before, elements of copies are read where they come from: what then
    depends on fewer axes has its place among these when the nests are made.
    """
    derivatives = any(isinstance(let.op, anf.Derivative) for f in program.functions.values() for let in walk(f.body))

    def function(f: anf.Function) -> anf.Function:
        changing = None if nests else {v for let in walk(f.body) for v in own_consumed(let.op)}
        return with_body(f, _Simplifier(derivatives, changing).block(f.body))

    return map_functions(program, function)


class _Simplifier(Elements):
    """The walk of a function. keep_stops: whether it is still to be differentiated."""

    def __init__(self, keep_stops: bool, changing: Container[anf.Var] | None) -> None:
        super().__init__(changing)
        self.keep_stops = keep_stops

    def same_type(self, a: anf.Type, b: anf.Type) -> bool:
        return self.type(a) == self.type(b)

    # ---- the rule
    def rule(self, let: anf.Let) -> None:
        """Adds what remains of a let, or replaces what it binds."""
        op: anf.Op = let.op
        match op:
            case anf.If() if isinstance(known := self.atom(op.condition), anf.Lit):
                self.splice(op.then if known.value else op.otherwise, let.vars)
                return
            case anf.Fields(variant, node) if (construct := self.made(self.atom(node), variant)) is not None:
                self.env.update(zip(let.vars, construct.args, strict=True))
                return
            case anf.For() | anf.While():
                if self.loop(let, op):
                    return
                let, op = self.without_constant_state(let)
                if isinstance(op, anf.For) and (settled := _settled(op)):
                    for part in _without_settled(let, op, settled):
                        self.rule(part)
                    return
            case anf.Comp():
                op = self.without_unit_axes(op)
                if self.single_point(let.vars, op):
                    return
            case _:
                pass
        self.points += isinstance(op, anf.Comp)
        new = self.located(self.op(op))
        self.points -= isinstance(op, anf.Comp)
        if isinstance(new, anf.Comp):
            new = without_replaced(new)
        elif isinstance(new, anf.For | anf.While) and new.early and new.body.results[0] == anf.Lit(True, "bool"):
            new = replace(new, body=anf.Block(new.body.lets, new.body.results[1:]), early=False)
        if len(let.vars) == 1 and not (isinstance(new, anf.If) and self.branch(new) is None):
            replacement = self.simplest(new, let)
            if isinstance(replacement, anf.Var | anf.Lit):
                self.env[let.vars[0]] = replacement
                return
            self.keep(let, replacement)
            return
        kept = self.several(new, let.vars)
        if kept is not None:
            self.keep(let, kept[1], kept[0])

    def made(self, node: anf.Atom, variant: anf.Variant) -> anf.Construct | None:
        """The operation that makes a node, if it is known. An arm that is never reached may take it for another one."""
        operation = self.definition(node)
        return operation if isinstance(operation, anf.Construct) and operation.variant.tag == variant.tag else None

    # ---- operations of one result
    def simplest(self, op: anf.Op, let: anf.Let) -> anf.Op | anf.Atom:
        """An operation, whose parts are simple, in its simplest form, or the atom that it is."""
        var = let.vars[0]
        for _ in range(8):
            new = self.step(op, var)
            if new is None:
                return op
            if isinstance(new, anf.Var | anf.Lit):
                return new
            op = new
        return op

    def step(self, op: anf.Op, var: anf.Var) -> anf.Op | anf.Atom | None:
        if op.IS.scalar:
            return simpler(self, op)
        match op:
            case anf.Tag(node) if isinstance(construct := self.definition(node), anf.Construct):
                return anf.Lit(construct.variant.tag, "i64")
            case anf.Copy(array):
                return array
            case anf.StopGradient(arg):
                return None if self.keep_stops else arg
            case anf.Assert():
                return op.guarded[0] if self.holds(op) and self.same_type(op.guarded[0].type, var.type) else None
            case anf.Comp():
                return self.copies(op, (var,)).get(0)
            case anf.If():
                return self.branch(op)
            case _:
                return self.element(op)

    def copies(self, op: anf.Comp, vars: tuple[anf.Var, ...]) -> dict[int, anf.Var]:
        """The results of a comprehension that are copies of arrays, and these, unless the comprehension has to stay.

        An array in which elements are set to what they are is a copy of itself.
        """
        if not all(let.op.IS.point for let in op.body.lets):
            return {}
        reads = {let.vars[0]: let.op for let in op.body.lets if isinstance(let.op, anf.Read)}
        reduced = [d for d in op.destinations if isinstance(d, anf.Reduce)]
        copied = {}
        for k, (var, value, d) in enumerate(zip(vars, op.body.results, op.destinations, strict=True)):
            read = reads.get(value) if isinstance(value, anf.Var) else None
            if read is None or not isinstance(read.array.type, anf.Array):
                continue
            if d.into is read.array and d.index == read.index and isinstance(d, anf.Reduce) and d.monoid == "set":
                if d.after is None and all(other.after != k for other in reduced):
                    copied[k] = read.array
                continue
            if (entries := point_of(op, k)) is None:
                continue
            whole = None not in entries and [i.atom for i in read.index] == list(entries)
            if whole and self.same_type(read.array.type, var.type) and read.array.type.shape == d.shape:
                copied[k] = read.array
        return copied

    def branch(self, op: anf.If) -> anf.Op | anf.Atom | None:
        """A branch of one result whose arms agree, or that is its condition."""
        then, otherwise = op.then, op.otherwise
        if then.lets or otherwise.lets:
            return None
        a, b = then.results[0], otherwise.results[0]
        if same(a, b):
            return a
        if isinstance(a, anf.Lit) and isinstance(b, anf.Lit) and a.dtype == "bool":
            return op.condition if a.value else anf.Prim("not", (op.condition,))
        return None

    # ---- operations of any number of results
    def holds(self, op: anf.Assert) -> bool:
        return isinstance(op.condition, anf.Lit) and op.condition.value is True

    def several(self, op: anf.Op, vars: tuple[anf.Var, ...]) -> tuple[tuple[anf.Var, ...], anf.Op] | None:
        """An operation of no or several results; None if nothing remains of it."""
        match op:
            case anf.Assert():
                types = [self.same_type(s.type, v.type) for s, v in zip(op.guarded, vars, strict=True)]
                if self.holds(op) and all(types):
                    self.env.update(zip(vars, op.guarded, strict=True))
                    return None
            case anf.If():
                inside = {v for block in (op.then, op.otherwise) for let in block.lets for v in let.vars}
                keep = []
                for k, (a, b) in enumerate(zip(op.then.results, op.otherwise.results, strict=True)):
                    if same(a, b) and a not in inside:
                        self.env[vars[k]] = a
                    else:
                        keep.append(k)
                if len(keep) == len(vars):
                    return vars, op
                if not op.then.lets and not op.otherwise.lets and not keep:
                    return None
                return tuple([vars[k] for k in keep]), arms_giving(op, keep)
            case anf.Comp() if vars:
                copies = self.copies(op, vars)
                if not copies:
                    return vars, op
                self.env.update({vars[k]: array for k, array in copies.items()})
                keep = [k for k in range(len(vars)) if k not in copies]
                if not keep:
                    return None
                return tuple([vars[k] for k in keep]), giving(op, keep)
            case _:
                pass
        return vars, op

    def loop(self, let: anf.Let, op: anf.For | anf.While) -> bool:
        """Unrolls a loop that surely runs not at all or once."""
        atom = self.atom
        if isinstance(op, anf.While):
            match op.condition:
                case anf.Block((), (anf.Lit(value=False),)):
                    iterations: object = 0
                case _:
                    return False
        else:
            iterations = (self.opened(op.high) - self.opened(op.low)).constant
        if isinstance(iterations, int) and iterations <= 0:
            for var, init in zip(let.vars, op.init, strict=True):
                self.env[var] = atom(init)
            return True
        low = self.opened(op.low) if isinstance(op, anf.For) else anf.ZERO
        if iterations == 1 and isinstance(op, anf.For) and not op.early and is_atom(low):
            for param, init in zip(op.params, op.init, strict=True):
                self.env[param] = atom(init)
            self.env[op.index] = low
            self.splice(op.body, let.vars)
            return True
        return False

    def without_constant_state(self, let: anf.Let) -> tuple[anf.Let, anf.Op]:
        """The loop without the state that every iteration hands on as it is."""
        op = let.op
        assert isinstance(op, anf.For | anf.While)
        nexts = op.body.results[op.early :]
        constant = [
            n is p or (isinstance(n, anf.Var) and n is i) for n, p, i in zip(nexts, op.params, op.init, strict=True)
        ]
        if not any(constant):
            return let, op
        for var, param, init, c in zip(let.vars, op.params, op.init, constant, strict=True):
            if c:
                self.env[param] = self.env[var] = self.atom(init)
        loop = with_state(let, [k for k, c in enumerate(constant) if not c])
        return loop, loop.op

    def without_unit_axes(self, op: anf.Comp) -> anf.Comp:
        """A comprehension without the axes of one point, whose variables become that point.

        One of them stays if there is no other and a result is an array: what makes arrays has an axis. In the body it
        is its point as well where sizes depend on it: what then has no other size depends on fewer axes, and has its
        place among these when nests are made.
        """
        points: dict[anf.Var, anf.Size] = {}
        for axis in op.axes:
            if len(axis.lows) == len(axis.highs) == 1:
                low = self.opened(axis.lows[0])
                if self.opened(axis.highs[0]) - low == anf.poly(1) and is_atom(low):
                    points[axis.var] = low
        if points and len(points) == len(op.axes) and any(d.shape for d in op.destinations):
            last, point = points.popitem()
            if any(size.mentions((last,)) for let in walk(op.body) for size in _sizes(let)):
                op = _with_axis(op, last, anf.fresh(last.name, last.type))
                self.env[last] = point
        if not points:
            return op
        self.env.update(points)
        return anf.Comp(tuple([a for a in op.axes if a.var not in points]), op.body, op.destinations)

    def single_point(self, vars: tuple[anf.Var, ...], op: anf.Comp) -> bool:
        """A comprehension of one point whose results are all scalars is its body."""
        if op.axes or not all(isinstance(d, anf.Reduce) and not d.shape and d.into is None for d in op.destinations):
            return False
        self.splice(op.body, vars)
        for var, d in zip(vars, op.destinations, strict=True):
            if isinstance(d, anf.Reduce) and d.monoid in STAYS:
                self.env[var] = anf.Lit(0, "i64")
        return True


def _sizes(let: anf.Let) -> Iterator[anf.Size]:
    """The sizes and the bounds that a let itself has."""
    for v in let.vars:
        yield from v.type.shape if isinstance(v.type, anf.Array) else ()
    match let.op:
        case anf.Comp(axes):
            for a in axes:
                yield from (*a.lows, *a.highs)
        case anf.For(_, low, high):
            yield from (low, high)
        case _:
            pass


def _with_axis(op: anf.Comp, axis: anf.Var, other: anf.Var) -> anf.Comp:
    """A comprehension with another variable for one of its axes: in its body the old one is then free."""
    named = {axis: anf.poly(other)}.get
    axes = tuple([replace(a, var=other) if a.var is axis else a for a in op.axes])
    moved = tuple([replace(d, index=tuple([e.substitute(named) for e in d.index])) for d in op.destinations])
    return anf.Comp(axes, op.body, moved)


def _settled(op: anf.For) -> list[int]:
    """The state that no iteration reads and that each sets to one value, which is known before the loop."""
    inside = {op.index, *op.params, *[v for let in op.body.lets for v in let.vars]}
    unread = [] if op.early else [k for k, value in enumerate(op.body.results) if value not in inside]
    if not unread:
        return []
    read: set[anf.Atom] = {v for let in op.body.lets for v in mentioned(let.op)}
    read.update(v for k, value in enumerate(op.body.results) for v in [value, *type_vars(op.params[k].type)])
    return [k for k in unread if op.params[k] not in read]


def _without_settled(let: anf.Let, op: anf.For, settled: list[int]) -> list[anf.Let]:
    """A loop without some of its state, and that state behind it: the value, or the first one if no iteration runs."""
    iterations, runs = anf.fresh("iterations", anf.Scalar("i64")), anf.fresh("runs", anf.Scalar("bool"))
    arms = [anf.Block((), tuple([values[k] for k in settled])) for values in (op.body.results, op.init)]
    return [
        with_state(let, [k for k in range(len(op.params)) if k not in settled]),
        anf.Let((iterations,), anf.IndexExpr(op.high - op.low), let.span),
        anf.Let((runs,), anf.Prim("gt", (iterations, anf.Lit(0, "i64"))), let.span),
        anf.Let(tuple([let.vars[k] for k in settled]), anf.If(runs, *arms), let.span),
    ]
