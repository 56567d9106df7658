"""Structs as Python sees them: one frozen dataclass for each declaration, with the same field names."""

from __future__ import annotations

import dataclasses
from typing import Any

from dlang.typecheck.types import DataDecl


class StructClasses:
    """The dataclasses of the structs of one program."""

    def __init__(self) -> None:
        self._classes: dict[DataDecl, type] = {}

    def of(self, decl: DataDecl) -> type:
        """The class of a struct, made when it is first asked for."""
        if decl not in self._classes:
            fields = [(str(name), Any) for name, _ in decl.variants[0].fields]
            # eq=False: fields are arrays, whose `==` is not one truth value
            members = {"__dlang__": decl, "__doc__": decl.doc or f"The struct `{decl.name}`."}
            made = dataclasses.make_dataclass(decl.name, fields, namespace=members, frozen=True, eq=False, slots=True)
            made.__module__ = decl.module
            self._classes[decl] = made
        return self._classes[decl]


def declaration(value: object) -> DataDecl | None:
    """The struct that a Python value is one of."""
    found = getattr(type(value), "__dlang__", None)
    return found if isinstance(found, DataDecl) else None


def is_a(value: object, decl: DataDecl) -> bool:
    """Whether a value is of a struct; one of the same name, module and fields that another program made is."""
    found = declaration(value)
    if found is None:
        return False
    return found is decl or (
        found.name == decl.name
        and found.module == decl.module
        and [n for n, _ in found.variants[0].fields] == [n for n, _ in decl.variants[0].fields]
    )
