"""`dlc cache`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dlang.cache.store import Store, digest
from dlang.tools.cache import size
from dlang.tools.dlc import main
from tests.patience import PATIENCE

PROGRAM = 'fn main() { print("hello") }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    monkeypatch.setenv("DLANG_CACHE_SIZE", "2M")
    store = Store(tmp_path)
    store.put("object", digest("a"), b"x" * 2000)
    store.put("module", digest("a"), b"x" * 500)
    return store


def test_info_says_what_there_is_of_each_kind(own_cache: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        str(own_cache.directory),
        "checked modules 1 524 B",
        "machine code 1 2.0 KiB",
        "all 2 2.5 KiB of 2.0 MiB allowed",
    ]


def test_a_limit_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DLANG_CACHE_SIZE", "much")
    assert main(["cache"]) == 0
    last, said = capsys.readouterr().out.splitlines()[-2:]
    assert last.endswith("of 1.0 GiB allowed") and said.startswith("DLANG_CACHE_SIZE is `much`, which says no size")


def test_path_and_clear(own_cache: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "path"]) == 0 and main(["cache", "clear"]) == 0 and main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(own_cache.directory), "removed 2 entries", "removed 0 entries",
    ]  # fmt: skip
    assert not list(own_cache.entries())


def test_sizes_are_for_people() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]


# ---- what happens where there is none --------------------------------------------------------------------------------
def ended(cache: str, *argv: str) -> tuple[int, str, str]:
    """How a process of `dlc` ends."""
    command = [sys.executable, "-m", "dlang.tools.dlc", *argv]
    env = {**os.environ, "DLANG_CACHE": cache}
    run = subprocess.run(command, capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)
    return run.returncode, run.stdout, run.stderr


def test_a_cache_that_cannot_be_written_is_done_without(write: Callable[..., str]) -> None:
    assert ended(write("no folder", "file"), "run", write(PROGRAM)) == (0, "hello\n", "")


def test_a_cache_that_is_damaged_is_written_anew(tmp_path: Path, write: Callable[..., str]) -> None:
    folder = tmp_path / "cache"
    for damage in (None, b"", b"junk"):
        if damage is not None:
            for kept in folder.iterdir():
                kept.write_bytes(damage)
        assert ended(str(folder), "check", write(PROGRAM)) == (0, "", "")
        sizes = [kept.stat().st_size for kept in folder.glob("*.kept")]
        assert len(sizes) == 3 and min(sizes) > 100  # the tables of the grammar, the prelude, the program
