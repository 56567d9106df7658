"""Computes the key of a function's instance, from all that the instance depends on.

A literal size is part of a key, so code for small arrays is specialised to them. A recursion through sizes would need
an instance for each, so what `erased` names forgets that its sizes are literals: they are parameters like the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from dlang.ir.anf import Size
from dlang.specialize.passing import Met
from dlang.specialize.types import bound_key
from dlang.specialize.values import ClosureV, Value, code_of, contains_function, shape_key
from dlang.typecheck.terms import variables
from dlang.typecheck.types import Var

LARGE = 4000  # parts of a key


def instance_key(
    closure: ClosureV, args: Sequence[Value], erased: frozenset[Var], apart: frozenset[int], other: object
) -> tuple[object, list[Size]]:
    """The key of an instance, and the sizes that are its parameters, in order.

    apart: the positions of arguments whose leaves are all passed. other: what else it depends on.
    """
    order: dict[Size, int] = {}

    def parameter(s: Size) -> object:
        return ("size", order.setdefault(s, len(order)))

    def size(s: Size) -> object:
        return parameter(s) if s.constant is None else int(s.constant)

    met = Met()
    captured = [met.key(c, size, True) for _, c in closure.captured]
    bindings = [(v.serial, bound_key(b, parameter if v in erased else size)) for v, b in closure.bindings.items()]
    # The sizes of arrays follow from the type that a parameter declares.
    argument_keys: list[object] = []
    for k, a in enumerate(args):
        if not contains_function(a):
            argument_keys.append(shape_key(a, lambda _: None))
        else:
            argument_keys.append(("apart", shape_key(a, size)) if k in apart else met.key(a, size))
    return (code_of(closure), tuple(captured), tuple(bindings), tuple(argument_keys), other), list(order)


def erasable(closure: ClosureV, args: Sequence[Value]) -> frozenset[Var]:
    """The variables of a function's scheme whose literal sizes may be forgotten.

    Not those that types of functions among the arguments mention, whose code may rely on their literal sizes; and none
    if the scheme says more of the sizes than that they are sizes: by a literal 1 it may decide what is stretched.
    """
    decl = closure.decl
    if decl is None or decl.constraints:
        return frozenset()
    kept = set(variables(*[p.local.type for p, a in zip(decl.params, args, strict=True) if contains_function(a)]))
    return frozenset(v for v in decl.variables if v not in kept)


def is_large(key: object) -> bool:
    """Tells whether a key has so many parts that types must grow from call to call."""
    return any(True for _ in islice(_parts(key), LARGE, None))


def part_count(key: object) -> int:
    """The number of parts of a key, nested ones included."""
    return sum(1 for _ in _parts(key))


def _parts(key: object) -> Iterator[object]:
    work = [key]
    while work:
        part = work.pop()
        yield part
        if isinstance(part, tuple):
            work += part
