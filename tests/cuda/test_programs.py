"""Programs whose loops are kernels of an emulated GPU give what the interpreter gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.pipeline import optimise
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.tools.dlc import main
from tests.codegen.cases import CASES, Case
from tests.codegen.test_programs import run_all_sizes

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


def cases() -> list[object]:
    return [pytest.param(c, id=c.name, marks=[] if c.name in QUICK else pytest.mark.slow) for c in CASES]


@pytest.mark.parametrize("case", cases())
def test_kernels_agree_with_the_interpreter(case: Case) -> None:
    run_all_sizes(case, case.program, driver=EmulatedDriver())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernels_of_optimised_programs_agree_with_the_interpreter(case: Case) -> None:
    run_all_sizes(case, optimise(case.program, ["f"]), driver=EmulatedDriver())


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_tests_of_a_program_pass(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--backend", "cuda-emulated", str(file)]) == 0, "".join(capsys.readouterr())
