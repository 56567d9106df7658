"""`dlc run`: calls `main` with the options of the command line, or runs a file of statements."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import DlangError, Span, error, shown
from dlang.driver import (
    BACKENDS,
    Backend,
    Request,
    call,
    check,
    errors_of,
    is_deterministic,
    lower,
    nowhere,
    read_source,
    ready,
)
from dlang.lazy_modules import json, lazy_module
from dlang.polynomials import Poly
from dlang.runtime.devices import driver_of
from dlang.tools.arguments import (
    Parser,
    add_backend,
    add_json,
    add_measures,
    add_program,
    add_sanitize,
    add_threads,
    refuse_unwritable,
    replace_file,
    use_threads,
)
from dlang.tools.report import failed, report
from dlang.typecheck.headers import FnDecl, Param, Unread
from dlang.typecheck.refinements import substituted
from dlang.typecheck.types import FLOATS, UNIT, Below, RowVar, Shape, Size, SizeVar, Type, TypeCon, TypeVar, resolve

if TYPE_CHECKING:
    from dlang.host import effects as host
    from dlang.runtime import memory
    from dlang.runtime.memory import Usage
    from dlang.runtime.profile import Profile
    from dlang.typecheck import core
    from dlang.typecheck.program import Checked
else:
    core = lazy_module("dlang.typecheck.core")
    host = lazy_module("dlang.host.effects")
    memory = lazy_module("dlang.runtime.memory")


def options(parser: Parser) -> None:
    add_backend(parser)
    add_json(parser)
    add_measures(parser)
    add_sanitize(parser)
    parser.add_argument("--debug-info", action="store_true", help="compile with lines of the source, for gdb and perf")
    add_program(parser)


def main(args: argparse.Namespace) -> int:
    if args.debug_info:
        os.environ["DLANG_DEBUG_INFO"] = "1"
    return run_file(args.file, args.options, args.backend, args.json, measures(args))


def run_file(
    path: str, options: Sequence[str], backend: Backend, as_json: bool, wanted: Measures, command: str = "run"
) -> int:
    """0 if the program ran to its end; 1 if it is wrong or failed, 70 if the compiler is.

    wanted: what is to be measured. command: what was called.
    """
    try:
        checked = check(read_source(path))
        if errors_of(checked):
            report(checked.diagnostics, as_json)
            return 1
        report(checked.diagnostics, as_json)
        main = checked.module.functions.get("main")
        options, backend, seed, more = own_options(options, main or checked.module.script, backend)
        start = start_of(checked, path, options, command)
        measured(checked, printed(start), backend, seed, wanted.joined(more))
    except DlangError as e:
        return failed(e, as_json)
    return 0


def no_main(path: str) -> DlangError:
    """There is nothing to run in a file."""
    help = ("add `fn main() { … }`; the command `dlc test` runs its `test` blocks",)
    return error("E0953", f"`{path}` has no `main` and no statements to run", None, help=help)


def start_of(checked: Checked, path: str, options: Sequence[str], command: str = "run") -> FnDecl:
    """Returns the entry point of a file: its `main` with the options of the command line, or its statements."""
    main = checked.module.functions.get("main")
    if main is not None and main.kind == "fn":
        return call_of_main(path, main, options, command)
    script = checked.module.script
    if script is None:
        raise no_main(path)
    parser_of_main(f"dlc {command} {path}", script, options).parse_args(options)
    return script


def run(checked: Checked, start: FnDecl, backend: Backend, seed: int = 0) -> None:
    """Compiles and calls a function without parameters; random numbers that it draws depend on the seed."""
    runner, signature = ready(checked, Request(start), backend, host.Host())
    call(runner, signature, seed=seed)


def measured(checked: Checked, start: FnDecl, backend: Backend, seed: int, wanted: Measures) -> None:
    """Does as `run`, and prints what was to be measured."""
    if wanted.trace is not None:
        refuse_unwritable(wanted.trace)
    if wanted.of_nests:
        if backend == "interp":
            raise not_measured(backend)
        _profiled(start, backend, seed, wanted)
    elif wanted.memory:
        with memory.memory_use() as used:
            run(checked, start, backend, seed)
        show_memory(used)
    else:
        run(checked, start, backend, seed)


def _profiled(start: FnDecl, backend: Backend, seed: int, wanted: Measures) -> None:
    """A run as code that measures itself; one that is interrupted or fails is shown as far as it went."""
    from dlang.runtime.engine import Engine
    from dlang.runtime.profile import recorded

    import_module("numpy")  # now, and not when the first array is shown, whose time that would be
    program, (entry,) = lower([Request(start)])
    engine = Engine(host.Host(), profile=True, driver=driver_of(backend), deterministic=is_deterministic())
    runner = engine.compile(program, [entry.name])
    profile: Profile | None = None
    try:
        with recorded(lambda: [runner]) as profile:
            call(runner, entry, seed=seed)
    finally:
        if profile is not None:
            show_profile(profile, wanted)


def printed(decl: FnDecl) -> FnDecl:
    """The function followed by a `print` of its value, if that isn't `()`."""
    assert decl.result is not None
    if resolve(decl.result) == UNIT:
        return decl
    body = Unread(partial(_print, decl), ("print", decl))
    effects = decl.effects | {"print"}
    return replace(decl, result=UNIT, tree=body, effects=effects, opened=())


def _print(decl: FnDecl) -> core.Expr:
    assert decl.body is not None
    span = decl.body.span
    text = core.Format(TypeCon("str"), span, ((decl.body, ""),))
    return core.Builtin(UNIT, span, "print", (text,))


def own_options(
    options: Sequence[str], start: FnDecl | None, backend: Backend
) -> tuple[list[str], Backend, int, Measures]:
    """Options that may stand behind the file and are no parameters: `--backend`, `--threads`, `--seed` of what draws,
    and those of what is to be measured.

    A parameter of `main` with such a name takes the option.
    """
    taken = {p.local.name for p in start.params} if start is not None else set()
    parser = Parser(add_help=False, prog="dlc run")
    if "backend" not in taken:
        parser.add_argument("--backend", choices=BACKENDS)
    if "threads" not in taken:
        add_threads(parser)
    add_measures(parser, frozenset(taken))
    if "seed" not in taken and start is not None and "random" in start.effects:
        parser.add_argument("--seed", type=integer("i64"))
    known, of_main = parser.parse_known_args(options)
    use_threads(getattr(known, "threads", None))
    seed = getattr(known, "seed", None) or 0
    return of_main, getattr(known, "backend", None) or backend, seed, measures(known)


# ---- options are the parameters of main ------------------------------------------------------------------------------
def call_of_main(path: str, main: FnDecl, options: Sequence[str], command: str = "run") -> FnDecl:
    """A function without parameters that calls `main` with what the command line says."""
    given = vars(parser_of_main(f"dlc {command} {path}", main, options).parse_args(_joined(options, main)))
    assert main.result is not None
    body = Unread(partial(_call, path, main, given), ("call", main, *sorted(given.items())))
    return FnDecl("main", main.module, main.span, (), main.result, tree=body, effects=main.effects, kind="call")


def _call(path: str, main: FnDecl, given: Mapping[str, Any]) -> core.Expr:
    span = nowhere(path)
    instance: list[tuple[TypeVar | SizeVar | RowVar, Type | Size | Shape]] = []
    for v in main.variables:
        if isinstance(v, TypeVar):
            instance.append((v, TypeCon(default_dtype(v))))
    args: list[core.Expr | None] = []
    for p in main.params:
        value = given[p.local.name]
        t = TypeCon(dtype_of(p))
        arg: core.Expr | None = core.Literal(t, span, value) if value is not None else None
        if arg is None and isinstance(p.default, core.Literal):
            arg = p.default
        if p.local.size is not None and isinstance(arg, core.Literal):
            instance.append((p.local.size, Size(Poly.of(int(arg.value)))))
        args.append(arg)
    for k, (p, arg) in enumerate(zip(main.params, args, strict=True)):
        asked = substituted(p.local.refinement, dict(instance))
        if isinstance(asked, Below) and arg is not None:
            args[k] = core.As(arg.type, p.local.span or span, arg, asked.size)
    assert main.result is not None
    function = core.FnRef(main.result, span, main, tuple(instance))
    return core.Call(main.result, span, function, tuple(args))


def _joined(options: Sequence[str], main: FnDecl) -> list[str]:
    """The options with each value that begins with a `-`, such as -1e-3, joined to its name."""
    names = {f"--{n}" for p in main.params for n in (p.local.name, p.local.name.replace("_", "-"))}
    out: list[str] = []
    for text in options:
        takes = out and out[-1] in names and text.startswith("-")
        if takes and text.partition("=")[0] not in {*names, "-h", "--help"}:
            out[-1] += f"={text}"
        else:
            out.append(text)
    return out


# ---- measurements ----------------------------------------------------------------------------------------------------
# The measurements of `dlc run`: memory, and where time goes.


@dataclass(frozen=True, slots=True)
class Measures:
    """memory, profile: whether to print them; trace: the file for the calls of nests, if they are wanted."""

    memory: bool = False
    profile: bool = False
    trace: str | None = None

    @property
    def of_nests(self) -> bool:
        """Tells whether the program has to measure itself."""
        return self.profile or self.trace is not None

    def joined(self, other: Measures) -> Measures:
        return Measures(self.memory or other.memory, self.profile or other.profile, other.trace or self.trace)


def measures(given: argparse.Namespace) -> Measures:
    """Returns the measurements that options ask for."""
    memory, profile = (bool(getattr(given, name, False)) for name in ("memory", "profile"))
    return Measures(memory, profile, getattr(given, "profile_out", None))


def show_memory(used: Usage) -> None:
    """Prints it where errors go."""
    print(f"memory: {used}", file=sys.stderr)


def show_profile(profile: Profile, wanted: Measures) -> None:
    """Prints and writes what was asked for."""
    if wanted.profile:
        print(profile.table(), file=sys.stderr)
    elif wanted.memory:
        show_memory(profile.memory)
    if wanted.trace is not None:
        replace_file(wanted.trace, json.dumps(profile.trace()))
        if profile.lost:
            kept = "a trace has room for the first 65,536"
            print(f"dlc: {profile.lost:,} events are lost in `{shown(wanted.trace)}`: {kept}", file=sys.stderr)


def not_measured(backend: str) -> Exception:
    help = (f"leave `--backend {backend}` out",)
    return error("E0958", "only compiled code can be profiled", None, help=help)


# ---- parameters of main ----------------------------------------------------------------------------------------------
# The parameters of `main` as options of a command line.


def parser_of_main(prog: str, main: FnDecl, options: Sequence[str]) -> Parser:
    """Returns the parser of the options of `main`, which are also needed to know whether defaults will be shown."""
    with_defaults = not {"-h", "--help"}.isdisjoint(options)
    doc = main.doc.replace("%", "%%") if "%(prog)" in main.doc else main.doc  # which is when argparse looks at it
    parser = Parser(prog=prog, description=doc, conflict_handler="resolve")
    if "random" in main.effects:
        parser.add_argument("--seed", metavar="i64", help="of the random numbers, 0 unless given")
    for p in main.params:
        name = p.local.name
        flags = list(dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"]))
        dtype = dtype_of(p)
        default = _default(p) if with_defaults else ""
        convert = _CONVERSIONS[dtype] if dtype in _CONVERSIONS else integer(dtype)
        parser.add_argument(
            *flags,
            dest=name,
            metavar=dtype,
            type=convert,
            required=not p.has_default,
            help=f"{dtype}{default}".replace("%", "%%"),
            nargs="?" if dtype == "bool" else None,
            const=True if dtype == "bool" else None,
        )
    return parser


def _default(p: Param) -> str:
    match p.default:
        case None:
            return ""
        case core.Literal(value=str(value)):
            return f", {value} unless given"
        case written:
            return f", {' '.join(written.span.text.split())} unless given"


def dtype_of(p: Param) -> str:
    """The dtype of an option; raises a `DlangError` for what can be none."""
    t = resolve(p.local.type)
    if isinstance(t, TypeVar) and (t.classes or t.literal):
        return default_dtype(t)
    if isinstance(t, TypeCon):
        return t.name
    span: Span | None = p.local.span
    help = ("read arrays from a file: `io.npz(path, name)`",)
    raise error("E0954", f"the parameter `{p.local.name}` of `main` is no number, text or bool", span, help=help)


def default_dtype(v: TypeVar) -> str:
    """Returns the dtype of a number whose dtype nothing decides."""
    return "f64" if v.literal == "float" or "Float" in v.classes else "i64"


def integer(dtype: str) -> Callable[[str], int]:
    """Makes a parser of integers of a dtype."""
    bits = int(dtype[1:])
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def convert(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value} is out of the range of {dtype}")
        return value

    convert.__name__ = dtype  # argparse says: invalid i64 value
    return convert


def _float(text: str) -> float:
    return float(text)


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"`{text}` is neither true nor false")
    return text == "true"


_float.__name__ = "number"
_CONVERSIONS: dict[str, Callable[[str], object]] = {"str": str, "bool": _bool, **dict.fromkeys(FLOATS, _float)}
