"""The state of inference: the level, the constraints that wait, the variables that may have to be defaulted."""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.diagnostics import Diagnostic, Note, Span
from dlang.polynomials import Poly
from dlang.typecheck.mismatches import DIFFERENT, Why
from dlang.typecheck.types import Refinement, RowVar, Shape, Size, SizeVar, Type, TypeVar, Var

Term = Type | Size | Shape


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a constraint holds: where it stands, the operator and its operands, the function that it comes from.

    parts: where the operands stand, if they were written here.
    """

    span: Span
    operator: str = ""
    operands: tuple[Type, ...] = ()
    via: Note | None = None
    parts: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that waits until more is known. What the terms mean depends on `kind`; `data` is its parameter."""

    kind: str
    reason: Reason
    types: tuple[Type, ...] = ()
    shapes: tuple[Shape, ...] = ()
    sizes: tuple[Size, ...] = ()
    data: str | int | tuple[int, ...] = ""

    def terms(self) -> tuple[Term, ...]:
        return (*self.types, *self.shapes, *self.sizes)


@dataclass(slots=True)
class Scheme:
    """For all `variables` with `constraints`: a function from `params` to `result`.

    sizes: for each parameter of type `size` the size that it stands for. opened: fresh at every use. asked, promised:
    what `Idx` says of the parameters and of the result, for hover texts.
    """

    params: tuple[Type, ...]
    result: Type
    sizes: tuple[Size | None, ...] = ()
    variables: tuple[Var, ...] = ()
    opened: tuple[SizeVar, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    asked: tuple[Refinement | None, ...] = ()
    promised: Refinement | None = None

    def size_of(self, position: int) -> Size | None:
        return self.sizes[position] if position < len(self.sizes) else None


class Mismatch(Exception):
    """Two terms that cannot be equal, and why."""

    def __init__(self, found: Term, wanted: Term, why: Why = DIFFERENT) -> None:
        self.found, self.wanted, self.why = found, wanted, why

    def swapped(self) -> Mismatch:
        """The same of what is wanted and what is found."""
        return Mismatch(self.wanted, self.found, self.why)


@dataclass(slots=True)
class Inference:
    """The state of the inference of one declaration group.

    progress: a variable was bound since the constraints were last tried. backwards: try constraints in the other
    order (the result must be the same). created: flexible variables, in order; opened: sizes known only at run time.
    """

    level: int = 0
    pending: list[Constraint] = field(default_factory=list)
    progress: bool = False
    created: list[Var] = field(default_factory=list)
    opened: list[SizeVar] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    reason: Reason | None = None
    backwards: bool = False

    def type_var(
        self, *, atomic: bool = False, classes: frozenset[str] = frozenset(), literal: str | None = None
    ) -> TypeVar:
        v = TypeVar(self.level, atomic=atomic, classes=classes, literal=literal)
        self.created.append(v)
        return v

    def size_var(self, origin: Note | None = None) -> SizeVar:
        v = SizeVar(self.level, origin=origin)
        self.created.append(v)
        return v

    def size(self, origin: Note | None = None) -> Size:
        return Size(Poly.of(self.size_var(origin)), origin)

    def row(self) -> Shape:
        v = RowVar(self.level)
        self.created.append(v)
        return Shape((), v)

    def open_size(self, origin: Note) -> SizeVar:
        """A size that is known only when the program runs."""
        v = SizeVar(self.level, rigid=True, opened=True, origin=origin)
        self.opened.append(v)
        return v

    def defer(self, constraint: Constraint) -> None:
        self.pending.append(constraint)

    def report(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)
