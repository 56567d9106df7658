"""Reductions of the grammar → nodes of the syntax tree.

`Builder` has a method for every alternative of `dl.lark` that is named there. It gets the children (tokens, nodes,
lists, None for an absent optional part) and where the whole begins and ends, and gives the node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import ESCAPES, Token
from dlang.ops.dtypes import DTYPES, FLOATS, INTEGERS
from dlang.spelling import closest

Children = list[Any]

_PYTHON_TRUTH = {"True": "true", "False": "false"}


class Builder:
    """Builds the nodes of one source; what is wrong in a literal is collected in `diagnostics`.

    `parse_part` parses the expression that stands at a range of the source: the inside of an interpolation. A name
    without text was invented by a repair (recovery.py): it becomes a hole.
    """

    __slots__ = ("source", "diagnostics", "parse_part")

    def __init__(self, source: Source, parse_part: Callable[[int, int], s.Expr]) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.parse_part = parse_part

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def report(self, code: str, message: str, start: int, end: int, label: str = "", *help: str) -> None:
        self.diagnostics.append(Diagnostic(code, message, Span(self.source, start, end), label, help=help))

    # ---- shared ------------------------------------------------------------------------------------------------------
    def one(self, c: Children, start: int, end: int) -> list[Any]:
        return [c[0]]

    def more(self, c: Children, start: int, end: int) -> list[Any]:
        items: list[Any] = c[0]
        items.append(c[-1])
        return items

    def first(self, c: Children, start: int, end: int) -> Any:
        return c[0]

    def second(self, c: Children, start: int, end: int) -> Any:
        return c[1]

    def nothing(self, c: Children, start: int, end: int) -> list[Any]:
        return []

    # ---- items -------------------------------------------------------------------------------------------------------
    def fn(self, c: Children, start: int, end: int) -> s.Fn:
        _, name, _, bounds, _, _, parameters, _, _, _, result, body = c
        return s.Fn(
            Span(self.source, start, end),
            name.text,
            self.span(name),
            tuple(bounds or ()),
            tuple(parameters or ()),
            result,
            body,
            doc_above(self.source.text, start),
        )

    def bound(self, c: Children, start: int, end: int) -> s.Bound:
        return s.Bound(Span(self.source, start, end), c[0].text, c[2] and c[2].text)

    def param(self, c: Children, start: int, end: int) -> s.Parameter:
        nodiff, pattern, _, annotation, _, default = c
        return s.Parameter(Span(self.source, start, end), pattern, annotation, default, nodiff is not None)

    def struct(self, c: Children, start: int, end: int) -> s.Struct:
        _, name, _, parameters, _, _, fields, _, _ = c
        return s.Struct(
            Span(self.source, start, end),
            name.text,
            self.span(name),
            tuple(parameters or ()),
            tuple(fields),
            doc_above(self.source.text, start),
        )

    def field(self, c: Children, start: int, end: int) -> s.FieldDecl:
        return s.FieldDecl(Span(self.source, start, end), c[0].text or s.MISSING, c[2])

    def unnamed_field(self, c: Children, start: int, end: int) -> s.FieldDecl:
        return s.FieldDecl(Span(self.source, start, end), None, c[0])

    def enum(self, c: Children, start: int, end: int) -> s.Enum:
        _, name, _, parameters, _, _, constructors, _, _ = c
        return s.Enum(
            Span(self.source, start, end),
            name.text,
            self.span(name),
            tuple(parameters or ()),
            tuple(constructors),
            doc_above(self.source.text, start),
        )

    def constructor(self, c: Children, start: int, end: int) -> s.Constructor:
        name, _, fields, _, _ = c
        return s.Constructor(Span(self.source, start, end), name.text, tuple(fields or ()))

    def tparam(self, c: Children, start: int, end: int) -> s.TypeParameter:
        return s.TypeParameter(Span(self.source, start, end), c[1].text, c[0] is not None)

    def alias(self, c: Children, start: int, end: int) -> s.Alias:
        _, name, _, parameters, _, _, aliased = c
        return s.Alias(Span(self.source, start, end), name.text, self.span(name), tuple(parameters or ()), aliased)

    def const(self, c: Children, start: int, end: int) -> s.Const:
        _, name, _, annotation, _, value = c
        return s.Const(
            Span(self.source, start, end),
            name.text,
            self.span(name),
            annotation,
            value,
            doc_above(self.source.text, start),
        )

    def import_(self, c: Children, start: int, end: int) -> s.Import:
        _, path, _, alias = c
        return s.Import(Span(self.source, start, end), tuple(t.text for t in path), alias and alias.text, None)

    def import_names(self, c: Children, start: int, end: int) -> s.Import:
        return s.Import(Span(self.source, start, end), tuple(t.text for t in c[1]), None, tuple(c[3]))

    def test(self, c: Children, start: int, end: int) -> s.Test:
        return s.Test(Span(self.source, start, end), plain_text(self, c[1]), c[2])

    def bench(self, c: Children, start: int, end: int) -> s.Bench:
        return s.Bench(Span(self.source, start, end), plain_text(self, c[1]), c[2])

    def rule(self, c: Children, start: int, end: int) -> s.Rule:
        kind, name, _, parameters, _, _, _, result, body = c
        return s.Rule(
            Span(self.source, start, end),
            kind.text,
            name.text,
            self.span(name),
            tuple(parameters or ()),
            result.text,
            body,
        )

    def extern(self, c: Children, start: int, end: int) -> s.Extern:
        _, target, _, name, _, bounds, _, _, parameters, _, _, _, result = c
        return s.Extern(
            Span(self.source, start, end),
            plain_text(self, target),
            name.text,
            self.span(name),
            tuple(bounds or ()),
            tuple(parameters or ()),
            result,
            doc_above(self.source.text, start),
        )

    # ---- types and sizes ---------------------------------------------------------------------------------------------
    def type_effects(self, c: Children, start: int, end: int) -> s.TypeEffects:
        return s.TypeEffects(Span(self.source, start, end), c[0], tuple(t.text for t in c[2]))

    def type_function(self, c: Children, start: int, end: int) -> s.TypeFunction:
        """`(a, b) -> c` has two parameters, `((a, b)) -> c` one; the effects of the result are the function's."""
        left, _, result = c
        # A tuple that was written in one more pair of parentheses begins after the whole does.
        tupled = isinstance(left, s.TypeTuple) and left.span.start == start
        parameters = left.items if tupled else (left,)
        span = Span(self.source, start, end)
        if isinstance(result, s.TypeEffects):
            return s.TypeFunction(span, parameters, result.result, result.effects)
        return s.TypeFunction(span, parameters, result)

    def type_array(self, c: Children, start: int, end: int) -> s.TypeExpr:
        element, _, dims, _, _ = c
        return s.TypeArray(Span(self.source, start, end), element, tuple(dims or ()))

    def type_name(self, c: Children, start: int, end: int) -> s.TypeName:
        return s.TypeName(Span(self.source, start, end), c[0].text or s.MISSING)

    def type_constructor(self, c: Children, start: int, end: int) -> s.TypeName:
        return s.TypeName(Span(self.source, start, end), c[0].text, tuple(c[2] or ()))

    def type_of_module(self, c: Children, start: int, end: int) -> s.TypeName:
        return s.TypeName(Span(self.source, start, end), f"{c[0].text}.{c[2].text}", tuple(c[4] or ()))

    def type_parentheses(self, c: Children, start: int, end: int) -> s.TypeExpr:
        items = c[1]
        if items is not None and len(items) == 1:
            self.no_one_tuple(c[2], "type")
            only: s.TypeExpr = items[0]
            return only
        return s.TypeTuple(Span(self.source, start, end), tuple(items or ()))

    def size_name(self, c: Children, start: int, end: int) -> s.Dim:
        if not c[0].text:
            return s.SizeHole(Span(self.source, start, end))
        return s.SizeName(Span(self.source, start, end), c[0].text)

    def size_number(self, c: Children, start: int, end: int) -> s.SizeNumber:
        value = integer(self, c[0])
        if value.dtype is not None:
            self.report("E0109", f"a size is a plain integer, without the suffix `{value.dtype}`", start, end)
        return s.SizeNumber(value.span, int(value.value))

    def size_operator(self, c: Children, start: int, end: int) -> s.SizeOperator:
        return s.SizeOperator(Span(self.source, start, end), c[1].text, c[0], c[2])

    def size_hole(self, c: Children, start: int, end: int) -> s.SizeHole:
        return s.SizeHole(Span(self.source, start, end))

    def size_any(self, c: Children, start: int, end: int) -> s.SizeAny:
        return s.SizeAny(Span(self.source, start, end), c[1] and c[1].text)

    def size_row(self, c: Children, start: int, end: int) -> s.SizeRow:
        return s.SizeRow(Span(self.source, start, end), c[1].text)

    # ---- statements --------------------------------------------------------------------------------------------------
    def block(self, c: Children, start: int, end: int) -> s.Block:
        return s.Block(Span(self.source, start, end), tuple(c[1] or ()))

    def let(self, c: Children, start: int, end: int) -> s.Let:
        _, pattern, _, annotation, _, value = c
        return s.Let(Span(self.source, start, end), pattern, annotation, value)

    def var(self, c: Children, start: int, end: int) -> s.Var:
        _, pattern, _, annotation, _, value = c
        return s.Var(Span(self.source, start, end), pattern, annotation, value)

    def assign(self, c: Children, start: int, end: int) -> s.Assign:
        target, operator, value = c
        return s.Assign(Span(self.source, start, end), target, operator.text[:-1] or None, value)

    def while_(self, c: Children, start: int, end: int) -> s.While:
        return s.While(Span(self.source, start, end), c[1], c[2])

    def for_(self, c: Children, start: int, end: int) -> s.For:
        return s.For(Span(self.source, start, end), tuple(c[1]), c[2])

    def break_(self, c: Children, start: int, end: int) -> s.Break:
        return s.Break(Span(self.source, start, end))

    def continue_(self, c: Children, start: int, end: int) -> s.Continue:
        return s.Continue(Span(self.source, start, end))

    def return_(self, c: Children, start: int, end: int) -> s.Return:
        return s.Return(Span(self.source, start, end), c[1])

    def assert_(self, c: Children, start: int, end: int) -> s.Assert:
        return s.Assert(Span(self.source, start, end), c[1], c[3])

    def binder_below(self, c: Children, start: int, end: int) -> s.Binder:
        name, below = c[0], c[2]
        pattern: s.Pattern = (
            s.PatternWildcard(self.span(name)) if name.text in ("_", "") else s.PatternName(self.span(name), name.text)
        )
        return s.Binder(Span(self.source, start, end), pattern, below=below)

    def binder_each(self, c: Children, start: int, end: int) -> s.Binder:
        return s.Binder(Span(self.source, start, end), c[0], each=c[2])

    def binder_range(self, c: Children, start: int, end: int) -> s.Binder:
        pattern, _, low, _, high, _, step = c
        return s.Binder(Span(self.source, start, end), pattern, low=low, high=high, step=step)

    # ---- patterns ----------------------------------------------------------------------------------------------------
    def pattern_wildcard(self, c: Children, start: int, end: int) -> s.PatternWildcard:
        return s.PatternWildcard(Span(self.source, start, end))

    def pattern_name(self, c: Children, start: int, end: int) -> s.Pattern:
        if not c[0].text:
            return s.PatternWildcard(Span(self.source, start, end))
        return s.PatternName(Span(self.source, start, end), c[0].text)

    def pattern_integer(self, c: Children, start: int, end: int) -> s.PatternLiteral:
        return self._pattern_number(c[0], integer(self, c[1]), start, end)

    def pattern_float(self, c: Children, start: int, end: int) -> s.PatternLiteral:
        return self._pattern_number(c[0], float_(self, c[1]), start, end)

    def _pattern_number(self, minus: Token | None, number: s.Number, start: int, end: int) -> s.PatternLiteral:
        span = Span(self.source, start, end)
        value = number if minus is None else s.Number(span, -number.value, number.dtype)
        return s.PatternLiteral(span, value)

    def pattern_string(self, c: Children, start: int, end: int) -> s.PatternLiteral:
        span = Span(self.source, start, end)
        text = plain_text(self, c[0])
        return s.PatternLiteral(span, s.String(span, (text,) if text else ()))

    def pattern_true(self, c: Children, start: int, end: int) -> s.PatternLiteral:
        span = Span(self.source, start, end)
        return s.PatternLiteral(span, s.Boolean(span, True))

    def pattern_false(self, c: Children, start: int, end: int) -> s.PatternLiteral:
        span = Span(self.source, start, end)
        return s.PatternLiteral(span, s.Boolean(span, False))

    def pattern_constructor(self, c: Children, start: int, end: int) -> s.PatternConstructor:
        return s.PatternConstructor(Span(self.source, start, end), c[0].text, tuple(c[2] or ()))

    def pattern_of_module(self, c: Children, start: int, end: int) -> s.PatternConstructor:
        return s.PatternConstructor(Span(self.source, start, end), f"{c[0].text}.{c[2].text}", tuple(c[4] or ()))

    def pattern_parentheses(self, c: Children, start: int, end: int) -> s.Pattern:
        items = c[1]
        if items is not None and len(items) == 1:
            self.no_one_tuple(c[2], "pattern")
            only: s.Pattern = items[0]
            return only
        return s.PatternTuple(Span(self.source, start, end), tuple(items or ()))

    def pattern_positional(self, c: Children, start: int, end: int) -> tuple[str | None, s.Pattern]:
        return None, c[0]

    def pattern_named(self, c: Children, start: int, end: int) -> tuple[str | None, s.Pattern]:
        return c[0].text, c[2]

    # ---- expressions -------------------------------------------------------------------------------------------------
    def lambda_(self, c: Children, start: int, end: int) -> s.Lambda:
        return s.Lambda(Span(self.source, start, end), tuple(c[1] or ()), None, c[4])

    def lambda_typed(self, c: Children, start: int, end: int) -> s.Lambda:
        return s.Lambda(Span(self.source, start, end), tuple(c[1] or ()), c[5], c[6])

    def if_(self, c: Children, start: int, end: int) -> s.If:
        return s.If(Span(self.source, start, end), c[1], c[2], c[4])

    def match_(self, c: Children, start: int, end: int) -> s.Match:
        return s.Match(Span(self.source, start, end), c[1], tuple(c[3]))

    def arm(self, c: Children, start: int, end: int) -> s.Arm:
        alternatives, _, guard, _, body = c
        pattern: s.Pattern = alternatives[0]
        if len(alternatives) > 1:
            span = Span(self.source, pattern.span.start, alternatives[-1].span.end)
            pattern = s.PatternAlternatives(span, tuple(alternatives))
        return s.Arm(Span(self.source, start, end), pattern, guard, body)

    def binary(self, c: Children, start: int, end: int) -> s.Binary:
        return s.Binary(Span(self.source, start, end), c[1].text, c[0], c[2])

    def unary(self, c: Children, start: int, end: int) -> s.Unary:
        return s.Unary(Span(self.source, start, end), c[0].text, c[1])

    def cast(self, c: Children, start: int, end: int) -> s.Cast:
        return s.Cast(Span(self.source, start, end), c[0], c[2])

    def call(self, c: Children, start: int, end: int) -> s.Call:
        return s.Call(Span(self.source, start, end), c[0], tuple(c[2] or ()))

    def call_comprehension(self, c: Children, start: int, end: int) -> s.Call:
        function, opening, element, _, binders, _, condition, closing = c
        span = Span(self.source, opening.end, closing.start)
        argument = s.Argument(span, s.Comprehension(span, element, tuple(binders), condition))
        return s.Call(Span(self.source, start, end), function, (argument,))

    def index(self, c: Children, start: int, end: int) -> s.Index:
        return s.Index(Span(self.source, start, end), c[0], tuple(c[2]))

    def slice(self, c: Children, start: int, end: int) -> s.Slice:
        return s.Slice(Span(self.source, start, end), c[0], c[2], c[4])

    def member(self, c: Children, start: int, end: int) -> s.Field:
        return s.Field(Span(self.source, start, end), c[0], c[2].text)

    def tuple_member(self, c: Children, start: int, end: int) -> s.Field:
        return s.Field(Span(self.source, start, end), c[0], int(c[1].text[1:10]))

    def argument(self, c: Children, start: int, end: int) -> s.Argument:
        return s.Argument(Span(self.source, start, end), c[0])

    def named_argument(self, c: Children, start: int, end: int) -> s.Argument:
        return s.Argument(Span(self.source, start, end), c[2], name=c[0].text)

    def spread_argument(self, c: Children, start: int, end: int) -> s.Argument:
        return s.Argument(Span(self.source, start, end), c[1], spread=True)

    def integer(self, c: Children, start: int, end: int) -> s.Number:
        return integer(self, c[0])

    def float(self, c: Children, start: int, end: int) -> s.Number:
        return float_(self, c[0])

    def string(self, c: Children, start: int, end: int) -> s.String:
        return string(self, c[0])

    def true(self, c: Children, start: int, end: int) -> s.Boolean:
        return s.Boolean(Span(self.source, start, end), True)

    def false(self, c: Children, start: int, end: int) -> s.Boolean:
        return s.Boolean(Span(self.source, start, end), False)

    def name(self, c: Children, start: int, end: int) -> s.Expr:
        if not c[0].text:
            return s.Hole(Span(self.source, start, end))
        if c[0].text in _PYTHON_TRUTH and not self.declares(c[0].text):
            written = _PYTHON_TRUTH[c[0].text]
            self.report("E0115", f"`{c[0].text}` is written `{written}`", start, end, "", f"write `{written}`")
            return s.Boolean(Span(self.source, start, end), written == "true")
        return s.Name(Span(self.source, start, end), c[0].text)

    def blank(self, c: Children, start: int, end: int) -> s.Name:
        return s.Name(Span(self.source, start, end), "_")

    def parentheses(self, c: Children, start: int, end: int) -> s.Expr:
        items = c[1]
        if items is not None and len(items) == 1:
            self.no_one_tuple(c[2], "value")
            only: s.Expr = items[0]
            return only
        return s.Tuple(Span(self.source, start, end), tuple(items or ()))

    def array(self, c: Children, start: int, end: int) -> s.Array:
        return s.Array(Span(self.source, start, end), tuple(c[1] or ()))

    def comprehension(self, c: Children, start: int, end: int) -> s.Comprehension:
        _, element, _, binders, _, condition, _ = c
        return s.Comprehension(Span(self.source, start, end), element, tuple(binders), condition)

    def declares(self, constructor: str) -> bool:
        """Tells whether the file has an enum or an import with a constructor of that name."""
        return re.search(rf"\b(?:enum|import)\b[^{{}}]*\{{[^{{}}]*\b{constructor}\b", self.source.file.text) is not None

    def no_one_tuple(self, comma: Token | None, what: str) -> None:
        if comma is not None:
            self.report(
                "E0110",
                f"there are no tuples of one {what}",
                comma.start,
                comma.end,
                "this comma would make one",
                "leave the comma out",
            )


def doc_above(text: str, start: int) -> str:
    """The `##` lines directly above the line on which an item begins."""
    lines: list[str] = []
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip():  # something else stands before it on its line
        return ""
    while line > 0:
        above = text.rfind("\n", 0, line - 1) + 1
        words = text[above : line - 1].strip()
        if not words.startswith("##"):
            break
        lines.append(doc_line(words))
        line = above
    return "\n".join(reversed(lines))


def doc_line(words: str) -> str:
    """A `##` line without its marks."""
    return words[2:].removeprefix(" ").rstrip()


# ---- numbers and strings ---------------------------------------------------------------------------------------------
# The inside of number and string tokens: suffixes, escapes, interpolations.

_SUFFIXES = {suffix: d.name for d in DTYPES.values() for suffix in d.suffixes}  # of other languages
_NUMBER = re.compile(r"([0-9][0-9_]*)(\.[0-9][0-9_]*)?([eE][+-]?[0-9]+)?(.*)")
_CHUNK = re.compile(r"[^\\{}]+")
_CODEPOINT = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")


def integer(builder: Builder, token: Token) -> s.Number:
    return _number(builder, token, (*INTEGERS, *FLOATS), "an integer")


def float_(builder: Builder, token: Token) -> s.Number:
    return _number(builder, token, FLOATS, "a float")


def _number(builder: Builder, token: Token, suffixes: tuple[str, ...], what: str) -> s.Number:
    span = builder.span(token)
    if token.text.isdigit() and len(token.text) < 20:
        return s.Number(span, int(token.text))
    match = _NUMBER.fullmatch(token.text)
    assert match is not None
    whole, fraction, exponent, suffix = match.groups()
    if suffix and suffix not in suffixes:
        label = f"expected nothing, or one of {', '.join(suffixes)}"
        help = _suffix_of_elsewhere(token.text, token.text[: match.start(4)], suffix, suffixes)
        start = token.start + match.start(4)
        builder.report("E0109", f"`{suffix}` can't follow {what}", start, token.end, "" if help else label, *help)
        suffix = ""
    if fraction is None and exponent is None:
        digits = whole.replace("_", "").lstrip("0") or "0"
        value = int(digits) if len(digits) <= 20 else 1 << 64
        bits, least = (int(suffix[1:]), suffix[0]) if suffix in INTEGERS and suffix else (64, "u")
        if value >= 1 << bits or (value > 1 << (bits - 1) and least == "i"):
            dtype = f"`{suffix}`" if suffix else "any type of integers"
            builder.report("E0109", f"this number is too large for {dtype}", token.start, token.end)
            value = 0
        return s.Number(span, value, suffix or None)
    number = float((whole + (fraction or "")).replace("_", "") + (exponent or ""))
    if number == math.inf:
        builder.report("E0109", "this number is too large for any type of floats", token.start, token.end)
        number = 0.0
    return s.Number(span, number, suffix or None)


def _suffix_of_elsewhere(written: str, number: str, suffix: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns help for a notation of numbers that the language lacks."""
    if re.fullmatch(r"0([xX][0-9a-fA-F_]+|[oO][0-7_]+|[bB][01_]+)", written):
        return (f"numbers are decimal: write `{int(written.replace('_', ''), 0)}`",)
    if suffix in ("e", "E"):
        return (f"an exponent has digits: `{number}e3`",)
    meant = _SUFFIXES.get(suffix.lower())
    if meant in known:
        return (f"write `{number}{meant}`",)
    if suffix in ("j", "J", "im", "i"):
        return ("there are no complex numbers",)
    close = closest(suffix, known) if suffix not in INTEGERS else None
    if close is not None:
        return (f"did you mean `{number}{close}`?",)
    if suffix.isidentifier() and suffix.islower() and len(suffix) <= 2:
        return (f"to multiply, write `{number} * {suffix}`",)
    return ()


def plain_text(builder: Builder, token: Token) -> str:
    """The text of a string that may not interpolate: the name of a test, a pattern, a foreign function."""
    result = string(builder, token, interpolates=False)
    return "".join(part for part in result.parts if isinstance(part, str))


def string(builder: Builder, token: Token, interpolates: bool = True) -> s.String:
    """The text of a string token, with its escapes decoded and its interpolations parsed."""
    text = builder.source.text
    end = token.end - 1
    if token.kind == "STRING" and "{" not in token.text and "\\" not in token.text and "}" not in token.text:
        return s.String(builder.span(token), (token.text[1:-1],) if len(token.text) > 2 else ())
    parts: list[str | s.Interpolation] = []
    literal: list[str] = []
    at = token.start + 1
    while at < end:
        character = text[at]
        if match := _CHUNK.match(text, at, end):
            literal.append(match[0])
            at = match.end()
        elif character == "\\":
            decoded, at = _escape(builder, at, end)
            literal.append(decoded)
        elif text.startswith(character * 2, at, end):
            literal.append(character)
            at += 2
        elif character == "}":
            builder.report("E0107", "this `}` closes no interpolation", at, at + 1, "", "a brace in a string is `}}`")
            at += 1
        elif not interpolates:
            close = max(text.find("}", at, end), at) + 1
            builder.report(
                "E0107", "this string can't interpolate", at, close, "an interpolation", "a brace in a string is `{{`"
            )
            at = close
        else:
            interpolation, at = _interpolation(builder, at, end)
            if literal:
                parts.append("".join(literal))
                literal = []
            if interpolation is not None:
                parts.append(interpolation)
    if literal:
        parts.append("".join(literal))
    return s.String(builder.span(token), tuple(parts))


def _escape(builder: Builder, at: int, end: int) -> tuple[str, int]:
    """The character that the escape at `at` stands for, and where it ends."""
    text = builder.source.text
    letter = text[at + 1]
    if letter in ESCAPES:
        return ESCAPES[letter], at + 2
    if match := _CODEPOINT.match(text, at + 1, end):
        code = int(match[1] or match[2] or match[3], 16)
        if code < 0x110000 and not 0xD800 <= code < 0xE000:
            return chr(code), match.end()
    if letter in "{}":
        close = text.find("}", at + 2, end)
        help = f"a brace is `{letter * 2}`"
        builder.report("E0107", f"`\\{letter}` is no escape", at, at + 2, "", help)
        return letter, close + 1 if letter == "{" and close >= 0 else at + 2
    builder.report(
        "E0107",
        f"`\\{letter}` is no escape",
        at,
        at + 2,
        "",
        r"the escapes are \n \t \r \0 \\ \" \' \xhh \uhhhh \u{hhhhh}; a backslash is `\\`",
    )
    return letter, at + 2


def _interpolation(builder: Builder, at: int, end: int) -> tuple[s.Interpolation | None, int]:
    """The interpolation whose `{` is at `at`, and where it ends. A `:` outside of brackets begins its format."""
    text = builder.source.text
    depth, colon, close = 0, -1, at + 1
    while close < end and not (depth == 0 and text[close] == "}"):
        character = text[close]
        if colon < 0:
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth = max(depth - 1, 0)
            elif character == ":" and depth == 0:
                colon = close
        close += 1
    if close >= end:
        builder.report(
            "E0107", "this interpolation is never closed", at, at + 1, "`}` is missing", "a brace in a string is `{{`"
        )
        return None, end
    stop = colon if colon >= 0 else close
    spec = text[colon + 1 : close] if colon >= 0 else ""
    if not text[at + 1 : stop].strip():
        builder.report(
            "E0107",
            "this interpolation is empty",
            at,
            close + 1,
            "expected an expression",
            "a value is written into it: `{x}`; a brace is `{{`",
        )
        return None, close + 1
    span = Span(builder.source, at, close + 1)
    return s.Interpolation(span, builder.parse_part(at + 1, stop), spec), close + 1
