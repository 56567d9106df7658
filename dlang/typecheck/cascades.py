"""Handles messages that follow from a mistake elsewhere: they are dropped, or give it as their cause."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from dlang.diagnostics import Diagnostic
from dlang.grammar import syntax as s
from dlang.typecheck import core, declarations
from dlang.typecheck.scope import ModuleEntry, ModuleTable
from dlang.typecheck.types import MISTAKE


def outside_of_script(d: Diagnostic, variables: set[str]) -> Diagnostic:
    """Tells a function that misses a variable of the script why it does."""
    name = d.span.text if d.span is not None else ""
    if d.code != "E0201" or name not in variables or d.help:
        return d
    help = (f"functions do not see the variables of a script: declare it by `const {name} = …`, or pass it",)
    return replace(d, help=help)


def without_cascades(found: list[Diagnostic], module: s.Module, problems: list[Diagnostic]) -> list[Diagnostic]:
    """Leaves out what is said about declarations that could not be read as they were meant."""
    if not problems:
        return found
    own, items = set(problems), sorted(module.items, key=lambda i: i.span.first)
    starts = [i.span.first for i in items]

    def declaration(d: Diagnostic) -> int | None:
        """The number of the declaration that a message is about."""
        if d.span is None or d.span.source.file is not module.source:
            return None
        at = bisect_right(starts, d.span.first) - 1
        return at if at >= 0 and d.span.first <= items[at].span.last else None

    broken = {at for p in problems if (at := declaration(p)) is not None}
    return [d for d in found if d in own or declaration(d) not in broken]


def of_mistakes(d: Diagnostic) -> bool:
    """Tells whether a message speaks of a type that a mistake has left unknown: the mistake has its own message."""
    return MISTAKE.name in d.message


def bind_missing(table: ModuleTable, item: s.Import) -> None:
    """Names of an import that failed, so that their uses aren't reported too."""
    if item.names is None:
        name = ".".join(item.path)
        missing = ModuleTable(name, "", core.CoreModule(name, ""), broken=True)
        table.entries[item.alias or item.path[-1]] = ModuleEntry(missing, item.span)
    for n in item.names or ():
        if isinstance(n, s.Name) and not n.name[:1].isupper() and n.name not in table.entries:
            table.entries[n.name] = declarations.any_entry(n.name, table.name, item.span, None)
