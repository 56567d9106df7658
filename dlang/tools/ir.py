"""`dlc ir`: the program after a stage of the compiler or one of its passes, and what each pass changes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, DlangError, Source, Span, error, shown
from dlang.driver import check, errors_of, read_source
from dlang.dump_ir import STAGES as LOWER, after, changes, listing, open_variable, passes, traced
from dlang.passes import VARIABLE
from dlang.spelling import closest
from dlang.tools.arguments import Parser, add_json
from dlang.tools.report import report
from dlang.typecheck import core, types as ty
from dlang.typecheck.printing import show

if TYPE_CHECKING:
    from dlang.typecheck.program import Checked


STAGES = ("syntax", "core", *LOWER)
LISTED = 12  # of the functions of a file, where a name is none of them


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("file", metavar="FILE")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--stage", choices=STAGES, help="after a stage")
    what.add_argument(
        "--after",
        type=pass_and_time,
        metavar="PASS[:N]",
        help="after a pass has run, for the Nth time; `dlc opt --list` lists the passes",
    )
    what.add_argument("--changed", action="store_true", help="what each pass changes, as a diff")
    parser.add_argument("--verify", action="store_true", help="check that each pass leaves a well-formed program")
    parser.add_argument("--fn", metavar="NAME", help="only this function, and what it calls")
    parser.add_argument("--costs", action="store_true", help="also what derivatives save, in bytes")
    parser.add_argument("--why", action="store_true", help="with `--stage loops`: what was decided for each loop")
    parser.set_defaults(refuse=parser.error)


def main(args: argparse.Namespace) -> int:
    if args.verify:
        os.environ[VARIABLE] = "1"
    if args.why and args.stage != "loops":
        args.refuse("--why: only with --stage loops")
    if args.stage:
        return print_ir(args.file, args.stage, args.fn, args.costs, args.json, args.why)
    return print_passes(args.file, args.after, args.fn, args.json)


def pass_and_time(text: str) -> tuple[str, int]:
    """Reads `simplify` or `simplify:2`: a pass, and which of its runs."""
    name, _, time = text.partition(":")
    if time and not (time.isdecimal() and int(time)):
        raise argparse.ArgumentTypeError(f"`{text}` is no pass and number, such as `simplify:2`")
    return pass_named(name), int(time or 1)


def pass_named(name: str) -> str:
    """The name of a pass, read from the command line."""
    known = passes()
    if name not in known:
        close = closest(name, known)
        help = "`dlc opt --list` lists them" if close is None else f"did you mean `{close}`?"
        raise argparse.ArgumentTypeError(f"there is no pass `{name}`; {help}")
    return name


def print_ir(path: str, stage: str, only: str | None, costs: bool, as_json: bool, why: bool = False) -> int:
    """Prints a file, or one function of it and what that calls, after a stage."""
    if stage == "syntax":
        return _print(lambda: _syntax(read_source(path), only), as_json)
    return _print(lambda: _checked(path, lambda checked: _after(checked, stage, only, costs, why)), as_json)


def print_passes(path: str, wanted: tuple[str, int] | None, only: str | None, as_json: bool) -> int:
    """Prints a file, or one function of it and what that calls, after a pass; without one, what each pass changes."""

    def text(checked: Checked) -> str:
        trace = traced(chosen(checked, only), device=wanted is not None and passes()[wanted[0]].device is True)
        if wanted is not None:
            return after(trace, *wanted)
        return "\n".join(f"# ---- {name}\n{diff}" for name, diff in changes(trace))

    return _print(lambda: _checked(path, text), as_json)


def _checked(path: str, text: Callable[[Checked], str]) -> tuple[str, list[Diagnostic]]:
    """A text made of a checked file, unless there are errors; and all messages."""
    checked = check(read_source(path))
    return "" if errors_of(checked) else text(checked), checked.diagnostics


def _print(make: Callable[[], tuple[str, list[Diagnostic]]], as_json: bool) -> int:
    try:
        text, diagnostics = make()
    except DlangError as e:
        text, diagnostics = "", e.diagnostics
    if text:
        print(shown(text))
    return 1 if report(diagnostics, as_json) else 0


def _syntax(source: Source, only: str | None) -> tuple[str, list[Diagnostic]]:
    from dlang.grammar.parser import parse

    module, diagnostics = parse(source)
    items = [i for i in module.items if only is None or getattr(i, "name", None) == only]
    if only is not None and not items:
        raise unknown(only, source.path, [getattr(i, "name", "") for i in module.items])
    return "\n".join(line for item in items for line in _tree(item)), diagnostics


def _after(checked: Checked, stage: str, only: str | None, costs: bool, why: bool) -> str:
    if stage == "core":
        return "\n\n".join(_core(decl) for decl in chosen(checked, only, generic=True))
    return listing(chosen(checked, only), stage, costs, why)


def chosen(checked: Checked, only: str | None, generic: bool = False) -> list[core.FnDecl]:
    """The functions to show: one, or all, then the tests, then the script. E0955 if there are none.

    generic: with functions that need types chosen for them.
    """
    module = checked.module
    if only is not None:
        named = [d for d in (*module.functions.values(), *module.tests) if d.name == only]
        if not named:
            raise unknown(only, module.path, [d.name for d in (*module.functions.values(), *module.tests)])
        return named
    written = [d for d in module.functions.values() if d.body is not None]
    decls = written if generic else [d for d in written if open_variable(d) is None]
    if named := [*decls, *module.tests, *([module.script] if module.script else [])]:
        return named
    help = ("a function has code only where it is used, unless its own types say which",) if written else ()
    raise error("E0955", f"`{module.path}` has no function, test or statement to look at", None, help=help)


def function_named(checked: Checked, name: str) -> core.FnDecl:
    """A function with a body, by its name. E0955 if there is none."""
    named = [d for d in checked.module.functions.values() if d.body is not None and d.kind == "fn"]
    for decl in named:
        if decl.name == name:
            return decl
    raise unknown(name, checked.module.path, [d.name for d in named])


def unknown(name: str, path: str, known: list[str]) -> DlangError:
    close = closest(name, known)
    listed = ", ".join([f"`{n}`" for n in known[:LISTED]]) + (", …" if len(known) > LISTED else "")
    has = f"it has {listed}" if known else "it has none that a command can show: declare one by `fn`"
    help = has if close is None else f"did you mean `{close}`?"
    return error("E0955", f"`{path}` has no function or test `{name}`", None, help=(help,))


# ---- trees as text ---------------------------------------------------------------------------------------------------
def _core(decl: core.FnDecl) -> str:
    from dlang.typecheck.program import scheme_text

    head = f"# {decl.kind} {decl.name}: {scheme_text(decl)}"
    return "\n".join([head, *(_tree(decl.body) if decl.body is not None else [])])


def _tree(node: object, name: str = "", depth: int = 0) -> Iterator[str]:
    """One line for each node: its class, what is short in it, its type; then its parts."""
    lead = "  " * depth + (f"{name}: " if name else "")
    if isinstance(node, ty.Type | ty.Size | ty.Shape):
        yield lead + show(node)
        return
    if isinstance(node, ty.SizeVar | ty.RowVar):
        yield lead + (node.name or "?")
        return
    if isinstance(node, tuple) and not hasattr(node, "_fields"):
        if not name and len(node) == 2:  # a variable and what it stands for, a name and what it names
            yield from _tree(node[0], name, depth)
            yield from _tree(node[1], name, depth + 1)
        elif node:
            yield lead.rstrip(": ") + ":"
            for part in node:
                yield from _tree(part, "", depth + 1)
        return
    if not is_dataclass(node) or isinstance(node, type):
        yield lead + repr(node)
        return
    short, long = [], []
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, Span) or value is None or value is False or value in ((), "", {}):
            continue
        if isinstance(value, str | int | float | bool):
            short.append(f"{f.name}={value!r}")
        elif f.name == "type" and isinstance(node, core.Node):
            short.append(f": {show(value)}")
        elif isinstance(value, core.Local | core.FnDecl | ty.DataDecl | ty.Variant):
            short.append(f"{f.name}={value.name}")
        elif isinstance(value, ty.Size):
            short.append(f"{f.name}={show(value)}")
        elif is_dataclass(value) or isinstance(value, tuple):
            long.append((f.name, value))
        else:
            short.append(f"{f.name}={value!r}")
    yield lead + " ".join([type(node).__name__, *short])
    for part_name, value in long:
        yield from _tree(value, part_name, depth + 1)
