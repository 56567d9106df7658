"""An input of statements as a function: its parameters are the kept values that it mentions, its result is what is to
be kept, and the text of its value where that can't leave a run.

So everything runs as it does in a file, and each effect happens once. Functions can't leave a run, so a session keeps
the code that names them, and their types for all sizes that they take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, DlangError, Source, Span, error, own_help
from dlang.grammar import syntax as s
from dlang.grammar.syntax import children, walk
from dlang.tools.assistance import GIVE_FUNCTIONS
from dlang.tools.repl.names import meaning, signature, type_of_name
from dlang.tools.repl.state import LAST, VALUE, Recipe, State, StoredValue, annotation, items_of, mentions
from dlang.typecheck import core
from dlang.typecheck.groups import names_in
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.printing import Names
from dlang.typecheck.program import Checked, check_function, check_item, scheme_text
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.terms import variables
from dlang.typecheck.types import UNIT, DataDecl, Type, TypeCon, TypeVar, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dlang.tools.repl.session import Session


RESULT = " value"  # no name of the language, so it hides none
NAME = "input"


def composed(
    checked: Checked,
    state: State,
    source: Source,
    body: Sequence[s.Statement],
    results: Sequence[str],
    text: bool = False,
    more: Sequence[s.Parameter] = (),
) -> tuple[core.FnDecl, list[StoredValue]]:
    """The checked function of an input, and the values that it sees, which it is called with unless it knows them.

    Raises `DlangError`.

    text: whether its last result is the text of the value. more: parameters behind those for values, which they hide.
    """
    for e in _leaving(body):
        raise error("E0209", "`return` outside of a function", e.span, help=("an input ends with its last expression",))
    at, inside = Span(source, 0, len(source.text)), Span(Source(VALUE, ""), 0, 0)
    hidden = {n for p in more for n in bound(p.pattern)}
    mentioned = mentions(*body) - _sizes_anew(body, state.values) - hidden
    parameters: list[s.Parameter] = []
    given: list[StoredValue] = []
    types: dict[DataDecl, str] = {}
    front: list[s.Statement] = []

    def parameter(name: str, value: StoredValue) -> None:
        given.append(value)
        if (size := known_size(value)) is not None:
            number = s.Number(Span(Source(VALUE, name.split()[-1]), 0, 1), size, "i64")
            front.append(s.Let(inside, s.PatternName(inside, name), None, number))
            return
        types.update(_foreign(value, state, types))
        type = annotation(value.inferred, value.form, value.leaves, types)
        parameters.append(s.Parameter(inside, s.PatternName(inside, name), type))

    def named(name: str, key: str, kind: type[s.Let | s.Var] = s.Let, type: s.TypeExpr | None = None) -> None:
        front.append(kind(inside, s.PatternName(inside, name), type, s.Name(inside, key)))

    def made(recipe: Recipe, key: str) -> None:
        for n, r in _in_turn(recipe.uses, at):
            made(r, f"{key}{n} ")
        for n, v in recipe.given.items():  # last, because what it uses may have seen other values of these names
            parameter(f"{key}{n} ", v)
            named(n, f"{key}{n} ")
        front.append(recipe.let)

    values = {n: v for n, v in state.values.items() if n in mentioned}
    recipes = {n: v for n, v in values.items() if isinstance(v, Recipe)}
    hiding = set[str]().union(*map(_names, recipes.values()))  # what the input means otherwise
    functions = {n for n in hiding & mentioned - values.keys() if ("value", n) in state.declarations}
    for n in functions:
        named(f"{n} ", n)
    for n, recipe in _in_turn(recipes, at):
        made(recipe, f"{n} ")
    for n, v in values.items():
        if isinstance(v, StoredValue):
            parameter_name = f"{n} " if recipes else n
            parameter(parameter_name, v)
            if recipes or v.mutable:
                named(n, parameter_name, s.Var if v.mutable else s.Let, v.annotation)
    for n in functions | (hiding & hidden):
        named(n, f"{n} ")
    more = [replace(p, pattern=_with_keys(p.pattern, hiding)) for p in more]
    parts: list[s.Expr] = [s.Name(inside, n) for n in results]
    if text:
        parts.append(s.String(at, (s.Interpolation(at, s.Name(at, RESULT), ""),)))
    value = s.Tuple(at, tuple(parts))
    item = s.Fn(at, NAME, at, (), (*parameters, *more), None, s.Block(at, (*front, *body, value)))
    decl, diagnostics = check_item(checked, item, {name: d for d, name in types.items()})
    if decl is None:
        earlier = {d.name for d in types if ("type", d.name) in state.declarations}
        theirs = [d for d in diagnostics if d.span is None or d.span.source.path != VALUE] or diagnostics
        raise DlangError([_of_let(_with_earlier(d, earlier), state) for d in theirs])
    return decl, given


def _names(recipe: Recipe) -> set[str]:
    """The names that are bound when a value is made."""
    return {*bound(recipe.let.pattern), *recipe.given, *recipe.uses}.union(*map(_names, recipe.uses.values()))


def _in_turn(recipes: Mapping[str, Recipe], at: Span) -> Iterator[tuple[str, Recipe]]:
    """Values that are made one after another, none of which hides one before it. Raises `DlangError`."""
    left = dict(recipes)
    while left:
        free = [n for n in left if not any(n in _names(r) for m, r in left.items() if m != n)]
        if not free:
            message = (
                f"{' and '.join(f'`{n}`' for n in left)} can't be used in one input: each has seen an earlier other"
            )
            raise error("E0970", message, at, help=("name one of them anew",))
        yield free[0], left.pop(free[0])


def _with_keys(pattern: s.Pattern, names: Set[str]) -> s.Pattern:
    """The pattern of a parameter, whose name has another meaning in front of an input if it is one of these."""
    match pattern:
        case s.PatternName(name=name) if name in names:
            return replace(pattern, name=f"{name} ")
        case _:
            return pattern


def _leaving(body: Sequence[s.Node]) -> Iterator[s.Return]:
    """Lists the `return`s of statements, outside of functions of their own."""
    work = list(body)
    while work:
        node = work.pop()
        if isinstance(node, s.Return):
            yield node
        elif not isinstance(node, s.Lambda | s.Fn):
            work += children(node)


def _foreign(value: StoredValue, state: State, known: Mapping[DataDecl, str]) -> dict[DataDecl, str]:
    """The datatypes of a value that aren't those of the session by now, but imported, or declared anew since, with
    names that nobody writes."""
    changed = any(text not in ("", state.text_of_type(d.name)) for d, text in value.decls.items())
    foreign = [d for d, text in value.decls.items() if d not in known and (changed or not text)]
    return {d: f"{d.name}{LAST}{len(known) + k}" for k, d in enumerate(foreign)}


def _with_earlier(d: Diagnostic, names: set[str]) -> Diagnostic:
    """A message about values whose types have been declared anew says so."""
    mentioned = sorted(n for n in names if re.search(rf"\b{n}\b", f"{d.message} {d.label}"))
    help = tuple(f"a value was made with an earlier `{n}`: make it again" for n in mentioned)
    return replace(d, help=(*own_help(d), *help))


def _of_let(d: Diagnostic, state: State) -> Diagnostic:
    """A value of the session is no parameter to who assigns to it."""
    named = re.search("`([^`]*)`", d.message) if d.code == "E0208" else None  # `1 = 2` names nothing
    if named is None or named[1] not in state.values:
        return d
    name = named[1]
    message = f"`{name}` was named by `let` and can't be assigned: only a `var` can"
    return replace(d, message=message, notes=(), help=(f"name it anew: `let {name} = …`",))


# ---- what is to be kept ----------------------------------------------------------------------------------------------
def assignable(body: Sequence[s.Statement], values: Mapping[str, StoredValue | Recipe]) -> Iterator[str]:
    """Lists the names that have a value after the statements but may have had none before."""
    targets = assigned(body)
    for n, v in values.items():
        if isinstance(v, StoredValue) and v.mutable and n in targets:
            yield n
    anew = _sizes_anew(body, values)
    for statement in body:
        if isinstance(statement, s.Let | s.Var):
            yield from bound(statement.pattern)
            yield from (n for _, n in sizes_bound(statement) if n not in values or n in anew)


# ---- sizes -----------------------------------------------------------------------------------------------------------
def known_size(value: StoredValue) -> int | None:
    """The number that a value is, if it may be a size: then the types of an input know it, as in a function."""
    if value.mutable or resolve(value.inferred) != TypeCon("i64") or value.leaves[0] < 0:
        return None
    return int(value.leaves[0])


def sizes_bound(statement: s.Statement) -> Iterator[tuple[str, str]]:
    """The names of sizes that a statement binds, unless they are known, each behind that of the array:
    `let y: f64[k] = …`."""
    match statement:
        case (
            s.Let(pattern=s.PatternName(name=array), type=s.TypeArray(dims=dims))
            | s.Var(pattern=s.PatternName(name=array), type=s.TypeArray(dims=dims))
        ):
            yield from ((array, d.name) for d in dims if isinstance(d, s.SizeName))


def _sizes_anew(body: Sequence[s.Statement], values: Mapping[str, StoredValue | Recipe]) -> set[str]:
    """The sizes that are bound again, because the array that they came with is named anew."""
    sizes: set[str] = set()
    seen: set[str] = set()
    for statement in body:
        if isinstance(statement, s.Let | s.Var):
            names_in([statement.value], seen)
        for array, size in sizes_bound(statement):
            value = values.get(size)
            if isinstance(value, StoredValue) and value.of == array and size not in seen:
                sizes.add(size)
        names_in([statement], seen)
    return sizes


def bound(pattern: s.Pattern) -> Iterator[str]:
    """The names that a pattern binds."""
    return (p.name for p in walk(pattern) if isinstance(p, s.PatternName))


def assigned(body: Sequence[s.Statement]) -> set[str]:
    """The names that statements assign to, at every depth."""
    return {n.name for a in walk(*body) if isinstance(a, s.Assign) for n in walk(a.target) if isinstance(n, s.Name)}


def decide_numbers(decl: core.FnDecl) -> None:
    """Numbers whose dtypes nothing decides are `f64` or `i64`."""
    for v in decl.variables:
        if isinstance(v, TypeVar) and v.ref is None and (v.classes or v.literal):
            v.ref = TypeCon("f64" if v.literal == "float" or v.classes & {"Float", "Vector"} else "i64")


def decide(decl: core.FnDecl, types: Mapping[str, Type], span: Span) -> None:
    """Makes undecided types the unit type, for a value to be shown; raises `DlangError` if it has a name."""
    decide_numbers(decl)
    for v in decl.variables:
        if not isinstance(v, TypeVar) or v.ref is not None:
            continue
        named = [n for n, t in types.items() if n != RESULT and v in variables(t)]
        if named:
            shown = Names(scheme=True)(types[named[0]])
            help = ("write it: `let x: Option<f64> = None`",)
            raise error("E0970", f"the type of `{named[0]}` is not known: {shown}", span, help=help)
        v.ref = UNIT
    decl.variables = tuple(v for v in decl.variables if not isinstance(v, TypeVar))


def functions_among(session: Session, source: Source, body: Sequence[s.Statement]) -> dict[str, str]:
    """The names that statements give to functions which see nothing that the statements name themselves, and the types
    of these."""
    types: dict[str, str] = {}
    named_here = {n for let in body if isinstance(let, s.Let | s.Var) for n in bound(let.pattern)}
    for let in body:
        if isinstance(let, s.Let) and isinstance(let.pattern, s.PatternName) and let.type is None:
            if not named_here & mentions(let.value):
                t = type_of_function(session, source, let.value)
                if t is not None:
                    types[let.pattern.name] = t
    return types


def type_of_function(session: Session, source: Source, e: s.Expr) -> str | None:
    """The type for people of a name of a function, a lambda, or a derivative of a function; else None.

    Raises `DlangError`.
    """
    values, checked = session.state.values, session.checked
    function: tuple[FnDecl, int] | None
    match e:
        case s.Name(name=name) if name in values:
            value = values[name]
            return value.shown if isinstance(value, Recipe) and value.function else None
        case s.Name(name=name):
            return type_of_name(name, checked)
        case s.Field(base=s.Name(name=name)) if name not in values:
            return type_of_name(e.span.text, checked)
        case s.Lambda():
            function = function_of(session, source, e, e.body, e.result)
        case _:
            function = derivative(session, source, e)
    return None if function is None else scheme_text(replace(function[0], params=function[0].params[function[1] :]))


def function_of(
    session: Session, source: Source, e: s.Lambda, value: s.Expr, result: s.TypeExpr | None
) -> tuple[FnDecl, int]:
    """A function of the values that a lambda sees, and of its parameters, and how many of the former there are.

    value: what it gives, such as what the lambda does; result: the type of that, if it is written. Raises `DlangError`.
    """
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), result, value)]
    decl, _ = session.composed(session.checked, source, body, [RESULT], more=e.parameters)
    assert decl.result is not None
    return replace(decl, result=items_of(decl.result)[0]), len(decl.params) - len(e.parameters)


def derivative(session: Session, source: Source, e: s.Expr) -> tuple[FnDecl, int] | None:
    """Returns the derivative that an expression such as `grad(f)` gives, if `f` may be for all sizes or types: then the
    derivative is so too, but only as a function with parameters of its own. And how many values it sees. Raises
    `DlangError`."""
    values, checked = session.state.values, session.checked
    match e:
        case s.Call(function=s.Name(name=form), arguments=(s.Argument(value=of), *_)):
            if form not in GIVE_FUNCTIONS or form in values:
                return None
            match of:
                case s.Name(name=name) | s.Field(base=s.Name(name=name)) if name not in values:
                    entry = meaning(checked, of.span.text)
                    if isinstance(entry, FnEntry) and entry.decl.variables:
                        return _applied(e.span.text, entry, checked), 0
                case s.Lambda(parameters=parameters) if all(isinstance(p.pattern, s.PatternName) for p in parameters):
                    names = [s.Name(p.span, n) for p in parameters for n in bound(p.pattern)]
                    arguments = tuple([s.Argument(n.span, n) for n in names])
                    return function_of(session, source, of, s.Call(e.span, e, arguments), None)
    return None


def _applied(text: str, of: FnEntry, checked: Checked) -> FnDecl:
    """`fn input(a: …, b: …) = text(a, b)`, with the parameters of a function. Raises `DlangError`."""
    like = signature("input", of, checked)
    names = [n or f"x{k}" for k, n in enumerate(like.names)]
    types = [p.partition(": ")[2].removesuffix(" = …") for p in like.parameters]
    return calling(text, names, types, checked, like.bounds)


def calling(text: str, names: Sequence[str], types: Sequence[str], checked: Checked, bounds: str = "") -> FnDecl:
    """A function with parameters of some types, which calls with them what a text gives. Raises `DlangError`."""
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    item = f"fn input{bounds}({parameters}) = ({text})({', '.join(names)})"
    decl, diagnostics = check_function(checked, Source("<expression>", item))
    if decl is None:
        raise DlangError(diagnostics)
    return decl
