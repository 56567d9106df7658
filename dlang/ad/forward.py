"""Forward mode on a block: one walk over its lets, which emits each operation and, where it is active, its tangent.

Notation: ẏ is the tangent of y. Every operation runs once: the tangents of what a comprehension, a loop or a branch
binds are further results of the same one.

The tangents of making a node and of looking into one; those of nodes are of their tangent datatypes (`signatures.py`).

x = K(a…)          ẋ = K̄(ȧ…)
a… = fields K x    ȧ… = the fields of ẋ, or zeros where ẋ is zero

The tangent of a comprehension: more results of the same one.

    y[o] = Σ f(x[i], w[j])        ẏ[o] = Σ ẋ[i] ∂f/∂x[i] + ẇ[j] ∂f/∂w[j]

Sums, scatters and plain stores share this rule. `max` and `min` also give the position of their first extremum, and
their tangent is that of the body at this point. Products, and what has no such form, are loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dlang.ad.activity import active_vars, next_state
from dlang.ad.comprehension import attained, needs_loop, positions_of
from dlang.ad.conversions import Conversions
from dlang.ad.inlining import Versions, functions_that_stay, inlined_where_active, unused
from dlang.ad.linear_algebra import jvp_library
from dlang.ad.nodes import constructed
from dlang.ad.refusal import called, refusal
from dlang.ad.rules import cast_tangent, tangent
from dlang.ad.scope import Dual
from dlang.ad.sequential import by_element, sequential
from dlang.ad.tangent_types import is_zero, retyped
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Atom, Block, Call, Function, Jvp, Let, Program, Type, Var, fresh
from dlang.ir.builder import Builder, axis
from dlang.ir.comprehension_queries import without_results
from dlang.ir.marks import TANGENT, has_marks, is_mark, mark_of, tangent_kind
from dlang.ir.substitution import Renaming, refresh
from dlang.ir.types import array_type, carries, dtype_of, named_sizes, type_of
from dlang.ir.writes import determines, missing
from dlang.ops.monoids import CHOOSING
from dlang.optimize.distribute import distribute_function


@dataclass(slots=True)
class ForwardWalk(Dual):
    """The forward walk of a function, with the tangent of every operation."""

    def walk(self, lets: Sequence[anf.Let]) -> None:
        for let in lets:
            span = self.b.span
            self.b.span = let.span or span
            if any(v in self.active for v in let.vars):
                _jvp(let, self)
            else:
                self.b.append(let)
            self.b.span = span


def _jvp(let: anf.Let, s: Dual) -> None:
    op = let.op
    match op:
        case anf.Comp():
            jvp_comp(let, op, s)
        case anf.If():
            _jvp_if(let, op, s)
        case anf.For() | anf.While():
            _jvp_loop(let, op, s)
        case anf.Assert() if is_mark(op):
            _jvp_mark(let, op, s)
        case anf.Assert():
            # Tangents are certified with the values: no access to one is moved above the check.
            known = [(v, dot) for v, a in zip(let.vars, op.guarded, strict=True) if (dot := s.dot(a)) is not None]
            dots = tuple([s.bind(v) for v, _ in known])
            guarded = (*op.guarded, *(dot for _, dot in known))
            s.b.append(anf.Let((*let.vars, *dots), replace(op, guarded=guarded), let.span))
        case anf.Call():
            _jvp_call(let, op, s)
        case anf.LinalgOp():
            s.b.append(let)
            jvp_library(let, op, s)
        case anf.Construct():
            s.b.append(let)
            jvp_construct(let, op, s)
        case anf.Fields():
            s.b.append(let)
            jvp_fields(let, op, s)
        case anf.Scan(monoid="prod"):
            _jvp_running_product(let, op, s)
        case anf.Foreign() | anf.Effect():
            raise refusal(let)
        case _:
            s.b.append(let)
            _jvp_simple(let, s)


def _jvp_mark(let: anf.Let, op: anf.Assert, s: Dual) -> None:
    """Gives the variables that a mark binds the tangents of those that it names."""
    mark = mark_of(op)
    assert mark is not None
    s.b.append(let)
    known = [k for k, a in enumerate(op.guarded) if s.dot(a) is not None]
    if known:
        guarded = tuple([s.built(op.guarded[k]) for k in known])
        dots = tuple([s.bind(let.vars[k]) for k in known])
        s.b.append(anf.Let(dots, mark.derived(s.kind, known).check((), guarded), let.span))


def _jvp_simple(let: anf.Let, s: Dual) -> None:
    b, op = s.b, let.op
    (var,) = let.vars
    match op:
        case anf.Prim(name, args):
            # y = p(x…): ẏ = Σ ẋ ∂p/∂x, from the table.
            s.set(var, tangent(b, name, args, var, [s.dot(a) for a in args]))
        case anf.Cast():
            s.set(var, cast_tangent(b, op, s.dot(op.arg)))
        case anf.Update():
            # y = x[i := v]: ẏ = ẋ[i := v̇].
            if s.dot(op.array) is not None or s.dot(op.value) is not None:
                s.set(var, b.one(anf.Update(s.array(op.array), op.index, s.built(op.value))))
        case anf.Concat(arrays):
            if any(s.dot(a) is not None for a in arrays):
                s.set(var, b.one(anf.Concat(tuple([s.array(a) for a in arrays]))))
        case anf.Contract():
            _jvp_contract(var, op, s)
        case (
            anf.Read(array=array)
            | anf.Copy(array=array)
            | anf.View(array=array)
            | anf.Reshape(array=array)
            | anf.Scan(array=array)
        ):
            # Linear in the array: the same of its tangent.
            if s.dot(array) is not None:
                same = Renaming({array: s.array(array)}, renew=True).op(op)
                s.set(var, b.one(same))
        case _:
            raise AssertionError(f"{type(op).__name__} carries no derivative")


def _jvp_contract(var: anf.Var, op: anf.Contract, s: Dual) -> None:
    """out[o] = Σ a[l] b[r]: the tangent is Σ ȧ[l] b[r] + Σ a[l] ḃ[r]."""
    b = s.b
    sizes = named_sizes(op)
    axes = {name: axis(size) for name, size in sizes.items()}
    left, right = [tuple([anf.poly(axes[n].var) for n in names]) for names in (op.left, op.right)]
    if s.dot(op.a) is None and s.dot(op.b) is None:
        return

    def body(*_: anf.Var) -> anf.Atom:
        terms: list[anf.Atom] = []
        if s.dot(op.a) is not None:
            terms.append(b.prim("zero_safe_mul", b.one(anf.Read(s.array(op.a), left)), b.one(anf.Read(op.b, right))))
        if s.dot(op.b) is not None:
            terms.append(b.prim("zero_safe_mul", b.one(anf.Read(s.array(op.b), right)), b.one(anf.Read(op.a, left))))
        return terms[0] if len(terms) == 1 else b.add(terms[0], terms[1])

    shape = array_type(var).shape if op.out else ()
    kept = anf.Reduce(shape, tuple([anf.poly(axes[n].var) for n in op.out]))
    (dot,) = b.comp(list(axes.values()), body, [kept])
    s.set(var, dot)


def _jvp_running_product(let: anf.Let, op: anf.Scan, s: Dual) -> None:
    """y[i] = y[i-1] x[i], so ẏ[i] = ẏ[i-1] x[i] + y[i-1] ẋ[i]: no division, so zeros are exact to any order."""
    b, (var,) = s.b, let.vars
    if s.dot(op.array) is None:
        b.append(let)
        return
    x, dot = op.array, s.array(op.array)
    (n,) = array_type(x).shape
    dtype = dtype_of(x)
    empty = b.full((n,), anf.Lit(0.0, dtype))

    def body(i: anf.Var, p: anf.Var, dp: anf.Var, y: anf.Var, dy: anf.Var) -> list[anf.Var]:
        element = b.read(x, [i])
        change = b.add(b.prim("zero_safe_mul", dp, element), b.prim("zero_safe_mul", b.read(dot, [i]), p))
        value = b.mul(p, element)
        return [value, change, b.update(y, [i], value), b.update(dy, [i], change)]

    init: list[anf.Atom] = [anf.Lit(1.0, dtype), anf.Lit(0.0, dtype), empty, empty]
    _, _, y, dy = b.for_(0, n, init, body, names=("p", "p_dot", "y", "y_dot"))
    b.append(anf.Let((var,), anf.Reshape(y, (n,)), let.span))
    s.set(var, dy)


# ---- control ---------------------------------------------------------------------------------------------------------
def _jvp_if(let: anf.Let, op: anf.If, s: Dual) -> None:
    """y = if c { T(x) } else { E(x) }: the tangents of what the arms return come out of the same branch."""
    b = s.b
    arms: list[list[anf.Let]] = []
    for arm in (op.then, op.otherwise):
        with b.scope() as lets:
            s.walk(arm.lets)
        arms.append(lets)
    both = list(zip(let.vars, op.then.results, op.otherwise.results, strict=True))
    wanted = [k for k, (v, x, y) in enumerate(both) if v in s.active and not s.dot(x) is s.dot(y) is None]
    blocks = []
    for arm, lets in zip((op.then, op.otherwise), arms, strict=True):
        with b.scope() as more:
            dots = tuple([s.seen(arm.results[k]) for k in wanted])
        blocks.append(anf.Block((*lets, *more), (*arm.results, *dots)))
    vars = tuple([s.bind(let.vars[k]) for k in wanted])
    b.append(anf.Let((*let.vars, *vars), anf.If(op.condition, *blocks), let.span))


def _jvp_loop(let: anf.Let, op: anf.For | anf.While, s: Dual) -> None:
    """The tangents of the state are more state."""
    b = s.b
    active = [k for k, p in enumerate(op.params) if p in s.active]
    init = (*op.init, *[s.built(op.init[k]) for k in active])
    params = (*op.params, *[s.bind(op.params[k]) for k in active])
    with b.scope() as lets:
        s.walk(op.body.lets)
        after = next_state(op)
        results = (*op.body.results, *[s.built(after[k]) for k in active])
    body = anf.Block(tuple(lets), results)
    vars = (*let.vars, *[s.bind(let.vars[k]) for k in active])
    b.append(anf.Let(vars, replace(op, params=params, init=init, body=body), let.span))


# ---- calls -----------------------------------------------------------------------------------------------------------
def _jvp_call(let: anf.Let, op: anf.Call, s: Dual) -> None:
    """A function with a rule gives its results to the rule; of any other the dual function gives both."""
    b, nodes = s.b, s.nodes
    rules = b.functions[op.function].rules
    if rules is not None and rules.pushforward is not None:
        b.append(let)
        if any(s.dot(op.args[k]) is not None for k in rules.wrt):
            # A rule is in terms of the types of the values.
            seeds = tuple([nodes.from_tangent(b, op.args[k], s.dot(op.args[k])) for k in rules.wrt])
            results = [v for v in let.vars if carries(v.type)]
            dots = [anf.fresh(f"{v.name}_dot", v.type) for v in results]
            b.append(anf.Let(tuple(dots), anf.Call(rules.pushforward, (*op.args, *let.vars, *seeds)), let.span))
            for v, dot in zip(results, dots, strict=True):
                if v in s.active:
                    s.set(v, nodes.to_tangent(b, v, dot))
        return
    marks = tuple([s.dot(a) is not None for a in op.args])
    if not any(marks):
        b.append(let)
        return
    with called(b.functions[op.function], let.span):
        name, wanted = s.duals.named(op.function, marks)
    args = (*op.args, *[s.built(a) for a, mark in zip(op.args, wanted, strict=True) if mark])
    vars = tuple([s.bind(v) for v in let.vars if s.carries(v.type)])
    b.append(anf.Let((*let.vars, *vars), anf.Call(name, args), let.span))


def jvp_construct(let: anf.Let, op: anf.Construct, s: Dual) -> None:
    """Emits the tangent of a node."""
    nodes = s.nodes
    if all(s.dot(a) is None for a in op.args):
        return
    wanted = [op.args[k] for k in nodes.fields(op.variant)]
    parts = tuple([s.built(a) if s.carries(a.type) else a for a in wanted])
    s.set(let.vars[0], s.b.one(anf.Construct(nodes.variant(op.variant), parts)))


def jvp_fields(let: anf.Let, op: anf.Fields, s: Dual) -> None:
    """Emits the tangents of what a node holds."""
    b, nodes = s.b, s.nodes
    dot = s.dot(op.node)
    if dot is None or is_zero(b, dot):
        return
    chosen = [v for v in let.vars if v in s.active]
    variant = nodes.variant(op.variant)
    places = {let.vars[k]: n for n, k in enumerate(nodes.fields(op.variant))}
    construct = constructed(b, dot, variant)

    def found() -> list[anf.Atom]:
        parts: Sequence[anf.Atom] = b.emit(anf.Fields(variant, dot)) if construct is None else construct.args
        return [retyped(b, parts[places[v]], nodes.type(v.type)) for v in chosen]

    if construct is not None:
        dots: Sequence[anf.Atom] = found()
    else:
        nothing = b.prim("eq", b.one(anf.Tag(dot)), anf.Lit(0, "i64"))
        dots = b.if_(nothing, lambda: [s.zero(v.type) for v in chosen], found)
    for v, part in zip(chosen, dots, strict=True):
        s.set(v, part)


def jvp_comp(let: anf.Let, op: anf.Comp, s: Dual) -> None:
    """Emits a comprehension with active results, and their tangents."""
    chosen = [k for k, v in enumerate(let.vars) if v in s.active]
    loops = [k for k in chosen if needs_loop(op, k)]
    if loops:
        elements = [by_element(let, op, k, s.active) for k in loops]
        elementwise = [element for element in elements if element is not None]
        split = len(elementwise) == len(loops)
        s.walk([*without_results(let, loops), *elementwise] if split else sequential(let, op, loops, s.b, s.active))
        return
    with s.b.scope() as lets:
        s.walk(op.body.lets)
    vars, results, destinations = list(let.vars), list(op.body.results), list(op.destinations)
    extrema: list[tuple[int, anf.Var]] = []
    for k in chosen:
        var, value, d = let.vars[k], op.body.results[k], op.destinations[k]
        if _reduced_extremum(op, d):
            assert isinstance(d, anf.Reduce)
            where = anf.fresh("where", type_of("i64", d.shape))
            extrema.append((k, where))
            vars.append(where)
            results.append(value)
            destinations.append(replace(d, monoid=f"arg{d.monoid}"))
            continue
        dot, into = s.dot(value), s.dot(d.into)
        if dot is None and into is None:
            continue
        sets = isinstance(d, anf.Reduce) and d.monoid != "sum"
        if dot is None and not sets:
            s.set(var, into)
            continue
        assert into is None or isinstance(into, anf.Var)
        vars.append(s.bind(var))
        with s.b.scope() as more:
            results.append(s.zero(value.type) if dot is None else dot)
        lets += more
        destinations.append(
            replace(d, into=into, monoid="set") if isinstance(d, anf.Reduce) and sets else replace(d, into=into)
        )
    body = anf.Block(tuple(lets), tuple(results))
    s.b.append(anf.Let(tuple(vars), anf.Comp(op.axes, body, tuple(destinations)), let.span))
    for k, where in extrema:
        _jvp_extremum(let, op, k, where, s)


def _reduced_extremum(op: anf.Comp, d: anf.Destination) -> bool:
    return isinstance(d, anf.Reduce) and d.monoid in CHOOSING and not determines(op.axes, d.index)


def _jvp_extremum(let: anf.Let, op: anf.Comp, k: int, where: anf.Var, s: Dual) -> None:
    """y[o] = max f(x[i]) over the reduced axes r, attained first at r*[o]: ẏ[o] is the tangent of f at (o, r*[o])."""
    b, d = s.b, op.destinations[k]
    lacking = missing(op.axes, d.index)
    renaming = Renaming({}, renew=True)
    axes: list[anf.Axis] = []
    reduced: list[anf.Axis] = []
    for a in op.axes:
        lows, highs = tuple(map(renaming.size, a.lows)), tuple(map(renaming.size, a.highs))
        if a in lacking:
            reduced.append(anf.Axis(a.var, lows, highs))
        else:
            axes.append(anf.Axis(renaming.bind(a.var), lows, highs))
    index = tuple(map(renaming.size, d.index))
    points = attained(axes, reduced, Knowledge())
    with b.scope() as lets:
        rank = points.position(b.one(anf.Read(where, index)) if d.shape else where, b)
        renaming.env.update(positions_of(rank, reduced, b))
        copies = [renaming.let(inner) for inner in op.body.lets]
        s.active |= {new for old, new in renaming.env.items() if old in s.active and isinstance(new, anf.Var)}
        s.walk(copies)
        dot = s.dot(renaming.atom(op.body.results[k]))
    if dot is None:
        return
    if points.axes or d.shape:
        monoid = "sum" if points.single is not None else "set"
        tangents = anf.Comp(points.axes, anf.Block(tuple(lets), (dot,)), (anf.Reduce(d.shape, index, monoid),))
        b.append(anf.Let((s.bind(let.vars[k]),), tangents, let.span))
    else:
        b.inline(anf.Block(tuple(lets), ()))
        s.set(let.vars[k], dot)


# ---- dual functions --------------------------------------------------------------------------------------------------
# Dual functions: of the arguments of a function and of tangents; they give its results, then tangents of these.
#
# There is one for each choice of arguments that have tangents. A call in its body that is not inlined, because the
# function calls itself or is large, is a call of a dual function again; so each has its name before its body is done.


@dataclass(frozen=True, slots=True)
class _Key:
    """A function, and which of its arguments have a tangent.

    border: tangents are of the types of the values, as in `Jvp`; else those of nodes are of their tangent types.
    """

    function: str
    marks: tuple[bool, ...]
    border: bool


@dataclass
class Duals:
    """The dual functions made so far of functions of a program; they join the functions that `nodes` has."""

    program: Program
    nodes: Conversions
    _names: dict[_Key, str] = field(default_factory=dict)

    def call(self, let: Let, op: Jvp) -> Let:
        """The call that stands for a `Jvp`."""
        name = self._named(_Key(op.function, tuple([t is not None for t in op.tangents]), border=True))
        args = (*op.args, *[t for t in op.tangents if t is not None])
        return Let(let.vars, Call(name, args), let.span)

    def named(self, function: str, marks: tuple[bool, ...]) -> tuple[str, tuple[bool, ...]]:
        """The name of a dual function for tangents of the marked arguments, inside of a derivative; and of which it
        takes them, where there are many such functions of all numbers."""
        key = _Key(function, marks, border=False)
        if key not in self._names:
            wanted = self._versions.params(function, [k for k, mark in enumerate(marks) if mark])
            key = replace(key, marks=tuple([k in wanted for k in range(len(marks))]))
        return self._named(key), key.marks

    @cached_property
    def _kept(self) -> set[str]:
        """The functions whose calls are not inlined."""
        return functions_that_stay(self.program) | {f.name for f in self.program.functions.values() if _has_rule(f)}

    @cached_property
    def _versions(self) -> Versions:
        return Versions(self.program)

    def _named(self, key: _Key) -> str:
        if key not in self._names:
            functions = self.nodes.functions
            source = self.program.functions[key.function]
            self._versions.made[source.name] += 1
            self._names[key] = name = unused(f"{source.name}_jvp", functions)
            params, dots, outs = self._signature(key, source)
            functions[name] = Function(name, (*params, *dots), outs, Block((), ()))
            functions[name] = self._made(name, key, source)
        return self._names[key]

    def _type(self, key: _Key, type: Type) -> Type:
        return type if key.border else self.nodes.type(type)

    def _signature(self, key: _Key, source: Function) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Var, ...]]:
        """Fresh parameters, those for tangents, and formal results."""
        renaming = Renaming({}, renew=True)
        params = tuple([renaming.bind(p) for p in source.params])
        marked = [p for p, mark in zip(params, key.marks, strict=True) if mark]
        dots = tuple([fresh(f"{p.name}_dot", self._type(key, p.type)) for p in marked])
        formals = Renaming(renaming.env, renew=True)
        outs = [formals.bind(r) for r in source.results]
        outs += [fresh(f"{r.name}_dot", self._type(key, r.type)) for r in outs if self._dotted(key, r.type)]
        return params, dots, tuple(outs)

    def _dotted(self, key: _Key, type: Type) -> bool:
        """Tells whether a result of this type comes with a tangent."""
        return carries(type) if key.border else self.nodes.carries(type)

    def _made(self, name: str, key: _Key, source: Function) -> Function:
        params, dots, outs = self._signature(key, source)
        renaming = Renaming(dict(zip(source.params, params, strict=True)), renew=True)
        if _has_rule(source):
            results = tuple([renaming.bind(r) for r in source.results])
            body = Block((Let(results, Call(source.name, params), source.span),), results)
        else:
            body = refresh(source.body, renaming.env)
        seeds = [p for p, mark in zip(params, key.marks, strict=True) if mark]
        seeded = [self.nodes.carries(r.type) for r in source.results]
        held = self.nodes.held
        body = inlined_where_active(self.program, body, seeds, seeded, self._kept, held)
        sizes = renaming.size_params(source)
        body = distribute_function(Function(source.name, params, source.results, body, sizes=sizes)).body
        b = Builder(self.nodes.functions, source.span)
        active = active_vars(body, seeds, seeded, held) | {p for p in seeds if self.nodes.carries(p.type)}
        kind = tangent_kind(body) if has_marks(source.body) else TANGENT
        s = ForwardWalk(b, active, self.nodes, self, kind)
        with b.scope() as lets:
            for p, dot in zip(seeds, dots, strict=True):
                if p in active:
                    s.set(p, self.nodes.to_tangent(b, p, dot) if key.border else dot)
            s.walk(body.lets)
            tangents = [self._result(s, key, r) for r in body.results if self._dotted(key, r.type)]
        block = Block(tuple(lets), (*body.results, *tangents))
        return Function(name, (*params, *dots), outs, block, source.label, source.span, sizes=sizes)

    def _result(self, s: Dual, key: _Key, value: Atom) -> Atom:
        return self.nodes.from_tangent(s.b, value, s.dot(value)) if key.border else s.built(value)


def _has_rule(f: Function) -> bool:
    return f.rules is not None and f.rules.pushforward is not None
