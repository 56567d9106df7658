"""Counts what a function and its derivatives cost, by the interpreter, in the program that the back ends get.

An operation is one scalar primitive, or one element read or written; bytes are those of the elements. How much each
operation of the IR counts as is said in `docs/semantics.md`, and `law.py` says what derivatives may cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dlang.diagnostics import Span
from dlang.driver import Request, lower
from dlang.host.effects import Host
from dlang.interpret.metering import Metered
from dlang.ir.anf import FLOATS, Array, Atom, Derivative, Function, Program, Scalar, Token, Var
from dlang.ir.builder import Builder
from dlang.ir.call_graph import reachable
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import type_vars, walk
from dlang.lazy_modules import lazy_module
from dlang.specialize.specialize import Entry
from dlang.tools.drawing import Kind, Leaf, drawn, leaves_of
from dlang.typecheck.core import FnDecl

if TYPE_CHECKING:
    from dlang.pipeline import Observer
    from dlang.specialize import values
else:
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
    peak: bytes of what it made, and held at once. allocated: of all that it made. kinds: the operations by the name of
    their op; places: those that are and those that are shared, by where they stand in the source.
    """

    operations: int
    shared: int
    moved: int
    peak: int
    allocated: int
    passes: int
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
    known only when it has run. written: None where it holds derivatives, so that it can't be run.
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

    @property
    def numbers(self) -> list[str]:
        """The integers among the arguments that nothing else decides."""
        return [
            leaf.name
            for leaf in self.leaves
            if leaf.size is None and leaf.index is None and leaf.default is None and not leaf.variants
            if isinstance(leaf.atom.type, Scalar) and leaf.atom.type.dtype in ("i64", "i32")
        ]

    def arguments(self, sizes: Mapping[str, int], seed: int = 0, kind: Kind = "normal", variant: int = 0) -> list[Any]:
        """Random arguments at sizes by name; an integer of the function that is named has that value."""
        args = drawn(self.entry, self.leaves, [sizes[n] for n in self.names], seed, self.variables, kind, variant)
        head = len(args) - len(self.leaves)
        for k, leaf in enumerate(self.leaves):
            if leaf.name in sizes and leaf.size is None:
                args[head + k] = np.asarray(sizes[leaf.name]).astype(np.asarray(args[head + k]).dtype)[()]
        return args

    def costs(self, sizes: Mapping[str, int], seed: int = 0) -> Costs:
        """The costs at random arguments."""
        return self.at(self.arguments(sizes, seed))

    def at(self, args: Sequence[Any], limit: int = 1 << 62) -> Costs:
        """The costs at arguments. Raises `TooMuch` beyond a number of steps of the interpreter."""
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
        results = metered.run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
        counts = Counts(
            metered.operations,
            metered.shared,
            metered.moved,
            metered.peak,
            metered.allocated,
            metered.passes,
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
        wrt = [k for k, p in enumerate(f.params) if _is_float(p) and p not in fixed]
        seeded = [k for k, r in enumerate(f.results) if _is_float(r) and set(type_vars(r.type)).issubset(f.params)]
        kept.append((wrt, seeded))
        made = dict(program.functions)
        possible = wrt and seeded
        names = [FUNCTIONS[way] for way in ways if way in FUNCTIONS and possible]
        if not {REVERSE, SECOND, TWICE}.isdisjoint(names):
            _reverse(made, f, wrt, seeded, REVERSE)
        if FORWARD in names:
            _forward(made, f, wrt, FORWARD)
        if SECOND in names:
            _forward(made, made[REVERSE], wrt, SECOND)
        if TWICE in names:
            cotangents = range(len(f.results), len(made[REVERSE].results))
            _reverse(made, made[REVERSE], wrt, cotangents, TWICE)
        return Program(made, program.datatypes, program.python), names

    def saw(step: str, program: Program) -> None:
        seen[step] = program
        if observe is not None:
            observe(step, program)

    program, (entry,) = lower([wanted], observe=saw, extend=extend)
    wrt, seeded = kept[0]
    f = seen["mono"].functions[entry.name]
    wrt, seeded = _without_tokens(wrt, f.params), _without_tokens(seeded, f.results)
    written = reachable(seen["mono"], [entry.name])
    runs = not any(isinstance(let.op, Derivative) for g in written.functions.values() for let in walk(g.body))
    possible = [way for way in ways if way not in FUNCTIONS or (wrt and seeded)]
    leaves = leaves_of(decl, entry, variables)
    return Counted(program, written if runs else None, entry, leaves, names, wrt, seeded, possible, tuple(variables))


def _reverse(made: dict[str, Function], f: Function, wrt: Sequence[int], seeded: Sequence[int], name: str) -> None:
    b, params = _opened(made, f)
    env = dict(zip(f.params, params, strict=True))
    cotangents: list[Atom | None] = [
        b.param("seed", refresh_vars((r,), env)[0].type) if k in seeded else None for k, r in enumerate(f.results)
    ]
    made[name] = b.function(name, b.vjp(f.name, params, wrt, cotangents))


def _forward(made: dict[str, Function], f: Function, wrt: Sequence[int], name: str) -> None:
    b, params = _opened(made, f)
    tangents = [b.param("dot", p.type) if k in wrt else None for k, p in enumerate(params)]
    made[name] = b.function(name, b.jvp(f.name, params, tangents))


def _opened(made: dict[str, Function], f: Function) -> tuple[Builder, list[Var]]:
    b = Builder(made, f.span)
    b.params = list(refresh_vars(f.params, {}))
    return b, list(b.params)


def _leaves(v: Any) -> list[Atom]:
    return list(values.leaves(v))


def _without_tokens(positions: Sequence[int], vars: Sequence[Var]) -> list[int]:
    """Positions among those variables that have values."""
    return [k - sum(isinstance(v.type, Token) for v in vars[:k]) for k in positions]


def _is_float(v: Var) -> bool:
    return isinstance(v.type, Scalar | Array) and v.type.dtype in FLOATS
