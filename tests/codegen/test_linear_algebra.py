"""Linear algebra in compiled code gives what the interpreter gives, whatever is in the matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.ir.anf import Array, Library, Lit, Program, poly
from dlang.ir.builder import Builder
from dlang.ir.interpreter import Interpreter
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.host import Host
from tests.optimize.programs import I64

ENGINE = Engine(Host())
SIZES = (0, 1, 2, 5, 31, 33, 70)
TOLERANCE = {"f64": 1e-11, "f32": 2e-4}
NUMPY = {"f64": np.float64, "f32": np.float32}
DTYPES = pytest.mark.parametrize("dtype", ["f64", "f32"])
Matrix = Any


def square(name: str, dtype: str, *flags: bool, columns: int | None = None) -> Program:
    """An operation on a square matrix, and on a right-hand side of so many columns (0: of any number of them)."""
    b = Builder()
    n = poly(b.param("n", I64))
    args: list[Any] = [b.param("a", Array(dtype, (n, n)))]
    if name.startswith("cholesky_"):
        args.append(b.param("bar", Array(dtype, (n, n))))
    elif columns is not None:
        count = poly(columns) if columns else poly(b.param("columns", I64))
        args.append(b.param("b", Array(dtype, (n, count))))
    args += [Lit(flag, "bool") for flag in flags]
    return Program({"f": b.function("f", list(b.emit(Library(name, tuple(args)))))})


def rectangular(name: str, dtype: str) -> Program:
    b = Builder()
    m, n, k = (b.param(size, I64) for size in "mnk")
    a = b.param("a", Array(dtype, (poly(m), poly(n))))
    return Program({"f": b.function("f", list(b.emit(Library(name, (a, k)))))})


def random(m: int, n: int, dtype: str, seed: int = 0) -> Matrix:
    return np.random.default_rng([seed, m, n]).normal(size=(m, n)).astype(NUMPY[dtype])


def compiled(program: Program) -> CompiledProgram:
    return ENGINE.compile(program, ["f"])


def agree(code: CompiledProgram, program: Program, args: list[Any], dtype: str) -> None:
    kept = [np.copy(a) for a in args]
    for found, wanted in zip(code.run("f", args), Interpreter(program).run("f", args), strict=True):
        found, wanted = np.asarray(found), np.asarray(wanted)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = max(float(finite.max()), 1.0) if finite.size else 1.0
        np.testing.assert_allclose(found, wanted, rtol=0, atol=scale * TOLERANCE[dtype])
    for before, after in zip(kept, args, strict=True):
        np.testing.assert_array_equal(before, after)
    assert all(context.in_use == 0 for context in ENGINE.contexts)


def well(n: int, dtype: str) -> Matrix:
    return random(n, n, dtype) / NUMPY[dtype](max(n, 1)) + 2 * np.eye(n, dtype=NUMPY[dtype])


def positive(n: int, dtype: str) -> Matrix:
    a = random(n, n, dtype)
    return a @ a.T + n * np.eye(n, dtype=NUMPY[dtype])


def broken(a: Matrix) -> list[Matrix]:
    """Matrices for which an operation may not be possible."""
    found = [np.zeros_like(a), -a]
    for value in (np.nan, np.inf):
        b = a.copy()
        b[len(a) // 2 :, : len(a) // 3 + 1] = value
        found.append(b)
    return found


@DTYPES
@pytest.mark.parametrize(("name", "make"), [("cholesky", positive), ("lu", well), ("det", well), ("eigh", positive)])
def test_factors_are_those_of_the_interpreter(name: str, make: Callable[[int, str], Matrix], dtype: str) -> None:
    program = square(name, dtype)
    code = compiled(program)
    for n in SIZES:
        for a in [make(n, dtype), *(broken(make(n, dtype)) if 0 < n < 40 else [])]:
            agree(code, program, [n, a], dtype)


@DTYPES
@pytest.mark.parametrize(
    ("name", "columns", "flags"),
    [
        ("solve", 0, ()),
        ("solve", 1, ()),
        ("triangular_solve", 0, (True, False, False)),
        ("triangular_solve", 0, (False, True, True)),
        ("triangular_solve", 1, (True, True, False)),
        ("triangular_solve", 1, (False, False, True)),
        ("triangular_solve", 3, (True, True, True)),
    ],
)
def test_solutions_are_those_of_the_interpreter(name: str, columns: int, flags: tuple[bool, ...], dtype: str) -> None:
    program = square(name, dtype, *flags, columns=columns)
    code = compiled(program)
    for n in SIZES:
        count = columns or 9  # as many as are solved in blocks, where there are enough rows
        b = random(n, count, dtype, 1)
        for a in [well(n, dtype), *(broken(well(n, dtype)) if n == 5 else [])]:
            agree(code, program, [n, a, b] if columns else [n, a, count, b], dtype)


@DTYPES
@pytest.mark.parametrize("name", ["qr", "svd"])
def test_orthogonal_factors_are_those_of_the_interpreter(name: str, dtype: str) -> None:
    program = rectangular(name, dtype)
    code = compiled(program)
    for m, n in ((0, 0), (0, 2), (3, 0), (1, 1), (4, 3), (3, 7), (40, 12)):
        agree(code, program, [m, n, min(m, n), random(m, n, dtype)], dtype)
    agree(code, program, [3, 2, 2, np.full((3, 2), np.nan, NUMPY[dtype])], dtype)


@DTYPES
def test_the_derivative_of_a_factor_is_that_of_the_interpreter(dtype: str) -> None:
    program = square("cholesky_pullback", dtype)
    code = compiled(program)
    for n in (*SIZES, 64, 96):
        factor = np.linalg.cholesky(positive(n, dtype))
        bar = random(n, n, dtype, 2) / NUMPY[dtype](max(n, 1))
        above = np.triu(np.full_like(bar, np.nan), 1)  # is not read
        agree(code, program, [n, factor, np.tril(bar) + above], dtype)


@DTYPES
def test_the_tangent_of_a_factor_is_that_of_the_interpreter(dtype: str) -> None:
    program = square("cholesky_pushforward", dtype)
    code = compiled(program)
    for n in (*SIZES, 64, 96):
        factor = np.linalg.cholesky(positive(n, dtype))
        dot = random(n, n, dtype, 2) / NUMPY[dtype](max(n, 1))
        above = np.triu(np.full_like(dot, np.nan), 1)  # is not read
        agree(code, program, [n, factor + above, dot + dot.T], dtype)


def test_no_work_is_left_to_the_host_but_for_matrices_beyond_the_library() -> None:
    for name in ("cholesky", "cholesky_pushforward", "lu", "det", "eigh"):
        text = print_program(schedule(square(name, "f64")))
        assert text.count("runtime library") == (1 if name != "eigh" else 2)
        assert text.index("runtime library") > text.index("else")
