"""Half precision before scheduling: sums, products and matrix products of f16 and bf16 are done in f32.

Only the result is rounded. So a comprehension that adds up becomes one whose values are f32, and a conversion of what
it gives; memory in which a sum accumulates is f32 too.
"""

from __future__ import annotations

from dataclasses import replace

from dlang.ir.anf import (
    HALF,
    Add,
    Array,
    Atom,
    Axis,
    Block,
    Cast,
    Comp,
    Contract,
    Destination,
    Function,
    Keep,
    Let,
    Read,
    Scalar,
    Scan,
    Type,
    Var,
    fresh,
    poly,
)  # fmt: skip
from dlang.ir.traverse import map_blocks

WIDE = "f32"
EXACT = frozenset("neg abs sign maximum minimum select floor ceil round".split())
"""Primitives whose result is a number of a type of half precision if the arguments are."""


def sum_in_f32(f: Function) -> Function:
    """The function with every sum and product of half precision done in f32."""
    body = _block(f.body)
    return f if body is f.body else replace(f, body=body)


def _block(block: Block) -> Block:
    lets: list[Let] = []
    changed = False
    for let in block.lets:
        op = map_blocks(let.op, _block)
        new = let if op is let.op else Let(let.vars, op, let.span)
        widened = _widened(new)
        changed = changed or widened is not None or new is not let
        lets += widened or [new]
    return Block(tuple(lets), block.results) if changed else block


def _widened(let: Let) -> list[Let] | None:
    """What a let becomes, None if it stays."""
    match let.op:
        case Comp():
            return _comp(let, let.op)
        case Scan(monoid, array) if _is_half(array.type):
            before: list[Let] = []
            wide = _fresh(let.vars[0], WIDE)
            source = _array(before, array, WIDE, let)
            return [*before, Let((wide,), Scan(monoid, source), let.span), _back(let.vars[0], wide, let)]
        case Contract(a=a, b=b) if _is_half(a.type) and _is_half(let.vars[0].type):
            before = []
            left, right = _array(before, a, WIDE, let), _array(before, b, WIDE, let)
            wide = _fresh(let.vars[0], WIDE)
            op = replace(let.op, a=left, b=right)
            return [*before, Let((wide,), op, let.span), _back(let.vars[0], wide, let)]
        case _:
            return None


def _comp(let: Let, op: Comp) -> list[Let] | None:
    chosen = [
        _is_half(v.type) and (isinstance(d, Add) or d.monoid in ("sum", "prod"))
        for v, d in zip(let.vars, op.destinations, strict=True)
    ]
    if not any(chosen):
        return None
    before: list[Let] = []
    after: list[Let] = []
    vars: list[Var] = []
    lets = list(op.body.lets)
    results: list[Atom] = []
    destinations: list[Destination] = []
    for var, d, value, half in zip(let.vars, op.destinations, op.body.results, chosen, strict=True):
        if not half:
            vars.append(var)
            results.append(value)
            destinations.append(d)
            continue
        wide, term = _fresh(var, WIDE), fresh("wide", Scalar(WIDE))
        lets.append(Let((term,), Cast(WIDE, value), let.span))
        vars.append(wide)
        results.append(term)
        destinations.append(d if d.into is None else replace(d, into=_array(before, d.into, WIDE, let)))
        after.append(_back(var, wide, let))
    body = Block(tuple(lets), tuple(results))
    return [*before, Let(tuple(vars), Comp(op.axes, body, tuple(destinations)), let.span), *after]


def _is_half(type: Type) -> bool:
    return isinstance(type, Array | Scalar) and type.dtype in HALF


def _fresh(var: Var, dtype: str) -> Var:
    type = var.type
    assert isinstance(type, Array | Scalar)
    return fresh(var.name, replace(type, dtype=dtype))


def _array(lets: list[Let], array: Var, dtype: str, like: Let) -> Var:
    """An array with another dtype, made by a let in front."""
    out = _fresh(array, dtype)
    lets.append(_conversion(out, array, like))
    return out


def _back(var: Var, wide: Var, like: Let) -> Let:
    """The let that binds a variable of half precision to a value in f32."""
    if isinstance(var.type, Scalar):
        return Let((var,), Cast(var.type.dtype, wide), like.span)
    return _conversion(var, wide, like)


def _conversion(out: Var, array: Var, like: Let) -> Let:
    assert isinstance(out.type, Array)
    shape = out.type.shape
    axes = [Axis(fresh("i", Scalar("i64")), (poly(0),), (size,)) for size in shape]
    index = tuple([poly(a.var) for a in axes])
    element, made = fresh("x", Scalar(_dtype(array))), fresh("y", Scalar(out.type.dtype))
    lets = (Let((element,), Read(array, index), like.span), Let((made,), Cast(out.type.dtype, element), like.span))
    return Let((out,), Comp(tuple(axes), Block(lets, (made,)), (Keep(shape, index),)), like.span)


def _dtype(var: Var) -> str:
    assert isinstance(var.type, Array | Scalar)
    return var.type.dtype
