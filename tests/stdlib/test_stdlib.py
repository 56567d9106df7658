"""The standard library's own tests, in the language, with both back ends."""

from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.driver import check, read_source
from dlang.tools.dlc import main

HERE = Path(__file__).parent
LIBRARY = HERE.parents[1] / "stdlib"


FILES = sorted(HERE.glob("*.dl"))
LONG = {(name, "interp") for name in ("test_random", "test_nn", "test_implicit", "test_ode")}
RUNS = [
    pytest.param(f, b, marks=[pytest.mark.slow] * ((f.stem, b) in LONG), id=f"{f.stem}-{b}")
    for f in FILES
    for b in ("interp", "cpu")
]


@pytest.mark.parametrize("file, backend", RUNS)
def test_the_tests_of_a_module_pass(file, backend, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # for the files that they write
    assert main(["test", "--backend", backend, str(file.resolve())]) == 0, "".join(capsys.readouterr())


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
