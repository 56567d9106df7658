"""Signatures of builtin functions, where no type scheme can give them, and descriptions of their results."""

from __future__ import annotations

from dlang.ops.primitives import WORDS
from dlang.typecheck.builtins import SIGNATURES
from dlang.typecheck.types import DTYPES

# Functions whose types are decided by the compiler: what stands behind their name.
_FORMS: dict[str, str] = {
    **{name: w.signature for name, w in WORDS.items() if len(w.params) == 2},
    "where": "(mask: bool[..s], x: a[..s], y: a[..s]) -> a[..s]",
    "clip": "<a: Ord>(x: a[..s], low: a, high: a) -> a[..s]",
    **dict.fromkeys(("zeros", "ones"), "(n: size, m: size, …) -> a[n, m, …]"),
    "full": "(value: a, n: size, m: size, …) -> a[n, m, …]",
    "reshape": "(x: a[..s], n: size, m: size, …) -> a[n, m, …]",
    "stack": "(x: a, y: a, …) -> a[k]",
    "shape": "(x: a[n, m, …]) -> (i64, i64, …)",
    "close": "(x: a, y: a, tol = 1e-9) -> bool",
    "map_floats": "<p: Vector>(f: f64 -> f64, x: p, …) -> p",
    "sum_floats": "<p: Vector>(x: p) -> f64",
    "fail": "(message: str) -> a",
    "progress": "(x: a, title: str) -> a",
    "grad": "(f: a -> f64, wrt = x) -> a -> a",
    "value_and_grad": "(f: a -> f64, wrt = x) -> a -> (f64, a)",
    "vjp": "(f: a -> b, x: a) -> (b, b -> a)",
    "jvp": "(f: a -> b, x: a, dx: a) -> (b, b)",
    "jacobian": "(f: f64[n] -> f64[m], wrt = x) -> f64[n] -> f64[m, n]",
    "hessian": "(f: f64[n] -> f64, wrt = x) -> f64[n] -> f64[n, n]",
    "checkpoint": "(f: a -> b) -> a -> b",
    **{name: f"(x) -> {name}" for name in sorted(DTYPES)},
}

_ALONG = "over all axes, or over `axis = k`, `axis = (j, k)`; with `keepdims = true` they stay"
_WORDS: dict[str, str] = {
    **{name: w.about for name, w in WORDS.items()},
    "sum": f"The sum, {_ALONG}.",
    "prod": f"The product, {_ALONG}.",
    "max": f"The largest element, {_ALONG}.",
    "min": f"The smallest element, {_ALONG}.",
    "mean": f"The mean, {_ALONG}.",
    "logsumexp": f"log(sum(exp(x))) without overflow, {_ALONG}.",
    "any": f"Whether any element is true, {_ALONG}.",
    "all": f"Whether all elements are true, {_ALONG}.",
    "argmax": "The position of the first largest element, in row-major order; with `axis = k` along it.",
    "argmin": "The position of the first smallest element, in row-major order; with `axis = k` along it.",
    "clip": "`minimum(maximum(x, low), high)`.",
    "where": "`x` where the mask is true, else `y`; both are computed. The three broadcast.",
    "len": "The size of the first axis.",
    "shape": "The sizes of all axes: of a vector one number, else a tuple.",
    "transpose": "Rows as columns.",
    "reverse": "The elements from the last to the first, along the first axis or `axis = k`.",
    "concat": "One array behind the other, along the first axis or `axis = k`.",
    "stack": "Arrays of one shape along a new axis in front, or at `axis = k`.",
    "reshape": "The same elements, in row-major order, in another shape.",
    "sort": "The elements in ascending order; stable, NaN last; any rank with `axis = k`.",
    "argsort": "The positions of the elements in ascending order; stable, NaN last.",
    "cumsum": "Running sums; any rank with `axis = k`.",
    "zip": "Pairs of the elements of arrays of one size; tuples of more than two.",
    "scan": "The last state, and an output of each step.",
    "zeros": "An array of zeros, of the dtype that its use asks for, else `f64`.",
    "ones": "An array of ones, of the dtype that its use asks for, else `f64`.",
    "full": "An array of one value.",
    "close": "Whether |x - y| ≤ tol · max(1, |x|, |y|) in every float.",
    "map_floats": "A function of the corresponding floats of values of one structure.",
    "sum_floats": "The sum of all floats of a structure.",
    "print": "Writes a line of text.",
    "progress": "In the head of a `for`: the loop shows how far it is.",
    "fail": "Ends the run with a message.",
    "grad": "The gradient of a function with a float as result, in its first parameter or those that `wrt` names.",
    "value_and_grad": "The value and the gradient, from one forward pass.",
    "vjp": "The value, and the function that takes a cotangent of it back to one of `x`.",
    "jvp": "The value, and its derivative in a direction.",
    "jacobian": "The matrix of all derivatives; its shape is that of the result, then that of the parameter.",
    "hessian": "The matrix of all second derivatives.",
    "checkpoint": "The function, recomputed in a backward pass instead of stored.",
    "stop_gradient": "The value, without a derivative.",
    "bool": "Truth values: `true` and `false`.",
    "str": "Text, to print, to compare and for messages.",
}

_WORDS_OF_TYPES = {
    "size": "The type of a parameter that is a size: an `i64` that is not negative, which types may mention.",
    "Idx": "`Idx<n>` is an `i64` with 0 ≤ i < n: proven where it is asked for, or checked by `e as Idx<n>`.",
    "Num": "The dtypes of numbers, with `+`, `-` and `*`.",
    "Float": "The dtypes of floats.",
    "Int": "The dtypes of integers.",
    "Ord": "The dtypes whose values have an order.",
    "Eq": "The dtypes whose values can be compared.",
    "Vector": "Types that add up and scale: floats, arrays, tuples and structs of them.",
    "Bits": "Integers and `bool`.",
    "Scalar": "Numbers and `bool`.",
}


def signature(name: str) -> str | None:
    """Returns the signature of a builtin function without its name: `(x: a[n]) -> i64`."""
    return SIGNATURES.get(name) or _FORMS.get(name)


def words(name: str) -> str:
    """Describes its result."""
    if name in DTYPES and name not in _WORDS:
        kind = "float" if "f" in name else "unsigned integer" if name.startswith("u") else "integer"
        return f"The {kind} of {name.lstrip('bfiu')} bits; as a function, the conversion to it."
    return _WORDS.get(name) or _WORDS_OF_TYPES.get(name, "")
