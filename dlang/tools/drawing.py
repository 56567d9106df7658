"""Random arguments for a function: values that fit its parameters, and stand-ins where no array can be drawn.

Where the types of a function leave types and sizes open, the command line may say which ones are tried.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from dlang.diagnostics import error
from dlang.driver import Request
from dlang.dump_ir import open_variable
from dlang.ir import anf
from dlang.ir.anf import FLOATS, Array, Atom, Size, Token, is_handle
from dlang.ir.values import exact, numpy_dtype, size_of
from dlang.polynomials import Poly
from dlang.specialize.specialize import Entry
from dlang.specialize.types import MonoArray
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, ScalarV, TupleV, Value
from dlang.typecheck import core, types as ty
from dlang.typecheck.printing import Names, show
from dlang.typecheck.refinements import field_type, of_field, of_part
from dlang.typecheck.terms import BOOL, F64, I64, STR
from dlang.typecheck.trees import at_its_own_types, calling, reference

if TYPE_CHECKING:
    from dlang.specialize.types import Bindings


LARGEST = 64  # of the sizes that are tried, so that there is an index
Kind = Literal["normal", "positive", "fractions"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a parameter. name: as a person writes it; variants: those of the enum whose variant it says.

    size: which of the sizes of the entry it is, if it is one. index: what `Idx` says an integer is below. default: the
    number that it is if nobody gives one. axes: the shapes that its type declares, the outermost first.
    """

    name: str
    atom: Atom
    variants: tuple[str, ...] = ()
    size: int | None = None
    index: ty.Size | None = None
    default: int | float | bool | None = None
    axes: tuple[ty.Shape, ...] = ()

    def declared(self) -> Iterator[tuple[Size, ty.Size]]:
        """The sizes of the leaf with what its type declares them to be, but for those of a row."""
        if not isinstance(self.atom.type, Array):
            return
        shapes = [ty.resolve_shape(s) for s in self.axes]
        row = next((k for k, s in enumerate(shapes) if s.row is not None), len(shapes))
        front = [size for s in shapes[: row + 1] for size in s.pre]
        back = [size for s in shapes[row:] for size in (s.post if s is shapes[row] else s.pre)]
        yield from zip(self.atom.type.shape, front, strict=False)
        yield from zip(reversed(self.atom.type.shape), reversed(back), strict=False)


def leaves_of(decl: core.FnDecl, entry: Entry, variables: Sequence[object]) -> list[Leaf]:
    """The leaves of all parameters.

    variables: for each size of the entry the variable of the scheme that it stands for, or is a size of.
    """
    out: list[Leaf] = []
    for p, v in zip(decl.params, entry.params, strict=True):
        leaves = list(_leaves(p.local.name, v, p.local.type, p.local.refinement))
        if p.local.size in variables:
            leaves = [replace(leaves[0], size=variables.index(p.local.size))]
        default = _number(p.default)
        if default is not None and p.local.size not in variables:
            leaves = [replace(leaves[0], default=default)]
        out += leaves
    return out


def _number(e: core.Expr | None) -> int | float | bool | None:
    match e:
        case core.Literal(value=int() | float() as value):
            return value
        case core.Negate(operand=core.Literal(value=int() | float() as value)):
            return -value
        case _:
            return None


def _leaves(
    name: str, v: Value, t: ty.Type, known: ty.Refinement | None, outer: tuple[ty.Shape, ...] = ()
) -> Iterator[Leaf]:
    """outer: the shapes of the arrays of structures that the value is in."""
    t = ty.resolve(t)
    match v:
        case ScalarV(atom) if not (not isinstance(atom.type, Token) and is_handle(atom.type.dtype)):
            yield Leaf(name, atom, index=known.size if isinstance(known, ty.Below) else None)
        case ArrayV(var) if not is_handle(v.dtype):
            one = of_part(known, ty.TypeCon("i64"))
            axes = (*outer, *_shapes(t))
            yield Leaf(name, var, index=one.size if isinstance(one, ty.Below) else None, axes=axes)
        case TupleV(items):
            for k, item in enumerate(items):
                yield from _leaves(f"{name}.{k}", item, field_type(t, k), of_field(t, k, known), outer)
        case DataV(data, fields):
            for k, ((field, _), item) in enumerate(zip(data.variants[0].fields, fields, strict=True)):
                yield from _leaves(f"{name}.{field}", item, field_type(t, k), of_field(t, k), outer)
        case EnumV(data, tag, variants):
            assert isinstance(tag, ScalarV | ArrayV)
            atom = tag.atom if isinstance(tag, ScalarV) else tag.var
            yield Leaf(name, atom, tuple([variant.name for variant in data.variants]), axes=outer)
            for tag_, (variant, fields) in enumerate(zip(data.variants, variants, strict=True)):
                for k, item in enumerate(fields):
                    of_item = field_type(t, k, tag_), of_field(t, k, None, tag_)
                    yield from _leaves(f"{name}.{variant.name}.{variant.fields[k][0] or k}", item, *of_item, outer)
        case Many(_, element):
            inner, around = (t.element, (*outer, t.shape)) if isinstance(t, ty.TypeArray) else (t, outer)
            yield from _leaves(name, element, inner, of_part(known, inner), around)
        case _:
            raise AssertionError("has a stand-in")


def _shapes(t: ty.Type) -> Iterator[ty.Shape]:
    """The shapes of an array and of the arrays that are its elements."""
    while isinstance(t := ty.resolve(t), ty.TypeArray):
        yield t.shape
        t = t.element


def drawn(
    entry: Entry,
    leaves: Sequence[Leaf],
    sizes: Sequence[int],
    seed: int,
    variables: Sequence[object] = (),
    kind: Kind = "normal",
    variant: int = 0,
    room: int = sys.maxsize,
) -> list[Any]:
    """Values for the sizes, the seed and the leaves of an entry: floats of a kind, integers may be indices.

    Each leaf is drawn apart, so that it stays the same where only the sizes of others change.

    variables: as in `leaves_of`. variant: which of its variants an enum is, or the last if it has fewer; those in an
    array are drawn. Raises E0957 where there is no index, and MemoryError where all arrays would have more than `room`
    elements.
    """
    known = dict(zip(variables, sizes, strict=False))
    env: dict[Any, Any] = dict(zip(entry.sizes, sizes, strict=False))
    for size, declared in [pair for leaf in leaves for pair in leaf.declared()]:
        if (variable := size.atom) in entry.sizes:  # a size such as n // 2, which the entry takes beside n
            env.setdefault(variable, _evaluated(declared, known))
    out: list[Any] = [*[env[v] for v in entry.sizes], *([seed] if entry.seed else [])]
    for number, leaf in enumerate(leaves):
        t = leaf.atom.type
        assert not isinstance(t, Token)
        shape = _shape(t.shape, env) if isinstance(t, Array) else ()
        room -= prod(shape)
        if room < 0:
            raise MemoryError(f"`{leaf.name}` would be too large")
        most = len(leaf.variants) or min(sizes, default=3)
        if leaf.index is not None:
            most = _evaluated(leaf.index, known)
            if most < 1:
                of = f"`{leaf.name}` is an index below `{show(leaf.index)}`, which is {most} here"
                help = _with_an_index([leaf.index for leaf in leaves if leaf.index is not None], known)
                raise error("E0957", f"no argument can be drawn: {of}", None, help=(help,))
        if leaf.size is not None:
            out.append(sizes[leaf.size])
        elif leaf.default is not None:
            out.append(np.asarray(leaf.default).astype(numpy_dtype(t.dtype))[()])
        elif leaf.variants and not shape:
            out.append(np.asarray(min(variant, most - 1)).astype(numpy_dtype(t.dtype))[()])
        else:
            out.append(_value(np.random.default_rng([seed, number]), t.dtype, shape, max(most, 1), kind))
    return out


def _with_an_index(bounds: Sequence[ty.Size], known: Mapping[Any, int]) -> str:
    """Says with which size there is an index below each of the bounds, if changing one of the sizes, or all, does."""
    ways = [(f"{v.name}={{}}", [v]) for v in known if v.name] + [("{}", list(known))]
    for text, changed in sorted(ways, key=lambda way: len(way[1])):
        for size in range(1, LARGEST + 1):
            if all(_evaluated(b, {**known, **dict.fromkeys(changed, size)}) >= 1 for b in bounds):
                return f"give another size: `--size {text.format(size)}`"
    return "write a function that calls it with sizes for which there is an index, and check that"


def _evaluated(size: ty.Size, known: Mapping[Any, int]) -> int:
    """The number that a size is; 0 if a variable in it is not known."""

    def value(a: ty.SizeAtom) -> int:
        if isinstance(a, ty.Floor):
            return _evaluated(a.dividend, known) // max(_evaluated(a.divisor, known), 1)
        return known.get(a, 0)

    return ty.resolve_size(size).poly.evaluate(value)


def _shape(shape: Sequence[Size], env: Mapping[Any, Any]) -> tuple[int, ...]:
    return tuple([max(int(size_of(s, env)), 0) for s in shape])


def _value(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], below: int, kind: Kind) -> Any:
    if dtype in FLOATS:
        value: Any = rng.uniform(0.0, 1.0, shape) if kind == "fractions" else rng.standard_normal(shape)
        if kind == "positive":
            value = np.abs(value)
    elif dtype == "str":
        value = np.full(shape, "text", object)
    elif dtype == "bool":
        value = rng.integers(0, 2, shape)
    else:
        value = rng.integers(0, below, shape)
    array = np.asarray(value).astype(numpy_dtype(dtype))
    return exact(array, dtype) if shape else exact(array[()], dtype)


# ---- functions, and data that contains itself ------------------------------------------------------------------------
# Arguments that no array can be drawn for: functions, and data that contains itself.
#
# In their place stands an expression of the core tree, over an array of weights. So the weights are drawn, and
# derivatives in them are derivatives in what a function captures, and in the leaves of a tree.

WEIGHTS = "'s weights"
DEPTH = 2  # of nodes in nodes
LAZY = 8  # of functions in what functions give: a stream has no end


def with_stand_ins(decl: core.FnDecl) -> tuple[core.FnDecl, list[str]]:
    """The function of the parameters that can be drawn, and of weights; and the names of those that cannot."""
    if not any(made_up(p.local.type) for p in decl.params):
        return decl, []
    params: list[core.Param] = []
    args: list[core.Expr] = []
    names = []
    for p in decl.params:
        if not made_up(p.local.type):
            params.append(p)
            args.append(reference(p, decl.span))
            continue
        builder = Builder(decl, core.Local(p.local.name + WEIGHTS, F64))
        args.append(builder.value(p.local.type, DEPTH))
        names.append(p.local.name)
        if builder.weights:
            builder.local.type = ty.TypeArray(F64, ty.Shape((ty.Size(Poly.of(builder.weights)),)))
            params.append(core.Param(builder.local, nodiff=p.nodiff))
    caller = calling(decl, decl.name, tuple(params), at_its_own_types(decl), tuple(args))
    return caller, names


def made_up(t: ty.Type) -> bool:
    """Tells whether a type holds functions, or may contain itself."""
    return _holds(ty.resolve(t), ())


def _holds(t: ty.Type, inside: tuple[ty.DataDecl, ...]) -> bool:
    match t:
        case ty.TypeFn():
            return True
        case ty.TypeArray():
            return _holds(t.element, inside)
        case ty.TypeTuple(items):
            return any(_holds(ty.resolve(i), inside) for i in items)
        case ty.TypeData(decl):
            return decl in inside or any(_holds(f, (*inside, decl)) for v in decl.variants for f in _fields(t, v))
        case _:
            return False


def _fields(t: ty.TypeData, v: ty.Variant) -> list[ty.Type]:
    return [ty.resolve(field_type(t, k, v.tag)) for k in range(len(v.fields))]


@dataclass(slots=True)
class Builder:
    """Builds values of types for a parameter of `decl`. weights: how many elements of `local` are used so far."""

    decl: core.FnDecl
    local: core.Local
    weights: int = 0
    functions: int = 0  # around what is being built
    given: list[core.Expr] = field(default_factory=list)  # arguments of the function that is being built
    indices: list[core.Expr] = field(default_factory=list)  # of the comprehensions around
    built: dict[ty.DataDecl, int] = field(default_factory=dict)  # how often an enum was

    def value(self, t: ty.Type, depth: int) -> core.Expr:
        t = ty.resolve(t)
        span = self.decl.span
        match t:
            case ty.TypeFn():
                return self.function(t, depth)
            case _ if self.given and (same := [g for g in self.given if _alike(g.type, t) and _differs(t)]):
                return self.near(same[0])
            case ty.TypeTuple(items):
                return core.TupleExpr(t, span, tuple([self.value(i, depth) for i in items]))
            case ty.TypeVar() if "Vector" in t.classes:  # whatever it is: as a parameter that is drawn
                others = [reference(p, span) for p in self.decl.params if _alike(p.local.type, t)]
                if not others:
                    raise self.impossible(f"is a `{t.name}`, of which there is no other parameter")
                return self.near(others[0])
            case ty.TypeData():
                return self.data(t, depth)
            case ty.TypeArray(element, shape):
                return self.array(t, element, ty.resolve_shape(shape), depth)
            case ty.TypeCon("bool"):
                return core.Arith(BOOL, span, "<", self.literal(0.0), self.scalar())
            case ty.TypeCon("str"):
                return core.Literal(STR, span, "text")
            case ty.TypeCon(name) if name in ty.INTS:
                return core.Literal(t, span, 0)
            case _:
                return core.Builtin(t, span, "cast", (self.scalar(),))

    def function(self, t: ty.TypeFn, depth: int) -> core.Expr:
        if self.functions >= LAZY:
            raise self.impossible("has no end")
        params = tuple([core.Local(f"x{k}", p) for k, p in enumerate(t.params)])
        outer, self.given = self.given, [*self.given, *[core.Ref(p.type, self.decl.span, p) for p in params]]
        self.functions += 1
        body = self.value(t.result, depth)
        self.functions -= 1
        self.given = outer
        return core.Lambda(t, self.decl.span, params, body)

    def near(self, given: core.Expr) -> core.Expr:
        """v + ½ tanh(w v + c) at each float v of an argument; in c are all arguments."""
        span = self.decl.span
        total = core.Local("total", F64)
        v = core.Local("v", F64)
        at = core.Ref(F64, span, v)
        inner = self.plus(self.times(self.weight(), at), core.Ref(F64, span, total))
        moved = self.plus(at, self.times(self.literal(0.5), core.Builtin(F64, span, "tanh", (inner,))))
        function = core.Lambda(ty.TypeFn((F64,), F64), span, (v,), moved)
        mapped = core.Builtin(given.type, span, "map_floats", (function, given))
        let = core.Let(core.Bind(total), self.sum([self.weight(), *self.weighted()]), (), span)
        return core.BlockExpr(given.type, span, (let,), mapped)

    def array(self, t: ty.Type, element: ty.Type, shape: ty.Shape, depth: int) -> core.Expr:
        if shape.row is not None:
            raise self.impossible("has any number of axes")
        span = self.decl.span
        sizes = [s if all(_known(a, self.decl) for a in s.poly.atoms()) else ty.Size(Poly.of(3)) for s in shape.pre]
        locals_ = [core.Local(f"i{k}", I64) for k in range(len(sizes))]
        outer, self.indices = self.indices, [*self.indices, *[core.Ref(I64, span, i) for i in locals_]]
        value = self.value(element, depth)
        self.indices = outer
        binders = tuple([core.Count(i, s, None, span) for i, s in zip(locals_, sizes, strict=True)])
        return core.Comprehension(t, span, value, binders, None)

    def data(self, t: ty.TypeData, depth: int) -> core.Expr:
        """A node in nodes as deep as asked for; of the variants that are possible, one after another."""
        heights = {v.tag: max([_height(f, (t.decl,)) for f in _fields(t, v)], default=0.0) for v in t.decl.variants}
        recursive = [v for v in t.decl.variants if any(_leads(f, t.decl, ()) for f in _fields(t, v))]
        least = min(heights.values())
        possible = [v for v in recursive if depth > 0] or [v for v in t.decl.variants if heights[v.tag] == least]
        assert least < float("inf"), "the checker refuses a type without values"
        possible.sort(key=lambda v: -len(v.fields))
        number = self.built[t.decl] = self.built.get(t.decl, -1) + 1
        variant = possible[number % len(possible)]
        below = depth - 1 if recursive else depth
        fields = tuple([self.value(f, below) for f in _fields(t, variant)])
        return core.Construct(t, self.decl.span, t.decl, variant, fields)

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def scalar(self) -> core.Expr:
        """A weight in data; in a function tanh of weighted sums, and some of the squares, so that it has a least."""
        if not self.given:
            return self.sum([self.weight(), *self.of_indices()]) if self.indices else self.weight()
        squares = [self.times(self.literal(0.1), self.squares(g)) for g in self.given if _holds_floats(g.type)]
        inner = self.sum([self.weight(), *self.weighted(), *self.of_indices()])
        return self.sum([core.Builtin(F64, self.decl.span, "tanh", (inner,)), *squares])

    def weighted(self) -> list[core.Expr]:
        return [self.times(self.weight(), self.floats(g)) for g in self.given if _holds_floats(g.type)]

    def of_indices(self) -> list[core.Expr]:
        span = self.decl.span
        return [
            self.times(self.literal(0.7 + 0.2 * k), core.Builtin(F64, span, "cast", (i,)))
            for k, i in enumerate(self.indices)
        ]

    def floats(self, x: core.Expr) -> core.Expr:
        return core.Builtin(F64, self.decl.span, "sum_floats", (x,))

    def squares(self, x: core.Expr) -> core.Expr:
        v = core.Local("v", F64)
        at = core.Ref(F64, self.decl.span, v)
        square = core.Lambda(ty.TypeFn((F64,), F64), self.decl.span, (v,), self.times(at, at))
        return self.floats(core.Builtin(x.type, self.decl.span, "map_floats", (square, x)))

    def weight(self) -> core.Expr:
        span, at = self.decl.span, core.Literal(I64, self.decl.span, self.weights)
        self.weights += 1
        return core.Index(F64, span, core.Ref(self.local.type, span, self.local), (core.At(at),))

    def literal(self, value: float) -> core.Expr:
        return core.Literal(F64, self.decl.span, value)

    def times(self, x: core.Expr, y: core.Expr) -> core.Expr:
        return core.Arith(F64, self.decl.span, "*", x, y)

    def plus(self, x: core.Expr, y: core.Expr) -> core.Expr:
        return core.Arith(F64, self.decl.span, "+", x, y)

    def sum(self, terms: Iterable[core.Expr]) -> core.Expr:
        first, *others = terms
        for term in others:
            first = self.plus(first, term)
        return first

    def impossible(self, why: str) -> Exception:
        name = self.local.name.removesuffix(WEIGHTS)
        message = f"no arguments for `{self.decl.name}` can be drawn: what `{name}` is made of {why}"
        help = ("write a function without such a parameter that calls it, and check that",)
        return error("E0957", message, self.decl.span, help=help)


def _known(a: ty.SizeAtom, decl: core.FnDecl) -> bool:
    """Tells whether the function has a size; a `?` of a function's result it has not."""
    if isinstance(a, ty.Floor):
        return all(_known(x, decl) for s in (a.dividend, a.divisor) for x in s.poly.atoms())
    return a in decl.variables and a not in decl.opened


def _alike(a: ty.Type, b: ty.Type) -> bool:
    """Tells whether types are the same, as they are written."""
    names = Names()
    return names(a) == names(b)


def _differs(t: ty.Type) -> bool:
    """Tells whether values of a type are floats, or of a type not known, whatever it is then."""
    return isinstance(t, ty.TypeVar) or _holds_floats(t)


def _holds_floats(t: ty.Type) -> bool:
    t = ty.resolve(t)
    match t:
        case ty.TypeArray():
            return _holds_floats(t.element)
        case ty.TypeTuple(items):
            return any(map(_holds_floats, items))
        case ty.TypeCon(name):
            return name in ty.FLOATS
        case ty.TypeVar():
            return not t.classes & {"Int", "Bits"}
        case ty.TypeData():
            return not made_up(t) and any(_holds_floats(f) for v in t.decl.variants for f in _fields(t, v))
        case _:
            return False


def _height(t: ty.Type, inside: tuple[ty.DataDecl, ...]) -> float:
    """How many nodes are in one another at least in a value; infinite where it can't end."""
    match t:
        case ty.TypeArray():
            return _height(ty.resolve(t.element), inside)
        case ty.TypeTuple(items):
            return max([_height(ty.resolve(i), inside) for i in items], default=0.0)
        case ty.TypeData(decl) if decl in inside:
            return float("inf")
        case ty.TypeData(decl):
            heights = [max([_height(f, (*inside, decl)) for f in _fields(t, v)], default=0.0) for v in decl.variants]
            return 1.0 + min(heights, default=float("inf"))
        case _:
            return 0.0


def _leads(t: ty.Type, decl: ty.DataDecl, inside: tuple[ty.DataDecl, ...]) -> bool:
    """Tells whether a value may hold one of `decl`."""
    match t:
        case ty.TypeArray():
            return _leads(ty.resolve(t.element), decl, inside)
        case ty.TypeTuple(items):
            return any(_leads(ty.resolve(i), decl, inside) for i in items)
        case ty.TypeData(own):
            if own is decl or own in inside:
                return own is decl
            return any(_leads(f, decl, (*inside, own)) for v in own.variants for f in _fields(t, v))
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Slot:
    """A size that is to be chosen: the variable that it is, or of which the type that it stands for has it."""

    variable: ty.Var
    name: str
    text: str  # how the choice is said


Default = TypeVar("Default", int, None)


def sizes_given(given: Sequence[str], default: Default) -> tuple[int | Default, dict[str, int]]:
    """`5` and `n=5` from the command line: the size of all, or else a default, and of one variable."""
    named = {}
    size: int | Default = default
    for text in given:
        name, _, value = text.rpartition("=")
        if not value.isdecimal():
            raise error("E0957", f"`--size {text}`: expected a number, or a name and a number as in `n=5`", None)
        if name:
            named[name] = int(value)
        else:
            size = int(value)
    return size, named


def refuse_unknown(sizes: Iterable[str], known: Collection[str], what: str) -> None:
    """Raises E0957 for a size that nothing has. what: the functions that are looked at, as in "is checked"."""
    for name in sizes:
        if name not in known:
            help = (f"there are {', '.join(f'`{n}`' for n in sorted(known))}",) if known else ()
            raise error("E0957", f"`--size {name}=…`: no function that {what} has a size `{name}`", None, help=help)


def requested(decl: core.FnDecl) -> tuple[Request, list[Slot]]:
    """A function at types: what is open is f64, or a vector of them; and the sizes that are to be chosen."""
    if decl.constraints and (name := open_variable(decl)) is not None:
        help = ("name a function that uses it",)
        raise error(
            "E0956", f"`{decl.name}` has no derivative of its own: a use of it decides `{name}`", decl.span, help=help
        )
    bindings: Bindings = {}
    slots = []
    for v in decl.variables:
        name = v.name or "_"
        match v:
            case ty.TypeVar() if "Vector" in v.classes:
                bindings[v] = MonoArray(anf.Scalar("f64"), (anf.poly(0),))
                slots.append(Slot(v, name, f"{name} = f64[{{}}]"))
            case ty.TypeVar():
                bindings[v] = anf.Scalar("i64" if v.classes & {"Int", "Bits"} else "f64")
            case ty.RowVar():
                bindings[v] = (anf.poly(0),)
                slots.append(Slot(v, name, f"..{name} = {{}}"))
            case ty.SizeVar() if v not in decl.opened:
                bindings[v] = anf.poly(0)
                slots.append(Slot(v, name, f"{name} = {{}}"))
    return Request(decl, bindings), slots
