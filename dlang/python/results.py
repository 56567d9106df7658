"""From leaves to Python's values: floats, NumPy scalars and arrays, tuples, dataclasses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, assert_never

import numpy as np

from dlang.diagnostics import error
from dlang.ir import anf
from dlang.runtime.values import bfloat16
from dlang.specialize.structs import StructClasses, is_none
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoFn, MonoName, MonoNode, MonoTuple


def to_python(mono: Mono, leaves: Iterator[Any], classes: StructClasses) -> Any:
    """The value of a type from its leaves, in order.

    `f64`, `i64`, `bool` and `str` are Python's own; scalars of other dtypes are NumPy's, which keep the dtype. bf16 is
    that of `ml_dtypes`, or in f32 where the package is not installed.
    """
    match mono:
        case anf.Scalar("bf16") | MonoArray(anf.Scalar("bf16"), _):
            numbers = np.asarray(next(leaves), bfloat16() or np.float32)
            return numbers if isinstance(mono, MonoArray) else numbers[()]
        case anf.Scalar(dtype):
            leaf = next(leaves)
            return leaf.item() if dtype in ("f64", "i64", "bool") and hasattr(leaf, "item") else leaf
        case MonoArray(anf.Scalar(), _):
            return np.asarray(next(leaves))
        case MonoArray(element, shape):
            return _list(element, len(shape), leaves, classes)
        case MonoTuple(()):
            return None
        case MonoTuple(items):
            return tuple([to_python(i, leaves, classes) for i in items])
        case MonoData(decl, fields):
            return classes.of(decl)(*[to_python(f, leaves, classes) for f in fields])
        case MonoEnum(decl):
            tag = int(next(leaves))
            own = [list(islice(leaves, sum(map(leaf_count, fields)))) for fields in mono.variants][tag]
            variant, rest = decl.variants[tag], iter(own)
            values = [to_python(f, rest, classes) for f in mono.variants[tag]]
            return None if is_none(variant) else classes.variant(decl, variant)(*values)
        case MonoNode(decl) | MonoName(decl):
            kind = "struct" if decl.is_struct else "enum"
            raise error(
                "E0690",
                f"the {kind} `{decl.name}`, which contains itself, as a result in Python is not supported yet",
                decl.span,
                help=("return a struct or a tuple of what it stands for",),
            )
        case MonoFn():
            raise error(
                "E0690",
                "a function as a result in Python is not supported yet",
                None,
                help=("return what the function needs, and pass it to a function of the module",),
            )
        case _:
            assert_never(mono)


def leaf_count(mono: Mono) -> int:
    match mono:
        case anf.Scalar():
            return 1
        case MonoArray(element, _):
            return leaf_count(element)
        case MonoTuple(items) | MonoData(_, items):
            return sum(map(leaf_count, items))
        case MonoEnum():
            return 1 + sum(map(leaf_count, mono.fields))
        case MonoNode() | MonoFn():
            return 1
        case _:
            return 0


def _list(element: Mono, rank: int, leaves: Iterator[Any], classes: StructClasses) -> list[Any]:
    """An array of structures as a list of them, nested for several axes: each leaf has the axes in front."""
    columns = [np.asarray(next(leaves)) for _ in range(leaf_count(element))]

    def rows(parts: list[Any], depth: int) -> Any:
        if not depth:
            return to_python(element, iter(parts), classes)
        return [rows([p[i] for p in parts], depth - 1) for i in range(len(parts[0]))]

    made: list[Any] = rows(columns, rank)
    return made
