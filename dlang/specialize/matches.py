"""Matches: the arms of one are tried in turn, or found by halves where a number tells many of them apart.

A match of n arms that are tried in turn is n branches deep, and so is its derivative; by halves it is log n deep.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ir.anf import INTEGERS, Atom, Lit
from dlang.ir.types import dtype_of
from dlang.specialize.analysis import escapes, tails
from dlang.specialize.control import branches, unreached
from dlang.specialize.effects import acts_in
from dlang.specialize.emitter import FALSE, TRUE
from dlang.specialize.frame import Frame, scalar
from dlang.specialize.loops import changing, flag_value
from dlang.specialize.patterns import bind_pattern, both, refutable, test
from dlang.specialize.randomness import draws_in
from dlang.specialize.values import EnumV, ScalarV, Value
from dlang.typecheck import core

MANY = 16  # arms; a draw is numbered by the arms around it, so those that draw are tried in turn


def matched(f: Frame, e: core.Match, v: Value) -> Value:
    """The first arm whose pattern matches. Many arms that are told apart by a number are found by halves."""
    if len(e.arms) > MANY and not draws_in(f, e):
        numbers = arm_numbers(v, e.arms)
        if numbers is not None:
            return by_halves(f, e, v, *numbers)
    return in_turn(f, tails(e), v)


def arm_numbers(v: Value, arms: Sequence[core.Arm]) -> tuple[Atom, list[tuple[int, core.Arm]], core.Arm | None] | None:
    """The number that chooses among arms, those in the order of their numbers, which leave none out, and the arm for
    all other numbers; None where arms are told apart in another way."""
    last = arms[-1]
    rest = last if isinstance(last.pattern, core.Wildcard | core.Bind) and last.guard is None else None
    found: dict[int, core.Arm] = {}
    for arm in arms if rest is None else arms[:-1]:
        match arm.pattern, v:
            case core.LiteralPattern(literal), ScalarV() if v.dtype in INTEGERS and isinstance(literal.value, int):
                number = literal.value
            case core.VariantPattern(_, variant, items), EnumV() if not any(map(refutable, items)):
                number = variant.tag
            case _:
                return None
        if number in found or arm.guard is not None:
            return None
        found[number] = arm
    order = sorted(found.items())
    if order[-1][0] - order[0][0] + 1 != len(order):
        return None
    tag = v.tag if isinstance(v, EnumV) else v
    assert isinstance(tag, ScalarV)
    return tag.atom, order, rest


def by_halves(
    f: Frame, e: core.Match, v: Value, number: Atom, arms: Sequence[tuple[int, core.Arm]], rest: core.Arm | None
) -> Value:
    """The arm that a number chooses. rest: the arm for numbers below the first, or above the last."""
    em, dtype = f.emitter, dtype_of(number)
    if rest is not None:
        low = em.prim("ge", number, Lit(arms[0][0], dtype))
        inside = em.prim("and", low, em.prim("le", number, Lit(arms[-1][0], dtype)))
        return branches(
            f, e, inside, lambda: by_halves(f, e, v, number, arms, None), lambda: taken(f, rest, v), e.opened
        )
    if len(arms) == 1:
        return taken(f, arms[0][1], v)
    middle = len(arms) // 2
    here = core.Match(e.type, e.span, e.value, tuple([arm for _, arm in arms]), e.opened)
    return branches(
        f,
        here,
        em.prim("lt", number, Lit(arms[middle][0], dtype)),
        lambda: by_halves(f, here, v, number, arms[:middle], None),
        lambda: by_halves(f, here, v, number, arms[middle:], None),
        e.opened,
    )


def taken(f: Frame, arm: core.Arm, v: Value) -> Value:
    """The value of an arm whose pattern matches."""
    bind_pattern(f, arm.pattern, v)
    return f.eval(arm.body)


def in_turn(f: Frame, tails: Sequence[core.Match], v: Value, first: int = 0) -> Value:
    """The first arm whose pattern matches, from some arm on; the checker proved that one does. tails: of the match."""
    e = tails[first]
    arm = e.arms[0]
    if len(e.arms) == 1:
        return taken(f, arm, v)
    condition = test(f, arm.pattern, v)

    def decided() -> Value:
        return branches(f, e, condition, lambda: taken(f, arm, v), lambda: in_turn(f, tails, v, first + 1), e.opened)

    if arm.guard is None:
        return taken(f, arm, v) if condition == TRUE else decided()
    condition = guarded(f, arm, arm.guard, v, condition)
    if condition == TRUE:
        return taken(f, arm, v)
    flags = f.exits.of(escapes(arm.guard))
    if flags:  # the guard may have left
        return branches(f, e, flag_value(f, flags), lambda: unreached(f, e.type), decided, e.opened)
    return decided()


def guarded(f: Frame, arm: core.Arm, guard: core.Expr, v: Value, condition: Atom) -> Atom:
    """Says whether the guard holds too; it sees what the pattern binds, so it runs only if that matches."""

    def holds() -> Value:
        bind_pattern(f, arm.pattern, v)
        return f.eval(guard)

    before = dict(f.env)
    if acts_in(f.env, guard) or changing(f, guard):
        return scalar(branches(f, guard, condition, holds, lambda: ScalarV(FALSE), ()))
    out = both(f, condition, lambda: scalar(holds()))
    f.env = before
    return out
