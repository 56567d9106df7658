"""Commands that look at types, derivatives, documentation and code, and run nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dlang.diagnostics import Source, Span, error
from dlang.driver import lower
from dlang.dump_ir import STAGES, listing, request
from dlang.grammar import syntax as s
from dlang.lazy_modules import lazy_module
from dlang.spelling import closest
from dlang.tools.repl.compose import RESULT, decide
from dlang.tools.repl.functions import calling, derivative, function_of, type_of_function
from dlang.tools.repl.names import documentation, library_module, meaning
from dlang.tools.repl.session import Session
from dlang.tools.repl.settings import Settings
from dlang.tools.repl.state import LAST, StoredValue, items_of, mentions
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.program import scheme_text
from dlang.typecheck.types import Type, TypeFn

if TYPE_CHECKING:
    from dlang.grammar import parser
    from dlang.tools.dot import Graph
    from dlang.tools.repl import values
else:
    parser = lazy_module("dlang.grammar.parser")
    values = lazy_module("dlang.tools.repl.values")


def type_of(session: Session, text: str, what: str = ":type") -> str:
    """The type of an expression; of the name of a function, its scheme. Raises `DlangError`."""
    source, e = session.expression(text, what)
    known = type_of_function(session, source, e)
    if known is not None:
        return known
    t = _inferred(session, source, e)
    return Names(scheme=True).prepare(t)(t)


def _inferred(session: Session, source: Source, e: s.Expr) -> Type:
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), None, e)]
    decl, _ = session.composed(session.checked, source, body, [RESULT])
    assert decl.result is not None
    return items_of(decl.result)[0]


# ---- derivatives and code --------------------------------------------------------------------------------------------
def gradient_of(session: Session, text: str) -> str:
    """The type of the gradient of a function; with the word `ir` and perhaps a stage behind it, its program."""
    if not text:
        raise error("E0971", "`:grad` takes a function", None, help=("for example `:grad |x: f64| x ** 2`",))
    text, stage = _with_stage(text, ":grad")
    derivative = f"grad({text})"
    if stage is None:
        return f"{derivative}: {type_of(session, derivative, ':grad')}"
    return code_of(session, derivative, stage, ":grad")


def _with_stage(text: str, what: str) -> tuple[str, str | None]:
    words = text.split()
    if len(words) > 1 and words[-1] == "ir":
        return text.rsplit("ir", 1)[0].strip(), "ad"
    if len(words) > 2 and words[-2] == "ir":
        return text.rsplit("ir", 1)[0].strip(), _stage(words[-1], what)
    return text, None


def ir_of(session: Session, text: str) -> str:
    """The program of an expression, after the stage that stands behind it, or as back ends get it."""
    words = text.split()
    if len(words) > 1 and words[-1] in STAGES:
        return code_of(session, text.rsplit(words[-1], 1)[0], words[-1], ":ir")
    if len(words) > 1 and words[-2][-1:] not in "+-*/%@<>=,(|" and words[-1].isalpha() and _ends_before(text):
        _stage(words[-1], ":ir")
    return code_of(session, text, "opt", ":ir")


def _ends_before(text: str) -> bool:
    """Tells whether the text before the last word is an expression by itself, and with the word is none."""
    whole = parser.parse_expression(Source("<expression>", text))[1]
    return bool(whole) and not parser.parse_expression(Source("<expression>", text.rsplit(None, 1)[0]))[1]


def _stage(word: str, what: str) -> str:
    if word in STAGES:
        return word
    close = closest(word, STAGES)
    help = (f"did you mean `{close}`?",) if close is not None else (f"there are {', '.join(STAGES)}",)
    raise error("E0971", f"`{what}`: there is no stage `{word}`", None, help=help)


def graph_of(session: Session, text: str) -> Graph:
    """The graph of the program of an expression or a function; behind the word `grad`, of the gradient of one."""
    from dlang.tools.program_graph import program_graph

    first, _, rest = text.partition(" ")
    program, entries = lower([request(_program_of(session, f"grad({rest})" if first == "grad" else text, ":graph"))])
    return program_graph(program, [entry.name for entry in entries])


def code_of(session: Session, text: str, stage: str, what: str) -> str:
    """The program of an expression, or of a function, after a stage. Raises `DlangError`."""
    return session.state.with_places(listing([_program_of(session, text, what)], stage), session.path)


def _program_of(session: Session, text: str, what: str) -> core.FnDecl:
    """A function that computes an expression; if that is a function, with its parameters."""
    source, e = session.expression(text, what)
    functions = session.checked.module.functions
    if isinstance(e, s.Name) and e.name in functions and e.name not in session.state.values:
        return functions[e.name]
    if isinstance(e, s.Lambda):
        return function_of(session, source, e, e.body, e.result)[0]
    if (found := derivative(session, source, e)) is not None:
        return found[0]
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), None, e)]
    decl, _ = session.composed(session.checked, source, body, [RESULT])
    assert decl.result is not None
    t = items_of(decl.result)[0]
    if isinstance(t, TypeFn):
        if seen := [n for n in session.state.values if n in mentions(e)]:
            raise error("E0971", f"the code of this function depends on the value `{seen[0]}`", e.span,
                        help=(f"call it, or make `{seen[0]}` a parameter or a `const`",))  # fmt: skip
        names = Names(scheme=True).prepare(t)
        letters = [f"x{k}" for k in range(len(t.params))]
        return calling(e.span.text, letters, [names(p) for p in t.params], session.checked)
    decide(decl, {RESULT: t}, e.span)
    return decl


# ---- names -----------------------------------------------------------------------------------------------------------
def doc_of(session: Session, name: str) -> str:
    """Describes a name: its type or signature, and its documentation. Raises `DlangError`."""
    checked = session.checked
    if name in session.state.values:
        return f"{name}: {session.state.values[name].shown}"
    if not name or not all(part.isidentifier() for part in name.replace("'", "").split(".")):
        raise error("E0971", "`:doc` takes a name", None, help=("for example `:doc sum` or `:doc nn.relu`",))
    found = meaning(checked, name)
    if found is None and (library := library_module(session, name.split(".")[0])) is not None:
        checked, found = library, meaning(library, name)
    if found is None:
        known = [*session.state.values, *checked.program.value_names(checked.table)]
        known += [*checked.program.type_names(checked.table), *checked.program.constructor_names(checked.table)]
        close = closest(name, known)
        at = Source("<name>", name)
        help = () if close is None else (f"did you mean `{close}`?",)
        raise error("E0201", f"unknown name `{name}`", Span(at, 0, len(name)), help=help)
    return documentation(name, found, checked)


def variables_of(session: Session, settings: Settings) -> str:
    """The values with their types, then functions, constants and datatypes."""
    rows: list[tuple[str, str, str]] = []
    for name, value in session.state.values.items():
        name = "_" if name == LAST else name
        text = _short(value, settings) if isinstance(value, StoredValue) else ""
        earlier = sorted(value.stale) if isinstance(value, StoredValue) else []
        stale = f"  (computed with an earlier {', '.join(earlier)})" if earlier else ""
        rows.append((name, value.shown, text + stale))
    functions = session.checked.module.functions
    for (kind, name), d in session.state.declarations.items():
        if d.imports:
            rows.append((name, d.text, ""))
        elif kind == "value" and name in functions:
            rows.append((name, scheme_text(functions[name]), ""))
        elif kind == "type":
            rows.append((name, " ".join(d.text[d.lead :].split()), ""))
    if not rows:
        return "nothing is declared or kept"
    first = max(len(r[0]) for r in rows)
    second = max((len(r[1]) for r in rows if r[2]), default=0)
    lines = (f"{n:<{first}} : {t:<{second}}" + (f" = {v}" if v else "") for n, t, v in rows)
    return "\n".join(line.rstrip() for line in lines)


def _short(value: StoredValue, settings: Settings) -> str:
    lines = values.value_text(value.form, value.leaves, replace(settings.style, width=10_000)).splitlines()
    text = " ".join(line.strip() for line in lines)
    return text if len(text) <= 50 else text[:49] + "…"
