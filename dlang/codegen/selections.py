"""Branches as selections: both arms are computed and one result of each chosen, so that a loop around can have lanes.

What an arm is made of must be total and cheap, and fail nowhere: neither checks nor accesses of memory, whose index may
be in range only where the arm is taken. An arm knows what earlier branches on its condition chose: results of these are
those of its own side, so it neither waits for the choice nor computes what was computed there once more.

A branch becomes a selection only where the arms cost less than the lanes, or doing without a branch that may go either
way, gain, even if the cheaper arm is always taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.loops import Body, Branch, Compute, Convert, Evaluate, For, Slot, Stmt, Value
from dlang.codegen.traverse import walk
from dlang.ir.anf import INTEGERS, Atom, Lit, Scalar, Var, is_reference
from dlang.ir.types import dtype_of
from dlang.ops.primitives import PARTIAL

Known = dict[Var, Atom]


def selected(stmts: Sequence[Stmt], inside: bool = False) -> tuple[Stmt, ...] | None:
    """The statements with selections in place of branches; None if there is no branch, or one has to stay.

    inside: of those in loops, too, whose iterations go one after another.
    """
    if not any(isinstance(s, Branch) for s in (walk(stmts) if inside else stmts)):
        return None
    chooser = _Chooser(inside)
    return tuple(chooser.out) if chooser.statements(stmts) else None


@dataclass(slots=True)
class _Chooser:
    """chosen: by a condition and the arm, what results of branches are there. computed: what is known, and by whom."""

    inside: bool
    out: list[Stmt] = field(default_factory=list)
    chosen: dict[tuple[Atom, bool], Known] = field(default_factory=dict)
    computed: dict[tuple[str, str, tuple[object, ...]], Var] = field(default_factory=dict)
    same: Known = field(default_factory=dict)

    def statement(self, stmt: Stmt, known: Known, arm: tuple[Atom, bool] | None) -> bool:
        """Emits a statement, of an arm or outside of any; whether that is possible."""
        match stmt:
            case Branch():
                return self.branch(stmt, known)
            case Compute(var, name, args):
                if arm is not None and not is_total(name, args):
                    return False
                self.compute(var, name, tuple([self.atom(a, known) for a in args]))
            case Convert(var, arg):
                if arm is not None and not is_number(var):
                    return False
                self.out.append(Convert(var, self.atom(arg, known)))
            case Evaluate():
                self.out.append(stmt)
            case For(body=body) if arm is None and self.inside:
                inside = _Chooser(True)
                if not inside.statements(body.stmts):
                    return False
                self.out.append(replace(stmt, body=Body(tuple(inside.out), body.results)))
            case _:
                if arm is not None:
                    return False
                self.out.append(stmt)
        return True

    def statements(self, stmts: Sequence[Stmt]) -> bool:
        """Emits statements outside of any arm; whether that is possible."""
        return all(self.statement(s, {}, None) for s in stmts)

    def branch(self, stmt: Branch, outside: Known) -> bool:
        if not all(isinstance(r, Var) and is_number(r) for r in stmt.results):
            return False
        condition = self.atom(stmt.condition, outside)
        sides: list[list[Atom]] = []
        for taken, body in ((True, stmt.then), (False, stmt.otherwise)):
            arm = condition, taken
            known = {**outside, **self.chosen.get(arm, {})}
            if not all(self.statement(s, known, arm) for s in body.stmts):
                return False
            sides.append([self.atom(_scalar(r), known) for r in body.results])
        for result, a, b in zip(stmt.results, *sides, strict=True):
            assert isinstance(result, Var)
            self.out.append(Compute(result, "select", (condition, a, b)))
            self.chosen.setdefault((condition, True), {})[result] = a
            self.chosen.setdefault((condition, False), {})[result] = b
        return True

    def compute(self, var: Var, name: str, args: tuple[Atom, ...]) -> None:
        key = name, dtype_of(var), tuple([_exactly(a) for a in args])
        before = self.computed.get(key)
        if before is None:
            self.computed[key] = var
            self.out.append(Compute(var, name, args))
        else:
            self.same[var] = before
            self.out.append(Convert(var, before))  # for what mentions the variable in a polynomial

    def atom(self, atom: Atom, known: Known) -> Atom:
        if isinstance(atom, Lit):
            return atom
        atom = known.get(atom, atom)
        return self.same.get(atom, atom) if isinstance(atom, Var) else atom


def _scalar(value: Value) -> Atom:
    assert isinstance(value, Var | Lit)
    return value


def is_number(slot: Slot) -> bool:
    """Tells whether a slot is a scalar of a number."""
    if not isinstance(slot, Var):
        return False
    assert isinstance(slot.type, Scalar)
    return not is_reference(slot.type.dtype)


def is_total(name: str, args: Sequence[Atom]) -> bool:
    """Tells whether an operation of an arm may run where the arm is not taken."""
    if any(is_reference(dtype_of(a)) for a in args):
        return False
    if name in PARTIAL and dtype_of(args[0]) in INTEGERS:
        return isinstance(args[1], Lit) and args[1].value not in (0, -1)
    return True


def _exactly(atom: Atom) -> object:
    """Returns a key for an atom, in which zeros of different signs differ."""
    return atom if isinstance(atom, Var) else (repr(atom.value), atom.dtype)
