"""Describes compiled functions and the values of Python that cross the border, leaf by leaf, without types of the
language.

`host/conversion.py` takes values apart and puts them together. A type that contains itself has its own entry in a
table, so that a tree is described in finitely many words. `Node` is a node of a datatype, as the interpreter has it and
as it crosses the border of compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlang.ir.terms import Size, Var, poly


# ---- descriptions ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or an array. `shape`: for each axis the position of its size among the sizes of the call."""

    dtype: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple; None if it has no items."""

    items: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct: an object of a dataclass."""

    type: type
    items: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """An enum: its tag, then the fields of every variant, where those of the others mean nothing.

    types: the class of each variant; None for one that is Python's None.
    """

    types: tuple[type | None, ...]
    items: tuple[tuple[Part, ...], ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """A value of a type that contains itself, by the name of its datatype."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Code:
    """A function, which has no form in Python."""


@dataclass(frozen=True, slots=True)
class Rows:
    """An array of structures: a list of them, nested for several axes. Each of its leaves has the axes in front."""

    shape: tuple[int, ...]
    element: Part


Part = Leaf | Items | Fields | Choice | Tree | Code | Rows


@dataclass(frozen=True, slots=True)
class Branch:
    """The contents of a node of one variant: `own` sizes, then the leaves of the items.

    names: of the attributes that hold the items. The shapes in these are positions among its own sizes and, behind
    these, the `literals`.
    """

    type: type | None
    own: int
    literals: tuple[int, ...]
    items: tuple[Part, ...]
    names: tuple[str, ...]


Trees = Mapping[str, tuple[Branch, ...]]
"""The variants of each datatype that a description names."""

NONE: Trees = {}
CODE = "->"
"""The dtype of what stands for a function."""


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function of Python at one type.

    Its leaves are `given` sizes, then those of the arguments; it gives `opened` sizes that only it knows, then the
    leaves of the result. A position below `given` in a shape is one of the former, the others follow. type: of the
    result, as a person wrote it; names: what the variables in it stand for, dtypes or the positions of sizes. trees:
    the types in it that contain themselves. folder: of the program that names it, where its module may be.
    """

    label: str
    function: Callable[..., Any]
    params: tuple[Part, ...]
    result: Part
    given: int
    opened: int
    type: str
    names: tuple[tuple[str, tuple[int, ...] | str], ...]
    trees: Trees = field(default_factory=dict, compare=False)
    folder: str = field(default="", compare=False)


def leaf_count(part: Part) -> int:
    match part:
        case Leaf() | Tree() | Code():
            return 1
        case Rows(_, element):
            return leaf_count(element)
        case Items(items) | Fields(_, items):
            return sum(map(leaf_count, items))
        case Choice(_, items):
            return 1 + sum(leaf_count(x) for variant in items for x in variant)


def leaves_of(parts: Sequence[Part]) -> Iterator[Leaf]:
    """The leaves of parts, in order, with all their axes; a node is a scalar of its datatype."""
    for part in parts:
        match part:
            case Leaf():
                yield part
            case Tree(dtype):
                yield Leaf(dtype)
            case Code():
                yield Leaf(CODE)
            case Items(items) | Fields(_, items):
                yield from leaves_of(items)
            case Choice(_, variants):
                yield Leaf("i64")
                for items in variants:
                    yield from leaves_of(items)
            case Rows(shape, element):
                for leaf in leaves_of((element,)):
                    yield Leaf(leaf.dtype, shape + leaf.shape)


def parts_of(part: Part, trees: Trees) -> Iterator[Part]:
    """A part and all inside of it; each datatype is entered once."""
    seen: set[str] = set()
    work = [part]
    while work:
        part = work.pop()
        yield part
        match part:
            case Items(items) | Fields(_, items):
                work += items
            case Choice(_, variants):
                work += [item for items in variants for item in items]
            case Rows(_, element):
                work.append(element)
            case Tree(dtype) if dtype not in seen:
                seen.add(dtype)
                work += [item for branch in trees[dtype] for item in branch.items]


def holds_code(part: Part, trees: Trees) -> bool:
    """Tells whether a function is in a value, which then cannot cross."""
    return any(isinstance(p, Code) for p in parts_of(part, trees))


def holds_blanks(part: Part, trees: Trees) -> bool:
    """Tells whether an array of values that hold nothing is in a value: then no leaf says how long that is."""
    return any(isinstance(p, Rows) and not leaf_count(p.element) for p in parts_of(part, trees))


# ---- signatures ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ValueLayout:
    """A function's parameters and result. sizes: those that the positions in the shapes of the parameters stand for."""

    params: tuple[Part, ...]
    result: Part
    sizes: tuple[Size, ...]
    trees: dict[str, tuple[Branch, ...]]


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of a program, as it is called: `sizes`, with `seed` an i64, the leaves of the arguments. It gives
    `extra` sizes before the leaves of the result."""

    name: str
    sizes: tuple[Var, ...]
    seed: bool
    extra: tuple[Var, ...]
    layout: ValueLayout

    def early(self, bound: Collection[int]) -> tuple[int, ...]:
        """The positions of the arguments that are known when some parameters are: sizes, and leaves over these."""
        b = self.layout
        said = {b.sizes[n] for k in bound for leaf in leaves_of((b.params[k],)) for n in leaf.shape}
        sizes = {v for v in self.sizes if poly(v) in said}
        out = [k for k, v in enumerate(self.sizes) if v in sizes]
        at = len(self.sizes) + self.seed
        for k, part in enumerate(b.params):
            for leaf in leaves_of((part,)):
                if k in bound and all(sizes.issuperset(b.sizes[n].atoms()) for n in leaf.shape):
                    out.append(at)
                at += 1
        return tuple(out)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a direct call, beside the leaves: sizes, indices and bound parameters.

    sizes: the parameters that are sizes themselves, and which. indices: those that are one or more indices, and below
    what. bound: those that are the same at every call; behind them are arguments that follow from these. quotients:
    what is divided by what, rounded down, for variables that stand for it in `compared`: what sizes have to be that
    only arguments say.
    """

    sizes: tuple[tuple[int, Var], ...] = ()
    indices: tuple[tuple[int, Size], ...] = ()
    bound: tuple[int, ...] = ()
    quotients: tuple[tuple[Var, Size, Size], ...] = ()
    compared: tuple[tuple[Var, Size], ...] = ()


# ---- nodes -----------------------------------------------------------------------------------------------------------
@dataclass(slots=True, eq=False, weakref_slot=True)
class Node:
    """A node of a datatype; null is None. What crosses the border makes it first and gives it its fields later."""

    tag: int
    fields: tuple[Any, ...]
