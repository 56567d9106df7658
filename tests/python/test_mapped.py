"""Functions over a further axis of their arguments, as one function of the language."""

import numpy as np
import pytest

import dlang
from dlang.python.operators import each_leaf, mapped
from tests.interop.functions import TEXT


@pytest.fixture(scope="module")
def m():
    return dlang.compile(TEXT + "fn pair((a, b): (f64, f64), x': f64) -> f64 = a * b + x'\n")


def made(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


@pytest.mark.parametrize(
    "name, letters, shapes, batched, call",
    [
        ("loss", "AA,A,A", [(3, 2), (2,), (5, 4, 3), (5, 4, 2)], "0011", lambda m, w, b, *xy: m.loss(m.Net(w, b), *xy)),
        ("joined", "A,A", [(5, 2), (3,)], "10", lambda m, x, y: m.joined(x, y)),
        ("cube", "A", [(5, 2, 3)], "1", lambda m, x: m.cube(x)),
        ("cube", "A", [(5,)], "1", lambda m, x: m.cube(x)),
        ("grown", "A,-", [(5, 3)], "1", lambda m, x: m.grown(x)),
        ("pair", "AA,A", [(5,), (), (5,)], "101", lambda m, a, b, x: m.pair((a, b), x)),
        ("narrow", "A", [(5, 0)], "1", lambda m, x: m.narrow(x)),
        ("every_other", "A", [(5, 7)], "1", lambda m, x: m.every_other(x)),
    ],
)  # fmt: skip
def test_it_gives_what_calls_of_the_elements_give(m, name, letters, shapes, batched, call):
    arrays = [made(*s).astype(np.float32 if name == "narrow" else float) for s in shapes]
    over = [c == "1" for c in batched]
    types = tuple([("f32" if name == "narrow" else "f64", x.ndim - o) for x, o in zip(arrays, over)])
    f = mapped(getattr(m, name), letters, (), (), types, tuple(over))
    expected = [call(m, *[x[k] if o else x for x, o in zip(arrays, over)]) for k in range(5)]
    np.testing.assert_allclose(f(*arrays), np.array(expected), rtol=1e-13)
    assert f is mapped(getattr(m, name), letters, (), (), types, tuple(over))


def test_structs_come_out_leaf_by_leaf_and_numbers_go_in(m):
    w, b, s, x = made(5, 3, 3), made(5, 3), made(5), made(3)
    f = mapped(m.deep, "AAA,A", (), (), (("f64", 2), ("f64", 1), ("f64", 0), ("f64", 1)), (True, True, True, False))
    for k, (a, c, d, e) in enumerate(zip(*f(w, b, s, x))):
        deep, number = m.deep(m.Deep(m.Net(w[k], b[k]), s[k]), x)
        for p, q in zip((a, c, d, e), (deep.first.w, deep.first.b, deep.scale, number)):
            np.testing.assert_allclose(p, q, rtol=1e-13)
    steps = mapped(m.steps, "A,I", (), (-1,), (("f64", 1),), (True,))
    assert np.array_equal(steps(w[0], -1), w[0]) and each_leaf("AA,I,-") == "A,A,I"


def test_what_fails_is_told_as_of_the_function():
    at = dlang.compile("fn at(x: f64[n], k: i64) -> (f64, f64) = (x[k], 1.0)").at
    f = mapped(at, "A,A", (), (), (("f64", 1), ("i64", 0)), (True, True))
    with pytest.raises(dlang.DlangError, match="E0801") as caught:
        f(made(3, 2), np.array([0, 1, 2]))
    assert "vmap" not in str(caught.value)


def test_it_is_differentiated_and_mapped_again(m):
    x = made(4, 5, 3)
    slope = dlang.vjp(mapped(m.grown, "A,F", (2.0,), (), (("f64", 1),), (True,)), x[0], 2.0)[1](np.ones((5, 3)))[0]
    np.testing.assert_allclose(slope, 2.0 * np.exp(2.0 * x[0]), rtol=1e-12)
    once = mapped(m.cube, "A", (), (), (("f64", 1),), (True,))
    twice = mapped(once, "A", (), (), (("f64", 2),), (True,))
    np.testing.assert_allclose(twice(x), x**3, rtol=1e-13)
    assert once.key != mapped(m.cube, "A", (), (), (("f64", 0),), (True,)).key


def test_what_differs_from_element_to_element_is_called_once_for_each(m):
    one = (("f64", 1),)
    assert mapped(m.noisy, "A", (), (), one, (True,)) is None  # every element draws the same numbers
    assert mapped(m.gathered, "A,A", (), (), (*one, ("i64", 1)), (True, False)) is None
    assert mapped(m.grown.bind(s=1.0), "A", (), (), one, (True,)) is None
