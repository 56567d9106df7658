"""Slices of an array that are written where they are made.

A stack is an empty array whose slices are set one after another. Where such a slice is nothing but a copy of an array
made before, in the same block and for this alone, that array is made in the slice in the first place, and nothing is
copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from dlang.ir.anf import Array, Block, Comp, Empty, Read, Reduce, Size, Var
from dlang.ir.comprehension_queries import giving
from dlang.ir.traverse import count_uses, type_vars
from dlang.ir.types import product
from dlang.ir.writes import elements, is_replaced, older_of


@dataclass(frozen=True, slots=True)
class Part:
    """whole: the empty array; position: of the slice in it. copy: the result that has the slice set."""

    whole: Var
    position: int
    copy: Var


def parts_of(block: Block) -> dict[Var, Part]:
    """The arrays of a block that can be made as parts of others."""
    empty = {let.vars[0] for let in block.lets if isinstance(let.op, Empty)}
    if not empty:
        return {}
    uses = count_uses(block)
    makers: dict[Var, int] = {}
    bound: dict[Var, int] = {}
    root: dict[Var, Var] = {var: var for var in empty}
    parts: dict[Var, Part] = {}
    written: Counter[tuple[Var, int | None]] = Counter()
    for k, let in enumerate(block.lets):
        bound.update(dict.fromkeys(let.vars, k))
        if not isinstance(let.op, Comp):
            continue
        for position, (var, d) in enumerate(zip(let.vars, let.op.destinations, strict=True)):
            older = older_of(d, let.vars)
            if older in root and (d.into is None or uses[older] == 1):
                whole = root[var] = root[older]
                slice = _slice(d.index)
                written[whole, slice] += 1
                source = _copied(let.op, position) if d.into is not None else None
                last = all(older_of(o, let.vars) is not var for o in let.op.destinations)
                if slice is not None and last and source in makers and uses[source] == 1:
                    parts[source] = Part(whole, slice, var)
            elif older is None or (older not in root and is_replaced(let.op, position)):
                makers[var] = k
    return {
        source: part
        for source, part in parts.items()
        if written[part.whole, part.position] == 1
        and not written[part.whole, None]
        and all(bound.get(v, -1) < makers[source] for v in type_vars(part.whole.type))
    }


def _slice(index: Sequence[Size]) -> int | None:
    """Returns the number of the slice that a destination is, if it is one."""
    if not index or (index[0].terms and index[0].constant is None):
        return None
    return int(index[0].constant or 0)


def _copied(op: Comp, position: int) -> Var | None:
    """The array, all of which is copied to a slice."""
    d = op.destinations[position]
    if not isinstance(d, Reduce) or d.monoid != "set" or d.shape[1:] == ():
        return None
    value = op.body.results[position]
    read = next((let.op for let in op.body.lets if value in let.vars), None)
    shape = d.shape[1:]
    if not isinstance(read, Read) or read.index != d.index[1:] or elements(op.axes, shape, read.index) is None:
        return None
    return read.array if isinstance(read.array.type, Array) and read.array.type.shape == shape else None


def without_copies(op: Comp, vars: Sequence[Var], copies: Set[Var]) -> tuple[Comp, tuple[Var, ...]]:
    """A comprehension without those of its results that are copies of what is in its place already."""
    kept = [k for k, var in enumerate(vars) if var not in copies]
    new = giving(op, kept)
    gone = {r for k, r in enumerate(op.body.results) if k not in kept}
    uses = count_uses(new.body)
    lets = tuple([let for let in op.body.lets if not (gone.issuperset(let.vars) and let.vars[0] not in uses)])
    return replace(new, body=Block(lets, new.body.results)), tuple([vars[k] for k in kept])


def offset(part: Part) -> Size:
    """Returns the offset of a part in its whole, which lies in a row."""
    assert isinstance(part.whole.type, Array)
    return product(part.whole.type.shape[1:]) * part.position
