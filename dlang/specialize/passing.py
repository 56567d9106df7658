"""Passes the functions among the arguments and the results of an instance: what they captured, each once.

A function that captures functions which capture functions is a tree of values; where each captures the two before, its
size is exponential in its depth. But it is a graph of few functions over few variables. So a call passes the leaves in
the order of the tree, except that it goes through a function once, and passes a variable once that functions captured.
Which of them are the same is a part of the instance's key. Values outside of functions are passed as they are: a
derivative may be taken in one of two that are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dlang.identity import ByIdentity
from dlang.ir.anf import Atom, Size, Var
from dlang.specialize.values import (
    ArrayV,
    KnownFn,
    ScalarV,
    Value,
    formal_leaf,
    leaf_value,
    leaves,
    parts,
    resized,
    same_code,
    structure_key,
    with_parts,
)


@dataclass(slots=True)
class Met:
    """The functions and the captured variables that were met so far, in order.

    Functions are known by their identity. repeated: whether a variable is passed as often as it
    is met all the same.
    """

    repeated: bool = False
    functions: ByIdentity[Value, int] = field(default_factory=ByIdentity)
    variables: dict[Var, int] = field(default_factory=dict)

    def function(self, v: Value) -> int | None:
        """The number of a function that was met before; None for a new one, which has one from now on."""
        known = self.functions.get(v)
        if known is None:
            self.functions[v] = len(self.functions)
        return known

    def variable(self, a: Atom) -> int | None:
        """The number of a captured variable that was met before; None for a new one, and for a literal."""
        if self.repeated or not isinstance(a, Var):
            return None
        known = self.variables.get(a)
        if known is None:
            self.variables[a] = len(self.variables)
        return known

    def leaves(self, v: Value, captured: bool = False) -> Iterator[Atom]:
        """The leaves of a value that are passed behind what was met. captured: whether a function captured it."""
        left = [(v, captured)]
        while left:
            value, inside = left.pop()
            match value:
                case ScalarV(a) | ArrayV(a):
                    if not inside or self.variable(a) is None:
                        yield a
                case _ if isinstance(value, KnownFn):
                    if self.function(value) is None:
                        left += [(p, True) for p in reversed(parts(value))]
                case _:
                    left += [(p, inside) for p in reversed(parts(value))]

    def key(self, v: Value, size: Callable[[Size], object], captured: bool = False) -> object:
        """The key of a value behind those that were met, as `shape_key` gives it otherwise."""

        def whole(p: Value) -> object:
            return structure_key(p, size, whole)

        def first(p: Value) -> object:
            known = self.function(p)
            return structure_key(p, size, inside) if known is None else ("function", known)

        def inside(p: Value) -> object:
            if isinstance(p, ScalarV | ArrayV):
                known = self.variable(p.atom if isinstance(p, ScalarV) else p.var)
                return whole(p) if known is None else ("variable", known)
            return first(p) if isinstance(p, KnownFn) else structure_key(p, size, inside)

        def outside(p: Value) -> object:
            return first(p) if isinstance(p, KnownFn) else structure_key(p, size, outside)

        return inside(v) if captured else outside(v)


@dataclass(slots=True)
class Renewed:
    """Values like others, over other leaves: `leaf` is given those that are passed, in order. size: translates sizes.

    functions, variables: what those that were met have become. repeated: as of `Met`.
    """

    leaf: Callable[[Atom], Atom]
    size: Callable[[Size], Size]
    repeated: bool = False
    functions: ByIdentity[Value, Value] = field(default_factory=ByIdentity)
    variables: dict[Var, Atom] = field(default_factory=dict)

    def of(self, v: Value, captured: bool = False) -> Value:
        """The value that another becomes. captured: whether a function captured it."""
        match v:
            case ScalarV(a) | ArrayV(a):
                return leaf_value(self.atom(a, captured))
            case _ if not isinstance(v, KnownFn):
                return resized(with_parts(v, [self.of(p, captured) for p in parts(v)]), self.size)
            case _ if v in self.functions:
                return self.functions[v]
            case _:
                new = same_code(v, resized(with_parts(v, [self.of(p, True) for p in parts(v)]), self.size))
                self.functions[v] = new
                return new

    def atom(self, a: Atom, captured: bool) -> Atom:
        if self.repeated or not captured or not isinstance(a, Var):
            return self.leaf(a)
        if a not in self.variables:
            self.variables[a] = self.leaf(a)
        return self.variables[a]


def formals(size: Callable[[Size], Size], repeated: bool = False) -> Renewed:
    """Makes values like others over fresh variables, their sizes translated."""
    return Renewed(lambda a: formal_leaf(a, size), size, repeated)


def passed(captured: Iterable[Value], args: Sequence[Value], apart: Container[int] = ()) -> list[list[Atom]]:
    """The leaves that a call passes: those of what its function captured, then those of each argument.

    apart: the positions of arguments whose leaves are all passed.
    """
    met = Met()
    groups = [[a for c in captured for a in met.leaves(c, True)]]
    return [*groups, *[list(leaves(a) if k in apart else met.leaves(a)) for k, a in enumerate(args)]]


def results_passed(result: Value) -> list[Atom]:
    """The leaves of a result that are passed back."""
    return list(Met().leaves(result))
