"""`dlc ir`: the program after a stage of the compiler."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, DlangError, Source, Span, error, shown
from dlang.driver import check, errors_of, read_source
from dlang.dump_ir import STAGES as LOWER, listing, open_variable
from dlang.spelling import closest
from dlang.tools.arguments import Parser, add_json
from dlang.tools.report import report
from dlang.typecheck import core, types as ty
from dlang.typecheck.printing import show

if TYPE_CHECKING:
    from dlang.typecheck.program import Checked


STAGES = ("syntax", "core", *LOWER)


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--stage", required=True, choices=STAGES)
    parser.add_argument("--fn", metavar="NAME", help="only this function, and what it calls")
    parser.add_argument("--costs", action="store_true", help="also what derivatives save, in bytes")


def main(args: argparse.Namespace) -> int:
    return print_ir(args.file, args.stage, args.fn, args.costs, args.json)


def print_ir(path: str, stage: str, only: str | None, costs: bool, as_json: bool) -> int:
    """Prints a file, or one function of it and what that calls, after a stage."""
    try:
        source = read_source(path)
        if stage == "syntax":
            text, found = _syntax(source, only)
        else:
            checked = check(source)
            found = checked.diagnostics
            text = "" if errors_of(checked) else _after(checked, stage, only, costs)
    except DlangError as e:
        text, found = "", e.diagnostics
    if text:
        print(shown(text))
    return 1 if report(found, as_json) else 0


def _syntax(source: Source, only: str | None) -> tuple[str, list[Diagnostic]]:
    from dlang.grammar.parser import parse

    module, found = parse(source)
    items = [i for i in module.items if only is None or getattr(i, "name", None) == only]
    if only is not None and not items:
        raise unknown(only, source.path, [getattr(i, "name", "") for i in module.items])
    return "\n".join(line for item in items for line in _tree(item)), found


def _after(checked: Checked, stage: str, only: str | None, costs: bool) -> str:
    if stage == "core":
        return "\n\n".join(_core(decl) for decl in chosen(checked, only, generic=True))
    return listing(chosen(checked, only), stage, costs)


def chosen(checked: Checked, only: str | None, generic: bool = False) -> list[core.FnDecl]:
    """The functions to show: one, or all, then the tests, then the script. E0955 if there are none.

    generic: with functions that need types chosen for them.
    """
    module = checked.module
    if only is not None:
        found = [d for d in (*module.functions.values(), *module.tests) if d.name == only]
        if not found:
            raise unknown(only, module.path, [d.name for d in (*module.functions.values(), *module.tests)])
        return found
    written = [d for d in module.functions.values() if d.body is not None]
    decls = written if generic else [d for d in written if open_variable(d) is None]
    if found := [*decls, *module.tests, *([module.script] if module.script else [])]:
        return found
    help = ("a function has code only where it is used, unless its own types say which",) if written else ()
    raise error("E0955", f"`{module.path}` has no function, test or statement to look at", None, help=help)


def unknown(name: str, path: str, known: list[str]) -> DlangError:
    close = closest(name, known)
    help = () if close is None else (f"did you mean `{close}`?",)
    return error("E0955", f"`{path}` has no function or test `{name}`", None, help=help)


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
