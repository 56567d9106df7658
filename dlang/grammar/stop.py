"""The position at which parsing stopped, and the tokens that could stand there."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlang.diagnostics import Diagnostic, Fix, Note, Source, Span, replacement
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, Token
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.grammar.tables import END, Machine

# ---- repairs ---------------------------------------------------------------------------------------------------------
# Repairs of tokens, and the same as edits of the text, where they are what a message advises.

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
    inserted = [t for t in new if t not in old]
    kept = [t for t in new if t in old]
    if any(t.kind == "NL" for t in (*old, *new)) or len(set(kept)) < len(kept):
        return None
    advice = " ".join(help)
    if any(not t.text or t.text not in advice for t in inserted):
        return None
    if not inserted and "leave" not in advice and "delete" not in advice and "without" not in advice:
        return None
    text = source.text
    start = old[0].start if old else following.start
    end = old[-1].end if old else start
    if not new and "\n" not in text[end : following.start]:
        end = following.start
    written = _written(new, inserted, text, start)
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


def _written(new: list[Token], inserted: list[Token], text: str, start: int) -> str:
    """Tokens as text, with the spaces that stand between them where they come from."""
    out, at = "", start
    for t in new:
        gap = text[at : t.start] if at <= t.start else " "
        if (t in inserted and t.text in _NO_SPACE_BEFORE) or out.endswith(("(", "[", "<")):
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


# ---- stop ------------------------------------------------------------------------------------------------------------

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


Explanation = tuple[Diagnostic, Edit | None]


@dataclass(frozen=True)
class Stop:
    """The position at which parsing stopped: before the token at `at`.

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
        """Returns the source text from one token to before another."""
        return self.source.text[self.tokens[begin].start : self.tokens[end - 1].end]

    def rewritten(self, begin: int, end: int, changes: Mapping[int, str]) -> str:
        """Returns the source text from one token to before another, with some tokens replaced."""
        out, at = "", self.tokens[begin].start
        for index in range(begin, end):
            token = self.tokens[index]
            out += self.source.text[at : token.start]
            out += changes[index] if index in changes else self.source.text[token.start : token.end]
            at = max(at, token.end)
        return out.strip()

    @property
    def adjacent(self) -> bool:
        """Nothing is written between this token and the one before."""
        return self.before is not None and self.before.end == self.token.start

    @property
    def opening(self) -> int:
        """The index of the innermost bracket that is open here, -1 if there is none."""
        depth = 0
        for index in range(self.at - 1, -1, -1):
            kind = self.tokens[index].kind
            if kind in OPENERS and depth == 0:
                return index
            depth += (kind in CLOSERS) - (kind in OPENERS)
        return -1

    def closing(self, opening: int) -> int:
        """The index of the bracket that closes this one; that of the last token where none does."""
        depth = 0
        for index in range(opening, len(self.tokens)):
            kind = self.tokens[index].kind
            depth += (kind in OPENERS) - (kind in CLOSERS)
            if depth == 0:
                return index
        return len(self.tokens) - 1

    def begins_statement(self, index: int) -> bool:
        return index == 0 or self.tokens[index - 1].kind in ("NL", "{")

    @property
    def statement(self) -> int:
        """The index of the first token of the statement around this token, as far as brackets tell."""
        depth = 0
        for index in range(self.at - 1, -1, -1):
            kind = self.tokens[index].kind
            if depth == 0 and (kind == "NL" or kind in OPENERS):
                return index + 1
            depth += (kind in CLOSERS) - (kind in OPENERS)
        return 0

    def seek(self, begin: int, kinds: Container[str]) -> int:
        """The index of the next token of these kinds outside of brackets; of a closing one or the last, if before."""
        depth = 0
        for index in range(begin, len(self.tokens)):
            kind = self.tokens[index].kind
            if depth == 0 and (kind in kinds or kind in CLOSERS):
                return index
            depth += (kind in OPENERS) - (kind in CLOSERS)
        return len(self.tokens) - 1

    def line_end(self, begin: int) -> int:
        """The index of the first token that is not on the line of this one any more."""
        end = self.source.text.find("\n", self.tokens[begin].start)
        last = len(self.tokens) - 1
        return next((i for i in range(begin, last) if self.tokens[i].start >= end >= 0), last)

    def as_token(self, kind: str, index: int, text: str | None = None) -> Token:
        """Another token in the place of one."""
        old = self.tokens[min(index, len(self.tokens) - 1)]
        return Token(kind, kind if text is None else text, old.start, old.end)

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
        doubtful: bool = False,
        offered: bool = True,
    ) -> Explanation:
        """doubtful: something else than the edit may have been meant. offered: the edit is what the help says."""
        fix = in_text(edit, self.tokens, self.source, help) if edit is not None and offered else None
        fixes = (fix._replace(certain=not doubtful),) if fix is not None else ()
        return Diagnostic(code, message, self.span(token or self.token), label, notes, help, fixes=fixes), edit


def found(stop: Stop) -> str:
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


def expected(stop: Stop) -> str:
    """Returns in words what could stand at a stop: `an operator, `)` or a name`."""
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
        if len(accepted) > 1:
            accepted.discard(".")  # of a module's type or constructor: hardly what was left out
    if "NAME" in accepted:
        accepted.discard("UNAME")
    symbols = sorted(accepted - _WORDS.keys(), key=lambda kind: (kind not in CLOSERS, kind.isalpha(), kind))
    if stop.after_value and symbols:
        words.clear()
    words.extend(f"`{kind}`" for kind in symbols)
    words.extend(_WORDS[kind] for kind in _WORDS if kind in accepted)
    words = words[:6] or ["the end"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def braces(stop: Stop, begin: int) -> Edit:
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
