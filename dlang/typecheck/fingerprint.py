"""Digests a declaration, the same way in every process: so what was made of it can be found again.

The functions, structs and enums of modules are said by their names; the digest of the module is another part of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from dlang.cache.store import digest
from dlang.polynomials import Poly
from dlang.typecheck.headers import FnDecl, Unread
from dlang.typecheck.scope import ModuleTable
from dlang.typecheck.types import DataDecl, Floor, RowVar, SizeVar, TypeVar, Variant

_VARIABLES = (TypeVar, SizeVar, RowVar, Floor)


class Unnamed(Exception):
    """Something that only this process knows, such as a function of Python."""


def fingerprint(value: object, tables: Iterable[ModuleTable]) -> str:
    """The digest of a declaration, or of a piece of one. tables: the modules of its program. Raises Unnamed."""
    named: dict[object, str] = {}
    for table in tables:
        for name, decl in table.core.functions.items():
            named[decl] = f"{table.name}.{name}"
        for name, data in table.core.types.items():
            named[data] = f"{table.name}.{name}"
            named |= {v: f"{table.name}.{name}.{v.tag}" for v in data.variants}
        if table.core.script is not None:
            named[table.core.script] = table.name
    return digest(*_Walk(named).texts(value))


@dataclass(slots=True)
class _Walk:
    """numbers: of what has an identity, in the order in which it was met."""

    named: Mapping[object, str]
    numbers: dict[object, int] = field(default_factory=dict)

    def texts(self, value: object) -> Iterator[str]:
        match value:
            case FnDecl() | DataDecl() | Variant() if value in self.named:
                yield f"@{self.named[value]}"
            case DataDecl() | Variant():
                raise Unnamed(value.name)
            case Unread():
                yield from self.texts(value.told_by or value.read())
            case str() | int() | float() | None | Fraction():
                yield f"{type(value).__name__} {value!r}"
            case tuple() | list():
                yield f"({type(value).__name__} {len(value)}"
                for item in value:
                    yield from self.texts(item)
            case dict():
                yield f"{{{len(value)}"
                for key, item in value.items():
                    yield from self.texts(key)
                    yield from self.texts(item)
            case set() | frozenset():
                yield f"{{{sorted(map(repr, value))}"
            case Poly():
                yield from self.texts(value.terms)
            case _ if is_dataclass(value) and not isinstance(value, type):
                yield from self.object(value)
            case _:
                raise Unnamed(repr(type(value)))

    def object(self, value: object) -> Iterator[str]:
        kind: Any = type(value)
        if not kind.__dataclass_params__.eq:
            met = self.numbers.get(value)
            number = len(self.numbers) if met is None else met
            yield f"#{number}"
            if met is not None:
                return
            self.numbers[value] = number
        yield kind.__name__
        for name in _names(kind):
            yield from self.texts(getattr(value, name))


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """The fields that count: serials differ from process to process, and what is kept of a tree follows from it."""
    return tuple([f.name for f in fields(kind) if f.init and not (kind in _VARIABLES and f.name == "serial")])
