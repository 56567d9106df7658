"""Format specifications: `"{x:.3f}"` is refused where a value of x's type cannot be written so."""

from __future__ import annotations

import re

from dlang.diagnostics import DlangError, Span, error
from dlang.typecheck.context import Checker
from dlang.typecheck.types import FLOATS, Type, TypeArray, TypeCon, TypeData, TypeTuple, TypeVar, resolve

WIDEST = 100_000  # characters of a number or a text that is written
_HELP = "the specifications are Python's: `.3f` and `8.2e` for numbers, `05d` for integers, `>10` for anything"


def check_format(cx: Checker, t: Type, spec: str, span: Span) -> None:
    """Checks, when the type is known, that every scalar in a value of it can be written so."""

    def check() -> None:
        for leaf in _scalars(t, set()):
            if isinstance(leaf, TypeCon):
                check_dtype(leaf.name, spec, span)
            elif not any(_accepts(sample, spec) for sample in (1.5, 1, "true")):
                raise _refused("such a value", spec, span)

    if any(len(n.lstrip("0")) > len(str(WIDEST)) or int(n) > WIDEST for n in re.findall("[0-9]+", spec)):
        message = f"the format specification `{spec}` asks for more than {WIDEST} characters"
        raise error("E0318", message, span, help=(_HELP,))
    if spec:
        cx.later.append(check)


def check_dtype(dtype: str, spec: str, span: Span | None) -> None:
    """Raises E0318 unless scalars of a dtype can be written so; of a variable that is known only at an instance."""
    if not _accepts(_sample(dtype), spec):
        raise _refused(dtype, spec, span)


def _refused(what: str, spec: str, span: Span | None) -> DlangError:
    return error("E0318", f"the format specification `{spec}` can't write {what}", span, help=(_HELP,))


def _accepts(sample: float | str, spec: str) -> bool:
    try:
        format(sample, spec)
    except ValueError:
        return False
    return True


def _sample(dtype: str) -> float | str:
    if dtype in FLOATS:
        return 1.5
    return "true" if dtype in ("bool", "str") else 1


def _scalars(t: Type, seen: set[object]) -> list[TypeCon | TypeVar]:
    match resolve(t):
        case TypeCon() | TypeVar() as leaf:
            return [leaf]
        case TypeArray(element, _):
            return _scalars(element, seen)
        case TypeTuple(items):
            return [leaf for item in items for leaf in _scalars(item, seen)]
        case TypeData(decl, args):
            if decl in seen:
                return []
            seen.add(decl)
            fields = [f for variant in decl.variants for _, f in variant.fields]
            types = [a for a in args if isinstance(a, TypeCon | TypeArray | TypeTuple | TypeData | TypeVar)]
            # a variable in a field is a parameter of the declaration, and stands for an argument
            of_fields = [leaf for f in fields for leaf in _scalars(f, seen) if isinstance(leaf, TypeCon)]
            return of_fields + [leaf for a in types for leaf in _scalars(a, seen)]
        case _:
            return []
