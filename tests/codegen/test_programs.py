"""Compiled programs give what the reference interpreter gives, at every size."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from dlang.codegen.llvm.modules import print_llvm
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program
from dlang.pipeline import optimise
from dlang.runtime.devices import Driver
from dlang.runtime.engine import Engine
from tests.codegen.cases import CASES, Case

TOLERANCE = {"float64": 1e-13, "float32": 1e-5}


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    """Equal shapes and dtypes; integers exactly, floats to within rounding of terms of the size of 1."""
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted, strict=True):
        if isinstance(w, str):
            assert f == w
            continue
        f, w = np.asarray(f), np.asarray(w)
        assert (f.shape, f.dtype) == (w.shape, w.dtype)
        tolerance = TOLERANCE.get(w.dtype.name)
        if tolerance is None:
            np.testing.assert_array_equal(f, w)
        else:
            finite = np.abs(w[np.isfinite(w)])
            scale = float(finite.max()) if finite.size else 1.0
            np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance * max(scale, 1.0))


def run_all_sizes(case: Case, program: Program, driver: Driver | None = None) -> Engine:
    engine = Engine(Host(io.StringIO()), driver=driver)
    compiled = engine.compile(program, ["f"])
    interpreter = Interpreter(case.program, Host(io.StringIO()))
    rng = np.random.default_rng(7)
    for n in case.sizes:
        args = case.arguments(rng, n)
        kept = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        assert_same(compiled.run("f", args), interpreter.run("f", args))
        assert_same(args, kept)
    assert all(context.in_use == 0 for context in engine.contexts)
    return engine


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_compiled_code_agrees_with_the_interpreter(case: Case) -> None:
    assert run_all_sizes(case, case.program).compilations == 1


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_optimised_and_compiled_code_agrees_with_the_interpreter(case: Case) -> None:
    run_all_sizes(case, optimise(case.program, ["f"]))


def test_both_intermediate_forms_print() -> None:
    case = next(c for c in CASES if c.name == "state_replaced_whole")
    nests = schedule(case.program, Lanes(256))
    assert "loop i" in print_program(nests) and "by 8" in print_program(nests)
    assert "define i32 @entry" in print_llvm(case.program, ["f"])
