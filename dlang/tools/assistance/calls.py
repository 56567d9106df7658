"""The call around a place in a text that may be half written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.grammar.lexer import Token
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.tools.assistance.situation import INTERPOLATION, Situation, open_brackets, partner

GIVE_FUNCTIONS = frozenset({"grad", "value_and_grad", "jacobian", "hessian", "checkpoint"})
"""Forms whose results take what the function takes."""


@dataclass(frozen=True, slots=True)
class CallAt:
    """A call that is not closed. path: what is called, `nn.dense`; start: where that begins. argument: the position of
    the one at hand; name: its name, if it is given one; named: the names of all so far. first: the first argument, if
    it is a path. form: `grad` where `grad(path)` is called, which takes what the function takes.
    """

    path: str
    start: int
    argument: int
    name: str | None
    named: tuple[str, ...]
    first: str = ""
    form: str = ""

    def parameter(self, names: Sequence[str | None]) -> int:
        """The position of the parameter at hand, of those with these names."""
        return names.index(self.name) if self.name is not None and self.name in names else self.argument


def call_at(at: Situation) -> CallAt | None:
    """The innermost call around the place."""
    for bracket in reversed(open_brackets(at.before)):
        if bracket.kind == "{":
            return None
        found = _call(at.before, at.before.index(bracket)) if bracket.kind == "(" else None
        if found is not None:
            return found
    return None


def _call(tokens: Sequence[Token], opening: int) -> CallAt | None:
    """The call whose arguments begin with a bracket; None if nothing is called."""
    first = _path(tokens, opening)
    called = _arguments(tokens, first, opening)
    if first < opening:
        return called
    closing = opening - 1
    if closing > 0 and tokens[closing].kind == ")" and tokens[closing].end == tokens[opening].start:
        inner = _call(tokens[:closing], other) if (other := partner(tokens, closing)) >= 0 else None
        if inner is not None and inner.path in GIVE_FUNCTIONS and inner.first:
            return replace(called, path=inner.first, start=tokens[other + 1].start, form=inner.path)
    return None


def _path(tokens: Sequence[Token], end: int) -> int:
    """Finds where the name begins, perhaps with modules, that touches a token; the token if no name is called."""
    k = first = end
    while k > 0 and tokens[k - 1].kind in ("NAME", "UNAME") and tokens[k - 1].end == tokens[k].start:
        first = k - 1
        if first < 2 or tokens[first - 1].kind != ".":
            break
        k = first - 1
    before = tokens[first - 1].kind if first > 0 else ""
    return end if before in ("fn", "pullback", "pushforward", ".") else first


def _arguments(tokens: Sequence[Token], first: int, opening: int) -> CallAt:
    """Returns the call whose name is from the first token to the bracket, as far as it is written."""
    depth = 0
    argument = 1 if first > 0 and tokens[first - 1].kind == "|>" else 0
    name: str | None = None
    named: list[str] = []
    binds = False  # between the bars of a function
    end = len(tokens)
    for k in range(opening + 1, len(tokens)):
        kind = tokens[k].kind
        depth += (kind in OPENERS or kind == INTERPOLATION) - (kind in CLOSERS)
        if depth == 0 and kind == "for":  # of a comprehension, which is the only argument
            break
        if depth == 0 and kind == "|":
            binds = not binds
        elif depth == 0 and kind == "," and not binds:
            end = min(end, k)
            argument, name = argument + 1, None
        elif depth == 0 and kind == "=" and not binds and tokens[k - 1].kind == "NAME":
            name = tokens[k - 1].text
            named.append(name)
    path, given = _text(tokens[first:opening]), tokens[opening + 1 : end]
    if given and given[0].kind == "..":  # the struct that is updated has no place of its own
        argument = max(0, argument - 1)
    return CallAt(path, tokens[first].start, argument, name, tuple(named), _text(given) if _is_path(given) else "")


def _is_path(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and all(t.kind == (".", "NAME")[k % 2 == 0] for k, t in enumerate(tokens))


def _text(tokens: Sequence[Token]) -> str:
    return "".join(t.text for t in tokens)
