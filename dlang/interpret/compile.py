"""Compiles blocks to steps: the one place that says which step an operation has."""

from __future__ import annotations

from dlang.interpret import boxes, operations, scalars
from dlang.interpret.code import Code, Step
from dlang.interpret.comprehensions import Comp
from dlang.ir import anf
from dlang.ir.anf import Block, Let
from dlang.ir.marks import is_mark
from dlang.ir.traverse import op_blocks
from dlang.ir.values import entry_of


def code_of(block: Block, axes: scalars.Axes | None = None) -> Code:
    """A block, compiled. axes: those of a box, if it runs at all of its points at once."""
    return Code(block, [step_of(let, axes) for let in block.lets if let.vars or not is_mark(let.op)])


def step_of(let: Let, axes: scalars.Axes | None = None) -> Step:
    """The step of a let. axes: as of a block."""
    match let.op:
        case anf.Prim() as op:
            return scalars.prim(let, op)
        case anf.Read() as op:
            return scalars.read(let, op, axes)
        case anf.Cast() as op:
            return scalars.Cast(let, op)
        case anf.IndexExpr(size):
            return scalars.IndexExpr(let, entry_of(size))
        case anf.Assert() as op:
            return scalars.Assert(let, op)
        case anf.StopGradient() as op:
            return scalars.StopGradient(let, op)
        case anf.Comp() as op:
            return comprehension(let, op)
        case anf.If() as op:
            return operations.If(let, op, code_of(op.then), code_of(op.otherwise))
        case anf.For() as op:
            return operations.For(let, op, code_of(op.body))
        case anf.While() as op:
            return operations.While(let, op, code_of(op.condition), code_of(op.body))
        case anf.Call() as op:
            return operations.Call(let, op)
        case anf.Update() as op:
            return operations.Update(let, op, [entry_of(e) for e in op.index])
        case anf.View() as op:
            first = operations.first_of(op)
            return operations.View(let, op, None if first is None else [entry_of(e) for e in first])
        case anf.Reshape() as op:
            return operations.Reshape(let, op)
        case anf.Construct() as op:
            return operations.Construct(let, op)
        case anf.Tag() as op:
            return operations.Tag(let, op)
        case anf.Fields() as op:
            return operations.Fields(let, op)
        case anf.Foreign() as op:
            return operations.Foreign(let, op)
        case anf.Effect() as op:
            return operations.Effect(let, op)
        case anf.Vjp() | anf.Jvp() | anf.VjpForward() | anf.VjpBackward() as op:
            return operations.Derivative(let, op)
        case op:
            return operations.Whole(let, op)


def comprehension(let: Let, op: anf.Comp) -> Comp:
    """The step of a comprehension."""
    names = {axis.var: k for k, axis in enumerate(op.axes)}
    crowded = any(isinstance(inner.op, anf.Call) or op_blocks(inner.op) for inner in op.body.lets)
    quick = None
    if boxes.is_simple(op):
        box = boxes.known_box(op)
        quick = boxes.boxed(op, names, code_of(op.body, boxes.lines_of(op, box)), box)
    return Comp(let, op, code_of(op.body), names, crowded, quick)
