"""Which functions can be repeated: what they ask of the device depends on their arguments alone, not on its answers."""

from __future__ import annotations

from dlang.codegen.loops import (
    At,
    Branch,
    Compute,
    Convert,
    Evaluate,
    For,
    Guard,
    Invoke,
    Launch,
    Loop,
    OnDevice,
    Program,
    Slice,
    While,
)
from dlang.codegen.traverse import walk


def is_repeatable(program: Program, name: str) -> bool:
    """Whether a function that launches kernels asks nothing of the host but to have the device do things."""
    found: set[str] = set()
    open = [name]
    while open:
        f = program.functions[open.pop()]
        if f.name in found:
            continue
        if not f.device:
            return False
        found.add(f.name)
        for stmt in walk(f.body.stmts):
            match stmt:
                case Invoke(function):
                    open.append(function)
                case Compute() | Convert() | Evaluate() | Slice() | Guard() | At() | OnDevice() | Launch():
                    pass
                case Loop() | For() | While() | Branch():
                    pass
                case _:
                    return False
    return True
