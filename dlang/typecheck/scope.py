"""Entries of names: locals, functions, modules, builtins, constructors, types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlang.diagnostics import Span
from dlang.typecheck.headers import CoreModule, FnDecl, Local
from dlang.typecheck.state import Scheme
from dlang.typecheck.types import DataDecl, Refinement, RowVar, Size, SizeVar, Type, TypeVar, Var, Variant

if TYPE_CHECKING:
    from dlang.grammar import syntax
    from dlang.typecheck.core import Expr


@dataclass(eq=False, slots=True)
class LocalEntry:
    """border: how many lambdas and comprehensions stand around the definition.

    axis: of a binder that the indexed axes bound, the size; used: something did. unknown: the sizes of a `var` that
    its annotation writes as `?`.
    """

    local: Local
    border: int = 0
    axis: Size | None = None
    used: bool = False
    unknown: tuple[SizeVar, ...] = ()
    what: str = "let"


@dataclass(eq=False, slots=True)
class FnEntry:
    """names: of the parameters (None for a pattern); defaults: which have one. builtin: target of an `extern`."""

    decl: FnDecl
    scheme: Scheme
    names: tuple[str | None, ...] = ()
    defaults: tuple[bool, ...] = ()
    builtin: str = ""
    pending: bool = False


@dataclass(eq=False, slots=True)
class ModuleEntry:
    table: ModuleTable
    span: Span


@dataclass(frozen=True, slots=True)
class BuiltinEntry:
    name: str


Entry = LocalEntry | FnEntry | ModuleEntry | BuiltinEntry


@dataclass(eq=False, slots=True)
class AliasEntry:
    params: tuple[Var, ...]
    body: Type
    refinement: Refinement | None = None


TypeEntry = DataDecl | AliasEntry


@dataclass(eq=False, slots=True)
class ModuleTable:
    """The names of a module. `entries` are filled as groups are checked; `functions` is what is written.

    imports: path, name and digest of each imported module; key: the digest of this one.
    """

    name: str
    path: str
    core: CoreModule
    functions: dict[str, syntax.Fn | syntax.Const | syntax.Extern] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    types: dict[str, TypeEntry] = field(default_factory=dict)
    constructors: dict[str, tuple[DataDecl, Variant]] = field(default_factory=dict)
    integers: dict[str, int] = field(default_factory=dict)
    groups: list[list[str]] = field(default_factory=list)
    is_script: bool = False
    broken: bool = False
    imports: tuple[tuple[str, str, str], ...] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """A loop that is to show how far it is. text: what it does, in words. The locals count its iterations."""

    text: Expr
    span: Span
    label: Local
    done: Local
    upcoming: Local


@dataclass(eq=False, slots=True)
class FunctionContext:
    """The function whose body is checked: what `return` has to give, and the effects found so far.

    watched: the loops around the statement that show how far they are.
    """

    name: str
    result: Type | None
    unknown: tuple[SizeVar, ...] = ()
    effects: set[str] = field(default_factory=set)
    calls: set[FnDecl] = field(default_factory=set)
    watched: list[Watched] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Scope:
    """A block. `types` are the type and size variables that annotations introduced here."""

    parent: Scope | None = None
    names: dict[str, Entry] = field(default_factory=dict)
    types: dict[str, Var] = field(default_factory=dict)
    border: int = 0
    function: FunctionContext | None = None
    in_loop: bool = False

    def child(
        self, *, border: bool = False, function: FunctionContext | None = None, loop: bool | None = None
    ) -> Scope:
        crossed = border or function is not None
        return Scope(
            self,
            border=self.border + 1 if crossed else self.border,
            function=function if function is not None else (None if border else self.function),
            in_loop=loop if loop is not None else (False if crossed else self.in_loop),
        )

    def find(self, name: str) -> Entry | None:
        scope: Scope | None = self
        while scope is not None:
            entry = scope.names.get(name)
            if entry is not None:
                return entry
            scope = scope.parent
        return None

    def find_value(self, name: str) -> Entry | SizeVar | None:
        """The nearest value of a name: a local, or a size that a signature or an annotation names."""
        scope: Scope | None = self
        while scope is not None:
            entry = scope.names.get(name) or scope.types.get(name)
            if entry is not None and not isinstance(entry, TypeVar | RowVar):
                return entry
            scope = scope.parent
        return None

    def find_type(self, name: str) -> Var | None:
        scope: Scope | None = self
        while scope is not None:
            variable = scope.types.get(name)
            if variable is not None:
                return variable
            scope = scope.parent
        return None

    def visible(self) -> list[str]:
        """All names in scope, the nearest first."""
        out: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            out += [n for n in scope.names if n not in out]
            out += [n for n in scope.types if n not in out and not n.startswith("..")]
            scope = scope.parent
        return out

    def locals(self) -> Iterator[LocalEntry]:
        """The locals in scope, those of the nearest scope first; looked up only as far as somebody asks."""
        scope: Scope | None = self
        while scope is not None:
            for e in scope.names.values():
                if isinstance(e, LocalEntry):
                    yield e
            scope = scope.parent
