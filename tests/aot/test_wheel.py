"""Packages of Python with functions that were built, used where there is nothing but NumPy."""

import inspect
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dlang
from dlang.tools.dlc import main
from tests.aot.alone import run_alone

ROOT = Path(__file__).parent.parent.parent
MANY = Path(__file__).with_name("many.dl")
USE = """
import copy, inspect, pickle
import numpy as np
import many
from many import DlangError

x = np.arange(6.0).reshape(2, 3)
np.testing.assert_array_equal(many.scaled(x, 2.0), 2 * x)
np.testing.assert_array_equal(many.product(x, x.T), x @ x.T)
model = many.Model([1.0, 2.0], 0.5, True)
np.testing.assert_array_equal(many.predict(model, [[1.0, 1.0], [0.0, 3.0]]), [3.5, 6.5])
total, rest, n = many.split(np.array([1.0, 2.0, 4.0], np.float32))
assert total == 7 and n == 3 and rest.dtype == np.float32
halves = many.halves([1.0, 2.0, 3.0, 4.0])
assert list(halves.right) == [3.0, 4.0] and type(halves) is many.Pair
assert many.area(many.Circle(2.0)) == 12 and many.larger(many.Circle(3.0)).w == 3
assert many.greeting("Grüße", 42) == "Grüße:    42|14.0"
tree = many.Fork(many.Leaf(1.5), many.Fork(many.Leaf(2.0), many.Leaf(3.0)))
assert many.added(tree) == 6.5 and many.added(many.grown(10)) == 1024
assert list(many.repeated(2, 3.0)) == [0, 3, 6] and list(many.positive([-1.0, 2.0])) == [2]
assert (many.drawn(4, seed=1) == many.drawn(4, seed=1)).all() and (many.drawn(4) != many.drawn(4, seed=1)).any()
np.testing.assert_allclose(many.solved([[2.0, 1.0], [1.0, 3.0]], [1.0, 2.0]), [0.2, 0.6])
points = many.moved([many.Point(1.0, 2.0)], 5.0)
assert (points[0].x, points[0].y) == (6.0, 2.0)
w, v = np.array([1.0, 2.0]), np.array([0.5, 0.0])
for _ in range(4):  # the later ones without a detour
    value, slope = many.value_and_grad_loss(w, v)
    assert value == 4.25 and list(slope) == [1.0, 4.0]
    assert many.loss(w, x=v) == 4.25
    assert list(many.grad_loss(w, v)) == [1.0, 4.0]
assert pickle.loads(pickle.dumps(many.loss)) is many.loss and copy.deepcopy(many.loss) is many.loss
assert str(inspect.signature(many.drawn)) == "(n: size, *, seed: i64 = 0) -> f64[n]" and many.loss.__name__ == "loss"

def refused(call, *texts):
    try:
        call()
    except DlangError as e:
        assert all(t in str(e) for t in texts), str(e)
    else:
        raise AssertionError("it was not refused")

refused(lambda: many.at([1.0, 2.0], 7), "E0801", "many.dl:", "x[i]")
refused(lambda: many.loss(w, [1.0]), "argument `x`: expected f64[n], n = 2 from `w`, got")
refused(lambda: many.loss(w), "`loss` needs `x`")
refused(lambda: many.loss(w, v, v), "takes 2 arguments, got 3")
refused(lambda: many.loss(w, z=v), "has no parameter `z`")
refused(lambda: many.loss(w, w=v), "is given `w` twice")
refused(lambda: many.loss(np.zeros(2, np.float32), v), "E0960", "f32")
refused(lambda: many.halves([1.0]), "argument `x`: expected f64[2*n]".replace("2*n", "2 * n"))
refused(lambda: many.repeated(-1, 1.0), "a size is not negative")
refused(lambda: many.chosen([1.0, 2.0], 2), "expected Idx<n>, got the int 2 (its indices have to be below 2)")
assert not {"lark", "llvmlite"} & {m.partition(".")[0] for m in sys.modules}
print("fine")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    names = [line.split()[1].partition("(")[0] for line in MANY.read_text().splitlines() if line.startswith("fn ")]
    arguments = [a for n in names for a in ("--fn", n)] + ["--grad", "loss", "--value-and-grad", "loss"]
    assert main(["build", "--wheel", str(MANY), "-o", str(folder), *arguments]) == 0
    (made,) = folder.glob("*.whl")
    assert made.name == "many-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder in which pip has installed it."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    return target


def test_it_runs_with_numpy_alone(installed, tmp_path):
    assert run_alone(tmp_path, USE, [installed]) == "fine\n"


def test_its_metadata_says_what_it_needs(installed):
    metadata = (installed / "many-0.1.0.dist-info/METADATA").read_text()
    assert "Name: many\n" in metadata and "Version: 0.1.0\n" in metadata
    assert re.findall(r"Requires-Dist: ([\w-]+)", metadata) == ["numpy", "scipy-openblas32"]
    assert not list(installed.rglob("*.so"))


@pytest.mark.slow
def test_mypy_knows_its_types(installed, tmp_path):
    program = "import many\nreveal_type(many.loss([1.0], [2.0]))\nreveal_type(many.grad_loss([1.0], [2.0]))\n"
    program += "reveal_type(many.larger(many.Circle(1.0)))\nmany.area(3)\n"
    (tmp_path / "use.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", str(tmp_path / "cache"), "use.py"]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(installed)})
    said = checked.stdout.splitlines()
    assert re.search(r'type is "(builtins\.)?float"', said[0])
    assert "ndarray" in said[1] and "Circle" in said[2] and "Box" in said[2]
    assert 'Argument 1 to "area" has incompatible type "int"' in said[3]


def test_names_and_versions(tmp_path, capsys):
    program, arguments = str(ROOT / "examples/fit.dl"), ["--fn", "loss", "-o", str(tmp_path)]
    for wrong, message in [
        (["--package-version", "new"], "`new` is no version"),
        (["--package-version", "01.0"], "`01.0` is no version"),
        (["--name", "class"], "`class` is no name for a package"),
        (["--name", "model-"], "`model-` is no name for a package"),
        (["--name", "json"], "it is one of Python's own"),
        (["--name", "NumPy"], "another one has it that is needed beside"),
        (["--requires", "rich and more"], "`rich and more` names no package"),
    ]:
        assert main(["build", "--wheel", program, *arguments, *wrong]) == 1
        said = capsys.readouterr().err
        assert "E0986" in said and message in said
    assert not list(tmp_path.glob("*.whl"))
    arguments += ["--name", "My-Fit__1", "--package-version", "1.2rc1", "--requires", "rich>=13"]
    assert main(["build", "--wheel", program, *arguments]) == 0
    with zipfile.ZipFile(tmp_path / "my_fit_1-1.2rc1-py3-none-manylinux_2_28_x86_64.whl") as wheel:
        metadata = wheel.read("my_fit_1-1.2rc1.dist-info/METADATA").decode()
        assert "My_Fit__1/__init__.py" in wheel.namelist()
    assert "Name: My-Fit__1\n" in metadata and "Requires-Dist: rich>=13\n" in metadata and "openblas" not in metadata


ODD = """
struct Pair<a> { left: a, lambda: a }
fn lambda(from: f64, self: f64 = 2.0) -> f64 = from * self
fn np(x: f64[n], θ': f32 = 1.5) -> Pair<f64[n]> = Pair(left = x * f64(θ'), lambda = x)
fn list(a: f64 = 1.0, b: f64 = a * 2.0, c: i64 = 3) -> f64 = a + b + f64(c)
"""


def refusal(call):
    with pytest.raises(dlang.DlangError) as e:
        call()
    return e.value.diagnostics[0].message


def test_names_that_are_none_in_python(tmp_path):
    """They are where `dlang.load` has them."""
    (tmp_path / "odd.dl").write_text(ODD)
    assert main(["build", "--wheel", str(tmp_path / "odd.dl"), "-o", str(tmp_path)]) == 0
    assert main(["build", str(tmp_path / "odd.dl"), "-o", str(tmp_path)]) == 0
    built, loaded = dlang.load(tmp_path / "odd.dlo"), dlang.load(tmp_path / "odd.dl")
    for name in ("lambda", "np"):
        one, other = getattr(built, name), getattr(loaded, name)
        assert inspect.signature(one) == inspect.signature(other)
        assert refusal(one) == refusal(other)
    for module in (built, loaded):
        for _ in range(3):  # calls that go to compiled code at once, too
            assert getattr(module, "lambda")(from_=4.0) == getattr(module, "lambda")(**{"from": 4.0}) == 8
            assert module.np(x=[1.0, 1.0], θ_=2.0).left.tolist() == [2.0, 2.0]
        assert refusal(lambda m=module: getattr(m, "lambda")(4.0, from_=1.0)) == "`lambda` is given `from` twice"
    assert built.list(b=3.0) == 7
    assert str(inspect.signature(built.list)) == "(a: f64, b: f64, c: i64 = 3) -> f64"
    with zipfile.ZipFile(tmp_path / "odd-0.1.0-py3-none-manylinux_2_28_x86_64.whl") as wheel:
        stub = wheel.read("odd/__init__.pyi").decode()
    compile(stub, "odd.pyi", "exec")
    assert "def np(x: NDArray[_py_np.float64] | _py_list[Any], θ_: float | _py_np.float32 = ...) -> Pair:" in stub
    assert "# `lambda` is no name of Python" in stub
