"""Files that are replaced: there is the old one or the new one, whatever happens meanwhile."""

import ast
import errno
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dlang
from dlang.drafts import add, appending, draft, write

PACKAGE = Path(dlang.__file__).parent


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state"


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(file):
    file.write_text("old")

    with pytest.raises(OSError, match="no more room"), draft(file) as out:
        out.write(b"ne")
        raise OSError("no more room")
    assert file.read_text() == "old" and os.listdir(file.parent) == ["state"]


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file(file):
    file.write_text("old")
    program = (
        "import os, signal, sys\n"
        "from dlang.drafts import draft\n"
        "with draft(sys.argv[1]) as out:\n"
        "    out.write(b'new'), out.flush(), os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(file)], check=False).returncode == -9
    assert file.read_text() == "old"
    with draft(file, lasting=True) as out:
        out.write(b"x")
    assert file.read_text() == "x" and os.listdir(file.parent) == ["state"]


def test_who_writes_the_same_file_waits_for_its_turn(file):
    """Each writes in two halves; a file with halves of two would be neither's."""
    met = threading.Barrier(4)

    def write(number):
        met.wait()
        for _ in range(20):
            with draft(file) as out:
                out.write(b"%d" % number * 100)
                out.flush()
                out.write(b"%d" % number * 100)
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
        write(file, text)
        assert file.is_symlink() and there.read_bytes() == text


def test_a_pipe_is_written_to(file):
    os.mkfifo(file)
    found = []
    reader = threading.Thread(target=lambda: found.append(Path(file).read_bytes()))
    reader.start()
    write(file, "x")
    reader.join()
    assert found == [b"x"] and file.is_fifo()


def test_a_file_keeps_its_permissions_and_one_that_may_not_be_written_its_content(file, monkeypatch):
    write(file, "one", mode=0o700)
    assert file.stat().st_mode & 0o777 == 0o700
    file.chmod(0o640)
    write(file, "two")
    assert file.stat().st_mode & 0o777 == 0o640
    monkeypatch.setattr(os, "access", lambda *_: False)  # the administrator may write all
    with pytest.raises(PermissionError):
        write(file, "three")
    assert file.read_text() == "two" and os.listdir(file.parent) == ["state"]


def test_a_draft_that_is_a_link_is_not_followed(file):
    other = file.with_name("other")
    other.write_text("theirs")
    file.with_name("state.part").symlink_to(other)
    with pytest.raises(OSError):
        write(file, "x")
    assert other.read_text() == "theirs"


def test_what_is_added_is_there_as_a_whole_or_not_at_all(file):
    for content in (b"one ", b"two "):
        with appending(file) as out:
            add(out, content)
    with pytest.raises(OSError), appending(file) as out:
        add(out, b"thr")
        raise OSError(errno.ENOSPC, "no more room")
    assert file.read_bytes() == b"one two "


# ---- every writer ----------------------------------------------------------------------------------------------------
MAYBE = re.compile(r"open\(|ZipFile\(|os\.re|shutil|\.(write_text|write_bytes|savefig|touch)\(")


def overwrites(call):
    """Whether a call may change a file that is there: opens it to be written, or moves another one to its place."""
    into = ast.unparse(call.args[0]) if call.args else ""
    if into in ("out", "os.devnull"):  # what a draft has opened, or nothing
        return False
    match call.func:
        case ast.Name("open") | ast.Attribute(ast.Name("zipfile"), "ZipFile"):
            modes = [*call.args[1:2], *[k.value for k in call.keywords if k.arg == "mode"]]
            return any(not isinstance(m, ast.Constant) or set(str(m.value)) & set("wax+") for m in modes)
        case ast.Attribute(ast.Name("os"), "open"):
            flags = ast.unparse(call.args[1])
            return "O_APPEND" not in flags and flags != "os.O_RDONLY"
        case ast.Attribute(_, "open"):
            return re.fullmatch(r"'[rbt]*[wax+][wax+bt]*'", into) is not None
        case ast.Attribute(ast.Name("os"), "replace" | "rename"):
            return True
        case ast.Attribute(ast.Name("shutil"), name):
            return name in ("copyfile", "copy", "copy2", "copytree", "move")
        case ast.Attribute(_, name):
            return name in ("write_text", "write_bytes", "savefig", "touch")
        case _:
            return False


@pytest.mark.parametrize(
    ("text", "expected"),
    [("open(p, 'w')", True), ("open(p, mode='ab')", True), ("open(p, 'rb')", False), ("open(p)", False),
     ("p.open('x')", True), ("p.open()", False), ("p.write_text(t)", True), ("os.replace(a, b)", True),
     ("shutil.copyfile(a, b)", True), ("zipfile.ZipFile(p, 'w')", True), ("open(p, how)", True),
     ("values.copy()", False), ("open(os.devnull, 'w')", False), ("zipfile.ZipFile(out, 'w')", False),
     ("archive.open(name, 'w')", False), ("os.open(p, os.O_WRONLY)", True)],
)  # fmt: skip
def test_calls_that_may_overwrite_are_known(text, expected):
    assert overwrites(ast.parse(text, mode="eval").body) is expected
    assert MAYBE.search(text) or not expected


def test_no_other_module_writes_to_a_file():
    found = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"
        for file in PACKAGE.rglob("*.py")
        if file.name != "drafts.py" and MAYBE.search(text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and overwrites(node)
    ]
    assert found == []
