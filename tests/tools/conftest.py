"""The command `dlc` in an empty working directory."""

import textwrap

import pytest

from dlang.tools.dlc import main


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file into an empty working directory; gives its name."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="program.dl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
        return name

    return write


@pytest.fixture
def dlc(capsys):
    """Runs a command; gives its code, output and errors."""

    def run(*argv):
        try:
            code = main([str(a) for a in argv])
        except SystemExit as e:
            code = e.code
        out, err = capsys.readouterr()
        return code, out, err

    return run
