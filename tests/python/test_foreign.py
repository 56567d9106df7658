"""Functions of Python and C called from programs, and functions passed to programs."""

import math
import re
import threading

import numpy as np
import pytest

import dlang

BACKENDS = ["interp", "cpu"]


@pytest.fixture(params=BACKENDS)
def compile(request):
    def compiled(text, **options):
        return dlang.compile(text, request.param, **options)

    return compiled


def message(call):
    with pytest.raises(dlang.DlangError) as refused:
        call()
    return str(refused.value)


def first_line(call):
    return message(call).partition("\n")[0]


# ---- primitives ------------------------------------------------------------------------------------------------------
@dlang.primitive("fn hypot2(x: f64[n], y: f64[n]) -> f64[n]")
def hypot2(x, y):
    """The length of (x, y)."""
    return np.sqrt(x * x + y * y)


def test_a_program_calls_the_primitives_that_it_is_given(compile):
    m = compile("fn f(x: f64[n]) = sum(hypot2(x, x))", primitives=[hypot2])
    assert m.f(np.array([3.0, 4.0])) == pytest.approx(7 * math.sqrt(2))


def test_a_primitive_is_still_a_function_of_python():
    assert hypot2(3.0, 4.0) == 5.0
    assert hypot2.signature == "fn hypot2(x: f64[n], y: f64[n]) -> f64[n]"
    assert hypot2.__doc__ == "The length of (x, y)." and hypot2.__name__ == "hypot2"


def test_nothing_is_registered(compile):
    compile("fn f(x: f64[n]) = hypot2(x, x)", primitives=[hypot2])
    assert "unknown name `hypot2`" in message(lambda: compile("fn f(x: f64[n]) = hypot2(x, x)"))


def test_a_file_can_be_loaded_with_primitives(tmp_path):
    file = tmp_path / "model.dl"
    file.write_text("fn f(x: f64[n]) = sum(hypot2(x, x))")
    assert dlang.load(file, primitives=[hypot2]).f(np.zeros(3)) == 0.0


def test_a_generic_primitive_serves_every_dtype_and_rank(compile):
    @dlang.primitive("fn twice(x: a[..s]) -> a[..s]")
    def twice(x):
        return x + x

    m = compile("fn f(x) = twice(x)", primitives=[twice])
    assert m.f(2) == 4
    assert m.f(np.ones(3, np.float32)).dtype == np.float32
    assert m.f(np.ones((2, 3, 4))).shape == (2, 3, 4)


def test_a_mistake_in_a_signature_points_into_it():
    text = message(lambda: dlang.primitive("fn f(x: f46[n]) -> f64[n]")(abs))
    assert "did you mean `f64`" in text
    assert "1 | fn f(x: f46[n]) -> f64[n]\n  |         ^^^" in text


@pytest.mark.parametrize(
    "signature", ["", "fn f(x: f64)", "f(x: f64) -> f64", "fn f(x) -> f64", "fn f(x: f64) -> f64 = x"]
)
def test_what_is_no_signature_is_refused(signature):
    assert re.search(r"<signature of abs>:\d", message(lambda: dlang.primitive(signature)(abs)))


def test_a_name_is_defined_once(compile):
    assert "`hypot2` is defined twice" in message(lambda: compile("fn hypot2(x) = x", primitives=[hypot2]))
    assert "`hypot2` is defined twice" in message(lambda: compile("fn f(x) = x", primitives=[hypot2, hypot2]))


def test_a_primitive_without_a_signature_is_refused(compile):
    assert "E0965" in message(lambda: compile("fn f(x) = x", primitives=[np.sin]))


def test_structs_of_a_program_are_the_classes_of_its_module(compile):
    seen = []

    @dlang.primitive("fn noted(x: a) -> a")
    def noted(x):
        seen.append(x)
        return x

    m = compile("struct P { x: f64 }\nfn f(p: P) -> P = noted(p)", primitives=[noted])
    assert m.f(m.P(2.0)).x == 2.0
    assert type(seen[-1]) is m.P


def test_what_crosses_to_python_is_of_pythons_own_classes(compile):
    seen = []

    @dlang.primitive("fn noted(a: f64, b: i64, c: bool, d: str, e: f32, f: f32[n], g: ()) -> () ! io")
    def noted(*values):
        seen[:] = values

    m = compile('fn f() { noted(1.0, 2, true, "x", 3.0, [4.0], ()) }', primitives=[noted])
    assert m.f() is None
    a, b, c, d, e, f, g = seen
    assert (type(a), type(b), type(c), type(d), type(e), g) == (float, int, bool, str, np.float32, None)
    assert f.dtype == np.float32 and f.shape == (1,)


def test_an_effect_happens_as_often_as_it_is_written(compile):
    calls = []

    @dlang.primitive("fn tick(x: f64) -> f64 ! io")
    def tick(x):
        calls.append(x)
        return x

    m = compile(
        "fn f() -> f64 {\n let _ = tick(1.0)\n let a = tick(2.0)\n let b = tick(2.0)\n a + b\n}", primitives=[tick]
    )
    assert m.f() == 4.0
    assert calls == [1.0, 2.0, 2.0]


# ---- what can go wrong -----------------------------------------------------------------------------------------------
def returning(value):
    @dlang.primitive("fn given(x: f64[n]) -> f64[n]")
    def given(x):
        return value

    return given


@pytest.mark.parametrize(
    "value, got",
    [
        (np.zeros(2), "f64[2]"),
        (np.zeros((3, 1)), "f64[3, 1]"),
        (np.zeros(3, np.float32), "f32[3]"),
        (1.0, "the float 1.0"),
        (None, "None"),
        ("text", "a str"),
        ((1.0, 2.0, 3.0), "(the float 1.0, the float 2.0, the float 3.0)"),
    ],
)
def test_a_result_of_another_type_ends_the_run(compile, value, got):
    m = compile("fn f(x: f64[n]) = sum(given(x))", primitives=[returning(value)])
    expected = f"error[E0810]: `given` returned {got}, its type says f64[n] with n = 3"
    assert first_line(lambda: m.f(np.zeros(3))) == expected


def test_a_list_of_pythons_numbers_takes_the_dtype(compile):
    m = compile("fn f(x: f64[n]) = sum(given(x))", primitives=[returning([1, 2, 3])])
    assert m.f(np.zeros(3)) == 6.0


def test_the_message_says_what_open_dtypes_and_ranks_are(compile):
    @dlang.primitive("fn total(x: a[..s]) -> a[..s]")
    def total(x):
        return np.sum(x)

    m = compile("fn f(x) = total(x)", primitives=[total])
    text = first_line(lambda: m.f(np.zeros((2, 3))))
    assert text == "error[E0810]: `total` returned f64, its type says a[..s] with a = f64, ..s = [2, 3]"


def test_an_exception_has_the_place_of_the_call_and_is_the_cause(compile):
    problem = ValueError("no good\nat all")

    @dlang.primitive("fn broken(x: f64) -> f64")
    def broken(x):
        raise problem

    m = compile("fn f(x: f64[n]) = [broken(v) for v in x]", primitives=[broken])
    with pytest.raises(dlang.DlangError) as refused:
        m.f(np.ones(3))
    assert refused.value.__cause__ is problem
    text = str(refused.value)
    assert re.match(r"error\[E0809\]: `broken` raised ValueError: no good \(test_foreign.py, line \d+\)\n", text)
    assert "<text>:1:20" in text
    assert m.f(np.zeros(0)).shape == (0,)


def test_ctrl_c_in_python_is_not_an_error_of_the_program(compile):
    @dlang.primitive("fn stopped(x: f64) -> f64")
    def stopped(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile("fn f(x: f64) = stopped(x)", primitives=[stopped]).f(1.0)


def test_python_may_call_the_program_again(compile):
    m = None

    @dlang.primitive("fn again(x: f64) -> f64")
    def again(x):
        return m.f(x - 1.0)

    m = compile("fn f(x: f64) -> f64 = if x < 0.5 { 0.0 } else { x + again(x) }", primitives=[again])
    assert m.f(4.0) == 10.0


@pytest.mark.parametrize(
    "target, words",
    [
        ("python:nowhere_at_all.f", ["no Python module `nowhere_at_all`"]),
        ("python:numpy.interpp", ["`numpy`", "did you mean `interp`?"]),
        ("python:math.sqrtt", ["the module `math` of Python has no `sqrtt`", "did you mean `sqrt`?"]),
        ("python:math.pi", ["is not a function"]),
        ("c:nowhere_at_all:f", ["no C library `nowhere_at_all`"]),
        ("c:./nowhere.so:f", ["nowhere.so"]),
        ("c:m:cuberoot", ["the C library `m` has no function `cuberoot`"]),
    ],
)
def test_a_foreign_function_that_is_not_there_is_refused_when_it_is_compiled(compile, target, words):
    m = compile(f'extern "{target}" fn f(x: f64) -> f64\nfn g(x: f64) = f(x)')
    text = message(lambda: m.g(1.0))
    assert text.startswith("error[E0604]")
    assert all(w in text for w in words)


def test_a_module_that_cannot_be_imported_says_why(tmp_path):
    (tmp_path / "broken_on_import.py").write_text("1 / 0")
    (tmp_path / "main.dl").write_text('extern "python:broken_on_import.f" fn f(x: f64) -> f64\nfn g(x: f64) = f(x)')
    text = message(lambda: dlang.load(tmp_path / "main.dl").g(1.0))
    assert "`broken_on_import` cannot be imported: ZeroDivisionError: division by zero" in text


def test_each_program_has_the_module_beside_it(tmp_path):
    modules = []
    for k in (1, 2):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "beside.py").write_text(f"import beside_that\n\ndef f(x):\n    return x + {k}.0")
        (folder / "beside_that.py").write_text("")
        (folder / "main.dl").write_text('extern "python:beside.f" fn f(x: f64) -> f64')
        modules.append(dlang.load(folder / "main.dl"))
    assert [m.f(1.0) for m in modules] == [2.0, 3.0]


def test_a_package_beside_a_program_is_found(tmp_path):
    (tmp_path / "beside" / "inner").mkdir(parents=True)
    (tmp_path / "beside" / "__init__.py").write_text("")
    (tmp_path / "beside" / "inner" / "__init__.py").write_text("from .code import f")
    (tmp_path / "beside" / "inner" / "code.py").write_text("def f(x):\n    return -x")
    (tmp_path / "main.dl").write_text('extern "python:beside.inner.f" fn f(x: f64) -> f64')
    assert dlang.load(tmp_path / "main.dl").f(1.0) == -1.0


def test_kernels_are_refused(compile):
    m = compile('extern "cuda:a.cu:k" fn k(x: f64[n]) -> f64[n]\nfn f(x: f64[n]) = k(x)')
    assert first_line(lambda: m.f(np.ones(2))) == "error[E0901]: the kernel `k` of `a.cu` cannot run on the CPU"


COPIED = 'extern "python:copy.copy" fn copied(x: a) -> a\n'


def test_enums_and_trees_cross(compile):
    m = compile(
        COPIED + "enum E { A, B(f64[2], i64) }\nfn f(e: E) -> E = copied(e)\n"
        "fn g() = match copied(A) { A => 1, B(_, _) => 2 }\n"
        "fn list(n: i64) -> List<f64> = if n == 0 { Nil } else { Cons(f64(n), copied(list(n - 1))) }\n"
        "fn lists(n: i64) -> f64 { let ls = [copied(list(i)) for i < n]; sum(first(l) for l in ls) }\n"
        "fn first(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(x, _) => x }\n"
    )
    assert m.f(m.B([1, 2], 3))._0.tolist() == [1.0, 2.0] and isinstance(m.f(m.A()), m.A) and m.g() == 1
    assert repr(m.list(2)) == "Cons(head=2.0, tail=Cons(head=1.0, tail=Nil()))" and m.lists(4) == 6.0


def test_callables_take_and_give_trees(compile):
    m = compile("fn twice(f: (List<i64>) -> List<i64>, l: List<i64>) -> List<i64> = f(f(l))")
    assert repr(m.twice(lambda l: m.Cons(1, l), m.Nil())) == "Cons(head=1, tail=Cons(head=1, tail=Nil()))"
    assert "`f` returned the int 3, its type says List<i64>" in message(lambda: m.twice(lambda l: 3, m.Nil()))


def test_what_holds_a_function_is_refused(compile):
    m = compile(COPIED + "enum T { Done, Later((f64) -> f64, T) }\nfn f() = match copied(Later(sin, Done)) { _ => 1 }")
    assert first_line(m.f) == "error[E0418]: `copied` is used with a function, which cannot cross to Python"
    m = compile(COPIED + "fn f() = len(copied([(), ()]))")
    assert "`copied` is used with an array of values that hold nothing, which cannot cross" in first_line(m.f)


@pytest.mark.parametrize(
    "code", ["c(x) * x", "sum([c(x + f64(i)) for i < 3])", "{ var t = x; for i < 2 { t = c(t) }; t }"]
)
def test_a_derivative_through_foreign_code_is_refused_at_the_call(compile, code):
    m = compile(f'extern "c:m:cbrt" fn c(x: f64) -> f64\nfn f(x: f64) -> f64 = {code}')
    text = message(lambda: dlang.grad(m.f)(1.0))
    assert text.startswith("error[E0705]: cannot differentiate the foreign function `cbrt`, because it has no rule")
    assert "<text>:" in text and "a derivative passes through this call" in text


def test_an_extern_is_itself_a_function_of_the_module(compile):
    m = compile('extern "c:m:cbrt" fn cbrt(x: f64) -> f64\nextern "python:numpy.cumsum" fn s(x: f64[n]) -> f64[n]')
    assert m.cbrt(27.0) == pytest.approx(3.0)
    assert m.s(np.ones(3)).tolist() == [1.0, 2.0, 3.0]


# ---- functions as arguments ------------------------------------------------------------------------------------------
TAKING = """
struct P { x: f64, y: f64[2] }
fn apply(f: (f64) -> f64, x: f64) -> f64 = f(x) + 1.0
fn each(f: (f64) -> f64, x: f64[n]) -> f64[n] = [f(v) for v in x]
fn whole(f: (f64[n]) -> f64[n], x: f64[n]) -> f64 = sum(f(x))
fn nested(f: (f64, f64) -> f64, g: (f64) -> f64) -> f64 = f(g(2.0), g(3.0))
fn twice(f, x) = f(f(x))
fn square(x) = x * x
fn cube(x: f64) -> f64 = x ** 3
fn slope(f: (f64) -> f64, x: f64) -> f64 = grad(f)(x)
fn called(f: () -> f64) -> f64 = f()
fn pointed(f: (P) -> P, p: P) -> P = f(p)
fn shown(f: (f64) -> () ! io) { f(1.0) }
fn generic(f: (a) -> a, x: a) -> a = f(x)
fn untold(f: (f64) -> f64[n], x: f64) -> f64 = sum(f(x))
fn defaulted(f: (f64) -> f64 = cube, x: f64 = 2.0) -> f64 = f(x)
"""


@pytest.fixture(scope="module", params=BACKENDS)
def m(request):
    return dlang.compile(TAKING, request.param)


def test_a_function_of_the_language_is_itself(m):
    assert m.apply(m.square, 3.0) == 10.0
    assert m.each(m.cube, np.array([1.0, 2.0])).tolist() == [1.0, 8.0]
    assert m.twice(m.square, 3) == 81
    assert m.twice(m.square, np.array([2.0])).tolist() == [16.0]


def test_a_function_of_the_language_can_be_differentiated_where_it_is_passed_to(m):
    other = dlang.compile("fn fourth(x) = x * x * x * x\nfn half(x: f64) -> f64 = 0.5 * x")
    assert m.slope(m.cube, 2.0) == 12.0
    assert m.slope(other.fourth, 2.0) == 32.0
    assert m.apply(dlang.grad(m.cube), 2.0) == 13.0
    assert m.apply(dlang.grad(other.half), 2.0) == 1.5
    assert dlang.grad(m.apply, wrt="x")(m.cube, 2.0) == 12.0


def test_any_other_callable_is_foreign_code(m):
    assert m.apply(math.sin, 1.0) == math.sin(1.0) + 1.0
    assert m.each(lambda x: 2 * x, np.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert m.whole(np.cumsum, np.ones(3)) == 6.0
    assert m.nested(lambda x, y: x - y, m.cube) == -19.0
    assert m.nested(math.atan2, math.exp) == math.atan2(math.exp(2.0), math.exp(3.0))
    assert m.called(lambda: 3.5) == 3.5
    assert m.generic(lambda x: x + 1, 2) == 3
    assert m.generic(lambda x: x + 1, np.ones((2, 2))).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert m.pointed(lambda p: m.P(p.x + 1.0, 2.0 * p.y), m.P(1.0, np.ones(2))).y.tolist() == [2.0, 2.0]
    assert m.defaulted(math.sqrt) == math.sqrt(2.0) and m.defaulted() == 8.0 and m.defaulted(x=3.0) == 27.0


def test_a_callable_with_the_effect_io_is_called(m, capsys):
    m.shown(print)
    assert capsys.readouterr().out == "1.0\n"


def test_an_object_with_fields_may_be_a_callable(m):
    from dataclasses import dataclass

    @dataclass
    class Plus:
        amount: int

        def __call__(self, x):
            return x + self.amount

    assert [m.apply(Plus(k), 1.0) for k in (1, 2, 3)] == [3.0, 4.0, 5.0]


def test_foreign_code_is_compiled_once_for_all_callables(m):
    m.each(lambda x: x, np.ones(2))
    before = dlang.compilations()
    assert [m.each(lambda x, k=k: x + k, np.ones(2))[0] for k in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert dlang.compilations() == before


def test_calls_with_callables_may_be_inside_of_each_other_and_in_threads(m):
    assert m.apply(lambda x: m.apply(lambda y: 10.0 * y, x), 2.0) == 22.0
    found = [0.0] * 4

    def work(k):
        found[k] = sum(m.apply(lambda x: x + k, 1.0) for _ in range(20))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [40.0, 60.0, 80.0, 100.0]


def test_a_failing_callable_has_the_place_where_it_is_called(m):
    text = message(lambda: m.apply(lambda x: 1 / 0, 1.0))
    assert "`f` raised ZeroDivisionError: division by zero" in text and "call from Python" not in text
    assert "<text>:3:44" in text and "| fn apply(" in text
    text = message(lambda: m.whole(lambda x: x[1:], np.ones(3)))
    assert "`f` returned f64[2], its type says f64[n] with n = 3" in text


def test_the_derivative_of_a_callable_is_refused_at_the_parameter(m):
    text = message(lambda: m.slope(math.sin, 1.0))
    assert text.startswith("error[E0705]: cannot differentiate the foreign function `f`")
    assert "fn slope(f: (f64) -> f64" in text


def test_what_is_no_function_or_of_another_type_is_refused(m):
    assert "argument `f`: expected (f64) -> f64, got the float 3.0" in message(lambda: m.apply(3.0, 1.0))
    assert "expected (f64) -> f64, found ((f64, f64) -> f64, (f64) -> f64) -> f64" in message(
        lambda: m.apply(m.nested, 1.0)
    )


def test_a_type_that_does_not_say_what_python_gives_is_refused(m):
    text = message(lambda: m.untold(lambda x: np.ones(3), 1.0))
    assert text.startswith("error[E0964]: the type of `f` does not say what a function of Python gives")
