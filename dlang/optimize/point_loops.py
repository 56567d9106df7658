"""Loops over arrays whose elements never meet, with all that is around them, are done a point at a time.

    t = empty [k, n]                                 x_bar, c_bar = comp i {
    y, t = for j (y = z, t = t) {                      t = empty [k]
      … y[i] … c[j] … to keep [n] [i] set into y       y, t = for j (y = 0, t = t) { … y … c[j] …, update t[j] = y }
      … y[i] … to keep [k, n] [j, i] set into t   →    b = mul(y, 2)
    }                                                  b, x, s = for j (b = b, x = 0, s = zeros [k]) { … t[j] … }
    b = comp i { … y[i] … }                            yield x, s
    b, x, c = for j (b = b, x = z, c = w) { … }      } to keep [n] [i] set, keep [k] [] sum into w

So what an iteration hands to the next stays in registers, and what a derivative saves of a loop is there for the points
that are under way, in the cache, and not for all. It is `pointwise_loops.py` for what arises when a loop at each point
is differentiated: an array of what each iteration saved, and sums over the points in each iteration.

Points of several axes are done along the first, and then, where that can be, along the next. An array that is there
before and has the points along its last axis is better read in rows, an iteration at a time; and one of more axes than
the points, of which iterations change some, stays where it is.
"""

from __future__ import annotations

from math import inf

from dlang.ir import anf
from dlang.ir.traverse import map_blocks, map_bodies, map_inner, walk
from dlang.ir.types import array_type
from dlang.ops import figures
from dlang.optimize.chains import TRIES, Chain, Dependences
from dlang.optimize.effects import effectful_functions
from dlang.optimize.hoist import hoisted
from dlang.optimize.in_blocks import in_blocks
from dlang.optimize.splitting import Way

FEW = figures.WRITTEN_OUT_POINTS


def point_loops(program: anf.Program) -> anf.Program:
    """The program with such loops done a point at a time."""
    effectful = effectful_functions(program)
    return map_bodies(program, lambda body: _block(body, effectful))


def _block(block: anf.Block, effectful: frozenset[str]) -> anf.Block:
    block = map_inner(block, lambda inner: _block(inner, effectful))
    if not any(_is_seed(let) for let in block.lets):
        return block
    parts = Dependences(block, effectful, loops=True)
    chains: list[Chain] = []
    taken: set[int] = set()
    for k, unit in enumerate(parts.units):
        if k in taken or not _is_seed(unit.lets[0]):
            continue
        for way in parts.ways[k]:
            chain = _grown(parts, k, way, taken)
            if chain is not None:
                chains.append(chain)
                taken |= chain.members.keys()
                break
    while chains:
        loops = [_loop(parts, chain) for chain in chains]
        done = parts.replaced(chains, loops)
        if done is not None:
            return done
        chains.pop()
    return block


def _is_seed(let: anf.Let) -> bool:
    """Tells whether a let is a loop that carries arrays."""
    return isinstance(let.op, anf.For) and any(isinstance(p.type, anf.Array) for p in let.op.params)


def _grown(parts: Dependences, seed: int, way: Way, taken: set[int]) -> Chain | None:
    """The chain that a loop is in; None if it can't be done a point at a time."""
    banned, axes = set(taken), _axes(way)
    known = way.size.constant
    if all(split is None for split in way.gives.values()) or (axes > 1 and known is not None and known <= FEW):
        return None
    for _ in range(TRIES):
        chain = Chain(way.size)
        chain.add(seed, way)
        near = set(parts.near[seed])
        while near:
            k = min(near)
            near.remove(k)
            if k in chain.members or k in banned:
                continue
            accepted = next((w for w in parts.ways[k] if _axes(w) <= axes and chain.takes(w)), None)
            if accepted is not None:
                chain.add(k, accepted)
                near |= parts.near[k]
        through = parts.through(chain)
        bad = [
            k
            for k in chain.members
            if not parts.fits(chain, k, through) or not _is_worth_it(chain, chain.members[k], axes)
        ]
        if seed in bad:
            return None
        if not bad:
            return chain
        banned.add(min(bad))
    return None


def _axes(way: Way) -> float:
    """How many axes the points have at which a unit does nothing with arrays, but for those that it carries."""
    match way.unit.lets[0].op:
        case anf.For() as op:
            return max(len(let.op.axes) for let in walk(op.body) if isinstance(let.op, anf.Comp))
        case anf.Comp((first, *_)) as op if way.axes[way.unit.vars[0]] is first.var:
            return len(op.axes)
        case anf.Copy(array):
            return len(array_type(array).shape)
        case anf.Empty():
            return 0
        case _:
            return inf


def _is_worth_it(chain: Chain, way: Way, axes: float) -> bool:
    """Tells whether a unit has of what is outside no array whose last axis, of several, is that of the points, and
    changes none that has more axes than these."""
    op = way.unit.lets[0].op
    if not all(a in chain.split or s in (None, 0) or s < len(array_type(a).shape) - 1 for a, s in way.needs):
        return False
    if not isinstance(op, anf.For):
        return True
    changed = [x for p, x in zip(op.params, op.init, strict=True) if way.inside[p] is not None]
    return all(x in chain.split or len(array_type(x).shape) <= axes for x in changed if isinstance(x, anf.Var))


def _loop(parts: Dependences, chain: Chain) -> tuple[anf.Let, ...]:
    """The comprehension that does what a chain does, with what is the same in all iterations in front of these."""
    members = [chain.members[k] for k in sorted(chain.members)]
    let = in_blocks(members, None, parts.outside(chain, chain.split))
    op = map_blocks(let.op, lambda inner: _block(inner, parts.effectful))
    return hoisted(anf.Block((anf.Let(let.vars, op, let.span),), let.vars)).lets
