"""Calls of compiled functions, and what ended a run as an error for a person."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dlang.codegen.abi import FREE, Header, Site
from dlang.codegen.llvm import access_checks, support
from dlang.diagnostics import Diagnostic, DlangError, Note, Span
from dlang.host.errors import RunError
from dlang.host.text import format_parts

if TYPE_CHECKING:
    from dlang.runtime.device_runs import State
    from dlang.runtime.engine import Run


OUT_OF_MEMORY, STACK_EXHAUSTED, OUTSIDE = "E0806", "E0805", "E0811"
REPORT = "the program may be fine: please report it together with this message"
SHOWN = 4  # calls under way that an interruption mentions


def host_failure(run: Run, function: Header) -> BaseException:
    """Returns the exception for the failure that machine code has reported."""
    words = run.context.words
    site = run.program.sites[words[0]]
    count = min(words[support.CALLS], support.TRACE_LENGTH)
    trace = [run.program.sites[words[support.TRACE + k]] for k in range(count)]
    stack = tuple((s.name, s.span) for s in trace)
    match site.kind:
        case "runtime" | "interrupt":
            error = run.error
            if error is None:  # a handler of signals ended the run where Python could not hand on its exception
                return KeyboardInterrupt()
            if isinstance(error, MemoryError):
                error = out_of_memory(site.span)
            if isinstance(error, KeyboardInterrupt):
                for label, span in (*stack[:SHOWN], (function.label, None)):
                    error.add_note(f"in `{label}`" + (f", called at {span!r}" if span is not None else ""))
            if isinstance(error, RunError):
                error.at(site.span)
                _add_stack(error, stack)
            return error
        case "access":
            return _add_stack(outside(site, words[support.SLOTS : support.SLOTS + 4]), stack)
        case "memory":
            return _add_stack(out_of_memory(site.span), stack)
        case "device":
            assert run.program.device is not None
            return run.program.device.driver.error(words[support.SLOTS])
        case "stack":
            label, span = stack[0] if stack else (function.label, function.span)
            depth = words[support.CALLS]
            message = f"the stack is exhausted: `{label}` is {depth} calls deep"
            return _add_stack(RunError(STACK_EXHAUSTED, message, span), stack[1:])
        case _:
            address = ctypes.addressof(words) + 8 * support.SLOTS
            values, _ = run.marshal.read(address, site.args, shown=True)
            return _add_stack(RunError(site.name, format_parts(site.parts, values), site.span), stack)


def device_failure(run: Run, state: State) -> RunError:
    """Returns the error for the failure that a kernel has reported."""
    check = run.program.sites[state.site & (2**32 - 1)]
    address = ctypes.addressof(state) + type(state).values.offset
    values, _ = run.marshal.read(address, check.args, shown=True)
    return RunError(check.name, format_parts(check.parts, values), check.span)


def out_of_memory(span: Span | None) -> RunError:
    """There is no room."""
    return RunError(OUT_OF_MEMORY, "the memory is exhausted", span)


def outside(site: Site, words: Sequence[int]) -> RunError:
    """Code of a program that is sanitised would have touched memory that is not its own."""
    what, name, dtype = site.parts
    offset, bytes, extent = words[access_checks.OFFSET], words[access_checks.BYTES], words[access_checks.EXTENT]
    subject = f"`{name}`" if name else "memory"
    match words[access_checks.STATE]:
        case access_checks.FREED if what == FREE:
            happening = f"{subject} would be freed again"
        case access_checks.FREED:
            happening = f"{subject} would be {what} after it has been freed"
        case access_checks.OUT_OF_BOUNDS:
            happening = f"{_bytes(offset, bytes)} of {subject} ({dtype}), which has {extent}, would be {what}"
        case _:
            happening = f"{subject} ({dtype}) would be {what} where there is no array"
    return RunError(OUTSIDE, f"{happening}: this is a bug in dlang", site.span, help=(REPORT,))


def _bytes(first: int, count: int) -> str:
    return f"byte {first}" if count == 1 else f"bytes {first} to {first + count - 1}"


def _add_stack(error: RunError, stack: tuple[tuple[str, Any], ...]) -> RunError:
    for label, span in stack:
        error.called(label, span)
    return error


class Runner(Protocol):
    """A runner of a program's functions, which takes leaves and returns leaves."""

    def run(self, name: str, leaves: Sequence[Any]) -> Sequence[Any]: ...


class Called(Protocol):
    """The facts that a call needs of a function: name, whether it takes a seed, and `extra` results before its own."""

    @property
    def name(self) -> str: ...

    @property
    def seed(self) -> bool: ...

    @property
    def extra(self) -> Sequence[Any]: ...


def call(
    runner: Runner, entry: Called, sizes: Sequence[int] = (), leaves: Sequence[Any] = (), seed: int = 0
) -> list[Any]:
    """Runs an entry; gives the leaves of its result. A failure is a `DlangError` for a person to read.

    seed: of an entry that draws random numbers, what they depend on.
    """
    try:
        results = runner.run(entry.name, [*sizes, *([seed] if entry.seed else []), *leaves])
    except RunError as e:
        raise failure(e) from e.__cause__
    return list(results[len(entry.extra) :])


# ---- failures of a run -----------------------------------------------------------------------------------------------
_SHOWN_CALLS = 8


def failure(e: RunError) -> DlangError:
    """Returns the error for a person after a failed run: its message, and the calls that led there, innermost first."""
    calls: list[Note] = []
    for (label, span), times in _folded(e.stack):
        text = f"in `{label}`" + (", called here" if span else "") + (f" {times} times over" if times > 1 else "")
        calls.append(Note(text, span))
    if len(calls) > _SHOWN_CALLS:
        kept = _SHOWN_CALLS // 2
        between = Note(f"… and {len(calls) - 2 * kept} calls between")
        calls = [*calls[:kept], between, *calls[-kept:]]
    return DlangError([Diagnostic(e.code, e.message, e.span, notes=tuple(calls), help=e.help)])


def _folded(stack: Sequence[tuple[str, Span | None]]) -> list[tuple[tuple[str, Span | None], int]]:
    """Calls of a function from one place, one after another, are one with a count: a recursion."""
    out: list[tuple[tuple[str, Span | None], int]] = []
    for call in stack:
        if out and out[-1][0] == call:
            out[-1] = call, out[-1][1] + 1
        else:
            out.append((call, 1))
    return out
