"""What a check may reuse of the one before it: an editor or a REPL passes the same `Cache` again and again.

A result is kept under a digest of all that it depends on: the text of its file up to its end (so its spans still hold),
the digests of the functions that it names, of the module's types and imports. An edit costs what stands below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from dlang.diagnostics import Diagnostic, Source
from dlang.grammar import syntax as s
from dlang.typecheck import core
from dlang.typecheck.groups import names_in
from dlang.typecheck.scope import FnEntry, ModuleTable, TypeEntry
from dlang.typecheck.types import DataDecl, Variant


@dataclass(frozen=True, slots=True)
class CachedGroup:
    entries: dict[str, FnEntry]
    integers: dict[str, int]
    diagnostics: list[Diagnostic]


@dataclass(frozen=True, slots=True)
class CachedTypes:
    """Data types are compared by identity, so those of an unchanged text have to stay the same objects."""

    types: dict[str, TypeEntry]
    constructors: dict[str, tuple[DataDecl, Variant]]
    declared: dict[str, DataDecl]
    diagnostics: list[Diagnostic]


@dataclass(frozen=True, slots=True)
class CachedModule:
    """An imported module, with the digests of the modules that it imports, by their paths and names."""

    text: str
    imports: tuple[tuple[str, str, str], ...]
    table: ModuleTable
    diagnostics: list[Diagnostic]


@dataclass(slots=True)
class Cache:
    """hits: how many results were reused in the last check; checked: the functions and tests that were not."""

    groups: dict[str, CachedGroup] = field(default_factory=dict)
    blocks: dict[str, tuple[core.FnDecl, list[Diagnostic]]] = field(default_factory=dict)
    types: dict[str, CachedTypes] = field(default_factory=dict)
    modules: dict[str, CachedModule] = field(default_factory=dict)
    builtins: dict[str, FnEntry] = field(default_factory=dict)
    prelude: ModuleTable | None = None
    used: set[str] = field(default_factory=set)
    hits: int = 0
    checked: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.used.clear()
        self.hits = 0
        self.checked = []

    def end(self) -> None:
        """Forgets what the check didn't use."""
        for table in (self.groups, self.blocks, self.types):
            for key in [k for k in table if k not in self.used]:
                del table[key]


class Keys:
    """The digests of the parts of one module."""

    def __init__(self, source: Source, module: s.Module, outside: str) -> None:
        self.prefix: dict[int, str] = {}
        running = blake2b(outside.encode("utf-8", "surrogatepass"), digest_size=16)
        position = 0
        types_end = 0
        for item in sorted(module.items, key=lambda i: i.span.end):
            end = item.span.end
            if end > position:
                running.update(source.text[position:end].encode("utf-8", "surrogatepass"))
                position = end
            self.prefix[end] = running.hexdigest()
            if isinstance(item, s.Struct | s.Enum | s.Alias | s.Import):
                types_end = end
        self.types = self.prefix.get(types_end, outside)
        self.names: dict[str, set[str]] = {}
        self.groups: dict[str, str] = {}

    def named(self, item: s.Item) -> set[str]:
        used: set[str] = set()
        names_in(item, used)
        return used

    def group(self, table: ModuleTable, group: list[str]) -> str:
        """The digest of a group; those of the groups before it are known, others count by their text alone."""
        parts = [self.types]
        for name in group:
            item = table.functions[name]
            parts.append(self.prefix[item.span.end])
            parts += sorted(self.dependency(table, n) for n in self.named(item) if n in table.functions)
        digest = combined(parts)
        for name in group:
            self.groups[name] = digest
        return digest

    def dependency(self, table: ModuleTable, name: str) -> str:
        known = self.groups.get(name)
        return known if known is not None else self.prefix[table.functions[name].span.end]

    def block(self, table: ModuleTable, item: s.Test) -> str:
        parts = [self.types, self.prefix[item.span.end]]
        parts += sorted(self.dependency(table, n) for n in self.named(item) if n in table.functions)
        return combined(parts)


def combined(parts: list[str]) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
