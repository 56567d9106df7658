"""The first operation that is looked for, of those in `finite.py`, and what a person wants to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlang.tools.debugger.code import COMP, MARK, Instruction
from dlang.tools.debugger.debugger import Debugger
from dlang.tools.debugger.finite import Sought, is_finite, is_float
from dlang.tools.debugger.levels import Level
from dlang.tools.debugger.seen import Seen
from dlang.tools.debugger.state import State
from dlang.tools.debugger.timeline import Timeline

AHEAD = 20_000  # operations in which the variable is looked for whose cotangent it is


@dataclass(frozen=True, slots=True)
class Origin:
    """sought: what was looked for. instruction: the one, in the state `before` it. value: what it gave.

    cotangent: that of the variable it goes into, with what the variable is.
    """

    sought: Sought
    instruction: Instruction
    before: State
    value: Any
    backward: bool
    cotangent: tuple[Seen, Seen | None] | None


def first_found(d: Debugger, sought: Sought, steps: int) -> tuple[Origin, int] | None:
    """The first one after so many operations of the run, where the debugger is then; and how many operations end it."""
    timeline = d.root.timeline
    after = timeline.found(sought, steps)
    if after is None:
        return None
    d.selected, d.met = 0, []
    del d.levels[1:]
    _to(d.root, after)
    around: list[tuple[Timeline, int]] = [(timeline, after)]
    while True:
        timeline, end = around[-1]
        before = timeline.at(end - 1).copy()
        i = before.frame.code.instructions[before.frame.pc]
        found = _in_points(d, sought, before, i) if i.kind == COMP else None
        if found is None:
            break
        level, inside = found
        around.append((level.timeline, inside))
        if i.enters and len(d.levels) == len(around) - 1:
            d.top.passed = end - 1
            d.levels.append(level)
    s = timeline.at(end)
    given = [s.frame.env[v] for v in i.let.vars if is_float(v)]
    value = next((x for x in given if sought is Sought.DROPPED or not is_finite(x)), None)
    backward = before.frame.backward(i.spot.via) if i.spot is not None else bool(before.frame.passes)
    origin = Origin(sought, i, before, value, backward, _cotangent(d, sought, around) if backward else None)
    return origin, after


def _to(level: Level, after: int) -> None:
    """At the statement of which an operation is one."""
    level.moment = level.timeline.last_before(after - 1)
    level.over = False
    level.passed = level.timeline.log.steps[level.moment] if level.moment >= 0 else 0


def _in_points(d: Debugger, sought: Sought, before: State, i: Instruction) -> tuple[Level, int] | None:
    """The first point of a comprehension in which there is one; None if it is in what reduces the points."""
    indices = d.machine.points(before, i)
    for k, index in enumerate(indices):
        timeline = Timeline(d.machine, d.machine.element(before, i, index), d.memory)
        after = timeline.found(sought, 0)
        if after is not None:
            level = Level(timeline, entered=(before.steps, i), indices=indices, point=k)
            _to(level, after)
            return level, after
    return None


def _cotangent(d: Debugger, sought: Sought, around: list[tuple[Timeline, int]]) -> tuple[Seen, Seen | None] | None:
    """The variable whose cotangent is the first from there on, or the first that is not finite."""
    for timeline, after in reversed(around):
        s = timeline.at(after).copy()
        for _ in range(AHEAD):
            frame = s.frame
            i = frame.code.instructions[frame.pc] if frame.pc < len(frame.code.instructions) else None
            try:
                timeline.again(s, s.steps + 1)
            except Exception:
                break
            if i is not None and i.kind == MARK and i.mark is not None and i.mark.is_backward:
                seen = frame.fresh[-1] if frame.fresh else None
                if seen is not None and (sought is Sought.DROPPED or not all(map(is_finite, seen.values))):
                    values = frame.variables(frame.spot) if frame.spot is not None else []
                    return seen, next((x for x in reversed(values) if x.name.local is seen.name.local), None)
            if frame.base and frame.pc == len(frame.code.instructions) and frame.cell is None:
                break
    return None
