"""Functions without annotations, called from Python: the arguments decide their types."""

from pathlib import Path

import numpy as np
import pytest

import dlang

MODULE = """
struct Layer<a, n, m> { w: a[n, m], b: a[m] }
struct Point { x: f64, y: f64 }

fn affine(w, b, x) = w @ x + b
fn add(x, y) = x + y
fn poly(x) = 3.0 * x ** 2 + 1.0
fn first(p) = p.x
fn forward(layer, x) = x @ layer.w + layer.b
fn squares(x, k) = sum(k * x ** 2)
fn scale(x, factor = 2.0) = factor * x
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(MODULE, backend=request.param)


def test_the_arguments_decide_the_types(m):
    assert np.array_equal(m.affine(np.ones((2, 3)), np.zeros(2), np.ones(3)), [3.0, 3.0])
    assert m.poly(2.0) == 13.0 and m.poly(2) == 13.0
    assert m.poly(np.float32(2)).dtype == np.float32
    assert np.array_equal(m.poly(np.arange(3.0)), [1.0, 4.0, 13.0])
    assert np.array_equal(m.add(np.ones((2, 3)), np.arange(3.0)), [[1, 2, 3]] * 2)
    assert m.first(m.Point(x=1.5, y=0.0)) == 1.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_struct_decides_them_too(m, dtype):
    layer = m.Layer(w=np.ones((2, 3), dtype), b=np.zeros(3, dtype))
    y = m.forward(layer, np.ones((4, 2), dtype))
    assert y.dtype == dtype and np.array_equal(y, np.full((4, 3), 2.0))


def test_one_compilation_serves_every_size(m):
    m.affine(np.ones((2, 3)), np.zeros(2), np.ones(3))
    before = dlang.compilations()
    m.affine(np.ones((5, 7)), np.zeros(5), np.ones(7))
    assert dlang.compilations() == before


def test_defaults_and_names_work(m):
    assert m.scale(3.0) == 6.0
    assert m.scale(factor=4.0, x=3.0) == 12.0


def test_inferred_functions_differentiate(m):
    assert dlang.grad(m.poly)(2.0) == 12.0
    assert np.array_equal(dlang.grad(m.squares)(np.arange(3.0), 1.5), [0.0, 3.0, 6.0])
    assert dlang.grad(m.squares, wrt="k")(np.arange(3.0), 1.0) == 5.0
    assert dlang.grad(dlang.grad(m.poly))(2.0) == pytest.approx(6.0)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m: m.affine(np.ones((2, 3)), np.ones(2), np.ones(4)), ["n = 2 from `b`, m = 4 from `x`", "f64[2, 3]"]),
        (lambda m: m.add(np.ones((2, 3)), np.ones(2)), ["m = 2 from `y`", "f64[2, 3]"]),
        (lambda m: m.add(np.ones((2, 1)), np.ones(3)), ["m = 3 from `y`", "f64[2, 1]"]),
        (lambda m: m.add(np.ones(3), np.ones(3, np.float32)), ["E0964", "(f64[3], f32[3])"]),
        (lambda m: m.add("a", 1), ["E0964", "(str, i64)"]),
        (lambda m: m.first((1, 2)), ["E0964", "no field `x`"]),
        (lambda m: m.poly("a"), ["`x`", "a str"]),
        (lambda m: dlang.grad(m.poly)(np.ones(3)), ["E0964", "expected f64, found f64[n]"]),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(m, call, words):
    with pytest.raises(dlang.DlangError) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_optimisers_take_the_structs_of_another_module(m):
    optim = dlang.load(Path(__file__).parents[2] / "stdlib/optim.dl")
    point, slope = m.Point(x=1.0, y=2.0), m.Point(x=10.0, y=-10.0)
    assert optim.sgd(point, slope, 0.1).x == pytest.approx(0.0)
    after, state = optim.adam_step(optim.adam(point), point, slope, lr=0.5)
    assert after.x == pytest.approx(0.5) and after.y == pytest.approx(2.5) and state.steps == 1
