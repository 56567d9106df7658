"""The checker of one declaration group: its inference state, the names around it, and how types are expected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from dlang.diagnostics import Diagnostic, DlangError, Fix, Note, Span, error
from dlang.grammar import syntax as s
from dlang.polynomials import TooManyTerms
from dlang.typecheck import core, elsewhere, types as ty
from dlang.typecheck.cache import Observed
from dlang.typecheck.constraints import constrain, solve
from dlang.typecheck.messages import did_you_mean, imported, mismatch, misspelt, size_mismatch
from dlang.typecheck.scope import Entry, FnEntry, LocalEntry, ModuleEntry, ModuleTable, Scope, TypeEntry
from dlang.typecheck.state import Constraint, Inference, Mismatch, Reason, Term
from dlang.typecheck.terms import I64, array, free, number, of_var, size_variables, substitute, variables, view
from dlang.typecheck.unify import add, exact_division, multiply, subtract, unify_given, unify_size

T = TypeVar("T")


class Names(Protocol):
    """The program's lookups for a checker: a name of a module, of its imports, or of the prelude."""

    def value(self, table: ModuleTable, name: str) -> Entry | None: ...

    def type_entry(self, table: ModuleTable, name: str) -> TypeEntry | None: ...

    def constructor(self, table: ModuleTable, name: str) -> tuple[ty.DataDecl, ty.Variant] | None: ...

    def constant(self, table: ModuleTable, name: str) -> FnEntry | None: ...

    def value_names(self, table: ModuleTable) -> list[str]: ...

    def type_names(self, table: ModuleTable) -> list[str]: ...

    def builtin(self, name: str, make: Callable[[], FnEntry]) -> FnEntry: ...

    def constructor_names(self, table: ModuleTable) -> list[str]: ...

    def is_standard(self, name: str) -> bool: ...

    def standard_modules_with(self, name: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Escape:
    """Sizes opened inside a lambda, loop or comprehension, and what must not mention them outside."""

    opened: frozenset[ty.SizeVar]
    outside: tuple[ty.Type, ...]
    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Expected:
    """The type that is written for an expression, and for what.

    unknown: its sizes `?`, which each branch gives for itself.
    """

    type: ty.Type
    unknown: tuple[ty.SizeVar, ...] = ()
    what: str = ""

    @property
    def closed(self) -> bool:
        """Tells whether branches may be checked one by one: an open size would be decided by the first of them."""
        return all(v.rigid for v in variables(self.type) if isinstance(v, ty.SizeVar))


@dataclass(slots=True)
class Checker(ABC):
    """The state that rules of expressions and statements share; `ExpressionChecker` chooses among these rules.

    symbols: locals that count as a size; indices: the symbols of binders; later: checks that wait for the end of
    the group; escapes: what must not leave its region; unfinished: the tree has to be rebuilt at the end; births: when
    a local was made, and so the size that it stands for; observed: gets the types of expressions and locals."""

    st: Inference
    table: ModuleTable
    program: Names
    symbols: dict[core.Local, ty.Size] = field(default_factory=dict)
    indices: set[ty.SizeVar] = field(default_factory=set)
    later: list[Callable[[], None]] = field(default_factory=list)
    escapes: list[Escape] = field(default_factory=list)
    unfinished: bool = False
    births: dict[core.Local | ty.SizeVar, int] = field(default_factory=dict)
    observed: Observed | None = None

    @abstractmethod
    def infer(self, scope: Scope, e: s.Expr, want: ty.Type | None = None) -> core.Expr:
        """The core of an expression, with its type; the parameters of a lambda have those of a function type `want`."""

    @abstractmethod
    def check(self, scope: Scope, e: s.Expr, want: Expected) -> core.Expr:
        """The core of an expression for which a type is written."""

    # ---- expectations ------------------------------------------------------------------------------------------------
    def expect(self, want: ty.Type, got: ty.Type, span: Span, what: str = "", notes: tuple[Note, ...] = (),
               sizes: tuple[str, ...] = ()) -> None:  # fmt: skip
        """Makes `got` be `want`, or ends the statement with a message at `span`; sizes: help if only these differ."""
        self.st.reason = Reason(span)
        try:
            unify_given(self.st, got, want)
        except Mismatch as m:
            raise DlangError([mismatch(m, span, want, got, what, notes, sizes)]) from None

    def expect_size(self, want: ty.Size, got: ty.Size, span: Span, what: str = "") -> None:
        """Makes two sizes equal, or ends the statement with a message at `span`."""
        self.st.reason = Reason(span)
        try:
            unify_size(self.st, got, want)
        except Mismatch as m:
            raise DlangError([size_mismatch(m, span, want, got, what)]) from None

    def constrain(self, kind: str, reason: Reason, *, types: tuple[ty.Type, ...] = (),
                  shapes: tuple[ty.Shape, ...] = (), sizes: tuple[ty.Size, ...] = (),
                  data: str | int | tuple[int, ...] = "") -> None:  # fmt: skip
        constrain(self.st, Constraint(kind, reason, types, shapes, sizes, data))

    def settled(self, t: ty.Type) -> ty.Type:
        """The type, after what is pending has been tried if it isn't known yet."""
        t = ty.resolve(t)
        if self.st.woken:
            solve(self.st)
            t = ty.resolve(t)
        return t

    def with_open_sizes(self, want: ty.Type, unknown: tuple[ty.SizeVar, ...]) -> ty.Type:
        """The type with its `?` open: whoever is checked against it decides them."""
        if not unknown:
            return want
        fresh: dict[ty.Var, Term] = {v: of_var(self.st.size_var(v.origin)) for v in unknown}
        return substitute(want, fresh)

    def report(self, diagnostic: Diagnostic) -> None:
        self.st.report(diagnostic)

    # ---- names -------------------------------------------------------------------------------------------------------
    def find(self, scope: Scope, name: str) -> Entry | None:
        return scope.find(name) or self.program.value(self.table, name)

    def find_type(self, name: str) -> TypeEntry | None:
        return self.program.type_entry(self.table, name)

    def module(self, name: str, span: Span) -> ModuleTable:
        """A module that is imported whole."""
        entry = self.program.value(self.table, name)
        if not isinstance(entry, ModuleEntry):
            known = [n for n, e in self.table.entries.items() if isinstance(e, ModuleEntry)]
            name_span = span.head(len(name))
            help, fixes = did_you_mean(name, known), misspelt(name_span, name, known)
            if not help and self.program.is_standard(name):
                help = (f"write `import {name}` at the top of the file",)
                fixes = (imported(span, f"import {name}"),)
            raise error("E0201", f"there is no module `{name}` here", name_span, help=help, fixes=fixes)
        if entry.table.broken and not entry.table.path:
            raise DlangError([])  # the import has been reported
        return entry.table

    def type_of_module(self, name: str, span: Span) -> TypeEntry:
        """The type of a name such as `nn.Linear`."""
        return self._of_module(name, span, "type", lambda table: table.types)

    def constructor_of_module(self, name: str, span: Span) -> tuple[ty.DataDecl, ty.Variant]:
        return self._of_module(name, span, "constructor", lambda table: table.constructors)

    def _of_module(self, name: str, span: Span, what: str, names: Callable[[ModuleTable], Mapping[str, T]]) -> T:
        head, _, last = name.rpartition(".")
        table = self.module(head, span)
        known = names(table)
        if last not in known:
            message = f"the module `{table.name}` has no {what} `{last}`"
            raise error("E0206", message, span.head(len(name)), help=did_you_mean(last, list(known)))
        return known[last]

    def find_constructor(self, name: str, span: Span) -> tuple[ty.DataDecl, ty.Variant]:
        if "." in name:
            return self.constructor_of_module(name, span)
        constructor = self.program.constructor(self.table, name)
        if constructor is None:
            entry = self.find_type(name)
            if isinstance(entry, ty.DataDecl):
                constructors = ", ".join(f"`{v.name}`" for v in entry.variants)
                help = (f"its values are made by {constructors}, without the name of the type",)
                raise error("E0201", f"`{name}` is a type, not a constructor", span, help=help)
            lower = name.lower() if name.isupper() else name[:1].lower() + name[1:]
            known = self.program.constructor_names(self.table)
            instead = elsewhere.of_value(name)
            close = did_you_mean(name, known) or (
                instead or f"constructors are capitalised; the name of a value is in lower case: `{lower}`",
            )
            name_span = span.head(len(name))
            fixes = misspelt(name_span, name, known)
            raise error("E0201", f"unknown constructor `{name}`", name_span, help=close, fixes=fixes)
        return constructor

    def type_names(self) -> list[str]:
        return self.program.type_names(self.table)

    def unknown_name(self, scope: Scope, name: str, span: Span) -> DlangError:
        candidates = [*scope.visible(), *self.program.value_names(self.table)]
        helps: tuple[str, ...] = ()
        fixes: tuple[Fix, ...] = ()
        close = ""
        if (instead := elsewhere.of_value(name)) is not None:
            helps = (instead,)
        elif self.program.is_standard(name):
            helps = (f"`{name}` is a module: write `import {name}` at the top of the file",)
            fixes = (imported(span, f"import {name}"),)
        elif modules := self.program.standard_modules_with(name):
            helps = tuple(f"it is in the module `{m}`: write `import {m} {{ {name} }}`" for m in modules)
            fixes = tuple(imported(span, f"import {m} {{ {name} }}") for m in modules)
        elif name.endswith("'") and name.rstrip("'") in candidates:
            helps = (f"a `'` is part of a name; the transpose is `transpose({name.rstrip(chr(39))})`",)
        else:
            close = "".join(f": {question}" for question in did_you_mean(name, candidates))
            fixes = misspelt(span, name, candidates)
        return error("E0201", f"unknown name `{name}`{close}", span, label="not found here", help=helps, fixes=fixes)

    # ---- sizes of values ---------------------------------------------------------------------------------------------
    def size_of_name(self, scope: Scope, name: str) -> ty.Size | None:
        """The size that a value in scope counts as, where a shape mentions its name."""
        entry = scope.find(name)
        if isinstance(entry, LocalEntry):
            return self.symbol_of_local(entry.local)
        if entry is None:
            const = self.program.constant(self.table, name)
            if const is not None and const.decl.result is ty.MISTAKE:
                return self.st.size()
            value = self.constant(const.decl) if const is not None else None
            return number(value) if value is not None else None
        return None

    def symbol_of_local(self, local: core.Local) -> ty.Size | None:
        """An immutable i64 counts as itself."""
        known = self.symbols.get(local)
        if known is not None:
            return known
        if local.mutable:
            return None
        t = ty.resolve(local.type)
        if not isinstance(t, ty.TypeCon) or t.name != "i64":
            return None
        if local.size is None:
            local.size = self.st.open_size(Note(f"the value of `{local.name}`", local.span))
            local.size.name = local.name
            self.births[local.size] = self.births.get(local, local.size.serial)
        self.symbols[local] = of_var(local.size)
        return self.symbols[local]

    def symbol(self, e: core.Expr) -> ty.Size | None:
        """An i64 expression as a size, if it is arithmetic of sizes, lengths and immutable names."""
        match e:
            case core.Literal(value=int(literal)) if not isinstance(literal, bool):
                return number(literal, Note("a literal", e.span))
            case core.Ref(local=local):
                return self.symbol_of_local(local)
            case core.SizeValue(size=size):
                return size
            case core.Arith(operator=op, left=left, right=right) if op in ("+", "-", "*", "/", "//"):
                a = self.symbol(left)
                b = self.symbol(right) if a is not None else None
                if a is None or b is None:
                    return None
                origin = Note("the value of this expression", e.span)
                try:
                    match op:
                        case "+":
                            return add(a, b, origin)
                        case "-":
                            return subtract(a, b, origin)
                        case "*":
                            return multiply(a, b, origin)
                        case "/":  # not for integers, which is reported: this keeps its consequences quiet
                            return exact_division(a, b)
                        case _:
                            return ty.Size(ty.floor_div(a, b).poly, origin) if b.poly.constant != 0 else None
                except TooManyTerms:  # a number as any other, of which no type speaks
                    return None
            case core.Negate(operand=operand):
                a = self.symbol(operand)
                return None if a is None else subtract(number(0), a, Note("the value of this expression", e.span))
            case core.Builtin(name="len", args=(arg,)):
                _, shape = view(arg.type)
                if shape.pre:
                    return shape.pre[0]
                n = self.st.size(Note("the length", e.span))
                self.expect(array(self.st.type_var(), n), arg.type, e.span)
                return n
            case core.Call(function=core.FnRef(decl=decl), args=()) if decl.kind == "const":
                value = self.constant(decl)
                return number(value, Note(f"the constant `{decl.name}`", decl.span)) if value is not None else None
            case _:
                return None

    def constant(self, decl: core.FnDecl) -> int | None:
        known = self.table.integers.get(decl.name) if decl.module == self.table.name else None
        if known is not None:
            return known
        body = decl.body
        size = self.symbol(body) if body is not None and ty.resolve(body.type) == I64 else None
        value = size.poly.constant if size is not None else None
        return int(value) if value is not None else None

    def mentions_index(self, s: ty.Size) -> bool:
        return any(v in self.indices for v in size_variables(s))

    def bound(self, e: core.Expr, span: Span, what: str, *, loop: bool = False) -> tuple[ty.Size, ty.SizeVar | None]:
        """The size for a bound or a `size` argument; the variable if it is a fresh one that `e` gives its value.

        loop: no array has the size, so it may be negative.
        """
        self.expect(I64, e.type, span, what)
        size = self.symbol(e)
        if size is not None and not self.mentions_index(size):
            value = size.poly.constant
            if value is not None and value < 0 and not loop:
                raise error("E0415", f"a size cannot be negative, found {value}", span)
            return ty.Size(size.poly, size.origin or Note("this size", span)), None
        v = self.st.open_size(Note("the value of this expression", span))
        return of_var(v), v

    # ---- regions -----------------------------------------------------------------------------------------------------
    def mark(self) -> int:
        """The start of a region; what is made from now on has a later birth."""
        return ty.next_serial()

    def opened_since(self, mark: int) -> frozenset[ty.SizeVar]:
        """The sizes opened in a region. That of a local counts as opened where the local is defined."""
        return frozenset(v for v in self.st.opened if self.births.get(v, v.serial) > mark)

    def confine(self, mark: int, outside: Iterable[ty.Type], span: Span, message: str) -> None:
        """Forbids variables opened since `mark` to be part of `outside`, now or later."""
        inner = self.opened_since(mark)
        if inner:
            escape = Escape(inner, tuple(outside), span, message)
            self.escapes.append(escape)
            self.check_escape(escape)

    def check_escape(self, escape: Escape) -> bool:
        for t in escape.outside:
            for v in free(t, {}):
                if isinstance(v, ty.SizeVar) and v in escape.opened:
                    notes = (Note(f"the size is {v.origin.text}", v.origin.span),) if v.origin is not None else ()
                    raise error("E0407", escape.message, escape.span, notes=notes)
        return True
