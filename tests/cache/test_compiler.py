"""Another compiler is another cache."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from dlang.cache import store


def test_any_change_of_a_file_is_another_compiler(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "pass.py"
    file.write_text("x = 1\n")
    seen = {store.stamp(tmp_path)[0]}
    os.utime(file, (1, 1))
    seen.add(store.stamp(tmp_path)[0])
    file.write_text("x = 12\n")
    seen.add(store.stamp(tmp_path)[0])
    (tmp_path / "other.py").write_text("")
    seen.add(store.stamp(tmp_path)[0])
    (tmp_path / "notes.txt").write_text("")
    assert store.stamp(tmp_path)[0] in seen and len(seen) == 4


def test_it_is_known_when_the_last_file_changed(tmp_path: Path) -> None:
    file = tmp_path / "pass.py"
    file.write_text("")
    later = time.time() + 100
    os.utime(file, (later, later))
    assert store.stamp(tmp_path)[1] > store.BEGAN


def test_files_are_looked_at_again_where_more_of_them_have_been_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = store.identity()
    assert store.is_unchanged() == (made == store.stamp()[0])
    monkeypatch.setattr(store, "stamp", lambda: ("another", 0.0))
    before = store.is_unchanged()
    monkeypatch.setitem(sys.modules, "dlang.imported_later", None)
    assert not store.is_unchanged()
    monkeypatch.delitem(sys.modules, "dlang.imported_later")
    assert store.is_unchanged() == before
