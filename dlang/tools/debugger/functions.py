"""Values that are functions as text: their type, as a session shows it, and the values that they have captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dlang.diagnostics import Span
from dlang.ir.node import Node
from dlang.ir.values import array_of
from dlang.specialize.layouts import Layout
from dlang.specialize.values import ClosureV, DerivativeV, DynamicV, FnV, PullV, Value, leaves
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.program import scheme_text
from dlang.typecheck.terms import variables
from dlang.typecheck.types import TypeFn, resolve

UNKNOWN = "<function>"
DEEPEST = 4  # functions inside of one another
Text = Callable[[Value, Iterator[Any], int], str]
Dynamic = Mapping[str, Sequence[Layout]]  # of functions that are known only when the program runs, by their types


def function_text(v: FnV, own: Iterator[Any], known: Dynamic, text: Text, depth: int, local: object = None) -> str:
    """A function over the leaves of what it has captured. text: that of any value; local: the variable that has it."""
    found, captured = _opened(v, own, known)
    head = type_of(found if not isinstance(v, DerivativeV) else v, local)
    if isinstance(v, DerivativeV):
        head += f", {v.kind} of {_called(found)}"
    if captured and depth > DEEPEST:
        return f"{head} with …"
    held = [_captured(name, x, inner, known, text, depth) for name, x, inner in captured]
    return head + (f" with {', '.join(held)}" if held else "")


def _called(v: FnV) -> str:
    return v.decl.name if isinstance(v, ClosureV) and v.decl is not None else type_of(v, None)


def type_of(v: FnV, local: object) -> str:
    """The type, from the variable that has the function or from where it was written."""
    if isinstance(local, core.Local) and isinstance(t := resolve(local.type), TypeFn):
        own = _own_type(v)
        # What may have any type in the source has that of the function that it is here.
        shown = t if own is None or not variables(t) or variables(own) else own
        return Names(scheme=True).prepare(shown)(shown)
    if isinstance(local, core.FnDecl):
        return scheme_text(local)
    match v:
        case ClosureV(decl=core.FnDecl() as decl):
            return scheme_text(decl)
        case _:
            own = _own_type(v)
            return UNKNOWN if own is None else Names(scheme=True).prepare(own)(own)


def _own_type(v: FnV) -> TypeFn | None:
    if not isinstance(v, ClosureV):
        return None
    result = v.decl.result if v.decl is not None and v.decl.result is not None else v.body.type
    return TypeFn(tuple([p.type for p in v.params]), resolve(result))


def written(v: Value, own: Sequence[Any], known: Dynamic) -> Span | None:
    """Returns the span at which a function was written."""
    if not isinstance(v, FnV):
        return None
    found, _ = _opened(v, iter(own), known)
    return found.span if isinstance(found, ClosureV) else None


Captured = list[tuple[core.Local | core.FnDecl, Value, list[Any]]]


def _opened(v: FnV, own: Iterator[Any], known: Dynamic) -> tuple[FnV, Captured]:
    """The function that one is, or is the derivative of, and what it has captured with its leaves. Takes the leaves."""
    match v:
        case DerivativeV(function=inner):
            return _opened(inner, own, known)
        case DynamicV(type, handle):
            node = next(own) if any(True for _ in leaves(handle)) else None
            if not isinstance(node, Node) or node.tag >= len(known.get(type.dtype, ())):
                return v, []
            layout = known[type.dtype][node.tag]
            (inner_value,) = layout.values
            assert isinstance(inner_value, FnV)
            return _opened(inner_value, iter([array_of(x) for x in node.fields[len(layout.sizes) :]]), known)
        case ClosureV(captured=captured):
            found = [(local, x, [next(own) for _ in leaves(x)]) for local, x in captured]
            return v, [(k, x, a) for k, x, a in found if k.span is not None]
        case PullV():
            for _ in leaves(v):
                next(own)
            return v, []


def _captured(
    local: core.Local | core.FnDecl, v: Value, own: Sequence[Any], known: Dynamic, text: Text, depth: int
) -> str:
    if not isinstance(v, FnV):
        return f"{local.name} = {text(v, iter(own), depth + 1)}"
    inner = function_text(v, iter(own), known, text, depth + 1, local)
    return f"{local.name} = " + (f"({inner})" if " with " in inner else inner)
