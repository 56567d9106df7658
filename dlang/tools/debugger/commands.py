"""The debugger's commands: one row for each, and how they are read from a terminal or a pipe."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from types import FrameType
from typing import IO, TYPE_CHECKING

from dlang.diagnostics import DlangError, error, render, shown
from dlang.spelling import closest
from dlang.tools.debugger import showing
from dlang.tools.debugger.debugger import Debugger
from dlang.tools.debugger.expressions import WITHOUT
from dlang.tools.debugger.finite import Sought
from dlang.tools.debugger.showing import first_found
from dlang.tools.debugger.timeline import Why
from dlang.tools.report import coloured, painted

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer


UNKNOWN = "E0985"
Lines = list[str]


@dataclass(slots=True)
class Conversation:
    """A debugger and who talks to it. last: the command that an empty line repeats. searched: up to where for what.

    found: what of that there was.
    """

    debugger: Debugger
    last: str = ""
    over: bool = False
    searched: dict[Sought, int] = field(default_factory=dict)
    found: set[Sought] = field(default_factory=set)

    def say(self, text: str) -> Lines:
        """Does what a line says; what is to be shown. A mistake is shown too."""
        text = text.strip()
        if text.startswith("#"):
            return []
        text = text or self.last
        if not text:
            return []
        self.last = text
        word, _, argument = text.partition(" ")
        try:
            command = named(word)
            return command.function(self, argument.strip())
        except KeyboardInterrupt:
            self.debugger.machine.resume()
            return ["interrupted"]
        except DlangError as e:
            return [line for d in e.diagnostics for line in render(d).splitlines()]


@dataclass(frozen=True, slots=True)
class Command:
    """repeats: whether an empty line does it again."""

    names: tuple[str, ...]
    takes: str
    help: str
    function: Callable[[Conversation, str], Lines] = field(repr=False)


def named(word: str) -> Command:
    """The command of a name, or of an abbreviation that fits no other."""
    for c in COMMANDS:
        if word in c.names:
            return c
    fits = [c for c in COMMANDS if c.names[0].startswith(word)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        names = ", ".join(c.names[0] for c in fits)
        raise error(UNKNOWN, f"`{word}` may be {names}", None, help=("write more of it",))
    close = closest(word, [n for c in COMMANDS for n in c.names if len(n) > 2])
    help = f"did you mean `{close}`?" if close else "`help` lists the commands; `print EXPR` shows a value"
    raise error(UNKNOWN, f"there is no command `{word}`", None, help=(help,))


def wrong(command: str, takes: str) -> DlangError:
    return error(UNKNOWN, f"`{command}` takes {takes}", None, help=(f"`help {command}` says more",))


def count(text: str, command: str) -> int:
    if text and not text.isdigit():
        raise wrong(command, "a number of times, or nothing")
    return int(text or 1)


# ---- movements -------------------------------------------------------------------------------------------------------
def moves(command: str, move: Callable[[Debugger], Why], times: bool = True) -> Callable[[Conversation, str], Lines]:
    def function(c: Conversation, argument: str) -> Lines:
        d, why = c.debugger, Why.STEP
        if argument and not times:
            raise wrong(command, "nothing")
        for _ in range(count(argument, command)):
            why = move(d)
            if why is not Why.STEP:
                break
        return showing.stop(d, why)

    return function


def finish(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    depth = d.top.depth
    why = d.finish()
    out = showing.stop(d, why)
    returned = d.top.state().returned
    if why is Why.STEP and returned is not None and returned[0] == depth:
        for x in returned[1]:
            value = f"the {showing.derivative(x, d, brief=False)}" if x.kinds else showing.result(x, d)
            out.append(f"     it gave {value}")
    return out


def run_to(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    line = argument.removeprefix("to ").strip()
    if not line:
        raise wrong("run", "`to` and a line, FILE:LINE or a function")
    b = d.points.at(line, d.module, None, once=True)
    why = d.go_on()
    if b in d.points.breakpoints:
        d.points.delete(b.number)
    return showing.stop(d, why)


def goto(c: Conversation, argument: str) -> Lines:
    text = argument.removeprefix("#")
    if not text.isdigit():
        raise wrong("goto", "the number of a moment, as in `goto 12`")
    return showing.stop(c.debugger, c.debugger.goto(int(text)))


def element(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    numbers = re.findall(r"\d+", argument)
    if not numbers or re.sub(r"[\d,\s\[\]]", "", argument):
        raise wrong("element", "the index of a point, as in `element 3` or `element 1, 2`")
    if d.top.entered is None and not d.walk.enter_next():
        raise error(
            UNKNOWN, "no comprehension of this statement can be entered", None, help=("`next` to one that can",)
        )
    wanted = [int(n) for n in numbers]
    for k in range(len(d.top.indices)):
        if [x for _, x in d.top.index(k)] == wanted:
            d.selected, d.met = 0, []
            d.walk.to_point(k)
            return showing.stop(d, Why.STEP)
    last = [x for _, x in d.top.index(-1)]
    raise error(UNKNOWN, f"there is no element {wanted}", None, help=(f"the last one is {last}",))


def nan(c: Conversation, argument: str) -> Lines:
    """The first NaN or infinity; again, the next."""
    return _search(c, Sought.NOT_FINITE, "no NaN and no infinity is made")


def zero(c: Conversation, argument: str) -> Lines:
    """The first product in a derivative that is 0 by convention; again, the next."""
    return _search(c, Sought.DROPPED, "no product of a derivative is 0 times what is not finite")


def _search(c: Conversation, sought: Sought, nothing: str) -> Lines:
    d = c.debugger
    d.machine.resume()
    try:
        event = first_found(d, sought, c.searched.get(sought, 0))
    except KeyboardInterrupt:
        d.machine.resume()
        return ["interrupted", *showing.position(d)]
    if event is None:
        c.searched[sought] = 0
        error = d.root.timeline.failure
        return [
            nothing + (" from there on" if sought in c.found else ""),
            *(showing.failed(error) if error is not None else []),
        ]
    c.found.add(sought)
    origin, c.searched[sought] = event
    heading = showing.position(d)[:1]
    return [*showing.origin(origin, d), *heading]


# ---- breakpoints -----------------------------------------------------------------------------------------------------
def break_at(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    if not argument:
        return info(c, "break")
    where, _, condition = (part.strip() for part in argument.partition(" if "))
    if condition:
        d.expressions.check(condition)
    b = d.points.at(where, d.module, condition or None)
    lines = sorted({f"{showing.file(p)}:{p.line}" for p in b.places})
    return [f"breakpoint {b.number} at {', '.join(lines)}" + (f", if {condition}" if condition else "")]


def watch(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    if not argument:
        raise wrong("watch", "an expression")
    d.expressions.check(argument)
    value = d.value(argument) or evaluated(d, argument)
    w = d.points.watch(argument, d.function)
    return [f"watch {w.number}: {argument} = {value}"]


def delete(c: Conversation, argument: str) -> Lines:
    if argument and not argument.isdigit():
        raise wrong("delete", "the number of a breakpoint or a watch, or nothing for all")
    gone = c.debugger.points.delete(int(argument) if argument else None)
    if argument and not gone:
        raise error(UNKNOWN, f"there is no breakpoint or watch {argument}", None, help=("`info break` lists them",))
    return [f"{gone} deleted"]


def info(c: Conversation, argument: str) -> Lines:
    points = c.debugger.points
    out = []
    for b in points.breakpoints:
        condition = f" if {b.condition}" if b.condition else ""
        met = f", met {b.hits} time{'' if b.hits == 1 else 's'}" if b.hits else ""
        out.append(f"{b.number}  break {b.text}{condition}{met}")
    out += [f"{w.number}  watch {w.expression}" for w in points.watches]
    return out or ["no breakpoints and no watches"]


# ---- looking ---------------------------------------------------------------------------------------------------------
def print_value(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    if not argument:
        raise wrong("print", "an expression")
    seen = d.seen()
    if argument in seen:
        return [showing.variable(argument, seen[argument], d), *showing.code_of(seen[argument], d)]
    return [f"{argument} = {evaluated(d, argument)}"]


def evaluated(d: Debugger, expression: str) -> str:
    try:
        return d.expressions.text(expression, d.known(expression), d.module)
    except DlangError as e:
        if not d.at_end:
            raise
        raise DlangError([replace(x, help=(*x.help, ". ".join(showing.ENDED))) for x in e.diagnostics]) from None


def cotangent(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    if not d.view.backward:
        raise error(
            UNKNOWN, "this is no backward pass", None, help=("`step` into a gradient, and on to its lines again",)
        )
    cotangents = [s for s in d.cotangents() if s.name.text == argument]
    if cotangents:
        return [showing.derivative(s, d, brief=False) for s in cotangents]
    if argument not in d.seen():
        raise error(UNKNOWN, f"there is no variable `{argument}` here", None, help=("`grads` shows what is known",))
    return [f"the cotangent of `{argument}` is not known yet, or nothing depends on it"]


def tangent(c: Conversation, argument: str) -> Lines:
    d = c.debugger
    if not d.view.forward:
        raise error(UNKNOWN, "there are no tangents here", None, help=("`step` into a `jvp`",))
    seen = d.seen()
    if argument not in seen:
        raise error(UNKNOWN, f"there is no variable `{argument}` here", None, help=("`tangents` shows what is known",))
    tangents = seen[argument].tangents
    return [showing.derivative(t, d, brief=False) for t in tangents] or [f"`{argument}` has no tangent: {WITHOUT}"]


def select(by: int) -> Callable[[Conversation, str], Lines]:
    def function(c: Conversation, argument: str) -> Lines:
        d = c.debugger
        wanted = d.selected + by * count(argument, "up" if by > 0 else "down")
        if wanted < 0 or next(islice(d.views(), wanted, None), None) is None:
            return ["this is the outermost call" if by > 0 else "this is the innermost call"]
        d.selected = wanted
        return showing.position(d)

    return function


def listed(c: Conversation, argument: str) -> Lines:
    if argument and not argument.isdigit():
        raise wrong("list", "a line, or nothing")
    return showing.listing(c.debugger, int(argument) if argument else None)


def leave(c: Conversation, argument: str) -> Lines:
    c.over = True
    return []


def help_on(c: Conversation, argument: str) -> Lines:
    chosen = [named(argument)] if argument else COMMANDS
    rows = [(", ".join(x.names) + (f" {x.takes}" if x.takes else ""), x.help) for x in chosen]
    width = max(len(left) for left, _ in rows)
    end = [] if argument else ["An empty line does the last command again. Abbreviations will do: `s`, `wh`."]
    return [*(f"{left:<{width}}  {right}" for left, right in rows), *end]


def local_variables(c: Conversation, argument: str) -> Lines:
    return showing.variables(c.debugger)


def cotangents(c: Conversation, argument: str) -> Lines:
    return showing.cotangents(c.debugger)


def tangents_known(c: Conversation, argument: str) -> Lines:
    return showing.tangents_known(c.debugger)


def where(c: Conversation, argument: str) -> Lines:
    return showing.calls(c.debugger)


COMMANDS: tuple[Command, ...] = (
    Command(("step", "s"), "[N]", "to the next statement, into calls and elements", moves("step", Debugger.step)),
    Command(("next", "n"), "[N]", "to the next statement, over calls and comprehensions", moves("next", Debugger.next)),
    Command(("finish", "f"), "", "to the end of this function or comprehension", finish),
    Command(("continue", "c"), "", "to a breakpoint, a failure or the end", moves("continue", Debugger.go_on, False)),
    Command(("back", "rs"), "[N]", "`step` backward", moves("back", lambda d: d.step(False))),
    Command(("rnext", "rn"), "[N]", "`next` backward", moves("rnext", lambda d: d.next(False))),
    Command(("rfinish", "rf"), "", "back to the call of this function", moves("rfinish", lambda d: d.finish(False))),
    Command(
        ("rcontinue", "rc"), "", "back to a breakpoint or the beginning",
        moves("rcontinue", lambda d: d.go_on(False), False),
    ),
    Command(("run",), "to LINE", "on to a line, FILE:LINE or a function", run_to),
    Command(("goto",), "N", "to the moment of a number, the past or the future", goto),
    Command(("element",), "I, …", "to an element of a comprehension, by its index", element),
    Command(("nan",), "", "to the first NaN or infinity that is made of finite numbers; again: the next", nan),
    Command(("zero",), "", "to the first product in a derivative that is 0 by convention; again: the next", zero),
    Command(("break", "b"), "[LINE | FILE:LINE | FN] [if EXPR]", "stop there, forward and backward", break_at),
    Command(("watch",), "EXPR", "show a value at each stop, and stop where it changes", watch),
    Command(("delete", "d"), "[N]", "remove a breakpoint or a watch, or all", delete),
    Command(("info", "i"), "break", "the breakpoints and watches", info),
    Command(("print", "p"), "EXPR", "the value of an expression over the variables here", print_value),
    Command(("locals",), "", "the variables here", local_variables),
    Command(("cotangent",), "NAME", "in a backward pass: the cotangent of a variable", cotangent),
    Command(("grads",), "", "in a backward pass: all cotangents that are known", cotangents),
    Command(("tangent",), "NAME", "in forward mode: the tangent of a variable", tangent),
    Command(("tangents",), "", "in forward mode: all tangents that are known", tangents_known),
    Command(("where", "bt"), "", "the calls that lead here", where),
    Command(("up",), "[N]", "look at the caller", select(1)),
    Command(("down",), "[N]", "look at what it called", select(-1)),
    Command(("list", "l"), "[LINE]", "the source around", listed),
    Command(("help", "h", "?"), "[COMMAND]", "this", help_on),
    Command(("quit", "q", "exit"), "", "leave", leave),
)  # fmt: skip


# ---- terminals -------------------------------------------------------------------------------------------------------
# Talks to a person at a terminal, or reads commands from a pipe.

PROMPT = "(debug) "


def talk(c: Conversation, first: list[str]) -> None:
    """A conversation until it is over, or there is no more input. first: what is shown before."""
    show(first)
    read = _at_a_terminal(c) if sys.stdin.isatty() and sys.stdout.isatty() else _from(sys.stdin)
    while not c.over:
        try:
            text = read()
        except KeyboardInterrupt:  # a line is given up
            continue
        if text is None:
            return
        with interruptible(c):
            out = c.say(text)
        show(out)


def show(lines: list[str]) -> None:
    """Lines, with the one where it is in bold."""
    on = coloured(sys.stdout)
    for text in map(shown, lines):
        if text.startswith("error["):
            text = painted(text, "red", on)
        elif " ▸ " in text[:8]:
            text = painted(text, "bold", on)
        elif text.startswith("#"):
            text = painted(text, "blue", on)
        print(text)
    sys.stdout.flush()


@contextmanager
def interruptible(c: Conversation) -> Iterator[None]:
    """Inside, Ctrl-C ends a movement and nothing else."""

    def stop(number: int, frame: FrameType | None) -> None:
        c.debugger.machine.interrupt()
        if sys.stdout.isatty():
            os.write(sys.stdout.fileno(), b"\n")  # behind the ^C that the terminal shows

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _from(stream: IO[str]) -> Callable[[], str | None]:
    """Lines of a pipe; an empty one repeats nothing there."""

    def read() -> str | None:
        while line := stream.readline():
            if line.strip():
                return line
        return None

    return read


def _at_a_terminal(c: Conversation) -> Callable[[], str | None]:
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession(completer=_completer(c), complete_while_typing=False)

    def read() -> str | None:
        try:
            return session.prompt(PROMPT)
        except EOFError:
            return None

    return read


def _completer(c: Conversation) -> Completer:
    """Commands, and behind them the names of variables and functions."""
    from prompt_toolkit.completion import WordCompleter

    def words() -> list[str]:
        sources = c.debugger.machine.library.sources
        functions = [n for p in sources.known.values() for n in p.functions]
        return [*(command.names[0] for command in COMMANDS), *c.debugger.seen(), *functions]

    return WordCompleter(words)
