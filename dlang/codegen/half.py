"""Half precision before scheduling: sums, products and matrix products are done in f32.

Only the result is rounded. So a comprehension that adds up becomes one whose values are f32, and a conversion of what
it gives; memory in which a sum accumulates is f32 too.
"""

from __future__ import annotations

from dataclasses import replace

from dlang.ir import anf
from dlang.ir.traverse import map_blocks
from dlang.ops.monoids import ROUNDED

WIDE = "f32"


def sum_in_f32(f: anf.Function) -> anf.Function:
    """The function with every sum and product of half precision done in f32."""
    body = _block(f.body)
    return f if body is f.body else replace(f, body=body)


def _block(block: anf.Block) -> anf.Block:
    lets: list[anf.Let] = []
    changed = False
    for let in block.lets:
        op = map_blocks(let.op, _block)
        new = let if op is let.op else anf.Let(let.vars, op, let.span)
        widened = _widened(new)
        changed = changed or widened is not None or new is not let
        lets += widened or [new]
    return anf.Block(tuple(lets), block.results) if changed else block


def _widened(let: anf.Let) -> list[anf.Let] | None:
    """Rewrites a let of half floats so that it computes in wider ones; None if it stays."""
    match let.op:
        case anf.Comp():
            return _comp(let, let.op)
        case anf.Scan(monoid, array) if _is_half(array.type):
            before: list[anf.Let] = []
            wide = _fresh(let.vars[0], WIDE)
            source = _array(before, array, WIDE, let)
            return [*before, anf.Let((wide,), anf.Scan(monoid, source), let.span), _back(let.vars[0], wide, let)]
        case anf.Contract(a=a, b=b) if _is_half(a.type) and not let.op.wide:
            before = []
            left, right = _array(before, a, WIDE, let), _array(before, b, WIDE, let)
            wide = _fresh(let.vars[0], WIDE)
            op = replace(let.op, a=left, b=right)
            return [*before, anf.Let((wide,), op, let.span), _back(let.vars[0], wide, let)]
        case _:
            return None


def _comp(let: anf.Let, op: anf.Comp) -> list[anf.Let] | None:
    chosen = [
        _is_half(v.type) and (isinstance(d, anf.ScatterAdd) or d.monoid in ROUNDED)
        for v, d in zip(let.vars, op.destinations, strict=True)
    ]
    if not any(chosen):
        return None
    before: list[anf.Let] = []
    after: list[anf.Let] = []
    vars: list[anf.Var] = []
    lets = list(op.body.lets)
    results: list[anf.Atom] = []
    destinations: list[anf.Destination] = []
    for var, d, value, half in zip(let.vars, op.destinations, op.body.results, chosen, strict=True):
        if not half:
            vars.append(var)
            results.append(value)
            destinations.append(d)
            continue
        wide, term = _fresh(var, WIDE), anf.fresh("wide", anf.Scalar(WIDE))
        lets.append(anf.Let((term,), anf.Cast(WIDE, value), let.span))
        vars.append(wide)
        results.append(term)
        destinations.append(d if d.into is None else replace(d, into=_array(before, d.into, WIDE, let)))
        after.append(_back(var, wide, let))
    body = anf.Block(tuple(lets), tuple(results))
    return [*before, anf.Let(tuple(vars), anf.Comp(op.axes, body, tuple(destinations)), let.span), *after]


def _is_half(type: anf.Type) -> bool:
    return isinstance(type, anf.Array | anf.Scalar) and type.dtype in anf.HALF


def _fresh(var: anf.Var, dtype: str) -> anf.Var:
    type = var.type
    assert isinstance(type, anf.Array | anf.Scalar)
    return anf.fresh(var.name, replace(type, dtype=dtype))


def _array(lets: list[anf.Let], array: anf.Var, dtype: str, like: anf.Let) -> anf.Var:
    """An array with another dtype, made by a let in front."""
    out = _fresh(array, dtype)
    lets.append(_conversion(out, array, like))
    return out


def _back(var: anf.Var, wide: anf.Var, like: anf.Let) -> anf.Let:
    """The let that binds a variable of half precision to a value in f32."""
    if isinstance(var.type, anf.Scalar):
        return anf.Let((var,), anf.Cast(var.type.dtype, wide), like.span)
    return _conversion(var, wide, like)


def _conversion(out: anf.Var, array: anf.Var, like: anf.Let) -> anf.Let:
    assert isinstance(out.type, anf.Array)
    shape = out.type.shape
    axes = [anf.Axis(anf.fresh("i", anf.Scalar("i64")), (anf.poly(0),), (size,)) for size in shape]
    index = tuple([anf.poly(a.var) for a in axes])
    element, converted = anf.fresh("x", anf.Scalar(_dtype(array))), anf.fresh("y", anf.Scalar(out.type.dtype))
    lets = (
        anf.Let((element,), anf.Read(array, index), like.span),
        anf.Let((converted,), anf.Cast(out.type.dtype, element), like.span),
    )
    return anf.Let((out,), anf.Comp(tuple(axes), anf.Block(lets, (converted,)), (anf.Reduce(shape, index),)), like.span)


def _dtype(var: anf.Var) -> str:
    assert isinstance(var.type, anf.Array | anf.Scalar)
    return var.type.dtype
