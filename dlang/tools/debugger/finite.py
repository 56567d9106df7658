"""Finds operations that make a NaN or an infinity of finite numbers, and products of derivatives that are 0 by rule.

In a backward pass a local derivative may be infinite where it does not count: `zero_safe_mul(c, d)`, which is 0 where
the cotangent c is 0, takes care of that. So what only serves as the second operand of a guard is not looked at, but
whether the guard's result is finite where the cotangent is. These products, 0 times what is not finite, can be looked
for too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Any

import numpy as np

from dlang.host.errors import RunError
from dlang.identity import ByIdentity
from dlang.interpret.code import Code, Failed, Frame, Step
from dlang.interpret.interpreter import Interpreter, World
from dlang.ir import anf
from dlang.ir.anf import FLOATS, Atom, Block, Let, Program, Scalar, Token, Var
from dlang.ir.traverse import free_vars, parts, walk
from dlang.ir.values import Rows, Version, value_of


class Sought(Enum):
    """The kinds of operations to look for: those that make what is not finite of what is, or 0 of 0 and that."""

    NOT_FINITE = "not finite"
    DROPPED = "dropped"


_GUARDS = ("zero_safe_mul", "zero_safe_mul_both")
_MAKERS = (anf.Prim, anf.Cast, anf.Comp, anf.Scan, anf.Contract, anf.LinalgOp, anf.Foreign)
Env = Mapping[Var, Any]


def factors(block: Block) -> frozenset[Var]:
    """The variables of a block that only serve as the second operand of a guard, or as a choice of a selection."""
    good: set[Var] = set()
    bad: set[Var] = {a for a in block.results if isinstance(a, Var)}
    for let in reversed(block.lets):
        op = let.op
        if not isinstance(op, anf.Prim | anf.Cast):
            bad.update(free_vars(op))
            continue
        args = op.args if isinstance(op, anf.Prim) else (op.arg,)
        passes = let.vars[0] in good and let.vars[0] not in bad
        for k, a in enumerate(args):
            if isinstance(a, Var):
                name = op.name if isinstance(op, anf.Prim) else ""
                chosen = (name in ("zero_safe_mul", "select") and k > 0) or name == "zero_safe_mul_both"
                (good if passes or chosen else bad).add(a)
    return frozenset(good - bad)


def inputs(let: Let, excused: frozenset[Var]) -> list[Var]:
    """The floats that an operation is given, but those that need not be finite."""
    op = let.op
    given: list[Atom] = list(free_vars(op)) if isinstance(op, anf.Comp) else list(parts(op).atoms)
    return [a for a in given if isinstance(a, Var) and is_float(a) and a not in excused]


def is_float(var: Var) -> bool:
    return not isinstance(var.type, Token) and var.type.dtype in FLOATS


def is_finite(value: Any) -> bool:
    """Tells whether a scalar, or each element of an array, is finite."""
    if type(value) is Version:
        value = value.read()
    if isinstance(value, np.ndarray):
        return bool(np.isfinite(value).all())
    return isfinite(value)


def holds_guards(op: anf.Comp) -> bool:
    """Tells whether there is a product in a comprehension for which the convention is made."""
    return any(isinstance(let.op, anf.Prim) and let.op.name in _GUARDS for let in walk(op.body))


@dataclass(slots=True)
class Finder:
    """Looks at operations that have run. `interpreter` runs comprehensions again that are in doubt."""

    interpreter: Searching

    def found(self, sought: Sought, step: Step, block: Block, env: Env) -> bool:
        """Tells whether an operation of a block that has just run is one that is looked for."""
        if sought is Sought.NOT_FINITE:
            return self._made(step, block, env)
        match step.let.op:
            case anf.Prim(name, (x, y)) if name in _GUARDS:
                return bool(_dropped(name, value_of(x, env), value_of(y, env), 1).any())
            case anf.Comp() as op if holds_guards(op):
                return self.interpreter.finds(sought, step, env)
        return False

    def _made(self, step: Step, block: Block, env: Env) -> bool:
        """Tells whether it made what is not finite of what was."""
        let = step.let
        if not isinstance(let.op, _MAKERS):
            return False
        if all(is_finite(env[v]) for v in let.vars if is_float(v)):
            return False
        excused = self.interpreter.excused(block)
        if let.vars[0] in excused:
            return False
        if all(is_finite(env[a]) for a in inputs(let, excused)):
            return True
        return isinstance(let.op, anf.Comp) and self.interpreter.finds(Sought.NOT_FINITE, step, env)


class Found(RunError):
    """Raised to stop the search."""


class Searching(Interpreter):
    """An interpreter that stops at the first operation that is looked for, at any point."""

    def __init__(self, program: Program, host: World | None = None) -> None:
        super().__init__(program, host)
        self._sought = Sought.NOT_FINITE
        self._known: ByIdentity[Block, frozenset[Var]] = ByIdentity()

    def excused(self, block: Block) -> frozenset[Var]:
        known = self._known.get(block)
        if known is None:
            known = self._known[block] = factors(block)
        return known

    def finds(self, sought: Sought, step: Step, env: Env) -> bool:
        """Tells whether a comprehension computes a value that is sought."""
        self._sought = sought
        try:
            step.run(self, Frame(dict(env), None))
        except Found:
            return True
        except RunError:
            return False
        return False

    def block(self, code: Code, frame: Frame) -> list[Any]:
        for step in code.steps:
            try:
                step.run(self, frame)
            except (MemoryError, OverflowError):
                raise self.exhausted(step, frame) from None
            if self._sought is Sought.DROPPED:
                self._look_for_zero(step.let, frame)
            elif isinstance(step.let.op, _MAKERS):
                self._look(step.let, code.block, frame)
        return [value_of(r, frame.env) for r in code.results]

    def _look(self, let: Let, block: Block, frame: Frame) -> None:
        bad = np.zeros(frame.times, bool)
        for var in let.vars:
            if is_float(var):
                bad |= ~_finite(var, frame.env[var], frame.times)
        if not bad.any() or let.vars[0] in self.excused(block):
            return
        for a in inputs(let, self.excused(block)):
            bad &= _finite(a, frame.env[a], frame.times)
        _stop(bad, frame)

    def _look_for_zero(self, let: Let, frame: Frame) -> None:
        match let.op:
            case anf.Prim(name, (x, y)) if name in _GUARDS:
                _stop(_dropped(name, value_of(x, frame.env), value_of(y, frame.env), frame.times), frame)


def _stop(where: Any, frame: Frame) -> None:
    """Ends the search if it holds at a point."""
    if where.any():
        error = Found("", "")
        raise error if frame.n is None else Failed(int(np.flatnonzero(where)[0]), error)


def _dropped(name: str, x: Any, y: Any, n: int) -> Any:
    """At which of n points a guarded product is 0 although a factor is not finite."""
    dropped = (np.asarray(x) == 0) & ~np.isfinite(y)
    if name == "zero_safe_mul_both":
        dropped |= (np.asarray(y) == 0) & ~np.isfinite(x)
    return np.broadcast_to(dropped, (n,)) if np.ndim(dropped) == 0 else dropped


def _finite(var: Var, value: Any, n: int) -> Any:
    """At which of n points the value of a variable is finite."""
    if type(value) is np.ndarray and isinstance(var.type, Scalar):
        return np.isfinite(value)
    if type(value) is Rows:
        return np.full(n, bool(np.isfinite(value.data).all()))
    return np.full(n, is_finite(value))
