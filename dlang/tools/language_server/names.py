"""Resolves names by the scopes of a syntax tree, without types, so also in code that does not check."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.syntax import children
from dlang.ops.functions import DERIVES
from dlang.tools.assistance import GIVE_FUNCTIONS
from dlang.typecheck.types import DTYPES

_ARGUMENT = re.compile(r"([\w']+)\s*=\s*$")


def names_of(items: Iterable[s.Item], known: Known, functions: Mapping[str, s.Fn | s.Extern]) -> Names:
    """The names of one declaration, or of the statements of a script, which share a scope.

    functions: of the module; a custom derivative sees the sizes of its function.
    """
    resolver = _Resolver(known, functions)
    scope = Scope()
    for item in items:
        resolver.visit(item, scope, top=True)
    return resolver.found


class _Resolver:
    def __init__(self, known: Known, functions: Mapping[str, s.Fn | s.Extern]) -> None:
        self.known = known
        self.functions = functions
        self.found = Names()
        self.parameters: dict[Local, dict[str, Local]] = {}  # of local functions, for `wrt` and named arguments

    # ---- helpers -----------------------------------------------------------------------------------------------------
    def add(self, span: Span, target: Target, role: str = "use") -> None:
        self.found.add(span, target, role)

    def region(self, span: Span, scope: Scope) -> Scope:
        self.found.scopes.append((span, scope))
        return scope

    def bind(self, scope: Scope, name: str, kind: str, span: Span) -> Local:
        local = Local(name, kind, span)
        if name and name != "_":
            scope.values[name] = local
            self.add(span, local, "definition")
        return local

    # ---- dispatch ----------------------------------------------------------------------------------------------------
    def visit(self, node: s.Node, scope: Scope, *, top: bool = False) -> None:
        if top and isinstance(node, s.Fn):
            self.add(node.name_span, Global(node.name, "value"), "definition")
            self.function(node, scope)
            return
        rule = _rules().get(type(node))
        if rule is not None:
            rule(self, node, scope)
        else:
            for child in children(node):
                self.visit(child, scope)

    def visit_all(self, nodes: Iterable[s.Node | None], scope: Scope) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node, scope)

    # ---- items -------------------------------------------------------------------------------------------------------
    def function(self, f: s.Fn | s.Extern, outer: Scope) -> dict[str, Local]:
        """The signature and the body of a function; its parameters."""
        scope = self.region(f.span, Scope(outer))
        self.signature(f, scope)
        bound = self.bound_parameters(f.parameters, scope)
        if isinstance(f, s.Fn):
            self.visit(f.body, scope)
        return bound

    def signature(self, f: s.Fn | s.Extern, scope: Scope) -> None:
        for b in f.bounds:
            local = Local(b.name, "type variable", b.span.head(len(b.name)))
            scope.types[b.name] = local
            self.add(local.span, local, "definition")
            if b.cls is not None:
                self.add(b.span.tail(len(b.cls)), Basic(b.cls))
        for p in f.parameters:
            if isinstance(p.pattern, s.PatternName) and isinstance(p.type, s.TypeName) and p.type.name == "size":
                scope.types[p.pattern.name] = Local(p.pattern.name, "parameter", p.pattern.span)
        for p in f.parameters:
            self.type(p.type, scope, scope)
        self.type(f.result, scope, scope)

    def bound_parameters(self, parameters: tuple[s.Parameter, ...], scope: Scope) -> dict[str, Local]:
        bound: dict[str, Local] = {}
        for p in parameters:
            self.visit_all([p.default], scope)
            self.pattern(p.pattern, scope, "parameter")
            if isinstance(p.pattern, s.PatternName) and p.pattern.name in scope.values:
                bound[p.pattern.name] = scope.values[p.pattern.name]
        return bound

    def local_function(self, f: s.Fn, scope: Scope) -> None:
        local = self.bind(scope, f.name, "function", f.name_span)
        self.parameters[local] = self.function(f, scope)

    def extern(self, f: s.Extern, scope: Scope) -> None:
        self.add(f.name_span, Global(f.name, "value"), "definition")
        self.function(f, scope)

    def struct(self, item: s.Struct, outer: Scope) -> None:
        self.add(item.name_span, Global(item.name, "type"), "definition")
        scope = self.type_parameters(item, outer)
        self.fields(item.fields, Global(item.name, "constructor"), scope)

    def enum(self, item: s.Enum, outer: Scope) -> None:
        self.add(item.name_span, Global(item.name, "type"), "definition")
        scope = self.type_parameters(item, outer)
        for c in item.constructors:
            constructor = Global(c.name, "constructor")
            self.add(c.span.head(len(c.name)), constructor, "definition")
            self.fields(c.fields, constructor, scope)

    def alias(self, item: s.Alias, outer: Scope) -> None:
        self.add(item.name_span, Global(item.name, "type"), "definition")
        scope = self.type_parameters(item, outer)
        self.type(item.type, scope, scope)

    def type_parameters(self, item: s.Struct | s.Enum | s.Alias, outer: Scope) -> Scope:
        scope = self.region(item.span, Scope(outer))
        for p in item.parameters:
            local = Local(p.name, "type variable", p.span.tail(len(p.name)))
            scope.types[(".." if p.row else "") + p.name] = local
            self.add(local.span, local, "definition")
        return scope

    def fields(self, fields: tuple[s.FieldDecl, ...], of: Global, scope: Scope) -> None:
        for f in fields:
            if f.name is not None:
                self.add(f.span.head(len(f.name)), FieldIn(f.name, of), "definition")
            self.type(f.type, scope, scope)

    def const(self, item: s.Const, scope: Scope) -> None:
        self.add(item.name_span, Global(item.name, "value"), "definition")
        inner = Scope(scope)
        self.type(item.type, inner, inner)
        self.visit(item.value, inner)

    def import_(self, item: s.Import, scope: Scope) -> None:
        text = item.span.text
        first = len("import") + len(text[len("import") :]) - len(text[len("import") :].lstrip())
        written = re.match(r"[\w']+(\s*\.\s*[\w']+)*", text[first:])
        if written is not None and all(item.path):
            path = item.span._replace(start=item.span.start + first, end=item.span.start + first + written.end())
            self.add(path, ModulePath(item.path))
        if item.alias:
            self.add(item.span.tail(len(item.alias)), Global(item.alias, "module"), "definition")
        for n in item.names or ():
            if isinstance(n, s.Name):
                self.add(n.span, Imported(n.name, item.path))

    def rule(self, item: s.Rule, outer: Scope) -> None:
        self.add(item.name_span, Global(item.name, "value"))
        scope = self.region(item.span, Scope(outer))
        f = self.functions.get(item.name)
        if f is not None:
            before = len(self.found.occurrences)
            self.signature(f, scope)  # the sizes that it names hold here too
            del self.found.occurrences[before:]
        for p in item.parameters:
            self.type(p.type, scope, scope)
        self.bound_parameters(item.parameters, scope)
        before_body = item.span._replace(end=item.body.span.start)
        result = re.search(rf"->\s*({re.escape(item.result)})\s*(=\s*)?$", before_body.text) if item.result else None
        if result is not None:
            start = item.span.start + result.start(1)
            self.bind(scope, item.result, "parameter", item.span._replace(start=start, end=start + len(item.result)))
        self.visit(item.body, scope)

    # ---- types -------------------------------------------------------------------------------------------------------
    def type(self, t: s.TypeExpr | None, scope: Scope, into: Scope) -> None:
        if t is not None:
            names_of_type(t, scope, into, self.found, self.known.constants)

    # ---- patterns ----------------------------------------------------------------------------------------------------
    def pattern(self, p: s.Pattern, scope: Scope, kind: str) -> None:
        match p:
            case s.PatternName(span, name):
                self.bind(scope, name, kind, span)
            case s.PatternTuple(_, items):
                for i in items:
                    self.pattern(i, scope, kind)
            case s.PatternConstructor(span, name, arguments):
                constructor = self.constructor(span, name)
                for given, argument in arguments:
                    if given is not None:
                        self.argument_name(argument.span, given, FieldIn(given, constructor))
                    self.pattern(argument, scope, kind)
            case s.PatternAlternatives(_, alternatives):
                first: dict[str, Local] = {}
                for a in alternatives:
                    inner = Scope()
                    known = len(self.found.occurrences)
                    self.pattern(a, inner, kind)
                    if first:  # all alternatives bind the same locals
                        mine: dict[Target, Local] = {x: first[n] for n, x in inner.values.items() if n in first}
                        occurrences = self.found.occurrences
                        occurrences[known:] = [
                            replace(o, target=mine.get(o.target, o.target)) for o in occurrences[known:]
                        ]
                    first = first or inner.values
                scope.values.update(first)
            case s.PatternWildcard() | s.PatternLiteral():
                pass

    def constructor(self, span: Span, name: str) -> Global:
        head, _, last = name.rpartition(".")
        if not head:
            declared = Global(name, "constructor")
            self.add(span.head(len(name)), declared)
            return declared
        self.add(span.head(len(head)), Global(head, "module"))
        declared = Global(last, "constructor", head)
        self.add(span.head(len(name)).tail(len(last)), declared)
        return declared

    def argument_name(self, value: Span, name: str, target: Target) -> None:
        """The name in front of `= value`."""
        before = _ARGUMENT.search(value.source.text, max(0, value.start - len(name) - 80), value.start)
        if before is not None and before[1] == name:
            self.add(value._replace(start=before.start(1), end=before.end(1)), target)

    # ---- expressions -------------------------------------------------------------------------------------------------
    def name(self, e: s.Name, scope: Scope) -> None:
        if e.name == "_" or not e.name:
            return
        if e.name[0].isupper():
            self.constructor(e.span, e.name)
        else:
            self.add(e.span, self.value_named(e.name, scope))

    def value_named(self, name: str, scope: Scope, called: bool = False) -> Target:
        """called: what is called is no size, so a size of the name hides no function."""
        local = scope.value(name) if called else scope.nearest(name)
        if local is None and not called and name not in self.known.values:
            local = scope.type(name)
        if local is not None:
            return local
        return Global(name, "module" if name in self.known.modules else "value")

    def member(self, e: s.Field, scope: Scope) -> None:
        name = str(e.name)
        if isinstance(e.base, s.Name) and isinstance(e.name, str) and self.is_module(e.base.name, scope):
            self.add(e.base.span, Global(e.base.name, "module"))
            space = "constructor" if name[:1].isupper() else "value"
            self.add(e.span.tail(len(name)), Global(name, space, e.base.name))
            return
        self.visit(e.base, scope)
        if isinstance(e.name, str):
            self.add(e.span.tail(len(name)), FieldOf(name, e.base.span))

    def is_module(self, name: str, scope: Scope) -> bool:
        return name in self.known.modules and scope.value(name) is None

    def function_of(self, e: s.Expr, scope: Scope) -> Target | None:
        """Returns the function called, if it has a name."""
        match e:
            case s.Name(_, name) if name and name[0].isupper():
                head, _, last = name.rpartition(".")
                return Global(last, "constructor", head or None)
            case s.Name(_, name) if name:
                return self.value_named(name, scope, called=True)
            case s.Field(_, s.Name(_, base), str(name)) if self.is_module(base, scope):
                return Global(name, "constructor" if name[:1].isupper() else "value", base)
            case s.Call(_, s.Name(_, form), (s.Argument(name=None, value=function), *_)) if (
                form in GIVE_FUNCTIONS and scope.value(form) is None
            ):  # `grad(f)` takes what `f` takes
                return self.function_of(function, scope)
            case _:
                return None

    def call(self, e: s.Call, scope: Scope) -> None:
        if isinstance(f := e.function, s.Name) and f.name not in ("", "_") and not f.name[0].isupper():
            self.add(f.span, self.value_named(f.name, scope, called=True))
        else:
            self.visit(f, scope)
        called = self.function_of(e.function, scope)
        derivative = isinstance(called, Global) and called.module is None and called.name in DERIVES
        for a in e.arguments:
            if a.name is not None and called is not None:
                self.add_parameter(a.span.head(len(a.name)), a.name, called)
            if derivative and a.name == "wrt" and e.arguments[0].name is None:
                self.with_respect_to(e.arguments[0].value, a.value, scope)
            else:
                self.visit(a.value, scope)

    def add_parameter(self, span: Span, name: str, called: Target) -> None:
        match called:
            case Global(space="constructor"):
                self.add(span, FieldIn(name, called))
            case Global():
                self.add(span, ParameterOf(name, called))
            case Local() if name in self.parameters.get(called, {}):
                self.add(span, self.parameters[called][name])
            case _:
                pass

    def with_respect_to(self, f: s.Expr, value: s.Expr, scope: Scope) -> None:
        """`wrt = x` and `wrt = (x, y)` name parameters of the function."""
        items = value.items if isinstance(value, s.Tuple) else (value,)
        called = self.function_of(f, scope)
        parameters: dict[str, Local] = {}
        if isinstance(f, s.Lambda):
            for p in f.parameters:
                if isinstance(p.pattern, s.PatternName):
                    parameters[p.pattern.name] = Local(p.pattern.name, "parameter", p.pattern.span)
        for i in items:
            if isinstance(i, s.Name) and i.name in parameters:
                self.add(i.span, parameters[i.name])
            elif isinstance(i, s.Name) and called is not None:
                self.add_parameter(i.span, i.name, called)

    def string(self, e: s.String, scope: Scope) -> None:
        self.visit_all([p.value for p in e.parts if isinstance(p, s.Interpolation)], scope)

    def cast(self, e: s.Cast, scope: Scope) -> None:
        self.visit(e.value, scope)
        self.type(e.type, scope, Scope())

    def lambda_(self, e: s.Lambda, outer: Scope) -> dict[str, Local]:
        scope = self.region(e.span, Scope(outer))
        for p in e.parameters:
            self.type(p.type, scope, scope)
        bound = self.bound_parameters(e.parameters, scope)
        self.type(e.result, scope, scope)
        self.visit(e.body, scope)
        return bound

    def comprehension(self, e: s.Comprehension, outer: Scope) -> None:
        scope = self.region(e.span, Scope(outer, whole=True))
        for b in e.binders:
            self.binder(b, scope)
        self.visit_all([e.condition, e.element], scope)

    def binder(self, b: s.Binder, scope: Scope) -> None:
        self.visit_all([b.below, b.each, b.low, b.high, b.step], scope)
        self.pattern(b.pattern, scope, "let" if b.each is not None else "index")

    def arm(self, e: s.Arm, outer: Scope) -> None:
        scope = self.region(e.span, Scope(outer))
        self.pattern(e.pattern, scope, "let")
        self.visit_all([e.guard, e.body], scope)

    # ---- statements --------------------------------------------------------------------------------------------------
    def block(self, e: s.Block, outer: Scope) -> None:
        scope = self.region(e.span, Scope(outer))
        for statement in e.statements:
            self.visit(statement, scope)

    def let(self, e: s.Let | s.Var, scope: Scope) -> None:
        introduced = Scope()
        self.type(e.type, scope, introduced)
        kind = "var" if isinstance(e, s.Var) else "let"
        if isinstance(e.value, s.Lambda) and isinstance(e.pattern, s.PatternName):
            parameters = self.lambda_(e.value, scope)
            self.parameters[self.bind(scope, e.pattern.name, "function", e.pattern.span)] = parameters
        else:
            self.visit(e.value, scope)
            self.pattern(e.pattern, scope, kind)
        scope.types.update({n: x for n, x in introduced.types.items() if not n.startswith("?")})

    def assign(self, e: s.Assign, scope: Scope) -> None:
        occurrences = self.found.occurrences
        before = len(occurrences)
        self.visit(e.target, scope)
        written = {name.span for name in _assigned(e.target)}
        occurrences[before:] = [replace(o, role="write") if o.span in written else o for o in occurrences[before:]]
        self.visit(e.value, scope)

    def for_(self, e: s.For, outer: Scope) -> None:
        scope = self.region(e.span, Scope(outer))
        for b in e.binders:
            self.binder(b, scope)
        self.visit(e.body, scope)


def _assigned(e: s.Expr) -> list[s.Name]:
    """The variables that an assignment changes."""
    match e:
        case s.Name():
            return [e]
        case s.Field(_, base, _) | s.Index(_, base, _):
            return _assigned(base)
        case s.Tuple(_, items):
            return [n for i in items for n in _assigned(i)]
        case _:
            return []


@cache
def _rules() -> Mapping[type, Callable[[_Resolver, Any, Scope], object]]:
    return {
        s.Fn: _Resolver.local_function,
        s.Extern: _Resolver.extern,
        s.Struct: _Resolver.struct,
        s.Enum: _Resolver.enum,
        s.Alias: _Resolver.alias,
        s.Const: _Resolver.const,
        s.Import: _Resolver.import_,
        s.Rule: _Resolver.rule,
        s.Name: _Resolver.name,
        s.Field: _Resolver.member,
        s.Call: _Resolver.call,
        s.String: _Resolver.string,
        s.Cast: _Resolver.cast,
        s.Lambda: _Resolver.lambda_,
        s.Comprehension: _Resolver.comprehension,
        s.Arm: _Resolver.arm,
        s.Block: _Resolver.block,
        s.Let: _Resolver.let,
        s.Var: _Resolver.let,
        s.Assign: _Resolver.assign,
        s.For: _Resolver.for_,
    }


_BASIC = DTYPES | {"size", "Idx"}


def names_of_type(t: s.TypeExpr | s.Dim, scope: Scope, into: Scope, names: Names, constants: Container[str]) -> None:
    """Notes the names of a type; those that stand for nothing yet are variables, bound in `into`.

    constants: of the module, which may be sizes.
    """
    inner: list[s.TypeExpr | s.Dim] = []
    match t:
        case s.TypeName(span, name, arguments):
            if span.text.startswith(name):  # not one that a repair invented
                _type(span, name, scope, into, names, constants)
            inner += arguments
        case s.TypeArray(_, element, dims):
            inner += [element, *dims]
        case s.TypeTuple(_, items):
            inner += items
        case s.TypeFunction(_, parameters, result, _):
            inner += [*parameters, result]
        case s.TypeEffects(_, result, _):
            inner.append(result)
        case s.SizeName(span, name):
            _size(span, name, scope, into, names, constants, "size")
        case s.SizeOperator(_, _, left, right):
            inner += [left, right]
        case s.SizeRow(span, name):
            _variable(span.tail(len(name)), ".." + name, name, "shape", scope, into, names)
        case s.SizeAny(span, str(name)):
            _variable(span.tail(len(name)), "?" + name, name, "size", scope, into, names)
        case s.SizeAny() | s.SizeNumber() | s.SizeHole():
            pass
    for part in inner:
        names_of_type(part, scope, into, names, constants)


def _type(span: Span, name: str, scope: Scope, into: Scope, names: Names, constants: Container[str]) -> None:
    head, _, last = name.rpartition(".")
    if head:
        names.add(span.head(len(head)), Global(head, "module"))
        start = span.start + span.text[: len(name) + 1].rfind(last)
        names.add(span._replace(start=start, end=start + len(last)), Global(last, "type", head))
    elif name in _BASIC:
        names.add(span.head(len(name)), Basic(name))
    elif name[:1].isupper():
        names.add(span.head(len(name)), Global(name, "type"))
    elif name:
        _size(span.head(len(name)), name, scope, into, names, constants, "type variable")


def _size(span: Span, name: str, scope: Scope, into: Scope, names: Names, constants: Container[str], kind: str) -> None:
    """A variable, unless it is a value that counts as a size."""
    if scope.type(name) is None and into.type(name) is None:
        value = scope.value(name)
        if value is not None:
            names.add(span, value)
            return
        if name in constants:
            names.add(span, Global(name, "value"))
            return
    _variable(span, name, name, kind, scope, into, names)


def _variable(span: Span, key: str, name: str, kind: str, scope: Scope, into: Scope, names: Names) -> None:
    known = scope.type(key) or into.type(key)
    if known is None:
        local = into.types[key] = Local(name, kind, span)
        names.add(span, local, "definition")
    else:
        names.add(span, known)


# ---- scopes ----------------------------------------------------------------------------------------------------------
# The targets of names, and the scopes of names.


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
            entry = scope.values.get(name) or scope.types.get(name)
            if entry is not None and entry.kind != "type variable":
                return entry
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
        by_span = {o.span: o for o in self.occurrences}
        return sorted(by_span.values(), key=lambda o: (o.span.first, o.span.last))

    @cached_property
    def by_name(self) -> dict[str, list[Occurrence]]:
        """The same, by what is written; what stands for a local, by the name of that."""
        table: dict[str, list[Occurrence]] = {}
        for o in self.ordered:
            table.setdefault(o.target.name if isinstance(o.target, Local) else o.span.text, []).append(o)
        return table


@dataclass(frozen=True, slots=True)
class Known:
    """Names of the module: constants, perhaps sizes; values, which sizes hide unless they are called; modules."""

    constants: frozenset[str]
    values: frozenset[str]
    modules: frozenset[str]

    def differs(self, other: Known) -> frozenset[str]:
        """The names that only one of two has, or that are something else in the other."""
        return (self.constants ^ other.constants) | (self.values ^ other.values) | (self.modules ^ other.modules)
