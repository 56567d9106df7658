"""What is kept is read whole or not at all, and never grows beyond its limit."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dlang.cache.store import DEFAULT_LIMIT, FRESH, Store, digest, limit_of, misread, user_store

KEY, OTHER = digest("one"), digest("other")


def test_what_is_put_is_got(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder")
    assert store.get("object", KEY) is None
    store.put("object", KEY, b"content")
    assert store.get("object", KEY) == b"content"
    assert store.get("module", KEY) is None and store.get("object", OTHER) is None


def test_a_key_says_where_one_text_ends_and_the_next_begins() -> None:
    assert digest("ab", "c") != digest("a", "bc")


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:10], lambda b: b"", lambda b: b[:-1] + b"\0"])
def test_a_damaged_entry_is_absent_and_can_be_put_again(tmp_path: Path, damage: object) -> None:
    store = Store(tmp_path)
    store.put("object", KEY, b"content")
    (file,) = tmp_path.iterdir()
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    assert store.get("object", KEY) is None
    store.put("object", KEY, b"content")
    assert store.get("object", KEY) == b"content"


def test_an_entry_in_the_place_of_another_one_is_absent(tmp_path: Path) -> None:
    store = Store(tmp_path)
    places = [("object", KEY), ("object", OTHER), ("function", KEY)]
    for kind, key in places:
        store.put(kind, key, b"content")
    files = {p: store.directory / f"{p[0]}-{p[1]}.kept" for p in places}
    written = {p: files[p].read_bytes() for p in places}
    for a in places:
        for b in places:
            files[b].write_bytes(written[a])
            assert store.get(*b) == (b"content" if a == b else None)
            files[b].write_bytes(written[b])


def test_many_may_write_the_same_entry_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: store.put("object", KEY, b"x" * 100_000), range(40)))
    assert store.get("object", KEY) == b"x" * 100_000
    assert len(list(tmp_path.iterdir())) == 1


def used(path: Path, seconds_ago: float) -> None:
    then = time.time() - seconds_ago
    os.utime(path, (then, then))


def test_the_entries_used_least_recently_go_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for k in range(4):
        store.put("object", digest(str(k)), b"x" * 76)  # 100 bytes in all
        used(tmp_path / f"object-{digest(str(k))}.kept", (4 - k) * 10 * FRESH)
    assert store.get("object", digest("0")) is not None  # used now
    Store(tmp_path, limit=350).sweep()
    assert [store.get("object", digest(str(k))) is not None for k in range(4)] == [True, False, True, True]


def test_what_a_crash_left_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    old, new = tmp_path / "old.part", tmp_path / "young.part"
    old.write_bytes(b"")
    new.write_bytes(b"")
    used(old, 2 * FRESH)
    Store(tmp_path).sweep()
    assert [p.name for p in tmp_path.iterdir()] == ["young.part"]


def test_clearing_removes_entries_and_no_other_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("object", KEY, b"1")
    store.put("module", KEY, b"2")
    (tmp_path / "notes.txt").write_text("mine")
    assert store.clear() == 2
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_writing_looks_at_all_entries_seldom_and_often_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def scandir(directory: Path) -> object:
        nonlocal looks
        looks += 1
        return real(directory)

    real = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    store = Store(tmp_path, limit=60_000)
    for k in range(600):
        store.put("object", digest(str(k)), b"x" * 476)  # five times the limit in all
    assert 100 <= looks <= 1000  # two for each of about 5 x 64 sweeps
    assert sum(entry.bytes for entry in store.entries()) <= 1.25 * store.limit


def test_with_a_limit_of_0_nothing_is_kept(tmp_path: Path) -> None:
    Store(tmp_path, limit=0).put("object", KEY, b"1")
    assert not list(tmp_path.iterdir())


def test_a_directory_that_can_not_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "cache")
    store.put("object", KEY, b"1")
    assert store.get("object", KEY) is None


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_what_others_may_write_is_neither_read_nor_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    store.put("object", KEY, b"1")
    (file,) = store.directory.iterdir()
    file.chmod(0o666)
    assert store.get("object", KEY) is None
    file.chmod(0o600)
    assert store.get("object", KEY) == b"1"
    store.directory.chmod(0o777)
    assert store.get("object", KEY) is None
    store.put("object", OTHER, b"1")
    assert len(list(store.directory.iterdir())) == 1


def test_what_can_not_be_removed_stays_and_nothing_else_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.put("object", KEY, b"1")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("another process reads it")

    monkeypatch.setattr(os, "unlink", refuse)
    Store(tmp_path, limit=1).sweep()
    assert store.clear() == 0
    assert store.get("object", KEY) == b"1"


@pytest.mark.parametrize(
    ("text", "limit"),
    [("500M", 500 << 20), ("2g", 2 << 30), ("64 KB", 64 << 10), ("0", 0), ("", None), ("-5", None), ("5T", None)],
)
def test_a_limit_is_a_number_and_a_unit(text: str, limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limit_of(text) == limit
    monkeypatch.setenv("DLANG_CACHE_SIZE", text)
    assert user_store().limit == (DEFAULT_LIMIT if limit is None else limit)
    assert misread() == (text if text and limit is None else None)


@pytest.mark.parametrize("text", ["off", "Off", "0"])
def test_the_cache_can_be_switched_off(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DLANG_CACHE", raising=False)
    monkeypatch.delenv("DLANG_CACHE_SIZE", raising=False)
    user_store().put("object", KEY, b"1")
    monkeypatch.setenv("DLANG_CACHE", text)
    assert user_store().get("object", KEY) is None
    user_store().put("object", OTHER, b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert user_store().clear() == 1  # what is there can still be removed


def test_a_directory_may_be_called_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLANG_CACHE", "./off")
    user_store().put("object", KEY, b"1")
    assert (tmp_path / "off").is_dir() and user_store().get("object", KEY) == b"1"


def test_a_size_of_nothing_reads_nothing(tmp_path: Path) -> None:
    Store(tmp_path).put("object", KEY, b"1")
    assert Store(tmp_path, limit=0).get("object", KEY) is None
