"""The mathematical routines, scalar and vector, against mpmath over their whole range."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest

from dlang.codegen.llvm.coefficients import ERF_CENTRES, ERF_PIECES, ERF_STEP, LN2, PI, POLYNOMIALS
from dlang.codegen.llvm.mathematics import FUNCTIONS, routine
from dlang.codegen.llvm.modules import print_llvm
from dlang.codegen.llvm.objects import this_processor
from dlang.host.effects import Host
from dlang.ir.reader import read_program
from dlang.ops.primitives import PRIMITIVES
from dlang.runtime.engine import Engine
from tests.codegen.approximation import CONSTANTS, FITS, coefficients, erf_pieces, parts
from tests.codegen.kernels import DTYPES, Floats, Kernels, compiled

WIDTHS = {"f64": (1, 4), "f32": (1, 8)}
INSTRUCTIONS = ("abs", "ceil", "floor", "round", "sign", "sqrt", "maximum", "minimum")
CASES = [(name, dtype) for name in (*FUNCTIONS, *INSTRUCTIONS) for dtype in DTYPES]
# With AVX-512 only those whose text is another one then.
EXACT_CASES = [(*case, False) for case in CASES] + [
    (*case, True) for case in CASES if routine(*case, 1, True) != routine(*case, 1)
]
INF, NAN = np.inf, np.nan
PRECISION = 140
LARGEST_ERROR = 3.0  # units in the last place


@pytest.fixture(params=[False, True], ids=["portable", "avx512"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    if request.param and not this_processor().avx512:
        pytest.skip("a processor without AVX-512")
    return _kernels(request.param)


@cache
def _kernels(avx512: bool) -> Kernels:
    """Those of all functions, compiled once in a process, in whatever order tests ask for them."""
    return compiled(((name, dtype, width) for name, dtype in CASES for width in WIDTHS[dtype]), avx512)


# ---- the exact values ------------------------------------------------------------------------------------------------
def _exact_pow(x: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf:
    if x > 0:
        return x**y
    return mpmath.power(x, int(y)) if mpmath.isint(y) else mpmath.nan


def _exact_log(log: Callable[[mpmath.mpf], mpmath.mpf], x: mpmath.mpf, pole: int) -> mpmath.mpf:
    if x > pole:
        return log(x)
    return -mpmath.inf if x == pole else mpmath.nan


def _exact_erfc(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(x) if abs(x) < 100 else mpmath.mpf(0 if x > 0 else 2)


def _exact_lgamma(x: mpmath.mpf) -> mpmath.mpf:
    """log |gamma x|; mpmath's own is complex for negative x."""
    if x > 0:
        return mpmath.loggamma(x)
    if mpmath.isint(x):
        return mpmath.inf
    return mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x)


def _exact_digamma(x: mpmath.mpf) -> mpmath.mpf:
    if x > 0:
        return mpmath.digamma(x)
    if mpmath.isint(x):
        return -mpmath.inf if x == 0 else mpmath.nan
    return mpmath.digamma(1 - x) - mpmath.pi * mpmath.cospi(x) / mpmath.sinpi(x)


EXACT: dict[str, Callable[..., mpmath.mpf]] = {
    "abs": abs,
    "acos": lambda x: mpmath.acos(x) if abs(x) <= 1 else mpmath.nan,
    "asin": lambda x: mpmath.asin(x) if abs(x) <= 1 else mpmath.nan,
    "atan": mpmath.atan,
    "atan2": mpmath.atan2,
    "ceil": mpmath.ceil,
    "cos": mpmath.cos,
    "cosh": mpmath.cosh,
    "digamma": _exact_digamma,
    "erf": lambda x: mpmath.erf(x) if abs(x) < 100 else mpmath.sign(x),
    "erfc": _exact_erfc,
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "floor": mpmath.floor,
    "lgamma": _exact_lgamma,
    "log": lambda x: _exact_log(mpmath.log, x, 0),
    "log1p": lambda x: _exact_log(mpmath.log1p, x, -1),
    "round": mpmath.nint,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x) if x > 0 else mpmath.nan if x < 0 else mpmath.inf,
    "sign": mpmath.sign,
    "sin": mpmath.sin,
    "sinh": mpmath.sinh,
    "sqrt": lambda x: mpmath.sqrt(x) if x >= 0 else mpmath.nan,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "maximum": max,
    "minimum": min,
    "pow": _exact_pow,
}


def _samples(name: str, dtype: str) -> list[Floats]:
    """Arguments without NaN, infinities and the special values of `test_special_values…`."""
    random = np.random.default_rng(len(name))
    count = 300
    float_ = DTYPES[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        word = np.uint64 if dtype == "f64" else np.uint32
        any_bits = random.integers(0, np.iinfo(word).max, count, dtype=word).view(float_)
        groups = [any_bits, 1.0 + random.normal(size=count) * 0.01]
        groups += [random.normal(size=count) * scale for scale in (1e-5, 0.3, 1.0, 10.0, 300.0, 1e5)]
        groups += [np.arange(1, 200) * (np.pi / 2), _thresholds(dtype), -_thresholds(dtype)]
        if name in SUBTRACTED or name in ("erf", "erfc"):  # where one formula takes over from another
            at = np.array([0.5, 1.0, 1.375, 1.4616321449683623, 2.0, 2.5, 3.5, 4.5, 5.0, 9.19, 26.5, 28.0])
            groups += [random.uniform(0.0, 6.0, 4 * count), random.uniform(-10.0, 30.0, count)]
            groups += [at * (1.0 + k * np.finfo(float_).eps) for k in (-1, 0, 1)]
            groups += [at + random.normal(size=(50, 1)) * scale for scale in (1e-2, 1e-5)]
        x = np.concatenate([g.astype(float_).ravel() for g in groups])
        if PRIMITIVES[name].arity == 1:
            return [x[np.isfinite(x) & ((x != 0) | (name not in ("digamma", "rsqrt")))]]
        y = random.permutation(x)
        if name == "pow":  # results over the whole range
            base = random.uniform(0.3, 3.0, 4 * count).astype(float_)
            bound = 750.0 if dtype == "f64" else 105.0
            exponent = (random.uniform(-bound, bound, base.size) / np.log(base)).astype(float_)
            whole = np.rint(random.normal(size=count) * 10.0).astype(float_)
            x = np.concatenate([x, base, random.normal(size=count).astype(float_)])
            y = np.concatenate([y, exponent, whole])
    usable = np.isfinite(x) & np.isfinite(y) & (x != 0)
    return [x[usable], y[usable]]


SUBTRACTED: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "lgamma": lambda x: mpmath.loggamma(-x),
    "digamma": lambda x: max(abs(mpmath.digamma(1 - x)), abs(mpmath.pi * mpmath.cospi(x) / mpmath.sinpi(x))),
}
"""What the function of a negative x is a difference of: the error is counted in units of that, and at least of 1."""


def _thresholds(dtype: str) -> Floats:
    """Where results overflow, become denormal or zero, where a formula changes, and the neighbours of each."""
    if dtype == "f64":
        at = [
            709.782712893384,
            708.3964185322641,
            745.1332191019412,
            744.4400719213812,
            710.4758600739439,
            36.7368,
            19.0615,
        ]
        at += [2.0**-54, 2.0**-27, 2.0**40, 2.0**53, 2.0**52 + 0.5, 1.7976931348623157e308, 2.2250738585072014e-308]
        at += [1e-310, 5e-324, 1e22, 2.0**1000, 0.34657359, 0.70710678118654752]
    else:
        at = [88.72283905206835, 87.33654475, 103.97207708, 103.27892990, 89.41598629, 16.6355, 9.01091, 2.0**-25]
        at += [2.0**-13, 2.0**17, 2.0**24, 2.0**22 + 0.5, 3.4028234663852886e38, 1.1754943508222875e-38, 1e-40]
        at += [1.401298464324817e-45, 1e22, 0.34657359, 0.70710678]
    centre = np.array([*at, 1.0, 0.5, 1.5, 2.5, 3.0, np.log(2.0), np.sqrt(2.0)]).astype(DTYPES[dtype])
    around = [centre]
    for direction in (INF, -INF):
        step = centre
        for _ in range(3):
            with np.errstate(over="ignore"):
                step = np.nextafter(step, DTYPES[dtype](direction))
            around.append(step)
    return np.concatenate(around)


@dataclass(frozen=True)
class Exact:
    """Exact values in units in the last place, as sums of two floats, and the binary exponents of these units.

    Beyond the largest number, a value counts as the power of two that comes next.
    """

    high: Floats
    low: Floats
    units: np.ndarray
    bound: int

    def errors(self, got: Floats) -> Floats:
        """Distances of numbers from the values, in the units; infinite where one is NaN and the other isn't."""
        numbers = got.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            limit = np.ldexp(1.0, self.bound - self.units)
            have = np.clip(np.ldexp(numbers, -self.units), -limit, limit)
            errors = np.abs((have - self.high) - self.low)
        both, one = np.isnan(numbers) & np.isnan(self.high), np.isnan(numbers) ^ np.isnan(self.high)
        return np.where(both, 0.0, np.where(one, INF, errors))


def _exactly(values: list[mpmath.mpf], dtype: str, scale: list[mpmath.mpf] | None = None) -> Exact:
    """Exact values to compare numbers with. The units are those of `scale` where it is larger."""
    info = np.finfo(DTYPES[dtype])
    bound = mpmath.mpf(2) ** int(info.maxexp)
    high, low, units = np.full(len(values), NAN), np.zeros(len(values)), np.zeros(len(values), np.int32)
    for k, value in enumerate(values):
        if mpmath.isnan(value):
            continue
        limited = max(-bound, min(bound, value))
        size = limited if scale is None else max(abs(limited), min(bound, scale[k]))
        exponent = min(mpmath.frexp(size)[1], int(info.maxexp)) if size else int(info.minexp)
        units[k] = max(int(exponent), int(info.minexp) + 1) - 1 - int(info.nmant)
        counted = mpmath.ldexp(limited, -int(units[k]))
        high[k] = float(counted)
        low[k] = float(counted - high[k])
    return Exact(high, low, units, int(info.maxexp))


@cache
def _exact_results(name: str, dtype: str) -> tuple[list[Floats], Exact]:
    """The samples of a function with its exact results, which are the same for every kernel of it."""
    args = _samples(name, dtype)
    with mpmath.workprec(PRECISION):
        points = zip(*([mpmath.mpf(v) for v in a.tolist()] for a in args), strict=True)
        exact = [EXACT[name](*point) for point in points]
        scale = None
        if name in SUBTRACTED:
            numbers = [mpmath.mpf(v) for v in args[0].tolist()]
            scale = [max(1, SUBTRACTED[name](x)) if x < 0 and not mpmath.isint(x) else mpmath.mpf(0) for x in numbers]
        return args, _exactly(exact, dtype, scale)


@pytest.mark.parametrize(("name", "dtype", "kernels"), EXACT_CASES, indirect=["kernels"])
def test_every_result_is_within_three_units_in_the_last_place(name: str, dtype: str, kernels: Kernels) -> None:
    args, exact = _exact_results(name, dtype)
    for width in WIDTHS[dtype]:
        errors = exact.errors(kernels(name, dtype, width, *args))
        worst = int(np.argmax(errors))
        assert errors[worst] <= LARGEST_ERROR, [float(a[worst]) for a in args]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_what_needs_no_approximation_is_rounded_correctly(name: str, dtype: str, kernels: Kernels) -> None:
    args = _samples(name, dtype)
    by_numpy = {"abs": np.abs, "round": np.rint}.get(name) or getattr(np, name)
    for width in WIDTHS[dtype]:
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(kernels(name, dtype, width, *args), by_numpy(*args))


# ---- special values --------------------------------------------------------------------------------------------------
TINY = 5e-324  # rounds to zero in f32, where the cases below hold as well
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "abs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN), (-1.5, 1.5)],
    "ceil": [(-0.5, -0.0), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "floor": [(-0.5, -1.0), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "round": [(0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "sign": [(0.0, 0.0), (-0.0, 0.0), (-INF, -1.0), (INF, 1.0), (NAN, NAN), (TINY, np.sign(TINY))],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (-1.0, NAN), (NAN, NAN), (4.0, 2.0)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, NAN), (-1.0, NAN), (NAN, NAN), (4.0, 0.5)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (1e300, INF), (-1e300, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN), (1e300, INF), (-1e300, -1.0)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN), (NAN, NAN), (1.0, np.pi / 2)],
    "acos": [(1.0, 0.0), (-1.0, np.pi), (0.0, np.pi / 2), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, np.pi / 2), (-INF, -np.pi / 2), (NAN, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-1e300, -INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN), (-1e300, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (1e300, 1.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (1e300, 1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (NAN, NAN), (1e300, 0.0)],
    "lgamma": [(0.0, INF), (-0.0, INF), (1.0, 0.0), (2.0, 0.0), (-1.0, INF), (-7.0, INF), (INF, INF), (-INF, INF)],
    "digamma": [(0.0, -INF), (-0.0, INF), (-1.0, NAN), (-7.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
}


def _same(got: Floats, want: Floats) -> bool:
    """Equal element by element, NaN with NaN and the signs of zeros included."""
    signs = np.signbit(got) == np.signbit(want)
    return bool(np.all((np.isnan(got) & np.isnan(want)) | ((got == want) & (signs | (want != 0)))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_are_those_of_ieee_754(name: str, dtype: str, kernels: Kernels) -> None:
    with np.errstate(over="ignore"):
        x, want = np.array(SPECIAL[name]).T.astype(DTYPES[dtype])
    if dtype == "f32" and name == "sign":
        want[x == 0] = 0.0
    for width in WIDTHS[dtype]:
        assert _same(kernels(name, dtype, width, x), want), width


@pytest.mark.parametrize("dtype", DTYPES)
def test_odd_functions_keep_the_least_denormal(dtype: str, kernels: Kernels) -> None:
    least = np.finfo(DTYPES[dtype]).smallest_subnormal
    x = np.array([least, -least])
    for name, width in product(("asin", "atan", "erf", "expm1", "log1p", "sin", "sinh", "tan", "tanh"), WIDTHS[dtype]):
        assert _same(kernels(name, dtype, width, x), x), (name, width)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pow_of_all_pairs_of_special_values_is_that_of_ieee_754(dtype: str, kernels: Kernels) -> None:
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 4.0, 2.5, -2.5, INF, -INF, NAN, 1e30, -1e30, 1e-40]
    pairs = np.array(list(product(values, values))).T.astype(DTYPES[dtype])
    with np.errstate(all="ignore"):
        want = np.power(*pairs.astype(np.longdouble)).astype(DTYPES[dtype])
    special = ~np.isfinite(want) | (want == 0) | (np.abs(want) == 1)
    assert special.sum() > 240
    for width in WIDTHS[dtype]:
        assert _same(kernels("pow", dtype, width, *pairs)[special], want[special]), width


@pytest.mark.parametrize("dtype", DTYPES)
def test_atan2_of_all_pairs_of_special_values_has_the_quadrant_of_ieee_754(dtype: str, kernels: Kernels) -> None:
    info = np.finfo(DTYPES[dtype])
    values = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, info.max, -info.max, info.smallest_subnormal, -info.tiny]
    y, x = (np.array(side, DTYPES[dtype]) for side in zip(*product(values, values), strict=True))
    want = np.arctan2(y, x)
    for width in WIDTHS[dtype]:
        got = kernels("atan2", dtype, width, y, x)
        np.testing.assert_array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))
        np.testing.assert_allclose(got, want, rtol=3 * info.eps, atol=0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_give_nan_if_either_argument_is(name: str, dtype: str, kernels: Kernels) -> None:
    values = [0.0, 1.0, -1.0, INF, -INF, NAN]
    x, y = (np.array(side, DTYPES[dtype]) for side in zip(*product(values, values), strict=True))
    for width in WIDTHS[dtype]:
        assert _same(kernels(name, dtype, width, x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reciprocal_of_a_root_is_as_near_as_a_root_and_a_quotient(dtype: str, kernels: Kernels) -> None:
    mantissas = np.linspace(1.0, 4.0, 1 << 16, endpoint=False).astype(DTYPES[dtype])
    with mpmath.workprec(PRECISION):
        exact = _exactly([EXACT["rsqrt"](mpmath.mpf(v)) for v in mantissas[::7].tolist()], dtype)
    for width in WIDTHS[dtype]:
        assert exact.errors(kernels("rsqrt", dtype, width, mantissas[::7])).max() <= 1.1


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_zero_under_a_root_leaves_its_neighbours_alone(dtype: str, kernels: Kernels) -> None:
    plain = np.linspace(0.5, 3.0, 64).astype(DTYPES[dtype])
    mixed = plain.copy()
    odd = [3, 17, 18, 40]
    mixed[odd] = [0.0, -1.0, INF, float(np.finfo(DTYPES[dtype]).smallest_subnormal)]
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = 1.0 / np.sqrt(mixed[odd])
    for width in WIDTHS[dtype]:
        got, alone = kernels("rsqrt", dtype, width, mixed), kernels("rsqrt", dtype, width, plain)
        assert _same(np.delete(got, odd), np.delete(alone, odd))
        assert _same(got[odd], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_huge_angle_among_small_ones_is_right_and_leaves_them_alone(dtype: str, kernels: Kernels) -> None:
    small = np.linspace(-3.0, 3.0, 64).astype(DTYPES[dtype])
    mixed = small.copy()
    mixed[[3, 17, 18, 40]] = [1e22, -3e30, 2.0**100, INF]
    for name, width in product(("sin", "cos", "tan"), WIDTHS[dtype]):
        got, alone = kernels(name, dtype, width, mixed), kernels(name, dtype, width, small)
        near = np.abs(mixed) < 4.0
        assert _same(got[near], alone[near])
        with mpmath.workprec(300):
            exact = _exactly([EXACT[name](mpmath.mpf(v)) for v in mixed[[3, 17, 18]].tolist()], dtype)
        assert exact.errors(got[[3, 17, 18]]).max() <= LARGEST_ERROR
        assert np.isnan(got[40])


# ---- the texts -------------------------------------------------------------------------------------------------------
def test_what_is_not_offered_is_none() -> None:
    assert routine("gamma", "f64", 4) is None
    assert routine("exp", "f16", 8) is None


def test_a_routine_is_one_function_named_after_its_dtype_and_width() -> None:
    found = routine("exp", "f64", 4)
    assert found is not None
    text = found.text
    assert found.symbol == "dl_exp_f64_v4"
    assert text.startswith("define internal <4 x double> @dl_exp_f64_v4(<4 x double> %x) alwaysinline nounwind")
    assert text.count("define") == 1 and "declare" not in text
    scalar = routine("pow", "f32", 1)
    assert scalar is not None
    assert scalar.text.startswith("define internal float @dl_pow_f32(float %x, float %y) ")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("sin", "cos", "tan", "rsqrt")])
def test_the_bodies_are_free_of_branches(name: str) -> None:
    found = routine(name, "f32", 8)
    assert found is not None
    assert "br " not in found.text


@pytest.mark.parametrize(("name", "dtype"), POLYNOMIALS)
def test_the_coefficients_are_those_of_the_documented_approximation(name: str, dtype: str) -> None:
    assert set(FITS) == {name for name, _ in POLYNOMIALS}
    assert POLYNOMIALS[name, dtype] == coefficients(name, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_pieces_of_erf_are_fitted_around_their_centres(dtype: str) -> None:
    steps = np.arange(16) * ERF_STEP[dtype]
    assert np.abs(np.array(ERF_CENTRES[dtype]) - steps).max() < 2.0**-10
    assert ERF_PIECES[dtype] == erf_pieces(dtype)


@pytest.mark.skipif(not this_processor().avx512, reason="a processor without AVX-512")
@pytest.mark.parametrize("dtype", DTYPES)
def test_instructions_of_avx512_give_the_same_bits_for_any_number_of_lanes(dtype: str) -> None:
    names, widths = ("exp", "log", "rsqrt", "erf"), (1, 2, 8, 16, 32)
    kernels = compiled(product(names, [dtype], widths), avx512=True)
    for name in names:
        x = np.concatenate([_samples(name, dtype)[0], np.array([0.0, -0.0, INF, -INF], DTYPES[dtype])])
        first, *others = [kernels(name, dtype, width, x) for width in widths]
        for other in others:
            np.testing.assert_array_equal(first, other)


def test_the_constants_are_sums_of_nearest_parts() -> None:
    for name, table in (("LN2", LN2), ("PI", PI)):
        value, count = CONSTANTS[name]
        assert table == {dtype: parts(value, dtype, count) for dtype in DTYPES}


# ---- sine and cosine of one angle ------------------------------------------------------------------------------------
BOTH = """
fn f(n.0: i64, x.1: f64[n.0]) -> (s.2: f64[n.0], c.3: f64[n.0]) {
  s.4: f64[n.0], c.5: f64[n.0] = comp i.6 in 0..n.0 {
    x.7: f64 = read x.1[i.6]
    s.8: f64 = sin(x.7)
    c.9: f64 = cos(x.7)
    yield s.8, c.9
  } to keep [n.0] [i.6] set, keep [n.0] [i.6] set
  yield s.4, c.5
}
"""


@pytest.mark.parametrize("dtype", DTYPES)
def test_sine_and_cosine_of_one_angle_are_one_routine_with_the_same_bits(dtype: str) -> None:
    both = read_program(BOTH.replace("f64", dtype))
    text = print_llvm(both, ["f"])
    assert "@dl_sincos_" in text and "@dl_sin_" not in text and "@dl_cos_" not in text
    (x,) = _samples("sin", dtype)
    compiled = Engine(Host(io.StringIO())).compile(both, ["f"])
    found = compiled.run("f", [x.size, x])
    for name, values in zip(("sin", "cos"), found, strict=True):
        other = "cos" if name == "sin" else "sin"
        alone = read_program(BOTH.replace("f64", dtype).replace(f"{other}(x.7)", "neg(x.7)"))
        assert f"@dl_{name}_" in print_llvm(alone, ["f"])
        expected = Engine(Host(io.StringIO())).compile(alone, ["f"]).run("f", [x.size, x])
        np.testing.assert_array_equal(values, expected[name == "cos"])
