"""Libraries for C, called as C calls them."""

import ctypes
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dlang
from dlang.aot import program
from dlang.aot.exports import ExportRequest, build, checked_file, chosen
from dlang.codegen.llvm.objects import LEVELS
from dlang.tools.dlc import main
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent.parent
MANY = Path(__file__).with_name("many.dl")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def struct(**fields):
    return type("Struct", (ctypes.Structure,), {"_fields_": list(fields.items())})


@cache
def array(rank):
    return struct(data=ctypes.c_void_p, size=ctypes.c_int64 * rank)


ONE, TWO = array(1), array(2)
PAIR = struct(left=ONE, right=ONE)
SHAPE = struct(tag=ctypes.c_int64, circle=ctypes.c_double, box=ctypes.c_double * 2)
POINT = struct(x=ONE, y=ONE)


def given(values, dtype=np.float64, kept=[]):  # noqa: B006
    made = np.ascontiguousarray(values, dtype)
    kept.append(made)
    return array(made.ndim)(made.ctypes.data, made.shape)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    assert main(["build", "--shared", str(MANY), "-o", str(folder)]) == 0
    return Library(ctypes.CDLL(str(folder / "libmany.so")))


class Library:
    def __init__(self, dll):
        self.dll = dll
        dll.many_message.restype = dll.many_error_code.restype = ctypes.c_char_p
        dll.many_free.argtypes = [ctypes.c_void_p]

    def call(self, name, result, *args):
        """The result; a failure is raised with its message."""
        if getattr(self.dll, f"many_{name}")(*args, ctypes.byref(result)):
            raise RuntimeError(self.dll.many_message().decode())
        return result

    def array(self, name, rank, *args, dtype=np.float64):
        return self.taken(self.call(name, array(rank)(), *args), dtype)

    def taken(self, made, dtype=np.float64):
        """A copy of an array that was allocated, which is freed."""
        shape = tuple(made.size)
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        copy = np.frombuffer(ctypes.string_at(made.data, count), dtype).reshape(shape).copy()
        self.dll.many_free(made.data)
        return copy

    def number(self, name, *args):
        return self.call(name, ctypes.c_double(), *args).value


def double(x):
    return ctypes.c_double(x)


def size(n):
    return ctypes.c_int64(n)


# ---- values ----------------------------------------------------------------------------------------------------------
def test_arrays_go_in_and_out(library):
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(library.array("scaled", 2, given(x), double(2.0)), 2 * x)
    np.testing.assert_array_equal(library.array("product", 2, given(x), given(x.T)), x @ x.T)
    assert library.array("scaled", 2, given(np.zeros((0, 3))), double(2.0)).shape == (0, 3)


def test_a_result_goes_where_the_caller_has_memory_for_it(library):
    x, room = np.ones((2, 3)), np.empty((2, 3))
    result = TWO(room.ctypes.data, (2, 3))
    library.call("scaled", result, given(x), double(3.0))
    assert result.data == room.ctypes.data and (room == 3).all()
    with pytest.raises(RuntimeError, match=r"memory for the result of `scaled` has the sizes \[2, 2\]"):
        library.call("scaled", TWO(room.ctypes.data, (2, 2)), given(x), double(3.0))


def test_structs_and_tuples_are_structs(library):
    model = struct(w=ONE, bias=ctypes.c_double, deep=ctypes.c_bool)(given([1.0, 2.0]), 0.5, True)
    found = library.array("predict", 1, model, given([[1.0, 1.0], [0.0, 3.0]]))
    np.testing.assert_array_equal(found, [3.5, 6.5])
    split = struct(item0=ctypes.c_float, item1=ONE, item2=ctypes.c_int64)
    made = library.call("split", split(), given([1.0, 2.0, 4.0], np.float32))
    assert (made.item0, made.item2) == (7.0, 3)
    np.testing.assert_array_equal(library.taken(made.item1, np.float32), [2.0, 3.0, 5.0])


def test_an_array_of_structs_is_a_struct_of_arrays(library):
    points = POINT(given([1.0, 2.0]), given([3.0, 4.0]))
    moved = library.call("moved", POINT(), points, double(10.0))
    np.testing.assert_array_equal(library.taken(moved.x), [11.0, 12.0])
    np.testing.assert_array_equal(library.taken(moved.y), [3.0, 4.0])


def test_an_enum_is_a_number_with_parts(library):
    assert library.number("area", SHAPE(0)) == 0
    assert library.number("area", SHAPE(1, 2.0)) == 12
    assert library.number("area", SHAPE(2, 0.0, (2.0, 5.0))) == 10
    box = library.call("larger", SHAPE(), SHAPE(1, 3.0))
    assert box.tag == 2 and list(box.box) == [3, 3]


def test_texts_and_small_numbers(library):
    text = library.call("greeting", ctypes.c_void_p(), "Grüße".encode(), size(42))
    assert ctypes.string_at(text.value).decode() == f"Grüße: {42:>5}|{42 / 3}"
    library.dll.many_free(text.value)
    same = library.call("same", ctypes.c_bool(), b"a", b"a")
    other = library.call("same", ctypes.c_bool(), b"a", b"b")
    assert (same.value, other.value) == (True, False)
    x, on = given([1, 2, 3], np.uint8), given([True, False, True], np.bool_)
    assert library.call("bytes", ctypes.c_int64(), x, on).value == 4
    half = library.call("half", struct(x=ONE, y=ctypes.c_float)(), given([1.0, 2.0], np.float16), ctypes.c_float(1.5))
    np.testing.assert_array_equal(library.taken(half.x, np.float16), [1.5, 3.0])
    assert half.y == 3


def test_sizes_follow_from_arguments(library):
    halves = library.call("halves", PAIR(), given([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(library.taken(halves.right), [3.0, 4.0])
    np.testing.assert_array_equal(library.taken(halves.left), [1.0, 2.0])
    np.testing.assert_array_equal(library.array("repeated", 1, size(2), double(3.0)), [0, 3, 6])
    np.testing.assert_array_equal(library.array("positive", 1, given([-1.0, 2.0, 0.0, 3.0])), [2, 3])


def test_random_numbers_depend_on_the_seed(library):
    first, same, other = (library.array("drawn", 1, size(s), size(5)) for s in (1, 1, 2))
    assert (first == same).all() and (first != other).all()


def test_linear_algebra_comes_with_the_library(library):
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(library.array("solved", 1, given(a), given(b)), np.linalg.solve(a, b))


def test_trees_and_deep_recursion(library):
    assert library.number("leaves", size(16)) == 2**16
    assert library.call("down", ctypes.c_int64(), size(1_000_000)).value == 1_000_000


@pytest.mark.parametrize("tag", [3, 7, -1, 2**63 - 1, -(2**63), 2**32])
def test_a_tag_that_no_variant_has_is_refused(library, tag):
    result = ctypes.c_double(-1.0)
    for name, place in (("area", result), ("larger", SHAPE())):
        with pytest.raises(RuntimeError, match=r"\[E0960\]: argument `s.tag` of `\w+` has the number of a variant"):
            library.call(name, place, SHAPE(tag, 1.0, (2.0, 3.0)))
    assert result.value == -1.0 and library.number("area", SHAPE(1, 2.0)) == 12


def test_no_place_for_a_result_is_a_failure(library):
    x = given([1.0, 2.0])
    for name, args in {
        "area": (SHAPE(1, 2.0),),
        "larger": (SHAPE(1, 2.0),),
        "scaled": (given([[1.0, 2.0]]), double(3.0)),
        "halves": (x,),
        "greeting": (b"a", size(1)),
        "repeated": (size(2), double(3.0)),
        "leaves": (size(3),),
    }.items():
        assert getattr(library.dll, f"many_{name}")(*args, None) == 1
        assert library.dll.many_error_code() == b"E0960"
        assert f"there is no place for the result of `{name}`" in library.dll.many_message().decode()


# ---- failures --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name, args, message",
    [
        ("predict", lambda: (struct(w=ONE, b=ctypes.c_double, d=ctypes.c_bool)(given([1.0]), 0, 0), given([[1.0, 2]])),
         "[E0960]: argument `p.w` of `predict`: expected f64[2], got f64[1]"),
        ("loss", lambda: (given([1.0, 2.0]), given([1.0])), "expected f64[n], n = 2, got f64[1]"),
        ("halves", lambda: (given([1.0, 2.0, 3.0]),), "expected f64[2*n], got f64[3]"),
        ("repeated", lambda: (size(-1), double(1.0)), "a size is not negative, got -1"),
        ("chosen", lambda: (given([1.0, 2.0]), size(2)), "argument `i` of `chosen` has an index that is out of range"),
        ("loss", lambda: (ONE(None, (3,)), given([1.0, 2, 3])), "got no memory for f64[3]"),
        ("loss", lambda: (ONE(None, (-1,)), given([1.0])), "got"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(library, name, args, message):
    with pytest.raises(RuntimeError) as refused:
        library.call(name, struct(a=ONE, b=ONE)(), *args())
    assert message in str(refused.value)


def test_a_failed_check_says_what_it_says_in_python(library):
    with pytest.raises(dlang.DlangError) as expected:
        dlang.load(MANY).outer([1.0, 2.0], 7)
    with pytest.raises(RuntimeError) as failed:
        library.number("outer", given([1.0, 2.0]), size(7))
    assert str(failed.value) == str(expected.value)
    assert library.dll.many_error_code() == b"E0801"


@pytest.mark.slow
def test_an_endless_recursion_ends_with_a_message(library):
    """It takes as much memory as there is."""
    with pytest.raises(RuntimeError, match=r"E0805.*stack is exhausted: `many.forever` is \d+ calls deep"):
        library.call("forever", ctypes.c_int64(), size(0))
    assert library.call("down", ctypes.c_int64(), size(10)).value == 10


def test_memory_that_runs_out_is_a_message(library):
    with pytest.raises(RuntimeError, match="E0806"):
        library.call("repeated", ONE(), size(2**55), double(1.0))


def test_a_processor_that_lacks_something_is_told(tmp_path, monkeypatch):
    level = replace(LEVELS["x86-64-v2"], needs=("sse3", "fantasy"))
    monkeypatch.setitem(LEVELS, "x86-64-v2", level)
    monkeypatch.setitem(program.CHECKED[1, "ecx"], "fantasy", 16)  # a bit that no processor has
    arguments = ["--shared", str(ROOT / "examples/fit.dl"), "--fn", "loss", "-o", str(tmp_path)]
    assert main(["build", *arguments, "--cpu", "x86-64-v2"]) == 0
    fit = ctypes.CDLL(str(tmp_path / "libfit.so"))
    fit.fit_message.restype = ctypes.c_char_p
    assert fit.fit_loss(given([1.0]), given([[1.0]]), given([1.0]), ctypes.byref(ctypes.c_double())) == 1
    expected = "error[E0989]: this was built for x86-64-v2, and this processor has no fantasy"
    assert fit.fit_message().decode() == expected


# ---- threads ---------------------------------------------------------------------------------------------------------
def test_several_threads_call_at_once_and_each_has_its_message(library):
    x = np.random.default_rng(0).normal(size=300_000)
    expected = (np.sin(x) * np.cos(x) + np.exp(-x * x)).sum()
    library.dll.many_set_threads(2)
    problems = []

    def work(k):
        try:
            for _ in range(5):
                np.testing.assert_allclose(library.number("total", given(x)), expected, rtol=1e-12)
                with pytest.raises(RuntimeError, match=f"index {k} is out of range|{k}"):
                    library.number("at", given([1.0]), size(k))
        except BaseException as e:
            problems.append(e)

    threads = [threading.Thread(target=work, args=(100 + k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems
    assert library.dll.many_set_threads(0) == 1 and b"not a number of threads" in library.dll.many_message()
    bits = {library.number("total", given(x)) for threads in (1, 2) if not library.dll.many_set_threads(threads)}
    assert len(bits) == 1


def test_the_runtime_compiles_without_a_warning(tmp_path):
    checked = checked_file(str(ROOT / "examples/fit.dl"))
    made = build(checked, chosen(checked, [ExportRequest("loss")]), LEVELS["x86-64-v3"], by_name=True)
    (tmp_path / "layout.h").write_text(program.layout(made))
    sources = sorted((ROOT / "dlang/aot/c").glob("*.c"))
    assert len(sources) > 5
    warnings = ["-Wall", "-Wextra", "-Wno-format-truncation", "-Werror", "-fsyntax-only", "-std=gnu11"]
    done = subprocess.run(["cc", *warnings, f"-I{tmp_path}", *sources], capture_output=True, text=True)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize(
    "compiler, ending, standards", [("cc", "c", ["c99", "c11"]), ("c++", "cpp", ["c++98", "c++17"])]
)
def test_the_header_is_one_for_every_c_and_for_cpp(library, tmp_path, compiler, ending, standards):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    header = Path(library.dll._name).with_name("many.h")
    assert "A text that ends / * and begins * / what C ends and begins" in header.read_text()
    source = tmp_path / f"use.{ending}"
    source.write_text('#include "many.h"\n#include "many.h"\nint main(void) { return many_loss == 0; }\n')
    for standard in standards:
        options = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-address", "-fsyntax-only", f"-std={standard}"]
        done = subprocess.run([compiler, *options, f"-I{header.parent}", source], capture_output=True, text=True)
        assert not done.returncode, done.stderr


# ---- from C ----------------------------------------------------------------------------------------------------------
def test_the_example_fits_a_line(tmp_path):
    arguments = ["--fn", "loss", "--value-and-grad", "loss", "-o", str(tmp_path)]
    assert main(["build", "--shared", str(ROOT / "examples/fit.dl"), *arguments]) == 0
    shown = subprocess.run(["nm", "-D", "--defined-only", tmp_path / "libfit.so"], capture_output=True, text=True)
    names = {line.split()[-1] for line in shown.stdout.splitlines()}
    own = {"fit_message", "fit_error_code", "fit_free", "fit_set_threads"}
    assert names == {"fit_loss", "fit_value_and_grad_loss", *own}
    needs = subprocess.run(["ldd", tmp_path / "libfit.so"], capture_output=True, text=True).stdout
    assert "python" not in needs and "openblas" not in needs
    compile = ["cc", "-Wall", "-Wextra", "-Werror", "-std=c11", f"-I{tmp_path}", str(ROOT / "examples/from_c/fit.c")]
    subprocess.run([*compile, f"-L{tmp_path}", "-lfit", f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "fit"], check=True)
    run = subprocess.run([tmp_path / "fit"], capture_output=True, text=True, env={})
    assert run.returncode == 0
    assert run.stdout.splitlines()[0].startswith("w = [2.000 3.000], loss = ")
    assert run.stdout.splitlines()[1] == "error[E0960]: argument `y` of `loss`: expected f64[n], n = 10, got f64[9]"


def test_it_can_be_unloaded_and_survives_a_fork(tmp_path):
    """With threads at work before, in a process of its own."""
    (tmp_path / "large.dl").write_text("fn total(n: i64) -> f64 = sum(sin(f64(i)) for i < n)\n")
    assert main(["build", "--shared", str(tmp_path / "large.dl"), "-o", str(tmp_path)]) == 0
    text = f"""
import _ctypes, ctypes, os, threading
def total(dll):
    result = ctypes.c_double()
    assert dll.large_total(ctypes.c_int64(400000), ctypes.byref(result)) == 0
    return result.value
for _ in range(3):
    dll = ctypes.CDLL({str(tmp_path / "liblarge.so")!r})
    dll.large_set_threads(3)
    expected = total(dll)
    assert dll.large_set_threads(0) == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if total(dll) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    failing = threading.Thread(target=dll.large_set_threads, args=(0,))
    failing.start()
    failing.join()
    _ctypes.dlclose(dll._handle)
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "fine\n", done.stderr
