"""A program as the interpreter runs it: each block is compiled once, to steps that bind what its lets give.

What depends on the program alone is decided when a step is made, by `interpreter.py`; a step runs for one point, or for
many at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dlang.host.errors import RunError
from dlang.ir.anf import Atom, Block, Let, Var
from dlang.ir.traverse import free_vars

if TYPE_CHECKING:
    from dlang.interpret.interpreter import Interpreter


class Failed(Exception):
    """A refusal at one of the points under evaluation."""

    def __init__(self, lane: int, error: RunError) -> None:
        super().__init__(error)
        self.lane = lane
        self.error = error


def at_point(error: RunError, n: int | None) -> Exception:
    """A refusal at the first of n points, or outside of comprehensions."""
    return error if n is None else Failed(0, error)


class Frame:
    """The variables of a call. n: how many points are under evaluation, None outside of comprehensions."""

    __slots__ = ("env", "n", "times")

    def __init__(self, env: dict[Var, Any], n: int | None) -> None:
        self.env = env
        self.n = n
        self.times = 1 if n is None else n


@dataclass(eq=False)
class Step(ABC):
    """An operation, compiled.

    operations: 1 if it takes one at each point, which whoever runs it counts, with the bytes that it moves. What else
    it takes, it counts itself when it runs.
    """

    let: Let
    operations: ClassVar[int] = 0

    @property
    def moved(self) -> int:
        return 0

    @abstractmethod
    def run(self, run: Interpreter, frame: Frame) -> None:
        """Evaluates the operation, and binds the variables of the let."""

    @cached_property
    def free(self) -> list[Var]:
        """The variables that the operation mentions."""
        return free_vars(self.let.op)


class PointStep(Step):
    """One that is evaluated for one point at a time inside of a comprehension."""

    def run(self, run: Interpreter, frame: Frame) -> None:
        values = self.values(run, frame) if frame.n is None else run.each_point(self, frame)
        for var, value in zip(self.let.vars, values, strict=True):
            frame.env[var] = value

    @abstractmethod
    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        """The values that the let binds, at one point."""


@dataclass(eq=False)
class Code:
    """A block, compiled. costs: the operations that its steps take at each point, by the names of their ops."""

    block: Block
    steps: list[Step]
    costs: list[tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.costs = list(Counter([type(s.let.op).__name__ for s in self.steps if s.operations]).items())

    @property
    def results(self) -> tuple[Atom, ...]:
        return self.block.results

    @cached_property
    def free(self) -> list[Var]:
        """The variables that the block mentions."""
        return free_vars(self.block)
