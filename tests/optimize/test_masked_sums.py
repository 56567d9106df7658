"""Sums under a condition on axes are done where it holds, in tiles, and not in an arm of each point for itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen import loops
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk as walk_loops
from dlang.codegen.vectorize import Lanes
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.optimize.programs import assert_same, run
from tests.specialize.support import lowered

HEAD = "fn f(x: f64[n, d], y: f64[m, d], w: i64) -> f64[n, m] = "
DOT = "sum(x[i, e] * y[j, e] for e)"
MOVED = {
    "triangle": f"[if j <= i {{ {DOT} }} else {{ -1e9 }} for i < n, j < m]",
    "the other triangle": f"[if j > i {{ {DOT} / 2.0 }} else {{ -1.0 }} for i < n, j < m]",
    "both": f"[if i > j {{ {DOT} }} else {{ sum((x[i, e] - y[j, e]) ** 2 for e) }} for i < n, j < m]",
    "not": f"[if not (i > j) {{ tanh({DOT}) }} else {{ 0.5 }} for i < n, j < m]",
    "band": f"[if j > i - 3 and j <= i + 1 {{ {DOT} }} else {{ 0.5 }} for i < n, j < m]",
    "neither": f"[if j > i or j < i - 2 {{ 1.0 }} else {{ {DOT} }} for i < n, j < m]",
    "backwards": f"[if j < n - i {{ {DOT} }} else {{ 0.5 }} for i < n, j < m]",
}
READ_UNDER_THE_CONDITION = {
    "rows": "[if j < i - 3 { sum(x[i - 4, e] * y[j, e] for e) } else { 0.0 } for i < n, j < m]",
    "columns": "[if j < i - 3 { sum(x[i, e] * y[i - j - 4, e] for e) } else { 0.0 } for i < n, j < m]",
}
STAY = {
    "a bound that may wrap": f"[if j > i - w {{ {DOT} }} else {{ 0.5 }} for i < n, j < m]",
    "data decide": f"[if x[i, 0] > y[j, 0] {{ {DOT} }} else {{ 0.0 }} for i < n, j < m]",
    "one of two": f"[if j <= i or j > w {{ {DOT} }} else {{ 0.0 }} for i < n, j < m]",
    "two at a time": f"[if 2 * j <= i {{ {DOT} }} else {{ 0.0 }} for i < n, j < m]",
    "no product": "[if j <= i { sum(x[i, e] * y[j, e] * f64(i + 2 * j + e) for e < j) } else { 0.0 } for i < n, j < m]",
}


def text(name: str) -> str:
    return HEAD + {**MOVED, **STAY, **READ_UNDER_THE_CONDITION}[name] + "\n"


def arguments(n: int, m: int, d: int, w: int = 2) -> list[Any]:
    random = np.random.default_rng(n + m)
    return [random.normal(size=(n, d)), random.normal(size=(m, d)), w]


def optimised(source: str, name: str = "f") -> tuple[anf.Program, str]:
    made = lowered(source, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def sums_in_arms(program: anf.Program) -> Iterator[anf.Comp]:
    for f in program.functions.values():
        for let in walk(f.body):
            for arm in (let.op.then, let.op.otherwise) if isinstance(let.op, anf.If) else ():
                yield from (inner.op for inner in walk(arm) if isinstance(inner.op, anf.Comp))


@pytest.mark.parametrize("name", MOVED)
def test_a_sum_whose_condition_is_a_bound_leaves_its_arm(name: str) -> None:
    program, entry = optimised(text(name))
    assert not list(sums_in_arms(program))
    nests = schedule(program, lanes=Lanes(512)).functions[entry]
    why = [w.choice for s in walk_loops(nests.body.stmts) if isinstance(s, loops.Loop) for w in s.why]
    assert any(choice.startswith("tiles of 4 rows") for choice in why)


@pytest.mark.parametrize("name", STAY)
def test_other_sums_stay_in_theirs(name: str) -> None:
    assert list(sums_in_arms(optimised(text(name))[0]))


@pytest.mark.parametrize("name", [*MOVED, *STAY])
def test_values_stay(name: str) -> None:
    made = lowered(text(name), "f")
    program, entry = optimised(text(name))
    for n, m, d in ((1, 1, 1), (5, 7, 9), (9, 4, 3)):
        args = [n, d, m, *arguments(n, m, d)]
        assert_same(run(made.program, args, entry), run(program, args, entry), exact=False)


@cache
def module(name: str, backend: str) -> Any:
    slope = "grad(|x: f64[n, d], y: f64[m, d]| sum(sin(f(x, y, w))), wrt = (0, 1))(x, y)"
    return dlang.compile(f"{text(name)}fn g(x: f64[n, d], y: f64[m, d], w: i64) = {slope}\n", backend=backend)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 5, 9), (4, 4, 10), (5, 3, 2), (17, 20, 12), (33, 40, 16), (50, 9, 20)]
)
@pytest.mark.parametrize("name", [*MOVED, *STAY])
def test_compiled_code_agrees_with_the_meaning(name: str, shape: tuple[int, int, int]) -> None:
    if name == "no product":
        shape = (shape[0], min(shape[1], shape[2]), shape[2])
    for w in (-1, 0, 1, 3, 100):
        args = arguments(*shape, w)
        found, expected = (module(name, backend).f(*args) for backend in ("cpu", "interp"))
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    found, expected = (module(name, backend).g(*args) for backend in ("cpu", "interp"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_what_is_read_is_not_read_where_the_condition_does_not_hold() -> None:
    x, y, w = arguments(6, 6, 4)
    y[4:] = np.nan
    found = module("triangle", "cpu").f(x, y, w)
    assert not np.isnan(found[:4]).any() and np.isnan(found[5, 4:]).all() and (found[4, 5:] == -1e9).all()


@pytest.mark.parametrize("name", READ_UNDER_THE_CONDITION)
def test_a_tile_reads_nothing_for_a_row_that_has_not_its_columns(name: str) -> None:
    program, entry = optimised(text(name))
    nests = schedule(program, lanes=Lanes(512)).functions[entry]
    why = [w.choice for s in walk_loops(nests.body.stmts) if isinstance(s, loops.Loop) for w in s.why]
    assert not any(choice.startswith("tiles of 4 rows") for choice in why)
    x, y, w = arguments(9, 9, 12)
    found, expected = (module(name, backend).f(x, y, w) for backend in ("cpu", "interp"))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_no_array_is_made_for_a_sum_of_all_of_them() -> None:
    source = f"fn f(x: f64[n, d], y: f64[n, d]) -> f64 = sum(if j <= i {{ {DOT} }} else {{ 0.0 }} for i < n, j < n)\n"
    program, _ = optimised(source)
    arrays = [
        v for f in program.functions.values() for let in walk(f.body) for v in let.vars if isinstance(v.type, anf.Array)
    ]
    assert not any(len(v.type.shape) > 1 for v in arrays if isinstance(v.type, anf.Array))


def test_a_batch_packs_each_operand_once() -> None:
    source = (
        "fn f(x: f64[h, n, d], y: f64[h, n, d]) -> f64[h, n, n] =\n"
        "  [if j <= i { sum(x[a, i, e] * y[a, j, e] for e) } else { 0.0 } for a, i < n, j < n]\n"
    )
    program, entry = optimised(source)
    function = schedule(program, lanes=Lanes(512)).functions[entry]
    packed = [s for s in walk_loops(function.body.stmts) if isinstance(s, loops.Allocate) and s.buffer.name == "packed"]
    nests = [s for s in walk_loops(function.body.stmts) if isinstance(s, loops.Loop) and packed[0] in s.stmts]
    assert len(packed) == 1 and len(packed[0].shape) == (2 if nests else 3)
