"""How a failed run is told."""

from dlang.diagnostics import Source, Span
from dlang.driver import failure
from dlang.host.errors import RunError

SOURCE = Source("f.dl", "abcdefghijklmnopqrstuvwxyz")


def place(k):
    return Span(SOURCE, k, k + 1)


def told(stack):
    (d,) = failure(RunError("E0800", "no", place(0), list(stack))).diagnostics
    assert (d.code, d.message, d.span) == ("E0800", "no", place(0))
    return [(note.text, note.span) for note in d.notes]


def test_the_calls_that_led_there_follow_the_message():
    assert told([("m.f", place(1)), ("m.main", None)]) == [("in `m.f`, called here", place(1)), ("in `m.main`", None)]


def test_a_recursion_is_one_call_with_a_count():
    calls = [("m.f", place(1))] * 1000 + [("m.f", place(2))]
    assert told(calls) == [("in `m.f`, called here 1000 times over", place(1)), ("in `m.f`, called here", place(2))]


def test_of_many_calls_the_first_and_the_last_are_shown():
    notes = told([(f"m.f{k}", place(k)) for k in range(20)])
    assert [text for text, _ in notes][3:6] == [
        "in `m.f3`, called here",
        "… and 12 calls between",
        "in `m.f16`, called here",
    ]
