"""`x[…]`: integers, slices, gathers, and the axes that bound a comprehension's index."""

from __future__ import annotations

from dlang.diagnostics import DlangError, Note, Span, error
from dlang.grammar import syntax as s
from dlang.typecheck import core, types as ty
from dlang.typecheck.constraints import known
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import axes as axis_count, notes_of, text_of
from dlang.typecheck.printing import Names, show
from dlang.typecheck.scope import LocalEntry, Scope
from dlang.typecheck.state import Mismatch, Reason
from dlang.typecheck.terms import I64, number, of_var
from dlang.typecheck.unify import add, constant, subtract, unify_size, where_from


def index(cx: Checker, scope: Scope, e: s.Index) -> core.Expr:
    base = cx.infer(scope, e.base)
    result, indices = index_axes(cx, scope, base.type, e.indices, e.span)
    return core.Index(result, e.span, base, indices)


def index_axes(
    cx: Checker, scope: Scope, base: ty.Type, written: tuple[s.Expr | s.Slice, ...], span: Span
) -> tuple[ty.Type, tuple[core.At | core.Range1, ...]]:
    """The type of `base[written]`."""
    t = ty.resolve(base)
    if isinstance(t, ty.TypeVar):
        t = cx.settled(t)
    axes: tuple[ty.Size, ...]
    if isinstance(t, ty.TypeArray) and t.shape.row is None and len(t.shape.pre) >= len(written):
        axes = t.shape.pre[: len(written)]
        inner_sizes = t.shape.pre[len(written) :]
        element: ty.Type = ty.TypeArray(t.element, ty.Shape(inner_sizes)) if inner_sizes else t.element
    elif isinstance(t, ty.TypeArray) and t.shape.row is None and not isinstance(ty.resolve(t.element), ty.TypeVar):
        raise error(
            "E0402",
            f"{len(written)} indices on `{show(t)}`, which has {axis_count(len(t.shape.pre))}",
            span,
            help=(_fewer(written),),
        )
    elif isinstance(t, ty.TypeTuple):
        item = written[0].value if len(written) == 1 and isinstance(written[0], s.Number) else 0
        help = (f"its items are fields: `.{item}`",)
        raise error("E0402", f"`{show(t)}` is a tuple and can't be indexed", span, help=help)
    elif isinstance(t, ty.TypeCon):
        raise error("E0402", f"`{t.name}` has no axes and can't be indexed", span, help=("leave the index out",))
    else:
        axes = tuple(cx.st.size(Note("an axis that is indexed here", span)) for _ in written)
        element = cx.st.type_var()
        cx.expect(ty.TypeArray(element, ty.Shape(axes)), t, span, "indexing: ")
    out: list[core.At | core.Range1] = []
    shapes: list[ty.Shape] = []
    for number_, (axis, i) in enumerate(zip(axes, written, strict=True)):
        check_literals(i, number_, axis)
        if isinstance(i, s.Slice):
            part = slice_axis(cx, scope, i, axis)
            out.append(part)
            shapes.append(ty.Shape((part.size,)))
        else:
            node, shape = at(cx, scope, i, axis)
            out.append(node)
            shapes.append(shape)
    return with_axes(cx, shapes, element, span), tuple(out)


def _fewer(written: tuple[s.Expr | s.Slice, ...]) -> str:
    """Returns the help against more indices than axes; `None` among them is NumPy's new axis."""
    if any(isinstance(i, s.Name) and i.name == "None" for i in written):
        return "an axis of size 1 is added by `reshape`: `reshape(x, n, 1)`"
    return "write at most one index for each axis"


def literal(e: s.Expr | None) -> int | None:
    """The value of an integer that is written out."""
    if isinstance(e, s.Unary) and e.operator == "-":
        inner = literal(e.operand)
        return None if inner is None else -inner
    return e.value if isinstance(e, s.Number) and isinstance(e.value, int) else None


def check_literals(i: s.Expr | s.Slice, number: int, axis: ty.Size) -> None:
    """Refuses an index or a bound that is written out and out of range whatever the program does."""
    size = constant(axis)
    if not isinstance(i, s.Slice):
        value = literal(i)
        if value is None or (value >= 0 and (size is None or value < size)):
            return
        of = f" of size {size}" if size is not None else ""
        message = f"index {value} is out of range for axis {number}{of}"
        help = ("indices count from 0",)
        if value < 0:
            help = (f"negative indices are out of range: count from the end with `len(x) - {-value}`",)
        raise error("E0801", message, i.span, notes=note_of(axis), help=help)
    low, high = literal(i.low) if i.low is not None else 0, literal(i.high) if i.high is not None else size
    if (
        (low is not None and (low < 0 or (size is not None and low > size)))
        or (high is not None and (high < 0 or (size is not None and high > size)))
        or (low is not None and high is not None and low > high)
    ):
        text = f"{'' if low is None else low} .. {'' if high is None else high}"
        of = f"axis {number}" + (f" of size {size}" if size is not None else "")
        message = f"the slice {text.strip()} is out of range for {of}"
        help = ("bounds count from the first element: `x[..len(x) - 1]` leaves out the last",)
        raise error("E0801", message, i.span, notes=note_of(axis), help=help)


def check_not_past_the_end(cx: Checker, index: core.Expr, axis: ty.Size) -> None:
    """Refuses `x[n]` and `x[len(x)]`, where the axis has the size n: sizes alone say that it is out of range."""
    if not of_sizes(index):
        return
    symbol = cx.symbol(index)
    if symbol is None or constant(axis) is not None:
        return
    past = (symbol.poly - ty.resolve_size(axis).poly).constant
    if past is not None and past >= 0:
        names = Names()
        message = f"index {names(symbol)} is out of range for an axis of size {names(axis)}"
        raise error("E0801", message, index.span, help=(f"indices count from 0: the last one is `{names(axis)} - 1`",))


def of_sizes(e: core.Expr) -> bool:
    """Tells whether a value is arithmetic of sizes that types mention, not of numbers alone."""
    match e:
        case core.SizeValue() | core.Builtin(name="len"):
            return True
        case core.Arith(operator="+" | "-", left=left, right=right):
            literals = isinstance(left, core.Literal), isinstance(right, core.Literal)
            return (literals[0] or of_sizes(left)) and (literals[1] or of_sizes(right)) and not all(literals)
        case _:
            return False


def note_of(axis: ty.Size) -> tuple[Note, ...]:
    """Returns a note on the origin of an axis' size."""
    return tuple(where_from(axis, Names())) if constant(axis) is not None else ()


def with_axes(cx: Checker, shapes: list[ty.Shape], element: ty.Type, span: Span) -> ty.Type:
    """The element with the axes that the indices leave."""
    pre: list[ty.Size] = []
    post: list[ty.Size] = []
    row: ty.RowVar | None = None
    for shape in shapes:
        shape = ty.resolve_shape(shape)
        if shape.row is not None:
            if row is not None:
                if cx.st.diagnostics:  # what made the indices unknown has been reported
                    return cx.st.type_var()
                raise error("E0315", "several indices here have an unknown type", span,
                            help=("annotate the parameters that are used as indices",))  # fmt: skip
            row = shape.row
            pre += shape.pre
            post += shape.post
        else:
            (pre if row is None else post).extend(shape.pre)
    if row is None and not pre:
        return element
    return ty.resolve(ty.TypeArray(element, ty.Shape(tuple(pre), row, tuple(post))))


def at(cx: Checker, scope: Scope, i: s.Expr, axis: ty.Size) -> tuple[core.At, ty.Shape]:
    """One index that isn't a slice."""
    if isinstance(i, s.Name):
        entry = scope.find(i.name)
        if isinstance(entry, LocalEntry) and entry.axis is not None:
            bound_by(cx, entry, axis, i)
            return core.At(core.Ref(I64, i.span, entry.local)), ty.Shape()
    value = cx.infer(scope, i)
    t = ty.resolve(value.type)
    if isinstance(t, ty.TypeVar) and not t.atomic:
        t = cx.settled(t)
    if isinstance(t, ty.TypeCon):
        if t.name not in ty.INTS:
            raise not_an_index(t, i.span)
        check_not_past_the_end(cx, value, axis)
        return core.At(value), ty.Shape()
    if isinstance(t, ty.TypeVar) and "Float" in t.classes:
        raise not_an_index(t, i.span)
    if isinstance(t, ty.TypeArray):
        element = ty.resolve(t.element)
        if isinstance(element, ty.TypeCon) and element.name not in ty.INTS:
            raise not_an_index(t, i.span)
    if known(t) and not isinstance(t, ty.TypeArray):
        cx.expect(cx.st.type_var(atomic=True, classes=frozenset({"Int"})), t, i.span, "an index: ")
        return core.At(value), ty.Shape()
    row = cx.st.row()
    cx.constrain("gather", Reason(i.span, "index", (t,)), types=(t,), shapes=(row,))
    return core.At(value), row


def not_an_index(t: ty.Type, span: Span) -> DlangError:
    name = show(t)
    if "bool" in name:
        helps = ("take the elements that a mask selects with `[v for v in x if …]`",)
    else:
        text = text_of(span)
        helps = (f"write `{text.partition('.')[0] if text.endswith('.0') else f'i64({text})'}`",)
    return error("E0315", f"an index has to be an integer, found {name}", span, label=f"this is {name}", help=helps)


def bound_by(cx: Checker, entry: LocalEntry, axis: ty.Size, node: s.Name) -> None:
    """The axis bounds an index that stands alone; all such axes are equal."""
    assert entry.axis is not None
    first = not entry.used
    entry.used = True
    cx.st.reason = Reason(node.span, f"index {node.name}")
    try:
        unify_size(cx.st, axis, entry.axis)
    except Mismatch as m:
        names = Names()
        raise error(
            "E0401",
            f"the index `{node.name}` runs over axes of different sizes: "
            f"{names(ty.resolve_size(entry.axis))} is not {names(ty.resolve_size(axis))}",
            node.span,
            notes=notes_of(m, names),
            help=(f"state the bound: `for {node.name} < …`",),
        ) from None
    if first and axis.origin is not None and entry.axis.origin is None:
        entry.axis = ty.Size(entry.axis.poly, axis.origin)


def bound(cx: Checker, scope: Scope, part: s.Expr | None, what: str) -> core.Expr | None:
    """A bound or the step of a range, if it is written."""
    if part is None:
        return None
    value = cx.infer(scope, part)
    cx.expect(I64, value.type, part.span, f"a bound of {what}: ")
    return value


def slice_axis(cx: Checker, scope: Scope, i: s.Slice, axis: ty.Size) -> core.Range1:
    """`a..b by s` of an axis: its size is known if it mentions sizes only."""
    low, high, step = [bound(cx, scope, part, "a slice") for part in (i.low, i.high, i.step)]
    size = length(cx, low, high, step, axis, i.span)
    if size is not None:
        return core.Range1(low, high, step, size)
    v = cx.st.open_size(Note("the size of this slice", i.span))
    return core.Range1(low, high, step, of_var(v), v)


def length(
    cx: Checker, low: core.Expr | None, high: core.Expr | None, step: core.Expr | None, axis: ty.Size | None, span: Span
) -> ty.Size | None:
    """How many integers there are from low to high, as a size; None if it mentions more than sizes."""
    a = cx.symbol(low) if low is not None else number(0)
    b = cx.symbol(high) if high is not None else axis
    if a is None or b is None:
        return None
    size = subtract(b, a, Note("the length of this range", span))
    if step is not None:
        s_ = cx.symbol(step)
        by = s_.poly.constant if s_ is not None else None
        if not by or (by < 0 and axis is not None):  # a slice goes forwards
            return None
        if by < 0:
            size = subtract(a, b, Note("the length of this range", span))
        size = ty.floor_div(add(size, number(abs(int(by)) - 1)), number(abs(int(by))))
        size = ty.Size(size.poly, Note("the length of this range", span))
    value = size.poly.constant
    if cx.mentions_index(size) or (value is not None and value < 0):
        return None
    return size
