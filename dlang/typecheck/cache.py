"""The results that a check may reuse of the one before it: an editor or a REPL passes the same `Cache` again and again.

A result is kept under a digest of all that it depends on: its own text, the interfaces of the functions that it names,
the module's types and imports. Its spans are relative to its declaration, which only moves when something above it is
edited. So an edit costs the declaration, and those that mention it if its type changes; otherwise these are copied, to
mention the declaration as it is now.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic
from dlang.grammar.parts import Parts
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.scope import FnEntry, ModuleTable, TypeEntry
from dlang.typecheck.stored import Modules
from dlang.typecheck.types import DataDecl, Variant

if TYPE_CHECKING:
    from dlang.typecheck.mentions import Mentions
    from dlang.typecheck.observed import Observed

Uses = dict[str, FnDecl]  # the declarations of other groups of the module that a tree mentions


@dataclass(frozen=True, slots=True)
class CachedGroup:
    """interfaces: the digests of what others see of its functions."""

    entries: dict[str, FnEntry]
    integers: dict[str, int]
    interfaces: dict[str, str]
    diagnostics: list[Diagnostic]
    uses: Uses


@dataclass(frozen=True, slots=True)
class CachedBlock:
    decl: FnDecl
    diagnostics: list[Diagnostic]
    uses: Uses


@dataclass(frozen=True, slots=True)
class CachedTypes:
    """Some that mention one another. They are compared by identity, so those of an unchanged text, and which mention
    unchanged ones, have to stay the same objects."""

    types: dict[str, TypeEntry]
    constructors: dict[str, tuple[DataDecl, Variant]]
    declared: dict[str, DataDecl]
    diagnostics: list[Diagnostic]


@dataclass(frozen=True, slots=True)
class CachedModule:
    """An imported module, with the digests of the modules that it imports, by their paths and names.

    used: what its check reused, or would if it were done again.
    """

    text: str
    imports: tuple[tuple[str, str, str], ...]
    table: ModuleTable
    diagnostics: list[Diagnostic]
    used: frozenset[str]


@dataclass(slots=True)
class Cache:
    """hits: how many results were reused in the last check; checked: the functions and tests that were not.

    mentions: by the path of a file. observed: the types of the expressions of a file, if someone asks for them.
    """

    groups: dict[str, CachedGroup] = field(default_factory=dict)
    blocks: dict[str, CachedBlock] = field(default_factory=dict)
    types: dict[str, CachedTypes] = field(default_factory=dict)
    modules: dict[str, CachedModule] = field(default_factory=dict)
    builtins: dict[str, FnEntry] = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)
    mentions: dict[str, Mentions] = field(default_factory=dict)
    prelude: ModuleTable | None = None
    stored: Modules = field(default_factory=Modules)
    used: set[str] = field(default_factory=set)
    hits: int = 0
    checked: list[str] = field(default_factory=list)
    observed: Observed | None = None

    def copied(self) -> Cache:
        """The same, to be changed on its own."""
        return replace(
            self, groups=dict(self.groups), blocks=dict(self.blocks), types=dict(self.types),
            modules=dict(self.modules), builtins=dict(self.builtins), parts=self.parts.copied(),
            mentions=dict(self.mentions), used=set(self.used), checked=list(self.checked),
        )  # fmt: skip

    def begin(self) -> None:
        self.used.clear()
        self.hits = 0
        self.checked = []

    def end(self) -> None:
        """Forgets what the check didn't use."""
        for table in (self.groups, self.blocks, self.types):
            for key in [k for k in table if k not in self.used]:
                del table[key]
