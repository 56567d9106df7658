"""Checked modules, kept between processes.

A module without a message is kept as a record: its table, and the bodies of its declarations, which are read when the
first of them is asked for. Declarations, types and variables of other modules are said by the record of that module and
a number, so what is one object stays one. A record is read only where nothing has changed that it depends on: the
compiler, the text, and the same of every module that an import of it finds now. A record is known by what is in it, for
two processes that check the same module may number its objects in other orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dlang.cache.records import Elsewhere, Unkept, dump, load
from dlang.cache.store import Store, digest, identity, is_unchanged, user_store
from dlang.diagnostics import DlangError, Source, Span
from dlang.identity import ByIdentity
from dlang.lazy_modules import lazy_module
from dlang.process import gc_paused
from dlang.typecheck.headers import CoreModule, Unread
from dlang.typecheck.scope import ModuleTable
from dlang.typecheck.types import Floor, RowVar, SizeVar, TypeVar, intern_floor, serials

if TYPE_CHECKING:
    from dlang.grammar import syntax, syntax as s
    from dlang.typecheck.core import Expr
    from dlang.typecheck.program import Program
else:
    syntax = lazy_module("dlang.grammar.syntax")

KIND = "module"
BODIES = " bodies"
"""The suffix of a record's name for the objects of its bodies; alone, for the bodies themselves."""
OWN = ""
"""In the bodies of a record, the record itself."""


@dataclass(frozen=True, slots=True)
class Import:
    """The module that an import found: its file, and the name of its record."""

    path: tuple[str, ...]
    file: str
    record: str


@dataclass(frozen=True, slots=True)
class Record:
    """A module as it was kept; `table` and `bodies` are still bytes.

    others: the records that it mentions. serials: the first of its variables, the last.
    """

    name: str
    imports: tuple[Import, ...]
    others: tuple[str, ...]
    serials: tuple[int, int]
    table: bytes
    bodies: bytes


@dataclass(slots=True)
class Bodies:
    """The bodies of a record. shift: what its serials are more than in the record."""

    modules: Modules
    record: Record
    shift: int
    trees: tuple[Expr, ...] | None = None

    def tree(self, number: int) -> Expr:
        """One of them; all are read at once, for they share what is in them."""
        if self.trees is None:
            with gc_paused():
                self.trees, objects = load(self.record.bodies, self._object)
                _settle(objects, self.shift)
            self.modules.know(self.record.name + BODIES, objects)
        return self.trees[number]

    def _object(self, place: Elsewhere) -> Any:
        return self.modules.find_object(Elsewhere(place.record or self.record.name, place.number))


@dataclass(slots=True)
class Modules:
    """The records that checks read and write. names: of the records of tables; objects: of each record; places: of the
    objects of all records, by their `id`: these live as long as this does.
    """

    store: Store = field(default_factory=user_store)
    names: dict[ModuleTable, str] = field(default_factory=dict)
    objects: dict[str, list[Any]] = field(default_factory=dict)
    places: ByIdentity[Any, Elsewhere] = field(default_factory=ByIdentity)
    bodies: dict[str, Bodies] = field(default_factory=dict)
    reads: int = 0

    def key(self, path: str, name: str, text: str, prelude: ModuleTable | None) -> str | None:
        """The key of a module, whose record says what its imports have to find; None if nothing is kept.

        prelude: what every module but itself depends on.
        """
        compiler = identity()
        before = self.names.get(prelude) if prelude is not None else "prelude"
        if compiler is None or before is None or self.store.limit <= 0:
            return None
        return digest(compiler, before, path, name, text)

    def find(self, key: str) -> Record | None:
        """The record of a module, if there is one."""
        data = self.store.get(KIND, key)
        if data is None:
            return None
        start = 8 + int.from_bytes(data[:8], "little")
        try:
            imports, others, numbers, length = load(data[8:start])[0]
        except (Unkept, ValueError):
            return None
        return Record(digest(data), imports, others, numbers, data[start : start + length], data[start + length :])

    def read(self, record: Record) -> ModuleTable | None:
        """The table of a record, when those of what it imports have been read; None if it can't be read."""
        if not all(name in self.objects or name in self.bodies for name in record.others):
            return None
        low, high = record.serials
        bodies = Bodies(self, record, serials(high - low + 1) - low)

        def inside(place: Elsewhere) -> Any:
            if place.record == BODIES:
                return Unread(partial(bodies.tree, place.number))
            return self.find_object(place)

        try:
            table, objects = load(record.table, inside)
        except (Unkept, LookupError):
            return None
        if not isinstance(table, ModuleTable):
            return None
        _settle(objects, bodies.shift)
        self.names[table] = record.name
        self.bodies[record.name + BODIES] = bodies
        self.know(record.name, objects)
        self.reads += 1
        return table

    def know(self, record: str, objects: list[Any]) -> None:
        """Notes the objects of a record, in place of those that it had when it was read before."""
        for o in self.objects.get(record, ()):
            self.places.discard(o)
        self.objects[record] = objects
        for n, o in enumerate(objects):
            self.places[o] = Elsewhere(record, n)

    def find_object(self, place: Elsewhere) -> Any:
        """An object of a record that has been read."""
        if place.record not in self.objects and place.record in self.bodies:
            self.bodies[place.record].tree(0)
        return self.objects[place.record][place.number]

    def write(self, key: str, table: ModuleTable, imports: Sequence[Import]) -> None:
        """Keeps a module; one that can't be kept is not."""
        places_inside: ByIdentity[Any, Elsewhere] = ByIdentity()
        kept = replace(table, functions=cast(Any, dict.fromkeys(table.functions)))  # what is checked is not read again
        trees = _trees(table.core)
        apart = ByIdentity((tree, Elsewhere(BODIES, n)) for n, tree in enumerate(trees))
        mentioned: set[str] = set()

        def outside(value: Any) -> Elsewhere | None:
            place = places_inside.get(value) or self.places.get(value)
            if place is not None:
                mentioned.add(place.record)
            return place

        try:
            data, objects = dump(kept, outside, apart)
            places_inside = ByIdentity((o, Elsewhere(OWN, n)) for n, o in enumerate(objects))
            bodies, more = dump(tuple(trees), outside)
        except Unkept:
            return
        objects[objects.index(kept)] = table
        if not is_unchanged():
            return
        numbers = [o.serial for o in (*objects, *more) if isinstance(o, ATOMS)] or [0]
        others = tuple(sorted(mentioned - {OWN}))
        head = dump((tuple(imports), others, (min(numbers), max(numbers)), len(data)))[0]
        content = len(head).to_bytes(8, "little") + head + data + bodies
        name = digest(content)
        self.names[table] = name
        self.know(name, objects)
        self.know(name + BODIES, more)
        self.store.put(KIND, key, content)


def recall(program: Program, path: str, name: str, text: str) -> ModuleTable | None:
    """A module that was kept when it was checked, if nothing has changed that it depends on."""
    stored = program.cache.stored
    if name in program.tables or program.backwards:
        return None
    prelude = None if name == "prelude" else program.the_prelude()
    key = stored.key(path, name, text, prelude)
    record = stored.find(key) if key is not None else None
    if record is None:
        return None
    program.loading.append(path)
    try:
        for wanted in record.imports:
            file = program.finder.find(wanted.path, Path(path))
            if file is None or str(file) != wanted.file:
                return None
            other = program.load(file, ".".join(wanted.path), Span(Source(path, text), 0, 0))
            if stored.names.get(other) != wanted.record:
                return None
    except DlangError:  # it is reported when the module is checked
        return None
    finally:
        program.loading.pop()
    table = stored.read(record)
    if table is not None:
        program.tables[name] = table
        program.know_groups(table)
    return table


def keep(program: Program, modules: Sequence[tuple[ModuleTable, s.Module]]) -> None:
    """Keeps modules that have been checked and have no message; those that they import come first."""
    stored = program.cache.stored
    if program.backwards or not modules:
        return
    tables = {t.path: t for t in program.tables.values()}
    marked = {d.span.source.path for d in program.diagnostics if d.span is not None}
    for table, module in modules:
        prelude = None if table is program.prelude else program.prelude
        key = stored.key(table.path, table.name, module.source.text, prelude)
        if key is None or table.path in marked:
            continue
        if prelude is None:
            _check_all(program, table)
        imports = [_import(program, tables, table, i) for i in module.items if isinstance(i, syntax.Import)]
        if all(i.record for i in imports):
            stored.write(key, table, imports)


def _check_all(program: Program, prelude: ModuleTable) -> None:
    """Checks the groups of the prelude that nothing needed yet."""
    counted = len(program.cache.checked)
    for group in prelude.groups:
        program.check_group(prelude, group[0])
    del program.cache.checked[counted:]


def _import(program: Program, tables: Mapping[str, ModuleTable], table: ModuleTable, item: s.Import) -> Import:
    """The record of an import. tables: of all modules, by their paths."""
    other = tables[str(program.finder.find(item.path, Path(table.path)))]
    return Import(item.path, other.path, program.cache.stored.names.get(other, ""))


def _trees(module: CoreModule) -> list[Expr]:
    """The bodies and the defaults of all declarations."""
    expressions = [decl.body for decl in module.declared()]
    expressions += [p.default for decl in module.declared() for p in decl.params]
    return [tree for tree in expressions if tree is not None]


ATOMS = (TypeVar, SizeVar, RowVar, Floor)


def _settle(objects: Sequence[Any], shift: int) -> None:
    """Gives variables serials that no other has, in the same order, and makes floors known where equal ones are."""
    atoms = [o for o in objects if isinstance(o, ATOMS)]
    for a in atoms:
        a.serial += shift
    for a in atoms:
        if isinstance(a, Floor):
            intern_floor(a)
