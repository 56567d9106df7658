"""Functions in a line, as a person reads them: as inferred, as written, or of what the compiler knows.

Whether a parameter may take a value is judged by types alone: quick, and wrong only by taking too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlang.grammar import syntax as s
from dlang.lazy_modules import lazy_module
from dlang.ops.functions import SCHEMES, TYPES, about
from dlang.typecheck import builtins, types as ty
from dlang.typecheck.program import Checked
from dlang.typecheck.refinements import written
from dlang.typecheck.schemes import scheme_names
from dlang.typecheck.scope import BuiltinEntry, FnEntry
from dlang.typecheck.terms import variables

if TYPE_CHECKING:
    from dlang.typecheck import declarations
else:
    declarations = lazy_module("dlang.typecheck.declarations")


@dataclass(frozen=True, slots=True)
class Signature:
    """parameters: what each is, `x: f64[n] = …`, in order; names: of those that can be given by name."""

    name: str
    parameters: tuple[str, ...]
    names: tuple[str | None, ...]
    result: str = ""
    bounds: str = ""

    def inside(self, form: str) -> Signature:
        """The signature of `grad(f)`, or of the function; a form's result depends on its other arguments."""
        return replace(self, name=f"{form}({self.name})", result="") if form else self

    def __str__(self) -> str:
        result = f" -> {self.result}" if self.result else ""
        return f"{self.name}{self.bounds}({', '.join(self.parameters)}){result}"


def inferred(name: str, entry: FnEntry, item: s.Fn | s.Extern | None = None) -> Signature:
    """The signature that the checker found. item: the declaration, for patterns and defaults as they are written."""
    scheme, decl = entry.scheme, entry.decl
    names = scheme_names(scheme)
    parameters: list[str] = []
    for k, t in enumerate(scheme.params):
        asked = scheme.asked[k] if k < len(scheme.asked) else None
        pattern = pattern_text(item.parameters[k].pattern) if item else _at(entry.names, k) or "_"
        text = f"{pattern}: {'size' if scheme.size_of(k) is not None else written(t, asked, names)}"
        if k < len(decl.params):
            text = f"nodiff {text}" if decl.params[k].nodiff else text
            default = item.parameters[k].default if item else None
            text += f" = {flat(default.span.text) if default else '…'}" if decl.params[k].has_default else ""
        parameters.append(text)
    result = written(scheme.result, scheme.promised, names)
    if decl.effects:
        result += f" ! {' + '.join(sorted(decl.effects))}"
    inside = variables(*scheme.params, scheme.result)
    bounds = [
        f"{names(v)}: {' + '.join(sorted(v.classes))}"
        for v in scheme.variables
        if isinstance(v, ty.TypeVar) and v.classes and v in inside
    ]
    return Signature(name, tuple(parameters), entry.names, result, f"<{', '.join(bounds)}>" if bounds else "")


def _at(names: tuple[str | None, ...], k: int) -> str | None:
    return names[k] if k < len(names) else None


def as_written(name: str, item: s.Fn | s.Extern) -> Signature:
    names = tuple(p.pattern.name if isinstance(p.pattern, s.PatternName) else None for p in item.parameters)
    result = flat(item.result.span.text) if item.result is not None else ""
    bounds = ", ".join(flat(b.span.text) for b in item.bounds)
    return Signature(name, tuple(flat(p.span.text) for p in item.parameters), names, result, bounds and f"<{bounds}>")


def of_builtin(name: str) -> Signature:
    """Returns the signature of a builtin; if no signature can say its type, one that comes near."""
    return from_text(name, signature(name) or "(x)")


def from_text(name: str, text: str) -> Signature:
    """Parses a signature such as `<a: Num>(x: a[..s]) -> a`."""
    opening = text.index("(")
    *parameters, result = _parts(text[opening + 1 :])
    names = tuple(n if (n := re.split(r"[: ]", p)[0]).isidentifier() else None for p in parameters)
    return Signature(name, tuple(parameters), names, result.removeprefix(" -> "), text[:opening])


def _parts(text: str) -> Iterator[str]:
    """Lists the texts between commas up to the `)` that closes, and the text behind that."""
    depth, start = 0, 0
    for k, letter in enumerate(text):
        closes = letter == ")" and depth == 0
        if closes or (letter == "," and depth == 0):
            if part := text[start:k].strip():
                yield part
            start = k + 1
        if closes:
            break
        depth += (letter in "([{") - (letter in ")]}")
    yield text[start:]


def pattern_text(p: s.Pattern) -> str:
    return p.name if isinstance(p, s.PatternName) else flat(p.span.text)


def flat(text: str) -> str:
    """Code of several lines in one."""
    return re.sub(r"\s+", " ", re.sub(r"#[^\n]*", "", text)).strip()


# ---- the functions of the compiler -----------------------------------------------------------------------------------
# Signatures of functions that the compiler knows, and descriptions of them and of the names in types.

_WORDS_OF_TYPES = {
    "size": "The type of a parameter that is a size: an `i64` that is not negative, which types may mention.",
    "Idx": "`Idx<n>` is an `i64` with 0 ≤ i < n: proven where it is asked for, or checked by `e as Idx<n>`.",
    "Num": "The dtypes of numbers, with `+`, `-` and `*`.",
    "Float": "The dtypes of floats.",
    "Int": "The dtypes of integers.",
    "Ord": "The dtypes whose values have an order.",
    "Eq": "The dtypes whose values can be compared.",
    "Vector": "Types that add up and scale: floats, arrays, tuples and structs of them.",
    "Bits": "Integers and `bool`.",
    "Scalar": "Numbers and `bool`.",
}


def signature(name: str) -> str | None:
    """Returns the signature of a builtin function without its name: `(x: a[n]) -> i64`."""
    return TYPES.get(name)


def words(name: str) -> str:
    """Describes its result."""
    return about(name) or _WORDS_OF_TYPES.get(name, "")


def functions(checked: Checked) -> Iterator[tuple[str, FnEntry | BuiltinEntry]]:
    """All functions in scope, those of the module first; of what the compiler knows those with a signature."""
    for name in dict.fromkeys(checked.program.value_names(checked.table)):
        if name.startswith("_") or name in ty.DTYPES:
            continue
        entry = checked.program.value(checked.table, name)
        if isinstance(entry, BuiltinEntry) and name in SCHEMES:
            entry = builtins.builtin_entry(declarations.checker(checked.program, checked.table), name)
        if isinstance(entry, FnEntry | BuiltinEntry):
            yield name, entry


def taking(checked: Checked, t: ty.Type | None) -> Iterator[tuple[str, FnEntry]]:
    """The functions whose first parameter may be of a type; all that have one, if it is not known."""
    for name, entry in functions(checked):
        if isinstance(entry, FnEntry) and entry.scheme.params and entry.decl.kind != "const":
            if t is None or takes(entry.scheme.params[0], t):
                yield name, entry


def takes(parameter: ty.Type, value: ty.Type) -> bool:
    """Tells whether a value of a type may be an argument, judged by dtypes and ranks."""
    wanted, given = ty.resolve(parameter), ty.resolve(value)
    if isinstance(given, ty.TypeVar):
        return True
    match wanted:
        case ty.TypeVar():
            return _of_classes(wanted, given)
        case ty.TypeArray(element, shape):
            element = ty.resolve(element)
            rank = len(shape.pre) + len(shape.post)
            if not isinstance(given, ty.TypeArray):
                return shape.row is not None and rank == 0 and takes(element, given)
            rank_given = len(given.shape.pre) + len(given.shape.post)
            fits = rank_given >= rank if shape.row is not None else rank_given == rank or given.shape.row is not None
            return fits and takes(element, given.element)
        case ty.TypeTuple(items):
            return (
                isinstance(given, ty.TypeTuple)
                and len(items) == len(given.items)
                and all(map(takes, items, given.items))
            )
        case ty.TypeFn(params):
            return isinstance(given, ty.TypeFn) and len(params) == len(given.params)
        case ty.TypeData(decl):
            return isinstance(given, ty.TypeData) and (given.decl is decl or given.decl.name == decl.name)
        case ty.TypeCon():
            return given == wanted


def _of_classes(v: ty.TypeVar, t: ty.Type) -> bool:
    if v.atomic and isinstance(t, ty.TypeArray):
        return False
    classes = v.classes - {"Vector"}
    if not classes:
        return True
    return isinstance(t, ty.TypeCon) and all(t.name in ty.CLASSES.get(c, ()) for c in classes)
