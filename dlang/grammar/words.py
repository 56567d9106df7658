"""Words, comments and texts of other languages: what stands for them here."""

from __future__ import annotations

from collections.abc import Callable

from dlang.grammar.lexer import Token
from dlang.grammar.stop import Edit, Explanation, Stop, expected
from dlang.grammar.tables import END
from dlang.ops import dtypes

_LEFT_OUT = {
    **dict.fromkeys(("pub", "public", "export"), "leave it out: a name is private if it begins with `_`"),
    **dict.fromkeys(("private", "protected"), "leave it out: a name is private if it begins with `_`"),
    **dict.fromkeys(("async", "await"), "leave it out: a call waits for its result"),
    **dict.fromkeys(("static", "inline", "final", "unsafe", "virtual", "override", "abstract", "def"), "leave it out"),
    "const": "leave it out",
    "rec": "leave it out: a function may call itself",
    "new": "leave it out: a constructor is called like a function",
    "ref": "leave it out: there are no references",
}
_DECLARES = frozenset("fn struct enum type const let var extern import test bench".split())

_TYPE = "a type is written `struct Name { field: f64 }` or `enum Name { First, Second(f64) }`"
_TRAIT = "there are no traits: the classes of dtypes are `Num`, `Float`, `Int`, `Ord` and `Eq`"
_OUTER = "an outer variable can be read, but not assigned: return the new value"
_MEMORY = "leave it out: memory is given back when nothing needs it"

# What other languages write before a name, what stands for it here, and what repairs it, if anything does.
_BEFORE_NAME: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(
        ("def", "func", "function", "fun", "proc"),
        ("a function is written `fn name(x) = …` or `fn name(x) { … }`", "fn"),
    ),
    **dict.fromkeys(("class", "record", "data", "typedef"), (_TYPE, None)),
    **dict.fromkeys(("use", "using", "include", "require", "open"), ("an import is written `import module`", "import")),
    **dict.fromkeys(("switch", "select"), ("a choice is written `match x { pattern => value }`", "match")),
    "case": ("an arm is written `pattern => value`", ""),
    **dict.fromkeys(("raise", "throw"), ('a failure is written `fail("message")`', None)),
    **dict.fromkeys(("val", "auto"), ("a value is written `let x = …`", "let")),
    **dict.fromkeys(("elif", "elsif", "elseif"), ("another condition is written `} else if condition {`", "if")),
    "mut": ("a value that changes is written `var x = …`", ""),
    **dict.fromkeys(("global", "nonlocal"), (_OUTER, None)),
    **dict.fromkeys(("del", "delete", "free"), (_MEMORY, None)),
    "yield": ("an array of all values is written `[f(x) for x in xs]`", None),
    **dict.fromkeys(("trait", "interface", "protocol"), (_TRAIT, None)),
    "impl": ("there are no methods: a function takes the value, `fn name(p: Point) = …`", None),
    **dict.fromkeys(("module", "mod", "namespace", "package"), ("a file is a module", None)),
    "unless": ("write `if not condition { … }`", None),
    "until": ("write `while not condition { … }`", None),
    "foreach": ("a loop is written `for x in xs { … }`", "for"),
    "with": ("files are read and written by the module `io`: `io.npy(path)`", None),
    "lambda": ("a function is written `|x| …`", None),
}
_DTYPES = {"float": "f64", "double": "f64", "int": "i64", "long": "i64", "string": "str"}
_INFIX = {"mod": "%", "div": "//", "xor": "+"}


def _at_word(stop: Stop) -> Token | None:
    """The name before the token, if nothing was made of it yet."""
    word = stop.follows
    return word if word is not None and word.kind == "NAME" else None


def _left_out(stop: Stop) -> Explanation | None:
    """`pub fn`, `async fn`, `const fn`, `new Point(…)`"""
    word = stop.before
    if word is None or word.text not in _LEFT_OUT or word.kind not in ("NAME", "const"):
        return None
    constructs = word.text in ("new", "ref", "await") and stop.token.kind in ("UNAME", "NAME")
    if not constructs and stop.token.kind not in _DECLARES and not (word.text == "rec" and stop.token.kind == "NAME"):
        return None
    edit = Edit(stop.at - 1, stop.at, [])
    what = "a keyword here" if word.kind == "const" else "a keyword"
    return stop.says("E0115", f"`{word.text}` is not {what}", "", _LEFT_OUT[word.text], edit=edit, token=word)


def _before_name(stop: Stop) -> Explanation | None:
    word = _at_word(stop)
    if word is None or word.text not in _BEFORE_NAME:
        return None
    if stop.token.kind not in ("NAME", "UNAME", "STRING", "INT", "FLOAT", ":", "_"):
        return None
    help, repair = _BEFORE_NAME[word.text]
    edit = Edit(stop.statement, len(stop.tokens) - 1, [stop.as_token("NAME", stop.statement, "")])
    if repair is not None:
        new = [word._replace(kind=repair, text=repair)] if repair else []
        edit = Edit(stop.at - 1, stop.at, new)
    elif stop.statement:
        edit = Edit(stop.at - 1, stop.seek(stop.at, ("NL", ",")), [stop.as_token("NAME", stop.at - 1, "")])
    return stop.says("E0115", f"`{word.text}` is not a keyword", "", help, edit=edit, token=word)


def _import(stop: Stop) -> Explanation | None:
    word = stop.before
    if word is None:
        return None
    if word.text == "from" and stop.token.kind == "NAME":
        end = stop.line_end(stop.at)
        middle = next((i for i in range(stop.at, end) if stop.tokens[i].kind == "import"), end)
        path, names = stop.tokens[stop.at : middle], stop.tokens[middle + 1 : end]
        opening, closing = stop.as_token("{", middle), stop.as_token("}", end - 1)
        new = [stop.as_token("import", stop.at - 1), *path, opening, *names, closing]
        spelling = f"import {''.join(t.text for t in path)} {{ {', '.join(t.text for t in names if t.kind != ',')} }}"
        edit = Edit(stop.at - 1, end, new) if names else None
        if names and names[0].kind == "*":
            spelling = f"import {''.join(t.text for t in path)}"
            edit = Edit(stop.at - 1, end, [new[0], *path])
        help = f"an import is written `{spelling if names else 'import module { name }'}`"
        return stop.says("E0115", "`from` is not a keyword", "", help, edit=edit, token=word)
    if word.kind == "import" and stop.token.kind == "STRING":
        name = stop.token.text.strip('"')
        edit = stop.renamed("NAME", name) if name.isidentifier() else None
        help = f"write `import {name}`" if edit else "a module is named without quotes: `import a.b` is the file a/b.dl"
        return stop.says("E0115", "expected a name, found a string", "", help, edit=edit)
    if word.kind == "import" and stop.token.kind in (".", "..", "/"):
        written = stop.text(stop.at, stop.line_end(stop.at)).strip("./").replace("/", ".")
        help = f"a module is looked for beside this file first: `import {written}`"
        edit = Edit(stop.at, stop.line_end(stop.at), [stop.as_token("NAME", stop.at, "")])
        return stop.says("E0115", f"expected a name, found `{stop.token.text}`", "", help, edit=edit)
    if stop.token.kind == "*" and stop.opening > 0 and stop.tokens[stop.statement].kind != "fn":
        before = stop.tokens[stop.opening - 1]
        first = next((i for i in range(stop.opening - 1, -1, -1) if stop.tokens[i].kind == "import"), None)
        if first is not None and before.kind == "NAME" and "NAME" in stop.accepted:
            module = stop.text(first + 1, stop.opening)
            help = f"names are imported one by one: write `import {module}` and `{before.text}.name`"
            edit = Edit(stop.opening, stop.closing(stop.opening) + 1, [])
            return stop.says("E0115", "`*` is no name", "", help, edit=edit)
    return None


def _call_without_parentheses(stop: Stop) -> Explanation | None:
    """`print x`, `int x = 1`, `a mod b`"""
    token, word = stop.token, stop.before
    if word is None or word.kind not in ("NAME", "UNAME") or "\n" in stop.source.text[word.end : token.start]:
        return None
    if token.kind not in ("NAME", "UNAME", "STRING", "INT", "FLOAT"):
        return None
    if token.kind == "STRING" and stop.adjacent and word.text.lower() in ("f", "r", "b", "rf", "fr"):
        what = "strings interpolate as they are" if "f" in word.text.lower() else "strings have no prefix"
        edit = Edit(stop.at - 1, stop.at, [])
        return stop.says(
            "E0115", f"{what}: leave `{word.text}` out", "", f"write `{token.text}`", edit=edit, token=word
        )
    if token.text in _INFIX and stop.after_value:
        edit = stop.renamed(_INFIX[token.text])
        written = "bit_xor(a, b)" if token.text == "xor" else f"{word.text} {_INFIX[token.text]} …"
        return stop.says("E0115", f"`{token.text}` is no operator", "", f"write `{written}`", edit=edit)
    if token.kind == "NAME" and stop.is_kind(1, "=") and stop.begins_statement(stop.at - 1):
        edit = Edit(stop.at - 1, stop.at, [stop.as_token("let", stop.at - 1)])
        help = f"write `let {token.text} = …`, or `var` for what changes"
        return stop.says("E0115", "a variable is declared by `let` or `var`", "", help, edit=edit, token=word)
    if token.kind == "NAME" and ":" in stop.accepted and not stop.after_value and ")" in stop.accepted:
        name, type = (word, token) if token.text in {*_DTYPES, *dtypes.NAMES} else (token, word)
        dtype = type._replace(text=_DTYPES.get(type.text, type.text))
        edit = Edit(stop.at - 1, stop.at + 1, [name, stop.as_token(":", stop.at), dtype])
        help = f"a parameter is written `{name.text}: {dtype.text}`"
        return stop.says("E0115", f"expected {expected(stop)}, found `{token.text}`", "", help, edit=edit)
    if "(" not in stop.accepted or stop.is_kind(1, "("):
        return None
    if not stop.after_value and word.kind != "UNAME":
        return None
    new = [stop.as_token("(", stop.at), token, stop.as_token(")", stop.at)]
    argument = "a string" if token.kind == "STRING" else f"`{token.text}`"
    help = f"to call a function, write `{word.text}({token.text})`"
    if stop.opening >= 0 and stop.tokens[stop.opening].kind in ("(", "["):
        help = f"write `{word.text}, {token.text}`, or to call a function `{word.text}({token.text})`"
    if word.kind == "UNAME" and not stop.after_value:
        help = f"write `{word.text}({token.text})`"
    edit = Edit(stop.at, stop.at + 1, new)
    return stop.says("E0101", f"expected {expected(stop)}, found {argument}", "", help, edit=edit)


_BLOCKS = {
    "loop": "a loop without an end is written `while true { … }`",
    "do": "there is no `do`: write `while true { …; if not condition { break } }`",
    "try": "there are no exceptions: a function that can fail gives an `Option` or a `Result`",
    "begin": "leave it out: a block is written in braces",
    "unsafe": "leave it out",
    "catch": "there are no exceptions: a function that can fail gives an `Option` or a `Result`",
}


_STATEMENTS = frozenset("let var for while return break continue assert".split())


def _several(stop: Stop) -> Explanation | None:
    """Two statements on a line, two elements without a comma, `x in xs`, `|x|` for the absolute value"""
    token, before = stop.token, stop.before
    if before is None:
        return None
    same_line = "\n" not in stop.source.text[before.end : token.start]
    if token.kind in _STATEMENTS and stop.after_value and same_line and "NL" in stop.accepted and token.kind != "for":
        keyword = f"the keyword `{token.text}`"
        edit = Edit(stop.at, stop.at, [stop.as_token("NL", stop.at, ";")])
        help = "a new line or `;` ends a statement"
        return stop.says("E0101", f"expected {expected(stop)}, found {keyword}", "", help, edit=edit)
    if token.kind == "NAME" and stop.is_kind(1, ":") and "->" in stop.accepted and "," in stop.accepted:
        edit = Edit(stop.at, stop.at, [stop.as_token(",", stop.at)])
        help = f"a comma is missing: `{before.text}, {token.text}: …`"
        return stop.says("E0101", f"expected {expected(stop)}, found `{token.text}`", "", help, edit=edit)
    literal = before.kind in ("INT", "FLOAT", "STRING", ")", "]", "true", "false")
    opening = stop.opening
    if literal and token.kind in ("INT", "FLOAT", "STRING", "NAME", "UNAME") and "," in stop.accepted and opening >= 0:
        if stop.tokens[opening].kind in ("(", "["):
            edit = Edit(stop.at, stop.at, [stop.as_token(",", stop.at)])
            shown = "a string" if token.kind == "STRING" else f"`{token.text}`"
            help = f"a comma is missing: `{stop.text(stop.at - 1, stop.at)}, {token.text}`"
            return stop.says("E0101", f"expected {expected(stop)}, found {shown}", "", help, edit=edit)
    if token.kind in ("in", "not") and stop.after_value and (token.kind == "in" or stop.is_kind(1, "in")):
        end = stop.seek(stop.at + 1 + (token.kind == "not"), ("NL", ",", "and", "or", "{"))
        negation = "not " if token.kind == "not" else ""
        begin = stop.at + 1 + (token.kind == "not")
        written = f"{negation}any({before.text} == v for v in {stop.text(begin, max(end, begin + 1))})"
        edit = Edit(stop.at, begin, [stop.as_token("==", stop.at)])
        return stop.says("E0115", "`in` is no operator", "", f"write `{written}`", edit=edit, offered=False)
    if before.kind == "|" and stop.is_kind(-3, "|") and stop.expects_value and token.kind in ("NL", END, ")", ",", "}"):
        name = stop.tokens[stop.at - 2].text
        help = f"the absolute value is `abs({name})`; a function is `|{name}| …`"
        return stop.says("E0115", f"expected an expression after `|{name}|`", "expected after this", help, token=before)
    return None


def _test(stop: Stop) -> Explanation | None:
    """`test { … }`, `test name { … }`, and the same of `bench`"""
    before = stop.before
    if (
        before is None
        or before.text not in ("test", "bench")
        or before.kind != "NAME"
        or not stop.begins_statement(stop.at - 1)
    ):
        return None
    if stop.token.kind != "{" and not (stop.token.kind == "NAME" and stop.is_kind(1, "{")):
        return None
    name = stop.token.text if stop.token.kind == "NAME" else "what it is about"
    word = before.text
    new = [stop.as_token(word, stop.at - 1), stop.as_token("STRING", stop.at - 1, f'"{name}"')]
    edit = Edit(stop.at - 1, stop.at + (stop.token.kind == "NAME"), new)
    help = f'write `{word} "{name}" {{ … }}`'
    return stop.says("E0115", f"expected the name of the {word}, a string", "after this", help, edit=edit, token=before)


def _block(stop: Stop) -> Explanation | None:
    """`loop { … }`, `try { … }`"""
    word = stop.before
    if stop.token.kind != "{" or word is None or word.kind != "NAME" or word.text not in _BLOCKS:
        return None
    new = [word._replace(kind=kind, text=kind) for kind in ("while", "true")] if word.text == "loop" else []
    edit = Edit(stop.at - 1, stop.at, new)
    return stop.says("E0115", f"`{word.text}` is not a keyword", "", _BLOCKS[word.text], edit=edit, token=word)


# ---- comments and texts ----------------------------------------------------------------------------------------------
def _comment(stop: Stop) -> Explanation | None:
    """`// …`, `/* … */`"""
    token = stop.token
    help = "a comment begins with `#` and ends with the line"
    if stop.expects_value and (token.kind == "//" or (token.kind == "/" and _is_star(stop, stop.at + 1))):
        end = stop.line_end(stop.at)
        if token.kind == "/":
            closings = (i for i in range(stop.at + 2, len(stop.tokens) - 1) if stop.tokens[i].kind == "/")
            end = next((i + 1 for i in closings if _is_star(stop, i - 1)), end)
        shown = "//" if token.kind == "//" else "/*"
        two = Token("", "", token.start, token.start + 2)
        new = [stop.as_token("NAME", stop.at, "")] if stop.tokens[end].kind == END and stop.at == 0 else []
        if not new and stop.tokens[end].kind == "NL" and stop.begins_statement(stop.at):
            end += 1
        return stop.says("E0115", f"`{shown}` begins no comment", "", help, edit=Edit(stop.at, end, new), token=two)
    if token.kind in ("NAME", "UNAME") and stop.is_kind(-1, "NAME"):
        slashes = next((i for i in range(stop.at - 1, -1, -1) if stop.tokens[i].kind == "//"), None)
        if slashes is not None and "\n" not in stop.source.text[stop.tokens[slashes].start : token.start]:
            if all(t.kind in ("NAME", "UNAME") for t in stop.tokens[slashes + 1 : stop.at]):
                edit = Edit(slashes, stop.line_end(slashes), [])
                return stop.says("E0115", "`//` begins no comment", "", help, edit=edit, token=stop.tokens[slashes])
    return None


def _is_star(stop: Stop, index: int) -> bool:
    return 0 <= index < len(stop.tokens) and stop.tokens[index].kind in ("*", "**")


def _three_quotes(stop: Stop) -> Explanation | None:
    before, token = stop.before, stop.token
    if before is None or before.kind != "STRING" or before.text != '""' or not stop.adjacent:
        return None
    if token.kind not in ("STRING", "unclosed"):
        return None
    end = stop.at + 1
    if token.kind == "unclosed":
        while end < len(stop.tokens) - 1 and not (stop.tokens[end].text == '""' or stop.tokens[end].kind == "unclosed"):
            end += 1
    while end < len(stop.tokens) - 1 and stop.tokens[end].text[:1] == '"':
        end += 1
    begin = stop.at - 1
    new = [stop.as_token("STRING", begin, '""')]
    if stop.begins_statement(begin) and stop.tokens[end].kind == "NL":
        new, end = [], end + 1
    help = 'a string is `"…"`, on one line; the documentation of an item is `## …` above it'
    three = Token("", "", before.start, token.start + 1)
    return stop.says("E0115", '`"""` begins no string', "", help, edit=Edit(begin, end, new), token=three)


def _decorator(stop: Stop) -> Explanation | None:
    if stop.token.kind != "@" or "struct" not in stop.accepted:
        return None
    end = stop.line_end(stop.at)
    edit = Edit(stop.at, end, [stop.as_token("NAME", stop.at, "")])
    help = "leave it out: everything is compiled, and any function can be differentiated, `grad(f)`"
    return stop.says("E0115", "there are no decorators", "", help, edit=edit)


WORDS: tuple[Callable[[Stop], Explanation | None], ...] = (
    _comment,
    _three_quotes,
    _left_out,
    _import,
    _before_name,
    _decorator,
    _block,
    _test,
    _several,
    _call_without_parentheses,
)
