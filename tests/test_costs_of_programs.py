"""The law of cost holds for the functions of the tests, the examples and the library, but for those that are listed.

A function is counted at sizes that double, with its gradient and its tangent. `make test-costs` looks at all files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.diagnostics import DlangError
from dlang.driver import check, errors_of, read_source
from dlang.dump_ir import open_variable
from dlang.host.errors import RunError
from dlang.tools.law import Way, prepared, scans

ROOT = Path(__file__).parent.parent
WAYS: tuple[Way, ...] = ("as written", "value", "gradient", "tangent")
QUICK = (
    "tests/programs/arms.dl",
    "tests/programs/control_flow.dl",
    "tests/programs/recurrent.dl",
    "tests/programs/rows.dl",
    "tests/programs/gradients/control.dl",
)
ALL = [
    f.relative_to(ROOT).as_posix()
    for folder in ("tests/programs", "benchmarks/costs", "examples", "stdlib")
    for f in sorted((ROOT / folder).rglob("*.dl"))
]
STEPS = 15_000  # of the interpreter, for each run

KNOWN: dict[str, str] = {}
"""Functions that break the law, as `file function way measure`, and why."""


def broken(path: str) -> set[str]:
    """The ways and measures in which functions of a file break the law."""
    checked = check(read_source(str(ROOT / path)))
    assert not errors_of(checked), errors_of(checked)[0].message
    found: set[str] = set()
    for decl in checked.module.functions.values():
        if decl.body is None or decl.kind != "fn" or (decl.constraints and open_variable(decl)):
            continue
        try:
            costs = scans(prepared(decl, WAYS), {}, limit=STEPS)
        except (DlangError, RunError):  # it takes no arguments that are drawn, or too long: `dlc costs` says why
            continue
        found |= {f"{path} {decl.name} {b.way} {b.measure}" for scan in costs for b in scan.breaches}
    return found


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that are counted may write files."""
    monkeypatch.chdir(tmp_path)


def compared(path: str) -> None:
    found, known = broken(path), {k for k in KNOWN if k.split()[0] == path}
    assert not found - known, f"these break the law of cost: {sorted(found - known)}"
    assert not known - found, f"these keep the law, and can be taken from the list: {sorted(known - found)}"


@pytest.mark.parametrize("path", QUICK)
def test_functions_keep_the_law_of_cost(path: str) -> None:
    compared(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in ALL if path not in QUICK])
def test_functions_of_all_files_keep_the_law_of_cost(path: str) -> None:
    compared(path)


def test_what_is_listed_is_there() -> None:
    assert {k.split()[0] for k in KNOWN} <= set(ALL)
