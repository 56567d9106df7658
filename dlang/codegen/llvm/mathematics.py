"""Mathematical functions as branch-free LLVM text, for scalars and explicit vectors of f64 and f32.

`routine("exp", "f64", 4)` has the text of `define internal <4 x double> @dl_exp_f64_v4(<4 x double> %x)`, to be inlined
by the optimiser; `declarations` are the `declare` lines that a module with such texts needs, each once. Nothing here
is a library: the same text serves the JIT, objects compiled ahead of time, and any target with a fused multiply-add
(elsewhere `llvm.fma` is a slow call). Only sin, cos and tan of a huge argument, beyond 2^40 (2^17), leave for libm's.

Every function is within 3 units in the last place of the exact value over the whole range, denormals included (huge
angles: as near as libm is; negative arguments of `lgamma` and `digamma`: see `special.py`), and gives what IEEE 754 and
NumPy give for NaN, infinities and signed zeros. The bodies hold no fast-math flags and must not be given any: they rely
on the order of their operations. In the derivations u is 2^-53 for f64, 2^-24 for f32.

A call of libm could not be vectorised. Sine and cosine of one angle are one routine, and so is `1.0 / sqrt(x)`
(`roots.py`). Tests compare with arbitrary-precision arithmetic. With AVX-512 its instructions take floats apart, scale
them, estimate roots and look coefficients up in registers (`avx512.py`), on any number of lanes, so scalars and vectors
have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from dlang.codegen.llvm import exponentials, roots, special, trigonometry
from dlang.codegen.llvm.emitter import ATTRIBUTES, FORMATS, Emitter


# ---- rounding, order, sign: exact ------------------------------------------------------------------------------------
def _round(e: Emitter, x: str) -> str:
    """To the nearest, ties to even, as NumPy's rint."""
    return e.intrinsic("roundeven", x)


def _sign(e: Emitter, x: str) -> str:
    """1, -1, 0 for either zero, NaN for NaN."""
    signed = e.select(e.compare("olt", x, 0.0), -1.0, e.select(e.compare("oeq", x, 0.0), 0.0, x))
    return e.select(e.compare("ogt", x, 0.0), 1.0, signed)


def _maximum(e: Emitter, x: str, y: str) -> str:
    """The larger; NaN if either is. Of two zeros, y."""
    return _ordered(e, "ogt", x, y)


def _minimum(e: Emitter, x: str, y: str) -> str:
    """The smaller; NaN if either is. Of two zeros, y."""
    return _ordered(e, "olt", x, y)


def _ordered(e: Emitter, predicate: str, x: str, y: str) -> str:
    """x where the predicate holds or x is NaN, else y (which may be NaN): one instruction each on x86."""
    return e.select(e.compare("uno", x, 0.0), x, e.select(e.compare(predicate, x, y), x, y))


# ---- the table -------------------------------------------------------------------------------------------------------
_UNARY: dict[str, Callable[[Emitter, str], str]] = {
    "abs": lambda e, x: e.abs(x),
    "acos": trigonometry.acos,
    "asin": trigonometry.asin,
    "atan": trigonometry.atan,
    "ceil": lambda e, x: e.intrinsic("ceil", x),
    "cos": trigonometry.cos,
    "cosh": exponentials.cosh,
    "digamma": special.digamma,
    "erf": special.erf,
    "erfc": special.erfc,
    "exp": exponentials.exp,
    "expm1": exponentials.expm1,
    "floor": lambda e, x: e.intrinsic("floor", x),
    "lgamma": special.lgamma,
    "log": exponentials.log,
    "log1p": exponentials.log1p,
    "round": _round,
    "rsqrt": roots.rsqrt,
    "sign": _sign,
    "sin": trigonometry.sin,
    "sinh": exponentials.sinh,
    "sqrt": lambda e, x: e.intrinsic("sqrt", x),
    "tan": trigonometry.tan,
    "tanh": exponentials.tanh,
}
_BINARY: dict[str, Callable[[Emitter, str, str], str]] = {
    "atan2": trigonometry.atan2,
    "maximum": _maximum,
    "minimum": _minimum,
    "pow": exponentials.pow,
}

FUNCTIONS: dict[str, int] = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2)}
"""The names that `routine` knows, and how many arguments each takes."""


class Routine(NamedTuple):
    """A function as text.

    declared: what it calls, by name, as `declare` lines. operations: of floating-point numbers, that it does.
    """

    symbol: str
    result: str
    text: str
    declared: Mapping[str, str]
    operations: int


@cache
def routine(name: str, dtype: str, width: int, avx512: bool = False) -> Routine | None:
    """A function on `width` lanes of a dtype (1: a plain scalar), or None if it is not offered.

    Its parameters and result are `double` or `float`, or vectors `<width x …>` of these. avx512: with instructions of
    AVX-512, the same for each number of lanes.
    """
    if name not in FUNCTIONS or dtype not in FORMATS:
        return None
    e = Emitter(dtype, width, avx512=avx512)
    match FUNCTIONS[name]:
        case 1:
            result, params = _UNARY[name](e, "%x"), f"{e.type} %x"
        case _:
            result, params = _BINARY[name](e, "%x", "%y"), f"{e.type} %x, {e.type} %y"
    return _complete(e, name, params, e.type, result)


@cache
def circle(dtype: str, width: int) -> Routine | None:
    """The function that gives sine and cosine of an angle; None if it is not offered."""
    if dtype not in FORMATS:
        return None
    e = Emitter(dtype, width)
    sine, cosine = trigonometry.sine_and_cosine(e, "%x")
    pair = f"{{ {e.type}, {e.type} }}"
    one = e.instruction(f"insertvalue {pair} poison, {e.type} {sine}, 0")
    both = e.instruction(f"insertvalue {pair} {one}, {e.type} {cosine}, 1")
    return _complete(e, "sincos", f"{e.type} %x", pair, both)


def _complete(e: Emitter, name: str, params: str, type: str, result: str) -> Routine:
    """The function of the instructions that have been collected."""
    symbol = f"dl_{name}_{e.dtype}" + ("" if e.width == 1 else f"_v{e.width}")
    head = f"define internal {type} @{symbol}({params}) alwaysinline {ATTRIBUTES}"
    body = "\n".join(e.lines)
    text = f"{head} {{\nentry:\n{body}\n  ret {type} {result}\n}}\n"
    return Routine(symbol, type, text, e.declared, e.counts.total())


def operations(name: str, dtype: str) -> int:
    """How many operations of floating-point numbers a function is; 0 if it is not offered."""
    found = routine(name, dtype, 1)
    return 0 if found is None else found.operations


def declarations(*routines: Routine) -> list[str]:
    """The `declare` lines for all that routines call, each once and in order; one module needs them once."""
    found = {name: line for r in routines for name, line in r.declared.items()}
    return [found[name] for name in sorted(found)]
