"""Nothing of a user's texts reaches a terminal that does more to it than to be read."""

import re

import pytest

from dlang.diagnostics import Diagnostic, Note, Source, Span, render, shown
from dlang.tools.repl.commands import Conversation
from dlang.tools.repl.conversation import answered
from dlang.tools.repl.session import Session

EVIL = "\x1b]0;title\x07\x9b31m\u2028"
FILE = f"evil{EVIL}.dl"
PROGRAM = f'''
fn plus(x: f64) -> f64 = x + 1.0  # {EVIL}
test "it {EVIL}" {{ assert plus(1.0) == 2.0 }}
test "fails {EVIL}" {{ fail("{EVIL}") }}
bench "plus {EVIL}" {{ plus(1.0) }}
fn main() {{ fail("{EVIL} \\u202e \\u009b") }}
'''
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")
COMMANDS = (
    ("run", FILE), ("run", "--backend", "interp", FILE), ("check", FILE, f"none{EVIL}"), ("test", "--coverage", FILE),
    ("bench", FILE), ("fmt", FILE), ("doc", FILE, "-o", f"doc{EVIL}"), ("stub", FILE), ("plot", f"{EVIL}.csv"),
    ("new", f"a{EVIL}"), ("ir", FILE, "--stage", "core"), ("check-grad", FILE, "--fn", f"{EVIL}"), (f"{EVIL}",),
    ("check", f"--{EVIL}"), ("build", FILE, "--name", f"{EVIL}"), ("explain", f"{EVIL}"), ("eval", f'fail("{EVIL}")'),
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0] if words[0].isalpha() else "misspelt")
def test_commands_show_controls_as_pictures(words, write, dlc):
    write(PROGRAM, FILE)
    write(f'epoch,"loss {EVIL}"\n1,2\n2,1\n', f"{EVIL}.csv")
    _, out, err = dlc(*words)
    assert out + err != "" and CONTROL.findall(out + err) == []


def test_the_session_shows_values_with_pictures(capsys, write):
    write(PROGRAM, FILE)
    conversation = Conversation(Session("cpu"))
    evil = EVIL.replace("\u2028", "")  # which ends a line there
    for text in (f'"{evil}"', f'let s = "{evil}"', ":vars", "s", f":load {FILE}"):
        answered(conversation, text)
    out, err = capsys.readouterr()
    assert "title" in out and CONTROL.findall(out + err) == []


def test_every_part_of_a_message_is_shown_and_marks_stand_where_they_did():
    source = Source(FILE, f"let a = {EVIL}b\n")
    at = source.text.index("b\n")
    d = Diagnostic("E0201", EVIL, Span(source, at, at + 1), EVIL, (Note(EVIL, Span(source, 0, 3)), Note(EVIL)), (EVIL,))
    text = render(d)
    assert CONTROL.findall(text) == [] and text.count(shown(EVIL)) == 7 + 2
    line, marks = text.splitlines()[3:5]
    assert line.index("b", 8) == marks.index("^")


def test_letters_of_all_languages_stay():
    text = "naïve 東京 שלום 🎉\n\té"
    assert shown(text) == text


def test_a_very_long_text_is_shown_in_part():
    source = Source("x" * 10_000, "a." * 50_000)
    d = Diagnostic("E0203", "m" * 10**5, Span(source, 0, 10**5), "l" * 10**5, (Note("n" * 10**5),), ("h" * 10**5,))
    assert len(render(d)) < 10_000
