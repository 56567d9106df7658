"""A conversation in this process."""

import pytest

from dlang.tools.repl.commands import Conversation
from dlang.tools.repl.conversation import answered
from dlang.tools.repl.session import Session


@pytest.fixture
def conversation(monkeypatch, tmp_path):
    """In an empty working directory, on the interpreter, 80 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return Conversation(Session("interp"))


@pytest.fixture
def say(conversation, capsys):
    """Says inputs; what the last one has printed, messages included."""

    def say(*inputs):
        shown = ""
        for text in inputs:
            answered(conversation, text)
            out, err = capsys.readouterr()
            shown = (out + err).rstrip("\n")
        return shown

    return say
