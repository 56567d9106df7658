"""How values are shown."""

import numpy as np
import pytest

from dlang.tools.repl.commands import Conversation, Settings
from dlang.tools.repl.session import Session
from dlang.tools.repl.values import Style, array_text, quoted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("3", "3"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("f32(1) / f32(3)", "0.33333334"),
        ("1e-20", "1e-20"),
        ("true", "true"),
        ('"a {1 + 1} \\"b\\" {{"', '"a 2 \\"b\\" {{"'),
        ("[1.0, 22.5]", "[ 1.  22.5]"),
        ("[[1, 20], [300, 4]]", "[[  1  20]\n [300   4]]"),
        ("[true, false]", "[ true false]"),
        ("[true, true]", "[true true]"),
        ('["a", "b c"]', '["a" "b c"]'),
        ("(1, (2.5, true))", "(1, (2.5, true))"),
        ("Some(2)", "Some(2)"),
        ("None", "None"),
        ("Pair(1.0, [1.0, 2.0])", "Pair(a = 1.0, b = [1. 2.])"),
        ("Round(2.0)", "Round(2.0)"),
        ("[Dot, Round(1.0)]", "[Dot, Round(1.0)]"),
        ("[(i, f64(i)) for i < 2]", "[(0, 0.0), (1, 1.0)]"),
        ("Cons(1, Cons(2, Nil))", "Cons(1, Cons(2, Nil))"),
        ("zeros(0)", "[]"),
        ("[(i, 1.0) for i < 0]", "[]"),
        ("((), 1)", "((), 1)"),
        ("[Dot, Dot]", "[Dot, Dot]"),
        ("(|x: f64| x, 1)", "(<function>, 1)"),
        ("Some(Cons(1, Nil))", "Some(Cons(1, Nil))"),
        ("bf16(1.5)", "1.5"),
        ("[f16(0.1)]", "[0.1]"),
        ("[u8(200)]", "[200]"),
    ],
)
@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_a_value_is_shown(value, text, backend):
    session = Session(backend)
    session.submit("struct Pair { a: f64, b: f64[2] }")
    session.submit("enum Shape { Dot, Round(f64) }")
    answer = session.submit(value).value
    assert answer is not None and Conversation(session).value(answer) == text


def test_large_arrays_are_summarised_with_their_ends():
    assert array_text(np.arange(1000), Style()).count("\n") > 40
    assert array_text(np.arange(1001), Style()) == "[   0    1    2 …  998  999 1000]"
    lines = array_text(np.ones((40, 40)), Style()).splitlines()
    assert lines[3] == " …" and len(lines) == 7 and lines[0] == "[[1. 1. 1. … 1. 1. 1.]"


def test_lines_are_as_wide_as_is_said_and_floats_as_precise():
    text = array_text(np.arange(30.0) / 7.0, Style(width=30))
    assert max(map(len, text.splitlines())) <= 30
    assert array_text(np.array([1.0 / 3.0, 2.0]), Style(precision=3)) == "[0.333 2.   ]"
    shown = Conversation(Session("interp"), Settings(precision=3))
    texts = [shown.value(shown.session.submit(t).value) for t in ("2.0", "1.0 / 3.0", "1e-10", "1e20", "7")]
    assert texts == ["2.0", "0.333", "1e-10", "1e+20", "7"]


def test_a_structure_that_is_too_long_takes_several_lines():
    session = Session("interp")
    session.submit("struct Layer { weights: f64[3, 2], bias: f64[3] }")
    session.submit("let deep = (Layer(zeros(3, 2), [1.0, 2.0, 3.0]), 1)")
    answer = session.submit("deep").value
    assert answer is not None
    assert Conversation(session).value(answer) == (
        "(\n"
        "  Layer(\n"
        "    weights = [[0. 0.]\n"
        "               [0. 0.]\n"
        "               [0. 0.]],\n"
        "    bias = [1. 2. 3.],\n"
        "  ),\n"
        "  1,\n"
        ")"
    )


def test_many_structures_are_summarised():
    session = Session("interp")
    answer = session.submit("[(i, f64(i)) for i < 50]").value
    assert answer is not None
    ends = "(0, 0.0), (1, 1.0), (2, 2.0), …, (47, 47.0), (48, 48.0), (49, 49.0)"
    assert Conversation(session).value(answer) == f"[{ends}]"


def test_a_text_is_quoted_as_in_a_program():
    session = Session("interp")
    text = 'a\\b"c{d}\n\te'
    (leaf,) = session.submit(quoted(text)).value.leaves
    assert leaf == text


def test_types_stand_behind_values_only_where_they_are_told():
    session = Session("interp")
    answer = session.submit("[1.0]").value
    assert answer is not None
    assert Conversation(session).value(answer) == "[1.]"
    assert Conversation(session, verbose=True).value(answer) == "[1.] : f64[1]"
