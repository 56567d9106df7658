"""The context of the cursor in an unfinished input: the value in front of it, the names that it binds."""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.diagnostics import DlangError, Source
from dlang.grammar import syntax as s
from dlang.grammar.lexer import tokenize
from dlang.grammar.newlines import CLOSERS, NEEDS_MORE, OPENERS
from dlang.grammar.parser import parse
from dlang.tools.assistance.situation import Situation, open_brackets, receiver
from dlang.tools.repl.annotations import items_of
from dlang.tools.repl.compose import RESULT
from dlang.tools.repl.inputs import split
from dlang.tools.repl.session import Session
from dlang.typecheck.program import check_function
from dlang.typecheck.types import Type


def value_before(at: Situation, end: int) -> str:
    """The expression that ends in front of a token; or ""."""
    found = receiver(at, end)
    return at.text[slice(*found)] if found is not None else ""


def local_names(at: Situation) -> list[str]:
    """The names that the input itself binds before the cursor: by `let`, `var`, `for`, and as parameters."""
    found: dict[str, None] = {}
    tokens = at.before
    bars = 0
    for k, token in enumerate(tokens):
        before = tokens[k - 1].kind if k else ""
        after = tokens[k + 1].kind if k + 1 < len(tokens) else ""
        bars += token.kind == "|"
        if token.kind == "NAME":
            binds = before in ("let", "var", "for", "nodiff") or after == "in"
            parameter = before in ("(", ",", "|") and (after in (":", "|") or (bars % 2 == 1 and after == ","))
            if binds or parameter or (before == "fn" and after == "("):
                found[token.text] = None
    return list(found)


# ---- types of what stands before ------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Around:
    """The context of the cursor: the parameters and the statements before it. declared: in a `fn`, which does not see
    the values of the session."""

    declared: bool = False
    parameters: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)


def type_at(session: Session, at: Situation, expression: str) -> Type | None:
    """The type that an expression has where the cursor stands; None if that is not known."""
    around = _around(at)
    statements = "\n".join([*around.statements, expression])
    head = f"fn input({', '.join(around.parameters)})"
    try:
        if around.declared:
            decl, _ = check_function(session.checked, Source("<completion>", f"{head} {{\n{statements}\n}}"))
            return decl.result if decl is not None else None
        function = parse(Source("<completion>", f"{head} = 0"))[0].items
        module = session.parsed(Source("<completion>", statements))
        body = [i for i in module.items if isinstance(i, s.Statement) and not isinstance(i, s.Fn)]
        last = body[-1] if body else None
        if not isinstance(last, s.Expr) or not function or not isinstance(function[0], s.Fn):
            return None
        body[-1] = s.Let(last.span, s.PatternName(last.span, RESULT), None, last)
        decl, _ = session.composed(session.checked, module.source, body, [RESULT], more=function[0].parameters)
        return items_of(decl.result)[0] if decl.result is not None else None
    except DlangError:
        return None


def _around(at: Situation) -> _Around:
    """Returns the bindings of the blocks around the cursor, the outer ones first."""
    around = _Around()
    start, arms = 0, False
    for brace in [b for b in open_brackets(at.before) if b.kind == "{"]:
        done, head = _finished(at.text[start : brace.start])
        around.statements += [] if arms else [done]
        own = _parameters(head)
        if own is not None:
            outer = around if around.declared else _Around()
            around = _Around(True, [*outer.parameters, own], outer.statements)
        else:
            around.parameters += _of_lambdas(head)
            around.statements += _of_loop(head)
        start, arms = brace.end, any(t.kind == "match" for t in tokenize(head))
    done, head = _finished(at.text[start : at.before[-1].end if at.before else start])
    around.statements += [] if arms else [done]
    around.parameters += _of_lambdas(head)
    return around


def _finished(text: str) -> tuple[str, str]:
    """The statements that are whole at the start of a text, and what follows them."""
    start = depth = 0
    previous = ""
    for token in tokenize(text):
        if token.kind in ("newline", ";"):
            if depth == 0 and previous not in NEEDS_MORE:
                start = token.end
        else:
            depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
            previous = token.kind
    return text[:start].strip(), text[start:]


def _parameters(text: str) -> str | None:
    """Returns the text in the brackets of `fn f(…)`."""
    tokens = [t for t in tokenize(text) if t.kind != "newline"]
    if len(tokens) < 3 or tokens[0].kind != "fn" or tokens[2].kind != "(":
        return None
    depth = 0
    for token in tokens[2:]:
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if depth == 0:
            return text[tokens[2].end : token.start]
    return None


def _of_lambdas(text: str) -> list[str]:
    """The parameters with types of the lambdas that are not finished: `|v: f64|`."""
    found: list[tuple[int, str]] = []  # with how many brackets were open
    depth, opened = 0, -1
    for token in tokenize(text):
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if token.kind == "|":
            if opened >= 0:
                found += [(depth, p) for p in split(text[opened : token.start], ",") if ":" in p]
            opened = token.end if opened < 0 else -1
        ended = depth if opened < 0 and token.kind in (",", ";") else depth + 1
        found = [(d, p) for d, p in found if d < ended]
    return [p for _, p in found]


def _of_loop(text: str) -> list[str]:
    """Returns statements that bind the variables of a loop: `for i < n`, `for i in a..b`, `for x in xs`."""
    head = text.strip()
    if not head.startswith("for "):
        return []
    statements = []
    for binder in split(head.removeprefix("for "), ","):
        name, _, array = (part.strip() for part in binder.partition(" in "))
        counted = not array or any(t.kind == ".." for t in tokenize(array))
        statements.append(f"let {name.split('<')[0].strip()} = " + ("0" if counted else f"({array})[0]"))
    return statements
