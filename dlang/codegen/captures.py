"""What statements use from outside, so that a piece of a loop can be a function of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dlang.codegen.loops import (
    Allocate,
    ArrayValue,
    At,
    Body,
    Branch,
    CallC,
    Collect,
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
    Mark,
    Matrix,
    Move,
    Node,
    Only,
    Operand,
    Pack,
    Panels,
    Parallel,
    Pieces,
    Product,
    Release,
    Room,
    Runtime,
    Scattered,
    Slice,
    Slot,
    Stmt,
    Store,
    TextOp,
    Value,
    While,
)
from dlang.codegen.traverse import bound_by
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

    def matrix(self, matrix: Matrix | Panels | Scattered) -> None:
        self.values((matrix.buffer,))
        self.sizes((matrix.offset,))
        match matrix:
            case Matrix():
                self.sizes((matrix.stride,))
            case Scattered():
                self.values((matrix.rows, matrix.columns))
            case Panels():
                pass

    def body(self, body: Body) -> None:
        self.statements(body.stmts)
        self.values(body.results)

    def statements(self, stmts: Sequence[Stmt]) -> None:
        for stmt in stmts:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Compute(_, _, args):
                self.values(args)
            case Convert(_, arg):
                self.values((arg,))
            case Evaluate(_, size):
                self.sizes((size,))
            case Load(_, buffer, offset):
                self.values((buffer,))
                self.sizes((offset,))
            case Store(buffer, offset, value):
                self.values((buffer, value))
                self.sizes((offset,))
            case Move(target, source, count):
                self.values((target, source))
                self.sizes((count,))
            case Slice(_, source, offset):
                self.values((source,))
                self.sizes((offset,))
            case Allocate(_, shape) | Room(_, shape):
                self.sizes(shape)
            case Free(buffer):
                self.values((buffer,))
            case Only(condition):
                self.values((condition,))
            case Guard(condition, _, _, values):
                self.values((condition,))
                self.operands(values)
            case Invoke(_, arguments, outs):
                self.values((*arguments, *outs))
            case Product(a, b, c, rows, columns, inner):
                for matrix in (a, b, c):
                    self.matrix(matrix)
                self.values([v for v in (stmt.room, stmt.followed) if v is not None])
                self.sizes((rows, columns, inner))
                if stmt.batch is not None:
                    self.sizes((stmt.batch.count, stmt.batch.a, stmt.batch.b, stmt.batch.c))
            case Pack(target, source, rows, columns):
                self.matrix(target)
                self.matrix(source)
                self.sizes((rows, columns))
            case Count(nest, bytes, operations):
                self.values((nest,))
                self.sizes((bytes, operations))
            case Pieces():
                self.sizes((*stmt.lows, *stmt.highs, stmt.work, stmt.grain))
            case Parallel():
                self.values((*stmt.captures, *[p.whole for p in stmt.partials], stmt.length))
                self.sizes((*stmt.lows, *stmt.highs, *[p.size for p in stmt.partials]))
            case LoadTag(_, node) | LoadField(_, node):
                self.values((node,))
            case Node(_, _, references, scalars):
                self.values((*references, *scalars))
            case TextOp(_, _, texts):
                self.values(texts)
            case Runtime(_, _, arguments, outs):
                self.operands((*arguments, *outs))
            case CallC(_, arguments):
                self.values(arguments)
            case Collect(mark, trigger, handles, arrays):
                self.values((mark, trigger, *handles))
                self.operands(arrays)
            case Release(mark):
                self.values((mark,))
            case Mark() | At():
                pass
            case Loop():
                self.sizes((*stmt.lows, *stmt.highs))
                self.bound.add(stmt.var)
                self.statements(stmt.stmts)
                for r in stmt.reductions:
                    self.values((r.value,) if r.rank is None else (r.value, r.rank))
            case For():
                self.sizes((stmt.low, stmt.high))
                self.values(stmt.init)
                self.bound.update((stmt.index, *stmt.params))
                self.body(stmt.body)
            case While():
                self.values(stmt.init)
                self.bound.update(stmt.params)
                self.body(stmt.condition)
                self.body(stmt.body)
            case Branch(condition, then, otherwise):
                self.values((condition,))
                self.body(then)
                self.body(otherwise)
            case _:
                raise AssertionError(f"what {type(stmt).__name__} uses")
        self.bound.update(bound_by(stmt))


def captures(stmts: Sequence[Stmt], inside: Iterable[Slot]) -> tuple[Slot, ...]:
    """What statements use that neither they nor `inside` bind, in order."""
    uses = _Uses(set(inside))
    uses.statements(stmts)
    return tuple(uses.captures)
