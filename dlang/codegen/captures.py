"""What statements use from outside, so that a piece of a loop can be a function of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.traverse import bound_by
from dlang.ir.anf import Lit, Size


@dataclass(slots=True)
class _Uses:
    """A walk over statements in order: what they have bound so far, and what they used that they had not."""

    bound: set[loops.Slot] = field(default_factory=set)
    captures: dict[loops.Slot, None] = field(default_factory=dict)

    def values(self, values: Iterable[loops.Value]) -> None:
        for value in values:
            if not isinstance(value, Lit) and value not in self.bound:
                self.captures[value] = None

    def sizes(self, sizes: Iterable[Size]) -> None:
        for size in sizes:
            self.values(size.atoms())

    def operands(self, operands: Iterable[loops.Operand]) -> None:
        for operand in operands:
            if isinstance(operand, loops.ArrayValue):
                self.values((operand.buffer,))
                self.sizes(operand.shape)
            else:
                self.values((operand,))

    def matrix(self, matrix: loops.Matrix | loops.Panels | loops.Scattered) -> None:
        self.values((matrix.buffer,))
        self.sizes((matrix.offset,))
        match matrix:
            case loops.Matrix():
                self.sizes((matrix.stride,))
            case loops.Scattered():
                self.values((matrix.rows, matrix.columns))
            case loops.Panels():
                pass

    def body(self, body: loops.Body) -> None:
        self.statements(body.stmts)
        self.values(body.results)

    def statements(self, stmts: Sequence[loops.Stmt]) -> None:
        for stmt in stmts:
            self.statement(stmt)

    def statement(self, stmt: loops.Stmt) -> None:
        match stmt:
            case loops.Compute(_, _, args):
                self.values(args)
            case loops.Convert(_, arg):
                self.values((arg,))
            case loops.Evaluate(_, size):
                self.sizes((size,))
            case loops.Load(_, buffer, offset):
                self.values((buffer,))
                self.sizes((offset,))
            case loops.Store(buffer, offset, value):
                self.values((buffer, value))
                self.sizes((offset,))
            case loops.Move(target, source, count):
                self.values((target, source))
                self.sizes((count,))
            case loops.Slice(_, source, offset):
                self.values((source,))
                self.sizes((offset,))
            case loops.Allocate(_, shape) | loops.Room(_, shape):
                self.sizes(shape)
            case loops.Free(buffer):
                self.values((buffer,))
            case loops.Only(condition):
                self.values((condition,))
            case loops.Assert(condition, _, _, values):
                self.values((condition,))
                self.operands(values)
            case loops.Invoke(_, arguments, outs):
                self.values((*arguments, *outs))
            case loops.Product(a, b, c, rows, columns, inner):
                for matrix in (a, b, c):
                    self.matrix(matrix)
                self.values([v for v in (stmt.room, stmt.followed) if v is not None])
                self.sizes((rows, columns, inner))
                if stmt.batch is not None:
                    self.sizes((stmt.batch.count, stmt.batch.a, stmt.batch.b, stmt.batch.c))
            case loops.Pack(target, source, rows, columns):
                self.matrix(target)
                self.matrix(source)
                self.sizes((rows, columns))
            case loops.Count(nest, bytes, operations):
                self.values((nest,))
                self.sizes((bytes, operations))
            case loops.Pieces():
                self.sizes((*stmt.lows, *stmt.highs, stmt.work, stmt.grain))
            case loops.Parallel():
                self.values((*stmt.captures, *[p.whole for p in stmt.partials], stmt.length))
                self.sizes((*stmt.lows, *stmt.highs, *[p.size for p in stmt.partials]))
            case loops.LoadTag(_, node) | loops.LoadField(_, node):
                self.values((node,))
            case loops.Node(_, _, references, scalars):
                self.values((*references, *scalars))
            case loops.TextOp(_, _, texts):
                self.values(texts)
            case loops.Runtime(_, _, arguments, outs):
                self.operands((*arguments, *outs))
            case loops.CallC(_, arguments):
                self.values(arguments)
            case loops.Collect(mark, trigger, handles, arrays):
                self.values((mark, trigger, *handles))
                self.operands(arrays)
            case loops.Release(mark):
                self.values((mark,))
            case loops.Mark() | loops.At():
                pass
            case loops.Loop():
                self.sizes((*stmt.lows, *stmt.highs))
                self.bound.add(stmt.var)
                self.statements(stmt.stmts)
                for r in stmt.reductions:
                    self.values((r.value,) if r.rank is None else (r.value, r.rank))
            case loops.For():
                self.sizes((stmt.low, stmt.high))
                self.values(stmt.init)
                self.bound.update((stmt.index, *stmt.params))
                self.body(stmt.body)
            case loops.While():
                self.values(stmt.init)
                self.bound.update(stmt.params)
                self.body(stmt.condition)
                self.body(stmt.body)
            case loops.Branch(condition, then, otherwise):
                self.values((condition,))
                self.body(then)
                self.body(otherwise)
            case _:
                raise AssertionError(f"what {type(stmt).__name__} uses")
        self.bound.update(bound_by(stmt))


def captures(stmts: Sequence[loops.Stmt], inside: Iterable[loops.Slot]) -> tuple[loops.Slot, ...]:
    """What statements use that neither they nor `inside` bind, in order."""
    uses = _Uses(set(inside))
    uses.statements(stmts)
    return tuple(uses.captures)
