"""The functions that a derivative of a function becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dlang.ir.anf import Array, Atom, IndexExpr
from dlang.ir.builder import Builder


@dataclass(frozen=True, slots=True)
class Key:
    """The derivative of a function: the positions of parameters, and of results that may have cotangents.

    border: cotangents are of the types of the values, as in `Vjp`. Else those of nodes are of their cotangent types,
    and those of some array parameters come in and are added to.
    tape: the name of the tape's datatype if a `VjpForward` has given one. changing: the positions of arrays that change
    in place where the function is called, so the backward half can't be given them (`rematerialise.py`). zero: those of
    arrays whose cotangents are zero so far, so none comes in: that of a result may go on as theirs. summed: those of
    arrays whose cotangents are given as sums (`summed.py`).
    """

    function: str
    wrt: tuple[int, ...]
    seeded: tuple[bool, ...]
    border: bool = False
    tape: str | None = None
    changing: tuple[int, ...] = ()
    zero: tuple[int, ...] = ()
    summed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cotangents:
    """The parameters of a backward function after its first ones: sizes, cotangents, those to add to.

    sizes: where a cotangent has a size that the function itself computes, it is a parameter and checked: the position
    of the result and of the axis at which the caller finds it. into: the positions of parameters whose cotangents are
    added to.
    """

    sizes: tuple[tuple[int, int], ...]
    into: tuple[int, ...]

    def args(self, b: Builder, bars: Sequence[Atom | None]) -> list[Atom]:
        """The arguments, from a cotangent or None for each result, without those to add to."""
        out: list[Atom] = []
        for k, axis in self.sizes:
            bar = bars[k]
            assert bar is not None and isinstance(bar.type, Array)
            size = bar.type.shape[axis]
            out.append(b.size(size) if size.constant is not None or size.atom is not None else b.one(IndexExpr(size)))
        return [*out, *(bar for bar in bars if bar is not None)]


@dataclass(frozen=True, slots=True)
class Fused:
    """function(params, sizes, cotangents, into) -> (results, cotangents of the parameters)."""

    function: str
    cotangents: Cotangents


@dataclass(frozen=True, slots=True)
class Rerun:
    """function(some params, sizes, cotangents, into) -> (results, cotangents of the parameters), of another run.

    params: the positions of the parameters that it takes. results: how many it gives before the cotangents; none,
    unless the function is still being made.
    """

    function: str
    params: tuple[int, ...]
    cotangents: Cotangents
    results: int


@dataclass(frozen=True, slots=True)
class Halves:
    """forward(params) -> (results, tape), backward(tape, some params, sizes, cotangents, into) -> cotangents.

    params: the positions of the parameters that the backward half takes: sizes, and arrays that are handed on. Of the
    halves of a `VjpForward` these are sizes only.
    """

    forward: str
    backward: str
    tape: str
    params: tuple[int, ...]
    cotangents: Cotangents


class Derivatives(Protocol):
    """Builds these functions, once for each key: a function under construction is found by its signature."""

    def fused(self, key: Key) -> Fused: ...

    def shared(self, key: Key) -> Key: ...

    def rerun(self, key: Key) -> Rerun: ...

    def halves(self, key: Key) -> Halves: ...
