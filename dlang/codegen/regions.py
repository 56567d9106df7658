"""Finds the operations that make objects in the arena, and the blocks that can let go of all that they made.

Objects are immutable and lie in an arena that grows at one end. A block whose results hold no reference can't have
handed on an object that was made in it: one that is older can't refer to one that is younger. So the arena ends
afterwards where it ended before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen.loops import Buffer
from dlang.codegen.node_layout import holds_references
from dlang.ir.anf import (
    Array,
    Atom,
    Block,
    Call,
    Check,
    Comp,
    Construct,
    Effect,
    Foreign,
    Format,
    Function,
    Program,
    Update,
    Var,
)
from dlang.ir.chains import Chains
from dlang.ir.traverse import walk
from dlang.ir.types import STR


@dataclass(slots=True)
class Nodes:
    """makers: the functions that may make an object. held: arrays that a node will hold, or that grow into such. joins:
    whether the program joins texts, so that one may be in several pieces.

    arrays: the buffers that begin with an array in the arena, which a node may hold as it is.
    """

    makers: frozenset[str] = frozenset()
    held: frozenset[Var] = frozenset()
    joins: bool = False
    arrays: set[Buffer] = field(default_factory=set)

    def made_in(self, block: Block) -> bool:
        """Tells whether a block may make an object."""
        return bool(self.makers) and _makes(block, self.makers, self.joins)


def makers_of(program: Program) -> frozenset[str]:
    """The functions that may make an object in the arena, themselves or through what they call."""
    makers: frozenset[str] = frozenset()
    joins = are_joined(program)
    while True:
        functions = program.functions.items()
        found = frozenset(name for name, f in functions if name in makers or _makes(f.body, makers, joins))
        if found == makers:
            return found
        makers = found


def are_joined(program: Program) -> bool:
    """Tells whether a program joins texts: writes one as it is among others."""
    lets = (let for f in program.functions.values() for let in walk(f.body))
    return any(isinstance(let.op, Format) and _joins(let.op) for let in lets)


def _joins(op: Format) -> bool:
    return any(a.type == STR and not spec for a, spec in zip(op.args, op.parts[1::2], strict=True))


def takes_references(f: Function) -> bool:
    """Tells whether texts or nodes are among the arguments of a function, or are in them."""
    return any(holds_references(p.type) for p in f.params)


def _makes(block: Block, makers: frozenset[str], joins: bool) -> bool:
    for let in walk(block):
        match let.op:
            case Construct(variant=variant) if variant.fields:
                return True
            case Call(function=callee) if callee in makers:
                return True
            case Foreign() | Effect() if any(holds_references(v.type) for v in let.vars):
                return True
            case Format(args=args) if args:
                return True
            case Effect(args=args) | Foreign(args=args) | Check(values=args) if joins and _has_text(args):
                return True  # the host gets texts in one piece, as arrays do
            case Update(value=value) if joins and _has_text((value,)):
                return True
            case Comp(body=body) if joins and _has_text(body.results):
                return True
            case _:
                pass
    return False


def _has_text(atoms: Sequence[Atom]) -> bool:
    """Tells whether a text that the program computes is among some values."""
    return any(isinstance(a, Var) and a.type == STR for a in atoms)


def held_arrays(function: Function, chains: Chains) -> frozenset[Var]:
    """The arrays of a function that its nodes hold, and what these grow from."""
    held: set[Var] = set()
    for let in walk(function.body):
        if isinstance(let.op, Construct):
            for arg in let.op.args:
                if isinstance(arg, Var) and isinstance(arg.type, Array):
                    root = chains.root(arg, 0)
                    held.update(v for v in (arg, root) if isinstance(v, Var))
    return frozenset(held)
