"""Mismatches in words: what was expected, what was found, and where each comes from."""

from __future__ import annotations

from difflib import get_close_matches

from dlang.diagnostics import Diagnostic, Note, Span
from dlang.typecheck import advice
from dlang.typecheck.printing import Names
from dlang.typecheck.sizes import where_from
from dlang.typecheck.state import EACH_CALL, Constraint, Mismatch, Term
from dlang.typecheck.terms import opened_in
from dlang.typecheck.types import (
    FLOATS,
    INTS,
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
_CONVERT = "there are no implicit conversions between dtypes: write a cast such as `f64(x)`"


def code_of(m: Mismatch) -> str:
    if isinstance(m.found, Size):
        if "multiple" in m.note:
            return "E0404"
        return "E0403" if opened_in(m.found, m.wanted) else "E0401"
    if isinstance(m.found, Shape) or "axes" in m.note:
        return "E0402"
    if "infinite" in m.note:
        return "E0304"
    if m.note == EACH_CALL:
        return "E0414"
    return "E0302" if m.note.startswith("needs") else "E0301"


def detail(m: Mismatch, names: Names) -> str:
    if "infinite" in m.note:
        return "infinite (recursive) type"
    if m.note == EACH_CALL:
        return m.note
    if m.note.startswith("needs"):
        return f"{names(lacking(m))} {m.note}"
    if m.note == _RANKS:
        for side in (m.found, m.wanted):
            if isinstance(side, TypeData | TypeTuple | TypeFn) or is_text(side):
                return f"{names(side)} has no axes"
    if m.note.endswith(_UNDEFINED):
        return m.note
    if isinstance(m.found, Shape) and m.note.startswith("there is"):
        return m.note
    if isinstance(m.found, Size):
        return f"size {names(m.found)} is not {names(m.wanted)}" + (f", {m.note}" if m.note else "")
    if m.note == _RANKS and isinstance(m.found, TypeArray) and isinstance(m.wanted, TypeArray):
        a, b = m.found.shape, m.wanted.shape
        if a.row is None and b.row is None:
            return f"it has {axes(len(a.pre))}, not {len(b.pre)}"
    return f"{names(m.found)} is not {names(m.wanted)}" + (f" ({m.note})" if m.note else "")


def axes(n: int) -> str:
    return f"{n} axis" if n == 1 else f"{n} axes"


def lacking(m: Mismatch) -> Term:
    """Of a type and a bounded variable, the type."""
    return m.wanted if isinstance(m.found, TypeVar) and not m.found.rigid else m.found


def notes_of(m: Mismatch, names: Names) -> tuple[Note, ...]:
    if not isinstance(m.found, Size) or not isinstance(m.wanted, Size):
        return ()
    notes = [*where_from(m.found, names), *where_from(m.wanted, names)]
    return tuple(dict.fromkeys(notes))


def helps(m: Mismatch, found: Type | None = None, wanted: Type | None = None, operator: str = "") -> tuple[str, ...]:
    a, b = m.found, m.wanted
    if m.note == EACH_CALL:
        return ("wrap it in a lambda whose result has a known size: `|x| … as f64[3]`",)
    if m.note == "needs Float" and isinstance(t := lacking(m), TypeCon) and t.name in INTS:
        return ("convert it with `f64(x)`", *(("`//` divides integers",) if operator == "/" else ()))
    if m.note.startswith("needs ") and isinstance(t := lacking(m), TypeVar) and t.rigid and t.name:
        cls = m.note.removeprefix("needs ")
        return (f"bound it: `<{t.name}: {cls}>`",) if cls in _BOUNDS else ()
    if isinstance(b, TypeCon) and b.name == "bool" and found is not None and isinstance(resolve(found), TypeArray):
        return ("choose element by element with `where(mask, a, b)`, or reduce the mask with `all` or `any`",)
    if isinstance(b, TypeCon) and b.name == "bool" and is_number(a):
        return ("compare with something to get a `bool`, such as `x != 0.0`",)
    if operator == "+" and is_text(lacking(m)):
        return ('texts are joined by a text that holds them: `"{a}{b}"`',)
    if isinstance(b, TypeData) and b.decl.name == "Option" and not isinstance(a, TypeData):
        return ("a value that is there is written `Some(…)`",)
    if operator == "@":
        return ("`*` multiplies by a scalar",)
    if is_number(a) and is_number(b):
        return (_CONVERT,)
    if found is not None and isinstance(resolve(found), TypeFn):
        if wanted is not None and not isinstance(resolve(wanted), TypeFn):
            return ("call the function to get its result",)
    return ()


def is_number(t: object) -> bool:
    return (isinstance(t, TypeCon) and t.name in FLOATS | INTS) or (isinstance(t, TypeVar) and t.literal is not None)


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
        whole = f"{what}expected a type of the class {' and '.join(sorted(w_.classes))}, found {f}"
        return Diagnostic("E0302", whole, span, label=f"this is {f}", notes=extra, help=helps(m, found, wanted))
    label = f"this is {f}"
    message = whole
    if isinstance(m.found, Size) or m.note:
        message = f"{whole}: {detail(m, names)}"
    if isinstance(m.found, Size) and opened_in(m.found, m.wanted):
        message += " (a size `?` needs `as`)"
    notes = (*notes_of(m, names), *extra)
    if isinstance(m.found, Size):
        help = (*advice.of_types(m, span, found, wanted, names), *sizes)
    else:
        help = helps(m, found, wanted)
    return Diagnostic(code_of(m), message, span, label, notes, help)


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
            elif code == "E0401":
                code = "E0410"
        elif isinstance(m.found, TypeCon) and isinstance(m.wanted, TypeCon) and not m.note:
            label = "both sides need the same dtype"
    elif c.kind == "join":
        message = f"{reason.operator}{message}"
    elif reason.operator:
        message = f"`{reason.operator}`: {message}"
    via = (reason.via,) if reason.via is not None else ()
    if isinstance(m.found, Size):
        help = advice.of_constraint(c, m, names)
    else:
        help = helps(m, operator=reason.operator)
    return Diagnostic(code, message, reason.span, label, (*notes_of(m, names), *via), help)


def did_you_mean(name: str, candidates: list[str]) -> tuple[str, ...]:
    close = get_close_matches(name, candidates, n=1, cutoff=0.6)
    return (f"did you mean `{close[0]}`?",) if close else ()
