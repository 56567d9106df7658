"""What an input that is not finished has around the cursor: the value in front of it, the names that it binds."""

from __future__ import annotations

from dlang.diagnostics import DlangError, Source
from dlang.grammar import syntax as s
from dlang.grammar.lexer import tokenize
from dlang.grammar.newlines import CLOSERS, NEEDS_MORE, OPENERS
from dlang.tools.assistance.situation import Situation, receiver
from dlang.tools.repl.annotations import items_of
from dlang.tools.repl.compose import RESULT
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
def type_at(session: Session, at: Situation, expression: str) -> Type | None:
    """The type that an expression has where the cursor stands; None if that is not known."""
    header, statements = _surroundings(at)
    try:
        if header is not None:
            item = f"fn input({header}) {{\n{statements}\n{expression}\n}}"
            decl, _ = check_function(session.checked, Source("<completion>", item))
            return decl.result if decl is not None else None
        module = session.parsed(Source("<completion>", f"{statements}\n{expression}"))
        body = [i for i in module.items if isinstance(i, s.Statement) and not isinstance(i, s.Fn)]
        last = body[-1] if body else None
        if last is None or not isinstance(last, s.Expr):
            return None
        body[-1] = s.Let(last.span, s.PatternName(last.span, RESULT), None, last)
        decl, _ = session.composed(session.checked, module.source, body, [RESULT])
        return items_of(decl.result)[0] if decl.result is not None else None
    except DlangError:
        return None


def _surroundings(at: Situation) -> tuple[str | None, str]:
    """The parameters of the function around the cursor, None outside of one, and the finished statements before it.

    Those of a loop or a branch around the cursor are left out, since they may mention what that binds.
    """
    known = set(at.before)
    header: str | None = None
    first = start = depth = outside = 0  # outside: the brackets that are open around the statements
    previous = ""
    for token in tokenize(at.text):
        if token.kind in ("newline", ";"):
            if depth == outside and previous not in NEEDS_MORE:
                start = token.end
        elif token in known:
            if token.kind == "{" and depth == outside == 0 and header is None:
                header = _parameters(at.text[start : token.start])
                if header is not None:
                    first = start = token.end
                    outside = 1
            depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
            if depth < outside:
                header, outside, first = None, 0, token.end
            previous = token.kind
    return header, at.text[first:start].strip()


def _parameters(text: str) -> str | None:
    """What stands in the brackets of `fn f(…)`."""
    tokens = [t for t in tokenize(text) if t.kind != "newline"]
    if len(tokens) < 3 or tokens[0].kind != "fn" or tokens[2].kind != "(":
        return None
    depth = 0
    for token in tokens[2:]:
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if depth == 0:
            return text[tokens[2].end : token.start]
    return None
