"""Calls, branches and loops of the core IR: what they carry and bind, and which arrays they update in place.

Loops whose iterations have parts of their own of all arrays that they change, so that their order does not matter.

    for i in 0..n (rows) {
      a = for k in 0..m (a = zeros) { … }
      rows = comp j in 0..3 { a[j] } to keep [n, 3] [i, j] set into rows
      yield rows
    }

A comprehension whose elements are made by code with a state is such a loop. Each iteration reads and writes the state
only at indices of which one entry moves with its number, by 1 or -1: so two iterations never meet in an element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlang.codegen.blocks import OWNED, Outside, ResultPlace, Scheduler
from dlang.codegen.data import collected, collecting
from dlang.codegen.loops import Branch, Buffer, For, Invoke, Slot, Value, While
from dlang.codegen.memory import Frame, Place, whole
from dlang.codegen.vectorize import known_iterations
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.affine import slope
from dlang.ir.anf import Array, Scalar, Token, Var
from dlang.ir.traverse import bound_vars, free_vars, parts, walk
from dlang.ir.update_chains import last_uses
from dlang.ir.writes import older_of


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


# ---- independent iterations ------------------------------------------------------------------------------------------
_Entry = tuple[int, anf.Size]  # the position in an index, and what stands there


def are_independent(loop: anf.For) -> bool:
    """Tells whether the iterations of a loop may be done in any order, and several at a time.

    Where one may fail, the state is only written: so it may be done once more to find out which one fails first.
    """
    if loop.early or not loop.params:
        return False
    if not all(isinstance(p.type, anf.Array) and not anf.is_reference(p.type.dtype) for p in loop.params):
        return False
    inside = frozenset(bound_vars(loop.body))
    may_fail = any(let.op.IS.fails for let in walk(loop.body))
    for param, result in zip(loop.params, loop.body.results, strict=True):
        state = _State(loop.index, inside, {param})
        if not state.stays_in(loop.body) or result not in state.versions or state.entries == set():
            return False
        if may_fail and state.is_read:
            return False
    return True


@dataclass(slots=True)
class _State:
    """An array of a loop's state in an iteration.

    number: of the iteration; inside: what is bound in it. versions: the array and those that go on with it. entries:
    those that each index so far has, and that tell iterations apart; None before the first index.
    """

    number: anf.Var
    inside: frozenset[anf.Var]
    versions: set[anf.Atom]
    entries: set[_Entry] | None = None
    is_read: bool = False

    def stays_in(self, block: anf.Block) -> bool:
        """Tells whether a block uses the array only by elements and parts, and hands on all of it or nothing of it."""
        return all(map(self._let, block.lets))

    def _let(self, let: anf.Let) -> bool:
        op = let.op
        match op:
            case anf.Read(array, index) | anf.View(array, index=index):
                if array in self.versions:
                    self._reached(index)
                    self.is_read = True
                return True
            case anf.Update(array, index):
                if array in self.versions:
                    self._reached(index)
                    self.versions.update(let.vars)
                return True
            case anf.Comp():
                return self._comprehension(let, op)
            case anf.If():
                return all(map(self.stays_in, (op.then, op.otherwise))) and self._handed_on(
                    zip(let.vars, op.then.results, op.otherwise.results, strict=True)
                )
            case anf.For() | anf.While():
                begun = [first in self.versions for first in op.init]
                self.versions.update(p for p, b in zip(op.params, begun, strict=True) if b)
                if not all(map(self.stays_in, parts(op).blocks)):
                    return False
                return self._handed_on(zip(let.vars, op.params, op.body.results[op.early :], strict=True))
            case _:
                return self.versions.isdisjoint(parts(op).atoms)

    def _comprehension(self, let: anf.Let, op: anf.Comp) -> bool:
        if not self.stays_in(op.body) or not self.versions.isdisjoint(op.body.results):
            return False
        for var, d in zip(let.vars, op.destinations, strict=True):
            if older_of(d, let.vars) in self.versions:
                self._reached(d.index)
                self.versions.add(var)
        return True

    def _handed_on(self, choices: Iterable[tuple[anf.Var, anf.Atom, anf.Atom]]) -> bool:
        """Notes the variables that are versions, each of which may be two values; whether both are, or none is."""
        for var, one, other in choices:
            if (one in self.versions) != (other in self.versions):
                return False
            if one in self.versions:
                self.versions.add(var)
        return True

    def _reached(self, index: Sequence[anf.Size]) -> None:
        by_iteration = {
            (k, e) for k, e in enumerate(index) if slope(e, self.number) in (1, -1) and not e.mentions(self.inside)
        }
        self.entries = by_iteration if self.entries is None else self.entries & by_iteration
