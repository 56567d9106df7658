"""Canonical keys: two operations with equal keys bind equal values.

What an operation binds inside itself is numbered in the order of binding, so keys are equal up to renaming.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

from dlang.ir import anf
from dlang.ir.roles import Generated, Leaf, Many, Record, Role, Several, Shape, Trait, defined, shapes
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

    def index(self, var: anf.Var) -> None:
        """Numbers a variable, whose type is known, for what follows."""
        self.numbers[var] = len(self.numbers)

    def bind(self, var: anf.Var) -> Key:
        """Numbers a variable for what follows; gives the key of its type."""
        self.numbers[var] = len(self.numbers)
        return self.type(var.type)

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
        return _KEYS[anf.Axis](axis, self)

    def block(self, block: anf.Block) -> Key:
        lets = []
        for let in block.lets:
            lets.append(self.op(let.op))
            for var in let.vars:
                self.index(var)
        return tuple(lets), self.atoms(block.results)

    def op(self, op: anf.Op) -> Key:
        """The key of an operation; everything that its variables depend on outside it must be the same variable."""
        if isinstance(op, anf.Prim) and PRIMITIVES[op.name].commutative:
            return "Prim", op.name, frozenset([self.atom(a) for a in op.args])
        return _KEYS[type(op)](op, self)


def _written_key(cls: type) -> Callable[[Any, Keys], Key]:
    """Makes a function for the keys of a class: its name, and what its fields hold, but for hints."""
    parts = [text for name, shape in shapes(cls).items() if (text := _key_of(shape, f"op.{name}")) is not None]
    return defined(f"made = lambda op, keys: ({cls.__name__!r}, {', '.join(parts)})", cls, keyed=_KEYS)


def _key_of(shape: Shape, of: str) -> str | None:
    match shape:
        case Leaf(role, _, optional, traits):
            if role is Role.HINT:
                return None
            method = "index" if Trait.INDEX in traits else _METHODS.get(role)
            text = of if method is None else f"keys.{method}({of})"
            return f"(None if {of} is None else {text})" if optional else text
        case Many(inner, traits):
            return f"{'frozenset' if Trait.SET in traits else 'tuple'}([{_key_of(inner, 'x')} for x in {of}])"
        case Several(inners):
            keys = [_key_of(inner, f"{of}[{k}]") for k, inner in enumerate(inners)]
            return f"({', '.join([key for key in keys if key is not None])},)"
        case Record():
            return f"keyed[type({of})]({of}, keys)"


_METHODS = {Role.OPERAND: "atom", Role.SIZE: "size", Role.BINDER: "bind", Role.BLOCK: "block"}
_KEYS = Generated(_written_key)
