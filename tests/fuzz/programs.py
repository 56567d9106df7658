"""Random well-typed programs: declarations, functions with statements, recursion, and a `main` that uses them."""

from __future__ import annotations

from random import Random

from tests.fuzz.expressions import Function, Program, Scope, Writer, holds_data
from tests.fuzz.types import BOOL, F64, I64, SELF, Arr, Enum, Fn, K, N, Struct, Tup, Type

SIZED = (Arr(F64, (N,)), Arr(F64, (K,)))  # the first two parameters of every function: they say what n and k are
MAIN = (*SIZED, Arr(F64, (N, K)), F64, I64)  # the parameters of `main`


FEATURES = frozenset({"recursion", "functions", "derivatives"})


def program(random: Random, features: frozenset[str] = FEATURES) -> str:
    """The text of a program whose `main` takes p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64.

    features: what it may have besides scalars, arrays, flat structures and control.
    """
    return _Program(random, features).text()


def differentiable(random: Random, features: frozenset[str] = FEATURES) -> str:
    """The text of a program whose `main` takes the same and gives one f64."""
    return _Program(random, features).text(scalar=True)


class _Program:
    def __init__(self, random: Random, features: frozenset[str]) -> None:
        self.random = random
        self.declared = Program(features)
        self.lines: list[str] = []

    def text(self, scalar: bool = False) -> str:
        for k in range(self.random.randrange(3)):
            self.struct(f"S{k}")
        if self.random.randrange(3):
            self.enum("Shape", recursive=False)
        if self.random.randrange(3) and "recursion" in self.declared.features:
            self.enum("Tree", recursive=True)
        for k in range(self.random.randrange(1, 4)):
            self.function(f"f{k}")
        if self.random.randrange(2) and "functions" in self.declared.features:
            self.continuation()
        self.main(scalar)
        return "\n".join(self.lines) + "\n"

    def writer(self) -> Writer:
        return Writer(self.random, self.declared)

    # ---- types -------------------------------------------------------------------------------------------------------
    def struct(self, name: str) -> None:
        choices: list[Type] = [F64, F64, I64, BOOL, Tup((F64, I64)), *self.declared.structs]
        fields = tuple([(f"c{k}", self.random.choice(choices)) for k in range(self.random.randrange(1, 4))])
        self.declared.structs.append(Struct(name, fields))
        self.lines.append(f"struct {name} {{ {', '.join([f'{f}: {t}' for f, t in fields])} }}")

    def enum(self, name: str, recursive: bool) -> None:
        choices: list[Type] = [F64, F64, I64, *self.declared.structs, Tup((F64, BOOL))]
        variants: list[tuple[str, tuple[Type, ...]]] = []
        for k in range(self.random.randrange(2, 4)):
            fields = [self.random.choice(choices) for _ in range(self.random.randrange(3))]
            if recursive and k:
                fields[len(fields) // 2 : len(fields) // 2] = [SELF] * self.random.randrange(1, 3)
            variants.append((f"{name[:3]}{k}", tuple(fields)))
        enum = Enum(name, tuple(variants))
        self.declared.enums.append(enum)
        bodies = []
        for variant, types in variants:
            inside = ", ".join([name if t == SELF else str(t) for t in types])
            bodies.append(f"{variant}({inside})" if types else variant)
        self.lines.append(f"enum {name} {{ {', '.join(bodies)} }}")
        if recursive:
            self.recursion(enum)

    # ---- functions ---------------------------------------------------------------------------------------------------
    def recursion(self, enum: Enum) -> None:
        """A function that builds a value of a recursive enum, and one that goes through it."""
        w = self.writer()
        w.scope = Scope([("d", I64, False), ("x", F64, False)])
        make, depth = f"make_{enum.name.lower()}", f"depth_{enum.name.lower()}"
        name, fields = self.random.choice([v for v in enum.variants if SELF in v[1]])
        parts = []
        for t in fields:
            parts.append(
                f"{make}(d - {self.random.randrange(1, 3)}, 0.5 * x)" if t == SELF else w.expr_without_sizes(t)
            )
        last = next(v for v in enum.variants if SELF not in v[1])
        leaf = ", ".join([w.expr_without_sizes(t) for t in last[1]])
        self.lines.append(
            f"fn {make}(d: i64, x: f64) -> {enum} = "
            f"if d <= 0 {{ {last[0]}{f'({leaf})' if last[1] else ''} }} else {{ {name}({', '.join(parts)}) }}"
        )
        arms = []
        for variant, types in enum.variants:
            names = [w.fresh("p") for _ in types]
            terms = ["0.5"]
            for p, t in zip(names, types, strict=True):
                if t == SELF:
                    terms.append(f"0.5 * {depth}({p})")
                elif t == F64:
                    terms.append(f"sin({p})")
                elif t == I64:
                    terms.append(f"f64({p} % 5)")
            arms.append(f"{variant}{'(' + ', '.join(names) + ')' if names else ''} => {' + '.join(terms)}")
        self.lines.append(f"fn {depth}(t: {enum}) -> f64 = match t {{ {', '.join(arms)} }}")
        self.declared.functions.append(Function(depth, (enum,), F64, takes_sizes=False, differentiable=False))
        self.made = (make, enum)

    def continuation(self) -> None:
        """A function in continuation-passing style, whose closures nest as deeply as it recurses."""
        w = self.writer()
        w.scope = Scope([("d", I64, False), ("r", F64, False)])
        step = w.expr_without_sizes(F64)
        self.lines.append(
            "fn cps(d: i64, step: f64 -> f64) -> f64 = "
            f"if d <= 0 {{ step(1.0) }} else {{ cps(d - 1, |r: f64| step(tanh({step}))) }}"
        )
        self.lines.append("fn passed(d: i64) -> f64 = cps(d % 7, |r| 2.0 * r)")
        self.declared.functions.append(Function("passed", (I64,), F64, takes_sizes=False, differentiable=False))

    def function(self, name: str) -> None:
        w = self.writer()
        smooth = w.smooth = w.chance(40)
        params: list[Type] = [*SIZED]
        for _ in range(self.random.randrange(1, 4)):
            t = w.type(1) if smooth or not w.chance(20) else w.function_type()
            params.append(t)
        result = w.type(1)
        smooth = smooth and not any(map(holds_data, (*params, result)))
        w.smooth = smooth
        self.lines.append(self.definition(w, name, tuple(params), result))
        self.declared.functions.append(Function(name, tuple(params), result, differentiable=smooth))

    def definition(self, w: Writer, name: str, params: tuple[Type, ...], result: Type) -> str:
        names = ["p", "q", *[f"y{k}" for k in range(len(params) - 2)]]
        w.scope = Scope([(n, t, False) for n, t in zip(names, params, strict=True)])
        head = f"fn {name}({', '.join([f'{n}: {t}' for n, t in zip(names, params, strict=True)])}) -> {result}"
        if w.chance(25):
            return f"{head} = {w.expr(result, 4)}"
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 5)):
            self.statement(w, lines, "  ", result, loops=0, in_loop=False)
        lines.append(f"  {w.expr(result, 3)}")
        return f"{head} {{\n" + "\n".join(lines) + "\n}"

    def main(self, scalar: bool) -> None:
        w = self.writer()
        results = [w.type(1) for _ in range(2)]
        result = F64 if scalar else Tup((F64, *[F64 if holds_data(t) else t for t in results]))
        names = ["p", "q", "m", "x", "j"]
        w.scope = Scope([(n, t, False) for n, t in zip(names, MAIN, strict=True)])
        head = f"fn main({', '.join([f'{n}: {t}' for n, t in zip(names, MAIN, strict=True)])}) -> {result}"
        lines: list[str] = []
        if hasattr(self, "made"):
            make, enum = self.made
            lines.append(f"  let tree = {make}(j % 6, x)")
            w.scope.locals.append(("tree", enum, False))
        for _ in range(self.random.randrange(1, 5)):
            self.statement(w, lines, "  ", result, loops=0, in_loop=False)
        lines.append(f"  {w.expr(result, 5)}")
        self.lines.append(f"{head} {{\n" + "\n".join(lines) + "\n}")

    # ---- statements --------------------------------------------------------------------------------------------------
    def statement(self, w: Writer, out: list[str], pad: str, result: Type, loops: int, in_loop: bool) -> None:
        assignable = [(n, t) for n, t, can in w.scope.locals if can]
        match self.random.randrange(10):
            case 0 | 1:
                t = w.type(2) if w.chance(85) or w.smooth or not w.has("functions") else w.function_type()
                name = w.fresh("a")
                out.append(f"{pad}let {name} = {w.expr(t, 3)}")
                w.scope.locals.append((name, t, False))
            case 2 | 3:
                t = w.type(2)
                name = w.fresh("u")
                out.append(f"{pad}var {name} = {w.expr(t, 2)}")
                w.scope.locals.append((name, t, True))
            case 4 | 5 if assignable:
                self.assignment(w, out, pad, *self.random.choice(assignable))
            case 6 if loops < 2:
                i, size = w.fresh("i"), w.size()
                out.append(f"{pad}for {i} < {size} {{")
                with w.inner():
                    w.scope.indices.append((i, size))
                    self.body(w, out, pad, result, loops + 1, in_loop=True)
                out.append(f"{pad}}}")
            case 7 if loops < 2:
                c = w.fresh("c")
                out.append(f"{pad}var {c} = {self.random.randrange(5)}")
                out.append(f"{pad}while {c} > 0 {{")
                with w.inner():
                    out.append(f"{pad}  {c} -= 1")
                    w.scope.locals.append((c, I64, False))
                    self.body(w, out, pad, result, loops + 1, in_loop=True)
                out.append(f"{pad}}}")
            case 8:
                out.append(f"{pad}if {w.expr(BOOL, 2)} {{")
                with w.inner():
                    self.body(w, out, pad, result, loops, in_loop)
                if w.chance(50):
                    out.append(f"{pad}}} else {{")
                    with w.inner():
                        self.body(w, out, pad, result, loops, in_loop)
                out.append(f"{pad}}}")
            case _:
                leave = [f"return {w.expr(result, 2)}", *(["break", "continue"] if in_loop else [])]
                out.append(f"{pad}if {w.expr(BOOL, 2)} {{ {self.random.choice(leave)} }}")

    def body(self, w: Writer, out: list[str], pad: str, result: Type, loops: int, in_loop: bool) -> None:
        start = len(out)
        for _ in range(self.random.randrange(1, 4)):
            self.statement(w, out, pad + "  ", result, loops, in_loop)
        if len(out) == start or out[-1].lstrip().startswith(("let", "var")):
            out.append(f"{pad}  assert true")

    def assignment(self, w: Writer, out: list[str], pad: str, name: str, t: Type) -> None:
        """To a variable, or to a part of it."""
        place = name
        while w.chance(60):
            if isinstance(t, Struct):
                field, t = self.random.choice(t.fields)
                place += f".{field}"
            elif isinstance(t, Tup):
                k = self.random.randrange(len(t.items))
                place, t = f"{place}.{k}", t.items[k]
            elif isinstance(t, Arr):
                entries = [f"({w.expr(I64, 1)}) % ({s})" for s in t.shape]
                place, t = f"{place}[{', '.join(entries)}]", t.element
            else:
                break
        if t in (F64, I64) and w.chance(40):
            out.append(f"{pad}{place} {self.random.choice(['+=', '-='])} {w.expr(t, 2)}")
        elif isinstance(t, Fn):
            out.append(f"{pad}{place} = {w.function(t, 2)}")
        else:
            out.append(f"{pad}{place} = {w.expr(t, 2)}")
