"""The step of a comprehension: its body is evaluated for many points at once, an operation for all of them.

A failed check is that of the first failing point in lexicographic order. `boxes.py` evaluates what is simple in a
quicker way.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlang.interpret import boxes
from dlang.interpret.code import Code, Failed, Frame, Step
from dlang.interpret.points import Batch, box_of, elements, points_of
from dlang.interpret.reduction import Sink
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Var
from dlang.ir.types import dtype_of
from dlang.ir.values import bound_of, extent_of, select, size_of

if TYPE_CHECKING:
    from dlang.interpret.interpreter import Interpreter

_POINTS_OF_BLOCKS = 1 << 16  # in a body with nested blocks or calls


@dataclass(eq=False)
class Comp(Step):
    """names: the axes, with their numbers. crowded: whether the body has nested blocks or calls. boxed: the quicker
    way, if it is simple.
    """

    op: anf.Comp
    body: Code
    names: Mapping[Var, int]
    crowded: bool
    boxed: boxes.Boxed | None

    def run(self, run: Interpreter, frame: Frame) -> None:
        run.poll()
        results = None
        if self.boxed is not None and frame.n is None:
            results = self.boxed.results(self, run, frame)
        if results is None:
            results = self._results(run, frame)
        for var, value in zip(self.let.vars, results, strict=True):
            frame.env[var] = value

    def _results(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, env = self.op, frame.env
        axes = op.axes
        box = box_of(axes, env)
        if frame.n is not None:
            low, end = 0, frame.n
        elif axes:
            low = max(bound_of(s, env) for s in axes[0].lows)
            end = min(bound_of(s, env) for s in axes[0].highs)
        else:
            low, end = 0, 1
        sinks: list[Sink] = []
        for d, value in zip(op.destinations, op.body.results, strict=True):
            sinks.append(self.sink(d, value, run, frame))
            if d.into is not None and sinks[-1].copied:
                run.replaced(env[d.into], sinks[-1].data)
            if isinstance(d, anf.Reduce) and d.after is not None:
                sinks[-1].goes_on(sinks[d.after])
        limit = min(run.algebra.most, _POINTS_OF_BLOCKS) if self.crowded else run.algebra.most
        if frame.n is None and any(s.arg and 0 in s.reduced for s in sinks):
            limit = sys.maxsize  # positions from different batches do not combine
        step = max(end - low, 1)
        whole = True
        while low < end:
            run.poll()
            stop = min(low + step, end)
            made = points_of(axes, env, frame.n is None, low, stop, box, limit)
            if made is None:
                step = (step + 1) // 2
                whole = False
                continue
            batch, values = made
            if batch.n:
                inner = {v: env[v] for v in self.free}
                if batch.parent is not None:
                    inner = {v: select(v, value, batch.parent) for v, value in inner.items()}
                inner.update(values)
                self._fill(run, batch, Frame(inner, batch.n), sinks, whole or frame.n is not None)
            low = stop
        run.count(self.let, sum(s.written for s in sinks), sum(s.moved for s in sinks))
        run.passed(frame, [s.data for s in sinks if s.fresh and s.shape])
        return [s.result() for s in sinks]

    def _fill(self, run: Interpreter, batch: Batch, frame: Frame, sinks: Sequence[Sink], whole: bool) -> None:
        try:
            results = self._first_failing(run, frame)
        except Failed as failed:
            if batch.parent is None:
                raise failed.error from failed.error.__cause__
            raise Failed(int(batch.parent[failed.lane]), failed.error) from None
        for sink, destination, value in zip(sinks, self.op.destinations, results, strict=True):
            apart = bool(self.names and 0 not in sink.reduced and not sink.by_data and not sink.scatter)
            index = [size_of(i, frame.env) for i in destination.index]
            if sink.row:
                sink.accumulate(*elements(batch, value, index, len(sink.shape)), whole or apart)
            else:
                sink.accumulate(batch, value, index, whole or apart)

    def _first_failing(self, run: Interpreter, frame: Frame) -> list[Any]:
        """The body at all points; of several failing points the first one's refusal."""
        start = dict(frame.env)
        try:
            return run.block(self.body, frame)
        except Failed as error:
            failed = error
        while failed.lane:  # an earlier point may fail at a later operation
            before = slice(0, failed.lane)
            try:
                run.block(self.body, Frame({v: select(v, x, before) for v, x in start.items()}, failed.lane))
                break
            except Failed as error:
                failed = error
        raise failed

    def sink(self, destination: anf.Destination, value: Atom, run: Interpreter, frame: Frame) -> Sink:
        """A destination, before the first point."""
        names, env = self.names, frame.env
        mentioned = {v for entry in destination.index for v in entry.atoms()}
        row = len(value.type.shape) if isinstance(value.type, Array) else 0
        return Sink(
            destination,
            dtype_of(value),
            [extent_of(s, env) for s in destination.shape],
            frame.n,
            None if destination.into is None else env[destination.into],
            len(names) + row,
            [*(names[v] for v in mentioned if v in names), *range(len(names), len(names) + row)],
            any(v not in names and v not in env for v in mentioned),
            row,
            run.algebra,
        )
