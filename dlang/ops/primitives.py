"""The table of primitives: every total function of scalars, as data. A primitive is added here and nowhere else.

Type: `domain` is the class of dtypes of the arguments (all of one dtype unless `mixed` says otherwise); `result` is
`same` or a dtype. Derivative: for each argument the contribution to its cotangent, in the language's own terms, where
x, y, z are the arguments, r the result and g the cotangent; None where there is no derivative. Each is linear in g, so
forward mode uses the same text with g the tangent of that argument. `zero_safe_mul(c, d)` is the product of a cotangent
with a local derivative: 0 where c is 0, else c·d; differentiated in d it is a product of two factors each of which may
be a cotangent, `zero_safe_mul_both`, 0 where either is 0. Every product with g is one, so that it is known which factor
is what; `optimize/guards.py` makes plain products of those that need no guard. numpy: an expression over `np`,
`special` and `threefry`, x, y, z, w that works on arrays. llvm and cuda: names of routines in `codegen/`.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOAT, NUM, ORD, INT, WORD, BOOL, ANY = "Float", "Num", "Ord", "Int", "u64", "bool", "Any"


@dataclass(frozen=True, slots=True)
class Primitive:
    name: str
    arity: int
    domain: str
    result: str
    numpy: str
    derivative: tuple[str | None, ...]
    llvm: str
    cuda: str
    commutative: bool = False


def _one(name: str, domain: str, numpy: str, derivative: str | None, result: str = "same") -> Primitive:
    return Primitive(name, 1, domain, result, numpy, (derivative,), name, name)


def _two(
    name: str,
    domain: str,
    numpy: str,
    dx: str | None,
    dy: str | None,
    result: str = "same",
    commutative: bool = False,
) -> Primitive:
    return Primitive(name, 2, domain, result, numpy, (dx, dy), name, name, commutative)


def _random(name: str, word: int) -> Primitive:
    return Primitive(name, 4, WORD, "same", f"threefry(x, y, z, w)[{word}]", (None,) * 4, name, name)


def _trigamma() -> str:
    """The derivative of digamma at x, as a text that has derivatives itself.

    For y >= 1/2 the sum of 1 / (y + k)^2 for k < 10 and the asymptotic series at w = y + 10, of which what is left out
    is below 2^-52 of the whole; for x < 1/2 by reflection, pi^2 / sin(pi x)^2 less that at 1 - x.
    """
    y = "select(x < 0.5, 1.0 - x, x)"
    w = f"({y} + 10.0)"
    series = "0.0"
    for b in ("7.0 / 6.0", "-691.0 / 2730.0", "5.0 / 66.0", "-1.0 / 30.0", "1.0 / 42.0", "-1.0 / 30.0", "1.0 / 6.0"):
        series = f"({series} + ({b})) / ({w} * {w})"
    terms = [f"1.0 / (({y} + {k}.0) * ({y} + {k}.0))" for k in range(10)]
    positive = f"({' + '.join(terms)} + (1.0 + 0.5 / {w} + {series}) / {w})"
    sine = "sin(3.141592653589793 * (x - round(x)))"
    return f"select(x < 0.5, 9.869604401089358 / ({sine} * {sine}) - {positive}, {positive})"


_ROWS = (
    # arithmetic
    _two("add", NUM, "x + y", "g", "g", commutative=True),
    _two("sub", NUM, "x - y", "g", "-g"),
    _two("mul", NUM, "x * y", "zero_safe_mul(g, y)", "zero_safe_mul(g, x)", commutative=True),
    _two("div", FLOAT, "x / y", "zero_safe_mul(g, 1.0 / y)", "-zero_safe_mul(g, r / y)"),
    _two("zero_safe_mul", FLOAT, "np.where(x == 0, x, x * y)", "zero_safe_mul(g, y)", "zero_safe_mul_both(g, x)"),
    _two(
        "zero_safe_mul_both", FLOAT, "np.where(x == 0, x, np.where(y == 0, y, x * y))",
        "zero_safe_mul_both(g, y)", "zero_safe_mul_both(g, x)",
    ),
    _two("floordiv", NUM, "np.floor_divide(x, y)", None, None),
    _two("mod", NUM, "np.mod(x, y)", "g", "-zero_safe_mul(g, floor(x / y))"),
    _one("neg", NUM, "-x", "-g"),
    _one("abs", NUM, "np.abs(x)", "zero_safe_mul(g, sign(x))"),
    _one("sign", NUM, "np.sign(x)", None),
    # `pow` of two floats as IEEE 754 `pow`; of integers with a non-negative exponent; `powi` has an i64 exponent.
    _two(
        "pow",
        NUM,
        "np.power(x, y)",
        "zero_safe_mul(g, select(y == 0.0, 0.0, y * pow(x, y - 1.0)))",
        "zero_safe_mul(g, select(x == 0.0, 0.0, r * log(x)))",
    ),
    Primitive(
        "powi", 2, NUM, "same", "np.power(x, y)",
        ("zero_safe_mul(g, select(y == 0, 0.0, cast(y) * powi(x, y - 1)))", None), "powi", "powi",
    ),
    # Whether r is x is asked of x and r, so that y need not be kept; where both are the same, x has all of g.
    _two("maximum", NUM, "np.maximum(x, y)", "select(x >= r, g, 0.0)", "select(x >= r, 0.0, g)"),
    _two("minimum", NUM, "np.minimum(x, y)", "select(x <= r, g, 0.0)", "select(x <= r, 0.0, g)"),
    # analysis
    _one("exp", FLOAT, "np.exp(x)", "zero_safe_mul(g, r)"),
    _one("expm1", FLOAT, "np.expm1(x)", "zero_safe_mul(g, r + 1.0)"),
    _one("log", FLOAT, "np.log(x)", "zero_safe_mul(g, 1.0 / x)"),
    _one("log1p", FLOAT, "np.log1p(x)", "zero_safe_mul(g, 1.0 / (1.0 + x))"),
    _one("sqrt", FLOAT, "np.sqrt(x)", "zero_safe_mul(g, 0.5 / r)"),
    _one("rsqrt", FLOAT, "1.0 / np.sqrt(x)", "zero_safe_mul(g, -0.5 * (r * r * r))"),  # of 1.0 / sqrt(x); -1/2 x^-3/2
    _one("sin", FLOAT, "np.sin(x)", "zero_safe_mul(g, cos(x))"),
    _one("cos", FLOAT, "np.cos(x)", "-zero_safe_mul(g, sin(x))"),
    _one("tan", FLOAT, "np.tan(x)", "zero_safe_mul(g, 1.0 + r * r)"),
    _one("asin", FLOAT, "np.arcsin(x)", "zero_safe_mul(g, 1.0 / sqrt(1.0 - x * x))"),
    _one("acos", FLOAT, "np.arccos(x)", "-zero_safe_mul(g, 1.0 / sqrt(1.0 - x * x))"),
    _one("atan", FLOAT, "np.arctan(x)", "zero_safe_mul(g, 1.0 / (1.0 + x * x))"),
    _two(
        "atan2", FLOAT, "np.arctan2(x, y)",
        "zero_safe_mul(g, y / (x * x + y * y))", "-zero_safe_mul(g, x / (x * x + y * y))",
    ),
    _one("sinh", FLOAT, "np.sinh(x)", "zero_safe_mul(g, cosh(x))"),
    _one("cosh", FLOAT, "np.cosh(x)", "zero_safe_mul(g, sinh(x))"),
    _one("tanh", FLOAT, "np.tanh(x)", "zero_safe_mul(g, 1.0 - r * r)"),
    _one("erf", FLOAT, "special.erf(x)", "zero_safe_mul(g, 1.1283791670955126 * exp(-x * x))"),
    _one("erfc", FLOAT, "special.erfc(x)", "-zero_safe_mul(g, 1.1283791670955126 * exp(-x * x))"),
    _one("lgamma", FLOAT, "special.lgamma(x)", "zero_safe_mul(g, digamma(x))"),
    _one("digamma", FLOAT, "special.digamma(x)", f"zero_safe_mul(g, {_trigamma()})"),
    # rounding: no derivative
    _one("floor", FLOAT, "np.floor(x)", None),
    _one("ceil", FLOAT, "np.ceil(x)", None),
    _one("round", FLOAT, "np.rint(x)", None),
    # comparison, on numbers and strings; eq and ne also on truth values
    _two("eq", ANY, "x == y", None, None, "bool", True),
    _two("ne", ANY, "x != y", None, None, "bool", True),
    _two("lt", ORD, "x < y", None, None, "bool"),
    _two("le", ORD, "x <= y", None, None, "bool"),
    _two("gt", ORD, "x > y", None, None, "bool"),
    _two("ge", ORD, "x >= y", None, None, "bool"),
    _one("isnan", FLOAT, "np.isnan(x)", None, "bool"),
    _one("isfinite", FLOAT, "np.isfinite(x)", None, "bool"),
    # truth values; both sides are computed
    _two("and", BOOL, "np.logical_and(x, y)", None, None, "bool", True),
    _two("or", BOOL, "np.logical_or(x, y)", None, None, "bool", True),
    _one("not", BOOL, "np.logical_not(x)", None, "bool"),
    # select(c, a, b): c is bool, a and b of one dtype, which is the result's; both are computed
    Primitive(
        "select", 3, ANY, "last", "np.where(x, y, z)",
        (None, "select(x, g, 0.0)", "select(x, 0.0, g)"), "select", "select",
    ),
    # bits, on integers and (the first four) truth values
    _two("bit_and", ANY, "np.bitwise_and(x, y)", None, None, commutative=True),
    _two("bit_or", ANY, "np.bitwise_or(x, y)", None, None, commutative=True),
    _two("bit_xor", ANY, "np.bitwise_xor(x, y)", None, None, commutative=True),
    _one("bit_not", ANY, "np.bitwise_not(x)", None),
    _two("shift_left", INT, "np.left_shift(x, y)", None, None),
    _two("shift_right", INT, "np.right_shift(x, y)", None, None),
    # random bits: the words of `ops/threefry.py` for two words of key and two of counter, all u64
    _random("threefry", 0),
    _random("threefry_second", 1),
)  # fmt: skip

GUARDS = ("zero_safe_mul", "zero_safe_mul_both")
"""The products of derivatives."""

OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""For each comparison the one that holds of integers where it does not; of floats only for `eq` and `ne`, by NaN."""
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""For each order the one that holds of two numbers where it holds of them the other way round."""

GAPS = {"lt": (1, -1), "le": (1, 0), "gt": (-1, -1), "ge": (-1, 0)}
"""For each order of integers x and y the s and c of s·(y - x) + c, which is at least 0 where the order holds."""

PRIMITIVES: dict[str, Primitive] = {p.name: p for p in _ROWS}

HEAVY = frozenset(
    (
        "exp expm1 log log1p sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc lgamma digamma pow powi floordiv "
        "mod div threefry threefry_second"
    ).split()
)
"""The primitives that take as long as a few dozen additions."""
EXPENSIVE = frozenset(("div", "sqrt", "rsqrt"))
"""Those that are one instruction, and take as long as several."""


def result_dtype(name: str, dtypes: tuple[str, ...]) -> str:
    """The dtype that a primitive gives for arguments of these dtypes."""
    match PRIMITIVES[name].result:
        case "same":
            return dtypes[0]
        case "last":
            return dtypes[-1]
        case fixed:
            return fixed
