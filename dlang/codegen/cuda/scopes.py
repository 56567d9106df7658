"""Blocks of the program of the host under way, and what statements bind and change."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dlang.codegen.loops import Buffer, CallC, For, Invoke, Move, Runtime, Slice, Slot, Stmt, Store, Value, While
from dlang.codegen.traverse import bound_by, walk
from dlang.ir.anf import Var

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


def without(values: Sequence[_T], positions: Container[int]) -> tuple[_T, ...]:
    return tuple([value for k, value in enumerate(values) if k not in positions])


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
