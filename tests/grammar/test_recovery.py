"""Mistakes: each gives one message, and costs no other declaration."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from dlang.diagnostics import Diagnostic, Source
from dlang.grammar import syntax as s
from dlang.grammar.lexer import tokenize
from dlang.grammar.parser import parse, parse_expression

SAMPLE = Path(__file__).with_name("sample.dl").read_text()
TOUR = Path(__file__).parents[2].parent / "shared" / "tour"
FINE = "\nfn fine(x) = x\n"


def words(d: Diagnostic) -> str:
    return " ".join([d.message, d.label, *(note.text for note in d.notes), *d.help])


def names(module: s.Module) -> list[str]:
    return [item.name for item in module.items if hasattr(item, "name")]


# text (the mistake is between ‹ and ›), code, words of the message
ONE_MISTAKE = [
    # brackets
    ("fn f‹(›x: f64 -> f64 = x", "E0102", ["`)`", "`(`", "this `(` is never closed"]),
    ("fn f(x) {\n  let y = ‹(›x + 1\n  let z = 3\n  y\n}", "E0102", ["`)`"]),
    ("fn f(x) = ‹[›1, 2", "E0102", ["`]`"]),
    ("fn f(x: f64‹[›n) = x", "E0102", ["`]`"]),
    ("fn f(a: f64) ‹{›\n  a + b", "E0102", ["`}`"]),
    ("fn f(x) {\n  if x > 0 ‹{›\n    let y = 1\n  y\n}", "E0102", ["`}`"]),
    ("fn f(x) {\n  g(x, ‹[›1, 2)\n}", "E0102", ["`]`"]),
    ("fn f‹(›x, y -> f64 {\n  match x { (a, b) => g(a)(b) }\n}", "E0102", ["`)`"]),
    ("fn f(x) = (1, 2‹]›", "E0106", ["`)`", "`]`"]),
    ("fn f(x) = x‹)›", "E0106", ["closes nothing"]),
    ("fn f(x) = g(x‹]›)", "E0106", ["closes nothing"]),
    ("‹}›", "E0106", ["closes nothing"]),
    # strings and characters
    ('fn f(x) = ‹"abc›', "E0103", ['`"`', "no end"]),
    ('fn f(x) { print(‹"abc›) }', "E0103", ['`"`']),
    ('test ‹"x› {\n  assert true\n}', "E0103", ['`"`']),
    ("fn f(x) = x ‹$› 3", "E0104", ["`$`", "U+0024"]),
    ("fn f(x) = x + ‹\u00a7›", "E0104", ["not part of the language"]),
    ("fn f(x) = x + ‹\\›\n  3", "E0104", ["`\\`", "a line goes on after an operator"]),
    ('fn f(x) = "a {x +‹› } b"', "E0101", ["expected an expression"]),
    ('fn f(x) = "‹\\q›"', "E0107", ["`\\q`"]),
    ('fn f(x) = "‹{}›"', "E0107", ["empty"]),
    ('fn f(x) = "‹{›x"', "E0107", ["never closed", "`{{`"]),
    ('fn f(x) = "a ‹}›"', "E0107", ["`}}`"]),
    ('test "a ‹{x}›" { }', "E0107", ["can't interpolate"]),
    ('fn f(x) = "{g("‹a›")}"', "E0107", ["a string can't stand in an interpolation"]),
    ("fn f(x) = x + ‹if› x > 0 { 1 } else { 2 }", "E0101", ["after `+`", "parentheses: `(if"]),
    ("fn f(x) = -‹match› x { _ => 2 }", "E0101", ["after `-`", "parentheses: `(match"]),
    ("fn f(x) {\n  var y = x\n  y+‹+›\n  y\n}", "E0115", ["`++` is no operator", "`y += 1`"]),
    ("fn f(x) {\n  let a‹,› b = x\n  a\n}", "E0101", ["`(a, b)`"]),
    ("fn f(x) {\n  if x > 0 { return 1 }\n  ‹elif› x < 0 { return 2 }\n  3\n}", "E0115", ["`} else if condition {`"]),
    # numbers
    ("fn f(x) = 3‹foo›", "E0109", ["`foo`", "i64"]),
    ("fn f(x) = 1.5‹i32›", "E0109", ["`i32`", "f64"]),
    ("fn f(x) = ‹.5›", "E0109", ["`0.5`"]),
    ("fn f(x) = ‹2.› + x", "E0109", ["`2.0`"]),
    ("fn f(x: f64[‹3i32›]) = x", "E0109", ["plain integer"]),
    # names
    ("let ‹match› = 3", "E0108", ["`match` is a keyword"]),
    ("fn ‹in›(x) = x", "E0108", ["`in` is a keyword"]),
    ("fn f(‹const›: f64) = 3", "E0108", ["`const` is a keyword"]),
    ("‹fn› (x) = x", "E0113", ["expected the name of the function"]),
    ("fn ‹Foo›(x) = x", "E0116", ["lower case", "`foo`"]),
    ("const ‹BASE› = 10", "E0116", ["lower case", "`base`"]),
    ("struct ‹foo› { x: f64 }", "E0116", ["capitalised", "`Foo`"]),
    ("enum T { ‹leaf›(f64) }", "E0116", ["capitalised", "`Leaf`"]),
    # expressions
    ("fn f(x) = x + ‹*› 2", "E0101", ["expected an expression", "`*`"]),
    ("fn f(x) {\n  let y =‹›\n}", "E0101", ["expected an expression"]),
    ("fn f(x) = g(x ‹y›)", "E0101", ["expected `)` or `,`", "`y`"]),
    ("fn f(x) = x ‹y›", "E0101", ["expected an operator", "`y`"]),
    ("fn f(x) = (x‹,›)", "E0110", ["tuples of one"]),
    ("fn f(x) = 0 < x ‹<› 1", "E0111", ["comparisons can't be chained: write `a < b and b < c`", "0 < x and x <"]),
    ("fn f(x) { if x ‹=› 3 { 1 } else { 2 } }", "E0112", ["`==`"]),
    ("fn f(x) { assert x ‹=› 3 }", "E0112", ["`==`"]),
    ("fn f(x) = g(x + 1 ‹=› 3)", "E0112", ["`==`"]),
    # statements
    ("fn f(x) {\n  let ‹=› 3\n  x\n}", "E0101", ["expected a pattern", "`=`"]),
    ("fn f(x) {\n  let z ‹4›\n  x\n}", "E0101", ["expected `:` or `=`"]),
    ("fn f(x) {\n  if x > 0 ‹return› 1\n  x\n}", "E0114", ["expected `{`", "the keyword `return`"]),
    ("fn f(x) = if x > 0 { 1 } else ‹2›", "E0114", ["expected `{`"]),
    ("fn f(x) {\n  while x > 0\n  ‹{›\n    g(x)\n  }\n  x\n}", "E0114", ["`{` on the line above"]),
    ("fn f(x)\n‹{›\n  x\n}", "E0114", ["`{` on the line above"]),
    ("fn f(x) ‹x› + 1", "E0114", ["expected `=` or `{`"]),
    ("fn f(x) {\n  let a = x\n    ‹-› 3\n  a\n}", "E0105", ["end the line above with the operator"]),
    ("fn f(x) = match x {\n  1 ‹->› 2\n  _ => 4\n}", "E0101", ["expected `=>`"]),
    ("fn f(x) = match x {\n  1 => 2 ‹3›\n  _ => 4\n}", "E0101", ["`}`"]),
    # types and items
    ("fn f(x: f64, ) -> ‹=› x", "E0101", ["expected a type"]),
    ("fn f(x: f64[‹3.5›]) = x", "E0101", ["expected a size"]),
    ("fn f(x: Option<f64‹)› = x", "E0101", ["`>`", "`)`"]),
    ("struct P { x ‹f64› }", "E0101", ["expected `:`"]),
    ("pullback f(x) ‹=› 3", "E0101", ["expected `->`"]),
    ("import a‹.›", "E0101", ["expected a name"]),
    # other languages
    ("‹def› f(x):\n  return x", "E0115", ["`def`", "`fn name(x)"]),
    ("fn f(x)‹:›\n  x", "E0114", ["expected `{`", "`:`", "braces"]),
    ("fn f(x) {\n  for i in x‹:›\n    g(i)\n  x\n}", "E0114", ["braces"]),
    ("fn f(x) {\n  if x > 0 { 1 } ‹elif› x < 0 { 2 } else { 3 }\n}", "E0115", ["`elif`", "`else if`"]),
    ("fn f(x) = map(‹lambda› v: v + 1, x)", "E0115", ["`lambda`", "`|v| v + 1`"]),
    ("fn f(x) = x ‹&&› x", "E0115", ["`and`"]),
    ("fn f(x) = x ‹||› x", "E0115", ["`or`"]),
    ("fn f(x) = ‹!›x", "E0115", ["`not`"]),
    ("fn f(x) = x ‹^› 2", "E0115", ["`a ** b`", "bit_xor"]),
    ("fn f(x) = ‹True›", "E0115", ["`true`"]),
    ("fn f(x) = 1 ‹if› x else 2", "E0115", ["`if x { 1 } else { 2 }`"]),
    ("fn f(x) = ‹'abc'›", "E0115", ["double quotes"]),
    ("let ‹mut› x = 3", "E0115", ["`var x = …`"]),
    ("let f = x ‹=>› x + 1", "E0115", ["`|x| x + 1`"]),
    ("‹from› a import b", "E0115", ["`import a { b }`"]),
    ("fn f(x) = if x > 3 ‹then› 2 else 3", "E0114", ["expected `{`"]),
]


@pytest.mark.parametrize(("marked", "code", "expected"), ONE_MISTAKE, ids=[m[0][:40] for m in ONE_MISTAKE])
def test_a_mistake_gives_one_message_there(marked: str, code: str, expected: list[str]) -> None:
    start, end = marked.index("‹"), marked.index("›") - 1
    text = marked.replace("‹", "").replace("›", "")
    source = Source("test", text + FINE)
    module, diagnostics = parse(source)
    assert [d.code for d in diagnostics] == [code], [d.message for d in diagnostics]
    (found,) = diagnostics
    for word in expected:
        assert word in words(found)
    assert found.span is not None
    if start == end:  # what is missing is reported at the token before it
        assert found.span.end == start
    else:
        assert (found.span.start, found.span.end) == (start, end)
    assert "fine" in names(module)


def test_a_program_with_true_as_its_own_constructor_may_use_it() -> None:
    module, diagnostics = parse(Source("test", "enum Three { True, False, Unknown }\nfn f() = True\n"))
    assert diagnostics == []
    assert isinstance(module.items[1], s.Fn)
    assert isinstance(module.items[1].body, s.Name)


def test_the_syntax_error_of_the_tour() -> None:
    path = TOUR / "errors" / "syntax.dl"
    if not path.exists():
        pytest.skip("the tour is not here")
    module, diagnostics = parse(Source(str(path), path.read_text()))
    (found,) = diagnostics
    assert found.span is not None and found.span.line == 2
    assert ")" in words(found) and "(" in words(found)
    assert "fine" in names(module)


def test_several_mistakes_in_a_file_give_a_message_each() -> None:
    text = (
        "fn one(x) = x +\n"
        "fn two(x) = x\n"
        "fn three(x: f64 = x\n"
        "struct Four { a f64 }\n"
        "fn five(x) {\n"
        "  let a = x + * 2\n"
        "  let b = 3\n"
        "  let c = b c\n"
        "  if a = b { 1 }\n"
        "  b\n"
        "}\n"
        'test "six" { assert 1 < 2 < 3 }\n'
        "fn seven() = 7\n"
    )
    module, diagnostics = parse(Source("test", text))
    assert [(d.span.line if d.span else 0, d.code) for d in diagnostics] == [
        (1, "E0101"),
        (3, "E0102"),
        (4, "E0101"),
        (6, "E0101"),
        (8, "E0101"),
        (9, "E0112"),
        (12, "E0111"),
    ]
    assert names(module) == ["one", "two", "three", "Four", "five", "six", "seven"]


def test_what_is_right_beside_a_mistake_is_kept() -> None:
    module, _ = parse(Source("test", "fn f(x: f64) -> f64 {\n  let a = x + * 2\n  g(a)\n}\n"))
    (fn,) = module.items
    assert isinstance(fn, s.Fn) and isinstance(fn.body, s.Block)
    let, call = fn.body.statements
    assert isinstance(let, s.Let) and isinstance(call, s.Call)
    assert isinstance(let.value, s.Binary) and isinstance(let.value.right, s.Binary)
    assert isinstance(let.value.right.left, s.Hole)


def test_an_expression_alone_has_its_mistakes_reported() -> None:
    value, diagnostics = parse_expression(Source("<eval>", "1 + (2"))
    assert [d.code for d in diagnostics] == ["E0102"]
    assert isinstance(value, s.Binary)
    value, diagnostics = parse_expression(Source("<eval>", ""))
    assert value is None
    assert [d.code for d in diagnostics] == ["E0101"]
    _, diagnostics = parse_expression(Source("<eval>", "let x = 3"))
    assert [d.code for d in diagnostics] == ["E0101"]


TOKENS = tokenize(SAMPLE)


@given(st.integers(0, len(TOKENS) - 1))
@settings(max_examples=60, deadline=None)
def test_a_dropped_token_gives_few_messages_and_loses_at_most_one_item(index: int) -> None:
    token = TOKENS[index]
    module, diagnostics = parse(Source("test", SAMPLE[: token.start] + SAMPLE[token.end :]))
    whole, _ = parse(Source("test", SAMPLE))
    assert len(diagnostics) <= 3
    assert len(module.items) >= len(whole.items) - 2


def test_the_arms_of_a_match_that_lost_its_brace_give_no_messages_of_their_own() -> None:
    text = """fn f(v: f64) -> f64 {
  let m = match v
    Some(a) if a > 0.0 => a
    Node(l, Leaf(r)) => l
    () => 2.0
  }
  m + )
}
"""
    _, diagnostics = parse(Source("test", text))
    assert [d.code for d in diagnostics] == ["E0114", "E0106"]


PIECES = ["fn ", "let ", "match ", "for ", "if ", "{x", "->", "..", "é", "\r\n", "=>", "::", "...", "..=", "lambda x: "]
PIECES += ["def ", "import ", "from a import b", "if let ", "loop {", "/*", "x y"]
CHARACTERS = st.sampled_from([*"()[]{}\"|=\n.,:;_x3'\\#<>-!&$@?*/ \t", *PIECES])


@given(st.lists(st.tuples(st.integers(0, len(SAMPLE)), st.integers(0, 8), CHARACTERS), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_text_raises(edits: list[tuple[int, int, str]]) -> None:
    text = SAMPLE
    for at, dropped, inserted in edits:
        text = text[:at] + inserted + text[at + dropped :]
    _, diagnostics = parse(Source("test", text))
    for found in diagnostics:
        assert found.message and found.span is not None
        assert 0 <= found.span.start <= found.span.end <= len(text)


@given(st.text(max_size=40))
@settings(max_examples=60, deadline=None)
def test_no_text_raises_as_an_expression(text: str) -> None:
    parse_expression(Source("test", text))
