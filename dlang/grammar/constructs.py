"""Functions, loops and choices as other languages write them: how they are written here."""

from __future__ import annotations

from collections.abc import Callable

from dlang.grammar.lexer import Token
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.grammar.stop import Edit, Explanation, Stop, braces, expected, found
from dlang.grammar.tables import END
from dlang.ops.dtypes import DTYPES

_TYPES_OF_C = frozenset("int float double char bool long unsigned size_t auto".split())


# ---- functions -------------------------------------------------------------------------------------------------------
def _lambda(stop: Stop) -> Explanation | None:
    """`lambda x: x + 1`, `x => x + 1`, `(x, y) -> x + y`"""
    token, before = stop.token, stop.before
    if before is None:
        return None
    if before.text == "lambda" and before.kind == "NAME" and token.kind in ("NAME", ":", "_"):
        end = stop.seek(stop.at, (":", "NL"))
        if stop.tokens[end].kind != ":":
            return None
        params = stop.text(stop.at, end) if end > stop.at else ""
        help = f"a function is written `|{params}| {stop.text(end + 1, stop.seek(end + 1, (',', 'NL')))}`"
        bars = (stop.as_token("|", stop.at - 1), stop.as_token("|", end))
        edit = Edit(stop.at - 1, end + 1, [bars[0], *stop.tokens[stop.at : end], bars[1]])
        return stop.says("E0115", "`lambda` is not a keyword", "", help, edit=edit, token=before)
    if token.kind == "|" and set(stop.accepted) == {")", ","}:
        message = f"expected {expected(stop)}, found `|`"
        return stop.says("E0101", message, "", "alternatives are whole patterns: `(p, q) | (p, r) => value`")
    if token.kind == ".." and "=>" in stop.accepted:
        message = f"expected {expected(stop)}, found `..`"
        return stop.says("E0101", message, "", "a range is asked for by a guard: `k if a <= k and k < b => value`")
    if token.kind in ("->", ":") and "=>" in stop.accepted:
        message = f"expected {expected(stop)}, found `{token.kind}`"
        return stop.says("E0101", message, "", "an arm is written `pattern => value`", edit=_arrows(stop))
    if token.kind not in ("=>", "->") or not stop.after_value:
        return None
    if token.kind == "->" and stop.adjacent and stop.is_kind(1, "NAME") and stop.tokens[stop.at + 1].start == token.end:
        help = f"write `{before.text}.{stop.tokens[stop.at + 1].text}`"
        return stop.says("E0115", "`->` is no operator", "", help, edit=stop.renamed("."))
    begin = stop.at - 1
    if before.kind == ")":
        depth = 0
        while begin > 0 and not (stop.tokens[begin].kind == "(" and depth == 1):
            depth += (stop.tokens[begin].kind == ")") - (stop.tokens[begin].kind == "(")
            begin -= 1
        names = stop.tokens[begin + 1 : stop.at - 1]
    else:
        names = stop.tokens[begin : stop.at]
    if not all(t.kind in ("NAME", ",", "_") for t in names) or stop.begins_statement(begin):
        return None
    body = stop.text(stop.at + 1, max(stop.seek(stop.at + 1, (",", "NL")), stop.at + 2))
    help = f"a function is written `|{', '.join(t.text for t in names if t.kind != ',')}| {body}`"
    new = [stop.as_token("|", begin), *names, stop.as_token("|", stop.at - (before.kind == ")"))]
    edit = Edit(begin, stop.at + 1, new)
    return stop.says("E0115", f"expected {expected(stop)}, found `{token.kind}`", "", help, edit=edit)


def _header(stop: Stop) -> Explanation | None:
    """The type of a result without its arrow, `where` clauses, parameters with `*`"""
    token, before = stop.token, stop.before
    if before is None:
        return None
    if token.kind in ("*", "**") and stop.opening >= 0 and before.kind in ("(", ","):
        if "=" not in stop.accepted and stop.expects_value:
            help = "arguments are written one by one"
        elif not stop.expects_value and "nodiff" in stop.machine.tables.terminals and "NAME" in stop.accepted:
            help = "a function has a fixed number of parameters: several values of one type are an array"
        else:
            return None
        return stop.says("E0115", f"`{token.kind}` is no operator here", "", help, edit=Edit(stop.at, stop.at + 1, []))
    if stop.after_value or stop.tokens[stop.statement].kind != "fn" or not stop.accepted >= {"=", "{"}:
        return None
    if token.text == "where":
        end = stop.seek(stop.at, ("=", "{", "NL"))
        help = "a class of dtypes is asked for in front of the parameters: `fn f<a: Num>(x: a)`"
        return stop.says("E0115", "`where` is not a keyword", "", help, edit=Edit(stop.at, end, []))
    if token.kind == "," and stop.tokens[stop.statement].kind == "fn":
        arrow = next((i for i in range(stop.at, -1, -1) if stop.tokens[i].kind == "->"), stop.at)
        end = stop.seek(stop.at, ("=", "{", "NL"))
        types = stop.tokens[arrow + 1 : end]
        help = f"a tuple stands in parentheses: `-> ({stop.text(arrow + 1, end)})`"
        new = [stop.as_token("(", arrow + 1), *types, stop.as_token(")", end - 1)]
        message = f"expected {expected(stop)}, found `,`"
        return stop.says("E0101", message, "", help, edit=Edit(arrow + 1, end, new)) if arrow < stop.at else None
    if "->" not in stop.accepted or before.kind != ")":
        return None
    first = stop.tokens[stop.at + 1] if token.kind == ":" else token
    if first.kind in ("NAME", "UNAME", "("):
        end = stop.seek(stop.at, ("=", "{", "NL"))
        kept = stop.tokens[stop.at + (token.kind == ":") : end]
        if stop.tokens[end].kind not in ("=", "{") or not kept:
            return None
        help = f"write `-> {stop.text(end - len(kept), end)}`"
        new = [stop.as_token("->", stop.at), *kept]
        return stop.says("E0115", "the type of the result stands behind `->`", "", help, edit=Edit(stop.at, end, new))
    return None


def _type(stop: Stop) -> Explanation | None:
    """`f64?`, `f64 | i64`, `*f64`, `fn(f64) -> f64`"""
    token, before = stop.token, stop.before
    if before is None or stop.expects_value:
        return None
    types = stop.accepted >= {"NAME", "UNAME", "("} and "FLOAT" not in stop.accepted
    if token.kind == "?" and stop.accepted >= {"->", "["}:
        begin = stop.at - 1
        help = f"write `Option<{before.text}>`"
        new = [stop.as_token("UNAME", begin, "Option"), stop.as_token("<", begin), before, stop.as_token(">", stop.at)]
        edit = Edit(begin, stop.at + 1, new) if before.kind == "NAME" else None
        return stop.says("E0115", "`?` is no type", "", help, edit=edit)
    if token.kind == "|" and stop.accepted >= {"->", "["}:
        if stop.tokens[stop.statement].kind == "type":
            help = "a type of several variants is written `enum Name { First, Second(f64) }`"
        else:
            help = "a value of one of several types is an enum: `enum Name { First(f64), Second(i64) }`"
        return stop.says("E0115", "`|` joins no types", "", help)
    if token.kind == "{" and types and before.kind == "->":
        edit = Edit(stop.at - 1, stop.at, [])
        help = "write the type of the result behind `->`, or leave `->` out: then it is inferred"
        return stop.says("E0101", "expected a type, found `{`", "", help, edit=edit)
    if token.kind == "*" and types:
        help = "there are no pointers: leave it out"
        return stop.says("E0115", "`*` is no type", "", help, edit=Edit(stop.at, stop.at + 1, []))
    if token.kind == "fn" and types:
        help = "the type of a function is written `f64 -> f64`, or `(f64, f64) -> f64`"
        return stop.says("E0115", "`fn` is no type", "", help, edit=Edit(stop.at, stop.at + 1, []))
    return None


def _is_type(name: str) -> bool:
    return name in _TYPES_OF_C or name in DTYPES


def _declaration(stop: Stop) -> Explanation | None:
    """`let x` without a value, and `struct` and `enum` as other languages write them"""
    token, before = stop.token, stop.before
    if before is None:
        return None
    first = stop.tokens[stop.statement]
    if first.kind == "extern" and token.kind in ("NL", END) and "->" in stop.accepted and before.kind == ")":
        help = "the type of the result is part of the declaration: `-> f64`, or `-> ()` for none"
        return stop.says("E0101", f"expected `->`, found {found(stop)}", "expected after this", help, token=before)
    if first.kind in ("let", "var") and token.kind in ("NL", END, "}") and "=" in stop.accepted:
        if before.kind == "=":
            return None
        end = stop.at
        edit = Edit(end, end, [stop.as_token("=", end), stop.as_token("NAME", end, "")])
        help = f"a variable is given its value where it is declared: `{stop.text(stop.statement, end)} = …`"
        message = f"expected `=`, found {'the end of the line' if token.kind == 'NL' else 'the end'}"
        return stop.says("E0101", message, "expected after this", help, edit=edit, token=before)
    if stop.is_kind(-2, "struct") and token.kind == "(":
        closing = stop.closing(stop.at)
        inside = stop.tokens[stop.at + 1 : closing]
        edit = Edit(stop.at, closing + 1, [stop.as_token("{", stop.at), *inside, stop.as_token("}", closing)])
        fields = stop.text(stop.at + 1, closing) if inside else "…"
        help = f"the fields of a struct stand in braces: `struct {before.text} {{ {fields} }}`"
        return stop.says("E0114", "expected `{`, found `(`", "", help, edit=edit)
    if stop.is_kind(-2, "enum") and token.kind == "=":
        names = [t.text for t in stop.tokens[stop.at : stop.seek(stop.at, ("NL",))] if t.kind == "UNAME"]
        help = f"write `enum {before.text} {{ {', '.join(names) or '…'} }}`"
        return stop.says("E0114", "expected `{`, found `=`", "", help)
    opening = stop.opening
    owner = stop.tokens[opening - 2].kind if opening >= 2 and stop.tokens[opening].kind == "{" else ""
    if owner == "enum" and token.kind == "=":
        edit = Edit(stop.at, stop.seek(stop.at, ("NL", ",")), [])
        help = "a variant has no number: leave it out"
        return stop.says("E0115", f"expected {expected(stop)}, found `=`", "", help, edit=edit)
    if owner == "struct" and before.kind == "NAME" and token.kind == "=":
        help = f"a field has a type, and its value when it is made: `{before.text}: f64`"
        value = stop.seek(stop.at, ("NL", ","))
        edit = Edit(stop.at, value, [stop.as_token(":", stop.at), stop.as_token("NAME", stop.at, "")])
        return stop.says("E0115", "expected `:`, found `=`", "", help, edit=edit)
    if owner == "struct" and before.kind == "NAME" and token.kind == "NAME" and stop.begins_statement(stop.at - 1):
        name, dtype = (token, before) if _is_type(before.text) and not _is_type(token.text) else (before, token)
        edit = Edit(stop.at - 1, stop.at + 1, [name, stop.as_token(":", stop.at), dtype])
        help = f"a field is written `{name.text}: {dtype.text}`"
        return stop.says("E0101", f"expected `:`, found `{token.text}`", "", help, edit=edit)
    if first.kind == "import" and token.kind == "," and stop.opening < stop.statement:
        help = f"write each on a line of its own: `{stop.text(stop.statement, stop.at)}`"
        end = stop.seek(stop.at, ("NL",))
        edit = Edit(stop.at, end, [])
        return stop.says("E0115", f"expected {expected(stop)}, found `,`", "", help, edit=edit)
    return None


def _return(stop: Stop) -> Explanation | None:
    """`fn f(x) = return x`, `= for i < n { … }`"""
    if stop.token.kind in ("for", "while") and stop.expects_value and "let" not in stop.accepted:
        help = "a loop has no value; an array is made by `[f(i) for i < n]`, a sum by `sum(f(i) for i < n)`"
        message = f"expected {expected(stop)}, found the keyword `{stop.token.kind}`"
        return stop.says("E0101", message, "", help)
    if stop.token.kind != "return" or not stop.is_kind(-1, "=") or not stop.expects_value:
        return None
    help = "the value of the expression is the result: leave `return` out"
    message = "expected an expression, found the keyword `return`"
    return stop.says("E0115", message, "", help, edit=Edit(stop.at, stop.at + 1, []))


def _function_by_let(stop: Stop) -> Explanation | None:
    """`let f(x) = x + 1`"""
    if stop.token.kind != "(" or not stop.is_kind(-2, "let") or not stop.is_kind(-1, "NAME"):
        return None
    let = stop.tokens[stop.at - 2]
    name = stop.tokens[stop.at - 1].text
    edit = Edit(stop.at - 2, stop.at - 1, [let._replace(kind="fn", text="fn")])
    return stop.says("E0115", "a function is declared by `fn`", "", f"write `fn {name}(…) = …`", edit=edit, token=let)


def _arrows(stop: Stop) -> Edit:
    """Read such a token as `=>`, here and in all arms that follow."""
    end = stop.closing(stop.opening) if stop.opening >= 0 else len(stop.tokens) - 1
    new: list[Token] = []
    depth = 0
    for index in range(stop.at, end):
        token = stop.tokens[index]
        depth += (token.kind in OPENERS) - (token.kind in CLOSERS)
        new.append(stop.as_token("=>", index) if depth == 0 and token.kind == stop.token.kind else token)
    return Edit(stop.at, end, new)


# ---- loops and choices -----------------------------------------------------------------------------------------------
def _loop_of_c(stop: Stop) -> Explanation | None:
    """`for (i = 0; i < n; i++)`"""
    begin = next((i for i in range(stop.at, -1, -1) if stop.tokens[i].kind in ("for", "NL")), 0)
    if stop.tokens[begin].kind != "for" or stop.tokens[begin + 1].kind != "(" or begin + 1 > stop.at:
        return None
    closing = stop.closing(begin + 1)
    inside = stop.tokens[begin + 2 : closing]
    if not any(t.kind == ";" for t in inside):
        return None
    name = next((t for t in inside if t.kind == "NAME" and t.text not in _TYPES_OF_C), None)
    if name is None:
        return None
    header = Token("", "", stop.tokens[begin + 1].start, stop.tokens[closing].end)
    new = [name, stop.as_token("<", begin), stop.as_token("NAME", begin, "")]
    help = f"a loop over integers is written `for {name.text} in a..b {{ … }}`, or `for {name.text} < n {{ … }}`"
    message = "a `for` has no parentheses and no `;`"
    return stop.says("E0115", message, "", help, edit=Edit(begin + 1, closing + 1, new), token=header)


def _binder(stop: Stop) -> Explanation | None:
    """`for i = 1:n`, `for x of xs`, `for x : xs`, `for i in (0..n)`, `0 to n`, `0..n..2`"""
    token, before = stop.token, stop.before
    if before is None:
        return None
    named = before.kind == "NAME" and (stop.is_kind(-2, "for") or stop.is_kind(-2, ","))
    if named and "in" in stop.accepted and (token.kind in ("=", ":") or token.text in ("of", "<-")):
        help = f"write `for {before.text} in a..b`, or `for {before.text} in xs`"
        message = f"expected {expected(stop)}, found `{token.text}`"
        return stop.says("E0115", message, "", help, edit=stop.renamed("in"))
    if not stop.after_value:
        return None
    in_header = any(t.kind == "for" for t in stop.tokens[stop.statement : stop.at])
    if in_header and ".." in stop.accepted and (token.kind == ":" or token.text in ("to", "until")):
        if token.kind == ":" and (stop.is_kind(1, "NL") or stop.is_kind(1, END)):
            return None
        message = f"expected {expected(stop)}, found `{token.text}`"
        return stop.says("E0115", message, "", "a range is written `a..b`", edit=stop.renamed(".."))
    if token.kind == ".." and "by" in stop.accepted:
        return stop.says("E0115", "a range has one `..`", "", "a step is written `a..b by s`", edit=stop.renamed("by"))
    if token.kind == ".." and stop.tokens[stop.statement].kind in ("let", "var"):
        end = stop.seek(stop.at, ("NL",))
        begin = _value_begins(stop)
        help = f"a range is no value; an array of its numbers is `[i for i in {stop.text(begin, end)}]`"
        edit = Edit(begin, end, [stop.as_token("NAME", begin, "")])
        return stop.says("E0115", f"expected {expected(stop)}, found `..`", "", help, edit=edit)
    if token.kind == ".." and ")" in stop.accepted:
        opening = stop.opening
        closing = stop.closing(opening)
        edit = Edit(opening, closing + 1, stop.tokens[opening + 1 : closing])
        help = "a range stands in `for` and in an index, without parentheses"
        return stop.says("E0115", f"expected {expected(stop)}, found `..`", "", help, edit=edit if in_header else None)
    return None


def _choice(stop: Stop) -> Explanation | None:
    """`a if c else b`, `c ? a : b`, `elif`, `then`, `if let`"""
    token = stop.token
    match token.text:
        case "elif" | "elsif" | "elseif" if token.kind == "NAME" and not stop.expects_value:
            new = [token._replace(kind="else", text="else"), token._replace(kind="if", text="if")]
            edit = Edit(stop.at, stop.at + 1, new)
            if stop.is_kind(-1, "NL"):
                edit = Edit(stop.at - 1, stop.at + 1, new)
            return stop.says("E0115", f"`{token.text}` is not a keyword", "", "write `else if`", edit=edit)
        case "is" if stop.after_value and "==" in stop.accepted:
            negated = stop.is_kind(1, "not")
            operator = "!=" if negated else "=="
            edit = stop.renamed(operator, count=2 if negated else 1)
            return stop.says("E0115", "`is` is no operator", "", f"to compare, write `{operator}`", edit=edit)
        case "then" | "do" if "{" in stop.accepted:
            help = "a body is written in braces: `{ … }`"
            message = f"expected `{{`, found `{token.text}`"
            return stop.says("E0114", message, "", help, edit=braces(stop, stop.at + 1))
        case "if" if token.kind == "if" and stop.after_value:
            return _conditional(stop, stop.seek(stop.at, ("else", "NL", ",")), python=True)
        case "?" if stop.after_value:
            return _conditional(stop, stop.seek(stop.at, (":", "NL", ",")), python=False)
        case "let" if stop.before is not None and stop.before.kind in ("if", "while"):
            return _if_let(stop)
    return None


def _conditional(stop: Stop, middle: int, python: bool) -> Explanation:
    message = f"`{stop.token.text}` can't follow an expression" if python else "`?` is no operator"
    if stop.tokens[middle].kind not in ("else", ":"):
        help = "a choice is written `if condition { a } else { b }`"
        if not python:
            help = "an `Option` is taken apart by `match`: `match o { Some(v) => …, None => … }`"
        return stop.says("E0115", message, "", help)
    begin = _value_begins(stop)
    end = stop.seek(middle + 1, ("NL", ",", "for"))
    first, second = stop.tokens[begin : stop.at], stop.tokens[stop.at + 1 : middle]
    condition, then = (second, first) if python else (first, second)
    otherwise = stop.tokens[middle + 1 : end]
    if not (condition and then and otherwise):
        return stop.says("E0115", message, "", "a choice is written `if condition { a } else { b }`")

    def block(tokens: list[Token]) -> list[Token]:
        return [tokens[0]._replace(kind="{", text="{"), *tokens, tokens[-1]._replace(kind="}", text="}")]

    def text(tokens: list[Token]) -> str:
        return stop.source.text[tokens[0].start : tokens[-1].end]

    new = [stop.as_token("if", begin), *condition, *block(then), stop.as_token("else", middle), *block(otherwise)]
    new = [stop.as_token("(", begin), *new, stop.as_token(")", end - 1)]
    written = f"if {text(condition)} {{ {text(then)} }} else {{ {text(otherwise)} }}"
    help = f"write `{written if len(written) < 80 else 'if condition { a } else { b }'}`"
    return stop.says("E0115", message, "", help, edit=Edit(begin, end, new))


def _value_begins(stop: Stop) -> int:
    """The index at which the expression before this token begins."""
    depth = 0
    for index in range(stop.at - 1, -1, -1):
        kind = stop.tokens[index].kind
        if depth == 0 and kind in (
            "(",
            "[",
            "{",
            "=",
            ",",
            "NL",
            "return",
            "=>",
            "+=",
            "-=",
            "*=",
            "/=",
            "in",
            "assert",
        ):
            return index + 1
        depth += (kind in (")", "]", "}")) - (kind in ("(", "[", "{"))
    return 0


def _if_let(stop: Stop) -> Explanation:
    """`if let Some(x) = o { … } else { … }` is a `match` of two arms."""
    assert stop.before is not None
    equals = stop.seek(stop.at, ("=", "NL"))
    opening = stop.seek(equals, ("{", "NL"))
    help = "write `match o { Some(x) => …, None => … }`"
    message = f"`{stop.before.text} let` is not known"
    span = Token("", "", stop.before.start, stop.token.end)
    if stop.tokens[opening].kind != "{" or stop.before.kind != "if":
        return stop.says("E0115", message, "", help, token=span)
    closing = stop.closing(opening)
    pattern, value = stop.tokens[stop.at + 1 : equals], stop.tokens[equals + 1 : opening]
    help = f"write `match {stop.text(equals + 1, opening)} {{ {stop.text(stop.at + 1, equals)} => …, _ => … }}`"
    end, otherwise = closing + 1, [stop.as_token("{", closing), stop.as_token("}", closing)]
    if stop.tokens[end].kind == "else" and stop.tokens[end + 1].kind == "{":
        last = stop.closing(end + 1)
        end, otherwise = last + 1, stop.tokens[end + 1 : last + 1]
    new = [stop.as_token("match", stop.at - 1), *value, stop.as_token("{", opening), *pattern]
    new += [stop.as_token("=>", opening), *stop.tokens[opening : closing + 1], stop.as_token(",", closing)]
    new += [stop.as_token("_", closing), stop.as_token("=>", closing), *otherwise, stop.as_token("}", end - 1)]
    return stop.says("E0115", message, "", help, edit=Edit(stop.at - 1, end, new), token=span)


# ---- values ----------------------------------------------------------------------------------------------------------
def _binding_as_value(stop: Stop) -> Explanation | None:
    """`= let y = 1.0 in y`"""
    if stop.token.kind not in ("let", "var") or not stop.expects_value or "let" in stop.accepted:
        return None
    help = f"a name is bound by a statement of a block: `{{ {stop.token.kind} x = …; x }}`"
    return stop.says("E0101", f"expected an expression, found the keyword `{stop.token.kind}`", "", help)


def _second_statement(stop: Stop) -> Explanation | None:
    """`assert c "…"`, `if c { … } x`"""
    token, before = stop.token, stop.before
    if "NL" not in stop.accepted or before is None or "\n" in stop.source.text[before.end : token.start]:
        return None
    message = f"expected {expected(stop)}, found {found(stop)}"
    if token.kind == "STRING" and stop.tokens[stop.statement].kind == "assert":
        comma = Edit(stop.at, stop.at, [stop.as_token(",", stop.at)])
        return stop.says("E0101", message, "", 'a message follows behind a comma: `assert c, "…"`', edit=comma)
    if before.kind != "}" or token.kind not in _BEGINS_STATEMENT:
        return None
    message = f"expected `;` or a new line, found {found(stop)}"
    edit = Edit(stop.at, stop.at, [Token("NL", ";", token.start, token.start)])
    return stop.says("E0101", message, "", "a statement ends with a new line or `;`", edit=edit)


_BEGINS_STATEMENT = frozenset("NAME UNAME INT FLOAT STRING let var for while return break continue assert".split())


CONSTRUCTS: tuple[Callable[[Stop], Explanation | None], ...] = (
    _lambda,
    _choice,
    _loop_of_c,
    _binder,
    _header,
    _type,
    _declaration,
    _return,
    _function_by_let,
    _binding_as_value,
    _second_statement,
)
