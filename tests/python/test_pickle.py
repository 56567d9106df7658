"""Functions, derivatives, modules and values of structs are pickled by source and hash."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import dlang
from tests.patience import PATIENCE

TEXT = """
import helpers { scaled }
struct Point<n> { x: f64, y: f64[n] }
enum Shape { Dot, Circle(f64), Square(side: f64) }
fn total(p: Point<n>) -> f64 = p.x * scaled(sum(p.y))
fn loss(w: f64[n], x: f64[n]) -> f64 = sum((w - x) ** 2)
fn area(s: Shape) -> f64 = match s { Dot => 0.0, Circle(r) => r * r, Square(a) => a * a }
fn grown(x: f64[n]) -> f64[n] = x + 1.0
"""
HELPERS = "fn scaled(x: f64) -> f64 = 2.0 * x\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("sources")
    (made / "model.dl").write_text(TEXT)
    (made / "helpers.dl").write_text(HELPERS)
    return made


@pytest.fixture(scope="module")
def m(folder):
    return dlang.load(folder / "model.dl")


def elsewhere(value, expression):
    """What an expression of `it` is in a new process that was sent a value, as text."""
    program = f"import pickle, sys; it = pickle.load(sys.stdin.buffer); print({expression})"
    run = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(value), capture_output=True, timeout=PATIENCE
    )
    return (run.stdout or run.stderr).decode().strip()


def test_in_the_same_process_everything_comes_back_as_it_was(m):
    for what in (m, m.total, dlang.grad(m.loss, wrt="x"), dlang.hessian(m.loss)):
        assert pickle.loads(pickle.dumps(what)) is what
    point = pickle.loads(pickle.dumps(m.Point(2.0, np.ones(3))))
    assert type(point) is m.Point and m.total(point) == 12.0
    assert copy.deepcopy(m.total) is m.total is copy.copy(m.total)
    assert type(copy.deepcopy(m.Circle(2.0))) is m.Circle


def test_a_new_process_gets_all_of_it(m):
    data = (m.total, m.Point(2.0, np.ones(3)), [m.Circle(3.0), m.Dot()], dlang.value_and_grad(m.loss), np.arange(2.0))
    text = "it[0](it[1]), [type(s).__name__ for s in it[2]], it[3](it[4], it[4] + 1.0)[0], it[2][0]._0"
    assert elsewhere(data, text) == "12.0 ['Circle', 'Dot'] 2.0 3.0"


def test_a_module_and_a_bound_function_cross(m):
    assert elsewhere(m, "it.loss([1.0], [3.0]), it.__name__") == "4.0 model"
    assert elsewhere(m.loss.bind(x=np.ones(3)), "it([2.0, 2.0, 2.0])") == "3.0"


def test_what_a_text_makes_crosses_too():
    text = dlang.compile("struct One { x: f64 }\nfn f(o: One) -> f64 = o.x + 1.0")
    assert elsewhere((text.f, text.One(1.0)), "it[0](it[1])") == "2.0"


def test_a_source_that_has_changed_is_an_error(tmp_path):
    file, helpers = tmp_path / "model.dl", tmp_path / "helpers.dl"
    helpers.write_text(HELPERS)
    file.write_text("import helpers { scaled }\nfn f(x: f64) -> f64 = scaled(x)\n")
    f = dlang.load(file).f
    assert elsewhere(f, "it(1.0)") == "2.0"
    for changed in ("fn scaled(x: f64) -> f64 = 3.0 * x\n", "fn scaled(x: f64) -> f64 = \n"):
        helpers.write_text(changed)
        said = elsewhere(f, "it(1.0)")
        assert "E0968" in said and "is not what it was" in said
    file.unlink()
    assert "E0951" in elsewhere(f, "it(1.0)")


def test_what_a_text_imports_is_compared_as_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helpers.dl").write_text(HELPERS)
    f = dlang.compile("import helpers { scaled }\nfn f(x: f64) -> f64 = scaled(x)\n").f
    assert elsewhere(f, "it(1.0)") == "2.0"
    (tmp_path / "helpers.dl").write_text("fn scaled(x: f64) -> f64 = 3.0 * x\n")
    assert "what the program imports is not what it was" in elsewhere(f, "it(1.0)")


def test_spawned_processes_compute(m):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        made = pool.map(m.grown, [np.zeros(2), np.ones(1)], timeout=PATIENCE)
        assert [x.tolist() for x in made] == [[1.0, 1.0], [2.0]]


def test_how_it_is_run_crosses_with_it(folder):
    f = dlang.load(folder / "model.dl", "interp").grown
    assert elsewhere(f, "it.program.backend") == "interp"


@dlang.primitive("fn halved(x: f64) -> f64")
def halved(x):
    return x / 2


def test_a_primitive_is_pickled_by_its_name():
    f = dlang.compile("fn f(x: f64) -> f64 = halved(x)", primitives=[halved]).f
    assert pickle.loads(pickle.dumps(halved)) is halved and pickle.loads(pickle.dumps(f)) is f
