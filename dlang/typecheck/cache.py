"""Keeps the results of a check for the next: those of a part of a module under the digest of all that it depends on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.grammar.parts import Parts
from dlang.typecheck import types as ty
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.scope import FnEntry, ModuleTable, TypeEntry
from dlang.typecheck.stored import Modules

if TYPE_CHECKING:
    from dlang.typecheck.groups import Mentions


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
    constructors: dict[str, tuple[ty.DataDecl, ty.Variant]]
    declared: dict[str, ty.DataDecl]
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


# ---- records of types, for editors -----------------------------------------------------------------------------------
# Records the types that inference finds for the expressions and names of one file, for editors.
#
# A declaration with a mistake has no core tree, but most of its expressions have a type, and that is when an editor is
# asked for it. So inference notes types as it goes; they are looked at when all is known.


@dataclass(slots=True)
class Observed:
    """path: of the file. types: by the source of a declaration, then by the start and the end of what has the type."""

    path: str
    types: dict[Source, dict[tuple[int, int], ty.Type]] = field(default_factory=dict)

    def note(self, span: Span, t: ty.Type) -> None:
        """The type of what is written there: an expression, or the name of a local."""
        if span.source.path == self.path:
            self.types.setdefault(span.source, {})[span.start, span.end] = t

    def knows(self, span: Span) -> bool:
        """Tells whether a type is noted, if only that there is none."""
        return (span.start, span.end) in self.types.get(span.source, {})

    def at(self, span: Span) -> ty.Type | None:
        """The type of what is written there, as far as it is known."""
        known = self.types.get(span.source, {}).get((span.start, span.end))
        return None if known is None or (known := ty.resolve(known)) is ty.MISTAKE else known

    def forget(self, span: Span) -> None:
        """Forgets the types in a span, which is checked again, and may have none then."""
        known = self.types.get(span.source)
        if known is not None:
            self.types[span.source] = {
                place: t for place, t in known.items() if not (span.start <= place[0] and place[1] <= span.end)
            }

    def keep(self, file: Source) -> None:
        """Forgets what is no longer in the file."""
        self.types = {source: types for source, types in self.types.items() if source.file is file}
