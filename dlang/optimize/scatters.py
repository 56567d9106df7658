"""Loops that do nothing but add to elements of arrays, as comprehensions, whose points a device does side by side.

    for i in 0..n (a = z) {           a = comp i in 0..n {
      t = read a[k]                     yield v
      u = add(t, v)            to     } to add [m] [k] into z
      yield update a[k] = u
    }

It is for devices alone: the terms of an element are added in another order than the loop has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.traverse import map_bodies, map_inner, mentioned, walk
from dlang.ops.dtypes import SCATTERED
from dlang.optimize.effects import effectful_functions, is_effectful


@dataclass(frozen=True, slots=True)
class _Added:
    """An addition of an iteration to an element of an array. lets: the variables of the lets that do it; more: the lets
    that take their place."""

    destination: anf.ScatterAdd
    value: anf.Atom
    lets: frozenset[anf.Var]
    more: tuple[anf.Let, ...]


def scatters(program: anf.Program) -> anf.Program:
    """The program with such loops as comprehensions."""
    effectful = effectful_functions(program)

    def block(b: anf.Block) -> anf.Block:
        b = map_inner(b, block)
        lets = tuple([_as_comprehension(let, effectful) for let in b.lets])
        return b if all(new is old for new, old in zip(lets, b.lets, strict=True)) else replace(b, lets=lets)

    return map_bodies(program, block)


def _as_comprehension(let: anf.Let, effectful: frozenset[str]) -> anf.Let:
    loop = let.op
    if not isinstance(loop, anf.For) or loop.early or not loop.params:
        return let
    added = [_added(loop, k) for k in range(len(loop.params))]
    made = {var for a in added if a is not None for var in a.lets}
    rest = [inner for inner in loop.body.lets if made.isdisjoint(inner.vars)]
    if any(not _stays_the_same(inner, effectful) for inner in rest):
        return let
    found = [a for a in added if a is not None]
    if len(found) < len(added):
        return let
    more = [inner for a in found for inner in a.more]
    body = anf.Block((*rest, *more), tuple([a.value for a in found]))
    axis = anf.Axis(loop.index, (loop.low,), (loop.high,))
    return replace(let, op=anf.Comp((axis,), body, tuple([a.destination for a in found])))


def _stays_the_same(let: anf.Let, effectful: frozenset[str]) -> bool:
    """Tells whether an operation may be done for points in any order: not if the world sees it or a call may fail."""
    if any(isinstance(inner.op, anf.Effect) for inner in walk(anf.Block((let,), ()))):
        return False
    return isinstance(let.op, anf.Assert) or not is_effectful(let.op, effectful)


def _added(loop: anf.For, k: int) -> _Added | None:
    """Finds the addition to the k-th array that the loop carries; None if an iteration does anything else with it."""
    param, first, result = loop.params[k], loop.init[k], loop.body.results[k]
    if not isinstance(param.type, anf.Array) or param.type.dtype not in SCATTERED or not isinstance(first, anf.Var):
        return None
    by = {var: let for let in loop.body.lets for var in let.vars}
    update = by.get(result) if isinstance(result, anf.Var) else None
    if update is None or not isinstance(update.op, anf.Update) or update.op.array is not param:
        return None
    total = by.get(update.op.value) if isinstance(update.op.value, anf.Var) else None
    if total is None or not isinstance(total.op, anf.Prim) or total.op.name not in ("add", "sub"):
        return None
    subtracts = total.op.name == "sub"
    for value, other in (total.op.args, *(() if subtracts else (total.op.args[::-1],))):
        read = by.get(value) if isinstance(value, anf.Var) else None
        if read is None or not isinstance(read.op, anf.Read) or read.op.array is not param or other is value:
            continue
        if read.op.index != update.op.index:
            return None
        own = (update.vars[0], total.vars[0], read.vars[0])
        uses = mentioned(loop.body)
        if [uses.count(v) for v in (param, *own)] != [2, 1, 1, 1]:
            return None
        destination = anf.ScatterAdd(param.type.shape, update.op.index, first)
        if not subtracts:
            return _Added(destination, other, frozenset(own), ())
        opposite = anf.fresh("t", total.vars[0].type)
        return _Added(
            destination, opposite, frozenset(own), (anf.Let((opposite,), anf.Prim("neg", (other,)), total.span),)
        )
    return None
