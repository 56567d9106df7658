"""Structs and enums as Python sees them: a frozen dataclass for each struct, and for each variant of an enum.

Fields have the names of the declaration; those without are `_0`, `_1`. A variant `None` without fields is Python's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dlang.host.classes import MEMBERS, WRITTEN, python_names
from dlang.typecheck.types import DataDecl, Variant


class StructClasses:
    """The dataclasses of the structs and enums of one program. members: what all of them have beside their fields."""

    def __init__(self, members: Mapping[str, Any] | None = None) -> None:
        self._members = {**MEMBERS, **(members or {})}
        self._classes: dict[DataDecl, type] = {}
        self._variants: dict[Variant, type] = {}

    def of(self, decl: DataDecl) -> type:
        """The class of a struct, made when it is first asked for."""
        if decl not in self._classes:
            fields = [(name, Any) for name in field_names(decl.variants[0])]
            members = {
                **self._members,
                "__dlang__": decl,
                WRITTEN: written_names(decl.variants[0]),
                "__doc__": decl.doc or f"The struct `{decl.name}`.",
            }
            struct_class = dataclasses.make_dataclass(
                decl.name, fields, namespace=members, frozen=True, eq=False, repr=False, slots=True
            )
            struct_class.__module__ = decl.module
            self._classes[decl] = struct_class
        return self._classes[decl]

    def variant(self, decl: DataDecl, variant: Variant) -> type:
        """The class of a variant of an enum."""
        if variant not in self._variants:
            fields = [(name, Any) for name in field_names(variant)]
            members = {
                **self._members,
                "__dlang_variant__": (decl, variant),
                WRITTEN: written_names(variant),
                "__doc__": f"The variant `{variant.name}` of the enum `{decl.name}`.",
            }
            variant_class = dataclasses.make_dataclass(
                variant.name, fields, namespace=members, frozen=True, eq=False, repr=False, slots=True
            )
            variant_class.__module__ = decl.module
            self._variants[variant] = variant_class
        return self._variants[variant]


def field_names(variant: Variant) -> list[str]:
    """The names of the fields of a variant in Python."""
    return python_names([name for name, _ in variant.fields])


def written_names(variant: Variant) -> tuple[str, ...]:
    """The names of the fields of a variant in the language; `0`, `1`… for those without."""
    return tuple([str(k) if name is None else name for k, (name, _) in enumerate(variant.fields)])


def is_none(variant: Variant) -> bool:
    """Tells whether a variant is Python's `None`."""
    return variant.name == "None" and not variant.fields


def variant_of(value: object, decl: DataDecl) -> Variant | None:
    """The variant of an enum that a Python value is of; None if it is of none."""
    known_variant = getattr(type(value), "__dlang_variant__", None)
    for v in decl.variants:
        if value is None and is_none(v):
            return v
        if isinstance(known_variant, tuple):
            other, other_variant = known_variant
            same = (other.name, other.module, field_names(other_variant)) == (decl.name, decl.module, field_names(v))
            if other_variant.name == v.name and (other is decl or same):
                return v
    return None


def declaration(value: object) -> DataDecl | None:
    """The struct or the enum that a Python value is one of."""
    return declaration_of(type(value))


def declaration_of(kind: type) -> DataDecl | None:
    """The struct or the enum that a class is, or is a variant of."""
    declaration = getattr(kind, "__dlang__", None)
    variant = getattr(kind, "__dlang_variant__", None)
    if isinstance(variant, tuple):
        declaration = variant[0]
    return declaration if isinstance(declaration, DataDecl) else None


def is_a(value: object, decl: DataDecl) -> bool:
    """Tells whether a value is of a struct; one of the same name, module and fields that another program made is."""
    kind = declaration(value)
    if kind is None:
        return False
    return kind is decl or (
        kind.is_struct
        and kind.name == decl.name
        and kind.module == decl.module
        and [n for n, _ in kind.variants[0].fields] == [n for n, _ in decl.variants[0].fields]
    )
