"""The cotangent of an array that a recursive function is given, as a list of what is to be added to it.

Each call adds what it reads, so a recursion over the elements of an array costs what it does, and not an array for each
call. Whoever called from outside adds the list up, in place.
"""

from __future__ import annotations

from dlang.ad.rules import scalar
from dlang.ir.anf import (
    FLOATS,
    Array,
    Atom,
    Construct,
    Datatype,
    Fields,
    Keep,
    Lit,
    Read,
    Scalar,
    Size,
    Tag,
    Var,
    Variant,
    fresh,
    poly,
)
from dlang.ir.builder import Builder, axis
from dlang.ir.types import I64, array_type

NIL, ENTRY, WHOLE = 0, 1, 2  # the variants of a list


def list_type(datatypes: dict[str, Datatype], array: Array) -> Scalar:
    """The type of lists of contributions to arrays of floats of a type, of any sizes."""
    assert array.dtype in FLOATS
    element = Scalar(array.dtype)
    rank = len(array.shape)
    name = f"contributions_{element.dtype}_{rank}"
    if name not in datatypes:
        at = tuple([fresh("i", I64) for _ in range(rank)])
        sizes = tuple([fresh("n", I64) for _ in range(rank)])
        own = Scalar(name)
        entry = Variant(name, ENTRY, "Entry", (*at, fresh("g", element), fresh("rest", own)))
        whole_array = fresh("a", Array(element.dtype, tuple([poly(n) for n in sizes])))
        whole = Variant(name, WHOLE, "Whole", (*sizes, whole_array, fresh("rest", own)))
        label = f"contributions to an array of {array.dtype}"
        datatypes[name] = Datatype(name, (Variant(name, NIL, "Nil", ()), entry, whole), label)
    return Scalar(name)


def nothing(b: Builder, datatypes: dict[str, Datatype], type: Scalar) -> Var:
    """The empty list."""
    return b.one(Construct(datatypes[type.dtype].variants[NIL], ()), "nothing")


def with_entry(b: Builder, datatypes: dict[str, Datatype], index: tuple[Size, ...], g: Atom, rest: Var) -> Var:
    """The list with a contribution to one element."""
    assert isinstance(rest.type, Scalar)
    variant = datatypes[rest.type.dtype].variants[ENTRY]
    return b.one(Construct(variant, (*[b.size(i) for i in index], g, rest)), rest.name)


def with_array(b: Builder, datatypes: dict[str, Datatype], array: Var, rest: Var) -> Var:
    """The list with a contribution to each element."""
    assert isinstance(rest.type, Scalar)
    variant = datatypes[rest.type.dtype].variants[WHOLE]
    return b.one(Construct(variant, (*[b.size(n) for n in array_type(array).shape], array, rest)), rest.name)


def added_up(b: Builder, datatypes: dict[str, Datatype], start: Var, first: Var) -> Var:
    """The array `start` with the contributions of a list, one after another."""
    assert isinstance(first.type, Scalar)
    _, entry, whole = datatypes[first.type.dtype].variants
    rank = len(array_type(start).shape)

    def one(bar: Var, node: Var) -> list[Atom]:
        *at, g, rest = b.emit(Fields(entry, node))
        index = tuple([poly(i) for i in at])
        return [b.update(bar, index, scalar(b, "add", b.one(Read(bar, index)), g)), rest]

    def every(bar: Var, node: Var) -> list[Atom]:
        array, rest = b.emit(Fields(whole, node))[rank:]
        axes = [axis(size) for size in array_type(bar).shape]
        index = tuple([poly(a.var) for a in axes])
        keep = Keep(array_type(bar).shape, index, "sum", bar)
        return [*b.comp(axes, lambda *_: b.one(Read(array, index)), [keep], ("bar",)), rest]

    def body(bar: Var, node: Var) -> list[Atom]:
        single = b.prim("eq", b.one(Tag(node)), Lit(ENTRY, "i64"))
        return list(b.if_(single, lambda: one(bar, node), lambda: every(bar, node)))

    def more(bar: Var, node: Var) -> Atom:
        return b.prim("ne", b.one(Tag(node)), Lit(NIL, "i64"))

    out, _ = b.while_([start, first], more, body, names=("bar", "node"))
    return out
