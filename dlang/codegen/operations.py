"""Operations on whole arrays that are not comprehensions, and effects."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Body, Compute, Convert, For, Load, Reduction, Runtime, Slot, Stmt, Store
from dlang.codegen.memory import I64, ZERO, Place, product, whole
from dlang.ir import anf
from dlang.ir.anf import FLOATS, Array, Let, Lit, Scalar, Var, fresh, poly


def scan(s: Scheduler, monoid: str, source: Place, target: Place) -> None:
    dtype = source.buffer.dtype
    index, total = fresh("i", I64), fresh("total", Scalar(dtype))
    x, value, last = (fresh(name, Scalar(dtype)) for name in ("x", "total", "total"))
    stmts: tuple[Stmt, ...] = (
        Load(x, source.buffer, source.at((poly(index),))),
        Compute(value, "add" if monoid == "sum" else "mul", (total, x)),
        Store(target.buffer, target.at((poly(index),)), value),
    )
    init = Lit((0.0 if dtype in FLOATS else 0) + (monoid == "prod"), dtype)
    s.out.append(For(index, ZERO, source.shape[0], (total,), (init,), Body(stmts, (value,)), (last,)))


def concat(s: Scheduler, arrays: Sequence[Var], target: Place) -> None:
    start = ZERO
    row = product(target.shape[1:])
    assert target.start is not None
    for array in arrays:
        place = s.place(array)
        s.copy(place, Place(target.buffer, place.shape, (), ZERO, target.start + start * row))
        start = start + place.shape[0]


def compact(s: Scheduler, mask: Place, vars: Sequence[Var]) -> None:
    count, positions = vars
    i, j, at, following, last = (fresh(name, I64) for name in ("i", "j", "at", "at", "at"))
    flag, other = fresh("flag", Scalar("bool")), fresh("flag", Scalar("bool"))
    one, step = fresh("one", I64), fresh("one", I64)
    size = mask.shape[0]
    s.loop(
        i,
        (ZERO,),
        (size,),
        [Load(flag, mask.buffer, mask.at((poly(i),))), Convert(one, flag)],
        [Reduction("sum", count, one)],
    )
    # each position is written to the next free element, where the following one replaces it unless the flag is set
    buffer = s.allocate("positions", Array("i64", (poly(count),)), extra=1)
    stmts: tuple[Stmt, ...] = (
        Load(other, mask.buffer, mask.at((poly(j),))),
        Store(buffer, poly(at), j),
        Convert(step, other),
        Compute(following, "add", (at, step)),
    )
    s.out.append(For(j, ZERO, size, (at,), (Lit(0, "i64"),), Body(stmts, (following,)), (last,)))
    s.memory.settle(positions, whole(buffer, (poly(count),)))


def effect(s: Scheduler, let: Let, op: anf.Effect) -> None:
    results: list[Slot] = []
    for var in let.vars[1:]:
        if isinstance(var.type, Array):
            s.own_result(var, results)
        else:
            results.append(var)
    s.out.append(Runtime(op.name, op.static, s.operands(op.args), (), tuple(results), let.span))
