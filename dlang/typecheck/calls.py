"""Calls and names of functions: arguments in order, instances, constructors."""

from __future__ import annotations

from dlang.diagnostics import DlangError, Note, Span, error
from dlang.grammar import syntax as s
from dlang.spelling import plural
from dlang.typecheck import builtins, comprehensions, core, derivatives, elsewhere, expressions as expr, fields
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.patterns import data_type
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import Instantiated, instantiate
from dlang.typecheck.scope import BuiltinEntry, FnEntry, ModuleEntry, Scope
from dlang.typecheck.state import Scheme, Term
from dlang.typecheck.terms import I64, of_var, opened_in, substitute, substitute_size
from dlang.typecheck.types import (
    MISTAKE,
    Effects,
    Size,
    SizeVar,
    Type,
    TypeArray,
    TypeData,
    TypeFn,
    TypeVar,
    Var,
    resolve,
)
from dlang.typecheck.unify import effects_root


def infer_call(cx: Checker, scope: Scope, e: s.Call) -> core.Expr:
    """A call, by what is called: a constructor, a function, a builtin, a member of a module, or a value."""
    f = e.function
    if isinstance(f, s.Name):
        if f.name[:1].isupper():
            return construct(cx, scope, f, e)
        match cx.find(scope, f.name):  # a size of the name is no function, so it hides none
            case FnEntry() as called:
                return call_function(cx, scope, called, f.name, e)
            case BuiltinEntry(name):
                return builtins.infer_builtin(cx, scope, name, e)
            case _:
                pass
    elif isinstance(f, s.Field) and isinstance(f.base, s.Name) and isinstance(f.name, str):
        if not f.base.name[:1].isupper():
            entry = cx.find(scope, f.base.name)
            if isinstance(entry, ModuleEntry):
                if f.name[:1].isupper():
                    return construct(cx, scope, s.Name(f.span, f"{f.base.name}.{f.name}"), e)
                member = module_member(cx, entry, f.name, f.span)
                if isinstance(member, FnEntry):
                    return call_function(cx, scope, member, f"{f.base.name}.{f.name}", e)
    function = expr.infer(cx, scope, f)
    if isinstance(function, core.Derivative):
        return derivatives.call_derivative(cx, scope, function, e)
    return call_value(cx, scope, function, e)


def module_member(cx: Checker, entry: ModuleEntry, name: str, span: Span) -> object:
    """The entry of `module.name`. Raises E0205 if it is private, E0206 if there is none."""
    table = entry.table
    if table.broken and not table.path:  # an import that failed has been reported
        return FnEntry(core.FnDecl(name, table.name, span, kind="const"), Scheme((), MISTAKE, (), ()))
    if name.startswith("_"):
        raise error("E0205", f"`{name}` is private to the module `{table.name}`", fields.named(span, name))
    found = table.entries.get(name)
    if name in table.functions:
        found = cx.program.value(table, name)
    if found is None or isinstance(found, ModuleEntry):
        raise error(
            "E0206",
            f"the module `{table.name}` has no `{name}`",
            fields.named(span, name),
            help=did_you_mean(name, [n for n in table.functions if not n.startswith("_")]),
            fixes=misspelt(fields.named(span, name), name, [n for n in table.functions if not n.startswith("_")]),
        )
    return found


# ---- arguments -------------------------------------------------------------------------------------------------------
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
    out: list[core.Expr | None] = []
    lets: list[core.Statement] = []
    for i, a in enumerate(arguments):
        size = inst.sizes[i] if i < len(inst.sizes) else None
        if a is None:
            if size is not None and decl is not None:
                default_size(cx, inst, size, decl, i)
            out.append(None)
            continue
        if decl is None and isinstance(a.value, s.Comprehension):
            value = comprehensions.reduced(cx, scope, name, a.value)
        else:
            value = expr.infer(cx, scope, a.value)
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
        out.append(value)
    return out, lets


def default_size(cx: Checker, inst: Instantiated, size: Size, decl: core.FnDecl, i: int) -> None:
    """An argument left out for a `size`: the size is what the default counts as, in terms of the other arguments."""
    default = decl.params[i].default if i < len(decl.params) else None
    counts = cx.symbol(default) if default is not None else None
    if default is not None and counts is not None:
        cx.expect_size(size, substitute_size(counts, dict(inst.instance)), default.span, "the default: ")


def call_function(cx: Checker, scope: Scope, entry: FnEntry, name: str, e: s.Call) -> core.Expr:
    """A call of a function that is known by its name."""
    decl = entry.decl
    if decl.kind == "const":
        return call_value(cx, scope, function_value(cx, scope, entry, e.function), e)
    arguments = in_order(e, name, entry.names, entry.defaults, decl.span if not entry.builtin else None)
    inst = use(cx, scope, entry, name, e.function.span)
    if entry.builtin == "random_run":
        args, lets = seeded_parameters(cx, scope, arguments, inst, name, entry)
    else:
        own = f"a function calls itself at other sizes if it is annotated: all parameters of `{name}`, and its result"
        advice = (own,) if entry.pending else ()
        args, lets = apply_parameters(cx, scope, arguments, inst, name, entry.names, decl, advice)
    cx.settled(inst.result)
    if entry.builtin:
        call: core.Expr = builtins.external(cx, scope, entry, inst, args, e)
        return core.BlockExpr(call.type, e.span, tuple(lets), call) if lets else call
    ref = core.FnRef(TypeFn(inst.params, inst.result), e.function.span, decl, inst.instance)
    call = core.Call(inst.result, e.span, ref, tuple(args), inst.opened)
    return core.BlockExpr(call.type, e.span, tuple(lets), call) if lets else call


def seeded_parameters(
    cx: Checker, scope: Scope, arguments: list[s.Argument | None], inst: Instantiated, name: str, entry: FnEntry
) -> tuple[list[core.Expr | None], list[core.Statement]]:
    """The arguments of `random.run`: what its function draws is no effect outside, what its seed draws is."""
    (seed, _), before = apply_parameters(cx, scope, [arguments[0], None], inst, name, entry.names, entry.decl)
    drawn = scope.function is None or "random" in scope.function.effects
    (_, function), after = apply_parameters(cx, scope, [None, arguments[1]], inst, name, entry.names, entry.decl)
    if scope.function is not None and not drawn:
        scope.function.effects.discard("random")
    return [seed, function], [*before, *after]


def use(cx: Checker, scope: Scope, entry: FnEntry, name: str, span: Span) -> Instantiated:
    """An instance of a function; its effects are those of the function that is checked."""
    if entry.pending:
        cx.unfinished = True
    if scope.function is not None:
        scope.function.calls.add(entry.decl)
        scope.function.effects |= entry.decl.effects
    return instantiate(cx.st, entry.scheme, name, span)


def call_value(cx: Checker, scope: Scope, function: core.Expr, e: s.Call) -> core.Expr:
    """A call of a function value: arguments by position."""
    t = resolve(function.type)
    if isinstance(t, TypeVar):
        t = cx.settled(t)
    if t is MISTAKE:
        values = [expr.infer(cx, scope, a.value) for a in e.arguments]
        return core.Call(MISTAKE, e.span, function, tuple(values))
    for a in e.arguments:
        if a.name is not None or a.spread:
            raise error("E0307", "a function value takes its arguments by position", a.span,
                        help=("named arguments belong to a `fn`",))  # fmt: skip
    if isinstance(t, TypeFn):
        if len(t.params) != len(e.arguments):
            count = plural(len(t.params), "argument")
            raise error("E0303", f"this function takes {count}, found {len(e.arguments)}", e.span)
        args: list[core.Expr] = []
        for i, (p, a) in enumerate(zip(t.params, e.arguments, strict=True)):
            value = expr.infer(cx, scope, a.value)
            cx.settled(value.type)
            cx.expect(p, value.type, a.value.span, f"argument {i + 1}: ")
            args.append(value)
        if scope.function is not None:
            scope.function.effects |= effects_root(t.effects).names
        result_type, opened = opened_result(cx, t, e.span)
        return core.Call(cx.settled(result_type), e.span, function, tuple(args), opened)
    if isinstance(t, TypeVar) and not t.rigid and t.literal is None:
        values = [expr.infer(cx, scope, a.value) for a in e.arguments]
        result = cx.st.type_var()
        cx.expect(TypeFn(tuple(v.type for v in values), result), t, e.span, "a call: ")
        return core.Call(result, e.span, function, tuple(values))
    raise error("E0306", f"this is no function: it has the type {show(t)}", e.function.span, help=no_function(t, e))


def no_function(t: Type, e: s.Call) -> tuple[str, ...]:
    """Suggests what the author may have meant by the call of a value that is no function."""
    function, inside = e.function.span.text, ", ".join(a.span.text for a in e.arguments)
    if isinstance(t, TypeArray) and e.arguments:
        return (f"an element is `{function}[{inside}]`",)
    if isinstance(e.function, s.Number | s.Binary):
        left = f"({function})" if isinstance(e.function, s.Binary) else function
        return (f"to multiply, write `{left} * {inside if inside.isidentifier() else f'({inside})'}`",)
    return ()


def opened_result(cx: Checker, t: TypeFn, span: Span) -> tuple[Type, tuple[SizeVar, ...]]:
    """The result of a call of a function type: each `?` in it is a fresh size."""
    opened = tuple(cx.st.open_size(v.origin or Note("a `?` in the result of this function", span)) for v in t.opened)
    here: dict[Var, Term] = {v: of_var(w) for v, w in zip(t.opened, opened, strict=True)}
    return substitute(t.result, here) if opened else t.result, opened


# ---- functions as values ---------------------------------------------------------------------------------------------
def function_value(cx: Checker, scope: Scope, entry: FnEntry, e: s.Expr) -> core.Expr:
    decl = entry.decl
    span = e.span
    inst = use(cx, scope, entry, decl.name, span)
    t = TypeFn(inst.params, inst.result, Effects(set(decl.effects)), inst.opened)
    ref = core.FnRef(t, span, decl, inst.instance)
    if decl.kind == "const":
        return core.Call(inst.result, span, core.FnRef(TypeFn((), inst.result), span, decl, inst.instance), ())
    if entry.builtin:
        params = tuple(core.Local(f"x{i}", p, False, None, span) for i, p in enumerate(inst.params))
        args: list[core.Expr | None] = [core.Ref(p.type, span, p) for p in params]
        call = builtins.external(cx, scope, entry, inst, args, s.Call(span, e, ()))
        return core.Lambda(t, span, params, call)
    if any(size is not None for size in inst.sizes):
        return sized_value(cx, inst, ref)
    return ref


def sized_value(cx: Checker, inst: Instantiated, ref: core.FnRef) -> core.Expr:
    """A function with `size` parameters as a value: a lambda whose parameters give the sizes."""
    span = ref.span
    params: list[core.Local] = []
    fresh: list[SizeVar] = []
    for i, (p, size) in enumerate(zip(inst.params, inst.sizes, strict=True)):
        local = core.Local(f"x{i}", p, False, None, span)
        if size is not None:
            v = cx.st.open_size(Note(f"an argument of `{ref.decl.name}`, which is used as a value", span))
            local.size = v
            fresh.append(v)
            cx.expect_size(size, of_var(v), span)
            cx.symbols[local] = of_var(v)
        params.append(local)
    call = core.Call(inst.result, span, ref, tuple(core.Ref(p.type, span, p) for p in params), inst.opened)
    opened = (*inst.opened, *[v for v in opened_in(inst.result) if v in fresh])
    return core.Lambda(
        TypeFn(inst.params, inst.result, Effects(set(ref.decl.effects)), opened), span, tuple(params), call
    )


def builtin_value(cx: Checker, scope: Scope, entry: BuiltinEntry, e: s.Name) -> core.Expr:
    """A builtin used as a value: a lambda around its call."""
    return builtins.as_value(cx, scope, entry.name, e.span)


# ---- constructors ----------------------------------------------------------------------------------------------------
def constructor_value(cx: Checker, e: s.Name) -> core.Expr:
    decl, variant = cx.find_constructor(e.name, e.span)
    t, mapping = data_type(cx, decl)
    if not variant.fields:
        return core.Construct(t, e.span, decl, variant, ())
    types = tuple(substitute(f, mapping) for _, f in variant.fields)
    params = tuple(
        core.Local(n or f"x{i}", f, False, None, e.span)
        for i, ((n, _), f) in enumerate(zip(variant.fields, types, strict=True))
    )
    body = core.Construct(t, e.span, decl, variant, tuple(core.Ref(p.type, e.span, p) for p in params))
    return core.Lambda(TypeFn(types, t), e.span, params, body)


def construct(cx: Checker, scope: Scope, f: s.Name, e: s.Call) -> core.Expr:
    """`Name(a, b)`, `Name(field = a)`, `Name(..old, field = a)`."""
    decl, variant = cx.find_constructor(f.name, f.span)
    t, mapping = data_type(cx, decl)
    names = tuple(n for n, _ in variant.fields)
    types = tuple(substitute(x, mapping) for _, x in variant.fields)
    spreads = [a for a in e.arguments if a.spread]
    if spreads:
        return updated(cx, scope, decl_name=f.name, t=t, names=names, types=types, spread=spreads, e=e)
    arguments = in_order(e, f.name, names, tuple(False for _ in names), decl.span)
    values: list[core.Expr] = []
    for i, a in enumerate(arguments):
        assert a is not None
        value = expr.infer(cx, scope, a.value)
        cx.settled(value.type)
        label = f"field `{names[i]}` of `{f.name}`: " if names[i] else f"argument {i + 1} of `{f.name}`: "
        cx.expect(types[i], value.type, a.value.span, label, (Note(f"`{decl.name}` is declared here", decl.span),))
        values.append(value)
    return core.Construct(t, e.span, decl, variant, tuple(values))


def updated(
    cx: Checker, scope: Scope, *, decl_name: str, t: TypeData, names: tuple[str | None, ...],
    types: tuple[Type, ...], spread: list[s.Argument], e: s.Call,
) -> core.Expr:  # fmt: skip
    """`Name(..old, field = e)`: the fields that aren't given are those of `old`, at the same type arguments where
    they mention them."""
    if len(spread) > 1 or not t.decl.is_struct:
        raise error(
            "E0307", "`..` takes the fields of one struct", spread[-1].span, help=("give the other fields by name",)
        )
    old = expr.infer(cx, scope, spread[0].value)
    cx.settled(old.type)
    old_type, old_mapping = data_type(cx, t.decl)
    cx.expect(old_type, old.type, spread[0].value.span, f"`..` of `{decl_name}`: ")
    given: dict[str, core.Expr] = {}
    for a in e.arguments:
        if a.spread:
            continue
        if a.name is None:
            raise error(
                "E0307", "beside `..` fields are given by name", a.span, help=(f"write `field = {a.value.span.text}`",)
            )
        if a.name not in names:
            known = [n for n in names if n]
            message = f"`{decl_name}` has no field `{a.name}`"
            word = a.span.head(len(a.name))
            help, fixes = did_you_mean(a.name, known), misspelt(word, a.name, known)
            raise error("E0305", message, word, help=help, fixes=fixes)
        i = names.index(a.name)
        value = expr.infer(cx, scope, a.value)
        cx.settled(value.type)
        cx.expect(types[i], value.type, a.value.span, f"field `{a.name}` of `{decl_name}`: ")
        given[a.name] = value
    local = core.Local("old", old_type)  # without a span: nobody wrote it
    ref = core.Ref(old_type, spread[0].span, local)
    variant = t.decl.variants[0]
    fields: list[core.Expr] = []
    for i, (n, f) in enumerate(variant.fields):
        if n is not None and n in given:
            fields.append(given[n])
            continue
        here = substitute(f, old_mapping)
        cx.expect(types[i], here, e.span, f"field `{n}` of `..`: ")
        fields.append(core.Project(here, spread[0].span, ref, i, n or str(i)))
    made = core.Construct(t, e.span, t.decl, variant, tuple(fields))
    let = core.Let(core.Bind(local), old, (), spread[0].span)
    return core.BlockExpr(t, e.span, (let,), made)
