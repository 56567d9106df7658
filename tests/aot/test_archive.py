"""Files of functions that were built, which Python loads without the compiler, or with it on another processor."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm import objects
from dlang.host.platform import machine
from dlang.runtime import archive
from dlang.tools.dlc import main
from tests.aot.alone import run_alone

ROOT = Path(__file__).parent.parent.parent
FIT = str(ROOT / "examples/fit.dl")
W, X, Y = np.array([1.0, 2.0]), np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 3.0])
USE = f"""
sys.path.append({str(ROOT)!r})
import dlang
fit = dlang.load("fit.dlo")
assert fit.loss([1.0, 2.0], [[0.0, 1.0], [2.0, 3.0]], [1.0, 2.0]) == 18.5
assert list(fit.grad_loss([1.0, 2.0], [[0.0, 1.0], [2.0, 3.0]], [1.0, 2.0])) == [12.0, 19.0]
assert not {{"lark", "llvmlite"}} & {{m.partition(".")[0] for m in sys.modules}}
print("fine")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    assert main(["build", FIT, "--fn", "loss", "--grad", "loss", "-o", str(folder)]) == 0
    return (folder / "fit.dlo").read_bytes()


@pytest.fixture
def fit(built, tmp_path):
    (tmp_path / "fit.dlo").write_bytes(built)
    return tmp_path / "fit.dlo"


def refused(path):
    with pytest.raises(dlang.DlangError) as e:
        dlang.load(path)
    (diagnostic,) = e.value.diagnostics
    assert diagnostic.code == "E0989"
    return diagnostic.message


def test_it_gives_what_the_file_gives(fit):
    built, loaded = dlang.load(fit), dlang.load(FIT)
    for _ in range(3):
        assert built.loss(W, X, Y) == loaded.loss(W, X, Y)
        np.testing.assert_allclose(built.grad_loss(W, X, Y), dlang.grad(loaded.loss)(W, X, Y), rtol=1e-15)
    assert repr(built.loss) == "<built function loss(w: f64[k], x: f64[n, k], y: f64[n]) -> f64>"


def test_it_needs_no_compiler(fit, tmp_path):
    env = {"DLANG_CACHE": str(tmp_path / "cache")}
    assert run_alone(tmp_path, USE, env=env) == "fine\n"
    assert not (tmp_path / "cache").exists()


def test_another_processor_gets_code_of_its_own(fit, monkeypatch):
    monkeypatch.setattr(machine, "features", lambda: f"none{machine.SEPARATOR}sse2")
    compiled = []
    build = objects.compile_object
    monkeypatch.setattr(objects, "compile_object", lambda *a, **k: compiled.append(a) or build(*a, **k))
    loaded = dlang.load(fit)
    assert compiled and loaded.loss(W, X, Y) == dlang.load(FIT).loss(W, X, Y)
    with pytest.raises(dlang.DlangError, match=r"examples/fit.dl:4"):  # places are kept
        loaded.loss(W, X, Y[:2])


def test_another_processor_without_a_compiler_is_told(fit, monkeypatch):
    monkeypatch.setattr(machine, "features", lambda: f"none{machine.SEPARATOR}sse2")
    monkeypatch.setattr("dlang.runtime.archive._has_compiler", lambda: False)
    assert "was built for x86-64-v3, and this processor has no cx16" in refused(fit)


def test_files_that_are_none(fit):
    data = fit.read_bytes()
    for changed, message in [
        (b"nothing", "was not made by `dlc build`"),
        (data[:-1], "is damaged"),
        (data[:-500] + b"?" + data[-499:], "is damaged"),
        (data.replace(dlang.__version__.encode(), b"9.9.9", 1), "is of dlang 9.9.9, and this is"),
    ]:
        fit.write_bytes(changed)
        assert message in refused(fit)
    with pytest.raises(dlang.DlangError, match="E0951"):
        dlang.load(fit.with_name("none.dlo"))


def test_a_compiler_that_has_changed_since_is_noticed(fit, tmp_path, monkeypatch):
    """Without another version: what lies where in memory may be another."""
    package = tmp_path / "dlang"
    for name in fit.read_bytes().split(b"\n", 3)[2].decode().split(" "):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_bytes((ROOT / "dlang" / name).read_bytes())
    monkeypatch.setattr(archive, "PACKAGE", package)
    archive._state.cache_clear()
    assert dlang.load(fit).loss(W, X, Y) == dlang.load(FIT).loss(W, X, Y)
    for change in (
        (package / "runtime/marshalling.py").write_text,
        lambda _: (package / "runtime/marshalling.py").unlink(),
    ):
        change("")
        archive._state.cache_clear()
        assert "was made by another state of dlang" in refused(fit)
    archive._state.cache_clear()


def test_types_that_are_asked_for(tmp_path, capsys):
    (tmp_path / "v.dl").write_text("fn dot(x, y) = sum(x * y)\nfn first(x: a[n]) -> a = x[0]\n")
    arguments = ["build", str(tmp_path / "v.dl"), "-o", str(tmp_path)]
    assert main([*arguments, "--fn", "dot=f32[n],f32[n]", "--grad", "dot=y", "--fn", "first=(f64, i64)[3]"]) == 0
    v = dlang.load(tmp_path / "v.dlo")
    x, y = np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)
    assert v.dot(x, y) == 11 and list(v.grad_dot(x, y)) == [1, 2]
    assert v.first([(1.0, 2), (3.0, 4), (5.0, 6)]) == (1.0, 2)
    capsys.readouterr()
    for wrong, message in [
        (["--fn", "dot"], "`dot` has no types of its own"),
        (["--fn", "dot=f64"], "has 2 parameters, and 1 type is given"),
        (["--fn", "dot=f64[n],f64[m]"], "`dot` cannot have the types f64[n], f64[m]"),
        (["--fn", "dto=f64"], "did you mean `dot`?"),
        ([], "no function of the file has its types written out"),
    ]:
        assert main([*arguments, *wrong]) == 1
        said = capsys.readouterr().err
        assert "E0986" in said and message in said


def test_what_cannot_be_built_is_left_out_and_said(tmp_path, capsys):
    path = tmp_path / "left.dl"
    path.write_text(
        "fn f(g: (f64) -> f64) -> f64 = g(1.0)\nfn h(x: f64) -> f64 = x\nfn open(x) = x\nfn _own() = 1\n"
        "fn blanks(n: size) -> ()[n] = [() for _ < n]\n"
    )
    assert main(["build", str(path), "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "left out `f`: `f` cannot be called from outside: it takes or gives a function"
    assert said[1].endswith("it gives an array of values that hold nothing")
    assert len(said) == 3 and dlang.load(tmp_path / "left.dlo").h(2.0) == 2
    path.write_text("fn f(g: (f64) -> f64) -> f64 = g(1.0)\nfn twice(x: f64) { |y: f64| x * y }\n")
    assert main(["build", str(path), "-o", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "`f` cannot be called" in said and "left.dl:1:4" in said
    assert "`twice` cannot be called" in said and "left.dl:2:4" in said
    path.write_text("")
    assert main(["build", str(path), "-o", str(tmp_path)]) == 1
    assert "error[E0986]: the file has no functions" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--package-version", "--requires"])
def test_options_of_a_wheel_are_for_wheels(option, tmp_path, capsys):
    assert main(["build", str(tmp_path / "any.dl"), option, "1.0"]) == 2
    assert "they go with --wheel" in capsys.readouterr().err


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2", "native"])
def test_other_processors(cpu, tmp_path):
    (tmp_path / "p.dl").write_text(
        "fn f(x: f64[n, n], y: f32[m]) -> (f64, f32) = (sum(exp(x @ x) + tanh(x)), sum(sin(y) ** 2))\n"
    )
    assert main(["build", str(tmp_path / "p.dl"), "-o", str(tmp_path), "--cpu", cpu, "--grad", "f=x"]) == 1
    assert main(["build", str(tmp_path / "p.dl"), "-o", str(tmp_path), "--cpu", cpu]) == 0
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 20)) / 10, rng.normal(size=50).astype(np.float32)
    found = dlang.load(tmp_path / "p.dlo").f(x, y)
    np.testing.assert_allclose(found[0], (np.exp(x @ x) + np.tanh(x)).sum(), rtol=1e-13)
    np.testing.assert_allclose(found[1], (np.sin(y) ** 2).sum(), rtol=1e-5)


def test_functions_of_python_are_looked_for_again(tmp_path, monkeypatch):
    (tmp_path / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    (tmp_path / "f.dl").write_text(
        'extern "python:helper.twice" fn twice(x: f64) -> f64\nfn f(x: f64) -> f64 = twice(x)\n'
    )
    assert main(["build", str(tmp_path / "f.dl"), "--fn", "f", "-o", str(tmp_path)]) == 0
    assert dlang.load(tmp_path / "f.dlo").f(4.0) == 8
    (tmp_path / "helper.py").unlink()
    monkeypatch.delitem(sys.modules, next(m for m in sys.modules if m.startswith("helper_")))
    assert "it calls a function that is not there" in refused(tmp_path / "f.dlo")
