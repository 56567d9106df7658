"""Classifies Python's values, before they are compared with types."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlang.host.classes import fields_of
from dlang.polynomials import Poly
from dlang.specialize.structs import declaration
from dlang.typecheck import types as ty
from dlang.typecheck.types import RowVar, Shape, Size, SizeVar, Type, TypeData, TypeVar

MOST_AXES = 64  # of an array of NumPy


def is_weak(value: Any) -> bool:
    """Tells whether a value takes the dtype that is asked for: Python's numbers, and lists of them."""
    return isinstance(value, int | float | list) and not isinstance(value, np.generic)


def type_of(value: Any) -> Type | None:
    """The type that a structure plainly has, with variables for what is in it; None for what is none."""
    if isinstance(value, tuple):
        return ty.TypeTuple(tuple([TypeVar(0) for _ in value])) if value else None
    if isinstance(value, list):
        begin, depth = _descended(value)
        inner = type_of(begin)
        axes = tuple([Size(Poly.of(SizeVar(0))) for _ in range(depth)])
        return None if inner is None else ty.TypeArray(inner, Shape(axes))
    decl = declaration(value)
    return None if decl is None else TypeData(decl, tuple([_fresh(p) for p in decl.params]))


def first(value: Any) -> Any:
    """Returns the first element of a nested list."""
    return _descended(value)[0]


def _descended(value: Any) -> tuple[Any, int]:
    """Returns the first innermost item of a list and its depth; a list that may contain itself has neither."""
    for depth in range(MOST_AXES + 1):
        if not isinstance(value, list):
            return value, depth
        value = value[0] if value else None
    return None, 0


def _fresh(v: ty.Var) -> Type | Size | Shape:
    match v:
        case TypeVar():
            return TypeVar(0)
        case SizeVar():
            return Size(Poly.of(SizeVar(0)))
        case RowVar():
            return Shape((), RowVar(0), ())


def weight(weak: tuple[Any, TypeVar]) -> int:
    """Of what says little: integers may be floats, and None any enum that has such a variant."""
    value, _ = weak
    return 2 if value is None else 1 if isinstance(value, int) else 0


def turn(value: Any) -> int:
    """When an argument is matched: the later, the less it says of what variables stand for."""
    if value is None or hasattr(type(value), "__dlang_variant__"):
        return 1 if fields_of(type(value)) else 3
    return 2 if is_weak(value) else 0
