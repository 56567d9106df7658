"""What some values of a pure block need of it: the slice behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from dlang.ir.anf import Atom, Block, Let, Size, Var
from dlang.ir.traverse import free_vars, type_vars


def pruned(
    lets: Sequence[Let], atoms: Iterable[Atom], sizes: Iterable[Size] = (), stay: Set[int] = frozenset()
) -> list[Let]:
    """The lets that compute what is mentioned. All of them are pure, but those at the positions that stay."""
    wanted = {a for a in atoms if isinstance(a, Var)} | {a for s in sizes for a in s.atoms()}
    out = []
    for k, let in reversed(list(enumerate(lets))):
        if k in stay or any(v in wanted for v in let.vars):
            out.append(let)
            wanted.update(free_vars(let.op))
            for v in let.vars:
                wanted.update(type_vars(v.type))
    return out[::-1]


def pruned_block(block: Block) -> Block:
    """A pure block without the lets that its results do not need."""
    return Block(tuple(pruned(block.lets, block.results)), block.results)
