"""The functions that a derivative of a function becomes, and the types of cotangents and tangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, IndexExpr
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import type_vars


@dataclass(frozen=True, slots=True)
class Key:
    """The derivative of a function: the positions of parameters, and of results that may have cotangents.

    border: cotangents are of the types of the values, as in `Vjp`. Else those of nodes are of their cotangent types,
    and those of some array parameters come in and are added to.
    tape: the name of the tape's datatype if a `VjpForward` has given one. changing: the positions of arrays that change
    in place where the function is called, so the backward half can't be given them (`rematerialise.py`). zero: those of
    arrays whose cotangents are zero so far, so none comes in: that of a result may go on as theirs.
    """

    function: str
    wrt: tuple[int, ...]
    seeded: tuple[bool, ...]
    border: bool = False
    tape: str | None = None
    changing: tuple[int, ...] = ()
    zero: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cotangents:
    """The parameters of a backward function after its first ones: sizes, cotangents, those to add to.

    sizes: where a cotangent has a size that the function itself computes, it is a parameter and checked: the position
    of the result and of the axis at which the caller finds it. into: the positions of parameters whose cotangents are
    added to.
    """

    sizes: tuple[tuple[int, int], ...]
    into: tuple[int, ...]

    def args(self, b: Builder, bars: Sequence[Atom | None]) -> list[Atom]:
        """The arguments, from a cotangent or None for each result, without those to add to."""
        out: list[Atom] = []
        for k, axis in self.sizes:
            bar = bars[k]
            assert bar is not None and isinstance(bar.type, Array)
            size = bar.type.shape[axis]
            out.append(b.size(size) if size.constant is not None or size.atom is not None else b.one(IndexExpr(size)))
        return [*out, *(bar for bar in bars if bar is not None)]


@dataclass(frozen=True, slots=True)
class Fused:
    """function(params, sizes, cotangents, into) -> (results, cotangents of the parameters)."""

    function: str
    cotangents: Cotangents


@dataclass(frozen=True, slots=True)
class Rerun:
    """function(some params, sizes, cotangents, into) -> (results, cotangents of the parameters), of another run.

    params: the positions of the parameters that it takes. results: how many it gives before the cotangents; none,
    unless the function is still being made.
    """

    function: str
    params: tuple[int, ...]
    cotangents: Cotangents
    results: int


@dataclass(frozen=True, slots=True)
class Halves:
    """forward(params) -> (results, tape), backward(tape, some params, sizes, cotangents, into) -> cotangents.

    params: the positions of the parameters that the backward half takes: sizes, and arrays that are handed on. Of the
    halves of a `VjpForward` these are sizes only.
    """

    forward: str
    backward: str
    tape: str
    params: tuple[int, ...]
    cotangents: Cotangents


class Derivatives(Protocol):
    """Builds these functions, once for each key: a function under construction is found by its signature."""

    def fused(self, key: Key) -> Fused: ...

    def shared(self, key: Key) -> Key: ...

    def rerun(self, key: Key) -> Rerun: ...

    def halves(self, key: Key) -> Halves: ...


# ---- types of derivatives --------------------------------------------------------------------------------------------
# The types of cotangents and tangents.
#
# That of a float, or of an array of floats, is of the same type. A node of a datatype D that can hold floats has one of
# the datatype D̄: variant 0 is zero, variant k + 1 is for nodes of variant k of D and holds what the float leaves and
# the handle leaves of such a node have, and the sizes that these need. So a zero costs nothing, whatever the node
# holds.


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


def tangent_datatype(datatypes: dict[str, anf.Datatype], name: str) -> str:
    """The name of the datatype of the tangents of nodes of datatype `name`; registers it, and those it needs."""
    bar = f"{name}_bar"
    if bar not in datatypes:
        datatype = datatypes[name]
        datatypes[bar] = anf.Datatype(bar, ())  # so that it is found while it is made
        zero = anf.Variant(bar, 0, "Zero", ())
        variants = tuple([_tangent_variant(datatypes, bar, v) for v in datatype.variants])
        datatypes[bar] = anf.Datatype(bar, (zero, *variants), f"derivative of {datatype.label or name}")
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
    is_first = b.prim("eq", tag, anf.Lit(tags[0], "i64"))
    (out,) = b.if_(is_first, lambda: arm(tags[0]), lambda: by_variant(b, tag, tags[1:], arm))
    return out
