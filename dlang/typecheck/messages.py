"""Mismatches in words: what was expected, what was found, and where each comes from."""

from __future__ import annotations

import re

from dlang.diagnostics import Diagnostic, Fix, Note, Span, replacement
from dlang.ops.dtypes import DTYPES
from dlang.spelling import closest, plural
from dlang.typecheck import advice
from dlang.typecheck.printing import Names
from dlang.typecheck.sizes import where_from
from dlang.typecheck.state import EACH_CALL, NO_OPERAND, Constraint, Mismatch, Term
from dlang.typecheck.terms import opened_in, view
from dlang.typecheck.types import (
    FLOATS,
    INTS,
    UNIT,
    Shape,
    Size,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    resolve,
)

_BOUNDS = ("Num", "Float", "Int", "Ord", "Eq", "Vector")
_RANKS = "different numbers of axes"
_UNDEFINED = "is not defined on structures"
_HOLDS = tuple(DTYPES)  # from the one that holds most
# What a class of dtypes holds.
_MEMBERS = {"Num": "number", "Float": "float", "Int": "integer"}


def code_of(m: Mismatch) -> str:
    if isinstance(m.found, Size):
        if "multiple" in m.note:
            return "E0404"
        return "E0403" if opened_in(m.found, m.wanted) else "E0401"
    if isinstance(m.found, Shape) or ("axes" in m.note and not isinstance(m.wanted, TypeFn)):
        return "E0402"
    if "infinite" in m.note:
        return "E0304"
    if m.note == EACH_CALL:
        return "E0414"
    return "E0302" if m.note.startswith("needs") else "E0301"


def detail(m: Mismatch, names: Names) -> str:
    """Why two types do not fit, in a few words."""
    if "infinite" in m.note:
        return "infinite (recursive) type"
    if m.note == EACH_CALL:
        return m.note
    if m.note.startswith("needs"):
        return without_class(lacking(m), m.note.removeprefix("needs "), names)
    if m.note == _RANKS and isinstance(m.wanted, TypeFn):
        return f"{names(m.found)} is no function"
    if m.note == _RANKS:
        for side in (m.found, m.wanted):
            if isinstance(side, TypeData | TypeTuple | TypeFn) or is_text(side):
                return f"{names(side)} has no axes"
    if m.note.startswith("it has the effect") or m.note.endswith(_UNDEFINED) or m.note.startswith(NO_OPERAND):
        return m.note
    if isinstance(m.found, Shape) and m.note.startswith("there is"):
        return m.note
    if isinstance(m.found, TypeFn) and isinstance(m.wanted, TypeFn) and len(m.found.params) != len(m.wanted.params):
        return f"it takes {plural(len(m.found.params), 'argument')}, not {len(m.wanted.params)}"
    if isinstance(m.found, Size):
        return f"size {names(m.found)} is not {names(m.wanted)}" + (f", {m.note}" if m.note else "")
    if m.note == _RANKS and isinstance(m.found, TypeArray) and isinstance(m.wanted, TypeArray):
        a, b = m.found.shape, m.wanted.shape
        if a.row is None and b.row is None:
            return f"it has {axes(len(a.pre))}, not {len(b.pre)}"
    if m.note == _RANKS and isinstance(m.found, TypeArray) and isinstance(m.wanted, TypeCon):
        return "it is an array"
    if m.note == _RANKS and isinstance(m.wanted, TypeArray) and isinstance(m.found, TypeCon):
        return f"{names(m.found)} has no axes"
    return f"{names(m.found)} is not {names(m.wanted)}" + (f" ({m.note})" if m.note else "")


def without_class(t: Term, lacks: str, names: Names) -> str:
    """Of a type that should be in a class; what is said after a colon stays."""
    cls, colon, more = lacks.partition(":")
    shown = names(t)
    if isinstance(t, TypeVar) and t.rigid and t.name and not t.classes:
        said = f"`{shown}` stands for any type"
    elif cls == "axes":
        said = f"{shown} has no axes"
    elif cls in _MEMBERS:
        said = f"{shown} is no {_MEMBERS[cls]}"
    else:
        said = f"{shown} is not of the class {cls}"
    return said + colon + more


def one_of(cls: str) -> str:
    return {"Num": "a number", "Float": "a float", "Int": "an integer"}.get(cls, f"a type of the class {cls}")


def axes(n: int) -> str:
    return plural(n, "axis", "axes")


def lacking(m: Mismatch) -> Term:
    """Of a type and a bounded variable, the type."""
    return m.wanted if isinstance(m.found, TypeVar) and not m.found.rigid else m.found


def notes_of(m: Mismatch, names: Names) -> tuple[Note, ...]:
    if not isinstance(m.found, Size) or not isinstance(m.wanted, Size):
        return ()
    notes = [*where_from(m.found, names), *where_from(m.wanted, names)]
    return tuple(dict.fromkeys(notes))


def helps(
    m: Mismatch,
    found: Type | None = None,
    wanted: Type | None = None,
    operator: str = "",
    operands: tuple[Type, ...] = (),
    parts: tuple[Span, ...] = (),
) -> tuple[str, ...]:
    """Suggests fixes. found, wanted: the whole types; operator, operands, parts: where it is one of operands."""
    a, b = m.found, m.wanted
    if "infinite" in m.note:
        return ()
    if a == UNIT and wanted is not None and not isinstance(b, TypeVar):
        return ("this gives nothing: the value of a block is its last expression",)
    if m.note.startswith("needs") and isinstance(lacking(m), TypeArray) and "Vector" not in m.note:
        return ("a bounded variable stands for one number: for arrays write `a[..s]`",)
    if m.note == EACH_CALL:
        return ("wrap it in a lambda whose result has a known size: `|x| … as f64[3]`",)
    if m.note == "needs Float" and isinstance(t := lacking(m), TypeCon) and t.name in INTS:
        if operator == "/" and len(parts) == 2:
            left, right = (text_of(p) for p in parts)
            floats = " / ".join(f"{side}.0" if side.isdigit() else f"f64({side})" for side in (left, right))
            return (f"integers are divided by `{_factor(left)} // {_factor(right)}`, or as floats by `{floats}`",)
        return (f"convert it: `f64({text_of(parts[0]) if parts else 'x'})`",)
    if m.note.startswith("needs ") and isinstance(t := lacking(m), TypeVar) and t.rigid and t.name:
        cls = m.note.removeprefix("needs ")
        return (f"bound it: `<{t.name}: {cls}>`",) if cls in _BOUNDS else ()
    if isinstance(b, TypeCon) and b.name == "bool" and found is not None and isinstance(resolve(found), TypeArray):
        if wanted is not None and isinstance(resolve(wanted), TypeArray):
            return ("compare with something to get a mask, such as `x > 0.0`",)
        return ("choose element by element with `where(mask, a, b)`, or reduce the mask with `all` or `any`",)
    if isinstance(b, TypeCon) and b.name == "bool" and is_number(a):
        zero = "0" if isinstance(a, TypeCon) and a.name in INTS else "0.0"
        return (f"compare with something to get a `bool`, such as `{text_of(parts[0]) if parts else 'x'} != {zero}`",)
    if m.note.startswith("needs ") and isinstance(t := lacking(m), TypeCon) and t.name == "bool":
        return (f"as a number, 0 or 1, it is `i64({text_of(parts[0]) if len(parts) == 1 else 'x'})`",)
    if operator in ("+", "-", "*", "/") and (is_structure(a) or is_structure(b)):
        return ("a function of the floats in it is applied by `map_floats(|v| …, x)`, of two by `map_floats(f, x, y)`",)
    if wanted is not None and isinstance(resolve(wanted), TypeFn) and not isinstance(resolve(found or wanted), TypeFn):
        return ("a function is expected here: `|x| …`, or the name of one",)
    if m.note == "needs Scalar" and is_text(lacking(m)):
        return ("texts are not read as numbers: `io.csv` reads those of a file, and `main` takes numbers as options",)
    if operator == "+" and is_text(lacking(m)):
        return ('texts are joined by a text that holds them: `"{a}{b}"`',)
    if operator == "%" and is_text(lacking(m)):
        return ('a value is written into a text: `"{x:.3f}"`',)
    if m.note == _RANKS and (is_text(a) or is_text(b)):
        return ("a text has no elements: it is printed, compared and written into others",)
    if is_text(a) != is_text(b) and (is_number(a) or is_number(b)):
        return ('a number is written into a text by `"{x}"`; texts are not read as numbers',)
    if isinstance(a, TypeFn) and isinstance(b, TypeFn) and len(a.params) != len(b.params):
        return ("give it as many parameters as it is called with arguments",)
    if m.note.endswith(_UNDEFINED):
        return ("compare what is in them, field by field",)
    if operator not in ("", "==", "!=") and (is_option(a) or is_option(b)):
        return ("take it apart: `match o { Some(v) => …, None => … }`",)
    if is_option(a) and wanted is not None and not is_option(b):
        return ("take it apart: `match o { Some(v) => …, None => … }`, or let the type say `Option`",)
    if m.note.startswith(NO_OPERAND) and len(parts) == len(operands):
        for t, p in zip(operands, parts, strict=True):
            if isinstance(f := resolve(t), TypeFn):
                return (f"call it: `{text_of(p)}({'…' if f.params else ''})`",)
    if is_option(b) and not isinstance(a, TypeData):
        return ("a value that is there is written `Some(…)`",)
    if operator == "@":
        return ("`*` multiplies by a scalar",)
    if is_number(a) and is_number(b):
        operands = operands or tuple(t for t in (wanted, found) if t is not None)
        return (f"there are no implicit conversions between dtypes: write `{conversion(operands, parts)}`",)
    if found is not None and wanted is not None and isinstance(w := resolve(wanted), TypeArray):
        if is_number(resolve(found)) and w.shape.pre:
            one = text_of(parts[0]) if parts and not parts[0].text.startswith("{") else "…"
            return (f"an array of one element is `{'[' * len(w.shape.pre)}{one}{']' * len(w.shape.pre)}`",)
    if found is not None and isinstance(resolve(found), TypeFn):
        if wanted is not None and not isinstance(resolve(wanted), TypeFn):
            return ("call the function to get its result",)
    return ()


def conversion(operands: tuple[Type, ...], parts: tuple[Span, ...]) -> str:
    """The cast that makes two dtypes one. operands, parts: of the operator, or what is wanted and what is given."""
    dtype, part = converted(operands, parts)
    return f"{dtype}({text_of(part) if part is not None else 'x'})"


def converted(operands: tuple[Type, ...], parts: tuple[Span, ...]) -> tuple[str, Span | None]:
    """The dtype that both become, and the part that is converted."""
    dtypes = [view(t)[0] for t in operands]
    names = [t.name if isinstance(t, TypeCon) else "f64" for t in map(resolve, dtypes)]
    if len(names) != 2 or not parts:
        return (names[0] if names and names[0] in _HOLDS else "f64"), None
    if len(parts) == 1 or _HOLDS.index(names[0]) <= _HOLDS.index(names[1]):
        return names[0], parts[-1]
    return names[1], parts[0]


def conversions(m: Mismatch, operands: tuple[Type, ...], parts: tuple[Span, ...]) -> tuple[Fix, ...]:
    """The cast, where two dtypes of numbers differ."""
    if not is_number(m.found) or not is_number(m.wanted) or len(operands) != 2:
        return ()
    dtype, part = converted(operands, parts)
    if part is None:
        return ()
    text = f"{part.text}.0" if dtype == "f64" and part.text.isdigit() else f"{dtype}({part.text})"
    return (replacement(part, text, certain=False),)


def text_of(span: Span) -> str:
    """Returns the text of a span, if it is short."""
    text = span.text
    return text if len(text) <= 40 and "\n" not in text else "…"


def _factor(text: str) -> str:
    """The text of an expression as a factor of a product."""
    return text if text.replace(".", "").replace("_", "").isalnum() or text == "…" else f"({text})"


def is_number(t: object) -> bool:
    return (isinstance(t, TypeCon) and t.name in FLOATS | INTS) or (isinstance(t, TypeVar) and t.literal is not None)


def is_structure(t: object) -> bool:
    return isinstance(t, TypeData | TypeTuple)


def is_option(t: object) -> bool:
    return isinstance(t, TypeData) and t.decl.name == "Option"


def is_text(t: object) -> bool:
    return isinstance(t, TypeCon) and t.name == "str"


def mismatch(
    m: Mismatch,
    span: Span,
    wanted: Type,
    found: Type,
    what: str = "",
    extra: tuple[Note, ...] = (),
    sizes: tuple[str, ...] = (),
) -> Diagnostic:
    """`wanted` and `found` are the whole types in which the mismatch lies. sizes: the help where it is one of sizes."""
    names = Names().prepare(found, wanted, m.found, m.wanted)
    w, f = names(wanted), names(found)
    whole = f"{what}expected {w}, found {f}"
    if m.note.startswith("needs") and isinstance(w_ := resolve(wanted), TypeVar) and w_.classes and not w_.name:
        whole = f"{what}expected {' and '.join(one_of(c) for c in sorted(w_.classes))}, found {f}"
        help = helps(m, found, wanted, parts=(span,))
        return Diagnostic("E0302", whole, span, label=f"this is {f}", notes=extra, help=help)
    label = f"this is {f}"
    message = whole
    if isinstance(m.found, Size) or m.note or isinstance(m.wanted, TypeFn):
        message = f"{whole}: {detail(m, names)}"
    if isinstance(m.found, Size) and opened_in(m.found, m.wanted):
        message += " (a size `?` needs `as`)"
    notes = (*notes_of(m, names), *extra)
    if isinstance(m.found, Size):
        help = (*advice.of_types(m, span, found, wanted, names), *sizes)
        fixes = advice.assertions(m, span, found, wanted, names)
    else:
        help = helps(m, found, wanted, parts=(span,))
        fixes = conversions(m, (wanted, found), (span,))
    return Diagnostic(code_of(m), message, span, label, notes, help, fixes=fixes)


def size_mismatch(m: Mismatch, span: Span, wanted: Size, found: Size, what: str = "") -> Diagnostic:
    names = Names().prepare(found, wanted, m.found, m.wanted)
    text = f"{what}expected the size {names(wanted)}, found {names(found)}" + (f": {m.note}" if m.note else "")
    return Diagnostic(code_of(m), text, span, "", notes_of(m, names))


def constraint_error(c: Constraint, m: Mismatch) -> Diagnostic:
    """A constraint that turned out not to hold."""
    reason = c.reason
    names = Names().prepare(*reason.operands, m.found, m.wanted)
    message = detail(m, names)
    code = code_of(m)
    label = ""
    if reason.operator == "reshape" and isinstance(m.found, Size) and len(reason.operands) == 2:
        old, new = (names(t) for t in reason.operands)
        message = f"`reshape` of {old} to {new}: {names(m.found)} elements are not {names(m.wanted)}"
        label = "the number of elements has to stay the same"
        code = "E0410" if code == "E0401" else code
    elif reason.operator and reason.operands:
        operands = " and ".join(names(t) for t in reason.operands)
        message = f"`{reason.operator}` on {operands}: {message}"
        if isinstance(m.found, Size):
            label = "these sizes have to be equal"
            if reason.operator == "@":
                code = "E0409"
            elif code == "E0401" and c.kind != "axis":
                code = "E0410"
        elif isinstance(m.found, TypeCon) and isinstance(m.wanted, TypeCon) and not m.note:
            label = "both sides need the same dtype"
    elif c.kind == "join":
        message = f"{reason.operator}{message}"
    elif reason.operator:
        message = f"`{reason.operator}`: {message}"
    via = (reason.via,) if reason.via is not None else ()
    if isinstance(m.found, Size):
        help = advice.of_constraint(c, m)
    else:
        help = helps(m, operator=reason.operator, operands=reason.operands, parts=reason.parts)
    fixes = conversions(m, reason.operands, reason.parts) if len(reason.parts) == 2 else ()
    return Diagnostic(code, message, reason.span, label, (*notes_of(m, names), *via), help, fixes=fixes)


def did_you_mean(name: str, candidates: list[str]) -> tuple[str, ...]:
    close = closest(name, candidates)
    return () if close is None else (f"did you mean `{close}`?",)


def misspelt(span: Span, name: str, candidates: list[str]) -> tuple[Fix, ...]:
    """The name that was meant in the place of the one that is written."""
    close = closest(name, candidates) if span.text == name else None
    return () if close is None else (replacement(span, close),)


def imported(span: Span, line: str) -> Fix:
    """An import, behind those of the file or at its beginning."""
    file = span.source.file
    imports = list(re.finditer(r"^import\b[^\n{]*(\{[^}]*\})?[^\n]*\n", file.text, re.MULTILINE))
    comments = re.match(r"(?:[ \t]*##?[^\n]*\n)*(?:[ \t]*\n)?", file.text)
    begins_with_text = comments is not None and comments.group().endswith("\n\n")
    at = imports[-1].end() if imports else comments.end() if comments is not None and begins_with_text else 0
    return Fix(f"Add `{line}`", Span(file, at, at), line + ("\n" if imports else "\n\n"))
