"""The state of a REPL: declarations, and values that were computed once and are kept.

An input of statements becomes a function: its parameters are the kept values that it mentions, its result is what is to
be kept and the text of its value. So everything runs as it does in a file, each effect happens once, and an input that
fails leaves the session as it was. Values that can't leave a run, which are functions and those of types that contain
themselves, are kept as the expressions that they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dlang.diagnostics import Diagnostic, DlangError, Source, Span, error
from dlang.driver import Backend, Request, call, load, lower
from dlang.grammar import syntax as s
from dlang.grammar.lexer import tokenize
from dlang.grammar.newlines import CLOSERS, NEEDS_MORE, OPENERS
from dlang.grammar.parser import parse
from dlang.grammar.trees import walk
from dlang.typecheck import core
from dlang.typecheck.groups import names_in
from dlang.typecheck.printing import Names
from dlang.typecheck.program import Checked, check_item, scheme_text
from dlang.typecheck.terms import variables
from dlang.typecheck.types import (
    UNIT,
    DataDecl,
    Shape,
    Size,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    children,
    resolve,
    resolve_size,
)
from dlang.typecheck.workspace import Workspace

LAST = "ϟ"  # what `_` stands for in an expression: a name of its length that nobody writes
_RESULT = " value"  # no name of the language, so it hides none
_OWN = ".input`"  # in the note on the call of an input, which nobody wrote
_Declaration = s.Fn | s.Const | s.Extern | s.Struct | s.Enum | s.Alias | s.Import | s.Rule | s.Test | s.Bench


@dataclass(frozen=True, slots=True)
class Kept:
    """A value: its type as an annotation, and its leaves. annotation: of a `var`, what was written."""

    type: s.TypeExpr
    leaves: tuple[Any, ...]
    mutable: bool = False
    annotation: s.TypeExpr | None = None
    decls: tuple[DataDecl, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """A value that is made where it is used, by a `let`; `given` are the kept values that it saw."""

    let: s.Let
    given: dict[str, Kept]
    uses: dict[str, Recipe]


@dataclass(slots=True)
class Session:
    """One conversation. seed: of the next input that draws random numbers."""

    backend: Backend = "cpu"
    folder: str = ""
    seed: int = 0
    workspace: Workspace = field(default_factory=Workspace)
    declarations: dict[tuple[str, str], str] = field(default_factory=dict)
    values: dict[str, Kept | Recipe] = field(default_factory=dict)
    inputs: int = 0
    _checked: Checked | None = None

    def submit(self, text: str) -> str | None:
        """Does what an input says; the text of its value if it has one. Raises `DlangError`."""
        self.inputs += 1
        module = self._parsed(Source(f"<input {self.inputs}>", text))
        declared = [i for i in module.items if isinstance(i, _Declaration)]
        statements = [i for i in module.items if not isinstance(i, _Declaration)]
        if declared:
            self._declare(declared)
        return self._run(module.source, statements) if statements else None

    def type_of(self, text: str) -> str:
        """The type of an expression; of the name of a function, its scheme. Raises `DlangError`."""
        module = self._parsed(Source("<expression>", text))
        if len(module.items) != 1 or not isinstance(module.items[0], s.Expr):
            raise error("E0971", "`:type` takes one expression", Span(module.source, 0, len(text)))
        e = module.items[0]
        checked = self._module()
        if isinstance(e, s.Name) and e.name in checked.module.functions and e.name not in self.values:
            return scheme_text(checked.module.functions[e.name])
        decl = self._function(module.source, [s.Let(e.span, s.PatternName(e.span, _RESULT), None, e)], [_RESULT])[0]
        assert decl.result is not None
        return Names(scheme=True)(_items(decl.result)[0])

    # ---- declarations ------------------------------------------------------------------------------------------------
    def _parsed(self, source: Source) -> s.Module:
        module, problems = parse(source)
        if problems:
            raise DlangError(problems)
        blanks = list(_blanks(module)) if LAST in self.values else []
        return parse(Source(source.path, _with_last(source.text, blanks)))[0] if blanks else module

    def _module(self) -> Checked:
        if self._checked is None:
            self._checked = self._check(self.declarations)
        return self._checked

    def _check(self, declarations: dict[tuple[str, str], str]) -> Checked:
        text = "".join(f"{d}\n" for d in declarations.values())
        return self.workspace.check(Source(f"{self.folder}<session>", text))

    def _declare(self, items: Sequence[_Declaration]) -> None:
        """Adds declarations in the place of those of their name; all that depends on them is checked again."""
        declarations = dict(self.declarations)
        for item in items:
            declarations[_key(item)] = item.span.text
        checked = self._check(declarations)
        wrong = [d for d in checked.diagnostics if d.severity == "error"]
        if wrong:
            raise DlangError([self._explained(d) for d in wrong])
        self.declarations, self._checked = declarations, checked
        for item in items:
            if isinstance(item, s.Fn | s.Const | s.Extern):
                self.values.pop(item.name, None)

    def _explained(self, d: Diagnostic) -> Diagnostic:
        name = d.message.split("`")[1] if d.code == "E0201" and "`" in d.message else ""
        if name not in self.values:
            return d
        help = (f"a function doesn't see the values of a session: make `{name}` a parameter or a `const`",)
        return Diagnostic(d.code, d.message, d.span, d.label, d.notes, help, d.severity)

    # ---- statements --------------------------------------------------------------------------------------------------
    def _run(self, source: Source, statements: Sequence[s.Item]) -> str | None:
        body: list[s.Statement] = [i for i in statements if isinstance(i, s.Statement)]
        last = body[-1] if isinstance(body[-1], s.Expr) else None
        if last is not None:
            body[-1] = s.Let(last.span, s.PatternName(last.span, _RESULT), None, last)
        wanted = dict.fromkeys(_assignable(body, self.values))
        decl, given = self._function(source, body, list(wanted))
        assert decl.result is not None
        types = dict(zip(wanted, _items(decl.result), strict=True))
        recipes = {n: t for n, t in types.items() if not _leaves_a_run(t)}
        shown = last is not None and types[_RESULT] != UNIT
        if isinstance(types.get(_RESULT, UNIT), TypeFn):
            shown = False
        kept = [n for n in types if n not in recipes and types[n] != UNIT]
        _decide(decl, types, body[-1].span)
        text = last is not None and shown
        final, given = self._function(source, body, kept, text)
        _decide(final, dict(zip(kept, _items(final.result or UNIT), strict=False)), body[-1].span)
        results, components = self._called(final, given)
        made: dict[str, Kept | Recipe] = {}
        position = 0
        for name, component in zip(kept, components, strict=False):
            count = component[1]
            part = tuple(results[position : position + count])
            position += count
            made[LAST if name == _RESULT else name] = _kept(body, name, types[name], part, self.values)
        for name in recipes:
            let = _let_of(body, name)
            if let is None or decl.effects:
                help = ("write it as a `let` without effects: it is made again where it is used",)
                raise error("E0970", "a function, or a list or tree, can't be kept here", body[0].span, help=help)
            seen = {n: v for n, v in self.values.items() if n in _mentioned([let])}
            given_ = {n: v for n, v in seen.items() if isinstance(v, Kept)}
            uses = {n: v for n, v in seen.items() if isinstance(v, Recipe)}
            target = LAST if name == _RESULT else name
            pattern = s.PatternName(let.span, target)
            made[target] = Recipe(s.Let(let.span, pattern, let.type, let.value), given_, uses)
        self.values |= made
        if decl.effects & {"random"}:
            self.seed += 1
        if last is not None and isinstance(types[_RESULT], TypeFn):
            return Names(scheme=True)(types[_RESULT])
        return str(results[-1]) if text else None

    def _function(
        self, source: Source, body: Sequence[s.Statement], results: Sequence[str], text: bool = False
    ) -> tuple[core.FnDecl, list[Kept]]:
        """The checked function of an input, and the values that it is called with."""
        at = Span(source, 0, len(source.text))
        mentioned = _mentioned(body)
        parameters: list[s.Parameter] = []
        given: list[Kept] = []
        front: list[s.Statement] = []
        decls: dict[str, DataDecl] = {}

        def parameter(name: str, value: Kept) -> None:
            parameters.append(s.Parameter(at, s.PatternName(at, name), value.type))
            given.append(value)
            decls.update({d.name: d for d in value.decls})

        def made(recipe: Recipe, prefix: str) -> None:
            for n, r in recipe.uses.items():
                made(r, f"{prefix}{n} ")
            for n, v in recipe.given.items():  # last, because what it uses may have seen other values of these names
                parameter(f"{prefix}{n}", v)
                front.append(s.Let(at, s.PatternName(at, n), None, s.Name(at, f"{prefix}{n}")))
            front.append(recipe.let)

        recipes = {n: v for n, v in self.values.items() if n in mentioned and isinstance(v, Recipe)}
        for n, recipe in recipes.items():
            made(recipe, f"{n} ")
        for n, v in self.values.items():
            if n in mentioned and isinstance(v, Kept):
                own = f"{n} " if recipes else n
                parameter(own, v)
                if recipes or v.mutable:
                    kind = s.Var if v.mutable else s.Let
                    front.append(kind(at, s.PatternName(at, n), v.annotation, s.Name(at, own)))
        parts: list[s.Expr] = [s.Name(at, n) for n in results]
        if text:
            parts.append(s.String(at, (s.Interpolation(at, s.Name(at, _RESULT), ""),)))
        value = s.Tuple(at, tuple(parts))
        item = s.Fn(at, "input", at, (), tuple(parameters), None, s.Block(at, (*front, *body, value)))
        decl, found = check_item(self._module(), item, tuple(decls.values()))
        if decl is None:
            raise DlangError(found)
        return decl, given

    def _called(self, decl: core.FnDecl, given: Sequence[Kept]) -> tuple[list[Any], list[tuple[Any, int]]]:
        """The leaves of the result, and of each component how many they are."""
        from dlang.runtime.host import Host
        from dlang.specialize.values import TupleV, leaves

        program, (entry,) = lower([Request(decl)])
        runner = load(program, [entry], self.backend, Host(), tiers=True)
        try:
            results = call(runner, entry, leaves=[leaf for k in given for leaf in k.leaves], seed=self.seed)
        except DlangError as e:
            raise DlangError([replace(d, notes=tuple(n for n in d.notes if _OWN not in n.text)) for d in e.diagnostics]
                             ) from None  # fmt: skip
        components = entry.result.items if isinstance(entry.result, TupleV) else ()
        return results, [(c, len(list(leaves(c)))) for c in components]


def incomplete(text: str) -> bool:
    """Whether an input goes on: a bracket is open, or the last line ends with an operator."""
    depth, last = 0, ""
    for token in tokenize(text):
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        last = token.kind if token.kind != "newline" else last
    return depth > 0 or (last in NEEDS_MORE and last not in ("|", "!"))


# ---- names -----------------------------------------------------------------------------------------------------------
def _key(item: _Declaration) -> tuple[str, str]:
    match item:
        case s.Fn() | s.Const() | s.Extern():
            return "value", item.name
        case s.Struct() | s.Enum() | s.Alias():
            return "type", item.name
        case s.Rule():
            return item.kind, item.name
        case s.Test():
            return "test", item.name
        case s.Bench():
            return "bench", item.name
        case s.Import():
            return "import", ".".join(item.path) + f" {item.alias or ''} {bool(item.names)}"


def _blanks(module: s.Module) -> Iterator[int]:
    """Where `_` stands as a value; on the left of `=` it drops a part."""
    targets = {n for a in walk(*module.items) if isinstance(a, s.Assign) for n in walk(a.target)}
    for n in walk(*module.items):
        if isinstance(n, s.Name) and n.name == "_" and n not in targets:
            yield n.span.start


def _with_last(text: str, places: Iterable[int]) -> str:
    """The text in which `_` at some places is the name of the last value."""
    out = list(text)
    for place in places:
        out[place] = LAST
    return "".join(out)


def _mentioned(body: Sequence[s.Statement]) -> set[str]:
    found: set[str] = set()
    names_in(body, found)
    return found


def _bound(pattern: s.Pattern) -> Iterator[str]:
    """The names that a pattern binds."""
    return (p.name for p in walk(pattern) if isinstance(p, s.PatternName))


def _assignable(body: Sequence[s.Statement], values: dict[str, Kept | Recipe]) -> Iterator[str]:
    """What has a value after the statements that it may not have had before."""
    mentioned = _mentioned(body)
    for n, v in values.items():
        if isinstance(v, Kept) and v.mutable and n in mentioned:
            yield n
    for statement in body:
        if isinstance(statement, s.Let | s.Var):
            yield from _bound(statement.pattern)
            sizes: set[str] = set()
            if statement.type is not None:
                names_in([statement.type], sizes)
            if isinstance(statement.type, s.TypeArray):
                yield from (n for n in sorted(sizes) if _names_size(statement.type, n, values))


def _names_size(t: s.TypeArray, name: str, values: dict[str, Kept | Recipe]) -> bool:
    """Whether an annotation binds a size of this name: `let y: f64[k] = …`."""
    return name not in values and any(isinstance(d, s.SizeName) and d.name == name for d in t.dims)


def _let_of(body: Sequence[s.Statement], name: str) -> s.Let | None:
    for statement in reversed(body):
        if isinstance(statement, s.Let) and isinstance(statement.pattern, s.PatternName):
            if statement.pattern.name == name:
                return statement
    return None


# ---- types -----------------------------------------------------------------------------------------------------------
def _items(t: Type) -> tuple[Type, ...]:
    r = resolve(t)
    return tuple(resolve(i) for i in r.items) if isinstance(r, TypeTuple) else (r,)


def _parts(t: Type) -> Iterator[Type]:
    stack: list[Any] = [t]
    while stack:
        p = stack.pop()
        if isinstance(p, Type):
            p = resolve(p)
            yield p
        if isinstance(p, TypeArray | TypeTuple | TypeFn | TypeData | Shape):
            stack.extend(children(p))


def _leaves_a_run(t: Type) -> bool:
    """Whether values of a type are numbers, texts and arrays when taken apart."""
    seen: set[DataDecl] = set()

    def holds(u: Type, within: tuple[DataDecl, ...]) -> bool:
        for p in _parts(u):
            if isinstance(p, TypeFn):
                return False
            if isinstance(p, TypeData):
                if p.decl in within:
                    return False
                if p.decl not in seen:
                    for v in p.decl.variants:
                        if not all(holds(f, (*within, p.decl)) for _, f in v.fields):
                            return False
                    seen.add(p.decl)
        return True

    return holds(t, ())


def _decide(decl: core.FnDecl, types: dict[str, Type], span: Span) -> None:
    """Types that nothing decides: numbers are `f64` or `i64`; anything else can be shown, but not kept under a name."""
    for v in decl.variables:
        if not isinstance(v, TypeVar) or v.ref is not None:
            continue
        names = [n for n, t in types.items() if v in variables(t)]
        named = [n for n in names if n != _RESULT]
        if v.classes or v.literal:
            v.ref = TypeCon("f64" if v.literal == "float" or v.classes & {"Float", "Vector"} else "i64")
        elif named:
            shown = Names(scheme=True)(types[named[0]])
            raise error("E0970", f"the type of `{named[0]}` is not known: {shown}", span,
                        help=("write it: `let x: Option<f64> = None`",))  # fmt: skip
        else:
            v.ref = UNIT
    decl.variables = tuple(v for v in decl.variables if not isinstance(v, TypeVar))


def _kept(
    body: Sequence[s.Statement], name: str, t: Type, leaves: tuple[Any, ...], values: dict[str, Kept | Recipe]
) -> Kept:
    decls = tuple(p.decl for p in _parts(t) if isinstance(p, TypeData))
    source = Source("<type>", f"type T = {_written(t, iter(leaves))}")
    module, problems = parse(source)
    assert not problems and isinstance(module.items[0], s.Alias)
    annotation, mutable = None, False
    before = values.get(name)
    if isinstance(before, Kept):
        annotation, mutable = before.annotation, before.mutable
    for statement in body:
        if isinstance(statement, s.Let | s.Var) and name in _bound(statement.pattern):
            mutable = isinstance(statement, s.Var)
            annotation = statement.type if mutable and _has_unknown(statement.type) else None
    return Kept(module.items[0].type, leaves, mutable, annotation, decls)


def _has_unknown(t: s.TypeExpr | None) -> bool:
    return isinstance(t, s.TypeArray) and any(isinstance(d, s.SizeAny) for d in t.dims)


def _written(t: Type, leaves: Iterator[Any]) -> str:
    """A type as an annotation, with the sizes that the value has. Takes the leaves of the value."""
    t = resolve(t)
    match t:
        case TypeTuple(items):
            return f"({', '.join(_written(i, leaves) for i in items)})"
        case TypeArray(element, shape):
            first = next(leaves)
            rank = len(shape.pre)
            sizes = [str(n) for n in getattr(first, "shape", ())[:rank]]
            inner = _written(element, iter((first,))) if not isinstance(resolve(element), TypeData | TypeTuple) else ""
            return f"{inner or Names(scheme=True)(element)}[{', '.join(sizes)}]"
        case TypeData(decl, args) if args:
            written = []
            for a in args:
                if isinstance(a, Size):
                    value = resolve_size(a).poly.constant
                    written.append("_" if value is None else str(int(value)))
                elif isinstance(a, Shape):
                    written.append("_")
                else:
                    written.append(Names(scheme=True)(a))
            return f"{decl.name}<{', '.join(written)}>"
        case _:
            return Names(scheme=True)(t)
