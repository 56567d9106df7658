"""Defines the terms of the IR, of which signatures are made: types, atoms, sizes and datatypes, without operations.

`anf.py` is the rest of the IR's definition, and hands these names on. They are here because a program that was compiled
earlier is loaded and called by its signatures alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import count

from dlang.ops.dtypes import (
    DTYPES as DTYPES,
    FLOATS as FLOATS,
    HALF as HALF,
    INTEGERS as INTEGERS,
    SIGNED as SIGNED,
    UNSIGNED as UNSIGNED,
    WIDTHS as WIDTHS,
)
from dlang.polynomials import Poly

_serial = count(1)


def is_handle(dtype: str) -> bool:
    """Tells whether a dtype is the name of a datatype of the program."""
    return dtype not in DTYPES


def is_reference(dtype: str) -> bool:
    """Tells whether values of a dtype are references to objects in memory: texts and nodes."""
    return dtype == "str" or is_handle(dtype)


# ---- types -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Scalar:
    """One number, truth value, text (a reference to its bytes), or a handle to a node of a datatype."""

    dtype: str


@cache
def scalar(dtype: str) -> Scalar:
    """The type of a scalar; the same object each time, since types of literals are asked for very often."""
    return Scalar(dtype)


@dataclass(frozen=True, slots=True)
class Array:
    """A row-major array of scalars; `shape` has at least one axis."""

    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """The state of the world: orders effects, has no representation at run time."""


Type = Scalar | Array | Token


# ---- atoms -----------------------------------------------------------------------------------------------------------
@dataclass(eq=False, slots=True, repr=False)
class Var:
    """A variable: compared by identity. `serial` makes it unique in print and orders it in polynomials."""

    name: str
    type: Type
    serial: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return f"{self.name}.{self.serial}"


@dataclass(frozen=True, slots=True)
class Lit:
    """A constant. A float may be NaN or infinite; compare with `==` and mind that `1 == True` in Python.

    The only literal of a datatype is null, of value 0: it stands where no node is, and nothing may look into it.
    """

    value: int | float | bool | str
    dtype: str

    @property
    def type(self) -> Scalar:
        return scalar(self.dtype)


Atom = Var | Lit
Size = Poly[Var]  # over variables of type i64: sizes, axes, loop indices, and any other i64 value


# ---- datatypes -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Variant:
    """One form that the nodes of a datatype have.

    fields: formal variables, which name what a node holds in order. As in the parameters of a function, the sizes in
    the type of a field are polynomials over earlier fields of type i64: every size is in the node.
    """

    datatype: str
    tag: int
    name: str
    fields: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Datatype:
    """A datatype, which may contain itself. The tag of a variant is its position. label: its name for people."""

    name: str
    variants: tuple[Variant, ...]
    label: str = ""


# ---- making them -------------------------------------------------------------------------------------------------
def fresh(name: str, type: Type) -> Var:
    """A new variable."""
    return Var(name, type)


def poly(value: int | Atom | Size) -> Size:
    """The polynomial of an integer, an i64 atom, or itself."""
    if isinstance(value, Lit):
        return Poly({(): int(value.value)})
    return Poly.of(value)


ZERO: Size = poly(0)
ONE: Size = poly(1)
