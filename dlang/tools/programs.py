"""Prepares programs for `dlc build --exe`: `main` with its parameters as options, or a file of statements."""

from __future__ import annotations

from dlang.aot.executable import SEED, THREADS, CommandLine, Option
from dlang.aot.exports import NOT_EXPORTED, Chosen
from dlang.diagnostics import error
from dlang.ir.terms import Scalar, poly
from dlang.specialize.types import Bindings
from dlang.tools.arguments import add_threads
from dlang.tools.run import default_dtype, dtype_of, no_main, parser_of_main, printed
from dlang.typecheck import core
from dlang.typecheck.headers import FnDecl, Param
from dlang.typecheck.program import Checked
from dlang.typecheck.types import TypeVar


def start_of(checked: Checked, path: str) -> Chosen:
    """Returns the function that a program runs, followed by a `print` of its result."""
    main = checked.module.functions.get("main")
    if main is None or main.kind != "fn":
        script = checked.module.script
        if script is None:
            raise no_main(path)
        return Chosen("main", printed(script))
    for p in main.params:
        dtype_of(p)  # which refuses what is no option
    bindings: Bindings = {}
    for v in main.variables:
        if isinstance(v, TypeVar):
            bindings[v] = Scalar(default_dtype(v))
        elif v not in main.opened:
            bindings[v] = poly(0)  # any size
    return Chosen("main", printed(main), bindings)


def command_line(main: FnDecl, name: str) -> CommandLine:
    """The options of a program of that name."""
    params = tuple(map(_option, main.params))
    taken = {o.name for o in params}
    parser = parser_of_main(name, main, ["--help"])
    own = []
    if "random" in main.effects and SEED not in taken:
        own.append(Option(SEED, "i64", 0))
    if THREADS not in taken:
        own.append(Option(THREADS, "i32", 0))
        add_threads(parser)
    return CommandLine(params, tuple(own), parser.format_usage(), parser.format_help())


def _option(p: Param) -> Option:
    name, dtype = p.local.name, dtype_of(p)
    if not p.has_default:
        return Option(name, dtype, None)
    default = p.default
    if not isinstance(default, core.Literal):
        help = ("write the value itself, or compute it in the body",)
        message = f"the default of `{name}` is computed, which the options of a program cannot do"
        raise error(NOT_EXPORTED, message, p.local.span, help=help)
    return Option(name, dtype, default.value)
