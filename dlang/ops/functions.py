"""The functions of the language that the compiler knows, beside those that are a primitive: a row for each.

A row has what every stage asks for but code. What a stage does for a function is keyed by its name there, and a test
asks for it: types that no signature can say are rules in `typecheck/builtins.py`, and the operations of the IR that a
function becomes are cases of `specialize/builtins.py`. A reduction that elements, a monoid and a last step describe
needs neither: its row is all. The tables of the manual are made from the rows (`make tables`).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from dlang.ops.dtypes import DTYPES
from dlang.ops.primitives import BOOL, FLOAT, NUM, ORD, WORDS


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of an array by a monoid.

    element: what is combined of each element x, in terms of primitives. result: what is made of that, r, and of the
    number n of elements.
    """

    monoid: str
    element: str = "x"
    result: str = "r"

    @property
    def plain(self) -> bool:
        """Tells whether it is the monoid itself."""
        return (self.element, self.result) == ("x", "r")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language.

    type: its type, without its name. about: what it gives, as the manual and editors say it.
    params: the names of its arguments where no type scheme has them, those that may be missing with a `?`; None where
    the type is a scheme that says all, or the arguments are any number by position.
    scheme: whether the type is a scheme.
    elements: the class of dtypes of the elements that it takes, with an axis; empty if they may be anything.
    axis: what happens to an axis that is named, if one can be.
    many: whether it takes more than two arrays.
    numbers: whether the elements that the scheme takes are scalars, where it does not say so.
    reduction: the reduction that it is, by a monoid.
    derives: whether it takes a function and gives its derivatives.
    positions: whether it gives positions in its argument. rearranges: whether its elements are those of its arguments.
    effect: the effect of a call.
    numpy: NumPy's function that lazy arrays do by this one.
    """

    name: str
    type: str
    about: str
    _: KW_ONLY
    params: tuple[str, ...] | None = None
    scheme: bool = False
    elements: str = ""
    axis: Literal["", "reduced", "kept", "joined"] = ""
    many: bool = False
    numbers: bool = False
    reduction: Reduction | None = None
    derives: bool = False
    positions: bool = False
    rearranges: bool = False
    effect: str = ""
    numpy: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """A function that a module of the standard library declares with its type, `extern "builtin:…"`.

    matrices: whether `specialize/builtins.py` makes operations of a library of it.
    """

    name: str
    effect: str = ""
    matrices: bool = False


# ---- families of rows ------------------------------------------------------------------------------------------------
_ALONG = "over all axes, or over `axis = k`, `axis = (j, k)`; with `keepdims = true` they stay"
_LEFT = "of no elements it is refused"


def _reduced(
    name: str, elements: str, reduction: Reduction, about: str, result: str = "a", numpy: str = ""
) -> Function:
    """A reduction of all elements, or along axes."""
    type = "(x: bool[..s]) -> bool" if elements == BOOL else f"<a: {elements}>(x: a[..s]) -> {result}"
    return Function(
        name, type, about, scheme=True, elements=elements, axis="reduced", reduction=reduction,
        positions=result == "i64", numpy=numpy or name,
    )  # fmt: skip


def _scheme(name: str, type: str, about: str, *, rearranges: bool = False, many: bool = False) -> Function:
    """A function whose type is a scheme."""
    return Function(name, type, about, scheme=True, rearranges=rearranges, many=many)


def _derivative(name: str, type: str, about: str) -> Function:
    return Function(name, type, about, derives=True)


_POSITION = "element, in row-major order; with one `axis` along it"

_ROWS = (
    _reduced("sum", NUM, Reduction("sum"), f"The sum, {_ALONG}."),
    _reduced("prod", NUM, Reduction("prod"), f"The product, {_ALONG}."),
    _reduced("max", ORD, Reduction("max"), f"The largest element, {_ALONG}; {_LEFT}."),
    _reduced("min", ORD, Reduction("min"), f"The smallest element, {_ALONG}; {_LEFT}."),
    _reduced("mean", FLOAT, Reduction("sum", result="r / n"), f"The mean, {_ALONG}."),
    Function(
        "logsumexp", "<a: Float>(x: a[..s]) -> a", f"log(sum(exp(x))) without overflow, {_ALONG}; -inf of nothing.",
        scheme=True, elements=FLOAT, axis="reduced",
    ),
    _reduced("any", BOOL, Reduction("any"), f"Whether any element is true, {_ALONG}."),
    _reduced("all", BOOL, Reduction("all"), f"Whether all elements are true, {_ALONG}."),
    _reduced("argmax", ORD, Reduction("argmax"), f"The position of the first largest {_POSITION}.", "i64"),
    _reduced("argmin", ORD, Reduction("argmin"), f"The position of the first smallest {_POSITION}.", "i64"),
    _scheme("len", "(x: a[n]) -> i64", "The size of the first axis."),
    Function(
        "transpose", "(x: a[n, m]) -> a[m, n]", "Rows as columns.", scheme=True, numbers=True, rearranges=True,
    ),
    Function(
        "reverse", "(x: a[n]) -> a[n]", "The elements from the last to the first, along the first axis or `axis = k`.",
        scheme=True, axis="kept", rearranges=True,
    ),
    Function(
        "concat", "(x: a[n], y: a[m]) -> a[n + m]",
        "Two or more arrays, one behind the other, along the first axis or `axis = k`.",
        scheme=True, axis="joined", many=True, rearranges=True,
    ),
    Function(
        "sort", "<a: Ord>(x: a[n]) -> a[n]",
        "The elements in ascending order; stable, NaN last; any rank with `axis = k`.",
        scheme=True, elements=ORD, axis="kept", rearranges=True, numpy="sort",
    ),
    Function(
        "argsort", "<a: Ord>(x: a[n]) -> i64[n]",
        "The positions of the elements in ascending order; stable, NaN last; any rank with `axis = k`.",
        scheme=True, elements=ORD, axis="kept", positions=True, numpy="argsort",
    ),
    Function(
        "cumsum", "<a: Num>(x: a[n]) -> a[n]", "Running sums; any rank with `axis = k`.",
        scheme=True, elements=NUM, axis="kept", numpy="cumsum",
    ),
    _scheme(
        "zip", "(x: a[n], y: b[n]) -> (a, b)[n]",
        "Pairs of the elements of arrays of one size; of more than two arrays tuples.", many=True,
    ),
    _scheme(
        "scan", "(f: (c, a) -> (c, b), init: c, x: a[n]) -> (c, b[n])", "The last state, and an output of each step.",
    ),
    Function("print", "(value: a) -> ()", "Writes a line of text.", scheme=True, effect="print"),
    _scheme("stop_gradient", "(x: a) -> a", "The value, without a derivative."),
    Function(
        "where", "(mask: bool[..s], x: a[..s], y: a[..s]) -> a[..s]",
        "`x` where the mask is true, else `y`; both are computed. The three broadcast.", params=("mask", "x", "y"),
    ),
    Function(
        "clip", "<a: Ord>(x: a[..s], low: a, high: a) -> a[..s]",
        "`minimum(maximum(x, low), high)`; the three broadcast.",
        params=("x", "low", "high"),
    ),
    Function(
        "zeros", "(n: size, m: size, …) -> a[n, m, …]",
        "An array of zeros, of the dtype that its use asks for, else `f64`.",
    ),
    Function(
        "ones", "(n: size, m: size, …) -> a[n, m, …]",
        "An array of ones, of the dtype that its use asks for, else `f64`.",
    ),
    Function("full", "(value: a, n: size, m: size, …) -> a[n, m, …]", "An array of one value."),
    Function(
        "reshape", "(x: a[..s], n: size, m: size, …) -> a[n, m, …]",
        "The same elements, in row-major order, in another shape.", rearranges=True,
    ),
    Function(
        "stack", "(x: a, y: a, …) -> a[k]", "Arrays of one shape along a new axis in front, or at `axis = k`.",
        axis="joined", rearranges=True,
    ),
    Function(
        "shape", "(x: a[n, m, …]) -> (i64, i64, …)",
        "The sizes of all axes: of a vector one `i64`, of a number `()`, else a tuple.", params=("x",),
    ),
    Function(
        "close", "(x: a, y: a, tol = 1e-9) -> bool", "Whether |x - y| ≤ tol · max(1, |x|, |y|) in every float.",
        params=("x", "y", "tol?"),
    ),
    Function(
        "map_floats", "<p: Vector>(f: f64 -> f64, x: p, …) -> p",
        "A function of the corresponding floats of values of one structure.",
    ),
    Function("sum_floats", "<p: Vector>(x: p) -> f64", "The sum of all floats of a structure.", params=("x",)),
    Function("fail", "(message: str) -> a", "Ends the run with a message.", params=("message",)),
    Function(
        "progress", "(x: a, title: str) -> a", "In the head of a `for`: the loop shows how far it is.", effect="io",
    ),
    _derivative(
        "grad", "(f: a -> f64, wrt = x) -> a -> a",
        "The gradient of a function with a float as result, in its first parameter or those that `wrt` names.",
    ),
    _derivative(
        "value_and_grad", "(f: a -> f64, wrt = x) -> a -> (f64, a)",
        "The value and the gradient, from one forward pass.",
    ),
    _derivative(
        "vjp", "(f: a -> b, x: a) -> (b, b -> a)",
        "The value, and the function that takes a cotangent of it back to one of `x`.",
    ),
    _derivative("jvp", "(f: a -> b, x: a, dx: a) -> (b, b)", "The value, and its derivative in a direction."),
    _derivative(
        "jacobian", "(f: f64[n] -> f64[m], wrt = x) -> f64[n] -> f64[m, n]",
        "The matrix of all derivatives; its shape is that of the result, then that of the parameter.",
    ),
    _derivative(
        "hessian", "(f: f64[n] -> f64, wrt = x) -> f64[n] -> f64[n, n]", "The matrix of all second derivatives.",
    ),
    _derivative(
        "checkpoint", "(f: a -> b) -> a -> b", "The function, recomputed in a backward pass instead of stored.",
    ),
)  # fmt: skip

_DECLARED = (
    *(
        Declared(name, matrices=True)
        for name in (
            "cholesky", "lu", "logdet_of", "det", "solve", "inverse", "triangular_solve", "qr", "svd", "eigh",
            "applied",
        )
    ),
    Declared("random_run"),
    *(Declared(f"random_{name}") for name in ("bits", "uniform", "normal")),
    *(Declared(f"read_{name}", "io") for name in ("value", "npz", "npy", "csv", "text", "exists", "clock")),
    *(Declared(f"write_{name}", "io") for name in ("value", "row", "npy", "csv", "text")),
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {f.name: f for f in _ROWS}
DECLARED: dict[str, Declared] = {d.name: d for d in _DECLARED}

SCHEMES: dict[str, str] = {
    **{name: w.signature for name, w in WORDS.items() if len(w.params) == 1},
    **{f.name: f.type for f in _ROWS if f.scheme},
}
"""The types of functions that a scheme can say."""
TYPES: dict[str, str] = {
    **{name: w.signature for name, w in WORDS.items()},
    **{f.name: f.type for f in _ROWS},
    **{name: f"(x) -> {name}" for name in sorted(DTYPES)},
}
"""The types of functions as people read them."""
PARAMETERS: dict[str, tuple[str, ...] | None] = {
    **{name: ("x", "y") for name, w in WORDS.items() if len(w.params) == 2},
    **{f.name: f.params for f in _ROWS if not f.scheme and not f.derives},
}
"""The names of the arguments of functions whose type a rule finds; None for any number by position."""
DERIVES = frozenset(f.name for f in _ROWS if f.derives)
"""The functions that give derivatives of a function."""
EFFECTS = {f.name: f.effect for f in _ROWS if f.effect} | {d.name: d.effect for d in _DECLARED if d.effect}
"""The effect of a call of each function that has one."""
REDUCED = frozenset(f.name for f in _ROWS if f.axis == "reduced")
KEPT = frozenset(f.name for f in _ROWS if f.axis == "kept")
JOINED = frozenset(f.name for f in _ROWS if f.axis == "joined")
MANY = frozenset(f.name for f in _ROWS if f.many)
POSITIONS = frozenset(f.name for f in _ROWS if f.positions)
REARRANGES = frozenset(f.name for f in _ROWS if f.rearranges)


def about(name: str) -> str:
    """Says what a function gives; empty if it is none that the compiler knows."""
    if name in WORDS:
        return WORDS[name].about
    if name in FUNCTIONS:
        return FUNCTIONS[name].about
    return DTYPES[name].about if name in DTYPES else ""
