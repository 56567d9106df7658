"""What an expression evaluates to while it is specialised: leaves of the IR in the structure of its type.

A tuple or struct is known by its parts, a function by its code and what it captured; only scalars and arrays exist at
run time. An array of structures is one array per leaf, each with the axes of the whole in front (`Many`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Size, Var
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


FnV = ClosureV | DerivativeV
Value = ScalarV | ArrayV | TupleV | DataV | EnumV | Many | ClosureV | DerivativeV
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
    decl: DataDecl
    fields: tuple[Mono, ...]


@dataclass(frozen=True, slots=True)
class MonoEnum:
    decl: DataDecl
    variants: tuple[tuple[Mono, ...], ...]

    @property
    def fields(self) -> tuple[Mono, ...]:
        return tuple([x for variant in self.variants for x in variant])

    def map(self, function: Callable[[Mono], Mono]) -> MonoEnum:
        return MonoEnum(self.decl, tuple([tuple(map(function, variant)) for variant in self.variants]))


@dataclass(frozen=True, slots=True)
class MonoFn:
    """A function: which one is known by its value, not by its type."""


Mono = anf.Scalar | MonoArray | MonoTuple | MonoData | MonoEnum | MonoFn
Bindings = dict[TypeVar | SizeVar | RowVar, "Mono | Size | tuple[Size, ...]"]


# ---- leaves ----------------------------------------------------------------------------------------------------------
def leaves(v: Value) -> Iterator[Atom]:
    """The atoms of a value, in order; those that a function captured included."""
    match v:
        case ScalarV(atom):
            yield atom
        case ArrayV(var):
            yield var
        case TupleV(items) | DataV(_, items):
            for item in items:
                yield from leaves(item)
        case EnumV():
            for item in (v.tag, *v.fields):
                yield from leaves(item)
        case Many(_, element):
            yield from leaves(element)
        case ClosureV():
            for _, captured in v.captured:
                yield from leaves(captured)
        case DerivativeV():
            yield from leaves(v.function)
        case _:
            assert_never(v)


def rebuild(v: Value, atoms: Iterator[Atom], size: Callable[[Size], Size] = lambda s: s) -> Value:
    """The same structure over other leaves; `size` translates what the structure itself says of sizes."""
    match v:
        case ScalarV():
            return ScalarV(next(atoms))
        case ArrayV():
            var = next(atoms)
            assert isinstance(var, Var)
            return ArrayV(var)
        case TupleV(items):
            return TupleV(tuple([rebuild(i, atoms, size) for i in items]))
        case DataV(decl, fields):
            return DataV(decl, tuple([rebuild(f, atoms, size) for f in fields]))
        case EnumV():
            return v.map(lambda x: rebuild(x, atoms, size))
        case Many(shape, element):
            return Many(tuple(map(size, shape)), rebuild(element, atoms, size))
        case ClosureV(params, body, span, captured, bindings, decl):
            parts = tuple([(local, rebuild(c, atoms, size)) for local, c in captured])
            return ClosureV(params, body, span, parts, map_bindings(bindings, size), decl)
        case DerivativeV(kind, function, wrt, single, span):
            inner = rebuild(function, atoms, size)
            assert isinstance(inner, ClosureV | DerivativeV)
            return DerivativeV(kind, inner, wrt, single, span)
        case _:
            assert_never(v)


def map_bindings(bindings: Bindings, size: Callable[[Size], Size]) -> Bindings:
    def translated(b: Mono | Size | tuple[Size, ...]) -> Mono | Size | tuple[Size, ...]:
        if isinstance(b, tuple):
            return tuple(map(size, b))
        if isinstance(b, Poly):
            return size(b)
        return map_mono(b, size)

    return {k: translated(b) for k, b in bindings.items()}


def map_mono(m: Mono, size: Callable[[Size], Size]) -> Mono:
    match m:
        case MonoArray(element, shape):
            return MonoArray(map_mono(element, size), tuple(map(size, shape)))
        case MonoTuple(items):
            return MonoTuple(tuple([map_mono(i, size) for i in items]))
        case MonoData(decl, fields):
            return MonoData(decl, tuple([map_mono(f, size) for f in fields]))
        case MonoEnum():
            return m.map(lambda x: map_mono(x, size))
        case _:
            return m


def sizes_of(v: Value) -> Iterator[Size]:
    """Every size that the structure and the leaf types of a value mention, in order."""
    match v:
        case ScalarV():
            pass
        case ArrayV():
            yield from v.shape
        case TupleV(items) | DataV(_, items):
            for item in items:
                yield from sizes_of(item)
        case EnumV():
            for item in (v.tag, *v.fields):
                yield from sizes_of(item)
        case Many(shape, element):
            yield from shape
            yield from sizes_of(element)
        case ClosureV():
            for _, captured in v.captured:
                yield from sizes_of(captured)
            for b in v.bindings.values():
                yield from sizes_of_binding(b)
        case DerivativeV():
            yield from sizes_of(v.function)
        case _:
            assert_never(v)


def sizes_of_binding(b: Mono | Size | tuple[Size, ...]) -> Iterator[Size]:
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
        case MonoTuple(items) | MonoData(_, items):
            for item in items:
                yield from sizes_of_mono(item)
        case MonoEnum():
            for item in m.fields:
                yield from sizes_of_mono(item)


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
            what: object = v.decl if v.decl is not None else (v.span.source, v.span.start, v.span.end)
            captured = tuple([shape_key(c, size) for _, c in v.captured])
            return (what, captured, bindings_key(v.bindings, size))
        case DerivativeV(kind, function, wrt, single, _):
            return (kind, wrt, single, shape_key(function, size))
        case _:
            assert_never(v)


def bindings_key(bindings: Bindings, size: Callable[[Size], object]) -> object:
    def key(b: Mono | Size | tuple[Size, ...]) -> object:
        if isinstance(b, tuple):
            return tuple(map(size, b))
        if isinstance(b, Poly):
            return size(b)
        return mono_key(b, size)

    return tuple([(k.serial, key(b)) for k, b in bindings.items()])


def mono_key(m: Mono, size: Callable[[Size], object]) -> object:
    match m:
        case MonoArray(element, shape):
            return (mono_key(element, size), tuple(map(size, shape)))
        case MonoTuple(items):
            return tuple([mono_key(i, size) for i in items])
        case MonoData(decl, fields):
            return (decl, tuple([mono_key(f, size) for f in fields]))
        case MonoEnum():
            return (m.decl, tuple([mono_key(x, size) for x in m.fields]))
        case _:
            return m


def mono_of(v: Value) -> Mono:
    """The type of a value."""
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
        case ClosureV() | DerivativeV():
            return MonoFn()
        case _:
            assert_never(v)


def strip(m: Mono, axes: int) -> Mono:
    """The type of an element, from the type whose leaves all have `axes` more axes in front."""
    match m:
        case MonoArray(element, shape):
            return MonoArray(element, shape[axes:]) if len(shape) > axes else element
        case MonoTuple(items):
            return MonoTuple(tuple([strip(i, axes) for i in items]))
        case MonoData(decl, fields):
            return MonoData(decl, tuple([strip(f, axes) for f in fields]))
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
            return Many(front + shape, template(element, new, front + shape)) if not front else _many(m, new, front)
        case MonoTuple(items):
            return TupleV(tuple([template(i, new, front) for i in items]))
        case MonoData(decl, fields):
            return DataV(decl, tuple([template(f, new, front) for f in fields]))
        case MonoEnum(decl, variants):
            tag = template(anf.Scalar("i64"), new, front)
            return EnumV(decl, tag, tuple([tuple([template(f, new, front) for f in fields]) for fields in variants]))
        case MonoFn():
            raise AssertionError("a function has no type-determined representation")
        case _:
            assert_never(m)


def _many(m: MonoArray, new: Callable[[anf.Type], Atom], front: tuple[Size, ...]) -> Value:
    """An array of structures inside a structure that is itself an element: its own axes follow those in front."""
    return Many(m.shape, template(m.element, new, front + m.shape))


def _var(atom: Atom) -> Var:
    assert isinstance(atom, Var)
    return atom
