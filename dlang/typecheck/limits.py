"""Limits of the size of a type."""

from __future__ import annotations

from dlang.diagnostics import DlangError, Span, error
from dlang.polynomials import MOST_FACTORS, MOST_PRODUCTS
from dlang.typecheck.types import Type, TypeArray, TypeCon, TypeData, TypeFn, TypeTuple, TypeVar, children, resolve

MOST_PARTS = 10_000  # of a type; a chain of pairs of pairs gets there in 13 steps and would never end otherwise
MOST_CONDITIONS = 1_000  # that a function leaves to its callers, of which each call states them again
_AXES = 32  # of an array, as in NumPy


def within_size(t: Type, span: Span | None) -> None:
    """Refuses a type of too many parts at `span`."""
    if isinstance(t, TypeCon | TypeVar):
        return
    count = 0
    stack: list[Type] = [t]
    while stack:
        count += 1
        if count > MOST_PARTS:
            raise too_many_parts(span)
        part = resolve(stack.pop())
        if isinstance(part, TypeArray | TypeTuple | TypeFn | TypeData):
            stack += [c for c in children(part) if isinstance(c, Type)]


def within_axes(t: Type, span: Span) -> None:
    """Refuses an array of too many axes at `span`."""
    array = resolve(t)
    if isinstance(array, TypeArray) and len(array.shape.pre) + len(array.shape.post) > _AXES:
        help = ("give what belongs together one axis, and compute its index",)
        raise error("E0291", f"this has more than {_AXES} axes", span, help=help)


def size_too_large(span: Span | None) -> DlangError:
    most = f"terms of at most {MOST_FACTORS} factors, and {MOST_PRODUCTS:,} products of two terms"
    help = (f"a size is multiplied out, for which there are {most}: give a sum in it a `size` parameter of its own",)
    return error("E0291", "this size is too large when it is multiplied out", span, help=help)


def too_many_parts(span: Span | None) -> DlangError:
    help = ("a type is written out in full, however it was put together: collect equal things in an array or a list",)
    return error("E0291", f"this has a type of more than {MOST_PARTS:,} parts", span, help=help)


def too_many_conditions(name: str, span: Span) -> DlangError:
    message = f"what `{name}` does with its parameters leaves more than {MOST_CONDITIONS:,} conditions on their types"
    help = ("annotate its parameters: what their types decide is settled here, and not at each call",)
    return error("E0291", message, span, help=help)
