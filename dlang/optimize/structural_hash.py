"""Canonical keys: two operations with equal keys bind equal values.

What an operation binds inside itself is numbered in the order of binding, so keys are equal up to renaming.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

from dlang.ir import anf
from dlang.ir.traverse import parts
from dlang.ops.primitives import PRIMITIVES

Key = Hashable


def literal_key(lit: anf.Lit) -> Key:
    """Equal for the same bits: -0.0 is not 0.0, a NaN is itself."""
    value = lit.value
    if isinstance(value, float):
        return lit.dtype, "nan" if value != value else value, math.copysign(1.0, value)
    return lit.dtype, value


class Keys:
    """Makes keys; `numbers` holds what is bound in the operations around, under which all of them are made."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers: dict[anf.Var, int] = {}

    def bind(self, var: anf.Var) -> None:
        self.numbers[var] = len(self.numbers)

    def atom(self, atom: anf.Atom) -> Key:
        if isinstance(atom, anf.Lit):
            return literal_key(atom)
        return self.numbers.get(atom, atom)

    def atoms(self, atoms: tuple[anf.Atom, ...]) -> Key:
        return tuple([self.atom(a) for a in atoms])

    def size(self, size: anf.Size) -> Key:
        numbers = self.numbers
        if not numbers or not any(a in numbers for m in size.terms for a in m):
            return size
        terms = []
        for m, c in size.terms.items():
            counts: dict[Key, int] = {}
            for a in m:
                k = numbers.get(a, a)
                counts[k] = counts.get(k, 0) + 1
            terms.append((frozenset(counts.items()), c))
        return frozenset(terms)

    def sizes(self, sizes: tuple[anf.Size, ...]) -> Key:
        return tuple([self.size(s) for s in sizes])

    def type(self, type: anf.Type) -> Key:
        return (type.dtype, self.sizes(type.shape)) if isinstance(type, anf.Array) else type

    def axis(self, axis: anf.Axis) -> Key:
        """The bounds of an axis, whose variable is numbered for what follows."""
        bounds = frozenset([self.size(s) for s in axis.lows]), frozenset([self.size(s) for s in axis.highs])
        self.bind(axis.var)
        return bounds

    def block(self, block: anf.Block) -> Key:
        lets = []
        for let in block.lets:
            lets.append(self.op(let.op))
            for var in let.vars:
                self.bind(var)
        return tuple(lets), self.atoms(block.results)

    def op(self, op: anf.Op) -> Key:
        """The key of an operation; everything that its variables depend on outside it must be the same variable."""
        match op:
            case anf.Prim(name=name, args=args):
                keys = [self.atom(a) for a in args]
                if PRIMITIVES[name].commutative:
                    return "Prim", name, frozenset(keys)
                return "Prim", name, tuple(keys)
            case anf.Comp():
                axes = tuple([self.axis(a) for a in op.axes])
                body = self.block(op.body)
                destinations = []
                for d in op.destinations:
                    monoid = None if isinstance(d, anf.ScatterAdd) else d.monoid
                    into = None if d.into is None else self.atom(d.into)
                    after = None if isinstance(d, anf.ScatterAdd) else d.after
                    destinations.append((monoid, self.sizes(d.shape), self.sizes(d.index), into, after))
                return "Comp", axes, body, tuple(destinations)
            case anf.For():
                bounds = self.size(op.low), self.size(op.high)
                init = self.atoms(op.init)
                self.bind(op.index)
                for param in op.params:
                    self.bind(param)
                types = tuple([self.type(p.type) for p in op.params])
                return "For", bounds, init, types, op.early, self.block(op.body)
            case anf.While():
                init = self.atoms(op.init)
                for param in op.params:
                    self.bind(param)
                types = tuple([self.type(p.type) for p in op.params])
                return "While", init, types, op.early, self.block(op.condition), self.block(op.body)
            case anf.View():
                for v in op.axes:
                    self.bind(v)
                return "View", self.atom(op.array), self.sizes(op.shape), self.sizes(op.index)
            case _:
                p = parts(op)
                blocks = tuple([self.block(b) for b in p.blocks])
                return type(op).__name__, _static(op), self.atoms(p.atoms), self.sizes(p.sizes), blocks


def _static(op: anf.Op) -> Key:
    """What an operation holds that is neither an operand, nor a size, nor a block."""
    match op:
        case anf.Cast(dtype=dtype) | anf.Empty(dtype=dtype):
            return dtype
        case anf.Format(parts=text):
            return text
        case anf.Assert():
            return op.code, op.parts, len(op.values)
        case anf.Scan(monoid=monoid):
            return monoid
        case anf.Call(function=function):
            return function
        case anf.Contract():
            return op.left, op.right, op.out
        case anf.Foreign(target=target):
            return target
        case anf.LinalgOp(name=name):
            return name
        case anf.Construct(variant=variant) | anf.Fields(variant=variant):
            return variant.datatype, variant.tag
        case anf.Vjp():
            return op.function, len(op.args), op.wrt, tuple([c is not None for c in op.cotangents])
        case anf.Jvp():
            return op.function, len(op.args), tuple([t is not None for t in op.tangents])
        case anf.VjpForward():
            return op.function, op.wrt, op.seeded, op.tape
        case anf.VjpBackward():
            return op.function, op.wrt, op.seeded, tuple([c is not None for c in op.cotangents])
        case anf.Effect():
            return op.name, op.static
        case _:
            return None
