"""From a checked program and a function to a run that has not begun."""

from __future__ import annotations

from dlang.ad.signatures import holding
from dlang.diagnostics import Source
from dlang.driver import Request, followed
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.tools.debugger.code import Library
from dlang.tools.debugger.debugger import Debugger
from dlang.tools.debugger.expressions import Expressions
from dlang.tools.debugger.machine import MEMORY, Machine
from dlang.tools.debugger.places import Places, Sources
from dlang.tools.debugger.values import Trees
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.modules import library_folders, read
from dlang.typecheck.program import Checked


def debugger_of(
    checked: Checked,
    start: FnDecl,
    source: Source,
    *,
    host: Host | None = None,
    seed: int = 0,
    memory: int = MEMORY,
    library: bool = False,
) -> Debugger:
    """A debugger before the first statement of a function without parameters.

    seed: of random numbers. memory: bytes that states of the past may take. library: whether one steps into functions
    of the standard library. Raises `DlangError`.
    """
    program, entry, names, trees, functions = followed(Request(start))
    hidden = () if library else tuple([str(folder) for folder in library_folders()])
    sources = Sources(hidden, {source.path: Places.of(source)})
    for table in checked.program.tables.values():
        if table.path not in sources.known and not table.path.startswith(hidden):
            sources.of(Source(table.path, read(table.path)))
    machine = Machine(Library(program, sources, names.table), Interpreter(program, host or Host()), memory)
    state = machine.start(entry.name, [seed] if entry.seed else [])
    return Debugger(machine, state, Expressions(checked), Trees(trees, functions, holding(program.datatypes)), memory)
