"""The commands in the documents: `dlc` understands each, and prints what stands below those after a `$`."""

import re
import shlex
from pathlib import Path

import pytest

from dlang.tools.command_line import COMMANDS, parser_of
from dlang.tools.dlc import main
from tests.test_docs import BLOCK, agrees

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "dlang/explain").glob("*.md")),
]
SHOWN = re.compile(r"`(dlc [^`]*)`|^(?: {4}|\$ | {4}\$ )?(dlc .*)$", re.MULTILINE)
SESSION = re.compile(r"^    \$ dlc (.*)\n((?:    .*\n)+)", re.MULTILINE)


def commands(page):
    """The command lines on a page that are written out, without comments."""
    for inline, line in SHOWN.findall(page.read_text()):
        text = " ".join((inline or line).split())
        if not re.search(r"…|\[|\\\||COMMAND", text):
            for name, one in (("--stage NAME", "--stage opt"), ("SHELL", "bash"), ("PASS:N", "cse:2"), ("PASS", "cse")):
                text = text.replace(name, one)
            yield shlex.split(text, comments=True)[1:]


def understood(words):
    """Whether a command has these options; a file may be left out where a command is only spoken of."""
    for more in ([], ["FILE"], ["FILE", "--stage", "opt"], ["1"]):
        try:
            parser_of(COMMANDS[words[0]]).parse_args([*words[1:], *more])
            return True
        except SystemExit as e:
            if not e.code:
                return True  # it has printed its help
    return False


@pytest.mark.parametrize("page", [p for p in PAGES if any(commands(p))], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_are_understood(page):
    shown = [words for words in commands(page) if words and not words[0].startswith("--")]
    assert not [words for words in shown if words[0] not in COMMANDS or (words[1:] and not understood(words))]


def sessions():
    """The commands with what they print, and the program before them, which has the function that `--fn` names."""
    for page in PAGES:
        text = page.read_text()
        for found in SESSION.finditer(text):
            blocks = [program for tag, _, program, _ in BLOCK.findall(text[: found.start()]) if tag == "dlang"]
            named = re.search(r"--fn (\w+)", found[1])
            programs = [b for b in blocks if named is None or re.search(rf"\bfn {named[1]}\b", b)]
            yield pytest.param(programs[-1], *found.groups(), id=f"{page.name}:{found[1]}")


@pytest.mark.parametrize("program, command, output", list(sessions()))
def test_a_command_prints_what_its_page_shows(program, command, output, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    (tmp_path / next(w for w in words if w.endswith(".dl"))).write_text(program)
    main(words)
    shown, expected = (
        re.sub(r"\(\d+\.\d+ s\)", "(0.00 s)", text)
        for text in (capsys.readouterr().out, re.sub(r"^    ", "", output, flags=re.MULTILINE))
    )
    assert agrees(shown, expected), shown
