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
them, estimate roots and look coefficients up in registers, on any number of lanes, so scalars and vectors
have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from dlang.codegen.llvm import exponentials, roots, special, trigonometry
from dlang.codegen.llvm.emitter import ATTRIBUTES, FORMATS, Emitter
from dlang.ops.primitives import PRIMITIVES, Approximation, Sequence

_MODULES = {m.__name__.rpartition(".")[2]: m for m in (exponentials, roots, special, trigonometry)}
_PATHS = {
    p.name: p.llvm.path if isinstance(p.llvm, Approximation) else p.llvm.routine
    for p in PRIMITIVES.values()
    if isinstance(p.llvm, Approximation) or (isinstance(p.llvm, Sequence) and p.llvm.routine)
}
FUNCTIONS: dict[str, int] = {name: PRIMITIVES[name].arity for name in _PATHS}
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
    module, _, function = _PATHS[name].partition(".")
    names = ("%x", "%y")[: FUNCTIONS[name]]
    result = getattr(_MODULES[module], function)(e, *names)
    return _complete(e, name, ", ".join([f"{e.type} {x}" for x in names]), e.type, result)


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
    function = routine(name, dtype, 1)
    return 0 if function is None else function.operations


def declarations(*routines: Routine) -> list[str]:
    """The `declare` lines for all that routines call, each once and in order; one module needs them once."""
    lines = {name: line for r in routines for name, line in r.declared.items()}
    return [lines[name] for name in sorted(lines)]
