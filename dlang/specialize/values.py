"""The values of expressions during specialisation: leaves of the IR in the structure of their type.

A tuple or struct is known by its parts, a function by its code and what it captured; only scalars and arrays exist at
run time. An array of structures is one array per leaf, each with the axes of the whole in front (`Many`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from dlang.diagnostics import Span
from dlang.identity import ByIdentity
from dlang.ir import anf
from dlang.ir.anf import Atom, Size, Var, fresh
from dlang.ir.types import I64
from dlang.specialize.types import (
    STATIC,
    Bindings,
    Mono,
    MonoArray,
    MonoData,
    MonoEnum,
    MonoFn,
    MonoName,
    MonoNode,
    MonoTuple,
    bindings_key,
    map_bindings,
    map_node,
    mono_key,
    sizes_of_binding,
    sizes_of_mono,
    strip,
)
from dlang.typecheck import core
from dlang.typecheck.types import DataDecl


@dataclass(frozen=True, slots=True)
class ScalarV:
    atom: Atom

    @property
    def dtype(self) -> str:
        t = self.atom.type
        assert isinstance(t, anf.Scalar)
        return t.dtype


@dataclass(frozen=True, slots=True)
class ArrayV:
    var: Var

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def type(self) -> anf.Array:
        assert isinstance(self.var.type, anf.Array)
        return self.var.type

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.type.shape


@dataclass(frozen=True, slots=True)
class TupleV:
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class DataV:
    """A struct; the fields in order."""

    decl: DataDecl
    fields: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class EnumV:
    """An enum that does not contain itself: its tag (an i64), and the fields of every variant.

    Only those of the variant that the tag says mean anything; the others are zeros.
    """

    decl: DataDecl
    tag: Value
    variants: tuple[tuple[Value, ...], ...]

    @property
    def fields(self) -> tuple[Value, ...]:
        return tuple([x for variant in self.variants for x in variant])

    def over(self, tag: Value, fields: Iterator[Value]) -> EnumV:
        """The same enum with another tag and other fields, in order."""
        return EnumV(self.decl, tag, tuple([tuple([next(fields) for _ in variant]) for variant in self.variants]))

    def map(self, function: Callable[[Value], Value]) -> EnumV:
        return self.over(function(self.tag), iter([function(x) for x in self.fields]))


@dataclass(frozen=True, slots=True)
class Many:
    """An array of structures: `element` has the structure, each of its leaves the axes `shape` in front."""

    shape: tuple[Size, ...]
    element: Value


@dataclass(frozen=True, slots=True)
class ClosureV:
    """A lambda, or a named function, with what its free variables stand for. Compared by where it was written.

    decl: the named function, if it is one. bindings: the variables of its scheme and of the functions around it.
    forwards: whether nobody wrote it: a derivative as a function, or a lambda around a form that Python asked for. Its
    body is one call.
    """

    params: tuple[core.Local, ...]
    body: core.Expr
    span: Span
    captured: tuple[tuple[core.Local | core.FnDecl, Value], ...]
    bindings: Bindings
    decl: core.FnDecl | None = None
    forwards: bool = False
    codes: frozenset[object] | None = field(default=None, init=False, compare=False, repr=False)  # see `codes_in`
    effects: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)  # see `effects_of`


@dataclass(frozen=True, slots=True)
class DerivativeV:
    kind: str
    function: FnV
    wrt: tuple[int, ...]
    single: bool
    span: Span


@dataclass(frozen=True, slots=True)
class NodeV:
    """A value of a type that contains itself: a handle to a node (in an array of structures, an array of handles)."""

    type: MonoNode
    handle: Value


@dataclass(frozen=True, slots=True)
class DynamicV:
    """A function that is known only when the program runs: a handle to a node that says which, and what it captured."""

    type: MonoFn
    handle: Value


@dataclass(frozen=True, slots=True)
class PullV:
    """The pullback that `vjp` gives: cotangents of a result to those of arguments, any number of times.

    function, positions, seeded: as in `anf.VjpBackward`. result, targets: values of these types, over variables that
    nothing binds. held: the tape, then the i64 arguments; tags: of the enums in the result; rest: what the arguments
    hold that carries no derivative. single: whether there is one target, which is bare.
    """

    function: str
    positions: tuple[int, ...]
    seeded: tuple[bool, ...]
    result: Value
    targets: tuple[Value, ...]
    single: bool
    held: tuple[Value, ...]
    tags: tuple[Value, ...]
    rest: tuple[Value, ...]
    span: Span


KnownFn = ClosureV | DerivativeV | PullV
FnV = KnownFn | DynamicV
Value = ScalarV | ArrayV | TupleV | DataV | EnumV | Many | ClosureV | DerivativeV | PullV | NodeV | DynamicV
UNIT = TupleV(())


# ---- parts and leaves ------------------------------------------------------------------------------------------------
def parts(v: Value) -> tuple[Value, ...]:
    """Returns the direct parts of a structure, or the captures of a function."""
    match v:
        case ScalarV() | ArrayV():
            return ()
        case TupleV(items) | DataV(_, items):
            return items
        case EnumV():
            return (v.tag, *v.fields)
        case Many(_, element):
            return (element,)
        case ClosureV():
            return tuple([captured for _, captured in v.captured])
        case DerivativeV():
            return (v.function,)
        case PullV():
            return (*v.held, *v.tags, *v.rest)
        case NodeV(_, handle) | DynamicV(_, handle):
            return (handle,)
        case _:
            assert_never(v)


def with_parts(v: Value, new: Sequence[Value]) -> Value:
    """The same structure of other parts."""
    match v:
        case ScalarV() | ArrayV():
            return v
        case TupleV():
            return TupleV(tuple(new))
        case DataV(decl):
            return DataV(decl, tuple(new))
        case EnumV():
            return v.over(new[0], iter(new[1:]))
        case Many(shape, _):
            return Many(shape, new[0])
        case ClosureV(captured=captured):
            return replace(v, captured=tuple([(local, x) for (local, _), x in zip(captured, new, strict=True)]))
        case DerivativeV():
            inner = new[0]
            assert isinstance(inner, FnV)
            return replace(v, function=inner)
        case PullV():
            parts_left = iter(new)
            held, tags, rest = [tuple([next(parts_left) for _ in x]) for x in (v.held, v.tags, v.rest)]
            return replace(v, held=held, tags=tags, rest=rest)
        case NodeV(type, _):
            return NodeV(type, new[0])
        case DynamicV(type, _):
            return DynamicV(type, new[0])
        case _:
            assert_never(v)


def leaves(v: Value) -> Iterator[Atom]:
    """The atoms of a value, in order; those that a function captured included."""
    left = [v]
    while left:
        match left.pop():
            case ScalarV(atom):
                yield atom
            case ArrayV(var):
                yield var
            case structure:
                left += reversed(parts(structure))


def rebuild(v: Value, atoms: Iterator[Atom], size: Callable[[Size], Size] = lambda s: s) -> Value:
    """The same structure over other leaves; `size` translates what the structure itself says of sizes."""
    match v:
        case ScalarV() | ArrayV():
            return leaf_value(next(atoms))
        case _:
            return resized(with_parts(v, [rebuild(p, atoms, size) for p in parts(v)]), size)


def resized(v: Value, size: Callable[[Size], Size]) -> Value:
    """The value with the sizes translated that the head of the structure itself mentions."""
    match v:
        case Many(shape, element):
            return Many(tuple(map(size, shape)), element)
        case ClosureV(bindings=bindings):
            return replace(v, bindings=map_bindings(bindings, size))
        case PullV(result=result, targets=targets):
            mapped = [with_sizes(x, map(size, sizes_of(x))) for x in (result, *targets)]
            return replace(v, result=mapped[0], targets=tuple(mapped[1:]))
        case NodeV(type, handle):
            return NodeV(map_node(type, size), handle)
        case _:
            return v


def formal(v: Value, translate: Callable[[Size], Size]) -> Value:
    """A value like another over fresh variables, its sizes translated."""
    return rebuild(v, iter([formal_leaf(a, translate) for a in leaves(v)]), translate)


def formal_leaf(a: Atom, translate: Callable[[Size], Size]) -> Var:
    """A fresh variable in the place of a leaf, its sizes translated."""
    t = a.type
    name = a.name if isinstance(a, Var) else "x"
    return fresh(name, anf.Array(t.dtype, tuple(map(translate, t.shape))) if isinstance(t, anf.Array) else t)


def base_of(v: Value) -> Value:
    """The function that a derivative of a derivative is of."""
    while isinstance(v, DerivativeV):
        v = v.function
    return v


def contains_function(v: Value) -> bool:
    """Tells whether a value says more than its type: which functions are in it, or what they do."""
    if isinstance(v, NodeV):
        return bool(v.type.effects)
    return isinstance(v, FnV) or any(map(contains_function, parts(v)))


# ---- sizes -----------------------------------------------------------------------------------------------------------
def sizes_of(v: Value, front: tuple[Size, ...] = (), met: ByIdentity[Value, None] | None = None) -> Iterator[Size]:
    """Every size that the structure and the leaf types of a value mention, in order.

    The axes of an array of structures are mentioned once, though each of its leaves has them. front: such axes. met:
    the functions whose sizes were mentioned, by their identity, where each need be gone through only once.
    """
    if met is not None and isinstance(v, KnownFn):
        if v in met:
            return
        met[v] = None
    match v:
        case ArrayV():
            yield from v.shape[len(front) :]
        case Many(shape, _):
            yield from shape
            front = front + shape
        case NodeV(type, _):
            yield from sizes_of_mono(type)
        case ClosureV(bindings=bindings):
            for b in bindings.values():
                yield from sizes_of_binding(b)
        case PullV(result=result, targets=targets):
            for x in (result, *targets):
                yield from sizes_of(x)
        case _:
            pass
    for part in parts(v):
        yield from sizes_of(part, front, met)


def with_sizes(v: Value, given: Iterator[Size], front: tuple[Size, ...] = ()) -> Value:
    """The structure with every size, in the order of `sizes_of`, given anew. front: the axes before those of leaves."""
    match v:
        case ScalarV():
            return v
        case ArrayV():
            inner_shape = tuple([next(given) for _ in v.shape[len(front) :]])
            return ArrayV(fresh(v.var.name, anf.Array(v.dtype, front + inner_shape)))
        case _:
            outer = resized(v, lambda _: next(given))
            inside = front + outer.shape if isinstance(outer, Many) else front
            return with_parts(outer, [with_sizes(p, given, inside) for p in parts(v)])


# ---- keys ------------------------------------------------------------------------------------------------------------
def size_labels(order: dict[Size, int]) -> Callable[[Size], object]:
    """Labels of sizes for keys: a number that is known, or when the size came first. order: gets all others."""
    return lambda s: int(s.constant) if s.constant is not None else ("size", order.setdefault(s, len(order)))


def shape_key(v: Value, size: Callable[[Size], object]) -> object:
    """Returns the key of a value: structure, dtypes, ranks, functions, and what `size` says of each size."""

    def key(part: Value) -> object:
        return structure_key(part, size, key)

    return key(v)


def structure_key(v: Value, size: Callable[[Size], object], key: Callable[[Value], object]) -> object:
    """The key of a value with those of its parts, as `key` gives them."""
    match v:
        case ScalarV():
            return v.dtype
        case ArrayV():
            return (v.dtype, tuple(map(size, v.shape)))
        case TupleV(items):
            return ("tuple", tuple(map(key, items)))
        case DataV(decl, fields):
            return (decl, tuple(map(key, fields)))
        case EnumV():
            return (v.decl, key(v.tag), tuple(map(key, v.fields)))
        case Many(shape, element):
            return ("many", tuple(map(size, shape)), key(element))
        case ClosureV():
            captured = tuple([key(c) for _, c in v.captured])
            return (code_of(v), captured, bindings_key(v.bindings, size))
        case DerivativeV(kind, function, wrt, single, _):
            return (kind, wrt, single, key(function))
        case PullV():
            types = [shape_key(x, size) for x in (v.result, *v.targets)]
            return ("pull", v.function, v.positions, v.seeded, v.single, tuple(types), tuple(map(key, parts(v))))
        case NodeV(type, handle):
            return (mono_key(type, size), key(handle))
        case DynamicV(type, handle):
            return ("function", type.dtype, key(handle))
        case _:
            assert_never(v)


def alike(x: Value, y: Value) -> bool:
    """Tells whether two values have the same key, whatever their sizes are; a pair of functions is compared once."""
    met: ByIdentity[Value, ByIdentity[Value, None]] = ByIdentity()
    left = [(x, y)]
    while left:
        a, b = left.pop()
        others = met.get(a) or ByIdentity()
        if a is b or b in others:
            continue
        if isinstance(a, KnownFn):
            others[b] = None
            met[a] = others
        if type(a) is not type(b) or structure_key(a, _nothing, _nothing) != structure_key(b, _nothing, _nothing):
            return False
        left += zip(parts(a), parts(b), strict=True)
    return True


def _nothing(_: object) -> None:
    return None


def code_of(closure: ClosureV) -> object:
    """Returns the identity of a function's code."""
    return closure.decl if closure.decl is not None else (closure.span.source, closure.span.start, closure.span.end)


def same_code(v: Value, new: Value) -> Value:
    """The new value, of which what was found of one of the same code need not be found again."""
    if isinstance(v, ClosureV) and isinstance(new, ClosureV):
        object.__setattr__(new, "codes", v.codes)
        object.__setattr__(new, "effects", v.effects)
    return new


def codes_in(v: Value) -> frozenset[object]:
    """The code of the functions in a value that is no array, those that they captured included; found once for each."""
    match v:
        case ScalarV() | ArrayV() | Many() | NodeV() | DynamicV():
            return frozenset()
        case ClosureV():
            codes = v.codes
            if codes is None:
                codes = frozenset((code_of(v),)).union(*map(codes_in, parts(v)))
                object.__setattr__(v, "codes", codes)
            return codes
        case _:
            return frozenset[object]().union(*map(codes_in, parts(v)))


# ---- types and values ------------------------------------------------------------------------------------------------
def mono_of(v: Value) -> Mono:
    """The type of a value; that of a function that is known is its value, so it has none here."""
    match v:
        case ScalarV():
            return anf.Scalar(v.dtype)
        case ArrayV():
            return MonoArray(anf.Scalar(v.dtype), v.shape)
        case TupleV(items):
            return MonoTuple(tuple([mono_of(i) for i in items]))
        case DataV(decl, fields):
            return MonoData(decl, tuple([mono_of(f) for f in fields]))
        case EnumV(decl, _, variants):
            return MonoEnum(decl, tuple([tuple(map(mono_of, variant)) for variant in variants]))
        case Many(shape, element):
            return MonoArray(strip(mono_of(element), len(shape)), shape)
        case NodeV(type, _):
            return type
        case DynamicV(type, _):
            return type
        case ClosureV() | DerivativeV() | PullV():
            return STATIC
        case _:
            assert_never(v)


def template(m: Mono, new: Callable[[anf.Type], Atom], front: tuple[Size, ...] = ()) -> Value:
    """A value of a type, its leaves made by `new`; every leaf gets the axes `front` before its own."""
    match m:
        case anf.Scalar(dtype):
            if front:
                return ArrayV(leaf_var(new(anf.Array(dtype, front))))
            return ScalarV(new(m))
        case MonoArray(anf.Scalar(dtype), shape):
            return ArrayV(leaf_var(new(anf.Array(dtype, front + shape))))
        case MonoArray(element, shape):
            # Inside a structure that is itself an element, its own axes follow those in front.
            return Many(shape, template(element, new, front + shape))
        case MonoTuple(items):
            return TupleV(tuple([template(i, new, front) for i in items]))
        case MonoData(decl, fields):
            return DataV(decl, tuple([template(f, new, front) for f in fields]))
        case MonoEnum(decl, variants):
            tag = template(I64, new, front)
            return EnumV(decl, tag, tuple([tuple([template(f, new, front) for f in fields]) for fields in variants]))
        case MonoNode():
            return NodeV(m, template(anf.Scalar(m.dtype), new, front))
        case MonoFn():
            return DynamicV(m, template(anf.Scalar(m.dtype), new, front))
        case MonoName():
            raise AssertionError("a type by its name has no representation")
        case _:
            assert_never(m)


def named_leaf(name: str) -> Callable[[anf.Type], Atom]:
    """Makes leaves of one name, for `template`."""
    return lambda t: fresh(name, t)


def leaf_value(a: Atom) -> Value:
    """A leaf as a value."""
    return ArrayV(leaf_var(a)) if isinstance(a.type, anf.Array) else ScalarV(a)


def leaf_var(leaf: Atom) -> Var:
    """A leaf that is no literal."""
    assert isinstance(leaf, Var)
    return leaf


def leaf_vars(v: Value) -> list[Var]:
    """The leaves of a value none of which is a literal, as those of parameters and results."""
    return [leaf_var(a) for a in leaves(v)]
