"""Calls, branches and loops of the core IR: what they carry and bind, and which arrays they update in place."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.blocks import OWNED, ResultPlace, Scheduler
from dlang.codegen.data import collected, collecting
from dlang.codegen.invariants import Outside
from dlang.codegen.loops import Branch, Buffer, For, Invoke, Slot, Value, While
from dlang.codegen.memory import Frame, Place, whole
from dlang.codegen.vectorize import known_iterations
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Array, Scalar, Token, Var
from dlang.ir.own_parts import are_independent
from dlang.ir.traverse import free_vars, walk
from dlang.ir.update_chains import last_uses


def destination_known(function: anf.Function, position: int) -> bool:
    """Tells whether a result is an array whose sizes the parameters determine, so that the caller allocates it."""
    type = function.results[position].type
    return isinstance(type, Array) and not any(s.mentions(function.results) for s in type.shape)


def call(s: Scheduler, op: anf.Call, vars: Sequence[Var], span: Span | None) -> None:
    """Emits a call: arrays that the function changes are handed to it where they are, with room for its results."""
    function = s.program.functions[op.function]
    places: dict[int, Buffer] = {}  # of the arguments that the function changes
    continued = dict(function.continues)
    for position, k in continued.items():
        array = op.args[k]
        assert isinstance(array, Var)
        places[k] = s.address(s.continued(vars[position], array))
    for k in function.consumes:
        array = op.args[k]
        assert isinstance(array, Var)
        places[k] = s.address(s.consumed(array))
    args = [v for k, a in enumerate(op.args) if (v := places[k] if k in places else s.value(a)) is not None]
    outs: list[Buffer] = []
    results: list[Slot] = []
    for position, var in enumerate(vars):
        if isinstance(var.type, Token) or position in continued:
            continue
        if destination_known(function, position):
            outs.append(s.address(s.target(var)))
        elif isinstance(var.type, Array):
            s.own_result(var, results)
        else:
            results.append(var)
    s.out.append(Invoke(op.function, tuple(args), tuple(outs), tuple(results), span))


def branch(s: Scheduler, op: anf.If, vars: Sequence[Var]) -> None:
    """Emits a branch, both arms of which make their arrays in the same places."""
    wanted: list[ResultPlace] = []
    results: list[Slot] = []
    taken: set[Buffer] = set()
    settled: list[tuple[Var, Place]] = []
    for var in vars:
        match var.type:
            case Array(shape=shape):
                if any(s.mentions(vars) for s in shape):
                    s.own_result(var, results)
                    wanted.append(OWNED)
                    continue
                place = s.take_wanted(var)
                old = s.chains.step.get(var)
                if old is not None:
                    reusable = s.memory.consumable(old)
                    if (
                        reusable is not None
                        and reusable.buffer not in taken
                        and (place is None or place.buffer is reusable.buffer)
                    ):
                        place = reusable
                if place is None:
                    place = s.new_place(var)
                taken.add(place.buffer)
                wanted.append(place)
                settled.append((var, place))
            case Scalar():
                results.append(var)
                wanted.append(None)
            case Token():
                wanted.append(None)
    with s.little_code(op.cold), s.where(op.condition, True):
        then = s.block(op.then, wanted, Frame(last_uses(op.then)))
    with s.where(op.condition, False):
        otherwise = s.block(op.otherwise, wanted, Frame(last_uses(op.otherwise)))
    for var, place in settled:
        s.memory.settle(var, place)
    s.out.append(Branch(op.condition, then, otherwise, tuple(results), op.cold))


def repeat(s: Scheduler, op: anf.For | anf.While, vars: Sequence[Var]) -> None:
    """Emits a loop in order: arrays that it updates stay where they are, others are handed from iteration to
    iteration. One whose iterations are independent is a loop of these."""
    repeated = _mentioned_inside(op)
    params: list[Slot] = []
    init: list[Value] = []
    results: list[Slot] = []
    wanted: list[ResultPlace] = [None] * op.early
    owned: list[tuple[Var, Buffer]] = []
    settled: list[tuple[Var, Place]] = []
    taken: set[Buffer] = set()
    for var, param, first in zip(vars, op.params, op.init, strict=True):
        match param.type:
            case Array(dtype, shape):
                assert isinstance(first, Var) and isinstance(first.type, Array)
                if s.chains.step.get(var) is first:
                    place = _state(s, var, first, repeated, taken)
                    s.memory.settle(param, place)
                    settled.append((var, place))
                    wanted.append(place)
                    continue
                init.append(_handed(s, first, repeated, taken))
                buffer = Buffer(param.name, dtype)
                s.memory.writable.add(buffer)
                s.memory.settle(param, whole(buffer, shape))
                owned.append((param, buffer))
                params.append(buffer)
                wanted.append(OWNED)
                s.own_result(var, results)
            case Scalar():
                params.append(param)
                init.append(first)
                results.append(var)
                wanted.append(None)
            case Token():
                wanted.append(None)
    collector = collecting(s, op, params, init, results)
    slots = tuple(params), tuple(init)
    if isinstance(op, anf.While):
        held = Frame(last_uses(op.condition), repeated.union(op.params))  # the body needs the state that is looked at
        condition = s.block(op.condition, [None] * len(op.condition.results), held, region=True)
    frame = Frame(last_uses(op.body), repeated)
    for param, buffer in owned:
        frame.given(param, buffer)
    s.outside.append(Outside(repeated, frame, s.memory.frames[-1]))
    mark = s.facts.mark()
    if isinstance(op, anf.For):
        s.facts.between(op.index, (op.low,), (op.high,))
    body = s.block(op.body, wanted, frame, region=True)
    s.facts.undo(mark)
    outside = s.outside.pop()
    s.out += outside.before
    for var, place in settled:
        s.memory.settle(var, place)
    if collector is not None:
        body = collected(collector, op.body, body, wanted)
    if isinstance(op, anf.While):
        s.out.append(While(*slots, condition, body, tuple(results), op.early))
    elif not s.device and collector is None and not params and are_independent(op):
        buffers = tuple([place.buffer for _, place in settled])
        s.loop(op.index, (op.low,), (op.high,), body.stmts, (), buffers, any(map(_is_large, walk(op.body))))
    else:
        s.out.append(For(op.index, op.low, op.high, *slots, body, tuple(results), op.early))
    s.out += outside.after


def _is_large(let: anf.Let) -> bool:
    """Tells whether a let may be worth several threads by itself."""
    match let.op:
        case anf.Comp(axes=axes):
            return any(known_iterations(axis) is None for axis in axes)
        case op:
            return isinstance(op, anf.Contract | anf.LinalgOp)


def _mentioned_inside(op: anf.For | anf.While) -> frozenset[Var]:
    """Returns the free variables of a loop's blocks, without its own parameters."""
    inside = set(free_vars(op.body))
    if isinstance(op, anf.While):
        inside.update(free_vars(op.condition))
    return frozenset(inside.difference(op.params))


def _free_to_take(s: Scheduler, array: Var, inside: frozenset[Var], taken: set[Buffer]) -> Place | None:
    place = s.memory.consumable(array)
    if place is None or place.buffer in taken:
        return None
    return None if any(v in inside for v in s.memory.holders[place.buffer]) else place


def _state(s: Scheduler, var: Var, first: Var, inside: frozenset[Var], taken: set[Buffer]) -> Place:
    """Returns the place of an array that a loop updates in place, with the first value in it."""
    place = _free_to_take(s, first, inside, taken)
    wanted = s.wanted.pop(var, None)
    if place is None or (wanted is not None and wanted.buffer is not place.buffer):
        assert isinstance(first.type, Array)
        if wanted is None:
            wanted = s.new_place(var)
        s.copy(s.place(first), wanted)
        place = wanted
    taken.add(place.buffer)
    return place


def _handed(s: Scheduler, first: Var, inside: frozenset[Var], taken: set[Buffer]) -> Buffer:
    """The first value of an array that a loop makes anew in each iteration, in a buffer that the loop then owns."""
    place = _free_to_take(s, first, inside, taken)
    if place is not None and s.memory.disown(place.buffer):
        taken.add(place.buffer)
        return place.buffer
    assert isinstance(first.type, Array)
    buffer = s.allocate(first.name, first.type, own=False)
    s.copy(s.place(first), whole(buffer, first.type.shape))
    return buffer
