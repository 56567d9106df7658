"""Slices pure blocks: finds the lets that some of their values depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from dlang.ir.anf import Atom, Block, Let, Size, Var
from dlang.ir.traverse import free_vars, type_vars


def pruned(
    lets: Sequence[Let], atoms: Iterable[Atom], sizes: Iterable[Size] = (), stay: Set[int] = frozenset()
) -> list[Let]:
    """The lets that compute what is mentioned. All of them are pure, but those at the positions that stay."""
    return [lets[k] for k in needed(lets, atoms, sizes, stay)]


def needed(
    lets: Sequence[Let], atoms: Iterable[Atom], sizes: Iterable[Size] = (), stay: Set[int] = frozenset()
) -> list[int]:
    """The positions of the lets that compute what is mentioned."""
    wanted = {a for a in atoms if isinstance(a, Var)} | {a for s in sizes for a in s.atoms()}
    out = []
    for k in range(len(lets) - 1, -1, -1):
        let = lets[k]
        if k in stay or not wanted.isdisjoint(let.vars):
            out.append(k)
            wanted.update(free_vars(let.op))
            for v in let.vars:
                wanted.update(type_vars(v.type))
    return out[::-1]


def pruned_block(block: Block) -> Block:
    """A pure block without the lets that its results do not need."""
    return Block(tuple(pruned(block.lets, block.results)), block.results)
