"""Objects as bytes and back: graphs of the compiler's own dataclasses, with their sharing and their circles.

The format is that of `pickle`, since nothing else is as quick for such graphs, but reading it makes objects of the
classes in `MODULES` and of a few of Python's own, and calls nothing else: no function can be named in it. Objects that
are compared by identity, and classes, can stand for what is elsewhere: in another record, or in the process that reads.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from dlang.diagnostics import Source
from dlang.identity import ByIdentity
from dlang.polynomials import Poly

MODULES = frozenset({
    "dlang.diagnostics", "dlang.polynomials", "dlang.grammar.tables", "dlang.typecheck.types", "dlang.typecheck.core",
    "dlang.typecheck.headers", "dlang.typecheck.scope", "dlang.typecheck.state", "dlang.typecheck.stored",
    "dlang.ir.terms", "dlang.ir.anf", "dlang.ir.crossing", "dlang.runtime.archive", "dlang.runtime.compiled",
    "dlang.codegen.llvm.objects", "dlang.codegen.abi",
})  # fmt: skip
HERE = __name__.removesuffix(".cache.records")
"""The package that this is part of: `dlang`, or a copy of its runtime in another one. Records say `dlang` for both."""
_VALUES = frozenset({str, int, float, bool, bytes, tuple, list, dict, type(None)})
_PYTHON = {("builtins", "set"): set, ("builtins", "frozenset"): frozenset, ("fractions", "Fraction"): Fraction}


class Elsewhere(NamedTuple):
    """A reference out of a record: to an object of another, by its number there, or to a program's class."""

    record: str
    number: int


class Unkept(Exception):
    """An object that has no form in a record, or a record that can't be read."""


Outside = Callable[[Any], Elsewhere | None]
Inside = Callable[[Elsewhere], Any]


def dump(
    value: Any, outside: Outside | None = None, apart: ByIdentity[Any, Elsewhere] | None = None
) -> tuple[bytes, list[Any]]:
    """The record of a value, and the objects in it that are compared by identity, by number.

    outside: says which objects are in other records. apart: parts that are elsewhere; none is a plain
    value or a collection of Python.
    Raises Unkept.
    """
    stream = BytesIO()
    pickler = _Pickler(stream, outside, apart or ByIdentity())
    try:
        pickler.dump((value, pickler.objects))
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as e:
        raise Unkept(str(e)) from e
    return stream.getvalue(), pickler.objects


def load(record: bytes, inside: Inside | None = None) -> tuple[Any, list[Any]]:
    """The value of a record, and its objects by number. inside: finds those of other records. Raises Unkept."""
    try:
        value, objects = _Unpickler(BytesIO(record), inside).load()
    except Unkept:
        raise
    except Exception as e:  # whatever a record of another form makes pickle say
        raise Unkept(str(e)) from e
    return value, objects


class _Pickler(pickle.Pickler):
    def __init__(self, stream: BytesIO, outside: Outside | None, apart: ByIdentity[Any, Elsewhere]) -> None:
        super().__init__(stream, protocol=5)
        self.objects: list[Any] = []
        self.outside, self.apart = outside, apart

    def persistent_id(self, value: Any) -> tuple[str, int] | None:
        if value.__class__ in _VALUES:  # most are, and they are no part that is elsewhere
            return None
        if (place := self.apart.get(value)) is not None:
            return place.record, place.number
        if self.outside is None or not (_is_object(value.__class__) or isinstance(value, type)):
            return None
        reference = self.outside(value)
        return None if reference is None else (reference.record, reference.number)

    def reducer_override(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind is Poly:
            return Poly, (value.terms,)
        if kind is Source:
            self.objects.append(value)
            return Source, (value.path, value.text, value.first_line, value.offset, value.number, value.whole)
        names = _arguments(kind)
        if names is not None:  # a frozen one is made by its constructor, which is quicker than setting its state
            return kind, tuple([getattr(value, name) for name in names])
        if _is_object(kind):
            self.objects.append(value)
        named = value if isinstance(value, type) else kind
        if named.__module__ not in MODULES and (named.__module__, named.__name__) not in _PYTHON:
            raise Unkept(f"{named.__module__}.{named.__name__}")
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: BytesIO, inside: Inside | None) -> None:
        super().__init__(stream)
        self.inside = inside

    def persistent_load(self, number: Any) -> Any:
        if self.inside is None:
            raise Unkept("an object of another record")
        return self.inside(Elsewhere(*number))

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PYTHON:
            return _PYTHON[module, name]
        if module in MODULES and "." not in name:
            module_name = HERE + module.removeprefix("dlang")
            named = getattr(__import__(module_name, fromlist=[name]), name)
            if isinstance(named, type) and named.__module__ == module_name:
                return named
        raise Unkept(f"{module}.{name} is no class of a record")


@cache
def _is_object(kind: Any) -> bool:
    """Tells whether objects of a class are compared by identity: dataclasses with eq=False."""
    return is_dataclass(kind) and not _params(kind).eq


@cache
def _arguments(kind: Any) -> tuple[str, ...] | None:
    """The fields of a frozen dataclass, as its constructor takes them; None for any other class."""
    if not is_dataclass(kind) or not _params(kind).frozen:
        return None
    return tuple([f.name for f in fields(kind) if f.init])


def _params(kind: Any) -> Any:
    return kind.__dataclass_params__
