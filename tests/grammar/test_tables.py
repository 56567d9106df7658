"""The cache of the grammar's tables can only cost time."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dlang.grammar.tables import GRAMMAR, compute, tables
from tests.patience import PATIENCE

PARSE = """
import sys
from dlang.diagnostics import Source
from dlang.grammar.parser import parse
module, diagnostics = parse(Source("test", "fn f(x) = x + 1"))
assert diagnostics == [] and len(module.items) == 1
print("lark" in sys.modules, "numpy" in sys.modules, "llvmlite" in sys.modules)
"""


def run(cache: Path) -> str:
    environment = {"DLANG_CACHE": str(cache), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", PARSE], env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return done.stdout.strip()


def test_lark_is_imported_only_when_the_cache_is_empty(tmp_path: Path) -> None:
    assert run(tmp_path) == "True False False"
    assert run(tmp_path) == "False False False"


def test_a_cache_that_can_not_be_written_is_done_without(tmp_path: Path) -> None:
    not_a_directory = tmp_path / "file"
    not_a_directory.write_text("")
    assert run(not_a_directory / "cache") == "True False False"


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    run(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    assert run(tmp_path) == "True False False"
    assert run(tmp_path) == "False False False"


def test_processes_may_fill_the_cache_at_the_same_time(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(run, [tmp_path] * 3))) == 3
    assert [p.suffix for p in tmp_path.iterdir()] == [".kept"]


def test_the_grammar_has_the_one_conflict_that_it_declares(caplog: pytest.LogCaptureFixture) -> None:
    from lark import Lark, logger
    from lark.lexer import Lexer

    class NoLexer(Lexer):
        def __init__(self, _: object) -> None: ...

        def lex(self, *_: object):
            return iter(())

    level = logger.level
    logger.setLevel("DEBUG")
    logger.addHandler(caplog.handler)
    try:
        Lark(
            GRAMMAR.read_text(), parser="lalr", lexer=NoLexer, start=["item", "expr"], keep_all_tokens=True, debug=True
        )
    finally:
        logger.removeHandler(caplog.handler)
        logger.setLevel(level)
    conflicts = {record.getMessage() for record in caplog.records if "conflict" in record.getMessage()}
    assert len(conflicts) == 1
    assert "LESSTHAN" in conflicts.pop()


def test_every_alternative_has_a_method_of_the_builder() -> None:
    from dlang.grammar.tree import Builder

    missing = {rule.method for rule in compute(GRAMMAR.read_text()).rules if rule.method} - set(dir(Builder))
    assert missing == set()


def test_the_tables_of_the_cache_are_those_of_the_grammar() -> None:
    assert tables().terminals == compute(GRAMMAR.read_text()).terminals
