"""Which operation makes a NaN or an infinity of finite numbers.

In a backward pass a local derivative may be infinite where it does not count: `guard(c, d)`, which is 0 where the
cotangent c is 0, takes care of that. So what only serves as the second operand of a guard is not looked at, but whether
the guard's result is finite where the cotangent is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from dlang.ir import anf
from dlang.ir.anf import FLOATS, Atom, Block, Let, Program, Token, Var
from dlang.ir.interpreter import Interpreter, World
from dlang.ir.operations import Failed, Frame
from dlang.ir.traverse import free_vars, parts
from dlang.ir.values import Lanes, Rows, Version
from dlang.runtime.errors import RunError

_MAKERS = (anf.Prim, anf.Cast, anf.Comp, anf.Scan, anf.Contract, anf.Library, anf.Foreign)
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
                chosen = (name in ("guard", "select") and k > 0) or name == "guard_both"
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
    """Whether a scalar, or each element of an array, is finite."""
    if type(value) is Version:
        value = value.read()
    if isinstance(value, np.ndarray):
        return bool(np.isfinite(value).all())
    return isfinite(value)


@dataclass(slots=True)
class Finder:
    """Looks at operations that have run. `interpreter` runs comprehensions again that are in doubt."""

    interpreter: Searching

    def made(self, let: Let, block: Block, env: Env) -> bool:
        """Whether an operation of a block that has just run made what is not finite of what was."""
        if not isinstance(let.op, _MAKERS):
            return False
        if all(is_finite(env[v]) for v in let.vars if is_float(v)):
            return False
        excused = self.interpreter.excused(block)
        if let.vars[0] in excused:
            return False
        if all(is_finite(env[a]) for a in inputs(let, excused)):
            return True
        return isinstance(let.op, anf.Comp) and self.interpreter.finds(let, env)


class NotFinite(RunError):
    """What stops the search."""


class Searching(Interpreter):
    """An interpreter that stops at the first operation that makes what is not finite of what is, at any point."""

    def __init__(self, program: Program, host: World | None = None) -> None:
        super().__init__(program, host)
        self._known: dict[int, tuple[Block, frozenset[Var]]] = {}

    def excused(self, block: Block) -> frozenset[Var]:
        if id(block) not in self._known:
            self._known[id(block)] = block, factors(block)
        return self._known[id(block)][1]

    def finds(self, let: Let, env: Env) -> bool:
        """Whether there is one in a comprehension."""
        try:
            super()._block(Block((let,), ()), Frame(dict(env), None))
        except NotFinite:
            return True
        except RunError:
            return False
        return False

    def _block(self, block: Block, frame: Frame) -> list[Any]:
        for let in block.lets:
            super()._block(Block((let,), ()), frame)
            if isinstance(let.op, _MAKERS):
                self._look(let, block, frame)
        return super()._block(Block((), block.results), frame)

    def _look(self, let: Let, block: Block, frame: Frame) -> None:
        bad = np.zeros(frame.times, bool)
        for var in let.vars:
            if is_float(var):
                bad |= ~_finite(frame.env[var], frame.times)
        if not bad.any() or let.vars[0] in self.excused(block):
            return
        for a in inputs(let, self.excused(block)):
            bad &= _finite(frame.env[a], frame.times)
        if bad.any():
            error = NotFinite("", "")
            raise error if frame.n is None else Failed(int(np.flatnonzero(bad)[0]), error)


def _finite(value: Any, n: int) -> Any:
    """At which of n points a value is finite."""
    if type(value) is Lanes:
        return np.isfinite(value.data)
    if type(value) is Rows:
        return np.full(n, bool(np.isfinite(value.data).all()))
    return np.full(n, is_finite(value))
