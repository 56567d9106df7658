"""Functions of arrays that take an `axis`, and those that join any number of arrays."""

from __future__ import annotations

from dlang.diagnostics import Note, error
from dlang.grammar import syntax as s
from dlang.ops.functions import FUNCTIONS, POSITIONS, REDUCED
from dlang.ops.monoids import CHOOSING, COMBINE
from dlang.typecheck import core, indexing
from dlang.typecheck.arguments import in_order
from dlang.typecheck.context import Checker
from dlang.typecheck.operators import split
from dlang.typecheck.scope import Scope
from dlang.typecheck.sizes import add
from dlang.typecheck.state import Reason
from dlang.typecheck.terms import BOOL, array, number
from dlang.typecheck.types import Shape, Size, Type, TypeArray, TypeCon, TypeTuple, resolve


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
    result: Type = TypeCon("i64") if name in POSITIONS else dtype
    t = resolve(TypeArray(result, row))
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
        cx.expect(TypeArray(BOOL, cx.st.row()), value.type, x.span, f"`{name}`: ")
    return value, {k: a for k, a in zip(names[1:], options, strict=True) if a is not None}


def literal_axes(a: s.Argument) -> tuple[int, ...]:
    """`axis = 1`, `axis = (0, -1)`."""
    parts = a.value.items if isinstance(a.value, s.Tuple) else (a.value,)
    axes = [indexing.literal(p) for p in parts]
    found = tuple([k for k in axes if k is not None])
    if len(found) < len(axes) or not axes:
        help = ("write the number: the type of the result depends on it",)
        raise error("E0307", "`axis` has to be a literal integer, or a tuple of these", a.span, help=help)
    if len(set(found)) < len(found):
        raise error("E0307", "an axis is named twice", a.span, help=("name each axis once",))
    return found


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
    t = resolve(TypeArray(TypeCon("i64"), shape)) if name in POSITIONS else value.type
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
    rest, out = cx.st.row(), cx.st.row()
    total = number(len(values) if name == "stack" else 0, Note(f"the number of arguments of `{name}`", e.span))
    for v in values:
        cx.expect(TypeArray(element, cx.st.row()), v.type, v.span, f"an argument of `{name}`: ")
        _, shape = split(cx.st, v.type)
        if name == "stack":
            cx.expect(values[0].type, v.type, v.span, "an argument of `stack`: ")
            rest = shape
        else:
            size = cx.st.size(Note("the axis along which arrays are joined", v.span))
            cx.constrain("axis", reason, shapes=(shape, rest), sizes=(size,), data=axis)
            total = add(total, size)
    cx.constrain("axis", reason, shapes=(out, rest), sizes=(total,), data=axis)
    return core.Builtin(resolve(TypeArray(element, out)), e.span, name, values, {"axes": (axis,)})


def join_many(cx: Checker, scope: Scope, name: str, e: s.Call) -> core.Expr:
    """`concat(x, y, z)` and `zip(x, y, z)`."""
    values = tuple([cx.infer(scope, a.value) for a in e.arguments])
    elements: list[Type] = []
    sizes: list[Size] = []
    for v in values:
        element = elements[0] if elements and name == "concat" else cx.st.type_var()
        size = sizes[0] if sizes and name == "zip" else cx.st.size(Note(f"an array of `{name}`", v.span))
        cx.expect(array(element, size), cx.settled(v.type), v.span, f"an argument of `{name}`: ")
        elements.append(element)
        sizes.append(size)
    if name == "zip":
        return core.Builtin(array(TypeTuple(tuple(elements)), sizes[0]), e.span, name, values)
    total = sizes[0]
    for size in sizes[1:]:
        total = add(total, size)
    return core.Builtin(resolve(array(elements[0], total)), e.span, name, values)


def split_checked(cx: Checker, value: core.Expr, cls: str) -> tuple[Type, Shape]:
    """dtype and shape of an argument, with a message where it is of another class."""
    probe = cx.st.type_var(atomic=True, classes=frozenset({cls}) if cls else frozenset())
    row = cx.st.row()
    cx.expect(TypeArray(probe, row), value.type, value.span)
    return split(cx.st, value.type)
