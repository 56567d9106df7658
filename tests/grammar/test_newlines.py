"""Where a statement ends."""

from __future__ import annotations

import pytest

from dlang.diagnostics import Diagnostic, Source
from dlang.grammar.lexer import tokenize
from dlang.grammar.newlines import layout


def statements(text: str) -> list[str]:
    """The statements of a text, tokens separated by spaces; `/` is an end inside of braces."""
    laid = layout(tokenize(text), Source("test", text))
    assert laid.diagnostics == []
    assert laid.balanced
    return [" ".join("/" if t.kind == "NL" else t.text for t in item) for item in laid.items]


def refused(text: str) -> list[Diagnostic]:
    return layout(tokenize(text), Source("test", text)).diagnostics


def test_a_newline_ends_a_statement() -> None:
    assert statements("a\nb\n\n# remark\n\nc\n") == ["a", "b", "c"]


def test_a_semicolon_ends_a_statement() -> None:
    assert statements("a; b;; c;\nd") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("end", "+ - * / // % @ ** == != < <= > >= and or not as |> += -= *= /= = , -> => { |".split())
def test_a_newline_after_what_needs_more_ends_nothing(end: str) -> None:
    close = " }" if end == "{" else ""
    assert statements(f"a {end}\n  b{close}") == [f"a {end} b{close}"]


@pytest.mark.parametrize("begin", [".f", ".0", "|> f", "-> f", "= f", "else"])
def test_a_newline_before_what_continues_ends_nothing(begin: str) -> None:
    assert len(statements(f"a\n  # remark\n\n{begin}")) == 1


@pytest.mark.parametrize("begin", ["=>", "+=", "..", "{", "as", "by", "in"])
def test_no_other_beginning_continues(begin: str) -> None:
    assert len(statements(f"a\n{begin} f" + (" }" if begin == "{" else ""))) == 2


def test_inside_of_parentheses_and_brackets_no_newline_ends_a_statement() -> None:
    assert statements("f(a\nb)\n[a\nb]\n") == ["f ( a b )", "[ a b ]"]


def test_inside_of_braces_newlines_end_statements_whatever_is_around() -> None:
    assert statements("f({\n  a\n\n  b; c\n})") == ["f ( { a / b / c } )"]


def test_a_lambda_in_parentheses_has_a_body_of_its_own() -> None:
    assert statements("f(|x| {\n  a\n  b },\n  c)") == ["f ( | x | { a / b } , c )"]


def test_the_end_of_type_arguments_is_no_operator() -> None:
    assert statements("type A = List<f64>\ntype B = List<List<a>>\nc") == [
        "type A = List < f64 >",
        "type B = List < List < a > >",
        "c",
    ]
    assert statements("a >\nb") == ["a > b"]
    assert statements("f(x: List<a>) >\nb") == ["f ( x : List < a > ) > b"]


@pytest.mark.parametrize("begin", ["-", "(", "[", "|"])
def test_a_line_may_begin_with_what_could_also_continue(begin: str) -> None:
    assert len(statements(f"a\n{begin} b" + {"(": ")", "[": "]"}.get(begin, ""))) == 2
    assert len(statements(f"  a\n{begin} b" + {"(": ")", "[": "]"}.get(begin, ""))) == 2


@pytest.mark.parametrize("begin", ["-", "(", "[", "|"])
def test_indented_as_a_continuation_it_is_refused(begin: str) -> None:
    (found,) = refused(f"x = a\n  {begin} b" + {"(": ")", "[": "]"}.get(begin, ""))
    assert found.code == "E0105"
    assert found.label == "end the line above with the operator"
    assert found.span is not None and found.span.start == 8
    assert found.notes[0].span is not None and found.notes[0].span.start == 0


@pytest.mark.parametrize("begin", ["+", "*", "@", "**", "==", "<=", "and", "or"])
def test_a_line_never_begins_with_another_operator_and_the_repair_moves_it(begin: str) -> None:
    text = f"x = a\n  {begin} b\ny"
    (found,) = refused(text)
    assert found.code == "E0105" and found.span is not None and found.span.text == begin
    (fix,) = found.fixes
    assert text[: fix.span.start] + fix.text + text[fix.span.end :] == f"x = a {begin}\n  b\ny"
    assert not refused(f"x = a  # why\n  {begin} b")[0].fixes


def test_the_indentation_is_that_of_the_statement_in_the_same_braces() -> None:
    assert statements("f {\n  a\n  -b\n}\n-c") == ["f { a / - b }", "- c"]
    assert statements("f { let x = 1\n    (x, x) }") == ["f { let x = 1 / ( x , x ) }"]
    assert len(refused("f {\n  a\n   -b\n}")) == 1
    assert refused("m {\n  (0, y) => {\n    a\n  }\n  (x, _) =>\n    (x, x)\n}") == []
