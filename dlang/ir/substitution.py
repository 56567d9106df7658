"""Substitution: variables replaced by others, by literals or by polynomials, and fresh copies of code.

A variable is bound once in a function, so substitution needs no scopes. A bound variable whose type changes is replaced
by a fresh one; a copy that is to stand beside the original has only fresh ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from operator import is_
from typing import overload

from dlang.diagnostics import CallSite, Span
from dlang.ir import anf
from dlang.ir.errors import IRError
from dlang.ir.marks import has_marks
from dlang.ir.traverse import mentioned, rebuild, with_lets
from dlang.polynomials import Poly

Replacement = anf.Atom | anf.Size  # a polynomial may stand for an i64 variable wherever only polynomials mention it

_TOTAL = (
    anf.Prim,
    anf.Cast,
    anf.IndexExpr,
    anf.Read,
    anf.StopGradient,
    anf.Format,
)  # what can't fail has no need of a place


class Renaming:
    """A substitution under way: `env` grows as bound variables get replaced, so one value serves one walk.

    A bound variable is replaced where its type changes, or always if `renew` is set. site: of the call whose place the
    code takes; what can fail remembers it, and so does everything if somebody is to follow the program (`followed`).
    """

    __slots__ = ("env", "followed", "renew", "site")

    def __init__(
        self,
        mapping: Mapping[anf.Var, Replacement],
        renew: bool = False,
        site: CallSite | None = None,
        followed: bool = False,
    ) -> None:
        self.env: dict[anf.Var, Replacement] = dict(mapping)
        self.renew = renew
        self.site = site
        self.followed = followed

    def atom(self, atom: anf.Atom) -> anf.Atom:
        new = self.env.get(atom) if isinstance(atom, anf.Var) else None
        if new is None:
            return atom
        if isinstance(new, Poly):
            if new.atom is not None:
                return new.atom
            if new.constant is not None:
                return anf.Lit(int(new.constant), "i64")
            raise IRError(f"the polynomial {new} stands where {atom} is an operand")
        return new

    def size(self, size: anf.Size) -> anf.Size:
        env = self.env
        if not env:
            return size
        for m in size.terms:
            for a in m:
                if a in env:
                    return anf.poly(env[a]) if size.atom is a else size.substitute(self._poly)
        return size

    def _poly(self, var: anf.Var) -> anf.Size | None:
        new = self.env.get(var)
        return None if new is None else anf.poly(new)

    def type(self, type: anf.Type) -> anf.Type:
        if not isinstance(type, anf.Array):
            return type
        shape = tuple([self.size(s) for s in type.shape])
        return type if all(a is b for a, b in zip(shape, type.shape, strict=True)) else anf.Array(type.dtype, shape)

    def bind(self, var: anf.Var) -> anf.Var:
        if not self.renew and type(var.type) is not anf.Array:
            return var
        new_type = self.type(var.type)
        if new_type is var.type and not self.renew:
            return var
        new = anf.fresh(var.name, new_type)
        self.env[var] = new
        return new

    def size_params(self, function: anf.Function) -> frozenset[anf.Var]:
        """The sizes among the parameters of a function, where these have been replaced by others."""
        return frozenset([new for v in function.sizes if isinstance(new := self.atom(v), anf.Var)])

    def axis(self, axis: anf.Axis) -> anf.Axis:
        lows, highs = tuple(map(self.size, axis.lows)), tuple(map(self.size, axis.highs))
        return anf.Axis(self.bind(axis.var), lows, highs)

    def op(self, op: anf.Op) -> anf.Op:
        return rebuild(op, atom=self.atom, size=self.size, block=self.block, bind=self.bind)

    def let(self, let: anf.Let) -> anf.Let:
        op = self.op(let.op)
        span = let.span
        if self.site is not None and span is not None and (self.followed or not isinstance(op, _TOTAL)):
            span = span.reached(self.site)
        vars = tuple([self.bind(v) for v in let.vars])
        if op is let.op and span is let.span and all(map(is_, vars, let.vars)):
            return let
        return anf.Let(vars, op, span)

    def block(self, block: anf.Block) -> anf.Block:
        if self.untouched(block):
            return block
        lets = [self.let(let) for let in block.lets]
        return with_lets(block, lets, self.results(block))

    def untouched(self, block: anf.Block, *about: Mapping[anf.Var, object]) -> bool:
        """Tells whether a block mentions nothing that is replaced, and nothing of what rules are about."""
        if self.renew or self.site is not None:
            return False
        used = mentioned(block)
        return self.env.keys().isdisjoint(used) and all(some.keys().isdisjoint(used) for some in about)

    def results(self, block: anf.Block) -> Sequence[anf.Atom]:
        """The results of a block whose lets have been gone through."""
        env = self.env  # most results stay, and a block may have very many
        if not env:
            return block.results
        return [self.atom(r) if type(r) is anf.Var and r in env else r for r in block.results]

    def copied(self, block: anf.Block, standing: Set[anf.Var]) -> anf.Block:
        """A block whose lets that bind what is `standing` elsewhere are fresh copies, and the others are themselves."""
        lets = []
        for let in block.lets:
            self.renew = not standing.isdisjoint(let.vars)
            lets.append(self.let(let))
        self.renew = False
        return with_lets(block, lets, self.results(block))


@overload
def substitute(x: anf.Block, mapping: Mapping[anf.Var, Replacement]) -> anf.Block: ...
@overload
def substitute(x: anf.Size, mapping: Mapping[anf.Var, Replacement]) -> anf.Size: ...
@overload
def substitute(x: anf.Type, mapping: Mapping[anf.Var, Replacement]) -> anf.Type: ...
@overload
def substitute(x: anf.Op, mapping: Mapping[anf.Var, Replacement]) -> anf.Op: ...
def substitute(
    x: anf.Block | anf.Op | anf.Type | anf.Size, mapping: Mapping[anf.Var, Replacement]
) -> anf.Block | anf.Op | anf.Type | anf.Size:
    """A block, operation, type or polynomial with variables replaced.

    A bound variable whose type mentions a replaced one becomes a fresh variable; an operation's own results do not
    change, so use it on an operation only if the types of what it binds are substituted too.
    """
    if not mapping:
        return x
    renaming = Renaming(mapping)
    match x:
        case anf.Block():
            return renaming.block(x)
        case Poly():
            return renaming.size(x)
        case _ if isinstance(x, anf.Type):
            return renaming.type(x)
        case _:
            return renaming.op(x)


def refresh(block: anf.Block, mapping: Mapping[anf.Var, Replacement] | None = None) -> anf.Block:
    """A copy of a block in which every bound variable is fresh, and `mapping` replaces free ones."""
    return Renaming(mapping or {}, renew=True).block(block)


def inlined(function: anf.Function, args: tuple[anf.Atom, ...], span: Span | None = None) -> anf.Block:
    """A fresh copy of the body of a function applied to arguments, in the place of a call at `span`."""
    site = CallSite(function.label or function.name, span)
    mapping = dict(zip(function.params, args, strict=True))
    return Renaming(mapping, renew=True, site=site, followed=has_marks(function.body)).block(function.body)


def refresh_vars(vars: tuple[anf.Var, ...], mapping: Mapping[anf.Var, Replacement]) -> tuple[anf.Var, ...]:
    """Fresh copies of variables whose types may mention earlier ones of them, and what `mapping` replaces."""
    renaming = Renaming(mapping, renew=True)
    return tuple([renaming.bind(v) for v in vars])
