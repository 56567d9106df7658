"""Names as Python writes them, and types as the language does, for what Python sees of functions and structures."""

from __future__ import annotations

import keyword
from collections.abc import Sequence


def python_names(names: Sequence[str | None]) -> list[str]:
    """Different names of the language in Python: `from` is `from_` there, and `x'` is `x_`; None is `_0`, `_1`…"""
    here: list[str] = []
    for k, name in enumerate(names):
        found = f"_{k}" if name is None else name.replace("'", "_")
        found += "_" * keyword.iskeyword(found)
        while found in here or (found != name and found in names):
            found += "_"
        here.append(found)
    return here


class Written(str):
    """A type as the language writes it; `inspect` shows it without quotes."""

    __slots__ = ()

    __repr__ = str.__str__
