"""`dlc eval`: the value of an expression, in the form in which the language would write it."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Source
from dlang.driver import Backend, check, errors_of
from dlang.lazy_modules import lazy_module
from dlang.spelling import closest
from dlang.tools.arguments import Parser, add_backend, add_json
from dlang.tools.report import failed_in, report
from dlang.tools.run import printed, run
from dlang.typecheck.modules import library_folders

if TYPE_CHECKING:
    from dlang.typecheck import program
else:
    program = lazy_module("dlang.typecheck.program")


def options(parser: Parser) -> None:
    add_backend(parser)
    add_json(parser)
    parser.add_argument("expression", metavar="EXPR")


def main(args: argparse.Namespace) -> int:
    return evaluate(args.expression, args.backend, args.json)


def evaluate(expression: str, backend: Backend, as_json: bool) -> int:
    """Prints the value; modules of the standard library that it mentions are imported."""
    try:
        checked = check(Source("<imports>", "".join(f"import {m}\n" for m in _modules(expression))))
        decl, diagnostics = program.check_expression(checked, _source(expression))
        if decl is None or errors_of(checked) or any(d.severity == "error" for d in diagnostics):
            report([*checked.diagnostics, *diagnostics], as_json)
            return 1
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    try:
        run(checked, printed(decl), backend)
    except DlangError as e:
        report(failed_in(decl.span, e.diagnostics), as_json)
        return 1
    return 0


def _source(text: str) -> Source:
    """An expression; statements are those of a block."""
    from dlang.grammar.parser import parse_expression

    source, block = Source("<expression>", text), Source("<expression>", f"{{ {text} }}")
    wrong = text.strip() and parse_expression(source)[1]
    return block if wrong and not parse_expression(block)[1] else source


def _modules(expression: str) -> list[str]:
    """Modules of the standard library that stand before a point, as in `nn.softmax(x)`, or one that may be meant."""
    known = sorted({p.stem for folder in library_folders() for p in folder.glob("*.dl")})
    words = set(re.findall(r"(?<![\w.])([a-z_]\w*)\.", expression))
    return sorted({word if word in known else closest(word, known) or "" for word in words} - {""})
