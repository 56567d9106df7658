"""Scalars that carry derivatives: tagged dual numbers, and values recorded on a tape.

This is the reference for derivatives. It shares nothing with `ad/`: every derivative in progress has a tag of its own,
and a scalar under it is a `Dual` (forward) or `Recorded` (reverse) of that tag, whose value may belong to a derivative
further out. An operation looks at the innermost tag among its arguments, does itself on the values below, and adds the
rule for that tag; the rule is arithmetic on such scalars again, so derivatives nest to any order and can't be confused.

Tangents and cotangents are f64 whatever the dtype of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np

from dlang.ir.anf import FLOATS
from dlang.ir.values import FUNCTIONS, NDArray, convert, exact
from dlang.ops.primitives import PRIMITIVES

ZERO, ONE = np.float64(0.0), np.float64(1.0)


class NoDerivative(Exception):
    """A derivative would pass through something that the reference can't differentiate."""


class Traced:
    """A scalar under a derivative. Operators are those of f64."""

    __slots__ = ("tag", "value")
    __array_ufunc__ = None  # so that a NumPy scalar on the left leaves the operation to this class

    def __init__(self, tag: int, value: Any) -> None:
        self.tag = tag
        self.value = value

    def __add__(self, other: Any) -> Any:
        return f64("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return f64("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return f64("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return f64("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return f64("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return f64("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return f64("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return f64("div", other, self)

    def __neg__(self) -> Any:
        return f64("neg", self)


class Dual(Traced):
    """A value and its tangent."""

    __slots__ = ("tangent",)

    def __init__(self, tag: int, value: Any, tangent: Any) -> None:
        super().__init__(tag, value)
        self.tangent = tangent


class Recorded(Traced):
    """A value and its place on a tape."""

    __slots__ = ("place", "tape")

    def __init__(self, tag: int, value: Any, tape: Tape, place: int) -> None:
        super().__init__(tag, value)
        self.tape = tape
        self.place = place


@dataclass(slots=True)
class Tape:
    """For each recorded value, where its arguments are, the local derivative in each, and what a product with it is."""

    tag: int
    entries: list[list[tuple[int, Any, str]]]

    def record(self, value: Any, sources: list[tuple[int, Any, str]]) -> Recorded:
        self.entries.append(sources)
        return Recorded(self.tag, value, self, len(self.entries) - 1)

    def cotangents(self, seeds: Sequence[tuple[Any, Any]]) -> dict[int, Any]:
        """The cotangent at each place, from (value, cotangent) of the results. What has none is not in it."""
        bars: dict[int, Any] = {}
        for value, bar in seeds:
            if isinstance(value, Recorded) and value.tag == self.tag:
                bars[value.place] = bars.get(value.place, ZERO) + bar
        for place in range(len(self.entries) - 1, -1, -1):
            bar = bars.get(place)
            if bar is not None:
                for source, slope, times in self.entries[place]:
                    bars[source] = bars.get(source, ZERO) + f64(times, bar, slope)
        return bars


@dataclass(frozen=True, slots=True)
class Recording:
    """The value that `VjpForward` binds as the tape: the tape, and the traced arguments and results of the call."""

    tape: Tape
    args: tuple[Any, ...]
    results: tuple[Any, ...]


# ---- operations ------------------------------------------------------------------------------------------------------
def apply(name: str, args: Sequence[Any], dtype: str) -> Any:
    """A primitive on scalars, traced or not, with a result of a dtype."""
    tag = 0
    for a in args:
        if isinstance(a, Traced) and a.tag > tag:
            tag = a.tag
    if not tag:
        return exact(FUNCTIONS[name](*args), dtype)
    if name == "select":
        return args[1] if args[0] else args[2]
    below = [a.value if isinstance(a, Traced) and a.tag == tag else a for a in args]
    result = apply(name, below, dtype)
    slopes = SLOPES.get(name)
    if slopes is None or dtype not in FLOATS:
        return result
    wide = [*map(widened, below), widened(result)]
    known = [
        (a, slope(*wide), product_with(name, k))
        for k, (a, slope) in enumerate(zip(args, slopes, strict=True))
        if slope is not None and isinstance(a, Traced) and a.tag == tag
    ]
    return followed(result, [(a, d, times) for a, d, times in known if d is not None])


def product_with(name: str, position: int) -> str:
    """The product of a cotangent with the local derivative of a primitive in the argument at a position."""
    second = name == "zero_safe_mul" and position == 1
    return "zero_safe_mul_both" if second or name == "zero_safe_mul_both" else "zero_safe_mul"


def followed(result: Any, terms: Sequence[tuple[Any, Any, str]]) -> Any:
    """A result that depends on traced scalars of one tag with these local derivatives, and what a product with each is.

    It is `zero_safe_mul`, 0 where the cotangent is; or `zero_safe_mul_both`, where the local derivative is a cotangent
    too.
    """
    if not terms:
        return result
    first = terms[0][0]
    if isinstance(first, Recorded):
        return first.tape.record(result, [(a.place, slope, times) for a, slope, times in terms])
    tangent: Any = ZERO
    for a, slope, times in terms:
        tangent = tangent + f64(times, a.tangent, slope)
    return Dual(first.tag, result, tangent)


def f64(name: str, *args: Any) -> Any:
    """A primitive of f64."""
    return apply(name, args, "f64")


def cast(x: Any, source: str, target: str) -> Any:
    """Conversion of a scalar: between floats the derivative passes, through anything else it ends."""
    if not isinstance(x, Traced):
        return convert(x, source, target)
    if source in FLOATS and target in FLOATS:
        return over(x, cast(x.value, source, target))
    return cast(x.value, source, target)


def over(x: Traced, value: Any) -> Traced:
    """Another value with the derivative of x."""
    if isinstance(x, Dual):
        return Dual(x.tag, value, x.tangent)
    assert isinstance(x, Recorded)
    return Recorded(x.tag, value, x.tape, x.place)


def widened(x: Any) -> Any:
    """A number as f64."""
    return over(x, widened(x.value)) if isinstance(x, Traced) else np.float64(x)


def primal(x: Any) -> Any:
    """The number itself, without derivatives of any tag."""
    while isinstance(x, Traced):
        x = x.value
    return x


def is_float(x: Any) -> bool:
    if isinstance(x, Recording):
        raise NoDerivative("a function that a `vjp` gave")
    return isinstance(primal(x), np.floating)


def below(x: Any, tag: int) -> Any:
    """A scalar without the derivatives of a tag."""
    return x.value if isinstance(x, Traced) and x.tag == tag else x


def tangent(x: Any, tag: int) -> Any:
    """The tangent of a scalar; what carries none is itself."""
    if isinstance(x, Dual) and x.tag == tag:
        return rounded(x.tangent, primal(x))
    return rounded(ZERO, x) if is_float(x) else x


def rounded(bar: Any, like: Any) -> Any:
    """A tangent in the dtype of its value."""
    kind = {np.float64: "f64", np.float32: "f32", np.float16: "f16"}[type(primal(like))]
    return bar if kind == "f64" else cast(bar, "f64", kind)


# ---- the derivatives of primitives, in f64 ---------------------------------------------------------------------------
def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    total: Any = ZERO
    for c in reversed(coefficients):
        total = total * x + np.float64(c)
    return total


def trigamma(x: Any) -> Any:
    """The second derivative of log Γ: by reflection and recurrence to arguments above 15, there asymptotically."""
    if primal(x) < 0.5:
        s = f64("sin", np.float64(pi) * x)
        return np.float64(pi * pi) / (s * s) - trigamma(ONE - x)
    total: Any = ZERO
    while primal(x) < 15.0:
        total = total + ONE / (x * x)
        x = x + ONE
    inverse = ONE / x
    tail = _polynomial([1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66], inverse * inverse)
    return total + inverse + inverse * inverse / np.float64(2.0) + tail * inverse * inverse * inverse


def _bell(x: Any) -> Any:
    return np.float64(2 / sqrt(pi)) * f64("exp", -(x * x))


Slope = Callable[..., Any]


def _slope(text: str, arity: int) -> Slope:
    """A text of the table as a function of the arguments and the result."""
    function: Slope = eval(f"lambda {', '.join('xyz'[:arity])}, r: {text}", _NAMES)
    return function


_NAMES = {
    **{name: partial(f64, name) for name in PRIMITIVES},
    "ZERO": ZERO, "HALF": np.float64(0.5), "ONE": ONE, "primal": primal, "bell": _bell, "trigamma": trigamma,
}  # fmt: skip
SLOPES: Mapping[str, tuple[Slope | None, ...]] = {
    p.name: tuple(None if text is None else _slope(text, p.arity) for text in p.slope)
    for p in PRIMITIVES.values()
    if any(p.slope)
}


# ---- linear algebra --------------------------------------------------------------------------------------------------
# The library operations on traced scalars, by textbook algorithms: for derivatives, on small matrices.
#
# Each takes the arguments and the values that the library gave for them, which decide what an algorithm could choose
# otherwise (signs of vectors), and gives results with derivatives.

Results = list[Any]
SWEEPS, AFTERWARDS = 30, 3  # of Jacobi's method: at most, and after the values have converged, for derivatives


def _wide(matrix: NDArray) -> NDArray:
    out = np.empty(matrix.shape, object)
    for at in np.ndindex(matrix.shape):
        out[at] = widened(matrix[at])
    return out


def _eye(n: int) -> NDArray:
    out = np.empty((n, n), object)
    for i, j in np.ndindex(n, n):
        out[i, j] = ONE if i == j else ZERO
    return out


def _dot(x: NDArray, y: NDArray) -> Any:
    total: Any = ZERO
    for a, b in zip(x, y, strict=True):
        total = total + a * b
    return total


def _times(c: Any, x: NDArray) -> NDArray:
    out = np.empty(len(x), object)
    for k, a in enumerate(x):
        out[k] = c * a
    return out


def _product(a: NDArray, b: NDArray) -> NDArray:
    out = np.empty((a.shape[0], b.shape[1]), object)
    for i, j in np.ndindex(out.shape):
        out[i, j] = _dot(a[i], b[:, j])
    return out


def _rounded(result: NDArray, like: NDArray) -> NDArray:
    """In the dtype of what the library gave. Derivatives are f64 in any case."""
    kind = {np.float64: "f64", np.float32: "f32"}
    out = np.empty(result.shape, object)
    for at in np.ndindex(result.shape):
        x, dtype = result[at], kind[type(like[at])]
        out[at] = over(x, cast(x.value, "f64", dtype)) if isinstance(x, Traced) else cast(x, "f64", dtype)
    return out


def cholesky(args: Results, values: Results) -> Results:
    a = _wide(args[0])
    n = len(a)
    out = _eye(n)
    for i in range(n):
        for j in range(i + 1):
            remainder = a[i, j] - _dot(out[i, :j], out[j, :j])
            out[i, j] = f64("sqrt", remainder) if i == j else remainder / out[j, j]
        out[i, i + 1 :] = [ZERO] * (n - i - 1)
    return [_rounded(out, values[0]), values[1]]


def _eliminated(a: NDArray, order: NDArray) -> NDArray:
    """l and u of the rows of a matrix in an order, packed."""
    out = a[_whole(order)].copy()
    n = len(out)
    for k in range(n):
        for i in range(k + 1, n):
            out[i, k] = out[i, k] / out[k, k]
            for j in range(k + 1, n):
                out[i, j] = out[i, j] - out[i, k] * out[k, j]
    return out


def lu(args: Results, values: Results) -> Results:
    return [_rounded(_eliminated(_wide(args[0]), values[1]), values[0]), *values[1:]]


def lu_det(args: Results, values: Results) -> Results:
    """By Laplace's expansion: a polynomial, so singular matrices are no exception."""
    out = np.empty(1, object)
    out[0] = _laplace(_wide(args[0]))
    like = np.empty(1, object)
    like[0] = values[0]
    return [_rounded(out, like)[0]]


def _laplace(a: NDArray) -> Any:
    if not len(a):
        return ONE
    total: Any = ZERO
    for k in range(len(a)):
        term = a[0, k] * _laplace(np.delete(a[1:], k, axis=1))
        total = total + term if k % 2 == 0 else total - term
    return total


def lu_logdet(args: Results, values: Results) -> Results:
    packed = _eliminated(_wide(args[0]), args[2])
    total: Any = ZERO
    for k in range(len(packed)):
        total = total + f64("log", f64("abs", packed[k, k]))
    out, like = np.empty(1, object), np.empty(1, object)
    out[0], like[0] = total, values[0]
    return [_rounded(out, like)[0]]


def lu_solve(args: Results, values: Results) -> Results:
    a, _, order, b = args
    packed = _eliminated(_wide(a), order)
    below = _substituted(packed, _wide(b)[_whole(order)], lower=True, unit=True)
    return [_rounded(_substituted(packed, below, lower=False, unit=False), values[0])]


def lu_solve_transposed(args: Results, values: Results) -> Results:
    a, _, order, b = args
    packed = _eliminated(_wide(a), order)
    above = _substituted(packed.T, _wide(b), lower=True, unit=False)
    out = above.copy()
    out[_whole(order)] = _substituted(packed.T, above, lower=False, unit=True)
    return [_rounded(out, values[0])]


def lu_inverse(args: Results, values: Results) -> Results:
    return lu_solve([*args, _eye(len(args[0]))], values)


def _whole(order: NDArray) -> list[int]:
    return [int(k) for k in order]


def triangular_solve(args: Results, values: Results) -> Results:
    a, b, lower, transposed, unit = args
    a = _wide(a).T if transposed else _wide(a)
    return [_rounded(_substituted(a, _wide(b), bool(lower) != bool(transposed), bool(unit)), values[0]), values[1]]


def _substituted(a: NDArray, b: NDArray, lower: bool, unit: bool) -> NDArray:
    out = b.copy()
    n = len(a)
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        for j in range(b.shape[1]):
            remainder = b[i, j] - _dot(a[i, known], out[known, j])
            out[i, j] = remainder if unit else remainder / a[i, i]
    return out


def qr(args: Results, values: Results) -> Results:
    """By Gram and Schmidt on the first k columns, twice for accuracy."""
    a = _wide(args[0])
    k, n = values[1].shape
    q = np.empty((len(a), k), object)
    for j in range(k):
        v = a[:, j]
        for _ in range(2):
            for i in range(j):
                v = v - _times(_dot(q[:, i], v), q[:, i])
        sign = np.float64(-1.0 if primal(values[1][j, j]) < 0 else 1.0)
        q[:, j] = _times(sign / f64("sqrt", _dot(v, v)), v)
    r = _product(q.T, a)
    for i, j in np.ndindex(k, n):
        r[i, j] = r[i, j] if i <= j else ZERO
    return [_rounded(q, values[0]), _rounded(r, values[1])]


def eigh(args: Results, values: Results) -> Results:
    a = _wide(args[0])
    n = len(a)
    for i, j in np.ndindex(n, n):
        a[i, j] = a[max(i, j), min(i, j)]
    w, v = _jacobi(a)
    order = np.argsort([float(primal(x)) for x in w], kind="stable")
    w, v = w[order], v[:, order]
    return [_rounded(w, values[0]), _rounded(_signed(v, values[1]), values[1]), values[2]]


def svd(args: Results, values: Results) -> Results:
    """From the eigenvectors of the smaller of aᵀa and aaᵀ: singular values must not be zero."""
    a = _wide(args[0])
    wide = a.shape[0] < a.shape[1]
    a = a.T if wide else a
    w, v = _jacobi(_product(a.T, a))
    order = np.argsort([-float(primal(x)) for x in w], kind="stable")
    w, v = w[order], v[:, order]
    v = _signed(v, values[0] if wide else values[2].T)
    s = np.empty(len(w), object)
    u = _product(a, v)
    for j in range(len(w)):
        s[j] = f64("sqrt", w[j])
        u[:, j] = _times(ONE / s[j], u[:, j])
    left, right = (v, u.T) if wide else (u, v.T)
    return [_rounded(left, values[0]), _rounded(s, values[1]), _rounded(right, values[2]), values[3]]


def _jacobi(a: NDArray) -> tuple[NDArray, NDArray]:
    """Eigenvalues and eigenvectors (as columns) of a symmetric matrix with different eigenvalues."""
    n = len(a)
    a, v = a.copy(), _eye(n)
    converged = 0
    for _ in range(SWEEPS if n > 1 else 0):
        for p in range(n):
            for q in range(p + 1, n):
                gap = a[q, q] - a[p, p]
                if primal(gap) == 0 and primal(a[p, q]) == 0:
                    continue
                if abs(primal(gap)) >= abs(primal(a[p, q])):
                    angle = np.float64(0.5) * f64("atan", np.float64(2.0) * a[p, q] / gap)
                else:
                    sign = np.float64(1.0 if primal(a[p, q]) > 0 else -1.0)
                    quarter = sign * np.float64(np.pi / 4)
                    angle = quarter - np.float64(0.5) * f64("atan", gap / (np.float64(2.0) * a[p, q]))
                c, s = f64("cos", angle), f64("sin", angle)
                for m in (a, a.T, v):  # columns of a, then its rows, then columns of v
                    x, y = m[:, p].copy(), m[:, q].copy()
                    m[:, p], m[:, q] = _times(c, x) - _times(s, y), _times(s, x) + _times(c, y)
        off = max(abs(float(primal(a[i, j]))) for i in range(n) for j in range(i))
        converged += off <= 1e-15 * max(abs(float(primal(a[i, i]))) for i in range(n))
        if converged > AFTERWARDS:
            break
    w = np.empty(n, object)
    for k in range(n):
        w[k] = a[k, k]
    return w, v


def _signed(v: NDArray, like: NDArray) -> NDArray:
    """The columns with the signs of those that the library gave."""
    out = v.copy()
    for j in range(v.shape[1]):
        if sum(float(primal(x)) * float(primal(y)) for x, y in zip(v[:, j], like[:, j], strict=True)) < 0:
            out[:, j] = [-x for x in v[:, j]]
    return out


OPERATIONS: Mapping[str, Callable[[Results, Results], Results]] = {
    "cholesky": cholesky,
    "lu": lu,
    "lu_solve": lu_solve,
    "lu_solve_transposed": lu_solve_transposed,
    "lu_inverse": lu_inverse,
    "lu_det": lu_det,
    "lu_logdet": lu_logdet,
    "triangular_solve": triangular_solve,
    "qr": qr,
    "eigh": eigh,
    "svd": svd,
}
