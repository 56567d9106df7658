"""`dlang.lazy`: what is recorded is what NumPy computes, and its derivatives are those of differences."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dlang
from dlang.python.lazy import values
from dlang.python.lazy.arrays import Lazy
from dlang.python.lazy.values import program, wanted

X = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]])
I = np.array([[1, -2, 3], [4, 0, -6]])
B = X > 0.6


# ---- values ----------------------------------------------------------------------------------------------------------
UNARY = [
    np.exp, np.expm1, np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.arctan, np.floor, np.ceil, np.rint, np.abs,
    np.negative, np.sign, np.square, np.isnan, np.isfinite, np.sum, np.prod, np.mean, np.max, np.min, np.argmax,
    np.argmin, np.sort, np.argsort, np.transpose, np.ravel, np.reciprocal, np.zeros_like, np.positive, np.fabs,
]  # fmt: skip
POSITIVE = [np.log, np.log1p, np.sqrt, np.log2, np.log10]
SMALL = [np.arcsin, np.arccos]
BINARY = [
    np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.maximum, np.minimum, np.arctan2,
    np.hypot, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
]  # fmt: skip


def same(found, expected, which=""):
    assert found.shape == np.shape(expected) and found.dtype == np.asarray(expected).dtype, which
    rtol = {2: 2e-3, 4: 2e-5}.get(found.dtype.itemsize if found.dtype.kind == "f" else 8, 1e-13)
    wide = [np.asarray(a, float) for a in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=rtol, atol=1e-13, err_msg=str(which))


def all_the_same(functions, *arrays):
    """What functions record is what NumPy computes; all of it is one program."""
    with np.errstate(all="ignore"):
        expected = [f(*arrays) for f in functions]
    found = [f(dlang.lazy(arrays[0]), *arrays[1:]) for f in functions]
    dlang.evaluate(*[y for y in found if isinstance(y, Lazy)])
    for f, y, z in zip(functions, found, expected):
        name = getattr(f, "__name__", "")
        same(y, z, f"{functions.index(f)} {name}")


@pytest.mark.parametrize("x", [X, X.astype(np.float32), X[0]], ids=["f64", "f32", "one axis"])
def test_functions_of_one_array(x):
    all_the_same(UNARY, x)


def test_functions_where_they_are_defined():
    all_the_same(POSITIVE, abs(X))
    all_the_same(SMALL, X / 4)


@pytest.mark.parametrize(
    "y", [X + 0.25, X[0] + 1.0, X[:, :1] * 2 + 0.1, 2.5, 3], ids=["", "row", "column", "float", "int"]
)
def test_functions_of_two_arrays_broadcast_as_in_numpy(y):
    all_the_same([*BINARY, *[lambda a, b, f=f: f(b, a) for f in BINARY]], X, y)


EXPRESSIONS = [
    lambda x: x**2 + 2**x - 2 - x + x / 4 + (3.0 - x) * x,
    lambda x: -x + abs(x) % 2 - x // 2,
    lambda x: x @ x.T,
    lambda x: x.T @ x[0, :2],
    lambda x: (x > 0) & (x < 2) | ~(x >= 0),
    lambda x: x.sum(axis=0) + x.sum(0, keepdims=True).max(axis=(0, 1)) * x.mean(axis=1, keepdims=True),
    lambda x: np.sum(x, axis=(0, 1), keepdims=True) + x.prod() + x.min(axis=-1).max(),
    lambda x: np.where(x > 0, x, 1),
    lambda x: np.clip(x, -1, 1.5) + np.clip(x, None, 1.0),
    lambda x: np.concatenate([x, x * 2.0], axis=1)[:, 1:6:2],
    lambda x: np.stack([x, x + 1.0], axis=1) - np.stack([x, x], 1),
    lambda x: x.reshape(3, 2) + np.reshape(x, (3, -1)),
    lambda x: x[1] + x[..., 0][0] + x[-1, -2],
    lambda x: x[:, None, 1:] * x[:, 1:, None],
    lambda x: x[np.array([1, 0, -1])],
    lambda x: np.transpose(np.stack([x, x]), (1, 2, 0)),
    lambda x: np.dot(x[0], x[1]) + np.dot(2.0, x),
    lambda x: x.astype(np.float32) * np.float32(2.0),
    lambda x: x.argmax(axis=1) + 1,
    lambda x: np.add.reduce(x, axis=1),
]  # fmt: skip

INTEGERS = [
    lambda i: i + 1, lambda i: i / 2, lambda i: i // 2 + i % 3, lambda i: i.sum() + 2.5,
    lambda i: i.mean(axis=0), lambda i: i**2, lambda i: i & 3 ^ 1, lambda i: np.sqrt(i * i),
    lambda i: i.astype(np.float32) / 3, lambda i: i > 1.5,
]  # fmt: skip

ALL = [
    lambda x: np.std(x, axis=0, ddof=1), lambda x: x.var(axis=1, keepdims=True), lambda x: np.any(x > 1, axis=0),
    lambda x: (x > 0).all(), lambda x: np.count_nonzero(x > 0, axis=1), lambda x: x.cumsum(), lambda x: np.cumsum(x, 1),
    lambda x: np.diff(x), lambda x: np.linalg.norm(x, axis=0), lambda x: np.sort(x, axis=None),
    lambda x: (x > 0).max(0),
    lambda x: x[::-1, ::-2], lambda x: x[1:0:-1, :2], lambda x: np.flip(x, 1), lambda x: np.roll(x, 4),
    lambda x: np.roll(x, -1, axis=1), lambda x: np.repeat(x, 2, axis=1), lambda x: np.tile(x, (2, 1, 2)),
    lambda x: np.take(x, [-1, 0], axis=1), lambda x: x.take([[0, 5]]), lambda x: np.diagonal(x, 1),
    lambda x: np.trace(x), lambda x: np.tril(x) - np.triu(x, 1), lambda x: np.tril(x[0]) + np.triu(x[1], 1),
    lambda x: np.broadcast_to(x[0], (4, 2, 3)),
    lambda x: np.moveaxis(x[None], 0, -1), lambda x: x[None].swapaxes(0, 2), lambda x: np.squeeze(x[:1]),
    lambda x: np.expand_dims(x, (0, 2)), lambda x: np.stack([x, x]).transpose(2, 0, 1),
    lambda x: x.ravel() + x.flatten(),
    lambda x: np.vstack([x, x[0]]), lambda x: np.hstack([x, x]), lambda x: np.einsum("ij,kj,kl->il", x, x, x),
    lambda x: np.einsum("ii", x[:, :2]), lambda x: np.einsum("ij,jk", x, x.T),
    lambda x: np.tensordot(x, x, ((0,), (0,))),
    lambda x: np.inner(x, x[0]), lambda x: np.outer(x, x[0]), lambda x: np.vdot(x, x),
    lambda x: np.dot(np.stack([x, x]), x.T), lambda x: np.logical_and(x, x > 1), lambda x: np.logical_not(x),
    lambda x: np.exp2(x) + np.cbrt(x), lambda x: np.trunc(x), lambda x: np.round(x, 1), lambda x: divmod(x, 2)[1],
    lambda x: np.logaddexp(x, 1) + np.hypot(x, 2), lambda x: np.deg2rad(x), lambda x: np.full_like(x, 3),
    lambda x: x.astype(bool), lambda x: np.isinf(x), lambda x: np.ptp(x, axis=0), lambda x: np.floor(x) + np.fabs(x),
    lambda x: x / x, lambda x: np.exp(x), lambda x: x == x.T.T, lambda x: np.concatenate([x, x], axis=None),
    lambda x: x.argmax(axis=1) + x[0, 0].argmax(),
]  # fmt: skip


@pytest.mark.parametrize("x", [X, I, X.astype(np.float32), abs(I).astype(np.uint8)], ids=lambda x: str(x.dtype))
def test_expressions_have_the_values_shapes_and_dtypes_of_numpy(x):
    all_the_same([*ALL, *(INTEGERS if x is I else EXPRESSIONS if x is X else [])], x)


def test_large_numbers_and_infinities_are_no_trouble():
    x, y = np.array([1e200, 0.0, np.inf, 3.0, -np.inf]), np.array([1e200, 0.0, 1.0, 4.0, -np.inf])
    same(np.hypot(dlang.lazy(x), y), np.hypot(x, y))
    same(np.logaddexp(dlang.lazy(x), y), np.logaddexp(x, y))
    x, y = np.array([np.inf, np.nan, np.nan, -np.inf]), np.array([np.nan, -np.inf, 1.0, np.nan])
    same(np.hypot(dlang.lazy(x), y), np.hypot(x, y))
    a = dlang.lazy(np.array([1.0, 3.0]))
    assert np.logaddexp(a, 1.0).sum().grad(a).tolist()[0] == 0.5  # also where both are the same
    np.testing.assert_allclose(np.hypot(a, [0.0, 4.0]).sum().grad(a).value(), [1.0, 0.6])
    for dtype, small in ((np.float64, 1e-310), (np.float32, 1e-40)):
        a, b = np.array([3.0 * small, 0.0], dtype), np.array([4.0 * small, 0.0], dtype)
        same(np.hypot(dlang.lazy(a), b), np.hypot(a, b))
        x = dlang.lazy(a)
        np.testing.assert_allclose(np.hypot(x, b).sum().grad(x).value(), [0.6, 0.0], rtol=1e-4)


def test_a_name_is_given_to_a_new_array_by_assignment_operators():
    x = y = dlang.lazy(X)
    x += 1.0
    x *= 2
    np.testing.assert_array_equal(x.value(), (X + 1.0) * 2)
    np.testing.assert_array_equal(y.value(), X)


def test_what_was_computed_is_not_written_to():
    y = dlang.lazy(X) + 1.0
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(y)[0] = 5.0
    assert np.array(y).flags.writeable


def test_numbers_of_python_take_the_dtype_of_arrays():
    x = dlang.lazy(np.float32(1.5))
    assert (x * 2.0).dtype == (2 * x).dtype == (x**2).dtype == np.float32
    assert (x * np.float64(2.0)).dtype == np.float64


def test_nothing_is_computed_before_it_is_needed():
    x = dlang.lazy(X)
    y = np.exp(x) * 2.0
    assert "not computed yet" in repr(y) and y.shape == (2, 3) and len(y) == 2 and y.size == 6 and y.ndim == 2
    assert f"{y.sum():.1f}" == f"{(np.exp(X) * 2).sum():.1f}" and "not computed yet" in repr(y)
    assert np.asarray(y).tolist() == y.tolist() and "not" not in repr(y)
    assert bool(y.max() > 1.0) and int(dlang.lazy(3) + 1) == 4 and [1, 2, 3][dlang.lazy(1)] == 2


def test_several_values_share_what_they_have_in_common():
    x = dlang.lazy(X)
    e = np.exp(x)
    a, b = e.sum(), e * 2.0
    outputs = [a.node, b.node]
    assert program(wanted(outputs), outputs).text.count("exp(") == 1
    dlang.evaluate(a, b)
    assert a.node.value is not None and b.node.value is not None and e.node.value is None


def test_programs_of_the_same_form_are_compiled_once():
    def run(x):
        return float(np.tanh(dlang.lazy(x) * 3.25).sum())

    run(X)
    before = dlang.compilations()
    for k in range(3):
        assert run(X + k) == pytest.approx(np.tanh((X + k) * 3.25).sum(), rel=1e-14)
    assert dlang.compilations() == before


# ---- derivatives -----------------------------------------------------------------------------------------------------
def difference(f, x, direction, h=1e-6):
    return (f(x + h * direction) - f(x - h * direction)) / (2 * h)


FUNCTIONS = [
    lambda x: (x**3 * np.sin(x)).sum(),
    lambda x: np.exp(x / 2).sum(axis=0) @ x[1],
    lambda x: np.where(x > 0, x**2, -x).mean() + x.max(),
    lambda x: ((x @ x.T)[0, 1] + x[0, ::2].prod()) ** 2,
    lambda x: np.concatenate([x[0], x[1] * x[0]]).sum() * np.tanh(x[1, 1]),
    lambda x: (x / (1 + x**2).sum(axis=1, keepdims=True)).sum(),
    lambda x: np.einsum("ij,kj,kl->il", x, x[::-1], x).std() + np.logaddexp(x, 0.5).sum() * np.hypot(x[0], x[1]).sum(),
    lambda x: (np.roll(x.cumsum(), 1)[::-1] * np.repeat(x, 1).take([5, 0, 0, 1, 2, 3])).sum() + np.linalg.norm(x),
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_derivatives_are_those_of_differences(f):
    x, direction = dlang.lazy(X), np.cos(np.arange(6.0)).reshape(2, 3)
    slope = f(x).grad(x)
    assert float((slope * direction).sum()) == pytest.approx(difference(lambda v: f(v), X, direction), rel=1e-7)
    curve = (slope * direction).sum().grad(x)  # of the second order

    def first(v):
        y = dlang.lazy(v)
        return float((f(y).grad(y) * direction).sum())

    assert float((curve * direction).sum()) == pytest.approx(difference(first, X, direction), rel=1e-6, abs=1e-7)


def test_derivatives_with_respect_to_what_was_computed_on_the_way():
    a = dlang.lazy(3.0)
    u = a**2
    y = u + u**3
    assert float(y.grad(a)) == 1464.0 and float(y.grad(u)) == 1 + 3 * 9.0**2 and float(y.grad(y)) == 1.0
    assert float((2 - a).grad(a)) == -1.0
    float(y)  # what is known is gone through all the same
    assert float(y.grad(a)) == 1464.0 and float(u.grad(a)) == 6.0


def test_a_derivative_is_a_function_of_its_seed():
    x = dlang.lazy(X)
    y = np.sin(x) * x
    seed = dlang.lazy(np.ones_like(X))
    slope = y.grad(x, seed * 2.0)
    np.testing.assert_allclose(slope.value(), 2 * (np.cos(X) * X + np.sin(X)), rtol=1e-13)
    back = (slope * X).sum().grad(seed)  # linear in the seed
    np.testing.assert_allclose(back.value(), 2 * X * (np.cos(X) * X + np.sin(X)), rtol=1e-13)


def test_what_does_not_depend_on_it_has_no_derivative():
    x, z = dlang.lazy(X), dlang.lazy(X)
    assert (z.sum() * 2.0).grad(x).tolist() == np.zeros((2, 3)).tolist()
    later = x * 2.0
    assert z.sum().grad(later).tolist() == np.zeros((2, 3)).tolist()


def test_a_long_chain():
    a, c = dlang.lazy(1.001), dlang.lazy(1.0)
    for _ in range(300):
        c = a * c
    assert len(repr(c.node)) < 200  # not all that it was made of, each as often as it is used
    assert float(c) == pytest.approx(1.001**300, rel=1e-12)
    assert float(c.grad(a)) == pytest.approx(300 * 1.001**299, rel=1e-12)


def test_steps_of_a_long_chain_are_compiled_once():
    start = np.linspace(0.1, 1.0, 9)
    value, slope = start, np.ones(9)
    for _ in range(1600):
        value, slope = np.sin(value) * 0.001 + value, slope * (np.cos(value) * 0.001 + 1.0)
    x = dlang.lazy(start)
    c = x
    for _ in range(1600):
        c = np.sin(c) * 0.001 + c
    before = dlang.compilations()
    np.testing.assert_allclose(c.value(), value, rtol=1e-12)
    np.testing.assert_allclose(c.sum().grad(x).value(), slope, rtol=1e-10)
    assert dlang.compilations() - before <= 6  # 4,800 operations and their derivatives


def test_a_long_recording_is_cut_where_the_least_is_known():
    x = dlang.lazy(X)
    rows = []
    for k in range(80):
        a = np.exp(x * 0.01 * k)
        x = (a * x - a / 2.0) + np.cos(a)
        rows.append(x.node)
    found = values.pieces(wanted(rows[-1:]), rows[-1:])
    assert len(found) > 2 and all(len(p.left) == 1 and p.left[0] in rows for p in found)
    assert all(len(p.nodes) <= values.MOST for p in found) and sum(len(p.nodes) for p in found) == 640


@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=6), st.integers(0, 2**31), st.integers(3, 8))
def test_values_and_derivatives_do_not_depend_on_where_a_recording_is_cut(steps, seed, size):
    random = np.random.default_rng(seed)
    start, other = random.normal(size=(3, 2)), random.normal(size=(2,))

    def run(v):
        w = u = v
        for k in steps:
            w, u = [
                lambda w, u: (np.tanh(w), w), lambda w, u: (w * u, u), lambda w, u: (u, w + v),
                lambda w, u: (w - u.mean(axis=0), u * other), lambda w, u: (w / (1.0 + u**2), u),
                lambda w, u: (w[np.argsort(w[:, 0])], w), lambda w, u: (w * 0.5 + u, np.sort(u, axis=0)),
                lambda w, u: (np.where(u > 0, w, 2 * w), u), lambda w, u: (w * (u > 0).sum(), u),
            ][k](w, u)  # fmt: skip
        return (w**2).sum() + (u * w).sum()

    def found():
        x = dlang.lazy(start)
        y = run(x)
        slope = y.grad(x)
        return [y, slope, (slope * other).sum().grad(x)]

    whole = found()
    dlang.evaluate(*whole)
    with mock.patch.multiple(values, FEWEST=size, MOST=2 * size):
        cut = found()
        dlang.evaluate(*cut)
    for a, b in zip(whole, cut, strict=True):
        np.testing.assert_allclose(a.value(), b.value(), rtol=1e-9, atol=1e-9 * np.abs(a.value()).max())


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=8), st.integers(0, 2**31))
def test_chains_of_operations_are_differentiated(steps, seed):
    random = np.random.default_rng(seed)
    x, direction = random.normal(size=(3, 2)), random.normal(size=(3, 2))
    other = random.normal(size=(2,))

    def run(v):
        w = v
        for k in steps:
            w = [
                lambda w: np.tanh(w), lambda w: w * other, lambda w: w + v, lambda w: w - w.mean(axis=0),
                lambda w: w / (1.0 + w**2), lambda w: np.sin(w) * v, lambda w: w * 0.5,
                lambda w: np.where(v > 0, w, 2 * w),
            ][k](w)  # fmt: skip
        return (w**2).sum()

    lazily = dlang.lazy(x)
    y = run(lazily)
    assert float(y) == pytest.approx(run(x), rel=1e-12)
    assert float((y.grad(lazily) * direction).sum()) == pytest.approx(difference(run, x, direction), rel=1e-5, abs=1e-7)


# ---- functions of the language ---------------------------------------------------------------------------------------
MODULE = """
struct P { w: f64[2], b: f64 }
fn score(p: P, x: f64[n, 2]) -> f64[n] = tanh(x @ p.w) + p.b
fn both(x: f64[n], k: f64 = 2.0) -> (f64[n], P) = (k * x, P(w = [x[0], x[1]], b = sum(x)))
fn noisy(x: f64) -> f64 { print("x"); x }
struct Edge { from: f64, to': f64 }
fn filled(x: f64, n: size) -> f64[n] = full(x, n)
fn edge(x: f64) -> Edge = Edge(from = x, to' = 2.0 * x)
enum Tree { Leaf(value: f64), Row(values: f64[2]), Node(left: Tree, right: Tree) }
fn total(t: Tree) -> f64 = match t { Leaf(v) => v, Row(v) => sum(v), Node(l, r) => total(l) + total(r) }
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    file = tmp_path_factory.mktemp("lazy") / "scores.dl"
    file.write_text(MODULE)
    return dlang.load(file)


def test_calls_are_recorded_and_differentiated(module):
    w, x = np.array([0.5, -0.25]), np.arange(6.0).reshape(3, 2)
    lw, lx = dlang.lazy(w), dlang.lazy(x)
    scores = module.score(module.P(lw * 2.0, 0.5), lx)
    assert isinstance(scores, Lazy) and scores.shape == (3,)
    loss = (scores**2).sum()
    np.testing.assert_allclose(scores.value(), np.tanh(x @ (2 * w)) + 0.5, rtol=1e-13)
    inner = np.tanh(x @ (2 * w))
    expected = 2 * (2 * (inner + 0.5) * (1 - inner**2)) @ x
    np.testing.assert_allclose(loss.grad(lw).value(), expected, rtol=1e-12)
    np.testing.assert_allclose(loss.grad(scores).value(), 2 * scores.value(), rtol=1e-13)


def test_results_of_several_parts_are_recorded_part_by_part(module):
    x = dlang.lazy(np.array([1.0, 2.0, 4.0]))
    scaled, p = module.both(x, k=3.0)
    assert scaled.tolist() == [3.0, 6.0, 12.0] and p.w.tolist() == [1.0, 2.0] and float(p.b) == 7.0
    assert type(p) is module.P and (p.b * p.w[1]).grad(x).tolist() == [2.0, 9.0, 2.0]


def test_fields_may_have_names_that_python_does_not_have(module):
    e = module.edge(dlang.lazy(1.5))
    assert (
        module.filled(dlang.lazy(1.5), 2).tolist() == module.filled(dlang.lazy(1.5), np.int64(2)).tolist() == [1.5, 1.5]
    )
    assert float(e.from_) == 1.5 and float(e.to_) == 3.0


def test_trees_are_no_part_of_a_recording_however_deep(module):
    deep = module.Leaf(1.0)
    for _ in range(20_000):
        deep = module.Node(deep, module.Leaf(1.0))
    assert module.total(deep) == 20_001.0
    for leaf in (module.Leaf(dlang.lazy(1.0)), module.Row(dlang.lazy(np.ones(2)))):
        with pytest.raises(dlang.DlangError):
            module.total(leaf)


@pytest.mark.parametrize(
    "call, code",
    [
        (lambda m, x: m.noisy(x), "E0967"),
        (lambda m, x: m.filled(x, dlang.lazy(3)), "E0967"),
        (lambda m, x: dlang.compile("fn f(x: f64) -> f64 = x").f(x), "E0999"),
        (lambda m, x: m.score.bind(m.P(np.ones(2), 0.0))(x.reshape(1, 1)), "E0966"),
        (lambda m, x: dlang.lazy(X)[X > 0], "E0999"),
        (lambda m, x: np.linalg.inv(dlang.lazy(X)), "E0999"),
        (lambda m, x: np.heaviside(x, 0.5), "E0999"),
        (lambda m, x: np.add(x, x, out=np.ones(())), "E0999"),
        (lambda m, x: np.sort(dlang.lazy(X), kind="stable"), "E0999"),
        (lambda m, x: np.einsum("...i->i", dlang.lazy(X)), "E0999"),
        (lambda m, x: dlang.lazy(B) + dlang.lazy(B), "E0999"),
    ],
)
def test_what_cannot_be_recorded_is_refused(module, call, code):
    with pytest.raises(dlang.DlangError) as caught:
        call(module, dlang.lazy(2.0))
    assert f"[{code}]" in str(caught.value)


@pytest.mark.parametrize(
    "act, kind, words",
    [
        (lambda: dlang.lazy("text"), TypeError, "no arrays of"),
        (lambda: dlang.evaluate(dlang.lazy(2.0), 3.0), TypeError, "what `dlang.lazy` gives, not float"),
        (lambda: dlang.lazy(X).grad(dlang.lazy(X)), TypeError, "takes a seed of its shape [2, 3]"),
        (lambda: dlang.lazy(X).grad(dlang.lazy(X), 1.0), ValueError, "the seed has the shape []"),
        (lambda: dlang.lazy(I).grad(dlang.lazy(X), I), TypeError, "int64"),
        (lambda: dlang.lazy(2.0).grad(3.0), TypeError, "something lazy"),
        (lambda: dlang.lazy(X)[2], IndexError, "out of bounds"),
        (lambda: dlang.lazy(X) + np.ones(5), ValueError, "broadcast"),
        (lambda: dlang.lazy(X).sum(axis=2), np.exceptions.AxisError, "axis 2"),
        (lambda: len(dlang.lazy(2.0)), TypeError, "length"),
        (lambda: -dlang.lazy(B), TypeError, "negative"),
        (lambda: np.einsum("ij,jk", dlang.lazy(X), X), ValueError, "operand"),
        (lambda: np.tensordot(dlang.lazy(X[:, :1]), X[0], 1), ValueError, "shape-mismatch"),
    ],
)
def test_mistakes_are_told_when_they_are_made(act, kind, words):
    with pytest.raises(kind) as caught:
        act()
    assert words in str(caught.value)


def test_small_integers_are_reduced_and_clipped_as_numpy_does():
    for t, value in ((np.uint8, 100), (np.int8, 100), (np.int16, 30000), (np.int32, 2**20)):
        a = np.full(9, value, t)
        assert np.isclose(float(np.linalg.norm(dlang.lazy(a))), float(np.linalg.norm(a)))
        ends = np.iinfo(t)
        for low, high in ((-1, 1), (ends.min - 1, 50), (0, ends.max + 1)):
            try:
                wanted = np.clip(a, low, high)
            except OverflowError:
                continue
            found = np.clip(dlang.lazy(a), low, high).value()
            assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
    bools = np.array([True, False])
    assert (dlang.lazy(bools) ** 2).value().dtype == (bools**2).dtype
