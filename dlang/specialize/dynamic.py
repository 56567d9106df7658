"""Functions that are known only when the program runs: Reynolds' defunctionalisation, by type.

A lambda or a named function is known by its value as long as that is possible, and costs nothing. Where it is not (arms
of a branch give different ones, a loop changes one, a node holds one, a recursive function returns one) it becomes a
node that says which function it is and holds what it captured. There is a datatype for each function type, with a
variant for each function that was ever made dynamic, and a function that calls any of them (`functions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from dlang.diagnostics import error
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Reduce, Scalar, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.analysis import RANDOM, WORLD, effects_of
from dlang.specialize.arith import zero_of
from dlang.specialize.datatypes import bound_key, label
from dlang.specialize.frame import NO_SIZE, Frame, unsupported
from dlang.specialize.layouts import Layout, layout_of, marked, packed, placeholders, unpacked
from dlang.specialize.passing import Met
from dlang.specialize.randomness import passed_key
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoFn, MonoName, MonoNode, MonoTuple
from dlang.specialize.values import (
    ClosureV,
    DataV,
    DynamicV,
    EnumV,
    FnV,
    Many,
    NodeV,
    ScalarV,
    TupleV,
    Value,
    alike,
    code_of,
    codes_in,
    contains_function,
    leaves,
    parts,
    rebuild,
    size_labels,
    sizes_of,
    with_parts,
    with_sizes,
)

Effects = frozenset[str]


@dataclass(frozen=True, slots=True)
class Member:
    """A function that was made dynamic: its code, and how a node holds what it captured."""

    layout: Layout
    variant: anf.Variant


@dataclass(slots=True)
class Arrow:
    """A type of functions. arms: for each member, in order, the block that calls it, as far as they are made.

    What the blocks have in common: the parameters, and the handle to the node. called: whether any of them is called at
    all.
    """

    type: MonoFn
    label: str
    params: Layout
    result: Layout
    handle: Var
    token: Var
    key: Var
    members: dict[object, Member] = field(default_factory=dict)
    arms: list[anf.Block] = field(default_factory=list)
    called: bool = False

    @property
    def function(self) -> str:
        """The function of the IR that calls any of the members."""
        return f"{self.type.dtype}.call"


@dataclass(slots=True)
class Arrows:
    """The types of dynamic functions of a program."""

    serial: count[int]
    table: dict[object, Arrow] = field(default_factory=dict)
    named: dict[str, Arrow] = field(default_factory=dict)

    def type(self, params: tuple[Mono, ...], result: Mono, effects: Effects) -> MonoFn:
        """The type of functions from and to types whose sizes do not matter."""
        acts = (WORLD if effects & WORLD else frozenset()) | (effects & RANDOM)
        key = (tuple(map(bound_key, params)), bound_key(result), acts)
        if key not in self.table:
            t = MonoFn(params, result, acts, f"Function.{next(self.serial)}")
            arrow = Arrow(
                t,
                label(t),
                layout_of(placeholders(map(marked, params))),
                layout_of(placeholders([marked(result)])),
                fresh("function", Scalar(t.dtype)),
                fresh("world", anf.Token()),
                fresh("key", Scalar("u64")),
            )
            self.table[key] = self.named[t.dtype] = arrow
        return self.table[key].type


# ---- making functions dynamic ----------------------------------------------------------------------------------------
def dynamic(f: Frame, v: Value, wanted: Mono) -> Value:
    """The value with all functions in it dynamic; `wanted`: its type, whose sizes do not matter."""
    if not contains_function(v) or isinstance(v, NodeV):
        return v
    if isinstance(v, FnV):
        assert isinstance(wanted, MonoFn)
        return node(f, v, wanted)
    if isinstance(v, Many):
        assert isinstance(wanted, MonoArray)
        element = wanted.element
        return each(f, v, lambda x: dynamic(f, x, element))
    return with_parts(v, [dynamic(f, p, t) for p, t in zip(parts(v), part_types(v, wanted), strict=True)])


def reconciled(f: Frame, v: Value, other: Value, wanted: Mono) -> Value:
    """The value with those functions dynamic that differ from their counterparts in `other`."""
    if alike(v, other) or not contains_function(v) or isinstance(v, NodeV):
        return v
    if is_null(v):
        return placeholder(f, other)
    if is_null(other):
        return v
    if isinstance(v, FnV):
        assert isinstance(wanted, MonoFn)
        widened = with_effects(f, wanted, effects_of(v) | effects_of(other))
        assert isinstance(widened, MonoFn)
        return node(f, v, widened)
    if isinstance(v, Many):
        return dynamic(f, v, with_effects(f, wanted, effects_of(v) | effects_of(other)))
    rows = zip(parts(v), parts(other), part_types(v, wanted), strict=True)
    return with_parts(v, [reconciled(f, p, q, t) for p, q, t in rows])


def is_null(v: Value) -> bool:
    """Tells whether this is the null function, which stands where none is looked at."""
    return isinstance(v, DynamicV) and isinstance(v.handle, ScalarV) and isinstance(v.handle.atom, Lit)


def placeholder(f: Frame, like: Value) -> Value:
    """Some function of the same code, which is not called."""
    sized = with_sizes(like, iter([s if s.constant is not None else NO_SIZE for s in sizes_of(like)]))
    return rebuild(sized, iter([zero_of(f, a.type) for a in leaves(sized)]))


def part_types(v: Value, wanted: Mono) -> tuple[Mono, ...]:
    match v, wanted:
        case TupleV(), MonoTuple(items):
            return items
        case DataV(), MonoData(_, fields):
            return fields
        case EnumV(), MonoEnum():
            return (I64, *wanted.fields)
    raise AssertionError("a value of another type")


def each(f: Frame, v: Many, function: Callable[[Value], Value]) -> Value:
    """Makes functions dynamic at every element of an array; arrays in an element stay as they are."""
    e = f.emitter
    axes = tuple([e.axis(s) for s in v.shape])
    index = tuple([poly(a.var) for a in axes])
    arrays = [a for a in leaves(v) if isinstance(a, Var) and isinstance(a.type, anf.Array)]
    with f.block() as lets:
        elements = [element(f, a, index) for a in arrays]
        value = function(rebuild(v.element, iter(elements)))
    whole = dict(zip(elements, arrays, strict=True))
    atoms = tuple([a for a in leaves(value) if isinstance(a.type, Scalar)])
    dtypes = tuple([a.type.dtype for a in atoms if isinstance(a.type, Scalar)])
    outs = iter(e.comp(axes, lets, atoms, tuple([Reduce(v.shape, index, "set") for _ in atoms]), dtypes))
    parts = [next(outs) if isinstance(a.type, Scalar) else whole[a] for a in leaves(value)]
    return Many(v.shape, rebuild(value, iter(parts)))


def element(f: Frame, a: Var, index: tuple[Size, ...]) -> Atom:
    """Emits the part of an array at a point of its first axes."""
    assert isinstance(a.type, anf.Array)
    inner_shape = a.type.shape[len(index) :]
    if not inner_shape:
        return f.emitter.read(a, index)
    axes = tuple([fresh("i", I64) for _ in inner_shape])
    return f.emitter.view(a, axes, inner_shape, (*index, *map(poly, axes)))


def with_effects(f: Frame, m: Mono, effects: Effects) -> Mono:
    """The type where calling a function may have more effects."""
    match m:
        case MonoFn(params, result):
            return f.instances.arrow(params, result, m.effects | effects) if effects - m.effects else m
        case MonoTuple(items):
            return MonoTuple(tuple([with_effects(f, i, effects) for i in items]))
        case MonoArray(element, shape):
            return MonoArray(with_effects(f, element, effects), shape)
        case MonoData(decl, fields, args):
            return MonoData(decl, tuple([with_effects(f, x, effects) for x in fields]), args)
        case MonoEnum():
            return m.map(lambda x: with_effects(f, x, effects))
        case MonoName(decl, args) | MonoNode(decl, args):
            arguments = tuple([with_effects(f, a, effects) if isinstance(a, Mono) else a for a in args])
            return m if arguments == args else f.instances.node_type(decl, arguments) or MonoName(decl, arguments)
        case _:
            return m


def node(f: Frame, v: FnV, wanted: MonoFn) -> DynamicV:
    """The function as one that is known only when the program runs."""
    if isinstance(v, DynamicV) and v.type.dtype == wanted.dtype:
        return v
    more = effects_of(v) - wanted.effects
    if more:
        raise error(
            "E0690",
            f"a function with the effect `{min(more)}` in a place whose type does not say so is not supported yet",
            f.emitter.span,
            help=(f"write the effect in the type: `-> … ! {min(more)}`",),
        )
    order: dict[Size, int] = {}
    size_label = size_labels(order)
    arrow = f.instances.arrows.named[wanted.dtype]
    key = Met(repeated=True).key(v, size_label)
    if key not in arrow.members:
        layout = layout_of([v])
        tag = len(arrow.members)
        arrow.members[key] = Member(layout, anf.Variant(wanted.dtype, tag, f"F{tag}", layout.vars))
    member = arrow.members[key]
    args = tuple(packed(f, member.layout, [v]))
    (handle,) = f.emitter.emit(anf.Construct(member.variant, args), Scalar(wanted.dtype), name="function")
    return DynamicV(wanted, ScalarV(handle))


def type_of_closure(f: Frame, closure: ClosureV) -> MonoFn:
    """The function type of a closure."""
    inner = f.inner(closure.bindings, {}).erasing()
    decl = closure.decl
    result = decl.result if decl is not None and decl.result is not None else closure.body.type
    params = tuple([inner.mono(p.type) for p in closure.params])
    return f.instances.arrow(params, inner.mono(result), effects_of(closure))


def without_itself(f: Frame, code: object, v: Value) -> Value:
    """Makes closures of a function's own code among its captures dynamic: so their nesting is bounded."""
    if code not in codes_in(v):
        return v
    inner = with_parts(v, [without_itself(f, code, p) for p in parts(v)])
    if isinstance(inner, ClosureV) and code_of(inner) == code:
        return node(f, inner, type_of_closure(f, inner))
    return inner


# ---- calls -----------------------------------------------------------------------------------------------------------
def call_dynamic(f: Frame, function: DynamicV, args: Sequence[Value]) -> Value:
    """The value of a call; its sizes are known only now."""
    e = f.emitter
    arrow = f.instances.arrows.named[function.type.dtype]
    arrow.called = True
    assert isinstance(function.handle, ScalarV)
    values = [dynamic(f, a, t) for a, t in zip(args, arrow.type.params, strict=True)]
    atoms = packed(f, arrow.params, values)
    count = len(arrow.params.sizes)
    actuals = [*atoms[:count]]
    effects = arrow.type.effects
    if effects & WORLD:
        if f.world.token is None:
            raise unsupported("an effect of a function inside a comprehension or a derivative", e.span)
        actuals.append(f.world.token)
    if effects & RANDOM:
        actuals.append(passed_key(f))
    vars, (value,) = unpacked(f, arrow.result)
    outs = vars
    if effects & WORLD:
        token = fresh("world", anf.Token())
        f.world.token = token
        outs = (token, *vars)
    e.bind(anf.Call(arrow.function, (*actuals, function.handle.atom, *atoms[count:])), outs)
    return value
