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


# ---- brackets without their partners ---------------------------------------------------------------------------------
# Finds the brackets that lack their partners. Called only where they don't match.

_MOST = 20  # mistakes in one declaration; with more of them only the first is told, and nothing is read


def match_brackets(tokens: list[Token], source: Source) -> tuple[list[Token], set[int], list[Diagnostic]]:
    """Tokens, the starts of the `(` and `[` that are never closed, and a message for each mistake.

    A closing bracket that closes nothing is dropped; a `}` that is missing is put where it is missed at the latest.
    """
    matched = _match(tokens, source, by_indentation=False)
    if any(d.code == "E0102" and d.span and source.text[d.span.start] == "{" for d in matched[2]):
        return _match(tokens, source, by_indentation=True)
    return matched


def _match(tokens: list[Token], source: Source, by_indentation: bool) -> tuple[list[Token], set[int], list[Diagnostic]]:
    """`by_indentation`: a `}` that begins its line closes the `{` whose line is indented as its own."""
    kept: list[Token] = []
    stack: list[tuple[Token, int]] = []  # open brackets, and the indentation of their lines
    unclosed: list[int] = []
    diagnostics: list[Diagnostic] = []
    indentation, first = 0, True
    for position, token in enumerate(tokens):
        kind = token.kind
        if len(diagnostics) + len(unclosed) > _MOST:
            break
        if kind == "newline":
            indentation, first = len(token.text) - token.text.rfind("\n") - 1, True
            kept.append(token)
            continue
        if kind in OPENERS:
            stack.append((token, indentation))
        elif kind in CLOSERS:
            partner = len(stack) - 1
            while partner >= 0 and stack[partner][0].kind != CLOSERS[kind]:
                partner -= 1
            if by_indentation and kind == "}" and first:
                outer = partner
                while outer >= 0 and not (stack[outer][0].kind == "{" and stack[outer][1] <= indentation):
                    outer -= 1
                if outer >= 0 and stack[outer][1] == indentation:
                    partner = outer
            if partner != len(stack) - 1 and not (by_indentation and kind == "}" and first):
                partner = _best_partner([t.kind for t, _ in stack], partner, kind, tokens, position)
            if partner < 0 or partner == len(stack):
                if partner >= 0:
                    opening = stack.pop()[0]
                    diagnostics.append(_mismatched(opening, token, source))
                    token = token._replace(kind=OPENERS[opening.kind])
                else:
                    diagnostics.append(_closes_nothing(token, source))
                    if kept and kept[-1].kind in NEEDS_MORE:  # what it should have been is missing, too
                        kept.append(Token("NAME", "", token.start, token.end))
                    first = False
                    continue
            else:
                for opening, _ in reversed(stack[partner + 1 :]):
                    unclosed.append(opening.start)
                    if opening.kind == "{":
                        kept.append(Token("}", "}", token.start, token.start))
                del stack[partner:]
        first = False
        kept.append(token)
    for opening, _ in reversed(stack):
        unclosed.append(opening.start)
        if opening.kind == "{":
            kept.append(Token("}", "}", kept[-1].end, kept[-1].end))
    diagnostics.extend(_never_closed(start, source) for start in unclosed)
    if len(diagnostics) > _MOST:
        return [], set(), [min(diagnostics, key=_start)]
    return kept, {start for start in unclosed if source.text[start] != "{"}, diagnostics


def _start(d: Diagnostic) -> int:
    return d.span.start if d.span is not None else 0


def _best_partner(stack: list[str], partner: int, kind: str, tokens: list[Token], position: int) -> int:
    """Chooses what a bracket closes that isn't the partner of the innermost open one, by the fewest mistakes in total:
    the bracket at `partner` (those above are never closed), nothing (-1), or the innermost, in its stead
    (`len(stack)`)."""
    following = [token.kind for token in tokens[position + 1 :] if token.kind in OPENERS or token.kind in CLOSERS]
    choices: list[tuple[int, int]] = []
    if partner >= 0:
        choices.append((len(stack) - 1 - partner + _mistakes(stack[:partner], following), partner))
    if stack and kind != "}" and stack[-1] != "{":
        choices.append((1 + _mistakes(stack[:-1], following), len(stack)))
    choices.append((1 + _mistakes(stack, following), -1))
    return min(choices, key=lambda choice: choice[0])[1]


def _mistakes(stack: list[str], kinds: list[str]) -> int:
    """How many brackets lack a partner, if each closes the innermost that it can."""
    stack, count = list(stack), 0
    for kind in kinds:
        if kind in OPENERS:
            stack.append(kind)
        elif CLOSERS[kind] in stack:
            while stack.pop() != CLOSERS[kind]:
                count += 1
        else:
            count += 1
    return count + len(stack)


def _never_closed(start: int, source: Source) -> Diagnostic:
    opening = source.text[start]
    return Diagnostic(
        "E0102",
        f"expected `{OPENERS[opening]}` for this `{opening}`",
        Span(source, start, start + 1),
        label=f"this `{opening}` is never closed",
    )


def _closes_nothing(token: Token, source: Source) -> Diagnostic:
    return Diagnostic(
        "E0106",
        f"this `{token.text}` closes nothing",
        Span(source, token.start, token.end),
        label=f"no `{CLOSERS[token.kind]}` is open here",
    )


def closes_nothing(d: Diagnostic, bracket: str) -> bool:
    """Tells whether a diagnostic is about a closing bracket for which none is open."""
    return d.code == "E0106" and not d.notes and d.span is not None and d.span.text == bracket


def _mismatched(opening: Token, closing: Token, source: Source) -> Diagnostic:
    return Diagnostic(
        "E0106",
        f"expected `{OPENERS[opening.kind]}`, found `{closing.text}`",
        Span(source, closing.start, closing.end),
        label=f"`{OPENERS[opening.kind]}` is expected here",
        notes=(Note(f"this `{opening.text}` is open", Span(source, opening.start, opening.end)),),
    )
