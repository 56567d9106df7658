"""Shared by all rules of the style: the document of a token with its comments, and where the author began lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dlang.diagnostics import Source
from dlang.format.document import Above, Break, Concat, Doc, Trailing, concat
from dlang.grammar.lexer import Token, tokenize
from dlang.grammar.newlines import layout
from dlang.grammar.tables import END, Machine, Method, tables

# ---- the tree with every token ---------------------------------------------------------------------------------------
# The concrete tree of a well-formed text: what the grammar's alternatives are made of, with every token.
#
# It is made by the same automaton and tables as the syntax tree, so both read a text alike.


@dataclass(slots=True, eq=False)
class Tree:
    """kind: the method of `grammar.tree.Builder` for this alternative. parts: its children (trees, tokens, lists with
    separators between the items, None for an absent optional part). start, end: of its text."""

    kind: str
    parts: list[Any]
    start: int
    end: int


def concrete(source: Source) -> tuple[list[Token], list[Tree]]:
    """All tokens but newlines, and a tree for each item. The text must be well formed."""
    rules = tables().rules
    methods_by_name: dict[str, Method] = {"one": _one, "more": _more}
    methods = [None if r.method is None else methods_by_name.setdefault(r.method, _method(r.method)) for r in rules]
    tokens = tokenize(source.text)
    trees: list[Tree] = []
    for item in layout(tokens, source).items:
        machine = Machine(tables(), "item", methods)
        end = item[-1].end
        item.append(Token(END, "", end, end))
        taken = machine.run(item)
        assert taken == len(item), "the text is not well formed"
        trees.append(machine.values[0])
    return [token for token in tokens if token.kind not in ("newline", ";")], trees


def _method(kind: str) -> Method:
    def build(parts: list[Any], start: int, end: int) -> Tree:
        return Tree(kind, parts, start, end)

    return build


def _one(parts: list[Any], start: int, end: int) -> list[Any]:
    return [parts[0]]


def _more(parts: list[Any], start: int, end: int) -> list[Any]:
    items: list[Any] = parts[0]
    items += parts[1:]
    return items


# ---- printer ---------------------------------------------------------------------------------------------------------

Rule = Callable[["Printer", Tree], Doc]
Part = Tree | Token


@dataclass(slots=True, eq=False)
class Printer:
    """rules: for each kind of tree its document. starts, ends: what stands at the token that starts or ends at an
    offset. bracketed: whether the innermost open bracket is `(` or `[`, so that a line may break before an operator."""

    rules: Mapping[str, Rule]
    starts: Mapping[int, Trivia]
    ends: Mapping[int, Trivia]
    bracketed: bool = False
    other: Printer | None = None

    @property
    def inside(self) -> Printer:
        """The same printer inside a `(` or `[`."""
        return self if self.bracketed else self._turned()

    @property
    def outside(self) -> Printer:
        """The same printer inside no bracket or a `{`."""
        return self._turned() if self.bracketed else self

    def _turned(self) -> Printer:
        if self.other is None:
            self.other = Printer(self.rules, self.starts, self.ends, not self.bracketed, self)
        return self.other

    def doc(self, part: Part) -> Doc:
        """The document of a part of a tree."""
        if isinstance(part, Token):
            return self.token(part)
        return self.rules[part.kind](self, part)

    def token(self, token: Token, text: str | None = None) -> Doc:
        """A token between its comments. text: what is written in its place."""
        trivia = self.starts[token.start]
        written = token.text if text is None else text
        if not trivia.above and trivia.behind is None:
            return written
        parts: list[Doc] = [*self._above(trivia), written]
        if trivia.behind is not None:
            parts.append(trivia.behind)
        return Concat(parts)

    def dropped(self, token: Token | None) -> Doc:
        """The comments of a token that is left out."""
        return "" if token is None else self.token(token, "")

    def behind_first(self, token: Token) -> tuple[Doc, Doc]:
        """The comment behind a token, for the line before it, and the token. One with comments above it keeps its own
        behind it, so that they stay in order."""
        trivia = self.starts[token.start]
        return ("", self.token(token)) if trivia.above else (trivia.behind or "", token.text)

    def closing(self, token: Token) -> tuple[list[Doc], Doc]:
        """The comments above a closing bracket, which belong to what it closes, and the bracket."""
        trivia = self.starts[token.start]
        written: Doc = token.text if trivia.behind is None else Concat([token.text, trivia.behind])
        return ([Break(blank=trivia.apart), *trivia.above] if trivia.above else []), written

    def _above(self, trivia: Trivia) -> list[Doc]:
        """The comments above a token; what is before the first of them has been written."""
        first, others = trivia.above[:1], trivia.above[1:]
        above: list[Doc] = [*(type(a)(a.text, False) for a in first), *others]
        return [*above, Break(blank=True)] if trivia.blank and above else above

    # ---- what the author did -----------------------------------------------------------------------------------------
    def broken(self, part: Part) -> bool:
        """Tells whether the author began a line with the part."""
        return self.starts[part.start].broken

    def apart(self, part: Part) -> bool:
        """Tells whether an empty line is before the part."""
        return self.starts[part.start].apart

    def behind(self, part: Part) -> bool:
        """Tells whether a comment is behind the part."""
        return self.ends[part.end].behind is not None

    def commented(self, part: Part) -> bool:
        """Tells whether a comment is directly before or behind the part."""
        return bool(self.starts[part.start].above) or self.behind(part)


def printer(rules: Mapping[str, Rule], tokens: list[Token], trivia_of_tokens: list[Trivia]) -> Printer:
    starts = {token.start: around for token, around in zip(tokens, trivia_of_tokens, strict=False)}
    ends = {token.end: around for token, around in zip(tokens, trivia_of_tokens, strict=False)}
    return Printer(rules, starts, ends)


# ---- rules that many kinds of trees have -----------------------------------------------------------------------------
def alone(p: Printer, tree: Tree) -> Doc:
    """Tokens with nothing between them."""
    return concat(*(p.doc(part) for part in tree.parts if part is not None))


def spaced(p: Printer, tree: Tree) -> Doc:
    """Parts with spaces between them."""
    docs: list[Doc] = []
    for part in tree.parts:
        if part is not None:
            docs += [" ", p.doc(part)] if docs else [p.doc(part)]
    return concat(*docs)


# ---- comments and empty lines ----------------------------------------------------------------------------------------
# Finds the trivia between tokens: comments, empty lines, where the author began a new line.

_PIECE = re.compile(r"#[^\n]*|\n")


@dataclass(slots=True)
class Trivia:
    """The trivia of a token. above: comments on lines of their own before it. broken: it begins a line. blank: an empty
    line is directly before it. behind: the comment after it on its line."""

    above: list[Above] = field(default_factory=list)
    broken: bool = False
    blank: bool = False
    behind: Trailing | None = None

    @property
    def apart(self) -> bool:
        """Tells whether an empty line is before the token and its comments."""
        return self.above[0].blank if self.above else self.blank


def trivia(text: str, tokens: list[Token]) -> list[Trivia]:
    """One for each token, and one for the end of the text."""
    by_token = [Trivia() for _ in range(len(tokens) + 1)]
    before = 0
    for number, current in enumerate(by_token):
        start = tokens[number].start if number < len(tokens) else len(text)
        if text[before:start] not in ("", " "):
            last = by_token[number - 1] if number else None
            _between(text, before, start, last, current)
        before = tokens[number].end if number < len(tokens) else start
    return by_token


def _between(text: str, start: int, end: int, last: Trivia | None, current: Trivia) -> None:
    """Records the trivia between two tokens."""
    newlines = 0
    for match in _PIECE.finditer(text, start, end):
        if match[0] == "\n":
            newlines += 1
            current.broken = True
            continue
        words = match[0].rstrip()
        if last is not None and not current.broken:
            code = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            last.behind = Trailing(words, len(code), len(code) - len(code.rstrip()))
        else:
            current.above.append(Above(words, newlines > 1))
        newlines = 0
    current.blank = newlines > 1
