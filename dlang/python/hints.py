"""Types of the language as type hints of Python."""

from __future__ import annotations

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

PLAIN = {"f64": "float", "i64": "int", "bool": "bool", "str": "str"}
SCALARS = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bool": "bool_",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip


def hint(t: Type, *, given: bool = False, strict: bool = False) -> str:
    """What a value of the type is to Python. given: as an argument, for which more will do; strict: but where that
    would not tell one type from another.
    """
    t = resolve(t)
    match t:
        case TypeCon(name):
            return _scalar(name, given and not strict)
        case TypeArray(element, shape):
            return _array(resolve(element), resolve_shape(shape), given, strict)
        case TypeTuple(items):
            return f"tuple[{', '.join(hint(i, given=given, strict=strict) for i in items)}]" if items else "None"
        case TypeFn(params, result):
            inner = ", ".join(hint(p) for p in params)
            return f"Callable[[{inner}], {hint(result, given=True)}]"
        case TypeData(decl, _):
            return name_of(decl)
        case TypeVar():
            return "Any"


def _scalar(dtype: str, given: bool) -> str:
    if dtype == "str":
        return "str"
    numpy = f"np.{SCALARS[dtype]}" if dtype in SCALARS else "Any"  # bf16 is of a package that need not be there
    plain = PLAIN.get(dtype)
    if not given:
        return plain or numpy
    other = plain or ("float" if dtype.startswith(("f", "bf")) else "int")
    return other if dtype == "f64" else f"{other} | {numpy}"


def _array(element: Type, shape: Shape, given: bool, strict: bool) -> str:
    if isinstance(element, TypeCon) and element.name != "str":
        dtype = f"np.{SCALARS[element.name]}" if element.name in SCALARS else "Any"
        lists = f"list[{PLAIN[element.name]}]" if strict and element.name in PLAIN else "list[Any]"
        if strict and element.name not in PLAIN:
            return f"NDArray[{dtype}]"
        return f"NDArray[{dtype}] | {lists}" if given else f"NDArray[{dtype}]"
    if isinstance(element, TypeCon):
        return "NDArray[np.object_] | list[Any]" if given else "NDArray[np.object_]"
    if isinstance(element, TypeVar) or shape.row is not None:
        return "Any"
    inner = hint(element, given=given, strict=strict)
    for _ in (*shape.pre, *shape.post):
        inner = f"list[{inner}]"
    return inner


def name_of(decl: DataDecl) -> str:
    """The class of a struct; what stands for all variants of an enum."""
    return decl.name if decl.is_struct else f"_{decl.name}"


def variants_of(decl: DataDecl) -> str:
    """The variants of an enum, as a union."""
    return " | ".join("None" if is_none(v) else v.name for v in decl.variants)
