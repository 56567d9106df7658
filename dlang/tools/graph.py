"""`dlc graph`: a program, or the gradient of a function, as a graph for Graphviz."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, error, shown
from dlang.driver import check, errors_of, lower, read_source
from dlang.dump_ir import nests_of, request
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser, add_json
from dlang.tools.ir import chosen
from dlang.tools.program_graph import Graph, write
from dlang.tools.report import report
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked

if TYPE_CHECKING:
    from dlang.python import derivatives, instances
    from dlang.tools import program_graph
else:
    derivatives = lazy_module("dlang.python.derivatives")
    instances = lazy_module("dlang.python.instances")
    program_graph = lazy_module("dlang.tools.program_graph")


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--fn", metavar="NAME", help="only this function, and what it calls")
    parser.add_argument("--grad", action="store_true", help="the gradient of that function")
    parser.add_argument("--stage", choices=("opt", "loops"), default="opt", help="the optimised program, or its loops")
    parser.add_argument("-o", "--output", metavar="FILE", help="a .dot, .svg, .png or .pdf; DOT is printed otherwise")


def main(args: argparse.Namespace) -> int:
    try:
        checked = check(read_source(args.file))
        if errors_of(checked):
            raise DlangError(checked.diagnostics)
        graph = graph_of(checked, args.fn, args.grad, args.stage)
        if args.output is None:
            print(shown(graph.text()), end="")
        else:
            write(graph, args.output)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return 0


def graph_of(checked: Checked, function: str | None, gradient: bool, stage: str) -> Graph:
    """The graph of a function with what it calls, of its gradient, or of all functions. Nothing is imported for it."""
    decls = chosen(checked, function)
    if gradient:
        if function is None:
            raise error("E0955", "`--grad` needs the name of a function", None, help=("say which one by `--fn NAME`",))
        decls = [_gradient(checked, decls[0])]
    program, entries = lower([request(decl) for decl in decls], runs=False)
    names = [entry.name for entry in entries]
    if stage == "loops":
        return program_graph.loop_graph(nests_of(program, names))
    return program_graph.program_graph(program, names)


def _gradient(checked: Checked, decl: FnDecl) -> FnDecl:
    from dlang.python.function import Function

    return derivatives.grad(Function(instances.Program(checked, "cpu"), decl, decl.name, bool(decl.constraints))).decl
