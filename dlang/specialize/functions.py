"""Calling function values: lambdas and local functions in place, named functions as calls of an instance.

A large lambda or local function that is called again is an instance, too, so that the code of functions which call one
another is as long as their text.
"""

from __future__ import annotations

from dataclasses import replace

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Function, Lit, Scalar, Var, fresh, poly
from dlang.ir.types import I64
from dlang.ops import figures
from dlang.specialize.analysis import RANDOM, WORLD, effects_of, mentioned
from dlang.specialize.arith import zero, zeros
from dlang.specialize.bodies import check_sizes
from dlang.specialize.derivatives import checkpointed, gradient, hessian, jacobian, jvp, pulled, vjp
from dlang.specialize.dynamic import Arrow, Member, call_dynamic, dynamic, without_itself
from dlang.specialize.emitter import FALSE, Emitter
from dlang.specialize.foreign import call_foreign
from dlang.specialize.frame import Frame, Level, World, scalar, unsupported
from dlang.specialize.instances import Instances
from dlang.specialize.layouts import packed, unpacked
from dlang.specialize.randomness import aside, draws_by, level, seeded
from dlang.specialize.types import Bindings
from dlang.specialize.values import (
    ClosureV,
    DerivativeV,
    DynamicV,
    FnV,
    PullV,
    Value,
    code_of,
    contains_function,
    leaves,
    rebuild,
)
from dlang.typecheck import core, types as ty


def apply(f: Frame, function: Value, args: list[Value]) -> Value:
    """The value of a call, emitted here."""
    match function:
        case DerivativeV():
            return derivative(f, function, args)
        case PullV():
            return pulled(f, function, args)
        case DynamicV():
            return call_dynamic(f, function, args)
        case ClosureV():
            decl = function.decl
            if decl is not None and any(p.nodiff for p in decl.params):
                args = [stopped(f, a) if p.nodiff else a for p, a in zip(decl.params, args, strict=True)]
            if isinstance(function.body, core.Foreign) and not (decl is not None and decl.rules):
                return call_foreign(f, function, function.body, args)
            if decl is not None and decl.kind == "call":
                return expanded(f, function, args)
            if stands_in_place(function) and not copied_often(f, function, args):
                with aside(f, draws_by(f, function, *args) and not function.forwards):
                    return expanded(f, function, args)
            return called(f, function, args)
    raise unsupported("calling this value", f.emitter.span)


def derivative(f: Frame, d: DerivativeV, args: list[Value]) -> Value:
    """A derivative form at arguments."""
    match d.kind:
        case "vjp":
            return vjp(f, d, args)
        case "jvp":
            return jvp(f, d, args)
        case "jacobian":
            return jacobian(f, d, args)
        case "hessian":
            return hessian(f, d, args)
        case "checkpoint":
            return checkpointed(f, d, args)
        case _:
            return gradient(f, d, args)


def stopped(f: Frame, v: Value) -> Value:
    """The value without its derivative."""
    e = f.emitter

    def stop(a: anf.Atom) -> anf.Atom:
        real = isinstance(a, anf.Var) and not isinstance(a.type, anf.Token) and a.type.dtype in anf.FLOATS
        return e.emit(anf.StopGradient(a), a.type)[0] if real else a

    return rebuild(v, iter([stop(a) for a in leaves(v)]))


def stands_in_place(closure: ClosureV) -> bool:
    """Tells whether a call is inlined: it is the body, with the arguments bound to the parameters."""
    decl = closure.decl
    return decl is None or decl.kind in ("const", "call") or (decl.local and not decl.recursive)


def copied_often(f: Frame, closure: ClosureV, args: list[Value]) -> bool:
    """Tells whether code that could stand in the place of a call is called all the same: it is large, and has stood in
    the place of another call. Or functions of which each calls two others had as many copies as there are paths.

    What draws is not called, for it would draw other numbers; neither is what can't be called here, or has no room for
    more instances.
    """
    if f.emitter.copies.lets.get(code_of(closure), 0) <= figures.COPIED_IN_PLACE or closure.forwards:
        return False
    if f.world.token is None and any(WORLD & effects_of(v) for v in (closure, *args)):
        return False
    ruled = closure.decl is not None and bool(closure.decl.rules)
    return not ruled and not draws_by(f, closure, *args) and f.instances.has_room(closure)


def run_from(f: Frame, seed: Atom, function: Value) -> Value:
    """`random.run(seed, function)`: `|| g()` draws what `g` does."""
    with level(f, seeded(f, seed)):
        if isinstance(function, ClosureV) and stands_in_place(function):
            return expanded(f, function, [])
        return apply(f, function, [])


def expanded(f: Frame, closure: ClosureV, args: list[Value]) -> Value:
    """The body, with the parameters standing for the arguments."""
    e = f.emitter
    before = e.written
    e.written += 1
    value = standing(f, closure, args)
    e.copies.note(code_of(closure), e.written - before)
    return value


def standing(f: Frame, closure: ClosureV, args: list[Value]) -> Value:
    """The body in the place of a call, which is not counted."""
    check_sizes(f.emitter, closure, args)
    inner = f.inner(dict(closure.bindings), dict(closure.captured))
    inner.name_sizes(closure.captured)
    for local, a in zip(closure.params, args, strict=True):
        inner.env[local] = a
        if local.size is not None:
            inner.bindings[local.size] = f.emitter.sized(scalar(a))
    if f.instances.names is None or (closure.decl is not None and closure.decl.kind in ("const", "call")):
        return inner.eval(closure.body)
    with f.emitter.called(closure.decl.name if closure.decl is not None else "lambda"):
        inner.name_all(closure)
        return inner.eval(closure.body)


def called(f: Frame, closure: ClosureV, args: list[Value]) -> Value:
    use = f.instances.use(f, closure, args)
    bound = f.instances.result_vars(use)
    f.emitter.bind(anf.Call(use.instance.name, use.actuals), bound)
    return f.instances.returned(f, use, bound)


def closure_of(f: Frame, params: tuple[core.Local, ...], body: core.Expr, span: Span) -> ClosureV:
    """A lambda with what its free variables stand for now."""
    return bounded(f, ClosureV(params, body, span, captures(f, body), dict(f.bindings)))


def captures(f: Frame, body: core.Expr) -> tuple[tuple[core.Local | core.FnDecl, Value], ...]:
    """Returns the values of the free variables of a body."""
    return tuple([(k, f.env[k]) for k in mentioned(body) if k in f.env])


def bounded(f: Frame, closure: ClosureV) -> ClosureV:
    """The closure without closures of its own code in what it captured, which could nest endlessly."""
    code = code_of(closure)
    return replace(closure, captured=tuple([(k, without_itself(f, code, v)) for k, v in closure.captured]))


def named(f: Frame, ref: core.FnRef) -> ClosureV:
    """A named function at an instance; a local one captured what was there when it was defined."""
    decl = ref.decl
    if decl.body is None:
        raise unsupported(f"calling `{decl.name}`", ref.span)
    opened = set(decl.opened)  # known when the call returns
    bindings: Bindings = {v: f.binding(term) for v, term in ref.instance if v not in opened}
    params = tuple([p.local for p in decl.params])
    if decl.local:
        defined = f.env[decl]
        assert isinstance(defined, ClosureV)
        return ClosureV(params, decl.body, decl.span, defined.captured, {**defined.bindings, **bindings}, decl)
    return ClosureV(params, decl.body, decl.span, (), bindings, decl)


def define(f: Frame, decl: core.FnDecl) -> None:
    """A local function: captures what its body mentions, itself excepted."""
    assert decl.body is not None
    captured = tuple([(k, v) for k, v in captures(f, decl.body) if k is not decl])
    params = tuple([p.local for p in decl.params])
    f.env[decl] = bounded(f, ClosureV(params, decl.body, decl.span, captured, dict(f.bindings), decl))


# ---- dynamic functions -----------------------------------------------------------------------------------------------
# The functions that call dynamic functions: a branch on the tag of the node, an arm for each member of the type.


def complete(instances: Instances) -> None:
    """Makes what is still missing: variants of datatypes, and arms for functions that were made dynamic.

    An arm may make further functions dynamic, so this goes on until nothing new appears.
    """
    changed = True
    while changed:
        changed = False
        for node in list(instances.nodes.named.values()):
            if not node.variants:
                instances.nodes.of(Frame(Emitter(), World(None), instances), node.name)
                changed = True
        for arrow in [a for a in instances.arrows.named.values() if a.called]:
            for member in list(arrow.members.values())[len(arrow.arms) :]:
                arrow.arms.append(arm(instances, arrow, member))
                changed = True
    for arrow in instances.arrows.named.values():
        if arrow.called:
            instances.functions[arrow.function] = chosen(instances, arrow)


def arm(instances: Instances, arrow: Arrow, member: Member) -> Block:
    """Opens the node and calls the function."""
    e = Emitter()
    for s in arrow.params.sizes:
        e.facts.size(s)
    effects = arrow.type.effects
    world = World(arrow.token if effects & WORLD else None, Level(arrow.key) if effects & RANDOM else None)
    f = Frame(e, world, instances)
    vars, (function,) = unpacked(f, member.layout)
    assert isinstance(function, ClosureV | DerivativeV | PullV)
    e.span = function.span
    e.bind(anf.Fields(member.variant, arrow.handle), vars)
    value = dynamic(f, apply(f, function, fitting(f, function, arrow.params.values)), arrow.type.result)
    token = [f.world.token] if f.world.token is not None else []
    results = (*token, *packed(f, arrow.result, [value]))
    return Block(tuple(e.lets), results)


def fitting(f: Frame, function: FnV, args: tuple[Value, ...]) -> list[Value]:
    """The arguments under the sizes that the parameters of a function have."""
    base: Value = function
    while isinstance(base, DerivativeV):
        base = base.function
    if not isinstance(base, ClosureV):
        return list(args)
    inner = f.inner(dict(base.bindings), {})
    out: list[Value] = []
    for local, a in zip(base.params, args, strict=True):
        fits = not contains_function(a) and all(inner.knows(s) for s in ty.sizes_in(local.type))
        out.append(f.fit(a, inner.mono(local.type)) if fits else a)
    return out


def chosen(instances: Instances, arrow: Arrow) -> Function:
    """The function that calls whichever member the handle is one of."""
    effects = arrow.type.effects
    head = [*arrow.params.sizes]
    results = list(arrow.result.vars)
    if effects & WORLD:
        head.append(arrow.token)
        results.insert(0, fresh("world", anf.Token()))
    if effects & RANDOM:
        head.append(arrow.key)
    params = (*head, arrow.handle, *arrow.params.vars[len(arrow.params.sizes) :])
    tag = fresh("tag", I64)
    body = branches(arrow, tag, tuple(results), 0) if arrow.arms else nothing(instances, arrow, tuple(results))
    block = Block((anf.Let((tag,), anf.Tag(arrow.handle)), *body.lets), body.results)
    return Function(arrow.function, params, tuple(results), block, arrow.label)


def branches(arrow: Arrow, tag: Var, results: tuple[Var, ...], k: int) -> Block:
    """The arm that a tag chooses, of those from the k-th on."""
    if k == len(arrow.arms) - 1:
        return arrow.arms[k]
    chosen = fresh("here", Scalar("bool"))
    sizes: dict[Var, anf.Size] = {}
    outs: list[Atom] = []
    for r in results:
        t = r.type
        if isinstance(t, anf.Array):
            t = anf.Array(t.dtype, tuple([s.substitute(sizes.get) for s in t.shape]))
        v = fresh(r.name, t)
        if r in arrow.result.sizes:
            sizes[r] = poly(v)
        outs.append(v)
    lets = (
        anf.Let((chosen,), anf.Prim("eq", (tag, Lit(k, "i64")))),
        anf.Let(
            tuple([v for v in outs if isinstance(v, Var)]),
            anf.If(chosen, arrow.arms[k], branches(arrow, tag, results, k + 1)),
        ),
    )
    return Block(lets, tuple(outs))


def nothing(instances: Instances, arrow: Arrow, results: tuple[Var, ...]) -> Block:
    """No function was made dynamic, so there is none to call."""
    e = Emitter()
    f = Frame(e, World(None), instances)
    e.check(FALSE, "E0800", ("a call of a function that does not exist",))
    atoms: list[Atom] = []
    for r in results:
        if isinstance(r.type, anf.Token):
            atoms.append(arrow.token)
        elif isinstance(r.type, Scalar):
            atoms.append(zero(r.type.dtype))
        else:
            shape = tuple([s.substitute(lambda _: poly(0)) for s in r.type.shape])
            atoms.append(zeros(f, shape, r.type.dtype))
    return Block(tuple(e.lets), tuple(atoms))
