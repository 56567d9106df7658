"""Iterations of a loop whose inner loops become one: what they share is loaded once, and sums keep their order."""

from __future__ import annotations

import re
from functools import reduce

import numpy as np
import pytest

import dlang
from dlang.codegen.jam import jammed
from dlang.codegen.llvm.modules import emit
from dlang.codegen.loops import Loop, Parallel, Stmt
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.ops.figures import FEW_INSIDE
from dlang.pipeline import optimise
from tests.specialize.support import lowered

DISTANCE = "sqrt((r[i, 0] - r[j, 0]) ** 2 + (r[i, 1] - r[j, 1]) ** 2 + (r[i, 2] - r[j, 2]) ** 2 + 0.01)"
PROGRAM = f"""
fn total(r: f64[n, 3]) -> f64 = sum(1.0 / {DISTANCE} for i, j)
fn rows(r: f64[n, 3]) -> f64[n] = [sum(1.0 / {DISTANCE} for j < n) for i < n]
fn others(r: f64[n, 3]) -> f64[n] = [sum(where(i == j, 0.0, 1.0 / {DISTANCE}) for j < n) for i < n]
fn largest(r: f64[n, 3]) -> f64 = max({DISTANCE} for i, j)
"""


def loops(text: str) -> list[Loop]:
    """All loops of a program of one function, outer ones first."""
    found = lowered(text)
    program = schedule(optimise(found.program, [found.entry.name]), Lanes(512))
    out: list[Loop] = []

    def visit(stmts: tuple[Stmt, ...]) -> None:
        for stmt in stmts:
            if isinstance(stmt, Loop | Parallel):
                out.extend([stmt] if isinstance(stmt, Loop) else [])
                visit(stmt.stmts)

    for function in program.functions.values():
        visit(function.body.stmts)
    return out


def rows(text: str) -> list[int]:
    """How many iterations at a time the loops of a program make."""
    return [jam.rows for loop in loops(text) if (jam := jammed(loop)) is not None]


def test_what_is_shuffled_serves_four_rows() -> None:
    text = f"fn f(r: f64[n, 3]) -> f64 = sum(1.0 / {DISTANCE} for i, j)"
    found = lowered(text)
    nests = schedule(optimise(found.program, [found.entry.name]), Lanes(512))
    llvm = emit(nests, [found.entry.name]).llvm
    bodies = re.findall(r"^vector\d+:\n((?:(?!^\w+:).*\n)*)", llvm, re.M)
    patterns = (r"= load <8 x double>", r"= shufflevector <8 x double>", r"@dl_rsqrt")
    counts = [tuple(len(re.findall(p, body)) for p in patterns) for body in bodies if "@dl_rsqrt" in body]
    assert counts == [(3, 6, 4), (3, 6, 1)]


def test_only_light_sums_over_what_has_to_be_shuffled_are_jammed() -> None:
    assert rows(f"fn f(r: f64[n, 3]) -> f64 = sum(1.0 / {DISTANCE} for i, j)") == [4]
    assert rows(f"fn f(r: f64[n, 3]) -> f64[n] = [sum(1.0 / {DISTANCE} for j < n) for i < n]") == [4]
    assert rows(f"fn f(r: f64[n, 3]) -> f64 = sum(exp({DISTANCE}) for i, j)") == []
    assert rows("fn f(x: f64[n], y: f64[m]) -> f64 = sum(1.0 / sqrt(x[i] * y[j]) for i, j)") == []
    assert rows(f"fn f(r: f64[n, 3]) -> f64 = sum(1.0 / {DISTANCE} for i < 3, j < 3)") == []


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 11, 37, 64, 70])
def test_rows_at_a_time_are_the_rows_one_by_one(n: int) -> None:
    m = dlang.compile(PROGRAM)
    r = np.random.default_rng(n).normal(size=(n, 3))
    distance = np.sqrt(((r[:, None] - r) ** 2).sum(axis=-1) + 0.01)
    np.testing.assert_allclose(m.rows(r), (1 / distance).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(m.others(r), (1 / distance).sum(axis=1) - 10.0, rtol=1e-12, atol=1e-13)
    added = reduce(float.__add__, map(float, m.rows(r)), 0.0)
    assert m.total(r) == (pytest.approx(added, rel=1e-13) if 8 <= n < FEW_INSIDE else added)  # there rows are lanes
    if n:
        assert m.largest(r) == pytest.approx(distance.max(), rel=1e-14)
