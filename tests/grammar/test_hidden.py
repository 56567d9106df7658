"""Characters that turn what is read into something else are refused wherever they stand."""

import pytest

from dlang.diagnostics import BIDIRECTIONAL, Source
from dlang.driver import check
from dlang.grammar.parser import parse, parse_expression

PLACES = {
    "a comment": "fn f(x: f64) -> f64 = x  # {}else\n",
    "a comment of no declaration": "# {}\n\nfn f(x: f64) -> f64 = x\n",
    "a documentation": "## {}\nfn f(x: f64) -> f64 = x\n",
    "a string": 'fn f() -> str = "{}a"\n',
    "an interpolation": 'fn f(x: f64) -> str = "{{x{}}}"\n',
    "a name": "fn f{}(x: f64) -> f64 = x\n",
    "code": "fn f(x: f64) -> f64 = x{} + 1.0\n",
    "the beginning": " {}fn f(x: f64) -> f64 = x\n",
    "the end": "fn f(x: f64) -> f64 = x\n{}",
}


@pytest.mark.parametrize("place", PLACES)
def test_one_message_for_each_line_and_an_edit_that_removes_it(place):
    for c in f"{BIDIRECTIONAL}\ufeff":
        text = PLACES[place].format(c)
        found = [d for d in parse(Source("f.dl", text))[1] if d.code == "E0117"]
        assert len(found) == 1 and f"U+{ord(c):04X}" in found[0].message, (place, hex(ord(c)))
        (fix,) = found[0].fixes
        assert text[: fix.span.start] + fix.text + text[fix.span.end :] == PLACES[place].format("")


def test_a_mark_at_the_beginning_of_a_file_and_escapes_are_no_mistake():
    assert not check(Source("f.dl", '\ufefffn f() -> str = "\\u202e\\ufeff"\n')).diagnostics


def test_an_expression_alone_is_looked_at_too():
    assert [d.code for d in parse_expression(Source("<input>", '"\u202e"'))[1]] == ["E0117"]
