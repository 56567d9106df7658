"""Shared by all rules of the style: the document of a token with its comments, and where the author began lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dlang.format.concrete import Tree
from dlang.format.document import Break, Concat, Doc, concat
from dlang.format.trivia import Trivia
from dlang.grammar.lexer import Token

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
        here = self.starts[token.start]
        written = token.text if text is None else text
        if not here.above and here.behind is None:
            return written
        parts: list[Doc] = [*self._above(here), written]
        if here.behind is not None:
            parts.append(here.behind)
        return Concat(parts)

    def dropped(self, token: Token | None) -> Doc:
        """The comments of a token that is left out."""
        return "" if token is None else self.token(token, "")

    def behind_first(self, token: Token) -> tuple[Doc, Doc]:
        """The comment behind a token, for the line before it, and the token. One with comments above it keeps its own
        behind it, so that they stay in order."""
        here = self.starts[token.start]
        return ("", self.token(token)) if here.above else (here.behind or "", token.text)

    def closing(self, token: Token) -> tuple[list[Doc], Doc]:
        """The comments above a closing bracket, which belong to what it closes, and the bracket."""
        here = self.starts[token.start]
        written: Doc = token.text if here.behind is None else Concat([token.text, here.behind])
        return ([Break(blank=here.apart), *here.above] if here.above else []), written

    def _above(self, here: Trivia) -> list[Doc]:
        """The comments above a token; what is before the first of them has been written."""
        first, rest = here.above[:1], here.above[1:]
        above: list[Doc] = [*(type(a)(a.text, False) for a in first), *rest]
        return [*above, Break(blank=True)] if here.blank and above else above

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


def printer(rules: Mapping[str, Rule], tokens: list[Token], found: list[Trivia]) -> Printer:
    starts = {token.start: here for token, here in zip(tokens, found, strict=False)}
    ends = {token.end: here for token, here in zip(tokens, found, strict=False)}
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
