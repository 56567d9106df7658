"""The language as programs: every `test` block passes with both back ends."""

from pathlib import Path

import pytest

from dlang.tools.dlc import main
from tests.backends import run_tests

HERE = Path(__file__).parent
TOUR = HERE.parents[2] / "shared" / "tour"  # `make test` runs it as compiled code
WHOLE = [*sorted(HERE.glob("textbook/*.dl")), *sorted(HERE.glob("gradients/*.dl"))]
"""Programs of some length, which `make test-slow` interprets."""
RUNS = [
    *[pytest.param(f, ("interp", "cpu"), id=f.stem) for f in sorted(HERE.glob("*.dl"))],
    *[pytest.param(f, ("cpu",), id=f.stem) for f in WHOLE],
    *[pytest.param(f, ("interp",), id=f"{f.stem}-interp", marks=pytest.mark.slow) for f in WHOLE],
    *[pytest.param(f, ("interp",), id=f"{f.stem}-interp") for n in (1, 2, 3, 5, 9) for f in TOUR.glob(f"0{n}_*.dl")],
]


@pytest.mark.parametrize("name", ["data", "foreign"])  # `make test-sanitized` does so with all of them
def test_the_tests_of_a_program_pass_where_memory_is_checked(name, monkeypatch, capsys):
    monkeypatch.setenv("DLANG_SANITIZE", "")  # which `--sanitize` sets
    assert main(["test", "--sanitize", str(HERE / f"{name}.dl")]) == 0, "".join(capsys.readouterr())


@pytest.mark.parametrize("file, backends", RUNS)
def test_the_tests_of_a_program_pass(file, backends):
    run_tests(file, *backends)
