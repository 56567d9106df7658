"""Describes a position to a person: the statement, the variables, the calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dlang.diagnostics import Source, render
from dlang.driver import failure
from dlang.host.errors import RunError
from dlang.ir import anf
from dlang.ir.anf import Lit
from dlang.ir.traverse import parts
from dlang.ir.values import value_of
from dlang.specialize.values import FnV
from dlang.tools.debugger.code import COMP, ELEMENT, MARK, Instruction, Place, Spot
from dlang.tools.debugger.debugger import Change, Debugger, View, Watched
from dlang.tools.debugger.finite import Sought, is_finite, is_float
from dlang.tools.debugger.machine import Seen, State
from dlang.tools.debugger.timeline import Level, Timeline, Why
from dlang.tools.debugger.values import LONG, called, cotangent, leaf, leaves_of, shown, tangents, type_text, written

MOST = 10  # calls that `where` shows at each end
ENDED = ["the program has ended", "`back` goes to its last statement"]
AROUND = 5  # lines that `list` shows on each side


def number(d: Debugger) -> str:
    """The position as one writes it: `#12`, and inside of comprehensions `#12[3].1`."""
    out = f"#{max(d.root.moment, 0)}"
    for level in d.levels[1:]:
        out += f"[{index_of(level)}]" + (f".{level.moment}" if level.moment > 0 else "")
    return out


def index_of(level: Level) -> str:
    return ", ".join([str(x) for _, x in level.index(level.point)])


def position(d: Debugger) -> list[str]:
    """Describes the position: a heading, and the line."""
    if d.at_end:
        return ENDED[:1]
    view = d.view
    spot = view.spot
    if spot is None:
        return [f"{number(d)}  before the first statement"]
    iterations = view.frame.iterations if d.selected == 0 else ()
    more = [f"iteration {', '.join([iteration(t) for t in iterations])}"] if iterations else []
    if len(d.levels) > 1 and d.selected == 0:
        more += ["element " + ", ".join(elements(d))]
    more += view.mode
    out = [f"{number(d)}  {place(spot)}" + (f"  ({'; '.join(more)})" if more else "")]
    out.append(line(spot.place.source, spot.place.line, "▸"))
    if d.selected == 0 and not d.top.over:
        # One result may be that of two calls.
        out += dict.fromkeys([f"     {derivative(s, d)}" for s in view.frame.fresh])
        if not view.backward:
            names = mentioned(spot.place, d)
            known = [t for name, s in d.seen(view).items() if name in names for t in s.tangents]
            out += [f"     {derivative(t, d)}" for t in known]
    return out


def mentioned(p: Place, d: Debugger) -> set[str]:
    """The names in a statement; of one with others inside, in what is before these."""
    inside = [x.start for x in d.machine.library.sources.of(p.source).places if x.parent is p and x.kind != ELEMENT]
    return names_in(p.source.text[p.start : min(inside, default=p.end)])


def names_in(code: str) -> set[str]:
    return set(re.findall(r"[^\W\d][\w']*", code))


def iteration(number: int) -> str:
    """The number of an iteration. Of a loop that runs backward one may only know where it ends."""
    return str(number) if number >= 0 else "last" if number == -1 else f"{-number - 1} before the last"


def elements(d: Debugger) -> Iterator[str]:
    for level in d.levels[1:]:
        named = level.entered[1].named if level.entered is not None else ()
        for var, x in level.index(level.point):
            yield f"{var.name} = {x}" if var in named else str(x)


def place(spot: Spot) -> str:
    p = spot.place
    return f"{Path(p.source.path).name}:{p.line} in {p.function}"


def file(p: Place) -> str:
    return Path(p.source.path).name


def line(source: Source, n: int, mark: str = " ") -> str:
    return f"{n:4} {mark} {source.line(n)}"


def derivative(s: Seen, d: Debugger, brief: bool = True) -> str:
    """A cotangent, or a tangent, with its tangents."""
    return f"{derivative_of(s)} = {cotangent(s, d.trees, brief)}{tangents(s, d.trees, brief)}"


def derivative_of(s: Seen) -> str:
    """How a cotangent or a tangent is called: with the line where its variable got its value."""
    name = "the result" if s.name.is_result else f"`{s.name.text}`"
    where = f" (line {s.name.span.line})" if s.name.span is not None else ""
    return f"{called(s.kinds)} of {name}{where}"


def stop(d: Debugger, why: Why) -> list[str]:
    """Reports why a movement has ended."""
    out: list[str] = []
    for met in d.met:
        match met:
            case Change(watch, before, now):
                out.append(f"watch {watch.number}: `{watch.expression}` {changed(before, now)}")
            case b:
                if not b.once:
                    out.append(f"breakpoint {b.number}" + (f", if {b.condition}" if b.condition else ""))
                    if b.problem:
                        out.append(f"     this cannot be evaluated here: {b.problem}")
    if why is Why.BEGINNING:
        out.append("this is the beginning")
    if why is Why.INTERRUPTED:
        out.append("interrupted")
    error = d.failure
    if error is not None:
        out += failed(error)
    out += position(d)
    for w in d.points.watches:
        value = d.watched(w)
        none = "no value here" if d.function == w.function else f"in {w.function}"
        out.append(f"     {w.expression} = {f'({none})' if value is None else value}")
    return out


def changed(before: Watched, now: Watched) -> str:
    """How a value differs from what it was before; of a large array, in which elements."""
    match before.leaves, now.leaves:
        case (np.ndarray() as a,), (np.ndarray() as b,) if a.shape == b.shape and a.dtype == b.dtype != object:
            if a.size > LONG or before.text == now.text:
                differs = (a != b) & ~((a != a) & (b != b))
                where = np.argwhere(differs)
                if len(where):
                    first = tuple(where[0])
                    more = f", and {len(where) - 1} more" if len(where) > 1 else ""
                    return f"at [{', '.join(map(str, first))}] was {leaf(a[first])}, is {leaf(b[first])}{more}"
    if before.text == now.text:
        return f"is {now.text}, and has changed where that does not show"
    return f"was {before.text}, is {now.text}"


def failed(e: RunError) -> list[str]:
    """Why the program fails. The place and the calls are shown as those of any stop."""
    (diagnostic,) = failure(e).diagnostics
    return ["the program fails here:", *render(replace(diagnostic, span=None, notes=())).splitlines()]


def listing(d: Debugger, around: int | None = None) -> list[str]:
    """The lines around the statement, or around another line."""
    view = d.view
    if view.spot is None:
        return ["there is no source here"]
    source, current = view.spot.place.source, view.spot.place.line
    centre = around if around is not None else current
    last = source.text.count("\n") + (not source.text.endswith("\n"))
    marked = {p.line for p in d.points.by_place if p.source.path == source.path}
    first = max(1, min(centre, last) - AROUND)
    numbers = range(first, min(last, first + 2 * AROUND) + 1)
    out = [line(source, n, "▸" if n == current else "●" if n in marked else " ") for n in numbers]
    beside = _beside(d, source)
    width = max([len(text) for n, text in zip(numbers, out, strict=True) if n in beside], default=0)
    return [f"{text:<{width}}   {beside[n]}" if n in beside else text for n, text in zip(numbers, out, strict=True)]


def _beside(d: Debugger, source: Source) -> dict[int, str]:
    """Describes the derivatives of the variables that are declared in the lines of a source."""
    by_line: dict[int, list[str]] = {}
    known = d.cotangents() if d.view.backward else [t for s in d.seen().values() for t in s.tangents]
    for s in known:
        span = s.name.span
        if span is not None and span.source.file.path == source.path and not s.name.is_result:
            text = f"{called(s.kinds)} of `{s.name.text}` = {cotangent(s, d.trees, brief=True)}"
            by_line.setdefault(span.line, []).append(text + tangents(s, d.trees, brief=True))
    return {n: ", ".join(texts) for n, texts in by_line.items()}


def variable(name: str, s: Seen, d: Debugger, brief: bool = False) -> str:
    value = shown(s, d.trees, brief)
    if isinstance(s.name.value, FnV):
        return f"{name}: {value}"
    kind = type_text(s.name.value, leaves_of(s))
    beside = tangents(s, d.trees, brief)
    if "\n" in value + beside:
        beside = "".join([f"\n{called(t.kinds)} of `{name}` = {cotangent(t, d.trees, brief)}" for t in s.tangents])
    start = f"{name}:" if kind and value.startswith(kind) else f"{name}{': ' + kind if kind else ''} ="
    return f"{start} {value}{beside}"


def code_of(s: Seen, d: Debugger) -> list[str]:
    """The lines in which a variable's value, which is a function, was written."""
    span = written(s.name.value, leaves_of(s), d.trees.functions)
    if span is None:
        return []
    return [line(span.source.file, span.line + n) for n in range(span.text.count("\n") + 1)]


def result(s: Seen, d: Debugger) -> str:
    return shown(s, d.trees) + tangents(s, d.trees)


def variables(d: Debugger) -> list[str]:
    """The variables in scope."""
    if d.at_end:
        return ENDED
    lines = [variable(name, s, d, brief=True) for name, s in d.seen().items()]
    if d.view.spot is not None and d.view.frame.forgot(d.view.spot):
        lines.append("there was no room to remember the variables here: `dlc debug --memory N` gives more")
    return lines or ["no variable has a value here"]


def cotangents(d: Debugger) -> list[str]:
    """The cotangents that are known."""
    if not d.view.backward:
        return ["this is no backward pass"]
    return [derivative(s, d) for s in d.cotangents()] or ["no cotangent is known yet"]


def tangents_known(d: Debugger) -> list[str]:
    """The tangents of the variables in scope."""
    if not d.view.forward:
        return ["there are no tangents here"]
    lines = [derivative(t, d) for s in d.seen().values() for t in s.tangents]
    return lines or ["no variable in scope has a tangent"]


def calls(d: Debugger) -> list[str]:
    """The chain of calls, innermost first."""
    if d.at_end:
        return ENDED
    views = list(d.views())
    out = [f"{'▸' if k == d.selected else ' '} {k}  {_call(view)}" for k, view in enumerate(views)]
    if len(out) > 2 * MOST:
        out[MOST:-MOST] = [f"  … {len(out) - 2 * MOST} calls"]
    return out or [d.view.label]


def _call(view: View) -> str:
    if view.spot is None:
        return view.label
    text = view.spot.place.source.line(view.spot.place.line).strip()
    mode = "; ".join(view.mode)
    return f"{place(view.spot)}{f'  ({mode})' if mode else ''}: {text}"


# ---- what is not finite ----------------------------------------------------------------------------------------------
def origin(o: Origin, d: Debugger) -> list[str]:
    """Describes the operation that made a NaN or an infinity, and its operands."""
    let, env = o.instruction.let, o.before.frame.env
    span, spot = let.span, o.instruction.spot
    dropped = o.sought is Sought.DROPPED
    worst = "0" if dropped else "nan" if bool(np.isnan(np.asarray(o.value, float)).any()) else "inf"
    where = f"{Path(span.source.file.path).name}:{span.line}" if span is not None else "code that nobody wrote"
    function = f" in {spot.place.function}" if spot is not None else ""
    code = " ".join(span.text.split()) if span is not None else ""
    out = []
    if o.backward:
        out.append(f"{worst} in the backward pass of `{code}` at {where}{function}")
    else:
        out.append(f"{worst} at {where}{function}: `{code}`")
    if span is not None:
        out.append(line(span.source.file, span.line, "▸"))
    match let.op:
        case anf.Prim("zero_safe_mul" | "zero_safe_mul_both", (g, derivative)):
            times = f"{leaf(value_of(g, env))} times the derivative {leaf(value_of(derivative, env))}"
            what = "cotangent" if o.backward else "tangent"
            out.append(f"     a {what} of {times} {'counts as' if dropped else 'gives'} {leaf(o.value)}")
        case anf.Comp():
            out.append("     its elements are finite, but not what they add up to")
        case anf.Prim(name):
            given = [leaf(value_of(a, env)) for a in parts(let.op).atoms]
            out.append(f"     {name}({', '.join(given)}) gives {leaf(o.value)}")
        case op:
            given = [leaf(value_of(a, env)) for a in parts(op).atoms if not isinstance(a, Lit)]
            out.append(f"     {type(op).__name__.lower()}({', '.join(given)}) gives {leaf(o.value)}")
    names = names_in(code)
    if o.cotangent is not None:
        seen, value = o.cotangent
        out.append(f"     it goes into the {derivative_of(seen)}" + _computed(seen))
        if value is not None and not seen.name.is_result:
            out.append(f"     {variable(seen.name.text, value, d)}")
            names.discard(seen.name.text)
    variables_before = d.seen(View(o.before.frame, spot, ""))
    out += [f"     {variable(n, s, d)}" for n, s in variables_before.items() if n in names]
    return out


def _computed(s: Seen) -> str:
    span = s.name.span
    return "" if span is None or s.name.is_result else f": {span.source.line(span.line).strip()}"


# ---- operations that are looked for ----------------------------------------------------------------------------------
# The first operation that is looked for, of those in `finite.py`, and what a person wants to know of it.

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
        in_points = _in_points(d, sought, before, i) if i.kind == COMP else None
        if in_points is None:
            break
        level, inside = in_points
        around.append((level.timeline, inside))
        if i.enters and len(d.levels) == len(around) - 1:
            d.top.passed = end - 1
            d.levels.append(level)
    s = timeline.at(end)
    given = [s.frame.env[v] for v in i.let.vars if is_float(v)]
    value = next((x for x in given if sought is Sought.DROPPED or not is_finite(x)), None)
    backward = before.frame.backward(i.spot.via) if i.spot is not None else bool(before.frame.passes)
    origin = Origin(sought, i, before, value, backward, _cotangent(sought, around) if backward else None)
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


def _cotangent(sought: Sought, around: list[tuple[Timeline, int]]) -> tuple[Seen, Seen | None] | None:
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
