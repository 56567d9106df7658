"""Files that are replaced: there is the old one or the new one, whatever happens meanwhile."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dlang.runtime.drafts import replace
from dlang.runtime.errors import RunError


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state"


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(file):
    file.write_text("old")

    def half(out):
        out.write(b"ne")
        raise OSError("no more room")

    with pytest.raises(RunError, match="no more room"):
        replace(str(file), half)
    assert file.read_text() == "old" and os.listdir(file.parent) == ["state"]


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file(file):
    file.write_text("old")
    program = (
        "import os, signal, sys\n"
        "from dlang.runtime.drafts import replace\n"
        "replace(sys.argv[1], lambda out: (out.write(b'new'), out.flush(), os.kill(os.getpid(), signal.SIGKILL)))\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(file)], check=False).returncode == -9
    assert file.read_text() == "old"
    replace(str(file), lambda out: out.write(b"x"), lasting=True)
    assert file.read_text() == "x" and os.listdir(file.parent) == ["state"]


def test_who_writes_the_same_file_waits_for_its_turn(file):
    """Each writes in two halves; a file with halves of two would be neither's."""
    met = threading.Barrier(4)

    def write(number):
        def save(out):
            out.write(b"%d" % number * 100)
            out.flush()
            out.write(b"%d" % number * 100)

        met.wait()
        for _ in range(20):
            replace(str(file), save)
            assert file.read_bytes() in {b"%d" % k * 200 for k in range(4)}

    failed = []
    threads = [threading.Thread(target=lambda k=k: failed.append(write(k))) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failed == [None] * 4 and os.listdir(file.parent) == ["state"]


def test_a_link_stays_one(file):
    there = file.with_name("there")
    file.symlink_to(there)
    for text in (b"one", b"two"):
        replace(str(file), lambda out, text=text: out.write(text))
        assert file.is_symlink() and there.read_bytes() == text


def test_a_pipe_is_written_to(file):
    os.mkfifo(file)
    found = []
    reader = threading.Thread(target=lambda: found.append(Path(file).read_bytes()))
    reader.start()
    replace(str(file), lambda out: out.write(b"x"))
    reader.join()
    assert found == [b"x"] and file.is_fifo()
