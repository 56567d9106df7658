"""Checked modules, kept between processes.

A module without a message is kept as a record: its table, with its syntax and core trees. Declarations, types and
variables of other modules are said by the record of that module and a number, so what is one object stays one. A record
is read only where nothing has changed that it depends on: the compiler, the text, and the same of every module that an
import of it finds now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dlang.cache.compiler import identity, is_unchanged
from dlang.cache.records import Elsewhere, Unkept, dump, load
from dlang.cache.store import Store, digest, user_store
from dlang.diagnostics import DlangError, Source, Span
from dlang.typecheck.scope import ModuleTable
from dlang.typecheck.types import Floor, RowVar, SizeVar, TypeVar, intern_floor, serials

if TYPE_CHECKING:
    from dlang.grammar import syntax as s
    from dlang.typecheck.program import Program

KIND = "module"


@dataclass(frozen=True, slots=True)
class Import:
    """What an import found: the module of a file, and the key of its record."""

    path: tuple[str, ...]
    file: str
    record: str


@dataclass(frozen=True, slots=True)
class Record:
    """A module as it was kept; `table` is still bytes."""

    key: str
    imports: tuple[Import, ...]
    table: bytes


@dataclass(slots=True)
class Modules:
    """The records that checks read and write. keys: of the tables that have records; objects: of each record."""

    store: Store = field(default_factory=user_store)
    keys: dict[ModuleTable, str] = field(default_factory=dict)
    objects: dict[str, list[Any]] = field(default_factory=dict)
    reads: int = 0

    def key(self, path: str, name: str, text: str, prelude: ModuleTable | None) -> str | None:
        """The key of a module, whose record says what its imports have to find; None if nothing is kept.

        prelude: what every module but itself depends on.
        """
        compiler = identity()
        before = self.keys.get(prelude) if prelude is not None else "prelude"
        if compiler is None or before is None or self.store.limit <= 0:
            return None
        return digest(compiler, before, path, name, text)

    def find(self, key: str) -> Record | None:
        """The record of a module, if there is one."""
        data = self.store.get(KIND, key)
        if data is None:
            return None
        length = int.from_bytes(data[:8], "little")
        try:
            imports: tuple[Import, ...] = load(data[8 : 8 + length])[0]
        except Unkept:
            return None
        return Record(key, imports, data[8 + length :])

    def read(self, record: Record) -> ModuleTable | None:
        """The table of a record, when those of what it imports have been read; None if it can't be read."""
        try:
            table, objects = load(record.table, self._find)
        except (Unkept, LookupError):
            return None
        if not isinstance(table, ModuleTable):
            return None
        _settle(objects)
        self.keys[table] = record.key
        self.objects[record.key] = objects
        self.reads += 1
        return table

    def _find(self, place: Elsewhere) -> Any:
        return self.objects[place.record][place.number]

    def write(self, key: str, table: ModuleTable, imports: Sequence[Import]) -> None:
        """Keeps a module; one that can't be kept is not."""
        known: dict[int, Elsewhere] = {}
        for record, objects in self.objects.items():
            known |= {id(o): Elsewhere(record, n) for n, o in enumerate(objects)}
        try:
            kept = replace(
                table, functions=cast(Any, dict.fromkeys(table.functions))
            )  # what is checked is not read again
            data, objects = dump(kept, lambda o: known.get(id(o)))
        except Unkept:
            return
        objects[objects.index(kept)] = table
        if not is_unchanged():
            return
        self.keys[table] = key
        self.objects[key] = objects
        head = dump(tuple(imports))[0]
        self.store.put(KIND, key, len(head).to_bytes(8, "little") + head + data)


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
            if stored.keys.get(other) != wanted.record:
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
    from dlang.grammar.syntax import Import as Written

    marked = {d.span.source.path for d in program.diagnostics if d.span is not None}
    for table, module in modules:
        prelude = None if table is program.prelude else program.prelude
        key = stored.key(table.path, table.name, module.source.text, prelude)
        if key is None or table.path in marked:
            continue
        if prelude is None:
            _check_all(program, table)
        imports = [_import(program, table, i) for i in module.items if isinstance(i, Written)]
        if all(i.record for i in imports):
            stored.write(key, table, imports)


def _check_all(program: Program, prelude: ModuleTable) -> None:
    """Checks the groups of the prelude that nothing needed yet."""
    counted = len(program.cache.checked)
    for group in prelude.groups:
        program.check_group(prelude, group[0])
    del program.cache.checked[counted:]


def _import(program: Program, table: ModuleTable, item: s.Import) -> Import:
    file = program.finder.find(item.path, Path(table.path))
    (other,) = [t for t in program.tables.values() if t.path == str(file)]
    return Import(item.path, other.path, program.cache.stored.keys.get(other, ""))


def _settle(objects: Sequence[Any]) -> None:
    """Gives variables serials that no other has, in the same order, and makes floors known where equal ones are."""
    atoms = [o for o in objects if isinstance(o, TypeVar | SizeVar | RowVar | Floor)]
    if not atoms:
        return
    low = min([a.serial for a in atoms])
    first = serials(max([a.serial for a in atoms]) - low + 1)
    for a in atoms:
        a.serial += first - low
    for a in atoms:
        if isinstance(a, Floor):
            intern_floor(a)
