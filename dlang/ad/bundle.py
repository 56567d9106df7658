"""Values that are saved together in a node, and what they are when it is opened.

A node holds arrays of any sizes, and has every size in it that these mention.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dlang.ad.conversions import retyped
from dlang.ad.inlining import unused
from dlang.ir.anf import Datatype, Let, Var, Variant, fresh
from dlang.ir.builder import Builder
from dlang.ir.sizes import defined_sizes
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import type_vars


@dataclass(frozen=True, slots=True)
class Bundle:
    """saved: the variables that a node holds, each after the sizes in its type. variant: of the node."""

    saved: tuple[Var, ...]
    variant: Variant
    types: Renaming

    def opened(self, b: Builder, values: Sequence[Var], bound: Collection[Var], renaming: Renaming) -> None:
        """Has a renaming give what is in a node in place of the variables in `bound`; other sizes are known outside."""
        renaming.env.update((v, value) for v, value in zip(self.saved, values, strict=True) if v in bound)
        given = {v for v in self.saved if v not in bound}
        for v, value in zip(self.saved, values, strict=True):
            if v in bound and any(size in given for size in type_vars(self.types.type(v.type))):
                renaming.env[v] = retyped(b, value, renaming.type(self.types.type(v.type)))


def bundle(vars: Sequence[Var], lets: Sequence[Let], datatypes: dict[str, Datatype], name: str, label: str) -> Bundle:
    """A node for variables, of a datatype of its own with one variant. lets: what defines sizes among them."""
    types = Renaming(dict(defined_sizes(lets)))
    saved = with_all_sizes(vars, types)
    name = unused(name, datatypes)
    variant = Variant(name, 0, "Saved", fields_of(saved, types))
    datatypes[name] = Datatype(name, (variant,), label)
    return Bundle(tuple(saved), variant, types)


def with_all_sizes(vars: Iterable[Var], types: Renaming) -> list[Var]:
    """Variables, each after all that its type mentions."""
    out: dict[Var, None] = {}

    def go(some: Iterable[Var]) -> None:
        for v in some:
            go(type_vars(types.type(v.type)))
            out[v] = None

    go(vars)
    return list(out)


def fields_of(saved: Sequence[Var], types: Renaming) -> tuple[Var, ...]:
    """The fields of a node that holds variables."""
    renaming = Renaming({}, renew=True)
    for v in saved:
        renaming.env[v] = fresh(v.name, renaming.type(types.type(v.type)))
    return tuple([field for v in saved if isinstance(field := renaming.env[v], Var)])
