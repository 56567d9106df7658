"""Functions on cotangents of nodes, made as they are needed: sums, and those between D̄ and the type D itself.

A user sees the derivative of a tree as a tree: a node of D in which the floats are derivatives and all else is that of
the value. Inside of a derivative it is a node of D̄ (`tangent_types.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dlang.ad import sums
from dlang.ad.inlining import unused
from dlang.ad.rules import scalar
from dlang.ad.tangent_types import TangentTypes, by_variant, holding, is_zero, retyped
from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import type_vars
from dlang.ir.types import dtype_of
from dlang.polynomials import Poly


def fitted(b: Builder, params: Sequence[anf.Var], args: Sequence[anf.Atom]) -> tuple[anf.Atom, ...]:
    """Arguments of the types that parameters have; their sizes may be written in another way."""
    renaming = Renaming({})
    for param, arg in zip(params, args, strict=True):
        renaming.env[param] = retyped(b, arg, renaming.type(param.type))
    return tuple([renaming.atom(param) for param in params])


@dataclass(slots=True, kw_only=True)
class Conversions(TangentTypes):
    """The functions made so far, in the tables of the program under way."""

    functions: dict[str, anf.Function]
    made: dict[tuple[str, str], str] = field(default_factory=dict)
    arms: str | None = None  # the datatype of what arms save: see `bundle`

    @staticmethod
    def of(functions: dict[str, anf.Function], datatypes: dict[str, anf.Datatype], summed: bool) -> Conversions:
        """The conversions of a program. summed: of cotangents, see `TangentTypes`."""
        return Conversions(functions=functions, datatypes=datatypes, held=holding(datatypes), summed=summed)

    # ---- sums
    def plus(self, b: Builder, x: anf.Atom, y: anf.Atom) -> anf.Atom:
        """The sum of two cotangents of one value."""
        if dtype_of(x) not in anf.FLOATS and (is_zero(b, x) or is_zero(b, y)):
            return y if is_zero(b, x) else x
        if isinstance(x.type, anf.Array):
            return self.each(
                b, x.type, lambda i: self.plus(b, b.one(anf.Read(_array(x), i)), b.one(anf.Read(_array(y), i)))
            )
        if dtype_of(x) in anf.FLOATS:
            return scalar(b, "add", x, y)
        if self.is_sum(x.type):
            return sums.joined(b, self, x, y)
        return b.call(self.function("add", dtype_of(x), 2, dtype_of(x), self._add), x, y)[0]

    def _add(self, b: Builder, name: str, args: Sequence[anf.Var]) -> anf.Atom:
        x, y = args
        variants = self.datatypes[name].variants

        def both(k: int) -> anf.Atom:
            left, right = b.emit(anf.Fields(variants[k], x)), b.emit(anf.Fields(variants[k], y))
            sizes = {size for v in left for size in type_vars(v.type)}
            parts = [v if v in sizes else self.plus(b, v, w) for v, w in zip(left, right, strict=True)]
            return b.one(anf.Construct(variants[k], tuple(parts)))

        def rest() -> anf.Atom:
            if len(variants) == 1:
                return x
            zero_y = b.prim("eq", b.one(anf.Tag(y)), anf.Lit(0, "i64"))
            return b.if_(zero_y, lambda: x, lambda: by_variant(b, tag, [*range(1, len(variants))], both))[0]

        tag = b.one(anf.Tag(x))
        (out,) = b.if_(b.prim("eq", tag, anf.Lit(0, "i64")), lambda: y, rest)
        return out

    # ---- the user's types
    def to_tangent(self, b: Builder, value: anf.Atom, seed: anf.Atom) -> anf.Atom:
        """A cotangent that is of the type of the value, as one of its cotangent type."""
        if dtype_of(value) in anf.FLOATS:
            return retyped(b, seed, value.type)
        if isinstance(value.type, anf.Array):
            seeds = _array(retyped(b, seed, value.type))
            return self.each(
                b,
                value.type,
                lambda i: self.to_tangent(b, b.one(anf.Read(_array(value), i)), b.one(anf.Read(seeds, i))),
            )
        datatype = dtype_of(value)
        bar = self.datatype(datatype)
        return b.call(self.function("to", datatype, 2, bar, self._to), value, seed)[0]

    def _to(self, b: Builder, name: str, args: Sequence[anf.Var]) -> anf.Atom:
        value, seed = args
        variants = self.datatypes[name].variants
        tag = b.one(anf.Tag(value))
        if len(variants) > 1:
            same = b.prim("eq", tag, b.one(anf.Tag(seed)))
            (seed,) = (
                v for v in b.check(same, "E0706", ("a cotangent is of another variant than the value",), (), (seed,))
            )

        def arm(k: int) -> anf.Atom:
            fields, seeds = b.emit(anf.Fields(variants[k], value)), b.emit(anf.Fields(variants[k], seed))
            parts = [
                self._field(b, self.to_tangent(b, fields[j], seeds[j]), held) if self.carries(held) else fields[j]
                for j in self.fields(variants[k])
                for held in [variants[k].fields[j].type]
            ]
            return b.one(anf.Construct(self.variant(variants[k]), tuple(parts)))

        return by_variant(b, tag, [*range(len(variants))], arm)

    def from_tangent(self, b: Builder, value: anf.Atom, bar: anf.Atom | None) -> anf.Atom:
        """The cotangent of a value as one of the type of the value; None stands for zero."""
        if not self.carries(value.type):
            return value
        if dtype_of(value) in anf.FLOATS:
            return self.zero(b, value.type) if bar is None else retyped(b, bar, value.type)
        if isinstance(value.type, anf.Array):
            bars = None if bar is None else _array(bar)
            return self.each(
                b,
                value.type,
                lambda i: self.from_tangent(
                    b, b.one(anf.Read(_array(value), i)), None if bars is None else b.one(anf.Read(bars, i))
                ),
            )
        datatype = dtype_of(value)
        if bar is None or is_zero(b, bar):
            return b.call(self.function("zero", datatype, 1, datatype, self._zero), value)[0]
        return b.call(self.function("from", datatype, 2, datatype, self._from), value, bar)[0]

    def _zero(self, b: Builder, name: str, args: Sequence[anf.Var]) -> anf.Atom:
        (value,) = args
        variants = self.datatypes[name].variants
        return by_variant(
            b, b.one(anf.Tag(value)), [*range(len(variants))], lambda k: self._node(b, variants[k], value)
        )

    def _from(self, b: Builder, name: str, args: Sequence[anf.Var]) -> anf.Atom:
        value, bar = args
        variants = self.datatypes[name].variants

        def arm(k: int) -> anf.Atom:
            return self._node(b, variants[k - 1], value, bar)

        def other() -> anf.Atom:
            return by_variant(b, tag, [*range(1, len(variants) + 1)], arm)

        tag = b.one(anf.Tag(bar))
        is_none = b.prim("eq", tag, anf.Lit(0, "i64"))
        (out,) = b.if_(is_none, lambda: self.from_tangent(b, value, None), other)
        return out

    def _node(self, b: Builder, variant: anf.Variant, value: anf.Var, bar: anf.Var | None = None) -> anf.Atom:
        """A node like `value` whose floats are those of `bar`."""
        fields = b.emit(anf.Fields(variant, value))
        bars: dict[int, anf.Atom] = {}
        if bar is not None:
            bar_fields = b.emit(anf.Fields(self.variant(variant), bar))
            bars = dict(zip(self.fields(variant), bar_fields, strict=True))
            for k, v in enumerate(fields):
                type = self.type(v.type)
                if k in bars and self.is_sum(bars[k].type) and isinstance(type, anf.Array):
                    bars[k] = sums.array_of(b, self, bars[k], type)
        parts = [self.from_tangent(b, v, bars.get(k)) for k, v in enumerate(fields)]
        return b.one(anf.Construct(variant, tuple(parts)))

    def _field(self, b: Builder, bar: anf.Atom, held: anf.Type) -> anf.Atom:
        """A tangent, as that of a node has it for a field of a type."""
        type = self.field_type(held)
        return sums.with_box(b, self, self.nothing(b, type), _array(bar)) if self.is_sum(type) else bar

    # ---- making functions
    def each(self, b: Builder, type: anf.Array, body: Callable[[tuple[Poly[anf.Var], ...]], anf.Atom]) -> anf.Var:
        """The array of `body` at every index of an array type."""
        return b.map(type.shape, lambda *at: body(tuple(map(anf.poly, at))), name="bar")

    def function(
        self,
        kind: str,
        datatype: str,
        arity: int,
        result: str,
        body: Callable[[Builder, str, Sequence[anf.Var]], anf.Atom],
    ) -> str:
        """The name of a function of nodes, made at the first use; its signature is there before its body."""
        key = kind, datatype
        if key not in self.made:
            name = self.made[key] = unused(f"{kind}_{datatype}", self.functions)
            types = self._params(kind, datatype, arity)
            b = Builder(self.functions)
            params = [b.param("x", type) for type in types]
            out = anf.fresh("r", anf.Scalar(result))
            self.functions[name] = anf.Function(name, tuple(params), (out,), b.block(lambda: params[0]))
            block = b.block(lambda: body(b, datatype, params))
            self.functions[name] = anf.Function(name, tuple(params), (out,), block, name)
        return self.made[key]

    def _params(self, kind: str, datatype: str, arity: int) -> list[anf.Type]:
        scalar = anf.Scalar(datatype)
        return [scalar, self.type(scalar)] if kind == "from" else [scalar] * arity


def _array(atom: anf.Atom) -> anf.Var:
    assert isinstance(atom, anf.Var)
    return atom
