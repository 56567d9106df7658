"""Calls of BLAS and LAPACK from compiled code, and the loops around them, on matrices of f64 or f32 in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.blocks import Scheduler
from dlang.ir.anf import Atom, Lit, Prim, Scalar, Size, Var, fresh, poly
from dlang.ir.rules import result_vars
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

BY_ROWS, BY_COLUMNS = Lit(101, "i32"), Lit(102, "i32")
PLAIN, TRANSPOSED = Lit(111, "i32"), Lit(112, "i32")
UPPER, LOWER = Lit(121, "i32"), Lit(122, "i32")
ANY_DIAGONAL, UNIT = Lit(131, "i32"), Lit(132, "i32")
LEFT, RIGHT = Lit(141, "i32"), Lit(142, "i32")
"""The constants of CBLAS for these."""


def letter(text: str) -> Lit:
    """A letter, as LAPACK takes them."""
    return Lit(ord(text), "i8")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a matrix: element i, j is buffer[offset + i · stride + j]."""

    buffer: loops.Buffer
    offset: Size
    stride: Size

    def at(self, i: Size | int, j: Size | int) -> Size:
        return self.offset + poly(i) * self.stride + poly(j)

    def part(self, i: Size | int, j: Size | int) -> Block:
        """The block that begins at an element."""
        return Block(self.buffer, self.at(i, j), self.stride)


@dataclass(slots=True)
class Routines:
    """Emits calls and loops at the end of the innermost open body. dtype: of the matrices."""

    s: Scheduler
    dtype: str
    scratch: list[loops.Buffer] = field(default_factory=list)

    # ---- calls -------------------------------------------------------------------------------------------------------
    def int32(self, size: Size) -> Atom:
        """A size as the libraries take it."""
        if size.constant is not None:
            return Lit(int(size.constant), "i32")
        value = size.atom
        if value is None:
            value = fresh("size", I64)
            self.s.out.append(loops.Evaluate(value, size))
        short = fresh("size", Scalar("i32"))
        self.s.out.append(loops.Convert(short, value))
        return short

    def leading(self, size: Size) -> Atom:
        """The distance of columns, of which LAPACK wants at least 1."""
        if size.constant is not None:
            return Lit(max(int(size.constant), 1), "i32")
        least = fresh("stride", Scalar("i32"))
        self.s.out.append(loops.Compute(least, "maximum", (self.int32(size), Lit(1, "i32"))))
        return least

    def subtract(self, block: Block, row: Var, other: Var, factor: Atom, between: tuple[Size, Size]) -> None:
        """Takes a multiple of one row of a block from another, between two places of these."""

        def element(i: Var) -> None:
            lost = self.compute("mul", self.load(block, poly(other), poly(i)), factor)
            self.store(block, poly(row), poly(i), self.compute("sub", self.load(block, poly(row), poly(i)), lost))

        self.loop(*between, element)

    def pointer(self, block: Block) -> loops.Buffer:
        return self.s.slice(block.buffer, block.offset)

    def lapack(self, name: str, *args: loops.Value) -> Var:
        """A routine on matrices by columns; gives its info."""
        short, info = fresh("info", Scalar("i32")), fresh("info", I64)
        target = f"scipy_LAPACKE_{'d' if self.dtype == 'f64' else 's'}{name}"
        self.s.out += [loops.CallC(target, (BY_COLUMNS, *args), short), loops.Convert(info, short)]
        return info

    def blas(self, name: str, *args: loops.Value) -> None:
        """A routine on matrices by rows."""
        self.s.out.append(
            loops.CallC(f"scipy_cblas_{'d' if self.dtype == 'f64' else 's'}{name}", (BY_ROWS, *args), None)
        )

    def product(
        self,
        c: Block,
        a: Block,
        b: Block,
        sizes: tuple[Size, Size, Size],
        scale: float,
        keep: float,
        turn_a: bool = False,
    ) -> None:
        """c = scale · a · b + keep · c, where c is m by n and the sizes are m, n, k."""
        turn = TRANSPOSED if turn_a else PLAIN
        m, n, k = map(self.int32, sizes)
        args = (self.pointer(a), self.leading(a.stride), self.pointer(b), self.leading(b.stride), self.real(keep))
        self.blas("gemm", turn, PLAIN, m, n, k, self.real(scale), *args, self.pointer(c), self.leading(c.stride))

    def real(self, value: float) -> Lit:
        return Lit(value, self.dtype)

    # ---- control -----------------------------------------------------------------------------------------------------
    def loop(self, low: Size | int, high: Size | int, body: Callable[[Var], None]) -> None:
        """A loop of independent iterations."""
        index = fresh("i", I64)
        with self.s.collect() as stmts:
            body(index)
        self.s.loop(index, (poly(low),), (poly(high),), stmts)

    def in_turn(self, count: Size, body: Callable[[Var], None]) -> None:
        """A loop whose iterations are done in order."""
        turn = fresh("turn", I64)
        with self.s.collect() as stmts:
            body(turn)
        self.s.out.append(loops.For(turn, ZERO, count, (), (), loops.Body(tuple(stmts), ()), ()))

    def when(self, condition: Atom, then: Callable[[], None], otherwise: Callable[[], None] = lambda: None) -> None:
        bodies = []
        for emit in (then, otherwise):
            with self.s.collect() as stmts:
                emit()
            bodies.append(loops.Body(tuple(stmts), ()))
        self.s.out.append(loops.Branch(condition, bodies[0], bodies[1], ()))

    def choose(
        self, condition: Atom, then: Callable[[], Atom], otherwise: Callable[[], Atom], type: Scalar = I64
    ) -> Var:
        """Emits a branch; returns its result: the value of the arm taken."""
        bodies = []
        for emit in (then, otherwise):
            with self.s.collect() as stmts:
                value = emit()
            bodies.append(loops.Body(tuple(stmts), (value,)))
        result = fresh("info", type)
        self.s.out.append(loops.Branch(condition, bodies[0], bodies[1], (result,)))
        return result

    def compute(self, name: str, *args: Atom) -> Var:
        (result,) = result_vars(Prim(name, args), {})
        self.s.out.append(loops.Compute(result, name, args))
        return result

    def first(self, size: Size, wrong: Callable[[Var], Atom]) -> Var:
        """The first of the numbers from 1 where something is wrong, 0 if nowhere."""
        i, first, result = fresh("i", I64), fresh("first", I64), fresh("info", I64)
        none = self.evaluate(size + 1)
        with self.s.collect() as stmts:
            number = self.evaluate(poly(i) + 1)
            value = self.compute("select", wrong(i), number, none)
        self.s.loop(i, (ZERO,), (size,), stmts, [loops.Reduction("min", first, value)])
        over = self.compute("gt", first, self.evaluate(size))
        self.s.out.append(loops.Compute(result, "select", (over, Lit(0, "i64"), first)))
        return result

    def finite(self, rows: Size, columns: Callable[[Var], Size], a: Block) -> Var:
        """Emits a test that all elements in the first columns of the rows are finite; returns its result."""
        i, j = fresh("i", I64), fresh("j", I64)
        row, all = fresh("finite", Scalar("bool")), fresh("finite", Scalar("bool"))
        with self.s.collect() as outer:
            with self.s.collect() as inner:
                fine = self.compute("isfinite", self.load(a, poly(i), poly(j)))
            self.s.loop(j, (ZERO,), (columns(i),), inner, [loops.Reduction("all", row, fine)])
        self.s.loop(i, (ZERO,), (rows,), outer, [loops.Reduction("all", all, row)])
        return all

    def select(self, flag: Atom, yes: Atom, no: Atom) -> Atom:
        """One of two values; which one may be known already."""
        if isinstance(flag, Lit):
            return yes if flag.value else no
        return self.compute("select", flag, yes, no)

    def evaluate(self, size: Size) -> Var:
        result = fresh("n", I64)
        self.s.out.append(loops.Evaluate(result, size))
        return result

    # ---- elements ----------------------------------------------------------------------------------------------------
    def load(self, block: Block, i: Size | int, j: Size | int) -> Var:
        x = fresh("x", Scalar(block.buffer.dtype))
        self.s.out.append(loops.Load(x, block.buffer, block.at(i, j)))
        return x

    def store(self, block: Block, i: Size | int, j: Size | int, value: Atom) -> None:
        self.s.out.append(loops.Store(block.buffer, block.at(i, j), value))

    def workspace(self, name: str, shape: Sequence[Size], dtype: str = "") -> loops.Buffer:
        """Memory that is free again after `done`."""
        buffer = loops.Buffer(name, dtype or self.dtype)
        self.s.out.append(loops.Allocate(buffer, tuple(shape), 0, self.s.span))
        self.scratch.append(buffer)
        return buffer

    def done(self) -> None:
        """Frees the memory of `workspace`."""
        self.s.out += [loops.Free(buffer) for buffer in self.scratch]
        self.scratch.clear()

    @contextmanager
    def temporary(self, name: str, rows: Size, columns: Size, dtype: str = "") -> Iterator[Block]:
        """A matrix for what is emitted meanwhile, in a branch or loop too."""
        buffer = loops.Buffer(name, dtype or self.dtype)
        self.s.out.append(loops.Allocate(buffer, (rows, columns), 0, self.s.span))
        yield Block(buffer, ZERO, columns)
        self.s.out.append(loops.Free(buffer))

    def matrix(self, name: str, rows: Size, columns: Size) -> Block:
        return Block(self.workspace(name, (rows, columns)), ZERO, columns)

    def map(self, rows: Size, columns: Size, element: Callable[[Var, Var], Atom], out: Block) -> None:
        """out[i, j] = element(i, j)."""
        self.loop(0, rows, lambda i: self.loop(0, columns, lambda j: self.store(out, poly(i), poly(j), element(i, j))))

    def transposed(self, out: Block, source: Block, rows: Size, columns: Size) -> None:
        """out[i, j] = source[j, i]."""
        self.map(rows, columns, lambda i, j: self.load(source, poly(j), poly(i)), out)

    def fill(self, out: Block, rows: Size, columns: Size, value: float) -> None:
        self.map(rows, columns, lambda i, j: self.real(value), out)
