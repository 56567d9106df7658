"""The collector of the arena: the bytes that it copies, counted, however the loops that collect are nested."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import pytest

from dlang.codegen.abi import NURSERY
from dlang.codegen.llvm import jit, support
from dlang.codegen.llvm.collector import COPIES, node_header
from dlang.runtime.memory import Context
from dlang.runtime.threads import default_pool

NODE = 8 * 1024
"""The bytes of a node that has one reference, its header included."""


def _arena() -> Context:
    context = Context(0, default_pool())
    context.open_arena()
    return context


@dataclass(slots=True)
class Loops:
    """The loops of a run that each carry a list: nodes that are placed, and what looking for garbage copies."""

    context: Context = field(default_factory=_arena)
    placed: int = 0
    copied: int = 0
    peak: int = 0

    @property
    def top(self) -> int:
        return self.context.words[support.ARENA_TOP]

    def place(self, reference: int) -> int:
        """The address of a new node that refers to another."""
        at, end = self.top, self.top + NODE
        grow = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int64)(jit.support_address("dl_grow"))
        assert end <= self.context.words[support.ARENA_LIMIT] or grow(self.context.address, end)
        self.context.words[support.ARENA_TOP] = end
        words = (ctypes.c_int64 * 2).from_address(at)
        words[:] = node_header(0, 1, NODE // 8 - 1), reference
        self.placed += NODE
        self.peak = max(self.peak, end - self.context.arena.address)
        return at + 8

    def look(self, mark: int, trigger: int, root: int) -> tuple[int, int]:
        """The root and the next trigger after the end of an iteration."""
        if self.top <= trigger:
            return root, trigger
        words = self.context.words
        allowed = words[support.ARENA_CREDIT] + COPIES * max(0, self.top - (words[support.ARENA_SEEN] or mark))
        roots = (ctypes.c_int64 * 3)(0, 1, root)
        roots[0] = ctypes.addressof(roots) + 16
        arguments = ctypes.c_void_p, ctypes.c_int64
        collect = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments, *arguments)(jit.support_address("dl_collect"))
        trigger = collect(self.context.address, mark, ctypes.addressof(roots), 1)
        self.copied += allowed - words[support.ARENA_CREDIT]
        return roots[2], trigger

    def length(self, root: int) -> int:
        count = 0
        while root:
            count, root = count + 1, ctypes.c_int64.from_address(root).value
        return count


def test_calls_in_loops_of_callers_copy_each_node_a_few_times() -> None:
    loops, root, levels = Loops(), 0, 6 * NURSERY // NODE
    marks = [loops.top] * levels
    triggers = [mark + NURSERY for mark in marks]
    for mark, trigger in zip(marks, triggers, strict=True):  # each call returns to a loop whose mark is as old
        root, _ = loops.look(mark, trigger, loops.place(root))
    assert loops.length(root) == levels
    assert 0 < loops.copied <= COPIES * loops.placed


@pytest.mark.parametrize("kept", [0, 1, 40, 400])
def test_a_loop_around_a_loop_has_its_turn(kept: int) -> None:
    """The inner loop makes garbage, of which the outer keeps some nodes for a while: memory stays level."""
    loops, outer = Loops(), 0
    outer_mark = loops.top
    outer_trigger = outer_mark + NURSERY
    for iteration in range(40):
        mark = loops.top
        trigger = mark + NURSERY
        for _ in range(NURSERY // NODE // 4):
            made = loops.place(0)
            _, trigger = loops.look(mark, trigger, made)
        held = outer if iteration % 2 else 0
        for _ in range(kept):
            held = loops.place(held)
        outer, outer_trigger = loops.look(outer_mark, outer_trigger, held)
    assert loops.copied <= COPIES * loops.placed
    assert loops.peak <= 8 * max(NURSERY, 2 * kept * NODE)


def test_one_loop_collects_as_often_as_its_garbage_asks_for() -> None:
    loops, root = Loops(), 0
    mark = loops.top
    trigger = mark + NURSERY
    for _ in range(30 * NURSERY // NODE):
        root, trigger = loops.look(mark, trigger, loops.place(0))
    assert loops.peak <= 2 * NURSERY
    assert loops.length(root) == 1
