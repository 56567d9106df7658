"""Values of the source's variables as text, from their structure and what the machine has of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlang.ir.anf import Lit
from dlang.ir.node import Node
from dlang.ir.values import Version, array_of, literal
from dlang.runtime.text import format_value
from dlang.specialize.layouts import Layout
from dlang.specialize.values import (
    ArrayV,
    DataV,
    DynamicV,
    EnumV,
    Many,
    NodeV,
    ScalarV,
    TupleV,
    Value,
    contains_function,
    leaves,
)
from dlang.tools.debugger.seen import Seen
from dlang.typecheck.types import DataDecl

SHOWN = 6  # elements of an array of structures, and fields inside of one another
LONG = 40  # elements of an array of numbers
FUNCTION = "<function>"


@dataclass(frozen=True, slots=True)
class Trees:
    """The datatypes of a program: how the nodes of each keep their fields."""

    layouts: Mapping[str, tuple[DataDecl, tuple[Layout, ...]]]


def leaves_of(seen: Seen) -> list[Any]:
    """The leaves of a variable's value, in order; a function has none to show."""
    name = seen.name
    if contains_function(name.value):
        return []
    own: dict[int, Any] = dict(zip((*name.passed, *name.others), seen.values, strict=True))
    return [literal(a) if isinstance(a, Lit) else array_of(own[k]) for k, a in enumerate(leaves(name.value))]


def shown(seen: Seen, trees: Trees) -> str:
    """The value of a variable."""
    if contains_function(seen.name.value):
        return FUNCTION
    return text(seen.name.value, iter(leaves_of(seen)), trees)


def text(v: Value, own: Iterator[Any], trees: Trees, depth: int = 0) -> str:
    """A value of a structure over its leaves."""
    match v:
        case ScalarV() | ArrayV():
            return leaf(next(own))
        case TupleV(items):
            inside = [text(i, own, trees, depth + 1) for i in items]
            return f"({', '.join(inside)}{',' if len(items) == 1 else ''})"
        case DataV(decl, fields):
            return constructed(decl, 0, [text(x, own, trees, depth + 1) for x in fields])
        case EnumV(decl, _, variants):
            tag = int(next(own))
            all_fields = [[text(x, own, trees, depth + 1) for x in fields] for fields in variants]
            return constructed(decl, tag, all_fields[tag])
        case Many(shape, element):
            arrays = [next(own) for _ in leaves(element)]
            return _many(element, arrays, len(shape), trees, depth)
        case NodeV():
            return node(next(own), v.type.dtype, trees, depth)
        case DynamicV():
            next(own)
            return FUNCTION
        case _:
            for _ in leaves(v):
                next(own)
            return FUNCTION


def constructed(decl: DataDecl, tag: int, fields: Sequence[str]) -> str:
    variant = decl.variants[tag]
    if not fields and not decl.is_struct:
        return variant.name
    names = [f"{name} = " if decl.is_struct else "" for name, _ in variant.fields]
    return f"{variant.name}({', '.join(n + f for n, f in zip(names, fields, strict=True))})"


def node(value: Node | None, dtype: str, trees: Trees, depth: int) -> str:
    """A value of a type that contains itself, down to some depth."""
    if value is None:
        return "…"
    if dtype not in trees.layouts or depth > SHOWN:
        return "…"
    decl, layouts = trees.layouts[dtype]
    layout = layouts[value.tag]
    own = iter([array_of(x) for x in value.fields[len(layout.sizes) :]])
    return constructed(decl, value.tag, [text(x, own, trees, depth + 1) for x in layout.values])


def _many(element: Value, arrays: Sequence[Any], rank: int, trees: Trees, depth: int) -> str:
    """An array of structures."""
    if rank == 0:
        return text(element, iter(arrays), trees, depth)
    n = arrays[0].shape[0] if arrays else 0
    first = [_many(element, [a[k] for a in arrays], rank - 1, trees, depth + 1) for k in range(min(n, SHOWN))]
    return f"[{', '.join([*first, f'… {n - SHOWN} more'] if n > SHOWN else first)}]"


def leaf(value: Any) -> str:
    """A number, a truth value, a text or an array of these; of a large array its ends."""
    if type(value) is Version:
        value = value.read()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return f"[{', '.join([leaf(x) if isinstance(x, str) else '…' for x in value.reshape(-1)[:SHOWN]])}]"
        return np.array2string(value, threshold=LONG, edgeitems=3, max_line_width=10_000)
    if isinstance(value, Node) or value is None:
        return "…"
    return format_value(value)


def type_text(v: Value, own: Sequence[Any]) -> str:
    """`f64[3, 2]` of an array, nothing of anything else."""
    if isinstance(v, ArrayV) and own:
        return f"{v.dtype}[{', '.join(map(str, np.shape(own[0])))}]"
    return ""


def cotangent(seen: Seen, trees: Trees) -> str:
    """The cotangent of a variable: as its value, with 0 where nothing depends on it."""
    name = seen.name
    given = {name.passed[k]: v for k, v in zip(seen.subjects, seen.values, strict=True) if k < len(name.passed)}
    if isinstance(name.value, ScalarV | ArrayV):
        return leaf(given[0]) if given else "0.0"
    return ", ".join(f"{path} = {leaf(array_of(given[k]))}" for k, path in paths(name.value) if k in given) or "0.0"


def paths(v: Value, path: str = "", first: int = 0) -> Iterator[tuple[int, str]]:
    """The leaves of a structure by their positions, with how one gets there."""
    match v:
        case TupleV(items):
            named = [(f"{path}.{k}", x) for k, x in enumerate(items)]
        case DataV(decl, fields):
            named = [(f"{path}.{n}", x) for (n, _), x in zip(decl.variants[0].fields, fields, strict=True)]
        case Many(_, element):
            named = [(f"{path}[..]", element)]
        case EnumV(decl, tag, variants):
            named = [("", tag)]
            for variant, fields in zip(decl.variants, variants, strict=True):
                named += [(f"{path}.{variant.name}.{k}", x) for k, x in enumerate(fields)]
        case _:
            yield first, path
            return
    for inner, x in named:
        yield from paths(x, inner, first)
        first += len(list(leaves(x)))
