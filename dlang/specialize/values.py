"""What an expression evaluates to while it is specialised: leaves of the IR in the structure of its type.

A tuple or struct is known by its parts, a function by its code and what it captured; only scalars and arrays exist at
run time. An array of structures is one array per leaf, each with the axes of the whole in front (`Many`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Size, Var, fresh
from dlang.polynomials import Poly
from dlang.typecheck import core
from dlang.typecheck.types import DataDecl, RowVar, SizeVar, TypeVar


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
    """

    params: tuple[core.Local, ...]
    body: core.Expr
    span: Span
    captured: tuple[tuple[core.Local | core.FnDecl, Value], ...]
    bindings: Bindings
    decl: core.FnDecl | None = None


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


FnV = ClosureV | DerivativeV | DynamicV
Value = ScalarV | ArrayV | TupleV | DataV | EnumV | Many | ClosureV | DerivativeV | NodeV | DynamicV
UNIT = TupleV(())


# ---- types without variables of a scheme -----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class MonoArray:
    element: Mono
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class MonoTuple:
    items: tuple[Mono, ...]


@dataclass(frozen=True, slots=True)
class MonoData:
    """args: the arguments of the declaration, by name (`named`); None where the type was read off a value."""

    decl: DataDecl
    fields: tuple[Mono, ...]
    args: tuple[Bound, ...] | None = None


@dataclass(frozen=True, slots=True)
class MonoEnum:
    """args: as in `MonoData`."""

    decl: DataDecl
    variants: tuple[tuple[Mono, ...], ...]
    args: tuple[Bound, ...] | None = None

    @property
    def fields(self) -> tuple[Mono, ...]:
        return tuple([x for variant in self.variants for x in variant])

    def map(self, function: Callable[[Mono], Mono]) -> MonoEnum:
        return MonoEnum(self.decl, tuple([tuple(map(function, variant)) for variant in self.variants]), self.args)


@dataclass(frozen=True, slots=True)
class MonoName:
    """A struct or an enum by its name, where its fields are not looked at: an argument of another."""

    decl: DataDecl
    args: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class MonoNode:
    """A type that contains itself, by its name; dtype: of its handles, one for all sizes in the arguments.

    effects: of the functions in it.
    """

    decl: DataDecl
    args: tuple[Bound, ...]
    dtype: str
    effects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MonoFn:
    """A function: which one is known by its value. The sizes in `params` and `result` mean nothing.

    dtype: of the handles to functions of this type that are known only when the program runs.
    """

    params: tuple[Mono, ...]
    result: Mono
    effects: frozenset[str]
    dtype: str


Mono = anf.Scalar | MonoArray | MonoTuple | MonoData | MonoEnum | MonoName | MonoNode | MonoFn
Bound = Mono | Size | tuple[Size, ...]
Bindings = dict[TypeVar | SizeVar | RowVar, Bound]


# ---- parts and leaves ------------------------------------------------------------------------------------------------
def parts(v: Value) -> tuple[Value, ...]:
    """What a structure directly consists of; what a function captured."""
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
            assert isinstance(inner, ClosureV | DerivativeV | DynamicV)
            return replace(v, function=inner)
        case NodeV(type, _):
            return NodeV(type, new[0])
        case DynamicV(type, _):
            return DynamicV(type, new[0])
        case _:
            assert_never(v)


def leaves(v: Value) -> Iterator[Atom]:
    """The atoms of a value, in order; those that a function captured included."""
    match v:
        case ScalarV(atom):
            yield atom
        case ArrayV(var):
            yield var
        case _:
            for part in parts(v):
                yield from leaves(part)


def rebuild(v: Value, atoms: Iterator[Atom], size: Callable[[Size], Size] = lambda s: s) -> Value:
    """The same structure over other leaves; `size` translates what the structure itself says of sizes."""
    match v:
        case ScalarV() | ArrayV():
            a = next(atoms)
            return ArrayV(_var(a)) if isinstance(a.type, anf.Array) else ScalarV(a)
        case _:
            return resized(with_parts(v, [rebuild(p, atoms, size) for p in parts(v)]), size)


def resized(v: Value, size: Callable[[Size], Size]) -> Value:
    """The value with the sizes translated that the head of the structure itself mentions."""
    match v:
        case Many(shape, element):
            return Many(tuple(map(size, shape)), element)
        case ClosureV(bindings=bindings):
            return replace(v, bindings=map_bindings(bindings, size))
        case NodeV(type, handle):
            return NodeV(map_node(type, size), handle)
        case _:
            return v


def formal(v: Value, translate: Callable[[Size], Size]) -> Value:
    """A value like another over fresh variables, its sizes translated."""
    atoms: list[Atom] = []
    for a in leaves(v):
        t = a.type
        name = a.name if isinstance(a, Var) else "x"
        atoms.append(fresh(name, anf.Array(t.dtype, tuple(map(translate, t.shape))) if isinstance(t, anf.Array) else t))
    return rebuild(v, iter(atoms), translate)


def contains_function(v: Value) -> bool:
    """Whether a value says more than its type: which functions are in it, or what they do."""
    if isinstance(v, NodeV):
        return bool(v.type.effects)
    return isinstance(v, ClosureV | DerivativeV | DynamicV) or any(map(contains_function, parts(v)))


# ---- sizes -----------------------------------------------------------------------------------------------------------
def map_bound(b: Bound, size: Callable[[Size], Size]) -> Bound:
    if isinstance(b, tuple):
        return tuple(map(size, b))
    if isinstance(b, Poly):
        return size(b)
    return map_mono(b, size)


def map_bindings(bindings: Bindings, size: Callable[[Size], Size]) -> Bindings:
    return {k: map_bound(b, size) for k, b in bindings.items()}


def map_mono(m: Mono, size: Callable[[Size], Size]) -> Mono:
    """The type with its sizes translated, in the order of `sizes_of_mono`."""
    match m:
        case MonoArray(element, shape):
            outer = tuple(map(size, shape))
            return MonoArray(map_mono(element, size), outer)
        case MonoTuple(items):
            return MonoTuple(tuple([map_mono(i, size) for i in items]))
        case MonoData(decl, fields, args):
            return MonoData(decl, tuple([map_mono(f, size) for f in fields]), map_args(args, size))
        case MonoEnum(decl, variants, args):
            mapped = tuple([tuple([map_mono(x, size) for x in variant]) for variant in variants])
            return MonoEnum(decl, mapped, map_args(args, size))
        case MonoName(decl, args):
            return MonoName(decl, tuple([map_bound(a, size) for a in args]))
        case MonoNode():
            return map_node(m, size)
        case _:
            return m


def map_args(args: tuple[Bound, ...] | None, size: Callable[[Size], Size]) -> tuple[Bound, ...] | None:
    return None if args is None else tuple([map_bound(a, size) for a in args])


def map_node(m: MonoNode, size: Callable[[Size], Size]) -> MonoNode:
    return replace(m, args=tuple([map_bound(a, size) for a in m.args]))


def sizes_of(v: Value) -> Iterator[Size]:
    """Every size that the structure and the leaf types of a value mention, in order."""
    match v:
        case ArrayV():
            yield from v.shape
        case Many(shape, _):
            yield from shape
        case NodeV(type, _):
            yield from sizes_of_mono(type)
        case ClosureV(bindings=bindings):
            for b in bindings.values():
                yield from sizes_of_binding(b)
        case _:
            pass
    for part in parts(v):
        yield from sizes_of(part)


def with_sizes(v: Value, given: Iterator[Size]) -> Value:
    """The structure with every size, in the order of `sizes_of`, given anew."""
    match v:
        case ScalarV():
            return v
        case ArrayV():
            return ArrayV(fresh(v.var.name, anf.Array(v.dtype, tuple([next(given) for _ in v.shape]))))
        case _:
            outer = resized(v, lambda _: next(given))
            return with_parts(outer, [with_sizes(p, given) for p in parts(v)])


def sizes_of_binding(b: Bound) -> Iterator[Size]:
    if isinstance(b, tuple):
        yield from b
    elif isinstance(b, Poly):
        yield b
    else:
        yield from sizes_of_mono(b)


def sizes_of_mono(m: Mono) -> Iterator[Size]:
    match m:
        case MonoArray(element, shape):
            yield from shape
            yield from sizes_of_mono(element)
        case MonoTuple(items):
            for item in items:
                yield from sizes_of_mono(item)
        case MonoData() | MonoEnum():
            for item in m.fields:
                yield from sizes_of_mono(item)
            for a in m.args or ():
                yield from sizes_of_binding(a)
        case MonoName(_, args) | MonoNode(_, args):
            for a in args:
                yield from sizes_of_binding(a)
        case _:
            return


# ---- keys ------------------------------------------------------------------------------------------------------------
def shape_key(v: Value, size: Callable[[Size], object]) -> object:
    """What an instance depends on: structure, dtypes, ranks, functions, and what `size` says of each size."""
    match v:
        case ScalarV():
            return v.dtype
        case ArrayV():
            return (v.dtype, tuple(map(size, v.shape)))
        case TupleV(items):
            return ("tuple", tuple([shape_key(i, size) for i in items]))
        case DataV(decl, fields):
            return (decl, tuple([shape_key(f, size) for f in fields]))
        case EnumV():
            return (v.decl, shape_key(v.tag, size), tuple([shape_key(x, size) for x in v.fields]))
        case Many(shape, element):
            return ("many", tuple(map(size, shape)), shape_key(element, size))
        case ClosureV():
            captured = tuple([shape_key(c, size) for _, c in v.captured])
            return (code_of(v), captured, bindings_key(v.bindings, size))
        case DerivativeV(kind, function, wrt, single, _):
            return (kind, wrt, single, shape_key(function, size))
        case NodeV(type, handle):
            return (mono_key(type, size), shape_key(handle, size))
        case DynamicV(type, handle):
            return ("function", type.dtype, shape_key(handle, size))
        case _:
            assert_never(v)


def code_of(closure: ClosureV) -> object:
    """What identifies the code of a function."""
    return closure.decl if closure.decl is not None else (closure.span.source, closure.span.start, closure.span.end)


def bindings_key(bindings: Bindings, size: Callable[[Size], object]) -> object:
    return tuple([(k.serial, bound_key(b, size)) for k, b in bindings.items()])


def bound_key(b: Bound, size: Callable[[Size], object]) -> object:
    if isinstance(b, tuple):
        return tuple(map(size, b))
    if isinstance(b, Poly):
        return size(b)
    return mono_key(b, size)


def mono_key(m: Mono, size: Callable[[Size], object]) -> object:
    match m:
        case MonoArray(element, shape):
            return (mono_key(element, size), tuple(map(size, shape)))
        case MonoTuple(items):
            return tuple([mono_key(i, size) for i in items])
        case MonoData(decl) | MonoEnum(decl):
            own = tuple([bound_key(a, size) for a in m.args or ()])
            return (decl, tuple([mono_key(x, size) for x in m.fields]), own)
        case MonoName(decl, args):
            return (decl, tuple([bound_key(a, size) for a in args]))
        case MonoNode(_, args, dtype):
            return (dtype, tuple([bound_key(a, size) for a in args]))
        case MonoFn():
            return ("function", m.dtype)
        case _:
            return m


# ---- types and values ------------------------------------------------------------------------------------------------
def named(m: Mono) -> Mono:
    """The type with structs and enums by their names, as far as they are known: what stands in the arguments of one."""
    match m:
        case MonoArray(element, shape):
            return MonoArray(named(element), shape)
        case MonoTuple(items):
            return MonoTuple(tuple(map(named, items)))
        case MonoData(decl, _, args) | MonoEnum(decl, _, args) if args is not None:
            return MonoName(decl, args)
        case _:
            return m


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
        case ClosureV() | DerivativeV():
            return STATIC
        case _:
            assert_never(v)


STATIC = MonoFn((), MonoTuple(()), frozenset(), "function")


def strip(m: Mono, axes: int) -> Mono:
    """The type of an element, from the type whose leaves all have `axes` more axes in front."""
    match m:
        case MonoArray(element, shape):
            return MonoArray(element, shape[axes:]) if len(shape) > axes else element
        case MonoTuple(items):
            return MonoTuple(tuple([strip(i, axes) for i in items]))
        case MonoData(decl, fields, args):
            return MonoData(decl, tuple([strip(f, axes) for f in fields]), args)
        case MonoEnum():
            return m.map(lambda x: strip(x, axes))
        case _:
            return m


def template(m: Mono, new: Callable[[anf.Type], Atom], front: tuple[Size, ...] = ()) -> Value:
    """A value of a type, its leaves made by `new`; every leaf gets the axes `front` before its own."""
    match m:
        case anf.Scalar(dtype):
            if front:
                return ArrayV(_var(new(anf.Array(dtype, front))))
            return ScalarV(new(m))
        case MonoArray(anf.Scalar(dtype), shape):
            return ArrayV(_var(new(anf.Array(dtype, front + shape))))
        case MonoArray(element, shape):
            # Inside a structure that is itself an element, its own axes follow those in front.
            return Many(shape, template(element, new, front + shape))
        case MonoTuple(items):
            return TupleV(tuple([template(i, new, front) for i in items]))
        case MonoData(decl, fields):
            return DataV(decl, tuple([template(f, new, front) for f in fields]))
        case MonoEnum(decl, variants):
            tag = template(anf.Scalar("i64"), new, front)
            return EnumV(decl, tag, tuple([tuple([template(f, new, front) for f in fields]) for fields in variants]))
        case MonoNode():
            return NodeV(m, template(anf.Scalar(m.dtype), new, front))
        case MonoFn():
            return DynamicV(m, template(anf.Scalar(m.dtype), new, front))
        case MonoName():
            raise AssertionError("a type by its name has no representation")
        case _:
            assert_never(m)


def _var(atom: Atom) -> Var:
    assert isinstance(atom, Var)
    return atom
