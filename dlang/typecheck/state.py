"""The state of inference: the level, the constraints that wait, the variables that may have to be defaulted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


@dataclass(eq=False, slots=True)
class Waiting:
    """A constraint that waits. level: of the innermost variables that it may mention; place: in the order of
    constraints, where what follows from one stands in its place; number: in the order in which they came to wait;
    watched: the variables of which it is told; woken: it is to be tried again.
    """

    constraint: Constraint
    level: int
    place: int
    number: int
    watched: set[Var] = field(default_factory=set)
    woken: bool = False


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

    waiting: constraints by level; woken: those of which a variable has changed since they were tried; watching: those
    that are told of a change of a variable. backwards: try constraints in the other order (the result must be the
    same). created: flexible variables by the level at which they were made; opened: sizes known only at run time.
    tried: the waiting constraint for which something is done; latest: the one that came last to wait.
    """

    level: int = 0
    waiting: dict[int, dict[Waiting, None]] = field(default_factory=dict)
    woken: list[Waiting] = field(default_factory=list)
    watching: dict[Var, list[Waiting]] = field(default_factory=dict)
    created: dict[int, list[Var]] = field(default_factory=dict)
    opened: list[SizeVar] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    reason: Reason | None = None
    backwards: bool = False
    tried: Waiting | None = None
    came: int = 0
    latest: Waiting | None = None

    @property
    def depth(self) -> int:
        """The level of new variables and constraints."""
        return self.level if self.tried is None else max(self.level, self.tried.level)

    def type_var(
        self, *, atomic: bool = False, classes: frozenset[str] = frozenset(), literal: str | None = None
    ) -> TypeVar:
        v = TypeVar(self.depth, atomic=atomic, classes=classes, literal=literal)
        self.made(v)
        return v

    def size_var(self, origin: Note | None = None) -> SizeVar:
        v = SizeVar(self.depth, origin=origin)
        self.made(v)
        return v

    def size(self, origin: Note | None = None) -> Size:
        return Size(Poly.of(self.size_var(origin)), origin)

    def row(self) -> Shape:
        v = RowVar(self.depth)
        self.made(v)
        return Shape((), v)

    def made(self, v: Var) -> None:
        """Notes a flexible variable, which gets a default if nothing decides it."""
        self.created.setdefault(v.level, []).append(v)

    def open_size(self, origin: Note) -> SizeVar:
        """A size that is known only when the program runs."""
        v = SizeVar(self.level, rigid=True, opened=True, origin=origin)
        self.opened.append(v)
        return v

    # ---- constraints that wait ---------------------------------------------------------------------------------------
    def defer(self, constraint: Constraint) -> None:
        """Lets a constraint wait until it is tried with the others."""
        self.wake(self.wait(constraint))

    def wait(self, constraint: Constraint) -> Waiting:
        """Lets a constraint wait until something wakes it."""
        self.came += 1
        place = self.came if self.tried is None else self.tried.place
        self.latest = w = Waiting(constraint, self.depth, place, self.came)
        self.keep(w)
        return w

    def keep(self, w: Waiting) -> None:
        self.waiting.setdefault(w.level, {})[w] = None

    def retract(self, kind: str, since: int) -> bool:
        """Forgets what came last to wait if it is of a kind and more have come since; tells whether it did."""
        w = self.latest
        if w is None or w.number <= since or w.constraint.kind != kind:
            return False
        self.discharge(w)
        if self.woken and self.woken[-1] is w:
            self.woken.pop()
        return True

    def waits(self, w: Waiting) -> bool:
        return w in self.waiting.get(w.level, ())

    def discharge(self, w: Waiting) -> None:
        """Forgets a constraint that waited."""
        self.waiting.get(w.level, {}).pop(w, None)

    def pending(self) -> list[Waiting]:
        """All that waits, in order."""
        return in_order(w for level in self.waiting.values() for w in level)

    def around(self, v: Var) -> Iterator[Constraint]:
        """The constraints that may wait for a variable."""
        return (w.constraint for w in (*self.watching.get(v, ()), *self.woken) if self.waits(w))

    def wait_only_for(self, pending: list[Waiting]) -> None:
        """Lets these constraints wait, and no others; those that were discharged are tried again."""
        discharged = [w for w in pending if not self.waits(w)]
        self.waiting = {}
        for w in pending:
            self.keep(w)
        for w in discharged:
            self.wake(w)

    def wake(self, w: Waiting) -> None:
        if not w.woken:
            w.woken = True
            self.woken.append(w)

    def changed(self, v: Var) -> None:
        """Wakes what waits for a variable, which was bound, or of which more is known now."""
        for w in self.watching.pop(v, ()):
            w.watched.discard(v)
            self.wake(w)

    def report(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)


def in_order(waiting: Iterable[Waiting]) -> list[Waiting]:
    return sorted(waiting, key=lambda w: (w.place, w.number))
