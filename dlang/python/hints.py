"""Types of the language as type hints of Python."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from dlang.ops.dtypes import DTYPES
from dlang.specialize.structs import is_none
from dlang.typecheck.types import (
    DataDecl,
    Shape,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    resolve,
    resolve_shape,
)

PLAIN = {d.name: d.python for d in DTYPES.values() if d.python}
SCALARS = {d.name: "bool_" if d.kind == "truth" else d.numpy for d in DTYPES.values() if d.in_numpy}


@dataclass(frozen=True, slots=True)
class Hints:
    """taken: names of a module, which its own functions and types have, and so no word of Python's may. variables: of
    the language that are variables of Python's, too.
    """

    taken: Container[str] = ()
    variables: Mapping[TypeVar, str] = field(default_factory=dict)

    def word(self, name: str) -> str:
        """A name that a stub imports or takes as given, under another name if need be, which no class has either."""
        if name not in self.taken:
            return name
        other = f"py_{name}"
        while other in self.taken:  # of which there is a class `_py_…`
            other += "_"
        return f"_{other}"

    def imported(self, name: str) -> str:
        """How an import gives it."""
        return f"{name} as {self.word(name)}" if name in self.taken else name

    def of(self, t: Type, *, given: bool = False, strict: bool = False) -> str:
        """Returns the Python hint for a type. given: for an argument, which accepts more types; strict: but not where
        that would fail to tell one type from another.
        """
        t = resolve(t)
        match t:
            case TypeCon(name):
                return self.scalar(name, given and not strict)
            case TypeArray(element, shape):
                return self.array(resolve(element), resolve_shape(shape), given, strict)
            case TypeTuple(items):
                inner = ", ".join([self.of(i, given=given, strict=strict) for i in items])
                return f"{self.word('tuple')}[{inner}]" if items else "None"
            case TypeFn(params, result):
                inner = ", ".join(map(self.of, params))
                return f"{self.word('Callable')}[[{inner}], {self.of(result, given=True)}]"
            case TypeData(decl, _):
                return name_of(decl)
            case TypeVar():
                return self.variables.get(t) or self.word("Any")

    def scalar(self, dtype: str, given: bool) -> str:
        plain, numpy = self.plain(dtype), self.numpy(dtype)
        if not given or dtype == "str":
            return plain or numpy
        other = plain or self.word("float" if dtype.startswith(("f", "bf")) else "int")
        return other if dtype == "f64" else f"{other} | {numpy}"

    def array(self, element: Type, shape: Shape, given: bool, strict: bool) -> str:
        match element:
            case TypeCon(name):
                own = "object_" if name == "str" else SCALARS.get(name)
                dtype = self.word("Any") if own is None else f"{self.word('np')}.{own}"
                array = f"{self.word('NDArray')}[{dtype}]"
                items = self.plain(name) if strict and name != "str" else self.word("Any")
                return f"{array} | {self.word('list')}[{items}]" if given and items else array
            case TypeVar():
                return self.word("Any")
        if shape.row is not None:
            return self.word("Any")
        inner = self.of(element, given=given, strict=strict)
        for _ in (*shape.pre, *shape.post):
            inner = f"{self.word('list')}[{inner}]"
        return inner

    def plain(self, dtype: str) -> str | None:
        """Python's own class for a dtype, if it has one."""
        return self.word(PLAIN[dtype]) if dtype in PLAIN else None

    def numpy(self, dtype: str) -> str:
        """The scalars of NumPy; those that it does not have are of a package that need not be there."""
        return f"{self.word('np')}.{SCALARS[dtype]}" if dtype in SCALARS else self.word("Any")


def name_of(decl: DataDecl) -> str:
    """The class of a struct; what stands for all variants of an enum."""
    return decl.name if decl.is_struct else f"_{decl.name}"


def variants_of(decl: DataDecl) -> str:
    """The variants of an enum, as a union."""
    return " | ".join("None" if is_none(v) else v.name for v in decl.variants)
