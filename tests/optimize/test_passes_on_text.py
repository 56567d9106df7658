"""Runs passes on small programs, as texts: `passes/NAME.ir` has pairs for the pass NAME (`tests/pairs.py`).

Each program is verified before and after.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.ir.printer import print_program
from dlang.ir.traverse import called_by
from dlang.pipeline import NAMED, run_passes
from tests.optimize.programs import program
from tests.pairs import check_file, pairs_in

FOLDER = Path(__file__).with_name("passes")
FILES = pairs_in(FOLDER, "ir")


def after(name: str, text: str) -> str:
    """The text of a program after a pass; functions that no other calls are its entries."""
    before = program(text)
    called = {callee for f in before.functions.values() for callee in called_by(f) if callee != f.name}
    entries = [f for f in before.functions if f not in called]
    return print_program(run_passes(before, entries, [NAMED[name]]))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_whole_and_named_after_a_pass(name: str) -> None:
    assert name in NAMED
    check_file(FOLDER / f"{name}.ir", FILES[name], after)


@pytest.mark.parametrize(
    ("name", "before", "wanted"),
    [pytest.param(n, *pair[1:], id=f"{n}: {pair[0]}") for n, pairs in FILES.items() for pair in pairs],
)
def test_a_pass_makes_one_text_of_another(name: str, before: str, wanted: str) -> None:
    assert after(name, before) == wanted
