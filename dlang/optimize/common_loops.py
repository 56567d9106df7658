"""Loops that go through the same state are one: a loop whose state is part of that of another one is left out.

    y = for j (y = x) { y' = f(y) }                      y, t = for j (y = x, t = t) { y' = f(y); t' = update t[j] = y }
    b = mul(y, 2)                                   →    b = mul(y, 2)
    z, t = for j (z = x, t = t) { z' = f(z); … }

What comes out of a loop at each point, and the way back through it, which begins with the loop once more to save its
states, are such loops where they meet at a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from dlang.ir import anf
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    map_bodies,
    map_inner,
    mentioned,
    needed,
    type_vars,
)
from dlang.optimize.effects import acts, consumed_by
from dlang.optimize.structural_hash import Key, Keys


def common_loops(program: anf.Program) -> anf.Program:
    """The program without such loops."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    loops = [let for let in block.lets if isinstance(let.op, anf.For) and not let.op.early]
    for smaller, larger in permutations(loops, 2):
        part = _part(smaller, larger)
        if part is not None and (new := _as_one(block, smaller, larger, part)) is not None:
            return _block(new)
    return block


def _part(smaller: anf.Let, larger: anf.Let) -> list[int] | None:
    """The positions of the state of one loop in that of another that goes through it, too; None if it doesn't."""
    one, other = smaller.op, larger.op
    assert isinstance(one, anf.For) and isinstance(other, anf.For)
    if (one.low, one.high) != (other.low, other.high) or len(one.params) >= len(other.params):
        return None
    part: list[int] = []
    for p, first in zip(one.params, one.init, strict=True):
        alike = zip(other.params, other.init, strict=True)
        same = (k for k, (q, x) in enumerate(alike) if k not in part and (q.type, x) == (p.type, first))
        k = next(same, None)
        if k is None:
            return None
        part.append(k)
    rest = {q for k, q in enumerate(other.params) if k not in part}
    acting = any(map(acts, one.body.lets))
    body = _needed(other.body.lets, [other.body.results[k] for k in part], acting)
    if not rest.isdisjoint(mentioned(body)):
        return None
    whole = _needed(one.body.lets, one.body.results, acting)
    if len(whole.lets) != len(body.lets):
        return None
    return part if _key(one, one.params, whole) == _key(other, [other.params[k] for k in part], body) else None


def _needed(lets: Sequence[anf.Let], results: Sequence[anf.Atom], acting: bool) -> anf.Block:
    """Lets that results need, as a block. acting: with all that may end the run, which nothing may need."""
    stay = {k for k, let in enumerate(lets) if acting and acts(let)}
    return anf.Block(tuple([lets[k] for k in needed(lets, results, stay=stay)]), tuple(results))


def _key(loop: anf.For, params: Sequence[anf.Var], body: anf.Block) -> Key:
    """A key of what an iteration does with a state."""
    keys = Keys()
    keys.index(loop.index)
    return tuple([keys.bind(p) for p in params]), keys.block(body)


def _as_one(block: anf.Block, smaller: anf.Let, larger: anf.Let, part: Sequence[int]) -> anf.Block | None:
    """The block with the larger loop where the first of both stands; None if it can't stand there."""
    lets = list(block.lets)
    at, there = lets.index(smaller), lets.index(larger)
    if there > at:
        between = lets[at + 1 : there]
        sizes = [v for var in larger.vars for v in type_vars(var.type)]
        wanted = set(needed(between, [*mentioned(larger.op), *sizes]))
        earlier = [*[let for k, let in enumerate(between) if k in wanted], larger]
        stay = [let for k, let in enumerate(between) if k not in wanted]
        if not _may_come_first(earlier, [smaller, *stay]):
            return None
        lets[at : there + 1] = [*earlier, *stay]
    else:
        del lets[at]
    same = Renaming({v: larger.vars[k] for v, k in zip(smaller.vars, part, strict=True)})
    return same.block(anf.Block(tuple(lets), block.results))


def _may_come_first(lets: Sequence[anf.Let], others: Sequence[anf.Let]) -> bool:
    """Tells whether lets may stand before others: they need none of what these bind, change no array that these read,
    and do nothing that is seen."""
    bound = {v for let in others for v in let.vars}
    read = {v for let in others for v in mentioned(let.op)}
    for let in lets:
        if acts(let) or not bound.isdisjoint(mentioned(let.op)) or not read.isdisjoint(consumed_by(let.op)):
            return False
    return True
