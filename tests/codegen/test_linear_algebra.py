"""Linear algebra in compiled code gives what the interpreter gives, whatever is in the matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Function, LinalgOp, Lit, Program, poly
from dlang.ir.builder import Builder
from dlang.runtime.engine import CompiledProgram, Engine
from tests.optimize.programs import I64

ENGINE = Engine(Host(), level=0)  # which makes code several times faster than the usual one, of the same bits
SIZES = (0, 1, 2, 5, 31, 33, 70)
TOLERANCE = {"f64": 1e-11, "f32": 2e-4}
NUMPY = {"f64": np.float64, "f32": np.float32}
DTYPES = pytest.mark.parametrize("dtype", ["f64", "f32"])
Matrix = Any


@cache
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
    return Program({"f": b.function("f", list(b.emit(LinalgOp(name, tuple(args)))))})


@cache
def factored(name: str, dtype: str, columns: int | None = None) -> Program:
    """What is made of the factors of a square matrix, and of a right-hand side of so many columns (0: any number)."""
    b = Builder()
    n = poly(b.param("n", I64))
    a = b.param("a", Array(dtype, (n, n)))
    packed, order, exchanges, info = b.emit(LinalgOp("lu", (a,)))
    args: list[Any] = [a, packed, order]
    if columns is not None:
        count = poly(columns) if columns else poly(b.param("columns", I64))
        args.append(b.param("b", Array(dtype, (n, count))))
    if name == "lu_det":
        args.append(exchanges)
    return Program({"f": b.function("f", [info, *b.emit(LinalgOp(name, tuple(args)))])})


@cache
def rectangular(name: str, dtype: str) -> Program:
    b = Builder()
    m, n, k = (b.param(size, I64) for size in "mnk")
    a = b.param("a", Array(dtype, (poly(m), poly(n))))
    return Program({"f": b.function("f", list(b.emit(LinalgOp(name, (a, k)))))})


def random(m: int, n: int, dtype: str, seed: int = 0) -> Matrix:
    return np.random.default_rng([seed, m, n]).normal(size=(m, n)).astype(NUMPY[dtype])


def compiled(program: Program) -> CompiledProgram:
    return _compiled(program.functions["f"])


@cache
def _compiled(function: Function) -> CompiledProgram:
    return ENGINE.compile(Program({"f": function}), ["f"])


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
@pytest.mark.parametrize(("name", "make"), [("cholesky", positive), ("lu", well), ("eigh", positive)])
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
@pytest.mark.parametrize(
    ("name", "columns"),
    [
        *((name, count) for name in ("lu_solve", "lu_solve_transposed") for count in (0, 1, 3)),
        *((name, None) for name in ("lu_inverse", "lu_det", "lu_logdet")),
    ],
)
def test_what_is_made_of_factors_is_that_of_the_interpreter(name: str, columns: int | None, dtype: str) -> None:
    program = factored(name, dtype, columns)
    code = compiled(program)
    for n in (*SIZES, 100):
        count = columns or 9
        b = [] if columns is None else [random(n, count, dtype, 1)]
        sizes = [count] if columns == 0 else []
        for a in [well(n, dtype), *(broken(well(n, dtype)) if n == 5 else [])]:
            agree(code, program, [n, a, *sizes, *b], dtype)


@DTYPES
@pytest.mark.parametrize("n", [47, 48, 63, 65, 80, 81, 128, 150])
def test_pivots_are_those_of_the_library(n: int, dtype: str) -> None:
    program = square("lu", dtype)
    code = compiled(program)
    a = random(n, n, dtype)
    packed, order, exchanges, info = map(np.asarray, code.run("f", [n, a]))
    wanted = Interpreter(program).run("f", [n, a])
    np.testing.assert_array_equal(order, wanted[1])
    assert int(exchanges) == wanted[2] > n // 2 and int(info) == 0
    lower = np.tril(packed, -1) + np.eye(n, dtype=NUMPY[dtype])
    np.testing.assert_allclose(lower @ np.triu(packed), a[order], atol=n * TOLERANCE[dtype] / 10)
    assert np.abs(lower).max() == 1.0


@DTYPES
def test_the_first_of_equal_pivots_is_taken_and_zero_ones_are_left_alone(dtype: str) -> None:
    n = 70
    code = compiled(square("lu", dtype))
    _, order, exchanges, info = map(np.asarray, code.run("f", [n, np.ones((n, n), NUMPY[dtype])]))
    assert (order == np.arange(n)).all() and [int(exchanges), int(info)] == [0, 2]
    a = np.triu(random(n, n, dtype))
    a[40, 40] = 0
    packed, order, exchanges, info = map(np.asarray, code.run("f", [n, a]))
    np.testing.assert_array_equal(packed, a)
    assert [int(exchanges), int(info)] == [0, 41]
    tiny = np.full((n, n), 5e-324 if dtype == "f64" else 1e-45, NUMPY[dtype])  # has no finite reciprocal
    packed = np.asarray(code.run("f", [n, tiny])[0])
    assert (packed[1:, 0] == 1).all() and (packed[1:, 1:] == 0).all()


@DTYPES
@pytest.mark.parametrize("name", ["triangular_solve", "lu_solve", "lu_solve_transposed"])
def test_what_is_not_finite_reaches_only_what_substitution_computes_from_it(name: str, dtype: str) -> None:
    triangular = name == "triangular_solve"
    program = square(name, dtype, True, False, False, columns=0) if triangular else factored(name, dtype, columns=0)
    code = compiled(program)
    for n, columns in ((4, 3), (17, 5), (33, 2), (70, 9)):
        for bad in (np.nan, np.inf):
            b = random(n, columns, dtype, 1)
            b[n // 2, columns // 2] = bad
            args = [n, well(n, dtype), columns, b]
            for x in (code.run("f", args), Interpreter(program).run("f", args)):
                others = np.delete(np.asarray(x[0 if triangular else 1]), columns // 2, axis=1)
                assert np.isfinite(others).all()
            if triangular:
                a = well(n, dtype)
                a[n // 2, 0] = bad
                found = np.asarray(code.run("f", [n, a, columns, random(n, columns, dtype, 1)])[0])
                assert np.isfinite(found[: n // 2]).all() and not np.isfinite(found[n // 2]).any()


@DTYPES
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_large_matrices_that_are_not_finite_have_an_order_too(bad: float, dtype: str) -> None:
    n = 70
    a = random(n, n, dtype)
    a[n // 2, n // 3] = bad
    packed, order, *_ = map(np.asarray, compiled(square("lu", dtype)).run("f", [n, a]))
    assert sorted(order) == list(range(n)) and not np.isfinite(packed).all()


@DTYPES
@pytest.mark.parametrize("name", ["qr", "svd"])
def test_orthogonal_factors_are_those_of_the_interpreter(name: str, dtype: str) -> None:
    program = rectangular(name, dtype)
    code = compiled(program)
    for m, n in ((0, 0), (0, 2), (3, 0), (1, 1), (4, 3), (3, 7), (40, 12)):
        agree(code, program, [m, n, min(m, n), random(m, n, dtype)], dtype)
    agree(code, program, [3, 2, 2, np.full((3, 2), np.nan, NUMPY[dtype])], dtype)


@DTYPES
@pytest.mark.parametrize(("m", "n"), [(48, 48), (49, 60), (64, 64), (65, 90), (90, 65), (81, 81), (129, 129)])
def test_larger_orthogonal_factors_are_those_of_the_interpreter_with_their_signs(m: int, n: int, dtype: str) -> None:
    program = rectangular("qr", dtype)
    code = compiled(program)
    k = min(m, n)
    a = random(m, n, dtype)
    agree(code, program, [m, n, k, a], dtype)
    a[:, 20] = 0  # nothing to reflect in an upper triangle, and in a column of zeros
    a[7:, :7] = np.triu(a[7:, :7], 50)
    a[0, 0] = -0.0
    agree(code, program, [m, n, k, a], dtype)
    agree(code, program, [m, n, k, np.triu(a)], dtype)
    agree(code, program, [m, n, k, np.zeros_like(a)], dtype)


@DTYPES
@pytest.mark.parametrize("power", [-1, 1])
def test_columns_whose_squares_have_no_number_are_reflected(power: int, dtype: str) -> None:
    n = 60
    scale = NUMPY[dtype]((1e300 if dtype == "f64" else 1e37) ** (0.8 * power))
    a = random(n, n, dtype) / NUMPY[dtype](n)
    code = compiled(rectangular("qr", dtype))
    q, upper = map(np.asarray, code.run("f", [n, n, n, a * scale]))
    np.testing.assert_allclose(q.T @ q, np.eye(n), atol=n * TOLERANCE[dtype])
    np.testing.assert_allclose(q @ (upper / scale), a, atol=n * TOLERANCE[dtype])


@DTYPES
def test_orthogonal_factors_of_what_is_not_a_number_are_not_numbers(dtype: str) -> None:
    n = 60
    a = random(n, n, dtype)
    a[40, 30] = np.nan
    q, upper = map(np.asarray, compiled(rectangular("qr", dtype)).run("f", [n, n, n, a]))
    assert np.isnan(q).any() and np.isnan(upper[30:, 30:]).any() and not np.isnan(upper[:, :30]).any()


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
    for name in ("cholesky", "cholesky_pushforward", "lu", "eigh"):
        text = print_program(schedule(square(name, "f64")))
        assert text.count("runtime library") == (1 if name != "eigh" else 2)
        assert text.index("runtime library") > text.index("else")
