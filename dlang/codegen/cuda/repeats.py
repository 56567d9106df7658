"""Finds repeatable functions: their work for the device depends on their arguments, not on its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.codegen import loops
from dlang.codegen.traverse import callee, map_inside, walk


def only_launched(program: loops.Program) -> loops.Program:
    """The program without kernels that nothing launches."""
    launched = [s.kernel for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, loops.Launch)]
    numbers = {old: new for new, old in enumerate(sorted(set(launched)))}

    def statements(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        return tuple([statement(s) for s in stmts])

    def statement(s: loops.Stmt) -> loops.Stmt:
        return replace(s, kernel=numbers[s.kernel]) if isinstance(s, loops.Launch) else map_inside(s, statements)

    if len(numbers) == len(program.kernels):
        return program
    functions = {
        name: replace(f, body=loops.Body(statements(f.body.stmts), f.body.results))
        for name, f in program.functions.items()
    }
    return replace(program, functions=functions, kernels=tuple([program.kernels[k] for k in numbers]))


def is_repeatable(program: loops.Program, name: str) -> bool:
    """Tells whether a function that launches kernels asks nothing of the host but to have the device do things."""
    visited: set[str] = set()
    open = [name]
    while open:
        f = program.functions[open.pop()]
        if f.name in visited:
            continue
        if not f.device:
            return False
        visited.add(f.name)
        for stmt in walk(f.body.stmts):
            if (function := callee(stmt)) is not None:
                open.append(function)
            elif isinstance(stmt, loops.Load | loops.Store):
                return False
            elif not (stmt.IS.kernel or isinstance(stmt, loops.OnDevice | loops.Launch)):
                return False
    return True
