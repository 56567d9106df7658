"""Joining what two arms of a branch give: sizes that differ become results, functions that differ become dynamic.

An arm that fails or returns has no say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.dynamic import reconciled
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.values import Value, alike, contains_function, leaves, rebuild, sizes_of, with_sizes
from dlang.typecheck import types as ty


@dataclass(slots=True)
class Arm:
    """The code that an arm emitted, its values, and the world after it if it may touch it."""

    lets: list[anf.Let]
    values: list[Value]
    token: Atom | None = None


def choice(
    f: Frame,
    condition: Atom,
    then: Callable[[], Sequence[Value]],
    otherwise: Callable[[], Sequence[Value]],
    types: Sequence[ty.Type | None],
) -> list[Value]:
    """Values of one of two arms, which may touch the world. types: of the values that may hold functions."""
    arms: list[Arm] = []
    before = f.world.token
    for arm in (then, otherwise):
        f.world.token = before
        with f.block() as lets:
            arms.append(Arm(lets, list(arm()), f.world.token))
    if all(arm.token is before for arm in arms):
        f.world.token = before
        arms = [Arm(arm.lets, arm.values) for arm in arms]
    return joined(f, condition, arms, types)


def joined(f: Frame, condition: Atom, arms: Sequence[Arm], types: Sequence[ty.Type | None]) -> list[Value]:
    """Emits the branch. Sizes that differ come first among its results; a token comes last."""
    em = f.emitter
    first, second = arms
    for k, t in enumerate(types):
        align(f, first, second, k, t)
    sizes: dict[tuple[Size, Size], Var] = {}
    values: list[Value] = []
    inside = {v for arm in arms for let in arm.lets for v in let.vars}
    for x, y in zip(first.values, second.values, strict=True):
        common: list[Size] = []
        for p, q in zip(sizes_of(x), sizes_of(y), strict=True):
            if em.opened(p) == em.opened(q) and not p.mentions(inside):
                common.append(p)
                continue
            if (p, q) not in sizes:
                sizes[(p, q)] = fresh("k", I64)
                em.facts.size(sizes[(p, q)])
            common.append(poly(sizes[(p, q)]))
        values.append(with_sizes(x, iter(common)))
    blocks: list[Block] = []
    for column, arm in enumerate(arms):
        with em.block() as extra:
            atoms = [em.atom(pair[column]) for pair in sizes]
        token = [arm.token] if arm.token is not None else []
        results = (*atoms, *[x for v in arm.values for x in leaves(v)], *token)
        blocks.append(Block((*arm.lets, *extra), results))
    out = [*sizes.values(), *[fresh(a.name if isinstance(a, Var) else "t", a.type) for v in values for a in leaves(v)]]
    if first.token is not None:
        out.append(fresh("world", anf.Token()))
        f.world.token = out[-1]
    em.bind(anf.If(condition, *blocks), tuple(out))
    bound_left = iter(out[len(sizes) :])
    return [rebuild(v, bound_left) for v in values]


def align(f: Frame, first: Arm, second: Arm, k: int, t: ty.Type | None) -> None:
    """Gives the values `k` of two arms one structure: functions that differ are made dynamic."""
    x, y = first.values[k], second.values[k]
    if alike(x, y):
        return
    if t is not None and (contains_function(x) or contains_function(y)):
        wanted = f.erasing().mono(t)
        for arm, value, other in ((first, x, y), (second, y, x)):
            with f.emitter.block() as lets:
                arm.values[k] = reconciled(f, value, other, wanted)
            arm.lets.extend(lets)
        x, y = first.values[k], second.values[k]
    if not alike(x, y):
        raise unsupported("a branch whose arms differ in structure", f.emitter.span)
