"""Arguments of calls: in the order of the parameters, and checked against their types."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.diagnostics import DlangError, Note, Span, error
from dlang.grammar import syntax as s
from dlang.spelling import plural
from dlang.typecheck import comprehensions, core, elsewhere
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import Instantiated
from dlang.typecheck.scope import Scope
from dlang.typecheck.state import Term
from dlang.typecheck.terms import I64, of_var, substitute, substitute_size
from dlang.typecheck.types import MISTAKE, Size, SizeVar, Type, TypeArray, TypeFn, TypeTuple, TypeVar, Var, resolve
from dlang.typecheck.unify import effects_root


def in_order(
    e: s.Call, name: str, names: tuple[str | None, ...], defaults: tuple[bool, ...], declared: Span | None
) -> list[s.Argument | None]:
    """The arguments in the order of the parameters; None where the default is taken."""
    out: list[s.Argument | None] = [None] * len(names)
    notes = (Note(f"`{name}` is declared here", declared),) if declared is not None else ()
    position = 0
    for a in e.arguments:
        if a.spread:
            raise error("E0307", "`..` stands in the construction of a struct only", a.span, help=("leave `..` out",))
        if a.name is not None:
            if a.name not in names:
                word = "field" if name.rpartition(".")[2][0].isupper() else "parameter"
                known = [n for n in names if n]
                listed = ", ".join(f"`{n}`" for n in known)
                raise error(
                    "E0307",
                    f"`{name}` has no {word} `{a.name}`" + (f": it has {listed}" if listed else ""),
                    a.span.head(len(a.name)),
                    notes=notes,
                    help=elsewhere.of_argument(a.name, known) or did_you_mean(a.name, known),
                    fixes=misspelt(a.span.head(len(a.name)), a.name, known),
                )
            i = names.index(a.name)
        else:
            i, position = position, position + 1
            if i >= len(names):
                raise wrong_count(name, names, defaults, len(e.arguments), e.span, notes)
        if out[i] is not None:
            message = f"the parameter `{names[i]}` of `{name}` is given twice"
            raise error("E0307", message, a.span.head(len(a.name)) if a.name else a.span, notes=notes)
        out[i] = a
    for i, a2 in enumerate(out):
        if a2 is None and not defaults[i]:
            if len(e.arguments) < sum(1 for d in defaults if not d) and all(x.name is None for x in e.arguments):
                raise wrong_count(name, names, defaults, len(e.arguments), e.span, notes)
            help = (f"write `{name}(…, {names[i]} = …)`",) if names[i] is not None else ()
            raise error("E0307", f"`{name}` needs its parameter `{names[i]}`", e.span, notes=notes, help=help)
    return out


def wrong_count(
    name: str, names: tuple[str | None, ...], defaults: tuple[bool, ...], found: int, span: Span,
    notes: tuple[Note, ...],
) -> DlangError:  # fmt: skip
    least = sum(1 for d in defaults if not d)
    count = plural(len(names), "argument") if least == len(names) else f"{least} to {plural(len(names), 'argument')}"
    written = [n + " = …" * has for n, has in zip(names, defaults, strict=True) if n]
    label = f"it is `{name}({', '.join(written)})`" if len(written) == len(names) else ""
    help = ('write one text with the values in it: `print("{a} {b}")`',) if name == "print" and found > 1 else ()
    return error("E0303", f"`{name}` takes {count}, found {found}", span, label=label, notes=notes, help=help)


def size_argument(
    cx: Checker, value: core.Expr, want: Size | None, span: Span, what: str
) -> tuple[core.Expr, core.Statement | None]:
    """An argument for a `size`: what it counts as, or a `let` that gives a fresh size its value."""
    size, fresh = cx.bound(value, span, what)
    if want is not None:
        cx.expect_size(want, size, span, what)
    if fresh is None:
        return value, None
    local = core.Local("size", I64, False, fresh, span)
    cx.symbols[local] = size
    return core.Ref(I64, span, local), core.Let(core.Bind(local), value, (), span)


def apply_parameters(
    cx: Checker, scope: Scope, arguments: list[s.Argument | None], inst: Instantiated, name: str,
    names: tuple[str | None, ...], decl: core.FnDecl | None, sizes: tuple[str, ...] = (),
) -> tuple[list[core.Expr | None], list[core.Statement]]:  # fmt: skip
    """Checks arguments against the parameters of an instance. sizes: help where only sizes differ."""
    out: list[core.Expr | None] = [None] * len(arguments)
    lets: list[core.Statement] = []
    for i in in_turn(arguments):
        a = arguments[i]
        size = inst.sizes[i] if i < len(inst.sizes) else None
        if a is None:
            if size is not None and decl is not None:
                default_size(cx, inst, size, decl, i)
            continue
        if decl is None and isinstance(a.value, s.Comprehension):
            value = comprehensions.reduced(cx, scope, name, a.value)
        else:
            value = cx.infer(scope, a.value, inst.params[i])
        what = f"argument `{names[i]}` of `{name}`: " if names[i] else f"argument {i + 1} of `{name}`: "
        if size is not None:
            value, let = size_argument(cx, value, size, a.value.span, what)
            if let is not None:
                lets.append(let)
        else:
            cx.settled(value.type)
            notes: tuple[Note, ...] = ()
            if decl is not None and i < len(decl.params) and decl.params[i].local.span is not None:
                notes = (Note("the parameter is declared here", decl.params[i].local.span),)
            cx.expect(inst.params[i], value.type, a.value.span, what, notes, sizes)
        out[i] = value
    return out, lets


def in_turn(arguments: Sequence[s.Argument | None]) -> list[int]:
    """The positions of the arguments, lambdas last: the others may decide the types of their parameters."""
    lambdas = [a is not None and isinstance(a.value, s.Lambda) for a in arguments]
    return sorted(range(len(arguments)), key=lambdas.__getitem__)


def default_size(cx: Checker, inst: Instantiated, size: Size, decl: core.FnDecl, i: int) -> None:
    """An argument left out for a `size`: the size is what the default counts as, in terms of the other arguments."""
    default = decl.params[i].default if i < len(decl.params) else None
    counts = cx.symbol(default) if default is not None else None
    if default is not None and counts is not None:
        cx.expect_size(size, substitute_size(counts, dict(inst.instance)), default.span, "the default: ")


def call_value(cx: Checker, scope: Scope, function: core.Expr, e: s.Call) -> core.Expr:
    """A call of a function value: arguments by position."""
    t = resolve(function.type)
    if isinstance(t, TypeVar):
        t = cx.settled(t)
    if t is MISTAKE:
        values = [cx.infer(scope, a.value) for a in e.arguments]
        return core.Call(MISTAKE, e.span, function, tuple(values))
    for a in e.arguments:
        if a.name is not None or a.spread:
            raise error("E0307", "a function value takes its arguments by position", a.span,
                        help=("named arguments belong to a `fn`",))  # fmt: skip
    if isinstance(t, TypeFn):
        if len(t.params) != len(e.arguments):
            count = plural(len(t.params), "argument")
            raise error("E0303", f"this function takes {count}, found {len(e.arguments)}", e.span)
        args: dict[int, core.Expr] = {}
        for i in in_turn(e.arguments):
            written = e.arguments[i].value
            args[i] = cx.infer(scope, written, t.params[i])
            cx.settled(args[i].type)
            cx.expect(t.params[i], args[i].type, written.span, f"argument {i + 1}: ")
        if scope.function is not None:
            scope.function.effects |= effects_root(t.effects).names
        result_type, opened = opened_result(cx, t, e.span)
        given = tuple(args[i] for i in range(len(args)))
        return core.Call(cx.settled(result_type), e.span, function, given, opened)
    if isinstance(t, TypeVar) and not t.rigid and t.literal is None:
        values = [cx.infer(scope, a.value) for a in e.arguments]
        result = cx.st.type_var()
        cx.expect(TypeFn(tuple(v.type for v in values), result), t, e.span, "a call: ")
        return core.Call(result, e.span, function, tuple(values))
    raise error("E0306", f"this is no function: it has the type {show(t)}", e.function.span, help=no_function(t, e))


def no_function(t: Type, e: s.Call) -> tuple[str, ...]:
    """Suggests what the author may have meant by the call of a value that is no function."""
    function, inside = e.function.span.text, ", ".join(a.span.text for a in e.arguments)
    if isinstance(t, TypeArray) and e.arguments:
        return (f"an element is `{function}[{inside}]`",)
    items = t.items if isinstance(t, TypeTuple) else ()
    for k, item in enumerate(items):
        if isinstance(resolve(item), TypeFn):
            return (f"it is a tuple, whose item `.{k}` is a function: `{function}.{k}({inside})`",)
    if isinstance(e.function, s.Number | s.Binary):
        left = f"({function})" if isinstance(e.function, s.Binary) else function
        return (f"to multiply, write `{left} * {inside if inside.isidentifier() else f'({inside})'}`",)
    return ()


def opened_result(cx: Checker, t: TypeFn, span: Span) -> tuple[Type, tuple[SizeVar, ...]]:
    """The result of a call of a function type: each `?` in it is a fresh size."""
    opened = tuple(cx.st.open_size(v.origin or Note("a `?` in the result of this function", span)) for v in t.opened)
    mapping: dict[Var, Term] = {v: of_var(w) for v, w in zip(t.opened, opened, strict=True)}
    return substitute(t.result, mapping) if opened else t.result, opened
