"""The adjoint of a call that is not inlined: of a recursive function, or of one with a rule of its own.

    y… = f(x…)      forward:   y…, tape = f_fwd(x…)        backward:   x̄… = f_bwd(tape, ȳ…)

The cotangent of an array argument goes in and comes out with what the call adds, so that a recursion over the elements
of an array costs what it reads. With a `pullback` the call stays and its rule is called with the values that were
there; with `checkpoint` it stays, and the backward pass runs the function again, forward and back.
"""

from __future__ import annotations

from dlang.ad.conversions import retyped
from dlang.ad.scope import Scope, Unplaceable
from dlang.ad.signatures import Cotangents, Key
from dlang.ir.anf import Array, Atom, Call, Function, Let, Rules, Scalar, Var, fresh
from dlang.ir.types import carries


def ruled(function: Function) -> Rules | None:
    """The rules that stand for the derivative of a function's body in reverse mode."""
    rules = function.rules
    return rules if rules is not None and (rules.pullback is not None or rules.checkpoint) else None


def pull_call(let: Let, op: Call, scope: Scope) -> list[Let]:
    """Emits the adjoint of a call; gives the call that saves what it needs."""
    b, nodes = scope.b, scope.nodes
    bars = [scope.pop(v) if v in scope.active else None for v in let.vars]
    wrt = tuple(k for k, a in enumerate(op.args) if scope.is_active(a))
    if all(g is None for g in bars) or not wrt:
        return [let]
    inside = None if scope.sink is None else scope.sink.inside
    if inside is not None and any(isinstance(op.args[k].type, Array) and op.args[k] not in inside for k in wrt):
        raise Unplaceable
    rules = ruled(b.functions[op.function])
    if rules is not None and rules.pullback is not None:
        _custom(let, op, rules, bars, scope)
        return [let]
    key = Key(op.function, wrt, tuple(g is not None for g in bars))
    types = [nodes.type(op.args[k].type) for k in wrt]
    if rules is not None:
        fused = scope.derivatives.fused(key)
        more = (*fused.cotangents.args(b, bars), *_into(op, fused.cotangents, scope))
        found = b.emit(Call(fused.function, (*op.args, *more)))[len(let.vars) :]
        for k, bar, type in zip(wrt, found, types, strict=True):
            scope.add(op.args[k], retyped(b, bar, type))
        return [let]
    halves = scope.derivatives.halves(key)
    tape = fresh("tape", Scalar(halves.tape))
    sizes = [op.args[k] for k in halves.params]
    args = (tape, *sizes, *halves.cotangents.args(b, bars), *_into(op, halves.cotangents, scope))
    for k, bar in zip(wrt, b.emit(Call(halves.backward, args), types=types), strict=True):
        scope.add(op.args[k], bar)
    return [Let((*let.vars, tape), Call(halves.forward, op.args), let.span)]


def _into(op: Call, cotangents: Cotangents, scope: Scope) -> list[Atom]:
    """The cotangents that the call adds to; of an argument that is given twice the second is zero."""
    args = [op.args[k] for k in cotangents.into]
    return [scope.take(a) for a in args if isinstance(a, Var)]


def _custom(let: Let, op: Call, rules: Rules, bars: list[Atom | None], scope: Scope) -> None:
    """Emits the call of a `pullback`, which is in terms of the types of the values."""
    b, nodes = scope.b, scope.nodes
    assert rules.pullback is not None
    given = [nodes.from_tangent(b, v, g) for v, g in zip(let.vars, bars, strict=True) if carries(v.type)]
    found = b.emit(Call(rules.pullback, (*op.args, *let.vars, *given)))
    for k, bar in zip(rules.wrt, found, strict=True):
        arg = op.args[k]
        if scope.is_active(arg):
            scope.add(arg, nodes.to_tangent(b, arg, bar))
