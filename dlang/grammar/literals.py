"""The inside of number and string tokens: suffixes, escapes, interpolations."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import Token
from dlang.grammar.vocabulary import ESCAPES
from dlang.ops.dtypes import DTYPES, FLOATS, INTEGERS
from dlang.spelling import closest

if TYPE_CHECKING:
    from dlang.grammar.tree import Builder

_SUFFIXES = {suffix: d.name for d in DTYPES.values() for suffix in d.suffixes}  # of other languages
_NUMBER = re.compile(r"([0-9][0-9_]*)(\.[0-9][0-9_]*)?([eE][+-]?[0-9]+)?(.*)")
_CHUNK = re.compile(r"[^\\{}]+")
_CODEPOINT = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")


def integer(builder: Builder, token: Token) -> s.Number:
    return _number(builder, token, (*INTEGERS, *FLOATS), "an integer")


def float_(builder: Builder, token: Token) -> s.Number:
    return _number(builder, token, FLOATS, "a float")


def _number(builder: Builder, token: Token, suffixes: tuple[str, ...], what: str) -> s.Number:
    span = builder.span(token)
    if token.text.isdigit() and len(token.text) < 20:
        return s.Number(span, int(token.text))
    match = _NUMBER.fullmatch(token.text)
    assert match is not None
    whole, fraction, exponent, suffix = match.groups()
    if suffix and suffix not in suffixes:
        label = f"expected nothing, or one of {', '.join(suffixes)}"
        help = _suffix_of_elsewhere(token.text, token.text[: match.start(4)], suffix, suffixes)
        start = token.start + match.start(4)
        builder.report("E0109", f"`{suffix}` can't follow {what}", start, token.end, "" if help else label, *help)
        suffix = ""
    if fraction is None and exponent is None:
        digits = whole.replace("_", "").lstrip("0") or "0"
        value = int(digits) if len(digits) <= 20 else 1 << 64
        bits, least = (int(suffix[1:]), suffix[0]) if suffix in INTEGERS and suffix else (64, "u")
        if value >= 1 << bits or (value > 1 << (bits - 1) and least == "i"):
            dtype = f"`{suffix}`" if suffix else "any type of integers"
            builder.report("E0109", f"this number is too large for {dtype}", token.start, token.end)
            value = 0
        return s.Number(span, value, suffix or None)
    number = float((whole + (fraction or "")).replace("_", "") + (exponent or ""))
    if number == math.inf:
        builder.report("E0109", "this number is too large for any type of floats", token.start, token.end)
        number = 0.0
    return s.Number(span, number, suffix or None)


def _suffix_of_elsewhere(written: str, number: str, suffix: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns help for a notation of numbers that the language lacks."""
    if re.fullmatch(r"0([xX][0-9a-fA-F_]+|[oO][0-7_]+|[bB][01_]+)", written):
        return (f"numbers are decimal: write `{int(written.replace('_', ''), 0)}`",)
    if suffix in ("e", "E"):
        return (f"an exponent has digits: `{number}e3`",)
    meant = _SUFFIXES.get(suffix.lower())
    if meant in known:
        return (f"write `{number}{meant}`",)
    if suffix in ("j", "J", "im", "i"):
        return ("there are no complex numbers",)
    close = closest(suffix, known) if suffix not in INTEGERS else None
    if close is not None:
        return (f"did you mean `{number}{close}`?",)
    if suffix.isidentifier() and suffix.islower() and len(suffix) <= 2:
        return (f"to multiply, write `{number} * {suffix}`",)
    return ()


def plain_text(builder: Builder, token: Token) -> str:
    """The text of a string that may not interpolate: the name of a test, a pattern, a foreign function."""
    result = string(builder, token, interpolates=False)
    return "".join(part for part in result.parts if isinstance(part, str))


def string(builder: Builder, token: Token, interpolates: bool = True) -> s.String:
    """The text of a string token, with its escapes decoded and its interpolations parsed."""
    text = builder.source.text
    end = token.end - 1
    if token.kind == "STRING" and "{" not in token.text and "\\" not in token.text and "}" not in token.text:
        return s.String(builder.span(token), (token.text[1:-1],) if len(token.text) > 2 else ())
    parts: list[str | s.Interpolation] = []
    literal: list[str] = []
    at = token.start + 1
    while at < end:
        character = text[at]
        if match := _CHUNK.match(text, at, end):
            literal.append(match[0])
            at = match.end()
        elif character == "\\":
            decoded, at = _escape(builder, at, end)
            literal.append(decoded)
        elif text.startswith(character * 2, at, end):
            literal.append(character)
            at += 2
        elif character == "}":
            builder.report("E0107", "this `}` closes no interpolation", at, at + 1, "", "a brace in a string is `}}`")
            at += 1
        elif not interpolates:
            close = max(text.find("}", at, end), at) + 1
            builder.report(
                "E0107", "this string can't interpolate", at, close, "an interpolation", "a brace in a string is `{{`"
            )
            at = close
        else:
            interpolation, at = _interpolation(builder, at, end)
            if literal:
                parts.append("".join(literal))
                literal = []
            if interpolation is not None:
                parts.append(interpolation)
    if literal:
        parts.append("".join(literal))
    return s.String(builder.span(token), tuple(parts))


def _escape(builder: Builder, at: int, end: int) -> tuple[str, int]:
    """The character that the escape at `at` stands for, and where it ends."""
    text = builder.source.text
    letter = text[at + 1]
    if letter in ESCAPES:
        return ESCAPES[letter], at + 2
    if match := _CODEPOINT.match(text, at + 1, end):
        code = int(match[1] or match[2] or match[3], 16)
        if code < 0x110000 and not 0xD800 <= code < 0xE000:
            return chr(code), match.end()
    if letter in "{}":
        close = text.find("}", at + 2, end)
        help = f"a brace is `{letter * 2}`"
        builder.report("E0107", f"`\\{letter}` is no escape", at, at + 2, "", help)
        return letter, close + 1 if letter == "{" and close >= 0 else at + 2
    builder.report(
        "E0107",
        f"`\\{letter}` is no escape",
        at,
        at + 2,
        "",
        r"the escapes are \n \t \r \0 \\ \" \' \xhh \uhhhh \u{hhhhh}; a backslash is `\\`",
    )
    return letter, at + 2


def _interpolation(builder: Builder, at: int, end: int) -> tuple[s.Interpolation | None, int]:
    """The interpolation whose `{` is at `at`, and where it ends. A `:` outside of brackets begins its format."""
    text = builder.source.text
    depth, colon, close = 0, -1, at + 1
    while close < end and not (depth == 0 and text[close] == "}"):
        character = text[close]
        if colon < 0:
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth = max(depth - 1, 0)
            elif character == ":" and depth == 0:
                colon = close
        close += 1
    if close >= end:
        builder.report(
            "E0107", "this interpolation is never closed", at, at + 1, "`}` is missing", "a brace in a string is `{{`"
        )
        return None, end
    stop = colon if colon >= 0 else close
    spec = text[colon + 1 : close] if colon >= 0 else ""
    if not text[at + 1 : stop].strip():
        builder.report(
            "E0107",
            "this interpolation is empty",
            at,
            close + 1,
            "expected an expression",
            "a value is written into it: `{x}`; a brace is `{{`",
        )
        return None, close + 1
    span = Span(builder.source, at, close + 1)
    return s.Interpolation(span, builder.parse_part(at + 1, stop), spec), close + 1
