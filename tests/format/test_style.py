"""The style, by pairs: what is written, and what it becomes. After a change of the style, `DLANG_UPDATE=1` writes the
second halves of style.txt anew, to be read."""

import os
import re
from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.format.document import WIDTH
from dlang.format.formatting import format_source

FILE = Path(__file__).with_name("style.txt")
PAIR = re.compile(r"^==== (.*)\n((?:.*\n)*?)----\n((?:(?!====).*\n)*)", re.MULTILINE)
PAIRS = PAIR.findall(FILE.read_text(encoding="utf-8"))


def formatted(text):
    return format_source(Source("style.dl", text))


def test_the_pairs_are_up_to_date():
    if os.environ.get("DLANG_UPDATE"):
        FILE.write_text("".join(f"==== {n}\n{b}----\n{formatted(b)}" for n, b, _ in PAIRS), encoding="utf-8")
    assert "".join(f"==== {n}\n{b}----\n{a}" for n, b, a in PAIRS) == FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("before, after", [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS])
def test_a_text_becomes_another(before, after):
    assert formatted(before) == after
    assert formatted(after) == after
    assert all(len(line) <= WIDTH or "# one that is so long" in line for line in after.splitlines())


def test_every_alternative_of_the_grammar_has_a_rule():
    from dlang.format.formatting import RULES
    from dlang.grammar.tables import tables

    lists = {"one", "more", "first", "nothing"}  # written by the rule that they are part of
    assert {r.method for r in tables().rules if r.method} - lists == set(RULES)
