"""One activation while a function is specialised: what its locals and the variables of its scheme stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Span, error
from dlang.ir import anf
from dlang.ir.anf import Atom, Let, Size, Var, poly
from dlang.ir.types import I64
from dlang.polynomials import Poly
from dlang.specialize.emitter import Emitter
from dlang.specialize.types import (
    Bindings,
    Bound,
    Mono,
    MonoArray,
    MonoData,
    MonoEnum,
    MonoName,
    MonoNode,
    MonoTuple,
    map_bound,
    named,
)
from dlang.specialize.values import (
    ArrayV,
    ClosureV,
    DataV,
    DynamicV,
    EnumV,
    Many,
    NodeV,
    ScalarV,
    TupleV,
    Value,
    leaf_var,
    leaves,
    mono_of,
)
from dlang.typecheck import core, types as ty
from dlang.typecheck.unify import effects_root

if TYPE_CHECKING:
    from dlang.specialize.instances import Instances


ZERO_WORD = anf.Lit(0, "u64")


@dataclass(slots=True)
class Level:
    """The level at which random events are numbered: in a function, at an element of a comprehension, in an iteration
    of a loop.

    key, place: each a u64. path: the events (lambdas and arms) inside of which the code is. forwards: whether the code
    is one call, to which the key is passed as it is. See `randomness.py`.
    """

    key: Atom
    stem: int = 0
    place: Atom = ZERO_WORD
    path: tuple[int, ...] = ()
    events: int = 0
    forwards: bool = False


@dataclass(slots=True)
class World:
    """Effects of the function being emitted.

    token: None where the world can't be touched (inside a comprehension). level: None where nothing can be drawn.
    """

    token: Atom | None
    level: Level | None = None


@dataclass(frozen=True, slots=True)
class Exits:
    """Flags that `return`, `break` and `continue` set, as mutable locals of the frame; `result` is what is returned.

    nested: inside comes another binder of the same `for`, which is left by the same flag.
    """

    returned: core.Local | None = None
    result: core.Local | None = None
    broken: core.Local | None = None
    continued: core.Local | None = None
    nested: bool = False

    def of(self, kinds: frozenset[str]) -> list[core.Local]:
        """The flags that ways of leaving set."""
        named = {"return": self.returned, "break": self.broken, "continue": self.continued}
        return [flag for kind, flag in named.items() if kind in kinds and flag is not None]


@dataclass(slots=True)
class Frame:
    """env: what locals and local functions stand for now."""

    emitter: Emitter
    world: World
    instances: Instances
    bindings: Bindings = field(default_factory=dict)
    env: dict[core.Local | core.FnDecl, Value] = field(default_factory=dict)
    exits: Exits = Exits()
    erased: bool = False  # whether sizes are not asked for

    def inner(self, bindings: Bindings, env: dict[core.Local | core.FnDecl, Value]) -> Frame:
        """A frame of the same IR function for another body."""
        return Frame(self.emitter, self.world, self.instances, bindings, env)

    @contextmanager
    def block(self) -> Iterator[list[Let]]:
        """A block of the emitter; sizes and types that are named inside are forgotten after it."""
        bindings, self.bindings = self.bindings, dict(self.bindings)
        try:
            with self.emitter.block() as lets:
                yield lets
        finally:
            self.bindings = bindings

    def eval(self, e: core.Expr) -> Value:
        return self.instances.evaluate(self, e)

    def atom(self, e: core.Expr) -> Atom:
        """The value of an expression that is a scalar."""
        return scalar(self.eval(e))

    def knows(self, s: ty.Size) -> bool:
        """Tells whether what a size mentions has a value here."""
        return all(
            self.knows(a.dividend) and self.knows(a.divisor) if isinstance(a, ty.Floor) else a in self.bindings
            for a in ty.resolve_size(s).poly.atoms()
        )

    def define(self, local: core.Local, v: Value) -> bool:
        """Binds a local that is a `size` of types, so that its uses are uses of that size; tells if it is one."""
        size = None if local.size is None else ty.Size(Poly.of(local.size))
        if size is None or self.erased or not self.knows(size):
            return False
        self.emitter.definitions[leaf_var(scalar(v))] = self.size(size)
        return True

    def name_sizes(self, captured: Iterable[tuple[core.Local | core.FnDecl, Value]]) -> None:
        """Types may mention numbers that a function has captured: an element of an array of functions has its own."""
        for local, v in captured:
            if isinstance(local, core.Local) and local.size is not None and isinstance(v, ScalarV):
                if not self.knows(ty.Size(Poly.of(local.size))):
                    self.bindings[local.size] = self.emitter.sized(v.atom)

    def name(self, local: core.Local, span: Span | None = None) -> None:
        """Marks what a local stands for now, if names are wanted."""
        names = self.instances.names
        if names is not None:
            self.env[local] = names.mark(self.emitter, local, self.env[local], span)

    def name_all(self, closure: ClosureV) -> None:
        """Marks what a function begins with: what it has captured, and its parameters."""
        captured = [local for local, _ in closure.captured if isinstance(local, core.Local)]
        for local in (*captured, *closure.params):
            self.name(local, local.span)

    def bool(self, e: core.Expr) -> Atom:
        return self.atom(e)

    # ---- types at this instance ----
    def mono(self, t: ty.Type) -> Mono:
        """A type, with the variables of the scheme replaced by what they stand for here."""
        t = ty.resolve(t)
        match t:
            case ty.TypeCon(name):
                return anf.Scalar(name)
            case ty.TypeVar():
                bound = self.bindings.get(t)
                if bound is not None:
                    assert not isinstance(bound, Poly | tuple)
                    return bound
                if t.literal is not None or "Float" in t.classes or "Num" in t.classes:
                    return anf.Scalar("i64" if t.literal == "int" and "Float" not in t.classes else "f64")
                return MonoTuple(())
            case ty.TypeArray(element, shape):
                return array_of(self.mono(element), self.shape(shape))
            case ty.TypeTuple(items):
                return MonoTuple(tuple([self.mono(i) for i in items]))
            case ty.TypeFn(params, result, effects):
                inner = self.erasing()
                parameters = tuple([inner.mono(p) for p in params])
                return self.instances.arrow(parameters, inner.mono(result), frozenset(effects_root(effects).names))
            case ty.TypeData(decl, args):
                return self.data(decl, tuple([self.argument(a) for a in args]))

    def by_name(self, t: ty.Type) -> Mono:
        """A type whose structs and enums are not looked into."""
        t = ty.resolve(t)
        match t:
            case ty.TypeData(decl, args):
                arguments = tuple([self.argument(a) for a in args])
                return self.instances.node_type(decl, arguments) or MonoName(decl, arguments)
            case ty.TypeArray(element, shape):
                return array_of(self.by_name(element), self.shape(shape))
            case ty.TypeTuple(items):
                return MonoTuple(tuple([self.by_name(i) for i in items]))
            case _:
                return named(self.mono(t))

    def argument(self, term: ty.Type | ty.Size | ty.Shape) -> Bound:
        """An argument of a struct or an enum, by name."""
        if isinstance(term, ty.Size):
            return self.size(term)
        return self.shape(term) if isinstance(term, ty.Shape) else self.by_name(term)

    def data(self, decl: ty.DataDecl, args: tuple[Bound, ...]) -> Mono:
        """A struct or an enum at arguments: one that contains itself is known by its name only."""
        node = self.instances.node_type(decl, args)
        if node is not None:
            return node
        inner = self.declared(decl, args)
        variants = tuple([inner.fields(v) for v in decl.variants])
        return MonoData(decl, variants[0], args) if decl.is_struct else MonoEnum(decl, variants, args)

    def field_types(self, decl: ty.DataDecl, args: tuple[Bound, ...], tag: int) -> tuple[Mono, ...]:
        """The types of the fields of a variant, at the arguments of its declaration."""
        return self.declared(decl, args).fields(decl.variants[tag])

    def declared(self, decl: ty.DataDecl, args: tuple[Bound, ...]) -> Frame:
        """A frame for the types of fields, at the arguments of a declaration."""
        return self.inner({p: self.expanded(a) for p, a in zip(decl.params, args, strict=True)}, {})

    def fields(self, variant: ty.Variant) -> tuple[Mono, ...]:
        """The types of the fields of a variant of the declaration that this frame is for."""
        return tuple([self.mono(t) for _, t in variant.fields])

    def expanded(self, b: Bound) -> Bound:
        """Expands types known by name to those with their fields."""
        match b:
            case MonoName(decl, args):
                return self.data(decl, args)
            case MonoArray(element, shape):
                inner = self.expanded(element)
                assert not isinstance(inner, Poly | tuple)
                return MonoArray(inner, shape)
            case MonoTuple(items):
                parts = [self.expanded(i) for i in items]
                return MonoTuple(tuple([i for i in parts if not isinstance(i, Poly | tuple)]))
            case _:
                return b

    def erasing(self) -> Frame:
        """A frame for types whose sizes do not matter."""
        inner = self.inner({v: map_bound(b, lambda _: NO_SIZE) for v, b in self.bindings.items()}, {})
        inner.erased = True
        return inner

    def binding(self, term: ty.Type | ty.Size | ty.Shape) -> Bound:
        """Returns the binding of a variable to a term."""
        if isinstance(term, ty.Size):
            return self.size(term)
        return self.shape(term) if isinstance(term, ty.Shape) else self.mono(term)

    def shape(self, s: ty.Shape) -> tuple[Size, ...]:
        s = ty.resolve_shape(s)
        pre, post = tuple([self.size(x) for x in s.pre]), tuple([self.size(x) for x in s.post])
        if s.row is None:
            return pre + post
        middle = self.bindings.get(s.row, ())
        assert isinstance(middle, tuple)
        return pre + middle + post

    def size(self, s: ty.Size) -> Size:
        """The polynomial of a size; a floor is computed here, and an exact division checked."""
        if self.erased:
            return NO_SIZE
        out = poly(0)
        for monomial, c in ty.resolve_size(s).poly.terms.items():
            term = poly(1)
            for a in monomial:
                term = term * self.size_atom(a)
            out = out + term * Poly[Var]({(): c})
        return self.emitter.divided(out)

    def size_atom(self, a: ty.SizeAtom) -> Size:
        if isinstance(a, ty.Floor):
            return self.emitter.floor(self.size(a.dividend), self.size(a.divisor))
        bound = self.bindings.get(a)
        if bound is None:
            raise AssertionError(f"size {a.name or a.serial} is not known at {self.emitter.span!r}")
        assert isinstance(bound, Poly)
        return bound

    def dtype(self, t: ty.Type) -> str:
        """The dtype of a scalar type, or of the elements of an array."""
        t = ty.resolve(t)
        m = self.mono(t.element if isinstance(t, ty.TypeArray) else t)
        if isinstance(m, MonoArray):
            m = m.element
        assert isinstance(m, anf.Scalar), m
        return m.dtype

    def bind_sizes(self, t: ty.Type, v: Value, wanted: Iterable[ty.SizeVar]) -> None:
        """Finds what the size variables `wanted` stand for by comparing a type with its value."""
        missing = {w for w in wanted if w not in self.bindings}
        if missing:
            self._match(t, mono_of(v), missing)

    def _match(self, t: ty.Type, m: Mono, missing: set[ty.SizeVar]) -> None:
        t = ty.resolve(t)
        match t, m:
            case ty.TypeArray(element, shape), MonoArray(e, dims):
                s = ty.resolve_shape(shape)
                for size, dim in zip(s.pre, dims, strict=False):
                    self._match_size(size, dim, missing)
                if s.post:
                    for size, dim in zip(s.post, dims[-len(s.post) :], strict=True):
                        self._match_size(size, dim, missing)
                self._match(element, e, missing)
            case ty.TypeTuple(items), MonoTuple(parts):
                for item, part in zip(items, parts, strict=True):
                    self._match(item, part, missing)
            case ty.TypeData(_, args), (MonoNode(_, parts) | MonoName(_, parts)):
                for argument, bound in zip(args, parts, strict=True):
                    self._match_argument(argument, bound, missing)
            case ty.TypeData(decl, args), MonoData(_, parts):
                inner: dict[ty.Var, ty.Type | ty.Size | ty.Shape] = dict(zip(decl.params, args, strict=True))
                for (_, field_type), part in zip(decl.variants[0].fields, parts, strict=True):
                    self._match(substituted(field_type, inner), part, missing)
            case ty.TypeData(decl, args), MonoEnum():
                by: dict[ty.Var, ty.Type | ty.Size | ty.Shape] = dict(zip(decl.params, args, strict=True))
                fields = [t for variant in decl.variants for _, t in variant.fields]
                for field_type, part in zip(fields, m.fields, strict=True):
                    self._match(substituted(field_type, by), part, missing)

    def _match_argument(self, argument: ty.Type | ty.Size | ty.Shape, b: Bound, missing: set[ty.SizeVar]) -> None:
        match argument:
            case ty.Size():
                assert isinstance(b, Poly)
                self._match_size(argument, b, missing)
            case ty.Shape():
                assert isinstance(b, tuple)
                s = ty.resolve_shape(argument)
                ends = (*zip(s.pre, b, strict=False), *zip(reversed(s.post), reversed(b), strict=False))
                for size, dim in ends:
                    self._match_size(size, dim, missing)
            case _:
                assert not isinstance(b, Poly | tuple)
                self._match(argument, b, missing)

    def _match_size(self, size: ty.Size, dim: Size, missing: set[ty.SizeVar]) -> None:
        p = ty.resolve_size(size).poly
        a = p.atom
        if isinstance(a, ty.SizeVar):
            if a in missing:
                self.bindings[a] = dim
                missing.discard(a)
            return
        for a in dict.fromkeys(p.atoms()):
            if isinstance(a, ty.SizeVar) and a in missing:
                k = p.coefficient(a).constant
                if k is not None and abs(k) == 1:
                    others = self.size(ty.Size(p.without(a)))
                    self.bindings[a] = (dim - others) * int(k)
                    missing.discard(a)

    # ---- values ----
    def fit(self, v: Value, wanted: Mono, front: tuple[Size, ...] = ()) -> Value:
        """The value under a type that the checker proved equal but whose sizes are written otherwise.

        Where it is not plain that the sizes are equal, they are compared when it runs: what comes out of a node has
        sizes of its own. front: the axes of the array whose element the structure is.
        """
        match v, wanted:
            case ArrayV(var), MonoArray(_, shape):
                return ArrayV(self.emitter.resized(var, front + shape))
            case ArrayV(var), _ if front:
                return ArrayV(self.emitter.resized(var, front))
            case TupleV(items), MonoTuple(parts):
                return TupleV(tuple([self.fit(i, p, front) for i, p in zip(items, parts, strict=True)]))
            case DataV(decl, fields), MonoData(_, parts):
                return DataV(decl, tuple([self.fit(x, p, front) for x, p in zip(fields, parts, strict=True)]))
            case EnumV(), MonoEnum():
                fitted = [self.fit(x, p, front) for x, p in zip(v.fields, wanted.fields, strict=True)]
                return v.over(self.fit(v.tag, I64, front), iter(fitted))
            case Many(_, element), MonoArray(e, shape):
                return Many(shape, self.fit(element, e, front + shape))
            case NodeV(type, handle), MonoNode() if type.dtype == wanted.dtype:
                return NodeV(wanted, self.fit(handle, anf.Scalar(wanted.dtype), front))
            case DynamicV(type, handle), _:
                return DynamicV(type, self.fit(handle, anf.Scalar(type.dtype), front))
        return v


NO_SIZE = poly(0)


def array_of(element: Mono, shape: tuple[Size, ...]) -> Mono:
    """The array type; its element is never an array."""
    if not shape:
        return element
    if isinstance(element, MonoArray):
        return MonoArray(element.element, shape + element.shape)
    return MonoArray(element, shape)


def scalar(v: Value) -> Atom:
    """The atom of a scalar value."""
    (atom,) = leaves(v)
    return atom


def substituted(t: ty.Type, by: dict[ty.Var, ty.Type | ty.Size | ty.Shape]) -> ty.Type:
    """A field's type with the parameters of its declaration replaced."""
    t = ty.resolve(t)

    def size(s: ty.Size) -> ty.Size:
        def one(a: ty.SizeAtom) -> Poly[ty.SizeAtom] | None:
            if isinstance(a, ty.SizeVar):
                replacement = by.get(a)
                return replacement.poly if isinstance(replacement, ty.Size) else None
            return ty.floor_div(size(a.dividend), size(a.divisor)).poly

        return ty.Size(ty.resolve_size(s).poly.substitute(one), s.origin)

    def axes(shape: ty.Shape) -> ty.Shape:
        s = ty.resolve_shape(shape)
        row = by.get(s.row) if s.row is not None else None
        pre, post = tuple(map(size, s.pre)), tuple(map(size, s.post))
        if isinstance(row, ty.Shape):
            return ty.Shape(pre + row.pre, row.row, row.post + post)
        return ty.Shape(pre, s.row, post)

    def argument(a: ty.Type | ty.Size | ty.Shape) -> ty.Type | ty.Size | ty.Shape:
        return size(a) if isinstance(a, ty.Size) else axes(a) if isinstance(a, ty.Shape) else substituted(a, by)

    match t:
        case ty.TypeVar():
            replacement = by.get(t, t)
            assert not isinstance(replacement, ty.Size | ty.Shape)
            return replacement
        case ty.TypeArray(element, shape):
            return ty.TypeArray(substituted(element, by), axes(shape))
        case ty.TypeTuple(items):
            return ty.TypeTuple(tuple([substituted(i, by) for i in items]))
        case ty.TypeFn(params, result, effects, opened):
            return ty.TypeFn(tuple([substituted(p, by) for p in params]), substituted(result, by), effects, opened)
        case ty.TypeData(decl, args):
            return ty.TypeData(decl, tuple(map(argument, args)))
        case _:
            return t


def unsupported(what: str, span: Span | None) -> DlangError:
    """A corner of the language that this version does not compile yet."""
    return error("E0690", f"{what} is not supported yet", span, help=("write it in another way for now",))
