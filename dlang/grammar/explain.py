"""Explains the first token that can't stand where it does.

First what a person may have meant is recognised (`_RULES`, in order), also in other languages (signs.py, constructs.py,
words.py); else the message says what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlang.diagnostics import Source
from dlang.grammar.constructs import CONSTRUCTS
from dlang.grammar.edits import Edit
from dlang.grammar.lexer import KEYWORDS, Token
from dlang.grammar.machine import Machine
from dlang.grammar.newlines import CLOSERS
from dlang.grammar.signs import SIGNS
from dlang.grammar.stop import Explanation, Stop, braces, expected, found
from dlang.grammar.tables import END
from dlang.grammar.words import WORDS
from dlang.ops.primitives import COMPARISONS


def explain(machine: Machine, stuck: Machine, tokens: list[Token], at: int, source: Source) -> Explanation:
    """The message for the token at `at`, and the repair that goes with it."""
    stop = Stop(machine, stuck, tokens, at, source)
    for rule in _RULES:
        explanation = rule(stop)
        if explanation is not None:
            return explanation
    return _unexpected(stop)


# ---- what may have been meant ----------------------------------------------------------------------------------------
def _string_without_end(stop: Stop) -> Explanation | None:
    if stop.token.kind != "unclosed":
        return None
    edit = Edit(stop.at, stop.at + 1, [Token("STRING", '""', stop.token.start, stop.token.end)])
    return stop.says("E0103", 'expected `"` before the end of the line', "this string has no end", edit=edit)


def _match_of_nothing(stop: Stop) -> Explanation | None:
    """`match { … }`: the arms are read as a block that is matched."""
    opening = stop.opening
    if opening < 1 or stop.tokens[opening].kind != "{" or stop.tokens[opening - 1].kind != "match":
        return None
    value = Edit(opening, opening, [stop.as_token("NAME", opening, "")])
    message = "expected the value that is matched"
    return stop.says("E0101", message, "expected after this", edit=value, token=stop.tokens[opening - 1])


def _string_in_interpolation(stop: Stop) -> Explanation | None:
    """`"{f("a")}"` is two strings with `a` between them."""
    before = stop.before
    if before is None or before.kind != "STRING" or stop.token.start != before.end:
        return None
    if before.text.replace("{{", "").rfind("{") <= before.text.replace("{{", "").rfind("}"):
        return None
    end = stop.at
    while end < len(stop.tokens) and stop.tokens[end].kind not in ("STRING", "NL", END):
        end += 1
    end += stop.tokens[end].kind == "STRING"
    edit = Edit(stop.at - 1, end, [Token("STRING", '""', before.start, stop.tokens[end - 1].end)])
    help = "give it a name before: `let name = …`"
    return stop.says("E0107", "a string can't stand in an interpolation", "", help, edit=edit)


def _equals_for_comparison(stop: Stop) -> Explanation | None:
    if stop.token.kind != "=" or "==" not in stop.accepted:
        return None
    help = "to compare, write `==`"
    if stop.tokens[stop.seek(stop.statement, ("=",))].kind == "=" and stop.seek(stop.statement, ("=",)) < stop.at:
        if stop.tokens[stop.statement].kind in ("NAME", "let", "var"):
            help = "to compare, write `==`; to assign, write a statement for each"
    doubtful = "assign" in help
    return stop.says("E0112", "`=` can't stand in an expression", "", help, edit=stop.renamed("=="), doubtful=doubtful)


def _chained_comparison(stop: Stop) -> Explanation | None:
    values, begins = stop.stuck.values, stop.stuck.begins
    if stop.token.kind not in COMPARISONS or len(values) < 3 or not isinstance(values[-2], Token):
        return None
    if values[-2].kind not in COMPARISONS:
        return None
    left = stop.text(begins[-3], begins[-2])
    middle = stop.text(begins[-1], stop.at)
    here = Token("", "", stop.token.start, stop.token.start)
    edit = Edit(stop.at, stop.at, [here._replace(kind="and", text="and"), here._replace(kind="NAME")])
    return stop.says(
        "E0111",
        "comparisons can't be chained: write `a < b and b < c`",
        "a second comparison",
        f"here: `{left} {values[-2].text} {middle} and {middle} {stop.token.text} …`",
        edit=edit,
    )


def _number(stop: Stop) -> Explanation | None:
    token, before = stop.token, stop.before
    if token.kind == "TUPLE_INDEX" and stop.expects_value:
        edit = stop.renamed("FLOAT", "0" + token.text)
        return stop.says("E0109", "a number begins with a digit", "", f"write `0{token.text}`", edit=edit)
    if before is not None and before.kind == "." and stop.at >= 2 and stop.follows is before:
        number = stop.tokens[stop.at - 2]
        if number.kind == "INT" and number.end == before.start:
            both = Token("", "", number.start, before.end)
            edit = Edit(stop.at - 1, stop.at, [])
            message = "a number has digits after its point"
            return stop.says("E0109", message, "", f"write `{number.text}.0`", edit=edit, token=both)
    return None


def _name(stop: Stop) -> Explanation | None:
    token, accepted = stop.token, stop.accepted
    if stop.expects_value or not token.text:
        return None
    if stop.follows is not None and stop.follows.kind == "fn" and token.kind in ("(", "<"):
        edit = Edit(stop.at, stop.at, [Token("NAME", "", token.start, token.start)])
        help = "write `fn name(…)`; a function without a name is `|x| …`"
        return stop.says("E0113", "expected the name of the function", "after this", help, edit=edit, token=stop.before)
    if token.kind in KEYWORDS and ("NAME" in accepted or "UNAME" in accepted) and not stop.after_value:
        kind = "NAME" if "NAME" in accepted else "UNAME"
        if "let" in accepted or not stop.machine.survey((kind, *_kinds_after(stop))) > 1:
            return None
        message = f"`{token.text}` is a keyword and can't be a name"
        help = f"another name is `{token.text}_`"
        return stop.says("E0108", message, "expected a name", help, edit=stop.renamed(kind, token.text))
    if token.kind == "UNAME" and "NAME" in accepted:
        whole = len(token.text) > 1 and token.text.isupper()
        lower = token.text.lower() if whole else token.text[0].lower() + token.text[1:]
        message = f"expected a name in lower case, found `{token.text}`"
        help = f"values, functions and fields are in lower case: `{lower}`; types and constructors are capitalised"
        return stop.says("E0116", message, "", help, edit=stop.renamed("NAME", lower))
    if token.kind == "NAME" and "UNAME" in accepted and "NAME" not in accepted:
        upper = token.text[0].upper() + token.text[1:]
        message = f"expected a capitalised name, found `{token.text}`"
        help = f"types and constructors are capitalised: `{upper}`"
        return stop.says("E0116", message, "", help, edit=stop.renamed("UNAME", upper))
    return None


def _kinds_after(stop: Stop) -> Sequence[str]:
    return [token.kind for token in stop.tokens[stop.at + 1 : stop.at + 2]]


def _pattern_without_parentheses(stop: Stop) -> Explanation | None:
    """`let a, b = …`"""
    if stop.token.kind != "," or not (stop.is_kind(-2, "let") or stop.is_kind(-2, "var")):
        return None
    begin = end = stop.at - 1
    while stop.tokens[end].kind in ("NAME", ","):
        end += 1
    names, start = stop.tokens[begin:end], stop.before.start if stop.before else 0
    written = "".join(t.text if t.kind == "NAME" else ", " for t in names)
    help = f"a tuple is taken apart by a pattern in parentheses: `({written})`"
    edit = Edit(begin, end, [Token("(", "(", start, start), *names, Token(")", ")", start, start)])
    return stop.says("E0101", f"expected {expected(stop)}, found `,`", "", help, edit=edit)


def _operand(stop: Stop) -> Explanation | None:
    """`a + if c { b } else { d }`: what ends in a block is an operand in parentheses only."""
    written = {"if": "if … { … } else { … }", "match": "match … { … }"}.get(stop.token.kind)
    if written is None or not stop.expects_value or "let" in stop.accepted or stop.before is None:
        return None
    message = f"expected an operand after `{stop.before.text}`, found the keyword `{stop.token.text}`"
    return stop.says("E0101", message, "", f"put it into parentheses: `({written})`")


def _missing_brace(stop: Stop) -> Explanation | None:
    token, before = stop.token, stop.before
    if "{" not in stop.accepted or stop.expects_value or before is None:
        return None
    if token.kind == "NL" and stop.is_kind(1, "{"):
        without = Edit(stop.at, stop.at + 1, [])
        brace = stop.tokens[stop.at + 1]
        message, label = "expected `{` on the line above", "a new line ended the statement before this"
        return stop.says("E0114", message, label, edit=without, token=brace)
    if token.kind == ":":
        help = "a body is written in braces: `{ … }`"
        return stop.says("E0114", "expected `{`, found `:`", "", help, edit=braces(stop, stop.at + 1))
    if "=" in stop.accepted and not stop.after_value:
        help = "the body of a function is `= expression` or `{ … }`"
        where, label = (before, "expected after this") if token.kind in ("NL", END) else (token, "")
        return stop.says("E0114", f"expected `=` or `{{`, found {found(stop)}", label, help, token=where)
    edit = None if token.kind in ("NL", END) else braces(stop, stop.at)
    where, label = (before, "expected after this") if edit is None else (token, "")
    message = f"expected `{{`, found {found(stop)}"
    return stop.says("E0114", message, label, "a body is written in braces: `{ … }`", edit=edit, token=where)


_RULES: tuple[Callable[[Stop], Explanation | None], ...] = (
    _match_of_nothing,
    _string_without_end,
    _string_in_interpolation,
    *SIGNS,
    *CONSTRUCTS,
    *WORDS,
    _equals_for_comparison,
    _chained_comparison,
    _number,
    _name,
    _pattern_without_parentheses,
    _operand,
    _missing_brace,
)


# ---- else: what was expected -----------------------------------------------------------------------------------------
def _unexpected(stop: Stop) -> Explanation:
    message = f"expected {expected(stop)}, found {found(stop)}"
    token, before = stop.token, stop.before
    if before is not None and (
        token.kind in ("NL", END) or (token.kind in CLOSERS and "\n" in stop.source.text[before.end : token.start])
    ):
        return stop.says("E0101", message, "expected after this", token=before)
    return stop.says("E0101", message)
