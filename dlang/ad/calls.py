"""The adjoint of a call that is not inlined: of a recursive or a large function, or of one with a rule of its own.

    y… = f(x…)      forward:   y…, tape = f_fwd(x…)        backward:   x̄… = f_bwd(tape, ȳ…)

The cotangent of an array that the function hands on goes in and comes out, so a call costs what it adds and not an
array. With a `pullback` the call stays and its rule is called with the values that were there; with `checkpoint` it
stays, and the backward pass runs the function again, as far as the way back needs it, and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ad.conversions import fitted
from dlang.ad.refusal import called
from dlang.ad.scope import NoParallelAdjoint, Scope
from dlang.ad.signatures import Cotangents, Key
from dlang.ir.anf import Array, Atom, Call, Function, Let, Rules, Scalar, Var, fresh
from dlang.ir.types import carries


def ruled(function: Function) -> Rules | None:
    """The rules that stand for the derivative of a function's body in reverse mode."""
    rules = function.rules
    return rules if rules is not None and (rules.pullback is not None or rules.checkpoint) else None


def vjp_call(let: Let, op: Call, scope: Scope) -> list[Let]:
    """Emits the adjoint of a call; gives the call that saves what it needs."""
    b = scope.b
    bars = [scope.pop(v) if v in scope.active else None for v in let.vars]
    wrt = tuple(k for k, a in enumerate(op.args) if scope.is_active(a))
    if all(g is None for g in bars) or not wrt:
        return [let]
    inside = None if scope.sink is None else scope.sink.inside
    if inside is not None and any(isinstance(op.args[k].type, Array) and op.args[k] not in inside for k in wrt):
        raise NoParallelAdjoint
    rules = ruled(b.functions[op.function])
    if rules is not None and rules.pullback is not None:
        _custom(let, op, rules, bars, scope)
        return [let]
    summed = tuple([k for k in wrt if op.args[k] in scope.summed])
    key = Key(op.function, wrt, tuple(g is not None for g in bars), summed=summed)
    if rules is None:
        changing = tuple([k for k, a in enumerate(op.args) if a in scope.fleeting])
        key = scope.derivatives.shared(replace(key, changing=changing, zero=_still_zero(let, op, wrt, scope)))
    else:
        with called(b.functions[op.function], let.span):
            rerun = scope.derivatives.rerun(key)
        more = (*rerun.cotangents.args(b, bars), *_into(op, rerun.cotangents, scope))
        passed = [op.args[k] for k in rerun.params]
        given = fitted(b, b.functions[rerun.function].params, (*passed, *more))
        cotangents = b.emit(Call(rerun.function, given))[rerun.results :]
        _add(op, wrt, cotangents, scope)
        return [let]
    with called(b.functions[op.function], let.span):
        halves = scope.derivatives.halves(key)
    tape = fresh("tape", Scalar(halves.tape))
    passed = [op.args[k] for k in halves.params]
    args = (tape, *passed, *halves.cotangents.args(b, bars), *_into(op, halves.cotangents, scope))
    given = fitted(b, b.functions[halves.backward].params, args)
    _add(op, key.wrt, b.emit(Call(halves.backward, given)), scope)
    return [Let((*let.vars, tape), Call(halves.forward, op.args), let.span)]


def _still_zero(let: Let, op: Call, wrt: Sequence[int], scope: Scope) -> tuple[int, ...]:
    """The positions of arrays whose cotangents are zero before the call, and that need not go in as arrays of zeros.

    The cotangent of a result may go on as theirs, if there is one. A recursion would make zeros at each level, for an
    array that is its own there; so they are made where it ends.
    """
    alike = {(v.type.dtype, len(v.type.shape)) for v in let.vars if isinstance(v.type, Array)}
    out = []
    for k in wrt:
        arg = op.args[k]
        assert isinstance(arg, Var)
        if isinstance(arg.type, Array) and arg not in scope.summed and not scope.bars.get(arg):
            if op.function in scope.cycle or (arg.type.dtype, len(arg.type.shape)) in alike:
                out.append(k)
    return tuple(out)


def _into(op: Call, cotangents: Cotangents, scope: Scope) -> list[Atom]:
    """The cotangents that the call adds to; of an argument that is given twice the second is a zero."""
    args = [op.args[k] for k in cotangents.into]
    return [scope.take(arg) for arg in args if isinstance(arg, Var)]


def _add(op: Call, wrt: tuple[int, ...], bars: Sequence[Var], scope: Scope) -> None:
    """Adds what a call gives to the cotangents of its arguments, of those that have any."""
    for k, bar in zip(wrt, bars, strict=True):
        scope.add(op.args[k], bar)


def _custom(let: Let, op: Call, rules: Rules, bars: list[Atom | None], scope: Scope) -> None:
    """Emits the call of a `pullback`, which is in terms of the types of the values."""
    b, nodes = scope.b, scope.nodes
    assert rules.pullback is not None
    given = [nodes.from_tangent(b, v, g) for v, g in zip(let.vars, bars, strict=True) if carries(v.type)]
    cotangents = b.emit(Call(rules.pullback, (*op.args, *let.vars, *given)))
    for k, bar in zip(rules.wrt, cotangents, strict=True):
        arg = op.args[k]
        if scope.is_active(arg):
            scope.add(arg, nodes.to_tangent(b, arg, bar))
