"""Blocks of the program of the host under way, and what statements bind and change."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dlang.codegen.captures import captures
from dlang.codegen.loops import (
    ArrayValue,
    Buffer,
    CallC,
    For,
    Free,
    Guard,
    Invoke,
    Move,
    Product,
    Runtime,
    Slice,
    Slot,
    Stmt,
    Store,
    Value,
    While,
)
from dlang.codegen.traverse import binds, bound_by, map_inside, walk
from dlang.ir.anf import Size, Var
from dlang.ir.types import product

_T = TypeVar("_T")


@dataclass(slots=True)
class Scope:
    """The statements of a block so far.

    host, once: those that have come last and are to be done together, by the host or by one thread of the device; one
    of these is empty. after: what is freed after them. there: numbers that the device has, by how to get them.
    temporary: memory of the device to be freed where the block ends. conditions: those on which kernels do anything;
    rare: whether they hardly ever do.
    """

    there: dict[Var, Stmt]
    out: list[Stmt] = field(default_factory=list)
    host: list[Stmt] = field(default_factory=list)
    once: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)
    temporary: list[Buffer] = field(default_factory=list)
    conditions: list[Var] = field(default_factory=list)
    rare: bool = False


def bound(stmts: Sequence[Stmt]) -> set[Slot]:
    return {slot for stmt in stmts for slot in bound_by(stmt)}


def guards_in(stmts: Sequence[Stmt]) -> list[Guard]:
    """The guards among the statements themselves; one inside of a statement refuses what is made there."""
    return [stmt for stmt in stmts if isinstance(stmt, Guard)]


def without(values: Sequence[_T], positions: Container[int]) -> tuple[_T, ...]:
    return tuple([value for k, value in enumerate(values) if k not in positions])


def counted(stmts: Sequence[Stmt]) -> dict[Buffer, Size]:
    """Of arrays that statements of the host hand to functions alone: how many elements these are told of."""
    found: dict[Buffer, Size] = {}
    differing = {v for v in captures(_without_operands(stmts), ()) if isinstance(v, Buffer)}
    inside = [slot for stmt in walk(stmts) for slot in binds(stmt) if isinstance(slot, Var)]
    for stmt in walk(stmts):
        for operand in (*stmt.args, *stmt.outs) if isinstance(stmt, Runtime) else ():
            if isinstance(operand, ArrayValue):
                size = product(operand.shape)
                if found.setdefault(operand.buffer, size) != size or size.mentions(inside):
                    differing.add(operand.buffer)
    return {buffer: size for buffer, size in found.items() if buffer not in differing}


def _without_operands(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Statements whose calls of functions are handed nothing."""
    handed = [replace(s, args=(), outs=()) if isinstance(s, Runtime) else s for s in stmts]
    return tuple([map_inside(s, _without_operands) for s in handed])


def may_change(stmts: Sequence[Stmt]) -> set[Buffer]:
    """The arrays that statements may change or give back, whoever does them."""
    found = changed_by(stmts)
    for stmt in walk(stmts):
        match stmt:
            case Product(c=c):
                found.add(c.buffer)
            case Free(buffer):
                found.add(buffer)
            case _:
                pass
    return found


def changed_by(stmts: Sequence[Stmt]) -> set[Buffer]:
    """The arrays that statements of the host may change."""
    roots: dict[Buffer, Buffer] = {}
    changed: list[Value] = []
    for stmt in walk(stmts):
        match stmt:
            case Slice(result, source):
                roots[result] = source
            case Store(buffer) | Move(buffer):
                changed.append(buffer)
            case Runtime(outs=outs):
                changed += [out.buffer for out in outs]
            case CallC(_, args) | Invoke(_, args):
                changed += args
                if isinstance(stmt, Invoke):
                    changed += stmt.outs
            case For() | While():
                for param, first in zip(stmt.params, stmt.init, strict=True):
                    if isinstance(param, Buffer) and isinstance(first, Buffer):
                        roots[param] = first
            case _:
                pass
    found: set[Buffer] = set()
    for value in changed:
        while isinstance(value, Buffer) and value not in found:
            found.add(value)
            value = roots.get(value, value)
    return found
