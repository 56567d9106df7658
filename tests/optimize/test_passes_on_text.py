"""What passes make of small programs, as texts: `passes/NAME.ir` has pairs for the pass NAME.

After a change of a pass, or where a pair is new and ends with `----`, `DLANG_UPDATE=1` writes the second halves anew,
to be read. Each program is verified before and after.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dlang.ir.call_graph import called_by
from dlang.ir.printer import print_program
from dlang.pipeline import NAMED, run_passes
from tests.optimize.programs import program

FOLDER = Path(__file__).with_name("passes")
PAIR = re.compile(r"^==== (.*)\n((?:(?!----|====).*\n)*)----\n((?:(?!====).*\n)*)", re.MULTILINE)
FILES = {file.stem: PAIR.findall(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.ir"))}


def after(name: str, text: str) -> str:
    """The text of a program after a pass; functions that no other calls are its entries."""
    before = program(text)
    called = {callee for f in before.functions.values() for callee in called_by(f) if callee != f.name}
    entries = [f for f in before.functions if f not in called]
    return print_program(run_passes(before, entries, [NAMED[name]]))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_whole_and_named_after_a_pass(name: str) -> None:
    assert name in NAMED
    file = FOLDER / f"{name}.ir"
    if os.environ.get("DLANG_UPDATE"):
        pairs = [f"==== {title}\n{before}----\n{after(name, before)}" for title, before, _ in FILES[name]]
        file.write_text("".join(pairs), encoding="utf-8")
    pairs = [f"==== {title}\n{before}----\n{wanted}" for title, before, wanted in FILES[name]]
    assert "".join(pairs) == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "before", "wanted"),
    [pytest.param(n, *pair[1:], id=f"{n}: {pair[0]}") for n, pairs in FILES.items() for pair in pairs],
)
def test_a_pass_makes_one_text_of_another(name: str, before: str, wanted: str) -> None:
    assert after(name, before) == wanted
