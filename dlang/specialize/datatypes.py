"""Types that contain themselves: which they are, and what their nodes hold.

Such a type becomes a datatype of the program for its arguments at any sizes: a node holds the sizes of its fields.
A struct or an enum that does not contain itself stays flat. `Option<A>` in a struct A makes a node of the option, so A
is flat; only a struct that contains itself without an enum between, through an array or a function, is a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from dlang.diagnostics import error
from dlang.graphs import components, in_cycles
from dlang.ir import anf
from dlang.ir.anf import Scalar, fresh
from dlang.ir.types import I64
from dlang.specialize.analysis import RANDOM, WORLD
from dlang.specialize.emitter import Emitter
from dlang.specialize.frame import NO_SIZE, Frame, World, array_of
from dlang.specialize.keys import part_count
from dlang.specialize.layouts import Layout, layout_of, marked, placeholders
from dlang.specialize.types import (
    Bound,
    Mono,
    MonoArray,
    MonoData,
    MonoEnum,
    MonoFn,
    MonoName,
    MonoNode,
    MonoTuple,
    map_bound,
    named,
)
from dlang.typecheck import types as ty
from dlang.typecheck.unify import effects_root

LIMIT = 8  # instances of one declaration inside of each other: more are an endless family
Key = tuple[object, ...]


@dataclass(slots=True)
class Node:
    """A datatype: a declaration at arguments, whatever their sizes. `args` have another size in every place."""

    decl: ty.DataDecl
    args: tuple[Bound, ...]
    name: str
    label: str
    effects: frozenset[str]
    layouts: tuple[Layout, ...] = ()
    variants: tuple[anf.Variant, ...] = ()


@dataclass(slots=True)
class Nodes:
    """The types of a program that contain themselves."""

    serial: count[int]
    table: dict[Key, Node] = field(default_factory=dict)
    named: dict[str, Node] = field(default_factory=dict)
    flat: dict[Key, bool] = field(default_factory=dict)

    def type(self, decl: ty.DataDecl, args: tuple[Bound, ...]) -> MonoNode | None:
        """A struct or an enum that contains itself; None for one that does not."""
        key = name_key(decl, args)
        if key not in self.flat:
            self.flat |= flatness(decl, args, self.flat)
        if self.flat[key]:
            return None
        if key not in self.table:
            marked = tuple([marked_bound(a) for a in args])
            effects = effects_within(decl, args, {decl})
            node = Node(decl, marked, f"{decl.name}.{next(self.serial)}", label(MonoName(decl, args)), effects)
            self.table[key] = self.named[node.name] = node
        node = self.table[key]
        return MonoNode(decl, args, node.name, node.effects)

    def of(self, f: Frame, dtype: str) -> Node:
        """A datatype with its variants, which are found when they are first asked for."""
        node = self.named[dtype]
        if not node.variants:
            inner = Frame(Emitter(span=node.decl.span), World(None), f.instances)
            layouts, variants = [], []
            for tag, variant in enumerate(node.decl.variants):
                layout = layout_of(placeholders(inner.field_types(node.decl, node.args, tag)))
                layouts.append(layout)
                variants.append(anf.Variant(node.name, tag, variant.name, layout.vars))
            node.layouts, node.variants = tuple(layouts), tuple(variants)
        return node


# ---- which types contain themselves ----------------------------------------------------------------------------------
def flatness(decl: ty.DataDecl, args: tuple[Bound, ...], known: Mapping[Key, bool]) -> dict[Key, bool]:
    """Tells of a type, and of those that its fields lead to, which do not contain themselves.

    A type contains itself if a path of fields leads back to it; a struct, if such a path passes no enum. known: what is
    found already; none of these types leads to another one.
    """
    fields: dict[Key, list[Key]] = {}
    structs: set[Key] = set()
    # with the declarations of the types around each, and how large these are
    pending: list[tuple[Key, ty.DataDecl, tuple[Bound, ...], tuple[tuple[ty.DataDecl, int], ...]]] = [
        (name_key(decl, args), decl, args, ())
    ]
    while pending:
        key, outer, arguments, path = pending.pop()
        if key in fields:
            continue
        size = part_count(key)
        # a type in itself at smaller arguments, as in `Option<Option<f64>>`, comes to an end
        if sum(other is outer and around <= size for other, around in path) > LIMIT:
            raise error(
                "E0602",
                f"`{outer.name}` contains itself at endlessly many types",
                outer.span,
                help=("let it contain itself at its own parameters",),
            )
        if outer.is_struct:
            structs.add(key)
        inside = {name_key(inner, given): (inner, given) for inner, given in mentioned(outer, arguments)}
        fields[key] = [inner_key for inner_key in inside if inner_key not in known]
        pending += [(inner_key, *inside[inner_key], (*path, (outer, size))) for inner_key in fields[key]]
    of_structs = {key: [other for other in fields[key] if other in structs] for key in structs}
    circular, circular_structs = [in_cycles(graph, components(graph)) for graph in (fields, of_structs)]
    return {key: key not in (circular_structs if key in structs else circular) for key in fields}


def mentioned(decl: ty.DataDecl, args: tuple[Bound, ...]) -> Iterator[tuple[ty.DataDecl, tuple[Bound, ...]]]:
    """The structs and enums in the types of the fields, outermost only."""
    known = dict(zip(decl.params, args, strict=True))
    for variant in decl.variants:
        for _, t in variant.fields:
            yield from names_in(erased(t, known))


def effects_within(decl: ty.DataDecl, args: tuple[Bound, ...], seen: set[ty.DataDecl]) -> frozenset[str]:
    """Returns the effects of calling the functions in a value, by the types of the fields and the arguments."""
    effects: frozenset[str] = frozenset()
    for b in args:
        if isinstance(b, Mono):
            effects |= effects_in_type(b, seen)
    stack = [t for variant in decl.variants for _, t in variant.fields]
    while stack:
        t = ty.resolve(stack.pop())
        if isinstance(t, ty.TypeFn):
            effects |= effects_root(t.effects).names
        if isinstance(t, ty.TypeData) and t.decl not in seen:
            seen.add(t.decl)
            effects |= effects_within(t.decl, (), seen)
        stack.extend(x for x in ty.children(t) if not isinstance(x, ty.Size | ty.Shape))
    return effects & (WORLD | RANDOM)


def effects_in_type(m: Mono, seen: set[ty.DataDecl]) -> frozenset[str]:
    match m:
        case MonoFn():
            return m.effects
        case MonoArray(element, _):
            return effects_in_type(element, seen)
        case MonoTuple(items):
            return frozenset().union(*[effects_in_type(i, seen) for i in items])
        case MonoName(decl, args) | MonoNode(decl, args):
            return effects_within(decl, args, seen | {decl}) if decl not in seen else frozenset()
        case MonoData() | MonoEnum():
            return frozenset().union(*[effects_in_type(x, seen) for x in m.fields])
        case _:
            return frozenset()


def names_in(m: Mono) -> Iterator[tuple[ty.DataDecl, tuple[Bound, ...]]]:
    match m:
        case MonoName(decl, args) | MonoNode(decl, args):
            yield decl, args
        case MonoArray(element, _):
            yield from names_in(element)
        case MonoTuple(items):
            for item in items:
                yield from names_in(item)
        case MonoFn(params, result):
            for part in (*params, result):
                yield from names_in(named(part))
        case MonoData() | MonoEnum():
            for part in m.fields:
                yield from names_in(part)
        case _:
            return


def erased(t: ty.Type, known: dict[ty.Var, Bound]) -> Mono:
    """The type of a field by name, without sizes; a function is the tuple of what it takes and gives."""
    t = ty.resolve(t)
    match t:
        case ty.TypeCon(name):
            return Scalar(name)
        case ty.TypeVar():
            bound = known.get(t, MonoTuple(()))
            assert isinstance(bound, Mono)
            return named(bound)
        case ty.TypeArray(element, shape):
            return array_of(erased(element, known), erased_shape(shape, known))
        case ty.TypeTuple(items):
            return MonoTuple(tuple([erased(i, known) for i in items]))
        case ty.TypeFn(params, result):
            return MonoTuple(tuple([erased(p, known) for p in (*params, result)]))
        case ty.TypeData(decl, args):
            erased_args: list[Bound] = []
            for a in args:
                if isinstance(a, ty.Size):
                    erased_args.append(NO_SIZE)
                else:
                    erased_args.append(erased_shape(a, known) if isinstance(a, ty.Shape) else erased(a, known))
            return MonoName(decl, tuple(erased_args))


def erased_shape(s: ty.Shape, known: dict[ty.Var, Bound]) -> tuple[anf.Size, ...]:
    s = ty.resolve_shape(s)
    middle = known.get(s.row, ()) if s.row is not None else ()
    assert isinstance(middle, tuple)
    return (NO_SIZE,) * (len(s.pre) + len(middle) + len(s.post))


def name_key(decl: ty.DataDecl, args: tuple[Bound, ...]) -> Key:
    """A type by its name, whatever its sizes."""
    return (decl, *[bound_key(a) for a in args])


def bound_key(b: Bound) -> object:
    """Returns the key of a type, whatever its sizes."""
    match b:
        case tuple():
            return len(b)
        case MonoName(decl, args) | MonoNode(decl, args):
            return name_key(decl, args)
        case MonoArray(element, shape):
            return ("array", bound_key(element), len(shape))
        case MonoTuple(items):
            return ("tuple", *map(bound_key, items))
        case MonoFn():
            return ("function", b.dtype)
        case MonoData(decl, _, None) | MonoEnum(decl, _, None):
            return (decl, "of", *map(bound_key, b.fields))
        case MonoData(decl, _, args) | MonoEnum(decl, _, args) if args is not None:
            return name_key(decl, args)
        case Scalar(dtype):
            return dtype
        case _:
            return None


def marked_bound(b: Bound) -> Bound:
    if isinstance(b, Mono):
        return marked(b)
    return map_bound(b, lambda _: anf.poly(fresh("n", I64)))


def label(b: Bound) -> str:
    """A type as a person would write it, sizes left out."""
    match b:
        case MonoName(decl, args) | MonoNode(decl, args):
            inner = [label(a) for a in args]
            return decl.name + (f"<{', '.join(inner)}>" if inner else "")
        case MonoArray(element, shape):
            return f"{label(element)}[{', '.join('_' for _ in shape)}]"
        case MonoTuple(items):
            return f"({', '.join(map(label, items))})"
        case MonoFn(params, result):
            return f"({', '.join(map(label, params))}) -> {label(result)}"
        case MonoData(decl) | MonoEnum(decl):
            return decl.name
        case Scalar(dtype):
            return dtype
        case _:
            return "_"
