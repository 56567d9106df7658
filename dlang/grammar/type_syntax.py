"""Sizes and types as they are written: the part of the syntax tree that holds no expression."""

from __future__ import annotations

from dataclasses import dataclass

from dlang.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span


@dataclass(frozen=True, slots=True)
class SizeName(Node):
    name: str


@dataclass(frozen=True, slots=True)
class SizeNumber(Node):
    value: int


@dataclass(frozen=True, slots=True)
class SizeOperator(Node):
    """`+ - * / //`; `/` is exact."""

    operator: str
    left: SizeExpr
    right: SizeExpr


@dataclass(frozen=True, slots=True)
class SizeHole(Node):
    """`_`: to be inferred."""


@dataclass(frozen=True, slots=True)
class SizeAny(Node):
    """`?` or `?k`: known only when it runs."""

    name: str | None


@dataclass(frozen=True, slots=True)
class SizeRow(Node):
    """`..s`: any number of axes."""

    name: str


SizeExpr = SizeName | SizeNumber | SizeOperator
Dim = SizeExpr | SizeHole | SizeAny | SizeRow


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """`f64`, `a`, `Linear<n, m>`; an argument is a type or a dimension (a bare name is a `TypeName`). Of a module that
    was imported whole it is `nn.Linear`."""

    name: str
    arguments: tuple[TypeExpr | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeArray(Node):
    element: TypeExpr
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TypeTuple(Node):
    """`(a, b)`; with no items the type `()`."""

    items: tuple[TypeExpr, ...]


@dataclass(frozen=True, slots=True)
class TypeFunction(Node):
    """`(a, b) -> c ! random`; effects is None where nothing is written, () for `! ()`."""

    parameters: tuple[TypeExpr, ...]
    result: TypeExpr
    effects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TypeEffects(Node):
    """The result of a function with its effects: `-> f64 ! random`."""

    result: TypeExpr
    effects: tuple[str, ...]


TypeExpr = TypeName | TypeArray | TypeTuple | TypeFunction | TypeEffects
