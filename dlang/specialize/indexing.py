"""Reading and replacing parts of arrays: elements, rows, slices, gathers; and of arrays of structures, leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Reduce, Size, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.emitter import Emitter
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.generated import construct, opened
from dlang.specialize.values import ArrayV, DataV, Many, NodeV, ScalarV, TupleV, Value, parts, with_parts
from dlang.typecheck import core

ONE = poly(1)


@dataclass(frozen=True, slots=True)
class Element:
    """One place of an axis; the axis goes."""

    at: Size


@dataclass(frozen=True, slots=True)
class Part:
    """low, low + step, …: `size` places of an axis."""

    low: Size
    size: Size
    step: Size = ONE


@dataclass(frozen=True, slots=True)
class Gather:
    """The places that an array of integers names; its axes take the place of the axis."""

    array: ArrayV


Selector = Element | Part | Gather


def leading_shape(v: Value) -> tuple[Size, ...]:
    match v:
        case ArrayV():
            return v.shape
        case Many(shape, _):
            return shape
    raise AssertionError("not an array")


def selectors(f: Frame, indices: tuple[core.At | core.Range1, ...], shape: tuple[Size, ...]) -> list[Selector]:
    """Evaluates indices, checked against the axes that they select from."""
    out: list[Selector] = []
    for k, (index, size) in enumerate(zip(indices, shape, strict=False)):
        match index:
            case core.At(value):
                v = f.eval(value)
                if isinstance(v, ScalarV):
                    e = f.emitter
                    number = e.cast("i64", v.atom)
                    with e.facts.mentioned(a for s in out if isinstance(s, Element) for a in s.at.atoms()):
                        out.append(Element(e.index(number, size, f"axis {k}")))
                else:
                    assert isinstance(v, ArrayV)
                    out.append(Gather(v))
            case core.Range1():
                out.append(part(f, index, size))
    return out


def part(f: Frame, index: core.Range1, size: Size) -> Part:
    """The axis that a slice selects, with a check if not proven in range. Its length is bound if it has a name."""
    e = f.emitter
    first: Atom = f.atom(index.low) if index.low is not None else Lit(0, "i64")
    last = f.atom(index.high) if index.high is not None else e.atom(size)
    step = ONE
    if index.step is not None:
        atom = f.atom(index.step)
        if not isinstance(atom, Lit) or int(atom.value) <= 0:
            positive = e.prim("gt", atom, Lit(0, "i64"))
            (atom,) = e.check(positive, "E0802", ("the step of a slice is not positive: ", "", ""), (atom,), (atom,))
        step = poly(atom)
    # The ends are compared as they were computed: one that has wrapped is a number like any other. If all three
    # inequalities hold in mathematics, between 0 and a size, nothing has wrapped.
    low, high = e.modulo(first), e.modulo(last)
    length = high - low
    prove = e.facts.proves_nonnegative
    if not (prove(low) and prove(length) and prove(size - high)):
        n = e.atom(size)
        ordered = e.prim("and", e.prim("le", first, last), e.prim("le", last, n))
        inside = e.prim("and", e.prim("le", Lit(0, "i64"), first), ordered)
        parts = ("the slice ", "", " .. ", "", " is out of range for an axis of size ", "", "")
        (certified,) = e.check(inside, "E0801", parts, (first, last, n), (first,))
        low = poly(certified)
        length = apart(e, first, last, size)
    if step != ONE:
        length = e.floor(length + (step - 1), step)
    if index.opened is not None:
        f.bindings[index.opened] = length
    else:
        length = f.size(index.size)
        e.refuse_wrapping(length, "the size of a slice")
    return Part(low, length, step)


def apart(e: Emitter, first: Atom, last: Atom, size: Size) -> Size:
    """How far apart two numbers are of which 0 <= first <= last <= size was checked.

    So it is a polynomial if that is one that can't have wrapped, or the difference of two that have not.
    """
    length = e.modulo(last) - e.modulo(first)
    if e.exact(length):
        return length
    if all(e.modulo(end) == e.poly(end) for end in (first, last)):
        e.settled.update((length, length - 1))  # the second counts steps
        return length
    (difference,) = e.emit(anf.Prim("sub", (last, first)), I64)
    e.facts.between(difference, (poly(0),), (size + 1,))
    return poly(difference)


def select(f: Frame, v: Value, chosen: Sequence[Selector]) -> Value:
    """The selected part of an array, or of each leaf of an array of structures."""
    match v:
        case ArrayV():
            return select_leaf(f, v, chosen)
        case Many(shape, element):
            inner_shape = shape[len(chosen) :]
            inner = map_leaves(element, lambda leaf: select_leaf(f, leaf, chosen))
            kept = tuple([s for c in chosen for s in _sizes(c)]) + inner_shape
            return Many(kept, inner) if kept else inner
    raise AssertionError("not an array")


def _sizes(c: Selector) -> tuple[Size, ...]:
    match c:
        case Element():
            return ()
        case Part(_, size, _):
            return (size,)
        case Gather(array):
            return array.shape


def map_leaves(v: Value, function: Callable[[ArrayV], Value]) -> Value:
    """The structure with each leaf array replaced. A nested array of structures stays one."""
    if isinstance(v, ArrayV):
        return function(v)
    return with_parts(v, [map_leaves(p, function) for p in parts(v)])


def select_leaf(f: Frame, a: ArrayV, chosen: Sequence[Selector]) -> Value:
    """An element of an array, a view of it, or what is gathered from it."""
    e = f.emitter
    inner_shape = a.shape[len(chosen) :]
    if not inner_shape and all(isinstance(c, Element) for c in chosen):
        return ScalarV(e.read(a.var, tuple([c.at for c in chosen if isinstance(c, Element)])))
    if any(isinstance(c, Gather) for c in chosen):
        return gather(f, a, chosen)
    axes: list[anf.Var] = []
    shape: list[Size] = []
    index: list[Size] = []
    for c in chosen:
        match c:
            case Element(at):
                index.append(at)
            case Part(low, size, step):
                axes.append(fresh("i", I64))
                shape.append(size)
                index.append(low + poly(axes[-1]) * step)
    for size in inner_shape:
        axes.append(fresh("i", I64))
        shape.append(size)
        index.append(poly(axes[-1]))
    return ArrayV(e.view(a.var, tuple(axes), tuple(shape), tuple(index)))


def constantly(s: Size) -> Callable[[], Size]:
    return lambda: s


def gather(f: Frame, a: ArrayV, chosen: Sequence[Selector]) -> Value:
    """The elements at selectors some of which are arrays of indices."""
    e = f.emitter
    axes: list[anf.Axis] = []
    pending: list[Callable[[], Size]] = []

    def axis(size: Size) -> Size:
        axes.append(e.axis(size))
        return poly(axes[-1].var)

    for k, c in enumerate(chosen):
        match c:
            case Element(at):
                pending.append(constantly(at))
            case Part(low, size, step):
                place = low + axis(size) * step
                pending.append(constantly(place))
            case Gather(array):
                where = tuple([axis(s) for s in array.shape])

                def entry(array: ArrayV = array, where: tuple[Size, ...] = where, k: int = k) -> Size:
                    return e.index(e.cast("i64", e.read(array.var, where)), a.shape[k], f"axis {k}")

                pending.append(entry)
    for size in a.shape[len(chosen) :]:
        place = axis(size)
        pending.append(constantly(place))
    with e.block() as lets:
        x = e.read(a.var, tuple([entry() for entry in pending]))
    shape = tuple([x.highs[0] for x in axes])
    destination = Reduce(shape, tuple([poly(x.var) for x in axes]), "set")
    (out,) = e.comp(tuple(axes), lets, (x,), (destination,), (a.dtype,))
    return ArrayV(out)


# ---- replacing -------------------------------------------------------------------------------------------------------
def replace(f: Frame, v: Value, steps: tuple[core.FieldStep | core.IndexStep, ...], new: Value) -> Value:
    """The value with the part that `steps` leads to replaced."""
    return _replace(f, v, steps, new, [], 0)


def _replace(
    f: Frame,
    v: Value,
    steps: tuple[core.FieldStep | core.IndexStep, ...],
    new: Value,
    chosen: Sequence[Selector],
    front: int,
) -> Value:
    """chosen: what is selected of the first axes of every leaf; the first `front` of them are of arrays around `v`."""
    if not steps:
        return store(f, v, chosen, new) if chosen else new
    match steps[0], v:
        case core.FieldStep(position, _), TupleV(items):
            return TupleV(_with(items, position, _replace(f, items[position], steps[1:], new, chosen, front)))
        case core.FieldStep(position, _), NodeV(type, handle):
            node = select(f, handle, chosen) if chosen else handle
            fields = tuple(opened(f, NodeV(type, node), 0))
            constructed = construct(
                f, type, 0, _with(fields, position, _replace(f, fields[position], steps[1:], new, [], 0))
            )
            return store(f, v, chosen, constructed) if chosen else constructed
        case core.FieldStep(position, _), DataV(decl, fields):
            return DataV(decl, _with(fields, position, _replace(f, fields[position], steps[1:], new, chosen, front)))
        case core.IndexStep(indices), Many() | ArrayV():
            whole = Many((*[poly(1)] * front, *v.shape), v.element) if isinstance(v, Many) else v
            selected = [*chosen, *selectors(f, indices, whole.shape[len(chosen) :])]
            again = isinstance(steps[1] if steps[1:] else None, core.IndexStep)
            if again and not all(isinstance(c, Element) for c in selected):
                # An index of a slice counts in the slice.
                return store(f, v, selected, _replace(f, select(f, whole, selected), steps[1:], new, [], 0))
            if isinstance(v, Many) and not (again and len(selected) < len(whole.shape)):
                inside = _replace(f, v.element, steps[1:], new, selected, len(selected))
                return Many(v.shape, inside)
            return _replace(f, v, steps[1:], new, selected, front)
    raise unsupported("this assignment", f.emitter.span)


def _with(items: tuple[Value, ...], position: int, new: Value) -> tuple[Value, ...]:
    return (*items[:position], new, *items[position + 1 :])


def store(f: Frame, v: Value, chosen: Sequence[Selector], new: Value) -> Value:
    """Each leaf with the chosen part replaced by the corresponding leaf of `new`."""
    match v, new:
        case ArrayV(), (ScalarV() | ArrayV()):
            return store_leaf(f.emitter, v, chosen, new)
        case Many(shape, element), _ if not isinstance(new, Many):
            return Many(shape, store(f, element, chosen, new))
        case _, Many(_, element) if not isinstance(v, Many):  # of what is chosen, as a slice, in each leaf
            return store(f, v, chosen, element)
        case _:
            return with_parts(v, [store(f, x, chosen, p) for x, p in zip(parts(v), parts(new), strict=True)])


def store_leaf(e: Emitter, a: ArrayV, chosen: Sequence[Selector], new: ScalarV | ArrayV) -> Value:
    """The array with elements replaced. new: an element, or an array of what the selectors choose."""
    if isinstance(new, ScalarV) and len(chosen) == len(a.shape) and all(isinstance(c, Element) for c in chosen):
        index = tuple([c.at for c in chosen if isinstance(c, Element)])
        (out,) = e.emit(anf.Update(a.var, index, new.atom), a.type, name=a.var.name)
        return ArrayV(out)
    axes: list[anf.Axis] = []
    index_list: list[Size] = []
    for c in chosen:
        match c:
            case Element(at):
                index_list.append(at)
            case Part(low, size, step):
                axes.append(e.axis(size))
                index_list.append(low + poly(axes[-1].var) * step)
            case Gather():
                return store_gathered(e, a, chosen, new)
    for size in a.shape[len(chosen) :]:
        axes.append(e.axis(size))
        index_list.append(poly(axes[-1].var))
    with e.block() as lets:
        x: Atom = new.atom if isinstance(new, ScalarV) else e.read(new.var, tuple([poly(x.var) for x in axes]))
    destination = Reduce(a.shape, tuple(index_list), "set", a.var)
    (out,) = e.comp(tuple(axes), lets, (x,), (destination,), (a.dtype,), a.var.name)
    return ArrayV(out)


def store_gathered(e: Emitter, a: ArrayV, chosen: Sequence[Selector], new: ScalarV | ArrayV) -> Value:
    """`x[idx] = v`: one after another, because places may be named twice; the last one stays."""
    whole_axes = tuple([Part(poly(0), size) for size in a.shape[len(chosen) :]])
    selected = (*chosen, *whole_axes)
    sizes = [s for c in selected for s in _sizes(c)]

    def place(at: Sequence[Size]) -> tuple[Size, ...]:
        left = list(at)
        index: list[Size] = []
        for k, c in enumerate(selected):
            point, left = left[: len(_sizes(c))], left[len(_sizes(c)) :]
            match c:
                case Element(where):
                    index.append(where)
                case Part(low, _, step):
                    index.append(low + point[0] * step)
                case Gather(array):
                    index.append(e.index(e.cast("i64", e.read(array.var, tuple(point))), a.shape[k], f"axis {k}"))
        return tuple(index)

    def nest(at: tuple[Size, ...], current: anf.Var) -> anf.Var:
        if len(at) == len(sizes):
            x = new.atom if isinstance(new, ScalarV) else e.read(new.var, at)
            return e.emit(anf.Update(current, place(at), x), a.type, name=current.name)[0]
        axis = e.axis(sizes[len(at)]).var
        state = fresh(a.var.name, a.type)
        with e.block() as body:
            out = nest((*at, poly(axis)), state)
        loop = anf.For(axis, poly(0), sizes[len(at)], (state,), (current,), anf.Block(tuple(body), (out,)))
        return e.emit(loop, a.type, name=current.name)[0]

    return ArrayV(nest((), a.var))
