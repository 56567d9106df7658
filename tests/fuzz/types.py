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

    @property
    def least(self) -> int:
        """What it is at least, as n and k are at least 2."""
        return 2 * self.n + 2 * self.k + self.one


@dataclass(frozen=True, slots=True)
class Num:
    """f64, i64 or bool."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Arr:
    """An array; a shape of one or two axes. An unknown size is None."""

    element: Type
    shape: tuple[Size | None, ...]

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(['?' if s is None else str(s) for s in self.shape])}]"


@dataclass(frozen=True, slots=True)
class Tup:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Enum:
    """A variant with a field of the enum itself makes it recursive; such a field is `SELF`."""

    name: str
    variants: tuple[tuple[str, tuple[Type, ...]], ...]

    def __str__(self) -> str:
        return self.name

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


def at(t: Type, n: Size, k: Size) -> Type:
    """A type with other sizes for n and k."""
    match t:
        case Arr(element, shape):
            return Arr(at(element, n, k), tuple([None if s is None else s.at(n, k) for s in shape]))
        case Tup(items):
            return Tup(tuple([at(i, n, k) for i in items]))
        case Fn(params, result):
            return Fn(tuple([at(p, n, k) for p in params]), at(result, n, k))
        case _:
            return t
