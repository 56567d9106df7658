"""The types of `grad` and its relatives."""

from __future__ import annotations

from dataclasses import replace

from dlang.diagnostics import Span, error
from dlang.grammar import syntax as s
from dlang.spelling import plural
from dlang.typecheck import core
from dlang.typecheck.arguments import apply_parameters, call_value, in_order, opened_result, size_argument
from dlang.typecheck.constraints import has_floats, is_structure, split
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import Instantiated
from dlang.typecheck.scope import Scope
from dlang.typecheck.state import Mismatch, Reason
from dlang.typecheck.terms import STR, of_var, substitute_size
from dlang.typecheck.types import Shape, Size, Type, TypeArray, TypeData, TypeFn, TypeTuple, TypeVar, resolve
from dlang.typecheck.unify import unify


def form(cx: Checker, scope: Scope, kind: str, e: s.Call) -> core.Expr:
    """`grad(f, wrt = x)`; `vjp` and `jvp` also take the arguments."""
    if not e.arguments or e.arguments[0].name is not None:
        raise error("E0703", f"`{kind}` takes a function", e.span)
    written = e.arguments[0]
    function = cx.infer(scope, written.value)
    t = cx.settled(function.type)
    if isinstance(t, TypeVar):
        if cx.st.diagnostics:  # what made the function unknown has been reported
            return core.Fail(cx.st.type_var(), e.span, core.Literal(STR, e.span, "a mistake"))
        raise error(
            "E0704",
            f"`{kind}` has to know how many parameters the function has",
            written.span,
            help=("annotate the function: `f: f64 -> f64`",),
        )
    if not isinstance(t, TypeFn):
        help: tuple[str, ...] = ()
        if isinstance(written.value, s.Call) and isinstance(written.value.function, s.Name):
            called = written.value.function.span
            help = (f"apply it to the function: `{kind}({called.text}){written.span.text[len(called.text) :]}`",)
        elif not isinstance(t, TypeData):
            help = (f"give the function itself, by its name or as a lambda: `{kind}(|x| x ** 2)`",)
        raise error("E0306", f"`{kind}` takes a function, found {show(t)}", written.span, help=help)
    arguments = e.arguments[1:]
    if kind == "jvp" or kind == "vjp":
        return products(cx, scope, kind, function, t, arguments, e)
    wrt, single = chosen(kind, function, t, arguments)
    if kind == "checkpoint":
        return core.Derivative(t, e.span, kind, function, tuple(range(len(t.params))), False)
    needs_floats(cx, kind, function, t, wrt, written.span)
    if kind in ("grad", "value_and_grad", "hessian"):
        scalar_result(cx, kind, t.result, e.span)
    targets = tuple(t.params[i] for i in wrt)
    match kind:
        case "grad":
            result: Type = targets[0] if single else TypeTuple(targets)
        case "value_and_grad":
            result = TypeTuple((t.result, targets[0] if single else TypeTuple(targets)))
        case "jacobian":
            result = matrix(cx, e.span, kind, t.result, targets[0] if single else TypeTuple(targets))
        case _:
            inner = targets[0] if single else TypeTuple(targets)
            result = matrix(cx, e.span, kind, inner, inner)
    return core.Derivative(TypeFn(t.params, result, t.effects, t.opened), e.span, kind, function, wrt, single)


def chosen(
    kind: str, function: core.Expr, t: TypeFn, arguments: tuple[s.Argument, ...]
) -> tuple[tuple[int, ...], bool]:
    """The positions that `wrt` names; the first parameter if there is none."""
    if not t.params:
        raise error("E0702", f"`{kind}` of a function without parameters", function.span)
    names = parameter_names(function)
    if kind == "checkpoint" and arguments:
        raise error("E0703", "`checkpoint` takes a function only", arguments[0].span)
    if not arguments:
        return (0,), True
    if isinstance(base := underived(function), core.FnRef) and not is_known(base):
        help = ("each call would need a derivative of a higher order: write the orders that it takes apart",)
        raise error("E0711", f"a derivative of `{base.decl.name}` is taken inside of it", function.span, help=help)
    if len(arguments) > 1 or arguments[0].name != "wrt":
        raise error("E0703", f"`{kind}` takes a function and `wrt`", arguments[0].span,
                    help=instead_of_arguments(kind, arguments))  # fmt: skip
    value = arguments[0].value
    if isinstance(value, s.Tuple):
        positions = tuple(position(x, names, t, arguments[0].span) for x in value.items)
        if len(set(positions)) != len(positions) or not positions:
            raise error("E0703", "`wrt` names a parameter twice, or none", arguments[0].span)
        return positions, False
    return (position(value, names, t, arguments[0].span),), True


def instead_of_arguments(kind: str, arguments: tuple[s.Argument, ...]) -> tuple[str, ...]:
    if arguments[0].name is not None:
        return (f"the parameter is chosen by `wrt`: `{kind}(f, wrt = x)`, or `wrt = 0` for the first",)
    return (f"apply the result to the arguments: `{kind}(f)({', '.join(a.span.text for a in arguments)})`",)


def position(e: s.Expr, names: list[str] | None, t: TypeFn, span: Span) -> int:
    """The position of the parameter that `wrt` names, or is the number of. Raises E0703."""
    if isinstance(e, s.Number) and isinstance(e.value, int):
        if e.value < len(t.params):
            return e.value
        said = f"`wrt = {e.value}`: the function has {plural(len(t.params), 'parameter')}, counted from 0"
        raise error("E0703", said, span, help=(f"the last one is `wrt = {len(t.params) - 1}`",))
    if not isinstance(e, s.Name):
        name = e.span.text.strip('"')
        help = (f"write `wrt = {name}`",) if isinstance(e, s.String) and name.isidentifier() else ()
        raise error("E0703", "`wrt` takes names of parameters or positions", span, help=help)
    if names is None:
        raise error(
            "E0703",
            f"`wrt = {e.name}`: the names of the parameters of this function value are not known",
            span,
            help=("give the position: `wrt = 0`",),
        )
    if e.name not in names:
        listed = ", ".join(f"`{n}`" for n in names)
        raise error(
            "E0703",
            f"`wrt = {e.name}`: the function has no parameter `{e.name}`, only {listed}",
            span,
            help=did_you_mean(e.name, names),
            fixes=misspelt(e.span, e.name, list(names)),
        )
    return names.index(e.name)


def _in_floats(t: TypeFn) -> str:
    """Returns the help against a derivative with respect to a parameter without floats."""
    if any(has_floats(p) for p in t.params):
        return "choose another parameter with `wrt`"
    return "no parameter has a float: let the function take one, as `x: f64`"


def needs_floats(cx: Checker, kind: str, function: core.Expr, t: TypeFn, wrt: tuple[int, ...], span: Span) -> None:
    """A parameter in `wrt` has floats; known at the end of the group."""
    forbidden = nodiff(function)
    names = parameter_names(function)

    def called(i: int) -> str:
        return f"`{names[i]}`" if names is not None and names[i] != "_" else f"parameter {i + 1}"

    for i in wrt:
        if i in forbidden:
            raise error("E0702", f"{called(i)} is marked `nodiff`: there is no derivative in it", span)

    def check() -> None:
        for i in wrt:
            if not has_floats(t.params[i]):
                raise error(
                    "E0702",
                    f"`{kind}` in {called(i)}, which has no float: its type is {show(t.params[i])}",
                    span,
                    help=(_in_floats(t),),
                )

    if not isinstance(resolve(t.params[wrt[0]]), TypeVar):
        check()
    else:
        cx.later.append(check)


def scalar_result(cx: Checker, kind: str, result: Type, span: Span) -> None:
    """The result of a function with a gradient is one float."""
    cx.st.reason = Reason(span, kind, (result,))
    wanted = cx.st.type_var(atomic=True, classes=frozenset({"Float"}))
    try:
        unify(cx.st, result, wanted)
    except Mismatch:
        helps: tuple[str, ...] = ()
        if isinstance(resolve(result), TypeArray):
            helps = ("reduce the result, for instance with `sum`, or take the whole `jacobian`",)
        raise error(
            "E0701",
            f"`{kind}` needs a function whose result is a float scalar, found {show(result)}",
            span,
            label=f"this function gives {show(result)}",
            help=helps,
        ) from None


def matrix(cx: Checker, span: Span, kind: str, out: Type, into: Type) -> Type:
    """The type of a Jacobian: the axes of the result, then those of the parameter.

    Of tuples it is a tuple of matrices: outside that of the result, inside that of the parameter. Of a structure in
    floats it is the array of the gradients, of floats in a structure that of the tangents.
    """
    for x in (out, into):
        r = resolve(x)
        if isinstance(r, TypeTuple):
            parts = r.items
            return TypeTuple(
                tuple(matrix(cx, span, kind, p, into) if x is out else matrix(cx, span, kind, out, p) for p in parts)
            )
        if isinstance(r, TypeFn):
            raise error("E0790", f"`{kind}` has no type for functions, found {show(r)}", span)
        if isinstance(r, TypeVar) and any(c.kind == "field" and resolve(c.types[0]) is r for c in cx.st.around(r)):
            raise error(
                "E0704",
                f"`{kind}` has to know the type of a parameter that has fields",
                span,
                help=("annotate the parameter: its type decides that of the matrix",),
            )
    row = cx.st.row()
    if is_structure(out) and is_structure(into):
        raise error(
            "E0790",
            f"`{kind}` has no type for the derivative of {show(out)} in {show(into)}",
            span,
            help=("let the function take or give the floats apart, as parameters or in a tuple",),
        )
    if is_structure(out):
        (element, a), b = split(cx.st, out), in_floats(cx, span, kind, into)
        shapes = (b, a, row)
    elif is_structure(into):
        a, (element, b) = of_floats(cx, span, kind, out)[1], split(cx.st, into)
        shapes = (a, b, row)
    else:
        (element, a), b = of_floats(cx, span, kind, out), in_floats(cx, span, kind, into)
        shapes = (a, b, row)
    cx.constrain("append", Reason(span, kind, (out, into)), shapes=shapes)
    return resolve(TypeArray(element, row))


def of_floats(cx: Checker, span: Span, kind: str, result: Type) -> tuple[Type, Shape]:
    """The dtype and the shape of the result of a function whose matrix is wanted."""
    try:
        return split(cx.st, result, "Float")
    except Mismatch:
        shown = show(result)
        raise error("E0701", f"`{kind}` needs a function whose result has floats, found {shown}", span) from None


def in_floats(cx: Checker, span: Span, kind: str, into: Type) -> Shape:
    """The shape of a parameter, or of a part of one, in which a matrix is wanted."""
    try:
        return split(cx.st, into, "Float")[1]
    except Mismatch:
        t = resolve(into)
        help = "take what has none as a parameter of its own, or capture it in a lambda"
        if isinstance(t, TypeVar):
            help = f"bound it, `<{show(t)}: Float>`, or say of which floats it is an array"
        message = f"`{kind}` needs parameters all parts of which have floats, found {show(into)}"
        raise error("E0702", message, span, help=(help,)) from None


def products(
    cx: Checker, scope: Scope, kind: str, function: core.Expr, t: TypeFn, arguments: tuple[s.Argument, ...], e: s.Call
) -> core.Expr:
    """`vjp(f, x…)` and `jvp(f, x, dx)`."""
    n = len(t.params)
    function = at_given_sizes(cx, function)
    sizes = size_parameters(function) or (None,) * n
    lets: list[core.Statement] = []
    if kind == "vjp":
        arguments = named_arguments(function, arguments, e)
    for a in arguments:
        if a.name is not None or a.spread:
            help = ("the names of the parameters of this function value are not known",) if kind == "vjp" else ()
            raise error("E0703", f"`{kind}` takes its arguments by position", a.span, help=help)
    wrt = tuple(i for i in range(n) if i not in nodiff(function))
    single = len(wrt) == 1
    targets = tuple(t.params[i] for i in wrt)
    bare = targets[0] if single else TypeTuple(targets)
    args: list[core.Expr]
    if kind == "vjp":
        if len(arguments) != n:
            count = plural(n, "argument")
            raise error("E0303", f"`vjp` of this function takes {count} after it, found {len(arguments)}", e.span)
        args = [argument(cx, scope, a.value, p, f"argument {i + 1} of `vjp`: ", size, lets)
                for i, (a, p, size) in enumerate(zip(arguments, t.params, sizes, strict=True))]  # fmt: skip
        result: Type = TypeTuple((t.result, TypeFn((t.result,), bare)))
        whole = TypeFn(t.params, result, t.effects, t.opened)
    else:
        if len(arguments) != 2:
            found = f"found {plural(len(arguments) + 1, 'argument')}"
            message = f"`jvp` takes a function, its arguments and their tangents, {found}"
            help = ("write `jvp(f, x, dx)`" if n == 1 else "write `jvp(f, (x, y), (dx, dy))`",)
            raise error("E0303", message, e.span, help=help)
        args = []
        for k, a in enumerate(arguments):
            written: tuple[s.Expr, ...] = (a.value,)
            if n != 1:
                if not isinstance(a.value, s.Tuple) or len(a.value.items) != n:
                    raise error("E0703", f"`jvp` of a function of {n} parameters takes them as a tuple", a.span,
                                help=("write `jvp(f, (x, y), (dx, dy))`",))  # fmt: skip
                written = a.value.items
            what = "a tangent of `jvp`: " if k else "an argument of `jvp`: "
            for w, p, size in zip(written, t.params, sizes, strict=True):
                args.append(argument(cx, scope, w, p, what, None if k else size, lets))
        result = TypeTuple((t.result, t.result))
        whole = TypeFn(t.params + t.params, result, t.effects, t.opened)
    node = core.Derivative(whole, e.span, kind, function, wrt, single)
    result, opened = opened_result(cx, whole, e.span)
    call = core.Call(result, e.span, node, tuple(args), opened)
    return core.BlockExpr(call.type, e.span, tuple(lets), call) if lets else call


def argument(
    cx: Checker, scope: Scope, e: s.Expr, want: Type, what: str, size: Size | None, lets: list[core.Statement]
) -> core.Expr:
    """An argument of `vjp` or `jvp`; one for a `size` parameter counts as `size`, for which it may need a `let`."""
    value = cx.infer(scope, e, want)
    if size is not None:
        value, let = size_argument(cx, value, size, e.span, what)
        lets += [let] if let is not None else []
        return value
    cx.settled(value.type)
    cx.expect(want, value.type, e.span, what)
    return value


def at_given_sizes(cx: Checker, function: core.Expr) -> core.Expr:
    """A function that is called where it stands, perhaps a derivative, with `size` parameters that its call decides.

    As a value it would be a lambda that opens a size for each of them, which nothing knows before it is called. Nobody
    else has seen these, so they become variables like those of any function that is called.
    """
    match function:
        case core.Derivative(function=inner) if (called := at_given_sizes(cx, inner)) is not inner:
            t = resolve(function.type)
            assert isinstance(t, TypeFn)
            opened = tuple([v for v in t.opened if v.opened])
            return replace(function, type=replace(t, opened=opened), function=called)
        case core.Lambda(params=params) if (call := sized(function)) is not None:
            for v in [p.size for p in params if p.size is not None]:
                v.rigid = v.opened = False
                cx.st.opened.remove(v)
                cx.st.made(v)
            return call.function
        case _:
            return function


def size_parameters(function: core.Expr) -> tuple[Size | None, ...]:
    """The sizes of the `size` parameters of a `fn` that is called where it stands, in terms of its instance."""
    base = underived(function)
    if not isinstance(base, core.FnRef):
        return ()
    mapping = dict(base.instance)
    sizes = [p.local.size for p in base.decl.params]
    return tuple([substitute_size(of_var(v), mapping) if v is not None and v in mapping else None for v in sizes])


def call_derivative(cx: Checker, scope: Scope, derivative: core.Derivative, e: s.Call) -> core.Expr:
    """`grad(f)(x)`: names and defaults are those of the `fn`, names also those of the lambda."""
    function = at_given_sizes(cx, derivative)
    assert isinstance(function, core.Derivative)
    base = underived(function)
    t = resolve(function.type)
    if isinstance(base, core.Lambda):
        return call_value(cx, scope, function, by_position(base, function.kind, e))
    if not isinstance(base, core.FnRef) or not isinstance(t, TypeFn):
        return call_value(cx, scope, function, e)
    decl = base.decl
    names = tuple(p.local.name if p.local.name != "_" else None for p in decl.params)
    if not is_known(base):
        return call_value(cx, scope, function, e)
    defaults = tuple(p.has_default for p in decl.params)
    arguments = in_order(e, f"{function.kind}({decl.name})", names, defaults, decl.span)
    inst = Instantiated(t.params, t.result, size_parameters(function), (), base.instance)
    args, lets = apply_parameters(cx, scope, arguments, inst, decl.name, names, decl)
    result, opened = opened_result(cx, t, e.span)
    call = core.Call(cx.settled(result), e.span, function, tuple(args), opened)
    return core.BlockExpr(call.type, e.span, tuple(lets), call) if lets else call


def underived(function: core.Expr) -> core.Expr:
    """The function that a derivative, perhaps of another derivative, is of."""
    while isinstance(function, core.Derivative):
        function = function.function
    return function


def parameter_names(function: core.Expr) -> list[str] | None:
    """The names of the parameters of a `fn` or a lambda; None for another function value."""
    match function:
        case core.FnRef(decl=decl):
            return [p.local.name for p in decl.params] if is_known(function) else None
        case core.Lambda() if (call := sized(function)) is not None:
            return parameter_names(call.function)
        case core.Lambda(params=params):
            return [p.name for p in params]
        case core.Derivative(function=inner):
            return parameter_names(inner)
        case core.BlockExpr(statements=(), result=inner):
            return parameter_names(inner)
        case _:
            return None


def is_known(function: core.FnRef) -> bool:
    """Tells whether the parameters of a `fn` are known: those of one that calls this function are not yet."""
    t = resolve(function.type)
    return isinstance(t, TypeFn) and len(function.decl.params) == len(t.params)


def nodiff(function: core.Expr) -> set[int]:
    match function:
        case core.FnRef(decl=decl):
            return {i for i, p in enumerate(decl.params) if p.nodiff}
        case core.Lambda() if (call := sized(function)) is not None:
            return nodiff(call.function)
        case core.Derivative(function=inner):
            return nodiff(inner)
        case _:
            return set()


def sized(function: core.Expr) -> core.Call | None:
    """The call in what a function with `size` parameters is as a value."""
    match function:
        case core.Lambda(span=span, body=core.Call(function=core.FnRef()) as call) if call.span == span:
            return call
        case _:
            return None


def named_arguments(function: core.Expr, arguments: tuple[s.Argument, ...], e: s.Call) -> tuple[s.Argument, ...]:
    """The arguments of `vjp` in the order of the parameters, if their names are known."""
    names = parameter_names(function)
    if names is None or all(a.name is None and not a.spread for a in arguments):
        return arguments
    ref = underived(function)
    name, span = (f"vjp({ref.decl.name})", ref.decl.span) if isinstance(ref, core.FnRef) else ("vjp(…)", None)
    known = tuple(n if n != "_" else None for n in names)
    ordered = in_order(replace(e, arguments=arguments), name, known, (False,) * len(known), span)
    return tuple(replace(a, name=None) for a in ordered if a is not None)


def by_position(base: core.Lambda, kind: str, e: s.Call) -> s.Call:
    """A call of a derivative by the names of a lambda as one without names."""
    if all(a.name is None for a in e.arguments):
        return e
    known = tuple(p.name if p.name != "_" else None for p in base.params)
    ordered = in_order(e, f"{kind}(…)", known, (False,) * len(known), None)
    return replace(e, arguments=tuple(replace(a, name=None) for a in ordered if a is not None))
