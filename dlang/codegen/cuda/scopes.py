"""Blocks of the program of the host under way, and what statements bind and change."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dlang.codegen import loops
from dlang.codegen.traverse import binds, bound_by, captures, changed, map_inside, walk
from dlang.ir.anf import Size, Var
from dlang.ir.types import product

_T = TypeVar("_T")


@dataclass(slots=True)
class Scope:
    """The statements of a block so far.

    host, once: those that have come last and are to be done together, by the host or by one thread of the device; one
    of these is empty. after: what is freed after them. there: numbers that the device has, by how to get them.
    temporary: memory of the device to be freed where the block ends. conditions: those on which kernels do anything;
    cold: whether they hardly ever do.
    """

    there: dict[Var, loops.Stmt]
    out: list[loops.Stmt] = field(default_factory=list)
    host: list[loops.Stmt] = field(default_factory=list)
    once: list[loops.Stmt] = field(default_factory=list)
    after: list[loops.Stmt] = field(default_factory=list)
    temporary: list[loops.Buffer] = field(default_factory=list)
    conditions: list[Var] = field(default_factory=list)
    cold: bool = False


def bound(stmts: Sequence[loops.Stmt]) -> set[loops.Slot]:
    return {slot for stmt in stmts for slot in bound_by(stmt)}


def guards_in(stmts: Sequence[loops.Stmt]) -> list[loops.Assert]:
    """The guards among the statements themselves; one inside of a statement refuses what is made there."""
    return [stmt for stmt in stmts if isinstance(stmt, loops.Assert)]


def without(values: Sequence[_T], positions: Container[int]) -> tuple[_T, ...]:
    return tuple([value for k, value in enumerate(values) if k not in positions])


def counted(stmts: Sequence[loops.Stmt]) -> dict[loops.Buffer, Size]:
    """Maps arrays that statements of the host only hand to functions to the numbers of elements that these get."""
    found: dict[loops.Buffer, Size] = {}
    differing = {v for v in captures(_without_operands(stmts), ()) if isinstance(v, loops.Buffer)}
    inside = [slot for stmt in walk(stmts) for slot in binds(stmt) if isinstance(slot, Var)]
    for stmt in walk(stmts):
        for operand in (*stmt.args, *stmt.outs) if isinstance(stmt, loops.Runtime) else ():
            if isinstance(operand, loops.ArrayValue):
                size = product(operand.shape)
                if found.setdefault(operand.buffer, size) != size or size.mentions(inside):
                    differing.add(operand.buffer)
    return {buffer: size for buffer, size in found.items() if buffer not in differing}


def _without_operands(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
    """Statements whose calls of functions are handed nothing."""
    handed = [replace(s, args=(), outs=()) if isinstance(s, loops.Runtime) else s for s in stmts]
    return tuple([map_inside(s, _without_operands) for s in handed])


def may_change(stmts: Sequence[loops.Stmt]) -> set[loops.Buffer]:
    """The arrays that statements may change or give back, whoever does them."""
    return changed_by(stmts) | {stmt.buffer for stmt in walk(stmts) if isinstance(stmt, loops.Free)}


def changed_by(stmts: Sequence[loops.Stmt]) -> set[loops.Buffer]:
    """The arrays that statements may change."""
    roots: dict[loops.Buffer, loops.Buffer] = {}
    for stmt in walk(stmts):
        match stmt:
            case loops.Slice(result, source):
                roots[result] = source
            case loops.InOrder():
                for param, first in zip(stmt.params, stmt.init, strict=True):
                    if isinstance(param, loops.Buffer) and isinstance(first, loops.Buffer):
                        roots[param] = first
            case _:
                pass
    found: set[loops.Buffer] = set()
    for value in [value for stmt in walk(stmts) for value in changed(stmt)]:
        while isinstance(value, loops.Buffer) and value not in found:
            found.add(value)
            value = roots.get(value, value)
    return found
