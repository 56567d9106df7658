"""Finds functions that an earlier process compiled, by source: without checking, specialising or optimising it again.

The key of a compiled function is made of its module with all that this imports, of what the function is (a declaration,
or a derivative of one), of the dtypes and ranks that it is compiled for, of the processor and of the compiler. What is
kept is its machine code with its signature, the places that messages speak of, and how values cross the border.

Functions of Python that it calls by their names are looked for again; one that has none is known to its process alone,
and what calls it is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from dlang.cache.records import Elsewhere, Unkept, dump, load
from dlang.cache.store import digest, identity, is_unchanged
from dlang.ir.crossing import Signature
from dlang.lazy_modules import lazy_module
from dlang.polynomials import Poly
from dlang.runtime.compiled import Compiled
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import Bindings, bound_key
from dlang.typecheck.headers import FnDecl, Unread
from dlang.typecheck.program import Checked
from dlang.typecheck.scope import ModuleTable
from dlang.typecheck.types import DataDecl, Floor, RowVar, SizeVar, TypeVar, Variant

if TYPE_CHECKING:
    from dlang.codegen.llvm import objects
    from dlang.host import foreign
    from dlang.ir.crossing import PythonFunction
else:
    foreign = lazy_module("dlang.host.foreign")
    objects = lazy_module("dlang.codegen.llvm.objects")


KIND = "function"
STRUCT = -1  # the number of the class of a struct; those of the variants of an enum have their tags


@dataclass(frozen=True, slots=True)
class Place:
    """The place in the cache of a compiled function, for one program."""

    checked: Checked
    classes: StructClasses
    key: str

    def find(self) -> tuple[Compiled, Signature, dict[str, PythonFunction]] | None:
        """Returns the function kept, and the Python functions that it calls; None if there is none."""
        match self.get(KIND):
            case (Compiled() as compiled, Signature() as signature, dict() as called):
                with suppress(foreign.Missing):
                    return compiled, signature, {name: foreign.found_again(name, f) for name, f in called.items()}
        return None

    def keep(self, compiled: Compiled, signature: Signature, python: Mapping[str, PythonFunction]) -> None:
        """Keeps a compiled function; what has no form in a record is not kept."""
        self.put(KIND, (compiled, signature, foreign.forgotten(python)))

    def get(self, kind: str) -> Any | None:
        """Returns the record kept beside the function; None if there is none."""
        record = self.checked.program.cache.stored.store.get(kind, self.key)
        try:
            return None if record is None else load(record, self._class)[0]
        except Unkept:
            return None

    def put(self, kind: str, value: Any) -> None:
        """Keeps something beside the function; what has no form in a record is not kept."""
        try:
            record, _ = dump(value, name_of_class)
        except Unkept:
            return
        if is_unchanged():
            self.checked.program.cache.stored.store.put(kind, self.key, record)

    def _class(self, place: Elsewhere) -> type:
        for decl in _datatypes(self.checked):
            if f"{decl.module} {decl.name}" == place.record:
                if place.number == STRUCT:
                    return self.classes.of(decl)
                return self.classes.variant(decl, decl.variants[place.number])
        raise Unkept(f"no type {place.record}")


def place_of(checked: Checked, decl: FnDecl, bindings: Bindings, classes: StructClasses, options: str) -> Place | None:
    """Returns the place of a function in the cache, at the bindings of its variables; None if it can't be kept.

    options: what else its code depends on.
    """
    compiler, record = identity(), checked.program.cache.stored.names.get(checked.table)
    if compiler is None or record is None:
        return None
    bound = [None if v not in bindings else bound_key(bindings[v], lambda _: None) for v in decl.variables]
    tables = list(checked.program.tables.values())
    try:
        what = fingerprint((decl, bound), tables)
    except Unnamed:
        return None
    return Place(checked, classes, digest(compiler, record, checked.table.key, what, objects.processor(), options))


def name_of_class(value: Any) -> Elsewhere | None:
    """The classes that Python has for structs and enums are made anew in each process."""
    if not isinstance(value, type):
        return None
    decl = getattr(value, "__dlang__", None)
    if isinstance(decl, DataDecl):
        return Elsewhere(f"{decl.module} {decl.name}", STRUCT)
    variant = getattr(value, "__dlang_variant__", None)
    if isinstance(variant, tuple):
        return Elsewhere(f"{variant[0].module} {variant[0].name}", variant[1].tag)
    return None


def _datatypes(checked: Checked) -> Iterator[DataDecl]:
    for table in checked.program.tables.values():
        yield from table.core.types.values()


# ---- digests of declarations -----------------------------------------------------------------------------------------
# Digests a declaration, the same way in every process: so what was made of it can be found again.
#
# The functions, structs and enums of modules are said by their names; the digest of the module is another part of a
# key.

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
