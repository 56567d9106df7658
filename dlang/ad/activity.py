"""Finds active variables: those that depend on the inputs differentiated and reach a seeded result.

Only floats can, and handles to nodes, which may hold some. Along what derivatives flow is a graph of the variables of a
body, inner blocks included; the inputs lead to what varies, and of that the seeded results lead back to what is active.
What is not active is neither differentiated nor saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.rules import functional
from dlang.ir.traverse import parts
from dlang.ir.types import is_float
from dlang.ir.writes import choices
from dlang.ops.monoids import DIFFERENTIABLE
from dlang.ops.primitives import PRIMITIVES


def active_vars(
    block: anf.Block, inputs: Iterable[anf.Var], seeded: Sequence[bool], held: Collection[str] | None = None
) -> set[anf.Var]:
    """The active variables of a block: `inputs` vary, and the results marked in `seeded` have cotangents.

    held: the datatypes whose nodes can hold floats; None if all may.
    """
    flows = _Flows()
    flows.block(block)

    def may_vary(v: anf.Var) -> bool:
        return carries(v.type) and (held is None or is_float(v.type) or _dtype(v) in held)

    varied = {v for v in inputs if carries(v.type)}
    work = list(varied)
    while work:
        for v in flows.onward.get(work.pop(), ()):
            if v not in varied and may_vary(v):
                varied.add(v)
                work.append(v)
    active: set[anf.Var] = set()
    back = [r for r, s in zip(block.results, seeded, strict=True) if s]
    while back:
        atom = back.pop()
        if isinstance(atom, anf.Var) and atom in varied and atom not in active:
            active.add(atom)
            back += flows.sources.get(atom, ())
    return active


def carries(type: anf.Type) -> bool:
    """Tells whether a derivative can flow through a value: a float, or a node, which may hold one."""
    return is_float(type) or (not isinstance(type, anf.Token) and anf.is_handle(type.dtype))


def _dtype(var: anf.Var) -> str:
    return "" if isinstance(var.type, anf.Token) else var.type.dtype


def carriers(let: anf.Let) -> tuple[anf.Atom, ...]:
    """The operands through which a derivative can flow, of an operation without blocks."""
    op = let.op
    match op:
        case anf.Prim(name, args):
            texts = PRIMITIVES[name].derivative
            return tuple(a for a, text in zip(args, texts, strict=True) if text is not None and is_float(a.type))
        case anf.Cast(dtype, arg):
            return (arg,) if dtype in anf.FLOATS and is_float(arg.type) else ()
        case anf.Read():
            return (op.array,) if carries(op.array.type) else ()
        case anf.Update():
            return tuple(a for a in (op.array, op.value) if carries(a.type))
        case anf.StopGradient() | anf.IndexExpr():
            return ()
        case anf.LinalgOp():
            return tuple(a for a in functional(op) if carries(a.type))
        case _:
            return tuple(a for a in parts(op).atoms if carries(a.type))


@dataclass(slots=True)
class _Flows:
    """Along what derivatives flow: from a variable to those that it has a derivative in, and back."""

    onward: dict[anf.Var, list[anf.Var]] = field(default_factory=dict)
    sources: dict[anf.Var, list[anf.Var]] = field(default_factory=dict)

    def flow(self, atom: anf.Atom | None, var: anf.Var) -> None:
        if isinstance(atom, anf.Var) and carries(var.type):
            self.onward.setdefault(atom, []).append(var)
            self.sources.setdefault(var, []).append(atom)

    def block(self, block: anf.Block) -> None:
        for let in block.lets:
            self.let(let)

    def let(self, let: anf.Let) -> None:
        op = let.op
        match op:
            case anf.If():
                self.block(op.then)
                self.block(op.otherwise)
            case anf.For() | anf.While():
                self.block(op.body)
            case anf.Comp():
                self.block(op.body)
                for var, atom, d in zip(let.vars, op.body.results, op.destinations, strict=True):
                    if differentiable(d):
                        self.flow(atom, var)
                        self.flow(d.into, var)
            case anf.Assert():
                for var, value in zip(let.vars, op.guarded, strict=True):
                    self.flow(value, var)
            case _:
                for atom in carriers(let):
                    for var in let.vars:
                        self.flow(atom, var)
        for var, sources in choices(let):
            for atom in sources:
                self.flow(atom, var)


def differentiable(destination: object) -> bool:
    """Tells whether the result of a destination can carry a derivative."""
    return not isinstance(destination, anf.Reduce) or destination.monoid in DIFFERENTIABLE


def next_state(op: anf.For | anf.While) -> tuple[anf.Atom, ...]:
    """The atoms of a loop's next state, without the bool that ends it early."""
    return op.body.results[1:] if op.early else op.body.results
