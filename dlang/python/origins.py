"""The origins of programs: a function or value goes to another process as its program's source and a hash of that.

    pickle.dumps(module.f)      a file or a text, its hash, how it is run, and the name `f`
    pickle.loads(…)             the function of the program as this process has it, or else read and checked now

A source that has changed in between is an error (`E0968`), never another function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from dlang.diagnostics import DlangError, Source, error
from dlang.driver import Backend, read_source
from dlang.host.classes import flattened, rebuilt

if TYPE_CHECKING:
    from dlang.python.callables import Primitive
    from dlang.python.function import Function
    from dlang.python.instances import Program


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a program. name: of its module; path: of its file, or nothing where `text` is all there is; key: a
    hash of the text, of what it imports, and of the language's own library.
    """

    name: str
    path: str
    text: str
    key: str
    backend: Backend
    deterministic: bool
    primitives: tuple[Primitive, ...]


LIVE: WeakValueDictionary[Origin, Program] = WeakValueDictionary()
"""The programs of this process, so that what comes back to it is what it was."""


class Module(ModuleType):
    """A module that is pickled by its source."""

    def __reduce__(self) -> tuple[Any, ...]:
        return module_of, (self.__dict__["__dlang__"].origin,)


def program_of(origin: Origin) -> Program:
    """The program of this process. Raises `DlangError` where its source has changed, or can't be read."""
    return LIVE.get(origin) or _restored(origin)


@cache
def _restored(origin: Origin) -> Program:
    """A program that came from another process. It stays: the next piece of work will ask for it again."""
    from dlang.python.module import populate

    module = Module(origin.name)
    source = read_source(origin.path) if origin.path else Source("<text>", origin.text)
    try:
        program = populate(module, source, origin.backend, origin.primitives, origin.deterministic)
    except DlangError as e:
        raise _changed(origin) from e
    if program.checked.table.key != origin.key:
        raise _changed(origin)
    return program


def _changed(origin: Origin) -> DlangError:
    what = f"`{origin.path}`, or what it imports," if origin.path else "what the program imports"
    help = ("have all processes use the same sources and the same version of the language",)
    return error("E0968", f"{what} is not what it was when this was pickled", None, help=help)


# ---- what is pickled -------------------------------------------------------------------------------------------------
def module_of(origin: Origin) -> ModuleType:
    return program_of(origin).module


def function_of(origin: Origin, name: str) -> Function:
    return program_of(origin).functions[name]


def value_of(origin: Origin, names: Sequence[tuple[str, str, str | None]], fields: Sequence[tuple[Any, ...]]) -> Any:
    """A value of a struct or an enum, of the module, the type and the variant of it and of all that are in it."""
    classes = {named: _class_named(origin, *named) for named in set(names)}
    return rebuilt((classes[named], values) for named, values in zip(names, fields, strict=True))


def _class_named(origin: Origin, module: str, name: str, variant: str | None) -> type:
    program = program_of(origin)
    tables = program.checked.program.tables.values()
    (decl,) = {d: None for t in tables for d in t.core.types.values() if (d.module, d.name) == (module, name)}
    if variant is None:
        return program.classes.of(decl)
    (of_name,) = [v for v in decl.variants if v.name == variant]
    return program.classes.variant(decl, of_name)


def reducing(origin: Origin) -> Mapping[str, Callable[[Any], Any]]:
    """Returns the methods by which classes of a program pickle their objects."""

    def reduce(value: Any) -> tuple[Any, ...]:
        parts = flattened(value)
        return value_of, (origin, tuple([_name(kind) for kind, _ in parts]), tuple([values for _, values in parts]))

    return {"__reduce__": reduce}


def _name(kind: Any) -> tuple[str, str, str | None]:
    decl, variant = getattr(kind, "__dlang_variant__", None) or (kind.__dlang__, None)
    return decl.module, decl.name, None if variant is None else variant.name


def absolute(source: Source) -> str:
    """The path of a file for every process; nothing for a text."""
    return "" if source.path == "<text>" else str(Path(source.path).absolute())
