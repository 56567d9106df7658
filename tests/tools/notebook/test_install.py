"""What adds the kernel says where it can't."""

import sys

from dlang.tools.notebook import __main__ as command


def test_without_jupyter_it_is_said_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["notebook", "install"])
    assert command.main() == 1
    assert "pip install 'dlang[notebook]'" in capsys.readouterr().err
