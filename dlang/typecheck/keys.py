"""Digests of the parts of a module: what is checked of a part is kept under the digest of all that it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from dlang.grammar import syntax as s
from dlang.typecheck import core
from dlang.typecheck.cache import Uses
from dlang.typecheck.groups import reached
from dlang.typecheck.interfaces import interface
from dlang.typecheck.mentions import Mentions
from dlang.typecheck.scope import FnEntry, ModuleTable


class Keys:
    """The digests of the parts of one module.

    outside: of its name and what it imports; written: of the texts of all its data types, with the constants in their
    sizes. types: of the data types that have been declared, by their names and those of their constructors; interfaces:
    of the functions that have been checked. mentions: of its trees.
    """

    def __init__(self, module: s.Module, outside: str, mentions: Mentions) -> None:
        self.functions = {i.name: i for i in module.items if isinstance(i, s.Fn | s.Const | s.Extern)}
        self.mentions = mentions
        self.outside = combined([outside, *[text_of(i) for i in module.items if isinstance(i, s.Import)]])
        self.written = self._texts([i for i in module.items if isinstance(i, s.Struct | s.Enum | s.Alias)])
        self.types: dict[str, str] = {}
        self.interfaces: dict[str, str] = {}

    def _texts(self, types: Sequence[s.Struct | s.Enum | s.Alias]) -> str:
        """The digest of the texts of data types, and of the constants in their sizes."""
        sizes = reached({n for t in types for n in self.mentions.among(self.functions, t)}, self.functions)
        return combined([self.outside, *map(text_of, types), *[text_of(self.functions[n]) for n in sorted(sizes)]])

    def of_types(self, types: Sequence[s.Struct | s.Enum | s.Alias]) -> str:
        """The digest of data types that mention one another; those that they mention of others are known."""
        used = {n for t in types for n in self.mentions.of(t).types if n in self.types}
        return combined([self._texts(types), *(self.types[n] for n in sorted(used))])

    def group(self, table: ModuleTable, group: list[str]) -> str:
        """The digest of a group; the interfaces of those before it are known, others count by their text alone."""
        parts = [self.outside]
        for name in group:
            parts += self.of_item(table, table.functions[name])
        return combined(parts)

    def block(self, table: ModuleTable, item: s.Test | s.Bench) -> str:
        """The digest of a test or a benchmark."""
        return combined([self.outside, *self.of_item(table, item)])

    def of_item(self, table: ModuleTable, item: s.Item) -> list[str]:
        """The text of an item, and what it depends on in its module."""
        used = sorted(self.mentions.among(table.functions, item))
        types = sorted({self.types[n] for n in self.mentions.of(item).types if n in self.types})
        return [text_of(item), *types, *(self.dependency(table, n) for n in used)]

    def dependency(self, table: ModuleTable, name: str) -> str:
        known = self.interfaces.get(name)
        return known if known is not None else f"{text_of(table.functions[name])} {self.written}"

    def uses_of(self, table: ModuleTable, items: Iterable[s.Item]) -> Uses:
        """Returns the functions of their module that items mention, as far as these have been checked."""
        names = {n for item in items for n in self.mentions.among(table.functions, item)}
        return {n: e.decl for n in names if isinstance(e := table.entries.get(n), FnEntry)}


def interfaces(table: ModuleTable, group: list[str], types: Mapping[str, str]) -> dict[str, str]:
    """The digests of what others see of the functions of a group that has been checked. types: those of data types."""
    entries = {n: e for n in group if isinstance(e := table.entries.get(n), FnEntry)}
    return {n: combined([interface(e, table.integers.get(n), types)]) for n, e in entries.items()}


def moved(uses: Uses, now: Uses) -> dict[core.FnDecl, core.FnDecl]:
    """The declarations that have been checked again since, and what they are now."""
    return {old: now[n] for n, old in uses.items() if n in now and now[n] is not old}


def text_of(item: s.Item) -> str:
    """The text of an item, and which source it has: the same text elsewhere has other spans."""
    source, start, end, _ = item.span
    return f"{source.path} {source.number} {start} {source.text[start:end]}"


def combined(parts: list[str]) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
