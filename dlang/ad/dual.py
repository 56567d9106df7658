"""Defines the state of the forward walk of a function: the builder of its code, and the tangents found so far.

A variable without a tangent has the tangent zero, which is built only where a value must exist. Variables are bound
once, so one table serves all blocks of a function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dlang.ad.conversions import Conversions
from dlang.ir.anf import Array, Atom, Let, Scalar, Type, Var, fresh
from dlang.ir.builder import Builder
from dlang.ir.marks import TANGENT


class DualFunctions(Protocol):
    """The dual functions of a program."""

    def named(self, function: str, marks: tuple[bool, ...]) -> str:
        """The name of the dual function for calls in which the marked arguments have tangents."""


@dataclass(slots=True)
class Dual(ABC):
    """The forward walk of a function under way. kind: what marks call the tangents."""

    b: Builder
    active: set[Var]
    nodes: Conversions
    duals: DualFunctions
    kind: str = TANGENT
    dots: dict[Var, Atom] = field(default_factory=dict)

    @abstractmethod
    def walk(self, lets: Sequence[Let]) -> None:
        """Emits lets with the tangents of what is active in them."""

    def carries(self, type: Type) -> bool:
        """Tells whether a value of this type can have a tangent."""
        return self.nodes.carries(type)

    def dot(self, atom: Atom | None) -> Atom | None:
        """The tangent of a value; None is zero."""
        return self.dots.get(atom) if isinstance(atom, Var) else None

    def zero(self, type: Type) -> Atom:
        """The zero tangent of values of a type."""
        return self.nodes.zero(self.b, type)

    def built(self, atom: Atom) -> Atom:
        """Returns the tangent like `dot`, but builds a zero."""
        dot = self.dot(atom)
        return self.zero(atom.type) if dot is None else dot

    def seen(self, atom: Atom) -> Atom:
        """Returns the tangent like `built`, for reads alone: of an array of zeros just one is stored."""
        dot, type = self.dot(atom), atom.type
        if dot is None and isinstance(type, Array):
            return self.b.spread(type.shape, self.zero(Scalar(type.dtype)))
        return self.built(atom)

    def array(self, var: Var) -> Var:
        """Returns the tangent of an array, like `built`."""
        dot = self.built(var)
        assert isinstance(dot, Var)
        return dot

    def bind(self, var: Var) -> Var:
        """A variable for the tangent of one, which whoever asks binds."""
        dot = fresh(f"{var.name}_dot", self.nodes.type(var.type))
        self.dots[var] = dot
        return dot

    def set(self, var: Var, dot: Atom | None) -> None:
        """Says what the tangent of a variable is."""
        if dot is not None:
            self.dots[var] = dot
