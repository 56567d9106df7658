"""Defines the state of both walks of a block: the builder of its code, and the derivatives found so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from dlang.ad import sums
from dlang.ad.conversions import Conversions
from dlang.ad.lasting import Lasting
from dlang.ad.rematerialise import Rematerialiser
from dlang.ad.signatures import Derivatives
from dlang.ad.summed import summed_arrays
from dlang.ad.tangent_types import retyped
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Array, Atom, Let, Scalar, Type, Var, fresh
from dlang.ir.builder import Builder
from dlang.ir.marks import TANGENT, is_mark
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import bound_vars
from dlang.ir.types import is_float


class NoParallelAdjoint(Exception):
    """The adjoint of a comprehension has no parallel form; it is differentiated as a loop instead."""


@dataclass(slots=True)
class Contribution:
    """g, to be added to the cotangent of `array` at `index` (of a scalar: at ()) at every point of a comprehension.

    conditional: the read stands in a branch; where it did not run, g is 0 and the index may be out of range.
    where: the conditions of the branches around, and whether they hold where it ran.
    """

    array: anf.Var
    index: tuple[anf.Size, ...]
    g: anf.Atom
    conditional: bool
    where: tuple[tuple[anf.Atom, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class ArmWithAdjoint:
    """An arm of a branch that computes its adjoint behind itself. cotangents: those that the branch gives."""

    forward: Sequence[anf.Let]
    adjoint: anf.Block
    cotangents: Sequence[anf.Var]


@dataclass(slots=True)
class Sink:
    """Collects contributions to arrays from outside a comprehension while its body is walked."""

    inside: set[anf.Var]  # what the body binds: everything else is outside
    wanted: list[Contribution] = field(default_factory=list)
    conditional: bool = False
    private: bool = False  # in a loop: its reads have no destination at a point


@dataclass(slots=True)
class Scope(ABC):
    """The backward walk of a block under way."""

    b: Builder
    active: set[anf.Var]
    known: Knowledge
    nodes: Conversions
    derivatives: Derivatives
    bars: dict[anf.Var, list[anf.Atom]] = field(default_factory=dict)
    again: list[Rematerialiser] = field(default_factory=list)  # what is computed again of all blocks so far
    sink: Sink | None = None
    segments: bool = False  # of a checkpointed function: its loops are taken apart
    parts: frozenset[anf.Var] = frozenset()  # the indices of loops that are parts already
    followed: bool = False  # the function has marks
    sizes: dict[anf.Var, anf.Size] = field(
        default_factory=dict
    )  # the i64 variables so far that are names of polynomials
    chosen: dict[anf.Var, tuple[anf.Atom, anf.Var, anf.Var]] = field(
        default_factory=dict
    )  # arrays that are one of two: see `choices`
    summed: set[anf.Var] = field(default_factory=set)  # arrays whose cotangents are sums: see `summed.py`
    in_loop: bool = False
    early: frozenset[anf.Atom] = frozenset()  # the cotangents of results that are known before the function runs
    arms: list[ArmWithAdjoint] = field(default_factory=list)  # all so far
    lasting: Lasting = field(default_factory=Lasting)  # the elements that stand when the loops around have ended
    cycle: frozenset[str] = frozenset()  # the function under way and those with which it calls itself, if it does
    fleeting: frozenset[anf.Var] = frozenset()  # arrays that the adjoint may not have whole: see `rematerialise.py`

    @abstractmethod
    def walk(self, lets: Sequence[anf.Let]) -> list[anf.Let]:
        """Emits the adjoints of lets, last first; gives the lets of the forward pass."""

    def inner(self, sink: Sink | None) -> Scope:
        """A scope for a nested block, which starts without cotangents."""
        return replace(self, bars={}, sink=sink)

    @property
    def repeated(self) -> bool:
        """Tells whether what is walked is known to run many times: in a loop, or in a function that calls itself."""
        return self.in_loop or bool(self.cycle)

    def is_active(self, atom: anf.Atom | None) -> bool:
        return isinstance(atom, anf.Var) and atom in self.active

    # ---- cotangents
    def add(self, atom: anf.Atom, g: anf.Atom | None) -> None:
        """Adds a contribution to the cotangent of a whole value; its sizes may be written in another way."""
        if g is None or not isinstance(atom, anf.Var) or atom not in self.active:
            return
        if self.sink is not None and isinstance(atom.type, anf.Array) and atom not in self.sink.inside:
            raise NoParallelAdjoint
        if atom in self.summed and isinstance(g, Var) and isinstance(g.type, Array):
            self.add_box(atom, g)
            return
        have = self.bars.setdefault(atom, [])
        if isinstance(atom.type, Array) and atom not in self.summed and self.nodes.is_sum(g.type):
            have[:] = [self._with_sum(atom.type, have, g)]
            return
        g = retyped(self.b, g, self.bar_type(atom))
        if have and not isinstance(g.type, Array):
            have[:] = [self.nodes.plus(self.b, have[0], g)]
        else:
            have.append(g)

    def add_box(self, array: Var, g: Var, low: Sequence[anf.Size] | None = None) -> None:
        """Adds an array to elements of one whose cotangent is a sum: to those from an index on, or to all."""
        self.bars[array] = [sums.with_box(self.b, self.nodes, self.take(array), g, low)]

    def _with_sum(self, type: Array, have: Sequence[Atom], total: Atom) -> Atom:
        """The cotangent of an array of a type, with a sum added to what it is so far."""
        if not have:
            bar = self.nodes.type(type)
            assert isinstance(bar, Array)
            return sums.array_of(self.b, self.nodes, total, bar)
        before = self.total(have)
        assert isinstance(before, Var)
        return sums.added(self.b, self.nodes, total, before)

    def add_read(self, array: anf.Var, index: tuple[anf.Size, ...], g: anf.Atom) -> None:
        """Adds a contribution to the cotangent of one element: x̄[i] += g, in place."""
        if array not in self.active:
            return
        if self.sink is not None and array not in self.sink.inside:
            if self.sink.private or not is_float(array.type):  # nodes are summed by calls, one after another
                raise NoParallelAdjoint
            self.sink.wanted.append(Contribution(array, index, g, self.sink.conditional))
            return
        if array in self.chosen and not self.bars.get(array):
            self._add_chosen(*self.chosen[array], index, g)
            return
        if array in self.summed:
            self.bars[array] = [sums.with_element(self.b, self.nodes, self.take(array), index, g)]
            return
        bar = self.take(array)
        assert isinstance(bar, anf.Var)
        total = self.nodes.plus(self.b, self.b.one(anf.Read(bar, index)), g)
        self.bars[array] = [self.b.update(bar, index, total)]

    def note_summed(self, lets: Sequence[anf.Let]) -> None:
        """Notes the arrays of lets, nested ones included, whose cotangents are sums."""
        self.summed |= summed_arrays(lets, self.active, self.known, self.summed, self.repeated)

    def choices(self, let: anf.Let) -> None:
        """Notes the arrays that a branch only chooses: an element of one of these is one of the array chosen."""
        if isinstance(let.op, anf.If):
            inside = set(bound_vars(let.op))
            for v, a, b in zip(let.vars, let.op.then.results, let.op.otherwise.results, strict=True):
                if (
                    isinstance(v.type, anf.Array)
                    and isinstance(a, anf.Var)
                    and isinstance(b, anf.Var)
                    and not {a, b} & inside
                ):
                    self.chosen[v] = let.op.condition, a, b

    def with_chosen(self, vars: Sequence[anf.Var]) -> list[anf.Var]:
        """The variables, each once, and the arrays that they may be: what adds to one of these may add to those."""
        out = dict.fromkeys(vars)
        waiting = list(out)
        while waiting:
            _, *arrays = self.chosen.get(waiting.pop(), (None,))
            new = [a for a in arrays if a not in out]
            out.update(dict.fromkeys(new))
            waiting += new
        return list(out)

    def _add_chosen(
        self, condition: anf.Atom, a: anf.Var, b: anf.Var, index: tuple[anf.Size, ...], g: anf.Atom
    ) -> None:
        """Adds to an element of the array that was chosen, whose cotangent needs no array of its own then."""
        outer = [v for v in dict.fromkeys((a, b)) if v in self.active]
        bars = {v: [self.take(v)] for v in outer}
        arms = []
        for v in (a, b):
            arm = replace(self, bars={v: list(bar) for v, bar in bars.items()})
            with self.b.scope() as lets:
                arm.add_read(v, index, g)
                results = tuple([arm.take(w) for w in outer])
            arms.append(anf.Block(tuple(lets), results))
        for v, bar in zip(outer, self.b.emit(anf.If(condition, arms[0], arms[1])), strict=True):
            self.add(v, bar)

    def pop(self, var: anf.Var) -> anf.Atom | None:
        """The cotangent of a value whose uses have all been walked; None is zero."""
        have = self.bars.pop(var, [])
        return self.total(have) if have else None

    def take(self, var: anf.Var) -> anf.Atom:
        """Removes and returns a cotangent like `pop`, but builds a zero."""
        g = self.pop(var)
        return self.zero(var) if g is None else g

    def take_array(self, array: Var) -> Var:
        """Removes and returns the cotangent of an array as an array; a sum stays, and zeros are to be added to it."""
        g = self.nodes.zero(self.b, array.type) if array in self.summed else self.take(array)
        assert isinstance(g, Var)
        return g

    def bar_type(self, var: Var) -> Type:
        """The type of the cotangent of a variable, here: of an array from a node a sum."""
        return self.nodes.sum_type(var.type) if var in self.summed else self.nodes.type(var.type)

    def zero(self, var: Var) -> Atom:
        """The zero of the cotangents of a variable."""
        return self.nodes.nothing(self.b, self.bar_type(var))

    def total(self, atoms: Sequence[anf.Atom]) -> anf.Atom:
        """The sum of scalars, or of arrays of one shape in a single pass."""
        if len(atoms) == 1:
            return atoms[0]
        if not isinstance(atoms[0].type, anf.Array):
            result = atoms[0]
            for a in atoms[1:]:
                result = self.nodes.plus(self.b, result, a)
            return result

        def body(*at: anf.Var) -> anf.Atom:
            index = tuple(anf.poly(v) for v in at)
            return self.total([self.b.one(anf.Read(a, index)) for a in atoms if isinstance(a, anf.Var)])

        return self.b.map(atoms[0].type.shape, body, name="bar")


def dummy(b: Builder, type: anf.Type) -> anf.Atom:
    """Some value of a type: 0, false, the empty text, or an array of these."""
    assert not isinstance(type, anf.Token)
    dtype = type.dtype
    value = 0.0 if dtype in anf.FLOATS else False if dtype == "bool" else "" if dtype == "str" else 0
    lit = anf.Lit(value, dtype)
    return b.full(type.shape, lit, name="zero") if isinstance(type, anf.Array) else lit


def numeric(type: anf.Type) -> bool:
    """Tells whether a type is of numbers, so that memory for it may hold anything before it is written."""
    return not isinstance(type, anf.Token) and type.dtype != "str" and not anf.is_handle(type.dtype)


def copied(active: set[anf.Var], lets: Sequence[anf.Let], renaming: Renaming) -> list[anf.Let]:
    """Fresh copies of lets without their checks, which the forward pass has made; activity is carried over.

    Marks are kept.
    """
    out = []
    for let in lets:
        if (
            isinstance(let.op, anf.Assert)
            and not is_mark(let.op)
            and all(v.type == s.type for v, s in zip(let.vars, let.op.guarded, strict=True))
        ):
            for v, s in zip(let.vars, let.op.guarded, strict=True):
                renaming.env[v] = renaming.atom(s)
            continue
        out.append(renaming.let(let))
    carry(active, renaming)
    return out


def carry(active: set[anf.Var], renaming: Renaming) -> None:
    """Marks as active the variables that stand for active ones."""
    active.update(new for old, new in renaming.env.items() if old in active and isinstance(new, anf.Var))


def spanned(scope: Scope, span: Span | None) -> None:
    """Sets the span of the operations that are emitted next."""
    if span is not None:
        scope.b.span = span


# ---- forward ---------------------------------------------------------------------------------------------------------
# Defines the state of the forward walk of a function: the builder of its code, and the tangents found so far.
#
# A variable without a tangent has the tangent zero, which is built only where a value must exist. Variables are bound
# once, so one table serves all blocks of a function.


class DualFunctions(Protocol):
    """The dual functions of a program."""

    def named(self, function: str, marks: tuple[bool, ...]) -> tuple[str, tuple[bool, ...]]:
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
