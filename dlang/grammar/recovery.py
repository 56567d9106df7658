"""After a syntax error: report it once, repair the tokens or give up a part, and go on.

The codes of the grammar:

- E0101 a token that can't stand where it does
- E0102 a bracket that is never closed
- E0103 a string without its end
- E0104 a character that no token begins with
- E0105 a line indented as a continuation that starts a statement
- E0106 a closing bracket that closes nothing, or another than the open one
- E0107 an escape or interpolation in a string
- E0108 a keyword as a name
- E0109 the suffix of a number
- E0110 a tuple of one
- E0111 a chained comparison
- E0112 `=` where `==` is meant
- E0113 a function without a name
- E0114 a body without its brace
- E0115 a notation of another language
- E0116 a name in the wrong case
"""

from __future__ import annotations

from collections.abc import Callable

from dlang.diagnostics import Diagnostic, Source
from dlang.grammar.edits import Edit
from dlang.grammar.explain import explain
from dlang.grammar.lexer import Token
from dlang.grammar.machine import Machine
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.grammar.tables import END

_MOST_PARTS = 4_000  # before an error that are given up with it; deeper nesting is refused anyway
FAR = 10_000  # tokens to the end of a statement that are looked at
_MOST_REPAIRS = 100  # in one item; then it is given up
_AHEAD = 8  # tokens that a repair is tried on
_ENOUGH = 3  # tokens that must be accepted after a repair

# What may be missing, in the order of preference; a name is invented without text, and becomes a hole.
_INSERTIONS = tuple(
    words.split()
    for words in (
        "NAME",
        ",",
        "=",
        "NL",
        "NAME =",
        "= NAME",
        "=>",
        "UNAME",
        "in",
        "->",
        ":",
        "NAME NL",
        "NAME : NAME",
        "=> NAME",
        "in NAME",
        "-> NAME",
        "( )",
        "( ) = NAME",
        "{ }",
    )
)
# What stands for a part that is given up.
_STAND_INS = {
    "expr": "NAME",
    "type": "NAME",
    "pattern": "_",
    "param": "NAME",
    "arm": "_ => NAME",
    "field": "NAME : NAME",
    "constructor": "UNAME",
    "stmt": "NAME",
    "fn_body": "= NAME",
}


def recover(
    new_machine: Callable[[], Machine],
    tokens: list[Token],
    source: Source,
    unclosed: set[int],
    mistakes: list[int],
    diagnostics: list[Diagnostic],
) -> Machine | None:
    """The machine after all of the tokens, which are repaired until they can be parsed; None if they can't.

    `mistakes` are the offsets of brackets that are already reported, `unclosed` those that are never closed. A
    statement gives one message at most: what else is wrong in it may follow from the first mistake.
    """
    reported = -1  # the offset up to which mistakes are known
    messages: list[Diagnostic] = []
    known = len(diagnostics)
    for _ in range(_MOST_REPAIRS):
        del diagnostics[known:]  # those of the literals, which every run finds again
        stuck = new_machine()
        at = stuck.run(tokens)
        if at == len(tokens):
            diagnostics.extend(messages)
            return stuck
        machine = new_machine()
        machine.run(tokens[:at])  # as before the bad token: no reduction has been made on its account
        edit = _close(machine, tokens, at, unclosed)
        if edit is None:
            message, edit = explain(machine, stuck, tokens, at, source)
            begin, end = _statement(tokens, at)
            if tokens[at].start > reported and not any(begin <= mistake <= end for mistake in mistakes):
                messages.append(message)
                if message.code == "E0114":  # the lines that lost their brace would be taken for others
                    reported = _end_of_body(source.text, tokens[at].start)
            edit = edit or _repair(machine, tokens, at) or _give_up_part(machine, tokens, at)
        reported = max(reported, _statement(tokens, at)[1])
        if edit is None:
            break
        tokens[edit.start : min(edit.end, len(tokens) - 1)] = edit.tokens  # the end stays
    del diagnostics[known:]
    diagnostics.extend(messages)
    return None


def _statement(tokens: list[Token], at: int) -> tuple[int, int]:
    """The offsets where the statement around a token begins and ends; of one without end, of a part of it."""
    first, last = max(at - FAR, 0), min(at + FAR, len(tokens) - 1)
    begin = next((token.end for token in reversed(tokens[first:at]) if token.kind == "NL"), tokens[first].start)
    end = next((token.start for token in tokens[at:last] if token.kind == "NL"), tokens[last].start)
    return begin, end


def _end_of_body(text: str, at: int) -> int:
    """The end of the lines below a place that are indented deeper than the line of that place."""
    begin = text.rfind("\n", 0, at) + 1
    column = _indentation(text[begin:at])
    end = text.find("\n", at)
    while end >= 0:
        after = text.find("\n", end + 1)
        line = text[end + 1 : after if after >= 0 else len(text)]
        if line.strip() and _indentation(line) <= column:
            return end
        end = after
    return len(text)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _invented(kind: str, start: int, end: int) -> Token:
    return Token(kind, "" if kind in ("NAME", "UNAME") else kind, start, end)


def _insertion(kinds: list[str], tokens: list[Token], at: int, dropped: int = 0) -> Edit:
    start = tokens[at].start
    return Edit(at, at + dropped, [_invented(kind, start, start) for kind in kinds])


def _close(machine: Machine, tokens: list[Token], at: int, unclosed: set[int]) -> Edit | None:
    """Close the innermost open bracket if it is one that is never closed."""
    opening = _innermost(machine)
    if opening is None or opening.start not in unclosed:
        return None
    closing = OPENERS[opening.kind]
    for before in ([], ["NAME"], [":", "NAME"], ["=>", "NAME"], ["in", "NAME"]):
        kinds = [*before, closing]
        if machine.survey(kinds) == len(kinds):
            unclosed.discard(opening.start)
            return _insertion(kinds, tokens, at)
    return None


def _innermost(machine: Machine) -> Token | None:
    """The innermost open bracket. A value that isn't reduced yet may hold a pair."""
    depth = 0
    for value in reversed(machine.values):
        if isinstance(value, Token) and value.kind in CLOSERS:
            depth += 1
        elif isinstance(value, Token) and value.kind in OPENERS:
            if depth == 0:
                return value
            depth -= 1
    return None


def _repair(machine: Machine, tokens: list[Token], at: int) -> Edit | None:
    """Insert, drop or rename a token, if that makes enough of what follows acceptable."""
    ahead = [token.kind for token in tokens[at : at + _AHEAD]]
    candidates = [(insertion, 0, len(insertion)) for insertion in _INSERTIONS]
    if ahead[0] not in (END, "NL") and ahead[0] not in OPENERS and ahead[0] not in CLOSERS:
        candidates += [([], 1, 2), (["NAME"], 1, 2)]
    best: Edit | None = None
    best_score = 0
    for kinds, dropped, cost in candidates:
        rest = ahead[dropped:]
        accepted = machine.survey([*kinds, *rest]) - len(kinds)
        score = 2 * (_AHEAD if accepted == len(rest) else accepted) - cost
        if accepted >= min(_ENOUGH, len(rest)) and (best is None or score > best_score):
            best, best_score = _insertion(kinds, tokens, at, dropped), score
    return best


def _give_up_part(machine: Machine, tokens: list[Token], at: int) -> Edit | None:
    """Put a hole for the smallest part around the error after which the rest can go on."""
    gotos = machine.tables.gotos
    begin, open_brackets = at, 0
    for size in range(len(machine.values), max(len(machine.values) - _MOST_PARTS, 0) - 1, -1):
        if size < len(machine.values):
            begin, value = machine.begins[size], machine.values[size]
            if isinstance(value, Token):
                open_brackets += (value.kind in OPENERS) - (value.kind in CLOSERS)
        state = machine.states[size]
        for symbol in (symbol for symbol in _STAND_INS if symbol in gotos[state]):
            states = [*machine.states[: size + 1], gotos[state][symbol]]
            resume = _resumption(machine, states, tokens, at, open_brackets, symbol)
            if resume is not None and resume > begin:
                start, end = tokens[begin].start, tokens[resume - 1].end
                kinds = _STAND_INS[symbol].split()
                return Edit(begin, resume, [_invented(kind, start, end) for kind in kinds])
    return None


def _resumption(
    machine: Machine, states: list[int], tokens: list[Token], at: int, depth: int, symbol: str
) -> int | None:
    """Finds the token from which the machine could go on in these states; `depth` brackets are open in skipped text."""
    for resume in range(at, len(tokens)):
        kind = tokens[resume].kind
        if depth == 0:
            ahead = [token.kind for token in tokens[resume : resume + _ENOUGH]]
            if machine.survey(ahead, states) == len(ahead):
                return resume
            if kind == "NL" and symbol not in ("stmt", "fn_body"):
                return None
        depth += (kind in OPENERS) - (kind in CLOSERS)
        if depth < 0:
            return None
    return None
