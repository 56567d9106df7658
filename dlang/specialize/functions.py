"""Calling function values: lambdas and small local functions in place, named functions as calls of an instance."""

from __future__ import annotations

from dataclasses import replace

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom
from dlang.specialize.analysis import mentioned
from dlang.specialize.bodies import check_sizes
from dlang.specialize.derivatives import checkpointed, gradient, jvp, pulled, vjp
from dlang.specialize.dynamic import call_dynamic, without_itself
from dlang.specialize.foreign import call_foreign
from dlang.specialize.frame import Frame, scalar, unsupported
from dlang.specialize.matrices import hessian, jacobian
from dlang.specialize.randomness import aside, draws_by, level, seeded
from dlang.specialize.types import Bindings
from dlang.specialize.values import ClosureV, DerivativeV, DynamicV, PullV, Value, code_of, leaves, rebuild
from dlang.typecheck import core


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
            if stands_in_place(function):
                with aside(f, draws_by(f, function, *args)):
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


def run_from(f: Frame, seed: Atom, function: Value) -> Value:
    """`random.run(seed, function)`: `|| g()` draws what `g` does."""
    with level(f, seeded(f, seed)):
        if isinstance(function, ClosureV) and stands_in_place(function):
            return expanded(f, function, [])
        return apply(f, function, [])


def expanded(f: Frame, closure: ClosureV, args: list[Value]) -> Value:
    """The body, with the parameters standing for the arguments."""
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
    own: Bindings = {v: f.binding(term) for v, term in ref.instance if v not in opened}
    params = tuple([p.local for p in decl.params])
    if decl.local:
        defined = f.env[decl]
        assert isinstance(defined, ClosureV)
        return ClosureV(params, decl.body, decl.span, defined.captured, {**defined.bindings, **own}, decl)
    return ClosureV(params, decl.body, decl.span, (), own, decl)


def define(f: Frame, decl: core.FnDecl) -> None:
    """A local function: captures what its body mentions, itself excepted."""
    assert decl.body is not None
    captured = tuple([(k, v) for k, v in captures(f, decl.body) if k is not decl])
    params = tuple([p.local for p in decl.params])
    f.env[decl] = bounded(f, ClosureV(params, decl.body, decl.span, captured, dict(f.bindings), decl))
