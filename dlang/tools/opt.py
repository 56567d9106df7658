"""`dlc opt`: runs passes on a program of either IR that is given as text, as `dlc ir` prints it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Source, Span, error, shown
from dlang.driver import read_source
from dlang.dump_ir import passes, printed, through
from dlang.ir.errors import IRError, Unreadable
from dlang.lazy_modules import lazy_module
from dlang.passes import Form, HasFunctions
from dlang.tools.arguments import Parser, add_json
from dlang.tools.ir import pass_named
from dlang.tools.report import report

if TYPE_CHECKING:
    from dlang import pipeline
    from dlang.codegen import loops, reading, schedule, traverse as loop_traverse, verify as loop_verify
    from dlang.codegen.llvm import modules
    from dlang.ir import anf, printer, reader, traverse, verify
else:
    modules = lazy_module("dlang.codegen.llvm.modules")
    reading = lazy_module("dlang.codegen.reading")
    schedule = lazy_module("dlang.codegen.schedule")
    loop_traverse = lazy_module("dlang.codegen.traverse")
    loop_verify = lazy_module("dlang.codegen.verify")
    traverse = lazy_module("dlang.ir.traverse")
    printer = lazy_module("dlang.ir.printer")
    reader = lazy_module("dlang.ir.reader")
    verify = lazy_module("dlang.ir.verify")
    pipeline = lazy_module("dlang.pipeline")

CORE, NATIVE, DEVICE = "the core IR", "the loop IR", "the loop IR for a device"
"""The names of the IRs that have passes."""


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a text that `dlc ir` printed, of the stage `loops` or one before it"
    )
    parser.add_argument(
        "--passes",
        type=_passes,
        metavar="PASS,…",
        help="the passes to run, in order; the program is verified after each",
    )
    parser.add_argument(
        "--entry",
        action="append",
        metavar="NAME",
        help="a function that is called from outside; those that no other calls, unless given",
    )
    parser.add_argument("--llvm", action="store_true", help="print loop nests, after the passes if any, as LLVM text")
    parser.set_defaults(refuse=parser.error)
    parser.add_argument("--list", action="store_true", help="list the passes, with what each needs, gives and is for")


def main(args: argparse.Namespace) -> int:
    if args.list:
        print(listed())
        return 0
    if args.file is None or (args.passes is None and not args.llvm):
        args.refuse("expected FILE and --passes, or --list")
    names = args.passes or []
    if args.llvm and names and kind_of(names) != NATIVE:
        args.refuse("--llvm: only with passes of the loop IR")
    try:
        print(shown(run(read_source(args.file), names, args.entry, args.llvm)), end="")
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return 0


def run(source: Source, names: Sequence[str], entries: list[str] | None, llvm: bool = False) -> str:
    """The text of a program after some passes, which are of one IR; or as LLVM text, if the program is one of loops.

    E0949 if it is no well-formed program of the IR, or lacks an entry.
    """
    kind = kind_of(names) if names else NATIVE
    if kind == CORE:
        program = _read(source)
        entries = _entries(source, program, entries, lambda name: traverse.called_by(program.functions[name]))
        return printer.print_program(pipeline.run_passes(program, entries, [pipeline.NAMED[name] for name in names]))
    nests = _read_loops(source)
    entries = _entries(source, nests, entries, lambda name: _invoked(nests.functions[name]))
    transformed = through(nests, names)
    return modules.print_nests(transformed, entries) if llvm else printed(transformed)


def kind_of(names: Sequence[str]) -> str:
    """The IR, and what it is for, of passes; ValueError if they are of several."""
    kinds: dict[str, str] = {}
    for name in names:
        p = passes()[name]
        kinds.setdefault(DEVICE if p.device else NATIVE if p.when == schedule.LOOPS else CORE, name)
    if len(kinds) > 1:
        raise ValueError(", ".join([f"`{name}` is a pass of {kind}" for kind, name in kinds.items()]))
    return next(iter(kinds))


def listed() -> str:
    """A table of the passes in the order in which they run first."""

    def forms(of: frozenset[Form]) -> str:
        return ", ".join(form.value for form in Form if form in of)

    rows = [("pass", "phase", "needs", "gives", "ends", "purpose")]
    for p in passes().values():
        when = f"{p.when}, for a device" if p.device else p.when
        rows.append((p.name, when, forms(p.needs), forms(p.gives), forms(p.ends), p.purpose))
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5]]) for row in rows]
    return "\n".join(lines)


def _read(source: Source) -> anf.Program:
    with _refused(source, "mono"):
        program = reader.read_program(source.text)
        verify.verify(program)
        return program


def _read_loops(source: Source) -> loops.Program:
    with _refused(source, "loops"):
        return loop_verify.verify_loops(reading.read_program(source.text), "the text")


@contextmanager
def _refused(source: Source, stage: str) -> Iterator[None]:
    """Has what a reader or a verifier says against a text be an error in it. stage: of a text that is right."""
    help = (f"`dlc ir FILE --stage {stage}` prints a program as it is read here",)
    try:
        yield
    except Unreadable as e:
        at = Span(source, e.offset, min(e.offset + 1, len(source.text)))
        raise error("E0949", f"this is no program of the IR: {e.message}", at, help=help) from None
    except IRError as e:
        raise error("E0949", f"`{source.path}` is no well-formed program: {e}", None, help=help) from None


def _invoked(function: loops.Function) -> list[str]:
    """The functions that one of loops calls."""
    return [
        name for stmt in loop_traverse.walk(function.body.stmts) if (name := loop_traverse.callee(stmt)) is not None
    ]


def _entries(
    source: Source, program: HasFunctions, asked: list[str] | None, called_by: Callable[[str], Iterable[str]]
) -> list[str]:
    """The functions that are asked for; else those that no other calls, or all if each is called."""
    if asked is None:
        called = {name for f in program.functions for name in called_by(f) if name != f}
        return [name for name in program.functions if name not in called] or list(program.functions)
    for name in asked:
        if name not in program.functions:
            known = ", ".join(f"`{n}`" for n in program.functions)
            raise error("E0949", f"`{source.path}` has no function `{name}`", None, help=(f"there are {known}",))
    return asked


def _passes(text: str) -> list[str]:
    names = [pass_named(name.strip()) for name in text.split(",")]
    try:
        kind_of(names)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None
    return names
