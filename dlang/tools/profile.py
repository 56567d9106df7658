"""`dlc profile`: where the time of a program goes, or that of the compiler."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError
from dlang.driver import Backend, errors_of, lower, read_source
from dlang.dump_ir import open_variable, request
from dlang.lazy_modules import lazy_module
from dlang.runtime.devices import driver_of
from dlang.timings import Timing, timings_of
from dlang.tools.arguments import Parser, add_backend, add_json, add_program, replace_file
from dlang.tools.ir import chosen
from dlang.tools.report import report
from dlang.tools.run import Measures, not_measured
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked

if TYPE_CHECKING:
    from dlang.host import effects as host
    from dlang.tools import run
    from dlang.typecheck import program
else:
    host = lazy_module("dlang.host.effects")
    run = lazy_module("dlang.tools.run")
    program = lazy_module("dlang.typecheck.program")


def options(parser: Parser) -> None:
    add_backend(parser)
    add_json(parser)
    parser.add_argument("--compile", action="store_true", help="where the compiler's time goes; runs nothing")
    parser.add_argument("--fn", metavar="NAME", help="with --compile: this function, and what it calls")
    parser.add_argument("--trace", metavar="FILE", help="write it for chrome://tracing or ui.perfetto.dev")
    add_program(parser)
    parser.set_defaults(refuse=parser.error)


def main(args: argparse.Namespace) -> int:
    if not args.compile:
        if args.fn is not None:
            args.refuse("--fn: only together with --compile")
        wanted = Measures(profile=True, trace=args.trace)
        return run.run_file(args.file, args.options, args.backend, args.json, wanted, "profile")
    try:
        timings = compile_timings(args.file, args.backend, args.fn)
        print(table(timings))
        if args.trace is not None:
            write_trace(timings, args.trace)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return 0


def compile_timings(path: str, backend: Backend, function: str | None) -> list[Timing]:
    """Times the phases of the compiler for a file, from its text to code that could run: of a function with what it
    calls, or of `main`, of the script, or of all functions and tests. Only imports are taken as they were kept.
    """
    from dlang.runtime.engine import Engine

    if backend == "interp":
        raise not_measured(backend)
    engine = Engine(host.Host(), driver=driver_of(backend))
    source = read_source(path)
    with timings_of() as timings:
        checked = program.Workspace().check(source)  # which looks for nothing that was kept of this file
        if errors_of(checked):
            raise DlangError(checked.diagnostics)
        lowered, entries = lower([request(decl) for decl in _compiled(checked, function)])
        engine.compile(lowered, [entry.name for entry in entries])
    return timings


def _compiled(checked: Checked, function: str | None) -> list[FnDecl]:
    main = checked.module.functions.get("main")
    if function is None and main is not None and open_variable(main) is None:
        return [main]
    if function is None and checked.module.script is not None:
        return [checked.module.script]
    return chosen(checked, function)


def table(timings: Sequence[Timing]) -> str:
    """Returns a table of timings, the longest first; timings inside of others do not count for these."""
    by_name: dict[str, list[Timing]] = {}
    for timing in timings:
        by_name.setdefault(timing.name, []).append(timing)
    total = sum(timing.own for timing in timings)
    rows = sorted(
        ((sum(x.own for x in of_name), len(of_name), name) for name, of_name in by_name.items()), reverse=True
    )
    lines = [f"{'time':>10}   share  times  of the compiler"]
    lines += [f"{seconds * 1e3:>7.2f} ms  {100 * seconds / total:>4.1f} %  {count:>5}  {name}"
              for seconds, count, name in rows]  # fmt: skip
    return "\n".join([*lines, f"{total * 1e3:>7.2f} ms in all"])


def write_trace(timings: Sequence[Timing], path: str) -> None:
    """Laps in the format of Chrome's tracer. E0822 where the file cannot be written."""
    events = [
        {"name": timing.name, "cat": "compiler", "ph": "X", "pid": os.getpid(), "tid": 1,
         "ts": (timing.begin - timings[0].begin) * 1e6, "dur": timing.seconds * 1e6}
        for timing in timings
    ]  # fmt: skip
    replace_file(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
