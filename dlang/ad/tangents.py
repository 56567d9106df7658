"""The types of cotangents and tangents.

That of a float, or of an array of floats, is of the same type. A node of a datatype D that can hold floats has one of
the datatype D̄: variant 0 is zero, variant k + 1 is for nodes of variant k of D and holds what the float leaves and the
handle leaves of such a node have, and the sizes that these need. So a zero costs nothing, whatever the node holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import type_vars


def holding(datatypes: Mapping[str, anf.Datatype]) -> set[str]:
    """The datatypes whose nodes can hold floats, directly or through others."""
    found: set[str] = set()
    while True:
        before = len(found)
        for name, datatype in datatypes.items():
            if name not in found:
                fields = [f.type for variant in datatype.variants for f in variant.fields]
                if any(not isinstance(t, anf.Token) and (t.dtype in anf.FLOATS or t.dtype in found) for t in fields):
                    found.add(name)
        if len(found) == before:
            return found


def carries(type: anf.Type, held: set[str]) -> bool:
    """Tells whether a value of this type can have a derivative; `held`: the datatypes that hold floats."""
    return not isinstance(type, anf.Token) and (type.dtype in anf.FLOATS or type.dtype in held)


def tangent_datatype(datatypes: dict[str, anf.Datatype], name: str) -> str:
    """The name of the datatype of the tangents of nodes of datatype `name`; registers it, and those it needs."""
    bar = f"{name}_bar"
    if bar not in datatypes:
        datatype = datatypes[name]
        datatypes[bar] = anf.Datatype(bar, ())  # so that it is found while it is made
        zero = anf.Variant(bar, 0, "Zero", ())
        rest = tuple([_tangent_variant(datatypes, bar, v) for v in datatype.variants])
        datatypes[bar] = anf.Datatype(bar, (zero, *rest), f"derivative of {datatype.label or name}")
    return bar


def tangent_type(datatypes: dict[str, anf.Datatype], type: anf.Type) -> anf.Type:
    """The type of the tangent of a value: of a float its own, of a node that of its tangent datatype."""
    if isinstance(type, anf.Token) or not anf.is_handle(type.dtype):
        return type
    dtype = tangent_datatype(datatypes, type.dtype)
    return anf.Array(dtype, type.shape) if isinstance(type, anf.Array) else anf.Scalar(dtype)


def tangent_variant(datatypes: dict[str, anf.Datatype], variant: anf.Variant) -> anf.Variant:
    """The variant of the tangents of nodes of a variant."""
    return datatypes[tangent_datatype(datatypes, variant.datatype)].variants[variant.tag + 1]


def tangent_fields(held: set[str], variant: anf.Variant) -> list[int]:
    """Lists the fields of a variant that its tangent has, in order: leaves with a derivative, and their sizes."""
    wanted = {f for f in variant.fields if carries(f.type, held)}
    wanted |= {size for f in wanted for size in type_vars(f.type)}
    return [k for k, f in enumerate(variant.fields) if f in wanted]


def _tangent_variant(datatypes: dict[str, anf.Datatype], bar: str, variant: anf.Variant) -> anf.Variant:
    renaming = Renaming({}, renew=True)
    held = holding(datatypes)
    fields = []
    for k in tangent_fields(held, variant):
        field = variant.fields[k]
        new = anf.fresh(field.name, tangent_type(datatypes, renaming.type(field.type)))
        renaming.env[field] = new
        fields.append(new)
    return anf.Variant(bar, variant.tag + 1, variant.name, tuple(fields))


def is_zero(b: Builder, atom: anf.Atom) -> bool:
    """Tells whether a tangent of a node is seen to be zero."""
    match b.definition(atom) if isinstance(atom, anf.Var) else None:
        case anf.Construct(variant):
            return variant.tag == 0
        case _:
            return False


def zero(b: Builder, datatypes: dict[str, anf.Datatype], type: anf.Type) -> anf.Atom:
    """The zero of a tangent type."""
    assert not isinstance(type, anf.Token)
    if type.dtype in anf.FLOATS:
        atom: anf.Atom = anf.Lit(0.0, type.dtype)
    else:
        atom = b.one(anf.Construct(datatypes[type.dtype].variants[0], ()), "zero")
    return b.full(type.shape, atom, name="zero") if isinstance(type, anf.Array) else atom


def by_variant(b: Builder, tag: anf.Atom, tags: list[int], arm: Callable[[int], anf.Atom]) -> anf.Atom:
    """A branch on a tag, which is one of `tags`, to what `arm` emits for it."""
    if len(tags) == 1:
        return arm(tags[0])
    here = b.prim("eq", tag, anf.Lit(tags[0], "i64"))
    (out,) = b.if_(here, lambda: arm(tags[0]), lambda: by_variant(b, tag, tags[1:], arm))
    return out
