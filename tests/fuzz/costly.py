"""Random programs whose costs are counted: loops, updates and arrays of arrays over sizes that grow.

They are about what makes costs grow: updates under conditions and where loops are left, what is done for each row,
gathers and scatters with strides that are known when the program runs, stacks and heaps in arrays, recursion, lists and
functions as values. `main` takes what it needs of the arguments that it has in all programs of the fuzzer, so that no
cost hides behind one that is only large, and gives one f64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.programs import differentiable

PARAMETERS = {"p": "f64[n]", "q": "f64[k]", "m": "f64[n, k]", "x": "f64", "j": "i64"}
OF_OTHERS = 5  # one of so many programs is one of the general fuzzer


def costly(random: Random) -> str:
    """The text of a program."""
    if not random.randrange(OF_OTHERS):
        return differentiable(random, frozenset({"recursion", "functions"}))
    return of_loops(random)


def of_loops(random: Random, every: bool = False) -> str:
    """The text of a program that is no other one's. every: whether `main` takes all arguments, needed or not."""
    return _Program(random).text(every)


@dataclass(slots=True)
class _Program:
    """declared: lines before `main`. vectors: names, sizes, and whether they may be assigned; matrices: with sizes."""

    random: Random
    declared: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    vectors: list[tuple[str, str, bool]] = field(default_factory=lambda: [("p", "n", False), ("q", "k", False)])
    matrices: list[tuple[str, str, str]] = field(default_factory=lambda: [("m", "n", "k")])
    numbers: list[str] = field(default_factory=lambda: ["x"])
    serial: int = 0

    def text(self, every: bool) -> str:
        for _ in range(self.random.randrange(1, 4)):
            self.random.choice(KINDS)(self)
        terms = [f"sum(sin({v}))" for v, _, can in self.vectors if can or v not in "pq"]
        terms += [f"sum({a} * {a})" for a, _, _ in self.matrices if a != "m"] + self.numbers
        body = [*self.lines, f"  {' + '.join(terms)}"]
        used = set(re.findall(r"\w+", "\n".join(body)))
        sized = {"n": "p", "k": "q"}  # which say what the sizes are where no matrix does
        needed = used | {sized[size] for size in sized if size in used and "m" not in used}
        params = ", ".join([f"{name}: {t}" for name, t in PARAMETERS.items() if every or name in needed])
        return "\n".join([*self.declared, f"fn main({params}) -> f64 {{", *body, "}", ""])

    # ---- pieces ------------------------------------------------------------------------------------------------------
    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def pick(self, *forms: str) -> str:
        return self.random.choice(forms)

    def add(self, *lines: str) -> None:
        self.lines += [f"  {line}" for line in lines]

    def vector(self) -> tuple[str, str]:
        name, size, _ = self.random.choice(self.vectors)
        return name, size

    def variable(self) -> tuple[str, str]:
        """A vector that may be assigned; a new one if there is none."""
        found = [(v, size) for v, size, can in self.vectors if can]
        if found and self.random.randrange(2):
            return self.random.choice(found)
        source, size = self.vector()
        u = self.fresh("u")
        self.add(f"var {u} = {self.pick(source, source, f'zeros({size})', f'{source} * x', f'cumsum({source})')}")
        self.vectors.append((u, size, True))
        return u, size

    def number(self, i: str = "", size: str = "", depth: int = 2) -> str:
        """A number. i: an index below a size, if there is one."""
        reads = [v for v, s, _ in self.vectors if s == size] if i else []
        leaves = [*[f"{v}[{i}]" for v in reads] * 3, *self.numbers, "0.5", *([f"f64({i})"] if i else [])]
        if depth == 0 or not self.random.randrange(3):
            return self.random.choice(leaves)
        a, b = self.number(i, size, depth - 1), self.number(i, size, depth - 1)
        return self.pick(
            f"sin({a})", f"tanh({a})", f"{a} * {b}", f"({a} + {b})", f"({a} - {b})", f"maximum({a}, {b})",
            f"where({a} > {b}, {a}, 0.3 * {b})", f"(if {a} > {b} {{ {a} }} else {{ {b} }})",
            f"{a} / (1.0 + {named(b)} ** 2)",
        )  # fmt: skip

    def condition(self, i: str, size: str) -> str:
        forms = [f"{i} % 3 == 0", f"{i} > 2", f"{self.number(i, size, 1)} > {self.number(i, size, 0)}", f"x < f64({i})"]
        return self.pick(*forms)

    def place(self, i: str, size: str) -> str:
        """An index in range: of the loop, near it, or strided by a number known when the program runs."""
        return self.pick(
            i, i, f"({i} + 1) % {size}", f"maximum({i} - 1, 0)", f"({i} * (1 + j % 3)) % {size}", f"{i} // 2",
            f"({i} * {i} + 1) % {size}", f"{size} - 1 - {i}",
        )  # fmt: skip

    # ---- statements --------------------------------------------------------------------------------------------------
    def update(self, u: str, i: str, size: str) -> str:
        at, value = self.place(i, size), self.number(i, size)
        return self.pick(
            f"{u}[{at}] = tanh({value})", f"{u}[{at}] += {value}", f"{u}[{at}] *= cos({value})", f"{u}[{at}] -= {value}"
        )

    def loop(self) -> None:
        """Updates in a loop: as they are, under a condition, in one arm of two, before or behind a way out."""
        u, size = self.variable()
        i = self.fresh("i")
        body = [self.update(u, i, size)]
        for _ in range(self.random.randrange(3)):
            update, condition = self.update(u, i, size), self.condition(i, size)
            other = self.update(u, i, size)
            arms = f"(0, true) => {update}, (1, _) => {other}, _ => {u}[0] = x"
            forms = [
                [update],
                [f"if {condition} {{ {update} }}"],
                [f"if {condition} {{ {update} }} else {{ {other} }}"],
                [f"if {condition} {{ {self.pick('break', 'continue')} }}", update],
                [f"match ({i} % 3, {condition}) {{ {arms} }}"],
            ]
            body += self.random.choice(forms)
        self.add(f"for {i} < {size} {{", *[f"  {line}" for line in body], "}")

    def conditional(self) -> None:
        """A loop that updates under a condition alone."""
        u, size = self.variable()
        i = self.fresh("i")
        self.add(f"for {i} < {size} {{ if {self.condition(i, size)} {{ {self.update(u, i, size)} }} }}")

    def iteration(self) -> None:
        """A loop that changes its own elements of two arrays, numbers and a count, under conditions in conditions."""
        u, size = self.variable()
        v, total, last, count, i = (self.fresh(prefix) for prefix in ("u", "s", "b", "c", "i"))
        source = self.random.choice([name for name, s, _ in self.vectors if s == size])
        self.add(f"var {v} = {self.pick(source, f'{source} * 0.5', f'zeros({size})')}")
        self.add(f"var {total} = x", f"var {last} = 0.5", f"var {count} = 0")
        self.vectors.append((v, size, True))
        state = [total, last, f"f64({count})"]
        read = not self.random.randrange(3)  # the numbers, by what changes the rest
        self.numbers += state if read else []

        def change() -> str:
            array, value = self.pick(u, v), self.number(i, size)
            return self.pick(
                f"{array}[{i}] = {value}", f"{array}[{i}] += {value}", f"{array}[{i}] *= cos({value})",
                f"{array}[{i}] -= {value}", f"{total} += {value}", f"{total} -= {array}[{i}]",
                f"{count} += {self.pick('1', i)}", f"{last} = {value}", f"{last} = maximum({last}, {value})",
                f"if {value} > {last} {{ {last} = {value} }}", self.update(array, i, size),
            )  # fmt: skip

        def changes(depth: int) -> str:
            lines = [change() for _ in range(self.random.randrange(1, 3))]
            if depth and self.random.randrange(3):
                arm = f"if {self.condition(i, size)} {{ {changes(depth - 1)} }}"
                lines.append(arm + (f" else {{ {changes(depth - 1)} }}" if self.random.randrange(2) else ""))
            if not self.random.randrange(12):
                lines.append(f"if {self.condition(i, size)} {{ {self.pick('continue', 'continue', 'break')} }}")
            self.random.shuffle(lines)
            return "; ".join(lines)

        over = self.pick(f"{i} < {size}", f"{i} < {size}", f"{i} in 1..{size}", f"{i} in 0..{size} - 1")
        self.add(f"for {over} {{ {changes(2)} }}")
        self.numbers += [] if read else state

    def stack(self) -> None:
        """Pushes and pops at a place that is computed."""
        u, size = self.variable()
        i, top = self.fresh("i"), self.fresh("top")
        push = f"{u}[{top}] = {self.number(i, size)}; {top} += 1"
        pop = f"{top} -= 1; {u}[{top}] = {u}[{top}] * {u}[{top} // 2]"
        self.add(
            f"var {top} = 0",
            f"for {i} < {size} {{",
            f"  if {self.condition(i, size)} or {top} == 0 {{ {push} }} else {{ {pop} }}",
            "}",
        )

    def sift(self) -> None:
        """The heap's loop: a while in a loop, with exchanges."""
        u, size = self.variable()
        i, c = self.fresh("i"), self.fresh("c")
        self.add(
            f"for {i} < {size} {{",
            f"  var {c} = {i}",
            f"  while {c} > 0 and {u}[{c}] < {u}[{c} // 2] {{",
            f"    ({u}[{c}], {u}[{c} // 2]) = ({u}[{c} // 2], {u}[{c}])",
            f"    {c} = {c} // 2",
            "  }",
            "}",
        )

    def search(self) -> None:
        """A while loop with a way out."""
        u, size = self.variable()
        c = self.fresh("c")
        way = self.pick("break", "continue")
        self.add(
            f"var {c} = 0",
            f"while {c} < {size} {{",
            f"  {c} += 1",
            f"  if {u}[{c} - 1] > {self.number()} {{ {way} }}",
            f"  {u}[{c} - 1] {self.pick('=', '+=', '*=')} {self.number(f'{c} - 1', size)}",
            "}",
        )

    def nested(self) -> None:
        """A matrix updated in two loops."""
        a, rows, columns = self.random.choice(self.matrices)
        u, i, t = self.fresh("u"), self.fresh("i"), self.fresh("t")
        value = self.pick(
            f"{u}[{i}, {t}] * x", f"sin({u}[{i}, maximum({t} - 1, 0)])", f"{u}[maximum({i} - 1, 0), {t}] + x"
        )
        line = self.pick(
            f"{u}[{i}, {t}] = {value}", f"if {i} % 2 == 0 {{ {u}[{i}, {t}] = {value} }}", f"{u}[{i}, {t}] += {value}"
        )
        self.add(f"var {u} = {a}", f"for {i} < {rows} {{ for {t} < {columns} {{ {line} }} }}")
        self.matrices.append((u, rows, columns))

    def of_row(self, row: str, size: str) -> str:
        """An array of a row, in one of the ways to write it."""
        t, r = self.fresh("t"), self.fresh("r")
        start = f"{{ var {r} = {row}; for {t} in 1..{size} {{ "
        return self.pick(
            f"cumsum({row})", f"sort({row})", f"reverse({row})", f"concat({row}[1..{size}], [x])",
            f"tanh({row}) * {row}",
            f"{start}{r}[{t}] += {r}[{t} - 1] }}; {r} }}", f"{start}if {r}[{t}] > x {{ {r}[{t}] = x }} }}; {r} }}",
            f"where({row} > 0.0, cumsum({row}), {row})", f"(if sum({row}) > x {{ cumsum({row}) }} else {{ {row} }})",
            f"scan(|a, v| (tanh(a * v), a), x, {row}).1", f"{row} / (1.0 + sum({row} ** 2))",
        )  # fmt: skip

    def by_rows(self) -> None:
        a, rows, columns = self.random.choice(self.matrices)
        y, i = self.fresh("y"), self.fresh("i")
        if self.random.randrange(2):
            self.add(f"let {y} = [{self.of_row('row', columns)} for row in {a}]")
        else:
            self.add(f"let {y} = [{self.of_row(f'{a}[{i}]', columns)} for {i} < {rows}]")
        self.matrices.append((y, rows, columns))

    def pairs(self) -> None:
        """Sums of pairs, and what is done for one of the two alone."""
        (v, size), (w, other) = self.vector(), self.vector()
        y, i, t = self.fresh("y"), self.fresh("i"), self.fresh("t")
        inner = self.pick(
            f"({v}[{i}] - {w}[{t}]) ** 2", f"{v}[{i}] * exp(-abs({w}[{t}]))", f"maximum({v}[{i}], {w}[{t}])",
            f"where({v}[{i}] > {w}[{t}], {v}[{i}], 0.0)",
        )  # fmt: skip
        form = self.pick(
            f"[sum({inner} for {t} < {other}) for {i} < {size}]",
            f"[sqrt(1.0 + sum({inner} for {t} < {other})) for {i} < {size}]",
        )
        self.add(f"let {y} = {form}")
        self.vectors.append((y, size, False))

    def gather(self) -> None:
        v, size = self.vector()
        y, i, t = self.fresh("y"), self.fresh("i"), self.fresh("t")
        s = self.pick("(1 + j % 3)", "2", f"(1 + {size} % 2)")
        form = self.pick(
            f"[{v}[({i} * {s}) % {size}] for {i} < {size}]",
            f"[sum({v}[minimum({i} * {s} + {t}, {size} - 1)] for {t} < 3) for {i} < {size}]",
            f"{v}[argsort({v})]", f"{v}[[({i} * {i}) % {size} for {i} < {size}]]", f"concat({v}[1..{size}], [x])",
        )  # fmt: skip
        self.add(f"let {y} = {form}")
        self.vectors.append((y, size, False))

    def recursion(self) -> None:
        """Over elements, over slices, over halves, or one that changes an array and does not give it back."""
        f = self.fresh("f")
        v, size = self.vector()

        def step(at: str) -> str:
            return self.pick(f"tanh(a * v[{at}])", f"a + v[{at}]", f"if v[{at}] > a {{ a }} else {{ a * v[{at}] }}")

        def ending(call: str, at: str) -> str:
            return self.pick(call, f"0.9 * {call} + v[{at}]")

        halves = f"({f}(v, low, mid, a) + {f}(v, mid, high, {step('mid')}))"
        forms = [
            ("i: i64, ", "i >= n", "", ending(f"{f}(v, i + 1, {step('i')})", "i"), "0, "),
            ("", "n == 0", "", ending(f"{f}(v[1..], {step('0')})", "0"), ""),
            ("low: i64, high: i64, ", "high - low < 2", "let mid = (low + high) // 2; ", halves, f"0, {size}, "),
            ("i: i64, ", "i >= n", "var w = v; w[i] = w[i] * a; ", ending(f"{f}(w, i + 1, {step('i')})", "i"), "0, "),
        ]
        more, end, before, last, first = self.random.choice(forms)
        self.declared.append(f"fn {f}(v: f64[n], {more}a: f64) -> f64 {{ if {end} {{ return a }}; {before}{last} }}")
        self.numbered(f"{f}({v}, {first}x)")

    def lists(self) -> None:
        total, make, name = self.fresh("total"), self.fresh("l"), self.fresh("v")
        step = self.pick("a + sin(v)", "tanh(a * v)", "maximum(a, v)")
        arms = f"Nil => a, Cons(v, rest) => {total}(rest, {step})"
        self.declared.append(f"fn {total}(l: List<f64>, a: f64) -> f64 = match l {{ {arms} }}")
        v, _ = self.vector()
        self.add(f"var {make}: List<f64> = Nil", f"for {name} in {v} {{ {make} = Cons({name} * x, {make}) }}")
        self.numbered(f"{total}({make}, x)")

    def functions(self) -> None:
        v, _ = self.vector()
        f = self.fresh("f")
        self.add(f"let {f} = {self.pick('|v: f64| v * tanh(v)', '|v: f64| if v > x { v } else { x * v }')}")
        self.numbered(
            self.pick(
                f"sum(map({f}, {v}))",
                f"fold(|a, v| tanh(a + {f}(v)), x, {v})",
                f"scan(|a, v| (tanh(a * v), {f}(a)), x, {v}).0",
            )
        )

    def stored(self) -> None:
        """A loop in a function under `checkpoint`."""
        f = self.fresh("f")
        step = self.pick(
            "y = tanh(y * v)",
            "y = [0.5 * y[maximum(i - 1, 0)] + y[i] for i < n]",
            "y[t] = y[t] * v[0]",
            "if v[t] > 0.0 { y[t] = sin(y[t]) }",
        )
        self.declared.append(f"fn {f}(v: f64[n]) -> f64[n] {{ var y = v; for t < n {{ {step} }}; y }}")
        self.numbered(f"sum({self.pick(f'checkpoint({f})', f)}({self.vector()[0]}))")

    def called(self) -> None:
        """An update in a function, which is called in a loop."""
        f, i = self.fresh("f"), self.fresh("i")
        step = self.pick("v[at] = v[at] * a", "if a > 0.0 { v[at] += a }", "v[at] = sin(v[0]) + a")
        self.declared.append(f"fn {f}(u: f64[n], at: i64, a: f64) -> f64[n] {{ var v = u; {step}; v }}")
        u, size = self.variable()
        self.add(f"for {i} < {size} {{ {u} = {f}({u}, {self.place(i, size)}, {self.number(i, size)}) }}")

    def of_leaves(self, leaves: list[str], depth: int = 2) -> str:
        """A number made of some."""
        if depth == 0 or not self.random.randrange(3):
            return self.random.choice(leaves)
        a, b = self.of_leaves(leaves, depth - 1), self.of_leaves(leaves, depth - 1)
        return self.pick(
            f"sin({a})", f"tanh({a} * {b})", f"0.5 * {a} * {b}", f"({a} + {b})", f"({a} - {b})",
            f"where({a} > {b}, {a}, 0.3 * {b})", f"(if {a} > {b} {{ {a} }} else {{ {b} }})",
        )  # fmt: skip

    def of_points(self, size: str) -> str:
        """A vector of a size."""
        return self.random.choice([v for v, s, _ in self.vectors if s == size])

    def recurrences(self) -> None:
        """A loop at each point, in what its row has and in what all points share."""
        a, rows, columns = self.random.choice(self.matrices)
        own, shared = self.of_points(rows), self.of_points(columns)
        y, i, t, s, r = (self.fresh(prefix) for prefix in "yitsr")
        leaves = [s, s, s, r, f"{a}[{i}, {t}]", f"{shared}[{t}]", f"{shared}[{columns} - 1 - {t}]", f"{own}[{i}]", "x"]

        def loop() -> str:
            steps = [
                self.pick(
                    f"{s} = {self.of_leaves(leaves)}", f"{r} += {self.of_leaves(leaves)}", f"{s} = 0.5 * {s} + {r}",
                    f"if {s} > {self.of_leaves(leaves, 0)} {{ {s} = {self.of_leaves(leaves)} }}",
                )
                for _ in range(self.random.randrange(1, 3))
            ]  # fmt: skip
            over = self.pick(f"{t} < {columns}", f"{t} < {columns}", f"{t} in 1..{columns}")
            return f"for {over} {{ {'; '.join(steps)} }}"

        loops = "; ".join(loop() for _ in range(self.random.randrange(1, 3)))
        first = self.pick(f"{own}[{i}]", "0.0", "x", f"{own}[{i}] * x")
        self.add(f"let {y} = [{{ var ({s}, {r}) = ({first}, 0.5); {loops}; tanh({s} + 0.1 * {r}) }} for {i} < {rows}]")
        self.vectors.append((y, rows, False))

    def over_time(self) -> None:
        """A loop around a matrix, whose rows do not meet unless one of them is read in all."""
        a, rows, columns = self.random.choice(self.matrices)
        own, shared = self.of_points(rows), self.of_points(columns)
        u, i, c, t = (self.fresh(prefix) for prefix in "uict")
        leaves = [
            *[f"{u}[{i}, {c}]"] * 3, f"{u}[{i}, maximum({c} - 1, 0)]", f"{u}[{i}, {columns} - 1 - {c}]", f"{own}[{i}]",
            f"{shared}[{c}]", f"{shared}[{t}]", f"{a}[{i}, {t}]", "x", self.pick("0.5", f"{u}[0, {c}]"),
        ]  # fmt: skip
        step = f"{u} = [tanh({self.of_leaves(leaves)}) for {i} < {rows}, {c} < {columns}]"
        self.add(f"var {u} = {self.pick(a, f'{a} * x')}", f"for {t} < {columns} {{ {step} }}")
        self.matrices.append((u, rows, columns))

    def product(self) -> None:
        a, rows, columns = self.random.choice(self.matrices)
        vectors = [v for v, size, _ in self.vectors if size == columns]
        y = self.fresh("y")
        self.add(f"let {y} = tanh({a} @ {self.random.choice(vectors)})")
        self.vectors.append((y, rows, False))

    def numbered(self, value: str) -> None:
        name = self.fresh("a")
        self.add(f"let {name} = {value}")
        self.numbers.append(name)


def named(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


KINDS: list[Callable[[_Program], None]] = [
    _Program.loop, _Program.loop, _Program.conditional, _Program.iteration, _Program.iteration, _Program.stack,
    _Program.sift, _Program.search, _Program.nested, _Program.by_rows, _Program.by_rows, _Program.pairs,
    _Program.gather, _Program.recursion, _Program.lists, _Program.functions, _Program.stored, _Program.called,
    _Program.product, _Program.recurrences, _Program.recurrences, _Program.over_time,
]  # fmt: skip
