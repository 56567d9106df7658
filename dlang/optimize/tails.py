"""Calls in tail position, and values that stand where there is none yet."""

from __future__ import annotations

from collections.abc import Iterator

from dlang.ir.anf import (
    FLOATS,
    Array,
    Atom,
    Axis,
    Block,
    Call,
    Comp,
    Empty,
    If,
    Keep,
    Let,
    Lit,
    Scalar,
    Var,
    fresh,
    poly,
)
from dlang.ir.terms import WIDTHS
from dlang.polynomials import Poly


def tail_let(block: Block) -> Let | None:
    """The last let of a block if it is a call or a branch, and its results are those of the block."""
    last = block.lets[-1] if block.lets else None
    return last if last is not None and isinstance(last.op, Call | If) and last.vars == block.results else None


def tail_calls(block: Block) -> Iterator[Call]:
    """The calls in tail position."""
    last = tail_let(block)
    match last.op if last is not None else None:
        case Call() as call:
            yield call
        case If(then=then, otherwise=otherwise):
            yield from tail_calls(then)
            yield from tail_calls(otherwise)


def blank(var: Var, lets: list[Let]) -> Atom:
    """Some value of the type of a variable, which is no token: zero, no text, null, or an array.

    An array of numbers is not even filled: that would take longer than all that a call may do.
    """
    match var.type:
        case Scalar(dtype):
            return _zero(dtype)
        case Array(dtype, shape) if dtype in WIDTHS and dtype != "str":
            array = fresh(var.name, var.type)
            lets.append(Let((array,), Empty(dtype, shape)))
            return array
        case Array(dtype, shape):
            axes = tuple([Axis(fresh("i", Scalar("i64")), (Poly({}),), (size,)) for size in shape])
            index = tuple([poly(axis.var) for axis in axes])
            array = fresh(var.name, var.type)
            lets.append(Let((array,), Comp(axes, Block((), (_zero(dtype),)), (Keep(shape, index, "set"),))))
            return array
        case _:
            raise AssertionError("there is one token at a time")


def _zero(dtype: str) -> Lit:
    match dtype:
        case "bool":
            return Lit(False, dtype)
        case "str":
            return Lit("", dtype)
        case _:
            return Lit(0.0 if dtype in FLOATS else 0, dtype)
