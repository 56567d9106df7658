"""What formatting keeps, of programs that look like anything."""

import random
import re

import pytest
from hypothesis import given, settings, strategies as st

from dlang.diagnostics import DlangError, Source
from dlang.format.formatting import comments, format_source, same_tree
from dlang.grammar.lexer import tokenize
from dlang.grammar.parser import parse
from tests.counting import calls
from tests.format.scrambling import FILES, scrambled, well_formed
from tests.fuzz.programs import program

LEFT_OUT = {",", ";", "newline"}  # tokens that only separate


def formatted(text):
    return format_source(Source("some.dl", text))


def tokens(text):
    return [t.text for t in tokenize(text) if t.kind not in LEFT_OUT]


def tree(text):
    return parse(Source("some.dl", text))[0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_scrambled_program_is_formatted_once_and_loses_nothing(seed):
    text, count = scrambled(random.Random(seed))
    if not well_formed(text):
        return
    once = formatted(text)
    assert formatted(once) == once
    assert tokens(once) == tokens(text)
    assert same_tree(tree(once), tree(text))
    assert comments(once) == comments(text)
    numbers = re.findall(r"# (?:behind|alone|first|second) (\d+)$", once, re.MULTILINE)
    assert numbers == [str(n) for n in range(count)]


def test_a_condition_behind_a_broken_one_takes_the_lines_it_needs():
    narrow, wide = "a" * 30, "b" * 65
    head = f"fn f({narrow}: f64, {wide}: f64) -> f64"
    branches = (
        f"if {narrow} * {narrow} <=  # a comment\n  0.0 {{ 0.0 }} else if {wide} < {wide} {{ 1.0 }} else {{ 2.0 }}"
    )
    once = formatted(f"{head} = {branches}\n")
    assert formatted(once) == once
    assert max(map(len, once.splitlines())) <= 120


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_a_random_program_is_formatted_once(seed):
    text = str(program(random.Random(seed)))
    once = formatted(text)
    assert formatted(once) == once and same_tree(tree(once), tree(text))


def test_scrambling_reaches_comments_within_expressions():
    made = [scrambled(random.Random(seed)) for seed in range(200)]
    good = [text for text, count in made if count and well_formed(text)]
    assert len(good) > 10 and any(re.search(r"[(,]  *# behind", text) for text in good)


@pytest.mark.parametrize(
    "text",
    ["(" * 390 + "x" + ")" * 390, " + ".join(["x"] * 390), "f(" * 190 + "x" + ")" * 190, "-" * 380 + "x"],
    ids=["parentheses", "sum", "calls", "signs"],
)
def test_what_is_as_deep_as_may_be_is_formatted(text):
    once = formatted(f"fn f(x) = {text}\n")
    assert formatted(once) == once


def test_lines_end_as_they_did():
    assert formatted("fn f(x)=x # c\r\nfn g(x) {\r\nx }\r\n") == "fn f(x) = x  # c\r\nfn g(x) {\r\n  x\r\n}\r\n"
    assert formatted("fn f(x)=x\nfn g(x)=x\r\n") == "fn f(x) = x\nfn g(x) = x\n"


@pytest.mark.parametrize(
    "text, result",
    [
        ("", ""),
        ("\n\n", ""),
        ("#", "#\n"),
        ("fn f() = 1#", "fn f() = 1  #\n"),
        ("# a\n\n\n\n# b", "# a\n\n# b\n"),
        ("\ufefffn f() = 1", "fn f() = 1\n"),
        ("\ufeff## Of a file.\r\nfn f() = 1\r\n", "## Of a file.\r\nfn f() = 1\r\n"),
        ("\ufeff# a comment\nfn f() = 1", "# a comment\nfn f() = 1\n"),
    ],
)
def test_texts_with_little_in_them(text, result):
    assert formatted(text) == result


def test_syntax_errors_are_the_messages_of_the_parser():
    with pytest.raises(DlangError) as e:
        formatted("fn f(x = 1\n\nfn g( = 2\n")
    assert [d.code for d in e.value.diagnostics] == [d.code for d in parse(Source("a", "fn f(x = 1\n\nfn g( = 2\n"))[1]]


def test_trees_that_differ_are_told_apart():
    assert same_tree(tree("fn f(x) = x + 1"), tree("fn  f(x) =\n  x + 1"))
    others = [
        "fn f(x) = x + 2",
        "fn f(x) = x - 1",
        "fn f(x) = (x, 1)",
        "fn f(x) { x + 1 }",
        "## d\nfn f(x) = x + 1",
        "",
    ]
    assert not any(same_tree(tree("fn f(x) = x + 1"), tree(other)) for other in others)


def test_a_change_of_meaning_would_be_a_defect(monkeypatch):
    monkeypatch.setattr("dlang.format.formatting._formatted", lambda source: source.text.replace("1", "2"))
    with pytest.raises(AssertionError, match="would change what"):
        formatted("fn f() = 1\n")


def test_a_longer_text_takes_as_much_more_work_as_it_has_more_lines():
    text = next(f for f in FILES if f.name == "ode.dl").read_text(encoding="utf-8")
    formatted(text)  # what is made once
    assert calls(lambda: formatted(4 * text)) < 4.1 * calls(lambda: formatted(text))


def test_a_lambda_whose_parameters_fill_the_line_begins_below_however_its_body_is_broken():
    parameters = ", ".join(f"a_long_name_{k}: f64[many]" for k in range(4))
    head = f"  let energies_of_all = |{parameters}|"
    for text in (f"{head} g(1, || {{\n    2.0\n  }})", f"{head}\n    g(1, || {{\n    2.0\n  }})"):
        once = formatted(f"fn f() = {{\n{text}\n  energies_of_all\n}}\n")
        assert formatted(once) == once
        assert f"  let energies_of_all =\n    |{parameters}|" in once
