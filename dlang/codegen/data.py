"""Nodes of datatypes: how they are made and looked into, and the loops that drop those which nothing reaches any more.

The arrays of a node lie in the arena with it, which they may be written to in the first place (`abi.py` says
how a node lies in memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.abi import NURSERY, holds_reference, holds_references, words
from dlang.codegen.blocks import Owned, ResultPlace, Scheduler
from dlang.codegen.memory import Place, whole
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Array, Scalar, Var, fresh, poly
from dlang.ir.types import I64


# ---- nodes -----------------------------------------------------------------------------------------------------------
def construct(s: Scheduler, op: anf.Construct, var: Var, span: Span | None) -> None:
    """Emits a node, with its arrays in the arena."""
    references: list[loops.Value] = []
    scalars: list[anf.Atom] = []
    for formal, arg in zip(op.variant.fields, op.args, strict=True):
        if isinstance(arg.type, Array):
            assert isinstance(arg, Var)
            references.append(_held(s, arg))
        else:
            (references if holds_reference(formal) else scalars).append(s.flat(arg))
    s.out.append(loops.Node(var, op.variant.tag, tuple(references), tuple(scalars), span))


def _held(s: Scheduler, array: Var) -> loops.Buffer:
    """An array in the arena that nothing changes any more: itself if it is one, or a copy."""
    assert isinstance(array.type, Array)
    place, memory = s.place(array), s.memory
    if place.whole and place.buffer in s.nodes.arrays:
        if place.buffer not in memory.writable:
            return place.buffer
        if not memory.busy(place.buffer):
            memory.writable.discard(place.buffer)
            return place.buffer
    buffer = s.arena_buffer(array.name, array.type)
    memory.writable.discard(buffer)
    s.copy(place, whole(buffer, array.type.shape))
    return buffer


def fields(s: Scheduler, op: anf.Fields, vars: Sequence[Var]) -> None:
    """Emits loads of what a node holds; its arrays stay where they are."""
    for var, word in zip(vars, words(op.variant), strict=True):
        match var.type:
            case Array(dtype, shape):
                buffer = loops.Buffer(var.name, dtype)
                s.nodes.arrays.add(buffer)
                s.memory.settle(var, whole(buffer, shape))
                s.out.append(loops.LoadField(buffer, op.node, word, shape))
            case _:
                s.out.append(loops.LoadField(var, op.node, word))
                s.flats.add(var)


def tag(s: Scheduler, op: anf.Tag, var: Var) -> None:
    s.out.append(loops.LoadTag(var, op.node))


# ---- loops that carry nodes ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Collecting:
    """A loop that collects: where the arena ended before it, and up to where it may grow in this iteration."""

    mark: Var
    trigger: Var


def collecting(
    s: Scheduler, op: anf.For | anf.While, params: list[loops.Slot], init: list[loops.Value], results: list[loops.Slot]
) -> Collecting | None:
    """Adds to a loop the state that it carries to collect garbage; returns it, or None if the loop need not collect."""
    if not s.nodes.made_in(op.body) or not any(holds_references(p.type) for p in op.params) or s.nodes.kept_by(op):
        return None
    mark, first, trigger, last = (fresh(name, I64) for name in ("mark", "first", "trigger", "last"))
    s.out += [loops.Mark(mark), loops.Evaluate(first, poly(mark) + NURSERY)]
    params.append(trigger)
    init.append(first)
    results.append(last)
    return Collecting(mark, trigger)


def collected(c: Collecting, block: anf.Block, body: loops.Body, wanted: Sequence[ResultPlace]) -> loops.Body:
    """The body of a loop, as scheduled from a block, that collects at its end.

    Its roots are the next state, with the arrays that are changed in place: all other references into what the loop has
    made end with the iteration.
    """
    handles: list[Var] = []
    moved: list[Var] = []
    arrays: list[loops.ArrayValue] = []
    out: list[loops.Value] = []
    shapes = [
        r.type.shape
        for r, want in zip(block.results, wanted, strict=True)
        if isinstance(r.type, Array) and isinstance(want, Owned)
    ]
    for value in body.results:
        if isinstance(value, loops.Buffer):
            shape = shapes.pop(0)
            if anf.is_reference(value.dtype):
                arrays.append(loops.ArrayValue(value, shape))
        elif isinstance(value, Var) and isinstance(value.type, Scalar) and anf.is_reference(value.type.dtype):
            handles.append(value)
            value = fresh(value.name, value.type)
            moved.append(value)
        out.append(value)
    for place in wanted:
        if isinstance(place, Place) and anf.is_reference(place.buffer.dtype):
            arrays.append(loops.ArrayValue(place.buffer, place.shape))
    following = fresh("trigger", I64)
    collect = loops.Collect(c.mark, c.trigger, tuple(handles), tuple(arrays), tuple(moved), following)
    stmts: tuple[loops.Stmt, ...] = (*body.stmts, collect)
    return loops.Body(stmts, (*out, following))
