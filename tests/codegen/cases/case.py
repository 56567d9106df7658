"""What a program for a back end is: one function `f`, with what to call it with for a size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlang.diagnostics import Source, Span
from dlang.ir.anf import Array, Atom, Function, Program, Scalar, Var, poly
from dlang.ir.builder import Builder

I64 = Scalar("i64")
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 40)
SOURCE = Source("case.dl", "first line\nsecond line\n")
NUMPY = {
    "f64": "float64", "f32": "float32", "bool": "bool",
    "i64": "int64", "i32": "int32", "i8": "int8", "u64": "uint64", "u32": "uint32", "u8": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    program: Program
    arguments: Callable[[np.random.Generator, int], list[Any]]
    sizes: tuple[int, ...] = SIZES


Arguments = Callable[[np.random.Generator, int], list[Any]]


def sample(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    """An array without structure."""
    match dtype:
        case "f64" | "f32":
            return rng.standard_normal(shape).astype(NUMPY[dtype])
        case "bool":
            return rng.random(shape) < 0.5
        case _:
            low = 0 if dtype[0] == "u" else -50
            return rng.integers(low, 50, shape).astype(NUMPY[dtype])


class Cases(list[Case]):
    """The programs of a subject."""

    def add(
        self,
        arguments: Arguments | None = None,
        sizes: tuple[int, ...] = SIZES,
        functions: Callable[[], dict[str, Function]] | None = None,
    ) -> Callable[[Callable[[Builder], list[Atom]]], None]:
        """Adds a program: the decorated function builds it."""

        def add(build: Callable[[Builder], list[Atom]]) -> None:
            others = functions() if functions else {}
            b = Builder(others, Span(SOURCE, 11, 17))
            results = build(b)
            program = Program({**others, "f": b.function("f", results)})
            self.append(Case(build.__name__, program, arguments or (lambda rng, n: standard(rng, n, program)), sizes))

        return add


def standard(rng: np.random.Generator, n: int, program: Program) -> list[Any]:
    """n for every i64 parameter, arrays of the sizes that follow."""
    out: list[Any] = []
    env: dict[Var, int] = {}
    for p in program.functions["f"].params:
        match p.type:
            case Array(dtype, shape):
                out.append(sample(rng, dtype, *(s.evaluate(env.__getitem__) for s in shape)))
            case Scalar("i64"):
                env[p] = n
                out.append(n)
            case Scalar(dtype):
                out.append(sample(rng, dtype)[()])
    return out


def size_and_vector(b: Builder, dtype: str = "f64", name: str = "x") -> tuple[Var, Var]:
    n = b.param("n", I64)
    return n, b.param(name, Array(dtype, (poly(n),)))


def size_and_matrix(b: Builder, dtype: str = "f64") -> tuple[Var, Var]:
    n = b.param("n", I64)
    return n, b.param("a", Array(dtype, (poly(n), poly(n) + 2)))
