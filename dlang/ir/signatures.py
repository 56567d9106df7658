"""Describes compiled functions to callers outside, without types of the language."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dlang.ir.crossing import Branch, Part, leaves_of
from dlang.ir.terms import Size, Var, poly


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
    what. bound: those that are the same at every call; behind them are arguments that follow from these.
    """

    sizes: tuple[tuple[int, Var], ...] = ()
    indices: tuple[tuple[int, Size], ...] = ()
    bound: tuple[int, ...] = ()
