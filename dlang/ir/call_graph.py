"""Finds the functions that the functions of a program call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlang.graphs import components, in_cycles, reached
from dlang.ir.anf import Call, Function, Program
from dlang.ir.traverse import walk


def recursive_functions(program: Program) -> set[str]:
    """The functions that may call themselves, directly or through others: only these have to watch the stack."""
    calls = {name: sorted(set(called_by(f))) for name, f in program.functions.items()}
    return in_cycles(calls, components(calls))


def reachable(program: Program, entries: Sequence[str]) -> Program:
    """The part of a program that some functions reach."""
    names = set(reached(entries, lambda name: called_by(program.functions[name])))
    return replace(program, functions={name: f for name, f in program.functions.items() if name in names})


def reaching(callees: Mapping[str, Iterable[str]], starts: Iterable[str]) -> set[str]:
    """The functions that reach one of some, these included. callees: what each function calls."""
    callers: dict[str, list[str]] = {}
    for name, called in callees.items():
        for callee in called:
            callers.setdefault(callee, []).append(name)
    return set(reached(starts, lambda name: callers.get(name, ())))


def called_by(f: Function) -> list[str]:
    """The functions that one calls, once for each place."""
    return [let.op.function for let in walk(f.body) if isinstance(let.op, Call)]
