"""The costs of a function at sizes that double: each of its sizes for itself, and all together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.diagnostics import error
from dlang.driver import failure
from dlang.host.errors import RunError
from dlang.interpret.metering import TooMuch
from dlang.tools.counted import WAYS, Costs, Counted, Way, counted
from dlang.tools.drawing import Kind
from dlang.tools.law import Breach, breaches
from dlang.tools.slots import requested
from dlang.tools.stand_ins import with_stand_ins
from dlang.typecheck import core

if TYPE_CHECKING:
    from dlang.pipeline import Observer

KINDS: tuple[Kind, ...] = ("normal", "positive", "fractions")
LARGEST, LEAST = 32, 2
"""The sizes that are tried first, and last, where none is given."""
LIMIT = 400_000
"""Steps of the interpreter for each run, where sizes are to be found with which all ends in seconds."""
MOST = 2_000_000
"""The same where sizes are given."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The costs of a function at a size, twice and four times that. names: of the sizes that change."""

    names: tuple[str, ...]
    sizes: tuple[Mapping[str, int], ...]
    costs: tuple[Costs, ...]
    breaches: tuple[Breach, ...]


def prepared(decl: core.FnDecl, ways: Sequence[Way] = WAYS, observe: Observer | None = None) -> Counted:
    """A function whose costs can be counted; what no array can be drawn for has a stand-in. observe: as in `lower`."""
    drawable, _ = with_stand_ins(decl)
    wanted, slots = requested(drawable)
    return counted(drawable, wanted, [s.variable for s in slots], [s.name for s in slots], ways, observe)


def scans(
    function: Counted, named: Mapping[str, int], default: int | None = None, seed: int = 0, limit: int = LIMIT
) -> list[Scan]:
    """The costs as every size doubles twice, then as each does that is not the only one.

    named, default: the smallest sizes; where none is given, the largest with which the runs end soon. Raises the
    refusal of the function where it takes no arguments that are drawn, E0957 where it takes too long.
    """
    given = bool(named) or default is not None
    starts = [default or LARGEST] if given else list(_halves(LARGEST))
    for start in starts:
        base = {n: named.get(n, start) for n in function.names}
        base |= {n: named.get(n, max(start - (1 if base else 0), 0)) for n in function.numbers}
        try:
            return list(_scanned(function, base, seed, MOST if given else limit))
        except TooMuch:
            continue
    help = ("give smaller sizes: `--size 4`",)
    raise error("E0957", "counting takes too long at these sizes", None, help=help)


def _halves(largest: int) -> Iterator[int]:
    while largest >= LEAST:
        yield largest
        largest //= 2


def _scanned(function: Counted, base: Mapping[str, int], seed: int, limit: int) -> Iterator[Scan]:
    names = tuple(base)
    kind = _kind(function, base, seed, limit)
    yield _scan(function, base, names, seed, kind, limit)
    if len(names) > 1:
        for name in names:
            try:
                yield _scan(function, base, (name,), seed, kind, limit)
            except RunError:  # this one and the others have to fit each other
                continue


def _scan(
    function: Counted, base: Mapping[str, int], names: tuple[str, ...], seed: int, kind: Kind, limit: int
) -> Scan:
    """Growth breaks the law where it does so from two sizes: one alone may be where another branch begins."""
    sizes, costs = _doubled(function, base, names, seed, kind, limit)
    found = breaches(costs)
    if any(b.kind == "faster" for b in found):
        more = {n: s + max(1, s // 4) if n in names else s for n, s in base.items()}
        try:
            _, others = _doubled(function, more, names, seed, kind, limit)
        except (RunError, TooMuch):  # there is no other size to compare with
            return Scan(names, sizes, costs, tuple(found))
        found = breaches(costs, others)
    return Scan(names, sizes, costs, tuple(found))


def _doubled(
    function: Counted, base: Mapping[str, int], names: tuple[str, ...], seed: int, kind: Kind, limit: int
) -> tuple[tuple[Mapping[str, int], ...], tuple[Costs, ...]]:
    """The sizes as some of them double twice, and what the function costs at each."""
    sizes = tuple([{n: s * factor if n in names else s for n, s in base.items()} for factor in (1, 2, 4)])
    return sizes, tuple([function.at(function.arguments(s, seed, kind), limit) for s in sizes])


def _kind(function: Counted, base: Mapping[str, int], seed: int, limit: int) -> Kind:
    """The first kind of floats that the function takes."""
    refused: list[RunError] = []
    for kind in KINDS:
        try:
            for factor in (1, 4):
                args = function.arguments({n: s * factor for n, s in base.items()}, seed, kind)
                function.run(function.program, function.entry.name, args, limit)
            return kind
        except RunError as e:
            refused.append(e)
    raise failure(refused[0])
