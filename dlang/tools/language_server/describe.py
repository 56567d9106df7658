"""Definitions in the words of the language: signatures, types, documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.trees import walk
from dlang.tools.language_server import builtin_words
from dlang.tools.language_server.definitions import Definition
from dlang.tools.language_server.documents import Document
from dlang.typecheck.limits import room
from dlang.typecheck.printing import Names, show
from dlang.typecheck.refinements import written
from dlang.typecheck.schemes import scheme_names
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.terms import variables
from dlang.typecheck.types import MISTAKE, Type, TypeFn, TypeVar


@dataclass(frozen=True, slots=True)
class Signature:
    """A function in a line. parameters: what each is, `x: f64[n] = …`, in order; names: None for a pattern."""

    name: str
    parameters: tuple[str, ...]
    names: tuple[str | None, ...]
    result: str
    bounds: str = ""

    @property
    def text(self) -> str:
        return f"{self.name}{self.bounds}({', '.join(self.parameters)}){self.result and f' -> {self.result}'}"


def entry_of(document: Document, found: Definition) -> FnEntry | None:
    """What the checker knows of a function or constant, of this or another module."""
    checked = document.analysis.checked
    if checked is None or found.document is None or found.kind not in ("function", "constant"):
        return None
    program = checked.program
    for table in program.tables.values():
        if table.path == found.document.path and (found.name in table.functions or found.name in table.entries):
            with room():
                entry = program.value(table, found.name)
            return entry if isinstance(entry, FnEntry) and entry.decl.result is not MISTAKE else None
    return None


def signature_of(document: Document, found: Definition) -> Signature | None:
    """The signature of a function, a constructor or a builtin: as it is inferred, else as it is written."""
    match found:
        case Definition(kind="builtin"):
            return signature_from_text(found.name, builtin_words.signature(found.name) or "(x)")
        case Definition(kind="function", item=s.Fn() | s.Extern() as item):
            entry = entry_of(document, found)
            return inferred(found.name, entry, item) if entry is not None else as_written(found.name, item)
        case Definition(item=s.Struct(fields=fields) | s.Constructor(fields=fields)):
            texts = tuple(flat(f.span.text) for f in fields)
            return Signature(found.name, texts, tuple(f.name for f in fields), made_type(found))
        case Definition(kind="function", span=span) if span is not None:  # a local one
            t = document.analysis.type_at(span)
            if not isinstance(t, TypeFn):
                return None
            names = Names().prepare(t)
            result = names(t).removeprefix("(" + ", ".join(map(names, t.params)) + ") -> ")
            parameters = local_parameters(document, span)
            shown = [f"{pattern_text(p.pattern)}: {names(x)}" for p, x in zip(parameters, t.params, strict=False)]
            known = tuple(p.pattern.name if isinstance(p.pattern, s.PatternName) else None for p in parameters)
            return Signature(found.name, tuple(shown), known, result)
        case _:
            return None


def local_parameters(document: Document, name: Span) -> tuple[s.Parameter, ...]:
    """Those of the local function, or of the lambda of a `let`, that has its name there."""
    for item in document.analysis.module.items:
        if item.span.source is name.source:
            for node in walk(item):
                match node:
                    case s.Fn(name_span=span, parameters=parameters) if span == name:
                        return parameters
                    case s.Let(pattern=s.PatternName(span), value=s.Lambda(parameters=parameters)) if span == name:
                        return parameters
                    case _:
                        pass
    return ()


def inferred(name: str, entry: FnEntry, item: s.Fn | s.Extern) -> Signature:
    """The signature that the checker found."""
    scheme, decl = entry.scheme, entry.decl
    names = scheme_names(scheme)
    parameters: list[str] = []
    for i, (t, p) in enumerate(zip(scheme.params, item.parameters, strict=True)):
        size = scheme.size_of(i)
        asked = decl.params[i].local.refinement if i < len(decl.params) else None
        text = f"{pattern_text(p.pattern)}: {'size' if size is not None else written(t, asked, names)}"
        text = "nodiff " + text if p.nodiff else text
        parameters.append(text + (f" = {flat(p.default.span.text)}" if p.default is not None else ""))
    result = written(scheme.result, decl.refinement, names)
    if decl.effects:
        result += f" ! {' + '.join(sorted(decl.effects))}"
    bounds = [
        f"{names(v)}: {' + '.join(sorted(v.classes))}"
        for v in scheme.variables
        if isinstance(v, TypeVar) and v.classes and v in variables(*scheme.params, scheme.result)
    ]  # fmt: skip
    return Signature(name, tuple(parameters), entry.names, result, f"<{', '.join(bounds)}>" if bounds else "")


def as_written(name: str, item: s.Fn | s.Extern) -> Signature:
    names = tuple(p.pattern.name if isinstance(p.pattern, s.PatternName) else None for p in item.parameters)
    result = flat(item.result.span.text) if item.result is not None else ""
    bounds = ", ".join(flat(b.span.text) for b in item.bounds)
    return Signature(name, tuple(flat(p.span.text) for p in item.parameters), names, result, bounds and f"<{bounds}>")


def signature_from_text(name: str, text: str) -> Signature:
    """Of `<a: Num>(x: a[..s]) -> a`."""
    match = re.fullmatch(r"(<[^>]*>)?\((.*?)\)(?: -> (.*))?", text)
    if match is None:
        return Signature(name, (), (), text)
    bounds, inside, result = match[1] or "", match[2], match[3] or ""
    while inside.count("(") > inside.count(")"):  # a parameter that is a function
        more, _, result = result.partition(") -> ")
        inside = f"{inside}) -> {more}"
    parameters = split_at_commas(inside)
    names = tuple(p.partition(":")[0].partition("=")[0].strip() or None for p in parameters)
    return Signature(name, parameters, names, result, bounds)


def split_at_commas(text: str) -> tuple[str, ...]:
    """The parts between commas that are in no bracket."""
    out, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return tuple(p.strip() for p in out if p.strip())


def pattern_text(p: s.Pattern) -> str:
    return p.name if isinstance(p, s.PatternName) else flat(p.span.text)


def flat(text: str) -> str:
    """Code of several lines in one."""
    return re.sub(r"\s+", " ", re.sub(r"#[^\n]*", "", text)).strip()


def made_type(found: Definition) -> str:
    """The type of what a constructor makes."""
    if found.document is None:
        return ""
    for item in (found.item, *found.document.outline.items):
        if isinstance(item, s.Struct | s.Enum):
            makes = [item.name] if isinstance(item, s.Struct) else [c.name for c in item.constructors]
            if found.name in makes:
                parameters = ", ".join((".." if p.row else "") + p.name for p in item.parameters)
                return item.name + (f"<{parameters}>" if parameters else "")
    return ""


# ---- what is shown of a definition -----------------------------------------------------------------------------------
def headline(document: Document, found: Definition, here: Type | None = None) -> str:
    """A definition in a line of code or a few. here: the type of the value where it is used."""
    match found:
        case Definition(kind="module"):
            return f"import {found.name}"
        case Definition(kind="class" | "builtin"):
            text = builtin_words.signature(found.name)
            return f"fn {found.name}{text}" if text and not found.name[0].isupper() else found.name
        case Definition(kind="function"):
            signature = signature_of(document, found)
            return f"fn {signature.text}" if signature is not None else f"fn {found.name}"
        case Definition(kind="constant", item=s.Const() as item):
            entry = entry_of(document, found)
            t = entry.decl.result if entry is not None else None
            shown = f": {show(t)}" if t is not None else f": {flat(item.type.span.text)}" if item.type else ""
            value = flat(item.value.span.text)
            return f"const {found.name}{shown}" + (f" = {value}" if len(value) <= 60 else "")
        case Definition(kind="struct" | "enum" | "alias", item=s.Struct() | s.Enum() | s.Alias() as item):
            return item.span.text
        case Definition(kind="constructor"):
            signature = signature_of(document, found)
            return (
                signature.text
                if signature is not None and signature.parameters
                else f"{found.name} -> {made_type(found)}"
            )
        case Definition(kind="field", item=s.FieldDecl() as item):
            return f"{found.name}: {show(here) if here is not None else flat(item.type.span.text)}"
        case Definition(kind="parameter", item=s.Parameter() as parameter):
            return flat(parameter.span.text)
        case Definition(kind="size" | "shape" | "type variable"):
            return f"{found.name}: {found.kind}"
        case _:
            t = here or (document.analysis.type_at(found.span) if found.span is not None else None)
            prefix = {"let": "let ", "var": "var "}.get(found.kind, "")
            return f"{prefix}{found.name}" + (f": {shown_type(t)}" if t is not None else "")


def shown_type(t: Type) -> str:
    """A type; what it holds of sizes known only when the program runs is `?`."""
    return re.sub(r"\?\d+", "?", show(t))


def documentation(found: Definition) -> str:
    """The `##` lines of a definition."""
    match found:
        case Definition(kind="builtin" | "class"):
            return builtin_words.words(found.name)
        case Definition(kind="module", document=Document() as other):
            return other.outline.doc
        case Definition(
            item=s.Fn(doc=doc) | s.Extern(doc=doc) | s.Const(doc=doc) | s.Struct(doc=doc) | s.Enum(doc=doc)
        ):
            return doc
        case _:
            return ""
