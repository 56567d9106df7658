"""Matches Python's arguments with the declared types, sizes included.

A NumPy array or scalar has its dtype, and only i64 takes others, of integers that it holds; Python's own numbers and
lists take the dtype that is asked for. What a size, a type or a number of axes stands for is fixed by one argument, and
the others must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.diagnostics import DlangError, error
from dlang.host.classes import fields_of
from dlang.host.placed import placed
from dlang.host.values import NUMPY, as_array, describe, dtype_name, is_masked, is_taken, number, texts
from dlang.identity import ByIdentity
from dlang.inequalities import LARGEST
from dlang.ir import terms
from dlang.ir.terms import Scalar, poly
from dlang.lazy_modules import lazy_module
from dlang.ops.dtypes import ELSEWHERE, TRUNCATED
from dlang.polynomials import Poly
from dlang.python.indices import check_indices
from dlang.python.kinds import Extent, Kind
from dlang.specialize.structs import declaration, declaration_of, field_names, is_a, variant_of
from dlang.specialize.types import STATIC, Bindings, Bound, Mono, MonoArray, MonoName, MonoTuple
from dlang.typecheck import types as ty
from dlang.typecheck.headers import FnDecl, Param
from dlang.typecheck.printing import Names
from dlang.typecheck.refinements import written
from dlang.typecheck.types import (
    DataDecl,
    Floor,
    RowVar,
    Shape,
    Size,
    SizeAtom,
    SizeVar,
    Type,
    TypeData,
    TypeVar,
)

if TYPE_CHECKING:
    from dlang.specialize import frame
else:
    frame = lazy_module("dlang.specialize.frame")


@dataclass(frozen=True, slots=True)
class Fixed:
    """The value of a variable of the scheme, and the argument that fixed it."""

    value: Any
    by: str


# ---- matching --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Matcher:
    """Matches the arguments of one call.

    device: whether arrays may be on one. thorough: looks at every part of a tree, also where that says no more of its
    type. known: whether arguments do not stand for others of the same dtypes and sizes; if they do, scalars of NumPy
    say no size. kinds: for messages, the libraries of arguments that are not NumPy's, by the parameters' names.
    structures: what stands for a variable where that is a tuple, a struct, an enum, or a list of them.
    """

    decl: FnDecl
    device: bool = False
    thorough: bool = False
    known: bool = True
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    types: dict[TypeVar, Fixed] = field(default_factory=dict)
    structures: dict[TypeVar, Type] = field(default_factory=dict)
    sizes: dict[SizeVar, Fixed] = field(default_factory=dict)
    rows: dict[RowVar, Fixed] = field(default_factory=dict)
    _current: Param | None = None
    _whole: Any = None
    _part: tuple[Any, Type] = (None, ty.UNIT)  # of the whole, what is looked at
    _open: list[tuple[Param, Any, Size, int]] = field(default_factory=list)
    _deep: list[tuple[Any, TypeData]] = field(default_factory=list)  # parts of trees, matched one after another
    _weak: list[tuple[Any, TypeVar]] = field(default_factory=list)  # what says little of a variable comes last
    _known: set[TypeData] = field(default_factory=set)
    _seen: ByIdentity[Any, set[TypeData]] = field(default_factory=ByIdentity)
    _recursive: dict[DataDecl, bool] = field(default_factory=dict)
    _fields: dict[tuple[TypeData, type], list[tuple[str, Type]]] = field(default_factory=dict)

    def match(self, values: Mapping[Param, Any]) -> None:
        """Finds what the variables stand for; raises a `DlangError` where an argument does not fit."""
        # Python's own numbers come late, for they take the dtype that the others fix. Among the others those with few
        # axes come first: of labels [n] and images [n, 64] that differ, the message is about the images.
        order = sorted(values, key=lambda p: (turn(values[p]), _axes(p.local.type)))
        try:
            self._match(values, order)
        except DlangError:
            # A tangent or a cotangent has to fit the arguments, not they to it: that is what the message says.
            given = [p for p in order if not self._directs(p)]
            if len(given) < len(order):
                again = Matcher(self.decl, self.device, self.thorough, self.known, self.kinds)
                again._match(values, [*given, *[p for p in order if self._directs(p)]])
            raise

    def _match(self, values: Mapping[Param, Any], order: Iterable[Param]) -> None:
        for param in order:
            self._current, self._whole = param, values[param]
            self._value(values[param], param.local.type)
            while self._deep or self._weak:
                while self._deep:
                    self._data(*self._deep.pop())
                weak, self._weak = sorted(self._weak, key=weight), []
                for value, v in weak:
                    self._part = value, v
                    self._variable(value, v, late=True)
            value = values[param]
            if (size := param.local.size) is not None and (self.known or not isinstance(value, np.generic)):
                count = value if isinstance(value, Extent) else int(number(value, "i64"))
                if size.opened:  # a value that types mention, which a size has to be only where an array is made
                    self.sizes[size] = Fixed(count, self._name)
                elif count < 0:
                    raise self._wrong("a size is not negative")
                elif count > LARGEST:
                    raise error("E0806", "the memory is exhausted", param.local.span)
                else:
                    self._size(Size(Poly.of(size)), count)
        before: list[tuple[Param, Any, Size, int]] = []
        while len(self._open) != len(before):  # what is known now may leave one variable
            before, self._open = self._open, []
            for param, whole, waiting, actual in before:
                self._current, self._whole, self._part = param, whole, (whole, param.local.type)
                self._size(waiting, actual)
        for param, whole, waiting, actual in self._open:
            self._current, self._whole, self._part = param, whole, (whole, param.local.type)
            if self._evaluated(waiting) != actual:
                raise self._wrong()
        if self.known:
            check_indices(values, self._evaluated)

    def _value(self, value: Any, t: Type) -> None:
        t = ty.resolve(t)
        self._part = value, t
        match t:
            case ty.TypeCon("str"):
                if not isinstance(value, str):
                    raise self._wrong()
            case ty.TypeCon(dtype):
                if number(value, dtype) is None:
                    raise self._wrong()
            case ty.TypeVar():
                self._variable(value, t)
            case ty.TypeArray(element, shape):
                self._array(value, ty.resolve(element), ty.resolve_shape(shape))
            case ty.TypeTuple(items):
                self._tuple(value, items)
            case ty.TypeData():
                if not self._is_recursive(t.decl):
                    self._data(value, t)
                elif (self.thorough or not self._is_known(t)) and t not in (self._seen.get(value) or ()):
                    self._seen[value] = {*(self._seen.get(value) or ()), t}
                    self._deep.append((value, t))
            case ty.TypeFn():
                if value is not self._whole:
                    raise self._wrong("a function inside of another argument cannot be passed from Python yet")
                if not callable(value):
                    raise self._wrong()

    def _is_known(self, t: TypeData) -> bool:
        """Tells whether a type is known in full; that a value is of the type is checked when it crosses."""
        if t not in self._known:
            if not all(isinstance(v, TypeVar) and v in self.types for v in _variables(t)):
                return False
            self._known.add(t)
        return True

    def _is_recursive(self, decl: DataDecl) -> bool:
        if decl not in self._recursive:
            self._recursive[decl] = contains_itself(decl)
        return self._recursive[decl]

    def _tuple(self, value: Any, items: tuple[Type, ...]) -> None:
        if not items and (value is None or (isinstance(value, tuple) and not value)):
            return
        if not items or not isinstance(value, tuple) or len(value) != len(items):
            raise self._wrong()
        for v, i in zip(value, items, strict=True):
            self._value(v, i)

    def _array(self, value: Any, element: Type, shape: Shape) -> None:
        if isinstance(element, TypeVar) and isinstance(value, list) and element not in self.types:
            if element in self.structures or type_of(first(value)) is not None:
                self._list(value, element, shape)
                return
        if isinstance(element, ty.TypeData | ty.TypeTuple):
            self._list(value, element, shape)
            return
        dtype = element.name if isinstance(element, ty.TypeCon) else self._dtype_of(element)
        array = texts(value) if dtype == "str" else as_array(value, dtype, self.device)
        dtype_given = None if array is None else "str" if dtype == "str" else dtype_name(array.dtype)
        if dtype_given is None:
            raise self._no_array(value)
        if isinstance(element, TypeVar):
            self._bind_type(element, Scalar(dtype_given))
        elif not is_taken(dtype_given, dtype):
            raise self._wrong(dtype=dtype)
        self._shape(shape, array.shape)

    def _list(self, value: Any, element: Type, shape: Shape) -> None:
        """An array of structures: a list of them, nested for several axes."""
        if shape.row is not None or not isinstance(value, list):
            raise self._wrong("an array of structures is given as a list of them")
        extents, items = [], value
        for axis in range(len(shape.pre)):
            if axis:
                if len({len(v) if isinstance(v, list) else -1 for v in items}) > 1:
                    raise self._wrong("its rows have several lengths")
                extents.append(len(items[0]) if items and isinstance(items[0], list) else 0)
                items = [x for v in items if isinstance(v, list) for x in v]
            else:
                extents.append(len(items))
        self._shape(shape, tuple(extents))
        for v in items:
            self._value(v, element)

    def _data(self, value: Any, t: TypeData) -> None:
        """A struct, or an enum."""
        key = t, type(value)
        if key not in self._fields:
            if t.decl.is_struct:
                variant = t.decl.variants[0] if is_a(value, t.decl) else None
            else:
                variant = variant_of(value, t.decl)
            if variant is None:
                raise self._wrong()
            by = dict(zip(t.decl.params, t.args, strict=True))
            types = [frame.substituted(f, by) for _, f in variant.fields]
            self._fields[key] = list(zip(field_names(variant), types, strict=True))
        for name, f in self._fields[key]:
            self._value(getattr(value, name), f)

    # ---- variables of the scheme ----
    def _variable(self, value: Any, v: TypeVar, late: bool = False) -> None:
        """A value of any type; a number of Python's takes the dtype that is known."""
        if v not in self.types and v not in self.structures:
            if not late and (value is None or is_weak(value)) and value is not self._whole:
                self._weak.append((value, v))
                return
            given_type = type_of(value)
            if given_type is not None:
                self._of_class(v, None)
                self.structures[v] = given_type
        if v in self.structures:
            self._value(value, self.structures[v])
            return
        if isinstance(value, str):
            self._bind_type(v, Scalar("str"))
            return
        array = as_array(value, self._dtype_of(v), self.device)
        dtype = None if array is None else dtype_name(array.dtype)
        if dtype is None:
            raise self._no_array(value)
        if v.atomic and array.ndim:
            raise self._wrong("it must not be an array")
        self._bind_type(v, MonoArray(Scalar(dtype), tuple(map(poly, array.shape))) if array.ndim else Scalar(dtype))

    def _dtype_of(self, v: Type) -> str | None:
        """The dtype that a variable is known to have, else the one that its classes ask for."""
        if not isinstance(v, TypeVar):
            return None
        fixed = self.types.get(v)
        if fixed is not None:
            scalar = _element(fixed.value)
            return scalar.dtype if isinstance(scalar, Scalar) else None
        return "f64" if "Float" in v.classes or v.literal == "float" else None

    def _bind_type(self, v: TypeVar, mono: Mono) -> None:
        fixed = self.types.get(v)
        if fixed is not None and fixed.value != mono:
            raise self._wrong(dtype=self._dtype_of(v) if isinstance(fixed.value, Scalar) else None)
        scalar = _element(mono)
        self._of_class(v, scalar.dtype if isinstance(scalar, Scalar) else None)
        self.types.setdefault(v, Fixed(mono, self._name))

    def _of_class(self, v: TypeVar, dtype: str | None) -> None:
        for name in v.classes & ty.CLASSES.keys():
            if dtype not in ty.CLASSES[name]:
                raise self._wrong(f"it must be of the class {name}", self._dtype_of(v))

    def _shape(self, shape: Shape, actual: tuple[int, ...]) -> None:
        """Matches axes: those before a row, those after it, and the row with what is left."""
        pre, post = len(shape.pre), len(shape.post)
        if len(actual) < pre + post or (shape.row is None and len(actual) != pre):
            raise self._wrong()
        stop = len(actual) - post
        if (
            shape.row is not None
            and self.rows.setdefault(shape.row, Fixed(actual[pre:stop], self._name)).value != (actual[pre:stop])
        ):
            raise self._wrong()
        for size, n in zip(shape.pre + shape.post, actual[:pre] + actual[stop:], strict=True):
            self._size(size, n)

    def _size(self, size: Size, actual: int) -> None:
        """Matches one size; solves for its variable where one is not known yet."""
        if actual > LARGEST:
            assert self._current is not None
            raise error("E0806", "the memory is exhausted", self._current.local.span)
        poly = ty.resolve_size(size).poly
        unknown = [a for a in dict.fromkeys(poly.atoms()) if isinstance(a, SizeVar) and a not in self.sizes]
        if not unknown and not any(isinstance(a, Floor) for a in poly.atoms()):
            if self._evaluated(size) != actual:
                raise self._wrong()
        elif len(unknown) == 1 and _is_linear(size, unknown[0]):
            others = self._evaluated(Size(poly.without(unknown[0])))
            factor = self._evaluated(Size(poly.coefficient(unknown[0])))
            if not factor or others is None or (actual - others) % factor or (actual - others) // factor < 0:
                raise self._wrong()
            self.sizes[unknown[0]] = Fixed((actual - others) // factor, self._name)
        else:
            assert self._current is not None
            self._open.append((self._current, self._whole, size, actual))

    def _evaluated(self, size: Size) -> int | None:
        """The number that a size is, None while a variable of it is not known."""

        def value(a: SizeAtom) -> int:
            if isinstance(a, Floor):
                divisor = self._evaluated(a.divisor)
                dividend = self._evaluated(a.dividend)
                if not divisor or dividend is None:
                    raise KeyError(a)
                return dividend // divisor
            size: int = self.sizes[a].value
            return size

        try:
            return ty.resolve_size(size).poly.evaluate(value)
        except KeyError:
            return None

    # ---- what was found ----
    def bindings(self) -> Bindings:
        """Returns the bindings of the scheme's variables at this call, after `match`."""
        bound: Bindings = {}
        for v in self.decl.variables:
            match v:
                case TypeVar() if v in self.types or v in self.structures:
                    bound[v] = self.mono(v)
                case SizeVar() if v not in self.decl.opened:
                    bound[v] = self._known_size(Size(Poly.of(v)))
                case RowVar():
                    bound[v] = tuple(map(poly, self.rows[v].value)) if v in self.rows else ()
                case _:
                    pass
        return bound

    def mono(self, t: Type) -> Mono:
        """A type at this call, structs and enums by their names. A size or a row that no argument tells is empty."""
        t = ty.resolve(t)
        match t:
            case ty.TypeCon(name):
                return Scalar(name)
            case TypeVar() if t in self.structures:
                return self.mono(self.structures[t])
            case TypeVar() if t in self.types:
                bound: Mono = self.types[t].value
                return bound
            case TypeVar():
                return MonoTuple(())
            case ty.TypeArray(element, shape):
                return frame.array_of(self.mono(element), self._known_shape(shape))
            case ty.TypeTuple(items):
                return MonoTuple(tuple([self.mono(i) for i in items]))
            case ty.TypeFn():
                return STATIC
            case ty.TypeData(decl, args):
                return MonoName(decl, tuple([self._bound(a) for a in args]))

    def _bound(self, a: Type | Size | Shape) -> Bound:
        if isinstance(a, Size):
            return self._known_size(a)
        return self._known_shape(a) if isinstance(a, Shape) else self.mono(a)

    def _known_size(self, size: Size) -> terms.Size:
        return poly(self._evaluated(size) or 0)

    def _known_shape(self, shape: Shape) -> tuple[terms.Size, ...]:
        s = ty.resolve_shape(shape)
        row = tuple(map(poly, self.rows[s.row].value)) if s.row in self.rows else ()
        return (*map(self._known_size, s.pre), *row, *map(self._known_size, s.post))

    # ---- messages ----
    @property
    def _name(self) -> str:
        assert self._current is not None
        return self._current.local.name

    @property
    def _role(self) -> str:
        """Describes the argument in words: an unnamed tangent by the parameter that it belongs to."""
        assert self._current is not None
        name = self._name
        if not self._directs(self._current):
            return f"argument `{name}`"
        return "the cotangent" if self.decl.name.startswith("vjp(") else "the tangent of `" + name.rstrip("'") + "`"

    def _directs(self, param: Param) -> bool:
        """Tells whether a parameter of a derived function is a tangent, or the cotangent."""
        if self.decl.name.startswith("vjp("):
            return param is self.decl.params[-1]
        of = param.local.name.rstrip("'")
        names = [p.local.name for p in self.decl.params]
        return self.decl.name.startswith("jvp(") and of != param.local.name and of in names

    def _no_array(self, value: Any) -> DlangError:
        there = placed(value) is not None and not self.device
        return self._wrong("the functions of this module run where there is no GPU: copy it" if there else "")

    def _wrong(self, why: str = "", dtype: str | None = None) -> DlangError:
        """dtype: what an array should have."""
        assert self._current is not None
        local = self._current.local
        names = Names()
        plain = local.size is not None and local.refinement is None
        wanted = "size" if plain else written(local.type, local.refinement, names)
        known = [f"{n} from `{by}`" for n, by in self._reasons(local.type, names) if by != local.name]
        if local.size in self.sizes:
            fixed = self.sizes[local.size]
            known.append(f"{local.name} = {fixed.value} from `{fixed.by}`")
        part, t = self._part
        help = "" if why and dtype is None else advice(part, t, dtype, self.kinds.get(local.name))
        if not why:
            element = ty.resolve(t.element) if isinstance(t, ty.TypeArray) else t
            why = range_of(part, element.name) if isinstance(element, ty.TypeCon) else ""
        if part is not self._whole:
            why = f"in it {describe(part)}" + (f": {why}" if why else f", expected {names.type(t)}")
        message = ", ".join([f"{self._role}: expected {wanted}", *known, f"got {describe(self._whole)}"])
        return error("E0960", message + (f" ({why})" if why else ""), local.span, help=(help,) if help else ())

    def _reasons(self, t: Type, names: Names) -> Iterator[tuple[str, str]]:
        """Lists the bindings of the variables of a type, each with the argument that fixed it."""
        for v in dict.fromkeys(_variables(t)):
            name = names.of(v)
            if isinstance(v, SizeVar) and v in self.sizes:
                yield f"{name} = {self.sizes[v].value}", self.sizes[v].by
            elif isinstance(v, RowVar) and v in self.rows:
                yield f"..{name} = [{', '.join(map(str, self.rows[v].value))}]", self.rows[v].by
            elif isinstance(v, TypeVar) and v in self.types:
                yield f"{name} = {mono_text(self.types[v].value)}", self.types[v].by


def _variables(t: Type | Shape | Size) -> Iterator[TypeVar | SizeVar | RowVar]:
    match t:
        case Size():
            for a in ty.resolve_size(t).poly.atoms():
                if isinstance(a, SizeVar):
                    yield a
                else:
                    yield from _variables(a.dividend)
                    yield from _variables(a.divisor)
        case Shape():
            s = ty.resolve_shape(t)
            for size in s.pre + s.post:
                yield from _variables(size)
            if s.row is not None:
                yield s.row
        case _:
            t = ty.resolve(t)
            if isinstance(t, TypeVar):
                yield t
            for part in ty.children(t):
                yield from _variables(part)


def contains_itself(decl: DataDecl) -> bool:
    """Tells whether a declaration is recursive: its fields lead back to it."""
    seen: set[DataDecl] = set()
    work: list[Type | Shape | Size] = [t for v in decl.variants for _, t in v.fields]
    while work:
        t = work.pop()
        if isinstance(t, Size | Shape):
            continue
        t = ty.resolve(t)
        work += ty.children(t)
        if isinstance(t, ty.TypeData):
            if t.decl is decl:
                return True
            if t.decl not in seen:
                seen.add(t.decl)
                work += [f for v in t.decl.variants for _, f in v.fields]
    return False


def _is_linear(size: Size, v: SizeVar) -> bool:
    poly = ty.resolve_size(size).poly
    try:
        factor = poly.coefficient(v)
    except ValueError:
        return False
    return not any(isinstance(a, Floor) for a in (*factor.atoms(), *poly.atoms()))


def _axes(t: Type) -> int:
    """The number of axes of a plain array, as far as its type says it."""
    t = ty.resolve(t)
    if not isinstance(t, ty.TypeArray):
        return 0
    shape = ty.resolve_shape(t.shape)
    return len(shape.pre) + len(shape.post)


# ---- Python's values -------------------------------------------------------------------------------------------------
def _element(mono: Mono) -> Mono:
    return mono.element if isinstance(mono, MonoArray) else mono


def mono_text(mono: Mono) -> str:
    """Returns the type of an argument, in the notation of the language."""
    match mono:
        case Scalar(dtype):
            return dtype
        case MonoArray(element, shape):
            return f"{mono_text(element)}[{', '.join(map(str, shape))}]"
        case MonoTuple(items):
            return f"({', '.join(map(mono_text, items))})"
        case MonoName(decl, args):
            inner = [", ".join(map(str, a)) if isinstance(a, tuple) else _bound_text(a) for a in args]
            return decl.name + (f"<{', '.join(inner)}>" if inner else "")
        case _:
            return "a function"


def _bound_text(b: Mono | terms.Size) -> str:
    return str(b) if isinstance(b, Poly) else mono_text(b)


MOST_AXES = 64  # of an array of NumPy


def is_weak(value: Any) -> bool:
    """Tells whether a value takes the dtype that is asked for: Python's numbers, and lists of them."""
    return isinstance(value, int | float | list) and not isinstance(value, np.generic)


def type_of(value: Any) -> Type | None:
    """The type that a structure plainly has, with variables for what is in it; None for what is none."""
    if isinstance(value, tuple):
        return ty.TypeTuple(tuple([TypeVar(0) for _ in value])) if value else None
    if isinstance(value, list):
        begin, depth = _descended(value)
        inner = type_of(begin)
        axes = tuple([Size(Poly.of(SizeVar(0))) for _ in range(depth)])
        return None if inner is None else ty.TypeArray(inner, Shape(axes))
    decl = declaration(value)
    return None if decl is None else TypeData(decl, tuple([_fresh(p) for p in decl.params]))


def first(value: Any) -> Any:
    """Returns the first element of a nested list."""
    return _descended(value)[0]


def _descended(value: Any) -> tuple[Any, int]:
    """Returns the first innermost item of a list and its depth; a list that may contain itself has neither."""
    for depth in range(MOST_AXES + 1):
        if not isinstance(value, list):
            return value, depth
        value = value[0] if value else None
    return None, 0


def _fresh(v: ty.Var) -> Type | Size | Shape:
    match v:
        case TypeVar():
            return TypeVar(0)
        case SizeVar():
            return Size(Poly.of(SizeVar(0)))
        case RowVar():
            return Shape((), RowVar(0), ())


def weight(weak: tuple[Any, TypeVar]) -> int:
    """Of what says little: integers may be floats, and None any enum that has such a variant."""
    value, _ = weak
    return 2 if value is None else 1 if isinstance(value, int) else 0


def turn(value: Any) -> int:
    """When an argument is matched: the later, the less it says of what variables stand for."""
    if value is None or hasattr(type(value), "__dlang_variant__"):
        return 1 if fields_of(type(value)) else 3
    return 2 if is_weak(value) else 0


# ---- advice ----------------------------------------------------------------------------------------------------------
# Gives advice on an argument that does not fit, in the words of its library.


def advice(value: Any, t: Type, dtype: str | None, kind: Kind | None) -> str:
    """Returns advice on how to convert a value to a type; empty where that is not plain.

    dtype: what the type asks for, if it is known; kind: the library whose array the value was.
    """
    match t:
        case ty.TypeArray():
            return _array(value, dtype, kind)
        case ty.TypeVar():
            return "" if dtype is None else _number(value, dtype, kind)
        case ty.TypeCon("str"):
            return "decode it: `.decode()`" if isinstance(value, bytes | bytearray) else ""
        case ty.TypeCon(name):
            return _number(value, name, kind)
        case ty.TypeTuple():
            return "give a tuple: `tuple(…)`" if isinstance(value, list) else ""
        case ty.TypeData(decl):
            return _data(value, decl)
        case _:
            return ""


def range_of(value: Any, dtype: str) -> str:
    """Between what the integers of a dtype are, where one of Python's, or one in a list, is not among them."""
    if dtype not in NUMPY or NUMPY[dtype].kind not in "iu":
        return ""
    bounds = np.iinfo(NUMPY[dtype])
    work = [value]
    seen: ByIdentity[object, None] = ByIdentity()  # a list may hold itself
    while work:
        part = work.pop()
        if isinstance(part, list):
            work += part[::-1] if part not in seen else []
            seen[part] = None
        elif type(part) is int and not bounds.min <= part <= bounds.max:
            found = "" if part is value else f"in it {describe(part)}: "
            return f"{found}{dtype} is from {bounds.min} to {bounds.max}"
    return ""


def _array(value: Any, dtype: str | None, kind: Kind | None) -> str:
    if is_masked(value):
        return "give a value for what is masked: `.filled(…)`"
    if isinstance(value, tuple | range):
        return "make it an array: `numpy.asarray(…)`"
    if isinstance(value, set | frozenset | dict | map | filter | zip) or hasattr(value, "__next__"):
        return "make it a list: `list(…)`"
    return _conversion(value, dtype, kind)


def _conversion(value: Any, dtype: str | None, kind: Kind | None) -> str:
    """How an array gets another dtype."""
    if dtype not in ELSEWHERE:
        return ""
    if (there := placed(value)) is not None:
        dtype_given: Any = there.dtype
    elif isinstance(value, list) or (array := as_array(value, None)) is None:
        return ""
    else:
        dtype_given = array.dtype
    if dtype_name(dtype_given) in (None, dtype):
        return ""
    if kind is not None:
        return kind.conversion(dtype)
    if dtype in TRUNCATED:
        return f"convert it: `.astype(ml_dtypes.{ELSEWHERE[dtype]})`, a dtype of the package `ml_dtypes`"
    array = "" if hasattr(value, "astype") else "numpy.asarray(…)"
    return f"convert it: `{array}.astype(numpy.{NUMPY[dtype].name})`"


def _number(value: Any, dtype: str, kind: Kind | None) -> str:
    if dtype not in ELSEWHERE:
        return ""
    if isinstance(value, np.ndarray) or kind is not None or dtype in TRUNCATED:
        return _conversion(value, dtype, kind) if not np.ndim(value) else ""
    if isinstance(value, np.generic):
        return f"convert it: `numpy.{NUMPY[dtype].name}(…)`"
    if isinstance(value, complex) or (type(value) is int and dtype != "bool"):  # out of range, or not what is asked for
        return ""
    plain, asked = {"f": ("float", "__float__"), "b": ("bool", "__bool__")}.get(NUMPY[dtype].kind, ("int", "__int__"))
    return f"convert it: `{plain}(…)`" if hasattr(value, asked) else ""


def _data(value: Any, decl: ty.DataDecl) -> str:
    if isinstance(value, type) and declaration_of(value) is decl:
        return f"that is the class: `{value.__name__}(…)` is a value"
    if isinstance(value, dict) and decl.is_struct:
        return f"make it one: `{decl.name}(**…)`"
    if isinstance(value, (tuple, list)) and decl.is_struct:
        names = [name for name, _ in decl.variants[0].fields]
        if set(getattr(value, "_fields", ())) == set(names):
            return f"make it one: `{decl.name}(**…._asdict())`"
        return f"make it one: `{decl.name}(*…)`" if len(value) == len(names) else ""
    wrapped = [v.name for v in decl.variants if len(v.fields) == 1]
    others = [v for v in decl.variants if v.fields]
    if not decl.is_struct and len(others) == len(wrapped) == 1 and not isinstance(value, type):
        return f"make it one: `{wrapped[0]}(…)`"
    return ""
