"""Values of the source's variables as text, from their structure and what the machine has of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dlang.ad.tangent_types import carries
from dlang.diagnostics import Span
from dlang.host.text import format_value
from dlang.ir.anf import FLOATS, INTEGERS, Lit
from dlang.ir.crossing import Node
from dlang.ir.values import Version, array_of, literal
from dlang.specialize.layouts import Layout
from dlang.specialize.values import (
    ArrayV,
    ClosureV,
    DataV,
    DerivativeV,
    DynamicV,
    EnumV,
    FnV,
    Many,
    NodeV,
    PullV,
    ScalarV,
    TupleV,
    Value,
    leaves,
)
from dlang.tools.debugger.machine import Seen
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.program import scheme_text
from dlang.typecheck.terms import variables
from dlang.typecheck.types import DataDecl, TypeFn, resolve

SHOWN = 6  # elements of an array of structures, and fields inside of one another
LONG = 40  # elements of an array of numbers


@dataclass(frozen=True, slots=True)
class Trees:
    """The datatypes of a program: how the nodes of each keep their fields, and which of them hold floats.

    functions: what the nodes hold that are functions.
    """

    layouts: Mapping[str, tuple[DataDecl, tuple[Layout, ...]]]
    functions: Dynamic
    held: set[str]


def leaves_of(seen: Seen) -> list[Any]:
    """The leaves of a variable's value, in order."""
    name = seen.name
    by_number: dict[int, Any] = dict(zip((*name.passed, *name.others), seen.values, strict=True))
    return [literal(a) if isinstance(a, Lit) else array_of(by_number.get(k)) for k, a in enumerate(leaves(name.value))]


def shown(seen: Seen, trees: Trees, brief: bool = False) -> str:
    """The value of a variable. brief: of a large array with several axes only the range, as in structures."""
    value, leaves = seen.name.value, iter(leaves_of(seen))
    if isinstance(value, FnV):
        return function_text(value, leaves, trees.functions, partial(text, trees=trees), 1, seen.name.local)
    return text(value, leaves, int(brief), trees=trees)


def identity(values: Sequence[Any]) -> tuple[object, ...]:
    """Returns a key that distinguishes values, down to the last bit."""
    out: list[object] = []
    todo = list(reversed(values))
    while todo:
        value = array_of(todo.pop())
        if isinstance(value, Node):
            out.append(value.tag)
            todo.extend(reversed(value.fields))
        elif isinstance(value, np.ndarray) and value.dtype == object:
            out.append(value.shape)
            todo.extend(value.reshape(-1)[::-1])
        elif isinstance(value, np.ndarray | np.generic):
            out += [value.shape, value.tobytes()]
        else:
            out.append(value)
    return tuple(out)


def text(v: Value, leaves_left: Iterator[Any], depth: int = 0, *, trees: Trees) -> str:
    """A value of a structure over its leaves."""
    match v:
        case ScalarV():
            return leaf(next(leaves_left))
        case ArrayV():
            return within(next(leaves_left), v.dtype) if depth else leaf(next(leaves_left))
        case TupleV(items):
            inside = [text(i, leaves_left, depth + 1, trees=trees) for i in items]
            return f"({', '.join(inside)}{',' if len(items) == 1 else ''})"
        case DataV(decl, fields):
            return constructed(decl, 0, [text(x, leaves_left, depth + 1, trees=trees) for x in fields])
        case EnumV(decl, _, variants):
            tag = int(next(leaves_left))
            all_fields = [[text(x, leaves_left, depth + 1, trees=trees) for x in fields] for fields in variants]
            return constructed(decl, tag, all_fields[tag])
        case Many(shape, element):
            arrays = [next(leaves_left) for _ in leaves(element)]
            return _many(element, arrays, len(shape), trees, depth)
        case NodeV():
            return node(next(leaves_left), v.type.dtype, trees, depth)
        case _:
            return function_text(v, leaves_left, trees.functions, partial(text, trees=trees), depth)


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
    fields = iter([array_of(x) for x in value.fields[len(layout.sizes) :]])
    return constructed(decl, value.tag, [text(x, fields, depth + 1, trees=trees) for x in layout.values])


def _many(element: Value, arrays: Sequence[Any], rank: int, trees: Trees, depth: int) -> str:
    """An array of structures."""
    if rank == 0:
        return text(element, iter(arrays), depth, trees=trees)
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


def within(value: Any, dtype: str) -> str:
    """An array in a line: its elements, or of a large one with several axes the range that they are in."""
    value = array_of(value)
    if not isinstance(value, np.ndarray) or value.ndim < 2 or value.size <= LONG:
        return leaf(value).replace("\n", "")
    kind = f"{dtype}[{', '.join(map(str, value.shape))}]"
    if dtype not in FLOATS and dtype not in INTEGERS:
        return kind
    finite = value[np.isfinite(value)]
    others = value.size - finite.size
    between = f" from {finite.min():.3g} to {finite.max():.3g}" if finite.size else ""
    return f"{kind}{between}" + (f", {others} not finite" if others else "")


def type_text(v: Value, leaves: Sequence[Any]) -> str:
    """`f64[3, 2]` of an array, nothing of anything else."""
    if isinstance(v, ArrayV) and leaves:
        return f"{v.dtype}[{', '.join(map(str, np.shape(leaves[0])))}]"
    return ""


# ---- cotangents and tangents -----------------------------------------------------------------------------------------
ZERO, NONE = "0.0", "_"  # of what nothing depends on, and of what has none


def cotangent(seen: Seen, trees: Trees, brief: bool = False) -> str:
    """The cotangent or tangent of a variable, in the structure of its value. brief: as of a value."""
    name = seen.name
    given = {name.passed[k]: v for k, v in zip(seen.guarded, seen.values, strict=True) if k < len(name.passed)}
    if isinstance(name.value, ArrayV) and given and not brief:
        return leaf(given[0])
    cotangents = [given.get(k, ZERO if carries(a.type, trees.held) else NONE) for k, a in enumerate(leaves(name.value))]
    return differential(name.value, iter(cotangents), trees, len(seen.kinds))


def tangents(seen: Seen, trees: Trees, brief: bool = False) -> str:
    """Shows the tangents of a value, or of a cotangent, to be written behind it."""
    texts = [f"{called(t.kinds[len(seen.kinds) :])} {cotangent(t, trees, brief)}" for t in seen.tangents]
    return "".join(["  " + text for text in texts])


def called(kinds: Sequence[str]) -> str:
    """`tangent of cotangent` of what was made in that order, the last first."""
    return " of ".join(reversed(kinds))


def differential(v: Value, leaves: Iterator[Any], trees: Trees, order: int, depth: int = 0) -> str:
    """The cotangent of a value of a structure, over those of its leaves, and so is a tangent.

    order: 2 of that of a cotangent, and so on.
    """
    match v:
        case TupleV(items):
            return f"({', '.join([differential(x, leaves, trees, order, depth + 1) for x in items])})"
        case DataV(decl, fields):
            return constructed(decl, 0, [differential(x, leaves, trees, order, depth + 1) for x in fields])
        case EnumV(decl, _, variants):
            next(leaves)
            all_fields = [[differential(x, leaves, trees, order, depth + 1) for x in fields] for fields in variants]
            taken = [k for k, fields in enumerate(all_fields) if any(f not in (ZERO, NONE) for f in fields)]
            return " or ".join([constructed(decl, k, all_fields[k]) for k in taken]) or ZERO
        case Many(_, element):
            return f"[{differential(element, leaves, trees, order, depth + 1)}]"
    value = next(leaves)
    if isinstance(value, str):
        return value
    if isinstance(v, NodeV):
        return differential_of_node(value, v.type.dtype, trees, order, depth)
    return within(value, v.dtype) if isinstance(v, ArrayV) else leaf(value)


def differential_of_node(value: Node | None, dtype: str, trees: Trees, order: int, depth: int) -> str:
    """The node with cotangents in place of its floats. How these are kept is said in `ad/signatures.py`."""
    if value is None or dtype not in trees.layouts or depth > SHOWN:
        return "…"
    tag = value.tag - order
    if tag < 0:
        return ZERO
    decl, layouts = trees.layouts[dtype]
    layout = layouts[tag]
    given = iter([x for x in value.fields if not isinstance(x, np.integer)])  # without sizes
    atoms = [a for v in layout.values for a in leaves(v)]
    cotangents = iter([next(given) if carries(a.type, trees.held) else NONE for a in atoms])
    return constructed(decl, tag, [differential(v, cotangents, trees, order, depth + 1) for v in layout.values])


# ---- functions -------------------------------------------------------------------------------------------------------
# Values that are functions as text: their type, as a session shows it, and the values that they have captured.

UNKNOWN = "<function>"
DEEPEST = 4  # functions inside of one another
Text = Callable[[Value, Iterator[Any], int], str]
Dynamic = Mapping[str, Sequence[Layout]]  # of functions that are known only when the program runs, by their types


def function_text(v: FnV, leaves: Iterator[Any], known: Dynamic, text: Text, depth: int, local: object = None) -> str:
    """A function over the leaves of what it has captured. text: that of any value; local: the variable that has it."""
    function, captured = _opened(v, leaves, known)
    head = type_of(function if not isinstance(v, DerivativeV) else v, local)
    if isinstance(v, DerivativeV):
        head += f", {v.kind} of {_called(function)}"
    if captured and depth > DEEPEST:
        return f"{head} with …"
    held = [_captured(name, x, inner, known, text, depth) for name, x, inner in captured]
    return head + (f" with {', '.join(held)}" if held else "")


def _called(v: FnV) -> str:
    return v.decl.name if isinstance(v, ClosureV) and v.decl is not None else type_of(v, None)


def type_of(v: FnV, local: object) -> str:
    """The type, from the variable that has the function or from where it was written."""
    if isinstance(local, core.Local) and isinstance(t := resolve(local.type), TypeFn):
        local_type = _own_type(v)
        # What may have any type in the source has that of the function that it is here.
        shown = t if local_type is None or not variables(t) or variables(local_type) else local_type
        return Names(scheme=True).prepare(shown)(shown)
    if isinstance(local, core.FnDecl):
        return scheme_text(local)
    match v:
        case ClosureV(decl=core.FnDecl() as decl):
            return scheme_text(decl)
        case _:
            local_type = _own_type(v)
            return UNKNOWN if local_type is None else Names(scheme=True).prepare(local_type)(local_type)


def _own_type(v: FnV) -> TypeFn | None:
    if not isinstance(v, ClosureV):
        return None
    result = v.decl.result if v.decl is not None and v.decl.result is not None else v.body.type
    return TypeFn(tuple([p.type for p in v.params]), resolve(result))


def written(v: Value, leaves: Sequence[Any], known: Dynamic) -> Span | None:
    """Returns the span at which a function was written."""
    if not isinstance(v, FnV):
        return None
    function, _ = _opened(v, iter(leaves), known)
    return function.span if isinstance(function, ClosureV) else None


Captured = list[tuple[core.Local | core.FnDecl, Value, list[Any]]]


def _opened(v: FnV, leaves_left: Iterator[Any], known: Dynamic) -> tuple[FnV, Captured]:
    """The function that one is, or is the derivative of, and what it has captured with its leaves. Takes the leaves."""
    match v:
        case DerivativeV(function=inner):
            return _opened(inner, leaves_left, known)
        case DynamicV(type, handle):
            node = next(leaves_left) if any(True for _ in leaves(handle)) else None
            if not isinstance(node, Node) or node.tag >= len(known.get(type.dtype, ())):
                return v, []
            layout = known[type.dtype][node.tag]
            (inner_value,) = layout.values
            assert isinstance(inner_value, FnV)
            return _opened(inner_value, iter([array_of(x) for x in node.fields[len(layout.sizes) :]]), known)
        case ClosureV(captured=captured):
            captures = [(local, x, [next(leaves_left) for _ in leaves(x)]) for local, x in captured]
            return v, [(k, x, a) for k, x, a in captures if k.span is not None]
        case PullV():
            for _ in leaves(v):
                next(leaves_left)
            return v, []


def _captured(
    local: core.Local | core.FnDecl, v: Value, leaves: Sequence[Any], known: Dynamic, text: Text, depth: int
) -> str:
    if not isinstance(v, FnV):
        return f"{local.name} = {text(v, iter(leaves), depth + 1)}"
    inner = function_text(v, iter(leaves), known, text, depth + 1, local)
    return f"{local.name} = " + (f"({inner})" if " with " in inner else inner)
