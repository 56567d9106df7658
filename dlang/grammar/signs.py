"""Operators, brackets and other signs of other languages: what stands for them here."""

from __future__ import annotations

import re
from collections.abc import Callable

from dlang.grammar.lexer import Token
from dlang.grammar.newlines import OPENERS
from dlang.grammar.stop import Edit, Explanation, Stop, expected
from dlang.grammar.tables import END

_DOUBLED = {
    "<": ("+", "bits are shifted by `shift_left(a, k)`"),
    ">": ("+", "bits are shifted by `shift_right(a, k)`"),
    "*": ("**", "a power is `a ** b`"),
}
# Characters that a keyboard doesn't have, and what is written for them.
_CHARACTERS = {
    **dict.fromkeys("−–—", "-"), **dict.fromkeys("×·∗⋅", "*"), **dict.fromkeys("÷∕", "/"),
    "≤": "<=", "≥": ">=", "≠": "!=", "→": "->", "⇒": "=>", "∧": "and", "∨": "or", "¬": "not", "∈": "in", "←": "=",
    "＝": "=", "（": "(", "）": ")", "，": ",", "；": ";", "：": ":",
}  # fmt: skip
_NAMED = {"√": "`sqrt(x)`", "∑": "`sum(…)`", "∏": "`prod(…)`", "∞": "`inf`, from the module `math`", "∇": "`grad(f)`"}
_EXPONENTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))


def _character(stop: Stop) -> Explanation | None:
    """Explains a character that is no token of the language."""
    token = stop.token
    text = token.text
    if token.kind != "bad":
        return None
    if text in ("&&", "&") and not stop.after_value:
        following = [t.text for t in stop.tokens[stop.at + 1 : stop.at + 2]]
        edit = Edit(stop.at, stop.at + 1 + (following == ["mut"]), [])
        return stop.says(
            "E0115", f"`{text}` is no operator here", "", "there are no references: leave it out", edit=edit
        )
    match text:
        case "&&":
            help = "`and` is written out: `a and b`"
            return stop.says("E0115", "`&&` is no operator here", "", help, edit=stop.renamed("and"))
        case "&":
            help = "of truth values `a and b`, of integers and masks `bit_and(a, b)`"
            return stop.says("E0115", "`&` is no operator here", "", help, edit=stop.renamed("and"), doubtful=True)
        case "^":
            help = "a power is `a ** b`, exclusive or is `bit_xor(a, b)`"
            return stop.says("E0115", "`^` is no operator here", "", help, edit=stop.renamed("**"), doubtful=True)
        case "~" if stop.is_kind(1, "=") and stop.after_value:
            return _two(stop, "~=", "!=", "to compare, write `!=`", stop.at)
        case "~":
            help = "`not a`, or for integers and masks `bit_not(a)`"
            negation = None if stop.after_value else stop.renamed("not" if "not" in stop.accepted else "-")
            return stop.says("E0115", "`~` is no operator here", "", help, edit=negation, doubtful=True)
        case "@":
            return None
        case "\\":
            help = "a line goes on after an operator or a comma, and inside of brackets; a function is `|x| …`"
            return stop.says("E0104", "`\\` has no meaning outside of a string", "", help)
    if len(text) > 1:
        simple = not any(c in text for c in '"{}\\')
        edit = stop.renamed("STRING", f'"{text[1:-1]}"' if simple else '""')
        return stop.says("E0115", "expected a string in double quotes", "", f'write "{text[1:-1]}"', edit=edit)
    if text in "“”‘’'":
        return stop.says("E0104", f"the quotation mark `{text}` begins no string", "", 'write "…"')
    code = f"U+{ord(text):04X}"
    if text in _CHARACTERS:
        meant = _CHARACTERS[text]
        edit = stop.renamed(meant)
        return stop.says("E0104", f"`{text}` ({code}) is not part of the language", "", f"write `{meant}`", edit=edit)
    if text in _NAMED:
        return stop.says("E0104", f"`{text}` ({code}) is not part of the language", "", f"write {_NAMED[text]}")
    if text in _EXPONENTS and stop.after_value and stop.before is not None:
        power = [stop.as_token("**", stop.at), stop.as_token("INT", stop.at, _EXPONENTS[text])]
        help = f"write `{stop.before.text} ** {_EXPONENTS[text]}`"
        edit = Edit(stop.at, stop.at + 1, power)
        return stop.says("E0104", f"`{text}` ({code}) is not part of the language", "", help, edit=edit)
    if text.isspace() or not text.isprintable():
        shown = "space" if text.isspace() else "character"
        edit = Edit(stop.at, stop.at + 1, [])
        return stop.says("E0104", f"this {shown} ({code}) is not part of the language", "", "delete it", edit=edit)
    if text.isalpha():
        help = "names have Latin letters without accents, Greek ones, digits and `_`; texts and comments have any"
        return stop.says("E0104", f"`{text}` ({code}) is no letter of names", "", help)
    return stop.says("E0104", f"`{text}` ({code}) is not part of the language", "not a token")


def _two(stop: Stop, written: str, meant: str, help: str, begin: int) -> Explanation:
    """Two tokens that are one operator elsewhere."""
    both = Token("", "", stop.tokens[begin].start, stop.tokens[begin + 1].end)
    edit = Edit(begin, begin + 2, [Token(meant, meant, both.start, both.end)])
    return stop.says("E0115", f"`{written}` is no operator", "", help, edit=edit, token=both)


def _operators(stop: Stop) -> Explanation | None:
    token, before = stop.token, stop.before
    if before is None or not stop.adjacent:
        return None
    match before.kind, token.kind:
        case "<", ">":
            return _two(stop, "<>", "!=", "to compare, write `!=`", stop.at - 1)
        case ("==" | "!=") as kind, "=":
            return _two(stop, f"{kind}=", kind, f"to compare, write `{kind}`", stop.at - 1)
        case ("<" | ">" | "**") as kind, _ if token.kind == kind[0] and stop.expects_value:
            meant, help = _DOUBLED[kind[0]]
            return _two(stop, kind + token.kind, meant, help, stop.at - 1)
        case ":", ("=" | ":"):
            return None  # seen from the first of the two
        case "..", ("=" | "."):
            both = Token("", "", before.start, token.end)
            edit = Edit(stop.at, stop.at + 1, [])
            inside = stop.tokens[stop.opening : stop.at] if stop.opening >= 0 else []
            if token.kind == "." and inside and inside[0].kind == "[" and all(t.kind != "for" for t in inside):
                return stop.says("E0115", "`...` is no index", "", "a whole axis is `..`", edit=edit, token=both)
            help = "a range ends before its end: `a..b` has no `b`, `a..b + 1` has"
            return stop.says("E0115", f"`..{token.kind}` is no range", "", help, edit=edit, token=both)
        case ".", operator if stop.is_kind(-1, ".") and (
            operator in ("+", "-", "*", "/", "**", "(") or token.text == "^"
        ):
            what = "functions of numbers take arrays, too" if operator == "(" else "operators take arrays, too"
            both = Token("", "", before.start, token.end)
            edit = Edit(stop.at - 1, stop.at, [])
            shown = stop.rewritten(stop.at - 1, stop.at + 1, {})
            return stop.says(
                "E0115", f"`{shown}` is no operator", "", f"{what}: leave the point out", edit=edit, token=both
            )
    return None


def _pointer(stop: Stop) -> Explanation | None:
    """`*x`"""
    following = stop.tokens[min(stop.at + 1, len(stop.tokens) - 1)]
    if stop.token.kind != "*" or not stop.expects_value or following.start != stop.token.end:
        return None
    if following.kind != "NAME" or stop.is_kind(-1, "(") or stop.is_kind(-1, ","):
        return None
    help = "there are no pointers: leave it out"
    edit = Edit(stop.at, stop.at + 1, [])
    return stop.says("E0115", "expected an expression, found `*`", "", help, edit=edit)


def _bars(stop: Stop) -> Explanation | None:
    if stop.token.kind != "|" or "or" not in stop.accepted:
        return None
    if stop.is_kind(1, "|") and stop.tokens[stop.at + 1].start == stop.token.end:
        return _two(stop, "||", "or", "`or` is written out: `a or b`", stop.at)
    help = "of truth values `a or b`, of integers and masks `bit_or(a, b)`"
    return stop.says("E0115", "`|` is no operator here", "", help, edit=stop.renamed("or"), doubtful=True)


_MACROS = {
    "println": ("print", "`print(…)`"),
    "panic": ("fail", '`fail("…")`'),
    "format": ("print", 'a string with values in it: `"x = {x}"`'),
    "vec": ("", "`[a, b, c]`"),
}


def _exclamation(stop: Stop) -> Explanation | None:
    token, before = stop.token, stop.before
    if token.kind != "!":
        return None
    if before is not None and stop.adjacent and before.kind in ("NAME", "assert"):
        name, written = _MACROS.get(before.text, (before.text, f"`{before.text}(…)`"))
        new = [before._replace(text=name)] if name else []
        edit = Edit(stop.at - 1, stop.at + 1, new)
        both = Token("", "", before.start, token.end)
        return stop.says(
            "E0115", f"`{before.text}!` is no name: there are no macros", "", f"write {written}", edit=edit, token=both
        )
    if not stop.expects_value:
        return None
    edit = stop.renamed("not" if "not" in stop.accepted else "-")
    return stop.says("E0115", "expected an expression, found `!`", "", "`not` is written out: `not a`", edit=edit)


def _increment(stop: Stop) -> Explanation | None:
    token, before, after = stop.token, stop.before, stop.tokens[min(stop.at + 1, len(stop.tokens) - 1)]
    if token.kind not in ("+", "-") or before is None or before.kind != token.kind or before.end != token.start:
        return None
    if after.kind not in ("}", ")", END) and "\n" not in stop.source.text[token.end : after.start]:
        return None
    one = Token("INT", "1", token.start, token.end)
    edit = Edit(stop.at - 1, stop.at + 1, [before._replace(kind=f"{token.kind}=", text=f"{token.kind}="), one])
    if any(t.kind in ("=", "let", "var", "return", "fn") for t in stop.tokens[stop.statement : stop.at]):
        edit = Edit(stop.at - 1, stop.at + 1, [before, one])
        help = f"nothing changes within an expression: write `{stop.text(stop.at - 2, stop.at - 1)} {token.kind} 1`"
        return stop.says("E0115", f"`{token.kind * 2}` is no operator", "", help, edit=edit)
    written = stop.text(stop.statement, stop.at - 1)
    help = f"write `{written} {token.kind}= 1`"
    return stop.says("E0115", f"`{token.kind * 2}` is no operator", "", help, edit=edit)


# ---- `:` and `;` -----------------------------------------------------------------------------------------------------
def _colon(stop: Stop) -> Explanation | None:
    token, before = stop.token, stop.before
    if token.kind != ":":
        return None
    if stop.is_kind(1, ":") and stop.tokens[stop.at + 1].start == token.end and (explained := _path(stop)) is not None:
        return explained
    if stop.is_kind(1, "=") and stop.tokens[stop.at + 1].start == token.end and stop.after_value:
        new = [stop.as_token("=", stop.at)]
        begin = stop.at
        help = "write `=`"
        if before is not None and before.kind == "NAME" and stop.begins_statement(stop.at - 1):
            new = [stop.as_token("let", stop.at - 1), before, *new]
            begin, help = stop.at - 1, f"write `let {before.text} = …`, or `var` for what changes"
        both = Token("", "", token.start, stop.tokens[stop.at + 1].end)
        return stop.says("E0115", "`:=` is no operator", "", help, edit=Edit(begin, stop.at + 2, new), token=both)
    opening = stop.opening
    kind = stop.tokens[opening].kind if opening >= 0 else ""
    if kind == "[" and (stop.after_value or stop.expects_value):
        return _slice(stop, opening)
    if before is None:
        return None
    if before.kind == "STRING" and kind == "{" and stop.begins_statement(stop.at - 1):
        closing = stop.closing(opening)
        edit = Edit(opening, closing + 1, [stop.as_token("NAME", opening, "")])
        help = "a struct has named fields: `struct Name { first: f64 }`; an array can hold pairs: `[(a, b)]`"
        return stop.says("E0115", "there are no dictionaries", "", help, edit=edit)
    if before.kind != "NAME":
        return None
    first = opening == stop.at - 2 or stop.is_kind(-2, ",")
    if kind == "(" and "=" in stop.accepted and stop.after_value and first:
        help = f"an argument is named by `=`: `{before.text} = …`"
        return stop.says("E0115", f"expected {expected(stop)}, found `:`", "", help, edit=stop.renamed("="))
    equals = stop.seek(stop.at, ("NL", "="))
    if stop.begins_statement(stop.at - 1) and "=" in stop.accepted and stop.tokens[equals].kind == "=":
        let = stop.as_token("let", stop.at - 1)
        help = f"write `let {stop.text(stop.at - 1, equals)} = …`, or `var` for what changes"
        message = "a variable is declared by `let` or `var`"
        return stop.says("E0115", message, "", help, edit=Edit(stop.at - 1, stop.at - 1, [let]), token=before)
    return None


def _path(stop: Stop) -> Explanation | None:
    """`module::name`, `Type::Constructor`, `f::<T>()`"""
    before, after = stop.before, stop.tokens[min(stop.at + 2, len(stop.tokens) - 1)]
    if before is None:
        return None
    both = Token("", "", stop.token.start, stop.tokens[stop.at + 1].end)
    if before.kind == "UNAME" and after.kind == "UNAME":
        return _constructor_of(stop, stop.at + 2)
    if before.kind == "NAME" and after.kind in ("NAME", "UNAME"):
        help = f"write `{before.text}.{after.text}`"
        edit = Edit(stop.at, stop.at + 2, [stop.as_token(".", stop.at)])
        return stop.says("E0115", "`::` is no operator", "", help, edit=edit, token=both)
    if after.kind == "<":
        end = stop.seek(stop.at + 3, (">",))
        help = "type arguments are inferred: leave them out"
        return stop.says("E0115", "`::` is no operator", "", help, edit=Edit(stop.at, end + 1, []), token=both)
    return None


def _constructor_of(stop: Stop, name: int) -> Explanation:
    """A constructor behind the name of its type; `name` is its index."""
    token = stop.tokens[name]
    whole = Token("", "", stop.tokens[stop.at - 1].start, token.end)
    message = "a constructor stands without the name of its type"
    return stop.says("E0115", message, "", f"write `{token.text}`", edit=Edit(stop.at - 1, name, []), token=whole)


def _point(stop: Stop) -> Explanation | None:
    """`Type.Constructor` in a pattern"""
    if stop.token.kind == "." and stop.is_kind(-1, "UNAME") and stop.is_kind(1, "UNAME") and not stop.after_value:
        return _constructor_of(stop, stop.at + 1)
    return None


def _slice(stop: Stop, opening: int) -> Explanation | None:
    """`x[a:b:c]`, also as a literal `[a:b]`"""
    closing = stop.closing(opening)
    changes: dict[int, str] = {}
    depth = colons = 0
    for index in range(opening + 1, closing):
        token = stop.tokens[index]
        depth += (token.kind in OPENERS) - (token.kind in OPENERS.values())
        if token.kind == "," and depth == 0:
            colons = 0
        if token.kind == ":" and depth == 0:
            changes[index] = ".." if colons == 0 else " by "
            colons += 1
            if colons == 2 and stop.tokens[index + 1].kind in (",", "]"):
                changes[index] = ""
    if not changes:
        return None
    new = [
        stop.as_token(changes[i].strip(), i) if i in changes else stop.tokens[i]
        for i in range(opening, closing)
        if changes.get(i) != ""
    ]
    begin = opening - 1 if stop.tokens[opening - 1].kind == "NAME" else opening
    written = stop.rewritten(begin, closing + 1, changes)
    edit = Edit(opening, closing, new)
    return stop.says("E0115", "a slice is written with `..`", "", f"write `{written}`", edit=edit)


def _semicolon(stop: Stop) -> Explanation | None:
    """`[1, 2; 3, 4]` of Matlab and Julia, `[f64; 3]` of Rust"""
    opening = stop.opening
    if stop.token.kind != ";" or opening < 0 or stop.tokens[opening].kind != "[" or not stop.after_value:
        return None
    closing = stop.closing(opening)
    rows = {i: "], [" for i in range(opening, closing) if stop.tokens[i].kind == ";"}
    written = stop.rewritten(opening, closing + 1, rows | {opening: "[[", closing: "]]"})
    written = re.sub(r"\[ +", "[", written)
    bracket = stop.tokens[opening]
    new = [bracket]
    for index in range(opening, closing):
        if index in rows:
            new += [stop.as_token(kind, index) for kind in ("]", ",", "[")]
        else:
            new.append(stop.tokens[index])
    edit = Edit(opening, closing + 1, [*new, stop.as_token("]", closing), stop.as_token("]", closing)])
    message = f"expected {expected(stop)}, found `;`"
    (semicolon, *more) = rows
    if not more and semicolon == stop.at and not any(t.kind == "," for t in stop.tokens[opening:closing]):
        value, count = stop.text(opening + 1, semicolon), stop.text(semicolon + 1, closing)
        if closing > semicolon + 1:  # `[0.0; 10]` of Rust
            help = f"an array of equal elements is `[{value} for _ < {count}]`; a matrix is one of rows: `{written}`"
            return stop.says("E0115", message, "", help, edit=edit, doubtful=True)
    return stop.says("E0115", message, "", f"a matrix is an array of its rows: `{written}`", edit=edit)


# ---- brackets and commas ---------------------------------------------------------------------------------------------
def _brackets(stop: Stop) -> Explanation | None:
    token, before = stop.token, stop.before
    if before is None:
        return None
    if token.kind == "{" and before.kind == "UNAME":
        return _braces_of_fields(stop)
    if token.kind == "{" and before.kind == "NAME" and stop.adjacent and stop.after_value:
        closing = stop.closing(stop.at)
        inside = stop.tokens[stop.at + 1 : closing]
        edit = Edit(stop.at, closing + 1, [stop.as_token("[", stop.at), *inside, stop.as_token("]", closing)])
        help = (
            f"an element is `{stop.text(stop.at - 1, stop.at)}[{stop.text(stop.at + 1, closing) if inside else '…'}]`"
        )
        return stop.says("E0115", f"expected {expected(stop)}, found `{{`", "", help, edit=edit)
    if token.kind != "[" or stop.after_value:
        return None
    if stop.is_kind(-2, "fn") and before.kind == "NAME":
        return _type_parameters(stop)
    if {"_", "UNAME", "STRING"} <= set(stop.accepted) and not stop.expects_value:
        help = "patterns take tuples and structures apart: an element of an array is `x[0]`"
        return stop.says("E0115", "expected a pattern, found `[`", "", help)
    if "UNAME" in stop.accepted and "(" in stop.accepted and not stop.expects_value and stop.is_kind(1, "NAME"):
        closing = stop.closing(stop.at)
        sizes = ["_"]
        if closing == stop.at + 4 and stop.is_kind(2, ";"):
            sizes = [stop.tokens[stop.at + 3].text]
        name, size = stop.tokens[stop.at + 1], stop.as_token("_", stop.at)
        if sizes != ["_"]:
            size = stop.tokens[stop.at + 3]
        new = [name, stop.as_token("[", stop.at), size, stop.as_token("]", closing)]
        written = f"{name.text}[{sizes[0] if sizes != ['_'] else 'n'}]"
        edit = Edit(stop.at, closing + 1, new)
        return stop.says(
            "E0115", "expected a type, found `[`", "", f"the type of an array is written `{written}`", edit=edit
        )
    return None


def _type_parameters(stop: Stop) -> Explanation | None:
    """`fn f[T](x: T)`"""
    closing = stop.closing(stop.at)
    if stop.tokens[closing].kind != "]":
        return None
    names = {t.text for t in stop.tokens[stop.at + 1 : closing] if t.kind == "UNAME"}
    new = [
        t._replace(kind="NAME", text=t.text[0].lower() + t.text[1:]) if t.text in names else t
        for t in stop.tokens[stop.at : len(stop.tokens) - 1]
    ]
    new[0], new[closing - stop.at] = stop.as_token("<", stop.at), stop.as_token(">", closing)
    inside = " ".join(t.text for t in new[1 : closing - stop.at]).replace(" ,", ",").replace(" :", ":")
    help = f"type parameters are in lower case, between `<` and `>`: `<{inside}>`"
    edit = Edit(stop.at, len(stop.tokens) - 1, new)
    return stop.says("E0115", f"expected {expected(stop)}, found `[`", "", help, edit=edit)


def _braces_of_fields(stop: Stop) -> Explanation | None:
    """`Point { x: 1.0 }`, `Point { x = 1.0 }` for a value, `Circle { r: f64 }` for a variant"""
    name = stop.tokens[stop.at - 1].text
    closing = stop.closing(stop.at)
    declared = "(" in stop.accepted and not stop.after_value
    if not declared and not stop.after_value:
        return None
    if not declared and not (stop.is_kind(1, "NAME") and any(stop.is_kind(2, k) for k in (":", ",", "="))):
        return None
    depth = 0
    new: list[Token] = []
    changes: dict[int, str] = {stop.at: "(", closing: ")"}
    for index in range(stop.at, closing + 1):
        token = stop.tokens[index]
        depth += (token.kind in OPENERS) - (token.kind in OPENERS.values())
        if token.kind == ":" and depth == 1 and not declared:
            changes[index] = " ="
        kind = changes[index].strip() if index in changes else ""
        new.append(stop.as_token(kind, index) if kind else token)
    written = name + stop.rewritten(stop.at, closing + 1, changes).replace("( ", "(").replace(" )", ")")
    what = "the fields of a variant stand" if declared else "the fields of a value stand"
    edit = Edit(stop.at, closing + 1, new)
    help = f"write `{written}`" if len(written) < 60 and "\n" not in written else f"write `{name}(…)`"
    return stop.says("E0115", f"{what} in parentheses", "", help, edit=edit)


def _comma(stop: Stop) -> Explanation | None:
    """`a, b = b, a`, `return 1, 2`, `{1, 2}`"""
    if not (stop.token.kind == "," and stop.after_value and stop.accepted & {"NL", "}", END}):
        return None
    begin = stop.statement
    end = stop.seek(begin, ("NL",))
    equals = stop.seek(begin, ("=",))
    start = begin
    if stop.tokens[equals].kind == "=" and equals < stop.at:
        start = equals + 1
    elif stop.tokens[begin].kind == "return":
        start = begin + 1
    elif stop.tokens[begin - 1].kind == "{" and begin > 1 and stop.tokens[begin - 2].kind in ("=", "(", ",", "return"):
        array_text = f"[{stop.text(begin, end)}]"
        listed = [stop.as_token("[", begin - 1), *stop.tokens[begin:end], stop.as_token("]", end)]
        edit = Edit(begin - 1, end + 1, listed)
        return stop.says("E0115", "there are no sets", "", f"an array is written `{array_text}`", edit=edit)
    opened, closed = set[int](), set[int]()
    for low, high in ((start, end),) if start > begin else ((begin, equals), (equals + 1, end)):
        if low < high and stop.tokens[stop.seek(low, (",",))].kind == "," and stop.seek(low, (",",)) < high:
            opened.add(low)
            closed.add(high - 1)
    new: list[Token] = []
    for index in range(begin, end):
        new += [stop.as_token("(", index)] if index in opened else []
        new += [stop.tokens[index]]
        new += [stop.as_token(")", index)] if index in closed else []
    changes = {k: "(" * (k in opened) + stop.tokens[k].text + ")" * (k in closed) for k in opened | closed}
    written = stop.rewritten(start if stop.tokens[begin].kind == "fn" else begin, end, changes)
    help = f"a tuple stands in parentheses: `{written if len(written) < 60 else '(a, b)'}`"
    return stop.says("E0101", f"expected {expected(stop)}, found `,`", "", help, edit=Edit(begin, end, new))


SIGNS: tuple[Callable[[Stop], Explanation | None], ...] = (
    _character,
    _operators,
    _pointer,
    _bars,
    _exclamation,
    _increment,
    _colon,
    _point,
    _semicolon,
    _brackets,
    _comma,
)
