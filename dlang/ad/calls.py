"""The adjoint of a call that is not inlined: of a recursive function, or of one with a rule of its own.

    y… = f(x…)      forward:   y…, tape = f_fwd(x…)        backward:   x̄… = f_bwd(tape, ȳ…)

What a call adds to the cotangent of an array that is handed on comes out as a list (`contributions.py`). With a
`pullback` the call stays and its rule is called with the values that were there; with `checkpoint` it stays, and the
backward pass runs the function again, forward and back.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ad.contributions import list_type, nothing
from dlang.ad.conversions import retyped
from dlang.ad.scope import Scope, Unplaceable
from dlang.ad.signatures import Cotangents, Key
from dlang.ir.anf import Array, Atom, Call, Function, Let, Rules, Scalar, Var, fresh
from dlang.ir.types import array_type, carries


def ruled(function: Function) -> Rules | None:
    """The rules that stand for the derivative of a function's body in reverse mode."""
    rules = function.rules
    return rules if rules is not None and (rules.pullback is not None or rules.checkpoint) else None


def pull_call(let: Let, op: Call, scope: Scope) -> list[Let]:
    """Emits the adjoint of a call; gives the call that saves what it needs."""
    b = scope.b
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
    if rules is not None:
        fused = scope.derivatives.fused(key)
        more = (*fused.cotangents.args(b, bars), *_into(op, fused.cotangents, scope))
        found = b.emit(Call(fused.function, (*op.args, *more)))[len(let.vars) :]
        _add(op, wrt, found, scope)
        return [let]
    halves = scope.derivatives.halves(key)
    tape = fresh("tape", Scalar(halves.tape))
    sizes = [op.args[k] for k in halves.params]
    args = (tape, *sizes, *halves.cotangents.args(b, bars), *_into(op, halves.cotangents, scope))
    _add(op, wrt, b.emit(Call(halves.backward, args)), scope)
    return [Let((*let.vars, tape), Call(halves.forward, op.args), let.span)]


def _into(op: Call, cotangents: Cotangents, scope: Scope) -> list[Atom]:
    """The lists that the call adds to: those of an array that this function was given, too, or new ones.

    Of an argument that is given twice the second is new.
    """
    out: list[Atom] = []
    for k in cotangents.into:
        arg = op.args[k]
        assert isinstance(arg, Var)
        own = arg in scope.lists
        out.append(scope.take(arg) if own else nothing(scope.b, scope.nodes.datatypes, _list_type(arg, scope)))
    return out


def _list_type(arg: Var, scope: Scope) -> Scalar:
    return list_type(scope.nodes.datatypes, array_type(arg))


def _add(op: Call, wrt: tuple[int, ...], bars: Sequence[Var], scope: Scope) -> None:
    """Adds what a call gives to the cotangents of its arguments; a list is added up where it arrives."""
    for k, bar in zip(wrt, bars, strict=True):
        arg = op.args[k]
        assert isinstance(arg, Var)
        listed = isinstance(arg.type, Array) and isinstance(bar.type, Scalar)
        if listed and arg not in scope.lists:
            scope.add(arg, scope.added_up(arg, bar))
        else:
            scope.add(arg, bar if listed else retyped(scope.b, bar, scope.nodes.type(arg.type)))


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
