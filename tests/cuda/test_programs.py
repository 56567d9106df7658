"""Programs whose loops are kernels of an emulated GPU give what the interpreter gives."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from dlang.ir.anf import Program
from dlang.ir.interpreter import Interpreter
from dlang.optimize.pipeline import optimise
from dlang.runtime.engine import Engine
from dlang.runtime.host import Host
from dlang.tools.dlc import main
from tests.codegen.cases import CASES, Case
from tests.codegen.test_programs import assert_same

ROOT = Path(__file__).parents[2]
TOUR = ROOT.parent / "shared" / "tour"
FILES = [
    *sorted((ROOT / "tests/programs").glob("*.dl")),
    *sorted((ROOT / "tests/programs").glob("textbook/*.dl")),
    *sorted((ROOT / "tests/programs").glob("gradients/*.dl")),
    *sorted((ROOT / "tests/stdlib").glob("*.dl")),
    *sorted(TOUR.glob("0*.dl")),
]
QUICK = {"elementwise", "indices_as_values"}


def run_all_sizes(case: Case, program: Program) -> None:
    engine = Engine(Host(io.StringIO()), emulates=True)
    compiled = engine.compile(program, ["f"])
    interpreter = Interpreter(case.program, Host(io.StringIO()))
    rng = np.random.default_rng(7)
    for n in case.sizes:
        args = case.arguments(rng, n)
        kept = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        assert_same(compiled.run("f", args), interpreter.run("f", args))
        assert_same(args, kept)
    assert all(context.in_use == 0 for context in engine.contexts)


def cases() -> list[object]:
    return [pytest.param(c, id=c.name, marks=[] if c.name in QUICK else pytest.mark.slow) for c in CASES]


@pytest.mark.parametrize("case", cases())
def test_kernels_agree_with_the_interpreter(case: Case) -> None:
    run_all_sizes(case, case.program)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernels_of_optimised_programs_agree_with_the_interpreter(case: Case) -> None:
    run_all_sizes(case, optimise(case.program, ["f"]))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_tests_of_a_program_pass(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--backend", "cuda-emulated", str(file)]) == 0, "".join(capsys.readouterr())
