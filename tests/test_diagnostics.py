"""Messages, character by character."""

import json
import textwrap

from dlang.diagnostics import Diagnostic, DlangError, Note, Source, Span, render, replacement, to_json

TEXT = """\
fn dot(x: f64[n], y: f64[n]) -> f64 = sum(x[i] * y[i] for i)

fn main() {
\tlet x = [1.0, 2.0, 3.0]
\tdot(x, [1.0, 2.0, 3.0, 4.0])
}
"""
SOURCE = Source("dot.dl", TEXT)


def span(words, source=SOURCE):
    start = source.text.index(words)
    return Span(source, start, start + len(words))


def golden(text):
    return textwrap.dedent(text).strip("\n")


MISMATCH = Diagnostic(
    "E0301",
    "`dot` needs two arrays of one size: f64[3] and f64[4] differ",
    span("[1.0, 2.0, 3.0, 4.0]"),
    "this is f64[4]",
    (Note("n = 3 comes from here", span("[1.0, 2.0, 3.0]")), Note("sizes are compared when the program is checked")),
    ("cut the longer one: `y[..3]`",),
)


def test_a_message_shows_the_place_the_reasons_and_the_help():
    assert render(MISMATCH) == golden("""
        error[E0301]: `dot` needs two arrays of one size: f64[3] and f64[4] differ
         --> dot.dl:5:9
          |
        5 |     dot(x, [1.0, 2.0, 3.0, 4.0])
          |            ^^^^^^^^^^^^^^^^^^^^ this is f64[4]
        note: n = 3 comes from here
         --> dot.dl:4:10
          |
        4 |     let x = [1.0, 2.0, 3.0]
          |             ---------------
          = note: sizes are compared when the program is checked
          = help: cut the longer one: `y[..3]`
    """)


def test_the_gutter_is_as_wide_as_the_largest_line_number():
    source = Source("long.dl", "\n" * 98 + "let a = b\nlet c = d\n")
    d = Diagnostic("E0001", "no `b`", span("b", source), notes=(Note("see", span("c", source)),))
    assert render(d) == golden("""
        error[E0001]: no `b`
           --> long.dl:99:9
            |
         99 | let a = b
            |         ^
        note: see
           --> long.dl:100:5
            |
        100 | let c = d
            |     -
    """)


def test_a_span_of_a_few_lines_is_marked_line_by_line():
    source = Source("block.dl", "let x = {\n  1\n}\n")
    assert render(Diagnostic("E0001", "a block", span("{\n  1\n}", source), "here")) == golden("""
        error[E0001]: a block
         --> block.dl:1:9
          |
        1 | let x = {
          |         ^
        2 |   1
          |   ^
        3 | }
          | ^ here
    """)


def test_a_long_span_is_shown_by_its_first_and_last_line():
    source = Source("block.dl", "f({\n" + "  1\n" * 9 + "})\n")
    text = source.text.strip()
    assert render(Diagnostic("E0001", "a block", Span(source, 2, len(text) - 1))) == golden("""
        error[E0001]: a block
          --> block.dl:1:3
           |
         1 | f({
           |   ^
        ...
        11 | })
           | ^
    """)


def test_the_end_of_the_file_is_a_place():
    source = Source("open.dl", "f(\n")
    assert render(Diagnostic("E0002", "`(` is not closed", Span(source, 3, 3))) == golden("""
        error[E0002]: `(` is not closed
         --> open.dl:2:1
          |
        2 |
          | ^
    """)


def test_a_message_without_a_place_is_one_line():
    assert render(Diagnostic("E0003", "no such file: `x.dl`", None)) == "error[E0003]: no such file: `x.dl`"


def test_a_warning_says_so():
    assert render(Diagnostic("W0001", "odd", None, severity="warning")) == "warning[W0001]: odd"


def test_colours_only_surround_the_text():
    coloured = render(MISMATCH, colour=True)
    assert "\x1b[1;31merror[E0301]\x1b[0m" in coloured
    plain = coloured
    for code in ("\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == render(MISMATCH)


def test_json_has_the_agreed_fields():
    data = to_json(MISMATCH)
    assert json.loads(json.dumps(data)) == {
        "file": "dot.dl",
        "line": 5,
        "column": 9,
        "end_line": 5,
        "end_column": 29,
        "code": "E0301",
        "severity": "error",
        "message": MISMATCH.message,
        "notes": [
            "this is f64[4]",
            "n = 3 comes from here (dot.dl:4:10)",
            "sizes are compared when the program is checked",
        ],
        "help": ["cut the longer one: `y[..3]`"],
        "fixes": [],
    }


def test_an_edit_has_a_place_of_its_own_in_json():
    fix = replacement(span("dot(x, "), "dot(")
    (edit,) = to_json(Diagnostic("E0101", "no", span("let"), fixes=(fix,)))["fixes"]
    assert edit["title"] == "Write `dot(`" and edit["text"] == "dot(" and edit["certain"]
    assert (edit["file"], edit["line"], edit["column"], edit["end_column"]) == ("dot.dl", 5, 2, 9)


def test_json_of_a_message_without_a_place_has_nulls():
    data = to_json(Diagnostic("E0003", "no such file", None))
    assert [data[k] for k in ("file", "line", "column", "end_line", "end_column")] == [None] * 5


def test_the_text_of_an_exception_is_every_message():
    e = DlangError([MISMATCH, Diagnostic("E0003", "no such file", None)])
    assert str(e) == render(MISMATCH) + "\n\nerror[E0003]: no such file"
