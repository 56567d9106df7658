"""Calls in tail position, and values that stand where there is none yet."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.terms import WIDTHS
from dlang.ir.traverse import with_body
from dlang.optimize.dce import dce
from dlang.optimize.jump_threading import threaded
from dlang.optimize.simplify import simplify
from dlang.polynomials import Poly


def branches_merged(program: anf.Program, names: Set[str]) -> anf.Program:
    """The program in which functions of these names show the calls that an early return hides."""
    functions = program.functions
    merged = {name: with_body(f, threaded(f.body)) if name in names else f for name, f in functions.items()}
    return dce(simplify(replace(program, functions=merged)))


def tail_let(block: anf.Block) -> anf.Let | None:
    """The last let of a block if it is a call or a branch, and its results are those of the block."""
    last = block.lets[-1] if block.lets else None
    return last if last is not None and isinstance(last.op, anf.Call | anf.If) and last.vars == block.results else None


def tail_calls(block: anf.Block) -> Iterator[anf.Call]:
    """The calls in tail position."""
    last = tail_let(block)
    match last.op if last is not None else None:
        case anf.Call() as call:
            yield call
        case anf.If(then=then, otherwise=otherwise):
            yield from tail_calls(then)
            yield from tail_calls(otherwise)


def blank(var: anf.Var, lets: list[anf.Let]) -> anf.Atom:
    """Some value of the type of a variable, which is no token: zero, no text, null, or an array.

    An array of numbers is not even filled: that would take longer than all that a call may do.
    """
    match var.type:
        case anf.Scalar(dtype):
            return zero(dtype)
        case anf.Array(dtype, shape) if dtype in WIDTHS and dtype != "str":
            array = anf.fresh(var.name, var.type)
            lets.append(anf.Let((array,), anf.Empty(dtype, shape)))
            return array
        case anf.Array(dtype, shape):
            axes = tuple([anf.Axis(anf.fresh("i", anf.Scalar("i64")), (Poly({}),), (size,)) for size in shape])
            index = tuple([anf.poly(axis.var) for axis in axes])
            array = anf.fresh(var.name, var.type)
            lets.append(
                anf.Let((array,), anf.Comp(axes, anf.Block((), (zero(dtype),)), (anf.Reduce(shape, index, "set"),)))
            )
            return array
        case _:
            raise AssertionError("there is one token at a time")


def zero(dtype: str) -> anf.Lit:
    """Zero, or what is like it, of a dtype; null for handles."""
    match dtype:
        case "bool":
            return anf.Lit(False, dtype)
        case "str":
            return anf.Lit("", dtype)
        case _:
            return anf.Lit(0.0 if dtype in anf.FLOATS else 0, dtype)
