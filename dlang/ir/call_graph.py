"""Which functions of a program call themselves."""

from __future__ import annotations

from dlang.components import components, in_cycles
from dlang.ir.anf import Call, Program
from dlang.ir.traverse import walk


def recursive_functions(program: Program) -> set[str]:
    """The functions that may call themselves, directly or through others: only these have to watch the stack."""
    calls = {
        name: sorted({let.op.function for let in walk(f.body) if isinstance(let.op, Call)})
        for name, f in program.functions.items()
    }
    return in_cycles(calls, components(calls))
