"""Random kernels in several spellings: what they mean is the same, so that what they cost has to be.

A kernel is a sum of products, functions and reductions over arrays with named axes. It is written as comprehensions of
elements or of rows, as operations on whole arrays, as loops that accumulate or update, through functions for an element
or a row, with conditions as branches, selections, filters or `continue`. `different_costs` compares the results and
the counted costs of the functions `s0`, `s1`, … of a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from dlang.diagnostics import DlangError, Source
from dlang.driver import check, errors_of
from dlang.interpret.metering import TooMuch
from dlang.tools.law import NUMBER, SLACK, Costs, Way, exponent, prepared
from dlang.typecheck.core import FnDecl
from tests.fuzz.compare import Disagreement

# ---- kernels ---------------------------------------------------------------------------------------------------------
SIZES = {"i": "n", "j": "k", "l": "3"}
"""The axes by name, and how long each is."""
INPUTS = {"x": "i", "y": "i", "w": "j", "v": "j", "m": "ij", "t": "ij", "r": "il"}
"""The arrays that a kernel takes, with their axes; `c` holds places in the axis i."""


@dataclass(frozen=True, slots=True)
class Read:
    """An element of an array at the loop variables; gathered: at `c[i]` in the axis i."""

    name: str
    axes: str
    gathered: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of numbers: a template in which `{0}` and `{1}` stand for its operands."""

    form: str
    operands: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """`chosen` where a is greater than b, else `other`."""

    a: Element
    b: Element
    chosen: Element
    other: Element


@dataclass(frozen=True, slots=True)
class Reduce:
    """The sum or the largest of a body along an axis. where: the points that count, if a number there is positive."""

    kind: str
    axis: str
    body: Element
    where: Element | None = None


@dataclass(frozen=True, slots=True)
class Number:
    text: str


Element = Read | Apply | Choose | Reduce | Number


@dataclass(frozen=True, slots=True)
class Definition:
    """An array of the kernel. uses: how often it is read in the rest of the kernel."""

    name: str
    axes: str
    element: Element


UNARY = ("sin({0})", "tanh({0})", "exp(-abs({0}))", "{0} * {0}", "{0} ** 2", "sqrt(1.0 + {0} ** 2)", "-{0}")
BINARY = ("({0} + {1})", "({0} - {1})", "{0} * {1}", "{0} * {1}", "{0} / (1.0 + {1} ** 2)", "maximum({0}, {1})")


@dataclass(slots=True)
class Kernels:
    """Draws a kernel: arrays, each of those before it, and a number in the end."""

    random: Random
    arrays: dict[str, str] = field(default_factory=lambda: dict(INPUTS))

    def kernel(self) -> tuple[list[Definition], Element]:
        definitions = []
        for k in range(self.random.randrange(1, 4)):
            axes = self.random.choice(["i", "i", "j", "ij", "ij", "il"])
            made = Definition(f"a{k}", axes, self.element(axes, 3))
            definitions.append(made)
            self.arrays[made.name] = axes
        last = [d for d in definitions if not any(d.name in names(o.element) for o in definitions)]
        total: Element = self.total(last[0])
        for d in last[1:]:
            total = Apply("({0} + {1})", (total, self.total(d)))
        return definitions, total

    def total(self, d: Definition) -> Element:
        """The sum of an array, or of its squares."""
        form = self.random.choice(["{0}", "{0} * {0}", "sin({0})"])
        body: Element = Read(d.name, d.axes)
        if form != "{0}":
            body = Apply(form, (body,))
        for axis in reversed(d.axes):
            body = Reduce("sum", axis, body)
        return body

    def element(self, axes: str, depth: int) -> Element:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(axes)
        pick = self.random.randrange(20)
        if pick < 4:
            return Apply(self.random.choice(UNARY), (self.element(axes, depth - 1),))
        if pick < 11:
            return Apply(self.random.choice(BINARY), (self.element(axes, depth - 1), self.element(axes, depth - 1)))
        free = [a for a in SIZES if a not in axes]
        if pick < 17 and free:
            return self.reduction(axes, self.random.choice(free), depth - 1)
        a, b = self.leaf(axes), self.leaf(axes)
        return Choose(a, b, self.element(axes, depth - 1), self.element(axes, depth - 1))

    def reduction(self, axes: str, axis: str, depth: int) -> Element:
        body = self.element(axes + axis, depth)
        if axis not in free_axes(body):
            body = Apply("{0} * {1}", (body, self.reading(axis)))
        kind = self.random.choice(["sum", "sum", "sum", "max"])
        where = self.reading(axis) if kind == "sum" and not self.random.randrange(4) else None
        return Reduce(kind, axis, body, where)

    def reading(self, axis: str) -> Element:
        """A leaf that depends on an axis."""
        if axis == "l":
            return Number("f64(l)")
        return Read(self.random.choice([a for a, of in self.arrays.items() if of == axis]), axis)

    def leaf(self, axes: str) -> Element:
        fitting = [a for a, of in self.arrays.items() if set(of) <= set(axes)]
        if not fitting or self.random.random() < 0.1:
            return Number(self.random.choice(["0.5", "1.5", "2.0"]))
        name = self.random.choice(fitting)
        of = self.arrays[name]
        return Read(name, of, of.startswith("i") and not self.random.randrange(6))


def free_axes(e: Element) -> set[str]:
    match e:
        case Read(_, axes):
            return set(axes)
        case Apply(_, operands):
            return {a for o in operands for a in free_axes(o)}
        case Choose(a, b, chosen, other):
            return free_axes(a) | free_axes(b) | free_axes(chosen) | free_axes(other)
        case Reduce(_, axis, body, where):
            return (free_axes(body) | (free_axes(where) if where is not None else set())) - {axis}
        case Number(text):
            return {a for a in SIZES if f"({a})" in text}


def names(e: Element) -> set[str]:
    """The arrays that an element is made of."""
    match e:
        case Read(name, _, gathered):
            return {name, "c"} if gathered else {name}
        case Apply(_, operands):
            return {n for o in operands for n in names(o)}
        case Choose(a, b, chosen, other):
            return names(a) | names(b) | names(chosen) | names(other)
        case Reduce(_, _, body, where):
            return names(body) | (names(where) if where is not None else set())
        case Number():
            return set()


# ---- spellings -------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Speller:
    """Writes a kernel in one of its spellings. plain: as comprehensions of elements."""

    random: Random
    prefix: str
    plain: bool
    arrays: dict[str, str] = field(default_factory=lambda: dict(INPUTS))
    declared: list[str] = field(default_factory=list)
    serial: int = 0

    def function(self, definitions: Sequence[Definition], total: Element, params: str) -> str:
        lines = []
        for d in definitions:
            lines += self.definition(d)
            self.arrays[d.name] = d.axes
        result = self.element(total)
        body = "\n".join([f"  {line}" for line in [*lines, result]])
        return "\n".join([*self.declared, f"fn {self.prefix}({params}) -> f64 {{", body, "}"])

    def fresh(self, name: str) -> str:
        self.serial += 1
        return f"{name}{self.serial}"

    def pick(self, *choices: Callable[[], str]) -> str:
        return choices[0]() if self.plain else self.random.choice(choices)()

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def definition(self, d: Definition) -> list[str]:
        forms: list[Callable[[], str | None]] = [self.of_elements(d, self.element)]
        if not self.plain:
            forms += [self.of_elements(d, self.through_function), lambda: self.filled(d), lambda: whole_array(d)]
            forms += [lambda: self.rows(d), lambda: self.rows_of_function(d)] if len(d.axes) == 2 else []
            self.random.shuffle(forms)
        text = next(text for text in (form() for form in forms) if text is not None)
        return text.split("\n") if text.startswith("var ") else [f"let {d.name} = {text}"]

    def of_elements(self, d: Definition, write: Callable[[Element], str]) -> Callable[[], str]:
        return lambda: f"[{write(d.element)} for {ranges(d.axes)}]"

    def through_function(self, e: Element) -> str:
        """A call of a function for the element."""
        name = f"{self.prefix}_{self.fresh('h')}"
        arrays = sorted(names(e))
        axes = sorted(free_axes(e))
        params = ", ".join([*[f"{a}: {self.type_of(a)}" for a in arrays], *[f"{a}: i64" for a in axes]])
        self.declared.append(f"fn {name}({params}) -> f64 = {self.element(e)}")
        return f"{name}({', '.join([*arrays, *axes])})"

    def type_of(self, name: str) -> str:
        if name == "c":
            return "i64[n]"
        return f"f64[{', '.join([SIZES[a] for a in self.arrays[name]])}]"

    def rows(self, d: Definition) -> str:
        outer, inner = d.axes
        return f"[[{self.element(d.element)} for {ranges(inner)}] for {ranges(outer)}]"

    def rows_of_function(self, d: Definition) -> str | None:
        """Rows, each given by a function. None where it would need an array whose sizes do not show in its type."""
        outer, inner = d.axes
        name = f"{self.prefix}_{self.fresh('row')}"
        arrays = sorted(names(d.element))
        if not any(SIZES[inner] in self.type_of(a) for a in arrays) and inner != "l":
            return None
        params = ", ".join([*[f"{a}: {self.type_of(a)}" for a in arrays], f"{outer}: i64"])
        row = f"[{self.element(d.element)} for {ranges(inner)}]"
        self.declared.append(f"fn {name}({params}) -> f64[{SIZES[inner]}] = {row}")
        return f"[{name}({', '.join([*arrays, outer])}) for {ranges(outer)}]"

    def filled(self, d: Definition) -> str:
        """Zeros, with loops that write or add to each element."""
        places = ", ".join(d.axes)
        e = d.element
        adds = isinstance(e, Reduce) and e.kind == "sum"
        heads = list(d.axes)
        if adds and isinstance(e, Reduce):
            heads = self.random.choice([[*heads, e.axis], [e.axis, *heads]])
            update = f"{d.name}[{places}] += {self.element(e.body)}"
            if e.where is not None:
                update = f"if {self.element(e.where)} > 0.0 {{ {update} }}"
        else:
            update = f"{d.name}[{places}] = {self.element(e)}"
        opened = "".join([f"for {a} < {SIZES[a]} {{ " for a in heads])
        zeros = f"zeros({', '.join([SIZES[a] for a in d.axes])})"
        return f"var {d.name} = {zeros}\n{opened}{update}{' }' * len(heads)}"

    # ---- elements ----------------------------------------------------------------------------------------------------
    def element(self, e: Element) -> str:
        match e:
            case Read(name, axes, gathered):
                return f"{name}[{', '.join(['c[i]' if gathered and a == 'i' else a for a in axes])}]"
            case Number(text):
                return text
            case Apply("{0} * {0}" | "{0} ** 2", (a,)):
                return self.pick(lambda: f"{self.element(a)} ** 2", lambda: self.squared(a))
            case Apply(form, operands):
                return f"({form.format(*[self.element(o) for o in operands])})"
            case Choose(a, b, chosen, other):
                condition = f"{self.element(a)} > {self.element(b)}"
                one, two = self.element(chosen), self.element(other)
                return self.pick(
                    lambda: f"where({condition}, {one}, {two})",
                    lambda: f"(if {condition} {{ {one} }} else {{ {two} }})",
                )
            case Reduce():
                return self.reduction(e)

    def squared(self, a: Element) -> str:
        v = self.fresh("s")
        return f"{{ let {v} = {self.element(a)}; {v} * {v} }}"

    def reduction(self, e: Reduce) -> str:
        over = f"{e.axis} < {SIZES[e.axis]}"
        forms = [
            lambda: f"{e.kind}({self.element(e.body)} for {over}{self.filter(e)})",
            lambda: self.selected(e, over),
            lambda: self.accumulated(e, over),
            lambda: (
                f"{e.kind}([{self.element(e.body)} for {over}{self.filter(e)}])"
                if e.where is None
                else self.selected(e, over)
            ),
        ]
        vector = None if e.where is not None or (free_axes(e.body) - {e.axis}) else whole(e.body, e.axis)
        if vector is not None:
            forms.append(lambda: f"{e.kind}({vector})")
        return self.pick(*forms)

    def filter(self, e: Reduce) -> str:
        return "" if e.where is None else f" if {self.element(e.where)} > 0.0"

    def selected(self, e: Reduce, over: str) -> str:
        body = self.element(e.body)
        if e.where is not None:
            condition = f"{self.element(e.where)} > 0.0"
            body = self.pick(
                lambda: f"where({condition}, {body}, 0.0)", lambda: f"if {condition} {{ {body} }} else {{ 0.0 }}"
            )
        return f"{e.kind}({body} for {over})"

    def accumulated(self, e: Reduce, over: str) -> str:
        """A block with a loop that adds up, or keeps the largest."""
        s = self.fresh("s")
        if e.kind == "max":
            v = self.fresh("v")
            body = self.element(e.body)
            update = self.pick(
                lambda: f"{s} = maximum({s}, {body})", lambda: f"let {v} = {body}; if {v} > {s} {{ {s} = {v} }}"
            )
            return f"{{ var {s} = -math.inf; for {over} {{ {update} }}; {s} }}"
        update = f"{s} += {self.element(e.body)}"
        if e.where is not None:
            condition = f"{self.element(e.where)}"
            update = self.pick(
                lambda: f"if {condition} > 0.0 {{ {update} }}",
                lambda: f"if not ({condition} > 0.0) {{ continue }}; {update}",
            )
        return f"{{ var {s} = 0.0; for {over} {{ {update} }}; {s} }}"


def ranges(axes: str) -> str:
    return ", ".join([f"{a} < {SIZES[a]}" for a in axes])


def whole(e: Element, axes: str) -> str | None:
    """An array with these axes by operations on whole arrays; None where there are none for it."""
    match e:
        case Read(name, of, gathered):
            text = f"{name}[c]" if gathered else name
            if of == axes or axes.endswith(of):
                return text
            return f"reshape({text}, {SIZES[of]}, 1)" if len(of) == 1 and axes == of + axes[-1] else None
        case Number(text):
            return None if "(" in text else text
        case Apply(form, operands):
            texts = [whole(o, axes) for o in operands]
            return None if None in texts else f"({form.format(*texts)})"
        case Choose(a, b, chosen, other):
            parts = [whole(o, axes) for o in (a, b, chosen, other)]
            return None if None in parts else "where({} > {}, {}, {})".format(*parts)
        case Reduce(kind, axis, body, where):
            if len(axes) == 2 or where is not None or axis in axes:
                return None
            inner = whole(body, axes + axis)
            shaped = inner is not None and any(set(axes + axis) <= set(of) for of in axes_read(body))
            return f"{kind}({inner}, axis = 1)" if shaped else None


def axes_read(e: Element) -> Iterator[str]:
    """The axes of the arrays that a pointwise element reads."""
    match e:
        case Read(_, axes):
            yield axes
        case Apply(_, operands):
            for o in operands:
                yield from axes_read(o)
        case Choose(a, b, chosen, other):
            for o in (a, b, chosen, other):
                yield from axes_read(o)
        case Reduce() | Number():
            return


def whole_array(d: Definition) -> str | None:
    """The definition by operations on whole arrays, if one of these has all of its axes."""
    return whole(d.element, d.axes) if d.axes in axes_read(d.element) or isinstance(d.element, Reduce) else None


def spellings(random: Random, count: int = 4) -> str:
    """The text of functions `s0`, `s1`, … that mean the same. The first has comprehensions of elements alone."""
    definitions, total = Kernels(random).kernel()
    params = ", ".join([*[f"{a}: f64[{', '.join([SIZES[x] for x in of])}]" for a, of in INPUTS.items()], "c: i64[n]"])
    made = [Speller(random, f"s{k}", plain=k == 0) for k in range(count)]
    return "import math\n\n" + "\n\n".join([s.function(definitions, total, params) for s in made]) + "\n"


# ---- costs -----------------------------------------------------------------------------------------------------------
AT = (8, 16, 32)
"""The sizes n and k at which costs are counted."""
WORST = 1.5
"""How many times the cost of the cheapest spelling any may have."""
COUNTED: tuple[Way, ...] = ("value", "gradient")
LIMIT = 400_000
"""Steps of the interpreter for each run."""
TOLERANCE = 1e-9


def different_costs(text: str) -> Disagreement | None:
    """Finds where spellings of one kernel differ: in their values, or in their costs at the largest size."""
    try:
        checked = check(Source("program.dl", text))
        if errors_of(checked):
            return Disagreement("check", "no mistakes", errors_of(checked)[0].message)
        functions = {n: f for n, f in checked.module.functions.items() if re.fullmatch(r"s\d+", n)}
        runs = {name: run(f) for name, f in functions.items()}
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", f"{e.diagnostics[0].code} {e.diagnostics[0].message}")
    except TooMuch:
        return None
    if not runs:  # a smaller program may have no spelling left
        return None
    (first, (expected, _)), *others = runs.items()
    for name, (given, _) in others:
        if not np.allclose(expected, given, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return Disagreement(f"value of {name}", f"{expected} as of {first}", given)
    for way in COUNTED:
        for measure, count in (("operations", operations), ("bytes moved", moved), ("bytes of memory", memory)):
            counts = {name: [count(c, way) for c in costs] for name, (_, costs) in runs.items()}
            least, most = (f(counts, key=lambda name: counts[name][-1]) for f in (min, max))
            if counts[most][-1] > WORST * counts[least][-1]:
                return Disagreement(
                    f"{measure} of the {way}",
                    f"about the {counts[least][-1]} of {least}, growing by {exponent(counts[least]):.2f}",
                    f"{counts[most][-1]} of {most}, growing by {exponent(counts[most]):.2f}",
                )
    return None


def run(decl: FnDecl) -> tuple[float, list[Costs]]:
    """The value of a function at the largest size, and its costs at all; with the same arguments for every spelling."""
    function = prepared(decl, COUNTED)
    costs = []
    for size in AT:
        drawn = function.arguments(dict.fromkeys(function.names, size), size)
        args = [np.abs(a) % size if isinstance(a, np.ndarray) and a.dtype.kind == "i" else a for a in drawn]
        costs.append(function.at(args, LIMIT))
    _, (value,) = function.run(function.program, function.entry.name, args, LIMIT)
    return float(value), costs


def operations(costs: Costs, way: Way) -> int:
    return costs[way].operations + costs.numbers + SLACK


def moved(costs: Costs, way: Way) -> int:
    return costs[way].moved + costs.bytes + NUMBER * SLACK


def memory(costs: Costs, way: Way) -> int:
    return costs[way].peak + costs.bytes + NUMBER * SLACK
