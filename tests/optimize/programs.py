"""Programs for the tests of the passes: random ones, and what to ask of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Atom, Program, Reduce, Scalar, Var, poly
from dlang.ir.builder import Builder, boolean, f64, i64
from dlang.ir.reader import read_program
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.pipeline import optimise
from tests.specialize.support import lowered

F64, I64 = Scalar("f64"), Scalar("i64")
Pass = Callable[[Program], Program]


def program(text: str) -> Program:
    """The program of a text, verified."""
    result = read_program(text)
    verify(result)
    return result


def through(p: Program, *passes: Pass) -> Program:
    """The program after some passes, verified after each."""
    for step in passes:
        p = step(p)
        verify(p, ownership=step.__name__ == "ownership")
    return p


def run(p: Program, args: Sequence[Any], name: str = "f") -> list[Any]:
    return Interpreter(p).run(name, list(args))


def cost(p: Program, args: Sequence[Any], name: str = "f") -> int:
    """The operations that a run takes."""
    interpreter = Interpreter(p)
    interpreter.run(name, list(args))
    return interpreter.operations


def count(p: Program, *kinds: type) -> int:
    """How many operations of these kinds a program has."""
    return sum(isinstance(let.op, kinds) for f in p.functions.values() for let in walk(f.body))


def assert_same(left: Sequence[Any], right: Sequence[Any], exact: bool = True) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def arguments(n: int, m: int) -> list[Any]:
    """What a random program takes."""
    x = np.linspace(-1.5, 2.0, n)
    y = np.cos(np.arange(n, dtype=np.float64))
    w = np.sin(np.arange(n * m, dtype=np.float64)).reshape(n, m)
    return [n, m, 0.75, x, y, w]


class _Random:
    """Builds a random program: every choice is drawn from Hypothesis, so that a failure shrinks."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.b = Builder()
        b = self.b
        self.n, self.m = b.param("n", I64), b.param("m", I64)
        self.scalars: list[Atom] = [b.param("a", F64), f64(0.0), f64(1.0), f64(2.0), f64(-1.0)]
        vector = Array("f64", (poly(self.n),))
        self.vectors: list[Var] = [b.param("x", vector), b.param("y", vector)]
        self.matrices: list[Var] = [b.param("w", Array("f64", (poly(self.n), poly(self.m))))]
        self.truths: list[Atom] = [boolean(True)]

    def pick(self, among: Sequence[Any]) -> Any:
        return among[self.draw(st.integers(0, len(among) - 1))]

    def inner(self, body: Callable[[], Any]) -> Any:
        """What is built inside a block is not seen outside."""
        saved = self.scalars[:], self.vectors[:], self.matrices[:], self.truths[:]
        result = body()
        self.scalars, self.vectors, self.matrices, self.truths = saved
        return result

    def scalar(self, depth: int = 1) -> Atom:
        """A scalar expression."""
        b = self.b
        kind = self.draw(st.integers(0, 8)) if depth > 0 else 0
        x = self.pick(self.scalars)
        if kind <= 1:
            return x
        if kind <= 4:
            name = self.pick(["add", "sub", "mul", "maximum", "minimum", "zero_safe_mul", "zero_safe_mul_both"])
            return b.prim(name, self.scalar(depth - 1), self.scalar(depth - 1))
        if kind == 5:
            return b.prim(self.pick(["neg", "abs", "sin", "tanh", "floor", "sign"]), self.scalar(depth - 1))
        if kind == 6:
            return b.prim("pow", self.scalar(depth - 1), self.pick([f64(0.0), f64(1.0), f64(2.0)]))
        if kind == 7:
            test = b.prim(self.pick(["lt", "ge", "eq"]), x, self.scalar(depth - 1))
            self.truths.append(test)
            return b.select(self.pick(self.truths), self.scalar(depth - 1), x)
        return b.prim("powi", self.scalar(depth - 1), self.pick([i64(0), i64(1), i64(2)]))

    def reads(self, i: Var | None, j: Var | None) -> None:
        """Makes some elements at a point scalars in reach."""
        b = self.b
        if i is not None:
            vector = self.pick(self.vectors)
            self.scalars.append(b.read(vector, [self.pick([poly(i), poly(self.n) - 1 - i])]))
            if j is not None:
                self.scalars.append(b.read(self.pick(self.matrices), [i, j]))

    def point(self, i: Var | None, j: Var | None, depth: int) -> Atom:
        """The value of a comprehension at a point."""

        def body() -> Atom:
            for _ in range(self.draw(st.integers(1, 2))):
                self.reads(i, j)
            if i is not None and j is None and depth > 0 and self.draw(st.booleans()):
                self.scalars.append(self.b.reduce([self.m], lambda k: self.point(i, k, 0)))
            return self.scalar(2)

        return self.inner(body)

    def statement(self, depth: int) -> None:
        b, n, m = self.b, poly(self.n), poly(self.m)
        match self.draw(st.integers(0, 9)):
            case 0:
                self.scalars.append(self.scalar(2))
            case 1 | 2:
                self.vectors.append(b.map([n], lambda i: self.point(i, None, 1)))
            case 3:
                self.matrices.append(b.map([n, m], lambda i, j: self.point(i, j, 0)))
            case 4:
                self.scalars.append(b.reduce([n], lambda i: self.point(i, None, 1), self.pick(["sum", "max", "min"])))
            case 5:
                (out,) = b.comp([n, m], lambda i, j: self.point(i, j, 0), lambda i, j: [Reduce((n,), (poly(i),))])
                self.vectors.append(out)
            case 6:
                vector = self.pick(self.vectors)
                (out,) = b.comp(
                    [n], lambda i: self.point(i, None, 0), lambda i: [Reduce((n,), (poly(i),), "sum", vector)]
                )
                self.vectors.append(out)
            case 7:
                test = b.prim("lt", self.pick(self.scalars), f64(0.5))

                def arm() -> list[Atom]:
                    self.statements(depth - 1)
                    return [self.scalar(1), self.pick(self.vectors)]

                s, v = b.if_(test, lambda: self.inner(arm), lambda: self.inner(arm))
                self.scalars.append(s)
                self.vectors.append(v)
            case 8 if depth > 0:

                def iteration(i: Var, s: Var, v: Var, u: Var) -> list[Atom]:
                    def inside() -> list[Atom]:
                        self.scalars.append(s)
                        self.vectors += [v, u]
                        self.reads(i, None)
                        self.statements(depth - 1)
                        if self.draw(st.booleans()):
                            self.vectors.append(b.update(v, [i], self.scalar(1)))
                            self.scalars.append(b.read(self.vectors[-1], [i]))
                        return [self.scalar(1), self.vectors[-1], self.pick([u, self.pick(self.vectors)])]

                    return list(self.inner(inside))

                init = [self.pick(self.scalars), self.pick(self.vectors), self.pick(self.vectors)]
                s, v, u = b.for_(0, self.pick([n, n, poly(0)]), init, iteration)
                self.scalars.append(s)
                self.vectors += [v, u]
            case _:
                self.vectors.append(b.view(self.pick(self.vectors), [n], lambda i: [n - 1 - i]))

    def statements(self, depth: int) -> None:
        for _ in range(self.draw(st.integers(0, 3))):
            self.statement(depth)

    def function(self) -> Program:
        for _ in range(self.draw(st.integers(1, 5))):
            self.statement(1)
        picks: Iterable[Atom] = [self.scalar(1), self.pick(self.vectors), self.vectors[-1], self.matrices[-1]]
        p = Program({"f": self.b.function("f", list(picks))})
        verify(p)
        return p


@st.composite
def programs(draw: Callable[[Any], Any]) -> Program:
    """A random program `f(n, m, a, x: f64[n], y: f64[n], w: f64[n, m])` of scalars, comprehensions, branches, loops."""
    return _Random(draw).function()


def same_in_the_end(text: str, name: str, args: Sequence[Any], rtol: float = 1e-12) -> Any:
    """Fails unless a function gives what it gave before all passes; returns that. args: the sizes first."""
    made = lowered(text, name)
    (expected,) = Interpreter(made.program).run(made.entry.name, list(args))
    (found,) = Interpreter(optimise(made.program, [made.entry.name], verify=True)).run(made.entry.name, list(args))
    np.testing.assert_allclose(found, expected, rtol=rtol, equal_nan=True)
    return expected
