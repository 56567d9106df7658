"""Comprehensions and the binders that they share with `for`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise

from dlang.diagnostics import Note, Span, error
from dlang.grammar import syntax as s
from dlang.ops.monoids import MONOIDS
from dlang.typecheck import core, indexing, patterns
from dlang.typecheck.context import Checker
from dlang.typecheck.limits import within_axes
from dlang.typecheck.printing import show
from dlang.typecheck.scope import FunctionContext, LocalEntry, Scope
from dlang.typecheck.terms import BOOL, I64, array, of_var, variables
from dlang.typecheck.trees import binder_children, pattern_locals, walk
from dlang.typecheck.types import INTS, Shape, Size, SizeVar, Type, TypeArray, TypeCon, TypeVar, resolve


def index_local(cx: Checker, scope: Scope, p: s.Pattern, *, axis: Size | None = None) -> core.Local:
    """The local of an integer binder; its symbol lets `i + 3 - i` be 3."""
    name = p.name if isinstance(p, s.PatternName) else "_"
    symbol = SizeVar(cx.st.level, name, rigid=True, opened=True, origin=Note(f"the index `{name}`", p.span))
    local = core.Local(name, I64, False, symbol, p.span)
    cx.indices.add(symbol)
    cx.symbols[local] = of_var(symbol)
    if cx.observed is not None:
        cx.observed.note(p.span, I64)
    if isinstance(p, s.PatternName):
        scope.names[name] = LocalEntry(local, scope.border, axis, what="index")
    return local


def binder(cx: Checker, scope: Scope, b: s.Binder, inner: Scope, *, loop: bool = False) -> core.Binder:
    """One binder; its bounds are checked in `scope`, its names are bound in `inner`. loop: it is one of a `for`."""
    if b.below is not None:
        bound = cx.infer(scope, b.below)
        size, _ = cx.bound(bound, b.below.span, "a bound: ", loop=loop)
        return core.Count(index_local(cx, inner, b.pattern), size, bound, b.span)
    if b.each is not None:
        source = cx.infer(scope, b.each)
        t = resolve(source.type)
        if not isinstance(t, TypeArray):
            t = cx.settled(t)
        if isinstance(t, TypeArray) and t.shape.pre:
            size, inner_shape = t.shape.pre[0], Shape(t.shape.pre[1:], t.shape.row, t.shape.post)
            element: Type = resolve(TypeArray(t.element, inner_shape))
        else:
            size, element = cx.st.size(Note("the array that is iterated over", b.each.span)), cx.st.type_var()
            if (isinstance(t, TypeCon) and t.name in INTS) or (isinstance(t, TypeVar) and t.literal == "int"):
                name = b.pattern.name if isinstance(b.pattern, s.PatternName) else "i"
                help = (f"to count, write `for {name} < {b.each.span.text}`, or `for {name} in a..b`",)
                raise error("E0402", f"`in` needs an array, found {show(t)}", b.each.span, help=help)
            cx.expect(array(element, size), t, b.each.span, "`in` needs an array: ")
        return core.Each(patterns.bind(cx, inner, b.pattern, element, what="binder"), source, size, b.span)
    if b.low is not None and b.high is not None:
        low, high, step = [indexing.bound(cx, scope, part, "a range") for part in (b.low, b.high, b.step)]
        assert low is not None and high is not None
        length = indexing.length(cx, low, high, step, None, b.span)
        if length is None:
            length = of_var(cx.st.open_size(Note("the length of this range", b.span)))
        local = index_local(cx, inner, b.pattern)
        return core.Range(core.Bind(local), low, high, step, length, b.span)
    axis = cx.st.size()
    return core.Count(index_local(cx, inner, b.pattern, axis=axis), axis, None, b.span)


def inside_comprehension(outer: FunctionContext | None) -> FunctionContext | None:
    """Effects and calls count for the function, but `return` can't leave it from here."""
    if outer is None:
        return None
    inner = FunctionContext(outer.name, None)
    inner.effects, inner.calls = outer.effects, outer.calls
    return inner


def reduced(cx: Checker, scope: Scope, name: str, e: s.Comprehension) -> core.Expr:
    """The argument of a builtin: one that reduces all elements keeps no array of them."""
    monoid = MONOIDS.get(name)
    whole = monoid is not None and (monoid.has_empty or (monoid.combine != "" and e.condition is None))
    return comprehension(cx, scope, e, kept=not whole)


def comprehension(cx: Checker, scope: Scope, e: s.Comprehension, kept: bool = True) -> core.Expr:
    """kept: whether there will be an array of the elements, and not only a reduction of them."""
    inner = scope.child(border=True)
    inner.function = inside_comprehension(scope.function)
    binders: list[core.Binder] = []
    binders_mark = cx.mark()
    for b in e.binders:
        # Comprehensions are rectangular: a bound sees the names outside, and the binders before it.
        outer = inner.child()
        binders.append(binder(cx, outer, b, inner, loop=not kept))
    check_pairs(e.binders, e.element, e.condition)
    outside_mark = cx.mark()
    condition = None
    if e.condition is not None:
        condition = cx.infer(inner, e.condition)
        cx.settled(condition.type)
        cx.expect(BOOL, condition.type, e.condition.span, "the condition: ")
    element = cx.infer(inner, e.element)
    for b, checked in zip(e.binders, binders, strict=True):
        check_bounded(inner, b, checked)
    if kept and condition is None:  # with a condition there is one axis
        check_rectangular(binders, cx.opened_since(binders_mark) | cx.indices)
    t = cx.settled(element.type)
    inside = cx.opened_since(outside_mark) | cx.indices | element_sizes(binders)
    for v in variables(t):
        if isinstance(v, SizeVar) and v in inside:
            raise differ(e.element.span, v)
    cx.confine(
        outside_mark,
        chain((entry.local.type for entry in scope.locals()), (t,)),
        e.element.span,
        "a size `?` known only in its body would become part of something outside this comprehension",
    )
    opened = None
    if condition is not None:
        opened = cx.st.open_size(Note("how many elements fulfil the condition", e.span))
        sizes: tuple[Size, ...] = (of_var(opened),)
    else:
        sizes = tuple(b.size for b in binders)
    result = resolve(TypeArray(t, Shape(sizes)))
    within_axes(result, e.span)
    return core.Comprehension(result, e.span, element, tuple(binders), condition, opened)


def element_sizes(binders: Iterable[core.Binder]) -> set[SizeVar]:
    """The sizes that names bound to the elements of arrays count as: other ones for each element."""
    patterns = [b.pattern for b in binders if isinstance(b, core.Each)]
    return {local.size for p in patterns for local in pattern_locals(p) if local.size is not None}


def differ(span: Span, v: SizeVar) -> Exception:
    notes = (Note(f"the size is {v.origin.text}", v.origin.span),) if v.origin is not None else ()
    return error(
        "E0406",
        "the elements would differ in size",
        span,
        label="its size depends on the element" + (f": `{v.name}`" if v.name else ": it is a `?`"),
        notes=notes,
        help=("write `as` to state one size for all elements",),
    )


def check_pairs(binders: tuple[s.Binder, ...], *body: s.Node | None) -> None:
    """Refuses `for i, v in enumerate(x)`, whose `i` nothing else bounds: a pair needs its parentheses."""
    for first, second in pairwise(binders):
        if first.below is not None or first.each is not None or first.low is not None:
            continue
        match first.pattern, second.pattern, second.each:
            case s.PatternName(_, a), s.PatternName(_, b), s.Call(_, s.Name(_, "enumerate" | "zip")) as source:
                if not indexes(a, *body):
                    raise error(
                        "E0408",
                        f"nothing bounds {a}",
                        first.span.to(second.span),
                        help=(f"a pair is taken apart in parentheses: `({a}, {b}) in {source.span.text}`",),
                    )


def indexes(name: str, *roots: s.Node | None) -> bool:
    """Tells whether a name stands alone as an index in pieces of the syntax tree."""
    indices = (i for n in s.walk(*roots) if isinstance(n, s.Index) for i in n.indices)
    return any(isinstance(i, s.Name) and i.name == name for i in indices)


def check_bounded(scope: Scope, b: s.Binder, checked: core.Binder) -> None:
    if isinstance(checked, core.Count) and checked.bound is None:
        name = checked.local.name
        entry = scope.names.get(name)
        if not (isinstance(entry, LocalEntry) and entry.local is checked.local and entry.used):
            raise error(
                "E0408",
                f"nothing bounds {name}",
                b.span,
                label="no array is indexed by it alone",
                help=(f"write a bound: `for {name} < n`",),
            )


def check_rectangular(binders: list[core.Binder], inside: frozenset[SizeVar]) -> None:
    """No range differs from element to element. inside: the sizes that are known only from element to element."""
    before: set[core.Local] = set()
    for b in binders:
        if any(v in inside for v in variables(b.size)) and mentions(binder_children(b), before):
            raise error(
                "E0406",
                "the comprehension would not be rectangular",
                b.span,
                label="its range depends on an index before it",
                help=(
                    "reduce it where it is made, `sum(… for i < n, j < i)`, or filter: with an `if` there is one axis",
                ),
            )
        before |= {b.local} if isinstance(b, core.Count) else set(pattern_locals(b.pattern))


def mentions(sources: Iterable[core.Expr], locals: set[core.Local]) -> bool:
    """Tells whether one of these locals occurs in core trees."""
    return any(isinstance(node, core.Ref) and node.local in locals for source in sources for node in walk(source))
