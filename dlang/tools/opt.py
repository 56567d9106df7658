"""`dlc opt`: runs passes on a program of the core IR that is given as text, as `dlc ir` prints it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Source, Span, error, shown
from dlang.driver import read_source
from dlang.dump_ir import passes
from dlang.ir.errors import IRError, Unreadable
from dlang.lazy_modules import lazy_module
from dlang.passes import Form
from dlang.tools.arguments import Parser, add_json
from dlang.tools.ir import pass_named
from dlang.tools.report import report

if TYPE_CHECKING:
    from dlang import pipeline
    from dlang.ir import call_graph, printer, reader, verify
    from dlang.ir.anf import Program
else:
    call_graph = lazy_module("dlang.ir.call_graph")
    printer = lazy_module("dlang.ir.printer")
    reader = lazy_module("dlang.ir.reader")
    verify = lazy_module("dlang.ir.verify")
    pipeline = lazy_module("dlang.pipeline")


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a text that `dlc ir` printed, of a stage before `loops`"
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
    parser.set_defaults(refuse=parser.error)
    parser.add_argument("--list", action="store_true", help="list the passes, with what each needs, gives and is for")


def main(args: argparse.Namespace) -> int:
    if args.list:
        print(listed())
        return 0
    if args.file is None or args.passes is None:
        args.refuse("expected FILE and --passes, or --list")
    try:
        print(shown(run(read_source(args.file), args.passes, args.entry)), end="")
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return 0


def run(source: Source, names: list[str], entries: list[str] | None) -> str:
    """The text of a program after some passes. E0949 if it is no well-formed program of the IR, or lacks an entry."""
    program = _read(source)
    if entries is None:
        entries = _uncalled(program)
    for name in entries:
        if name not in program.functions:
            known = ", ".join(f"`{n}`" for n in program.functions)
            raise error("E0949", f"`{source.path}` has no function `{name}`", None, help=(f"there are {known}",))
    return printer.print_program(pipeline.run_passes(program, entries, [pipeline.NAMED[name] for name in names]))


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


def _read(source: Source) -> Program:
    help = ("`dlc ir FILE --stage mono` prints a program as it is read here",)
    try:
        program = reader.read_program(source.text)
    except Unreadable as e:
        at = Span(source, e.offset, min(e.offset + 1, len(source.text)))
        raise error("E0949", f"this is no program of the IR: {e.message}", at, help=help) from None
    try:
        verify.verify(program)
    except IRError as e:
        raise error("E0949", f"`{source.path}` is no well-formed program: {e}", None, help=help) from None
    return program


def _uncalled(program: Program) -> list[str]:
    """The functions that no other calls; all if each is called."""
    called = {name for f in program.functions.values() for name in call_graph.called_by(f) if name != f.name}
    return [name for name in program.functions if name not in called] or list(program.functions)


def _passes(text: str) -> list[str]:
    names = [pass_named(name.strip()) for name in text.split(",")]
    for name in names:
        if name not in pipeline.NAMED:
            raise argparse.ArgumentTypeError(f"`{name}` is a pass of the loop IR, which is not read from a text")
    return names
