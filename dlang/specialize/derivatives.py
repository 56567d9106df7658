"""Derivative forms: calls of `grad(f)`, `vjp(f, …)` and `jvp(f, …)` become operations on an instance of f.

They are `Vjp`, `VjpForward` and `VjpBackward`, and `Jvp` of the IR, which `ad/` expands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.diagnostics import DlangError, error
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Scalar, fresh
from dlang.ir.types import I64
from dlang.specialize.frame import Frame
from dlang.specialize.instances import Instance, Use
from dlang.specialize.layouts import into
from dlang.specialize.tangents import carries, overlaid, same_variants, tags_in
from dlang.specialize.values import (
    ClosureV,
    DerivativeV,
    FnV,
    PullV,
    ScalarV,
    TupleV,
    Value,
    contains_function,
    formal,
    leaves,
    mono_of,
    rebuild,
    shape_key,
)
from dlang.typecheck import core
from dlang.typecheck.types import TypeVar


@dataclass(frozen=True, slots=True)
class Differentiated:
    """A call that is differentiated. positions: the leaves among its arguments in which it is."""

    use: Use
    args: tuple[Value, ...]
    targets: tuple[int, ...]

    @property
    def instance(self) -> Instance:
        return self.use.instance

    @property
    def positions(self) -> tuple[int, ...]:
        found = [p for k in self.targets for p in self.instance.arg_positions(k)]
        return tuple([p for p in found if carries(self.use.actuals[p])])

    @property
    def skipped(self) -> int:
        """The results that come before the leaves of the value."""
        return len(self.instance.extra) + self.instance.token

    def actual(self, k: int) -> Value:
        """An argument, under the sizes that its parameter states."""
        atoms = [self.use.actuals[p] for p in self.instance.arg_positions(k)]
        return rebuild(self.instance.args[k], iter(atoms), into(self.use.sizes))


def differentiated(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Differentiated:
    use = f.instances.use(f, closure_for(d, args), list(args))
    return Differentiated(use, tuple(args), d.wrt)


def no_function(d: DerivativeV, what: str) -> DlangError:
    """A change of a function is one of what it captured, which a function written down has not."""
    help = ("differentiate the function that applies it: `|x| f(x)(y)`",)
    return error("E0707", f"`{d.kind}` has no value for a change of a function", d.span, label=what, help=help)


# ---- reverse mode ----------------------------------------------------------------------------------------------------
def gradient(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    """`grad` and `value_and_grad` at arguments."""
    call = differentiated(f, d, args)
    results = f.instances.result_vars(call.use)
    seeds: list[Atom | None] = [None] * call.skipped
    for r in results[call.skipped :]:
        assert isinstance(r.type, Scalar) and r.type.dtype in anf.FLOATS, "the checker asks for one float"
        seeds.append(Lit(1.0, r.type.dtype))
    cotangents = tuple([fresh("g", call.use.actuals[p].type) for p in call.positions])
    op = anf.Vjp(call.instance.name, call.use.actuals, call.positions, tuple(seeds))
    with f.emitter.at(d.span):
        f.emitter.bind(op, (*results, *cotangents))
    value = f.instances.returned(f, call.use, results)
    found = iter(cotangents)
    slopes = [overlaid(call.actual(k), found) for k in d.wrt]
    slope = slopes[0] if d.single else TupleV(tuple(slopes))
    return TupleV((value, slope)) if d.kind == "value_and_grad" else slope


def vjp(f: Frame, d: DerivativeV, args: Sequence[Value]) -> TupleV:
    """The value, and what pulls cotangents of it back to the arguments."""
    value, pull = recorded(f, d, differentiated(f, d, args))
    return TupleV((value, pull))


def recorded(f: Frame, d: DerivativeV, call: Differentiated) -> tuple[Value, PullV]:
    """The value of a function run once with a tape, and the function that pulls cotangents back by it."""
    results = f.instances.result_vars(call.use)
    seeded = tuple([k >= call.skipped and carries(r) for k, r in enumerate(results)])
    tape = f.instances.tape(call.instance.name, call.positions, seeded)
    handle = fresh("tape", Scalar(tape))
    op = anf.VjpForward(call.instance.name, call.use.actuals, call.positions, seeded, tape)
    with f.emitter.at(d.span):
        f.emitter.bind(op, (*results, handle))
    value = f.instances.returned(f, call.use, results)
    if contains_function(value):
        raise no_function(d, "the function that is differentiated gives a function")
    integers = [a for a in call.use.actuals if a.type == I64]
    targets = [call.actual(k) for k in d.wrt]
    pull = PullV(
        call.instance.name,
        call.positions,
        seeded,
        typed(value),
        tuple(map(typed, targets)),
        d.single,
        tuple([ScalarV(a) for a in (handle, *integers)]),
        tuple(tags_in(value)),
        tuple([kept(a) for t in targets for a in leaves(t) if not carries(a)]),
        d.span,
    )
    return value, pull


def typed(v: Value) -> Value:
    """A value of the same type over variables that nothing binds."""
    return formal(v, lambda s: s)


def kept(a: Atom) -> Value:
    return rebuild(ScalarV(a), iter([a]))


def pulled(f: Frame, pull: PullV, args: Sequence[Value]) -> Value:
    """The cotangents of the arguments that a cotangent of the result gives."""
    given = f.fit(args[0], mono_of(pull.result))
    same_variants(f, pull.tags, given)
    first = len(pull.seeded) - len(list(leaves(given)))
    seeds: list[Atom | None] = [None] * first
    seeds += [a if s else None for a, s in zip(leaves(given), pull.seeded[first:], strict=True)]
    outs = tuple([fresh("g", a.type) for t in pull.targets for a in leaves(t) if carries(a)])
    tape, *integers = [a for v in pull.held for a in leaves(v)]
    op = anf.VjpBackward(pull.function, pull.positions, pull.seeded, tape, tuple(integers), tuple(seeds))
    f.emitter.bind(op, outs)
    found, rest = iter(outs), iter([a for v in pull.rest for a in leaves(v)])
    slopes = [rebuild(t, iter([next(found if carries(a) else rest) for a in leaves(t)])) for t in pull.targets]
    return slopes[0] if pull.single else TupleV(tuple(slopes))


# ---- forward mode ----------------------------------------------------------------------------------------------------
def jvp(f: Frame, d: DerivativeV, args: Sequence[Value]) -> TupleV:
    """The value and its tangent; the second half of `args` are tangents of the first."""
    n = len(args) // 2
    call = differentiated(f, d, args[:n])
    tangents: dict[int, Atom] = {}
    for k in d.wrt:
        own = call.actual(k)
        given = args[n + k]
        if contains_function(own) and shape_key(own, lambda _: None) != shape_key(given, lambda _: None):
            # The tangent of a function is one of what it captured: a function of the same code.
            raise no_function(d, "the tangent of a function is given as another function")
        fitted = f.fit(given, mono_of(own))
        same_variants(f, tags_in(own), fitted)
        for p, a in zip(call.instance.arg_positions(k), leaves(fitted), strict=True):
            if carries(a):
                tangents[p] = a
    value, tangent = pushed(f, d, call, tangents)
    return TupleV((value, tangent))


def pushed(f: Frame, d: DerivativeV, call: Differentiated, tangents: dict[int, Atom]) -> tuple[Value, Value]:
    """The value of a call and its tangent, from tangents of the leaves at some positions."""
    results = f.instances.result_vars(call.use)
    outs = tuple([fresh("d", r.type) for r in results if carries(r)])
    given = tuple([tangents.get(p) for p in range(len(call.use.actuals))])
    with f.emitter.at(d.span):
        f.emitter.bind(anf.Jvp(call.instance.name, call.use.actuals, given), (*results, *outs))
    value = f.instances.returned(f, call.use, results)
    if contains_function(value):
        raise no_function(d, "the function that is differentiated gives a function")
    return value, overlaid(value, iter(outs))


# ---- checkpoints -----------------------------------------------------------------------------------------------------
def checkpointed(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    """A call whose backward pass runs it again."""
    use = f.instances.use(f, closure_for(d, args), list(args), checkpoint=True)
    bound = f.instances.result_vars(use)
    f.emitter.bind(anf.Call(use.instance.name, use.actuals), bound)
    return f.instances.returned(f, use, bound)


# ---- the function ----------------------------------------------------------------------------------------------------
def closure_for(d: DerivativeV, args: Sequence[Value]) -> ClosureV:
    """The differentiated function as code with captured values; a derivative of a derivative calls the inner one."""
    inner = d.function
    if isinstance(inner, ClosureV):
        return inner
    base = base_of(inner)
    if isinstance(base, ClosureV):
        types, bindings = tuple([p.type for p in base.params]), base.bindings
    else:
        # Of a function that is known only when it runs, the arguments say what sizes there are.
        variables = tuple([TypeVar(0, rigid=True) for _ in args])
        types, bindings = variables, {v: mono_of(a) for v, a in zip(variables, args, strict=True)}
    own = tuple([core.Local(f"x{k}", t) for k, t in enumerate(types)])
    held = core.Local("derivative", types[0])
    arguments = tuple([core.Ref(local.type, d.span, local) for local in own])
    body = core.Call(held.type, d.span, core.Ref(held.type, d.span, held), arguments)
    return ClosureV(own, body, d.span, ((held, inner),), bindings)


def base_of(v: FnV) -> FnV:
    """The function that a derivative of a derivative is of."""
    while isinstance(v, DerivativeV):
        v = v.function
    return v
