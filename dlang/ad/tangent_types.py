"""The types of tangents and cotangents.

That of a float, or of an array of floats, is of the same type. A node of a datatype D that can hold floats has one of a
datatype for D: variant 0 is zero, variant k + 1 is for nodes of variant k of D and holds what the float leaves and the
handle leaves of such a node have, and the sizes that these need. So a zero costs nothing, whatever the node holds.

Opening a node costs one operation for each field, and an array in it none for its elements. So the cotangent of such an
array is no array, but a *sum* of what was added to it, of which each term is added in one step (`sums.py`):

    S = Zero | Element(i…, ḡ, rest: S) | Box(low…, sizes…, ḡ, rest: S) | Both(S, S)

An element of the array has got ḡ; or the elements from index `low` have, as many as the array ḡ has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dlang.ad.inlining import unused
from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import type_vars
from dlang.ir.types import I64, array_type, is_fixed, product
from dlang.ops import figures

ELEMENT, BOX, BOTH = 1, 2, 3  # the variants of a sum, after zero


def holding(datatypes: Mapping[str, anf.Datatype]) -> set[str]:
    """The datatypes whose nodes can hold floats, directly or through others."""
    holders: set[str] = set()
    while True:
        before = len(holders)
        for name, datatype in datatypes.items():
            if name not in holders:
                fields = [f.type for variant in datatype.variants for f in variant.fields]
                if any(not isinstance(t, anf.Token) and (t.dtype in anf.FLOATS or t.dtype in holders) for t in fields):
                    holders.add(name)
        if len(holders) == before:
            return holders


def carries(type: anf.Type, held: set[str]) -> bool:
    """Tells whether a value of this type can have a derivative; `held`: the datatypes that hold floats."""
    return not isinstance(type, anf.Token) and (type.dtype in anf.FLOATS or type.dtype in held)


def is_small(type: anf.Type) -> bool:
    """Tells whether a type is that of a number, or of an array of so few elements that it costs what numbers cost."""
    if not isinstance(type, anf.Array):
        return True
    elements = product(type.shape).constant
    return is_fixed(type.shape) and elements is not None and elements <= figures.WRITTEN_OUT_POINTS


@dataclass(slots=True)
class TangentTypes:
    """The datatypes of tangents or cotangents of the nodes of a program; they join its datatypes as they are asked for.

    held: the datatypes that hold floats. summed: the types are those of cotangents, in which arrays have sums.
    tangents: the names of those made so far. sums: those of sums, each with a type that they stand for. sums_of: their
    names, by dtype and rank. Those of an earlier derivative are ordinary datatypes; passes may have dropped fields.
    """

    datatypes: dict[str, anf.Datatype]
    held: set[str]
    summed: bool
    tangents: dict[str, str] = field(default_factory=dict)
    sums: dict[str, anf.Array] = field(default_factory=dict)
    sums_of: dict[tuple[str, int], str] = field(default_factory=dict)

    def carries(self, type: anf.Type) -> bool:
        """Tells whether a value of this type can have a derivative."""
        return carries(type, self.held)

    def type(self, type: anf.Type) -> anf.Type:
        """The type of the tangent of a value: of a float its own, of a node that of its tangent datatype."""
        if isinstance(type, anf.Token) or not anf.is_handle(type.dtype):
            return type
        dtype = self.datatype(type.dtype)
        return anf.Array(dtype, type.shape) if isinstance(type, anf.Array) else anf.Scalar(dtype)

    def field_type(self, type: anf.Type) -> anf.Type:
        """The type of the tangent of what a node holds, a field of a type: a sum for an array that is not small."""
        return self.type(type) if not self.summed or is_small(type) else self.sum_type(type)

    def sum_type(self, type: anf.Type) -> anf.Type:
        """The type of sums that stand for the cotangent of an array."""
        return anf.Scalar(self._sum(self.type(type)))

    def variant(self, variant: anf.Variant) -> anf.Variant:
        """The variant of the tangents of nodes of a variant."""
        return self.datatypes[self.datatype(variant.datatype)].variants[variant.tag + 1]

    def fields(self, variant: anf.Variant) -> list[int]:
        """Lists the fields of a variant that its tangent has, in order: leaves with a derivative, and their sizes."""
        wanted = {f for f in variant.fields if self.carries(f.type)}
        if not self.summed:
            wanted |= {size for f in wanted for size in type_vars(f.type)}
        return [k for k, f in enumerate(variant.fields) if f in wanted]

    def zero(self, b: Builder, type: anf.Type) -> anf.Atom:
        """The zero of the tangents of values of a type."""
        return self.nothing(b, self.type(type))

    def nothing(self, b: Builder, type: anf.Type) -> anf.Atom:
        """The zero of a type of tangents."""
        assert not isinstance(type, anf.Token)
        if type.dtype in anf.FLOATS:
            atom: anf.Atom = anf.Lit(0.0, type.dtype)
        else:
            atom = b.one(anf.Construct(self.datatypes[type.dtype].variants[0], ()), "zero")
        return b.full(type.shape, atom, name="zero") if isinstance(type, anf.Array) else atom

    # ---- making datatypes
    def datatype(self, name: str) -> str:
        """The name of the datatype of the tangents of nodes of datatype `name`, with those that it needs."""
        if name not in self.tangents:
            bar = self.tangents[name] = unused(f"{name}_bar" if self.summed else f"{name}_dot", self.datatypes)
            datatype = self.datatypes[name]
            self.datatypes[bar] = anf.Datatype(bar, ())  # so that it is found while it is made
            zero = anf.Variant(bar, 0, "Zero", ())
            variants = tuple([self._variant(bar, v) for v in datatype.variants])
            self.datatypes[bar] = anf.Datatype(bar, (zero, *variants), f"derivative of {datatype.label or name}")
        return self.tangents[name]

    def _variant(self, bar: str, variant: anf.Variant) -> anf.Variant:
        renaming = Renaming({}, renew=True)
        fields = []
        for k in self.fields(variant):
            old = variant.fields[k]
            new = anf.fresh(old.name, self.field_type(renaming.type(old.type)))
            renaming.env[old] = new
            fields.append(new)
        return anf.Variant(bar, variant.tag + 1, variant.name, tuple(fields))

    def _sum(self, type: anf.Type) -> str:
        """The name of the datatype of sums that stand for arrays of a dtype and a rank."""
        assert isinstance(type, anf.Array)
        axes = range(len(type.shape))
        key = type.dtype, len(axes)
        if key not in self.sums_of:
            name = self.sums_of[key] = unused(f"{type.dtype}.{len(axes)}.sum", self.datatypes)
            self.sums[name] = type
            rest = anf.Scalar(name)
            sizes = [anf.fresh("n", I64) for _ in axes]
            term = anf.fresh("term", anf.Scalar(type.dtype))
            terms = anf.fresh("terms", anf.Array(type.dtype, tuple(map(anf.poly, sizes))))
            at, low = ([anf.fresh("i", I64) for _ in axes] for _ in range(2))
            variants = (
                anf.Variant(name, 0, "Zero", ()),
                anf.Variant(name, ELEMENT, "Element", (*at, term, anf.fresh("rest", rest))),
                anf.Variant(name, BOX, "Box", (*low, *sizes, terms, anf.fresh("rest", rest))),
                anf.Variant(name, BOTH, "Both", (anf.fresh("x", rest), anf.fresh("y", rest))),
            )
            self.datatypes[name] = anf.Datatype(name, variants, "sum of a derivative")
        return self.sums_of[key]

    def is_sum(self, type: anf.Type) -> bool:
        """Tells whether a type is that of sums."""
        return not isinstance(type, anf.Token) and type.dtype in self.sums


def is_zero(b: Builder, atom: anf.Atom) -> bool:
    """Tells whether a tangent of a node, or a sum, is seen to be zero."""
    match b.definition(atom) if isinstance(atom, anf.Var) else None:
        case anf.Construct(variant):
            return variant.tag == 0
        case _:
            return False


def by_variant(b: Builder, tag: anf.Atom, tags: list[int], arm: Callable[[int], anf.Atom]) -> anf.Atom:
    """A branch on a tag, which is one of `tags`, to what `arm` emits for it."""
    if len(tags) == 1:
        return arm(tags[0])
    is_first = b.prim("eq", tag, anf.Lit(tags[0], "i64"))
    (out,) = b.if_(is_first, lambda: arm(tags[0]), lambda: by_variant(b, tag, tags[1:], arm))
    return out


def retyped(b: Builder, value: anf.Atom, type: anf.Type) -> anf.Atom:
    """A value of a type of the same dtype and rank; sizes written in another way are checked to be the same."""
    if not isinstance(value.type, anf.Array) or value.type == type:
        return value
    assert isinstance(type, anf.Array) and isinstance(value, anf.Var)
    for axis, (given, wanted) in enumerate(zip(value.type.shape, type.shape, strict=True)):
        if given != wanted:
            values = (b.size(given), b.size(wanted))
            parts = ("a cotangent has the size ", "", " where the value has ", "", "")
            shape = array_type(value).shape
            next_type = anf.Array(type.dtype, (*shape[:axis], wanted, *shape[axis + 1 :]))
            (value,) = b.check(b.prim("eq", *values), "E0706", parts, values, (value,), (next_type,))
    return value
