"""Slices of pure blocks: what some values need, and the sizes that types are written in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlang.ir.anf import Atom, Block, Check, Let, Prim, Size, SizeOf, Var, poly
from dlang.ir.traverse import free_vars, type_vars
from dlang.ir.types import I64


def pruned(lets: Sequence[Let], atoms: Iterable[Atom], sizes: Iterable[Size] = ()) -> list[Let]:
    """The lets that compute what is mentioned; all of them are pure."""
    wanted = {a for a in atoms if isinstance(a, Var)} | {a for s in sizes for a in s.atoms()}
    out = []
    for let in reversed(lets):
        if any(v in wanted for v in let.vars):
            out.append(let)
            wanted |= set(free_vars(let.op))
            for v in let.vars:
                wanted |= set(type_vars(v.type))
    return out[::-1]


def pruned_block(block: Block) -> Block:
    """A pure block without the lets that its results do not need."""
    return Block(tuple(pruned(block.lets, block.results)), block.results)


def with_sizes(vars: Sequence[Var], bound: set[Var]) -> list[Var]:
    """Variables, each after those of `bound` that its type mentions."""
    out: dict[Var, None] = {}
    for v in vars:
        for size in type_vars(v.type):
            if size in bound:
                out[size] = None
        out[v] = None
    return list(out)


def taken(block: Block, bound: set[Var]) -> tuple[list[Var], Block]:
    """The variables of `bound` that a pure block is given, with the sizes of their types, and the block.

    A size that is given so is not computed in the block as well: types would then speak of two sizes that are one.
    """
    vars = with_sizes([v for v in free_vars(block) if v in bound], bound)
    given = set(vars)
    return vars, Block(tuple([let for let in block.lets if not given.issuperset(let.vars)]), block.results)


def defined_sizes(lets: Sequence[Let]) -> dict[Var, Size]:
    """The i64 variables that are polynomials of others: what the types of saved arrays are written in."""
    found: dict[Var, Size] = {}

    def of(atom: Atom) -> Size:
        return poly(atom).substitute(found.get)

    for let in lets:
        match let.op:
            case SizeOf(size):
                found[let.vars[0]] = size.substitute(found.get)
            case Prim("add", (x, y)) if let.vars[0].type == I64:
                found[let.vars[0]] = of(x) + of(y)
            case Prim("sub", (x, y)) if let.vars[0].type == I64:
                found[let.vars[0]] = of(x) - of(y)
            case Prim("mul", (x, y)) if let.vars[0].type == I64:
                found[let.vars[0]] = of(x) * of(y)
            case Prim("neg", (x,)) if let.vars[0].type == I64:
                found[let.vars[0]] = -of(x)
            case Check(subjects=subjects):
                found.update((v, of(s)) for v, s in zip(let.vars, subjects, strict=True) if v.type == I64)
            case _:
                pass
    return found
