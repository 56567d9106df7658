"""Reductions: the accumulators of a loop in registers, for each lane, and those of all lanes as one."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.llvm.half import register_dtype
from dlang.codegen.llvm.scalars import LLVM, Scalars, constant, register_type
from dlang.codegen.llvm.writer import Writer
from dlang.codegen.loops import Reduction, scalar_dtype
from dlang.codegen.nests import identity
from dlang.ir.anf import FLOATS, SIGNED, Var


def _identity(r: Reduction, dtype: str) -> int | float | bool:
    monoid = r.monoid
    if r.position is not None:
        monoid = "max" if r.monoid == "argmax" else "min"
    value = identity(monoid, dtype).value
    assert not isinstance(value, str)
    return value


def first_totals(w: Writer, reductions: Sequence[Reduction]) -> list[str]:
    """The first values of accumulators: for each reduction its identity, for a position -1 too."""
    out = []
    for r in reductions:
        dtype = scalar_dtype(r.result)
        out.append(constant(_identity(r, dtype), dtype, w.width()))
        if r.position is not None:
            out.append(constant(-1, "i64", w.width()))
    return out


def accumulator_types(w: Writer, reductions: Sequence[Reduction]) -> list[str]:
    out = []
    for r in reductions:
        out.append(register_type(scalar_dtype(r.result), w.width()))
        if r.position is not None:
            out.append(register_type("i64", w.width()))
    return out


def accumulate(w: Writer, reductions: Sequence[Reduction], totals: Sequence[str], masked: bool = False) -> list[str]:
    """The accumulators with this trip's values; if masked, only those of lanes in use."""
    mask = w.lane.mask if masked and w.lane is not None else None
    ops = w.ops(width=w.width())
    out: list[str] = []
    olds = iter(totals)
    for r in reductions:
        dtype = scalar_dtype(r.result)
        old = next(olds)
        value = w.scalar(r.value) if w.lane is None else w.vector(r.value)
        if r.position is not None:
            assert r.rank is not None
            best = next(olds)
            rank = w.scalar(r.rank) if w.lane is None else w.vector(r.rank)
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
    """Binds the results: the totals, or the identities where no trip came from `entering`, if that can be."""
    merged = list(totals)
    if entering:
        merged = []
        for type, first, total in zip(accumulator_types(w, reductions), start, totals, strict=True):
            merged.append(w.emit(f"phi {type} [ {first}, %{entering} ], [ {total}, %{leaving} ]"))
    values = iter(merged)
    for r in reductions:
        _bind_result(w, r.result, next(values))
        if r.position is not None:
            _bind_result(w, r.position, next(values))


def _bind_result(w: Writer, var: Var, value: str) -> None:
    if w.lane is None:
        w.bind(var, value)
    else:
        w.lane.vectors[var] = value


# ---- across lanes ----------------------------------------------------------------------------------------------------
def horizontal(w: Writer, reductions: Sequence[Reduction], totals: Sequence[str]) -> list[str]:
    """The accumulators of all lanes as one."""
    assert w.lane is not None
    width = w.lane.width
    out: list[str] = []
    values = iter(totals)
    for r in reductions:
        dtype = scalar_dtype(r.result)
        total = next(values)
        if r.position is not None:
            out += _horizontal_position(w, r.monoid, dtype, total, next(values))
            continue
        type = f"<{width} x {LLVM[dtype]}>"
        kind = register_dtype(dtype) if dtype in FLOATS else LLVM[dtype]
        if dtype in FLOATS and r.monoid in ("sum", "prod"):
            name = f"llvm.vector.reduce.{'fadd' if r.monoid == 'sum' else 'fmul'}.v{width}{kind}"
            w.module.declare(name, LLVM[dtype], LLVM[dtype], type)
            neutral = constant(-0.0 if r.monoid == "sum" else 1.0, dtype)
            out.append(w.emit(f"call reassoc {LLVM[dtype]} @{name}({LLVM[dtype]} {neutral}, {type} {total})"))
            continue
        if dtype in FLOATS:
            stem = "fmaximum" if r.monoid == "max" else "fminimum"
        else:
            sign = "s" if dtype in SIGNED else "u"
            stem = {"sum": "add", "prod": "mul", "any": "or", "all": "and"}.get(r.monoid) or sign + r.monoid
        name = f"llvm.vector.reduce.{stem}.v{width}{kind}"
        w.module.declare(name, LLVM[dtype], type)
        out.append(w.emit(f"call {LLVM[dtype]} @{name}({type} {total})"))
    return out


def _horizontal_position(w: Writer, monoid: str, dtype: str, values: str, ranks: str) -> list[str]:
    assert w.lane is not None
    width = w.lane.width
    ops = Scalars(w.module, w.code)
    best = rank = ""
    for lane in range(width):
        value = w.emit(f"extractelement <{width} x {LLVM[dtype]}> {values}, i64 {lane}")
        place = w.emit(f"extractelement <{width} x i64> {ranks}, i64 {lane}")
        if lane:
            wins = ops.better(monoid, dtype, value, place, best, rank)
            value, place = ops.select(wins, dtype, value, best), ops.select(wins, "i64", place, rank)
        best, rank = value, place
    return [best, rank]
