"""Which functions are recursive: only these have to watch the stack."""

from __future__ import annotations

from collections.abc import Iterator

from dlang.ir import anf
from dlang.ir.traverse import walk


def recursive_functions(program: anf.Program) -> set[str]:
    """The functions that can reach themselves: those in cycles of the call graph (Tarjan's components)."""
    calls = {
        name: sorted({let.op.function for let in walk(f.body) if isinstance(let.op, anf.Call)})
        for name, f in program.functions.items()
    }
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out: set[str] = set()

    for start in calls:
        if start in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(start, iter(calls[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            name, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    work.append((successor, iter(calls[successor])))
                    break
                if successor in stack:
                    low[name] = min(low[name], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    component = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    if len(component) > 1 or name in calls[name]:
                        out.update(component)
    return out
