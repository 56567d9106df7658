"""Substitution: variables replaced by others, by literals or by polynomials, and fresh copies of code.

A variable is bound once in a function, so substitution needs no scopes. A bound variable whose type changes is replaced
by a fresh one; a copy that is to stand beside the original has only fresh ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from operator import is_
from typing import overload

from dlang.diagnostics import CallSite, Span
from dlang.ir.anf import (
    Array,
    Atom,
    Block,
    Cast,
    Format,
    Function,
    Let,
    Lit,
    Op,
    Prim,
    Read,
    Size,
    SizeOf,
    Stop,
    Type,
    Var,
    fresh,
    poly,
)
from dlang.ir.errors import IRError
from dlang.ir.marks import has_marks
from dlang.ir.traverse import mentioned, rebuild, with_lets
from dlang.polynomials import Poly

Replacement = Atom | Size  # a polynomial may stand for an i64 variable wherever only polynomials mention it

_TOTAL = (Prim, Cast, SizeOf, Read, Stop, Format)  # what can't fail has no need of a place


class Renaming:
    """A substitution under way: `env` grows as bound variables get replaced, so one value serves one walk.

    A bound variable is replaced where its type changes, or always if `fresh` is set. site: of the call whose place the
    code takes; what can fail remembers it, and so does everything if somebody is to follow the program (`followed`).
    """

    __slots__ = ("env", "followed", "fresh", "site")

    def __init__(
        self,
        mapping: Mapping[Var, Replacement],
        fresh: bool = False,
        site: CallSite | None = None,
        followed: bool = False,
    ) -> None:
        self.env: dict[Var, Replacement] = dict(mapping)
        self.fresh = fresh
        self.site = site
        self.followed = followed

    def atom(self, atom: Atom) -> Atom:
        new = self.env.get(atom) if isinstance(atom, Var) else None
        if new is None:
            return atom
        if isinstance(new, Poly):
            if new.atom is not None:
                return new.atom
            if new.constant is not None:
                return Lit(int(new.constant), "i64")
            raise IRError(f"the polynomial {new} stands where {atom} is an operand")
        return new

    def size(self, size: Size) -> Size:
        env = self.env
        if not env:
            return size
        for m in size.terms:
            for a in m:
                if a in env:
                    return poly(env[a]) if size.atom is a else size.substitute(self._poly)
        return size

    def _poly(self, var: Var) -> Size | None:
        new = self.env.get(var)
        return None if new is None else poly(new)

    def type(self, type: Type) -> Type:
        if not isinstance(type, Array):
            return type
        shape = tuple([self.size(s) for s in type.shape])
        return type if all(a is b for a, b in zip(shape, type.shape, strict=True)) else Array(type.dtype, shape)

    def bind(self, var: Var) -> Var:
        if not self.fresh and type(var.type) is not Array:
            return var
        new_type = self.type(var.type)
        if new_type is var.type and not self.fresh:
            return var
        new = fresh(var.name, new_type)
        self.env[var] = new
        return new

    def op(self, op: Op) -> Op:
        return rebuild(op, atom=self.atom, size=self.size, block=self.block, bind=self.bind)

    def let(self, let: Let) -> Let:
        op = self.op(let.op)
        span = let.span
        if self.site is not None and span is not None and (self.followed or not isinstance(op, _TOTAL)):
            span = span.reached(self.site)
        vars = tuple([self.bind(v) for v in let.vars])
        if op is let.op and span is let.span and all(map(is_, vars, let.vars)):
            return let
        return Let(vars, op, span)

    def block(self, block: Block) -> Block:
        if not self.fresh and self.site is None and self.env.keys().isdisjoint(mentioned(block)):
            return block
        lets = [self.let(let) for let in block.lets]
        return with_lets(block, lets, [self.atom(r) for r in block.results])

    def copied(self, block: Block, standing: Set[Var]) -> Block:
        """A block whose lets that bind what is `standing` elsewhere are fresh copies, and the others are themselves."""
        lets = []
        for let in block.lets:
            self.fresh = not standing.isdisjoint(let.vars)
            lets.append(self.let(let))
        self.fresh = False
        return with_lets(block, lets, [self.atom(r) for r in block.results])


@overload
def substitute(x: Block, mapping: Mapping[Var, Replacement]) -> Block: ...
@overload
def substitute(x: Size, mapping: Mapping[Var, Replacement]) -> Size: ...
@overload
def substitute(x: Type, mapping: Mapping[Var, Replacement]) -> Type: ...
@overload
def substitute(x: Op, mapping: Mapping[Var, Replacement]) -> Op: ...
def substitute(x: Block | Op | Type | Size, mapping: Mapping[Var, Replacement]) -> Block | Op | Type | Size:
    """A block, operation, type or polynomial with variables replaced.

    A bound variable whose type mentions a replaced one becomes a fresh variable; an operation's own results do not
    change, so use it on an operation only if the types of what it binds are substituted too.
    """
    if not mapping:
        return x
    renaming = Renaming(mapping)
    match x:
        case Block():
            return renaming.block(x)
        case Poly():
            return renaming.size(x)
        case _ if isinstance(x, Type):
            return renaming.type(x)
        case _:
            return renaming.op(x)


def refresh(block: Block, mapping: Mapping[Var, Replacement] | None = None) -> Block:
    """A copy of a block in which every bound variable is fresh, and `mapping` replaces free ones."""
    return Renaming(mapping or {}, fresh=True).block(block)


def inlined(function: Function, args: tuple[Atom, ...], span: Span | None = None) -> Block:
    """A fresh copy of the body of a function applied to arguments, in the place of a call at `span`."""
    site = CallSite(function.label or function.name, span)
    mapping = dict(zip(function.params, args, strict=True))
    return Renaming(mapping, fresh=True, site=site, followed=has_marks(function.body)).block(function.body)


def refresh_vars(vars: tuple[Var, ...], mapping: Mapping[Var, Replacement]) -> tuple[Var, ...]:
    """Fresh copies of variables whose types may mention earlier ones of them, and what `mapping` replaces."""
    renaming = Renaming(mapping, fresh=True)
    return tuple([renaming.bind(v) for v in vars])
