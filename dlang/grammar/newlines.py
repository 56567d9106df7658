"""The newline rule: which newlines end a statement, and where an item ends.

A newline ends a statement where the innermost open bracket is `{` or there is none, unless it follows what needs
more, or the next line begins with what continues; `;` ends one too. A line that begins with `-`, `(`, `[` or `|`
starts a statement; indented deeper than the statement before it, it is refused, for it would be read by a person as
the continuation that it is not. No statement begins with another operator, so one that does is refused too.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from dlang.diagnostics import Diagnostic, Note, Source, Span, replacement
from dlang.grammar.lexer import Token

NEEDS_MORE = frozenset("+ - * / // % @ ** == != < <= > >= and or not as |> += -= *= /= = , -> => { | .. !".split())
CONTINUES = frozenset([".", "TUPLE_INDEX", "|>", "->", "=", "else"])
STARTS_STATEMENT = frozenset(["-", "(", "[", "|"])
ONLY_BETWEEN = frozenset("+ * / // % @ ** == != < <= > >= and or".split())
OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {")": "(", "]": "[", "}": "{"}


@dataclass(slots=True)
class Layout:
    """items: the tokens of each item, `NL` tokens among them. balanced: every bracket found its partner."""

    items: list[list[Token]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    balanced: bool = True


def layout(tokens: list[Token], source: Source, ignored: Set[int] = frozenset()) -> Layout:
    """Apply the newline rule. `ignored` are the starts of brackets that are never closed: they don't count."""
    result = Layout()
    item: list[Token] = []
    brackets: list[str] = []  # the open ones
    angles: list[int] = []  # the open `<` of type arguments: how many brackets were open there
    columns = [-1]  # of the first token of the statement in progress, for each open bracket
    begins = [0]  # its position
    previous = "{"  # at the start of the text as after a brace
    pending: Token | None = None
    line_start = source.text.rfind("\n", 0, tokens[0].start) + 1 if tokens else 0
    for token in tokens:
        kind = token.kind
        if kind == "newline":
            line_start = token.start + token.text.rfind("\n") + 1
            if previous not in NEEDS_MORE and not (brackets and brackets[-1] != "{") and pending is None:
                pending = token
            continue
        if kind == ";" and not (brackets and brackets[-1] != "{"):
            if previous != "{":
                pending = token
            continue
        if pending is not None:
            hard = pending.kind == ";"
            if kind in ONLY_BETWEEN and not hard and item and not _is_comment(token, source):
                result.diagnostics.append(_leading(token, item[-1], source))
            elif kind != "}" and (hard or kind not in CONTINUES):
                column = token.start - line_start
                deeper = not hard and kind in STARTS_STATEMENT and column > columns[-1]
                if deeper:
                    result.diagnostics.append(_hanging(token, begins[-1], source))
                if not deeper or kind == "|":
                    if brackets:
                        item.append(Token("NL", pending.text, pending.start, pending.end))
                    elif item:
                        result.items.append(item)
                        item = []
                    columns[-1], begins[-1] = column, token.start
                    angles.clear()
            pending = None
        elif previous == "{":
            columns[-1], begins[-1] = token.start - line_start, token.start
        previous = kind
        if kind in OPENERS:
            if token.start not in ignored:
                brackets.append(kind)
                columns.append(-1)
                begins.append(token.end)
        elif kind in CLOSERS:
            if brackets and brackets[-1] == CLOSERS[kind]:
                brackets.pop()
                columns.pop()
                begins.pop()
            else:
                result.balanced = False
        elif kind == "<":
            if item and item[-1].kind == "UNAME":
                angles.append(len(brackets))
        elif kind == ">" and angles:
            while angles and angles[-1] > len(brackets):
                angles.pop()
            if angles and angles[-1] == len(brackets):
                angles.pop()
                previous = "type"  # closes type arguments: no operator
        item.append(token)
    if item:
        result.items.append(item)
    result.balanced = result.balanced and not brackets
    return result


def _hanging(token: Token, before: int, source: Source) -> Diagnostic:
    line_end = source.text.find("\n", before)
    help = "to continue the line above, end the line above with the operator"
    if token.text != "-":
        help += f", or put `{token.text}` on it"
    return Diagnostic(
        "E0105",
        f"a line that begins with `{token.text}` starts a statement, but this one is indented as a continuation",
        Span(source, token.start, token.end),
        label="end the line above with the operator",
        notes=(Note("the statement before it", Span(source, before, line_end)),),
        help=(help, "to start a statement, indent it as the one before"),
    )


def _leading(token: Token, before: Token, source: Source) -> Diagnostic:
    """The operator stands on the wrong line; the repair moves it, if there is no comment between."""
    between = source.text[before.end : token.start]
    after = token.end + len(source.text[token.end :]) - len(source.text[token.end :].lstrip(" "))
    moved = replacement(Span(source, before.end, after), f" {token.text}{between}")
    return Diagnostic(
        "E0105",
        f"a line can't begin with `{token.text}`",
        Span(source, token.start, token.end),
        label="end the line above with the operator",
        help=("or put the whole expression into parentheses, in which newlines mean nothing",),
        fixes=() if between.strip() else (moved._replace(title=f"Move `{token.text}` to the line above"),),
    )


def _is_comment(token: Token, source: Source) -> bool:
    """Tells whether a line begins with a comment as other languages have it."""
    return source.text.startswith(("//", "/*"), token.start)
