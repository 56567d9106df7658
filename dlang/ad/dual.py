"""What the forward walk of one function carries: where its code goes, and the tangents found so far.

A variable without a tangent has the tangent zero, which is built only where a value must exist. Variables are bound
once, so one table serves all blocks of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dlang.ad.scope import zero
from dlang.ir.anf import Atom, Function, Let, Var, fresh
from dlang.ir.builder import Builder


@dataclass(slots=True)
class Dual:
    """The forward walk of a function under way.

    walk: emits lets with their tangents. named: the name of the dual function of a function, for calls in which the
    arguments that are marked have tangents.
    """

    b: Builder
    active: set[Var]
    functions: Mapping[str, Function]
    walk: Callable[[Sequence[Let], Dual], None]
    named: Callable[[str, tuple[bool, ...]], str]
    dots: dict[Var, Atom] = field(default_factory=dict)

    def is_active(self, atom: Atom | None) -> bool:
        return isinstance(atom, Var) and atom in self.active

    def dot(self, atom: Atom | None) -> Atom | None:
        """The tangent of a value; None is zero."""
        return self.dots.get(atom) if isinstance(atom, Var) else None

    def built(self, atom: Atom) -> Atom:
        """As `dot`, with the zero built."""
        dot = self.dot(atom)
        return zero(self.b, atom.type) if dot is None else dot

    def array(self, var: Var) -> Var:
        """As `built`, of an array."""
        dot = self.built(var)
        assert isinstance(dot, Var)
        return dot

    def bind(self, var: Var) -> Var:
        """A variable for the tangent of one, which whoever asks binds."""
        dot = fresh(f"{var.name}_dot", var.type)
        self.dots[var] = dot
        return dot

    def set(self, var: Var, dot: Atom | None) -> None:
        """Says what the tangent of a variable is."""
        if dot is not None:
            self.dots[var] = dot
