"""Derivatives asked for from Python."""

import warnings

import numpy as np
import pytest

import dlang

MODULE = """
struct Line { slope: f64, offset: f64, tag: i64 }

fn cube(x: f64) -> f64 = x ** 3
fn area(x: f64, y: f64) -> f64 = x * y
fn norm(x: f64[n]) -> f64 = sum(x ** 2)
fn loss(line: Line, x: f64[n], y: f64[n]) -> f64 = mean((line.slope * x + line.offset - y) ** 2)
fn scaled(x: f64, factor: f64 = 3.0) -> f64 = factor * x * x
fn power(x: f64, n: size, scale: f64 = 1.0) -> f64 = scale * prod([x for i < n])
fn vector(x: f64[n]) -> f64[n] = x
fn counted(n: i64) -> f64 = f64(n)
fn cubes(m: size, c: f64[m * m]) -> f64 = sum(c ** 3)
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(MODULE, backend=request.param)


def test_the_gradient_of_a_scalar(m):
    assert dlang.grad(m.cube)(2.0) == 12.0


@pytest.mark.parametrize("form", [dlang.grad, dlang.value_and_grad, dlang.jacobian, dlang.hessian])
def test_arguments_of_a_derivative_have_the_names_and_defaults_of_its_function(m, form):
    slope, sized = form(m.scaled), form(m.power)
    assert slope(2.0) == slope(x=2.0, factor=3.0) == slope(factor=3.0, x=2.0)
    assert sized(2.0, n=3) == sized(n=3, x=2.0, scale=1.0) == sized(2.0, 3, 1.0)
    with pytest.raises(dlang.DlangError, match=r"`power` has no parameter `m`|\(power\)` has no parameter `m`"):
        sized(2.0, m=3)


def test_the_gradient_of_an_array_is_an_array_of_any_size(m):
    slope = dlang.grad(m.norm)
    slope(np.ones(2))
    before = dlang.compilations()
    for n in (1, 5, 100):
        x = np.arange(float(n))
        assert np.array_equal(slope(x), 2 * x)
    assert dlang.compilations() == before


def test_an_argument_for_a_size_says_the_sizes_of_the_others(m):
    c = np.arange(4.0)
    assert np.array_equal(dlang.hessian(m.cubes, wrt="c")(2, c), np.diag(6 * c))
    assert np.array_equal(dlang.jacobian(m.cubes, wrt="c")(2, c), dlang.grad(m.cubes, wrt="c")(2, c))
    with pytest.raises(dlang.DlangError):
        dlang.hessian(m.cubes, wrt="c")(3, c)


def test_parameters_are_chosen_by_name(m):
    assert dlang.grad(m.area, wrt="y")(2.0, 3.0) == 2.0
    assert dlang.grad(m.area, wrt=("x", "y"))(2.0, 3.0) == (3.0, 2.0)
    assert dlang.grad(m.area, wrt=1)(2.0, y=3.0) == 2.0


def test_the_gradient_of_a_struct_is_a_struct(m):
    line = m.Line(slope=2.0, offset=0.0, tag=7)
    x = np.array([0.0, 1.0, 2.0])
    value, slope = dlang.value_and_grad(m.loss, wrt="line")(line, x, np.zeros(3))
    assert value == pytest.approx(np.mean((2 * x) ** 2))
    assert type(slope) is m.Line and slope.tag == 7
    assert slope.slope == pytest.approx(np.mean(2 * 2 * x * x)) and slope.offset == pytest.approx(4.0)


def test_defaults_keep_working(m):
    assert dlang.grad(m.scaled)(2.0) == 12.0
    assert dlang.grad(m.scaled)(2.0, factor=1.0) == 4.0


def test_derivatives_nest(m):
    assert dlang.grad(dlang.grad(m.cube))(2.0) == pytest.approx(12.0)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m: dlang.grad(m.vector), ["`vector`", "one float"]),
        (lambda m: dlang.grad(m.counted), ["`counted`", "`n` has no float"]),
        (lambda m: dlang.grad(m.area, wrt="z"), ["no parameter `z`", "`x`, `y`"]),
        (lambda m: dlang.grad(m.area, wrt=5), ["no parameter 5"]),
        (lambda m: dlang.grad(m.area, wrt=1.5), ["a name or a position, or several, got the float 1.5"]),
        (lambda m: dlang.grad(m.area, wrt=("x", None)), ["got None"]),
        (lambda m: dlang.grad(m.area.bind(y=1.0), wrt=[1.5]), ["got the float 1.5"]),
        (lambda m: dlang.grad(abs), ["functions of the language"]),
    ],
)
def test_what_cannot_be_differentiated_is_refused(m, call, words):
    with pytest.raises(dlang.DlangError) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words)


PRODUCTS = """
struct Line<n> { w: f64[n], tag: i64, b: f64 }

fn three(x: f64[2]) -> f64[3] = [x[0] * x[1], sin(x[0]), x[1] ** 2]
fn square(x: f64[n]) -> f64[n] = x * x
fn area(x: f64, y: f64) -> f64 = x * y
fn affine(l: Line<n>, x: f64[n]) -> (f64[n], f64) = (l.w * l.b * x, l.b * sum(x))
fn power(x: f64, nodiff k: f64) -> f64 = x ** k
fn open(x) = x * x * 3.0
fn energy(x: f64[n], y: f64) -> f64 = sum(x ** 2) * y ** 3
fn nothing() -> f64 = 1.0
fn positive(x: f64[n]) -> f64[?] = [v * v for v in x if v > 0.0]
fn ruled(x: f64) -> f64 = x
pullback ruled(x) -> y = |dy| 7.0 * dy
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def p(request):
    return dlang.compile(PRODUCTS, backend=request.param)


def test_vjp_gives_the_value_and_a_pull(p):
    y, pull = dlang.vjp(p.three, np.array([2.0, 3.0]))
    assert np.allclose(y, [6.0, np.sin(2.0), 9.0])
    assert np.allclose(pull(np.array([1.0, 0.0, 1.0])), [3.0, 8.0])
    assert np.allclose(pull(np.array([0.0, 1.0, 0.0])), [np.cos(2.0), 0.0])


def test_vjp_in_several_parameters_and_structs(p):
    y, pull = dlang.vjp(p.area, 2.0, 3.0)
    assert y == 6.0 and pull(10.0) == (30.0, 20.0)
    line = p.Line(w=np.array([1.0, 2.0]), tag=7, b=3.0)
    _, pull = dlang.vjp(p.affine, line, np.array([1.0, 1.0]))
    slope, dx = pull((np.array([1.0, 0.0]), 1.0))
    assert slope.tag == 7 and slope.b == 3.0 and slope.w.tolist() == [3.0, 0.0]
    assert dx.tolist() == [6.0, 3.0]


def test_jvp_gives_the_value_and_the_tangent(p):
    y, dy = dlang.jvp(p.three, np.array([2.0, 3.0]), np.array([1.0, 0.0]))
    assert np.allclose(y, [6.0, np.sin(2.0), 9.0]) and np.allclose(dy, [3.0, np.cos(2.0), 0.0])
    _, dy = dlang.jvp(p.three, (np.array([2.0, 3.0]),), (np.array([1.0, 0.0]),))
    assert np.allclose(dy, [3.0, np.cos(2.0), 0.0])
    assert dlang.jvp(p.area, (2.0, 3.0), (1.0, 10.0)) == (6.0, 23.0)
    assert dlang.jvp(p.power, (3.0, 2.0), (1.0, 1.0)) == (9.0, 6.0)


def test_products_compile_once_for_all_sizes(p):
    dlang.jvp(p.square, np.ones(2), np.ones(2))
    dlang.vjp(p.square, np.ones(2))[1](np.ones(2))
    before = dlang.compilations()
    for n in (1, 4):
        x = np.arange(float(n))
        assert np.array_equal(dlang.jvp(p.square, x, x)[1], 2 * x * x)
        assert np.array_equal(dlang.vjp(p.square, x)[1](np.ones(n)), 2 * x)
    assert dlang.compilations() == before


def test_jacobians_and_hessians(p):
    assert np.allclose(dlang.jacobian(p.three)(np.array([2.0, 3.0])), [[3.0, 2.0], [np.cos(2.0), 0.0], [0.0, 6.0]])
    assert np.allclose(dlang.jacobian(p.square)(np.array([1.0, 2.0, 3.0])), np.diag([2.0, 4.0, 6.0]))
    x = np.array([1.0, 2.0])
    assert np.allclose(dlang.hessian(p.energy)(x, 2.0), 16.0 * np.eye(2))
    (_, xy), (yx, yy) = dlang.hessian(p.energy, wrt=("x", "y"))(x, 2.0)
    assert np.allclose(xy, [24.0, 48.0]) and np.allclose(yx, xy) and np.allclose(yy, 60.0)
    assert np.allclose(dlang.jacobian(dlang.grad(p.energy))(x, 1.0), 2.0 * np.eye(2))


def test_matrices_of_structures_are_arrays_of_them(p):
    rows = dlang.jacobian(p.affine, wrt="l")(p.Line(w=np.ones(2), tag=7, b=3.0), np.array([1.0, 2.0]))
    assert rows[0][1].w.tolist() == [0.0, 6.0] and rows[0][1].b == 2.0 and rows[1].b == 3.0 and rows[1].tag == 7


def test_a_result_whose_size_is_known_only_when_it_runs(p):
    x = np.array([1.0, -2.0, 3.0])
    value, change = dlang.jvp(p.positive, x, np.ones(3))
    assert value.tolist() == [1.0, 9.0] and change.tolist() == [2.0, 6.0]
    assert dlang.jacobian(p.positive)(x).tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 6.0]]
    value, pull = dlang.vjp(p.positive, x)
    assert value.tolist() == [1.0, 9.0] and pull(np.array([1.0, 10.0])).tolist() == [2.0, 0.0, 60.0]


def test_a_cotangent_has_the_sizes_that_the_run_gave():
    m = dlang.compile(
        """
        import random
        fn kept(x: f64[n], a: f64) -> (f64[?k], f64[?k], f64) {
          let y: f64[k] = [v * v for v in x if v > 0.0]
          (y, a * y, sum(y))
        }
        fn open(x) = [v * v for v in x if v > 0.0]
        fn drawn(x: f64[n]) -> f64[?] ! random = [v * random.normal() for v in x if v > 0.0]
        """
    )
    x = np.array([1.0, -2.0, 3.0])
    _, pull = dlang.vjp(m.kept, x, 2.0)
    slopes, slope = pull((np.ones(2), np.array([1.0, 0.0]), 1.0))
    assert slopes.tolist() == [8.0, 0.0, 12.0] and slope == 1.0
    with pytest.raises(dlang.DlangError, match="E0960"):
        pull((np.ones(2), np.ones(3), 1.0))
    for size in (1, 3):  # the types are found at the first call, and hold for every size
        value, pull = dlang.vjp(m.open, x[:size])
        assert pull(np.ones(len(value))).tolist() == [2.0, 0.0, 6.0][:size]
    value, pull = dlang.vjp(m.drawn, x, seed=3)
    assert np.allclose(pull(np.ones(2))[[0, 2]], value / x[[0, 2]])


def test_functions_whose_types_are_not_written_out(p):
    x = np.array([1.0, 2.0])
    assert np.allclose(dlang.jvp(p.open, x, np.ones(2))[1], 6.0 * x)
    assert np.allclose(dlang.vjp(p.open, x)[1](np.ones(2)), 6.0 * x)
    assert np.allclose(dlang.jacobian(p.open)(x), np.diag(6.0 * x))
    assert dlang.jvp(p.open, 2.0, 1.0)[1] == 12.0


def test_custom_rules_hold_from_python(p):
    assert dlang.grad(p.ruled)(1.0) == 7.0
    assert dlang.vjp(p.ruled, 1.0)[1](2.0) == 14.0
    assert dlang.jvp(p.ruled, 1.0, 2.0)[1] == 2.0


def test_the_same_derivative_is_the_same_function(p):
    assert dlang.grad(p.area, wrt="y") is dlang.grad(p.area, wrt=1)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda p: dlang.vjp(p.area, 1.0), ["`area`", "2 arguments", "got 1"]),
        (lambda p: dlang.jvp(p.area, 1.0, 2.0), ["`area`", "tuples of 2"]),
        (lambda p: dlang.jvp(abs, 1.0, 2.0), ["functions of the language"]),
        (lambda p: dlang.hessian(p.square), ["`square`", "one float"]),
        (lambda p: dlang.grad(p.nothing), ["`nothing`", "no parameter"]),
        (lambda p: dlang.vjp(p.positive, np.ones(2))[1](np.ones(3)), ["E0807", "size 3, expected 2"]),
        (lambda p: dlang.vjp(p.square, np.ones(2))[1](np.ones(3)), ["the cotangent", "3"]),
    ],
)
def test_misuse_of_products_is_refused(p, call, words):
    with pytest.raises(dlang.DlangError) as caught:
        call(p)
    assert all(word in str(caught.value) for word in words), str(caught.value)


DIRECTED = """
struct P<n> { a: f64[n], b: f64 }
fn pair(x: f64[n], k: f64) -> (f64[n], f64) = (x * k, k)
fn field(p: P<n>) -> f64[n] = 2.0 * p.a
fn same(p: P<n>) -> P<n> = p
fn rows(m: f64[n, k]) -> f64[n] = [sum(r) for r in m]
"""


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda m, x: dlang.vjp(m.pair, x, 2.0)[1]((np.ones(4), 1.0)),
            "the cotangent: expected (f64[n], f64), n = 3 from `x`, got (f64[4], the float 1.0)",
        ),
        (
            lambda m, x: dlang.vjp(m.field, m.P(x, 1.0))[1](np.ones(4)),
            "the cotangent: expected f64[n], n = 3 from `p`, got f64[4]",
        ),
        (
            lambda m, x: dlang.vjp(m.same, m.P(x, 1.0))[1](m.P(np.ones(4), 1.0)),
            "the cotangent: expected P<n>, n = 3 from `p`, got an object of class P of `<text>` (in it f64[4]",
        ),
        (
            lambda m, x: dlang.vjp(m.rows, np.ones((3, 3)))[1](np.ones(4)),
            "the cotangent: expected f64[n], n = 3 from `m`, got f64[4]",
        ),
        (
            lambda m, x: dlang.jvp(m.field, m.P(x, 1.0), m.P(np.ones(4), 1.0)),
            "the tangent of `p`: expected P<n>, n = 3 from `p`, got an object of class P",
        ),
        (
            lambda m, x: dlang.jvp(m.pair, (x, 1.0), (np.ones(4), 1.0)),
            "the tangent of `x`: expected f64[n], n = 3 from `x`, got f64[4]",
        ),
    ],
)
def test_a_direction_that_does_not_fit_is_blamed_and_not_the_argument(call, message):
    with pytest.raises(dlang.DlangError) as caught:
        call(dlang.compile(DIRECTED), np.arange(3.0))
    assert message in str(caught.value), str(caught.value)


def test_a_derivative_prints_after_every_stage() -> None:
    module = dlang.compile("fn f(x: f64[n]) -> f64 = sum(x ** 3)")
    assert "vjp" in dlang.grad(module.f).ir("mono")
    assert "vjp" not in dlang.grad(module.f).ir("ad")
    assert "define" in module.f.ir("llvm")
    with pytest.raises(ValueError, match="is not a stage"):
        module.f.ir("nowhere")


MISUSE = """
fn root(x: f64) -> f64 {
  if x < 0.0 { fail("a root of {x}") }
  sqrt(x)
}
fn line(x: f64, k: i64) -> f64 = 5.0 * x + 3.0 * f64(k)
fn dot(x: f64[n], y: f64[n]) -> f64 = sum(x * y)
fn both(x: f64) -> (f64, f64) = (x, x * x)
fn doubled(x: f64, n: i64) -> f64 {
  var y = x
  for k < n { y = 2.0 * y }
  y
}
fn several(x: f64[n], n_iterations: i64) -> f64 {
  var y = x
  for k < n_iterations { y = if y[0] > 1.0 { sin(y) } else { y * x + 1.0 } }
  sum(y)
}
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def w(request):
    return dlang.compile(MISUSE, backend=request.param)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda w: dlang.grad(w.line)(), ["line", "`x` and `k`"]),
        (lambda w: dlang.grad(w.line)(1.0, 2, 3), ["line", "3"]),
        (lambda w: dlang.grad(w.line)("one", 2), ["`x`", "f64"]),
        (lambda w: dlang.grad(w.line, wrt="k"), ["`k`"]),
        (lambda w: dlang.grad(w.line, wrt=("x", "x")), ["`line`", "twice"]),
        (lambda w: dlang.grad(w.line, wrt=()), ["`line`", "none"]),
        (lambda w: dlang.grad(w.both), ["`both`", "one float"]),
        (lambda w: dlang.grad(w.dot)(np.ones(2), np.ones(3)), ["2", "3"]),
        (lambda w: dlang.jvp(w.dot, (np.ones(2), np.ones(2)), (np.ones(3), np.ones(2))), ["3", "2"]),
        (lambda w: dlang.vjp(w.both, 1.0)[1](1.0), ["cotangent"]),
        (lambda w: dlang.vjp(w.both, 1.0)[1]((1.0, 2.0, 3.0)), ["cotangent", "3"]),
        (lambda w: dlang.grad(w.root)(-5.0), ["a root of -5"]),
    ],
)
def test_misuse_and_failures_are_reported(w, call, words):
    with pytest.raises(dlang.DlangError) as caught:
        call(w)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_another_number_of_iterations_is_no_other_gradient(w):
    slope = dlang.grad(w.doubled)
    assert slope(1.5, 1) == 2.0
    before = dlang.compilations()
    assert [slope(1.5, n) for n in (2, 3, 0, 10, 1)] == [4.0, 8.0, 1.0, 1024.0, 2.0]
    assert dlang.compilations() == before


def test_an_integer_is_taken_for_a_float(w):
    assert dlang.grad(w.line)(10, 1) == 5.0


def test_the_same_array_twice_has_two_gradients(w):
    x = np.array([1.0, 2.0])
    a, b = dlang.grad(w.dot, wrt=("x", "y"))(x, x)
    assert np.array_equal(a, x) and np.array_equal(b, x)


def test_a_compiled_gradient_is_that_of_its_arguments_and_not_of_those_before(w):
    """Other branches, other numbers of iterations, other sizes, and the first ones again."""
    slope = dlang.grad(w.several)
    points = [(np.array([0.5, 2.0]), 3), (np.array([1.5, 0.1]), 3), (np.array([0.5, 2.0]), 0), (np.full(4, 0.3), 5)]
    first = [slope(*p) for p in points]
    again = [slope(*p) for p in reversed(points)][::-1]
    fresh = [dlang.grad(dlang.compile(MISUSE).several)(*p) for p in points]
    for a, b, c in zip(first, again, fresh, strict=True):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-14)


DRAWS = """
import random
fn payoff(p: f64) -> f64 ! random = if random.bernoulli(p) { 1.0 } else { 0.0 }
fn seeded(p: f64) -> f64 = random.run(1, || payoff(p))
fn stopped(p: f64) -> f64 = random.run(1, || payoff(stop_gradient(p))) + p
fn smooth(p: f64) -> f64 ! random = random.normal() * p + random.gamma(p) + random.uniform()
"""


@pytest.mark.parametrize("form", [dlang.grad, dlang.value_and_grad, dlang.jacobian, dlang.hessian])
def test_a_derivative_through_a_discrete_draw_warns(form):
    m = dlang.compile(DRAWS, backend="interp")
    for f in (m.payoff, m.seeded):
        with pytest.warns(UserWarning, match="E0712"):
            form(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        form(m.stopped), form(m.smooth)


def test_products_and_modules_warn_of_discrete_draws_too():
    m = dlang.compile(DRAWS, backend="interp")
    with pytest.warns(UserWarning, match="E0712"):
        assert dlang.jvp(m.payoff, 0.5, 1.0)[1] == 0.0
    with pytest.warns(UserWarning, match="E0712"):
        dlang.compile(DRAWS + "fn slope(p: f64) -> f64 = grad(seeded)(p)", backend="interp")
