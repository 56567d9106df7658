"""The steps of branches, loops and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.interpret.code import Code, Failed, Frame, PointStep, Step
from dlang.ir import anf
from dlang.ir.values import merged, select, size_of, value_of

if TYPE_CHECKING:
    from dlang.interpret.interpreter import Interpreter


@dataclass(eq=False)
class If(Step):
    """A branch: where points differ, each arm runs for those that take it."""

    op: anf.If
    then: Code
    otherwise: Code

    def run(self, run: Interpreter, frame: Frame) -> None:
        condition = value_of(self.op.condition, frame.env)
        if type(condition) is not np.ndarray:
            results = run.block(self.then if condition else self.otherwise, frame)
        elif not condition.any():
            results = run.block(self.otherwise, frame)
        elif condition.all():
            results = run.block(self.then, frame)
        else:
            results = self._both(run, condition, frame)
        for var, value in zip(self.let.vars, results, strict=True):
            frame.env[var] = value

    def _both(self, run: Interpreter, condition: Any, frame: Frame) -> list[Any]:
        arms = []
        for code, taken in ((self.then, condition), (self.otherwise, ~condition)):
            lanes = np.flatnonzero(taken)
            env = {v: select(v, frame.env[v], lanes) for v in code.free}
            try:
                arms.append((lanes, run.block(code, Frame(env, len(lanes)))))
            except Failed as failed:
                raise Failed(int(lanes[failed.lane]), failed.error) from None
        return [
            merged([(lanes, values[k]) for lanes, values in arms], frame.times, var.type)
            for k, var in enumerate(self.let.vars)
        ]


def bounds(op: anf.For, env: dict[anf.Var, Any]) -> tuple[int, int]:
    """The first value of a loop's index, and the end. Raises OverflowError beyond an i64: refused, not run."""
    low, high = np.int64(size_of(op.low, env)), np.int64(size_of(op.high, env))
    return int(low), int(high)


def goes_on(op: anf.For | anf.While, results: list[Any]) -> bool:
    """Tells whether a loop goes on after its body gave results, which then are the state alone."""
    return not op.early or bool(results.pop(0))


@dataclass(eq=False)
class For(PointStep):
    op: anf.For
    body: Code

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, env = self.op, frame.env
        state = [value_of(a, env) for a in op.init]
        for i in range(*bounds(op, env)):
            run.poll()
            env[op.index] = np.int64(i)
            _bind(op.params, state, env)
            state = run.block(self.body, frame)
            if not goes_on(op, state):
                break
        return state


@dataclass(eq=False)
class While(PointStep):
    op: anf.While
    condition: Code
    body: Code

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, env = self.op, frame.env
        state = [value_of(a, env) for a in op.init]
        while True:
            run.poll()
            _bind(op.params, state, env)
            if not run.block(self.condition, frame)[0]:
                return state
            state = run.block(self.body, frame)
            if not goes_on(op, state):
                return state


def _bind(vars: Sequence[anf.Var], values: Sequence[Any], env: dict[anf.Var, Any]) -> None:
    for var, value in zip(vars, values, strict=True):
        env[var] = value


@dataclass(eq=False)
class Call(PointStep):
    op: anf.Call

    def run(self, run: Interpreter, frame: Frame) -> None:
        if frame.n is not None and self.op.function in run.recursive:
            results = run.each_point(self, frame)
        else:
            results = self.values(run, frame)
        for var, value in zip(self.let.vars, results, strict=True):
            frame.env[var] = value

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        return run.called(self.op.function, [value_of(a, frame.env) for a in self.op.args], self.let, frame.n)
