"""Compiled functions that are kept between processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]

PROGRAM = """
import random
struct Point { x: f64, y: f64[3] }
enum Shape { Circle(f64), Square(side: f64) }

fn grow(p: Point, k: f64) -> Point = Point(k * p.x, p.y + k)
fn area(s: Shape) -> f64 = match s { Circle(r) => 3.0 * r * r, Square(a) => a * a }
fn loss(w: f64[n], x: f64[m, n]) -> f64 = sum(tanh(x @ w) ** 2)
fn squares(x) = x * x
fn pick(x: f64[n], i: i64) -> f64 = x[i]
fn noise(n: size) -> f64[n] ! random = [random.normal() for _ < n]
fn say(x: f64) -> str = "x = {x:.2f}"
fn shifted(x: f64, k: f64 = 2.0) -> f64 = x + k
"""

USES = """
import numpy as np, dlang, sys
m = dlang.load("program.dl")
x = np.arange(6.0).reshape(2, 3) / 10
p = m.grow(m.Point(1.0, np.ones(3)), 2.0)
print(p.x, p.y, type(p) is m.Point, m.area(m.Square(3.0)), m.area(m.Circle(1.0)))
print(m.loss(np.ones(3), x), dlang.grad(m.loss)(np.ones(3), x), dlang.hessian(m.loss)(np.ones(3), x)[0])
print(dlang.jvp(m.loss, (np.ones(3), x), (np.ones(3), x)), m.squares(x), m.squares(3), m.shifted(1.0))
print(m.noise(3, seed=5), m.say(1.5))
try:
    m.pick(np.ones(3), 7)
except dlang.DlangError as e:
    print(e)
"""
STATE = """
print(dlang.compilations(), *[x for x in ("lark", "dlang.ad.expand", "dlang.typecheck.calls") if x in sys.modules],
      file=sys.stderr)
"""


NEEDED_BY_A_CALL = {
    *("dlang.codegen.abi", "dlang.codegen.llvm"),
    *(f"dlang.codegen.llvm.{x}" for x in (
        "access_checks", "call_values", "capi", "collector", "dispatch", "emitter", "jit", "microkernel", "objects",
        "panels", "pieces", "pool", "registry", "support", "texts", "waiting", "windows",
    )),
    *(f"dlang.ir.{x}" for x in ("crossing", "errors", "terms")),
    *("dlang.grammar.parts", "dlang.specialize.structs", "dlang.specialize.types"),
    *(f"dlang.typecheck.{x}" for x in ("cache", "headers", "mismatches", "modules", "printing",
                                       "program", "refinements", "scope", "state", "stored", "terms", "types")),
}  # fmt: skip
"""What there is of the compiler where nothing is compiled: what it keeps, and what the kept is made of."""


def run(folder: Path, program: str, **environment: str) -> tuple[str, str]:
    """What a process prints, and what it says about itself."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("DLANG")}
    path = {"PYTHONPATH": str(ROOT), "DLANG_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program + STATE], cwd=folder, env={**known, **path, **environment},
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.strip()


@pytest.fixture
def new_folder(tmp_path: Path) -> Path:
    """A program, where nothing has been kept."""
    (tmp_path / "program.dl").write_text(PROGRAM)
    return tmp_path


@pytest.fixture(scope="module")
def for_all_programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What is kept for any program: the tables of the grammar, and the compiler's own machine code."""
    folder = tmp_path_factory.mktemp("another")
    (folder / "program.dl").write_text("fn f(x: f64) -> f64 = x\n")
    run(folder, "import sys, dlang\nm = dlang.load('program.dl')\nfor _ in range(3): m.f(1.0)\n")
    return [p for p in (folder / "cache").iterdir() if p.name.startswith(("grammar-", "object-"))]


@pytest.fixture
def folder(new_folder: Path, for_all_programs: list[Path]) -> Path:
    """A program of which nothing has been kept."""
    (new_folder / "cache").mkdir(mode=0o700)
    for path in for_all_programs:
        shutil.copy(path, new_folder / "cache")
    return new_folder


CALLED = """
import sys, dlang, numpy as np
m = dlang.load('program.dl')
for _ in range(3): x = m.loss(np.linspace(0.1, 0.7, 3), np.linspace(1.0, 2.0, 6).reshape(2, 3))
print(x.hex())
"""


@pytest.fixture(scope="module")
def first_run(for_all_programs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a program that was called in one process, and what that printed."""
    folder = tmp_path_factory.mktemp("called")
    (folder / "program.dl").write_text(PROGRAM)
    (folder / "cache").mkdir(mode=0o700)
    for path in for_all_programs:
        shutil.copy(path, folder / "cache")
    return folder, run(folder, CALLED)[0]


@pytest.fixture
def called(first_run: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    """The same as a copy, in which a test may change what is kept."""
    folder, printed = first_run
    return Path(shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copy2)), printed


def kept(folder: Path, kind: str) -> int:
    return sum(p.name.startswith(kind) for p in (folder / "cache").iterdir())


def test_a_second_process_gives_the_same_and_compiles_nothing(new_folder: Path) -> None:
    first, state = run(new_folder, USES)
    assert state == "12 lark dlang.ad.expand dlang.typecheck.calls"
    assert kept(new_folder, "function") == 12
    second, state = run(new_folder, USES)
    assert second == first and "out of range" in second
    # two of the functions have no types of their own, so the checker finds them at those of the arguments
    assert state == "12 dlang.typecheck.calls"
    assert kept(new_folder, "function") == 12


def test_loading_a_module_again_needs_neither_parser_nor_checker_nor_llvm(called: tuple[Path, str]) -> None:
    program = "import sys, dlang\nm = dlang.load('program.dl')\n"
    more = "print([x for x in ('lark', 'llvmlite', 'dlang.grammar.syntax', 'dlang.ad') if x in sys.modules])\n"
    assert run(called[0], program + more) == ("[]\n", "0")


def test_a_call_of_what_was_compiled_earlier_loads_no_compiler(called: tuple[Path, str]) -> None:
    program = "import sys, dlang, numpy as np\nm = dlang.load('program.dl')\nm.loss(np.ones(3), np.ones((2, 3)))\n"
    more = """
made = ("dlang.ad", "dlang.codegen", "dlang.grammar", "dlang.ir", "dlang.optimize", "dlang.specialize",
        "dlang.typecheck")
needless = ("lark", "llvmlite", "numpy.ma", "csv", "ctypes.util", "subprocess", "tempfile", "hashlib", "sysconfig")
print(*sorted(x for x in sys.modules if x.startswith(made) and x.count(".") > 1))
print(*[x for x in needless if x in sys.modules])
"""
    found, state = run(called[0], program + more)
    assert state == "1"
    loaded, needless = found.split("\n")[:2]
    assert set(loaded.split()) == NEEDED_BY_A_CALL and needless == ""


def test_an_edit_of_an_imported_module_is_seen(folder: Path) -> None:
    (folder / "base.dl").write_text("fn scale(x: f64) -> f64 = 2.0 * x\n")
    (folder / "program.dl").write_text("import base\nfn f(x: f64) -> f64 = base.scale(x)\n")
    program = "import dlang, sys\nprint(dlang.load('program.dl').f(1.0))\n"
    assert [run(folder, program)[0] for _ in range(2)] == ["2.0\n", "2.0\n"]
    (folder / "base.dl").write_text("fn scale(x: f64) -> f64 = 3.0 * x\n")
    assert run(folder, program)[0] == "3.0\n"


def test_what_another_compiler_has_compiled_is_compiled_again(folder: Path) -> None:
    program = "import dlang.cache.store as c\nc.stamp = lambda: ('WHICH', 0.0)\n"
    program += "import sys, dlang\nprint(dlang.load('program.dl').shifted(1.0))\n"
    one, other = program.replace("WHICH", "one"), program.replace("WHICH", "other")
    run(folder, one)
    assert run(folder, one) == ("3.0\n", "1")
    assert kept(folder, "function") == 1
    assert "dlang.ad.expand" in run(folder, other)[1]
    assert kept(folder, "function") == 2


def test_functions_of_python_are_looked_for_again(folder: Path) -> None:
    (folder / "helper.py").write_text("def half(x):\n    return x / 2\n")
    (folder / "program.dl").write_text(
        'extern "python:helper.half" fn half(x: f64) -> f64\nfn f(x: f64) -> f64 = half(x)\n'
    )
    program = "import dlang, sys\nprint(dlang.load('program.dl').f(1.0))\n"
    assert [run(folder, program)[0] for _ in range(2)] == ["0.5\n", "0.5\n"]
    assert kept(folder, "function") == 1
    # of another length, as Python tells sources by that and by the second in which they were written
    (folder / "helper.py").write_text("def half(x):\n    return x / 4.0\n")
    assert run(folder, program) == ("0.25\n", "1")


def test_what_calls_a_function_without_a_name_is_not_kept(folder: Path) -> None:
    (folder / "program.dl").write_text("fn f(g: (f64) -> f64, x: f64) -> f64 = g(x)\n")
    program = "import dlang, sys\nprint(dlang.load('program.dl').f(lambda x: x + K, 1.0))\n"
    assert run(folder, program.replace("K", "1"))[0] == "2.0\n"
    assert run(folder, program.replace("K", "2"))[0] == "3.0\n"
    assert kept(folder, "function") == 0


def test_a_damaged_entry_is_compiled_again(folder: Path) -> None:
    program = "import dlang, sys\nprint(dlang.load('program.dl').shifted(1.0))\n"
    run(folder, program)
    for file in (folder / "cache").iterdir():
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2])
    assert run(folder, program) == ("3.0\n", "1 lark dlang.ad.expand dlang.typecheck.calls")
    assert run(folder, program) == ("3.0\n", "1")


@pytest.mark.parametrize("nothing", [{"DLANG_CACHE_SIZE": "0"}, {"DLANG_CACHE": "off"}], ids=["no bytes", "off"])
def test_nothing_is_kept_where_nothing_is_allowed(nothing: dict[str, str], new_folder: Path) -> None:
    program = "import dlang, sys\nprint(dlang.load('program.dl').area)\n"
    before = {*new_folder.iterdir()}
    run(new_folder, program, XDG_CACHE_HOME=str(new_folder / "home"), **nothing)
    assert {*new_folder.iterdir()} == before


def test_importing_and_calling_what_is_kept_loads_neither_lark_nor_llvm(folder: Path) -> None:
    use = "import sys, numpy as np, dlang.importer\nsys.path.insert(0, '.')\nimport program\n"
    calls = "".join(["program.loss(np.ones(3), np.ones((2, 3)))\n"] * 3)  # the third goes to compiled code at once
    show = (
        "print([x for x in ('lark', 'llvmlite', 'dlang.typecheck.core', 'dlang.codegen.loops') if x in sys.modules])\n"
    )
    run(folder, use + calls)
    assert kept(folder, "caller") == 1
    assert run(folder, use + calls + show) == ("[]\n", "1")


def test_another_linker_gives_the_same(called: tuple[Path, str]) -> None:
    folder, first = called
    assert run(folder, CALLED, DLANG_PORTABLE="1")[0] == run(folder, CALLED)[0] == first


def test_a_body_is_read_when_something_is_compiled_of_it(called: tuple[Path, str]) -> None:
    program = "import sys, dlang\nm = dlang.load('program.dl')\n"
    program += "before = 'dlang.typecheck.core' in sys.modules\nprint(m.area(m.Square(2.0)))\n"
    program += "print(before, *[x in sys.modules for x in ('dlang.typecheck.core', 'dlang.typecheck.checking')])\n"
    assert run(called[0], program)[0] == "4.0\nFalse True False\n"


@pytest.mark.parametrize("kind", ["function", "module", "caller", "object"])
def test_what_is_damaged_is_made_anew(called: tuple[Path, str], kind: str) -> None:
    folder, first = called
    files = sorted((folder / "cache").glob(f"{kind}-*"))
    assert files
    for k, path in enumerate(files):
        data = bytearray(path.read_bytes())
        if k % 2:
            del data[len(data) // 2 :]
        else:
            data[len(data) // 2] ^= 16
        path.write_bytes(data)
    assert run(folder, CALLED)[0] == first
