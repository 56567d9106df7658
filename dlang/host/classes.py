"""Python's classes of structs and of variants: dataclasses, which also know what the language calls their fields."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from dlang.identity import ByIdentity

WRITTEN = "__dlang_names__"
"""The member of a class with the names of its fields in the language, where Python has others: `from`, `x'`."""


def fields_of(kind: type | None) -> tuple[str, ...]:
    """The names of the fields in Python. None, a variant that is Python's None, has none."""
    return tuple(getattr(kind, "__dataclass_fields__", ()))


def written_fields(kind: type | None) -> tuple[str, ...]:
    """The names of the fields in the language; `0`, `1`… for those without."""
    return getattr(kind, WRITTEN, None) or tuple([_plain(k, name) for k, name in enumerate(fields_of(kind))])


def _plain(k: int, name: str) -> str:
    return name[1:] if name == f"_{k}" else name


def enum_name(kind: type | None) -> str | None:
    """The name of the enum that a class is a variant of, where that is known."""
    declared: Any = getattr(kind, "__dlang_variant__", None)
    return None if declared is None else str(declared[0].name)


def same_class(given: type, wanted: type) -> bool:
    """Tells whether a class is the wanted one of a struct or a variant, perhaps as another program made it."""
    if given is wanted:
        return True
    same = given.__module__ == wanted.__module__ and given.__qualname__ == wanted.__qualname__
    return same and hasattr(given, "__dataclass_fields__") and fields_of(given) == fields_of(wanted)


# ---- values that may be deep -----------------------------------------------------------------------------------------
# A list of the language is as deep as it is long, so nothing here recurses from one value into the next.
VALUE = "__dlang_value__"
"""The member that all such classes have."""


@dataclass(frozen=True, slots=True)
class Inner:
    """The place of a value among others: its number. What holds it is a value, or a tuple or list in one."""

    number: int


def nodes(value: Any) -> list[Any]:
    """A value and those in it, each once, and after all that are in it."""
    known: ByIdentity[Any, None] = ByIdentity()
    work: list[tuple[Any, bool]] = [(value, False)]
    while work:
        node, ready = work.pop()
        if node in known:
            continue
        if ready:
            known[node] = None
            continue
        work.append((node, True))
        for part in _fields(node):
            work += [(inner, False) for inner in _inner(part)]
    return list(known)


def flattened(value: Any) -> list[tuple[type, tuple[Any, ...]]]:
    """The classes and fields of a value and those in it, which are given by their numbers; the last is the value."""
    order = nodes(value)
    numbers = ByIdentity((v, k) for k, v in enumerate(order))
    return [(type(v), tuple([_replaced(p, lambda x: Inner(numbers[x])) for p in _fields(v)])) for v in order]


def rebuilt(parts: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]]) -> Any:
    """Rebuilds a flattened value. The classes may be others, or functions that make the values."""
    objects: list[Any] = []
    for make, fields in parts:
        objects.append(make(*[_replaced(f, lambda x: objects[x.number]) for f in fields]))
    return objects[-1]


def _text(value: Any) -> str:
    out: list[str] = []
    work: list[tuple[bool, Any]] = [(False, value)]
    while work:
        written, x = work.pop()
        if written:
            out.append(x)
        elif _is_value(x):
            fields = zip(fields_of(type(x)), _fields(x), strict=True)
            items = [[(True, f"{name}="), (False, field)] for name, field in fields]
            work += reversed(_listed(f"{type(x).__qualname__}(", items, ")"))
        elif type(x) in (tuple, list) and any(True for _ in _inner(x)):
            left, right = ("(", ",)" if len(x) == 1 else ")") if type(x) is tuple else ("[", "]")
            work += reversed(_listed(left, [[(False, item)] for item in x], right))
        else:
            out.append(repr(x))
    return "".join(out)


def _listed(left: str, items: list[list[tuple[bool, Any]]], right: str) -> list[tuple[bool, Any]]:
    apart = [[(True, ", "), *item] if k else item for k, item in enumerate(items)]
    return [(True, left), *[piece for item in apart for piece in item], (True, right)]


def _equal(one: Any, other: Any) -> Any:
    """Tells whether two values are equal in all that they hold. Arrays are if their shapes and elements are."""
    if not _is_value(other):
        return NotImplemented
    work = [(one, other)]
    while work:
        a, b = work.pop()
        if _is_value(a):
            if not _is_value(b) or not same_class(type(a), type(b)):
                return False
            work += zip(_fields(a), _fields(b), strict=True)
        elif isinstance(a, tuple | list):
            if type(a) is not type(b) or len(a) != len(b):
                return False
            work += zip(a, b, strict=True)
        elif not _same_leaf(a, b):
            return False
    return True


def _same_leaf(a: Any, b: Any) -> bool:
    if getattr(a, "shape", ()) != getattr(b, "shape", ()):
        return False
    same = a == b
    return bool(same.all()) if hasattr(same, "all") else bool(same)


def _hash(value: Any) -> int:
    """Hashes the parts that are read quickly: the class, and the numbers and texts in the fields."""
    plain = [f if isinstance(f, int | float | str) else None for f in _fields(value)]
    return hash((type(value).__qualname__, *plain))


def _deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    parts = flattened(value)
    return rebuilt((kind, tuple([f if _holds(f) else deepcopy(f, memo) for f in fields])) for kind, fields in parts)


def _holds(field: Any) -> bool:
    """Tells whether a field has numbers of inner values in it."""
    return isinstance(field, Inner) or (type(field) in (tuple, list) and any(map(_holds, field)))


def _is_value(x: Any) -> bool:
    return hasattr(type(x), VALUE)


def _fields(value: Any) -> list[Any]:
    return [getattr(value, name) for name in fields_of(type(value))]


def _inner(field: Any) -> Iterator[Any]:
    """The values that a field holds."""
    if _is_value(field):
        yield field
    elif type(field) in (tuple, list):
        for item in field:
            yield from _inner(item)


def _replaced(field: Any, by: Callable[[Any], Any]) -> Any:
    """The field with something else for the values in it, or for their numbers."""
    if _is_value(field) or isinstance(field, Inner):
        return by(field)
    if type(field) in (tuple, list):
        return type(field)([_replaced(item, by) for item in field])
    return field


MEMBERS: Mapping[str, Any] = {
    VALUE: True, "__repr__": _text, "__eq__": _equal, "__hash__": _hash, "__deepcopy__": _deep_copy,
}  # fmt: skip
"""The members of the classes of structs and variants beside their fields."""


# ---- names -----------------------------------------------------------------------------------------------------------
# Names as Python writes them, and types as the language does, for what Python sees of functions and structures.


def python_names(names: Sequence[str | None]) -> list[str]:
    """Different names of the language in Python: `from` is `from_` there, and `x'` is `x_`; None is `_0`, `_1`…"""
    in_python: list[str] = []
    for k, name in enumerate(names):
        name_in_python = f"_{k}" if name is None else name.replace("'", "_")
        name_in_python += "_" * keyword.iskeyword(name_in_python)
        while name_in_python in in_python or (name_in_python != name and name_in_python in names):
            name_in_python += "_"
        in_python.append(name_in_python)
    return in_python


class Written(str):
    """A type as the language writes it; `inspect` shows it without quotes."""

    __slots__ = ()

    __repr__ = str.__str__
