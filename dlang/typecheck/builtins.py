"""The functions that the compiler knows: their signatures, and the forms whose types no signature can say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlang.diagnostics import Note, Source, Span, error
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse_signature
from dlang.ops.functions import (
    DERIVES,
    EFFECTS,
    FUNCTIONS,
    JOINED,
    KEPT,
    MANY,
    PARAMETERS,
    POSITIONS,
    REDUCED,
    SCHEMES,
    TYPES,
)
from dlang.ops.monoids import CHOOSING, COMBINE
from dlang.ops.primitives import WORDS
from dlang.typecheck import core, derivatives, indexing, signatures, types as ty
from dlang.typecheck.arguments import apply_parameters, in_order
from dlang.typecheck.constraints import scalar_of, split
from dlang.typecheck.context import Checker
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import Instantiated, instantiate
from dlang.typecheck.scope import FnEntry, Scope
from dlang.typecheck.state import Reason, Scheme
from dlang.typecheck.terms import BOOL, F64, STR, array, number, variables
from dlang.typecheck.unify import add, product


@dataclass(frozen=True, slots=True)
class BuiltinCall:
    """A call of a builtin: its name, its arguments and its span."""

    name: str
    args: tuple[core.Expr, ...]
    span: Span


Rule = Callable[[Checker, BuiltinCall], core.Expr]


def infer_builtin(cx: Checker, scope: Scope, name: str, e: s.Call) -> core.Expr:
    """A call of a builtin."""
    if name in DERIVES:
        return derivatives.form(cx, scope, name, e)
    if name in REDUCED and (len(e.arguments) > 1 or any(a.name in ("axis", "keepdims") for a in e.arguments)):
        return reduce_axis(cx, scope, name, e)
    if any(a.name == "axis" for a in e.arguments):
        if name in KEPT:
            return rearrange_axis(cx, scope, name, e)
        if name in JOINED:
            return join_axis(cx, scope, name, e)
    if name in MANY and len(e.arguments) > 2 and not any(a.name or a.spread for a in e.arguments):
        return join_many(cx, scope, name, e)
    if name in SCHEMES:
        return by_signature(cx, scope, name, e)
    rule, parameters = RULES.get(name, cast), PARAMETERS.get(name, ("x",))
    arguments: list[s.Argument]
    if parameters is None:
        arguments = list(e.arguments)
        for a in arguments:
            if a.name is not None or a.spread:
                dtype = a.value.span.text
                help = (f"the dtype is that of its use: `let y: {dtype}[n] = …`",) if a.name == "dtype" else ()
                raise error("E0307", f"`{name}` takes its arguments by position", a.span, help=help)
    else:
        optional = tuple(p.endswith("?") for p in parameters)
        names = tuple(p.rstrip("?") for p in parameters)
        arguments = [a for a in in_order(e, name, names, optional, None) if a is not None]
    values = tuple(cx.infer(scope, a.value) for a in arguments)
    for v in values:
        cx.settled(v.type)
    return rule(cx, BuiltinCall(name, values, e.span))


def builtin_scheme(cx: Checker, name: str) -> Scheme:
    """The scheme of a builtin with a signature; parsed when it is first used."""
    return cx.program.builtin(name, lambda: make_entry(cx, name)).scheme


def builtin_entry(cx: Checker, name: str) -> FnEntry:
    return cx.program.builtin(name, lambda: make_entry(cx, name))


def make_entry(cx: Checker, name: str) -> FnEntry:
    module, problems = parse_signature(Source(f"<{name}>", f"fn {name}{SCHEMES[name]}\n"), f"builtin:{name}")
    assert not problems, problems
    (f,) = module.items
    assert isinstance(f, s.Extern)
    saved, cx.st.level = cx.st.level, 0
    try:
        sig = signatures.signature(cx, Scope(), name, f.bounds, f.parameters, f.result)
    finally:
        cx.st.level = saved
    for v in sig.scheme.variables:
        if name in FUNCTIONS and FUNCTIONS[name].numbers and isinstance(v, ty.TypeVar):
            v.atomic = True
    for v in sig.scheme.variables:
        v.origin = None
    names = signatures.parameter_names(f.parameters)
    decl = core.FnDecl(name, "prelude", f.span, result=sig.result, kind="extern")
    return FnEntry(decl, sig.scheme, names, tuple(False for _ in names), builtin=name)


def by_signature(cx: Checker, scope: Scope, name: str, e: s.Call) -> core.Expr:
    entry = builtin_entry(cx, name)
    arguments = in_order(e, name, entry.names, entry.defaults, None)
    note_effect(scope, name)
    inst = instantiate(cx.st, entry.scheme, name, e.function.span)
    args, _ = apply_parameters(cx, scope, arguments, inst, name, entry.names, None)
    cx.settled(inst.result)
    return core.Builtin(inst.result, e.span, name, tuple(a for a in args if a is not None))


def note_effect(scope: Scope, name: str) -> None:
    if name in EFFECTS and scope.function is not None:
        scope.function.effects.add(EFFECTS[name])


def as_value(cx: Checker, scope: Scope, name: str, span: Span) -> core.Expr:
    """A builtin as a function value: a lambda around its call."""
    if name in DERIVES:
        raise error("E0212", f"`{name}` is a form, not a value: apply it to a function", span)
    params: tuple[core.Local, ...]
    if name in SCHEMES:
        note_effect(scope, name)
        inst = instantiate(cx.st, builtin_scheme(cx, name), name, span)
        params = tuple(core.Local(f"x{i}", p, False, None, span) for i, p in enumerate(inst.params))
        body: core.Expr = core.Builtin(inst.result, span, name, tuple(core.Ref(p.type, span, p) for p in params))
        return core.Lambda(ty.TypeFn(inst.params, inst.result), span, params, body)
    rule, parameters = RULES.get(name, cast), PARAMETERS.get(name, ("x",))
    if parameters is None or name == "fail":
        raise error("E0212", f"`{name}` can't be used as a value", span, help=(f"write a lambda: `|x| {name}(x)`",))
    required = [p for p in parameters if not p.endswith("?")]
    params = tuple(core.Local(p, cx.st.type_var(), False, None, span) for p in required)
    body = rule(cx, BuiltinCall(name, tuple(core.Ref(p.type, span, p) for p in params), span))
    return core.Lambda(ty.TypeFn(tuple(p.type for p in params), body.type), span, params, body)


# ---- forms -----------------------------------------------------------------------------------------------------------
def elementwise(cx: Checker, g: BuiltinCall, op: str, a: ty.Type, b: ty.Type) -> ty.Type:
    result = cx.st.type_var()
    cx.constrain("arith", Reason(g.span, op, (a, b)), types=(a, b, result), data=op)
    return result


def binary(cx: Checker, g: BuiltinCall) -> core.Expr:
    a, b = g.args
    return core.Builtin(elementwise(cx, g, g.name, a.type, b.type), g.span, g.name, g.args)


def where(cx: Checker, g: BuiltinCall) -> core.Expr:
    mask, a, b = g.args
    mask_row = cx.st.row()
    cx.expect(ty.TypeArray(BOOL, mask_row), mask.type, mask.span, "the mask of `where`: ")
    both = elementwise(cx, g, "where", a.type, b.type)
    cx.settled(both)
    element, shape = split(cx.st, both)
    row = cx.st.row()
    cx.constrain("bcast", Reason(g.span, "where", (mask.type, both)), shapes=(mask_row, shape, row))
    return core.Builtin(ty.resolve(ty.TypeArray(element, row)), g.span, "where", g.args)


def clip(cx: Checker, g: BuiltinCall) -> core.Expr:
    x, low, high = g.args
    first = elementwise(cx, g, "maximum", x.type, low.type)
    return core.Builtin(elementwise(cx, g, "minimum", first, high.type), g.span, "clip", g.args)


def cast(cx: Checker, g: BuiltinCall) -> core.Expr:
    """`f64(x)`: elementwise, from any number or bool."""
    (x,) = g.args
    if g.name in ("bool", "str"):
        better = "write a comparison such as `x != 0`" if g.name == "bool" else 'write a string with the value: "{x}"'
        raise error("E0317", f"there is no conversion to `{g.name}`", g.span, help=(better,))
    _, shape = split_checked(cx, x, "Scalar")
    return core.Builtin(ty.resolve(ty.TypeArray(ty.TypeCon(g.name), shape)), g.span, "cast", g.args)


def sizes_of(cx: Checker, args: tuple[core.Expr, ...], name: str) -> tuple[tuple[ty.Size, ...], tuple[ty.SizeVar, ...]]:
    sizes: list[ty.Size] = []
    fresh: list[ty.SizeVar] = []
    for a in args:
        if isinstance(ty.resolve(a.type), ty.TypeTuple):
            help = ("each size is an argument: leave the parentheses out",)
            raise error("E0301", f"a size of `{name}`: expected i64, found {show(a.type)}", a.span, help=help)
        size, v = cx.bound(a, a.span, f"a size of `{name}`: ")
        sizes.append(size)
        if v is not None:
            fresh.append(v)
    return tuple(sizes), tuple(fresh)


def constant_array(cx: Checker, g: BuiltinCall) -> core.Expr:
    """`zeros(n, m)`, `ones(n, m)`."""
    sizes, fresh = sizes_of(cx, g.args, g.name)
    element = cx.st.type_var(atomic=True, classes=frozenset({"Num"}), literal="float")
    return core.Builtin(array(element, *sizes), g.span, g.name, g.args, {}, fresh)


def full(cx: Checker, g: BuiltinCall) -> core.Expr:
    if not g.args:
        raise error("E0303", "`full` takes a value and sizes", g.span)
    sizes, fresh = sizes_of(cx, g.args[1:], g.name)
    return core.Builtin(ty.resolve(array(g.args[0].type, *sizes)), g.span, g.name, g.args, {}, fresh)


def reshape(cx: Checker, g: BuiltinCall) -> core.Expr:
    if not g.args:
        raise error("E0303", "`reshape` takes an array and sizes", g.span)
    x = g.args[0]
    sizes, fresh = sizes_of(cx, g.args[1:], g.name)
    element, shape = split(cx.st, x.type)
    wanted = product(sizes, Note("the number of elements after the reshape", g.span))
    t = array(element, *sizes)
    cx.constrain("product", Reason(g.span, "reshape", (x.type, t)), shapes=(shape,), sizes=(wanted,))
    return core.Builtin(t, g.span, g.name, g.args, {}, fresh)


def stack(cx: Checker, g: BuiltinCall) -> core.Expr:
    """`stack(a, b, c)`: one more axis in front."""
    element: ty.Type = g.args[0].type if g.args else cx.st.type_var()
    for a in g.args[1:]:
        cx.expect(element, a.type, a.span, "an argument of `stack`: ")
    size = number(len(g.args), Note("the number of arguments of `stack`", g.span))
    return core.Builtin(ty.resolve(array(element, size)), g.span, "stack", g.args)


def shape_of(cx: Checker, g: BuiltinCall) -> core.Expr:
    (x,) = g.args
    _, shape = split(cx.st, x.type)
    result = cx.st.type_var()
    cx.constrain("rank", Reason(g.span, "shape", (x.type,)), types=(result,), shapes=(shape,))
    return core.Builtin(result, g.span, "shape", g.args)


def close(cx: Checker, g: BuiltinCall) -> core.Expr:
    a, b = g.args[0], g.args[1]
    cx.expect(a.type, b.type, b.span, "the second argument of `close`: ", (Note("the first is here", a.span),))
    if len(g.args) > 2:
        cx.expect(F64, g.args[2].type, g.args[2].span, "`tol`: ")

    def check() -> None:
        t = ty.resolve(a.type)
        element = ty.resolve(t.element) if isinstance(t, ty.TypeArray) else t
        if isinstance(element, ty.TypeCon) and not element.name.startswith(("f", "bf")):
            better = "write `all(x == y)`" if isinstance(t, ty.TypeArray) else "write `==`"
            raise error("E0302", f"`close` compares floats, found {element.name}", g.span, help=(better,))

    cx.later.append(check)
    return core.Builtin(BOOL, g.span, "close", g.args)


def scalar_in(cx: Checker, t: ty.Type, span: Span, name: str) -> ty.Type:
    """The dtype of the floats of a structure."""
    t = ty.resolve(t)
    if isinstance(t, ty.TypeArray | ty.TypeTuple | ty.TypeData):
        return scalar_of(cx.st, t)
    if isinstance(t, ty.TypeCon):
        if not t.name.startswith(("f", "bf")):
            raise error("E0302", f"`{name}` needs floats, found {t.name}", span)
        return t
    if isinstance(t, ty.TypeFn):
        raise error("E0302", f"`{name}` needs floats, found a function", span)
    if t.literal is None and "Float" not in t.classes:
        cx.expect(cx.st.type_var(classes=frozenset({"Vector"})), t, span)
        return F64
    return t


def map_floats(cx: Checker, g: BuiltinCall) -> core.Expr:
    if len(g.args) < 2:
        raise error("E0303", "`map_floats` takes a function and values", g.span)
    f, first, *values = g.args
    for r in values:
        cx.expect(first.type, r.type, r.span, "an argument of `map_floats`: ")
    scalar = scalar_in(cx, first.type, first.span, "map_floats")
    cx.expect(ty.TypeFn((scalar,) * (len(g.args) - 1), scalar), f.type, f.span, "the function of `map_floats`: ")
    return core.Builtin(first.type, g.span, g.name, g.args)


def sum_floats(cx: Checker, g: BuiltinCall) -> core.Expr:
    (x,) = g.args
    return core.Builtin(scalar_in(cx, x.type, x.span, "sum_floats"), g.span, g.name, g.args)


def fail(cx: Checker, g: BuiltinCall) -> core.Expr:
    (message,) = g.args
    cx.expect(STR, message.type, message.span, "the message of `fail`: ")
    return core.Fail(cx.st.type_var(), g.span, message)


def misplaced_progress(cx: Checker, g: BuiltinCall) -> core.Expr:
    help = ('write `for i < progress(n, "training") { … }`, or `for x in progress(xs) { … }`',)
    raise error("E0421", "`progress` stands in the head of a `for`, around its first bound", g.span, help=help)


RULES: dict[str, Rule] = {
    **{name: binary for name, w in WORDS.items() if len(w.params) == 2},
    "where": where,
    "clip": clip,
    "zeros": constant_array,
    "ones": constant_array,
    "full": full,
    "reshape": reshape,
    "stack": stack,
    "shape": shape_of,
    "close": close,
    "map_floats": map_floats,
    "sum_floats": sum_floats,
    "fail": fail,
    "progress": misplaced_progress,
}


def is_builtin(name: str) -> bool:
    return name in TYPES


def names() -> list[str]:
    return list(TYPES)


# ---- extern ----------------------------------------------------------------------------------------------------------
def external(
    cx: Checker, scope: Scope, entry: FnEntry, inst: Instantiated, args: list[core.Expr | None], e: s.Call
) -> core.Expr:
    """A call of an `extern "builtin:…"`."""
    name = entry.builtin
    defaults = [p.default for p in entry.decl.params]
    given = tuple(a for a in (a or d for a, d in zip(args, defaults, strict=True)) if a is not None)
    note_effect(scope, name)
    if name.startswith("read_"):
        kind = "external-value" if name == "read_value" else "external"
        cx.constrain(kind, Reason(e.span, entry.decl.name, (inst.result,)), types=(inst.result,))
        cx.unfinished = True

        def check() -> None:
            t = ty.resolve(inst.result)
            if name == "read_value":
                open_in = [v for v in variables(t) if not isinstance(v, ty.SizeVar)]
                if open_in:
                    help = ("annotate the `let`: `let model: Model<n> = …`",)
                    raise error("E0412", "the type of what `load` reads is not known", e.span, help=help)
                return
            element, shape = (ty.resolve(t.element), t.shape) if isinstance(t, ty.TypeArray) else (t, ty.Shape())
            if isinstance(shape.row, ty.RowVar) or isinstance(element, ty.TypeVar):
                raise error(
                    "E0412",
                    f"the dtype and the number of axes of what `{entry.decl.name}` reads are not known",
                    e.span,
                    help=("annotate the `let`: `let x: f64[n, m] = …`",),
                )

        cx.later.append(check)
    return core.Builtin(inst.result, e.span, name, given, {}, inst.opened)


# ---- functions with an axis ------------------------------------------------------------------------------------------
# Functions of arrays that take an `axis`, and those that join any number of arrays.


def reduce_axis(cx: Checker, scope: Scope, name: str, e: s.Call) -> core.Expr:
    """`sum(x, axis = 1)`, `max(x, axis = (0, -1), keepdims = true)`: the axes and `keepdims` are literals."""
    value, options = array_and_options(cx, scope, name, e)
    if "axis" not in options:
        raise error("E0303", "`keepdims` needs an `axis`", options["keepdims"].span)
    axes = literal_axes(options["axis"])
    if len(axes) > 1 and name in POSITIONS:
        help = ("name one axis",)
        raise error("E0307", f"`{name}` takes one `axis`, or none: the position among all elements", e.span, help=help)
    keep = False
    if "keepdims" in options:
        flag = options["keepdims"].value
        if not isinstance(flag, s.Boolean):
            help = ("write the word: the type of the result depends on it",)
            raise error("E0307", "`keepdims` has to be `true` or `false`", options["keepdims"].span, help=help)
        keep = flag.value
    elements = FUNCTIONS[name].elements
    dtype, shape = split_checked(cx, value, "" if elements == "bool" else elements)  # which has been said
    row = cx.st.row()
    kind = "reduce-keep" if keep else "reduce"
    cx.constrain(kind, Reason(e.span, name, (value.type,)), shapes=(shape, row), data=axes)
    result: ty.Type = ty.TypeCon("i64") if name in POSITIONS else dtype
    t = ty.resolve(ty.TypeArray(result, row))
    return core.Builtin(t, e.span, name, (value,), {"axes": axes, "keepdims": 1} if keep else {"axes": axes})


def array_and_options(cx: Checker, scope: Scope, name: str, e: s.Call) -> tuple[core.Expr, dict[str, s.Argument]]:
    """The one array of a call, and what is given by name beside it."""
    names = ("x", "axis", "keepdims") if name in REDUCED else ("x", "axis")
    second = next((a for a in e.arguments[1:] if a.name is None and not a.spread), None)
    if second is not None:
        text = second.value.span.text
        help: tuple[str, ...] = ()
        if name in CHOOSING:
            help = (f"of two values write `{COMBINE[name]}({e.arguments[0].span.text}, {text})`",)
        if indexing.literal(second.value) is not None:
            help += (f"an axis is given by name: `{name}({e.arguments[0].span.text}, axis = {text})`",)
        raise error("E0303", f"`{name}` takes one array, found {len(e.arguments)} arguments", e.span, help=help)
    x, *options = in_order(e, name, names, (False, True, True)[: len(names)], None)
    assert x is not None
    value = cx.infer(scope, x.value)
    cx.settled(value.type)
    if FUNCTIONS[name].elements == "bool":
        cx.expect(ty.TypeArray(BOOL, cx.st.row()), value.type, x.span, f"`{name}`: ")
    return value, {k: a for k, a in zip(names[1:], options, strict=True) if a is not None}


def literal_axes(a: s.Argument) -> tuple[int, ...]:
    """`axis = 1`, `axis = (0, -1)`."""
    parts = a.value.items if isinstance(a.value, s.Tuple) else (a.value,)
    axes = [indexing.literal(p) for p in parts]
    literals = tuple([k for k in axes if k is not None])
    if len(literals) < len(axes) or not axes:
        help = ("write the number: the type of the result depends on it",)
        raise error("E0307", "`axis` has to be a literal integer, or a tuple of these", a.span, help=help)
    if len(set(literals)) < len(literals):
        raise error("E0307", "an axis is named twice", a.span, help=("name each axis once",))
    return literals


def one_axis(a: s.Argument) -> int:
    axis = indexing.literal(a.value)
    if axis is None:
        help = ("write the number: the type of the result depends on it",)
        raise error("E0307", "`axis` has to be a literal integer", a.span, help=help)
    return axis


def rearrange_axis(cx: Checker, scope: Scope, name: str, e: s.Call) -> core.Expr:
    """`sort(x, axis = 1)`: along one axis of an array of any rank."""
    value, options = array_and_options(cx, scope, name, e)
    axis = one_axis(options["axis"])
    if FUNCTIONS[name].elements:
        _, shape = split_checked(cx, value, FUNCTIONS[name].elements)
    else:
        _, shape = split(cx.st, value.type)
    reason = Reason(e.span, name, (value.type,))
    cx.constrain("axis", reason, shapes=(shape, cx.st.row()), sizes=(cx.st.size(),), data=axis)
    t = ty.resolve(ty.TypeArray(ty.TypeCon("i64"), shape)) if name in POSITIONS else value.type
    return core.Builtin(t, e.span, name, (value,), {"axes": (axis,)})


def join_axis(cx: Checker, scope: Scope, name: str, e: s.Call) -> core.Expr:
    """`concat(x, y, axis = 1)`, `stack(x, y, axis = -1)`."""
    given = [a for a in e.arguments if a.name != "axis"]
    if any(a.name is not None or a.spread for a in given) or len(given) + 1 < len(e.arguments):
        raise error("E0307", f"`{name}` takes its arrays by position", e.span)
    if len(given) < (2 if name == "concat" else 1):
        raise error("E0303", f"`{name}` takes two arrays or more, found {len(given)}", e.span)
    (option,) = [a for a in e.arguments if a.name == "axis"]
    axis = one_axis(option)
    values = tuple([cx.infer(scope, a.value) for a in given])
    for v in values:
        cx.settled(v.type)
    reason = Reason(e.span, name, tuple([v.type for v in values]))
    element = split(cx.st, values[0].type)[0]
    others, out = cx.st.row(), cx.st.row()
    total = number(len(values) if name == "stack" else 0, Note(f"the number of arguments of `{name}`", e.span))
    for v in values:
        cx.expect(ty.TypeArray(element, cx.st.row()), v.type, v.span, f"an argument of `{name}`: ")
        _, shape = split(cx.st, v.type)
        if name == "stack":
            cx.expect(values[0].type, v.type, v.span, "an argument of `stack`: ")
            others = shape
        else:
            size = cx.st.size(Note("the axis along which arrays are joined", v.span))
            cx.constrain("axis", reason, shapes=(shape, others), sizes=(size,), data=axis)
            total = add(total, size)
    cx.constrain("axis", reason, shapes=(out, others), sizes=(total,), data=axis)
    return core.Builtin(ty.resolve(ty.TypeArray(element, out)), e.span, name, values, {"axes": (axis,)})


def join_many(cx: Checker, scope: Scope, name: str, e: s.Call) -> core.Expr:
    """`concat(x, y, z)` and `zip(x, y, z)`."""
    values = tuple([cx.infer(scope, a.value) for a in e.arguments])
    elements: list[ty.Type] = []
    sizes: list[ty.Size] = []
    for v in values:
        element = elements[0] if elements and name == "concat" else cx.st.type_var()
        size = sizes[0] if sizes and name == "zip" else cx.st.size(Note(f"an array of `{name}`", v.span))
        cx.expect(array(element, size), cx.settled(v.type), v.span, f"an argument of `{name}`: ")
        elements.append(element)
        sizes.append(size)
    if name == "zip":
        return core.Builtin(array(ty.TypeTuple(tuple(elements)), sizes[0]), e.span, name, values)
    total = sizes[0]
    for size in sizes[1:]:
        total = add(total, size)
    return core.Builtin(ty.resolve(array(elements[0], total)), e.span, name, values)


def split_checked(cx: Checker, value: core.Expr, cls: str) -> tuple[ty.Type, ty.Shape]:
    """dtype and shape of an argument, with a message where it is of another class."""
    probe = cx.st.type_var(atomic=True, classes=frozenset({cls}) if cls else frozenset())
    row = cx.st.row()
    cx.expect(ty.TypeArray(probe, row), value.type, value.span)
    return split(cx.st, value.type)
