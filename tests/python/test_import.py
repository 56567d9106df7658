"""The import hook and loading from files."""

import importlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dlang
import dlang.importer
from tests.patience import PATIENCE


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [n for n, m in sys.modules.items() if str(tmp_path) in str(getattr(m, "__file__", ""))]:
        del sys.modules[name]


def test_a_module_is_found_on_the_path(folder):
    (folder / "quadratic.dl").write_text("fn f(x: f64) -> f64 = x * x\n")
    import quadratic

    assert quadratic.f(3.0) == 9.0
    assert quadratic.__file__ == str(folder / "quadratic.dl")


def test_a_module_may_import_others_beside_it(folder):
    (folder / "inner_one.dl").write_text("fn f(x: f64) -> f64 = x * x\n")
    (folder / "outer_one.dl").write_text("import inner_one\nfn g(x: f64) -> f64 = inner_one.f(x) + 1.0\n")
    import outer_one

    assert outer_one.g(3.0) == 10.0


def test_python_modules_come_first(folder):
    (folder / "hidden_one.dl").write_text("fn f(x: f64) -> f64 = x\n")
    (folder / "hidden_one.py").write_text("f = 1\n")
    import hidden_one

    assert hidden_one.f == 1


def test_a_module_in_a_package_is_found(folder):
    (folder / "pack_one").mkdir()
    (folder / "pack_one/__init__.py").write_text("")
    (folder / "pack_one/maths.dl").write_text("fn f(x: f64) -> f64 = -x\n")
    from pack_one import maths

    assert maths.f(1.0) == -1.0


def test_a_module_with_mistakes_says_what_is_wrong(folder):
    (folder / "broken_one.dl").write_text("fn f(x: f64) -> f64 = y\n")
    with pytest.raises(dlang.DlangError, match=r"broken_one\.dl:1:"):
        importlib.import_module("broken_one")


def test_what_is_not_there_is_still_not_there(folder):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")


def test_structs_of_one_module_fit_another_that_imports_it(folder):
    (folder / "base_one.dl").write_text(
        "struct Point { x: f64, y: f64 }\nfn unit() -> Point = Point(x = 1.0, y = 1.0)\n"
    )
    (folder / "user_one.dl").write_text(
        "import base_one { Point }\nfn total(p: Point) -> f64 = p.x + p.y\nfn twice(p: Point) -> Point = 2.0 * p\n"
    )
    import base_one
    import user_one

    assert user_one.total(base_one.unit()) == 2.0
    assert user_one.twice(user_one.twice(base_one.unit())).x == 4.0


def test_load_takes_a_path_and_a_backend(folder):
    file = folder / "f.dl"
    file.write_text("fn f(x: f64[n]) -> f64 = sum(x)\n")
    for backend in ("interp", "cpu"):
        assert dlang.load(file, backend=backend).f(np.ones(3)) == 3.0
    with pytest.raises(dlang.DlangError, match="E0951"):
        dlang.load(folder / "none.dl")


def test_importing_the_package_loads_nothing():
    code = textwrap.dedent("""
        import sys, dlang
        heavy = {"numpy", "llvmlite", "lark", "argparse", "dlang.python", "dlang.driver"}
        print(sorted(heavy & set(sys.modules)), dlang.DlangError.__name__)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "[] DlangError\n", done.stderr


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = dlang.lode


def test_the_types_of_others_that_a_module_mentions_are_in_it_too(folder):
    (folder / "layers_one.dl").write_text("struct Inner { w: f64[2] }\nstruct Layer { inner: Inner }\n")
    (folder / "model_one.dl").write_text(
        "import layers_one { Layer }\nstruct Model { layer: Layer }\nfn f(m: Model) -> f64 = sum(m.layer.inner.w)\n"
    )
    import model_one

    model = model_one.Model(model_one.Layer(model_one.Inner(np.array([1.0, 2.0]))))
    assert model_one.f(model) == 3.0


def test_a_module_can_be_edited_and_reloaded(folder):
    (folder / "edited.dl").write_text("fn f() = 1\n")
    edited = importlib.import_module("edited")
    assert edited.f() == 1
    (folder / "edited.dl").write_text("fn f() = 2\nfn g() = 3\n")
    assert importlib.reload(edited) is edited and (edited.f(), edited.g()) == (2, 3)
    (folder / "edited.dl").write_text("fn f() = nothing\n")
    with pytest.raises(dlang.DlangError, match="E0201"):
        importlib.reload(edited)
    assert edited.f() == 2


def test_files_of_one_name_are_modules_of_their_own(tmp_path):
    for number, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.dl").write_text(f"fn f() = {number}\n")
    first, second = (dlang.load(tmp_path / name / "same.dl") for name in "ab")
    assert (first.f(), second.f()) == (0, 1)


@pytest.mark.parametrize("path, code", [("missing.dl", "E0951"), (".", "E0951"), ("a\0b", "E0951")])
def test_what_cannot_be_read_is_a_diagnostic(folder, path, code):
    with pytest.raises(dlang.DlangError, match=code):
        dlang.load(path)


def test_a_program_is_a_text():
    with pytest.raises(TypeError, match="a program is a str, not bytes"):
        dlang.compile(b"fn f() = 1")
