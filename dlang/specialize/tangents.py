"""Tangents and cotangents of values: values of the same type, whose floats are derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlang.ir import anf
from dlang.ir.anf import Atom
from dlang.specialize.arith import all_of, elementwise
from dlang.specialize.frame import Frame
from dlang.specialize.values import EnumV, FnV, Value, leaves, parts, rebuild


def carries(a: Atom) -> bool:
    """Tells whether a derivative may pass through a leaf: a float, or a node, which may hold one."""
    t = a.type
    return not isinstance(t, anf.Token) and (t.dtype in anf.FLOATS or anf.is_handle(t.dtype))


def overlaid(v: Value, tangents: Iterator[Atom]) -> Value:
    """A value of the same structure: tangents where the leaves carry derivatives, other leaves are its own."""
    return rebuild(v, iter([next(tangents) if carries(a) else a for a in leaves(v)]))


def tags_in(v: Value) -> Iterator[Value]:
    """Lists the tags of the outermost enums in a value."""
    if isinstance(v, EnumV):
        yield v.tag
    elif not isinstance(v, FnV):
        for part in parts(v):
            yield from tags_in(part)


def same_variants(f: Frame, tags: Iterable[Value], given: Value) -> None:
    """A tangent or a cotangent is of the variants that the value is.

    The check guards no value, because no access relies on it: the fields of all variants are there, with zeros in those
    of the others, and their sizes are compared like any.
    """
    e = f.emitter
    for tag, other in zip(tags, tags_in(given), strict=True):
        if tuple(leaves(tag)) != tuple(leaves(other)):
            same = all_of(f, elementwise(f, lambda x, y: e.prim("eq", x, y), tag, other))
            e.check(same, "E0706", ("a cotangent is of another variant than the value",))
