"""Programs at the edges: arrays of no elements and of one, and indices that are data, of which some are out of range.

They are nests of loops, comprehensions and branches that read and change elements by indices from arrays. Compiled code
checks each access to memory, and has to give what the program as written does, or to refuse what that refuses; then the
same code without these checks, which has arrays on the stack and no jump around a short arm. Some of the figures by
which passes decide are as small as they may be, so that small sizes are done in the way of large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.accesses import Access, unproven
from dlang.ir.anf import Function, Program, poly
from dlang.ops import figures
from dlang.runtime.engine import Engine
from dlang.typecheck.core import FnDecl
from tests.fuzz.compare import Disagreement, Run, alike, outcome_of

PARAMETERS = "p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64, c: i64[k], d: i64[n], u: f64[l], w: f64[k, l]"
GRADIENT = (
    f"\nfn both({PARAMETERS}) = value_and_grad(main, wrt = (p, q, m, x, u, w))(p, q, m, x, j, c, d, u, w)\n"
    """
struct Pair { first: f64, second: f64 }
fn pick(v: f64[a], i: Idx<a>) -> f64 = v[i]
fn first_above(v: f64[a], y: f64) -> f64 {
  for i < a { if v[i] > y { return v[i] } }
  y
}
fn total(r: List<f64>) -> f64 = match r { Nil => 0.0, Cons(head, rest) => head * head + total(rest) }
"""
)
SIZES = (
    (0, 0, 0), (0, 2, 1), (2, 0, 3), (3, 2, 0), (0, 0, 2), (0, 3, 0), (1, 0, 0), (1, 3, 2), (3, 1, 2), (2, 3, 1),
    (2, 2, 3), (1, 1, 1), (5, 9, 4), (2, 17, 9),
)  # fmt: skip
"""Of n, k and l."""
OUTSIDE = (-5, 7, 10**12)
SMALL = {
    "PACKED_FROM": 1, "PACKED_FROM_KNOWN": 1, "UNBLOCKED_PRODUCT": 1, "UNBLOCKED_PRODUCT_OF_MANY": 1,
    "GATHERED_FROM": 1, "GATHERED_COLUMNS": 1, "GATHERED_BLOCK": 4, "TILED_ROWS": 2, "CACHE": 64,
    "PRODUCTS_OF_BLOCK": 64, "OUTER_PRODUCTS": 2, "SMALL_OUTER_PRODUCT": 1, "ROWS_OF_BLOCK": 2, "EVEN_ROWS": 1,
    "NARROW_ROW": 1, "LOOP_POINTS": 2, "IDLE_UP_TO": 1, "WHOLE_LOOP": 2, "PREFETCH_FROM": 1,
    "PREFETCH_COVERED": 1, "MASKED_FROM": 2, "SCATTERED": 0,
    "WRITTEN_OUT_POINTS": 4, "WRITTEN_OUT_AXIS": 2, "END_ITERATIONS": 2, "FARTHEST_NEIGHBOUR": 3, "RECOMPUTED": 0,
    "COPIED_CODE": 0, "INLINED": 0, "INLINED_ARRAYS": 1, "COPIED_ARRAYS": 1, "COPIED": 1, "COPIED_IN_PLACE": 1,
    "ROUNDS_OF_REFUSALS": 1, "CARRIED": 1, "POINTS_FOR_ELEMENT": 1, "LEFT_OUT": 1, "ARM_WORTH_A_JUMP": 1,
}  # fmt: skip
"""Figures as small as they may be."""
DEPTH = 4
UNSAFE = "E0811"  # an access to memory that is outside of an array


def program(seed: int) -> str:
    """The text of a program whose `main` gives one f64."""
    return f"fn main({PARAMETERS}) -> f64 = {_Writer(Random(seed)).number(DEPTH, ())}\n"


Scope = tuple[tuple[str, str], ...]
"""The indices around, and the sizes that they are below."""
TABLES = {"n": ("k", "c"), "k": ("n", "d")}
"""Of a size: the size of an array of indices below it, and the array."""
VECTORS = {"n": "p", "k": "q", "l": "u"}


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
        size = self.pick("n", "k", "l")
        inner = [(f"minimum({i}, {size})", size) for i, _ in scope] + [(i, of) for i, of in scope]
        data = [(f"minimum(maximum({self.index(size, scope)}, 0), {size})", size)]
        short = [("2", ""), (f"maximum({size} - 1, 0)", size), (f"minimum(j, {size})", size)]
        return self.random.choice([(size, size), (size, size), (size, size), *inner, *short, *data])

    def index(self, size: str, scope: Scope) -> str:
        """An index of an axis of a size: in range, or from the data, or somewhere near."""
        other, table = TABLES.get(size, ("", ""))
        own = [i for i, of in scope if of == size]
        ways = [*own, *own, *[f"{table}[{i}]" for i, of in scope if table and of == other] * 3]
        ways += [f"{size} - 1 - {i}" for i in own] + [f"maximum({i} - 1, 0)" for i in own] + [f"{i} + 1" for i in own]
        ways += [i for i, of in scope if of != size][:1]
        first = f"{table}[0]" if table else "1"
        return self.random.choice(ways or ["j", "0", first, f"{size} - 1"]) if self.random.randrange(5) else "j"

    def start(self, size: str, scope: Scope) -> str:
        """Gives the place at which a slice begins or ends."""
        return self.pick(self.index(size, scope), self.index(size, scope), "1", "2")

    def array(self, depth: int, scope: Scope) -> str:
        """An array of numbers, whose length is not always the same."""
        i = self.fresh("i")
        bound, size = self.bound(scope)
        row = f"[{self.number(depth - 1, (*scope, (i, size)))} for {i} < {bound}]"
        start, b = self.start("n", scope), self.fresh("b")
        return self.pick(
            row, row, f"m[{self.index('n', scope)}]", f"p[{start}..]", f"p[..{start}]", f"p[{start}..{start} + 2]",
            f"cumsum({row})", "p[c]", "m[c][.., 0]", f"sort({row})", "where(q > 0.0, q, p[c])", "m @ q", "(m @ q)[c]",
            f"q * m[{start}]", f"concat(p[..{start}], q)", f"reverse({row})", f"[v * x for v in {row} if v > 0.2]",
            f"{{ var {b} = p; {b}[{start}..] += {self.number(depth - 2, scope)}; {b} }}", "sum(m, axis = 1)",
            f"w[{self.index('k', scope)}]", f"w[.., {self.index('l', scope)}]", f"p[{start}.. by 2]", "u[.. by 2]",
            f"m[{self.index('n', scope)}] @ w", "(m[c] @ w)[.., 0]", "m[c][0]", f"cumsum({row})[1..]", "(m @ w)[0]",
            f"w @ u[{self.pick('..', '0..')}]", f"m[{start}..] @ q", f"[v for v in {row}][{start}..]",
            f"m[{start}.., {self.index('k', scope)}]", f"w[0..{self.start('k', scope)}, 0]", "max(m, axis = 0)",
            f"[max([{self.number(depth - 3, (*scope, (i, size)))} * v for v in u]) for {i} < {bound} if l > 0]",
            "[f64(v) for v in argsort(p)]", f"[p[{b}] for {b} in argsort(p)]", "p[[0, 1]]", f"cumsum(m[{start}])",
        )  # fmt: skip

    def matrix(self, depth: int, scope: Scope) -> tuple[str, str, str]:
        """A matrix, and its sizes."""
        i, t = self.fresh("i"), self.fresh("t")
        (rows, columns) = self.random.choice([("n", "k"), ("k", "l"), ("n", "l"), ("k", "n"), ("l", "k")])
        made = f"[{self.number(depth - 1, (*scope, (i, rows), (t, columns)))} for {i} < {rows}, {t} < {columns}]"
        known = {
            ("n", "k"): ["m", "m * x", "[p[i] * q[t] for i, t]"],
            ("k", "l"): ["w", "m[c] @ w", "w[d[..]][c]"],
            ("n", "l"): ["m @ w"],
            ("k", "n"): ["[m[t, i] for i, t]"],
            ("l", "k"): ["[w[t, i] for i, t]"],
        }
        return self.pick(made, made, *known[rows, columns]), rows, columns

    def number(self, depth: int, scope: Scope) -> str:
        """A number of the indices around."""
        leaves = [
            f"p[{self.index('n', scope)}]", f"q[{self.index('k', scope)}]", f"u[{self.index('l', scope)}]",
            f"m[{self.index('n', scope)}, {self.index('k', scope)}]", "x",
            f"w[{self.index('k', scope)}, {self.index('l', scope)}]",
        ]  # fmt: skip
        if depth <= 0 or (depth < DEPTH and not self.random.randrange(6)):
            return self.random.choice(leaves)
        i, (bound, size) = self.fresh("i"), self.bound(scope)
        t, (second, other) = self.fresh("t"), self.bound((*scope, (i, size)))
        inside = (*scope, (i, size))
        twice = (*inside, (t, other))
        s, a = self.fresh("s"), self.fresh("a")
        of = self.pick("n", "k", "l")
        vector = VECTORS[of]

        def part(inner: bool = False, less: int = 1) -> str:
            return self.number(depth - less, inside if inner else scope)

        def changed() -> str:
            """Loops that change a matrix."""
            made, rows, columns = self.matrix(depth - 1, scope)
            row, column = self.index(rows, twice), self.index(columns, twice)
            value = self.number(depth - 2, twice)
            vectors = f"{VECTORS[columns]} * {self.number(depth - 3, twice)}"
            change = self.pick(
                f"{a}[{row}, {column}] {self.pick('+=', '=', '*=')} {value}",
                f"{a}[{row}] {self.pick('+=', '=')} {vectors}",
                f"{a}[.., {column}] {self.pick('+=', '=')} {VECTORS[rows]} * {self.number(depth - 3, twice)}",
                f"{a}[{row}, {self.start(columns, twice)}..] += {value}",
                f"if {self.number(depth - 3, twice)} > 0.0 {{ {a}[{row}, {column}] {self.pick('+=', '=')} {value} }}",
            )
            loops = self.pick(
                f"for {i} < {bound} {{ for {t} < {second} {{ {change} }} }}",
                f"for {i} < {bound} {{ let {t} = {self.pick('j', i)}; {change} }}",
            )
            return f"{{ var {a} = {made}; {loops}; sum({a} * {a}) }}"

        ways = [
            lambda: f"sum({part(True)} for {i} < {bound})",
            lambda: f"sum({part(True, 2)} * {part(False, 2)} for {i} < {bound})",
            lambda: f"sum({self.number(depth - 2, twice)} for {i} < {bound}, {t} < {second})",
            lambda: f"({part()} * {part(less=2)})",
            lambda: f"({part()} + {part(less=2)})",
            lambda: f"tanh({part()})",
            lambda: f"(if {part(less=2)} > {part(less=3)} {{ {part()} }} else {{ {part(less=2)} }})",
            lambda: f"(if j < {of} and j >= 0 {{ {vector}[j] * {part(less=2)} }} else {{ {part(less=2)} }})",
            lambda: f"where({part(less=3)} > 0.1, {part()}, {part(less=2)})",
            lambda: f"sum({self.array(depth - 1, scope)})",
            lambda: f"{{ let {a} = {self.array(depth - 1, scope)}; if len({a}) > 0 {{ max({a}) }} else {{ 0.5 }} }}",
            lambda: (
                f"{{ let {a} = {self.array(depth - 1, scope)}; sum({a}[{i}] * {part(True, 2)} for {i} < len({a})) }}"
            ),
            lambda: f"{{ var {s} = x; for {i} < {bound} {{ {s} += {part(True)} }}; {s} }}",
            lambda: f"{{ var {s} = x; for {i} < {bound} {{ {s} = sin({s}) + {part(True)} }}; {s} }}",
            lambda: (
                f"{{ var {s} = x; for {i} < {bound} {{ for {t} < {second}"
                f" {{ {s} {self.pick('+=', '= x *')} {self.number(depth - 2, twice)} }} }}; {s} }}"
            ),
            lambda: (
                f"{{ var {s} = x; for {i} < {bound} {{ {s} = sin({s}) + sum({self.array(depth - 2, inside)}) }}; {s} }}"
            ),
            lambda: (
                f"{{ var {s} = x; for {i} < {bound} {{ if {s} > {part(True, 2)} {{ {self.pick('break', 'continue')} }};"
                f" {s} += {part(True, 2)} }}; {s} }}"
            ),
            lambda: (
                f"{{ let {a} = {self.array(depth - 1, scope)}; if len({a}) > 1 {{ {a}[argmax({a})] }} else {{ x }} }}"
            ),
            lambda: f"fold(|v, y| tanh(v * y), {part(less=2)}, {self.array(depth - 2, scope)})",
            lambda: (
                f"{{ let ({s}, {a}) = scan(|v, y| (sin(v) + y, v * y), x, {self.array(depth - 2, scope)});"
                f" {s} + sum({a}) }}"
            ),
            lambda: f"first_above({self.array(depth - 1, scope)}, {part(less=3)})",
            changed,
            changed,
            lambda: (
                f"{{ var {i} = 0; var {s} = x; while {i} < {bound} {{ {s} = {s} * 0.5 + {part(True, 2)}; {i} += 1 }};"
                f" {s} }}"
            ),
            lambda: (
                f"{{ var {a} = zeros({of}); for {i} < {bound} {{ {a}[{self.index(of, inside)}] += {part(True)} }};"
                f" sum({a} * {vector}) }}"
            ),
            lambda: (
                f"{{ var {a} = {vector}; for {i} < {bound} {{ if {part(True, 3)} > 0.0"
                f" {{ {a}[{self.index(of, inside)}] = {part(True, 2)} }} }}; sum({a} * {a}) }}"
            ),
            lambda: (
                f"{{ var {a} = {vector}; for {i} < {bound} {{ for {t} < {second}"
                f" {{ {a}[{self.index(of, twice)}] {self.pick('+=', '=')} {self.number(depth - 2, twice)} }} }};"
                f" sum({a} * {vector}) }}"
            ),
            lambda: (
                f"{{ let {a} = [Pair({vector}[{i}], {part(True, 2)}) for {i} < {of}];"
                f" sum({a}[{self.index(of, inside)}].{self.pick('first', 'second')} * {part(True, 2)}"
                f" for {i} < {bound}) }}"
            ),
            lambda: (
                f"{{ let {a} = [v as Idx<n> for v in c];"
                f" sum(pick(p, {a}[{self.index('k', inside)}]) * {part(True, 2)} for {i} < {bound}) }}"
            ),
            lambda: (
                f"{{ var {a}: List<f64> = Nil; for {i} < {bound} {{ {a} = Cons({part(True, 2)}, {a}) }}; total({a}) }}"
            ),
            lambda: f"f64(sum([f32({part(True, 2)}) for {i} < {bound}]))",
            lambda: (
                f"{{ let {a} = [i64({part(True, 2)}) for {i} < {bound}];"
                f" sum({self.pick('p', 'q')}[{a}[{i}]] * x for {i} < {bound}) }}"
            ),
            lambda: (
                f"{{ let {a} = [p[{i}] * q[{t}] * u[{s}] for {i} < n, {t} < k, {s} < l];"
                f" sum({a}[{self.index('n', twice)}, {self.index('k', twice)}, {self.index('l', twice)}]"
                f" for {i} < {bound}, {t} < {second}) }}"
            ),
            lambda: (
                f"{{ let {a} = [{vector}[{i} + {t}] * {part(True, 3)} for {i} < {of} - 1, {t} < 2];"
                f" sum({a}[{self.index(of, scope)}]) }}"
            ),
            lambda: (
                f"{{ let {a} = {self.matrix(depth - 1, scope)[0]};"
                f" sum(max({a}[{i}]) for {i} < len({a}) if len({a}[{i}]) > 0) }}"
            ),
        ]
        ways += [*self.sequences(depth, scope), *self.state(depth, scope), *self.numbers_of_indices(depth, scope)]
        return self.random.choice(ways)()

    def sequences(self, depth: int, scope: Scope) -> list[Callable[[], str]]:
        """Ways to a number by arrays and lists that grow, recursion, and loops that count as they like."""
        i, (bound, size) = self.fresh("i"), self.bound(scope)
        t, (second, other) = self.fresh("t"), self.bound((*scope, (i, size)))
        inside, twice = (*scope, (i, size)), (*scope, (i, size), (t, other))
        s, a, b, g = (self.fresh(name) for name in "sabg")
        of = self.pick("n", "k", "l")
        vector = VECTORS[of]
        own = (*scope, (i, of))

        def part(inside: Scope, less: int = 2) -> str:
            return self.number(depth - less, inside)

        def grown() -> str:
            """An array that each iteration, or some, make longer."""
            pieces = [f"[{part(inside)}]", f"[{part(inside)}, {part(inside, 3)}]", VECTORS[of], self.array(0, inside)]
            joined = self.random.sample([a, self.random.choice(pieces)], 2)
            step = f"{a} = concat({', '.join(joined)})"
            if self.random.randrange(2):
                step = f"if {part(inside, 3)} > 0.0 {{ {step} }}"
            ending = self.pick("", f"; if len({a}) > 3 {{ break }}")
            first = self.pick("zeros(0)", f"[{part(scope)}]", vector)
            seen = self.pick(f"sum(v * v for v in {a})", f"{a}[{self.index(of, scope)}]", f"max({a})")
            return f"{{ var {a}: f64[?] = {first}; for {i} < {bound} {{ {step}{ending} }}; {seen} }}"

        def counted() -> str:
            """A loop that counts up or down, by one or more, or as a branch says."""
            change = self.pick(
                f"{s} = sin({s}) + {part(own)}", f"{s} += {part(own)}", f"{s} = maximum({s}, {part(own)})",
                f"if {part(own, 3)} > 0.0 {{ {s} += {part(own)} }} else {{ {s} = {s} * x }}",
            )  # fmt: skip
            first, test, step = self.random.choice(
                [("0", f"{i} < {of}", "+= 1"), ("0", f"{i} != {of}", "+= 1"), (f"{of} - 1", f"{i} >= 0", "-= 1"),
                 ("0", f"{i} < {of}", "+= 2"), (f"{of} - 1", f"{i} > 0", "-= 2"), ("1", f"{i} <= {of} - 1", "+= 1"),
                 ("0", f"{i} < {of} and {s} < 2.0", "+= 1"), ("j", f"{i} < {of} and {i} >= 0", "+= 1"),
                 ("0", f"{i} < {of}", f"+= if {part(own, 3)} > 0.0 {{ 1 }} else {{ 2 }}")]
            )  # fmt: skip
            asked = (
                f"while true {{ if not ({test}) {{ break }};" if self.random.randrange(3) == 0 else f"while {test} {{"
            )
            return f"{{ var {i} = {first}; var {s} = x; {asked} {change}; {i} {step} }}; {s} }}"

        def halves() -> str:
            return (
                f"{{ var {a} = 0; var {b} = {of}; while {a} < {b} {{ let {i} = ({a} + {b}) // 2;"
                f" if {vector}[{i}] < {part(own, 3)} {{ {a} = {i} + 1 }} else {{ {b} = {i} }} }};"
                f" {self.pick(f'f64({a}) * x', f'{vector}[{a}]', f'sum({vector}[{a}..])')} }}"
            )

        def recursion() -> str:
            value = part(own)
            over = self.pick(
                f"fn {g}({i}: i64, {s}: f64) -> f64 = if {i} >= {of} {{ {s} }}"
                f" else {{ {g}({i} + 1, sin({s}) + {value}) }}; {g}(0, x)",
                f"fn {g}({i}: i64) -> f64 = if {i} >= {of} {{ x }} else {{ {value} * {g}({i} + 1) + x }}; {g}(0)",
                f"fn {g}({a}: f64[{b}]) -> f64 = if {b} == 0 {{ x }}"
                f" else {{ sin({a}[0] * {g}({a}[1..])) + {part(scope, 3)} }}; {g}({self.array(depth - 2, scope)})",
                f"fn {g}({a}: f64[{b}]) -> f64 = if {b} <= 1 {{ {part(scope, 3)} }}"
                f" else {{ {a}[0] * {g}({a}[..{b} // 2]) + {g}({a}[{b} // 2..]) }};"
                f" {g}({self.array(depth - 2, scope)})",
                f"fn {g}({a}: f64[{of}], {i}: i64) -> f64 = if {i} >= {of} {{ sum({a} * {a}) }}"
                f" else {{ var {b} = {a}; {b}[{self.index(of, own)}] += {value}; {g}({b}, {i} + 1) }};"
                f" {g}({vector}, 0) + {g}({vector}, j)",
            )
            return f"{{ {over} }}"

        return [
            grown,
            grown,
            counted,
            counted,
            halves,
            recursion,
            lambda: f"{{ let {g} = |{s}| {s} * {part(scope)}; sum([{g}({part(inside)}) for {i} < {bound}]) }}",
            lambda: (
                f"{{ var {a}: List<f64> = Nil; for {i} < {bound} {{ if {part(inside, 3)} > 0.0"
                f" {{ {a} = Cons({part(inside)}, {a}) }} }}; total({a}) }}"
            ),
            lambda: (
                f"{{ var ({s}, {a}) = (x, 0.0); for {i} < {bound} {{ let {b} = {part(inside)};"
                f" let {g} = maximum({s}, {b}); {a} = {a} * exp({s} - {g}) + {part(inside, 3)} * exp({b} - {g});"
                f" {s} = {g} }}; {s} + {a} }}"
            ),
            lambda: (
                f"{{ var {s} = x; for {i} < {bound} {{ let {a} = {part(inside)}; let {b} = maximum({s}, {a});"
                f" {s} = {b} + log(exp({s} - {b}) + exp({a} - {b})) }}; {s} }}"
            ),
            lambda: f"sum([sum({part(twice)} * {vector}[{i}] ** {t} for {t} < {second}) for {i} < {of}])",
            lambda: (
                f"sum([{{ var {s} = 0.0; for {t} < {second} {{ {s} += {part(twice)} * {vector}[{i}] ** {t} }}; {s} }}"
                f" for {i} < {of}])"
            ),
        ]

    def state(self, depth: int, scope: Scope) -> list[Callable[[], str]]:
        """Ways to a number by loops that carry arrays."""
        i, (bound, size) = self.fresh("i"), self.bound(scope)
        t = self.fresh("t")
        of = self.pick("n", "k", "l")
        vector = VECTORS[of]
        inside, twice = (*scope, (i, size)), (*scope, (i, size), (t, of))
        a, b, r = (self.fresh(name) for name in "abr")

        def moved() -> str:
            """Two arrays that become each other, or turn around, or are changed by parts of themselves."""
            step = self.pick(
                f"let {r} = {a}; {a} = {b}; {b} = {r}", f"let {r} = reverse({a}); {a} = {b} * x; {b} = {r}",
                f"({a}, {b}) = ({b} + {a}, reverse({a}))", f"{a} = {a} + reverse({a})",
                f"{a} = concat({a}[1..], {a}[..1])",
                f"{a}[1..] += {a}[..{of} - 1]", f"{a}[j..] = {a}[..{of} - j]", f"{a}[..{of} - 1] = {a}[1..]",
                f"if {self.number(depth - 3, inside)} > 0.0 {{ {a} = reverse({b}) }} else {{ {b} = {a} * x }}",
                f"for {t} < {of} {{ {a}[{t}] = {a}[{of} - 1 - {t}] * {self.number(depth - 3, twice)} + {b}[{t}] }}",
                f"for {t} < {of} {{ {a}[{t}] += {b}[{self.index(of, twice)}] * {self.number(depth - 3, twice)} }}",
                f"{a} = [{a}[{t}] * {self.number(depth - 3, twice)} for {t} < {of}]",
                f"{a} = [sum([{a}[{t}] * {self.number(depth - 3, twice)} for {t} < {of}]) for {t} < {of}]; {b} = {a}",
            )  # fmt: skip
            seen = self.pick(f"sum({a} * {b})", f"{a}[{self.index(of, scope)}] * x", f"max({a})")
            return f"{{ var {a} = {vector}; var {b} = {vector} * x; for {i} < {bound} {{ {step} }}; {seen} }}"

        def rows() -> str:
            """A matrix whose rows change by rows that an iteration makes."""
            made, rows, columns = self.matrix(depth - 1, scope)
            inside = (*scope, (i, rows))
            twice = (*inside, (t, columns))
            row = f"[{self.number(depth - 2, twice)} for {t} < {columns}]"
            place = self.pick("1", "j")
            step = self.pick(
                f"let {r} = {row}; {a}[{self.index(rows, inside)}] = {r}", f"{a}[{i}] += {row}",
                f"let {r} = {row}; for {t} < {self.bound(inside)[0]} {{ {a}[{i}, {t}] = {r}[{t}] }}",
                f"let {r} = {row}; {a}[{i}, ..{place}] = {r}[..{place}]",
                f"{a}[{i}] = {a}[{self.index(rows, inside)}] * {self.number(depth - 3, inside)}",
                f"{a}[{i}] = reverse({a}[{i}])", f"{a}[{i}] = cumsum({row})", f"{a}[{i}] = sort({row})",
                f"{a}[{i}] = {a}[{i}, {self.index(columns, inside)}] * {VECTORS[columns]}",
                f"{a}[{i}, 1..] = {a}[{i}, ..{columns} - 1] * {self.number(depth - 3, inside)}",
                f"let {r} = {row}; {a}[{i}] += {r} * sum({r}) + {VECTORS[columns]} * max({r})",
            )  # fmt: skip
            return f"{{ var {a} = {made}; for {i} < {self.pick(rows, rows, bound)} {{ {step} }}; sum({a} * {a}) }}"

        def pairs() -> str:
            """Writes a loop over pairs of elements that changes both."""
            made = self.pick(
                f"tanh({vector}[{i}] - {vector}[{t}])", f"({vector}[{i}] - {vector}[{t}]) ** 3 * {vector}[{i}]",
                f"({vector}[{i}] * {vector}[{t}])", self.number(depth - 2, (*scope, (i, of), (t, of))),
            )  # fmt: skip
            where = self.index(of, scope)
            return self.pick(
                f"{{ var {a} = zeros({of}); var {b} = zeros({of}); for {i} < {of} {{ for {t} < {of} {{"
                f" let {r} = {made}; {a}[{i}] += {r}; {b}[{t}] -= {r} }} }}; sum({a} * {vector}) + {b}[{where}] }}",
                f"{{ var {a} = zeros(n, {of}); for {i} < {of} {{ for {t} < {of} {{ let {r} = {made};"
                f" {a}[{self.index('n', scope)}, {i}] += {r}; {a}[{self.index('n', scope)}, {t}] -= {r} }} }};"
                f" sum({a} * {a}) }}",
                f"sum(sum({made} for {t} < {of}) * {vector}[{i}] for {i} < {of})",
                f"sum({vector}[{i}] * {made} for {i} < {of}, {t} < {i})",
            )

        def coordinates() -> str:
            """Rows of three numbers."""
            e = self.number(depth - 3, (*scope, (i, of)))
            return (
                f"{{ let {a} = [[{vector}[{i}], {vector}[{i}] * x, {e}] for {i} < {of}];"
                f" sum({a}[{i}, 0] * {a}[{t}, 1] - {a}[{i}, 2] * {a}[{self.index(of, (*scope, (t, of)))}, 0]"
                f" for {i} < {of}, {t} < {of}) }}"
            )

        return [moved, moved, rows, rows, pairs, coordinates]

    def numbers_of_indices(self, depth: int, scope: Scope) -> list[Callable[[], str]]:
        """Ways to a number by integers, windows over arrays, and extrema of nothing."""
        i, (bound, size) = self.fresh("i"), self.bound(scope)
        t = self.fresh("t")
        of, other = self.random.sample(("n", "k", "l"), 2)
        vector, weights = VECTORS[of], VECTORS[other]
        inside = (*scope, (i, size))

        def divided() -> str:
            by = self.pick("j", "j", self.index("n", inside), i, f"({i} - j)")
            number = f"f64({self.pick(i, '7', 'j')} {self.pick('//', '%')} {by})"
            return f"sum({number} * {self.number(depth - 2, inside)} for {i} < {bound})"

        def window() -> str:
            at = self.pick(
                f"{i} + {t}", f"{i} + {t} - 1", f"{i} - {t}", f"2 * {i} + {t}", f"{i} + 2 * {t}", f"{i} - {t} + j"
            )
            tested = self.pick("", f" if {at} >= 0 and {at} < {of}")
            value = self.number(depth - 3, (*scope, (t, other))) if self.random.randrange(2) else f"{weights}[{t}]"
            wide = self.pick(of, f"{of} - 1", f"{of} - {other} + 1", f"{of} // 2", f"({of} + 1) // 2")
            column = self.index("l", (*scope, (t, other)))
            return self.pick(
                f"sum([sum({vector}[{at}] * {value} for {t} < {other}{tested}) for {i} < {wide}])",
                f"sum([sum({vector}[{at}] * {value} for {t} < {other}{tested}) * x for {i} < {wide}, b < 2])",
                f"sum([sum({vector}[{at}] * w[{self.index('k', scope)}, {column}] for {t} < {other}{tested})"
                f" for {i} < {wide}])",
            )

        return [
            divided,
            divided,
            window,
            window,
            lambda: f"{self.pick('max', 'min', 'prod')}({self.array(depth - 1, scope)})",
            lambda: f"f64({self.pick('argmax', 'argmin')}({self.array(depth - 1, scope)})) * x",
            lambda: (
                f"where({self.pick('any', 'all')}([v > {self.number(depth - 3, scope)} for v in {vector}]), x, 2.0)"
            ),
            lambda: f"sum(f64(i32({self.number(depth - 2, inside)} * 100.0)) for {i} < {bound})",
            lambda: (
                f"f64(sum([{self.pick('f16', 'bf16', 'f32')}({self.number(depth - 2, inside)}) for {i} < {bound}]))"
            ),
        ]


@contextmanager
def small_figures(random: Random) -> Iterator[None]:
    """Half of the figures are small inside."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            if random.randrange(2):
                patch.setattr(figures, name, value)
        yield


def wrong_at_an_edge(text: str, seed: int = 0) -> Disagreement | None:
    """Finds what is wrong with a program or its gradient at small sizes and wrong indices; None if nothing is.

    seed: chooses the figures that are small; none for every second one.
    """
    with small_figures(Random(seed)) if seed % 2 else nullcontext():
        return _wrong(text)


def _wrong(text: str) -> Disagreement | None:
    checked = check(Source("program.dl", text + GRADIENT))
    if mistakes := errors_of(checked):
        refused = mistakes[0].code == "E0801"  # what is known to be outside of an array
        return None if refused else Disagreement("check", "no mistakes", mistakes[0].message)
    decl = checked.module.functions["both"]
    stages: dict[str, Program] = {}
    try:
        if found := _moved(checked.module.functions["main"]):
            return found
        request = Request(decl, dict.fromkeys(decl.variables, poly(0)))
        program, (entry,) = lower([request], verify=True, observe=stages.__setitem__)
        meant: Run = partial(Interpreter(stages["ad"], Host()).run, entry.name)
        runs: dict[str, Run] = {
            name: partial(Engine(Host(), sanitize=checks).compile(program, [entry.name]).run, entry.name)
            for name, checks in (("checked", True), ("compiled", False))
        }
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", f"{e.diagnostics[0].code} {e.diagnostics[0].message}")
    except Exception as e:
        return Disagreement("compile", "a program that compiles", f"{type(e).__name__}: {e}")
    for way, run in runs.items():  # what is unsafe is found before it runs without checks
        for number, (sizes, outside) in enumerate(product(SIZES, (False, True))):
            rng = np.random.default_rng(number)
            args = arguments(rng, sizes, outside)
            try:
                found = _difference(meant, run, way, args)
                if found is not None and all(_difference(meant, run, way, _nearby(rng, args)) for _ in range(3)):
                    return found
            except Exception as e:
                return Disagreement("run", "a program that runs", f"{type(e).__name__}: {e}")
    return None


def _moved(decl: FnDecl) -> Disagreement | None:
    """Finds an access of a value that is proven to be in range as it is written, and not behind a pass.

    It is at sizes, axes and indices of loops alone, or at a number whose check may not have been made.
    """
    first: list[Access] | None = None
    last: dict[str, Function] = {}
    found: list[Disagreement] = []

    def observe(name: str, program: Program) -> None:
        nonlocal first, last
        others = [f for f in program.functions.values() if last.get(f.name) is not f]
        accesses = [a for f in others for a in unproven(f) if a.plain or a.conditional]
        first = accesses if first is None else first
        last = program.functions
        if accesses and not first:
            found.append(Disagreement("access", f"index {accesses[0].entry} in range after {name}", "not proven"))

    lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))], observe=observe)
    return next(iter(found), None)


def arguments(rng: np.random.Generator, sizes: tuple[int, int, int], outside: bool) -> list[Any]:
    """Sizes and arguments of `main`. outside: whether about a fourth of the indices are out of range."""
    n, k, l = sizes

    def indices(count: int, size: int) -> np.ndarray:
        found = rng.integers(0, max(size, 1), count)
        return np.where(rng.random(count) < 0.25, rng.choice(OUTSIDE, count), found) if outside else found

    normal = rng.standard_normal
    floats = [normal(n), normal(k), normal((n, k)), float(normal())]
    number = int(rng.choice((0, 1, 2, 3, 5, *OUTSIDE)) if outside else rng.integers(0, 4))
    return [n, k, l, *floats, number, indices(k, n), indices(n, k), normal(l), normal((k, l))]


def _nearby(rng: np.random.Generator, args: Sequence[Any]) -> list[Any]:
    """The same integers, and floats that differ a little."""
    return [a + 1e-3 * rng.standard_normal(np.shape(a)) if np.asarray(a).dtype.kind == "f" else a for a in args]


def _difference(meant: Run, run: Run, way: str, args: Sequence[Any]) -> Disagreement | None:
    expected, found = outcome_of(meant, args), outcome_of(run, args)
    refused = isinstance(expected, str) and isinstance(found, str) and found != UNSAFE  # one of several refusals
    return None if refused or alike(expected, found) else Disagreement(way, expected, found)
