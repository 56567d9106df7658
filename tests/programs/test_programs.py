"""The language as programs: every `test` block passes with both back ends."""

from pathlib import Path

import pytest

from dlang.tools.dlc import main

HERE = Path(__file__).parent
TOUR = HERE.parents[2] / "shared" / "tour"  # `make test` runs it as compiled code
FILES = [*sorted(HERE.glob("*.dl")), *sorted(HERE.glob("textbook/*.dl")), *sorted(HERE.glob("gradients/*.dl"))]
RUNS = [
    *[
        # what is interpreted is the same program: of whole textbook programs `make test-slow` does that
        pytest.param(f, b, marks=[pytest.mark.slow] * (b == "interp" and f.parent != HERE), id=f"{f.stem}-{b}")
        for f in FILES
        for b in ("interp", "cpu")
    ],
    *[pytest.param(f, "interp", id=f"{f.stem}-interp") for n in (1, 2, 3, 5, 9) for f in TOUR.glob(f"0{n}_*.dl")],
]


@pytest.mark.parametrize("name", ["data", "foreign"])  # `make test-sanitized` does so with all of them
def test_the_tests_of_a_program_pass_where_memory_is_checked(name, monkeypatch, capsys):
    monkeypatch.setenv("DLANG_SANITIZE", "")  # which `--sanitize` sets
    assert main(["test", "--sanitize", str(HERE / f"{name}.dl")]) == 0, "".join(capsys.readouterr())


@pytest.mark.parametrize("file, backend", RUNS)
def test_the_tests_of_a_program_pass(file, backend, capsys):
    assert main(["test", "--backend", backend, str(file)]) == 0, "".join(capsys.readouterr())
