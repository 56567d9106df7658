"""Terms of the type language: types, shapes, sizes; and the declarations of data types.

A variable is mutable while a declaration group is checked (`ref` is what unification bound it to) and is resolved
through `resolve` and `resolve_shape` afterwards. An array type is kept flat: its element is never an array, so
`t[m][n]` and `t[n, m]` are one type. A size is a polynomial with its provenance; its atoms are size variables and
floors p // q that do not divide exactly. A shape is pre ++ row ++ post.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from dlang.diagnostics import Note, Span
from dlang.ops import dtypes
from dlang.polynomials import MOST_PRODUCTS, Poly, TooManyTerms

_serial = count(1)


def next_serial() -> int:
    """A number that is greater than the serial of every variable so far."""
    return next(_serial)


def serials(n: int) -> int:
    """The first of `n` serials in a row, all of which are taken from now on."""
    global _serial
    first = next(_serial)
    _serial = count(first + n)
    return first


FLOATS = frozenset(dtypes.FLOATS)
INTS = frozenset(dtypes.INTEGERS)
DTYPES = frozenset(dtypes.NAMES)
CLASSES: dict[str, frozenset[str]] = {
    "Float": FLOATS,
    "Int": INTS,
    "Num": FLOATS | INTS,
    "Ord": FLOATS | INTS | {"str"},
    "Eq": FLOATS | INTS | {"str", "bool"},
    "Bits": INTS | {"bool"},
    "Scalar": FLOATS | INTS | {"bool"},
}


@dataclass(eq=False, slots=True)
class TypeVar:
    """A type to be found (flexible) or quantified at a function (rigid).

    atomic: never an array. classes: those of `CLASSES` and `Vector` that bound it. literal: `int` or `float` where it
    is the dtype of a literal without a suffix, or of `zeros(n)`, and defaults to i64 or f64.
    """

    level: int
    name: str | None = None
    rigid: bool = False
    atomic: bool = False
    classes: frozenset[str] = frozenset()
    literal: str | None = None
    ref: Type | None = None
    origin: Note | None = None
    serial: int = field(default_factory=lambda: next(_serial))

    @property
    def prefers_float(self) -> bool:
        """Tells whether it is f64 where nothing decides. `zeros(n)` is, unless its elements have to be integers."""
        return bool(self.classes & {"Float", "Vector"}) or (
            self.literal == "float" and not self.classes & {"Int", "Bits"}
        )


@dataclass(eq=False, slots=True)
class SizeVar:
    """opened: a rigid variable that stands for a size known only when the program runs (from `?`)."""

    level: int
    name: str | None = None
    rigid: bool = False
    opened: bool = False
    ref: Size | None = None
    origin: Note | None = None
    serial: int = field(default_factory=lambda: next(_serial))


@dataclass(eq=False, slots=True)
class RowVar:
    """Any number of axes."""

    level: int
    name: str | None = None
    rigid: bool = False
    ref: Shape | None = None
    origin: Note | None = None
    serial: int = field(default_factory=lambda: next(_serial))


@dataclass(eq=False, slots=True)
class Floor:
    """The atom p // q where the division is not exact; interned by normal form in its checker.

    variables: those in p and q, none of them bound when it was made. parts: how many atoms are written in p and q. ref:
    what it has become since one of its variables was bound.
    """

    dividend: Size
    divisor: Size
    variables: tuple[SizeVar, ...] = ()
    parts: int = 1
    ref: Poly[SizeAtom] | None = None
    serial: int = field(default_factory=lambda: next(_serial))


SizeAtom = SizeVar | Floor


@dataclass(frozen=True, slots=True)
class Size:
    """A polynomial, and where it comes from (for messages; not part of its identity)."""

    poly: Poly[SizeAtom]
    origin: Note | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    pre: tuple[Size, ...] = ()
    row: RowVar | None = None
    post: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeCon:
    """A dtype of `DTYPES`."""

    name: str


# The type of what a mistake has left without one. It fits everywhere, and what is said of it follows from the mistake.
MISTAKE = TypeCon("‹mistake›")


@dataclass(frozen=True, slots=True)
class TypeArray:
    element: Type
    shape: Shape


@dataclass(frozen=True, slots=True)
class TypeTuple:
    """With no items the type `()`."""

    items: tuple[Type, ...]


@dataclass(eq=False, slots=True)
class Effects:
    """The effects of a function type: a set that unification may enlarge, unless an annotation `closed` it."""

    names: set[str] = field(default_factory=set)
    closed: bool = False
    ref: Effects | None = None


@dataclass(frozen=True, slots=True)
class TypeFn:
    """opened: the sizes `?` of the result, bound here: another one at each call."""

    params: tuple[Type, ...]
    result: Type
    effects: Effects = field(default_factory=Effects)
    opened: tuple[SizeVar, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeData:
    """A struct or an enum applied to its arguments: a type, size or shape for each parameter of the declaration."""

    decl: DataDecl
    args: tuple[Type | Size | Shape, ...]


Type = TypeVar | TypeCon | TypeArray | TypeTuple | TypeFn | TypeData
Var = TypeVar | SizeVar | RowVar
UNIT = TypeTuple(())


# What is known of a value beside its type, where an annotation says `Idx<n>`. For inference that is just i64.
@dataclass(frozen=True, slots=True)
class Below:
    """The refinement of an i64 `i`: 0 <= i < size."""

    size: Size


@dataclass(frozen=True, slots=True)
class Elements:
    """The refinement of an array: this of each of its elements, which are no arrays."""

    element: Refinement


@dataclass(frozen=True, slots=True)
class Items:
    """The refinement of a tuple, by item."""

    items: tuple[Refinement | None, ...]


Refinement = Below | Elements | Items


@dataclass(eq=False, slots=True)
class Variant:
    """A constructor. `fields`: names (None where there is none) and types over the parameters of the declaration.

    refinements: for each field what `Idx` in its type says.
    """

    name: str
    fields: tuple[tuple[str | None, Type], ...]
    tag: int = 0
    refinements: tuple[Refinement | None, ...] = ()


@dataclass(eq=False, slots=True)
class DataDecl:
    """A struct (`is_struct`, one variant of its name) or an enum. `module` is the dotted name of its file.

    Found when it is declared: parts, how many fields are in it with those of other structs and enums in it, where one
    that contains itself is 1; inhabited, for which parameters with values (True) and without it has values.
    """

    name: str
    module: str
    params: tuple[Var, ...]
    variants: tuple[Variant, ...]
    is_struct: bool
    span: Span
    doc: str = ""
    parts: int = 1
    inhabited: set[tuple[bool, ...]] = field(default_factory=set)


def resolve(t: Type) -> Type:
    """The type with bound variables replaced at its head, arrays flattened; `t[]` is `t`."""
    if isinstance(t, TypeVar) and t.ref is not None:
        end = t.ref
        while isinstance(end, TypeVar) and end.ref is not None:
            end = end.ref
        while isinstance(t, TypeVar) and t.ref is not None:  # what was on the way points to the end from now on
            t.ref, t = end, t.ref
        t = end
    if isinstance(t, TypeArray):
        shape, element = resolve_shape(t.shape), resolve(t.element)
        if isinstance(element, TypeArray):
            inner = element.shape
            if shape.row is None:
                return TypeArray(element.element, Shape(shape.pre + inner.pre, inner.row, inner.post))
            return TypeArray(element.element, Shape(shape.pre, shape.row, shape.post + inner.pre + inner.post))
        if shape.row is None and not shape.pre:
            return element
        return TypeArray(element, shape)
    return t


def resolve_shape(s: Shape) -> Shape:
    """The shape with its row expanded as far as it is known; without a row all sizes are in `pre`."""
    if s.row is not None and s.row.ref is not None:
        known_row, *before = reversed(_rows(s.row))
        for row in before:  # what was on the way is expanded from now on
            assert row.ref is not None and known_row.ref is not None
            row.ref, known_row = _expanded(row.ref, known_row.ref), row
        assert known_row.ref is not None
        s = _expanded(s, known_row.ref)
    return s if s.row is not None or not s.post else Shape(s.pre + s.post)


def _rows(row: RowVar) -> list[RowVar]:
    """A row that is known and those that it leads to, as far as they are known."""
    rows = [row]
    while row.ref is not None and row.ref.row is not None and row.ref.row.ref is not None:
        row = row.ref.row
        rows.append(row)
    return rows


def _expanded(s: Shape, row: Shape) -> Shape:
    """The shape with a shape in the place of its row."""
    return Shape(s.pre + row.pre, row.row, row.post + s.post)


def resolve_size(s: Size) -> Size:
    """The size with bound variables replaced."""

    def bound(atom: SizeAtom) -> Poly[SizeAtom] | None:
        if isinstance(atom, SizeVar):
            return resolve_size(atom.ref).poly if atom.ref is not None else None
        if atom.ref is None:
            if all(v.ref is None for v in atom.variables):
                return None
            atom.ref = floor_div(atom.dividend, atom.divisor).poly
        return resolve_size(Size(atom.ref)).poly

    poly = s.poly.substitute(bound)
    return s if poly is s.poly else Size(poly, s.origin)


def floor_div(dividend: Size, divisor: Size) -> Size:
    """p // q: for a number q the multiples of q are taken out, so `(2 * n + 1) // 2` is n; what is left is a number or
    an atom. Where another q divides p as a polynomial, p // q is the quotient, so `(s * n - s) // s` is n - 1. Atoms of
    equal operands are equal only if made once: see `Floors`. Raises TooManyTerms."""
    p, q = resolve_size(dividend), resolve_size(divisor)
    c = q.poly.constant
    if not c:
        exact = p.poly.quotient(q.poly)
        if exact is not None:
            return Size(exact, dividend.origin)
        return Size(Poly.of(_FLOORS.atom(p, q)), dividend.origin)
    exact = p.poly.divided(int(c))
    if exact is not None:
        return Size(exact, dividend.origin)
    whole = Poly({m: k // c for m, k in p.poly.terms.items() if isinstance(k, int)})
    remainder = p.poly - whole * int(c)
    if remainder.constant is not None:
        return Size(whole + int(remainder.constant // c), dividend.origin)
    return Size(whole + _FLOORS.atom(Size(remainder, p.origin), q), dividend.origin)


class Floors:
    """Interns floors by the normal forms of their operands, so that equal ones are one atom."""

    def __init__(self) -> None:
        self.table: dict[tuple[Poly[SizeAtom], Poly[SizeAtom]], Floor] = {}

    def atom(self, dividend: Size, divisor: Size) -> Floor:
        key = (dividend.poly, divisor.poly)
        if key not in self.table:
            atoms = [*dividend.poly.atoms(), *divisor.poly.atoms()]
            parts = sum(a.parts if isinstance(a, Floor) else 1 for a in atoms)
            if parts > MOST_PRODUCTS:
                raise TooManyTerms
            found = dict.fromkeys(v for a in atoms for v in (a.variables if isinstance(a, Floor) else (a,)))
            self.table[key] = Floor(dividend, divisor, tuple(found), parts)
        return self.table[key]


def intern_floor(floor: Floor) -> None:
    """Makes a floor that was not made here the one of its operands."""
    _FLOORS.table.setdefault((floor.dividend.poly, floor.divisor.poly), floor)


_FLOORS = Floors()  # an intern table: it only ever grows by equal keys, so it is not state that a result depends on


def sizes_in(t: Type) -> Iterator[Size]:
    """The sizes in a type, at any depth."""
    stack: list[Type | Shape | Size] = [resolve(t)]
    while stack:
        part = stack.pop()
        if isinstance(part, Size):
            yield part
        else:
            stack.extend(children(part if isinstance(part, Shape) else resolve(part)))


def size_vars_in(t: Type) -> Iterator[SizeVar]:
    """The variables in these sizes, as far as they are known to be different, with repetitions."""
    return (a for size in sizes_in(t) for a in resolve_size(size).poly.atoms() if isinstance(a, SizeVar))


def children(t: Type | Shape | Size) -> Iterator[Type | Shape | Size]:
    """The immediate parts of a resolved term."""
    match t:
        case TypeArray(element, shape):
            yield element
            yield shape
        case TypeTuple(items):
            yield from items
        case TypeFn(params, result, _):
            yield from params
            yield result
        case TypeData(_, args):
            yield from args
        case Shape():
            s = resolve_shape(t)
            yield from s.pre
            yield from s.post
