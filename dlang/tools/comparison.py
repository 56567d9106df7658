"""Compares the derivatives of a function at a point, computed in four ways, in as many elements as time allows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlang.host.errors import RunError
from dlang.interpret.traced import NoDerivative
from dlang.tools.deadline import TooLong, within
from dlang.tools.gradients import STEPS, TOLERANCES, Gradients, Slopes, distance

COARSE = 100.0  # how much farther differences may be from the others than these from one another
ROUNDING, COARSE_ROUNDING = 1e-9, 1e-5  # numbers that a function adds up, at least: what is lost of them is no mistake


@dataclass(frozen=True, slots=True)
class Row:
    """One derivative in all ways. error: 1 is just acceptable.

    hollow: that its differences are acceptable says nothing, since rounding takes more of the value than it changes by.
    """

    name: str
    slopes: dict[str, float]
    error: float
    hollow: bool = False

    @property
    def relative(self) -> float:
        values = list(self.slopes.values())
        spread, size = max(values) - min(values), max(map(abs, values))
        return spread / size if size else 0.0


@dataclass(frozen=True, slots=True)
class Edge:
    """An element at an edge of its range, and its derivative there. differences: infinite where they grow."""

    name: str
    at: float
    reverse: float
    forward: float
    differences: float


@dataclass(slots=True)
class Comparison:
    """rows: of each argument the element in which the ways differ most. of: how many elements there are.

    hollow: of how many of those compared differences say nothing. notes: what could not be computed. boundary: elements
    at which the modes, or the quotients of differences, give another derivative where they are 0 or 1.
    """

    value: float
    rows: list[Row] = field(default_factory=list)
    compared: int = 0
    of: int = 0
    hollow: int = 0
    boundary: list[Edge] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def finite(self) -> bool:
        """Tells whether the function's value is finite: else there are no differences to compare derivatives with."""
        return abs(self.value) < float("inf")

    @property
    def known(self) -> bool:
        """Tells whether differences can confirm any derivative."""
        return self.finite and (self.hollow < self.compared or not self.compared)

    @property
    def wrong(self) -> list[Row]:
        return [r for r in self.rows if r.error > 1]


def compare(made: Gradients, args: Sequence[Any], names: Sequence[str], seconds: float, seed: int) -> Comparison:
    """Raises RunError where the program refuses, TooLong if one gradient takes longer than there is time.

    names: of the float arguments. seconds: for all of it, compiling excepted. seed: of the order of the elements.
    """
    made.prepare()
    start = time.monotonic()
    with within(seconds):
        value = made.value(args)
        reverse = made.reverse(args)
    out = Comparison(value, of=sum(s.size for s in reverse))
    stopped = made.stops()
    if stopped:
        out.notes.append("it stops derivatives, so differences are others")
    reference = _reference(made, args, seconds / 2, out.notes)
    found: dict[int, Row] = {}
    rng = np.random.default_rng(seed)
    for k, at in _places([s.shape for s in reverse], rng):
        late = time.monotonic() - start > seconds
        if late and out.compared >= len(names):
            break
        slopes = {"reverse": float(reverse[k][at]), "forward": made.forward_at(args, made.wrt[k], at)}
        if reference is not None:
            slopes["reference"] = float(reference[k][at])
        slopes["differences"] = made.difference_at(args, made.wrt[k], at)
        label = names[k] + (f"[{', '.join(map(str, at))}]" if at else "")
        row = _row(label, slopes, made.precision(made.wrt[k]), value, stopped)
        if k not in found or row.error > found[k].error:
            found[k] = row
        out.compared += 1
        out.hollow += row.hollow
    out.rows = [found[k] for k in sorted(found)]
    if out.compared < out.of:
        direction = [rng.standard_normal(s.shape) / np.sqrt(out.of) for s in reverse]
        out.rows.append(_along(made, args, direction, reverse, reference, value, stopped))
    return out


def _reference(made: Gradients, args: Sequence[Any], seconds: float, notes: list[str]) -> Slopes | None:
    try:
        with within(seconds):
            return made.reference(args)
    except NoDerivative as e:
        notes.append(f"no reference: it can't differentiate {e}")
    except TooLong:
        notes.append(f"no reference: it takes more than {seconds:g} s")
    return None


def _places(shapes: Sequence[tuple[int, ...]], rng: np.random.Generator) -> Iterator[tuple[int, tuple[int, ...]]]:
    """All elements of arrays in random order, one of each array after another."""
    orders = [rng.permutation(int(np.prod(shape))) for shape in shapes]
    for n in range(max([len(order) for order in orders], default=0)):
        for k, order in enumerate(orders):
            if n < len(order):
                yield k, tuple([int(i) for i in np.unravel_index(order[n], shapes[k])])


def _along(
    made: Gradients,
    args: Sequence[Any],
    direction: Slopes,
    reverse: Slopes,
    reference: Slopes | None,
    value: float,
    stopped: bool,
) -> Row:
    """The derivative along a direction, which all elements have a part in."""

    def sum_of(slopes: Slopes) -> float:
        return sum([float(np.sum(s * d)) for s, d in zip(slopes, direction, strict=True)])

    slopes = {"reverse": sum_of(reverse), "forward": made.along(args, direction)}
    if reference is not None:
        slopes["reference"] = sum_of(reference)
    slopes["differences"] = made.difference_along(args, direction)
    widest = max([made.precision(k) for k in made.wrt], key=TOLERANCES.__getitem__)
    return _row("a direction", slopes, widest, value, stopped)


def _row(name: str, slopes: dict[str, float], dtype: str, value: float, stopped: bool) -> Row:
    found = error(slopes, dtype, value, stopped)
    return Row(name, slopes, found, not stopped and found <= 1 and _hollow(slopes, dtype, value))


def _hollow(slopes: dict[str, float], dtype: str, value: float) -> bool:
    """Tells whether differences are far off, and acceptable for the size of the value alone.

    A derivative that is exactly 0 may well be so: then the value does not depend on the element.
    """
    if not abs(value) < float("inf"):
        return False
    others = [s for way, s in slopes.items() if way != "differences"]
    largest = max(map(abs, others))
    acceptable = COARSE * TOLERANCES[dtype] * 0.1 * abs(value)
    return 0 < largest < acceptable and abs(slopes["differences"] - others[0]) > 0.1 * largest


def error(slopes: dict[str, float], dtype: str, value: float, stopped: bool) -> float:
    """The largest distance between two ways, in units of what is acceptable between them.

    stopped: whether the function has derivatives that are stopped, of which differences know nothing.
    """
    worst = 0.0
    finite = abs(value) < float("inf")
    ways = [way for way in slopes if way != "differences" or (finite and not stopped)]  # infinity has no differences
    scale = abs(value) if finite else 0.0
    for k, one in enumerate(ways):
        for other in ways[:k]:
            factor, lost = (COARSE, COARSE_ROUNDING) if "differences" in (one, other) else (1.0, ROUNDING)
            found = distance(slopes[other], slopes[one], factor * TOLERANCES[dtype], scale + lost)
            worst = max(worst, found)
    return worst


# ---- edges -----------------------------------------------------------------------------------------------------------
def edges(
    made: Gradients, args: Sequence[Any], names: Sequence[str], values: Sequence[float], seconds: float, seed: int
) -> list[Edge]:
    """Finds where elements are 0, or another of some values, and a derivative may be a convention and no limit.

    At a kink, where the differences of both sides are finite and not the same, all may be right: that is left out. As
    many elements are tried as time allows.
    """
    start = time.monotonic()
    found: list[Edge] = []
    shapes = [np.shape(args[k]) for k in made.wrt]
    for k, at in _places(shapes, np.random.default_rng(seed)):
        for value in values:
            if time.monotonic() - start > seconds:
                return found
            moved = _at_value(args, made.wrt[k], at, value)
            try:
                edge = _edge(made, moved, k, at, value, names)
            except RunError:  # it may refuse the value
                continue
            found += [edge] if edge is not None else []
    return found


def _edge(
    made: Gradients, args: Sequence[Any], k: int, at: tuple[int, ...], value: float, names: Sequence[str]
) -> Edge | None:
    here = made.value(args)
    if not abs(here) < float("inf"):
        return None
    reverse = float(made.reverse(args)[k][at])
    forward = made.forward_at(args, made.wrt[k], at)
    tolerance = TOLERANCES[made.precision(made.wrt[k])]
    near = 0.0 if made.stops() else 1e3 * tolerance
    sides = [s for s in (_one_sided(made, args, k, at, value, sign, here) for sign in (1, -1)) if s == s]
    is_kink = len(sides) == 2 and not _close(sides[0], sides[1], near, here)
    expected = sides[0] if sides and not is_kink and near else reverse
    modes_agree = _close(reverse, forward, 10 * tolerance, here)
    if (modes_agree or is_kink) and (_close(reverse, expected, near, here) or not near):
        return None
    label = names[k] + (f"[{', '.join(map(str, at))}]" if at else "")
    return Edge(label, value, reverse, forward, expected)


def _one_sided(
    made: Gradients, args: Sequence[Any], k: int, at: tuple[int, ...], value: float, sign: int, here: float
) -> float:
    """The quotient of differences on one side: NaN where there is no value, infinite where it grows as steps shrink."""
    step = 10 * STEPS[made.precision(made.wrt[k])] * sign
    quotients = []
    for s in (step, step / 2, step / 4):
        try:
            there = made.value(_at_value(args, made.wrt[k], at, value + s))
        except RunError:
            return float("nan")
        quotients.append((there - here) / s)
    if not all(abs(q) < float("inf") for q in quotients):
        return float("nan")
    first, second, third = quotients
    if abs(third) > 1.3 * abs(second) > 1.69 * abs(first) and abs(third - second) * abs(step) > 1e-9 * (1 + abs(here)):
        return float(np.copysign(np.inf, third))
    return (8 * third - 6 * second + first) / 3


def _close(x: float, y: float, tolerance: float, value: float) -> bool:
    return x == y or abs(x - y) <= tolerance * (max(abs(x), abs(y)) + 0.1 * abs(value) + 0.1)


def _at_value(args: Sequence[Any], k: int, at: tuple[int, ...], value: float) -> list[Any]:
    """The arguments with one element of another value."""
    moved = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    changed = np.asarray(moved[k], dtype=np.asarray(args[k]).dtype).copy()
    changed[at] = value
    moved[k] = changed if changed.shape else changed[()]
    return moved
