"""The law of cost: what a function may cost once it is optimised, and its derivatives beside it, as sizes double.

Counts what a function and its derivatives cost, by the interpreter, in the program that the back ends get.

An operation is one scalar primitive, or one element read or written; bytes are those of the elements. How much each
operation of the IR counts as is said in `docs/semantics.md`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from math import log2
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dlang.diagnostics import Span, error
from dlang.driver import Request, failure, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import MEMORY_EXHAUSTED
from dlang.interpret.metering import Metered, TooMuch
from dlang.ir.anf import Atom, Derivative, Function, Program, Scalar, Token, Var
from dlang.ir.builder import opened
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import reachable, type_vars, walk
from dlang.ir.types import is_float
from dlang.lazy_modules import lazy_module
from dlang.specialize.specialize import Entry
from dlang.tools.drawing import Kind, Leaf, drawn, leaves_of, requested, with_stand_ins
from dlang.typecheck import core
from dlang.typecheck.core import FnDecl

if TYPE_CHECKING:
    from dlang import pipeline
    from dlang.ad.residuals import Residuals
    from dlang.pipeline import Observer
    from dlang.specialize import values
else:
    pipeline = lazy_module("dlang.pipeline")
    values = lazy_module("dlang.specialize.values")


Way = Literal["as written", "value", "gradient", "tangent", "second", "twice"]
WAYS: tuple[Way, ...] = ("as written", "value", "gradient", "tangent", "second", "twice")
"""The function before and after it was optimised; value and cotangents; value and tangent; then a Hessian times a
vector: cotangents and their tangent; cotangents and those of the arguments for the cotangents.
"""
REVERSE, FORWARD = "values and cotangents", "values and tangents"
SECOND, TWICE = "cotangents and tangents", "cotangents and their cotangents"
FUNCTIONS: Mapping[Way, str] = {"gradient": REVERSE, "tangent": FORWARD, "second": SECOND, "twice": TWICE}


@dataclass(frozen=True, slots=True)
class Counts:
    """The costs of a run.

    shared: operations, if none were done again for axes that it does not depend on. moved: bytes read and written.
    turns: iterations of loops, and branches. peak: bytes of what it made, and held at once. allocated: of all that it
    made. kinds: the operations by the name of
    their op; places: those that are and those that are shared, by where they stand in the source.
    """

    operations: int
    shared: int
    moved: int
    peak: int
    allocated: int
    passes: int
    turns: int
    kinds: Mapping[str, int]
    places: Mapping[Span | None, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Costs:
    """A function at some arguments. numbers: how many it takes and gives; bytes: of these; taken: those with slopes."""

    ways: Mapping[Way, Counts]
    numbers: int
    bytes: int
    taken: int

    def __getitem__(self, way: Way) -> Counts:
        return self.ways[way]

    @property
    def reverse_ratio(self) -> float:
        """The gradient's operations over those of the function itself and the elements of the cotangents."""
        return self["gradient"].operations / (self["value"].operations + self.taken)

    @property
    def forward_ratio(self) -> float:
        return self["tangent"].operations / self["value"].operations


@dataclass(frozen=True, slots=True)
class Counted:
    """A function with its derivatives in all of its floats, optimised, and as it was written.

    leaves: what is drawn; names: of the sizes; seeded: the results that have cotangents, but for those whose sizes are
    known only when it has run. written: None where it holds derivatives, so that it can't be run. residuals: of each
    derivative in reverse mode.
    """

    program: Program
    written: Program | None
    entry: Entry
    leaves: Sequence[Leaf]
    names: Sequence[str]
    wrt: Sequence[int]
    seeded: Sequence[int]
    ways: Sequence[Way]
    variables: Sequence[object] = field(default_factory=tuple)
    residuals: Sequence[Residuals] = ()

    @property
    def numbers(self) -> list[str]:
        """The integers among the arguments that nothing else decides."""
        return [
            leaf.name
            for leaf in self.leaves
            if leaf.size is None and leaf.index is None and leaf.default is None and not leaf.variants
            if isinstance(leaf.atom.type, Scalar) and leaf.atom.type.dtype in ("i64", "i32")
        ]

    def arguments(
        self,
        sizes: Mapping[str, int],
        seed: int = 0,
        kind: Kind = "normal",
        variant: int = 0,
        room: int = sys.maxsize,
    ) -> list[Any]:
        """Random arguments at sizes by name; an integer of the function that is named has that value.

        Raises `TooMuch` where they would have more than `room` elements, or there is no memory for them.
        """
        among = [sizes[n] for n in self.names]
        try:
            args = drawn(self.entry, self.leaves, among, seed, self.variables, kind, variant, room)
        except MemoryError:
            raise TooMuch from None
        head = len(args) - len(self.leaves)
        for k, leaf in enumerate(self.leaves):
            if leaf.name in sizes and leaf.size is None:
                args[head + k] = np.asarray(sizes[leaf.name]).astype(np.asarray(args[head + k]).dtype)[()]
        return args

    def costs(self, sizes: Mapping[str, int], seed: int = 0) -> Costs:
        """The costs at random arguments."""
        return self.at(self.arguments(sizes, seed))

    def at(self, args: Sequence[Any], limit: int = 1 << 62) -> Costs:
        """The costs at arguments. Raises `TooMuch` beyond a number of steps of the interpreter, or without memory."""
        counts: dict[Way, Counts] = {}
        if "as written" in self.ways and self.written is not None:
            counts["as written"], _ = self.run(self.written, self.entry.name, args, limit)
        counts["value"], results = self.run(self.program, self.entry.name, args, limit)
        ones = [np.ones_like(results[k]) for k in self.seeded]
        dots = [np.ones_like(args[k]) for k in self.wrt]
        both = [*ones, *dots]
        extra: Mapping[Way, list[Any]] = {"gradient": ones, "tangent": dots, "second": both, "twice": both}
        for way in self.ways:
            if way in extra:
                counts[way], _ = self.run(self.program, FUNCTIONS[way], [*args, *extra[way]], limit)
        leaves = [np.asarray(x) for x in (*args, *results)]
        numbers, bytes = sum(x.size for x in leaves), sum(x.nbytes for x in leaves)
        return Costs(counts, numbers, bytes, sum(map(np.size, dots)))

    def run(self, program: Program, name: str, args: Sequence[Any], limit: int) -> tuple[Counts, list[Any]]:
        """Counts the costs of a run, and returns them with its results. Its prints are not shown."""
        metered = Metered(program, Host(StringIO()), limit)
        try:
            results = metered.run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
        except RunError as e:
            if e.code == MEMORY_EXHAUSTED:
                raise TooMuch from None
            raise
        counts = Counts(
            metered.operations,
            metered.shared,
            metered.moved,
            metered.peak,
            metered.allocated,
            metered.passes,
            metered.turns,
            dict(metered.counts),
            metered.places(),
        )
        return counts, results


def counted(
    decl: FnDecl,
    wanted: Request,
    variables: Sequence[object],
    names: Sequence[str],
    ways: Sequence[Way] = WAYS,
    observe: Observer | None = None,
) -> Counted:
    """A function with its derivatives in all of its floats, along the cotangents and tangents that are given.

    variables, names: for each size of the function the variable of its scheme that it is of.
    """
    kept: list[tuple[list[int], list[int]]] = []
    seen: dict[str, Program] = {}

    def extend(program: Program, entries: Sequence[Entry]) -> tuple[Program, list[str]]:
        f = program.functions[entries[0].name]
        pairs = zip(decl.params, entries[0].params, strict=True)
        fixed = {a for p, v in pairs if p.nodiff for a in _leaves(v)}
        wrt = [k for k, p in enumerate(f.params) if is_float(p.type) and p not in fixed]
        seeded = [k for k, r in enumerate(f.results) if is_float(r.type) and set(type_vars(r.type)).issubset(f.params)]
        kept.append((wrt, seeded))
        functions = dict(program.functions)
        possible = wrt and seeded
        names = [FUNCTIONS[way] for way in ways if way in FUNCTIONS and possible]
        if not {REVERSE, SECOND, TWICE}.isdisjoint(names):
            _reverse(functions, f, wrt, seeded, REVERSE)
        if FORWARD in names:
            _forward(functions, f, wrt, FORWARD)
        if SECOND in names:
            _forward(functions, functions[REVERSE], wrt, SECOND)
        if TWICE in names:
            cotangents = range(len(f.results), len(functions[REVERSE].results))
            _reverse(functions, functions[REVERSE], wrt, cotangents, TWICE)
        return Program(functions, program.datatypes, program.python), names

    def saw(step: str, program: Program) -> None:
        seen[step] = program
        if observe is not None:
            observe(step, program)

    saved: list[Residuals] = []
    program, (entry,) = lower([wanted], observe=saw, extend=extend, residuals=saved)
    wrt, seeded = kept[0]
    f = seen["mono"].functions[entry.name]
    wrt, seeded = _without_tokens(wrt, f.params), _without_tokens(seeded, f.results)
    written = reachable(seen["mono"], [entry.name])
    runs = not any(isinstance(let.op, Derivative) for g in written.functions.values() for let in walk(g.body))
    if runs:  # an array that is held is copied before it is changed
        owned = [p for p in pipeline.PASSES if p.name == "ownership"]
        written = pipeline.run_passes(written, [entry.name], owned)
    possible = [way for way in ways if way not in FUNCTIONS or (wrt and seeded)]
    leaves = leaves_of(decl, entry, variables)
    return Counted(
        program, written if runs else None, entry, leaves, names, wrt, seeded, possible, tuple(variables), saved
    )


def _reverse(functions: dict[str, Function], f: Function, wrt: Sequence[int], seeded: Sequence[int], name: str) -> None:
    b, params = opened(functions, f)
    env = dict(zip(f.params, params, strict=True))
    cotangents: list[Atom | None] = [
        b.param("seed", refresh_vars((r,), env)[0].type) if k in seeded else None for k, r in enumerate(f.results)
    ]
    functions[name] = b.function(name, b.vjp(f.name, params, wrt, cotangents))


def _forward(functions: dict[str, Function], f: Function, wrt: Sequence[int], name: str) -> None:
    b, params = opened(functions, f)
    tangents = [b.param("dot", p.type) if k in wrt else None for k, p in enumerate(params)]
    functions[name] = b.function(name, b.jvp(f.name, params, tangents))


def _leaves(v: Any) -> list[Atom]:
    return list(values.leaves(v))


def _without_tokens(positions: Sequence[int], vars: Sequence[Var]) -> list[int]:
    """Positions among those variables that have values."""
    return [k - sum(isinstance(v.type, Token) for v in vars[:k]) for k in positions]


BASES: Mapping[Way, Way] = {
    "value": "as written",
    "gradient": "value",
    "tangent": "value",
    "second": "gradient",
    "twice": "gradient",
}
FACTORS: Mapping[Way, float] = {"value": 1.5, "gradient": 6.0, "tangent": 4.0, "second": 4.0, "twice": 6.0}
"""How many times the operations of what it is made of, and the numbers that the function takes and gives; for
derivatives its turns, too: an iteration that does nothing still hands on the cotangents of its state.
"""
SHARED = 4.0
"""How many times the operations of the function as written, each done as seldom as what it depends on allows."""
SLACK = 100
"""Operations that any function may take more, and numbers that it may keep: what does not grow with sizes."""
NUMBER = 8
"""Bytes of a number."""
KEPT = 4 * NUMBER
"""Bytes that a derivative may keep of an operation: a number, in a node of its own."""
TEMPORARIES = 8.0
"""How many times the memory of the function as written, and of what it takes and gives, it may hold when optimised."""
FASTER = 1.25
"""By how much a ratio grows, where the size doubles, if one count grows faster than another; without end, not less."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a source. operations: of a derivative, or of what was optimised; own: of what it is made of."""

    path: str
    line: int
    text: str
    operations: int
    own: int
    growth: float


@dataclass(frozen=True, slots=True)
class Breach:
    """A breach of the law. kind: `more` than it may be, or `faster` growing. found: the ratio, or the exponent;
    allowed: what it may be. lines: where the surplus is, the largest first.
    """

    way: Way
    measure: str
    kind: str
    found: float
    allowed: float
    lines: tuple[Line, ...] = ()

    def __str__(self) -> str:
        if self.kind == "more":
            return f"{self.way}: {self.measure} are {self.found:.1f} times what they may be"
        return f"{self.way}: {self.measure} grow by the exponent {self.found:.2f}, not {self.allowed:.2f}"


def exponent(counts: Sequence[int]) -> float:
    """The exponent of growth of counts at sizes that double, whatever is in them that does not grow.

    A count a + b·nᵉ has the differences b·nᵉ·(2ᵉ - 1), each 2ᵉ times the one before.
    """
    small, middle, large = counts
    if middle <= small or large <= middle:
        return 0.0
    return log2((large - middle) / (middle - small))


@dataclass(frozen=True, slots=True)
class _Measured:
    """Counts of one measure at three sizes, and what they may be. shared: what a function's operations may be where
    each is done as seldom as what it depends on allows. least: what is held as long as something else is larger.
    """

    name: str
    counts: Sequence[int]
    allowed: Sequence[float]
    shared: Sequence[float] | None = None
    least: int = -1

    def exceeds_shared(self) -> bool:
        return self.shared is not None and _faster(self.counts, self.shared)

    def grows_faster(self) -> bool:
        return self.counts[-1] > self.least and _faster(self.counts, self.allowed)


def _measured(costs: Sequence[Costs], way: Way, base: Way) -> tuple[_Measured, ...]:
    costs_of_way = [c[way] for c in costs]
    operations, moved, memory = ([f(c, way, base) for c in costs] for f in (operations_of, bytes_of, memory_of))
    shared = [SHARED * (c[base].shared + c.numbers + SLACK) for c in costs] if way == "value" else None
    return (
        _Measured("operations", [c.operations for c in costs_of_way], operations, shared),
        _Measured("bytes moved", [c.moved for c in costs_of_way], moved),
        _Measured("bytes of memory", [c.peak for c in costs_of_way], memory, least=costs[-1][base].peak),
    )


def breaches(costs: Sequence[Costs], *others: Sequence[Costs]) -> list[Breach]:
    """Finds where the costs at three sizes break the law. others: at other sizes; growth has to break it there, too."""
    broken: list[Breach] = []
    for way in costs[0].ways:
        base = BASES.get(way)
        if base is None or base not in costs[0].ways:
            continue
        lines = surplus(costs, way, base)
        for all_of_one in zip(*[_measured(c, way, base) for c in (costs, *others)], strict=True):
            m = all_of_one[0]
            if m.shared is not None and all(x.exceeds_shared() for x in all_of_one):
                growth = exponent(m.counts), exponent([int(a) for a in m.shared])
                broken.append(Breach(way, m.name, "faster", *growth, surplus(costs, way, base, shared=True)))
            elif all(x.grows_faster() for x in all_of_one):
                growth = exponent(m.counts), exponent([int(a) for a in m.allowed])
                broken.append(Breach(way, m.name, "faster", *growth, lines))
            elif m.counts[-1] > m.allowed[-1]:
                broken.append(Breach(way, m.name, "more", m.counts[-1] / m.allowed[-1], 1.0, lines))
    return broken


def _faster(counts: Sequence[int], allowed: Sequence[float]) -> bool:
    """Tells whether counts grow by more than they may, and by ever more of that. What does not grow has no say in it.

    A size may also decide which branches are taken. What grows by less the second time that the size doubles, or by
    less than what is allowed grew the first time, is not the growth of a power; nor can growth be compared with what
    falls.
    """
    (few, many), (less, more) = [(c[1] - c[0], c[2] - c[1]) for c in (counts, allowed)]
    if min(less, more) < 0 or many <= max(SLACK, less) or many < few:
        return False
    first, second = few / max(less, 1.0), many / max(more, 1.0)
    return first > 0.0 and second > max(1.0, FASTER * first)


# ---- what may be -----------------------------------------------------------------------------------------------------
def operations_of(costs: Costs, way: Way, base: Way) -> float:
    """How many operations a way may take."""
    return FACTORS[way] * (_work(costs[base], way) + costs.numbers + SLACK)


def _work(counts: Counts, way: Way) -> int:
    return counts.operations + (0 if way == "value" else counts.turns)


def bytes_of(costs: Costs, way: Way, base: Way) -> float:
    """How many bytes a way may read and write: what operations give may be kept, and read again."""
    at_base = costs[base]
    kept = NUMBER * _work(at_base, way) * (1 if way == "value" else 2)
    return FACTORS[way] * (at_base.moved + costs.bytes + NUMBER * SLACK) + kept


def memory_of(costs: Costs, way: Way, base: Way) -> float:
    """How many bytes a way may hold: a derivative all that the function makes, and a node for each operation."""
    at_base = costs[base]
    if way == "value":
        return TEMPORARIES * (at_base.peak + costs.bytes + NUMBER * SLACK)
    return 2 * (at_base.peak + costs.bytes) + at_base.allocated + KEPT * (_work(at_base, way) + SLACK)


# ---- where it comes from ---------------------------------------------------------------------------------------------
def surplus(costs: Sequence[Costs], way: Way, base: Way, shared: bool = False) -> tuple[Line, ...]:
    """The lines whose operations are more than they may be, at the largest size; those with the most first.

    shared: compared with the operations that are shared.
    """
    counted = [_lines(c[way]) for c in costs]
    allowed = _lines(costs[-1][base], shared)
    factor = SHARED if shared else FACTORS[way]
    spans = {_place(s): s for s in costs[-1][way].places if s is not None}
    lines = []
    for place, operations in counted[-1].items():
        more = operations - factor * allowed[place]
        if more > 0:
            path, line = place
            counts = [f[place] for f in counted]
            text = spans[place].source.line(line).strip()
            lines.append((more, Line(path, line, text, operations, allowed[place], exponent(counts))))
    return tuple([line for _, line in sorted(lines, key=lambda m: -m[0])])


def _lines(counts: Counts, shared: bool = False) -> Counter[tuple[str, int]]:
    lines: Counter[tuple[str, int]] = Counter()
    for span, operations in counts.places.items():
        if span is not None:
            lines[_place(span)] += operations[shared]
    return lines


def _place(span: Span) -> tuple[str, int]:
    return span.source.path, span.line


# ---- sizes that double -----------------------------------------------------------------------------------------------
# The costs of a function at sizes that double: each of its sizes for itself, and all together.

KINDS: tuple[Kind, ...] = ("normal", "positive", "fractions")
LARGEST, LEAST = 32, 2
"""The sizes that are tried first, and last, where none is given."""
LIMIT = 400_000
"""Steps of the interpreter for each run, where sizes are to be found with which all ends in seconds."""
MOST = 2_000_000
"""The same where sizes are given."""
ROOM = 4_000_000
"""Elements of all arguments, where sizes are to be found."""


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
    refusal of the function where it takes no arguments that are drawn, E0957 where it takes too much time or memory.
    """
    given = bool(named) or default is not None
    starts = [default or LARGEST] if given else list(_halves(LARGEST))
    for start in starts:
        base = {n: named.get(n, start) for n in function.names}
        base |= {n: named.get(n, max(start - (1 if base else 0), 0)) for n in function.numbers}
        try:
            return list(_scanned(function, base, seed, *((MOST, sys.maxsize) if given else (limit, ROOM))))
        except TooMuch:
            continue
    help = ("give smaller sizes: `--size 4`",)
    raise error("E0957", "counting takes too long, or too much memory, at these sizes", None, help=help)


def _halves(largest: int) -> Iterator[int]:
    while largest >= LEAST:
        yield largest
        largest //= 2


def _scanned(function: Counted, base: Mapping[str, int], seed: int, limit: int, room: int) -> Iterator[Scan]:
    names = tuple(base)
    kind = _kind(function, base, seed, limit, room)
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
    broken = breaches(costs)
    if any(b.kind == "faster" for b in broken):
        more = {n: s + max(1, s // 4) if n in names else s for n, s in base.items()}
        try:
            _, others = _doubled(function, more, names, seed, kind, limit)
        except (RunError, TooMuch):  # there is no other size to compare with
            return Scan(names, sizes, costs, tuple(broken))
        broken = breaches(costs, others)
    return Scan(names, sizes, costs, tuple(broken))


def _doubled(
    function: Counted, base: Mapping[str, int], names: tuple[str, ...], seed: int, kind: Kind, limit: int
) -> tuple[tuple[Mapping[str, int], ...], tuple[Costs, ...]]:
    """The sizes as some of them double twice, and what the function costs at each."""
    sizes = tuple([{n: s * factor if n in names else s for n, s in base.items()} for factor in (1, 2, 4)])
    return sizes, tuple([function.at(function.arguments(s, seed, kind), limit) for s in sizes])


def _kind(function: Counted, base: Mapping[str, int], seed: int, limit: int, room: int) -> Kind:
    """The first kind of floats for which the function gives finite numbers, or else of those that it takes."""
    refused: list[RunError] = []
    taken: list[Kind] = []
    for kind in KINDS:
        finite = True
        try:
            for factor in (1, 4):
                args = function.arguments({n: s * factor for n, s in base.items()}, seed, kind, room=room)
                _, results = function.run(function.program, function.entry.name, args, limit)
                finite = finite and all(map(_finite, results))
        except RunError as e:
            refused.append(e)
            continue
        if finite:
            return kind
        taken.append(kind)
    if not taken:
        raise failure(refused[0])
    return taken[0]


def _finite(result: Any) -> bool:
    """Tells whether a result has neither infinities nor NaNs."""
    numbers = np.asarray(result)
    return numbers.dtype.kind != "f" or bool(np.isfinite(numbers).all())
