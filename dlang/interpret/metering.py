"""A run of the interpreter that says which operations its costs are of, and how much memory its arrays hold at once.

Memory is counted as compiled code has it: an array is there from the operation that makes it to the last one of its
block that needs it, arrays inside of a comprehension are those of one point, and what is updated in place is one array.
Arguments are not counted, results are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from dlang.diagnostics import Span
from dlang.host.effects import Host
from dlang.interpret.code import Code, Frame
from dlang.interpret.interpreter import Interpreter
from dlang.interpret.points import box_of
from dlang.ir import anf
from dlang.ir.anf import Array, Block, Let, Program, Scalar, Var, is_handle
from dlang.ir.crossing import Node
from dlang.ir.traverse import free_vars, op_blocks
from dlang.ir.values import Version, literal

_AT_ONCE = 500  # operations that take the interpreter about as long as one more step


class TooMuch(Exception):
    """A run took more steps than it was allowed."""


class Metered(Interpreter):
    """Runs functions of a program, and counts all that they cost.

    moved: bytes that were read and written. shared: operations, if each were done once for each value of the axes of
    comprehensions that it depends on, and not again at every point of other axes around it. held: bytes of the arrays
    and nodes that are there; peak: at most, so far. limit: how many steps of the interpreter all runs together may
    take; then `TooMuch` is raised.
    """

    def __init__(self, program: Program, host: Host | None = None, limit: int = 1 << 62) -> None:
        super().__init__(program, host)
        self.moved = 0
        self.held = 0
        self.peak = 0
        self.steps = 0
        self.limit = limit
        self._of: Counter[Var] = Counter()
        self._once: dict[Var, float] = defaultdict(float)
        self._part = 1.0
        self._extents: dict[Var, int] = {}
        self._idle: dict[Var, tuple[Var, ...]] = {}
        for function in program.functions.values():
            _find_idle(function.body, {}, frozenset(), frozenset(), frozenset(), self._idle)
        self._made = 0
        self._there: dict[int, tuple[ref[Any], int]] = {}
        self._dying: dict[Code, tuple[list[list[Var]], list[Var]]] = {}

    # ---- operations --------------------------------------------------------------------------------------------------
    def count(self, let: Let, operations: int, moved: int = 0) -> None:
        super().count(let, operations, moved)
        self.moved += moved
        self.steps += operations // _AT_ONCE
        if let.vars:
            self._of[let.vars[0]] += operations
            self._once[let.vars[0]] += operations * self._part

    @property
    def shared(self) -> int:
        return round(sum(self._once.values()))

    def places(self) -> dict[Span | None, tuple[int, int]]:
        """The operations of each place in the source, and how many are shared.

        What has no place of its own is where the code around it is.
        """
        by_span: dict[Span | None, tuple[int, int]] = {}

        def add(block: Block, around: Span | None) -> None:
            for let in block.lets:
                span = around if let.span is None else let.span
                if let.vars and let.vars[0] in self._of:
                    operations, shared = by_span.get(span, (0, 0))
                    v = let.vars[0]
                    by_span[span] = operations + self._of[v], shared + round(self._once[v])
                for inner in op_blocks(let.op):
                    add(inner, span)

        for function in self.program.functions.values():
            add(function.body, function.span)
        return by_span

    # ---- memory ------------------------------------------------------------------------------------------------------
    def made(self, frame: Frame, arrays: Sequence[Any]) -> None:
        super().made(frame, arrays)
        for array in arrays:
            if isinstance(array, np.ndarray):
                self._hold(_owner(array), array.nbytes // max(frame.times, 1))

    def replaced(self, old: Any, new: np.ndarray[Any, Any]) -> None:
        owner = _owner(old) if isinstance(old, np.ndarray) else old
        for number in reversed(self._there):
            if self._there[number][0]() is owner:
                self._drop(number)
                break
        self._hold(new, new.nbytes)

    def made_so_far(self) -> int:
        return self._made

    def forget(self, mark: int) -> None:
        for number in _newest(self._there, mark):
            self._drop(number)

    def _hold(self, what: Any, bytes: int) -> None:
        number = self._made
        self._made += 1
        self._there[number] = ref(what, lambda _: self._drop(number)), bytes
        self.held += bytes
        self.peak = max(self.peak, self.held)

    def _drop(self, number: int) -> None:
        _, bytes = self._there.pop(number, (None, 0))
        self.held -= bytes

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def block(self, code: Code, frame: Frame) -> list[Any]:
        dying, left = self._lifetimes(code)
        env = frame.env
        for step, over in zip(code.steps, dying, strict=True):
            let = step.let
            self.steps += 1
            if self.steps > self.limit:
                raise TooMuch
            idle = self._idle.get(let.vars[0], ()) if let.vars else ()
            part = self._part
            self._part = part / prod([self._extents.get(axis, 1) for axis in idle])
            if isinstance(let.op, anf.Comp):
                self._measure(let.op, frame)
            try:
                step.run(self, frame)
            except (MemoryError, OverflowError):
                raise self.exhausted(step, frame) from None
            if step.operations:
                self.count(let, step.operations * frame.times, step.moved * frame.times)
            self._part = part
            if isinstance(let.op, anf.Construct):
                self._node(let, let.op, frame)
            elif isinstance(let.op, anf.For | anf.While):
                for v in let.op.params:
                    env.pop(v, None)
            for v in over:
                env.pop(v, None)
        results = [env[r] if isinstance(r, Var) else literal(r) for r in code.results]
        for v in left:
            env.pop(v, None)
        return results

    def _measure(self, op: anf.Comp, frame: Frame) -> None:
        """Notes how long the axes of a comprehension are; 1 where that differs from point to point."""
        box = box_of(op.axes, frame.env)
        for axis, (_, extent) in zip(op.axes, box or (), strict=box is not None):
            self._extents[axis.var] = max(extent, 1)
        if box is None:
            self._extents.update(dict.fromkeys([axis.var for axis in op.axes], 1))

    def _node(self, let: Let, op: anf.Construct, frame: Frame) -> None:
        node = frame.env[let.vars[0]]
        if isinstance(node, Node):
            self._hold(node, 8 * (1 + len(op.args)))
            for arg, value in zip(op.args, node.fields, strict=True):
                if isinstance(arg, Var) and type(frame.env.get(arg)) is Version:
                    self.made(frame, [value])  # a copy

    def _lifetimes(self, code: Code) -> tuple[list[list[Var]], list[Var]]:
        """For each step of a block, what is needed no more behind it; and what is left at the end."""
        known = self._dying.get(code)
        if known is None:
            lets = [step.let for step in code.steps]
            with_memory = {v for let in lets for v in let.vars if _has_memory(v)}
            source = {let.vars[0]: let.op.array for let in lets if isinstance(let.op, anf.View | anf.Reshape)}
            needed = set(_with_sources([r for r in code.results if isinstance(r, Var)], source))
            left = [v for v in with_memory if v in needed]
            dying: list[list[Var]] = []
            for step in reversed(code.steps):
                used = _with_sources([*step.free, *step.let.vars], source)
                dying.append([v for v in dict.fromkeys(used) if v in with_memory and v not in needed])
                needed.update(dying[-1])
            known = self._dying[code] = dying[::-1], left
        return known


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array whose memory an array is in."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _newest(numbers: dict[int, Any], mark: int) -> list[int]:
    out = []
    for number in reversed(numbers):
        if number < mark:
            break
        out.append(number)
    return out


def _has_memory(v: Var) -> bool:
    return isinstance(v.type, Array) or (isinstance(v.type, Scalar) and is_handle(v.type.dtype))


def _with_sources(used: Sequence[Var], source: dict[Var, Var]) -> list[Var]:
    """Variables, and those whose memory they are views of."""
    out: list[Var] = []
    for v in used:
        out.append(v)
        while v in source:
            v = source[v]
            out.append(v)
    return out


Axes = frozenset[Var]


def _find_idle(
    block: Block, depends: dict[Var, Axes], around: Axes, known: Axes, control: Axes, out: dict[Var, tuple[Var, ...]]
) -> None:
    """Finds, for each let, the axes around it on which it does not depend.

    depends: for each variable the axes that it depends on. known: axes on which nothing in this block depends, as has
    been found of what it is in. control: axes that decide whether the block runs.
    """
    for let in block.lets:
        op = let.op
        axes_of_op = control.union(*[depends.get(v, frozenset()) for v in free_vars(op)])
        idle = (
            around - axes_of_op - known if let.vars else frozenset()
        )  # of what binds nothing, the code in it is counted
        if idle:
            out[let.vars[0]] = tuple(idle)
        depends.update(dict.fromkeys(let.vars, axes_of_op))
        match op:
            case anf.Comp():
                axes = around.union([axis.var for axis in op.axes])
                for axis in op.axes:  # an axis depends on its own bounds alone
                    bounds = [depends.get(v, frozenset()) for size in (*axis.lows, *axis.highs) for v in size.atoms()]
                    depends[axis.var] = frozenset((axis.var,)).union(*bounds)
                _find_idle(op.body, depends, axes, known | idle, control, out)
            case anf.If(condition=condition):
                decides = control | (depends.get(condition, frozenset()) if isinstance(condition, Var) else frozenset())
                for inner in op_blocks(op):
                    _find_idle(inner, depends, around, known | idle, decides, out)
            case anf.For() | anf.While():
                depends.update(dict.fromkeys(op.params, axes_of_op))
                if isinstance(op, anf.For):
                    depends[op.index] = axes_of_op
                for inner in op_blocks(op):
                    _find_idle(inner, depends, around, known | idle, control, out)
            case _:
                pass
