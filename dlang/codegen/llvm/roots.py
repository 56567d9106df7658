"""The reciprocal of a square root, for `mathematics.py`: the same promises, u and notation as there."""

from __future__ import annotations

from dlang.codegen.llvm import emitter
from dlang.codegen.llvm.emitter import Emitter

# An integer from which half of the bits of x is taken: what is left are the bits of a number within 3.5% of 1 / sqrt(x)
# (Lomont 2003, Fast inverse square root).
_MAGIC = {"f64": 0x5FE6EB50C7B537A9, "f32": 0x5F375A86}
# ((1 - e)^(-1/2) - 1) / e for the e that this leaves, -0.0692 < e < 0.0676, lowest power first: within 2^-19.9 (2^-30)
# of the whole.
_FIRST = {
    "f64": (0.5000006595678711, 0.37605931576997537, 0.3129005209978636),
    "f32": (0.4999999981110873, 0.37499787702331666, 0.31250125009326746, 0.27490737813883614, 0.24664518752500614),
}
# The same series from its start, where |e| < 2^-13: within 2^-53.8 (2^-27.4).
_SECOND = {"f64": (0.5, 0.375, 0.3125, 0.2734375), "f32": (0.5,)}


def rsqrt(e: Emitter, x: str) -> str:
    """1 / sqrt(x): y + y e (1/2 + …) for an estimate y and e = 1 - x y². Error < 1.1 ulp."""
    return _from_instruction(e, x) if e.avx512 else _from_bits(e, x)


def _from_instruction(e: Emitter, x: str) -> str:
    """Refines an estimate within 2^-14, which is the result where e is NaN: for zeros, inf, and negative numbers."""
    y = emitter.rough_rsqrt(e, x)
    better = _better(e, x, y, _SECOND[e.dtype])
    return e.select(e.compare("uno", better, better), y, better)


def _from_bits(e: Emitter, x: str) -> str:
    """Refines an estimate from the bits of x, for f64 in two steps.

    Of numbers that are not normal, of zeros, infinities, and what is negative it is the quotient: one branch, which is
    almost never taken. A division and a square root in vectors take six times as long.
    """
    f = e.format
    above = e.integer("sub", e.bits(x), f.pattern(f.least_normal))
    limit = e.whole(f.pattern(float("inf")) - f.pattern(f.least_normal))
    normal = e.instruction(f"icmp ult {e.int_type} {above}, {limit}")
    guess = e.integer("sub", e.whole(_MAGIC[e.dtype]), e.integer("lshr", e.bits(x), 1))
    y = _better(e, x, e.float_of_bits(guess), _FIRST[e.dtype])
    if f.bits == 64:
        y = _better(e, x, y, (0.5, 0.375))
    every = normal
    if e.width > 1:
        every = e.call("i1", f"llvm.vector.reduce.and.v{e.width}i1", (e.lanes("i1"), normal))
    e.lines.extend((f"  br i1 {every}, label %done, label %rare", "rare:"))
    chosen = e.select(normal, y, e.div(1.0, e.intrinsic("sqrt", x)))
    e.lines.extend(("  br label %done", "done:"))
    return e.instruction(f"phi {e.type} [ {y}, %entry ], [ {chosen}, %rare ]")


def _better(e: Emitter, x: str, y: str, series: tuple[float, ...]) -> str:
    """y (1 - e)^(-1/2), where 1 - e = x y²."""
    missing = e.fnma(e.mul(x, y), y, 1.0)
    factor: str | float = series[-1]
    for coefficient in series[-2::-1]:
        factor = e.fma(factor, missing, coefficient)
    return e.fma(e.mul(y, missing), factor, y)
