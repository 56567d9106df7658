"""Mismatches in words: what was expected, what was found, and where each comes from."""

from __future__ import annotations

import re

from dlang.diagnostics import Diagnostic, DlangError, Fix, Note, Span, error, replacement
from dlang.ops.dtypes import DTYPES
from dlang.spelling import closest, edits, plural
from dlang.typecheck import types as ty
from dlang.typecheck.mismatches import (
    DIFFERENT,
    AxisTwice,
    Different,
    EachCall,
    FunctionOperand,
    HasEffect,
    Infinite,
    Lacks,
    NoArray,
    NoAxis,
    NoMultiple,
    NotOnStructures,
    Ranks,
    said,
)
from dlang.typecheck.printing import Names, show
from dlang.typecheck.state import Constraint, Mismatch, Term
from dlang.typecheck.terms import opened_in, variables, view
from dlang.typecheck.unify import same, where_from

_BOUNDS = ("Num", "Float", "Int", "Ord", "Eq", "Vector")
_HOLDS = tuple(DTYPES)  # from the one that holds most
# What a class of dtypes holds.
_MEMBERS = {"Num": "number", "Float": "float", "Int": "integer"}


def code_of(m: Mismatch) -> str:
    match m.found, m.why:
        case ty.Size(), NoMultiple():
            return "E0404"
        case ty.Size(), _:
            return "E0403" if opened_in(m.found, m.wanted) else "E0401"
        case ty.Shape(), _:
            return "E0402"
        case _, Ranks() | NoArray() if not isinstance(m.wanted, ty.TypeFn):
            return "E0402"
        case _, Infinite():
            return "E0304"
        case _, EachCall():
            return "E0414"
        case _, Lacks() | NoArray():
            return "E0302"
        case _:
            return "E0301"


def detail(m: Mismatch, names: Names) -> str:
    """Why two types do not fit, in a few words."""
    found, wanted = m.found, m.wanted
    note = said(m.why)
    match m.why:
        case Infinite():
            return "infinite (recursive) type"
        case Lacks() | NoArray():
            return without_class(lacking(m), m.why, names)
        case Ranks() if isinstance(wanted, ty.TypeFn):
            return f"{names(found)} is no function"
        case Ranks():
            for side in (found, wanted):
                if isinstance(side, ty.TypeData | ty.TypeTuple | ty.TypeFn) or is_text(side):
                    return f"{names(side)} has no axes"
        case EachCall() | HasEffect() | NotOnStructures() | FunctionOperand() | NoAxis() | AxisTwice():
            return note
        case _:
            pass
    match m.why, found, wanted:
        case _, ty.TypeFn(params=given), ty.TypeFn(params=expected) if len(given) != len(expected):
            return f"it takes {plural(len(given), 'argument')}, not {len(expected)}"
        case _, ty.Size(), _:
            return f"size {names(found)} is not {names(wanted)}" + (f", {note}" if note else "")
        case Ranks(), ty.TypeArray(shape=ty.Shape(pre=a, row=None)), ty.TypeArray(shape=ty.Shape(pre=b, row=None)):
            return f"it has {axes(len(a))}, not {len(b)}"
        case Ranks(), ty.TypeArray(), ty.TypeCon():
            return "it is an array"
        case Ranks(), ty.TypeCon(), ty.TypeArray():
            return f"{names(found)} has no axes"
        case _:
            return f"{names(found)} is not {names(wanted)}" + (f" ({note})" if note else "")


def without_class(t: Term, why: Lacks | NoArray, names: Names) -> str:
    """Explains a type that should be in a class."""
    shown = names(t)
    match why:
        case _ if isinstance(t, ty.TypeVar) and t.rigid and t.name and not t.classes:
            lacks = f"`{shown}` stands for any type"
        case NoArray():
            lacks = f"{shown} has no axes"
        case Lacks((cls,)) if cls in _MEMBERS:
            lacks = f"{shown} is no {_MEMBERS[cls]}"
        case Lacks(classes):
            lacks = f"{shown} is not of the class {' and '.join(classes)}"
    more = "`@` takes arrays" if isinstance(why, NoArray) else why.more
    return f"{lacks}: {more}" if more else lacks


def one_of(cls: str) -> str:
    return {"Num": "a number", "Float": "a float", "Int": "an integer"}.get(cls, f"a type of the class {cls}")


def axes(n: int) -> str:
    return plural(n, "axis", "axes")


def lacking(m: Mismatch) -> Term:
    """The type, of a type and a bounded variable that don't fit."""
    return m.wanted if isinstance(m.found, ty.TypeVar) and not m.found.rigid else m.found


def notes_of(m: Mismatch, names: Names) -> tuple[Note, ...]:
    if not isinstance(m.found, ty.Size) or not isinstance(m.wanted, ty.Size):
        return ()
    notes = [*where_from(m.found, names), *where_from(m.wanted, names)]
    return tuple(dict.fromkeys(notes))


def helps(
    m: Mismatch,
    found: ty.Type | None = None,
    wanted: ty.Type | None = None,
    operator: str = "",
    operands: tuple[ty.Type, ...] = (),
    parts: tuple[Span, ...] = (),
) -> tuple[str, ...]:
    """Suggests fixes. found, wanted: the whole types; operator, operands, parts: where it is one of operands."""
    a, b, lacks = m.found, m.wanted, lacking(m)
    whole = found is None or not isinstance(ty.resolve(found), ty.TypeFn)
    match m.why, lacks:
        case Infinite(), _:
            return ()
        case EachCall(), _:
            return ("wrap it in a lambda whose result has a known size: `|x| … as f64[3]`",)
        case Lacks(classes), ty.TypeArray() if "Vector" not in classes and wanted is not None and whole:
            return (_of_each(parts), "to take arrays, a parameter is declared as `a[..s]`")
        case Lacks(classes), ty.TypeArray() if "Vector" not in classes:
            return ("a bounded variable stands for one number: for arrays write `a[..s]`",)
        case NoArray(), ty.TypeArray():
            return ("a bounded variable stands for one number: for arrays write `a[..s]`",)
        case Lacks(), ty.TypeData() if not operator and is_list(lacks):
            return (f"take it apart: `{_arms(lacks, parts)}`",)
        case Lacks(("Num",) | ("Float",), ""), ty.TypeTuple() | ty.TypeData() if not operator:
            return (f"the sum of the floats in a structure is `sum_floats({text_of(parts[0]) if parts else 'x'})`",)
        case Lacks(("Float",), ""), ty.TypeCon(name) if name in ty.INTS:
            return (as_floats(operator, parts),)
        case Lacks((cls,), ""), ty.TypeVar(rigid=True, name=str(name)) if name and cls in _BOUNDS:
            return (f"bound it: `<{name}: {cls}>`",)
        case Lacks((cls,)), ty.TypeVar(rigid=True, name=str(name), classes=frozenset(own)) if name and not own:
            return (f"bound it where it is declared: `<{name}: {cls if cls in _BOUNDS else 'Num'}>`",)
        case Lacks() | NoArray(), ty.TypeVar(rigid=True, name=str(name)) if name:
            return ()
        case Ranks() | Different(), ty.TypeArray(shape=shape) if whole and is_number(b) and not (operands or shape.row):
            return (_of_each(parts, len(shape.pre)),)
        case Ranks(), _ if isinstance(a, ty.TypeData) and isinstance(b, ty.TypeArray) and len(a.decl.variants) > 1:
            return (f"take it apart: `{_arms(a, parts)}`",)
        case _:
            pass
    if a == ty.UNIT and wanted is not None and not isinstance(b, ty.TypeVar):
        return ("this gives nothing: the value of a block is its last expression",)
    if (
        isinstance(b, ty.TypeCon)
        and b.name == "bool"
        and found is not None
        and isinstance(ty.resolve(found), ty.TypeArray)
    ):
        if wanted is not None and isinstance(ty.resolve(wanted), ty.TypeArray):
            return ("compare with something to get a mask, such as `x > 0.0`",)
        return ("choose element by element with `where(mask, a, b)`, or reduce the mask with `all` or `any`",)
    if isinstance(b, ty.TypeCon) and b.name == "bool" and is_number(a):
        zero = "0" if isinstance(a, ty.TypeCon) and a.name in ty.INTS else "0.0"
        return (f"compare with something to get a `bool`, such as `{text_of(parts[0]) if parts else 'x'} != {zero}`",)
    if operator in ("+", "-", "*", "/") and (is_structure(a) or is_structure(b)) and not is_option(a) | is_option(b):
        return ("a function of the floats in it is applied by `map_floats(|v| …, x)`, of two by `map_floats(f, x, y)`",)
    if (
        wanted is not None
        and isinstance(ty.resolve(wanted), ty.TypeFn)
        and not isinstance(ty.resolve(found or wanted), ty.TypeFn)
    ):
        return ("a function is expected here: `|x| …`, or the name of one",)
    match m.why, lacks:
        case Lacks() | NoArray(), ty.TypeCon("bool"):
            return (f"as a number, 0 or 1, it is `i64({text_of(parts[0]) if len(parts) == 1 else 'x'})`",)
        case Lacks(("Scalar",), ""), ty.TypeCon("str"):
            return (
                "texts are not read as numbers: `io.csv` reads those of a file, and `main` takes numbers as options",
            )
        case _, ty.TypeCon("str") if operator == "+":
            return ('texts are joined by a text that holds them: `"{a}{b}"`',)
        case _, ty.TypeCon("str") if operator == "%":
            return ('a value is written into a text: `"{x:.3f}"`',)
        case Ranks(), _ if is_text(a) or is_text(b):
            return ("a text has no elements: it is printed, compared and written into others",)
        case NotOnStructures(), _:
            return ("compare what is in them, field by field",)
        case _:
            pass
    if is_text(a) != is_text(b) and (is_number(a) or is_number(b)):
        return ('a number is written into a text by `"{x}"`; texts are not read as numbers',)
    if isinstance(a, ty.TypeFn) and isinstance(b, ty.TypeFn) and len(a.params) != len(b.params):
        return ("give it as many parameters as it is called with arguments",)
    if found is not None and wanted is not None:
        f, w = ty.resolve(found), ty.resolve(wanted)
        if isinstance(f, ty.TypeFn) and isinstance(w, ty.TypeFn) and len(f.params) == len(w.params):
            return of_function(f, w)
    if operator not in ("", "==", "!=") and (is_option(a) or is_option(b)):
        return ("take it apart: `match o { Some(v) => …, None => … }`",)
    if is_option(a) and wanted is not None and not is_option(b):
        return ("take it apart: `match o { Some(v) => …, None => … }`, or let the type say `Option`",)
    if isinstance(m.why, FunctionOperand) and len(parts) == len(operands):
        for t, p in zip(operands, parts, strict=True):
            if isinstance(f := ty.resolve(t), ty.TypeFn):
                return (f"call it: `{text_of(p)}({'…' if f.params else ''})`",)
    if is_option(b) and not isinstance(a, ty.TypeData):
        return ("a value that is there is written `Some(…)`",)
    if is_result(b) and not isinstance(a, ty.TypeData):
        return ("a result is written `Ok(…)`, and the reason why there is none `Err(…)`",)
    if isinstance(a, ty.TypeData) and len(a.decl.variants) > 1 and is_number(b) and not operator:
        return (f"take it apart: `{_arms(a, parts)}`",)
    if operator == "@":
        return ("`*` multiplies by a scalar",)
    if is_number(a) and is_number(b):
        operands = operands or tuple(t for t in (wanted, found) if t is not None)
        return (f"there are no implicit conversions between dtypes: write `{conversion(operands, parts)}`",)
    if found is not None and wanted is not None and isinstance(w := ty.resolve(wanted), ty.TypeArray):
        if is_number(ty.resolve(found)) and w.shape.pre:
            one = text_of(parts[0]) if parts and not parts[0].text.startswith("{") else "…"
            return (f"an array of one element is `{'[' * len(w.shape.pre)}{one}{']' * len(w.shape.pre)}`",)
    if found is not None and isinstance(ty.resolve(found), ty.TypeFn):
        if wanted is not None and not isinstance(ty.resolve(wanted), ty.TypeFn):
            return ("call the function to get its result",)
    return ()


def _of_each(parts: tuple[Span, ...], rank: int = 1) -> str:
    """Says what stands in the place of an array where one number is asked for."""
    x = _named(parts)
    if rank > 1:
        return f"one element is `{x}[{', '.join('ijklmn'[:rank])}]`"
    return f"one element is `{x}[i]`; a function of one number is applied to each by `[f(v) for v in {x}]`"


def _named(parts: tuple[Span, ...]) -> str:
    return text_of(parts[0]) if len(parts) == 1 and text_of(parts[0]).isidentifier() else "x"


def _arms(t: ty.TypeData, parts: tuple[Span, ...]) -> str:
    """How a value of an enum is taken apart."""
    arms = [v.name + (f"({', '.join(['…'] * len(v.fields))})" if v.fields else "") + " => …" for v in t.decl.variants]
    return f"match {_named(parts)} {{ {', '.join(arms[:3])}{', …' if len(arms) > 3 else ''} }}"


def of_function(found: ty.TypeFn, wanted: ty.TypeFn) -> tuple[str, ...]:
    """Says which part of a function is of another type than is asked for: its value is no value of a dtype."""
    for i, (f, w) in enumerate(zip(found.params, wanted.params, strict=True)):
        if show(f) != show(w):
            return (f"parameter {i + 1} of the function has to be {show(w)}",)
    if show(found.result) != show(wanted.result):
        return (f"the result of the function has to be {show(wanted.result)}",)
    return ()


def as_floats(operator: str, parts: tuple[Span, ...]) -> str:
    """Suggests the conversion where an integer stands in the place of a float."""
    if operator != "/" or len(parts) != 2:
        return f"convert it: `f64({text_of(parts[0]) if parts else 'x'})`"
    left, right = (text_of(p) for p in parts)
    floats = " / ".join(f"{side}.0" if side.isdigit() else f"f64({side})" for side in (left, right))
    return f"integers are divided by `{_factor(left)} // {_factor(right)}`, or as floats by `{floats}`"


def conversion(operands: tuple[ty.Type, ...], parts: tuple[Span, ...]) -> str:
    """The cast that makes two dtypes one. operands, parts: of the operator, or what is wanted and what is given."""
    dtype, part = converted(operands, parts)
    return f"{dtype}({text_of(part) if part is not None else 'x'})"


def converted(operands: tuple[ty.Type, ...], parts: tuple[Span, ...]) -> tuple[str, Span | None]:
    """The dtype that both become, and the part that is converted."""
    dtypes = [view(t)[0] for t in operands]
    names = [t.name if isinstance(t, ty.TypeCon) else "f64" for t in map(ty.resolve, dtypes)]
    if len(names) != 2 or not parts:
        return (names[0] if names and names[0] in _HOLDS else "f64"), None
    if len(parts) == 1 or _HOLDS.index(names[0]) <= _HOLDS.index(names[1]):
        return names[0], parts[-1]
    return names[1], parts[0]


def conversions(m: Mismatch, operands: tuple[ty.Type, ...], parts: tuple[Span, ...]) -> tuple[Fix, ...]:
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
    return (isinstance(t, ty.TypeCon) and t.name in ty.FLOATS | ty.INTS) or (
        isinstance(t, ty.TypeVar) and t.literal is not None
    )


def is_structure(t: object) -> bool:
    return isinstance(t, ty.TypeData | ty.TypeTuple)


def is_option(t: object) -> bool:
    return isinstance(t, ty.TypeData) and t.decl.name == "Option"


def is_result(t: object) -> bool:
    return isinstance(t, ty.TypeData) and t.decl.name == "Result"


def is_list(t: object) -> bool:
    return isinstance(t, ty.TypeData) and t.decl.name == "List"


def is_text(t: object) -> bool:
    return isinstance(t, ty.TypeCon) and t.name == "str"


def mismatch(
    m: Mismatch,
    span: Span,
    wanted: ty.Type,
    found: ty.Type,
    what: str = "",
    extra: tuple[Note, ...] = (),
    sizes: tuple[str, ...] = (),
) -> Diagnostic:
    """`wanted` and `found` are the whole types in which the mismatch lies. sizes: the help where it is one of sizes."""
    names = Names().prepare(found, wanted, m.found, m.wanted)
    w, f = names(wanted), names(found)
    whole = f"{what}expected {w}, found {f}"
    if (
        isinstance(m.why, Lacks | NoArray)
        and isinstance(w_ := ty.resolve(wanted), ty.TypeVar)
        and w_.classes
        and not w_.name
    ):
        whole = f"{what}expected {' and '.join(one_of(c) for c in sorted(w_.classes))}, found {f}"
        help = helps(m, found, wanted, parts=(span,))
        return Diagnostic("E0302", whole, span, label=f"this is {f}", notes=extra, help=help)
    label = f"this is {f}"
    message = whole
    if isinstance(m.found, ty.Size) or m.why != DIFFERENT or isinstance(m.wanted, ty.TypeFn):
        message = f"{whole}: {detail(m, names)}"
    if isinstance(m.found, ty.Size) and opened_in(m.found, m.wanted):
        message += " (a size `?` needs `as`)"
    notes = (*notes_of(m, names), *extra)
    if isinstance(m.found, ty.Size):
        help = (*of_types(m, span, found, wanted, names), *sizes)
        fixes = assertions(m, span, found, wanted, names)
    else:
        help = helps(m, found, wanted, parts=(span,))
        fixes = conversions(m, (wanted, found), (span,))
    return Diagnostic(code_of(m), message, span, label, notes, help, fixes=fixes)


def size_mismatch(m: Mismatch, span: Span, wanted: ty.Size, found: ty.Size, what: str = "") -> Diagnostic:
    names = Names().prepare(found, wanted, m.found, m.wanted)
    note = said(m.why)
    text = f"{what}expected the size {names(wanted)}, found {names(found)}" + (f": {note}" if note else "")
    return Diagnostic(code_of(m), text, span, "", notes_of(m, names))


def constraint_error(c: Constraint, m: Mismatch) -> Diagnostic:
    """A constraint that turned out not to hold."""
    reason = c.reason
    names = Names().prepare(*reason.operands, m.found, m.wanted)
    message = detail(m, names)
    code = code_of(m)
    label = ""
    if reason.operator == "reshape" and isinstance(m.found, ty.Size) and len(reason.operands) == 2:
        old, new = (names(t) for t in reason.operands)
        message = f"`reshape` of {old} to {new}: {names(m.found)} elements are not {names(m.wanted)}"
        label = "the number of elements has to stay the same"
        code = "E0410" if code == "E0401" else code
    elif reason.operator and reason.operands:
        operands = " and ".join(names(t) for t in reason.operands)
        message = f"`{reason.operator}` on {operands}: {message}"
        if isinstance(m.found, ty.Size):
            label = "these sizes have to be equal"
            if reason.operator == "@":
                code = "E0409"
            elif code == "E0401" and c.kind != "axis":
                code = "E0410"
        elif isinstance(m.found, ty.TypeCon) and isinstance(m.wanted, ty.TypeCon) and m.why == DIFFERENT:
            label = "both sides need the same dtype"
    elif c.kind == "join":
        message = f"{reason.operator}{message}"
    elif reason.operator:
        message = f"`{reason.operator}`: {message}"
    via = (reason.via,) if reason.via is not None else ()
    if isinstance(m.found, ty.Size):
        help = of_constraint(c, m)
    else:
        help = helps(m, operator=reason.operator, operands=reason.operands, parts=reason.parts)
    fixes = conversions(m, reason.operands, reason.parts) if len(reason.parts) == 2 else ()
    return Diagnostic(code, message, reason.span, label, (*notes_of(m, names), *via), help, fixes=fixes)


def no_value(span: Span) -> DlangError:
    """The error of a `_` where a value is expected."""
    help = ("`_` stands in patterns and sizes, and where an assignment drops a part: `(x, _) = e`",)
    return error("E0101", "expected an expression, found `_`", span, help=help)


def did_you_mean(name: str, candidates: list[str]) -> tuple[str, ...]:
    close = closest(name, candidates)
    return () if close is None else (f"did you mean `{close}`?",)


def misspelt(span: Span, name: str, candidates: list[str]) -> tuple[Fix, ...]:
    """The name that was meant in the place of the one that is written; of two that are as close it may be either."""
    close = closest(name, candidates) if span.text == name else None
    if close is None:
        return ()
    other = closest(name, [c for c in candidates if c != close])
    return (replacement(span, close, certain=other is None or edits(name, close) < edits(name, other)),)


def imported(span: Span, line: str) -> Fix:
    """An import, behind those of the file or at its beginning."""
    file = span.source.file
    imports = list(re.finditer(r"^import\b[^\n{]*(\{[^}]*\})?[^\n]*\n", file.text, re.MULTILINE))
    comments = re.match(r"(?:[ \t]*##?[^\n]*\n)*(?:[ \t]*\n)?", file.text)
    begins_with_text = comments is not None and comments.group().endswith("\n\n")
    at = imports[-1].end() if imports else comments.end() if comments is not None and begins_with_text else 0
    return Fix(f"Add `{line}`", Span(file, at, at), line + ("\n" if imports else "\n\n"))


_OPENED = "a size `?` is known only when the program runs"
_SIMPLE = re.compile(r"[\w.']+(\([^()]*\)|\[[^\[\]]*\])?")
_LONGEST = 40  # characters of the program that are repeated in a help


def of_types(m: Mismatch, span: Span, found: ty.Type, wanted: ty.Type, names: Names) -> tuple[str, ...]:
    """Advice about two whole types that differ in a size."""
    assert isinstance(m.found, ty.Size) and isinstance(m.wanted, ty.Size)
    if never_equal(m.found, m.wanted):
        return ()
    target = asserted(found, wanted)
    assertion = f"`{written(span)} as {names(target)}`" if target is not None else "`as`"
    if opened_in(m.found, m.wanted) and "?" in assertion:
        return (_named_first(),)
    if opened_in(m.found, m.wanted):
        return (f"{_OPENED}: write {assertion} to have it checked there",)
    if isinstance(m.why, NoMultiple):
        return of_multiple(m.found, m.why, span, names)
    if target is None:
        return ()
    return (f"if these sizes are always equal, write {assertion}: it is checked when the program runs",)


def _named_first() -> str:
    """Advice about two sizes that nobody has named yet."""
    return (
        f"{_OPENED}: name one by `let a: f64[k] = …`, and write `as f64[k]` behind the other to have it checked there"
    )


def assertions(m: Mismatch, span: Span, found: ty.Type, wanted: ty.Type, names: Names) -> tuple[Fix, ...]:
    """The `as` that is advised for two whole types that differ in a size."""
    assert isinstance(m.found, ty.Size) and isinstance(m.wanted, ty.Size)
    target = asserted(found, wanted)
    if never_equal(m.found, m.wanted) or target is None or isinstance(m.why, NoMultiple) or written(span) == "…":
        return ()
    return (replacement(span, f"{written(span)} as {names(target)}", certain=False),)


def of_multiple(found: ty.Size, why: NoMultiple, span: Span, names: Names) -> tuple[str, ...]:
    """Advice about a size where a multiple of another is expected."""
    if ty.resolve_size(found).poly.constant is not None or why.factor.denominator != 1:
        return ()
    whole = names(found)
    whole = f"({whole})" if " " in whole else whole
    part = f"let part = {whole} // {why.factor}"
    end = f"{written(span)} as …[{why.factor} * part]"
    return (f"if it always is one, write `{part}`, then `{end}`: it is checked there",)


def of_constraint(c: Constraint, m: Mismatch) -> tuple[str, ...]:
    """Advice about operands that don't fit."""
    assert isinstance(m.found, ty.Size) and isinstance(m.wanted, ty.Size)
    if c.kind == "join":
        return ("sizes of branches may differ where a type with `?` is expected: annotate the result, or the `let`",)
    if opened_in(m.found) and opened_in(m.wanted):
        return (_named_first(),)
    if opened_in(m.found, m.wanted):
        return (f"{_OPENED}: write `as` to have it checked there",)
    if c.reason.operator == "reshape":
        return ("choose sizes whose product is the number of elements",)
    if len(c.reason.operands) != 2 or c.kind == "axis":
        return ()
    left, right = (ty.resolve_shape(view(t)[1]) for t in c.reason.operands)
    if left.row is not None or right.row is not None:
        return ()
    if c.reason.operator == "*" and _fit_a_product(left, right):
        return ("`*` multiplies element by element: the product of matrices is `@`",)
    return of_product(left, right) if c.reason.operator == "@" else of_broadcast(left, right)


def _fit_a_product(left: ty.Shape, right: ty.Shape) -> bool:
    """Tells whether the rows of the left side are as long as the columns of the right."""
    return len(left.pre) >= 2 and len(right.pre) >= 2 and same(left.pre[-1], right.pre[-2])


def of_product(left: ty.Shape, right: ty.Shape) -> tuple[str, ...]:
    rule = "`@` multiplies rows of the left side by columns of the right: its last axis meets the one before the last"
    if len(right.pre) == 1:
        fits = len(left.pre) == 2 and same(left.pre[0], right.pre[0])
        return ("`transpose(…)` of the left side fits",) if fits else ()
    if len(right.pre) == 2 and left.pre and same(left.pre[-1], right.pre[1]):
        return ("`transpose(…)` of the right side fits",)
    return (rule,)


def of_broadcast(left: ty.Shape, right: ty.Shape) -> tuple[str, ...]:
    rule = "axes line up from the last one, and only an axis of the literal size 1 stretches"
    if len(left.pre) == len(right.pre):
        return (rule,) if len(left.pre) > 1 else ()
    return (f"{rule}: a reduction leaves one with `keepdims = true`, `reshape` makes one",)


def never_equal(a: ty.Size, b: ty.Size) -> bool:
    return bool((ty.resolve_size(a).poly - ty.resolve_size(b).poly).constant)


def written(span: Span) -> str:
    """The text of an expression, to stand before `as`."""
    text = span.text
    if not text or "\n" in text or len(text) > _LONGEST:
        return "…"
    return text if _SIMPLE.fullmatch(text) else f"({text})"


def asserted(found: ty.Type, wanted: ty.Type) -> ty.Type | None:
    """The type to write after `as`; None where it can't be written."""
    found, wanted = ty.resolve(found), ty.resolve(wanted)
    if isinstance(found, ty.TypeArray) and isinstance(wanted, ty.TypeArray):
        wanted = ty.TypeArray(found.element, wanted.shape)
    elif not isinstance(wanted, ty.TypeTuple | ty.TypeData):
        return None
    names = list(variables(wanted))
    if any(not v.rigid or not v.name or (isinstance(v, ty.SizeVar) and v.opened) for v in names):
        return None
    return wanted if len({v.name for v in names}) == len(names) else None
