"""Finds the brackets that lack their partners. Called only where they don't match."""

from __future__ import annotations

from dlang.diagnostics import Diagnostic, Note, Source, Span
from dlang.grammar.lexer import Token
from dlang.grammar.newlines import CLOSERS, NEEDS_MORE, OPENERS

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
    rest = [token.kind for token in tokens[position + 1 :] if token.kind in OPENERS or token.kind in CLOSERS]
    choices: list[tuple[int, int]] = []
    if partner >= 0:
        choices.append((len(stack) - 1 - partner + _mistakes(stack[:partner], rest), partner))
    if stack and kind != "}" and stack[-1] != "{":
        choices.append((1 + _mistakes(stack[:-1], rest), len(stack)))
    choices.append((1 + _mistakes(stack, rest), -1))
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
