"""The headers of functions and modules: the part of the core tree that callers see, without bodies.

Of a module that an earlier process has checked, this is all that is read until a body is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlang.diagnostics import Span
from dlang.typecheck.types import DataDecl, Refinement, RowVar, SizeVar, Type, TypeVar

if TYPE_CHECKING:
    from dlang.typecheck.core import Expr
    from dlang.typecheck.state import Constraint


@dataclass(frozen=True, slots=True)
class Unread:
    """An expression that is made when it is asked for, such as one of a record.

    told_by: what tells it from others, if that can be said without it: names, numbers and declarations.
    """

    read: Callable[[], Expr]
    told_by: tuple[object, ...] = ()


@dataclass(eq=False, slots=True)
class Local:
    """A parameter, a `let`, a `var` or a binder: compared by identity.

    size: for a parameter of type `size`, or a `let` that names a size, the variable that types mention. refinement: of
    a parameter, what `Idx` in its annotation asks for.
    """

    name: str
    type: Type
    mutable: bool = False
    size: SizeVar | None = None
    span: Span | None = None
    refinement: Refinement | None = None


@dataclass(frozen=True, slots=True)
class Param:
    """`default` sees the parameters before it; `given` is that, or where it can be read."""

    local: Local
    given: Expr | Unread | None = None
    nodiff: bool = False

    @property
    def default(self) -> Expr | None:
        return self.given.read() if isinstance(self.given, Unread) else self.given

    @property
    def has_default(self) -> bool:
        return self.given is not None


@dataclass(eq=False, slots=True)
class FnDecl:
    """A function with its scheme; filled in when its group has been checked.

    variables: what the scheme quantifies, in order; opened: those that stand for `?` of the result, which a
    `FnRef.instance` doesn't map: the result of the call gives them. module: dotted
    name of the file, for messages and unique names. recursive: it can reach itself. effects: names, without those of
    functions passed as arguments. tree: the body, or where it can be read. refinement: what `Idx` in the type of the
    result promises.
    """

    name: str
    module: str
    span: Span
    params: tuple[Param, ...] = ()
    result: Type | None = None
    variables: tuple[TypeVar | SizeVar | RowVar, ...] = ()
    opened: tuple[SizeVar, ...] = ()
    tree: Expr | Unread | None = None
    recursive: bool = False
    effects: frozenset[str] = frozenset()
    kind: str = "fn"  # fn, const, test, bench, lambda (a `let` of one), extern, script, call (of one from outside)
    doc: str = ""
    local: bool = False
    rules: dict[str, FnDecl] = field(default_factory=dict)  # its custom derivatives, as in `CoreModule`, by kind
    constraints: tuple[Constraint, ...] = ()  # what the scheme still demands, for hover texts and tests
    refinement: Refinement | None = None

    @property
    def body(self) -> Expr | None:
        """None for an `extern` of the library, or for a declaration that had an error."""
        if isinstance(self.tree, Unread):
            self.tree = self.tree.read()
        return self.tree

    @body.setter
    def body(self, body: Expr | None) -> None:
        self.tree = body


@dataclass(eq=False, slots=True)
class CoreModule:
    """A checked file. `functions` has consts too; `script` is the body of a file of statements.

    rules: custom derivatives by kind (`pullback`, `pushforward`) and name of the function: a function of the same
    parameters and the result, which returns the function of the cotangent or tangent.
    """

    name: str
    path: str
    functions: dict[str, FnDecl] = field(default_factory=dict)
    rules: dict[tuple[str, str], FnDecl] = field(default_factory=dict)
    types: dict[str, DataDecl] = field(default_factory=dict)
    tests: list[FnDecl] = field(default_factory=list)
    benches: list[FnDecl] = field(default_factory=list)
    script: FnDecl | None = None

    def declared(self) -> list[FnDecl]:
        """All its declarations that have bodies."""
        declarations = [*self.functions.values(), *self.rules.values(), *self.tests, *self.benches]
        declarations += [rule for f in self.functions.values() for rule in f.rules.values()]
        return list(dict.fromkeys(declarations if self.script is None else [*declarations, self.script]))
