"""The kinds of reasons why two terms cannot be equal, and what is said of each in a few words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Different:
    """The terms are plainly not the same."""


DIFFERENT = Different()


@dataclass(frozen=True, slots=True)
class Infinite:
    """A variable would contain itself."""

    what: str  # "size", "(recursive) type"…


@dataclass(frozen=True, slots=True)
class OnlyInside:
    """A variable would get out of the scope in which it is known."""

    name: str


@dataclass(frozen=True, slots=True)
class Lacks:
    """A type does not belong to classes, in order; `more` says what to do, or why."""

    classes: tuple[str, ...]
    more: str = ""


@dataclass(frozen=True, slots=True)
class NoArray:
    """A scalar stands where arrays are multiplied."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The numbers of axes differ."""


@dataclass(frozen=True, slots=True)
class EachCall:
    """One function gives a size of its own at each call where the other does not."""


@dataclass(frozen=True, slots=True)
class HasEffect:
    """A function has an effect that is not allowed."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    """A size would be less than zero."""


@dataclass(frozen=True, slots=True)
class NoMultiple:
    """A size would have to be divisible by a factor."""

    factor: int | Fraction


@dataclass(frozen=True, slots=True)
class NoField:
    """A value has no field of a name or a number."""

    name: object


@dataclass(frozen=True, slots=True)
class NoAxis:
    """An array of `count` axes does not have one."""

    axis: int
    count: int


@dataclass(frozen=True, slots=True)
class AxisTwice:
    """The same axis is named two times."""


@dataclass(frozen=True, slots=True)
class NoVector:
    """A side of a matrix product has no axis."""


@dataclass(frozen=True, slots=True)
class FunctionOperand:
    """A function is an operand of an operator."""

    operator: str


@dataclass(frozen=True, slots=True)
class OneStructure:
    """Two structures are operands where one side has to be a scalar."""

    operator: str


@dataclass(frozen=True, slots=True)
class NotOnStructures:
    """An operator has no meaning for tuples, structs and enums."""

    operator: str


Why = (
    Different
    | Infinite
    | OnlyInside
    | Lacks
    | NoArray
    | Ranks
    | EachCall
    | HasEffect
    | Negative
    | NoMultiple
    | NoField
    | NoAxis
    | AxisTwice
    | NoVector
    | FunctionOperand
    | OneStructure
    | NotOnStructures
)


def said(why: Why) -> str:
    """A reason in a few words; none where the terms are plainly different."""
    match why:
        case Different():
            return ""
        case Infinite(what):
            return f"infinite {what}"
        case OnlyInside(name):
            return f"`{name}` is known only inside"
        case Lacks(classes, more):
            return f"needs {' and '.join(classes)}" + (f": {more}" if more else "")
        case NoArray():
            return "needs axes: `@` takes arrays"
        case Ranks():
            return "different numbers of axes"
        case EachCall():
            return "each call gives a size of its own"
        case HasEffect(name):
            return f"it has the effect `{name}`"
        case Negative():
            return "a size cannot be negative"
        case NoMultiple(factor):
            return f"not provably a multiple of {factor}"
        case NoField(name):
            return f"it has no field `{name}`"
        case NoAxis(axis, count):
            return f"there is no axis {axis}: {_axes(count)}"
        case AxisTwice():
            return "there is an axis that is named twice"
        case NoVector():
            return "`@` needs at least one axis on each side"
        case FunctionOperand(operator):
            return f"a function is no operand of `{operator}`"
        case OneStructure(operator):
            return f"`{operator}` takes one structure and a scalar"
        case NotOnStructures(operator):
            return f"`{operator}` is not defined on structures"


def _axes(count: int) -> str:
    """Says which axes an array has."""
    if count == 0:
        return "it is a scalar"
    return "it has the axis 0 alone" if count == 1 else f"it has the axes 0 to {count - 1}"
