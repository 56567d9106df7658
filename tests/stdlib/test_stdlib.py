"""The standard library's own tests, in the language, with both back ends."""

from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.driver import check, read_source
from tests.backends import run_tests

HERE = Path(__file__).parent
LIBRARY = HERE.parents[1] / "stdlib"


LONG = ("test_random", "test_nn", "test_implicit", "test_ode")
FILES = sorted(HERE.glob("*.dl"))
RUNS = [
    *[pytest.param(f, ("cpu",) if f.stem in LONG else ("interp", "cpu"), id=f.stem) for f in FILES],
    *[pytest.param(f, ("interp",), id=f"{f.stem}-interp", marks=pytest.mark.slow) for f in FILES if f.stem in LONG],
]


@pytest.mark.parametrize("file, backends", RUNS)
def test_the_tests_of_a_module_pass(file, backends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for the files that they write
    run_tests(file.resolve(), *backends)


@pytest.mark.parametrize("file", sorted(LIBRARY.glob("*.dl")), ids=lambda f: f.stem)
def test_a_module_checks_and_documents_what_it_offers(file):
    checked = check(read_source(str(file)))
    assert not checked.diagnostics
    undocumented = [d.name for d in checked.module.functions.values() if not d.doc and not d.name.startswith("_")]
    assert not undocumented


@pytest.mark.parametrize("name", ["io", "data", "implicit", "linalg", "math", "nn", "optim", "random", "stats"])
def test_a_module_of_the_library_is_found_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not check(Source("somewhere.dl", f"import {name}\n")).diagnostics
