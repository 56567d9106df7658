"""The targets of names, and the scopes of names: what `names.py` finds in a syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from dlang.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Local:
    """A parameter, a `let`, a `var`, an index, a local function, a size or type variable. span: where it is bound."""

    name: str
    kind: str
    span: Span


@dataclass(frozen=True, slots=True)
class Global:
    """A name of the module, of an import or of the prelude. space: value, type or constructor; of `nn.relu`, the name
    of the module as it stands there."""

    name: str
    space: str
    module: str | None = None


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of the type of an expression."""

    name: str
    base: Span


@dataclass(frozen=True, slots=True)
class FieldIn:
    """A field of a constructor: where it is declared, in a pattern or a construction."""

    name: str
    constructor: Global


@dataclass(frozen=True, slots=True)
class ParameterOf:
    """A parameter of a function of this or another module."""

    name: str
    function: Global


@dataclass(frozen=True, slots=True)
class ModulePath:
    """The path of an import."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """A name between the braces of an import."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Basic:
    """A word that is always there: a dtype, `size`, `Idx`, a class of dtypes, an effect."""

    name: str


Target = Local | Global | FieldOf | FieldIn | ParameterOf | ModulePath | Imported | Basic


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in the text. role: definition, use or write."""

    span: Span
    target: Target
    role: str = "use"


@dataclass(slots=True)
class Scope:
    """values: names of values and of sizes; types: type, size and row variables (`..s`). whole: the names hold before
    they are bound, too, as in a comprehension."""

    parent: Scope | None = None
    values: dict[str, Local] = field(default_factory=dict)
    types: dict[str, Local] = field(default_factory=dict)
    whole: bool = False

    def outwards(self) -> Iterator[Scope]:
        """Yields this scope, the one around it, and so on."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def value(self, name: str) -> Local | None:
        return next((scope.values[name] for scope in self.outwards() if name in scope.values), None)

    def nearest(self, name: str) -> Local | None:
        """Finds what a name stands for as a value: the nearest value or size."""
        for scope in self.outwards():
            found = scope.values.get(name) or scope.types.get(name)
            if found is not None and found.kind != "type variable":
                return found
        return None

    def type(self, name: str) -> Local | None:
        return next((scope.types[name] for scope in self.outwards() if name in scope.types), None)

    def visible(self, offset: int) -> list[Local]:
        """The locals that can be named at an offset, the nearest of each name."""
        out: dict[str, Local] = {}
        for scope in self.outwards():
            for name, local in (*scope.values.items(), *scope.types.items()):
                if scope.whole or local.span.last <= offset:
                    out.setdefault(name, local)
        return [local for name, local in out.items() if not name.startswith((".", "?"))]


@dataclass(eq=False)
class Names:
    """The names of an item. scopes: the regions of the text in which a scope holds, outer ones first."""

    occurrences: list[Occurrence] = field(default_factory=list)
    scopes: list[tuple[Span, Scope]] = field(default_factory=list)

    def add(self, span: Span, target: Target, role: str = "use") -> None:
        """Notes a name; one without text was invented by a repair."""
        if span.end > span.start:
            self.occurrences.append(Occurrence(span, target, role))

    @cached_property
    def ordered(self) -> list[Occurrence]:
        """The names by their place, when all have been noted; of two at one place, the one that was noted last."""
        found = {o.span: o for o in self.occurrences}
        return sorted(found.values(), key=lambda o: (o.span.first, o.span.last))

    @cached_property
    def by_name(self) -> dict[str, list[Occurrence]]:
        """The same, by what is written; what stands for a local, by the name of that."""
        found: dict[str, list[Occurrence]] = {}
        for o in self.ordered:
            found.setdefault(o.target.name if isinstance(o.target, Local) else o.span.text, []).append(o)
        return found


@dataclass(frozen=True, slots=True)
class Known:
    """Names of the module: constants, perhaps sizes; values, which sizes hide unless they are called; modules."""

    constants: frozenset[str]
    values: frozenset[str]
    modules: frozenset[str]

    def differs(self, other: Known) -> frozenset[str]:
        """The names that only one of two has, or that are something else in the other."""
        return (self.constants ^ other.constants) | (self.values ^ other.values) | (self.modules ^ other.modules)
