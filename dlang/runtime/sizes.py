"""How the sizes of a call follow from its arguments, and what has to be compared before it.

The same as `python/arguments.py` finds out at every call by types, decided once by what the border of a function says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlang.ir.crossing import leaves_of
from dlang.ir.signatures import Signature, Terms
from dlang.ir.terms import Size, Var


@dataclass(frozen=True, slots=True)
class PassedSize:
    """A size is an argument itself, which must not be negative. leaf: the number of the argument among all leaves."""

    var: Var
    leaf: int


@dataclass(frozen=True, slots=True)
class Solved:
    """factor · var + rest is how long an axis is, with a factor that is not 0 and a solution that is not negative."""

    var: Var
    leaf: int
    axis: int
    factor: Size
    rest: Size


@dataclass(frozen=True, slots=True)
class Compared:
    """An axis has to be as long as a size says whose variables are known."""

    leaf: int
    axis: int
    size: Size


Step = PassedSize | Solved | Compared


class Unsolvable(Exception):
    """A size that follows from no argument. leaf: an argument whose axes it is in, if there is one."""

    def __init__(self, leaf: int | None) -> None:
        super().__init__()
        self.leaf = leaf


def plan(signature: Signature, terms: Terms) -> list[Step]:
    """Plans how the sizes of arguments are found and checked, in order; raises `Unsolvable`."""
    leaves = list(leaves_of(signature.layout.params))
    first = _first_leaves(signature)
    steps: list[Step] = [PassedSize(var, first[k]) for k, var in terms.sizes]
    known = {step.var for step in steps if isinstance(step, PassedSize)}
    waiting = [
        (number, axis, signature.layout.sizes[position])
        for number, leaf in enumerate(leaves)
        for axis, position in enumerate(leaf.shape)
    ]
    while waiting:
        left = []
        for number, axis, size in waiting:
            unknown = [v for v in dict.fromkeys(size.atoms()) if v not in known]
            if not unknown:
                steps.append(Compared(number, axis, size))
            elif len(unknown) == 1 and _is_linear(size, unknown[0]):
                factor, others = size.coefficient(unknown[0]), size.without(unknown[0])
                steps.append(Solved(unknown[0], number, axis, factor, others))
                known.add(unknown[0])
            else:
                left.append((number, axis, size))
        if len(left) == len(waiting):
            raise Unsolvable(left[0][0])
        waiting = left
    if not known.issuperset(signature.sizes):
        raise Unsolvable(None)
    return steps


def _first_leaves(signature: Signature) -> list[int]:
    """The number of the first leaf of each parameter."""

    def counted() -> Iterator[int]:
        total = 0
        for part in signature.layout.params:
            yield total
            total += sum(1 for _ in leaves_of((part,)))

    return list(counted())


def _is_linear(size: Size, v: Var) -> bool:
    return all(m.count(v) <= 1 for m in size.terms)
