"""Random expressions of a wanted type. Every production keeps values small, indices in range and loops short."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.types import BOOL, F64, I64, SELF, Arr, Enum, Fn, K, N, Num, Size, Struct, Tup, Type, at

FLOATS = ("0.5", "1.0", "2.0", "0.25", "-1.5", "3.0", "0.1", "-0.75")
DEEPEST = 5


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program; `takes_sizes`: its first two parameters are f64[n] and f64[k]."""

    name: str
    params: tuple[Type, ...]
    result: Type
    takes_sizes: bool = True
    differentiable: bool = True


@dataclass(slots=True)
class Program:
    """What has been declared so far."""

    features: frozenset[str]
    structs: list[Struct] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """Locals in reach: name, type, and whether it may be assigned."""

    locals: list[tuple[str, Type, bool]] = field(default_factory=list)
    indices: list[tuple[str, Size]] = field(default_factory=list)  # i64 locals that lie in 0..size


@dataclass(slots=True)
class Writer:
    """Writes the expressions of one function. smooth: only what `grad` of a plain function can pass through."""

    random: Random
    program: Program
    scope: Scope = field(default_factory=Scope)
    serial: int = 0
    smooth: bool = False

    # ---- choices -----------------------------------------------------------------------------------------------------
    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def has(self, feature: str) -> bool:
        return feature in self.program.features

    @contextmanager
    def inner(self, mutable: bool = True) -> Iterator[None]:
        """A scope inside; without `mutable` the locals around it can't be assigned there."""
        outer = self.scope
        locals_ = [(name, t, assignable and mutable) for name, t, assignable in outer.locals]
        self.scope = Scope(locals_, list(outer.indices))
        try:
            yield
        finally:
            self.scope = outer

    def size(self) -> Size:
        return self.random.choice([N, K, N, K, Size(one=2), Size(one=3), Size(n=1, one=1), Size(n=1, k=1)])

    def type(self, depth: int = 2) -> Type:
        """A type of values that are not functions."""
        pick = self.random.randrange(12 if depth else 6)
        match pick:
            case 0 | 1 | 2:
                return F64
            case 3 | 4:
                return I64
            case 5:
                return BOOL
            case 6 | 7:
                return Arr(F64, (self.size(),))
            case 8:
                return Arr(F64, (self.size(), self.size()))
            case 9:
                return Tup((self.type(depth - 1), self.type(depth - 1)))
            case 10 if self.program.structs:
                return self.random.choice(self.program.structs)
            case 11 if self.program.enums and not self.smooth:
                return self.random.choice(self.program.enums)
            case _:
                return Arr(I64, (self.size(),))

    # ---- expressions -------------------------------------------------------------------------------------------------
    def expr(self, t: Type, depth: int) -> str:
        """An expression of a type."""
        known = [name for name, have, _ in self.scope.locals if have == t]
        if known and (depth <= 0 or self.chance(35)):
            return self.random.choice(known)
        if depth <= 0:
            return self.leaf(t)
        general: list[Callable[[Type, int], str | None]] = [self.branch, self.block, self.called, self.projected]
        if not self.smooth:
            general += [self.matched, self.element, *([self.applied] if self.has("functions") else [])]
        if self.chance(30):
            found = self.random.choice(general)(t, depth)
            if found is not None:
                return found
        match t:
            case Num("f64"):
                return self.float(depth)
            case Num("i64"):
                return self.integer(depth)
            case Num("bool"):
                return self.boolean(depth)
            case Arr():
                return self.array(t, depth)
            case Tup(items):
                return f"({', '.join([self.expr(i, depth - 1) for i in items])})"
            case Struct():
                return self.struct(t, depth)
            case Enum():
                return self.variant(t, depth)
            case Fn():
                return self.function(t, depth)
        raise AssertionError(t)

    def expr_without_sizes(self, t: Type) -> str:
        """A small expression for a function that has no sizes n and k."""
        known = [name for name, have, _ in self.scope.locals if have == t]
        match t:
            case Num("f64"):
                a, b = self.random.choice(["x", "r"]), self.random.choice(FLOATS)
                a = a if any(name == a for name, _, _ in self.scope.locals) else b
                return self.random.choice([f"{a} * {b}", f"sin({a}) + {b}", f"{a} - {b} * f64(d)", a])
            case Num("i64"):
                return self.random.choice(["d", "d * d - 1", "3 - d"])
            case Num("bool"):
                return "d % 2 == 0"
            case Tup(items):
                return f"({', '.join(map(self.expr_without_sizes, items))})"
            case Struct(name, fields):
                return f"{name}({', '.join([f'{f} = {self.expr_without_sizes(ft)}' for f, ft in fields])})"
            case _:
                return self.random.choice(known)

    def leaf(self, t: Type) -> str:
        match t:
            case Num("f64"):
                return self.random.choice(FLOATS)
            case Num("i64"):
                if self.scope.indices and self.chance(50):
                    return self.random.choice(self.scope.indices)[0]
                return str(self.random.randrange(-3, 8)) if self.chance(60) else self.random.choice(["n", "k"])
            case Num("bool"):
                return self.random.choice(["true", "false"])
            case Arr(element, shape):
                binders = ", ".join([f"{self.fresh('i')} < {s}" for s in shape])
                return f"[{self.leaf(element)} for {binders}]"
            case Tup(items):
                return f"({', '.join(map(self.leaf, items))})"
            case Struct(name, fields):
                return f"{name}({', '.join([f'{f} = {self.leaf(ft)}' for f, ft in fields])})"
            case Enum(_, variants):
                name, fields = next(v for v in variants if SELF not in v[1])
                return f"{name}({', '.join(map(self.leaf, fields))})" if fields else name
            case Fn():
                return self.function(t, 1)
        raise AssertionError(t)

    def float(self, depth: int) -> str:
        a = lambda: self.expr(F64, depth - 1)  # noqa: E731
        match self.random.randrange(18 if not self.smooth else 14):
            case 0:
                return f"({a()} + {a()})"
            case 1:
                return f"({a()} - {a()})"
            case 2:
                return f"tanh({a()}) * {a()}" if self.chance(50) else f"({a()} * {a()})"
            case 3:
                return f"{a()} / (1.0 + ({a()}) ** 2)"
            case 4:
                return f"{self.random.choice(['sin', 'cos', 'tanh', 'atan', 'abs'])}({a()})"
            case 5:
                return f"exp(-abs({a()}))"
            case 6:
                return f"log(1.0 + abs({a()}))"
            case 7:
                return f"{self.random.choice(['maximum', 'minimum'])}({a()}, {a()})"
            case 8 | 9:
                return f"sum({self.comprehension(F64, self.size(), depth)})"
            case 10:
                t = Arr(F64, (self.size(),))
                return f"{self.random.choice(['sum', 'mean', 'max', 'min'])}({self.expr(t, depth - 1)})"
            case 11:
                return self.indexed(Arr(F64, (self.size(),)), depth)
            case 12:
                return self.indexed(Arr(F64, (self.size(), self.size())), depth)
            case 13:
                return f"where({self.expr(BOOL, depth - 1)}, {a()}, {a()})"
            case 14:
                return f"f64(({self.expr(I64, depth - 1)}) % 17)"
            case 15:
                size = self.size()
                acc, v = self.fresh("acc"), self.fresh("v")
                with self.inner(mutable=False):
                    self.scope.locals += [(acc, F64, False), (v, F64, False)]
                    body = self.expr(F64, 1)
                return f"fold(|{acc}, {v}| tanh({body}), {a()}, {self.expr(Arr(F64, (size,)), depth - 1)})"
            case 16:
                return self.derivative(depth)
            case _:
                return f"sum({self.filtered(depth)})"

    def derivative(self, depth: int) -> str:
        """A derivative of a lambda, in a number or an array."""
        if not self.has("derivatives"):
            return self.leaf(F64)
        number = self.chance(50)
        t: Type = F64 if number else Arr(F64, (self.random.choice([N, K]),))
        smooth, self.smooth = self.smooth, True
        try:
            with self.inner(mutable=False):
                x = self.fresh("x")
                self.scope.locals = [(n, have, False) for n, have, _ in self.scope.locals if not holds_data(have)]
                self.scope.locals.append((x, t, False))
                body = self.expr(F64, depth - 1)
            at_point = self.expr(t, depth - 2)
        finally:
            self.smooth = smooth
        gradient = f"grad(|{x}: {t}| {body})({at_point})"
        return f"tanh({gradient})" if number else f"tanh(sum({gradient}))"

    def integer(self, depth: int) -> str:
        a = lambda: self.expr(I64, depth - 1)  # noqa: E731
        match self.random.randrange(9):
            case 0:
                return f"({a()} + {a()})"
            case 1:
                return f"({a()} - {a()})"
            case 2:
                return f"({a()}) % 11 * (({a()}) % 7)"
            case 3:
                return f"({a()}) % {self.random.randrange(2, 9)}"
            case 4:
                return f"({a()}) // {self.random.randrange(2, 9)}"
            case 5:
                return f"len({self.expr(Arr(F64, (self.size(),)), depth - 1)})"
            case 6:
                return f"sum({self.comprehension(I64, self.size(), depth)}) % 101"
            case 7:
                return self.indexed(Arr(I64, (self.size(),)), depth)
            case _:
                return f"maximum({a()}, {a()})" if self.smooth else f"len({self.filtered(depth)})"

    def boolean(self, depth: int) -> str:
        match self.random.randrange(6):
            case 0:
                sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
                return f"({self.expr(I64, depth - 1)} {sign} {self.expr(I64, depth - 1)})"
            case 1:
                return f"({self.expr(F64, depth - 1)} {self.random.choice('<>')} {self.expr(F64, depth - 1)})"
            case 2:
                word = self.random.choice(["and", "or"])
                return f"({self.expr(BOOL, depth - 1)} {word} {self.expr(BOOL, depth - 1)})"
            case 3:
                return f"(not {self.expr(BOOL, depth - 1)})"
            case 4 if not self.smooth:
                t = self.type(1)
                if not isinstance(t, Fn | Arr):
                    return f"({self.expr(t, 1)} == {self.expr(t, 1)})"
                return "true"
            case _:
                return f"any({self.comprehension(BOOL, self.size(), depth)})"

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def comprehension(self, element: Type, size: Size, depth: int) -> str:
        """`[e for i < size]`, or over the elements of an array."""
        return f"[{self.comprehended(element, (size,), depth)}]"

    def comprehended(self, element: Type, shape: tuple[Size, ...], depth: int) -> str:
        binders = []
        with self.inner(mutable=False):
            for s in shape:
                if self.chance(25):
                    v = self.fresh("v")
                    with self.inner():
                        source = self.expr(Arr(F64, (s,)), min(depth - 2, 1))
                    binders.append(f"{v} in {source}")
                    self.scope.locals.append((v, F64, False))
                else:
                    i = self.fresh("i")
                    binders.append(f"{i} < {s}")
                    self.scope.indices.append((i, s))
            body = self.expr(element, depth - 1)
        return f"{body} for {', '.join(binders)}"

    def filtered(self, depth: int) -> str:
        size = self.size()
        i = self.fresh("i")
        with self.inner(mutable=False):
            self.scope.indices.append((i, size))
            body, condition = self.expr(F64, depth - 1), self.expr(BOOL, depth - 1)
        return f"[{body} for {i} < {size} if {condition}]"

    def indexed(self, t: Arr, depth: int) -> str:
        """An element of an array, at an index in range."""
        entries = []
        for s in t.shape:
            assert s is not None
            inside = [name for name, bound in self.scope.indices if bound == s]
            if inside and self.chance(70):
                entries.append(self.random.choice(inside))
            else:
                entries.append(f"({self.expr(I64, min(depth - 1, 1))}) % ({s})")
        return f"{self.arrayish(t, depth - 1)}[{', '.join(entries)}]"

    def arrayish(self, t: Type, depth: int) -> str:
        text = self.expr(t, depth)
        return text if text.isidentifier() or text.startswith("[") else f"({text})"

    def array(self, t: Arr, depth: int) -> str:
        shape = tuple([s for s in t.shape if s is not None])
        size = shape[0]
        rank1 = len(shape) == 1
        same = lambda: self.expr(t, depth - 1)  # noqa: E731
        floats = t.element == F64
        match self.random.randrange(12):
            case 0 if floats:
                return f"({same()} {self.random.choice('+-*')} {same()})"
            case 1 if floats:
                return f"{self.random.choice(['sin', 'tanh', 'abs'])}({same()})"
            case 2 if floats:
                return f"({self.expr(F64, depth - 1)} * {same()})"
            case 3 if rank1:
                return f"reverse({same()})"
            case 4 if rank1 and t.element in (F64, I64):
                return f"cumsum({same()})" if floats else f"sort({same()})"
            case 5 if rank1:
                rest = Size(size.n, size.k, size.one - 1)
                if rest.least >= 1:
                    one = self.expr(t.element, depth - 1)
                    return f"concat([{one}], {self.expr(Arr(t.element, (rest,)), depth - 1)})"
                return self.listed(t, size, depth)
            case 6 if rank1:
                longer = Size(size.n, size.k, size.one + 1)
                return f"{self.arrayish(Arr(t.element, (longer,)), depth - 1)}[1..]"
            case 7 if floats and rank1:
                inner = self.size()
                matrix = self.expr(Arr(F64, (size, inner)), depth - 1)
                return f"({matrix} @ {self.expr(Arr(F64, (inner,)), depth - 1)})"
            case 8 if floats and not rank1:
                flipped = Arr(F64, (shape[1], shape[0]))
                return f"transpose({self.expr(flipped, depth - 1)})"
            case 9 if not rank1 and floats:
                return f"[{self.expr(Arr(F64, (shape[1],)), depth - 2)} for {self.fresh('r')} < {size}]"
            case 10 if rank1 and size.n == size.k == 0:
                return self.listed(t, size, depth)
            case _:
                return f"[{self.comprehended(t.element, shape, depth)}]"

    def listed(self, t: Arr, size: Size, depth: int) -> str:
        if size.n or size.k:
            return f"[{self.comprehended(t.element, (size,), depth)}]"
        return f"[{', '.join([self.expr(t.element, depth - 1) for _ in range(size.one)])}]"

    # ---- data --------------------------------------------------------------------------------------------------------
    def struct(self, t: Struct, depth: int) -> str:
        known = [name for name, have, _ in self.scope.locals if have == t]
        if known and self.chance(40):
            name, ft = self.random.choice(t.fields)
            return f"{t.name}(..{self.random.choice(known)}, {name} = {self.expr(ft, depth - 1)})"
        return f"{t.name}({', '.join([f'{f} = {self.expr(ft, depth - 1)}' for f, ft in t.fields])})"

    def variant(self, t: Enum, depth: int) -> str:
        name, fields = self.random.choice(t.variants)
        if not fields:
            return name
        return f"{name}({', '.join([self.expr(t if f == SELF else f, depth - 2) for f in fields])})"

    def matched(self, t: Type, depth: int) -> str | None:
        """`match` on an enum: an arm for each variant, perhaps with a guard or a literal before."""
        if not self.program.enums:
            return None
        enum = self.random.choice(self.program.enums)
        arms = []
        for name, fields in enum.variants:
            if fields and self.chance(25):
                arms.append(self.arm(name, fields, enum, t, depth, guarded=True))
            arms.append(self.arm(name, fields, enum, t, depth, guarded=False))
        return f"(match {self.expr(enum, depth - 1)} {{ {', '.join(arms)} }})"

    def arm(self, name: str, fields: tuple[Type, ...], enum: Enum, t: Type, depth: int, guarded: bool) -> str:
        with self.inner():
            names = []
            for ft in fields:
                if guarded and ft == I64 and self.chance(40):
                    names.append(str(self.random.randrange(4)))
                    continue
                names.append(self.fresh("p") if self.chance(80) else "_")
                if names[-1] != "_":
                    self.scope.locals.append((names[-1], enum if ft == SELF else ft, False))
            guard = f" if {self.expr(BOOL, 1)}" if guarded else ""
            pattern = f"{name}({', '.join(names)})" if names else name
            return f"{pattern}{guard} => {self.expr(t, depth - 1)}"

    def projected(self, t: Type, depth: int) -> str | None:
        for s in self.program.structs:
            for f, ft in s.fields:
                if ft == t and self.chance(60):
                    return f"{self.arrayish(s, depth - 1)}.{f}"
        other = self.type(0)
        return f"({self.expr(other, depth - 2)}, {self.expr(t, depth - 1)}).1"

    def element(self, t: Type, depth: int) -> str | None:
        """An element of an array of structures."""
        if isinstance(t, Arr | Fn):
            return None
        size = self.size()
        with self.inner(mutable=False):
            i = self.fresh("i")
            self.scope.indices.append((i, size))
            body = self.expr(t, depth - 2)
        return f"[{body} for {i} < {size}][({self.expr(I64, 1)}) % ({size})]"

    # ---- control -----------------------------------------------------------------------------------------------------
    def branch(self, t: Type, depth: int) -> str:
        condition = self.expr(BOOL, depth - 1)
        return f"(if {condition} {{ {self.expr(t, depth - 1)} }} else {{ {self.expr(t, depth - 1)} }})"

    def block(self, t: Type, depth: int) -> str:
        with self.inner():
            plain = self.smooth or not self.has("functions") or self.chance(75)
            have = self.type(1) if plain else self.function_type()
            value = self.expr(have, depth - 1)
            name = self.fresh("a")
            self.scope.locals.append((name, have, False))
            return f"{{ let {name} = {value}; {self.expr(t, depth - 1)} }}"

    def function_type(self) -> Fn:
        return Fn(tuple([self.random.choice([F64, F64, I64]) for _ in range(self.random.randrange(1, 3))]), F64)

    def function(self, t: Fn, depth: int) -> str:
        with self.inner(mutable=False):
            names = [self.fresh("x") for _ in t.params]
            self.scope.locals += [(name, p, False) for name, p in zip(names, t.params, strict=True)]
            params = ", ".join([f"{name}: {p}" for name, p in zip(names, t.params, strict=True)])
            return f"(|{params}| {self.expr(t.result, depth - 1)})"

    def applied(self, t: Type, depth: int) -> str | None:
        """A call of a function value in reach, or of one chosen when the program runs."""
        known = [(name, have) for name, have, _ in self.scope.locals if isinstance(have, Fn) and have.result == t]
        if known:
            name, have = self.random.choice(known)
            return f"{name}({', '.join([self.expr(p, depth - 1) for p in have.params])})"
        fn = Fn((F64,), t)
        one, other = self.function(fn, depth - 1), self.function(fn, depth - 1)
        return f"(if {self.expr(BOOL, 1)} {{ {one} }} else {{ {other} }})({self.expr(F64, 1)})"

    def called(self, t: Type, depth: int) -> str | None:
        """A call of a function of the program whose result has the type, for some sizes."""
        for f in self.random.sample(self.program.functions, len(self.program.functions)):
            if self.smooth and not f.differentiable:
                continue
            sizes = (self.size(), self.size()) if f.takes_sizes else (N, K)
            if at(f.result, *sizes) == t:
                params = [at(p, *sizes) for p in f.params]
                return f"{f.name}({', '.join([self.expr(p, depth - 2) for p in params])})"
        return None


def holds_data(t: Type) -> bool:
    """Whether values of a type are functions or recursive."""
    match t:
        case Arr(element, _):
            return holds_data(element)
        case Tup(items):
            return any(map(holds_data, items))
        case Struct(_, fields):
            return any(holds_data(ft) for _, ft in fields)
        case Enum() | Fn():
            return True
        case _:
            return False
