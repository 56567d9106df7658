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

from collections.abc import Callable, Sequence

from dlang.diagnostics import Diagnostic, Source
from dlang.grammar.constructs import CONSTRUCTS
from dlang.grammar.lexer import KEYWORDS, Token
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.grammar.signs import SIGNS
from dlang.grammar.stop import Edit, Explanation, Stop, braces, expected, found
from dlang.grammar.tables import END, Machine
from dlang.grammar.words import WORDS
from dlang.ops.primitives import COMPARISONS

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
        remaining = ahead[dropped:]
        accepted = machine.survey([*kinds, *remaining]) - len(kinds)
        score = 2 * (_AHEAD if accepted == len(remaining) else accepted) - cost
        if accepted >= min(_ENOUGH, len(remaining)) and (best is None or score > best_score):
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


# ---- explanations ----------------------------------------------------------------------------------------------------
# Explains the first token that can't stand where it does.
#
# First what a person may have meant is recognised (`_RULES`, in order), also in other languages (signs.py,
# constructs.py, words.py); else the message says what was expected.


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
    empty = Token("", "", stop.token.start, stop.token.start)
    edit = Edit(stop.at, stop.at, [empty._replace(kind="and", text="and"), empty._replace(kind="NAME")])
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
    if not token.text or (stop.expects_value and (token.kind not in KEYWORDS or "NAME" not in accepted)):
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
