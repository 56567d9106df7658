"""What makes nodes, and which blocks can let go of all that they made.

Nodes are immutable and lie in an arena that grows at one end. A block whose results hold no handle can't have handed on
a node that was made in it: a node that is older can't refer to one that is younger. So the arena ends afterwards where
it ended before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.codegen.loops import Buffer
from dlang.codegen.node_layout import holds_nodes
from dlang.ir.anf import Array, Block, Call, Construct, Effect, Foreign, Function, Program, Var
from dlang.ir.chains import Chains
from dlang.ir.traverse import walk


@dataclass(slots=True)
class Nodes:
    """makers: the functions that may make a node. held: arrays that a node will hold, or that grow into such.

    arrays: the buffers that begin with an array in the arena, which a node may hold as it is.
    """

    makers: frozenset[str] = frozenset()
    held: frozenset[Var] = frozenset()
    arrays: set[Buffer] = field(default_factory=set)

    def made_in(self, block: Block) -> bool:
        """Whether a block may make a node."""
        return bool(self.makers) and _makes(block, self.makers)


def node_makers(program: Program) -> frozenset[str]:
    """The functions that may make a node, themselves or through what they call."""
    if not program.datatypes:
        return frozenset()
    makers: frozenset[str] = frozenset()
    while True:
        found = frozenset(name for name, f in program.functions.items() if name in makers or _makes(f.body, makers))
        if found == makers:
            return found
        makers = found


def takes_nodes(f: Function) -> bool:
    """Whether nodes are among the arguments of a function, or are in them."""
    return any(holds_nodes(p.type) for p in f.params)


def _makes(block: Block, makers: frozenset[str]) -> bool:
    for let in walk(block):
        match let.op:
            case Construct(variant=variant) if variant.fields:
                return True
            case Call(function=callee) if callee in makers:
                return True
            case Foreign() | Effect() if any(holds_nodes(v.type) for v in let.vars):
                return True
            case _:
                pass
    return False


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
