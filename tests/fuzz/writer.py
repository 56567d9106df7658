"""What the parts of the generator share: random choices, the locals in reach, and how much a place may still cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from tests.fuzz.types import BOOL, F64, I64, Arr, Enum, Fn, K, N, Size, Struct, Tup, Type, at, vector

T = TypeVar("T")
MOST_POINTS = 400  # how often the code at a place may run in one call of its function, about
EACH = 4  # how many iterations a loop has, about


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program; `takes_sizes`: its first two parameters are f64[n] and f64[k].

    cost: how often its most frequent code runs, about.
    """

    name: str
    params: tuple[Type, ...]
    result: Type
    takes_sizes: bool = True
    cost: int = 1


@dataclass(slots=True)
class Program:
    """What has been declared so far."""

    features: frozenset[str]
    structs: list[Struct] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """Locals in reach: name, type, and whether it may be assigned.

    points: how often the code runs. order: of how many derivatives it is inside. favourite: a local to be used often.
    """

    locals: list[tuple[str, Type, bool]] = field(default_factory=list)
    indices: list[tuple[str, Size]] = field(default_factory=list)  # i64 locals that lie in 0..size
    points: int = 1
    order: int = 0
    favourite: str | None = None


@dataclass(slots=True)
class Writer:
    """Writes one function. `write` is the grammar of expressions: of a type, no deeper than a number.

    budget: how many expressions may be more than what is there already.
    """

    random: Random
    program: Program
    write: Callable[[Writer, Type, int], str]
    scope: Scope = field(default_factory=Scope)
    serial: int = 0
    cost: int = 1
    budget: int = 60

    def expr(self, t: Type, depth: int) -> str:
        self.budget -= 1
        return self.write(self, t, depth if self.budget > 0 else 0)

    # ---- choices -----------------------------------------------------------------------------------------------------
    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def weighted(self, choices: Sequence[tuple[int, T]]) -> T:
        return self.random.choices([c for _, c in choices], [weight for weight, _ in choices])[0]

    def has(self, feature: str) -> bool:
        return feature in self.program.features

    def size(self) -> Size:
        return self.random.choice([N, K, N, K, Size(one=2), Size(one=3), Size(n=1, one=1), Size(n=1, k=1)])

    def type(self, depth: int = 2) -> Type:
        """A type of values that are not functions."""
        choices: list[tuple[int, Callable[[], Type]]] = [(6, lambda: F64), (2, lambda: I64), (1, lambda: BOOL)]
        if depth:
            choices += [
                (4, lambda: vector(self.size())),
                (2, lambda: Arr(F64, (self.size(), self.size()))),
                (1, lambda: Arr(I64, (self.size(),))),
                (2, lambda: Tup((self.type(depth - 1), self.type(depth - 1)))),
            ]
            if self.program.structs:
                choices += [(2, self.struct), (1, lambda: Arr(self.struct(), (self.size(),)))]
            if self.program.enums:
                choices.append((2, self.enum))
        return self.weighted(choices)()

    def struct(self) -> Struct:
        chosen = at(self.random.choice(self.program.structs), self.size(), N)
        assert isinstance(chosen, Struct)
        return chosen

    def enum(self) -> Enum:
        chosen = at(self.random.choice(self.program.enums), self.size(), N)
        assert isinstance(chosen, Enum)
        return chosen

    def function_type(self) -> Fn:
        return Fn(tuple([self.random.choice([F64, F64, I64]) for _ in range(self.random.randrange(1, 3))]), F64)

    # ---- scopes ------------------------------------------------------------------------------------------------------
    @contextmanager
    def inner(self, mutable: bool = True, iterations: int = 1, order: int = 0) -> Iterator[None]:
        """A scope inside that runs `iterations` times; without `mutable` the locals around it can't be assigned
        there."""
        outer = self.scope
        self.scope = replace(
            outer,
            locals=[(name, t, assignable and mutable) for name, t, assignable in outer.locals],
            indices=list(outer.indices),
            points=outer.points * iterations,
            order=outer.order + order,
        )
        self.cost = max(self.cost, self.scope.points)
        try:
            yield
        finally:
            self.scope = outer

    def affords(self, iterations: int = EACH) -> bool:
        return self.scope.points * iterations <= MOST_POINTS

    def bind(self, name: str, t: Type, assignable: bool = False) -> None:
        self.scope.locals = [(n, have, can) for n, have, can in self.scope.locals if n != name]
        self.scope.locals.append((name, t, assignable))

    # ---- what is there already ---------------------------------------------------------------------------------------
    def reads(self, t: Type) -> list[str]:
        """What has a type without being computed: locals, their parts, and their elements at indices in reach."""
        found = []
        for name, have, _ in self.scope.locals:
            places = [p for p, part in self.parts(name, have, 2) if part == t]
            found += places * (4 if name == self.scope.favourite else 1)
        return found

    def parts(self, place: str, t: Type, depth: int) -> Iterator[tuple[str, Type]]:
        yield place, t
        if depth == 0:
            return
        match t:
            case Struct(_, fields):
                for f, ft in fields:
                    yield from self.parts(f"{place}.{f}", ft, depth - 1)
            case Tup(items):
                for number, item in enumerate(items):
                    yield from self.parts(f"{place}.{number}", item, depth - 1)
            case Arr(element, shape):
                entries = [self.index(s) for s in shape]
                if all(e is not None for e in entries):
                    yield from self.parts(f"{place}[{', '.join(map(str, entries))}]", element, depth - 1)

    def index(self, size: Size) -> str | None:
        """An index in range: a local, or a number."""
        inside = [name for name, bound in self.scope.indices if bound == size]
        if inside and self.chance(85):
            return self.random.choice(inside)
        whole = [name for name, have, _ in self.scope.locals if have == I64]
        if whole and self.chance(40):
            name = self.random.choice(whole)
            checked = f"minimum(maximum({name}, 0), {size} - 1)"  # nothing proves that it is in range
            return checked if self.chance(40) else f"({name}) % ({size})"
        return str(self.random.randrange(size.least))


def named(text: str) -> str:
    """The text, in parentheses where a postfix could not follow."""
    return text if text.isidentifier() or (text.startswith("[") and closes(text)) else f"({text})"


def closes(text: str) -> bool:
    """Whether the bracket with which a text begins is closed by its end."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            return k == len(text) - 1
    return False
