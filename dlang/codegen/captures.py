"""What statements use from outside, so that a piece of a loop can be a function of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dlang.codegen.loops import (
    Allocate,
    ArrayValue,
    Body,
    Branch,
    Compute,
    Convert,
    Count,
    Evaluate,
    For,
    Free,
    Guard,
    Invoke,
    Load,
    LoadField,
    LoadTag,
    Loop,
    Matrix,
    Move,
    Operand,
    Pack,
    Panels,
    Parallel,
    Pieces,
    Product,
    Reduction,
    Slice,
    Slot,
    Stmt,
    Store,
    Value,
    While,
)
from dlang.ir.anf import Lit, Size


@dataclass(slots=True)
class _Uses:
    """A walk over statements in order: what they have bound so far, and what they used that they had not."""

    bound: set[Slot] = field(default_factory=set)
    captures: dict[Slot, None] = field(default_factory=dict)

    def values(self, values: Iterable[Value]) -> None:
        for value in values:
            if not isinstance(value, Lit) and value not in self.bound:
                self.captures[value] = None

    def sizes(self, sizes: Iterable[Size]) -> None:
        for size in sizes:
            self.values(size.atoms())

    def operands(self, operands: Iterable[Operand]) -> None:
        for operand in operands:
            if isinstance(operand, ArrayValue):
                self.values((operand.buffer,))
                self.sizes(operand.shape)
            else:
                self.values((operand,))

    def matrix(self, matrix: Matrix | Panels) -> None:
        self.values((matrix.buffer,))
        self.sizes((matrix.offset,) if isinstance(matrix, Panels) else (matrix.offset, matrix.stride))

    def body(self, body: Body) -> None:
        self.statements(body.stmts)
        self.values(body.results)

    def reductions(self, reductions: Sequence[Reduction]) -> None:
        for r in reductions:
            self.values((r.value,) if r.rank is None else (r.value, r.rank))
        for r in reductions:
            self.bound.update((r.result,) if r.position is None else (r.result, r.position))

    def statements(self, stmts: Sequence[Stmt]) -> None:
        for stmt in stmts:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        bound: Iterable[Slot] = ()
        match stmt:
            case Compute(var, _, args):
                self.values(args)
                bound = (var,)
            case Convert(var, arg):
                self.values((arg,))
                bound = (var,)
            case Evaluate(var, size):
                self.sizes((size,))
                bound = (var,)
            case Load(var, buffer, offset):
                self.values((buffer,))
                self.sizes((offset,))
                bound = (var,)
            case Store(buffer, offset, value):
                self.values((buffer, value))
                self.sizes((offset,))
            case Move(target, source, count):
                self.values((target, source))
                self.sizes((count,))
            case Slice(result, source, offset):
                self.values((source,))
                self.sizes((offset,))
                bound = (result,)
            case Allocate(buffer, shape):
                self.sizes(shape)
                bound = (buffer,)
            case Free(buffer):
                self.values((buffer,))
            case Guard(condition, _, _, values):
                self.values((condition,))
                self.operands(values)
            case Invoke(_, arguments, outs, results):
                self.values((*arguments, *outs))
                bound = results
            case Product(a, b, c, rows, columns, inner):
                for matrix in (a, b, c):
                    self.matrix(matrix)
                if stmt.room is not None:
                    self.values((stmt.room,))
                self.sizes((rows, columns, inner))
            case Pack(target, source, rows, columns):
                self.matrix(target)
                self.matrix(source)
                self.sizes((rows, columns))
            case Count(nest, bytes, operations):
                self.values((nest,))
                self.sizes((bytes, operations))
            case Pieces():
                self.sizes((*stmt.lows, *stmt.highs, stmt.work, stmt.grain))
                bound = (stmt.length,)
            case Parallel():
                self.values((*stmt.captures, *[p.whole for p in stmt.partials], stmt.length))
                self.sizes((*stmt.lows, *stmt.highs, *[p.size for p in stmt.partials]))
                bound = [s for r in stmt.reductions for s in (r.result, r.position) if s is not None]
            case LoadTag(var, node):
                self.values((node,))
                bound = (var,)
            case LoadField(slot, node):
                self.values((node,))
                bound = (slot,)
            case Loop():
                self.sizes((*stmt.lows, *stmt.highs))
                self.bound.add(stmt.var)
                self.statements(stmt.stmts)
                self.reductions(stmt.reductions)
            case For():
                self.sizes((stmt.low, stmt.high))
                self.values(stmt.init)
                self.bound.update((stmt.index, *stmt.params))
                self.body(stmt.body)
                bound = stmt.results
            case While():
                self.values(stmt.init)
                self.bound.update(stmt.params)
                self.body(stmt.condition)
                self.body(stmt.body)
                bound = stmt.results
            case Branch(condition, then, otherwise, results):
                self.values((condition,))
                self.body(then)
                self.body(otherwise)
                bound = results
            case _:
                raise AssertionError(f"{type(stmt).__name__} in a piece of a loop")
        self.bound.update(bound)


def captures(stmts: Sequence[Stmt], inside: Iterable[Slot]) -> tuple[Slot, ...]:
    """What statements use that neither they nor `inside` bind, in order."""
    uses = _Uses(set(inside))
    uses.statements(stmts)
    return tuple(uses.captures)
