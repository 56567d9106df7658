"""Calls and names of functions: arguments in order, instances, constructors."""

from __future__ import annotations

from dlang.diagnostics import Note, Span, error
from dlang.grammar import syntax as s
from dlang.typecheck import builtins, core, derivatives, elsewhere, types as ty
from dlang.typecheck.arguments import apply_parameters, call_value, in_order, in_turn
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.patterns import data_type
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import Instantiated, instantiate
from dlang.typecheck.scope import BuiltinEntry, FnEntry, ModuleEntry, Scope
from dlang.typecheck.state import Scheme
from dlang.typecheck.terms import of_var, opened_in, substitute


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
    function = cx.infer(scope, f)
    if isinstance(function, core.Derivative):
        return derivatives.call_derivative(cx, scope, function, e)
    return call_value(cx, scope, function, e)


def module_member(cx: Checker, entry: ModuleEntry, name: str, span: Span) -> object:
    """The entry of `module.name`. Raises E0205 if it is private, E0206 if there is none."""
    table = entry.table
    if table.broken and not table.path:  # an import that failed has been reported
        return FnEntry(core.FnDecl(name, table.name, span, kind="const"), Scheme((), ty.MISTAKE, (), ()))
    if name.startswith("_"):
        raise error("E0205", f"`{name}` is private to the module `{table.name}`", field_named(span, name))
    entry_of_name = table.entries.get(name)
    if name in table.functions:
        entry_of_name = cx.program.value(table, name)
    if entry_of_name is None or isinstance(entry_of_name, ModuleEntry):
        raise error(
            "E0206",
            f"the module `{table.name}` has no `{name}`",
            field_named(span, name),
            help=did_you_mean(name, [n for n in table.functions if not n.startswith("_")]),
            fixes=misspelt(field_named(span, name), name, [n for n in table.functions if not n.startswith("_")]),
        )
    return entry_of_name


# ---- arguments -------------------------------------------------------------------------------------------------------


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
        recursion_help = (
            f"a function calls itself at other sizes if it is annotated: all parameters of `{name}`, and its result"
        )
        advice = (recursion_help,) if entry.pending else ()
        args, lets = apply_parameters(cx, scope, arguments, inst, name, entry.names, decl, advice)
    cx.settled(inst.result)
    if entry.builtin:
        call: core.Expr = builtins.external(cx, scope, entry, inst, args, e)
        return core.BlockExpr(call.type, e.span, tuple(lets), call) if lets else call
    ref = core.FnRef(ty.TypeFn(inst.params, inst.result), e.function.span, decl, inst.instance)
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


# ---- functions as values ---------------------------------------------------------------------------------------------
def function_value(cx: Checker, scope: Scope, entry: FnEntry, e: s.Expr) -> core.Expr:
    decl = entry.decl
    span = e.span
    inst = use(cx, scope, entry, decl.name, span)
    t = ty.TypeFn(inst.params, inst.result, ty.Effects(set(decl.effects)), inst.opened)
    ref = core.FnRef(t, span, decl, inst.instance)
    if decl.kind == "const":
        return core.Call(inst.result, span, core.FnRef(ty.TypeFn((), inst.result), span, decl, inst.instance), ())
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
    fresh: list[ty.SizeVar] = []
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
        ty.TypeFn(inst.params, inst.result, ty.Effects(set(ref.decl.effects)), opened), span, tuple(params), call
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
    return core.Lambda(ty.TypeFn(types, t), e.span, params, body)


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
    values: dict[int, core.Expr] = {}
    for i in in_turn(arguments):
        a = arguments[i]
        assert a is not None
        values[i] = cx.infer(scope, a.value, types[i])
        cx.settled(values[i].type)
        label = f"field `{names[i]}` of `{f.name}`: " if names[i] else f"argument {i + 1} of `{f.name}`: "
        cx.expect(types[i], values[i].type, a.value.span, label, (Note(f"`{decl.name}` is declared here", decl.span),))
    return core.Construct(t, e.span, decl, variant, tuple(values[i] for i in range(len(values))))


def updated(
    cx: Checker, scope: Scope, *, decl_name: str, t: ty.TypeData, names: tuple[str | None, ...],
    types: tuple[ty.Type, ...], spread: list[s.Argument], e: s.Call,
) -> core.Expr:  # fmt: skip
    """`Name(..old, field = e)`: the fields that aren't given are those of `old`, at the same type arguments where
    they mention them."""
    if len(spread) > 1 or not t.decl.is_struct:
        raise error(
            "E0307", "`..` takes the fields of one struct", spread[-1].span, help=("give the other fields by name",)
        )
    old = cx.infer(scope, spread[0].value)
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
        value = cx.infer(scope, a.value, types[i])
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
        field_type = substitute(f, old_mapping)
        cx.expect(types[i], field_type, e.span, f"field `{n}` of `..`: ")
        fields.append(core.Project(field_type, spread[0].span, ref, i, n or str(i)))
    updated = core.Construct(t, e.span, t.decl, variant, tuple(fields))
    let = core.Let(core.Bind(local), old, (), spread[0].span)
    return core.BlockExpr(t, e.span, (let,), updated)


# ---- fields ----------------------------------------------------------------------------------------------------------
# Fields of structs and items of tuples.


def field_of(t: ty.Type, name: str | int, span: Span) -> tuple[int, ty.Type]:
    """Position and type of a field of a struct or an item of a tuple."""
    t = ty.resolve(t)
    if isinstance(t, ty.TypeTuple) and isinstance(name, int) and name < len(t.items):
        return name, t.items[name]
    if isinstance(t, ty.TypeData) and t.decl.is_struct and isinstance(name, str):
        fields = t.decl.variants[0].fields
        for i, (n, f) in enumerate(fields):
            if n == name:
                return i, substitute(f, dict(zip(t.decl.params, t.args, strict=True)))
        listed = ", ".join(f"`{n}`" for n, _ in fields if n)
        listed = f"its field is {listed}" if len(fields) == 1 else f"its fields are {listed}"
        raise error(
            "E0305",
            f"`{show(t)}` has no field `{name}`",
            field_named(span, name),
            notes=(Note(listed, t.decl.span),),
            help=did_you_mean(name, [n for n, _ in fields if n]) or no_method(name, span),
            fixes=misspelt(field_named(span, name), name, [n for n, _ in fields if n]),
        )
    raise error(
        "E0305", f"`{show(t)}` has no field `{name}`", field_named(span, name), help=instead_of_field(t, name, span)
    )


def field_named(span: Span, name: str | int) -> Span:
    """The span of the name in `base.name`."""
    return span.tail(len(str(name))) if span.text.endswith(f".{name}") else span


def no_method(name: str, span: Span) -> tuple[str, ...]:
    if not is_called(span):
        return ()
    base = span.text.removesuffix(f".{name}")
    return (f"there are no methods: a function `{name}` is called by `{name}({base})`",)


def is_called(span: Span) -> bool:
    return span.source.text[span.end : span.end + 1] == "("


def instead_of_field(t: ty.Type, name: str | int, span: Span) -> tuple[str, ...]:
    """Help for a field that a type does not have."""
    base = span.text.removesuffix(f".{name}")
    base = base if base.isidentifier() else "x"
    if isinstance(t, ty.TypeTuple):
        last = f"the last of its {len(t.items)} items is `.{len(t.items) - 1}`"
        return (f"the items of a tuple are counted from 0: {last}",) if isinstance(name, int) else ()
    if isinstance(t, ty.TypeData):
        arms = ", ".join(f"{v.name}{'(…)' if v.fields else ''} => …" for v in t.decl.variants[:3])
        return (f"an enum is taken apart by `match {base} {{ {arms} }}`",)
    if isinstance(name, int):
        return (f"an element of an array is `{base}[{name}]`",) if isinstance(t, ty.TypeArray) else ()
    if (instead := elsewhere.of_method(name, base)) is not None:
        return (f"there are no methods: write `{instead}`",)
    if builtins.is_builtin(name):
        return (f"there are no methods: write `{name}({base})`",)
    if isinstance(t, ty.TypeArray) and isinstance(ty.resolve(t.element), ty.TypeData):
        return ("it is an array: take the field of one element, or of each in a comprehension",)
    return ()
