"""What an operation does besides binding values: it may have to stay, and it may consume arrays."""

from __future__ import annotations

from collections.abc import Set

from dlang.ir.anf import (
    Array,
    Call,
    Check,
    Comp,
    Effect,
    For,
    If,
    Jvp,
    Op,
    Program,
    Pull,
    Record,
    Update,
    Var,
    Vjp,
    While,
)
from dlang.ir.traverse import named_function, op_blocks, walk


def effectful_functions(program: Program) -> frozenset[str]:
    """The functions that may end the run or be seen by the world, themselves or through what they call."""
    callers: dict[str, list[str]] = {}
    work: list[str] = []
    for name, function in program.functions.items():
        for let in walk(function.body):
            match let.op:
                case Check() | Effect():
                    work.append(name)
                case op if callee := named_function(op):
                    callers.setdefault(callee, []).append(name)
                case _:
                    pass
    found: set[str] = set()
    while work:
        name = work.pop()
        if name not in found:
            found.add(name)
            work += callers.get(name, [])
    return frozenset(found)


def is_effectful(op: Op, functions: Set[str]) -> bool:
    """Whether an operation must stay, alone or for what stands in its blocks; `functions` are the effectful ones."""
    match op:
        case Check() | Effect():
            return True
        case Call() | Vjp() | Jvp() | Record() | Pull():
            return op.function in functions
        case _:
            return any(is_effectful(let.op, functions) for block in op_blocks(op) for let in block.lets)


_CONSUMING = (Update, Comp, For, While, If)


def consumed_by(op: Op) -> list[Var]:
    """The arrays that an operation, or one in its blocks, would like to change in place."""
    out: list[Var] = []
    match op:
        case Update(array=array):
            return [array]
        case Comp():
            out = [d.into for d in op.destinations if d.into is not None]
        case For() | While():
            out = [a for a in op.init if isinstance(a, Var) and isinstance(a.type, Array)]
        case _:
            pass
    for block in op_blocks(op):
        for let in block.lets:
            if type(let.op) in _CONSUMING:
                out += consumed_by(let.op)
    return out
