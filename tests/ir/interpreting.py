"""Programs made with the builder, interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Function, Program, Scalar, Var, poly
from dlang.ir.builder import Builder
from dlang.ir.verify import verify

F, I64, BOOL = Scalar("f64"), Scalar("i64"), Scalar("bool")
RNG = np.random.default_rng(0)


def vector(b: Builder, name: str, n: Var, dtype: str = "f64") -> Var:
    return b.param(name, Array(dtype, (poly(n),)))


def matrix(b: Builder, name: str, m: Var, n: Var, dtype: str = "f64") -> Var:
    return b.param(name, Array(dtype, (poly(m), poly(n))))


def interpreter(b: Builder, *results: Any, **others: Function) -> Interpreter:
    program = Program({"f": b.function("f", results), **others})
    verify(program)
    return Interpreter(program)


def run(b: Builder, args: list[Any], *results: Any, **others: Function) -> list[Any]:
    return interpreter(b, *results, **others).run("f", args)
