"""The interpreter with less to decide at each operation, for programs that are followed. Nothing is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlang.host.errors import RunError
from dlang.identity import ByIdentity
from dlang.interpret.interpreter import MEMORY_EXHAUSTED, Interpreter, World, evaluation
from dlang.interpret.operations import Frame
from dlang.ir import anf
from dlang.ir.anf import Block, Let, Program, Var
from dlang.ir.values import literal
from dlang.tools.debugger.flat import Flat, flat_of, is_silent
from dlang.tools.debugger.steps import Step, step_of

Evaluate = Callable[..., Any]  # as `evaluation` gives it


class Quick(Interpreter):
    """Gives what an interpreter gives."""

    def __init__(self, program: Program, host: World | None = None) -> None:
        super().__init__(program, host)
        self._blocks: ByIdentity[Block, list[tuple[Step | None, Let, bool, Evaluate]]] = ByIdentity()
        self._flat: ByIdentity[anf.Comp, Flat | None] = ByIdentity()

    def _block(self, block: Block, frame: Frame) -> list[Any]:
        if frame.n is not None:
            return super()._block(block, frame)
        known = self._blocks.get(block)
        if known is None:
            known = [(step_of(let), let, *operation(let.op)) for let in block.lets if not is_silent(let)]
            self._blocks[block] = known
        env = frame.env
        try:
            for step, let, several, evaluate in known:
                if step is not None:
                    step(env)
                elif several:
                    for var, value in zip(let.vars, evaluate(self, let.op, let, frame), strict=True):
                        env[var] = value
                else:
                    env[let.vars[0]] = evaluate(self, let.op, let, frame)
        except (MemoryError, OverflowError):
            raise RunError(MEMORY_EXHAUSTED, "the memory is exhausted", let.span) from None
        return [env[r] if isinstance(r, Var) else literal(r) for r in block.results]

    def comprehension(self, op: anf.Comp, let: Let, frame: Frame) -> list[Any]:
        """The results of a comprehension."""
        if self._interrupted:
            raise KeyboardInterrupt
        if frame.n is None:
            if op not in self._flat:
                self._flat[op] = flat_of(op, self.free(op))
            flat = self._flat[op]
            results = None if flat is None else flat.evaluate(self._block, self._sink, frame)
            if results is not None:
                return results
        return self._comp(op, let, frame)


def operation(op: anf.Op) -> tuple[bool, Evaluate]:
    """As `evaluation`, for a quick interpreter."""
    return (True, Quick.comprehension) if isinstance(op, anf.Comp) else evaluation(op)
