"""`dlc stub`: what checkers of types make of it, and what Python itself tells of functions."""

import importlib.util
import inspect
import pydoc
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dlang
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
MODEL = textwrap.dedent("""
    ## A line.
    struct Line<n, k> { slope: f64, offset: f32, w: f64[n, k], tags: str[n] }
    enum Shape { Circle(f64), Square(side: f64), Empty }
    enum Tree { Leaf(f64), Node(Tree, Tree) }
    const limit = 3.5

    ## The loss of a "line".
    ## Over two lines, with a \\backslash.
    fn loss(w: f64[k], x: f64[n, k], y: f64[n], scale: f64 = 1.0) -> f64 = scale * mean((x @ w - y) ** 2)
    fn square(x) = x * x
    fn add(x, y) = x + y
    fn first(x: a[n]) -> a = x[0]
    fn norm<a: Float>(x: a[n]) -> a = sqrt(sum(x * x))
    fn double(x: f64[..s]) -> f64[..s] = x * 2.0
    fn area(s: Shape) -> f64 = match s { Circle(r) => r, Square(side) => side, Empty => 0.0 }
    fn maybe(x: f64) -> Option<f64> = if x > 0.0 { Some(x) } else { None }
    fn total(t: Tree) -> f64 = match t { Leaf(x) => x, Node(l, r) => total(l) + total(r) }
    fn twice(f: f64 -> f64, x: f64) -> f64 = f(f(x))
    import random
    fn draw(n: size) -> f64[n] ! random = [random.uniform() for i < n]
    fn pairs(x: (f64, i64)[n]) -> (i64, f64)[n] = [(k, v) for (v, k) in x]
    fn step<p: Vector>(w: p, g: p, rate: f64) -> p = w - rate * g
    fn shout(x: f64) -> () ! print { print("{x}") }
    fn raise(class: f64, self: i32) -> bool = class > 1.0
    fn under(class: f64, x: f64) -> f64 = class + x
    fn _private(x: f64) -> f64 = x
""").lstrip()

USE = """
import numpy as np

import dlang
import dlang.importer
import model

x = np.ones((3, 2))
f32 = np.ones(2, dtype=np.float32)
a: float = model.loss(np.ones(2), x, np.ones(3))
b: float = model.loss([1.0, 2.0], x, y=np.ones(3), scale=2.0)
c: int = model.square(2)
d: float = model.square(2.5)
e: np.typing.NDArray[np.float64] = model.square(x)
f: np.typing.NDArray[np.float64] = model.add(x, 2.0)
g: np.float32 = model.norm(f32)
h: np.float32 = model.first(f32)
i: float = model.double(2.0)
j: np.typing.NDArray[np.float64] = model.double(x)
k: float = model.area(model.Circle(1.0)) + model.limit
l: float = model.total(model.Node(model.Leaf(1.0), model.Leaf(2.0)))
m: float = model.twice(lambda v: v * 2.0, 1.0)
n: np.typing.NDArray[np.float64] = model.draw(3, seed=1)
o: list[tuple[int, float]] = model.pairs([(1.0, 2)])
p: float = model.Line(1.0, 2.0, x, np.array(["a"], dtype=object)).slope
q: np.typing.NDArray[np.float64] = model.Line(1.0, 2.0, x, np.array(["a"], dtype=object)).w
r: float = model.under(1.0, x=2.0) + model.under(x=2.0, class_=1.0)
s: model.Circle = model.step(model.Circle(1.0), model.Circle(2.0), 0.5)
t: np.typing.NDArray[np.float64] = model.step(x, x, 0.5)
model.shout(1.0)
model.loss.bind(w=np.ones(2))
dlang.grad(model.loss)(np.ones(2), x, np.ones(3))
match model.maybe(1.0):
    case model.Some(value):
        print(value)
    case None:
        pass
"""

WRONG = [
    'model.loss("text", [1.0], [1.0])',
    "model.loss([1.0])",
    "model.loss([1.0], [1.0], [1.0], rate=1.0)",
    "model.norm(True)",
    "model.area(model.Leaf(1.0))",
    'model.Line("steep", 2.0, np.ones(2), np.ones(2))',
    "model.Circle(1.0).radius",
    "model.missing",
    'model.limit + "3"',
    "model._private(1.0)",
    "model.step(1.0, 2.0, 0.5).radius",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a module, its stub, and two programs that use it: rightly and wrongly."""
    from dlang.tools.dlc import main

    folder = tmp_path_factory.mktemp("stubs")
    (folder / "model.dl").write_text(MODEL)
    assert main(["stub", str(folder / "model.dl")]) == 0
    (folder / "right.py").write_text(USE)
    head = "import numpy as np\nimport model\n"
    (folder / "wrong.py").write_text(head + "\n".join(WRONG) + "\n")
    return folder


def test_mypy_accepts_the_stub_and_finds_mistakes(project):
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"]  # with what it knows of dlang
    command += ["--cache-dir", ROOT / ".mypy_cache", "right.py", "wrong.py", "model.pyi"]
    environment = {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    complaints = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert {line.split(":")[0] for line in complaints} == {"wrong.py"}, done.stdout
    assert {int(line.split(":")[1]) for line in complaints} == set(range(3, 3 + len(WRONG))), done.stdout


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_accepts_the_stub_and_finds_mistakes(project):
    import json

    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "right.py", "wrong.py"]
    (project / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    done = subprocess.run([*command, "model.pyi"], cwd=project, capture_output=True, text=True, timeout=PATIENCE)
    found = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    assert {Path(d["file"]).name for d in found} == {"wrong.py"}, done.stdout
    assert {d["range"]["start"]["line"] + 1 for d in found} == set(range(3, 3 + len(WRONG)))


def test_what_the_stub_says_python_gives(project, monkeypatch):
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    text = (project / "right.py").read_text()
    names: dict[str, object] = {}
    exec(compile(text, "right.py", "exec"), names)
    sys.modules.pop("model")
    import numpy as np

    kinds = {"a": float, "b": float, "c": int, "d": float, "e": np.ndarray, "f": np.ndarray, "g": np.float32,
             "h": np.float32, "i": float, "j": np.ndarray, "k": float, "l": float, "m": float, "n": np.ndarray,
             "o": list, "p": float, "q": np.ndarray, "r": float}  # fmt: skip
    assert {name: type(names[name]) for name in kinds} == kinds


def test_a_stub_is_written_where_it_is_wanted_and_compared(write, dlc, tmp_path):
    file = write(MODEL, "model.dl")
    code, _, err = dlc("stub", "--check", file)
    assert code == 1 and "E0994" in err and not (tmp_path / "model.pyi").exists()
    assert dlc("stub", "-o", "typings", ".")[0] == 0 and (tmp_path / "typings/model.pyi").exists()
    assert dlc("stub", file)[0] == 0 and dlc("stub", "--check", file) == (0, "", "")
    write(MODEL.replace("scale: f64", "scale: f32").replace("= scale *", "= f64(scale) *"), "model.dl")
    assert "E0994" in dlc("stub", "--check", file)[2]
    assert dlc("stub", write("fn f( = 1\n", "bad.dl"))[0] == 1
    write("", "folder")
    assert "E0822" in dlc("stub", "-o", "folder", file)[2]


# ---- what Python tells -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def model():
    return dlang.compile(MODEL)


def test_help_shows_types_shapes_and_the_comment(model):
    text = pydoc.plain(pydoc.render_doc(model.loss))
    assert "fn loss(w: f64[k], x: f64[n, k], y: f64[n], scale: f64 = …) -> f64" in text
    assert 'The loss of a "line".' in text and "arrays that are there" not in text
    assert "compiles what is new" in inspect.getdoc(type(model.loss))


def test_a_signature_has_types_and_defaults(model):
    assert str(inspect.signature(model.loss)) == "(w: f64[k], x: f64[n, k], y: f64[n], scale: f64 = 1.0) -> f64"
    assert str(inspect.signature(model.draw)) == "(n: size, *, seed: i64 = 0) -> f64[n]"
    assert str(inspect.signature(model.norm)) == "(x: a[n]) -> a"


def test_a_module_lists_what_it_has(model):
    listed = dir(model)
    assert {"loss", "limit", "Line", "Circle", "draw"} <= set(listed) and "_private" not in listed
    assert listed == sorted(listed) and "limit" not in vars(model)


def test_names_that_python_has_for_other_things_are_told_apart(write, dlc, tmp_path):
    text = """
        enum Pattern { Any(f64), Callable }
        fn np(x: f64[n]) -> f64 = sum(x)
        fn float(p: Pattern) -> f64 = match p { Any(x) => x, Callable => 0.0 }
        fn swing(_: f64, (a, b): (f64, f64), c: f64) -> f64 = a + b + c
        fn head<a>(xs: List<a>) -> Option<a> = match xs { Cons(x, _) => Some(x), Nil => None }
        fn kept(p: a -> bool, x: a) -> a = if p(x) { x } else { x }
        enum List<a> { Nil, Cons(a, List<a>) }
    """
    file = write(text.replace("fn head<a>", "fn head"), "named.dl")
    assert dlc("stub", file)[0] == 0
    stub = (tmp_path / "named.pyi").read_text()
    assert "import numpy as _py_np" in stub and "from typing import Any as _py_Any, TypeAlias" in stub
    assert "from builtins import float as _py_float" in stub and "_Pattern: TypeAlias = Any | Callable" in stub
    assert "def __call__(self, x: NDArray[_py_np.float64] | list[_py_Any]) -> _py_float: ..." in stub
    assert (
        "def __call__(self, _0: _py_float, _1: tuple[_py_float, _py_float], /, c: _py_float) -> _py_float: ..." in stub
    )
    assert "def __call__(self, xs: _List) -> _Option: ..." in stub
    assert "def __call__(self, p: _py_Callable[[_py_Any], bool | _py_np.bool_], x: _py_Any) -> _py_Any: ..." in stub
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"]
    command += ["--cache-dir", ROOT / ".mypy_cache", "named.pyi"]
    environment = {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stdout
    module = dlang.load(tmp_path / "named.dl")
    assert str(inspect.signature(module.swing)) == "(_0: f64, _1: (f64, f64), /, c: f64) -> f64"


def test_stubs_of_a_folder_keep_their_places_and_each_that_is_wrong_is_told(write, dlc, tmp_path):
    for place in ("src/x.dl", "src/a/x.dl"):
        write("fn f(x: f64) -> f64 = x", place)
    code, out, _ = dlc("stub", "-o", "typings", "src")
    assert (code, out.splitlines()) == (0, ["typings/a/x.pyi", "typings/x.pyi"])
    assert dlc("stub", "--check", "-o", "typings", "src") == (0, "", "")
    (tmp_path / "typings/x.pyi").write_bytes(b"\xff")
    (tmp_path / "typings/a/x.pyi").unlink()
    code, out, err = dlc("stub", "--check", "-o", "typings", "src")
    assert (code, out) == (1, "") and err.count("E0994") == 2
