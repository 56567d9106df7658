"""What carries a derivative: the variables that depend on the inputs differentiated and that reach a seeded result.

Only floats can, and handles to nodes, which may hold some. Both directions are monotone walks over the whole body,
inner blocks included; the state of a loop is walked until nothing changes. What is not active is neither
differentiated nor saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from dlang.ir.anf import (
    FLOATS,
    Atom,
    Block,
    Cast,
    Check,
    Comp,
    Effect,
    For,
    If,
    Keep,
    Let,
    Library,
    Prim,
    Read,
    SizeOf,
    Stop,
    Token,
    Type,
    Update,
    Var,
    While,
    is_handle,
)
from dlang.ir.libraries import functional
from dlang.ir.traverse import parts
from dlang.ir.types import is_float
from dlang.primitives.table import PRIMITIVES


def active_vars(
    block: Block, inputs: Iterable[Var], seeded: Sequence[bool], held: Collection[str] | None = None
) -> set[Var]:
    """The active variables of a block: `inputs` vary, and the results marked in `seeded` have cotangents.

    held: the datatypes whose nodes can hold floats; None if all may.
    """
    varied = _Varied({v for v in inputs if carries(v.type)}, held)
    varied.block(block)
    useful = _Useful(varied.found)
    useful.atoms(r for r, s in zip(block.results, seeded, strict=True) if s)
    useful.block(block)
    return useful.found & varied.found


def carries(type: Type) -> bool:
    """Whether a derivative can flow through a value: a float, or a node, which may hold one."""
    return is_float(type) or (not isinstance(type, Token) and is_handle(type.dtype))


def _dtype(var: Var) -> str:
    return "" if isinstance(var.type, Token) else var.type.dtype


def carriers(let: Let) -> tuple[Atom, ...]:
    """The operands through which a derivative can flow, of an operation without blocks."""
    op = let.op
    match op:
        case Prim(name, args):
            texts = PRIMITIVES[name].derivative
            return tuple(a for a, text in zip(args, texts, strict=True) if text is not None and is_float(a.type))
        case Cast(dtype, arg):
            return (arg,) if dtype in FLOATS and is_float(arg.type) else ()
        case Read():
            return (op.array,) if carries(op.array.type) else ()
        case Update():
            return tuple(a for a in (op.array, op.value) if carries(a.type))
        case Stop() | SizeOf():
            return ()
        case Library():
            return tuple(a for a in functional(op) if carries(a.type))
        case _:
            return tuple(a for a in parts(op).atoms if carries(a.type))


class _Varied:
    """Forward: what depends on the inputs."""

    def __init__(self, found: set[Var], held: Collection[str] | None) -> None:
        self.found, self.held = found, held

    def varies(self, atom: Atom) -> bool:
        return isinstance(atom, Var) and atom in self.found

    def mark(self, var: Var, value: bool) -> None:
        if value and carries(var.type) and (self.held is None or is_float(var.type) or _dtype(var) in self.held):
            self.found.add(var)

    def block(self, block: Block) -> None:
        for let in block.lets:
            self.let(let)

    def let(self, let: Let) -> None:
        op = let.op
        match op:
            case If():
                self.block(op.then)
                self.block(op.otherwise)
                for var, a, b in zip(let.vars, op.then.results, op.otherwise.results, strict=True):
                    self.mark(var, self.varies(a) or self.varies(b))
            case For() | While():
                states(op, lambda p, a: self.mark(p, self.varies(a)), self.found, lambda: self.block(op.body))
                for var, param in zip(let.vars, op.params, strict=True):
                    self.mark(var, param in self.found)
            case Comp():
                self.block(op.body)
                for var, atom, d in zip(let.vars, op.body.results, op.destinations, strict=True):
                    into = d.into is not None and d.into in self.found
                    self.mark(var, differentiable(d) and (into or self.varies(atom)))
            case Check():
                for var, atom in zip(let.vars, op.subjects, strict=True):
                    self.mark(var, self.varies(atom))
            case _:
                if any(self.varies(a) for a in carriers(let)):
                    for var in let.vars:
                        self.mark(var, True)


def differentiable(destination: object) -> bool:
    """Whether the result of a destination can carry a derivative."""
    return not isinstance(destination, Keep) or destination.monoid in ("sum", "prod", "max", "min", "set")


def next_state(op: For | While) -> tuple[Atom, ...]:
    """The atoms of a loop's next state, without the bool that ends it early."""
    return op.body.results[1:] if op.early else op.body.results


def states(op: For | While, mark: Callable[[Var, Atom], None], found: set[Var], walk: Callable[[], None]) -> None:
    """Marks the state from its first values, then walks the body until the marks stop growing."""
    for param, atom in zip(op.params, op.init, strict=True):
        mark(param, atom)
    while True:
        before = len(found)
        walk()
        for param, atom in zip(op.params, next_state(op), strict=True):
            mark(param, atom)
        if len(found) == before:
            return


class _Useful:
    """Backward: what reaches a seeded result, along operands that vary."""

    def __init__(self, varied: set[Var]) -> None:
        self.varied = varied
        self.found: set[Var] = set()

    def atoms(self, atoms: Iterable[Atom]) -> None:
        self.found |= {a for a in atoms if isinstance(a, Var) and a in self.varied}

    def block(self, block: Block) -> None:
        for let in reversed(block.lets):
            self.let(let)

    def let(self, let: Let) -> None:
        op = let.op
        if not any(v in self.found for v in let.vars):
            return
        match op:
            case If():
                for k, var in enumerate(let.vars):
                    if var in self.found:
                        self.atoms((op.then.results[k], op.otherwise.results[k]))
                self.block(op.then)
                self.block(op.otherwise)
            case For() | While():
                self.loop(let, op)
            case Comp():
                for var, atom, d in zip(let.vars, op.body.results, op.destinations, strict=True):
                    if var in self.found:
                        self.atoms((atom, d.into) if d.into is not None else (atom,))
                self.block(op.body)
            case Check():
                self.atoms(s for v, s in zip(let.vars, op.subjects, strict=True) if v in self.found)
            case Effect():
                self.atoms(a for a in op.args if carries(a.type))
            case _:
                self.atoms(carriers(let))

    def loop(self, let: Let, op: For | While) -> None:
        wanted = {p for v, p in zip(let.vars, op.params, strict=True) if v in self.found}
        while True:
            before = len(self.found), len(wanted)
            self.atoms(a for p, a in zip(op.params, next_state(op), strict=True) if p in wanted)
            self.block(op.body)
            wanted |= {p for p in op.params if p in self.found}
            if (len(self.found), len(wanted)) == before:
                break
        self.found |= {p for p in wanted if p in self.varied}
        self.atoms(a for p, a in zip(op.params, op.init, strict=True) if p in wanted)
