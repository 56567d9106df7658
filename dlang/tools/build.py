"""`dlc build`: libraries for C, packages of Python, and files that need no compiler."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.aot.exports import NOT_EXPORTED, Chosen
from dlang.aot.shared import SEED, THREADS, CommandLine, Option
from dlang.codegen.llvm.objects import LEVELS, NATIVE
from dlang.diagnostics import DlangError, error, shown
from dlang.ir.terms import Scalar, poly
from dlang.lazy_modules import lazy_module
from dlang.specialize.types import Bindings
from dlang.tools.arguments import Parser, add_json, add_threads
from dlang.tools.report import report
from dlang.tools.run import default_dtype, dtype_of, no_main, parser_of_main, printed
from dlang.typecheck import core
from dlang.typecheck.headers import FnDecl, Param
from dlang.typecheck.program import Checked
from dlang.typecheck.types import TypeVar

if TYPE_CHECKING:
    from dlang.aot import archive, exports, interface, shared, toolchain
    from dlang.aot.exports import Built, Export
    from dlang.typecheck.program import Checked
else:
    archive = lazy_module("dlang.aot.archive")
    exports = lazy_module("dlang.aot.exports")
    interface = lazy_module("dlang.aot.interface")
    shared = lazy_module("dlang.aot.shared")
    toolchain = lazy_module("dlang.aot.toolchain")


FORMS = {"fn": "", "grad": "grad", "value_and_grad": "value_and_grad"}


def options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "-o", dest="folder", metavar="DIR", default=".", help="where what is built goes; here if not given"
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--shared", action="store_true", help="a library for C, with a header")
    kinds.add_argument("--exe", action="store_true", help="a program, whose options are the parameters of `main`")
    kinds.add_argument("--wheel", action="store_true", help="a package of Python that needs NumPy alone")
    parser.add_argument("--package-version", metavar="VERSION", help="of a wheel, 0.1.0 if not given")
    parser.add_argument(
        "--requires", action="append", default=[], metavar="PACKAGE", help="what a wheel needs beside, as pip says it"
    )
    parser.add_argument("--name", help="of what is built; that of the file unless given")
    parser.add_argument(
        "--fn",
        action="append",
        default=[],
        metavar="NAME[=TYPES]",
        help="this function, perhaps at other types: `--fn 'dot=f64[n],f64[n]'`; if not given, all with types",
    )
    parser.add_argument("--grad", action="append", default=[], metavar="NAME[=PARAMETERS]", help="its gradient too")
    parser.add_argument(
        "--value-and-grad", action="append", default=[], metavar="NAME[=PARAMETERS]", help="its value with its gradient"
    )
    parser.add_argument("--cpu", choices=(NATIVE, *LEVELS), help="the processor; x86-64-v3 if not given")
    parser.set_defaults(refuse=parser.error)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """0 if all was built; 1 if the program is wrong or something could not be built."""
    if not args.wheel and (args.package_version is not None or args.requires):
        args.refuse("--package-version and --requires are of a wheel: they go with --wheel")
    try:
        return _build(args)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1


def _build(args: argparse.Namespace) -> int:
    checked = exports.checked_file(args.file)
    name = args.name or Path(args.file).stem
    if re.fullmatch(r"[^\W\d][\w-]*", name) is None:
        help = ("give another one: `--name my_model`",)
        raise error(exports.NOT_CHOSEN, f"`{name}` is no name for what is built", None, help=help)
    if args.exe:
        return _program(args, checked, name)
    wanted = _wanted(args)
    processor = toolchain.processor_named(args.cpu or toolchain.usual_processor())
    built = exports.build(checked, exports.chosen(checked, wanted), processor, bool(wanted), _refusal(args))
    for left, why in built.left_out:
        print(shown(f"left out `{left}`: {why}"))
    return _write(Path(args.folder), lambda folder: _made(args, built, name, folder))


def _write(folder: Path, make: Callable[[Path], Sequence[Path]]) -> int:
    """Makes files in a folder, and prints their names."""

    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = make(folder)
    except OSError as e:
        raise error("E0822", f"cannot write to `{folder}`: {e.strerror or e}", None) from None
    for path in files:
        print(shown(str(path)))
    return 0


def _program(args: argparse.Namespace, checked: Checked, name: str) -> int:
    """Builds what `dlc run` would run."""
    if args.fn or args.grad or args.value_and_grad:
        raise error("E0986", "a program has no functions to be named, it runs `main`", None)
    start = start_of(checked, args.file)
    line = command_line(start.decl, name)
    built = exports.build(
        checked, [start], toolchain.processor_named(args.cpu or toolchain.usual_processor()), by_name=True
    )
    return _write(Path(args.folder), lambda folder: shared.build_executable(built, name, line, folder))


def _refusal(args: argparse.Namespace) -> Callable[[Export], None]:
    """Returns the check that raises an error for a function that this kind of output cannot have."""
    return interface.fits_c if args.shared else lambda export: None


def _made(args: argparse.Namespace, built: Built, name: str, folder: Path) -> list[Path]:
    if args.shared:
        return shared.build_shared(built, name.replace("-", "_"), folder)
    if args.wheel:
        return archive.build_wheel(built, name, args.package_version or "0.1.0", args.requires, folder)
    return archive.build_archive(built, name, folder)


def _wanted(args: argparse.Namespace) -> list[exports.ExportRequest]:
    """Lists the functions for which the options ask. The types of a function are also those of its derivatives."""
    out = []
    for option, form in FORMS.items():
        for text in getattr(args, option):
            function, given, what = text.partition("=")
            items = tuple(_split(what)) if given else None
            out.append(exports.ExportRequest(function.strip(), form, None if form else items, items if form else None))
    return out


def _split(text: str) -> Sequence[str]:
    """Items between commas that are in no brackets."""
    items, depth = [""], 0
    for c in text:
        depth += (c in "([<") - (c in ")]>")
        if c == "," and not depth:
            items.append("")
        else:
            items[-1] += c
    return [item.strip() for item in items if item.strip()]


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
    of_any_program = []
    if "random" in main.effects and SEED not in taken:
        of_any_program.append(Option(SEED, "i64", 0))
    if THREADS not in taken:
        of_any_program.append(Option(THREADS, "i32", 0))
        add_threads(parser)
    return CommandLine(params, tuple(of_any_program), parser.format_usage(), parser.format_help())


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
