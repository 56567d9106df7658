"""Functions of the language called from Python."""

import dataclasses
import inspect

import numpy as np
import pytest

import dlang

MODULE = """
## Two numbers and some more.
const answer: i64 = 42

struct Layer<n, m> { w: f64[n, m], b: f64[m] }
struct Pair { layer: Layer<2, 3>, scale: f64 }

## The sum of two numbers.
fn add(x: f64, y: f64) -> f64 = x + y
fn scale(x: f64, factor: f64 = 2.0, offset: f64 = 0.0) -> f64 = factor * x + offset
fn ones_after(x: f64[k], n: size = 2 * k) -> f64[k + n] = concat(x, ones(n))
fn weighed(x: f64, n: size = 3) -> f64 = x * sum(ones(n))
fn count(n: i64) -> i64 = n + 1
fn both(a: bool, b: bool) -> bool = a and b
fn narrow(x: f32) -> f32 = x * 2.0
fn dot(x: f64[n], y: f64[n]) -> f64 = sum(x[i] * y[i] for i)
fn double<a: Num>(x: a[..s]) -> a[..s] = x + x
fn rows(x: f64[n, 64], y: f64[n]) -> f64[n] = [sum(x[i]) + y[i] for i]
fn split(x: f64[2 * n]) -> (f64[n], f64[n]) = (x[..n], x[n..])
fn ramp(n: size) -> f64[n] = [f64(i) for i < n]
fn positive(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]
fn apply(layer: Layer<n, m>, x: f64[n]) -> f64[m] = x @ layer.w + layer.b
fn doubled(p: Pair) -> Pair = Pair(layer = 2.0 * p.layer, scale = 2.0 * p.scale)
fn swap(p: (a, b)) -> (b, a) = (p.1, p.0)
fn nothing(x: f64) { }
fn greet(name: str) -> str = "hello {name}"
fn at(x: f64[n], i: i64) -> f64 = x[i]
fn loss(model: Layer<n, m>, x: f64[b, n], y: f64[b, m]) -> f64 = mean((x @ model.w + model.b - y) ** 2)
fn _private(x: f64) -> f64 = x
fn shout(n: i64) { print("n is {n}") }
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(MODULE, backend=request.param)


def test_numbers_go_in_and_come_out(m):
    assert m.add(1.5, 2) == 3.5
    assert m.add(x=1.0, y=np.float64(2.0)) == 3.0
    assert type(m.add(1.0, 2.0)) is float
    assert m.count(41) == 42 and type(m.count(np.int64(1))) is int
    assert m.both(True, False) is False
    assert m.narrow(1.5) == np.float32(3.0) and m.narrow(1.5).dtype == np.float32
    assert m.greet("Ada") == "hello Ada"
    assert m.nothing(1.0) is None
    assert m.answer == 42


def test_defaults_and_names_work_as_in_the_language(m):
    assert m.scale(1.5) == 3.0
    assert m.scale(1.5, offset=1.0) == 4.0
    assert m.scale(1.0, 10.0, offset=1.0) == 11.0


def test_a_size_may_be_left_to_its_default(m):
    assert m.weighed(2.0) == 6.0 and m.weighed(2.0, n=5) == 10.0
    assert np.array_equal(m.ones_after([7.0, 8.0]), [7, 8, 1, 1, 1, 1])
    assert np.array_equal(m.ones_after([7.0], 1), [7, 1])
    assert dlang.grad(m.weighed)(2.0) == 3.0 and dlang.value_and_grad(m.weighed)(2.0, 4) == (8.0, 4.0)


def test_arrays_go_in_and_come_out(m):
    x = np.arange(3.0)
    assert m.dot(x, x) == 5.0
    assert m.dot([1, 2], [3, 4]) == 11.0
    assert np.array_equal(m.ramp(4), np.arange(4.0))
    first, second = m.split(np.arange(6.0))
    assert np.array_equal(first, [0, 1, 2]) and np.array_equal(second, [3, 4, 5])
    assert np.array_equal(m.positive(np.array([1.0, -2.0, 3.0])), [1.0, 3.0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (1, 2, 3)])
def test_a_generic_function_keeps_dtype_and_shape(m, dtype, shape):
    x = np.ones(shape, dtype)
    y = m.double(x)
    assert y.dtype == x.dtype and np.array_equal(y, x + x)


def test_arrays_in_any_layout_are_read_right(m):
    grid = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(m.double(grid.T), 2 * grid.T)
    assert np.array_equal(m.double(grid[:, ::2]), 2 * grid[:, ::2])
    assert np.array_equal(m.double(grid[::-1]), 2 * grid[::-1])
    assert np.array_equal(m.double(grid.astype(">f8")), 2 * grid)


def test_empty_arrays_are_arrays(m):
    assert m.dot(np.zeros(0), np.zeros(0)) == 0.0
    assert m.double(np.zeros((0, 3))).shape == (0, 3)


def test_an_argument_is_never_changed_and_a_result_is_ones_own(m):
    x = np.ones(4)
    y = m.double(x)
    y[0] = 9.0
    m.double(x)
    assert np.array_equal(x, np.ones(4)) and y[0] == 9.0


def test_a_struct_is_a_frozen_dataclass_with_its_field_names(m):
    layer = m.Layer(w=np.eye(2), b=np.ones(2))
    assert [f.name for f in dataclasses.fields(layer)] == ["w", "b"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        layer.w = None
    assert np.array_equal(m.apply(layer, np.array([1.0, 2.0])), [2.0, 3.0])


def test_structs_come_back_as_the_same_class(m):
    pair = m.Pair(layer=m.Layer(w=np.ones((2, 3)), b=np.zeros(3)), scale=1.5)
    twice = m.doubled(pair)
    assert type(twice) is m.Pair and type(twice.layer) is m.Layer
    assert twice.scale == 3.0 and np.array_equal(twice.layer.w, 2 * np.ones((2, 3)))


def test_tuples_are_tuples(m):
    assert m.swap((1.5, 2)) == (2, 1.5)


def test_printing_goes_to_the_output_of_python(m, capsys):
    m.shout(3)
    assert capsys.readouterr().out == "n is 3\n"


def test_functions_carry_their_documentation_and_signature(m):
    assert m.add.__doc__.startswith("fn add(") and m.add.__doc__.endswith("\n\nThe sum of two numbers.")
    assert m.add.__name__ == "add"
    assert list(inspect.signature(m.scale).parameters) == ["x", "factor", "offset"]
    assert "add" in repr(m.add) and "f64" in repr(m.add)


def test_private_names_stay_private(m):
    assert not hasattr(m, "_private")


# ---- one compilation for all sizes -----------------------------------------------------------------------------------
def test_one_compilation_serves_every_size(m):
    layer = m.Layer(w=np.ones((64, 10)), b=np.zeros(10))
    m.loss(layer, np.zeros((2, 64)), np.zeros((2, 10)))
    before = dlang.compilations()
    for batch in (1, 7, 1797):
        assert m.loss(layer, np.ones((batch, 64)), np.zeros((batch, 10))) == 64.0**2
    assert dlang.compilations() == before


def test_another_dtype_or_rank_is_another_compilation(m):
    m.double(np.ones(5, np.int16))
    before = dlang.compilations()
    m.double(np.ones(9, np.int16))
    assert dlang.compilations() == before
    m.double(np.ones((3, 3), np.int16))
    m.double(np.ones(5, np.int8))
    assert dlang.compilations() == before + 2


# ---- what does not fit -----------------------------------------------------------------------------------------------
def test_a_size_mismatch_names_both_arguments(m):
    with pytest.raises(dlang.DlangError) as caught:
        m.rows(y=np.zeros(32), x=np.zeros((16, 64)))
    message = caught.value.diagnostics[0].message
    assert message == "argument `x`: expected f64[n, 64], n = 32 from `y`, got f64[16, 64]"


def test_of_two_arrays_alike_the_first_fixes_the_size(m):
    with pytest.raises(dlang.DlangError, match=r"argument `y`: expected f64\[n\], n = 3 from `x`, got f64\[4\]"):
        m.dot(np.zeros(3), np.zeros(4))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m: m.rows(np.zeros((16, 32)), np.zeros(16)), ["`x`: expected f64[n, 64]", "got f64[16, 32]"]),
        (lambda m: m.rows(np.zeros(64), np.zeros(1)), ["`x`: expected f64[n, 64]", "got f64[64]"]),
        (lambda m: m.dot(np.zeros(3, np.float32), np.zeros(3)), ["`x`: expected f64[n]", "got f32[3]", "float64"]),
        (lambda m: m.dot(np.zeros(3, complex), np.zeros(3)), ["`x`: expected f64[n]", "complex128"]),
        (lambda m: m.dot("abc", np.zeros(3)), ["`x`: expected f64[n]", "got a str"]),
        (lambda m: m.dot([[1.0], [2.0, 3.0]], np.zeros(3)), ["`x`", "several lengths"]),
        (lambda m: m.count(1.5), ["`n`: expected i64", "the float 1.5"]),
        (lambda m: m.count(2**63), ["`n`: expected i64"]),
        (lambda m: m.count(True), ["`n`: expected i64", "the bool True"]),
        (lambda m: m.count(None), ["`n`: expected i64", "got None"]),
        (lambda m: m.narrow(np.float64(1.0)), ["`x`: expected f32", "got f64"]),
        (lambda m: m.both(1, True), ["`a`: expected bool", "the int 1"]),
        (lambda m: m.split(np.zeros(5)), ["`x`: expected f64[2 * n]", "got f64[5]"]),
        (lambda m: m.ramp(-1), ["`n`", "-1"]),
        (lambda m: m.double("a"), ["`x`", "got a str"]),
        (lambda m: m.double(np.array([True])), ["`x`", "bool[1]", "Num"]),
        (lambda m: m.swap([1, 2]), ["`p`: expected (a, b)"]),
        (lambda m: m.swap((1, 2, 3)), ["`p`: expected (a, b)"]),
        (lambda m: m.apply(np.eye(2), np.zeros(2)), ["`layer`: expected Layer<n, m>", "got f64[2, 2]"]),
        (
            lambda m: m.apply(m.Layer(w=np.eye(2), b=np.zeros(3)), np.zeros(2)),
            ["`layer`: expected Layer<n, m>"],
        ),
        (
            lambda m: m.apply(m.Layer(w=np.eye(2), b=np.zeros(2)), np.zeros(5)),
            ["`x`: expected f64[n], n = 2 from `layer`, got f64[5]"],
        ),
        (lambda m: m.add(1.0), ["needs `y`"]),
        (lambda m: m.add(1.0, 2.0, 3.0), ["takes 2 arguments, got 3"]),
        (lambda m: m.add(1.0, 2.0, z=3.0), ["no parameter `z`", "add(x, y)"]),
        (lambda m: m.add(1.0, x=3.0, y=1.0), ["given `x` twice"]),
    ],
)
def test_a_wrong_argument_is_told_in_the_words_of_the_language(m, call, words):
    with pytest.raises(dlang.DlangError) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_failed_run_is_an_exception_with_the_place(m):
    with pytest.raises(dlang.DlangError) as caught:
        m.at(np.zeros(3), 7)
    text = str(caught.value)
    assert "E0801" in text and "7" in text and "3" in text and "<text>:" in text


def test_a_module_with_mistakes_is_not_loaded():
    with pytest.raises(dlang.DlangError, match="E0"):
        dlang.compile("fn f(x: f64) -> f64 = y")


def test_an_unknown_backend_is_refused():
    with pytest.raises(dlang.DlangError, match="there is no backend `gpu`"):
        dlang.compile("fn f(x: f64) -> f64 = x", backend="gpu")


def test_a_call_like_an_earlier_one_is_matched_where_it_differs():
    module = dlang.compile(
        """
        struct S { w: f64[2], n: i32 }
        fn f(s: S, k: i64) -> f64 = sum(s.w) * f64(s.n) + f64(k)
        fn g(n: size, x: f64) -> f64[n] = full(x, n)
        """
    )
    made = module.S
    w = np.array([1.0, 2.0])
    for n, k in ((2, 3), (5, -4), (7, 0)):
        assert module.f(made(w, n), k) == 3.0 * n + k
    assert module.f(made(w[::-1], 1), 0) == 3.0
    for wrong in (made(w, 2**40), made(w.astype(np.float32), 2), made(np.ones(3), 2)):
        with pytest.raises(dlang.DlangError, match="argument `s`"):
            module.f(wrong, 3)
    assert [module.g(n, 1.5).tolist() for n in (2, 0, 3, 2)] == [[1.5] * n for n in (2, 0, 3, 2)]
    assert module.g(2, 7).tolist() == [7.0, 7.0]
