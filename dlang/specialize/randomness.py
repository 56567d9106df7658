"""Random numbers: a draw is a pure function of a key and of where in the program it stands.

The *random events* of a function's body are numbered as it is specialised: draws, and what contains draws — calls,
comprehensions, loops. A draw hashes (key, number); a call passes a key that is such a hash; the elements of a
comprehension and the iterations of a loop hash their index too. Nothing is counted while the program runs, so draws
have no order, run in parallel, and are the same in every pass over them.

The hash is Threefry-2x64 of the words (key, stem) and (place, number). In a function's own body stem and place are 0;
in a comprehension or a loop, stem is the event's number in what is around it, and place the index. So a draw in a
comprehension costs one hash, like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b

from dlang.diagnostics import error
from dlang.ir.anf import Atom, Lit
from dlang.ops.dtypes import DTYPES
from dlang.specialize.analysis import effects_in, effects_of
from dlang.specialize.frame import ZERO_WORD, Frame, Level
from dlang.specialize.values import ClosureV, DerivativeV, ScalarV, Value, base_of
from dlang.typecheck import core

DIGITS = {d.name: d.digits for d in DTYPES.values() if d.is_float}
"""The bits of a float in [1, 2), its leading one included: a uniform number is one of so many bits after the point."""

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: i * GOLDEN + j differ for all indices of an array of less than 2^62 elements."""


# ---- levels ----------------------------------------------------------------------------------------------------------
def level_of(f: Frame) -> Level:
    """The level of the code being emitted."""
    if f.world.level is None:
        raise error(
            "E0690",
            "drawing a random number here is not supported yet",
            f.emitter.span,
            help=("draw the numbers outside, in a comprehension or a loop, and use them here",),
        )
    return f.world.level


def claimed(level: Level) -> int:
    """The number of the next event, 1 or more: its place in the function, hashed where it is in a lambda or an arm."""
    level.events += 1
    path = (*level.path, level.events)
    if len(path) == 1:
        return level.events
    digest = blake2b(repr(path).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1 << 63


def hashed(f: Frame, level: Level, number: int, word: str = "threefry") -> Atom:
    """Random bits for the event of a number."""
    return f.emitter.prim(word, level.key, Lit(level.stem, "u64"), level.place, Lit(number, "u64"))


def passed_key(f: Frame, closure: ClosureV | None = None) -> Atom:
    """The key of a function that is called now.

    One that nobody wrote, around a call, is no event of its own: so the derivative of a derivative draws what the
    function itself draws. Neither is one that Python asked for, where it is all that draws.
    """
    level = level_of(f)
    if level.forwards:
        return level.key
    written: Value | None = closure
    while isinstance(written, ClosureV) and written.forwards:
        match written.captured:
            case ((_, DerivativeV() as derivative),):
                written = base_of(derivative)
            case _:
                break
    if isinstance(written, ClosureV) and written.decl is not None and written.decl.kind == "call":
        if level == Level(level.key):
            return level.key
    return hashed(f, level, claimed(level))


@contextmanager
def level(f: Frame, inside: Level | None) -> Iterator[None]:
    """Code emitted inside is at another level."""
    outside, f.world.level = f.world.level, inside
    try:
        yield
    finally:
        f.world.level = outside


@contextmanager
def aside(f: Frame, draws: bool) -> Iterator[None]:
    """Code that runs at most once where it stands, numbered on its own: the body of a lambda, an arm of a branch.

    Whatever it draws is one event outside, also where the compiler leaves it out.
    """
    inside, _ = arm_levels(f, draws)
    with level(f, inside):
        yield


def arm_levels(f: Frame, draws: bool) -> tuple[Level | None, Level | None]:
    """The levels of two arms. They are numbered alike: only one of them runs."""
    outside = f.world.level
    if outside is None or not draws:
        return outside, outside
    outside.events += 1
    path = (*outside.path, outside.events)
    first, second = [Level(outside.key, outside.stem, outside.place, path) for _ in range(2)]
    return first, second


@dataclass(slots=True)
class Points:
    """The level of each element of a comprehension, or of each iteration of a loop; `events` counts those at a
    point."""

    key: Atom
    stem: int
    events: int = 0


def points(f: Frame, draws: bool) -> Points | None:
    """The levels of a comprehension or a loop that is entered now; None if nothing is drawn there."""
    outside = f.world.level
    if outside is None or not draws:
        return None
    number = claimed(outside)
    if outside.stem == 0:
        return Points(outside.key, number)
    return Points(hashed(f, outside, number), 1)


@contextmanager
def at(f: Frame, points: Points | None, index: Sequence[Atom]) -> Iterator[None]:
    """Code emitted inside is at the point of an index. A second time, it goes on behind what the first has drawn."""
    if points is None:
        with level(f, None):
            yield
        return
    key = points.key
    words = [f.emitter.cast("u64", i) for i in index]
    while len(words) > 2:
        key = f.emitter.prim("threefry", key, Lit(points.stem, "u64"), joined(f, words[:2]), ZERO_WORD)
        words = words[2:]
    inner_level = Level(key, points.stem, joined(f, words), (), points.events)
    with level(f, inner_level):
        yield
    points.events = inner_level.events


def restart(iterations: Points | None) -> None:
    """Another try, or another pass, draws the same numbers."""
    if iterations is not None:
        iterations.events = 0


def joined(f: Frame, words: Sequence[Atom]) -> Atom:
    """One word for an index of at most two axes."""
    e = f.emitter
    match words:
        case []:
            return ZERO_WORD
        case [i]:
            return i
        case _:
            i, j = words
            return e.prim("add", e.prim("mul", i, Lit(GOLDEN, "u64")), j)


# ---- what draws ------------------------------------------------------------------------------------------------------
def draws_in(f: Frame, *trees: core.Expr | core.Statement) -> bool:
    """Tells whether code may draw at the level where it stands."""
    return f.world.level is not None and any("random" in effects_in(t, f.env) for t in trees)


def draws_by(f: Frame, *values: Value) -> bool:
    """Tells whether calling these values may draw at this level."""
    return f.world.level is not None and any("random" in effects_of(v) for v in values)


# ---- draws -----------------------------------------------------------------------------------------------------------
def draw(f: Frame, name: str, dtype: str) -> Value:
    """`random_bits`, `random_uniform` or `random_normal`: one event."""
    current = level_of(f)
    number = claimed(current)
    first = hashed(f, current, number)
    match name:
        case "random_bits":
            return ScalarV(first)
        case "random_uniform":
            return ScalarV(unit(f, first, dtype))
        case _:
            return ScalarV(normal(f, first, hashed(f, current, number, "threefry_second"), dtype))


def unit(f: Frame, word: Atom, dtype: str) -> Atom:
    """The upper bits as a number in [0, 1): every multiple of 2^-53 (of f32: 2^-24) is equally likely."""
    e = f.emitter
    digits = DIGITS[dtype]
    upper = e.prim("shift_right", word, Lit(64 - digits, "u64"))
    return e.prim("mul", e.cast(dtype, upper), Lit(2.0**-digits, dtype))


def normal(f: Frame, first: Atom, second: Atom, dtype: str) -> Atom:
    """Box and Muller's transform: a radius and an angle. 1 - u lies in (0, 1], where the logarithm is finite."""
    e = f.emitter
    above = e.prim("sub", Lit(1.0, dtype), unit(f, first, dtype))
    radius = e.prim("sqrt", e.prim("mul", Lit(-2.0, dtype), e.prim("log", above)))
    angle = e.prim("mul", Lit(6.283185307179586, dtype), unit(f, second, dtype))
    return e.prim("mul", radius, e.prim("cos", angle))


def seeded(f: Frame, seed: Atom) -> Level:
    """The level of a program, or of `random.run`, that starts from a seed."""
    return Level(f.emitter.cast("u64", seed))
