"""What may be given for an argument: values that are almost right, or made by other libraries, never a wrong number."""

from __future__ import annotations

import inspect
import warnings
from collections import namedtuple
from decimal import Decimal

import numpy as np
import pytest

import dlang
from dlang.remedies import remedy

TEXT = """
struct Point { x: f64, y: f64 }
fn total(x: f64[n]) -> f64 = sum(x)
fn turned(x: f64[n, m]) -> f64[m, n] = transpose(x)
fn whole(x: i64[n]) -> i64 = sum(x)
fn half(x: f16[n]) -> f16[n] = x
fn halved(x: f16) -> f16 = x
fn number(x: f64) -> f64 = x
fn next(k: i64) -> i64 = k + 1
fn small(k: i8) -> i8 = k
fn natural(k: u64) -> u64 = k
fn any(x) = x
fn joined(x: str[n]) -> str = "{x}"
fn names(x: str[n]) -> str[n] = x
fn sized(n: size, x: f64[n]) -> f64 = sum(x)
fn made(n: size, m: size) -> f64[n, m] = zeros(n, m)
fn unit(x: ()) -> i64 = 1
fn xs(points: Point[n]) -> f64[n] = [p.x for p in points]
fn table(points: Point[n, m]) -> f64[n, m] = [points[i, j].y for i, j]
fn maybe(o: Option<f64>, x) = x
fn cut(x: f64) -> i8 = i8(x)
fn truth(x: bool) -> bool = x
fn text(x: str) -> str = x
fn pair(p: (f64, f64)) -> f64 = p.0
fn norm(p: Point) -> f64 = p.x + p.y
fn naturals(x: u64[n]) -> u64[n] = x
fn between<a: Float>(x: a, y: a) -> a = 0.5 * (x + y)
fn equal<a: Eq>(x: a, y: a) -> bool = x == y
fn scaled<a: Float>(k: a, x: a[n]) -> a = k * sum(x)
fn scaled_pair<a: Float>(p: (a, a)) -> a = p.0 * p.1
struct Kept<a> { value: a, fresh: bool }
fn first(k: Kept<a>) -> a = k.value
fn table_of(t: f64[n * m], x: f64[n], y: f64[m]) -> f64 = sum(t)
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


def refusal(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(dlang.DlangError) as caught:
            call()
    return str(caught.value).splitlines()[0]


class Column:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array is None:
            raise TypeError("on another device")
        return self.array


class Tensor:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_are_arrays(m):
    assert m.total(Column(np.ones(3))) == m.total(Tensor(np.ones(3))) == 3.0
    assert m.total(np.ones(3).view(type("Sub", (np.ndarray,), {}))) == 3.0
    assert refusal(lambda: m.total(Column(np.ones(3, np.float32)))).startswith(
        "error[E0960]: argument `x`: expected f64[n], got an object of class Column that is f32[3]"
    )
    assert refusal(lambda: m.total(Column(None))).endswith("got an object of class Column")


def test_the_mask_of_an_array_is_never_lost(m):
    given = np.ma.masked_array([1.0, 2.0], [False, True])
    assert refusal(lambda: m.total(given)).endswith("got a masked array of float64")
    assert m.total(given.filled(0.0)) == 1.0


def test_arrays_anywhere_in_memory_are_read_right(m):
    bytes = np.frombuffer(b"\0" + np.arange(3.0).tobytes(), np.uint8)[1:]
    assert m.total(bytes.view(np.float64)) == 3.0
    frozen = np.ones(3)
    frozen.flags.writeable = False
    assert m.total(frozen) == 3.0 and m.total(np.ones(3, ">f8")) == 3.0
    assert m.turned(np.asfortranarray(np.arange(6.0).reshape(2, 3))).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert m.turned(np.broadcast_to(np.arange(2.0), (2, 2))[:, ::-1]).tolist() == [[1, 1], [0, 0]]
    assert m.turned(np.zeros((0, 3))).shape == (3, 0) and m.made(0, 4).shape == (0, 4)


@pytest.mark.parametrize(
    "call, words",
    [
        ("total(np.array(1.0))", "expected f64[n], got f64"),
        ("total((1.0, 2.0))", "got (the float 1.0, the float 2.0)"),
        ("total(range(3))", "got an object of class range"),
        ("total(np.array([(1, 2)], 'i4,i4'))", "an array of [('f0', '<i4'), ('f1', '<i4')]"),
        ("total(np.array([1.0], object))", "got an array of object"),
        ("total(np.array([1j]))", "got an array of complex128"),
        ("total([[1.0], [1.0, 2.0]])", "a list whose rows have several lengths"),
        ("whole([True])", "got a list that is bool[1]"),
        ("whole([1.0])", "got a list that is f64[1]"),
        ("whole([2**63])", "got a list that is u64[1]"),
        ("whole([2**70])", "got a list that holds the int 1180591620717411303424"),
        ("total([[1.0], ['a']])", "got a list that holds a str"),
        ("total([1.0, None])", "got a list that holds None"),
        ("number(True)", "got the bool True"),
        ("number(10**400)", "got an int of 1329 bits"),
        ("number(10**5000)", "got an int of 16610 bits"),
        ("number(np.float32(1))", "got f32"),
        ("next(2**63)", "got the int 9223372036854775808"),
        ("next(True)", "got the bool True"),
        ("next(1.0)", "got the float 1.0"),
        ("small(128)", "got the int 128 (i8 is from -128 to 127)"),
        ("natural(-1)", "got the int -1 (u64 is from 0 to 18446744073709551615)"),
        ("naturals([1, -2])", "got a list that is i64[2] (in it the int -2: u64 is from 0 to 18446744073709551615)"),
        ("whole(endless)", "got a list whose rows have several lengths"),
        ("sized(2, np.ones(3))", "argument `n`: expected size, n = 3 from `x`, got the int 2"),
        ("sized(-1, np.ones(3))", "a size is not negative"),
        ("unit(1)", "expected (), got the int 1"),
        ("unit(np.ones(2))", "expected (), got f64[2]"),
        ("unit(np.float64(2))", "expected (), got f64"),
        ("any(endless)", "got a list whose rows have several lengths"),
        ("total(endless)", "got a list whose rows have several lengths"),
        ("joined(['a', 1])", "expected str[n]"),
        ("joined('ab')", "expected str[n], got a str"),
        ("xs((Point(1.0, 2.0),))", "an array of structures is given as a list of them"),
        ("xs([Point(1.0, 2.0), 3])", "in it the int 3, expected Point"),
        ("table([[Point(1.0, 2.0)], []])", "its rows have several lengths"),
        ("any(None)", "got None"),
        ("any(1j)", "got an object of class complex"),
        ("between(np.ones(2), np.ones(2))", "expected a, got f64[2] (it must not be an array)"),
        ("between([1.0], [2.0])", "got a list that is f64[1] (it must not be an array)"),
        ("scaled_pair((1.0, np.ones(2)))", "(in it f64[2]: it must not be an array)"),
        ("scaled_pair((1.0, 'a'))", "(in it a str: it must be of the class Float)"),
        ("equal(np.ones(2), np.ones(2))", "expected a, got f64[2] (it must not be an array)"),
        ("first(m.Kept(None, True))", "got an object of class Kept of `<text>` (in it None, expected a)"),
    ],
)
def test_what_is_almost_right_is_refused(m, call, words):
    endless: list[object] = []
    endless.append(endless)
    names = {"m": m, "np": np, "endless": endless}
    found = refusal(lambda: eval("m." + call.replace("Point(", "m.Point("), names))
    assert found.startswith("error[E0960]: argument") and words in found


@pytest.mark.parametrize(
    "call, help",
    [
        ("whole(np.array([1], np.uint64))", "convert it: `.astype(numpy.int64)`"),
        ("total(b'ab')", "convert it: `numpy.asarray(…).astype(numpy.float64)`"),
        ("total((1.0, 2.0))", "make it an array: `numpy.asarray(…)`"),
        ("whole(range(3))", "make it an array: `numpy.asarray(…)`"),
        ("whole({1, 2})", "make it a list: `list(…)`"),
        ("whole(iter([1]))", "make it a list: `list(…)`"),
        ("total(np.ma.masked_array([1.0], [True]))", "give a value for what is masked: `.filled(…)`"),
        ("number(np.float32(1))", "convert it: `numpy.float64(…)`"),
        ("number(True)", "convert it: `float(…)`"),
        ("number(Decimal(1))", "convert it: `float(…)`"),
        ("next(1.0)", "convert it: `int(…)`"),
        ("truth(1)", "convert it: `bool(…)`"),
        ("text(b'ab')", "decode it: `.decode()`"),
        ("pair([1.0, 2.0])", "give a tuple: `tuple(…)`"),
        ("norm({'x': 1.0, 'y': 2.0})", "make it one: `Point(**…)`"),
        ("norm((1.0, 2.0))", "make it one: `Point(*…)`"),
        ("norm(namedtuple('Pair', 'y x')(1.0, 2.0))", "make it one: `Point(**…._asdict())`"),
        ("norm(m.Point)", "that is the class: `Point(…)` is a value"),
        ("norm(m.Point(True, 1.0))", "convert it: `float(…)`"),
        ("maybe(1.5, 2)", "make it one: `Some(…)`"),
        ("scaled(np.float32(1), np.ones(2))", "convert it: `.astype(numpy.float32)`"),
        ("scaled(1.0, np.arange(2))", "convert it: `.astype(numpy.float64)`"),
        ("scaled(np.float64(1), np.ones(2, np.float32))", "convert it: `.astype(numpy.float64)`"),
        ("between(np.float32(1), np.float64(1))", "convert it: `numpy.float32(…)`"),
        ("between(1.0, np.ones(2))", None),
        ("number(10**400)", None),
        ("sized(2, np.ones(3))", None),
        ("number(1j)", None),
        ("total(np.ones((2, 2)))", None),
        ("total(np.array(1.0))", None),
    ],
)
def test_it_is_told_what_helps(m, call, help):
    with pytest.raises(dlang.DlangError) as caught:
        eval(f"m.{call}", {"m": m, "np": np, "Decimal": Decimal, "namedtuple": namedtuple})
    assert caught.value.diagnostics[0].help == ((help,) if help else remedy("E0960"))


@pytest.mark.parametrize(
    "call, message",
    [
        ("sized(2, np.ones(3))", "argument `n`: expected size, n = 3 from `x`, got the int 2"),
        (
            "table_of(np.ones(5), np.ones(2), np.ones(3))",
            "argument `t`: expected f64[n * m], n = 2 from `x`, m = 3 from `y`, got f64[5]",
        ),
    ],
)
def test_a_message_about_the_whole_names_no_part(m, call, message):
    assert refusal(lambda: eval(f"m.{call}", {"m": m, "np": np})) == f"error[E0960]: {message}"


def test_whole_numbers_of_any_size_are_what_they_are_in_lists(m):
    assert m.naturals([2**63, 1]).tolist() == [2**63, 1] and m.naturals([2**64 - 1]).tolist() == [2**64 - 1]
    assert m.total([2**63]) == 2.0**63 and m.total([2**70, 0.5]) == 2.0**70 + 0.5
    with pytest.raises(dlang.DlangError, match="E0960"):
        m.naturals([2**63, -1])


def test_what_no_memory_holds_is_refused(m):
    for sizes in ((2**62, 1), (2**32, 2**32), (2**33, 2**31), (2**63 - 1, 2**63 - 1), (2**62, 0)):
        assert refusal(lambda s=sizes: m.made(*s)) == "error[E0806]: the memory is exhausted"


def test_numbers_are_converted_as_the_language_says(m):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert m.next(2**63 - 1) == -(2**63) and m.natural(2**64 - 1) == 2**64 - 1
        assert np.isinf(m.halved(1e6)) and np.isinf(m.half([1e6])[0])
        assert [m.cut(x) for x in (1e9, -np.inf, np.nan, -1.9)] == [127, -128, 0, -1]
        assert m.number(2**70) == 2.0**70 and m.number(np.array(2.0)) == 2.0


def test_lists_of_texts_and_of_structures_are_arrays(m):
    assert m.joined(["a", "b"]) == m.joined(np.array(["a", "b"])) == m.joined(np.array(["a", "b"], object))
    assert list(m.names(["é", ""])) == ["é", ""] and m.names([]).shape == (0,)
    p = m.Point(1.0, 2.0)
    assert m.xs([p, p]).tolist() == [1.0, 1.0] and m.xs([]).shape == (0,)
    assert m.table([[p, p], [p, p]]).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert m.any([p])[0].x == 1.0


def test_nothing_is_none_or_an_empty_tuple(m):
    assert m.unit(None) == m.unit(()) == 1


def test_enums_stand_beside_arguments_whose_type_is_open(m):
    assert m.maybe(m.Some(1.0), 2) == 2 and m.maybe(None, np.float32(2.0)) == np.float32(2.0)
    assert m.any(m.Some(1.5))._0 == 1.5


def test_names_that_python_does_not_have_end_in_underscores():
    m = dlang.compile("""
    fn f(lambda: f64, x': f64[n], from: f64 = 2.0) -> f64 = lambda * sum(x') * from
    fn both(lambda: f64, lambda_: f64) -> f64 = lambda - 2.0 * lambda_
    fn pair((a, b): (f64, f64), class: f64) -> f64 = a + b * class
    """)
    x = np.ones(3)
    for _ in range(3):  # calls that go to compiled code at once, too
        assert m.f(lambda_=2.0, x_=x) == m.f(2.0, x) == m.f(**{"lambda": 2.0, "x'": x}) == 12.0
        assert m.f.bind(lambda_=2.0)(x_=x) == 12.0 and m.f.bind(from_=1.0)(lambda_=2.0, x_=x) == 6.0
        assert m.both(lambda__=1.0, lambda_=2.0) == m.both(1.0, 2.0) == -3.0
        assert m.pair((1.0, 2.0), class_=3.0) == 7.0
    names = [list(inspect.signature(f).parameters) for f in (m.f, m.both, m.pair, m.f.bind(lambda_=1.0))]
    assert names == [["lambda_", "x_", "from_"], ["lambda__", "lambda_"], ["_0", "class_"], ["x_", "from_"]]
    assert dlang.grad(m.f, wrt="from_")(lambda_=2.0, x_=x) == dlang.grad(m.f, wrt="from")(2.0, x) == 6.0
    for wrong in (lambda: m.f(2.0, x, lambda_=1.0), lambda: m.f.bind(lambda_=1.0)(x, lambda_=2.0)):
        with pytest.raises(
            dlang.DlangError, match=r"`f` is given `lambda` twice(.|\n)*it is `f\(lambda_, x_, from_\)`"
        ):
            wrong()


def test_numbers_of_numpy_in_a_list_keep_their_dtype():
    m = dlang.compile(
        "fn f(x: f32[n]) -> f32[n] = x\nfn h(x: f32[n, k]) -> f32[n, k] = x\nfn i(x: i64[n]) -> i64[n] = x"
    )
    for call in (
        lambda: m.f([np.float64(0.1)]),
        lambda: m.f([0.5, np.float64(0.1)]),
        lambda: m.h([np.array([0.1, 1e300])]),
        lambda: m.h([[np.float64(1.0)]]),
        lambda: m.i([np.float32(1.0)]),
    ):
        with pytest.raises(dlang.DlangError, match="E0960"):
            call()
    assert m.f([np.float32(0.5)]) == m.f([0.5]) and m.h([np.ones(2, np.float32)]).shape == (1, 2)
    assert m.i([np.int64(3), np.int64(4)]).tolist() == [3, 4] and m.f([0.1, 2]).tolist() == [np.float32(0.1), 2.0]


def test_a_message_about_a_tangent_says_of_what_it_is():
    f = dlang.compile("fn f(x: f64[n], seen: i64[t]) -> f64 = sum(x) * f64(sum(seen))").f
    with pytest.raises(dlang.DlangError, match="the tangent of `seen`: expected i64"):
        dlang.jvp(f, (np.ones(3), np.arange(2)), (np.ones(3), None))


# ---- integers of other dtypes where i64 is asked for -----------------------------------------------------------------
WIDER = """
struct Places<k> { at: i64[k], extra: i64 }
enum Chosen<k> { All, Picks(i64[k]) }
fn picked(x: f64[n], i: i64[k]) -> f64[k] = x[i]
fn indexed(x: f64[n], i: Idx<n>[k]) -> f64[k] = x[i]
fn one(x: f64[n], i: Idx<n>) -> f64 = x[i]
fn zero(n: size) -> f64[n] = zeros(n)
fn doubled(i: i64[k]) -> i64 = sum(i + i)
fn inside(p: Places<k>) -> i64 = sum(p.at) + p.extra
fn pair(p: (i64[k], i64)) -> i64 = sum(p.0) + p.1
fn chosen(c: Chosen<k>) -> i64 = match c { All => 0, Picks(i) => sum(i) }
fn cost(x: f64[n], i: i64[k]) -> f64 = sum(x[i] ** 2)
fn narrow(k: i32[n]) -> i32[n] = k
fn unsigned(k: u64[n]) -> u64[n] = k
fn single(k: i32) -> i32 = k
fn alike<a: Num>(x: a[n], y: a[n]) -> a[n] = x + y
fn reals(x: f64[n]) -> f64[n] = x
"""
NARROW = [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32]


@pytest.fixture(scope="module", params=["interp", "cpu"])
def wider(request):
    return dlang.compile(WIDER, request.param)


@pytest.mark.parametrize("dtype", NARROW)
def test_integers_that_i64_holds_are_taken_for_it(wider, dtype):
    x, i, three = np.arange(4.0), np.array([0, 3, 0, 2], dtype)[1::2], dtype(3)
    largest = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    for _ in range(3):  # matched, then known by what it looks like
        assert wider.picked(x, i).tolist() == wider.indexed(x, i).tolist() == [3.0, 2.0]
        assert wider.picked(x, i[:1]).tolist() == [3.0] and wider.picked(x, i[:0]).tolist() == []
        assert wider.picked(x, [three, dtype(0)]).tolist() == [3.0, 0.0]
        assert wider.one(x, three) == wider.one(x, np.array(3, dtype)) == 3.0 and len(wider.zero(three)) == 3
        assert wider.doubled(largest) == 2 * sum(map(int, largest))
        assert wider.inside(wider.Places(i, three)) == wider.pair((i, three)) == wider.chosen(wider.Picks(i)) + 3
        assert wider.picked.bind(i=i)(x).tolist() == [3.0, 2.0]
    with pytest.raises(dlang.DlangError, match="which is not below n = 4"):
        wider.indexed(x, np.array([4], dtype))


@pytest.mark.parametrize("dtype", NARROW)
def test_derivatives_and_what_is_lazy_take_them_too(wider, dtype, tmp_path):
    x, i = np.arange(4.0), np.array([3, 2], dtype)
    assert dlang.grad(wider.cost)(x, i).tolist() == [0.0, 0.0, 4.0, 6.0]
    assert dlang.jvp(wider.cost, (x, i), (np.ones(4), np.zeros(2, np.int64)))[1] == 10.0
    assert dlang.vjp(wider.cost, x, i)[1](1.0)[0].tolist() == [0.0, 0.0, 4.0, 6.0]
    (tmp_path / "wider.dl").write_text(WIDER)
    m = dlang.load(tmp_path / "wider.dl")
    for at in (i, dlang.lazy(i)):
        y = m.cost(dlang.lazy(x), at)
        assert float(y) == 13.0
        assert m.inside(m.Places(at, dlang.lazy(np.int64(1)))).value() == 6
        assert m.pair((at, dlang.lazy(dtype(1)))).value() == 6


def test_all_other_dtypes_are_refused_as_before(wider):
    for call, got in [
        (lambda: wider.doubled(np.array([1], np.uint64)), "u64[1]"),
        (lambda: wider.doubled(np.array([True])), "bool[1]"),
        (lambda: wider.doubled(np.array([1.0], np.float32)), "f32[1]"),
        (lambda: wider.zero(np.uint64(1)), "u64"),
        (lambda: wider.narrow(np.array([1], np.int16)), "i16[1]"),
        (lambda: wider.narrow(np.array([1])), "i64[1]"),
        (lambda: wider.unsigned(np.array([1], np.uint32)), "u32[1]"),
        (lambda: wider.single(np.int16(1)), "i16"),
        (lambda: wider.reals(np.array([1], np.int32)), "i32[1]"),
        (lambda: wider.alike(np.array([1]), np.array([1], np.int32)), "i32[1]"),
        (lambda: wider.alike(np.array([1], np.int32), np.array([1])), "i64[1]"),
    ]:
        assert refusal(call).startswith("error[E0960]") and refusal(call).endswith(f"got {got}")
