"""The types of generated programs, and sizes a·n + b·k + c over the two size variables that every function has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """n · `n` + k · `k` + `one`."""

    n: int = 0
    k: int = 0
    one: int = 0

    def __str__(self) -> str:
        terms = [("n", self.n), ("k", self.k)]
        out = " + ".join([name if c == 1 else f"{c} * {name}" for name, c in terms if c])
        if not out:
            return str(self.one)
        if self.one:
            out += f" {'+' if self.one > 0 else '-'} {abs(self.one)}"
        return out

    def at(self, n: Size, k: Size) -> Size:
        """The size with other sizes for n and k."""
        return Size(
            self.n * n.n + self.k * k.n,
            self.n * n.k + self.k * k.k,
            self.n * n.one + self.k * k.one + self.one,
        )

    def times(self, factor: int) -> Size:
        return Size(factor * self.n, factor * self.k, factor * self.one)

    def plus(self, number: int) -> Size:
        return Size(self.n, self.k, self.one + number)

    @property
    def least(self) -> int:
        """What it is at least, as n and k are at least 2."""
        return 2 * self.n + 2 * self.k + self.one

    @property
    def fixed(self) -> bool:
        return self.n == self.k == 0


@dataclass(frozen=True, slots=True)
class Num:
    """f64, i64 or bool."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Arr:
    """An array; a shape of one or two axes."""

    element: Type
    shape: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Tup:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class Struct:
    """size: of a struct over a size, what it is."""

    name: str
    fields: tuple[tuple[str, Type], ...]
    size: Size | None = None

    def __str__(self) -> str:
        return self.name if self.size is None else f"{self.name}<{self.size}>"


@dataclass(frozen=True, slots=True)
class Enum:
    """A variant with a field of the enum itself makes it recursive; such a field is `SELF`."""

    name: str
    variants: tuple[tuple[str, tuple[Type, ...]], ...]
    size: Size | None = None

    def __str__(self) -> str:
        return self.name if self.size is None else f"{self.name}<{self.size}>"

    @property
    def recursive(self) -> bool:
        return any(SELF in fields for _, fields in self.variants)


@dataclass(frozen=True, slots=True)
class Fn:
    params: tuple[Type, ...]
    result: Type

    def __str__(self) -> str:
        params = ", ".join(map(str, self.params))
        return f"(({params}) -> {self.result})"


Type = Num | Arr | Tup | Struct | Enum | Fn
F64, I64, BOOL = Num("f64"), Num("i64"), Num("bool")
SELF = Num("Self")
N, K = Size(n=1), Size(k=1)
OPTION = Enum("Option<f64>", (("None", ()), ("Some", (F64,))))
LIST = Enum("List<f64>", (("Nil", ()), ("Cons", (F64, SELF))))


def vector(size: Size) -> Arr:
    return Arr(F64, (size,))


def at(t: Type, n: Size, k: Size) -> Type:
    """A type with other sizes for n and k."""
    match t:
        case Arr(element, shape):
            return Arr(at(element, n, k), tuple([s.at(n, k) for s in shape]))
        case Tup(items):
            return Tup(tuple([at(i, n, k) for i in items]))
        case Fn(params, result):
            return Fn(tuple([at(p, n, k) for p in params]), at(result, n, k))
        case Struct(name, fields, Size() as size):
            return Struct(name, tuple([(f, at(ft, n, k)) for f, ft in fields]), size.at(n, k))
        case Enum(name, variants, Size() as size):
            return Enum(name, tuple([(v, tuple([at(f, n, k) for f in fs])) for v, fs in variants]), size.at(n, k))
        case _:
            return t


def holds(t: Type, what: type | Num) -> bool:
    """Whether a type is `what`, or has parts that are."""
    if t == what if isinstance(what, Num) else isinstance(t, what):
        return True
    match t:
        case Arr(element, _):
            return holds(element, what)
        case Tup(items):
            return any(holds(i, what) for i in items)
        case Struct(_, fields):
            return any(holds(ft, what) for _, ft in fields)
        case Enum(_, variants):
            return any(holds(f, what) for _, fields in variants for f in fields)
        case _:
            return False


def recursive(t: Type) -> bool:
    """Whether values of a type contain nodes, or functions."""
    match t:
        case Arr(element, _):
            return recursive(element)
        case Tup(items):
            return any(map(recursive, items))
        case Struct(_, fields):
            return any(recursive(ft) for _, ft in fields)
        case Enum():
            return t.recursive
        case Fn():
            return True
        case _:
            return False
