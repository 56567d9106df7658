"""The functions of the prelude and of `math`, in both dtypes and with both back ends, against NumPy and mpmath."""

import mpmath
import numpy as np
import pytest

import dlang

DTYPES = {"f64": np.float64, "f32": np.float32}
PRELUDE = {
    **{name: getattr(np, name) for name in "abs sign exp expm1 log1p sin cos tan sinh cosh tanh floor ceil".split()},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "round": np.rint,
    "log": np.log,
    "sqrt": np.sqrt,
    "erf": np.vectorize(lambda x: float(mpmath.erf(x))),
    "lgamma": np.vectorize(lambda x: float(mpmath.log(abs(mpmath.gamma(x))))),
    "digamma": np.vectorize(lambda x: float(mpmath.digamma(x))),
}
POINTS = np.array([0.013, 0.17, 0.31, 0.5, 0.77, 0.94, 1.0])  # in the domain of all of them, not near a zero of lgamma
MATH = {
    "log2": np.log2,
    "log10": np.log10,
    "exp2": np.exp2,
    "cbrt": np.cbrt,
    "degrees": np.degrees,
    "radians": np.radians,
    "sinc": np.sinc,
    "trunc": np.trunc,
    "erfc": np.vectorize(lambda x: float(mpmath.erfc(x))),
    "erfinv": np.vectorize(lambda x: float(mpmath.erfinv(x))),
    "gamma": np.vectorize(lambda x: float(mpmath.gamma(x))),
}
RANGES = {"erfinv": (-0.9999, 0.9999), "gamma": (-20.5, 60.0), "cbrt": (-1e6, 1e6), "exp2": (-50.0, 50.0)}


@pytest.mark.parametrize("backend", ["interp", "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_function_of_the_prelude_runs_in_both_dtypes(dtype, backend):
    text = "".join(f"fn {name}_(x: {dtype}[n]) -> {dtype}[n] = {name}(x)\n" for name in PRELUDE)
    module = dlang.compile(text, backend=backend)
    x = POINTS.astype(DTYPES[dtype])
    for name, expected in PRELUDE.items():
        got = getattr(module, f"{name}_")(x)
        assert got.dtype == x.dtype
        tolerance = 16 * np.finfo(x.dtype).eps
        np.testing.assert_allclose(got, expected(x.astype(float)), rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("backend", ["interp", "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_functions_of_math_are_accurate_in_both_dtypes(dtype, backend):
    text = "import math\n" + "".join(f"fn {name}_(x: {dtype}[n]) -> {dtype}[n] = math.{name}(x)\n" for name in MATH)
    module = dlang.compile(text, backend=backend)
    for name, expected in MATH.items():
        low, high = RANGES.get(name, (1e-3, 6.0))
        if name == "gamma" and dtype == "f32":
            high = 30.0
        x = np.random.default_rng(len(name)).uniform(low, high, 200).astype(DTYPES[dtype])
        tolerance = (400 if name == "gamma" else 12) * np.finfo(x.dtype).eps
        got = getattr(module, f"{name}_")(x)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, expected(x.astype(float)), rtol=tolerance, atol=tolerance, err_msg=name)


def test_the_derivative_of_digamma_is_precise_on_both_sides_of_zero():
    module = dlang.compile("fn f(x: f64) -> f64 = digamma(x)\nfn g(x: f64) -> f64 = grad(f)(x)")
    for x in (1e-3, 0.3, 0.49999, 0.5, 1.0, 4.2, 37.0, 1e6, -0.2, -3.7, -200.25):
        assert dlang.grad(module.f)(x) == pytest.approx(float(mpmath.psi(1, x)), rel=1e-13)
        slope = float(mpmath.psi(2, x))
        assert dlang.grad(module.g)(x) == pytest.approx(slope, rel=1e-11)
