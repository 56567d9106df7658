"""What to tell a person about the first token that can't stand where it does.

First what a person may have meant is recognised (`_RULES`, in order); else the message says what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlang.diagnostics import Diagnostic, Note, Source, Span
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, Token
from dlang.grammar.machine import Machine
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.grammar.tables import END

COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
_OPERATORS = frozenset("or and == != < <= > >= |> + - * / // % @ ** as = += -= *= /=".split())
_AFTER_VALUE = frozenset(["(", "[", ".", "TUPLE_INDEX", "for", "if", "..", "by"])
_IN_TYPES = frozenset(["!", "*", "+", "-", "/", "//"])
_WORDS = {
    "NAME": "a name",
    "UNAME": "a capitalised name",
    "INT": "an integer",
    "FLOAT": "a number",
    "STRING": "a string",
    "NL": "a new line",
    END: "the end",
    "TUPLE_INDEX": "a field",
}


@dataclass(frozen=True, slots=True)
class Edit:
    """A repair that the explanation implies: `tokens[start:end]` become these."""

    start: int
    end: int
    tokens: list[Token]


Explanation = tuple[Diagnostic, Edit | None]


@dataclass(frozen=True)
class Stop:
    """Where parsing stopped: before the token at `at`.

    machine: as it was when it had taken the token before. stuck: after what it did for this token in vain.
    """

    machine: Machine
    stuck: Machine
    tokens: list[Token]
    at: int
    source: Source

    @cached_property
    def accepted(self) -> frozenset[str]:
        """The terminals that could stand here."""
        terminals = self.machine.tables.terminals - CONTEXTUAL.keys()
        return frozenset(kind for kind in terminals if self.machine.survey((kind,)))

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def before(self) -> Token | None:
        return self.tokens[self.at - 1] if self.at else None

    @property
    def follows(self) -> Token | None:
        """The token before this, if the machine took it and did nothing with it yet."""
        values = self.machine.values
        return self.before if values and values[-1] is self.before else None

    @property
    def after_value(self) -> bool:
        """An expression has just ended."""
        return "**" in self.accepted or "and" in self.accepted

    @property
    def expects_value(self) -> bool:
        return "INT" in self.accepted and "[" in self.accepted

    def is_kind(self, offset: int, kind: str) -> bool:
        index = self.at + offset
        return 0 <= index < len(self.tokens) and self.tokens[index].kind == kind

    def text(self, begin: int, end: int) -> str:
        """What is written from one token to before another."""
        return self.source.text[self.tokens[begin].start : self.tokens[end - 1].end]

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def renamed(self, kind: str, text: str | None = None, count: int = 1) -> Edit:
        """Read this token (and the next, for a count of two) as another."""
        last = self.tokens[self.at + count - 1]
        new = Token(kind, kind if text is None else text, self.token.start, last.end)
        return Edit(self.at, self.at + count, [new])

    def says(
        self,
        code: str,
        message: str,
        label: str = "",
        *help: str,
        edit: Edit | None = None,
        token: Token | None = None,
        notes: tuple[Note, ...] = (),
    ) -> Explanation:
        return Diagnostic(code, message, self.span(token or self.token), label, notes, help), edit


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


_FOREIGN = {
    "&&": ("and", "`and` is written out: `a and b`"),
    "&": ("and", "of truth values `a and b`, of integers and masks `bit_and(a, b)`"),
    "^": ("**", "a power is `a ** b`, exclusive or is `bit_xor(a, b)`"),
}


def _bad_character(stop: Stop) -> Explanation | None:
    token = stop.token
    if token.kind != "bad":
        return None
    text = token.text
    if text in _FOREIGN:
        operator, help = _FOREIGN[text]
        return stop.says("E0115", f"`{text}` is no operator here", "", help, edit=stop.renamed(operator))
    if len(text) > 1:
        simple = not any(c in text for c in '"{}\\')
        edit = stop.renamed("STRING", f'"{text[1:-1]}"' if simple else '""')
        return stop.says("E0115", "expected a string in double quotes", "", f'write "{text[1:-1]}"', edit=edit)
    if text in "“”‘’'":
        return stop.says("E0104", f"the quotation mark `{text}` begins no string", "", 'write "…"')
    if text == "~":
        return stop.says("E0115", "`~` is no operator here", "", "`not a`, or for integers and masks `bit_not(a)`")
    if text == "\\":
        help = "a line goes on after an operator or a comma, and inside of brackets; a function is `|x| …`"
        return stop.says("E0104", "`\\` has no meaning outside of a string", "", help)
    shown = f"`{text}`" if text.isprintable() and not text.isspace() else "this character"
    return stop.says("E0104", f"{shown} (U+{ord(text):04X}) is not part of the language", "not a token")


def _bars(stop: Stop) -> Explanation | None:
    if stop.token.kind != "|" or "or" not in stop.accepted:
        return None
    if stop.is_kind(1, "|") and stop.tokens[stop.at + 1].start == stop.token.end:
        edit = stop.renamed("or", count=2)
        return stop.says("E0115", "`||` is no operator here", "", "`or` is written out: `a or b`", edit=edit)
    help = "of truth values `a or b`, of integers and masks `bit_or(a, b)`"
    return stop.says("E0115", "`|` is no operator here", "", help, edit=stop.renamed("or"))


def _exclamation(stop: Stop) -> Explanation | None:
    if stop.token.kind != "!" or not stop.expects_value:
        return None
    edit = stop.renamed("not" if "not" in stop.accepted else "-")
    return stop.says("E0115", "expected an expression, found `!`", "", "`not` is written out: `not a`", edit=edit)


def _equals_for_comparison(stop: Stop) -> Explanation | None:
    if stop.token.kind != "=" or "==" not in stop.accepted:
        return None
    return stop.says("E0112", "`=` can't stand in an expression", "", "to compare, write `==`", edit=stop.renamed("=="))


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


# What other languages write before a name, and what stands for it here; the last is the repair, if any.
_BEFORE_NAME: dict[str, tuple[str, str, str | None]] = {
    **dict.fromkeys(("def", "func", "function", "fun"), ("a function", "fn name(x) = …` or `fn name(x) { … }", "fn")),
    "lambda": ("a function without a name", "|x| x + 1", None),
    "class": ("a type", "struct Name { field: f64 }` or `enum Name { First, Second(f64) }", None),
    "from": ("an import", "import module { name }", None),
    "print": ("printing", "print(x)", None),
    "switch": ("a choice", "match x { pattern => value }", None),
    "raise": ("a failure", 'fail("message")', None),
    "throw": ("a failure", 'fail("message")', None),
    "val": ("a value", "let x = …", "let"),
    **dict.fromkeys(("elif", "elsif", "elseif"), ("another condition", "} else if condition {", "if")),
    "mut": ("a value that changes", "var x = …", ""),
}


def _foreign_word_before(stop: Stop) -> Explanation | None:
    word = stop.follows
    if word is None or word.kind != "NAME" or word.text not in _BEFORE_NAME:
        return None
    if stop.token.kind not in ("NAME", "UNAME", "STRING", "INT", "FLOAT", ":", "_"):
        return None
    what, here, repair = _BEFORE_NAME[word.text]
    edit = None
    if repair is not None:
        edit = Edit(stop.at - 1, stop.at, [word._replace(kind=repair, text=repair)] if repair else [])
    message = f"`{word.text}` is not a keyword"
    return stop.says("E0115", message, "", f"{what} is written `{here}`", edit=edit, token=word)


def _foreign_word(stop: Stop) -> Explanation | None:
    token = stop.token
    match token.text:
        case "elif" | "elsif" | "elseif" if token.kind == "NAME" and not stop.expects_value:
            new = [token._replace(kind="else", text="else"), token._replace(kind="if", text="if")]
            edit = Edit(stop.at, stop.at + 1, new)
            if stop.is_kind(-1, "NL"):
                edit = Edit(stop.at - 1, stop.at + 1, new)
            return stop.says("E0115", f"`{token.text}` is not a keyword", "", "write `else if`", edit=edit)
        case "is" if stop.after_value and "==" in stop.accepted:
            return stop.says("E0115", "`is` is no operator", "", "to compare, write `==`", edit=stop.renamed("=="))
        case "then" | "do" if "{" in stop.accepted:
            help = "a body is written in braces: `{ … }`"
            message = f"expected `{{`, found `{token.text}`"
            return stop.says("E0114", message, "", help, edit=_braces(stop, stop.at + 1))
        case "if" if token.kind == "if" and stop.after_value:
            help = "a choice is written `if condition { a } else { b }`"
            return stop.says("E0115", "`if` can't follow an expression", "", help)
        case "=>" if stop.after_value and stop.before is not None:
            parameter = stop.before.text if stop.before.kind == "NAME" else "x"
            help = f"a function is written `|{parameter}| …`"
            return stop.says("E0115", f"expected {_expected(stop)}, found `=>`", "", help)
        case "?" if stop.after_value:
            help = "a choice is written `if condition { a } else { b }`"
            return stop.says("E0115", "`?` is no operator", "", help)
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
        return stop.says("E0108", message, "expected a name", edit=stop.renamed(kind, token.text))
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


def _hole_as_value(stop: Stop) -> Explanation | None:
    if stop.token.kind != "_" or not stop.expects_value:
        return None
    edit = stop.renamed("NAME", "")
    return stop.says("E0101", "expected an expression, found `_`", "", "`_` stands in patterns and sizes", edit=edit)


def _increment(stop: Stop) -> Explanation | None:
    token, before, after = stop.token, stop.before, stop.tokens[min(stop.at + 1, len(stop.tokens) - 1)]
    if token.kind not in ("+", "-") or before is None or before.kind != token.kind or before.end != token.start:
        return None
    if after.kind not in ("}", END) and "\n" not in stop.source.text[token.end : after.start]:
        return None
    edit = Edit(stop.at - 1, stop.at + 1, [Token("NL", "\n", token.end, token.end)])
    return stop.says("E0115", f"`{token.kind * 2}` is no operator", "", f"write `x {token.kind}= 1`", edit=edit)


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
    return stop.says("E0101", f"expected {_expected(stop)}, found `,`", "", help, edit=edit)


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
        return stop.says("E0114", "expected `{`, found `:`", "", help, edit=_braces(stop, stop.at + 1))
    if "=" in stop.accepted and not stop.after_value:
        help = "the body of a function is `= expression` or `{ … }`"
        where, label = (before, "expected after this") if token.kind in ("NL", END) else (token, "")
        return stop.says("E0114", f"expected `=` or `{{`, found {_found(stop)}", label, help, token=where)
    edit = None if token.kind in ("NL", END) else _braces(stop, stop.at)
    where, label = (before, "expected after this") if edit is None else (token, "")
    message = f"expected `{{`, found {_found(stop)}"
    return stop.says("E0114", message, label, "a body is written in braces: `{ … }`", edit=edit, token=where)


def _braces(stop: Stop, begin: int) -> Edit:
    """Put what follows from `begin` on into braces: the rest of the line, or the lines that are indented deeper."""
    tokens, source = stop.tokens, stop.source
    line_start = source.text.rfind("\n", 0, stop.token.start) + 1
    line = source.text[line_start : stop.token.start]
    indentation = len(line) - len(line.lstrip())
    on_lines = tokens[begin].kind == "NL"
    begin += on_lines
    depth, end = 0, begin
    while end < len(tokens) - 1:
        token = tokens[end]
        if depth == 0:
            margin = source.text.rfind("\n", 0, token.start) + 1
            starts_line = not source.text[margin : token.start].strip()
            if starts_line and on_lines and token.kind != "NL" and token.start - margin <= indentation:
                break
            if not on_lines and token.kind in ("NL", "else", ","):
                break
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        if depth < 0:
            break
        end += 1
    inner, after = tokens[begin:end], tokens[end:end]
    if inner and inner[-1].kind == "NL":
        after = [] if tokens[end].text in ("else", "elif") else [inner[-1]]
        inner = inner[:-1]
    opening = Token("{", "{", stop.token.start, stop.token.end)
    closing = Token("}", "}", tokens[end - 1].end, tokens[end - 1].end)
    return Edit(stop.at, end, [opening, *inner, closing, *after])


_RULES: tuple[Callable[[Stop], Explanation | None], ...] = (
    _string_without_end,
    _string_in_interpolation,
    _bad_character,
    _bars,
    _exclamation,
    _equals_for_comparison,
    _chained_comparison,
    _number,
    _foreign_word_before,
    _foreign_word,
    _name,
    _hole_as_value,
    _increment,
    _pattern_without_parentheses,
    _operand,
    _missing_brace,
)


# ---- else: what was expected -----------------------------------------------------------------------------------------
def _unexpected(stop: Stop) -> Explanation:
    message = f"expected {_expected(stop)}, found {_found(stop)}"
    token, before = stop.token, stop.before
    if before is not None and (
        token.kind in ("NL", END) or (token.kind in CLOSERS and "\n" in stop.source.text[before.end : token.start])
    ):
        return stop.says("E0101", message, "expected after this", token=before)
    return stop.says("E0101", message)


def _found(stop: Stop) -> str:
    token = stop.token
    match token.kind:
        case "NL":
            return "`;`" if token.text == ";" else "the end of the line"
        case "$END":
            return "the end"
        case "STRING":
            return "a string"
        case kind if kind in KEYWORDS:
            return f"the keyword `{token.text}`"
    return f"`{token.text}`"


def _expected(stop: Stop) -> str:
    accepted = set(stop.accepted)
    words: list[str] = []
    if stop.expects_value:
        words.append(
            "a declaration" if "struct" in accepted else "a statement" if "let" in accepted else "an expression"
        )
        accepted &= CLOSERS.keys() | {"|", ".."}
        accepted -= {"|"}
    elif stop.after_value:
        accepted -= _OPERATORS | _AFTER_VALUE
        words.append("an operator")
    elif accepted >= {"_", "UNAME", "STRING"}:
        words.append("a pattern")
        accepted &= CLOSERS.keys()
    elif accepted >= {"?", "INT"}:
        words.append("a type or a size" if "UNAME" in accepted else "a size")
        accepted &= CLOSERS.keys()
    elif accepted >= {"NAME", "UNAME", "("}:
        words.append("a type")
        accepted &= CLOSERS.keys()
    else:
        accepted -= _IN_TYPES
    if "NAME" in accepted:
        accepted.discard("UNAME")
    symbols = sorted(accepted - _WORDS.keys(), key=lambda kind: (kind not in CLOSERS, kind.isalpha(), kind))
    if stop.after_value and symbols:
        words.clear()
    words.extend(f"`{kind}`" for kind in symbols)
    words.extend(_WORDS[kind] for kind in _WORDS if kind in accepted)
    words = words[:6] or ["the end"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
