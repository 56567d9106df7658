"""Programs at the edges: arrays of no elements and of one, and indices that are data, of which some are out of range.

They are nests of loops, comprehensions and branches that read and change elements by indices from arrays. Compiled code
checks each access to memory, and has to give what the program as written does, or to refuse what that refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program, poly
from dlang.runtime.engine import Engine
from tests.fuzz.compare import Disagreement, Run, alike, outcome_of

PARAMETERS = "p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64, c: i64[k], d: i64[n]"
GRADIENT = f"\nfn both({PARAMETERS}) = value_and_grad(main, wrt = (p, q, m, x))(p, q, m, x, j, c, d)\n"
SIZES = (0, 1, 3)
OUTSIDE = (-5, 7, 10**12)
DEPTH = 4


def program(seed: int) -> str:
    """The text of a program whose `main` gives one f64."""
    return f"fn main({PARAMETERS}) -> f64 = {_Writer(Random(seed)).number(DEPTH, ())}\n"


Scope = tuple[tuple[str, str], ...]
"""The indices around, and the sizes that they are below."""


class _Writer:
    """The state of one text: where its random choices come from, and how many names there are."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = 0

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def pick(self, *forms: str) -> str:
        return self.random.choice(forms)

    def bound(self, scope: Scope) -> tuple[str, str]:
        """How far an index goes, and the size that it is below."""
        size = self.pick("n", "k")
        inner = [(f"minimum({i}, {size})", size) for i, _ in scope] + [(i, of) for i, of in scope]
        data = [(f"minimum(maximum({self.index(size, scope)}, 0), {size})", size)]
        return self.random.choice([(size, size), (size, size), *inner, (f"minimum(j, {size})", size), ("2", ""), *data])

    def index(self, size: str, scope: Scope) -> str:
        """An index of an axis of a size: in range, or from the data, or somewhere near."""
        other, table = ("k", "c") if size == "n" else ("n", "d")
        own = [i for i, of in scope if of == size]
        ways = [*own, *own, *[f"{table}[{i}]" for i, of in scope if of == other] * 3]
        ways += [f"{size} - 1 - {i}" for i in own] + [f"maximum({i} - 1, 0)" for i in own]
        return self.random.choice(ways) if ways else self.pick("j", "0", f"{table}[0]", f"{size} - 1")

    def array(self, depth: int, scope: Scope) -> str:
        """An array of numbers, whose length is not always the same."""
        i = self.fresh("i")
        bound, size = self.bound(scope)
        row = f"[{self.number(depth - 1, (*scope, (i, size)))} for {i} < {bound}]"
        start = self.index("n", scope)
        return self.pick(
            row, row, f"m[{self.index('n', scope)}]", f"p[{start}..]", f"p[..{start}]", f"p[{start}..{start} + 2]",
            f"cumsum({row})", "p[c]", "m[c][.., 0]", f"sort({row})", "where(q > 0.0, q, p[c])", "m @ q", "(m @ q)[c]",
            f"q * m[{start}]", f"concat(p[..{start}], q)", f"reverse({row})", f"[v * x for v in {row} if v > 0.2]",
            f"{{ var w = p; w[{start}..] += {self.number(depth - 2, scope)}; w }}", "sum(m, axis = 1)",
        )  # fmt: skip

    def number(self, depth: int, scope: Scope) -> str:
        """A number of the indices around."""
        leaves = [
            f"p[{self.index('n', scope)}]", f"q[{self.index('k', scope)}]",
            f"m[{self.index('n', scope)}, {self.index('k', scope)}]", "x",
        ]  # fmt: skip
        if depth <= 0 or (depth < DEPTH and not self.random.randrange(6)):
            return self.random.choice(leaves)
        i, (bound, size) = self.fresh("i"), self.bound(scope)
        inside = (*scope, (i, size))
        s, a = self.fresh("s"), self.fresh("a")
        of = self.pick("n", "k")

        def part(inner: bool = False, less: int = 1) -> str:
            return self.number(depth - less, inside if inner else scope)

        ways = [
            lambda: f"sum({part(True)} for {i} < {bound})",
            lambda: f"sum({part(True, 2)} * {part(False, 2)} for {i} < {bound})",
            lambda: f"({part()} * {part(less=2)})",
            lambda: f"({part()} + {part(less=2)})",
            lambda: f"tanh({part()})",
            lambda: f"(if {part(less=2)} > {part(less=3)} {{ {part()} }} else {{ {part(less=2)} }})",
            lambda: f"where({part(less=3)} > 0.1, {part()}, {part(less=2)})",
            lambda: f"sum({self.array(depth - 1, scope)})",
            lambda: f"{{ let {a} = {self.array(depth - 1, scope)}; if len({a}) > 0 {{ max({a}) }} else {{ 0.5 }} }}",
            lambda: f"{{ var {s} = x; for {i} < {bound} {{ {s} += {part(True)} }}; {s} }}",
            lambda: f"{{ var {s} = x; for {i} < {bound} {{ {s} = sin({s}) + {part(True)} }}; {s} }}",
            lambda: (
                f"{{ var {s} = x; for {i} < {bound} {{ if {s} > {part(True, 2)} {{ {self.pick('break', 'continue')} }};"
                f" {s} += {part(True, 2)} }}; {s} }}"
            ),
            lambda: (
                f"{{ let {a} = {self.array(depth - 1, scope)}; if len({a}) > 1 {{ {a}[argmax({a})] }} else {{ x }} }}"
            ),
            lambda: f"fold(|v, w| tanh(v * w), {part(less=2)}, {self.array(depth - 2, scope)})",
            lambda: (
                f"{{ var {a} = m; for {i} < {bound} {{ {a}[{self.index('n', inside)}, {self.index('k', inside)}]"
                f" {self.pick('+=', '=', '*=')} {part(True)} }}; sum({a} * m) }}"
            ),
            lambda: (
                f"{{ var {a} = m; for {i} < {bound} {{ {a}[{self.index('n', inside)}] = q * {part(True)} }};"
                f" sum({a} * {a}) }}"
            ),
            lambda: (
                f"{{ var {i} = 0; var {s} = x; while {i} < {bound} {{ {s} = {s} * 0.5 + {part(True, 2)}; {i} += 1 }};"
                f" {s} }}"
            ),
            lambda: (
                f"{{ var {a} = zeros({of}); for {i} < {bound} {{ {a}[{self.index(of, inside)}] += {part(True)} }};"
                f" sum({a} * {'p' if of == 'n' else 'q'}) }}"
            ),
            lambda: (
                f"{{ var {a} = {'p' if of == 'n' else 'q'}; for {i} < {bound} {{ if {part(True, 3)} > 0.0"
                f" {{ {a}[{self.index(of, inside)}] = {part(True, 2)} }} }}; sum({a} * {a}) }}"
            ),
        ]
        return self.random.choice(ways)()


def wrong_at_an_edge(text: str) -> Disagreement | None:
    """What is wrong with a program or its gradient, where sizes are 0 or 1, or indices wrong; None if nothing is."""
    checked = check(Source("program.dl", text + GRADIENT))
    if mistakes := errors_of(checked):
        refused = mistakes[0].code == "E0801"  # what is known to be outside of an array
        return None if refused else Disagreement("check", "no mistakes", mistakes[0].message)
    decl = checked.module.functions["both"]
    stages: dict[str, Program] = {}
    try:
        request = Request(decl, dict.fromkeys(decl.variables, poly(0)))
        program, (entry,) = lower([request], verify=True, observe=stages.__setitem__)
        runs: dict[str, Run] = {
            "as written": partial(Interpreter(stages["ad"], Host()).run, entry.name),
            "compiled": partial(Engine(Host(), sanitize=True).compile(program, [entry.name]).run, entry.name),
        }
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", f"{e.diagnostics[0].code} {e.diagnostics[0].message}")
    except Exception as e:
        return Disagreement("compile", "a program that compiles", f"{type(e).__name__}: {e}")
    for number, (n, k, outside) in enumerate(product(SIZES, SIZES, (False, True))):
        rng = np.random.default_rng(number)
        args = arguments(rng, n, k, outside)
        try:
            found = _difference(runs, args)
            if found is not None and all(_difference(runs, _nearby(rng, args)) for _ in range(3)):
                return found
        except Exception as e:
            return Disagreement("run", "a program that runs", f"{type(e).__name__}: {e}")
    return None


def arguments(rng: np.random.Generator, n: int, k: int, outside: bool) -> list[Any]:
    """Sizes and arguments of `main`. outside: whether about a fourth of the indices are out of range."""

    def indices(count: int, size: int) -> np.ndarray:
        found = rng.integers(0, max(size, 1), count)
        return np.where(rng.random(count) < 0.25, rng.choice(OUTSIDE, count), found) if outside else found

    floats = [rng.standard_normal(n), rng.standard_normal(k), rng.standard_normal((n, k)), float(rng.standard_normal())]
    return [n, k, *floats, int(rng.integers(0, 4)), indices(k, n), indices(n, k)]


def _nearby(rng: np.random.Generator, args: Sequence[Any]) -> list[Any]:
    """The same integers, and floats that differ a little."""
    return [a + 1e-3 * rng.standard_normal(np.shape(a)) if np.asarray(a).dtype.kind == "f" else a for a in args]


def _difference(runs: Mapping[str, Run], args: Sequence[Any]) -> Disagreement | None:
    (_, expected), (way, found) = [(way, outcome_of(run, args)) for way, run in runs.items()]
    return None if alike(expected, found) else Disagreement(way, expected, found)
