"""Repairs of tokens, and the same as edits of the text, where they are what a message advises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.diagnostics import Fix, Source, Span, replacement
from dlang.grammar.lexer import Token

_NO_SPACE_BEFORE = frozenset([",", ":", ";", ")", "]", "<", ">"])


@dataclass(frozen=True, slots=True)
class Edit:
    """A repair that the explanation implies: `tokens[start:end]` become these."""

    start: int
    end: int
    tokens: list[Token]


def in_text(edit: Edit, tokens: Sequence[Token], source: Source, help: Sequence[str]) -> Fix | None:
    """The edit of the text that a repair is. None if the repair only lets parsing go on: it invents something that the
    help does not speak of, says something twice, or leaves something out that the help does not want left out."""
    old, new, following = _difference(edit, tokens)
    made = [t for t in new if t not in old]
    kept = [t for t in new if t in old]
    if any(t.kind == "NL" for t in (*old, *new)) or len(set(kept)) < len(kept):
        return None
    advice = " ".join(help)
    if any(not t.text or t.text not in advice for t in made):
        return None
    if not made and "leave" not in advice and "delete" not in advice and "without" not in advice:
        return None
    text = source.text
    start = old[0].start if old else following.start
    end = old[-1].end if old else start
    if not new and "\n" not in text[end : following.start]:
        end = following.start
    written = _written(new, made, text, start)
    if written:
        apart = new[0].text.endswith("=") and not text[:start].endswith((" ", "\n"))
        written = " " * (apart or _touch(text[:start], written)) + written
        written += " " * (_touch(written, text[end:]) or (not old and not text[end : end + 1].isspace()))
    return None if written == text[start:end] else replacement(Span(source, start, end), written)


def _difference(edit: Edit, tokens: Sequence[Token]) -> tuple[list[Token], list[Token], Token]:
    """Returns the tokens that an edit removes and inserts, without those it leaves unchanged, and the token behind."""
    old, new = list(tokens[edit.start : edit.end]), list(edit.tokens)
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    end = edit.end
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
        end -= 1
    return old, new, tokens[min(end, len(tokens) - 1)]


def _written(new: list[Token], made: list[Token], text: str, start: int) -> str:
    """Tokens as text, with the spaces that stand between them where they come from."""
    out, at = "", start
    for t in new:
        gap = text[at : t.start] if at <= t.start else " "
        if (t in made and t.text in _NO_SPACE_BEFORE) or out.endswith(("(", "[", "<")):
            gap = ""
        elif not gap and (t.text == "=" or out.endswith("=")):
            gap = " "
        out += (gap or " " * _touch(out, t.text) if out else "") + t.text
        at = t.end
    return out


def _touch(before: str, after: str) -> bool:
    """Tells whether two texts side by side would be one word."""
    if not before or not after:
        return False
    return (before[-1].isalnum() or before[-1] in "_'") and (after[0].isalnum() or after[0] == "_")
