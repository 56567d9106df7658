"""Python's classes of structs and of variants: dataclasses, which also know what the language calls their fields."""

from __future__ import annotations

from typing import Any

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
    found: Any = getattr(kind, "__dlang_variant__", None)
    return None if found is None else str(found[0].name)


def same_class(given: type, wanted: type) -> bool:
    """Whether a class is that of a struct or a variant, perhaps as another program made it."""
    if given is wanted:
        return True
    same = given.__module__ == wanted.__module__ and given.__qualname__ == wanted.__qualname__
    return same and hasattr(given, "__dataclass_fields__") and fields_of(given) == fields_of(wanted)
