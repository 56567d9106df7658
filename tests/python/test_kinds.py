"""Arrays of other libraries: read where they lie, and the result is of the kind that was given."""

from __future__ import annotations

import array
import gc

import array_api_strict as xp
import ml_dtypes
import numpy as np
import pytest

import dlang
from dlang.python.kinds import kind_of

TEXT = """
struct Net<n> { w: f64[n], b: f64 }
fn total(x: f64[n]) -> f64 = sum(x)
fn grown(x: f64[n]) -> f64[n] = 2.0 * x + 1.0
fn both(x: f64[n], y: f64[n]) -> (f64[n], f64) = (x + y, sum(x * y))
fn turned(x: i32[n, m]) -> i32[m, n] = transpose(x)
fn moved(p: Net<n>, x: f64[n]) -> Net<n> = Net(w = p.w * x, b = p.b + 1.0)
fn loss(p: Net<n>, x: f64[n]) -> f64 = sum(p.w * x) + p.b ** 2
fn longest(nets: Net<n>[k]) -> f64[k] = [sum(net.w) for net in nets]
fn bytes(x: u8[n]) -> i64 = sum([i64(v) for v in x])
fn named(x: f64[n]) -> str = "{sum(x)}"
fn maybe(x: Option<f64[n]>) -> f64 = match x { None => 0.0, Some(y) => sum(y) }
fn changed(x: f64[n], f: (f64) -> f64) -> f64[n] = [f(v) for v in x]
fn doubled(x: bf16[n]) -> bf16[n] = x + x
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


X = xp.asarray([1.0, 2.0, 3.0])


def is_strict(value, wanted):
    return isinstance(value, type(X)) and np.array_equal(np.asarray(value), wanted)


def test_what_comes_out_is_of_the_kind_that_went_in(m):
    for _ in range(3):  # also where calls go to compiled code at once
        assert is_strict(m.grown(X), [3.0, 5.0, 7.0])
        assert is_strict(m.total(X), 6.0) and m.total(X).shape == ()
        assert is_strict(m.turned(xp.asarray([[1, 2, 3]], dtype=xp.int32)), [[1], [2], [3]])
        assert is_strict(m.grown(x=X), [3.0, 5.0, 7.0])


def test_structs_and_tuples_hold_arrays_of_that_kind(m):
    first, second = m.both(X, X)
    assert is_strict(first, [2.0, 4.0, 6.0]) and is_strict(second, 14.0)
    net = m.moved(m.Net(w=X, b=1.0), X)
    assert type(net) is m.Net and is_strict(net.w, [1.0, 4.0, 9.0]) and is_strict(net.b, 2.0)
    assert is_strict(m.longest([m.Net(w=X, b=0.0), m.Net(w=X, b=0.0)]), [6.0, 6.0])


def test_arrays_of_numpy_and_numbers_beside_them_are_not_counted(m):
    assert is_strict(m.both(X, np.ones(3))[0], [2.0, 3.0, 4.0])
    assert is_strict(m.both([1.0, 1.0, 1.0], X)[0], [2.0, 3.0, 4.0])
    assert isinstance(m.grown(np.asarray(X)), np.ndarray)


def test_derivatives_and_bound_functions_keep_the_kind(m):
    value, slope = dlang.value_and_grad(m.loss)(m.Net(w=X, b=1.0), X)
    assert is_strict(value, 15.0) and is_strict(slope.w, [1.0, 2.0, 3.0]) and is_strict(slope.b, 2.0)
    value, pull = dlang.vjp(m.grown, X)
    assert is_strict(value, [3.0, 5.0, 7.0]) and is_strict(pull(X), [2.0, 4.0, 6.0])
    assert is_strict(dlang.jvp(m.grown, X, X)[1], [2.0, 4.0, 6.0])
    left = m.both.bind(y=X)
    assert is_strict(left(X)[0], [2.0, 4.0, 6.0])
    assert isinstance(left(np.ones(3))[0], np.ndarray)


def test_texts_enums_and_functions_are_as_before(m):
    assert m.named(X) == "6.0"
    assert m.maybe(m.Some(X)) == 6.0
    assert is_strict(m.changed(X, lambda v: v + 1.0), [2.0, 3.0, 4.0])


def test_a_result_is_handed_over_without_a_copy():
    y = np.zeros(100_000)
    assert np.shares_memory(np.asarray(kind_of(X).of(y)), y)


def test_a_result_in_memory_of_the_language_outlives_what_it_came_in():
    y = dlang.compile("fn grown(x: f64[n]) -> f64[n] = x + 1.0").grown(xp.zeros(100_000))
    gc.collect()
    y[0] = 5.0
    assert np.asarray(y).sum() == 100_004.0


def test_what_has_a_buffer_or_an_interface_is_an_array(m):
    class Shown:
        def __init__(self, given):
            self.__array_interface__ = given.__array_interface__
            self.given = given

    assert m.total(array.array("d", [1.0, 2.0])) == 3.0
    assert m.total(memoryview(np.ones(4))[::2]) == 2.0
    assert m.bytes(b"abc") == m.bytes(bytearray(b"abc")) == 294
    assert m.total(Shown(np.ones(5))) == 5.0
    assert isinstance(m.grown(array.array("d", [1.0])), np.ndarray)


def test_a_wrong_dtype_of_theirs_is_told_as_one_of_numpy_is(m):
    with pytest.raises(dlang.DlangError, match=r"argument `x`: expected f64\[n\], got i32\[1\]"):
        m.grown(xp.asarray([1], dtype=xp.int32))


def test_arrays_of_two_libraries_give_arrays_of_numpy(m):
    class Other:
        """An array of a library of its own, which is NumPy behind."""

        def __array_namespace__(self):
            return np

        def __dlpack__(self, **options):
            return np.ones(3).__dlpack__(**options)

        def __dlpack_device__(self):
            return np.ones(3).__dlpack_device__()

    assert isinstance(m.both(X, Other())[0], np.ndarray)
    assert isinstance(m.grown(Other()), np.ndarray)


def test_a_library_that_does_not_hand_over_an_array_is_told(m):
    class Closed:
        def __array_namespace__(self):
            return xp

        def __dlpack__(self, **options):
            raise BufferError("it is far away")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(dlang.DlangError, match=r"E0966.*argument `y` can't be read: .*far away"):
        m.both(X, Closed())


def test_what_helps_is_said_in_the_words_of_the_library(m):
    for call in (m.grown, m.grown.bind()):
        with pytest.raises(dlang.DlangError, match=r"convert it: `.*\.astype\(…, .*\.float64\)`"):
            call(xp.ones(3, dtype=xp.float32))


def test_half_precision_is_that_of_ml_dtypes(m):
    x = np.ones(3, ml_dtypes.bfloat16)
    assert m.doubled(x).dtype == ml_dtypes.bfloat16
