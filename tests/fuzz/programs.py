"""Random well-typed programs: declarations, functions with statements, recursion, and a `main` that uses them."""

from __future__ import annotations

from random import Random

from tests.fuzz import linear_algebra, networks
from tests.fuzz.expressions import expression
from tests.fuzz.forms import total
from tests.fuzz.statements import Place, statements
from tests.fuzz.types import (
    BOOL,
    F64,
    I64,
    LIST,
    OPTION,
    SELF,
    Arr,
    Enum,
    Fn,
    K,
    N,
    Struct,
    Tup,
    Type,
    holds,
    recursive,
    vector,
)
from tests.fuzz.writer import EACH, Function, Program, Writer

SIZED = (vector(N), vector(K))  # the first two parameters of every function: they say what n and k are
MAIN: tuple[Type, ...] = (*SIZED, Arr(F64, (N, K)), F64, I64)  # the parameters of `main`
FEATURES = frozenset({"recursion", "functions", "derivatives", "networks"})


def program(random: Random, features: frozenset[str] = FEATURES) -> str:
    """The text of a program whose `main` takes p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64.

    features: what it may have besides scalars, arrays, flat structures and control.
    """
    return _Program(random, features).text(scalar=False)


def differentiable(random: Random, features: frozenset[str] = FEATURES) -> str:
    """The text of a program whose `main` takes the same and gives one f64, which depends on most that is computed."""
    return _Program(random, features).text(scalar=True)


class _Program:
    def __init__(self, random: Random, features: frozenset[str]) -> None:
        self.random = random
        self.declared = Program(features)
        self.scale = random.choices([1, 2, 4], [6, 3, 1])[0]
        self.lines: list[str] = []

    def text(self, scalar: bool) -> str:
        may = self.declared.features
        for k in range(self.random.randrange(3)):
            self.struct(f"S{k}")
        if not self.random.randrange(3):
            self.enum("Shape", nested=False)
        if not self.random.randrange(4):
            self.declared.enums.append(OPTION)
        if "recursion" in may:
            if not self.random.randrange(4):
                self.enum("Tree", nested=True)
            if not self.random.randrange(8):
                self.through(LIST, "list")
                self.declared.enums.append(LIST)
            if not self.random.randrange(3):
                self.recursion("r0", mutual=not self.random.randrange(3))
        for k in range(self.random.randrange(self.scale + 1)):
            self.function(f"f{k}")
        if not self.random.randrange(6) and {"functions", "recursion"} <= may:
            self.continuation()
        if not self.random.randrange(6):
            self.ruled("ruled")
        self.main(scalar)
        return networks.imports(linear_algebra.imports("\n".join(self.lines) + "\n"))

    def writer(self, *params: tuple[str, Type], budget: int = 10) -> Writer:
        w = Writer(self.random, self.declared, expression, budget=self.scale * budget)
        for name, t in params:
            w.bind(name, t)
        return w

    def declare(self, w: Writer, name: str, params: tuple[Type, ...], result: Type, cost: int = 1) -> None:
        self.declared.functions.append(Function(name, params, result, cost=w.cost * cost))

    # ---- types -------------------------------------------------------------------------------------------------------
    def struct(self, name: str) -> None:
        size = None if self.random.randrange(2) else N
        choices: list[Type] = [F64, F64, I64, BOOL, Tup((F64, I64))]
        choices += [s for s in self.declared.structs if s.size is None or size is not None]
        if size is not None:
            choices += [vector(N), vector(N), Arr(F64, (N, N))]
        fields = [(f"c{k}", self.random.choice(choices)) for k in range(self.random.randrange(1, 4))]
        if size is not None:
            fields.append(("w", vector(N)))
        self.declared.structs.append(Struct(name, tuple(fields), size))
        head = name if size is None else f"{name}<n>"
        self.lines.append(f"struct {head} {{ {', '.join([f'{f}: {t}' for f, t in fields])} }}")

    def enum(self, name: str, nested: bool) -> None:
        size = None if self.random.randrange(3) else N
        choices: list[Type] = [
            F64,
            F64,
            F64,
            I64,
            *[s for s in self.declared.structs if s.size is None],
            Tup((F64, BOOL)),
        ]
        if size is not None:
            choices += [vector(N), vector(N)]
        variants: list[tuple[str, tuple[Type, ...]]] = []
        for k in range(self.random.randrange(2, 4)):
            fields = [self.random.choice(choices) for _ in range(self.random.randrange(3))]
            if nested and k:
                fields[len(fields) // 2 : len(fields) // 2] = [SELF] * self.random.randrange(1, 3)
            if size is not None and k == 0:
                fields.append(vector(N))
            variants.append((f"{name[:3]}{k}", tuple(fields)))
        enum = Enum(name, tuple(variants), size)
        self.declared.enums.append(enum)
        bodies = []
        for variant, types in variants:
            inside = ", ".join([str(enum) if t == SELF else str(t) for t in types])
            bodies.append(f"{variant}({inside})" if types else variant)
        self.lines.append(f"enum {name if size is None else f'{name}<n>'} {{ {', '.join(bodies)} }}")
        if nested:
            self.through(enum, name.lower())

    # ---- recursion ---------------------------------------------------------------------------------------------------
    def through(self, enum: Enum, name: str) -> None:
        """Functions that build a value of a recursive enum, that map it, and that reduce it to a number."""
        make, walk, change = f"make_{name}", f"walk_{name}", f"change_{name}"
        params = (("p", SIZED[0]), ("q", SIZED[1]))
        w = self.writer(*params, ("d", I64), ("x", F64))
        w.scope.points = 2 * EACH
        w.scope.favourite = "x"
        plain = [v for v in enum.variants if SELF not in v[1]]
        leaf, types = self.random.choice([v for v in plain if v[1]] or plain)
        last = f"{leaf}({', '.join([w.expr(t, 1) for t in types])})" if types else leaf
        node, types = self.random.choice([v for v in enum.variants if SELF in v[1]])
        parts = []
        for t in types:
            again = f"{make}_at(p, q, d - {self.random.randrange(1, 3)}, tanh({w.expr(F64, 1)}))"
            parts.append(again if t == SELF else w.expr(t, 1))
        head = f"fn {make}_at(p: f64[n], q: f64[k], d: i64, x: f64) -> {enum}"
        self.lines.append(f"{head} = if d <= 0 {{ {last} }} else {{ {node}({', '.join(parts)}) }}")
        self.lines.append(f"fn {make}(p: f64[n], q: f64[k], d: i64, x: f64) -> {enum} = {make}_at(p, q, d % 4, x)")
        w = self.writer(*params, ("t", enum), ("x", F64))
        w.scope.points = 2 * EACH
        reduced, changed = [], []
        for variant, types in enum.variants:
            names = [w.fresh("p") for _ in types]
            pattern = f"{variant}({', '.join(names)})" if names else variant
            with w.inner():
                for part, t in zip(names, types, strict=True):
                    if t != SELF:
                        w.bind(part, t)
                pieces = []
                for part, t in zip(names, types, strict=True):
                    pieces.append(f"{change}(p, q, {part}, x)" if t == SELF else w.expr(t, 2))
                changed.append(f"{pattern} => {variant}({', '.join(pieces)})" if names else f"{pattern} => {variant}")
                lets = ""
                for part, t in zip(names, types, strict=True):
                    if t == SELF:
                        r = w.fresh("r")
                        lets += f"let {r} = {walk}(p, q, {part}, tanh({w.expr(F64, 1)})); "
                        w.bind(r, F64)
                body = w.expr(F64, 2)
                rest = [n for n, t, _ in w.scope.locals if n.startswith("r") and t == F64]
                body = " + ".join([body, *[f"0.5 * {r}" for r in rest if r not in body]])
                reduced.append(f"{pattern} => {{ {lets}{body} }}" if lets else f"{pattern} => {body}")
        takes = f"(p: f64[n], q: f64[k], t: {enum}, x: f64)"
        self.lines.append(f"fn {walk}{takes} -> f64 = match t {{ {', '.join(reduced)} }}")
        self.lines.append(f"fn {change}{takes} -> {enum} = match t {{ {', '.join(changed)} }}")
        self.declare(w, make, (*SIZED, I64, F64), enum, 2)
        self.declare(w, walk, (*SIZED, enum, F64), F64, 2)
        self.declare(w, change, (*SIZED, enum, F64), enum, 2)

    def recursion(self, name: str, mutual: bool) -> None:
        """A function that calls itself, at once or after another, not last or last, once or twice."""
        types: list[Type] = [F64, F64, vector(N), Tup((F64, vector(K)))]
        t = self.random.choice(types)
        names = [f"{name}_even", f"{name}_odd"] if mutual else [f"{name}_at"]
        cost = 1
        for k, own in enumerate(names):
            w = self.writer(("p", SIZED[0]), ("q", SIZED[1]), ("d", I64), ("a", t))
            w.scope.points = 2 * EACH
            w.scope.favourite = "a"
            other = names[(k + 1) % len(names)]
            lines = [f"  if d <= 0 {{ return {w.expr(t, 2)} }}"]
            lines += statements(w, Place(), self.random.randrange(2))
            arguments = f"{w.expr(SIZED[0], 1) if w.chance(30) else 'p'}, q"
            if w.chance(35):
                lines.append(f"  {other}({arguments}, d - 1, {w.expr(t, 2)})")
            else:
                for step in range(1, 2 + w.chance(30)):
                    r = w.fresh("r")
                    lines.append(f"  let {r} = {other}({arguments}, d - {step}, {w.expr(t, 2)})")
                    w.bind(r, t)
                    w.scope.favourite = r
                lines.append(f"  {w.expr(t, 3)}")
            cost = max(cost, w.cost)
            self.lines.append(f"fn {own}(p: f64[n], q: f64[k], d: i64, a: {t}) -> {t} {{\n" + "\n".join(lines) + "\n}")
        self.lines.append(f"fn {name}(p: f64[n], q: f64[k], d: i64, a: {t}) -> {t} = {names[0]}(p, q, d % 5, a)")
        self.declared.functions.append(Function(name, (*SIZED, I64, t), t, cost=cost))

    def continuation(self) -> None:
        """A function in continuation-passing style, whose closures nest as deeply as it recurses."""
        w = self.writer(("p", SIZED[0]), ("q", SIZED[1]), ("d", I64), ("s", F64), ("r", F64))
        w.scope.points = 100
        w.scope.favourite = "r"
        step = w.expr(F64, 2)
        self.lines.append(
            "fn cps(p: f64[n], q: f64[k], d: i64, s: f64, step: f64 -> f64) -> f64 = "
            f"if d <= 0 {{ step(s) }} else {{ cps(p, q, d - 1, 0.9 * s, |r: f64| step(tanh({step} + 0.5 * r))) }}"
        )
        self.lines.append(
            "fn passed(p: f64[n], q: f64[k], d: i64, s: f64) -> f64 = cps(p, q, d % 7, s, |r| 2.0 * r * s)"
        )
        self.declared.functions.append(Function("passed", (*SIZED, I64, F64), F64, cost=2 * EACH))

    # ---- functions ---------------------------------------------------------------------------------------------------
    def ruled(self, name: str) -> None:
        """A function with rules that are right."""
        self.lines.append(f"fn {name}(x: f64, y: f64[n]) -> f64 = sum(sin(x * y))")
        if self.random.randrange(3):
            self.lines.append(f"pullback {name}(x, y) -> s = |d| (d * sum(y * cos(x * y)), d * x * cos(x * y))")
        if self.random.randrange(2):
            self.lines.append(f"pushforward {name}(x, y) -> s = |dx, dy| sum((dx * y + x * dy) * cos(x * y))")
        function = Function(name, (F64, vector(N)), F64, takes_sizes=False, cost=EACH)
        self.declared.functions.append(function)

    def function(self, name: str) -> None:
        w = self.writer()
        params: list[Type] = [*SIZED]
        for _ in range(self.random.randrange(1, 4)):
            takes = w.has("functions") and w.chance(15)
            params.append(w.function_type() if takes else w.type(1))
        result = F64 if w.chance(40) else w.type(1)
        names = ["p", "q", *[f"w{k}" for k in range(len(params) - 2)]]
        for own, t in zip(names, params, strict=True):
            w.bind(own, t)
        head = f"fn {name}({', '.join([f'{n}: {t}' for n, t in zip(names, params, strict=True)])}) -> {result}"
        if w.chance(25):
            self.lines.append(f"{head} = {w.expr(result, 4)}")
        else:
            lines = statements(w, Place(result=result), self.random.randrange(1, 4))
            lines.append(f"  {w.expr(result, 3)}")
            self.lines.append(f"{head} {{\n" + "\n".join(lines) + "\n}")
        self.declare(w, name, tuple(params), result)

    def main(self, scalar: bool) -> None:
        names = ["p", "q", "m", "x", "j"]
        w = self.writer(*zip(names, MAIN, strict=True), budget=25)
        results = [w.type(1) for _ in range(2)]
        result = F64 if scalar else Tup((F64, *[F64 if recursive(t) else t for t in results]))
        head = f"fn main({', '.join([f'{n}: {t}' for n, t in zip(names, MAIN, strict=True)])}) -> {result}"
        lines: list[str] = []
        for f in self.declared.functions:
            if w.chance(60):
                local = w.fresh("a")
                lines.append(f"  let {local} = {f.name}({', '.join([w.expr(t, 1) for t in f.params])})")
                w.bind(local, f.result)
        lines += statements(w, Place(result=result if w.chance(20) else None), self.random.randrange(1, 3 + self.scale))
        if scalar:
            used = [(n, t) for n, t, _ in w.scope.locals if n not in names and holds(t, F64) and not holds(t, Fn)]
            terms = [n if t == F64 else total(n) for n, t in used]
            lines.append(f"  {' + '.join([w.expr(F64, 3), *terms])}")
        else:
            lines.append(f"  {w.expr(result, 4)}")
        self.lines.append(f"{head} {{\n" + "\n".join(lines) + "\n}")
