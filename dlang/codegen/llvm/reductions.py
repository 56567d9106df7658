"""Reductions: the accumulators of a loop in registers, for each lane, and those of all lanes as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dlang.codegen.llvm.scalars import LLVM, Scalars, constant, register_type
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Reduction
from dlang.codegen.nests import identity
from dlang.ir.anf import FLOATS, Var
from dlang.ir.types import dtype_of
from dlang.ops.dtypes import register_dtype
from dlang.ops.monoids import EXTREMA, MONOIDS, ROUNDED


def _identity(r: Reduction, dtype: str) -> int | float | bool:
    value = identity(EXTREMA.get(r.monoid, r.monoid), dtype).value
    assert not isinstance(value, str)
    return value


def first_totals(w: Writer, reductions: Sequence[Reduction]) -> list[str]:
    """The first values of accumulators: for each reduction its identity, for a position -1 too."""
    out = []
    for r in reductions:
        dtype = dtype_of(r.result)
        out.append(constant(_identity(r, dtype), dtype, w.width()))
        if r.position is not None:
            out.append(constant(-1, "i64", w.width()))
    return out


def accumulator_types(w: Writer, reductions: Sequence[Reduction]) -> list[str]:
    out = []
    for r in reductions:
        out.append(register_type(dtype_of(r.result), w.width()))
        if r.position is not None:
            out.append(register_type("i64", w.width()))
    return out


def accumulate(w: Writer, reductions: Sequence[Reduction], totals: Sequence[str], masked: bool = False) -> list[str]:
    """The accumulators with this iteration's values; if masked, only those of lanes in use."""
    mask = w.lane.mask if masked and w.lane is not None else None
    ops = w.ops(width=w.width())
    out: list[str] = []
    olds = iter(totals)
    for r in reductions:
        dtype = dtype_of(r.result)
        old = next(olds)
        value = w.scalar(r.value) if w.lane is None else w.vector(r.value)
        if r.position is not None:
            assert r.rank is not None
            best = next(olds)
            rank = w.scalar(r.rank) if w.lane is None else w.vector(r.rank)
            if r.ascending:
                wins = ops.beats(r.monoid, dtype, value, old)
            else:
                wins = ops.better(r.monoid, dtype, value, rank, old, best)
            if mask is not None:
                wins = ops.binary("and", "bool", wins, mask)
            out += [ops.select(wins, dtype, value, old), ops.select(wins, "i64", rank, best)]
            continue
        new = ops.combine(r.monoid, dtype, old, value)
        if mask is not None:
            new = ops.select(mask, dtype, new, old)
        out.append(new)
    return out


def finish(
    w: Writer, reductions: Sequence[Reduction], start: Sequence[str], entering: str, totals: Sequence[str], leaving: str
) -> None:
    """Binds the results: the totals, or the identities where no iteration came from `entering`, if that can be."""
    merged = list(totals)
    if entering:
        merged = []
        for type, first, total in zip(accumulator_types(w, reductions), start, totals, strict=True):
            merged.append(w.emit(f"phi {type} [ {first}, %{entering} ], [ {total}, %{leaving} ]"))
    bind_results(w, reductions, merged)


def bind_results(w: Writer, reductions: Sequence[Reduction], totals: Sequence[str]) -> None:
    """Names the totals."""
    values = iter(totals)
    for r in reductions:
        _bind_result(w, r.result, next(values))
        if r.position is not None:
            _bind_result(w, r.position, next(values))


def accumulator_dtypes(reductions: Sequence[Reduction]) -> list[str]:
    """Lists the dtypes of accumulators: for each reduction that of its values, for a position that of ranks, too."""
    out: list[str] = []
    for r in reductions:
        out += [dtype_of(r.result)] if r.position is None else [dtype_of(r.result), "i64"]
    return out


def joined(
    w: Writer, reductions: Sequence[Reduction], totals: Sequence[str], parts: Sequence[str], width: int = 1
) -> list[str]:
    """Totals and what is to be added to them, each of so many lanes."""
    ops = w.ops(width=width)
    out: list[str] = []
    olds, news = iter(totals), iter(parts)
    for r in reductions:
        dtype = dtype_of(r.result)
        old, new = next(olds), next(news)
        if r.position is None:
            out.append(ops.combine(r.monoid, dtype, old, new))
            continue
        best, rank = next(olds), next(news)
        wins = ops.better(r.monoid, dtype, new, rank, old, best)
        out += [ops.select(wins, dtype, new, old), ops.select(wins, "i64", rank, best)]
    return out


def _bind_result(w: Writer, var: Var, value: str) -> None:
    if w.lane is None:
        w.bind(var, value)
    else:
        w.bind_lanes(var, value)


# ---- across lanes ----------------------------------------------------------------------------------------------------
def folded(w: Writer, reductions: Sequence[Reduction], totals: Sequence[str], width: int) -> list[str]:
    """The accumulators of all lanes as those of fewer, a power of two."""
    assert w.lane is not None
    half = w.lane.width // 2
    while half >= width:
        dtypes = accumulator_dtypes(reductions)
        halves = [_halves(w, register_type(d, 2 * half), total, half) for d, total in zip(dtypes, totals, strict=True)]
        totals = joined(w, reductions, [low for low, _ in halves], [high for _, high in halves], half)
        half //= 2
    return list(totals)


def _halves(w: Writer, type: str, value: str, width: int) -> tuple[str, str]:
    """Emits the halves of a vector, each of so many lanes."""
    orders = [", ".join(f"i32 {k}" for k in range(first, first + width)) for first in (0, width)]
    low, high = (w.emit(f"shufflevector {type} {value}, {type} poison, <{width} x i32> <{order}>") for order in orders)
    return low, high


def horizontal(w: Writer, reductions: Sequence[Reduction], totals: Sequence[str]) -> list[str]:
    """The accumulators of all lanes as one."""
    assert w.lane is not None
    width = w.lane.width
    out: list[str] = []
    values = iter(totals)
    for r in reductions:
        dtype = dtype_of(r.result)
        total = next(values)
        if r.position is not None:
            out += _horizontal_position(w, r.monoid, dtype, total, next(values))
        else:
            out.append(_of_all_lanes(w, r.monoid, dtype, total, width))
    return out


def of_all_lanes(w: Writer, monoid: str, dtype: str, value: str) -> str:
    """The value of each lane in use, combined."""
    assert w.lane is not None
    if w.lane.mask is not None:
        none = identity(monoid, dtype).value
        assert not isinstance(none, str)
        value = w.ops(width=w.lane.width).select(w.lane.mask, dtype, value, constant(none, dtype, w.lane.width))
    return _of_all_lanes(w, monoid, dtype, value, w.lane.width)


def _of_all_lanes(w: Writer, monoid: str, dtype: str, total: str, width: int) -> str:
    """The lanes of a vector, combined."""
    type = f"<{width} x {LLVM[dtype]}>"
    kind = register_dtype(dtype) if dtype in FLOATS else LLVM[dtype]
    if dtype in FLOATS and monoid in ROUNDED:
        return _by_halves(w, register_dtype(dtype), total, width, lambda ops, x, y: ops.combine(monoid, dtype, x, y))
    name = f"llvm.vector.reduce.{MONOIDS[monoid].reduce.of(dtype)}.v{width}{kind}"
    w.module.declare(name, LLVM[dtype], type)
    return w.emit(f"call {LLVM[dtype]} @{name}({type} {total})")


def _by_halves(w: Writer, dtype: str, total: str, width: int, combine: Callable[[Scalars, str, str], str]) -> str:
    """The lanes of a vector of floats combined in one order on all processors: the halves of it, and so on."""
    while width > 2:
        low, high = _halves(w, register_type(dtype, width), total, width := width // 2)
        total = combine(w.ops(width=width), low, high)
    type = register_type(dtype, width)
    low, high = (w.emit(f"extractelement {type} {total}, i64 {k}") for k in range(2))
    return combine(w.ops(), low, high)


def _horizontal_position(w: Writer, monoid: str, dtype: str, values: str, ranks: str) -> list[str]:
    """The extremum, NaN if there is any, and the lowest rank among the lanes that have it; -1 if no lane has a rank.

    A lane without a rank has the identity.
    """
    assert w.lane is not None
    width = w.lane.width
    ops = w.ops(width=width)
    if dtype in FLOATS:
        best, attained = _extremum(w, EXTREMA[monoid], dtype, values)
    else:
        best = _of_all_lanes(w, EXTREMA[monoid], dtype, values, width)
        attained = ops.compare("eq", dtype, values, w.splat(best, LLVM[dtype], w.depth))
    candidates = ops.select(attained, "i64", ranks, ops.constant(-1, "i64"))
    return [best, _of_all_lanes(w, "min", "u64", candidates, width)]  # -1 is the largest of all without a sign


def _extremum(w: Writer, extremum: str, dtype: str, values: str) -> tuple[str, str]:
    """The extremum of the lanes, with which of them have it; NaN, and which are, if there is any.

    NaNs are left out first: then a processor has one instruction for the larger of two numbers, of two zeros the last.
    """
    assert w.lane is not None
    width = w.lane.width
    ops = w.ops(width=width)
    least = identity(extremum, dtype).value
    assert not isinstance(least, str)
    nan = ops.compare("uno", dtype, values, values)
    numbers = ops.select(nan, dtype, constant(least, dtype, width), values)
    order = "ogt" if extremum == "max" else "olt"
    best = _by_halves(w, dtype, numbers, width, lambda o, x, y: o.select(o.compare(order, dtype, x, y), dtype, x, y))
    some = _of_all_lanes(w, "any", "bool", nan, width)
    equal = ops.compare("oeq", dtype, values, w.splat(best, register_type(dtype), w.depth))
    attained = w.emit(f"select i1 {some}, <{width} x i1> {nan}, <{width} x i1> {equal}")
    return w.ops().select(some, dtype, constant(math.nan, dtype), best), attained
