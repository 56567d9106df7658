"""Types at an instance: without variables of a scheme, their sizes polynomials over variables of the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dlang.ir import terms
from dlang.ir.terms import Size
from dlang.polynomials import Poly
from dlang.typecheck.types import DataDecl, RowVar, SizeVar, TypeVar


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


Mono = terms.Scalar | MonoArray | MonoTuple | MonoData | MonoEnum | MonoName | MonoNode | MonoFn
Bound = Mono | Size | tuple[Size, ...]
Bindings = dict[TypeVar | SizeVar | RowVar, Bound]


STATIC = MonoFn((), MonoTuple(()), frozenset(), "function")


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


def sizes_of_binding(b: Bound) -> Iterator[Size]:
    if isinstance(b, tuple):
        yield from b
    elif isinstance(b, Poly):
        yield b
    else:
        yield from sizes_of_mono(b)


def entry_sizes(variables: Sequence[TypeVar | SizeVar | RowVar], bindings: Bindings) -> list[Size]:
    """The sizes in bindings of a function's variables, in the order in which its entry takes them."""
    return [s for v in variables if v in bindings for s in sizes_of_binding(bindings[v])]


def sizes_of_mono(m: Mono) -> Iterator[Size]:
    """Every size in a type, in the order in which it is written."""
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
            argument_keys = tuple([bound_key(a, size) for a in m.args or ()])
            return (decl, tuple([mono_key(x, size) for x in m.fields]), argument_keys)
        case MonoName(decl, args):
            return (decl, tuple([bound_key(a, size) for a in args]))
        case MonoNode(_, args, dtype):
            return (dtype, tuple([bound_key(a, size) for a in args]))
        case MonoFn():
            return ("function", m.dtype)
        case _:
            return m


# ---- parts -----------------------------------------------------------------------------------------------------------
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
