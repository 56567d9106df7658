"""How nodes of datatypes lie in memory: what compiled code and those who read its memory both know.

A node is a header, then a word for each field: first the references, then the scalars, so that a collector needs to
know only how many references there are.
"""

from __future__ import annotations

from dlang.ir.terms import Array, Token, Type, Var, Variant, is_reference

NURSERY = 1 << 20  # bytes that a loop makes before it first looks for what it still needs; they stay in a cache


def words(variant: Variant) -> tuple[int, ...]:
    """The word of each field within a node of a variant: references come first."""
    order = sorted(range(len(variant.fields)), key=lambda k: not holds_reference(variant.fields[k]))
    out = [0] * len(order)
    for word, k in enumerate(order):
        out[k] = word
    return tuple(out)


def holds_reference(field: Var) -> bool:
    """Tells whether the word of a field is an address in the arena."""
    return isinstance(field.type, Array) or holds_references(field.type)


def holds_references(type: Type) -> bool:
    """Tells whether a value is a text, a handle, or an array of such."""
    return not isinstance(type, Token) and is_reference(type.dtype)
