"""From Python's arguments to leaves: what was given is matched with the declared types, sizes included.

A NumPy array or scalar has its dtype, and nothing converts it; Python's own numbers and lists take the dtype that is
asked for. What a size, a type or a number of axes stands for is fixed by one argument, and the others must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, error
from dlang.ir.anf import Scalar, poly
from dlang.polynomials import Poly
from dlang.runtime.values import NUMPY, as_array, describe, dtype_name, number
from dlang.specialize.frame import substituted
from dlang.specialize.structs import declaration, field_names, is_a, variant_of
from dlang.specialize.types import STATIC, Bindings, Mono, MonoArray, MonoData, MonoEnum, MonoTuple
from dlang.typecheck import types as ty
from dlang.typecheck.core import FnDecl, Param
from dlang.typecheck.printing import Names
from dlang.typecheck.types import DataDecl, Floor, RowVar, Shape, Size, SizeAtom, SizeVar, Type, TypeVar


@dataclass(frozen=True, slots=True)
class Given:
    """An argument: what it is, with the sizes that it has, and its leaves in order."""

    mono: Mono
    leaves: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a variable of the scheme stands for, and the argument that said so."""

    value: Any
    by: str


# ---- matching --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Matcher:
    """Matches the arguments of one call."""

    decl: FnDecl
    types: dict[TypeVar, Fixed] = field(default_factory=dict)
    sizes: dict[SizeVar, Fixed] = field(default_factory=dict)
    rows: dict[RowVar, Fixed] = field(default_factory=dict)
    _current: Param | None = None
    _whole: Any = None
    _open: list[tuple[Param, Any, Size, int]] = field(default_factory=list)

    def match(self, values: Mapping[Param, Any]) -> list[Given]:
        """The arguments, in the order of the parameters; raises a `DlangError` where one does not fit."""
        found: dict[Param, Given] = {}
        # Python's own numbers come late, for they take the dtype that the others fix. Among the others those with few
        # axes come first: of labels [n] and images [n, 64] that differ, the message is about the images.
        for param in sorted(values, key=lambda p: (_turn(values[p]), _axes(p.local.type))):
            self._current, self._whole = param, values[param]
            found[param] = self._value(values[param], param.local.type)
            size = param.local.size
            if size is not None:
                count = int(found[param].leaves[0])
                if count < 0:
                    raise self._wrong("a size is not negative")
                self._size(Size(Poly.of(size)), count)
        for param, whole, waiting, actual in self._open:
            self._current, self._whole = param, whole
            if self._evaluated(waiting) != actual:
                raise self._wrong()
        return [found[p] for p in self.decl.params if p in found]

    def _value(self, value: Any, t: Type) -> Given:
        t = ty.resolve(t)
        match t:
            case ty.TypeCon(dtype):
                return self._scalar(value, dtype)
            case ty.TypeVar():
                return self._variable(value, t)
            case ty.TypeArray(element, shape):
                return self._array(value, ty.resolve(element), ty.resolve_shape(shape))
            case ty.TypeTuple(items):
                if not isinstance(value, tuple) or len(value) != len(items):
                    raise self._wrong()
                parts = [self._value(v, i) for v, i in zip(value, items, strict=True)]
                return Given(MonoTuple(tuple(p.mono for p in parts)), _leaves(parts))
            case ty.TypeData(decl, args):
                return self._struct(value, decl, args)
            case ty.TypeFn():
                if value is not self._whole:
                    raise self._wrong("a function inside of another argument cannot be passed from Python yet")
                if not callable(value):
                    raise self._wrong()
                return Given(STATIC, ())

    def _scalar(self, value: Any, dtype: str) -> Given:
        if dtype == "str":
            if not isinstance(value, str):
                raise self._wrong()
            return Given(Scalar("str"), (str(value),))
        scalar = number(value, dtype)
        if scalar is None:
            raise self._wrong()
        return Given(Scalar(dtype), (scalar,))

    def _array(self, value: Any, element: Type, shape: Shape) -> Given:
        if isinstance(element, ty.TypeData | ty.TypeTuple):
            return self._array_of_structures(value, element, shape)
        dtype = element.name if isinstance(element, ty.TypeCon) else self._dtype_of(element)
        array = as_array(value, dtype)
        found = None if array is None else dtype_name(array.dtype)
        if found is None:
            raise self._wrong()
        if isinstance(element, TypeVar):
            self._bind_type(element, Scalar(found))
        elif found != dtype:
            raise self._wrong(_conversion(dtype))
        self._shape(shape, array.shape)
        return _leaf(array)

    def _array_of_structures(self, value: Any, element: Type, shape: Shape) -> Given:
        """A list of structs or tuples: one array for each leaf."""
        if shape.row is not None or len(shape.pre) != 1 or not isinstance(value, list) or not value:
            raise self._wrong("an array of structures is given as a list of them, which is not empty")
        self._shape(shape, (len(value),))
        parts = [self._value(v, element) for v in value]
        leaves = tuple(np.stack(column) for column in zip(*(p.leaves for p in parts), strict=True))
        if any(p.mono != parts[0].mono for p in parts):
            raise self._wrong("its elements have different sizes")
        return Given(MonoArray(parts[0].mono, (poly(len(value)),)), leaves)

    def _struct(self, value: Any, decl: DataDecl, args: tuple[Type | Size | Shape, ...]) -> Given:
        if not decl.is_struct:
            return self._enum(value, decl, args)
        if not is_a(value, decl):
            raise self._wrong()
        by = dict(zip(decl.params, args, strict=True))
        parts = [self._value(getattr(value, str(name)), substituted(t, by)) for name, t in decl.variants[0].fields]
        return Given(MonoData(decl, tuple(p.mono for p in parts)), _leaves(parts))

    def _enum(self, value: Any, decl: DataDecl, args: tuple[Type | Size | Shape, ...]) -> Given:
        """The tag, and the fields of every variant: those of the others are zeros."""
        if contains_itself(decl):
            raise self._wrong("an enum that contains itself cannot be passed from Python yet")
        variant = variant_of(value, decl)
        if variant is None:
            raise self._wrong()
        by = dict(zip(decl.params, args, strict=True))
        names = field_names(variant)
        own = [
            self._value(getattr(value, n), substituted(t, by)) for n, (_, t) in zip(names, variant.fields, strict=True)
        ]
        parts = [
            own if v is variant else [self._nothing(substituted(t, by)) for _, t in v.fields] for v in decl.variants
        ]
        mono = MonoEnum(decl, tuple(tuple(p.mono for p in fields) for fields in parts))
        return Given(mono, (np.int64(decl.variants.index(variant)), *_leaves([p for fields in parts for p in fields])))

    def _nothing(self, t: Type) -> Given:
        """A value of a type that nobody looks at."""
        t = ty.resolve(t)
        match t:
            case ty.TypeCon("str"):
                return Given(Scalar("str"), ("",))
            case ty.TypeCon(dtype):
                return self._scalar(False if dtype == "bool" else 0, dtype)
            case ty.TypeVar() if isinstance(fixed := self.types.get(t), Fixed) and isinstance(fixed.value, Scalar):
                return self._nothing(ty.TypeCon(fixed.value.dtype))
            case ty.TypeTuple(items):
                parts = [self._nothing(i) for i in items]
                return Given(MonoTuple(tuple(p.mono for p in parts)), _leaves(parts))
            case ty.TypeData(decl, args) if decl.is_struct:
                by = dict(zip(decl.params, args, strict=True))
                parts = [self._nothing(substituted(f, by)) for _, f in decl.variants[0].fields]
                return Given(MonoData(decl, tuple(p.mono for p in parts)), _leaves(parts))
            case ty.TypeData(decl, args) if not contains_itself(decl):
                by = dict(zip(decl.params, args, strict=True))
                rows = [[self._nothing(substituted(f, by)) for _, f in v.fields] for v in decl.variants]
                mono = MonoEnum(decl, tuple(tuple(p.mono for p in row) for row in rows))
                return Given(mono, (np.int64(0), *_leaves([p for row in rows for p in row])))
            case ty.TypeArray(ty.TypeCon(dtype), shape) if shape.row is None and dtype in NUMPY:
                sizes = [self._evaluated(s) for s in shape.pre]
                if None not in sizes:
                    return _leaf(np.zeros([s or 0 for s in sizes], NUMPY[dtype]))
        raise self._wrong("what another variant would hold is not known: give what says it before, or annotate it")

    # ---- variables of the scheme ----
    def _variable(self, value: Any, v: TypeVar) -> Given:
        """A value of any type; a number of Python's takes the dtype that is known."""
        if isinstance(value, tuple):
            parts = [self._value(x, TypeVar(0)) for x in value]
            given = Given(MonoTuple(tuple(p.mono for p in parts)), _leaves(parts))
        elif (decl := declaration(value)) is not None:
            parts = [self._value(getattr(value, str(n)), TypeVar(0)) for n, _ in decl.variants[0].fields]
            given = Given(MonoData(decl, tuple(p.mono for p in parts)), _leaves(parts))
        elif isinstance(value, str):
            given = Given(Scalar("str"), (str(value),))
        else:
            array = as_array(value, self._dtype_of(v))
            if array is None or dtype_name(array.dtype) is None:
                raise self._wrong()
            given = _leaf(array)
        self._bind_type(v, given.mono)
        return given

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
            raise self._wrong()
        scalar = _element(mono)
        for name in v.classes & ty.CLASSES.keys():
            if not isinstance(scalar, Scalar) or scalar.dtype not in ty.CLASSES[name]:
                raise self._wrong(f"it must be of the class {name}")
        self.types.setdefault(v, Fixed(mono, self._name))

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
        poly = ty.resolve_size(size).poly
        unknown = [a for a in dict.fromkeys(poly.atoms()) if isinstance(a, SizeVar) and a not in self.sizes]
        if not unknown and not any(isinstance(a, Floor) for a in poly.atoms()):
            if self._evaluated(size) != actual:
                raise self._wrong()
        elif len(unknown) == 1 and _is_linear(size, unknown[0]):
            rest = self._evaluated(Size(poly.without(unknown[0])))
            factor = self._evaluated(Size(poly.coefficient(unknown[0])))
            if not factor or rest is None or (actual - rest) % factor or (actual - rest) // factor < 0:
                raise self._wrong()
            self.sizes[unknown[0]] = Fixed((actual - rest) // factor, self._name)
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
            return int(self.sizes[a].value)

        try:
            return ty.resolve_size(size).poly.evaluate(value)
        except KeyError:
            return None

    def bindings(self) -> Bindings:
        """What the variables of the scheme stand for at this call, after `match`."""
        found: Bindings = {v: f.value for v, f in self.types.items()}
        found.update({v: poly(f.value) for v, f in self.sizes.items()})
        found.update({v: tuple(map(poly, f.value)) for v, f in self.rows.items()})
        return found

    # ---- messages ----
    @property
    def _name(self) -> str:
        assert self._current is not None
        return self._current.local.name

    def _wrong(self, why: str = "") -> DlangError:
        assert self._current is not None
        local = self._current.local
        names = Names()
        wanted = names.type(local.type)
        known = [f"{n} from `{by}`" for n, by in self._reasons(local.type, names) if by != local.name]
        message = ", ".join([f"argument `{local.name}`: expected {wanted}", *known, f"got {describe(self._whole)}"])
        return error("E0960", message + (f" ({why})" if why else ""), local.span)

    def _reasons(self, t: Type, names: Names) -> Iterator[tuple[str, str]]:
        """What the variables of a type stand for, and which argument said so."""
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
    """Whether the fields of a declaration lead back to it."""
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
def _is_weak(value: Any) -> bool:
    """Whether a value takes the dtype that is asked for: Python's numbers, and lists of them."""
    return isinstance(value, int | float | list) and not isinstance(value, np.generic)


def _turn(value: Any) -> int:
    """When an argument is matched: the later, the less it says of what variables stand for."""
    if value is None or hasattr(type(value), "__dlang_variant__"):
        return 1 if getattr(value, "__dataclass_fields__", None) else 3
    return 2 if _is_weak(value) else 0


def _leaf(array: Any) -> Given:
    """An array, or the number that one without axes is."""
    scalar = Scalar(str(dtype_name(array.dtype)))
    if not array.ndim:
        return Given(scalar, (array[()],))
    return Given(MonoArray(scalar, tuple(map(poly, array.shape))), (array,))


def _element(mono: Mono) -> Mono:
    return mono.element if isinstance(mono, MonoArray) else mono


def _leaves(parts: Sequence[Given]) -> tuple[Any, ...]:
    return tuple(leaf for p in parts for leaf in p.leaves)


def _conversion(wanted: str | None) -> str:
    if wanted == "bf16":
        return "convert it: `.astype(ml_dtypes.bfloat16)`, a dtype of the package `ml_dtypes`"
    return f"convert it: `.astype(numpy.{NUMPY[wanted].name})`" if wanted in NUMPY else ""


def mono_text(mono: Mono) -> str:
    """What an argument is, in the words of the language."""
    match mono:
        case Scalar(dtype):
            return dtype
        case MonoArray(element, shape):
            return f"{mono_text(element)}[{', '.join(map(str, shape))}]"
        case MonoTuple(items):
            return f"({', '.join(map(mono_text, items))})"
        case MonoData(decl, _):
            return decl.name
        case _:
            return "a function"
